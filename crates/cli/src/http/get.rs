mod keep;
mod name;
mod reach;

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use quickset::h3::{self, Client, HttpError, Priority, Request, Response};
use quickset::{ClientConfig, Endpoint, Fingerprint, Protection, Trust};
use serde::{Serialize, Serializer};
use tokio::sync::watch;

use super::pulse::{Limits, Pulse};
use super::url::Url;
use super::{TransportArgs, interrupted};
use crate::say::{named, note, plain, say};
use crate::values;
use keep::Keep;
use name::Names;
use reach::connect;

/// Fetch files by HTTP/3.
///
/// All URLs of a server share one connection and are fetched at the same time. Without
/// --output the content goes to stdout, in the order of the URLs. Unless told otherwise the
/// server is checked against the system's certificate authorities.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, verbatim_doc_comment, group(clap::ArgGroup::new("trust")))]
pub(super) struct Args {
    /// What to fetch, as https://HOST[:PORT]/PATH
    #[arg(required = true, value_name = "URL")]
    urls: Vec<Url>,
    /// A folder for the files, each named by the end of its path, decoded; the names are told
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Go on where an earlier run broke off, if the file is still the same
    #[arg(long, requires = "output")]
    resume: bool,
    /// How urgent it is, as in the Priority field: u=0 (most) to u=7, and i for of use in parts. With exp_b=3 a server that is
    /// quickset, too, repairs losses of up to 3 packets in a row at the end of each answer, with exp_d=20 of all of it 20 ms later
    ///
    /// exp_w=0.5 is its weight among answers as urgent, exp_p=("images";i;exp_w=0.25 "page";u=1) the classes that it hangs
    /// under, nearest first. Once it is for all URLs; as many times as there are URLs, each is for one of them
    #[arg(long, value_name = "u=N,i", value_parser = priority)]
    priority: Vec<String>,
    /// Certificate authorities to believe, as PEM
    #[arg(long, value_name = "FILE", group = "trust")]
    ca: Option<PathBuf>,
    /// The fingerprint that the server printed
    #[arg(long, value_name = "sha256:…", group = "trust")]
    pin: Option<Fingerprint>,
    /// Do not check who the server is
    #[arg(long, group = "trust")]
    insecure: bool,
    /// Print statuses and times as one JSON document; without --output the content is only counted
    #[arg(long)]
    json: bool,
    /// Repair losses of requests, if the server is quickset too: see `quickset perf client --help`. Repair of answers is the
    /// server's --fec, and always taken
    #[arg(long, value_name = "NAME", default_value = "none", value_parser = values::protection)]
    fec: Protection,
    /// How long a server may be silent before it is given up; one that lives and sends nothing has four times as long
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = values::duration)]
    timeout: Duration,
    #[command(flatten)]
    transport: TransportArgs,
}

/// What became of a URL. Times are in milliseconds; those of the request run from when it was made.
#[derive(Debug, Serialize)]
struct Row {
    url: String,
    status: Option<u16>,
    /// Bytes of content received.
    bytes: u64,
    /// Until the connection was there; it is shared.
    handshake_ms: f64,
    first_byte_ms: Option<f64>,
    total_ms: f64,
    #[serde(serialize_with = "as_text")]
    file: Option<PathBuf>,
    error: Option<String>,
}

pub(super) async fn run(args: Args) -> anyhow::Result<()> {
    anyhow::ensure!(
        matches!(args.priority.len(), 0 | 1) || args.priority.len() == args.urls.len(),
        "{} priorities for {} URLs; give one for all, or one for each",
        args.priority.len(),
        args.urls.len()
    );
    let config = ClientConfig::new(trust(&args)?, &[h3::ALPN])?
        .with_transport(values::patient(args.transport.config()?, args.timeout))
        .with_protection(args.fec.clone())
        .with_key_log();
    let names = match &args.output {
        Some(folder) => keep::names(folder, &args.urls)?,
        None => Vec::new(),
    };
    let endpoint = Endpoint::client().context("no socket can be had")?;
    let bar = bar(args.prints());
    let (interrupt, stop) = watch::channel(false);
    if args.output.is_some() {
        // Files that are not whole can be gone on with, which is to be said. Else there is nothing that would be left to do.
        tokio::spawn(async move {
            if interrupted().await.is_ok() {
                interrupt.send_replace(true);
            }
            interrupt.closed().await;
        });
    }
    let trip = Trip { endpoint: &endpoint, config: &config, args: &args, names: &names, bar: &bar, stop };
    let rows = trip.fetch_all().await;
    bar.finish_and_clear();
    let _ = tokio::time::timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
    if args.json {
        say!("{}", serde_json::to_string_pretty(&rows)?)?;
    } else {
        rows.iter().filter_map(|row| row.file.as_deref()).for_each(|file| note!("wrote {}", named(file)));
    }
    let failed: Vec<&Row> = rows.iter().filter(|row| row.error.is_some()).collect();
    for row in &failed {
        // Some of the words may be the server's.
        note!("{}: {}", row.url, plain(row.error.as_deref().unwrap_or_default()));
    }
    anyhow::ensure!(failed.is_empty(), "{} of {} could not be fetched", failed.len(), rows.len());
    Ok(())
}

