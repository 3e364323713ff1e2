use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::net::UdpSocket;

use crate::stack::{ConnectionEnded, InteropStack};
use crate::world::{InteropPair, Setup, expect};

/// quinn speaks a draft only, which we do not.
pub(super) async fn run(pair: InteropPair) -> Result<()> {
    let mut setup = Setup::on(pair, "delay=5ms")?;
    for side in [&mut setup.client, &mut setup.server] {
        side.draft = side.stack == InteropStack::Quinn;
    }
    let world = setup.build(pair)?;
    let refused = async {
        let ended = world.try_connect().await.err().context("they connected")?;
        expect("at the client", &ended, &ConnectionEnded::NoCommonVersion)
    };
    tokio::select! {
        refused = refused => refused?,
        _ = world.server.accept() => anyhow::bail!("the server took the connection"),
    }
    ensure!(world.relay.seen().version_negotiations > 0, "no Version Negotiation packet was seen");
    if pair.server == InteropStack::Quickset { by_hand(world.server.address()?).await } else { Ok(()) }
}

/// What comes back for the first flight of a version that there will never be, octet by octet.
async fn by_hand(server: SocketAddr) -> Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    socket.connect(server).await?;
    // RFC 9000 §15: 0x?a?a?a?a are for exercising version negotiation.
    let flight = first_flight(0x1a2a_3a4a, 1200);
    let mut answer = [0; 1500];
    // Loopback loses nothing, but a busy server may.
    let mut len = None;
    for _ in 0..5 {
        socket.send(&flight).await?;
        if let Ok(received) = tokio::time::timeout(Duration::from_secs(1), socket.recv(&mut answer)).await {
            len = Some(received?);
            break;
        }
    }
    let answer = &answer[..len.context("there was no answer")?];
    // RFC 9000 §17.2.1: the ids change places, and versions follow to the end.
    let (head, versions) =
        answer.split_at_checked(7 + CLIENT_ID.len() + SERVER_ID.len()).context("it is too short")?;
    let ids = [&[CLIENT_ID.len() as u8], CLIENT_ID, &[SERVER_ID.len() as u8], SERVER_ID].concat();
    ensure!(head[0] & 0x80 != 0, "it has no long header");
    ensure!(head[1..5] == [0; 4], "it is not Version Negotiation: {head:x?}");
    ensure!(head[5..] == ids[..], "the connection ids are {:x?}", &head[5..]);
    ensure!(versions.len() % 4 == 0, "the list of versions has {} bytes", versions.len());
    let versions: Vec<&[u8]> = versions.chunks(4).collect();
    ensure!(versions.contains(&&[0, 0, 0, 1][..]), "version 1 is not in {versions:x?}");
    ensure!(!versions.contains(&&[0x1a, 0x2a, 0x3a, 0x4a][..]), "the client's own version came back");
    // RFC 9000 §5.2.2: nothing is sent in answer to less than a first flight has. What is asked behind it is
    // answered first otherwise.
    socket.send(&first_flight(0x1a2a_3a4a, 1199)).await?;
    let mut next = first_flight(0x1a2a_3a5a, 1200);
    let marked = 6 + SERVER_ID.len() - 1;
    next[marked] = 0xee;
    socket.send(&next).await?;
    let mut answer = [0; 1500];
    let len = tokio::time::timeout(Duration::from_secs(5), socket.recv(&mut answer))
        .await
        .context("no answer")??;
    let last = answer[..len].get(7 + CLIENT_ID.len() + SERVER_ID.len() - 1);
    ensure!(last == Some(&0xee), "a datagram of 1199 bytes was answered");
    Ok(())
}

fn first_flight(version: u32, len: usize) -> Vec<u8> {
    let version = version.to_be_bytes();
    let head =
        [&[0xc3][..], &version, &[SERVER_ID.len() as u8], SERVER_ID, &[CLIENT_ID.len() as u8], CLIENT_ID];
    let mut flight = head.concat();
    flight.resize(len, 0x5c);
    flight
}

/// Ids that version 1 would not allow are fine in others (RFC 8999 §5.1): 21 bytes here.
const SERVER_ID: &[u8] = b"an id of twenty-one b";
const CLIENT_ID: &[u8] = b"client";
