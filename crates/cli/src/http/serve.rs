use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::BytesMut;
use quickset::h3::{self, Call, HttpError, Sender};
use quickset::{Connection, Endpoint, Identity, ServerConfig, TransportConfig};
use tokio::io::AsyncReadExt as _;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::TransportArgs;
use super::site::{Answer, Content, Options, Site};

/// Serve the files of a folder by HTTP/3.
///
/// Prints `listening on ADDRESS sha256:FINGERPRINT` as its first line once it accepts.
/// Without --cert it makes a new key at each start, which clients pin. Served are ranges,
/// conditional requests, index.html for folders, and FILE.br, FILE.zst or FILE.gz for FILE to
/// clients that take them; hidden files and what lies outside of the folder are not. On
/// Ctrl-C answers under way are finished; on SIGHUP the certificate is read again.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, verbatim_doc_comment)]
pub(super) struct Args {
    /// The folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Address to listen on; port 0 picks a free one
    #[arg(long, default_value = "[::]:4433")]
    listen: SocketAddr,
    /// Certificates as PEM, the own one first
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The certificate's private key as PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Show what is in folders without an index
    #[arg(long)]
    listing: bool,
    /// Let scripts of this origin read everything; * is any
    #[arg(long, value_name = "ORIGIN", value_parser = origin)]
    cors: Option<String>,
    /// Write a line for each request to stderr
    #[arg(long)]
    access_log: bool,
    #[command(flatten)]
    transport: TransportArgs,
}

/// What all connections share.
struct Desk {
    site: Site,
    access_log: bool,
}

pub(super) async fn run(args: Args) -> anyhow::Result<()> {
    let options = Options { listing: args.listing, cors: args.cors.clone() };
    let site = Site::new(&args.folder, options)
        .with_context(|| format!("{} cannot be served; name a folder", args.folder.display()))?;
    let identity = match args.identity() {
        Some(identity) => identity?,
        None => Identity::self_signed(["localhost"])?,
    };
    let fingerprint = identity.fingerprint();
    let transport = TransportConfig { send_buffer: SEND_BUFFER, ..args.transport.config()? };
    let config = ServerConfig::new(identity, &[h3::ALPN])?.with_transport(transport).with_key_log();
    let endpoint = Endpoint::server(args.listen, &config)
        .with_context(|| format!("cannot listen on {}; choose another address with --listen", args.listen))?;
    println!("listening on {} {fingerprint}", endpoint.local_addr());
    let desk = Arc::new(Desk { site, access_log: args.access_log });
    let (stop, stopped) = watch::channel(false);
    let mut talks = JoinSet::new();
    tokio::select! {
        () = accept(&endpoint, &desk, &stopped, &mut talks) => {}
        interrupted = interrupted() => interrupted?,
        failed = renew(&args, &config) => failed?,
    }
    stop.send_replace(true);
    let finished = async { while talks.join_next().await.is_some() {} };
    if tokio::time::timeout(PATIENCE, finished).await.is_err() {
        eprintln!("quickset: warning: some answers were not finished");
    }
    endpoint.close(h3::Code::H3_NO_ERROR.0, b"the server stops");
    let _ = tokio::time::timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
    Ok(())
}

async fn accept(
    endpoint: &Endpoint,
    desk: &Arc<Desk>,
    stop: &watch::Receiver<bool>,
    talks: &mut JoinSet<()>,
) {
    loop {
        tokio::select! {
            connection = endpoint.accept() => {
                let Some(connection) = connection else { return };
                talks.spawn(talk(connection, desk.clone(), stop.clone()));
            }
            Some(_) = talks.join_next() => {}
        }
    }
}

/// A connection, until the client or we have enough.
async fn talk(connection: Connection, desk: Arc<Desk>, mut stop: watch::Receiver<bool>) {
    let Ok(mut server) = h3::Server::new(&connection, h3::Config::default()) else { return };
    let client = connection.remote_address();
    let serve = |call: Call| drop(tokio::spawn(desk.clone().answer(call, client)));
    loop {
        tokio::select! {
            call = server.accept() => match call {
                Some(call) => serve(call),
                None => return,
            },
            _ = stop.wait_for(|stop| *stop) => break,
        }
    }
    server.shutdown(serve).await;
}

