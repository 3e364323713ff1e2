mod answers;
mod body;
mod clients;
mod desk;
mod key;
mod purse;
#[cfg(unix)]
mod put;
mod quic;
mod ranks;
mod seats;
mod tcp;
#[cfg(all(unix, not(target_vendor = "apple")))]
mod user;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use quickset::h3;
use quickset::{
    EarlyData, Endpoint, Identity, Protection, RetryPolicy, ServerConfig, SocketConfig, TransportConfig,
};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::TransportArgs;
use super::pulse::PulseLimits;
#[cfg(unix)]
use super::site::Most;
use super::site::{CacheRule, FolderSite, SiteOptions};
use crate::descriptors;
use crate::interrupts::Interrupts;
use crate::memory::{self, MemoryArgs};
use crate::metrics::MetricsArgs;
use crate::say::{self, named, note, say};
use crate::{cert, values};
use answers::AnswerTurns;
use desk::{AnswerCounts, ServeDesk};
use key::ServerKey;
use ranks::Ranks;
use seats::Seats;
use tcp::Tcp;

/// How the port of UDP is used.
#[derive(Debug, clap::Args)]
struct PortArgs {
    /// Hand packets of HTTP/3 to the system one by one, without segmentation offload
    #[arg(long)]
    no_gso: bool,
    #[command(flatten)]
    cores: values::CoresArgs,
}

/// Serve the files of a folder by HTTP/3, and by HTTP/2 and HTTP/1.1 on the same port of TCP.
///
/// Browsers begin by TCP, are told of HTTP/3 there (Alt-Svc), and go on by that.
/// Prints `listening on ADDRESS sha256:FINGERPRINT` as its first line once it accepts.
/// Without --cert it makes a new key at each start, which clients pin. Served are ranges,
/// conditional requests, index.html for folders, and FILE.br, FILE.zst or FILE.gz for FILE to
/// clients that take them; hidden files and what lies outside of the folder are not. On
/// Ctrl-C answers under way are finished; on SIGHUP the certificate is read again.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, verbatim_doc_comment)]
pub(super) struct HttpServeArgs {
    /// The folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Address to listen on; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "[::]:4433", value_parser = values::listening)]
    listen: SocketAddr,
    #[command(flatten)]
    identity: IdentityArgs,
    /// Have every client that is new prove its address before anything is kept for it, which costs it a round
    /// trip; unless told, only while many are new at a time
    #[arg(long)]
    retry: bool,
    /// Show what is in folders without an index
    #[arg(long)]
    listing: bool,
    #[cfg(unix)]
    #[command(flatten)]
    put: PutArgs,
    /// Let scripts of this origin read everything; * is any
    #[arg(long, value_name = "ORIGIN", value_parser = origin)]
    cors: Option<String>,
    /// Have caches told (Cache-Control) what VALUE says of files whose path fits PATTERN, by its first =
    /// sign: patterns are those of --priorities, a folder's index.html goes by that name, and of several
    /// rules the first that fits counts; see the examples
    #[arg(long, value_name = "PATTERN=VALUE")]
    cache_control: Vec<CacheRule>,
    /// Write a line for each request to stderr
    #[arg(long)]
    access_log: bool,
    /// HTTP/3 only
    #[arg(long)]
    no_tcp: bool,
    /// A file of 32 bytes of chance, which is made if there is none, for a server that comes back: clients of
    /// before hear at once that their connections are gone, and the tokens that they have stay good. It is
    /// secret, and of one server at a time
    #[arg(long, value_name = "FILE")]
    endpoint_key: Option<PathBuf>,
    /// Answer what clients that were here before ask in their first flight (0-RTT): a round trip sooner, at
    /// the price that an attacker can have the same asked again, which does nothing but answer, and that a
    /// client is not remembered by a server that was started anew
    #[arg(long)]
    early_data: bool,
    /// Give up being root once there are ports and keys, and go on as this user, with its groups or with this
    /// one alone
    #[cfg(all(unix, not(target_vendor = "apple")))]
    #[arg(long, value_name = "NAME[:GROUP]")]
    user: Option<user::UserName>,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    memory: MemoryArgs,
    /// Repair losses of answers by HTTP/3 that the client finds urgent (u=0 to u=2 in the Priority field), if
    /// it is quickset too: tum:3 repairs the end of each, tum:3:20ms all of it 20 ms later, adaptive by the
    /// losses seen; more in `quickset perf client --help`. What a request says of it itself comes first:
    /// exp_b=3 in its Priority field asks for the first, with exp_d=20 for the second, and exp_b=0 for none
    #[arg(long, value_name = "NAME", default_value = "none", value_parser = values::protection)]
    fec: Protection,
    /// How answers by HTTP/3 are sent, by path and content type: a file of TOML with rules, of which the
    /// first that fits counts. What it says goes before what the client says (RFC 9218, section 8), or behind
    /// it with unless_asked; see below
    #[arg(long, value_name = "FILE")]
    priorities: Option<PathBuf>,
    #[command(flatten)]
    metrics: MetricsArgs,
    #[command(flatten)]
    ports: PortArgs,
    #[command(flatten)]
    transport: TransportArgs,
}

