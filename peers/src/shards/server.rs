//! The server: our endpoint with a socket and a thread for each core, as `quickset perf server --cores` has
//! it, with an application that answers what the others answer.

use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use nix::libc::{sock_filter, sock_fprog};
use nix::sys::socket::{setsockopt, sockopt};
use quickset::SocketConfig;
use quickset_stacks::quickset::{endpoint_config, server_config};
use quickset_stacks::{MAX_QUESTION, StackIdentity, bytes_of};
use serde::{Deserialize, Serialize};

use crate::os::ProcessUsage;
use crate::pattern::pieces;
use crate::wire::{answer_each, say};

#[derive(Args, Debug)]
pub(crate) struct ShardServe {
    /// The folder of the certificate and key.
    #[arg(long)]
    identity: PathBuf,
    /// Shards, and threads.
    #[arg(long)]
    cores: usize,
    /// The system is to go by addresses.
    #[arg(long)]
    unsteered: bool,
}

/// What it says when it is asked.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(super) struct ShardWord {
    /// Since it began.
    pub(super) seconds: f64,
    #[serde(flatten)]
    pub(super) usage: ProcessUsage,
    /// Datagrams that came to another shard than theirs, and those of them that were lost then.
    pub(super) handed_over: u64,
    pub(super) handed_over_lost: u64,
}

impl ShardServe {
    pub(crate) fn run(&self) -> Result<()> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(self.cores).enable_all().build()?;
        runtime.block_on(self.serve())
    }

    async fn serve(&self) -> Result<()> {
        let identity = StackIdentity::read(&self.identity)?;
        let mut config = server_config(&identity, &crate::shard_setup())?;
        // Those that have gone are kept for a while.
        config.max_connections = 30_000;
        let socket = SocketConfig { sockets: self.cores, ..SocketConfig::default() };
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let endpoint = quickset_net::Endpoint::bind(listen, &socket, endpoint_config(), Some(config))?;
        if self.unsteered {
            unsteer(endpoint.local_addr())?;
        }
        let watched = endpoint.clone();
        answer_each(move |seconds, usage| {
            let stats = watched.stats();
            let (handed_over, handed_over_lost) = (stats.handed_over, stats.handed_over_lost);
            ShardWord { seconds, usage, handed_over, handed_over_lost }
        });
        say(&endpoint.local_addr())?;
        while let Some(connection) = endpoint.accept().await {
            tokio::spawn(async move {
                while let Ok((send, receive)) = connection.accept_bi().await {
                    // A client that has enough leaves in the middle.
                    tokio::spawn(async move { drop(answer(send, receive).await) });
                }
            });
        }
        Ok(())
    }
}

async fn answer(mut send: quickset_net::SendStream, mut receive: quickset_net::RecvStream) -> Result<()> {
    let bytes = bytes_of(&receive.read_to_end(MAX_QUESTION).await?).context("a path of no length")?;
    for piece in pieces(bytes) {
        send.write_chunk(piece).await?;
    }
    Ok(send.finish()?)
}

/// Has the system go by addresses on this port, as where it takes no program: one that names no socket of
/// them all takes the place of ours (SO_ATTACH_REUSEPORT_CBPF of socket(7)). It counts for the whole port,
/// whichever socket it came by.
fn unsteer(port: SocketAddr) -> Result<()> {
    // BPF_RET | BPF_K of linux/bpf_common.h.
    const RETURN: u16 = 0x06;
    let plain = socket2::Socket::new(socket2::Domain::for_address(port), socket2::Type::DGRAM, None)?;
    plain.set_reuse_port(true)?;
    plain.bind(&port.into()).context("a socket that shares the port")?;
    let mut program = [sock_filter { code: RETURN, jt: 0, jf: 0, k: u32::MAX }];
    let program = sock_fprog { len: 1, filter: program.as_mut_ptr() };
    let socket = UdpSocket::from(plain);
    setsockopt(&socket, sockopt::AttachReusePortCbpf, &program).context("the program for the port")?;
    ensure!(socket.local_addr()? == port, "it is another port");
    Ok(())
}
