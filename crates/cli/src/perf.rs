use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use clap::Subcommand;
use indicatif::{ProgressBar, ProgressStyle};
use quickset::{
    AckPolicy, Algorithm, ClientConfig, Closed, ConnectError, Endpoint, Fec, Fingerprint, Identity, KeyGroup,
    Obstacle, Protection, ServerConfig, SocketConfig, TransportConfig, Trust,
};
use quickset_lab::perf::{self, Direction, PROTOCOL, PerfError, PerfJob, Speed};

use crate::interrupts::Interrupts;
use crate::memory::{self, MemoryArgs};
use crate::metrics::MetricsArgs;
use crate::qlog::QlogArgs;
use crate::say::{note, say};
use crate::{cert, values};

/// Measure how fast bytes go from one host to another, and what they cost.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, arg_required_else_help = true)]
pub(crate) struct PerfArgs {
    #[command(subcommand)]
    side: PerfSide,
}

#[derive(Debug, Subcommand)]
enum PerfSide {
    Server(ServerArgs),
    Client(ClientArgs),
}

/// Wait for clients and send them bytes, or take theirs.
///
/// Prints `listening on ADDRESS sha256:FINGERPRINT` as its first line once it accepts; the
/// fingerprint is for the client's --pin. Without --cert it makes a new key at each start.
#[derive(Debug, clap::Args)]
#[command(after_help = SERVER_EXAMPLE, verbatim_doc_comment)]
struct ServerArgs {
    /// Address to listen on; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "[::]:4433", value_parser = crate::values::listening)]
    listen: SocketAddr,
    /// Certificates as PEM, the own one first
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The certificate's private key as PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    #[command(flatten)]
    memory: MemoryArgs,
    #[command(flatten)]
    metrics: MetricsArgs,
    #[command(flatten)]
    cores: values::CoresArgs,
    #[command(flatten)]
    transport: PerfTransportArgs,
}

/// Fetch bytes from a server, or send them to it, and compare each of them.
///
/// Without --bytes it goes on for --seconds, and without --seconds until all --bytes are
/// through; with both, whatever comes first ends it.
#[derive(Debug, clap::Args)]
#[command(after_help = CLIENT_EXAMPLE, verbatim_doc_comment, group(clap::ArgGroup::new("trust").required(true)))]
struct ClientArgs {
    /// The server, as HOST:PORT
    #[arg(value_name = "HOST:PORT", value_parser = |text: &str| values::place(text, None))]
    server: String,
    /// Bytes to transfer, on all connections together
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    bytes: Option<u64>,
    /// Seconds to go on for [default: 8, without --bytes]
    #[arg(long, value_name = "SECONDS", value_parser = values::seconds)]
    seconds: Option<Duration>,
    /// Connections at a time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    connections: u16,
    /// Send to the server instead of fetching from it
    #[arg(long)]
    upload: bool,
    /// The fingerprint that the server printed
    #[arg(long, value_name = "sha256:…", group = "trust")]
    pin: Option<Fingerprint>,
    /// Do not check who the server is
    #[arg(long, group = "trust")]
    insecure: bool,
    /// Print the results as one JSON document
    #[arg(long)]
    json: bool,
    /// How long the server may be silent before it is given up
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = values::duration)]
    timeout: Duration,
    #[command(flatten)]
    transport: PerfTransportArgs,
}

#[derive(Debug, clap::Args)]
struct PerfTransportArgs {
    /// The largest UDP payload sent, in bytes; larger than the path takes loses packets
    #[arg(long, value_name = "BYTES", default_value_t = 1452, value_parser = clap::value_parser!(u16).range(1200..=65507))]
    mtu: u16,
    #[arg(long, help = values::controllers(), default_value = "cubic", value_parser = values::congestion)]
    cc: Algorithm,
    #[arg(
        long,
        help = values::protections("Repair losses of what this side sends", ""),
        value_name = "NAME",
        default_value = "none",
        value_parser = values::protection
    )]
    fec: Protection,
    /// Do not even agree on repair with the other side, to measure what that costs
    #[arg(long, conflicts_with = "fec")]
    no_fec: bool,
    /// Acknowledgements, in words with colons between: after how many packets of this side the other one
    /// acknowledges at the start (2), and whether that adapts to what this side can handle (adaptive or
    /// fixed); whether a batch that came is answered and acted on as one, or datagram by datagram (merged or
    /// single)
    #[arg(long, value_name = "WORDS", default_value_t, value_parser = values::acks)]
    ack: AckPolicy,
    /// How keys are exchanged, the best first, with commas between: X25519MLKEM768, SecP256r1MLKEM768,
    /// x25519, secp256r1 or secp384r1
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = values::group)]
    groups: Option<Vec<KeyGroup>>,
    /// Hand packets to the system one by one, without segmentation offload
    #[arg(long)]
    no_gso: bool,
    #[command(flatten)]
    qlog: QlogArgs,
}

