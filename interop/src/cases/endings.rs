use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::pattern::Pattern;
use crate::stack::{Broken, Connection, Ended, Endpoint};
use crate::world::{Pair, Setup, expect};

const ROAD: &str = "delay=5ms";

pub(super) async fn close(pair: Pair) -> Result<()> {
    let world = Setup::on(pair, ROAD)?.build(pair)?;
    // The largest code that both interfaces take, and words that are not UTF-8.
    for (code, reason) in [(0, &b""[..]), (0x1234, b"that is all"), (u32::MAX, &[0xff; 40])] {
        let (client, server) = world.connect().await?;
        client.close(code, reason);
        expect("at the server", &server.closed().await, &Ended::ByApplication(code.into(), reason.to_vec()))?;
        expect("at the client", &client.closed().await, &Ended::Locally)?;
        let (client, server) = world.connect().await?;
        server.close(code, reason);
        expect("at the client", &client.closed().await, &Ended::ByApplication(code.into(), reason.to_vec()))?;
        expect("at the server", &server.closed().await, &Ended::Locally)?;
    }
    world.client.idle().await;
    world.server.idle().await;
    Ok(())
}

pub(super) async fn abandon(pair: Pair) -> Result<()> {
    let world = Setup::on(pair, ROAD)?.build(pair)?;
    let (client, server) = world.connect().await?;
    give_up(&client, &server, pair.seed).await.context("by the client")?;
    give_up(&server, &client, pair.seed).await.context("by the server")?;
    world.part(&client, &server).await
}

/// `one` resets what it sends, and stops what the other sends.
async fn give_up(one: &Connection, other: &Connection, seed: u64) -> Result<()> {
    let (mut send, receive) = one.open_bi().await?;
    send.write(Pattern::new(seed).next(1000)).await?;
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
    let end = loop {
        if let Err(error) = back.write(Pattern::new(seed).next(1000)).await {
            break error;
        }
    };
    ensure!(end == Broken::Stopped(43), "the sender saw {end}");
    Ok(())
}

pub(super) async fn idle(pair: Pair) -> Result<()> {
    // Each side is the one with the shorter timeout once: the shorter counts for both (RFC 9000 §10.1).
    let both = async |client_idle, server_idle| {
        let mut setup = Setup::on(pair, ROAD)?;
        (setup.client.idle, setup.server.idle) = (client_idle, server_idle);
        let world = setup.build(pair)?;
        let (client, server) = world.connect().await?;
        // Quiet, not cut, for longer than the last acknowledgements of the handshake take.
        settle(&client, &server, pair.seed).await?;
        world.relay.cut();
        let start = Instant::now();
        let (at_client, at_server) = tokio::join!(client.closed(), server.closed());
        let after = start.elapsed();
        expect("at the client", &at_client, &Ended::TimedOut)?;
        expect("at the server", &at_server, &Ended::TimedOut)?;
        // Datagrams of the last round trip may have been on their way. The rest is for a busy machine.
        ensure!(after + Duration::from_millis(50) > SHORT, "they ended after {after:?} already");
        ensure!(after < SHORT + Duration::from_secs(3), "they ended only after {after:?}");
        anyhow::Ok(())
    };
    tokio::try_join!(both(SHORT, LONG), both(LONG, SHORT))?;
    Ok(())
}

/// An exchange that ends with both sides acknowledged.
async fn settle(client: &Connection, server: &Connection, seed: u64) -> Result<()> {
    for (from, to) in [(client, server), (server, client)] {
        let mut send = from.open_uni().await?;
        send.write(Pattern::new(seed).next(100)).await?;
        send.finish()?;
        let mut receive = to.accept_uni().await?;
        let (finished, received) = tokio::join!(send.finished(), receive.read_all(1000));
        finished?;
        ensure!(received?.len() == 100, "not all arrived");
    }
    Ok(())
}

pub(super) async fn reset(pair: Pair) -> Result<()> {
    let world = Setup::on(pair, ROAD)?.build(pair)?;
    let (client, server) = world.connect().await?;
    settle(&client, &server, pair.seed).await?;
    // To the client it is the same server, which has lost its memory but not its keys.
    let successor = Endpoint::server(&world.setup.server, &world.identity)?;
    world.relay.redirect(successor.address()?);
    let mut send = client.open_uni().await?;
    send.write(Pattern::new(pair.seed).next(1000)).await?;
    expect("at the client", &client.closed().await, &Ended::Reset)
}

const SHORT: Duration = Duration::from_millis(800);
const LONG: Duration = Duration::from_secs(30);
