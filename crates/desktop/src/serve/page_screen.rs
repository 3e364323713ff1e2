//! What goes to a page in a browser in datagrams: messages of the screen, with fences and repair, and frames
//! of sound (`spec/web.md`).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use quickset::h3::webtransport::{Session, SessionError};
use quickset_screen::sound::{SOUND_DATAGRAM, SoundFrame};
use quickset_web::{FencedSender, SenderOptions};
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;

use super::page_sound::PageSound;
use super::session::{LONG, Pace, TICK, estimate};
use super::stage::ClientSeat;
use crate::channel::DesktopChannel;
use crate::error::LinkError;
use crate::message::InputCopy;
use crate::sender::ScreenItem;
use crate::sound::give::NumberedFrames;

/// Shows the screen until something ends: encodes what has changed whenever the connection has room.
///
/// Whoever hears is sent `sound` at once. Input messages that come in datagrams go to `copies`.
pub(super) async fn show_page(
    session: &Session,
    seat: &ClientSeat,
    restart: &Notify,
    mut sound: Option<NumberedFrames>,
    copies: &mpsc::Sender<InputCopy>,
) -> LinkError {
    session.connection().set_datagram_priority(DesktopChannel::Screen.priority());
    let rtt = session.connection().stats().rtt;
    let sender = FencedSender::new(SenderOptions { rtt });
    let heard = PageSound::new(rtt);
    let mut screen = PageScreen {
        session,
        seat,
        copies,
        sender,
        apart: None,
        newest: 0,
        sound: heard,
        sound_apart: None,
        flying: PageFlights::default(),
        rests: false,
    };
    loop {
        // DT-68: before the screen.
        let low = match screen.send_sound().and_then(|()| screen.fill()) {
            Ok(low) => low,
            Err(error) => return error,
        };
        let low = if screen.apart.is_some() || screen.sound_apart.is_some() { Some(0) } else { low };
        screen.look_for_rest();
        tokio::select! {
            () = seat.drawn.notified() => {}
            datagram = session.next_datagram() => {
                let heard = datagram.map_err(LinkError::from).and_then(|datagram| screen.hear(&datagram));
                if let Err(error) = heard {
                    return error;
                }
            }
            (frame, recorded) = next_frame(&mut sound) => screen.hears(&frame, recorded),
            // DT-4, WB-17.
            () = restart.notified() => screen.restart(),
            drained = drained(session, low) => if let Err(error) = drained {
                return error;
            },
            () = sleep(screen.wait()) => {}
        }
        screen.settle();
    }
}

struct PageScreen<'a> {
    session: &'a Session,
    seat: &'a ClientSeat,
    copies: &'a mpsc::Sender<InputCopy>,
    sender: FencedSender,
    /// Repair that waits until what it may have to replace is in another packet.
    apart: Option<Vec<u8>>,
    /// Bytes of the newest datagram that was handed over.
    newest: usize,
    sound: PageSound,
    /// The same of sound.
    sound_apart: Option<Vec<u8>>,
    flying: PageFlights,
    /// At the last look the client had all there is.
    rests: bool,
}

/// What the screen's sender calls a message, and the number that it has on the wire.
#[derive(Default)]
struct PageFlights {
    ids: BTreeMap<u64, u64>,
    numbers: BTreeMap<u64, u64>,
}

