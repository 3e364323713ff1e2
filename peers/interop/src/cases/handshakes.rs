use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use quickset_stacks::StackCipher;

use crate::pattern::StreamPattern;
use crate::stack::{InteropStack, StackConnection};
use crate::world::{InteropPair, InteropWorld, PROTOCOL, Setup};

const ROAD: &str = "delay=5ms";

pub(super) async fn plain(pair: InteropPair) -> Result<()> {
    let world = Setup::on(pair, ROAD)?.build(pair)?;
    greet(&world, pair.seed).await?;
    world.check_amplification()
}

pub(super) async fn retry(pair: InteropPair) -> Result<()> {
    let mut setup = Setup::on(pair, ROAD)?;
    setup.server.setup.retry = true;
    let world = setup.build(pair)?;
    greet(&world, pair.seed).await?;
    let retries = world.relay.seen().retries;
    ensure!(retries == 1, "{retries} Retry packets were sent");
    Ok(())
}

pub(super) async fn large(pair: InteropPair) -> Result<()> {
    let mut setup = Setup::on(pair, ROAD)?;
    setup.names = 400;
    let world = setup.build(pair)?;
    // A client's first flight is some 2400 bytes at most.
    ensure!(world.identity.certificate.len() > 3 * 2400, "the certificate is too small to show anything");
    greet(&world, pair.seed).await?;
    world.check_amplification()
}

pub(super) async fn lossy(pair: InteropPair) -> Result<()> {
    let rounds = if pair.quick { 3 } else { 10 };
    let mut rounds: tokio::task::JoinSet<Result<()>> = (0..rounds)
        .map(|round| async move {
            let pair = InteropPair { seed: pair.seed + round, ..pair };
            let mut setup = Setup::on(pair, ROAD)?;
            setup.road.start = Some((20, format!("{ROAD} loss=30%").parse()?));
            setup.names = 100;
            let world = setup.build(pair)?;
            greet(&world, pair.seed).await.with_context(|| format!("with seed {}", pair.seed))?;
            let lost = world.relay.seen().lost;
            ensure!(lost > 0, "nothing was lost with seed {}: it shows nothing", pair.seed);
            world.check_amplification()
        })
        .collect();
    while let Some(round) = rounds.join_next().await {
        round??;
    }
    Ok(())
}

pub(super) async fn chacha20(pair: InteropPair) -> Result<()> {
    let mut setup = Setup::on(pair, ROAD)?;
    for side in [&mut setup.client, &mut setup.server] {
        if side.stack == InteropStack::Quinn {
            side.setup.cipher = StackCipher::ChaCha20;
        }
    }
    greet(&setup.build(pair)?, pair.seed).await
}

pub(super) async fn no_protocol(pair: InteropPair) -> Result<()> {
    let mut setup = Setup::on(pair, ROAD)?;
    setup.client.setup.protocol = b"something-else/1";
    let world = setup.build(pair)?;
    let at_server = async {
        tokio::select! {
            // quickset does not speak of handshakes that failed: its connection just goes away.
            accepted = world.server.accept() => accepted.map(Result::err),
            () = gone(&world) => None,
        }
    };
    let (at_client, at_server) = tokio::join!(world.try_connect(), at_server);
    let code = at_client.err().context("the client connected")?.transport_code();
    ensure!(code == Some(NO_APPLICATION_PROTOCOL), "the client's error is {code:x?}");
    match at_server {
        Some(Some(ended)) => {
            let code = ended.transport_code();
            ensure!(code == Some(NO_APPLICATION_PROTOCOL), "the server's error is {ended:?}");
        }
        Some(None) => bail!("the server took the connection"),
        None => {}
    }
    Ok(())
}

/// Waits until a connection to our server has come and gone.
async fn gone(world: &InteropWorld) {
    if world.setup.server.stack == InteropStack::Quinn {
        return std::future::pending().await;
    }
    while world.relay.seen().answered == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    world.server.idle().await;
}

/// A connection with all that belongs to one: agreement on the protocol and on keys, an echo, an end.
async fn greet(world: &InteropWorld, seed: u64) -> Result<()> {
    let (client, server) = world.connect().await?;
    for (who, connection) in [("client", &client), ("server", &server)] {
        ensure!(connection.protocol().as_deref() == Some(PROTOCOL), "the {who} has another protocol");
    }
    let keys = (client.exported(), server.exported());
    ensure!(keys.0.is_some() && keys.0 == keys.1, "the sides export different keys");
    echo(&client, &server, seed).await?;
    echo(&server, &client, seed + 1).await?;
    world.part(&client, &server).await
}

async fn echo(from: &StackConnection, to: &StackConnection, seed: u64) -> Result<()> {
    let sent = StreamPattern::new(seed).take(5000);
    let there = async {
        let (mut send, mut receive) = from.open_bi().await?;
        send.write(sent.clone().into()).await?;
        send.finish()?;
        anyhow::Ok(receive.read_all(10_000).await?)
    };
    let back = async {
        let (mut send, mut receive) = to.accept_bi().await?;
        send.write(receive.read_all(10_000).await?.into()).await?;
        send.finish()?;
        send.finished().await?;
        anyhow::Ok(())
    };
    let (received, ()) = tokio::try_join!(there, back)?;
    ensure!(received == sent, "the echo is not what was sent");
    Ok(())
}

/// RFC 9001 §8.1: 0x100 and the alert no_application_protocol, 120.
const NO_APPLICATION_PROTOCOL: u64 = 0x178;
