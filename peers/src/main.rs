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

use crate::cases::{Case, Found};
use crate::stacks::Server;
use crate::tls::{Group, Identity, Trusted};
use crate::wire::Listening;

/// Throughput, handshakes and latencies of QUIC stacks on loopback.
#[derive(Debug, Parser)]
#[command(name = "peers", after_help = "Example: peers compare --only quickset,quinn --case bulk --runs 7")]
struct Command {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Measure all stacks, in turns.
    Compare(compare::Options),
    /// Measure `quickset http serve` beside nginx, in turns.
    Files(files::Options),
    /// Be the clients of one run of these.
    Fetch(files::Fetch),
    /// Serve clients until stdin ends.
    Serve(Serve),
    /// Be the client of one run.
    Measure(Measure),
}

#[derive(Args, Debug)]
struct Serve {
    stack: Stack,
    /// Where to listen; port 0 picks a free one. The first line on stdout says where, as JSON.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// How keys are exchanged.
    #[arg(long, value_enum, default_value_t = Group::X25519)]
    group: Group,
    /// Run on this core only.
    #[arg(long)]
    core: Option<usize>,
}

#[derive(Args, Debug)]
struct Measure {
    stack: Stack,
    case: Case,
    /// The first line that the server printed.
    #[arg(long)]
    server: String,
    /// How long to measure.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// How keys are exchanged.
    #[arg(long, value_enum, default_value_t = Group::X25519)]
    group: Group,
    /// Run on this core only.
    #[arg(long)]
    core: Option<usize>,
}

/// Ours first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
enum Stack {
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

impl Stack {
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
    match Command::parse().role {
        Role::Compare(options) => compare::run(&options),
        Role::Files(options) => files::run(&options),
        Role::Fetch(fetch) => alone(fetch.core, fetch.run()),
        Role::Serve(serve) => alone(serve.core, serve.run()),
        Role::Measure(measure) => alone(measure.core, measure.run()).map(|_| ()),
    }
}

impl Serve {
    async fn run(self) -> Result<()> {
        let identity = Identity::new(self.group)?;
        let certificate = identity.certificate.clone();
        let listen = self.listen;
        wire::answer_on_stdin();
        let announce = |address| wire::say(&Listening::new(address, &certificate));
        match self.stack {
            Stack::Quickset => announced(stacks::quickset::serve(listen, identity)?, announce).await,
            Stack::Quinn => announced(stacks::quinn::serve(listen, identity)?, announce).await,
            Stack::TcpTls => announced(stacks::tcp::serve(listen, identity)?, announce).await,
            Stack::QuicksetH3 => announced(stacks::quickset_h3::serve(listen, identity)?, announce).await,
            Stack::QuinnH3 => announced(stacks::quinn_h3::serve(listen, identity)?, announce).await,
            #[cfg(feature = "quiche")]
            Stack::Quiche => announced(stacks::quiche::serve(listen, &identity)?, announce).await,
            #[cfg(feature = "s2n-quic")]
            Stack::S2nQuic => announced(stacks::s2n::serve(listen, identity, false)?, announce).await,
            #[cfg(feature = "s2n-quic")]
            Stack::S2nQuicTuned => announced(stacks::s2n::serve(listen, identity, true)?, announce).await,
            #[cfg(not(all(feature = "quiche", feature = "s2n-quic")))]
            other => anyhow::bail!("this program was built without {}", other.name()),
        }
    }
}

async fn announced<S: Server>(server: S, announce: impl FnOnce(SocketAddr) -> Result<()>) -> Result<()> {
    announce(server.address())?;
    cases::serve(server).await;
    Ok(())
}

impl Measure {
    async fn run(self) -> Result<Found> {
        let listening: Listening =
            serde_json::from_str(&self.server).context("--server is not a line that a server printed")?;
        let trusted = Trusted { group: self.group, certificate: listening.trusted()? };
        let (to, case, time) = (listening.address, self.case, self.seconds);
        match self.stack {
            Stack::Quickset => cases::measure(stacks::quickset::client(to, trusted)?, case, time).await,
            Stack::Quinn => cases::measure(stacks::quinn::client(to, trusted)?, case, time).await,
            Stack::TcpTls => cases::measure(stacks::tcp::client(to, trusted)?, case, time).await,
            Stack::QuicksetH3 => cases::measure(stacks::quickset_h3::client(to, trusted)?, case, time).await,
            Stack::QuinnH3 => cases::measure(stacks::quinn_h3::client(to, trusted)?, case, time).await,
            #[cfg(feature = "quiche")]
            Stack::Quiche => cases::measure(stacks::quiche::client(to, &trusted)?, case, time).await,
            #[cfg(feature = "s2n-quic")]
            Stack::S2nQuic => cases::measure(stacks::s2n::client(to, trusted, false)?, case, time).await,
            #[cfg(feature = "s2n-quic")]
            Stack::S2nQuicTuned => cases::measure(stacks::s2n::client(to, trusted, true)?, case, time).await,
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