impl PerfTransportArgs {
    fn config(&self) -> anyhow::Result<TransportConfig> {
        Ok(TransportConfig::fixed_mtu(self.mtu)
            .with_congestion(self.cc.clone())
            .with_gso(!self.no_gso)
            .with_acks(self.ack)
            .with_fec((!self.no_fec).then(|| {
                Fec::default()
                    // One stream, and at these rates more packets in flight than usual.
                    .with_window(4096)
                    .with_sessions(2)
                    .with_protection(self.fec.clone())
            }))
            .with_qlog(self.qlog.sinks()?))
    }

    fn socket(&self) -> SocketConfig {
        SocketConfig { segmentation_offload: !self.no_gso, ..SocketConfig::default() }
    }
}

pub(crate) fn run(args: PerfArgs) -> anyhow::Result<()> {
    match args.side {
        PerfSide::Server(args) => crate::block_on(serve(args)),
        PerfSide::Client(args) => crate::block_on(fetch(args)),
    }
}

async fn serve(args: ServerArgs) -> anyhow::Result<()> {
    let identity = match (&args.cert, &args.key) {
        (Some(cert), Some(key)) => cert::read(cert, key)?,
        _ => Identity::self_signed(["localhost"])?,
    };
    let fingerprint = identity.fingerprint();
    let metrics = args.metrics.bind().await?;
    let budget = args.memory.budget();
    let mut config = ServerConfig::new(identity, &[PROTOCOL])?
        .with_transport(args.transport.config()?)
        .with_budget(budget.clone())
        .with_key_log();
    if let Some(groups) = &args.transport.groups {
        config = config.with_groups(groups)?;
    }
    let socket = SocketConfig { sockets: args.cores.sockets(), ..args.transport.socket() };
    let endpoint = Endpoint::bind(args.listen, &socket, Some(&config))
        .with_context(|| format!("cannot listen on {}; choose another address with --listen", args.listen))?;
    say!("listening on {} {fingerprint}", endpoint.local_addr())?;
    let watched = endpoint.clone();
    metrics.serve(move |page| {
        page.endpoint(&watched.stats());
        memory::tell(&budget, page);
    })?;
    let mut interrupts = Interrupts::new()?;
    tokio::select! {
        () = perf::serve(endpoint.clone()) => {}
        () = interrupts.next() => {}
    }
    endpoint.close(0, b"the server stops");
    // Long enough for the news to leave; clients that do not hear it find out by themselves.
    let _ = tokio::time::timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
    Ok(())
}

async fn fetch(args: ClientArgs) -> anyhow::Result<()> {
    let trust = if let Some(fingerprint) = args.pin {
        Trust::pinned(fingerprint)
    } else {
        note!("quickset: warning: with --insecure anybody can pose as {}", args.server);
        Trust::insecure()
    };
    let addresses = resolve(&args.server).await?;
    let mut job = PerfJob {
        address: addresses[0],
        name: host(&args.server).to_owned(),
        connections: usize::from(args.connections),
        direction: if args.upload { Direction::Upload } else { Direction::Download },
        bytes: args.bytes,
        time: args.seconds.or(args.bytes.is_none().then_some(Duration::from_secs(8))),
    };
    let transport = values::patient(args.transport.config()?, args.timeout);
    let mut config = ClientConfig::new(trust, &[PROTOCOL])?.with_transport(transport).with_key_log();
    if let Some(groups) = &args.transport.groups {
        config = config.with_groups(groups)?;
    }
    let measured = measure_any(&addresses, &mut job, &config, &args.transport.socket()).await;
    let speed = measured.map_err(|error| explained(error, args.pin.is_some()))?;
    if args.json { say!("{}", serde_json::to_string_pretty(&speed)?) } else { print(&speed) }
}