/// Who the server is, and who its clients are.
#[derive(Debug, clap::Args)]
struct IdentityArgs {
    /// Certificates as PEM, the own one first
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The certificate's private key as PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Take only clients with a certificate of one of these authorities, as PEM; the access log has their
    /// names
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,
}

/// What clients may bring.
#[cfg(unix)]
#[derive(Debug, clap::Args)]
struct PutArgs {
    /// Let clients put files into this folder, which is in that of the site: whoever can reach the server,
    /// unless --client-ca says who. A file is made, or replaced as a whole, when all of it is on the disk; of
    /// what breaks off nothing is left
    #[arg(long, value_name = "DIR")]
    put: Option<PathBuf>,
    /// Bytes of a file that is put at most
    #[arg(long, value_name = "SIZE", default_value = "1GB", value_parser = values::size, requires = "put")]
    put_max: u64,
    /// Bytes of all that is in that folder at most, of which each file takes 4 kB at least; while files are
    /// replaced, old and new ones together may take --put-max more
    #[arg(long, value_name = "SIZE", default_value = "10GB", value_parser = values::size, requires = "put")]
    put_total: u64,
}

/// How long clients may take, and how many there may be.
#[derive(Debug, clap::Args)]
struct LimitArgs {
    /// How long clients on TCP may take for a handshake, for the head of a request, and for the next one; a
    /// client that takes nothing of an answer has four times as long
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = values::duration)]
    timeout: Duration,
    /// Connections at most, of all versions together. When all are taken, one on which nothing is asked for
    /// makes room: of the client that has the most of these, or after two seconds of any
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    max_connections: usize,
    /// Connections of one client at most: of an IPv4 address, or an IPv6 network of 64 bits; never more than
    /// half of all
    #[arg(long, value_name = "N", default_value_t = 256)]
    max_per_client: usize,
    /// Answers under way at most for one client, as above; each of its connections has one in any case, and
    /// what is asked for beyond waits
    #[arg(long, value_name = "N", default_value_t = 1000)]
    max_answers: usize,
}

