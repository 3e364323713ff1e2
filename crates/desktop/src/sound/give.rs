use std::time::{Duration, Instant};

use quickset::{Connection, Deadline, MessageSender, SendError};
use quickset_screen::sound::SoundFrame;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::watch;

use super::record::{RecordedFrame, SoundSource};
use crate::channel::DesktopChannel;
use crate::error::LinkError;
use crate::link::PeerLink;
use crate::tcp::TcpLink;

/// Gives a client what is recorded, on the sound stream, which is opened now: that of the clipboard is open
/// (DT-68). It ends with the link alone (DT-75).
pub(crate) async fn give_sound(link: &PeerLink, frames: NumberedFrames) -> LinkError {
    match link {
        PeerLink::Gateway(connection) => give_by_quic(connection, frames).await,
        PeerLink::Tcp(link) => give_by_tcp(link, frames).await,
        // It has no stream for it: it comes with the screen's datagrams (WB-23).
        PeerLink::Page(_) => std::future::pending().await,
    }
}

/// What is recorded, counted for one client, while that wants to hear (DT-76).
#[derive(Debug)]
pub(crate) struct NumberedFrames {
    source: SoundSource,
    wanted: watch::Receiver<bool>,
    /// `None`: this client does not hear, and nobody records for it.
    frames: Option<Receiver<RecordedFrame>>,
    number: u64,
}

impl NumberedFrames {
    pub(crate) fn new(source: SoundSource, wanted: watch::Receiver<bool>) -> Self {
        Self { source, wanted, frames: None, number: 0 }
    }

    /// The next, and when it was recorded. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> (SoundFrame, Instant) {
        loop {
            if !*self.wanted.borrow_and_update() {
                self.frames = None;
                wanted_again(&mut self.wanted).await;
                continue;
            }
            let frames = self.frames.get_or_insert_with(|| self.source.listen());
            let frame = tokio::select! {
                () = wanted_again(&mut self.wanted) => continue,
                frame = frames.recv() => frame,
            };
            match frame {
                Ok(RecordedFrame { time, recorded, packet }) => {
                    let number = self.number;
                    self.number += 1;
                    return (SoundFrame { number, time, packet }, recorded);
                }
                // They are too old to be of use, and count as lost (DT-69).
                Err(RecvError::Lagged(missed)) => self.number += missed,
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}

/// Waits until the client says that it wants to hear, or does not.
async fn wanted_again(wanted: &mut watch::Receiver<bool>) {
    if wanted.changed().await.is_err() {
        // Its session ends.
        std::future::pending::<()>().await;
    }
}

async fn give_by_quic(connection: &Connection, mut frames: NumberedFrames) -> LinkError {
    let protection = frames.source.protection();
    // What the client says there is nothing.
    let mut stream = match connection.open_messages_bi().await {
        Ok((stream, _)) => stream.with(protection),
        Err(closed) => return LinkError::Closed(closed),
    };
    stream.set_priority(DesktopChannel::Sound.priority());
    loop {
        let (frame, recorded) = frames.next().await;
        match send(connection, &mut stream, &frame, recorded).await {
            Ok(()) => {}
            Err(SendError::Closed(closed)) => return LinkError::Closed(closed),
            Err(error) => {
                tracing::info!(%error, "the client wants no more sound");
                return std::future::pending().await;
            }
        }
    }
}

/// DT-70: by its deadline, repaired by what that leaves.
async fn send(
    connection: &Connection,
    stream: &mut MessageSender,
    frame: &SoundFrame,
    recorded: Instant,
) -> Result<(), SendError> {
    let deadline = Deadline::At(deadline(recorded, connection.stats().rtt));
    stream.send_before(frame.record(), deadline, recorded + NEXT).await.map(drop)
}

/// DT-70.
fn deadline(recorded: Instant, rtt: Duration) -> Instant {
    recorded + rtt / 2 + PATIENCE
}

/// DT-70: what cannot leave soon is dropped.
async fn give_by_tcp(link: &TcpLink, mut frames: NumberedFrames) -> LinkError {
    let lane = link.sender(DesktopChannel::Sound);
    loop {
        let (frame, _) = frames.next().await;
        match lane.try_send(frame.record()) {
            Ok(()) | Err(TrySendError::Full(_)) => {}
            Err(TrySendError::Closed(_)) => return link.closed().await,
        }
    }
}

/// DT-70: by when a frame has to leave.
pub(crate) const PATIENCE: Duration = Duration::from_millis(70);
/// When the next frame is there, and a little.
const NEXT: Duration = Duration::from_millis(22);

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use quickset::Protection;
    use tokio::io::AsyncReadExt as _;

    use super::*;
    use crate::sound::SoundCommand;
    use crate::tcp::{TcpEnd, TcpFacts};

    #[test]
    fn a_frame_is_of_use_for_half_a_round_trip_and_70_ms() {
        // DT-70.
        let now = Instant::now();
        for (rtt, ms) in [(0, 70), (100, 120), (300, 220)] {
            let until = deadline(now, Duration::from_millis(rtt));
            assert_eq!(until.duration_since(now), Duration::from_millis(ms));
        }
    }

    /// A client that reads nothing for four seconds: there is what the lane holds, and nothing waits for it.
    #[tokio::test]
    async fn what_cannot_leave_by_tcp_is_dropped() {
        // DT-70.
        let (near, mut far) = tokio::io::duplex(2000);
        let facts = TcpFacts { remote: ([127, 0, 0, 1], 1).into(), peer: None, exported: [0; 32] };
        let link = PeerLink::Tcp(TcpLink::start(near, facts, TcpEnd::Server));
        let source = SoundSource::new(SoundCommand::new("none", [""; 0]), Protection::None);
        let (_wants, wanted) = watch::channel(true);
        let frames = NumberedFrames::new(source.clone(), wanted);
        let feed = async {
            for n in 0..200 {
                let packet = Bytes::from([&[0xfc][..], &[0; 239]].concat());
                source.tell(RecordedFrame { time: n * 960, recorded: Instant::now(), packet });
                // Everybody has a turn.
                for _ in 0..5 {
                    tokio::task::yield_now().await;
                }
            }
        };
        tokio::select! {
            biased;
            error = give_sound(&link, frames) => panic!("{error}"),
            () = feed => {}
        }
        drop(link);
        let mut bytes = Vec::new();
        far.read_to_end(&mut bytes).await.unwrap();
        let (mut rest, mut numbers) = (&bytes[..], Vec::new());
        while let [kind, a, b, c, more @ ..] = rest {
            let (record, next) = more.split_at(u32::from_be_bytes([0, *a, *b, *c]) as usize);
            if *kind == DesktopChannel::Sound as u8 {
                numbers.extend(SoundFrame::read(&Bytes::copy_from_slice(record)).map(|frame| frame.number));
            }
            rest = next;
        }
        // 2000 bytes are less than eight; one is being written, and four may wait.
        assert!((5..=13).contains(&numbers.len()), "{numbers:?}");
    }
}
