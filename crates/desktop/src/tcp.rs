//! The link of two gateways where UDP does not get through: TLS over TCP, on the same port (`spec/desktop.md`
//! §12). What QUIC has a stream for is a lane here: records in order, in frames among those of others.
//!
//! *In:* a TLS stream and what is known of its other end; records by lane. *Out:* the same. Invariants: what
//! waits is a few records a lane, so that a peer who does not read holds up its sender and takes no memory;
//! a link that is silent for ten seconds is over; no frame is kept that is longer than a record may be.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use quickset::rustls::ConnectionCommon;
use quickset::{Closed, Fingerprint};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadHalf};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::channel::DesktopChannel;
use crate::error::LinkError;
use crate::message::MessageFault;
use crate::pace::TcpPace;
use crate::trust::{Exported, LABEL};

/// The application protocol, as TLS negotiates it.
pub(crate) const TCP_ALPN: &str = "quickset-desktop-tcp/1";

/// One end of a link over TCP; clones are handles of the same. It ends with the last.
#[derive(Clone, Debug)]
pub(crate) struct TcpLink(Arc<TcpShared>);

#[derive(Debug)]
struct TcpShared {
    facts: TcpFacts,
    outgoing: [mpsc::Sender<Bytes>; LANES],
    incoming: Mutex<[Option<mpsc::Receiver<Bytes>>; LANES]>,
    farewells: mpsc::UnboundedSender<Farewell>,
    /// Bits per second that this end sends at most.
    most: watch::Sender<Option<u64>>,
    end: watch::Receiver<Option<LinkError>>,
}

/// What TLS knows of a connection.
#[derive(Debug)]
pub(crate) struct TcpFacts {
    pub(crate) remote: SocketAddr,
    /// The key that the other end has proved.
    pub(crate) peer: Option<Fingerprint>,
    pub(crate) exported: Exported,
}

/// The words of an end; unless told, that the session is over (DONE).
#[derive(Debug, Default)]
struct Farewell {
    code: u64,
    reason: Bytes,
}

/// Which end this is, and so what may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TcpEnd {
    Client,
    Server,
}

impl TcpFacts {
    /// `None` when keys cannot be exported: the handshake is not over.
    pub(crate) fn of<D>(remote: SocketAddr, tls: &ConnectionCommon<D>) -> Option<Self> {
        let peer = tls.peer_certificates().and_then(|chain| Fingerprint::of(chain.first()?));
        let exported = tls.export_keying_material([0; 32], LABEL, Some(b"")).ok()?;
        Some(Self { remote, peer, exported })
    }
}

impl TcpLink {
    /// Takes a stream whose handshake is over.
    pub(crate) fn start<S>(stream: S, facts: TcpFacts, end: TcpEnd) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let lanes = || std::array::from_fn::<_, LANES, _>(|_| mpsc::channel(RECORDS));
        let (out, into) = (lanes(), lanes());
        let (mut outgoing, mut to_send) = (Vec::new(), Vec::new());
        for (sender, receiver) in out {
            outgoing.push(sender);
            to_send.push(receiver);
        }
        let (mut came, mut incoming) = (Vec::new(), Vec::new());
        for (sender, receiver) in into {
            came.push(sender);
            incoming.push(Some(receiver));
        }
        let (farewells, goodbye) = mpsc::unbounded_channel();
        let (tell, ended) = watch::channel(None);
        let (most, limit) = watch::channel(None);
        let all = "there are as many lanes";
        let shared = TcpShared {
            facts,
            outgoing: outgoing.try_into().expect(all),
            incoming: Mutex::new(incoming.try_into().expect(all)),
            farewells,
            most,
            end: ended,
        };
        let carrier = TcpCarrier { to_send: to_send.try_into().expect(all), goodbye, limit };
        tokio::spawn(async move {
            let error = carrier.run(stream, came, end).await;
            let _ = tell.send(Some(error));
        });
        Self(Arc::new(shared))
    }

    pub(crate) fn facts(&self) -> &TcpFacts {
        &self.0.facts
    }

    /// Where records of a lane go: there is room for a few.
    pub(crate) fn sender(&self, lane: DesktopChannel) -> mpsc::Sender<Bytes> {
        self.0.outgoing[lane as usize].clone()
    }

    /// Where they come from; the first time this is called.
    pub(crate) fn receiver(&self, lane: DesktopChannel) -> Option<mpsc::Receiver<Bytes>> {
        self.0.incoming.lock().unwrap_or_else(PoisonError::into_inner)[lane as usize].take()
    }

    /// Sends no more than so many bits per second from now on, of what is not urgent: of control and input
    /// nothing waits, but all of it counts.
    pub(crate) fn set_max_rate_bps(&self, most: Option<u64>) {
        self.0.most.send_replace(most);
    }

    /// Ends it, with a code of `spec/desktop.md` §11 and words for a person.
    pub(crate) fn close(&self, code: u64, reason: &[u8]) {
        let reason = Bytes::copy_from_slice(&reason[..reason.len().min(MOST_WORDS)]);
        let _ = self.0.farewells.send(Farewell { code, reason });
    }

    /// Why it is over, once it is.
    pub(crate) async fn closed(&self) -> LinkError {
        let mut end = self.0.end.clone();
        match end.wait_for(Option::is_some).await {
            Ok(error) => error.clone().unwrap_or(LinkError::Ended),
            // Its task went with the runtime.
            Err(_) => LinkError::Closed(Closed::Abandoned),
        }
    }
}