pub(super) async fn run(args: HttpServeArgs) -> anyhow::Result<()> {
    // A log that nobody reads is no reason to serve nobody.
    say::in_background();
    let descriptors = take_descriptors();
    let desk = args.desk(descriptors)?;
    let identity = match args.identity() {
        Some(identity) => identity?,
        None => Identity::self_signed(["localhost"])?,
    };
    let fingerprint = identity.fingerprint();
    let transport = bounded(args.transport()?, args.takes_files());
    let config = match &args.identity.client_ca {
        Some(authorities) => clients::proven(identity, authorities)?,
        None => ServerConfig::new(identity, &[h3::ALPN])?,
    };
    let config = config
        .with_transport(transport)
        .with_max_connections(with_handshakes(args.limits.max_connections))
        .with_budget(desk.budget.clone())
        .with_key_log();
    let config = if args.retry { config.with_retry(RetryPolicy::Always) } else { config };
    let config = if args.early_data { config.with_early_data(EarlyData::default()) } else { config };
    let key = args.endpoint_key.as_deref().map(ServerKey::read_or_make).transpose()?;
    let config = match &key {
        Some(key) => config.with_reset_key(key.bytes).with_token_key(key.bytes),
        None => config,
    };
    let metrics = args.metrics.bind().await?;
    let (endpoint, listener) = listen(&args, &config)?;
    args.become_another()?;
    say!("listening on {} {fingerprint}", endpoint.local_addr())?;
    let desk = Arc::new(desk);
    let seats = Seats::new(args.limits.max_connections, args.limits.max_per_client);
    let watched = (endpoint.clone(), desk.clone(), seats.clone());
    metrics.serve(move |page| {
        let (endpoint, desk, seats) = &watched;
        memory::tell(&desk.budget, page);
        page.endpoint(&endpoint.stats());
        desk.counts.tell(page);
        seats.tell(page);
    })?;
    let (stop, stopped) = watch::channel(false);
    let mut interrupts = Interrupts::new()?;
    let (mut talks, mut tcp_talks) = (JoinSet::new(), JoinSet::new());
    let tcp_accept = async {
        let Some(listener) = listener else { return std::future::pending().await };
        let tcp = Tcp {
            tls: config.tls(&tcp::ALPN),
            elsewhere: tcp::elsewhere(endpoint.local_addr().port()),
            desk: desk.clone(),
            seats: seats.clone(),
            sockets: Arc::new(Semaphore::new(descriptors.sockets)),
            window: if args.takes_files() { tcp::WINDOW_OF_FILES } else { tcp::WINDOW },
        };
        Arc::new(tcp).accept(listener, &stopped, &mut tcp_talks).await;
    };
    tokio::select! {
        () = quic::accept(&endpoint, &desk, &seats, &stopped, &mut talks) => {}
        () = tcp_accept => {}
        () = desk.site.tend() => {}
        () = interrupts.next() => {}
        failed = renew(&args, &config) => failed?,
    }
    stop.send_replace(true);
    finish(&endpoint, talks, tcp_talks, interrupts).await;
    Ok(())
}

/// Waits a while until what was asked for is answered, or somebody wants it to stop at once.
async fn finish(
    endpoint: &Endpoint,
    mut talks: JoinSet<()>,
    mut tcp_talks: JoinSet<()>,
    mut interrupts: Interrupts,
) {
    let finished = async {
        while talks.join_next().await.is_some() {}
        while tcp_talks.join_next().await.is_some() {}
    };
    // Who comes now is refused at once, and may ask elsewhere.
    let refused = async {
        endpoint.shutdown_with(PATIENCE, h3::ErrorCode::H3_NO_ERROR.0, STOPS).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        finished = tokio::time::timeout(PATIENCE, finished) => if finished.is_err() {
            note!("quickset: warning: some answers were not finished");
        },
        () = refused => {}
        () = interrupts.next() => {}
    }
    endpoint.close(h3::ErrorCode::H3_NO_ERROR.0, STOPS);
    let _ = tokio::time::timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
}

/// What a connection may make us hold, of which there may be thousands: answers that nobody takes, as much as
/// the path needs of them; of what comes with requests nearly nothing, since nobody reads it; and no symbols
/// that repair what is lost of that.
///
/// Where files may be put, as much as a path needs of one of them: what is held is counted in the budget of
/// memory.
fn bounded(transport: TransportConfig, takes_files: bool) -> TransportConfig {
    let most = if takes_files { SEND_BUFFER } else { REQUEST };
    let fec = transport.fec.clone().map(|fec| fec.with_window(0));
    transport
        .with_send_buffer(SEND_BUFFER)
        .with_connection_send_buffer(4 * SEND_BUFFER)
        .with_stream_window(REQUEST)
        .with_max_stream_window(most)
        .with_max_connection_window(4 * most)
        .with_fenced_streams(None)
        .with_fec(fec)
}

/// Connections of QUIC for so many that may have a seat: who comes has to be through with its handshake to be
/// given one, and that of another if need be.
fn with_handshakes(seats: usize) -> usize {
    seats.saturating_add(seats / 2).saturating_add(16)
}