impl Desk {
    async fn answer(self: Arc<Self>, call: Call, client: SocketAddr) {
        // What comes with the request is of no use, but it may come until the answer is there.
        let Call { request, reply, content: _unread, .. } = call;
        let began = Instant::now();
        let (desk, asked) = (self.clone(), request.clone());
        let answer = tokio::task::spawn_blocking(move || desk.site.answer(&asked));
        // A panic is logged already; the client hears of it, as the reply is dropped.
        let Ok(Answer { response, content }) = answer.await else { return };
        let mut sent = 0;
        let result = match reply.respond(&response) {
            Ok(out) => send(out, content, &mut sent).await,
            Err(error) => Err(error.into()),
        };
        if self.access_log {
            let path = request.path.as_deref().unwrap_or_default();
            // Escaped: what a client sends is not to act on a terminal.
            eprintln!(
                "{client} \"{} {}\" {} {sent} bytes {} ms{}",
                request.method.escape_ascii(),
                path.escape_ascii(),
                response.status,
                began.elapsed().as_millis(),
                result.err().map_or(String::new(), |error| format!(" ({error})")),
            );
        }
    }
}

async fn send(mut out: Sender, content: Content, sent: &mut u64) -> anyhow::Result<()> {
    match content {
        Content::Text(text) => {
            *sent = text.len() as u64;
            out.send(text).await?;
        }
        Content::File(file, len) => send_file(&mut out, file, len, sent).await?,
    }
    match out.finish() {
        // It has all it wants.
        Err(HttpError::Stopped(code)) if code == h3::Code::H3_NO_ERROR.0 => Ok(()),
        result => Ok(result?),
    }
}

/// One part is read while the one before is on its way; no more is in memory.
async fn send_file(out: &mut Sender, file: File, len: u64, sent: &mut u64) -> anyhow::Result<()> {
    let mut file = tokio::fs::File::from_std(file).take(len);
    while *sent < len {
        let mut part = BytesMut::with_capacity(PART);
        if file.read_buf(&mut part).await? == 0 {
            // The head has promised more: the exchange is given up, so that nobody takes this for the whole.
            anyhow::bail!("the file became shorter while it was sent");
        }
        let n = part.len() as u64;
        out.send(part.freeze()).await?;
        *sent += n;
    }
    Ok(())
}

impl Args {
    /// That of the files, if they are given.
    fn identity(&self) -> Option<anyhow::Result<Identity>> {
        let (cert, key) = (self.cert.as_ref()?, self.key.as_ref()?);
        Some(read(cert).and_then(|cert| Ok(Identity::from_pem(&cert, &read(key)?)?)))
    }
}

/// Reads the certificate again at each SIGHUP. Without a new one that is in order the old one stays.
async fn renew(args: &Args, config: &ServerConfig) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut hangups = signal(SignalKind::hangup())?;
        while hangups.recv().await.is_some() {
            match args.identity() {
                Some(Ok(identity)) => {
                    eprintln!("quickset: the certificate was read again: {}", identity.fingerprint());
                    config.set_identity(identity);
                }
                Some(Err(error)) => eprintln!("quickset: warning: the old certificate stays: {error:#}"),
                None => eprintln!("quickset: warning: without --cert there is no certificate to read again"),
            }
        }
    }
    #[cfg(not(unix))]
    let _ = (args, config);
    std::future::pending().await
}

/// Waits until somebody wants the server to stop.
async fn interrupted() -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}

fn read(file: &std::path::Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file)
        .with_context(|| format!("{} cannot be read; `quickset cert new` makes one", file.display()))
}

/// What a field value can hold.
fn origin(text: &str) -> Result<String, String> {
    let is_origin = text == "*" || text.starts_with("http://") || text.starts_with("https://");
    if is_origin && text.bytes().all(|b| b.is_ascii_graphic()) {
        Ok(text.to_owned())
    } else {
        Err("write an origin, like https://www.example.net, or *".to_owned())
    }
}

/// Bytes of an answer that wait to be sent or acknowledged: 160 Mbit/s at a round trip of 100 ms. A client that reads nothing
/// holds this much for each of its 100 requests.
const SEND_BUFFER: u64 = 2 << 20;

/// Bytes of a file read at a time.
const PART: usize = 256 << 10;

/// How long answers under way may take when the server stops.
const PATIENCE: Duration = Duration::from_secs(10);

const EXAMPLE: &str = "\
Examples:
  quickset http serve ./site --listen 127.0.0.1:4433
  quickset http serve /srv/www --listen '[::]:443' --cert cert.pem --key key.pem --access-log";
