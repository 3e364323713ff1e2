use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::pattern::StreamPattern;
use crate::stack::{Receive, Send, StackConnection};
use crate::world::{InteropPair, Setup};

/// Short enough that one packet in a hundred lost leaves some speed to loss-based congestion control.
const LOSSY: &str = "delay=1ms loss=1%";

pub(super) async fn upload(pair: InteropPair) -> Result<()> {
    let world = Setup::on(pair, LOSSY)?.build(pair)?;
    let (client, server) = world.connect().await?;
    transfer(&client, &server, pair).await?;
    ensure!(world.relay.seen().lost > 0, "nothing was lost: it shows nothing");
    world.part(&client, &server).await
}

pub(super) async fn download(pair: InteropPair) -> Result<()> {
    let world = Setup::on(pair, LOSSY)?.build(pair)?;
    let (client, server) = world.connect().await?;
    transfer(&server, &client, pair).await?;
    ensure!(world.relay.seen().lost > 0, "nothing was lost: it shows nothing");
    world.part(&client, &server).await
}

/// One bit is flipped in each hundredth datagram, the handshake's too.
pub(super) async fn corruption(pair: InteropPair) -> Result<()> {
    let world = Setup::on(pair, "delay=1ms corrupt=1%")?.build(pair)?;
    let (client, server) = world.connect().await?;
    let pair = InteropPair { quick: true, ..pair };
    transfer(&client, &server, pair).await?;
    transfer(&server, &client, pair).await?;
    let corrupted = world.relay.seen().corrupted;
    ensure!(corrupted > 10, "only {corrupted} datagrams were corrupted");
    world.part(&client, &server).await
}

/// The client takes another socket in the midst of an upload, and of a download.
pub(super) async fn rebind(pair: InteropPair) -> Result<()> {
    let world = Setup::on(pair, "delay=1ms")?.build(pair)?;
    let (client, server) = world.connect_directly().await?;
    let pair = InteropPair { quick: true, ..pair };
    for (from, to) in [(&client, &server), (&server, &client)] {
        let before = server.remote_address();
        let mut rebound = false;
        transfer_beside(from, to, pair, |received| {
            if !rebound && received > 1_000_000 {
                rebound = true;
                world.client.rebind()?;
            }
            Ok(())
        })
        .await?;
        ensure!(rebound, "all came at once");
        let (there, here) = (server.remote_address().port(), world.client.address()?.port());
        ensure!(
            server.remote_address() != before && there == here,
            "the server sends to port {there}, not {here}"
        );
    }
    world.part(&client, &server).await
}

/// One stream in one direction, every byte compared.
async fn transfer(from: &StackConnection, to: &StackConnection, pair: InteropPair) -> Result<()> {
    transfer_beside(from, to, pair, |_| Ok(())).await
}

/// The same; `note` is told how many bytes have come.
async fn transfer_beside(
    from: &StackConnection,
    to: &StackConnection,
    pair: InteropPair,
    mut note: impl FnMut(u64) -> Result<()>,
) -> Result<()> {
    let bytes = if pair.quick { 5_000_000 } else { 100_000_000 };
    let send = async {
        let mut stream = from.open_uni().await.context("opening")?;
        let mut pattern = StreamPattern::new(pair.seed);
        while pattern.position() < bytes {
            let left = bytes - pattern.position();
            stream.write(pattern.next(left as usize)).await.context("writing")?;
        }
        stream.finish()?;
        stream.finished().await.context("waiting for the last acknowledgement")
    };
    let receive = async {
        let mut stream = to.accept_uni().await.context("accepting")?;
        let mut pattern = StreamPattern::new(pair.seed);
        while let Some(chunk) = stream.read().await.context("reading")? {
            pattern.check(&chunk)?;
            note(pattern.position())?;
        }
        ensure!(pattern.position() == bytes, "{} bytes arrived instead of {bytes}", pattern.position());
        Ok(())
    };
    tokio::try_join!(send, receive)?;
    Ok(())
}