/// A port of UDP and the same of TCP.
fn listen(args: &HttpServeArgs, config: &ServerConfig) -> anyhow::Result<(Endpoint, Option<TcpListener>)> {
    let taken = || format!("cannot listen on {}; choose another address with --listen", args.listen);
    for tries_left in (0..PORTS).rev() {
        let endpoint = Endpoint::bind(args.listen, &args.socket(), Some(config)).with_context(taken)?;
        if args.no_tcp {
            return Ok((endpoint, None));
        }
        // All but the port: an address of IPv6 may have a zone.
        let mut address = args.listen;
        address.set_port(endpoint.local_addr().port());
        match tcp::listen(address) {
            Ok(listener) => {
                args.congest(&listener);
                return Ok((endpoint, Some(listener)));
            }
            // The system gave a port of UDP that somebody has of TCP.
            Err(error) if args.listen.port() == 0 && tries_left > 0 => drop(error),
            Err(error) => {
                return Err(error).with_context(|| format!("{}, or --no-tcp", taken()));
            }
        }
    }
    unreachable!("the last try returns")
}

/// How many descriptors there are, for what.
#[derive(Clone, Copy, Debug)]
struct Descriptors {
    /// Files that are open at a time.
    files: usize,
    /// Connections of TCP.
    sockets: usize,
}

/// Each connection of TCP is a descriptor and each file under way another. Connections do not get all: those
/// that there are need files.
fn take_descriptors() -> Descriptors {
    let most = descriptors::take_all();
    // What is open all the time, and files of folders that are listed in this moment.
    let free = most.saturating_sub(128).max(2);
    let files = (free / 4).clamp(1, OPEN_FILES);
    Descriptors { files, sockets: (free - files).min(Semaphore::MAX_PERMITS) }
}

impl HttpServeArgs {
    fn transport(&self) -> anyhow::Result<TransportConfig> {
        Ok(self.transport.config()?.with_gso(!self.ports.no_gso))
    }

    /// Has TCP use the congestion controller that was asked for; a server without it serves all the same.
    fn congest(&self, listener: &TcpListener) {
        let Some(cc) = &self.transport.cc else { return };
        let done = match cc.linux_name() {
            Some(name) => {
                tcp::congest(listener, name).map_err(|error| format!("the system refuses it: {error}"))
            }
            None => Err("the system has none of that kind".to_owned()),
        };
        if let Err(reason) = done {
            note!(
                "quickset: warning: HTTP/1.1 and HTTP/2 are not under {cc}, since {reason}; --no-tcp leaves HTTP/3 alone"
            );
        }
    }

    fn socket(&self) -> SocketConfig {
        let sockets = self.ports.cores.sockets();
        SocketConfig { segmentation_offload: !self.ports.no_gso, sockets, ..SocketConfig::default() }
    }

    /// Gives up root's rights, if that is wanted, and says what cannot be done from then on.
    fn become_another(&self) -> anyhow::Result<()> {
        #[cfg(all(unix, not(target_vendor = "apple")))]
        if let Some(name) = &self.user {
            name.person()?.become_it()?;
            user::still_reads(&self.folder)?;
            if let Some(Err(error)) = self.identity() {
                note!("quickset: warning: a new certificate will not be read on SIGHUP: {error:#}");
            }
        }
        Ok(())
    }

    fn takes_files(&self) -> bool {
        #[cfg(unix)]
        return self.put.put.is_some();
        #[cfg(not(unix))]
        false
    }

    /// What all connections share.
    fn desk(&self, descriptors: Descriptors) -> anyhow::Result<ServeDesk> {
        let options = SiteOptions {
            listing: self.listing,
            cors: self.cors.clone(),
            cache_rules: self.cache_control.clone(),
        };
        let budget = self.memory.budget();
        let site = FolderSite::new(&self.folder, descriptors.files, budget.clone(), options)
            .with_context(|| format!("{} cannot be served; name a folder", named(&self.folder)))?;
        #[cfg(unix)]
        let site = match &self.put.put {
            Some(folder) => {
                if self.identity.client_ca.is_none() {
                    note!(
                        "quickset: warning: anybody who reaches this server can put files; say who may with --client-ca"
                    );
                }
                let most = Most { file: self.put.put_max, all: self.put.put_total };
                let site = site.with_area(folder, most);
                site.with_context(|| format!("nothing can be put into {}", named(folder)))?
            }
            None => site,
        };
        Ok(ServeDesk {
            site,
            access_log: self.access_log,
            limits: PulseLimits { idle: self.limits.timeout, stall: self.limits.timeout * 4 },
            repair: self.fec.clone().into(),
            ranks: self.priorities.as_deref().map(Ranks::read).transpose()?.unwrap_or_default(),
            counts: AnswerCounts::default(),
            budget,
            answers: AnswerTurns::new(self.limits.max_answers),
        })
    }