impl Args {
    /// The content goes to stdout.
    fn prints(&self) -> bool {
        self.output.is_none() && !self.json
    }
}

/// What all connections of a run have in common.
struct Trip<'a> {
    endpoint: &'a Endpoint,
    config: &'a ClientConfig,
    args: &'a Args,
    /// Of the files, if they are kept.
    names: &'a [Names],
    bar: &'a ProgressBar,
    /// True once somebody wants it to end.
    stop: watch::Receiver<bool>,
}

impl Trip<'_> {
    /// What became of all URLs, in their order. What a server did nothing with is asked for again, on another connection: it may
    /// just have been stopped for a newer one.
    async fn fetch_all(&self) -> Vec<Row> {
        let urls = &self.args.urls;
        let mut rows: Vec<Option<Row>> = urls.iter().map(|_| None).collect();
        let mut tries = vec![1; urls.len()];
        // In the order of the URLs, so that stdout has them so, too.
        while let Some(first) = rows.iter().position(Option::is_none) {
            let is_same =
                |n: &usize| (&urls[*n].host, urls[*n].port) == (&urls[first].host, urls[first].port);
            let open: Vec<usize> =
                (first..urls.len()).filter(|n| rows[*n].is_none()).take_while(is_same).collect();
            if let Some(again @ 1..) = open.iter().map(|n| tries[*n] - 1).max() {
                tokio::time::sleep(PAUSE * (again - 1)).await;
            }
            for (n, end) in open.iter().zip(self.fetch(&open).await) {
                match end {
                    End::Unprocessed(_) if tries[*n] < TRIES => tries[*n] += 1,
                    End::Known(row) => rows[*n] = Some(row),
                    End::Unprocessed(row) => rows[*n] = Some(Row { error: Some(BUSY.to_owned()), ..row }),
                }
            }
        }
        rows.into_iter().flatten().collect()
    }

    /// What one connection fetches: the URLs of these numbers, all of one server. To stdout it is as many of them as come one
    /// behind the other.
    async fn fetch(&self, numbers: &[usize]) -> Vec<End> {
        let Self { endpoint, config, args, names, bar, stop } = self;
        let urls: Vec<&Url> = numbers.iter().map(|n| &args.urls[*n]).collect();
        let began = Instant::now();
        let mut stopped = stop.clone();
        let reached = tokio::select! {
            reached = connect(endpoint, config, urls[0]) => reached,
            _ = stopped.wait_for(|stop| *stop) => Err(anyhow::anyhow!(INTERRUPTED)),
        };
        let handshake_ms = ms(began);
        let row = |url: &Url| Row {
            url: url.text.clone(),
            status: None,
            bytes: 0,
            handshake_ms,
            first_byte_ms: None,
            total_ms: 0.0,
            file: None,
            error: None,
        };
        let client = match reached {
            Ok(client) => client,
            Err(error) => {
                let error = Some(format!("{error:#}"));
                return urls.iter().map(|url| End::Known(Row { error: error.clone(), ..row(url) })).collect();
            }
        };
        let pulse = Arc::new(Pulse::new());
        let fetches = numbers.iter().zip(&urls).map(|(n, url)| {
            let keep = args.output.as_deref().zip(names.get(*n));
            let keep = keep.map(|(folder, names)| Keep::new(folder, names, args.resume));
            let request = request(url, priority_of(&args.priority, *n), keep.as_ref());
            Fetch {
                client: client.clone(),
                request,
                keep,
                print: args.prints(),
                row: row(url),
                bar: (*bar).clone(),
                pulse: pulse.clone(),
                // Who is gone is found out by QUIC before, and told as that.
                patience: args.timeout * 4,
                stop: stop.clone(),
            }
        });
        let mut ends = Vec::new();
        if args.output.is_some() || args.json {
            let tasks: Vec<_> = fetches.map(|fetch| tokio::spawn(fetch.run())).collect();
            for task in tasks {
                ends.extend(task.await);
            }
        } else {
            for fetch in fetches {
                ends.push(fetch.run().await);
                if let Some(End::Unprocessed(_)) = ends.last() {
                    break;
                }
            }
        }
        let _ = tokio::time::timeout(Duration::from_secs(1), client.shutdown()).await;
        ends
    }
}

