//! Quickset beside other stacks: the same bytes, certificates, cipher, datagram size, windows and socket
//! buffers, over loopback.
//!
//! `peers compare` alternates between the stacks; each server and each client is a process of its own.

mod cases;
mod columns;
mod compare;
mod files;
mod os;
mod pattern;
mod picture;
mod report;
mod serving;
mod shards;
mod tally;
mod wire;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Parser, Subcommand, ValueEnum};
use quickset_stacks::{
    ClientPart, ServerPart, Stack, StackCipher, StackClient, StackGroup, StackIdentity, StackServer,
    StackSetup, StackTickets, StackTuning,
};
use serde::Serialize;
use tokio::runtime::{Builder, LocalOptions};

use crate::cases::{BenchCase, CaseClient};

/// Throughput, handshakes and latencies of QUIC stacks on loopback.
#[derive(Debug, Parser)]
#[command(name = "peers", after_help = "Example: peers compare --only quickset,quinn --case bulk --runs 7")]
struct PeersCommand {
    #[command(subcommand)]
    role: PeerRole,
}

#[derive(Debug, Subcommand)]
enum PeerRole {
    /// Measure all stacks, in turns.
    Compare(compare::CompareOptions),
    /// Measure `quickset http serve` beside nginx, in turns.
    Files(files::FilesOptions),
    /// Be the clients of one run of these.
    Fetch(files::PeerFetch),
    /// Measure our server on several cores.
    Shards(shards::ShardsOptions),
    /// Be this server.
    ShardServe(shards::ShardServe),
    /// Be its clients.
    ShardCall(shards::ShardCall),
    /// Serve clients until stdin ends.
    Serve(PeerServeArgs),
    /// Be the client of one run.
    Measure(MeasureArgs),
}

#[derive(Args, Debug)]
struct PeerServeArgs {
    #[command(flatten)]
    side: PeerSide,
    /// Where to listen; port 0 picks a free one. The first line on stdout says where, as JSON.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

#[derive(Args, Debug)]
struct MeasureArgs {
    #[command(flatten)]
    side: PeerSide,
    /// Where the server is.
    #[arg(long)]
    server: SocketAddr,
    /// How long to measure.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
}

/// What both are told.
#[derive(Args, Debug)]
struct PeerSide {
    stack: PeersStack,
    case: BenchCase,
    /// The folder of the server's certificate and key.
    #[arg(long)]
    identity: PathBuf,
    /// How keys are exchanged.
    #[arg(long, value_enum, default_value_t = PeerGroup::X25519)]
    group: PeerGroup,
    /// Run on this core only.
    #[arg(long)]
    core: Option<usize>,
}

/// The one group that all exchange keys by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
enum PeerGroup {
    #[value(name = "x25519", alias = "X25519")]
    #[serde(rename = "x25519")]
    X25519,
    #[value(name = "X25519MLKEM768", alias = "x25519mlkem768")]
    #[serde(rename = "X25519MLKEM768")]
    X25519MlKem768,
}

impl PeerGroup {
    const fn of_stacks(self) -> &'static [StackGroup] {
        match self {
            Self::X25519 => &[StackGroup::X25519],
            Self::X25519MlKem768 => &[StackGroup::X25519MlKem768],
        }
    }

    const fn name(self) -> &'static str {
        self.of_stacks()[0].name()
    }
}

/// Ours first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
enum PeersStack {
    Quickset,
    Quinn,
    Quiche,
    /// s2n-quic as it comes.
    S2nQuic,
    /// s2n-quic with larger windows and buffers, and its size of datagrams set.
    S2nQuicTuned,
    TcpTls,
    /// HTTP/3 on ours.
    QuicksetH3,
    /// HTTP/3 on quinn.
    QuinnH3,
}

impl PeersStack {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    fn of_stacks(self) -> Stack {
        match self {
            Self::Quickset => Stack::Quickset,
            Self::Quinn => Stack::Quinn,
            Self::Quiche => Stack::Quiche,
            Self::S2nQuic | Self::S2nQuicTuned => Stack::S2nQuic,
            Self::TcpTls => Stack::TcpTls,
            Self::QuicksetH3 => Stack::QuicksetH3,
            Self::QuinnH3 => Stack::QuinnH3,
        }
    }