/// Measures with the first address that answers.
async fn measure_any(
    addresses: &[SocketAddr],
    job: &mut PerfJob,
    config: &ClientConfig,
    socket: &SocketConfig,
) -> anyhow::Result<Speed> {
    let mut failed: Option<anyhow::Error> = None;
    for &address in addresses {
        job.address = address;
        let local =
            if address.is_ipv4() { SocketAddr::from(([0; 4], 0)) } else { SocketAddr::from(([0u16; 8], 0)) };
        let speed = match Endpoint::bind(local, socket, None) {
            Ok(endpoint) => {
                let speed = with_bar(&endpoint, config, job).await;
                endpoint.close(0, b"");
                let _ = tokio::time::timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
                speed
            }
            // Of this family; perhaps the system has only the other one.
            Err(error) => {
                failed = Some(anyhow::Error::new(error).context("no socket can be had"));
                continue;
            }
        };
        match speed {
            Ok(speed) => return Ok(speed),
            Err(error @ PerfError::Connect(_)) => failed = Some(error.into()),
            Err(error) => return Err(error.into()),
        }
    }
    Err(failed.unwrap_or_else(|| anyhow::anyhow!("the server has no address")))
}

/// Measures behind a progress bar, which shows nothing where stderr is no terminal.
async fn with_bar(endpoint: &Endpoint, config: &ClientConfig, job: &PerfJob) -> Result<Speed, PerfError> {
    let bytes = Arc::new(AtomicU64::new(0));
    let (bar, style) = match job.bytes {
        Some(all) => (
            ProgressBar::new(all),
            "{wide_bar:.green/dim} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
        ),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes}, {bytes_per_sec}, {elapsed}"),
    };
    bar.set_style(ProgressStyle::with_template(style).expect("the template is constant"));
    let mut ticks = tokio::time::interval(Duration::from_millis(200));
    let work = perf::measure(endpoint, config, job, &bytes);
    tokio::pin!(work);
    let speed = loop {
        tokio::select! {
            speed = &mut work => break speed,
            _ = ticks.tick() => bar.set_position(bytes.load(Ordering::Relaxed)),
        }
    };
    bar.finish_and_clear();
    speed
}

/// Where nobody answers, what to look at.
fn explained(error: anyhow::Error, pinned: bool) -> anyhow::Error {
    match error.downcast_ref() {
        Some(PerfError::Connect(ConnectError::Failed(closed))) if is_nobody(closed) => {
            let pin = if pinned { ", and is the pin that which it printed" } else { "" };
            anyhow::anyhow!("{error}; is `quickset perf server` running there{pin}?")
        }
        _ => error,
    }
}

/// Whether a server answered is not known, or none did.
fn is_nobody(closed: &Closed) -> bool {
    match closed {
        Closed::TimedOut | Closed::Reset => true,
        Closed::Unreachable(refusal) => refusal.obstacle == Obstacle::Port,
        _ => false,
    }
}

fn print(speed: &Speed) -> anyhow::Result<()> {
    let cost = |cost: Option<f64>| cost.map_or("not known here".to_owned(), |s| format!("{s:.2} s/GB"));
    say!("{:>10.3} Gbit/s on {} connection(s)", speed.bits_per_second / 1e9, speed.connections)?;
    say!("{:>10} bytes in {:.2} s, each compared", speed.bytes, speed.seconds)?;
    say!("{:>10} packets sent, {} of them lost", speed.packets, speed.lost)?;
    let fec = &speed.fec;
    if fec.symbols > 0 {
        say!(
            "{:>10} symbols of them, {} repair symbols ({} bytes); {} recovered, {} sent again",
            fec.symbols,
            fec.repairs,
            fec.repair_bytes,
            fec.recovered,
            fec.unrecovered
        )?;
    }
    say!(
        "processor time: client {}, server {}",
        cost(speed.cpu_s_per_gb_client),
        cost(speed.cpu_s_per_gb_server)
    )
}

