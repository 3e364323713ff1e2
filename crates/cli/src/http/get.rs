mod ask;
mod fetch;
mod keep;
mod name;
mod print;
mod row;
mod stroll;
mod trip;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use quickset::h3::{self, Priority};
use quickset::{ClientConfig, Endpoint, Protection};
use tokio::sync::watch;

use super::url::H3Url;
use super::{TransportArgs, reach};
use crate::interrupts::Interrupts;
use crate::say::{self, named, note, plain, say};
use crate::trust::TrustArgs;
use crate::{cert, values};
use ask::{AskArgs, RequestData, UrlAsk};
use row::FetchRow;
use trip::Trip;

/// Fetch files by HTTP/3, or ask for something else.
///
/// All URLs of a server share one connection and are fetched at the same time. Without
/// --output the content goes to stdout, in the order of the URLs. Unless told otherwise the
/// server is checked against the system's certificate authorities. A request is made again
/// by itself only if the server did nothing with it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, verbatim_doc_comment)]
pub(super) struct GetArgs {
    /// What to fetch, as https://HOST[:PORT]/PATH
    #[arg(required = true, value_name = "URL")]
    urls: Vec<H3Url>,
    /// A folder for the files, each named by the end of its path, decoded; the names are told
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Go on where an earlier run broke off, if the file is still the same
    #[arg(long, requires = "output")]
    resume: bool,
    #[command(flatten)]
    ask: AskArgs,
    /// Print the heads of answers, too: before the content, or behind all of it with --output
    #[arg(short, long)]
    include: bool,
    /// How urgent it is, as in the Priority field: u=0 (most) to u=7, and i for of use in parts. With exp_b=3
    /// a server that is quickset, too, repairs losses of up to 3 packets in a row at the end of each answer,
    /// with exp_d=20 of all of it 20 ms later
    ///
    /// exp_w=0.5 is its weight among answers as urgent, exp_p=("images";i;exp_w=0.25 "page";u=1) the classes
    /// that it hangs under, nearest first. Once it is for all URLs; as many times as there are URLs, each is
    /// for one of them
    #[arg(long, value_name = "u=N,i", value_parser = priority)]
    priority: Vec<String>,
    #[command(flatten)]
    trust: TrustArgs,
    /// Certificates to prove who we are, where the server asks, as PEM, the own one first
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The certificate's private key as PEM
    #[arg(long, visible_alias = "cert-key", value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Have the connection go on from another port of this machine while content comes, or from another
    /// address
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true, default_missing_value = "port")]
    migrate: Option<stroll::To>,
    /// Print statuses and times as one JSON document; without --output the content is only counted
    #[arg(long)]
    json: bool,
    /// Repair losses of requests, if the server is quickset too: see `quickset perf client --help`. Repair of
    /// answers is the server's --fec, and always taken
    #[arg(long, value_name = "NAME", default_value = "none", value_parser = values::protection)]
    fec: Protection,
    /// How long a server may be silent before it is given up; one that lives and sends nothing has four times
    /// as long
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = values::duration)]
    timeout: Duration,
    #[command(flatten)]
    transport: TransportArgs,
}

pub(super) async fn run(args: GetArgs) -> anyhow::Result<()> {
    anyhow::ensure!(
        matches!(args.priority.len(), 0 | 1) || args.priority.len() == args.urls.len(),
        "{} priorities for {} URLs; give one for all, or one for each",
        args.priority.len(),
        args.urls.len()
    );
    let ask = args.ask()?;
    let config = ClientConfig::new(args.trust.trust()?, &[h3::ALPN])?
        .with_transport(values::patient(args.transport.config()?, args.timeout))
        .with_protection(args.fec.clone())
        .with_key_log();
    let config = match (&args.cert, &args.key) {
        (Some(cert), Some(key)) => config.with_identity(cert::read(cert, key)?),
        _ => config,
    };
    let names = match &args.output {
        Some(folder) => keep::names(folder, &args.urls)?,
        None => Vec::new(),
    };
    let endpoint = Endpoint::client().context("no socket can be had")?;
    let bar = bar(args.prints());
    let (interrupt, stop) = watch::channel(false);
    // Files that are not whole can be gone on with, which is to be said. Else there is nothing that would be
    // left to do.
    let interrupts = if args.output.is_some() { Some(Interrupts::new()?) } else { None };
    let trip =
        Trip { endpoint: &endpoint, config: &config, args: &args, ask: &ask, names: &names, bar: &bar, stop };
    let fetch = async {
        let rows = trip.fetch_all().await;
        bar.finish_and_clear();
        let _ = tokio::time::timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
        rows
    };
    let rows = match interrupts {
        Some(mut interrupts) => {
            let (rows, was_interrupted) = interrupts.during(fetch, || _ = interrupt.send_replace(true)).await;
            interrupts.end_the_program(was_interrupted);
            rows
        }
        None => fetch.await,
    };
    if args.json {
        say!("{}", serde_json::to_string_pretty(&rows)?)?;
    } else {
        if args.output.is_some() {
            rows.iter().filter_map(FetchRow::head).try_for_each(|head| say::text(format_args!("{head}")))?;
        }
        rows.iter().filter_map(|row| row.file.as_deref()).for_each(|file| note!("wrote {}", named(file)));
    }
    let failed: Vec<&FetchRow> = rows.iter().filter(|row| row.error.is_some()).collect();
    for row in &failed {
        // Some of the words may be the server's.
        note!("{}: {}", row.url, plain(row.error.as_deref().unwrap_or_default()));
    }
    anyhow::ensure!(failed.is_empty(), "{} of {} could not be fetched", failed.len(), rows.len());
    Ok(())
}

impl GetArgs {
    /// What to ask, if that goes with all else.
    fn ask(&self) -> anyhow::Result<UrlAsk> {
        let ask = self.ask.ask()?;
        anyhow::ensure!(
            ask.data != Some(RequestData::Input) || self.urls.len() == 1,
            "standard input comes once, and {} URLs are asked; name a file with --data @FILE",
            self.urls.len()
        );
        anyhow::ensure!(!self.resume || ask.is_get(), "only a GET can be gone on with; leave out --resume");
        anyhow::ensure!(
            self.output.is_none() || !ask.has("range"),
            "a part would be kept as the whole; leave out --output, or the range"
        );
        Ok(ask)
    }

    /// Heads are kept for whoever wants to see them.
    fn includes(&self) -> bool {
        self.include || self.ask.head
    }

    /// The content goes to stdout.
    fn prints(&self) -> bool {
        self.output.is_none() && !self.json
    }
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

/// A bar for all content, as far as its length is known; nothing where stderr is no terminal, or the content
/// is printed on one, whose lines it would tear apart.
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

const EXAMPLE: &str = "\
Examples:
  quickset http get https://www.example.net/ > page.html
  quickset http get https://127.0.0.1:4433/a.iso --pin sha256:… -o . --resume
  quickset http get https://127.0.0.1:4433/a.css https://127.0.0.1:4433/b.js --insecure --json --priority u=1 --priority u=5,i";