/// How a request ended.
enum End {
    /// As the row says.
    Known(Row),
    /// The same, and the server did nothing with it.
    Unprocessed(Row),
}

/// One request.
struct Fetch {
    client: Client,
    request: Request,
    keep: Option<Keep>,
    /// The content goes to stdout.
    print: bool,
    row: Row,
    bar: ProgressBar,
    /// Of all requests on the connection: one may well wait for the others.
    pulse: Arc<Pulse>,
    patience: Duration,
    stop: watch::Receiver<bool>,
}

impl Fetch {
    async fn run(mut self) -> End {
        let began = Instant::now();
        let fetched = self.fetch(began).await;
        self.row.total_ms = ms(began);
        if let Err(error) = fetched {
            // RFC 9114 §4.1.1, §5.2: whatever it asked for, it may be asked for again.
            let is_unprocessed = error.downcast_ref().is_some_and(HttpError::is_unprocessed);
            let mut told = format!("{error:#}");
            if let Some(part) = self.keep.take().map(Keep::leave) {
                if let Some(part) = part.await {
                    let _ = write!(told, "; go on with --resume, what came is in {}", named(&part));
                }
            }
            self.row.error = Some(told);
            if is_unprocessed {
                return End::Unprocessed(self.row);
            }
        }
        End::Known(self.row)
    }

    async fn fetch(&mut self, began: Instant) -> anyhow::Result<()> {
        self.pulse.moved();
        let (mut response, mut content) = self.heard(self.client.fetch(&self.request)).await?;
        if self.keep.as_mut().is_some_and(|keep| keep.is_at_odds(&response)) {
            self.request.fields.retain(|field| field.name != "range" && field.name != "if-range");
            (response, content) = self.heard(self.client.fetch(&self.request)).await?;
        }
        self.row.status = Some(response.status);
        // What a server says instead of the content is for nobody here, and may have no end.
        anyhow::ensure!(response.is_success(), "{}", refusal(&response));
        if let Some(len) = number(&response, "content-length") {
            self.bar.inc_length(len);
        }
        if let Some(keep) = &mut self.keep {
            keep.begin(&response).await?;
        }
        while let Some(data) = self.heard(content.next()).await? {
            self.row.first_byte_ms.get_or_insert_with(|| ms(began));
            self.row.bytes += data.len() as u64;
            self.bar.inc(data.len() as u64);
            match &mut self.keep {
                Some(keep) => keep.write(&data).await?,
                None if self.print => print(&data)?,
                None => {}
            }
            // Nor was it the server's doing when that took long.
            self.pulse.moved();
        }
        if let Some(keep) = &mut self.keep {
            self.row.file = Some(keep.finish().await?);
        }
        Ok(())
    }

    /// What comes of the server. That it lives, as QUIC can tell, is not enough.
    async fn heard<T>(&self, comes: impl Future<Output = Result<T, HttpError>>) -> anyhow::Result<T> {
        let limits = Limits { idle: self.patience, stall: self.patience };
        let mut stopped = self.stop.clone();
        tokio::select! {
            biased;
            // With nobody left who could say so, it goes on.
            Ok(_) = stopped.wait_for(|stop| *stop) => anyhow::bail!(INTERRUPTED),
            come = comes => {
                self.pulse.moved();
                Ok(come?)
            }
            _ = self.pulse.still(limits) => {
                anyhow::bail!("the server lives and sends nothing; ask later, or give it longer with --timeout")
            }
        }
    }
}

/// To stdout, all of it: what would wait there could be lost at the end without a word.
fn print(data: &[u8]) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    output.write_all(data).and_then(|()| output.flush()).context("standard output cannot be written")
}