    /// Whether it speaks HTTP, and is measured with those that do.
    fn is_http(self) -> bool {
        self.of_stacks().is_http()
    }
}

impl PeerSide {
    /// The same for all, but for s2n-quic as it comes: one cipher suite and one group, datagrams of one size,
    /// windows and buffers; and every handshake is a full one, where the case does not say otherwise.
    fn setup(&self) -> StackSetup {
        let is_own = self.stack == PeersStack::S2nQuic;
        StackSetup {
            cipher: StackCipher::Aes128,
            groups: self.group.of_stacks(),
            tuning: if is_own { StackTuning::Own } else { StackTuning::Fixed },
            tickets: match self.case {
                BenchCase::Handshakes => StackTickets::None,
                BenchCase::Resumed => StackTickets::Kept,
                _ => StackTickets::Unused,
            },
            streams: self.case.streams(),
            ..StackSetup::new(if self.stack.is_http() { b"h3" } else { PROTOCOL })
        }
    }

    fn identity(&self) -> Result<StackIdentity> {
        StackIdentity::read(&self.identity)
    }
}

/// What shards and their clients have: as ours in most cases.
fn shard_setup() -> StackSetup {
    let groups = PeerGroup::X25519.of_stacks();
    let (cipher, tuning) = (StackCipher::Aes128, StackTuning::Fixed);
    StackSetup { cipher, groups, tuning, ..StackSetup::new(PROTOCOL) }
}

const PROTOCOL: &[u8] = b"quickset-peers/1";

fn main() -> Result<()> {
    match PeersCommand::parse().role {
        PeerRole::Compare(options) => compare::run(&options),
        PeerRole::Files(options) => files::run(&options),
        PeerRole::Fetch(fetch) => alone(fetch.core, fetch.run()),
        PeerRole::Shards(options) => shards::run(&options),
        PeerRole::ShardServe(serve) => serve.run(),
        PeerRole::ShardCall(call) => alone(None, call.run()),
        PeerRole::Serve(serve) => alone(serve.side.core, serve.run()),
        PeerRole::Measure(measure) => alone(measure.side.core, measure.run()),
    }
}

impl PeerServeArgs {
    async fn run(self) -> Result<()> {
        let Self { side, listen } = &self;
        let part = AnnouncedServer { case: side.case };
        side.stack.of_stacks().serve(*listen, &side.identity()?, &side.setup(), part).await
    }
}

/// Says where it is, and answers until stdin ends.
struct AnnouncedServer {
    case: BenchCase,
}

impl ServerPart for AnnouncedServer {
    async fn serve(self, server: impl StackServer) -> Result<()> {
        wire::answer_on_stdin();
        wire::say(&server.address())?;
        serving::serve(server, self.case).await;
        Ok(())
    }
}

impl MeasureArgs {
    async fn run(self) -> Result<()> {
        let Self { side, server, seconds } = &self;
        let (stack, identity, setup) = (side.stack.of_stacks(), side.identity()?, side.setup());
        let part = MeasuredClient {
            case: side.case,
            time: Duration::try_from_secs_f64(*seconds)?,
            tickets: setup.used_tickets.clone(),
        };
        stack.call(*server, &identity, &setup, part).await
    }
}

/// Plays one case.
struct MeasuredClient {
    case: BenchCase,
    time: Duration,
    tickets: Arc<AtomicU64>,
}

impl ClientPart for MeasuredClient {
    async fn call(self, stack: impl StackClient) -> Result<()> {
        let Self { case, time, tickets } = self;
        cases::measure(CaseClient { stack, case, time, tickets, before: os::taken() }).await
    }
}

/// Runs one role on one thread: with a core for each process, more threads only cost. All of it is tasks of
/// one scheduler, as in other programs: what waits in a `LocalSet` has its turn when nothing else is ready, and
/// behind a look at the poller, which stacks pay for whose own tasks are outside of it.
fn alone(core: Option<usize>, role: impl Future<Output = Result<()>> + 'static) -> Result<()> {
    os::allow_files();
    if let Some(core) = core {
        os::pin(core)?;
    }
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    runtime.block_on(async { runtime.spawn_local(role).await? })
}
