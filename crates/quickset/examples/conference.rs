//! A video conference: recorded frames and sound on one channel, each with a deadline. Prints what came in time.
//!
//! `cargo run -p quickset --example conference` has both ends and ends by itself after some seconds. On two machines, or with
//! `quickset link` between two ports of one:
//!
//! ```text
//! conference receive 0.0.0.0:4433          prints its fingerprint
//! conference send 192.0.2.1:4433 sha256:…
//! ```

use std::error::Error;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quickset::{ClientConfig, Connection, Deadline, Endpoint, Identity, Reliability, ServerConfig, Trust};
use tokio::time::sleep_until;

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["receive", address] => {
            let (endpoint, fingerprint) = listen(address.parse()?)?;
            println!("listening on {}; fingerprint {fingerprint}", endpoint.local_addr());
            loop {
                let connection = endpoint.accept().await.ok_or("the endpoint has closed")?;
                receive(&connection).await?;
            }
        }
        ["send", address, fingerprint] => send(address.parse()?, fingerprint, WHOLE).await,
        [] => {
            let (endpoint, fingerprint) = listen("127.0.0.1:0".parse()?)?;
            let address = endpoint.local_addr();
            let watching = tokio::spawn(async move {
                let connection = endpoint.accept().await.ok_or("nobody came")?;
                receive(&connection).await
            });
            send(address, &fingerprint, SHORT).await?;
            watching.await?
        }
        _ => Err("write nothing, or `receive ADDRESS`, or `send ADDRESS FINGERPRINT`".into()),
    }
}

fn listen(address: SocketAddr) -> Result<(Endpoint, String), Failure> {
    let identity = Identity::self_signed(["localhost"])?;
    let fingerprint = identity.fingerprint().to_string();
    Ok((Endpoint::server(address, &ServerConfig::new(identity, &[PROTOCOL])?)?, fingerprint))
}

/// Plays the recording for a while.
async fn send(address: SocketAddr, fingerprint: &str, time: Duration) -> Result<(), Failure> {
    let config = ClientConfig::new(Trust::pinned(fingerprint.parse()?), &[PROTOCOL])?;
    let endpoint = Endpoint::client()?;
    let connection = endpoint.connect(address, "localhost", &config).await?;
    // Losses are repaired as late as deadlines allow, and not at all where a resend comes in time.
    let mut channel = connection.open_messages().await?.with(Reliability::messages());
    let (begun, mut told) = (Instant::now(), 1);
    let coming = schedule(time);
    for (n, (at, bytes, within)) in coming.iter().enumerate() {
        sleep_until((begun + *at).into()).await;
        // Whatever is due sooner goes first: sound does not wait for a large frame. Whoever knows when the next one comes says
        // so: repair waits for it if there is time.
        let (message, deadline) = (Bytes::from(vec![0; *bytes]), Deadline::after(*within));
        let next = coming.get(n + 1).map_or(time, |next| next.0);
        channel.send_before(message, deadline, begun + next).await?;
        if at.as_secs() >= told {
            told = at.as_secs() + 1;
            let stats = channel.stats();
            println!(
                "{:>3} s: {} of {} in time, {} late, {} never sent, {} given up",
                at.as_secs(),
                stats.on_time,
                stats.queued,
                stats.late,
                stats.dropped,
                stats.abandoned
            );
        }
    }
    channel.finish()?;
    channel.finished().await?;
    let stats = channel.stats();
    let fec = connection.stats().fec;
    println!(
        "{} messages: {} in time, {} late, {} never sent, {} given up; {} recovered from {} repair symbols",
        stats.queued,
        stats.on_time,
        stats.late,
        stats.dropped,
        stats.abandoned,
        stats.recovered,
        fec.repairs_sent
    );
    connection.close(0, b"over");
    endpoint.wait_idle().await;
    Ok(())
}

async fn receive(connection: &Connection) -> Result<(), Failure> {
    let mut channel = connection.accept_messages().await?;
    let (mut frames, mut sounds, mut bytes) = (0, 0, 0);
    while let Some(message) = channel.next().await {
        let payload = message?.payload;
        bytes += payload.len();
        if payload.len() == SOUND_BYTES { sounds += 1 } else { frames += 1 }
    }
    println!("seen: {frames} frames and {sounds} pieces of sound, {bytes} bytes");
    connection.closed().await;
    Ok(())
}

/// When what is sent, and within which time it has to be there: recorded frames, over and over, and sound every 20 ms.
fn schedule(time: Duration) -> Vec<(Duration, usize, Duration)> {
    let recorded = include_str!("../../lab/data/tixeo_trace.repr");
    let frame = |line: &str| -> Option<(Duration, usize)> {
        let (at, bytes) = line.strip_prefix('?')?.split_once(',')?;
        Some((Duration::from_micros(at.parse().ok()?), bytes.trim().parse().ok()?))
    };
    let frames: Vec<_> = recorded.lines().filter_map(frame).collect();
    let length = frames.last().map_or(time, |last| last.0) + Duration::from_millis(33);
    let again =
        (0..).flat_map(|turn| frames.iter().map(move |(at, bytes)| (*at + turn * length, *bytes, VIDEO)));
    let sound = (0..).map(|n| (n * Duration::from_millis(20), SOUND_BYTES, SOUND));
    let mut all: Vec<_> = again.take_while(|next| next.0 < time).collect();
    all.extend(sound.take_while(|next| next.0 < time));
    all.sort();
    all
}

const PROTOCOL: &str = "conference/1";
const VIDEO: Duration = Duration::from_millis(250);
const SOUND: Duration = Duration::from_millis(150);
const SOUND_BYTES: usize = 160;
const WHOLE: Duration = Duration::from_secs(87);
const SHORT: Duration = Duration::from_secs(5);