/// As far as it is text: JSON has nothing else.
#[expect(clippy::ref_option, reason = "serde wants it so")]
fn as_text<S: Serializer>(file: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    file.as_ref().map(|file| file.to_string_lossy()).serialize(serializer)
}

/// What a server says instead of the content.
fn refusal(response: &Response) -> String {
    let told = format!("the server answered with status {}", response.status);
    match response.field("location") {
        Some(to) if (300..400).contains(&response.status) => {
            format!("{told}; it is at {} now, ask for that", String::from_utf8_lossy(to))
        }
        _ => told,
    }
}

fn request(url: &Url, priority: Option<&str>, keep: Option<&Keep>) -> Request {
    let request = Request::new("GET", url.authority.clone(), url.path.clone())
        .with("user-agent", concat!("quickset/", env!("CARGO_PKG_VERSION")));
    let request = match priority {
        Some(priority) => request.with("priority", priority.to_owned()),
        None => request,
    };
    match keep.and_then(Keep::rest) {
        // RFC 9110 §13.1.5: the rest if it is the same still, else the whole.
        Some((from, etag)) => {
            request.with("range", format!("bytes={from}-")).with("if-range", etag.to_owned())
        }
        None => request,
    }
}

fn trust(args: &Args) -> anyhow::Result<Trust> {
    if let Some(fingerprint) = args.pin {
        return Ok(Trust::pinned(fingerprint));
    }
    if args.insecure {
        note!("quickset: warning: with --insecure anybody can pose as the server");
        return Ok(Trust::insecure());
    }
    let own = args.ca.clone().or_else(|| std::env::var_os("SSL_CERT_FILE").map(PathBuf::from));
    let file = own
        .or_else(|| BUNDLES.iter().map(PathBuf::from).find(|file| file.is_file()))
        .context("this system's certificate authorities are not found; name a file with --ca")?;
    let pem = std::fs::read_to_string(&file)
        .with_context(|| format!("{} cannot be read; name another file with --ca", named(&file)))?;
    Trust::roots(&pem).with_context(|| format!("{} cannot be used", file.display()))
}

/// That of one URL.
fn priority_of(priorities: &[String], url: usize) -> Option<&str> {
    priorities.get(if priorities.len() == 1 { 0 } else { url }).map(String::as_str)
}

fn priority(text: &str) -> Result<String, String> {
    match Priority::parse(text.as_bytes()) {
        Some(priority) => {
            // Servers ignore it, and so nobody else would say it.
            for name in priority.misread() {
                note!("quickset: warning: {name} cannot be read in --priority {text}");
            }
            Ok(text.to_owned())
        }
        None => Err("write it like u=1,i".to_owned()),
    }
}

/// A number in a field.
fn number(response: &Response, name: &str) -> Option<u64> {
    std::str::from_utf8(response.field(name)?).ok()?.parse().ok()
}

/// A bar for all content, as far as its length is known; nothing where stderr is no terminal, or the content is printed on one,
/// whose lines it would tear apart.
fn bar(is_printed: bool) -> ProgressBar {
    let bar = ProgressBar::new(0).with_style(
        ProgressStyle::with_template(
            "{wide_bar:.green/dim} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
        )
        .expect("the template is constant"),
    );
    if !std::io::stderr().is_terminal() || (is_printed && std::io::stdout().is_terminal()) {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    bar
}

fn ms(began: Instant) -> f64 {
    (began.elapsed().as_secs_f64() * 1e6).round() / 1e3
}

/// How often something is asked for at most, where a server did nothing with it, and how much longer it is waited before each
/// time behind the second.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(250);

/// What is said then.
const BUSY: &str =
    "the server took no request, however often it was asked; it may be stopping, so ask again later";

/// What is said of a file whose fetching somebody ended.
const INTERRUPTED: &str = "interrupted";

/// Where systems keep the authorities that they believe.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/usr/local/share/certs/ca-root-nss.crt",
];

const EXAMPLE: &str = "\
Examples:
  quickset http get https://www.example.net/ > page.html
  quickset http get https://127.0.0.1:4433/a.iso --pin sha256:… -o . --resume
  quickset http get https://127.0.0.1:4433/a.css https://127.0.0.1:4433/b.js --insecure --json --priority u=1 --priority u=5,i";
