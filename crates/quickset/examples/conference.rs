//! A video conference: recorded frames and sound, a channel for each, every message with a deadline. Prints
//! what came in time.
//!
//! `cargo run -p quickset --example conference` has both ends and ends by itself after some seconds. On two
//! machines, or with `quickset link` between two ports of one:
//!
//! ```text
//! conference receive 0.0.0.0:4433          prints its fingerprint
//! conference send 192.0.2.1:4433 sha256:…
//! ```

use std::error::Error;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use quickset::bytes::Bytes;
use quickset::{
    ClientConfig, Connection, Deadline, Endpoint, Identity, MessageReceiver, MessageSender, MessageStats,
    Reliability, ServerConfig, Trust,
};
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
    // Losses are repaired as late as deadlines allow, and not at all where a resend comes in time. What is
    // small and soon too late has a channel of its own: repair is as long as the longest message that it
    // covers, and due with the first.
    let video = connection.open_messages().await?.with(Reliability::messages());
    let mut sound = connection.open_messages().await?.with(Reliability::messages());
    sound.set_urgency(2);
    let begun = Instant::now();
    let (video, sound) = tokio::try_join!(
        play(video, Track { name: "video", pieces: frames(time), within: VIDEO }, begun, time),
        play(sound, Track { name: "sound", pieces: sounds(time), within: SOUND }, begun, time)
    )?;
    let fec = connection.stats().fec;
    for (what, stats) in [("frames", video), ("pieces of sound", sound)] {
        println!(
            "{} {what}: {} in time, {} late, {} never sent, {} given up; {} recovered",
            stats.queued, stats.on_time, stats.late, stats.dropped, stats.abandoned, stats.recovered
        );
    }
    println!("{} repair symbols", fec.repairs_sent);
    connection.close(0, b"over");
    endpoint.wait_idle().await;
    Ok(())
}

/// What a channel carries.
struct Track {
    name: &'static str,
    /// When what is sent, from the beginning on, and its size.
    pieces: Vec<(Duration, usize)>,
    /// Until when it is of use.
    within: Duration,
}

/// Sends the pieces of a track when they are due, and tells what became of them.
async fn play(
    mut channel: MessageSender,
    Track { name, pieces, within }: Track,
    begun: Instant,
    end: Duration,
) -> Result<MessageStats, Failure> {
    let mut told = 1;
    for (n, (at, bytes)) in pieces.iter().enumerate() {
        sleep_until((begun + *at).into()).await;
        // Whatever is due sooner goes first. Whoever knows when the next one comes says so: repair waits for
        // it if there is time.
        let next = pieces.get(n + 1).map_or(end, |next| next.0);
        let message = Bytes::from(vec![0; *bytes]);
        channel.send_before(message, Deadline::after(within), begun + next).await?;
        if at.as_secs() >= told {
            told = at.as_secs() + 1;
            let stats = channel.stats();
            println!("{:>3} s: {name}: {} of {} in time", at.as_secs(), stats.on_time, stats.queued);
        }
    }
    channel.finish()?;
    channel.finished().await?;
    Ok(channel.stats())
}

async fn receive(connection: &Connection) -> Result<(), Failure> {
    let [one, other] = [connection.accept_messages().await?, connection.accept_messages().await?];
    let ([frames, sounds], [more_frames, more_sounds]) = tokio::try_join!(watch(one), watch(other))?;
    println!("seen: {} frames and {} pieces of sound", frames + more_frames, sounds + more_sounds);
    connection.closed().await;
    Ok(())
}

/// Counts frames and pieces of sound.
async fn watch(mut channel: MessageReceiver) -> Result<[u32; 2], Failure> {
    let mut seen = [0; 2];
    while let Some(message) = channel.next().await {
        seen[usize::from(message?.payload.len() == SOUND_BYTES)] += 1;
    }
    Ok(seen)
}

/// Recorded frames, over and over: when they are sent, and how large they are.
fn frames(time: Duration) -> Vec<(Duration, usize)> {
    let recorded = include_str!("../../lab/data/tixeo_trace.repr");
    let frame = |line: &str| -> Option<(Duration, usize)> {
        let (at, bytes) = line.strip_prefix('?')?.split_once(',')?;
        Some((Duration::from_micros(at.parse().ok()?), bytes.trim().parse().ok()?))
    };
    let frames: Vec<_> = recorded.lines().filter_map(frame).collect();
    let length = frames.last().map_or(time, |last| last.0) + Duration::from_millis(33);
    let again = (0..).flat_map(|turn| frames.iter().map(move |(at, bytes)| (*at + turn * length, *bytes)));
    again.take_while(|next| next.0 < time).collect()
}

/// Sound, every 20 ms.
fn sounds(time: Duration) -> Vec<(Duration, usize)> {
    let sound = (0..).map(|n| (n * Duration::from_millis(20), SOUND_BYTES));
    sound.take_while(|next| next.0 < time).collect()
}

const PROTOCOL: &str = "conference/1";
const VIDEO: Duration = Duration::from_millis(250);
const SOUND: Duration = Duration::from_millis(150);
const SOUND_BYTES: usize = 160;
const WHOLE: Duration = Duration::from_secs(87);
const SHORT: Duration = Duration::from_secs(5);