    /// That of the files, if they are given.
    fn identity(&self) -> Option<anyhow::Result<Identity>> {
        Some(cert::read(self.identity.cert.as_ref()?, self.identity.key.as_ref()?))
    }
}

/// Reads the certificate again at each SIGHUP. Without a new one that is in order the old one stays.
async fn renew(args: &HttpServeArgs, config: &ServerConfig) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut hangups = signal(SignalKind::hangup())?;
        while hangups.recv().await.is_some() {
            match args.identity() {
                Some(Ok(identity)) => {
                    note!("quickset: the certificate was read again: {}", identity.fingerprint());
                    config.set_identity(identity);
                }
                Some(Err(error)) => note!("quickset: warning: the old certificate stays: {error:#}"),
                None => note!("quickset: warning: without --cert there is no certificate to read again"),
            }
        }
    }
    #[cfg(not(unix))]
    let _ = (args, config);
    std::future::pending().await
}

/// What a field value can hold.
fn origin(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    // Browsers compare it byte by byte with what they have, which is in small letters and has no path.
    let is_part = |b: u8| b.is_ascii_graphic() && !b.is_ascii_uppercase() && !b"/?#@,*".contains(&b);
    if text == "*" || host.is_some_and(|host| !host.is_empty() && host.bytes().all(is_part)) {
        Ok(text.to_owned())
    } else {
        Err("write an origin without a path and in small letters, like https://www.example.net, or *"
            .to_owned())
    }
}

/// Bytes of an answer that wait to be sent or acknowledged: 160 Mbit/s at a round trip of 100 ms. All of a
/// connection's hold four times as much, so that a client that reads nothing of a hundred does not have each
/// of them hold this.
const SEND_BUFFER: u64 = 2 << 20;

/// Bytes of a request that have no reader yet: more than a head may have.
const REQUEST: u64 = 64 << 10;

/// Files that are open at a time at most; those that nobody has read for long are closed for others.
const OPEN_FILES: usize = 512;

/// Free ports to be looked at until one is free with both protocols.
const PORTS: u32 = 16;

/// Words for clients whose connections end with the server.
const STOPS: &[u8] = b"the server stops";

/// How long answers under way may take when the server stops.
const PATIENCE: Duration = Duration::from_secs(10);

const EXAMPLE: &str = "\
Examples:
  quickset http serve ./site --listen 127.0.0.1:4433
  quickset http serve /srv/www --listen '[::]:443' --cert cert.pem --key key.pem --access-log
  quickset http serve /srv/films --cors '*' --cache-control '**.mpd=max-age=2' \\
    --cache-control '**.m4s=max-age=31536000, immutable'

Rules for --priorities; what is left out of a rule, the client says:
  [[rule]]
  path = \"/img/**\"      # the path without its query; * is any characters but /, ** any at all, ? one
  type = \"image/*\"      # the content type without parameters
  u = 4                 # urgency, 0 (most) to 7; the most urgent have everything
  i = true              # of use in parts: shares the way with others as urgent, else one after the other
  exp_w = 0.5           # weight among siblings, 0.01 to 100
  parents = [           # classes that divide as if they were one answer, nearest first
    { name = \"images\", u = 3, i = true, exp_w = 0.25 },
    { name = \"page\", u = 1 },
  ]
  exp_b = 3             # repair losses of so many packets in a row; 0 is none, whatever --fec says
  exp_d = 20            # repair comes so many milliseconds later; without, at the end
  unless_asked = true   # only what the client does not say itself";
