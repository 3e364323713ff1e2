//! Quickset beside quinn: the same bytes, certificates, datagram size, windows and socket buffers, over loopback.
//!
//! `peers compare` alternates between the stacks; each server and each client is a process of its own.

mod compare;
mod os;
mod pattern;
mod quickset_peer;
mod quinn_peer;
mod stack;
mod tls;

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use clap::{Args, Parser, Subcommand};

/// Throughput and CPU time of QUIC stacks on loopback.
#[derive(Debug, Parser)]
#[command(name = "peers", after_help = "Example: peers compare --runs 7 --bytes 2GB")]
struct Command {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Measure all stacks, in turns.
    Compare(compare::Options),
    /// Serve one client with quinn.
    QuinnServer(Serve),
    /// Fetch bytes with quinn.
    QuinnClient(Fetch),
    /// Serve one client with Quickset.
    QuicksetServer(Serve),
    /// Fetch bytes with Quickset.
    QuicksetClient(Fetch),
}

#[derive(Args, Debug)]
struct Serve {
    /// Where to listen; port 0 picks a free one. The first line on stdout says where, as JSON.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Run on this core only.
    #[arg(long)]
    core: Option<usize>,
}

#[derive(Args, Debug)]
struct Fetch {
    /// The first line that the server printed.
    #[arg(long)]
    server: String,
    /// How much to fetch.
    #[arg(long, default_value = "2GB", value_parser = quickset_sim::units::size)]
    bytes: u64,
    /// Run on this core only.
    #[arg(long)]
    core: Option<usize>,
}

fn main() -> Result<()> {
    match Command::parse().role {
        Role::Compare(options) => compare::run(&options),
        Role::QuinnServer(serve) => alone(serve.core, quinn_peer::serve(serve.listen)),
        Role::QuicksetServer(serve) => alone(serve.core, quickset_peer::serve(serve.listen)),
        Role::QuinnClient(fetch) => alone(fetch.core, quinn_peer::fetch(&fetch.listening()?, fetch.bytes)),
        Role::QuicksetClient(fetch) => {
            alone(fetch.core, quickset_peer::fetch(&fetch.listening()?, fetch.bytes))
        }
    }
}

impl Fetch {
    fn listening(&self) -> Result<stack::Listening> {
        serde_json::from_str(&self.server).context("--server is not a line that a server printed")
    }
}

/// Runs one role on one thread: with a core for each process, more threads only cost.
fn alone(core: Option<usize>, role: impl Future<Output = Result<stack::Done>>) -> Result<()> {
    if let Some(core) = core {
        os::pin(core)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(role)?;
    stack::say(&done)
}