/// All addresses, in the order of the system; at least one.
async fn resolve(server: &str) -> anyhow::Result<Vec<SocketAddr>> {
    let (host, port) = split(server);
    let port: u16 = port.parse().with_context(|| format!("{server} is not HOST:PORT"))?;
    // Without brackets, or the system does not know the zone of an address.
    let found = tokio::net::lookup_host((host, port)).await;
    let addresses: Vec<SocketAddr> = found
        .with_context(|| format!("{server} cannot be found; write HOST:PORT, like 192.0.2.7:4433"))?
        .collect();
    anyhow::ensure!(!addresses.is_empty(), "{server} has no address");
    Ok(addresses)
}

/// What the server is called: the host of HOST:PORT, an address of IPv6 without its zone, which is where we
/// are.
fn host(server: &str) -> &str {
    let (host, _) = split(server);
    host.split('%').next().unwrap_or(host)
}

/// The host of HOST:PORT, an address of IPv6 without its brackets, and the port.
fn split(server: &str) -> (&str, &str) {
    let (host, port) = server.rsplit_once(':').unwrap_or((server, ""));
    (host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host), port)
}

const EXAMPLE: &str = "\
Example: on one host, then on another, with the fingerprint that the first one prints
  quickset perf server --listen 0.0.0.0:4433
  quickset perf client 192.0.2.7:4433 --pin sha256:…";
const SERVER_EXAMPLE: &str = "\
Example:
  quickset perf server --listen 0.0.0.0:4433 --cert cert.pem --key key.pem";
const CLIENT_EXAMPLE: &str = "\
Examples:
  quickset perf client 192.0.2.7:4433 --pin sha256:… --seconds 20
  quickset perf client localhost:4433 --insecure --bytes 1GB --upload --json
  quickset perf client 192.0.2.7:4433 --pin sha256:… --upload --fec adaptive:bulk
  quickset perf client 192.0.2.7:4433 --pin sha256:… --upload --ack 100:fixed";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_told_from_ports() {
        assert_eq!(host("desk.example.net:4433"), "desk.example.net");
        assert_eq!(host("[2001:db8::7]:4433"), "2001:db8::7");
        assert_eq!(host("192.0.2.7:1"), "192.0.2.7");
        assert_eq!(host("[fe80::7%eth0]:1"), "fe80::7");
    }

    /// What is measured is what was asked for, and no larger datagram.
    #[test]
    fn the_size_of_datagrams_is_the_one_that_is_named() {
        #[derive(Debug, clap::Parser)]
        struct Line {
            #[command(flatten)]
            transport: PerfTransportArgs,
        }
        let line = <Line as clap::Parser>::try_parse_from(["perf", "--mtu", "1300"]).expect("arguments");
        let config = line.transport.config().expect("a configuration");
        assert_eq!((config.mtu, config.mtu_discovery), (1300, None));
    }

    #[tokio::test]
    async fn every_address_is_tried() {
        let identity = Identity::self_signed(["localhost"]).expect("a key");
        let trust = Trust::pinned(identity.fingerprint());
        let config = ServerConfig::new(identity, &[PROTOCOL]).expect("a name");
        let server = Endpoint::server("127.0.0.1:0".parse().expect("it is one"), &config).expect("a socket");
        let here = server.local_addr();
        tokio::spawn(perf::serve(server));
        let config = ClientConfig::new(trust, &[PROTOCOL]).expect("a name");
        // Nobody can be reached at port 0.
        let dead = SocketAddr::from(([127, 0, 0, 2], 0));
        let mut job = PerfJob {
            address: dead,
            name: "localhost".into(),
            connections: 1,
            direction: Direction::Download,
            bytes: Some(1000),
            time: None,
        };
        let socket = SocketConfig::default();
        let speed = measure_any(&[dead, here], &mut job, &config, &socket).await.expect("the second answers");
        assert_eq!((speed.bytes, job.address), (1000, here));
        let error =
            measure_any(&[dead, dead], &mut job, &config, &socket).await.expect_err("nobody is there");
        assert!(error.to_string().contains("no connection"), "{error}");
    }
}