/// More streams than either side allows at first, of all lengths from none.
pub(super) async fn streams(pair: InteropPair) -> Result<()> {
    let world = Setup::on(pair, LOSSY)?.build(pair)?;
    let (client, server) = world.connect().await?;
    let echoes = tokio::spawn({
        let server = server.clone();
        async move {
            let mut echoes = tokio::task::JoinSet::new();
            for _ in 0..STREAMS {
                let (send, receive) = server.accept_bi().await?;
                echoes.spawn(echo(send, receive));
            }
            while let Some(echo) = echoes.join_next().await {
                echo??;
            }
            anyhow::Ok(())
        }
    });
    let mut asks: tokio::task::JoinSet<Result<()>> =
        (0..STREAMS).map(|n| ask(client.clone(), pair.seed, n)).collect();
    while let Some(ask) = asks.join_next().await {
        ask??;
    }
    echoes.await??;
    world.part(&client, &server).await
}

async fn ask(client: StackConnection, seed: u64, n: u64) -> Result<()> {
    let (mut send, mut receive) = client.open_bi().await?;
    let sent = StreamPattern::new(seed + n).take(n as usize * 97);
    let write = async {
        if !sent.is_empty() {
            send.write(sent.clone().into()).await?;
        }
        send.finish()?;
        anyhow::Ok(())
    };
    let read = async { anyhow::Ok(receive.read_all(1 << 20).await?) };
    let ((), received) = tokio::try_join!(write, read).with_context(|| format!("stream {n}"))?;
    ensure!(
        received == sent,
        "the echo of stream {n} has {} bytes or other ones, not {}",
        received.len(),
        sent.len()
    );
    Ok(())
}

async fn echo(mut send: Send, mut receive: Receive) -> Result<()> {
    while let Some(chunk) = receive.read().await? {
        send.write(chunk).await?;
    }
    send.finish()?;
    Ok(send.finished().await?)
}

pub(super) async fn key_updates(pair: InteropPair) -> Result<()> {
    let world = Setup::on(pair, LOSSY)?.build(pair)?;
    let (client, server) = world.connect().await?;
    let over = AtomicBool::new(false);
    let flow = tokio::try_join!(
        flow(&client, &server, pair.seed, &over),
        flow(&server, &client, pair.seed + 1, &over),
        async {
            let result = take_turns(&client, &server).await;
            over.store(true, Ordering::Relaxed);
            result
        },
    );
    flow?;
    world.part(&client, &server).await
}

/// Bytes from one side to the other until it is over.
async fn flow(from: &StackConnection, to: &StackConnection, seed: u64, over: &AtomicBool) -> Result<()> {
    let send = async {
        let mut stream = from.open_uni().await?;
        let mut pattern = StreamPattern::new(seed);
        while !over.load(Ordering::Relaxed) {
            stream.write(pattern.next(10_000)).await?;
        }
        stream.finish()?;
        anyhow::Ok(pattern.position())
    };
    let receive = async {
        let mut stream = to.accept_uni().await?;
        let mut pattern = StreamPattern::new(seed);
        while let Some(chunk) = stream.read().await? {
            pattern.check(&chunk)?;
        }
        Ok(pattern.position())
    };
    let (sent, received) = tokio::try_join!(send, receive)?;
    ensure!(sent == received, "{received} bytes arrived of {sent}");
    Ok(())
}

/// Each side begins updates in turn; each must have come to pass before the next.
async fn take_turns(client: &StackConnection, server: &StackConnection) -> Result<()> {
    let (ours, theirs) = if client.stats().is_some() { (client, server) } else { (server, client) };
    let count = || ours.stats().map_or(0, |stats| stats.key_updates);
    for round in 0..ROUNDS {
        // Ours is allowed as soon as the last change is behind us: quinn has followed it.
        until(&format!("our update {round}"), || ours.update_keys() == Some(true)).await?;
        let before = count();
        until(&format!("quinn's update {round}"), || {
            theirs.update_keys();
            count() > before
        })
        .await?;
    }
    ensure!(count() >= 2 * ROUNDS, "{} updates were counted", count());
    Ok(())
}

/// Waits for a condition that nothing announces.
async fn until(what: &str, mut holds: impl FnMut() -> bool) -> Result<()> {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    if tokio::time::timeout(Duration::from_secs(10), wait).await.is_err() {
        bail!("{what} did not come to pass");
    }
    Ok(())
}

const STREAMS: u64 = 200;
const ROUNDS: u64 = 4;