impl PageScreen<'_> {
    /// Sends while there is room. When there is more to come: how little has to be unsent before it is time
    /// to look again.
    fn fill(&mut self) -> Result<Option<usize>, LinkError> {
        let stats = self.session.connection().stats();
        self.seat.sender().set_link(estimate(&stats));
        let pace = Pace::of(&stats);
        let mut sent = false;
        let low = loop {
            let Some(room) = self.send(pace)? else { break Some(pace.low(self.seat.sender().budget())) };
            if !self.sender.has_room() {
                // Reports make room.
                break None;
            }
            let longest = self.session.max_datagram().map_or(0, |most| self.sender.longest(most));
            let now = self.seat.now();
            let mut screen = self.seat.sender();
            screen.set_budget(longest);
            if longest < screen.budget() {
                // The path takes no datagram that is long enough: QUIC itself would not work on it.
                return Err(LinkError::Ended);
            }
            match screen.poll(now, room.max(longest)) {
                Some(ScreenItem::Message { id, payload, keep }) => {
                    let number = self.sender.message(payload, keep);
                    self.flying.add(id, number);
                    sent = true;
                }
                Some(ScreenItem::Fence) => {
                    self.sender.fence();
                    // Somebody waits for what is before it; of an update that is long the end is far.
                    if self.sender.fresh() >= MANY {
                        self.sender.repair(self.sender.repairs_due());
                    }
                }
                Some(ScreenItem::Flush) => {}
                None => {
                    // All there is: its end is what somebody waits for.
                    drop(screen);
                    self.sender.repair(self.sender.repairs_due());
                    let is_full = self.send(pace)?.is_none();
                    break is_full.then(|| pace.low(longest));
                }
            }
        };
        if sent {
            // Marks follow what is sent.
            self.seat.told.notify_one();
        }
        Ok(low)
    }

    /// Sends what is queued. How many bytes may still wait to be sent; `None` when no more may.
    fn send(&mut self, pace: Pace) -> Result<Option<usize>, LinkError> {
        let (_, mut unsent) = self.session.connection().unsent_datagrams();
        while unsent < pace.queue {
            let Some(datagram) = self.apart.take().or_else(|| self.sender.poll(self.seat.now())) else {
                return Ok(Some(pace.queue - unsent));
            };
            match self.put(&datagram, FencedSender::is_repair(&datagram), &mut unsent) {
                Ok(true) => {}
                Ok(false) => {
                    self.apart = Some(datagram);
                    return Ok(None);
                }
                // The path takes less than it did when the message was made.
                Err(SessionError::TooLarge(_)) => self.restart(),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// Hands over a datagram, where `unsent` bytes wait. False for repair that is to wait until they are
    /// gone: in the packet of the newest message it would be lost with it. A key is often answered by a
    /// single small message.
    fn put(&mut self, datagram: &[u8], is_repair: bool, unsent: &mut usize) -> Result<bool, SessionError> {
        let longest = self.session.max_datagram().unwrap_or(0);
        if is_repair && *unsent > 0 && self.newest + datagram.len() <= longest {
            return Ok(false);
        }
        self.session.send_datagram(datagram)?;
        *unsent += datagram.len();
        self.newest = datagram.len();
        Ok(true)
    }

    /// A datagram of the page.
    fn hear(&mut self, datagram: &[u8]) -> Result<(), LinkError> {
        if InputCopy::is_one(datagram) {
            // Where the desktop takes nothing they wait in the stream.
            let _ = self.copies.try_send(InputCopy::decode(datagram)?);
            return Ok(());
        }
        match datagram.split_first() {
            // WB-23.
            Some((&SOUND_DATAGRAM, datagram)) => self.sound.report(self.seat.now(), datagram)?,
            _ => self.sender.report(self.seat.now(), datagram)?,
        }
        Ok(())
    }

    /// A frame is there.
    fn hears(&mut self, frame: &SoundFrame, recorded: Instant) {
        let now = self.seat.now();
        self.sound.frame(now, now - recorded.elapsed(), frame);
    }

    /// Sends the sound that there is, unless the connection stands still.
    fn send_sound(&mut self) -> Result<(), LinkError> {
        let connection = self.session.connection();
        let most = Pace::of(&connection.stats()).queue + SOUND_ROOM;
        let (_, mut unsent) = connection.unsent_datagrams();
        while unsent < most {
            let next = self.sound_apart.take().or_else(|| self.sound.poll(self.seat.now()));
            let Some(datagram) = next else { break };
            match self.put(&datagram, FencedSender::is_repair(&datagram[1..]), &mut unsent) {
                Ok(false) => {
                    self.sound_apart = Some(datagram);
                    break;
                }
                // DT-75: where it is too large nothing else would work on the path either.
                Ok(true) | Err(SessionError::TooLarge(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// What became of messages, and which nobody needs any more.
    fn settle(&mut self) {
        while let Some((number, arrived)) = self.sender.next_outcome() {
            if let Some(id) = self.flying.landed(number) {
                self.seat.sender().outcome(id, arrived);
            }
        }
        loop {
            let Some(id) = self.seat.sender().superseded() else { break };
            if let Some(&number) = self.flying.numbers.get(&id) {
                self.sender.abandon(number);
            }
        }
    }

    fn restart(&mut self) {
        self.sender.restart();
        self.apart = None;
        self.flying = PageFlights::default();
        self.seat.sender().restart();
    }

    /// DT-36: that the screen has come to rest is to be told.
    fn look_for_rest(&mut self) {
        let rests = self.seat.sender().is_at_rest();
        if rests && !self.rests {
            self.seat.told.notify_one();
        }
        self.rests = rests;
    }

    /// How long nothing is due.
    fn wait(&self) -> Duration {
        let now = self.seat.now();
        let due =
            [self.seat.sender().next_deadline(), self.sender.next_deadline(), self.sound.next_deadline()];
        due.into_iter().flatten().min().map_or(LONG, |due| due.since(now)).max(TICK)
    }
}

/// The next frame for a client that hears.
async fn next_frame(sound: &mut Option<NumberedFrames>) -> (SoundFrame, Instant) {
    match sound {
        Some(frames) => frames.next().await,
        None => std::future::pending().await,
    }
}

/// Waits until there is room again, if there was none.
async fn drained(session: &Session, low: Option<usize>) -> Result<(), LinkError> {
    match low {
        Some(low) => session.connection().datagrams_drained_to(low).await.map_err(LinkError::Closed),
        None => std::future::pending().await,
    }
}

impl PageFlights {
    fn add(&mut self, id: u64, number: u64) {
        self.ids.insert(number, id);
        self.numbers.insert(id, number);
    }

    fn landed(&mut self, number: u64) -> Option<u64> {
        let id = self.ids.remove(&number)?;
        self.numbers.remove(&id);
        Some(id)
    }
}

/// Bytes of sound that may wait beside the screen's.
const SOUND_ROOM: usize = 4 << 10;
/// Messages that are worth repair of their own before the end of an update.
const MANY: u64 = 32;