/// What carries records both ways.
struct TcpCarrier {
    to_send: [mpsc::Receiver<Bytes>; LANES],
    goodbye: mpsc::UnboundedReceiver<Farewell>,
    /// Bits per second.
    limit: watch::Receiver<Option<u64>>,
}

impl TcpCarrier {
    async fn run<S>(self, stream: S, came: Vec<mpsc::Sender<Bytes>>, end: TcpEnd) -> LinkError
    where
        S: AsyncRead + AsyncWrite,
    {
        let (reader, mut writer) = tokio::io::split(stream);
        let error = tokio::select! {
            error = receive(reader, &came, end) => error,
            error = self.send(&mut writer) => return error,
        };
        if let Some((code, words)) = error.farewell() {
            let reason = words.into_bytes().into();
            let _ = timeout(FAREWELL, say(&mut writer, &Farewell { code, reason })).await;
        }
        error
    }

    /// Sends what is there: what somebody waits for first, and a long text beside the screen.
    async fn send<W: AsyncWrite + Unpin>(self, writer: &mut W) -> LinkError {
        let Self { to_send, mut goodbye, mut limit } = self;
        let [mut control, mut input, mut screen, mut clipboard, mut sound] = to_send;
        let mut pace = TcpPace::new();
        pace.set_max_rate_bps(*limit.borrow_and_update());
        // What is next of all that is not urgent, and may not leave yet.
        let mut held: Option<(u8, Bytes)> = None;
        // The words of the end, once they are there.
        let mut last: Option<Farewell> = None;
        loop {
            let due = held.as_ref().and_then(|(_, record)| pace.due(record.len()));
            let (kind, record) = tokio::select! {
                biased;
                farewell = async {
                    match last.take() {
                        Some(farewell) => farewell,
                        // Without a word: the last handle is gone.
                        None => goodbye.recv().await.unwrap_or_default(),
                    }
                } => {
                    // What was said before goes before.
                    for (lane, records) in [(DesktopChannel::Control, &mut control), (DesktopChannel::Input, &mut input)] {
                        while let Ok(record) = records.try_recv() {
                            let _ = timeout(FAREWELL, write(writer, lane as u8, &record)).await;
                        }
                    }
                    let _ = timeout(FAREWELL, say(writer, &farewell)).await;
                    return LinkError::Closed(Closed::Locally);
                }
                Some(record) = input.recv() => (DesktopChannel::Input as u8, record),
                Some(record) = control.recv() => (DesktopChannel::Control as u8, record),
                Ok(()) = limit.changed() => {
                    pace.set_max_rate_bps(*limit.borrow_and_update());
                    continue;
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if held.is_some() => {
                    let Some(next) = held.take() else { continue };
                    next
                }
                Some(record) = sound.recv(), if held.is_none() => (DesktopChannel::Sound as u8, record),
                either = async {
                    tokio::select! {
                        Some(record) = screen.recv() => (DesktopChannel::Screen as u8, record),
                        Some(record) = clipboard.recv() => (DesktopChannel::Clipboard as u8, record),
                        else => std::future::pending().await,
                    }
                }, if held.is_none() => either,
                () = sleep(KEEP_ALIVE) => (STILL_THERE, Bytes::new()),
            };
            if !is_urgent(kind) && pace.due(record.len()).is_some() {
                held = Some((kind, record));
                continue;
            }
            pace.on_sent(record.len());
            // A peer who reads nothing holds this up, and must not hold up the end.
            let written = async {
                let mut write = std::pin::pin!(write(writer, kind, &record));
                tokio::select! {
                    written = &mut write => (Some(written), None),
                    farewell = goodbye.recv() => (timeout(FAREWELL, write).await.ok(), Some(farewell)),
                }
            };
            match written.await {
                (Some(Ok(())), None) => {}
                (Some(Ok(())), Some(farewell)) => last = Some(farewell.unwrap_or_default()),
                (Some(Err(error)), _) => return gone(&error),
                (None, _) => return LinkError::Closed(Closed::Locally),
            }
        }
    }
}

/// Hands over what comes, until it is over.
async fn receive<S: AsyncRead>(
    mut reader: ReadHalf<S>,
    came: &[mpsc::Sender<Bytes>],
    end: TcpEnd,
) -> LinkError {
    loop {
        let mut head = [0; HEAD];
        match timeout(SILENCE, reader.read_exact(&mut head)).await {
            Err(_) => return LinkError::Closed(Closed::TimedOut),
            Ok(Err(error)) => return gone(&error),
            Ok(Ok(_)) => {}
        }
        let [kind, length @ ..] = head;
        let length = u32::from_be_bytes([0, length[0], length[1], length[2]]) as usize;
        if length > MOST_RECORD {
            return MessageFault::Long(length).into();
        }
        let mut record = vec![0; length];
        match timeout(SILENCE, reader.read_exact(&mut record)).await {
            Err(_) => return LinkError::Closed(Closed::TimedOut),
            Ok(Err(error)) => return gone(&error),
            Ok(Ok(_)) => {}
        }
        match (kind, channel(kind)) {
            (_, Some(lane)) if comes_to(lane, end) => {
                // Whoever does not take it is gone, and the link soon.
                let _ = came[lane as usize].send(record.into()).await;
            }
            (GOODBYE, _) => {
                let Some((code, reason)) = record.split_first() else {
                    return MessageFault::Short("a goodbye").into();
                };
                let (code, reason) = (u64::from(*code), reason.to_vec());
                return LinkError::Closed(Closed::ByApplication { code, reason });
            }
            (STILL_THERE, _) => {}
            _ => return MessageFault::Value { what: "the kind of a frame", value: kind.into() }.into(),
        }
    }
}

/// DT-56: the channel of a kind of frames, and who sends it.
fn channel(kind: u8) -> Option<DesktopChannel> {
    use DesktopChannel::{Clipboard, Control, Input, Screen, Sound};
    [Control, Input, Screen, Clipboard, Sound].into_iter().find(|channel| *channel as u8 == kind)
}

fn comes_to(channel: DesktopChannel, end: TcpEnd) -> bool {
    match channel {
        DesktopChannel::Control => true,
        DesktopChannel::Input => end == TcpEnd::Server,
        DesktopChannel::Screen | DesktopChannel::Clipboard | DesktopChannel::Sound => end == TcpEnd::Client,
    }
}

/// What waits for no other frame.
fn is_urgent(kind: u8) -> bool {
    !matches!(channel(kind), Some(DesktopChannel::Screen | DesktopChannel::Clipboard | DesktopChannel::Sound))
}

/// Sends a frame.
async fn write<W: AsyncWrite + Unpin>(writer: &mut W, kind: u8, record: &[u8]) -> std::io::Result<()> {
    let length = u32::try_from(record.len()).ok().filter(|&length| length < 1 << 24);
    let length = length.ok_or(std::io::ErrorKind::InvalidInput)?;
    // One piece, so that it becomes one record of TLS.
    let mut frame = BytesMut::with_capacity(HEAD + record.len());
    frame.put_u32(u32::from(kind) << 24 | length);
    frame.put_slice(record);
    writer.write_all(&frame).await?;
    writer.flush().await
}

/// Sends the words of an end, and no more.
async fn say<W: AsyncWrite + Unpin>(writer: &mut W, farewell: &Farewell) -> std::io::Result<()> {
    let code = u8::try_from(farewell.code).unwrap_or(u8::MAX);
    write(writer, GOODBYE, &[&[code], &farewell.reason[..]].concat()).await?;
    writer.shutdown().await
}

fn gone(error: &std::io::Error) -> LinkError {
    LinkError::Tcp(error.to_string())
}

/// Sets up the socket of a link: what is written leaves at once, and little waits in the system, so that what
/// is chosen to be sent is new when it leaves.
pub(crate) fn prepare(socket: &TcpStream) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket2::SockRef::from(socket).set_tcp_notsent_lowat(MOST_UNSENT)?;
    Ok(())
}

