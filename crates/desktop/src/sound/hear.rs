use std::time::Instant;

use bytes::Bytes;
use quickset::MessageReceiver;
use quickset_base::{Duration, Time};
use quickset_screen::sound::{PlayoutBuffer, SoundPiece, SoundStats, stretched};
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep_until;

use super::codec::SoundDecoder;
pub(crate) use super::play::{SoundPlayer, SoundSink};
use crate::channel::DesktopChannel;
use crate::link::PeerLink;

/// Hears the sound of one session, once its clipboard stream is there (`begin`), and tells what was
/// counted, and at which delay it plays. It never ends: nothing else depends on it (DT-75).
pub(crate) async fn hear(
    link: &PeerLink,
    begin: &Notify,
    sink: &SoundSink,
    tell: impl Fn(&SoundStats, Duration),
) -> std::convert::Infallible {
    begin.notified().await;
    match SoundDecoder::new() {
        Ok(decoder) => {
            if let Some(stream) = SoundRecords::accept(link).await {
                let buffer = PlayoutBuffer::with_lead(LEAD);
                Hearing { stream, buffer, decoder, sink, started: Instant::now() }.run(tell).await;
            }
        }
        Err(error) => tracing::warn!(%error, "no sound"),
    }
    std::future::pending().await
}

/// Records of the sound stream.
enum SoundRecords {
    Messages(MessageReceiver),
    Lane(mpsc::Receiver<Bytes>),
}

impl SoundRecords {
    /// DT-68: the server's second stream in both directions.
    async fn accept(link: &PeerLink) -> Option<Self> {
        match link {
            PeerLink::Gateway(connection) => {
                // We have nothing to say there.
                let (_, stream) = connection.accept_messages_bi().await.ok()?;
                Some(Self::Messages(stream))
            }
            PeerLink::Tcp(link) => link.receiver(DesktopChannel::Sound).map(Self::Lane),
            PeerLink::Page(_) => None,
        }
    }

    /// The next one; `None` when there will be no more. Dropping the future loses nothing.
    async fn next(&mut self) -> Option<Bytes> {
        match self {
            Self::Messages(stream) => Some(stream.next().await?.ok()?.payload),
            Self::Lane(lane) => lane.recv().await,
        }
    }
}

struct Hearing<'a> {
    stream: SoundRecords,
    buffer: PlayoutBuffer,
    decoder: SoundDecoder,
    sink: &'a SoundSink,
    started: Instant,
}

impl Hearing<'_> {
    async fn run(mut self, tell: impl Fn(&SoundStats, Duration)) {
        loop {
            let due = self.buffer.next_due().map(|due| self.started + due.since(Time::ZERO));
            tokio::select! {
                record = self.stream.next() => {
                    let Some(record) = record else { return };
                    let now = self.now();
                    self.buffer.receive(now, &record);
                }
                () = until(due) => {
                    let now = self.now();
                    if let Some(piece) = self.buffer.play(now) {
                        self.sink.play(self.sound(&piece));
                    }
                }
            }
            tell(self.buffer.stats(), self.buffer.delay());
        }
    }

    /// What is heard of a piece. A packet that makes no sense is a gap (DT-71).
    fn sound(&mut self, piece: &SoundPiece) -> Vec<i16> {
        let (packet, samples) = match piece {
            SoundPiece::Packet { packet, samples } => (Some(&packet[..]), Some(*samples)),
            SoundPiece::Conceal => (None, None),
        };
        let decoded = self.decoder.decode(packet).or_else(|_| self.decoder.decode(None));
        let sound = decoded.unwrap_or_default();
        match samples {
            Some(samples) => stretched(&sound, samples),
            None => sound,
        }
    }

    fn now(&self) -> Time {
        Time::ZERO + self.started.elapsed()
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// How long behind being handed over a piece is heard, about: of the 40 ms that `pacat` is asked for, 20 are
/// the piece itself. What other programs hold beyond that comes on top.
const LEAD: Duration = Duration::from_millis(25);
