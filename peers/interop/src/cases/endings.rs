use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::pattern::StreamPattern;
use crate::stack::{Broken, ConnectionEnded, InteropStack, StackConnection, StackEndpoint};
use crate::world::{InteropPair, Setup, expect};

const ROAD: &str = "delay=5ms";

pub(super) async fn close(pair: InteropPair) -> Result<()> {
    let world = Setup::on(pair, ROAD)?.build(pair)?;
    // The largest code that both interfaces take, and words that are not UTF-8.
    for (code, reason) in [(0, &b""[..]), (0x1234, b"that is all"), (u32::MAX, &[0xff; 40])] {
        let (client, server) = world.connect().await?;
        client.close(code, reason);
        expect(
            "at the server",
            &server.closed().await,
            &ConnectionEnded::ByApplication(code.into(), reason.to_vec()),
        )?;
        expect("at the client", &client.closed().await, &ConnectionEnded::Locally)?;
        let (client, server) = world.connect().await?;
        server.close(code, reason);
        expect(
            "at the client",
            &client.closed().await,
            &ConnectionEnded::ByApplication(code.into(), reason.to_vec()),
        )?;
        expect("at the server", &server.closed().await, &ConnectionEnded::Locally)?;
    }
    // quinn waits seconds for an answer to a farewell; ours is what is looked at.
    let ours = if pair.client == InteropStack::Quickset { &world.client } else { &world.server };
    ours.idle().await;
    Ok(())
}

pub(super) async fn abandon(pair: InteropPair) -> Result<()> {
    let world = Setup::on(pair, ROAD)?.build(pair)?;
    let (client, server) = world.connect().await?;
    give_up(&client, &server, pair.seed).await.context("by the client")?;
    give_up(&server, &client, pair.seed).await.context("by the server")?;
    world.part(&client, &server).await
}

/// `one` resets what it sends, and stops what the other sends.
async fn give_up(one: &StackConnection, other: &StackConnection, seed: u64) -> Result<()> {
    let (mut send, receive) = one.open_bi().await?;
    send.write(StreamPattern::new(seed).next(1000)).await?;
    let (mut back, mut there) = other.accept_bi().await?;
    let first = there.read().await?;
    ensure!(first.is_some(), "nothing came before the reset");
    send.reset(42)?;
    let end = loop {
        match there.read().await {
            Ok(Some(_)) => {}
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    ensure!(end == Some(Broken::Reset(42)), "the receiver saw {end:?}");
    receive.stop(43)?;
    // Little is written until then: quinn sends no CONNECTION_CLOSE while its congestion window is full.
    let end = match back.write(StreamPattern::new(seed).next(1000)).await {
        Ok(()) => back.finished().await,
        early => early,
    };
    ensure!(end == Err(Broken::Stopped(43)), "the sender saw {end:?}");
    Ok(())
}

pub(super) async fn idle(pair: InteropPair) -> Result<()> {
    // Each side is the one with the shorter timeout once: the shorter counts for both (RFC 9000 §10.1).
    let both = async |client_idle, server_idle| {
        let mut setup = Setup::on(pair, ROAD)?;
        (setup.client.setup.idle, setup.server.setup.idle) = (client_idle, server_idle);
        let world = setup.build(pair)?;
        let (client, server) = world.connect().await?;
        // The last datagram comes behind this, and before the cut.
        let before = Instant::now();
        // Quiet, not cut, for longer than the last acknowledgements of the handshake take.
        settle(&client, &server, pair.seed).await?;
        world.relay.cut();
        let start = Instant::now();
        let end = async |connection: &StackConnection| {
            (connection.closed().await, (before.elapsed(), start.elapsed()))
        };
        let (at_client, at_server) = tokio::join!(end(&client), end(&server));
        for (who, (ended, (since_before, after))) in [("client", at_client), ("server", at_server)] {
            expect(who, &ended, &ConnectionEnded::TimedOut)?;
            ensure!(since_before >= SHORT, "the {who} ended after {since_before:?} already");
            // Three probe timeouts are allowed (RFC 9000 §10.1), of a round trip of 10 ms here; the rest is
            // for a busy machine. The longer timeout is far from it.
            ensure!(after < SHORT + LATE, "the {who} ended only after {after:?}");
        }
        anyhow::Ok(())
    };
    tokio::try_join!(both(SHORT, LONG), both(LONG, SHORT))?;
    Ok(())
}

/// An exchange that ends with both sides acknowledged.
async fn settle(client: &StackConnection, server: &StackConnection, seed: u64) -> Result<()> {
    for (from, to) in [(client, server), (server, client)] {
        let mut send = from.open_uni().await?;
        send.write(StreamPattern::new(seed).next(100)).await?;
        send.finish()?;
        let mut receive = to.accept_uni().await?;
        let (finished, received) = tokio::join!(send.finished(), receive.read_all(1000));
        finished?;
        ensure!(received?.len() == 100, "not all arrived");
    }
    Ok(())
}

pub(super) async fn reset(pair: InteropPair) -> Result<()> {
    let world = Setup::on(pair, ROAD)?.build(pair)?;
    let (client, server) = world.connect().await?;
    settle(&client, &server, pair.seed).await?;
    // To the client it is the same server, which has lost its memory but not its keys.
    let successor = StackEndpoint::server(&world.setup.server, &world.identity)?;
    world.relay.redirect(successor.address()?);
    let mut send = client.open_uni().await?;
    send.write(StreamPattern::new(pair.seed).next(1000)).await?;
    expect("at the client", &client.closed().await, &ConnectionEnded::Reset)
}

const SHORT: Duration = Duration::from_secs(2);
const LATE: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(30);