const LANES: usize = 5;
/// DT-56: kinds of frames that are no records.
const STILL_THERE: u8 = 254;
const GOODBYE: u8 = 255;
/// Kind and length.
const HEAD: usize = 4;
/// The longest record (DT-5), in bytes.
const MOST_RECORD: usize = 65_536;
/// The longest words of an end, in bytes.
const MOST_WORDS: usize = 1024;
/// Records of a lane that wait at each end.
const RECORDS: usize = 4;
/// What the system may keep to send, in bytes.
#[cfg(any(target_os = "linux", target_os = "android"))]
const MOST_UNSENT: u32 = 32 << 10;
/// After how long without a record a frame is sent all the same, and when a link counts as dead (DT-57).
const KEEP_ALIVE: Duration = Duration::from_secs(3);
const SILENCE: Duration = Duration::from_secs(10);
/// How long the words of an end may take.
const FAREWELL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    /// What is sent at most, in bits per second: 100,000 bytes, of which 5000 at once.
    const MOST: u64 = 800_000;
    const SCREEN: usize = 1000;

    fn facts() -> TcpFacts {
        TcpFacts { remote: "127.0.0.1:1".parse().unwrap(), peer: None, exported: [0; 32] }
    }

    /// The next frame: its kind, and how long all of it is.
    async fn frame(reader: &mut (impl AsyncRead + Unpin)) -> (u8, usize) {
        let head = reader.read_u32().await.unwrap();
        let length = (head & 0x00ff_ffff) as usize;
        reader.read_exact(&mut vec![0; length]).await.unwrap();
        ((head >> 24) as u8, HEAD + length)
    }

    #[tokio::test]
    async fn what_is_urgent_waits_for_no_rate() {
        use quickset_base::number::Unsigned as _;

        let (near, mut far) = tokio::io::duplex(1 << 20);
        let begin = Instant::now();
        let link = TcpLink::start(near, facts(), TcpEnd::Server);
        link.set_max_rate_bps(Some(MOST));
        let (screen, control) = (link.sender(DesktopChannel::Screen), link.sender(DesktopChannel::Control));
        let drawing = tokio::spawn(async move { while screen.send(vec![7; SCREEN].into()).await.is_ok() {} });
        // Late readers only make it less.
        let (mut all, mut between) = (0, 0);
        let mut is_waited_for = false;
        for n in 0..100 {
            if n % 10 == 9 && !is_waited_for {
                control.send(vec![1; 10].into()).await.unwrap();
                (is_waited_for, between) = (true, 0);
            }
            let (kind, length) = frame(&mut far).await;
            all += length;
            let most = 5000.0 + 95_000.0 * begin.elapsed().as_secs_f64();
            assert!(all.approx() <= most, "{all} bytes, and {most} are allowed, after {n} frames");
            if kind == DesktopChannel::Control as u8 {
                assert!(is_waited_for);
                is_waited_for = false;
            } else {
                between += usize::from(is_waited_for);
                assert!(between < 3, "control waits for what is not urgent");
            }
        }
        // And as fast as it goes when nobody minds.
        link.set_max_rate_bps(None);
        for _ in 0..300 {
            timeout(Duration::from_secs(20), frame(&mut far)).await.unwrap();
        }
        drawing.abort();
    }
}
