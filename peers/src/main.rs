//! Quickset beside other stacks: the same bytes, certificates, cipher, datagram size, windows and socket
//! buffers, over loopback.
//!
//! `peers compare` alternates between the stacks; each server and each client is a process of its own.

mod cases;
mod compare;
mod files;
mod os;
mod pattern;
mod report;
mod stacks;
mod tls;
mod wire;

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::Serialize;

use crate::cases::{BenchCase, CaseFound};
use crate::stacks::StackServer;
use crate::tls::{PeerGroup, PeersIdentity, Trusted};
use crate::wire::Listening;

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
    /// Serve clients until stdin ends.
    Serve(PeerServeArgs),
    /// Be the client of one run.
    Measure(MeasureArgs),
}

#[derive(Args, Debug)]
struct PeerServeArgs {
    stack: PeersStack,
    /// Where to listen; port 0 picks a free one. The first line on stdout says where, as JSON.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// How keys are exchanged.
    #[arg(long, value_enum, default_value_t = PeerGroup::X25519)]
    group: PeerGroup,
    /// Run on this core only.
    #[arg(long)]
    core: Option<usize>,
}

#[derive(Args, Debug)]
struct MeasureArgs {
    stack: PeersStack,
    case: BenchCase,
    /// The first line that the server printed.
    #[arg(long)]
    server: String,
    /// How long to measure.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// How keys are exchanged.
    #[arg(long, value_enum, default_value_t = PeerGroup::X25519)]
    group: PeerGroup,
    /// Run on this core only.
    #[arg(long)]
    core: Option<usize>,
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

    /// Whether this program was built with it.
    fn is_built(self) -> bool {
        match self {
            Self::Quiche => cfg!(feature = "quiche"),
            Self::S2nQuic | Self::S2nQuicTuned => cfg!(feature = "s2n-quic"),
            Self::Quickset | Self::Quinn | Self::TcpTls | Self::QuicksetH3 | Self::QuinnH3 => true,
        }
    }

    /// Whether it speaks HTTP, and is measured with those that do.
    fn is_http(self) -> bool {
        matches!(self, Self::QuicksetH3 | Self::QuinnH3)
    }
}

fn main() -> Result<()> {
    match PeersCommand::parse().role {
        PeerRole::Compare(options) => compare::run(&options),
        PeerRole::Files(options) => files::run(&options),
        PeerRole::Fetch(fetch) => alone(fetch.core, fetch.run()),
        PeerRole::Serve(serve) => alone(serve.core, serve.run()),
        PeerRole::Measure(measure) => alone(measure.core, measure.run()).map(|_| ()),
    }
}

impl PeerServeArgs {
    async fn run(self) -> Result<()> {
        let identity = PeersIdentity::new(self.group)?;
        let certificate = identity.certificate.clone();
        let listen = self.listen;
        wire::answer_on_stdin();
        let announce = |address| wire::say(&Listening::new(address, &certificate));
        match self.stack {
            PeersStack::Quickset => announced(stacks::quickset::serve(listen, identity)?, announce).await,
            PeersStack::Quinn => announced(stacks::quinn::serve(listen, identity)?, announce).await,
            PeersStack::TcpTls => announced(stacks::tcp::serve(listen, identity)?, announce).await,
            PeersStack::QuicksetH3 => {
                announced(stacks::quickset_h3::serve(listen, identity)?, announce).await
            }
            PeersStack::QuinnH3 => announced(stacks::quinn_h3::serve(listen, identity)?, announce).await,
            #[cfg(feature = "quiche")]
            PeersStack::Quiche => announced(stacks::quiche::serve(listen, &identity)?, announce).await,
            #[cfg(feature = "s2n-quic")]
            PeersStack::S2nQuic => announced(stacks::s2n::serve(listen, identity, false)?, announce).await,
            #[cfg(feature = "s2n-quic")]
            PeersStack::S2nQuicTuned => {
                announced(stacks::s2n::serve(listen, identity, true)?, announce).await
            }
            #[cfg(not(all(feature = "quiche", feature = "s2n-quic")))]
            other => anyhow::bail!("this program was built without {}", other.name()),
        }
    }
}

async fn announced<S: StackServer>(server: S, announce: impl FnOnce(SocketAddr) -> Result<()>) -> Result<()> {
    announce(server.address())?;
    cases::serve(server).await;
    Ok(())
}

impl MeasureArgs {
    async fn run(self) -> Result<CaseFound> {
        let listening: Listening =
            serde_json::from_str(&self.server).context("--server is not a line that a server printed")?;
        let trusted = Trusted { group: self.group, certificate: listening.trusted()? };
        let (to, case, time) = (listening.address, self.case, self.seconds);
        match self.stack {
            PeersStack::Quickset => cases::measure(stacks::quickset::client(to, trusted)?, case, time).await,
            PeersStack::Quinn => cases::measure(stacks::quinn::client(to, trusted)?, case, time).await,
            PeersStack::TcpTls => cases::measure(stacks::tcp::client(to, trusted)?, case, time).await,
            PeersStack::QuicksetH3 => {
                cases::measure(stacks::quickset_h3::client(to, trusted)?, case, time).await
            }
            PeersStack::QuinnH3 => cases::measure(stacks::quinn_h3::client(to, trusted)?, case, time).await,
            #[cfg(feature = "quiche")]
            PeersStack::Quiche => cases::measure(stacks::quiche::client(to, &trusted)?, case, time).await,
            #[cfg(feature = "s2n-quic")]
            PeersStack::S2nQuic => cases::measure(stacks::s2n::client(to, trusted, false)?, case, time).await,
            #[cfg(feature = "s2n-quic")]
            PeersStack::S2nQuicTuned => {
                cases::measure(stacks::s2n::client(to, trusted, true)?, case, time).await
            }
            #[cfg(not(all(feature = "quiche", feature = "s2n-quic")))]
            other => anyhow::bail!("this program was built without {}", other.name()),
        }
    }
}

/// Runs one role on one thread: with a core for each process, more threads only cost.
fn alone<T>(core: Option<usize>, role: impl Future<Output = Result<T>>) -> Result<T> {
    os::allow_files();
    if let Some(core) = core {
        os::pin(core)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, role)
}
