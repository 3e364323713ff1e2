//! The client of a desktop in a browser: what comes of a session of WebTransport becomes a screen, and what a
//! person does becomes bytes.
//!
//! [`PageViewer`] has the rules of `spec/web.md` §8 and `spec/desktop.md`; whoever drives it has the session,
//! the clock and something to draw on. Nothing here trusts a length of the server's.

#![forbid(unsafe_code)]

mod frames;
mod hearing;
#[cfg(any(feature = "wasm", test))]
mod rgba;
mod visit;
#[cfg(feature = "wasm")]
#[cfg_attr(docsrs, doc(cfg(feature = "wasm")))]
pub mod wasm;

use std::collections::VecDeque;

use quickset_base::Time;
use quickset_rfb::{Cursor, Framebuffer, Leds};
use quickset_screen::message::{
    ADAPTIVE, CLIPBOARD, ClientOffer, ClipboardMessage, DeviceTag, FULL_COLOUR, FromClient, FromServer,
    Hello, HelloChoice, MessageFault, PATCHES, RecordInbox, RecordSplitter, ScreenLayout, ScreenOrder,
    ShownToken, VisitId, Welcome, stream_bytes,
};
use quickset_screen::receiver::{Changes, ReceiverConfig, ReceiverStats, ScreenReceiver};
use quickset_screen::sound::{SENDS_SOUND, SOUND_DATAGRAM, WANTS_SOUND};
use quickset_web::{DatagramFault, FencedReceiver, FencedReceiverStats};

use frames::{FrameSplitter, IncomingFrame};
use hearing::PageHearing;
pub use hearing::{PageSoundFigures, PageSoundPiece, SOUND_LEAD};
pub use visit::PageInputs;

/// A viewer on one session. The contract:
///
/// 1. Send [`hello`](Self::hello) as the first bytes of the first stream in both directions, and open a
///    stream for input.
/// 2. Give what comes to [`control_bytes`](Self::control_bytes), [`clipboard_bytes`](Self::clipboard_bytes)
///    and [`datagram`](Self::datagram), and end the session at a fault, with its [`code`](ViewerFault::code).
/// 3. Then, and at [`next_deadline`](Self::next_deadline), send what [`next_control`](Self::next_control) and
///    [`next_datagram`](Self::next_datagram) return until they say `None`, take the news, and draw the
///    changes.
/// 4. Where the welcome [`offers_sound`](Self::offers_sound), say whether somebody
///    [`wants`](Self::wants_sound) it. At [`sound_due`](Self::sound_due) decode what
///    [`next_sound`](Self::next_sound) has, until it says `None`, and play it [`SOUND_LEAD`] later, one piece
///    behind the other.
#[derive(Debug)]
pub struct PageViewer {
    max_bytes: usize,
    control: StreamEnd,
    clipboard: StreamEnd,
    fenced: FencedReceiver,
    sound: PageHearing,
    /// Nothing is drawn before the order is known.
    screen: Option<ScreenReceiver>,
    nothing: Framebuffer,
    replies: VecDeque<FromClient>,
    news: VecDeque<PageNews>,
    /// By WebSocket; `None`: by WebTransport.
    frames: Option<FrameSplitter>,
}

/// Bytes of a stream to messages.
#[derive(Debug, Default)]
struct StreamEnd {
    splitter: RecordSplitter,
    inbox: RecordInbox<FromServer>,
}

/// What the server says beside the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageNews {
    /// The viewer may look.
    Welcome(Welcome),
    /// The desktop is called so.
    Name(String),
    /// The pointer looks so.
    Cursor(Cursor),
    /// The lights of the keyboard.
    Leds(Leds),
    /// A sound.
    Bell,
    /// A size was set, or a wish for one answered.
    Layout(ScreenLayout),
    /// Of the clipboard.
    Clipboard(ClipboardMessage),
    /// The answer to a [`PageViewer::ping`].
    Pong(u64),
    /// How many input messages of the visit were passed on.
    Taken(u64),
    /// The session is over, on a WebSocket.
    Goodbye {
        /// `spec/desktop.md` §11.
        code: u64,
        /// The server's, for a person.
        words: String,
    },
}

/// Why the session is to be ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewerFault {
    /// A message cannot be read.
    #[error("the server does not speak as it should: {0}")]
    Message(#[from] MessageFault),
    /// A datagram cannot be read.
    #[error("the server does not speak as it should: {0}")]
    Datagram(#[from] DatagramFault),
    /// Something came before the welcome, or again.
    #[error("the server says something out of turn")]
    OutOfTurn,
}

impl ViewerFault {
    /// The code to end the session with; `spec/desktop.md` §11.
    pub fn code(&self) -> u64 {
        match self {
            Self::Message(fault) => fault.code(),
            Self::Datagram(_) | Self::OutOfTurn => quickset_screen::message::code::PROTOCOL,
        }
    }
}

impl PageViewer {
    /// A viewer for screens of at most `max_bytes`, four a pixel.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            control: StreamEnd::default(),
            clipboard: StreamEnd::default(),
            fenced: FencedReceiver::new(),
            sound: PageHearing::new(),
            screen: None,
            nothing: Framebuffer::new(0, 0, max_bytes).expect("no pixels always fit"),
            replies: VecDeque::new(),
            news: VecDeque::new(),
            frames: None,
        }
    }

    /// The same on a WebSocket (WB-19): give what comes to [`socket_bytes`](Self::socket_bytes) alone, and
    /// send what [`hello`](Self::hello) and [`next_control`](Self::next_control) return as
    /// [`control_frames`](Self::control_frames).
    pub fn by_socket(max_bytes: usize) -> Self {
        Self { frames: Some(FrameSplitter::default()), ..Self::new(max_bytes) }
    }

    /// What bytes for the control stream are on a WebSocket.
    pub fn control_frames(bytes: &[u8]) -> Vec<u8> {
        frames::frames(frames::CONTROL, bytes)
    }

    /// Bytes that a WebSocket has brought.
    ///
    /// # Errors
    /// See [`ViewerFault`].
    pub fn socket_bytes(&mut self, now: Time, bytes: &[u8]) -> Result<(), ViewerFault> {
        let mut splitter = self.frames.take().unwrap_or_default();
        splitter.feed(bytes);
        while let Some(frame) = splitter.next_frame()? {
            match frame {
                IncomingFrame::Control(record) => {
                    if let Some(message) = self.control.inbox.receive(&record)? {
                        self.hear(now, message)?;
                    }
                }
                IncomingFrame::Screen(record) => {
                    self.screen.as_mut().ok_or(ViewerFault::OutOfTurn)?.receive(&record)?;
                }
                IncomingFrame::Clipboard(record) => match self.clipboard.inbox.receive(&record)? {
                    Some(FromServer::Clipboard(text)) => self.news.push_back(PageNews::Clipboard(text)),
                    Some(_) => return Err(ViewerFault::OutOfTurn),
                    None => {}
                },
                IncomingFrame::Sound(record) => self.sound.record(now, record),
                IncomingFrame::StillThere => {}
                IncomingFrame::Goodbye { code, words } => {
                    self.news.push_back(PageNews::Goodbye { code, words });
                }
            }
        }
        self.frames = Some(splitter);
        Ok(())
    }

    /// The first bytes for the control stream: who shows this token may look, at this desktop or whichever
    /// there is. `device` is what the browser calls itself, by a text of its own that it keeps.
    pub fn hello(token: &str, desktop: &str, device: &str) -> Vec<u8> {
        Self::hello_of(None, token, desktop, device)
    }

    fn hello_of(visit: Option<VisitId>, token: &str, desktop: &str, device: &str) -> Vec<u8> {
        // WB-15, WB-20.
        let offer = Some(ClientOffer::Token(ShownToken::new(token)));
        let device = DeviceTag(device.to_owned());
        let choice = HelloChoice { desktop: desktop.to_owned(), device, ..HelloChoice::default() };
        // DT-67, DT-76: sound comes once somebody hears.
        let features = ADAPTIVE | CLIPBOARD | PATCHES | FULL_COLOUR | WANTS_SOUND;
        stream_bytes(&FromClient::Hello(Hello { features, offer, choice, visit, ..Hello::default() }))
    }

    /// Bytes of the control stream.
    ///
    /// # Errors
    /// See [`ViewerFault`].
    pub fn control_bytes(&mut self, now: Time, bytes: &[u8]) -> Result<(), ViewerFault> {
        self.control.splitter.feed(bytes);
        while let Some(message) = self.control.next()? {
            self.hear(now, message)?;
        }
        self.draw()
    }

    /// Bytes of the server's stream of the clipboard.
    ///
    /// # Errors
    /// See [`ViewerFault`].
    pub fn clipboard_bytes(&mut self, bytes: &[u8]) -> Result<(), ViewerFault> {
        self.clipboard.splitter.feed(bytes);
        while let Some(message) = self.clipboard.next()? {
            match message {
                FromServer::Clipboard(text) => self.news.push_back(PageNews::Clipboard(text)),
                _ => return Err(ViewerFault::OutOfTurn),
            }
        }
        Ok(())
    }

    /// A datagram.
    ///
    /// # Errors
    /// See [`ViewerFault`].
    pub fn datagram(&mut self, now: Time, datagram: &[u8]) -> Result<(), ViewerFault> {
        match datagram.split_first() {
            // WB-23.
            Some((&SOUND_DATAGRAM, datagram)) => self.sound.datagram(now, datagram)?,
            _ => self.fenced.receive(now, datagram)?,
        }
        self.draw()
    }

    /// The next bytes for the control stream.
    pub fn next_control(&mut self, now: Time) -> Option<Vec<u8>> {
        let reply = self.replies.pop_front();
        let message = reply.or_else(|| self.screen.as_mut()?.control(now))?;
        Some(stream_bytes(&message))
    }

    /// The next datagram to send.
    pub fn next_datagram(&mut self, now: Time) -> Option<Vec<u8>> {
        self.fenced.report(now).or_else(|| self.sound.report(now))
    }

    /// What the server has said, in order.
    pub fn next_news(&mut self) -> Option<PageNews> {
        self.news.pop_front()
    }

    /// When to ask again even if nothing comes.
    pub fn next_deadline(&self) -> Option<Time> {
        let screen = self.screen.as_ref().and_then(ScreenReceiver::next_deadline);
        [self.fenced.next_deadline(), self.sound.report_due(), screen].into_iter().flatten().min()
    }

    /// The screen as far as it has come.
    pub fn screen(&self) -> &Framebuffer {
        self.screen.as_ref().map_or(&self.nothing, ScreenReceiver::screen)
    }

    /// What of it has changed since the last call.
    pub fn changes(&mut self) -> Changes {
        self.screen.as_mut().map(ScreenReceiver::changes).unwrap_or_default()
    }

    /// Asks the server to answer, by which one measures how far away it is.
    pub fn ping(&mut self, number: u64) {
        self.replies.push_back(FromClient::Ping(number));
    }

    /// Asks for another size of the screen.
    pub fn wish(&mut self, width: u16, height: u16) {
        self.replies.push_back(FromClient::Wish { width, height, screens: Vec::new() });
    }

    /// Asks the server to send no more than so many bits per second; 0: as much as it likes.
    pub fn wants_rate(&mut self, bps: u64) {
        // WB-28.
        self.replies.push_back(FromClient::Rate { bps });
    }

    /// Asks for pictures of a quality of JPEG between these, each 1 to 100; two zeros: as the server likes.
    pub fn wants_quality(&mut self, least: u8, most: u8) {
        self.replies.push_back(FromClient::Quality { least, most });
    }

    /// Whether the server has sound for whoever hears.
    pub fn offers_sound(welcome: &Welcome) -> bool {
        welcome.features & SENDS_SOUND != 0
    }

    /// Says whether somebody hears from now on. Nobody does at first (DT-76).
    pub fn wants_sound(&mut self, wanted: bool) {
        self.replies.push_back(FromClient::Hear(wanted));
    }

    /// When to ask for the [`next_sound`](Self::next_sound); `None`: when something has come.
    pub fn sound_due(&self) -> Option<Time> {
        self.sound.due()
    }

    /// What is to be decoded and played next, if it is due.
    pub fn next_sound(&mut self, now: Time) -> Option<PageSoundPiece> {
        self.sound.next(now)
    }

    /// What has come of sound.
    pub fn sound(&self) -> PageSoundFigures {
        self.sound.figures()
    }

    /// What came of datagrams.
    pub fn datagrams(&self) -> &FencedReceiverStats {
        self.fenced.stats()
    }

    /// What came of the screen, once there is one.
    pub fn messages(&self) -> Option<&ReceiverStats> {
        self.screen.as_ref().map(ScreenReceiver::stats)
    }

    fn hear(&mut self, now: Time, message: FromServer) -> Result<(), ViewerFault> {
        let news = match (message, &mut self.screen) {
            (FromServer::Welcome(welcome), screen @ None) => {
                // DT-56.
                let order = if self.frames.is_some() { ScreenOrder::Ordered } else { welcome.order };
                let max_bytes = self.max_bytes;
                let config = ReceiverConfig { order, max_bytes, ..ReceiverConfig::default() };
                *screen = Some(ScreenReceiver::new(config));
                PageNews::Welcome(welcome)
            }
            // DT-2.
            (_, None) | (FromServer::Welcome(_) | FromServer::Share { .. }, Some(_)) => {
                return Err(ViewerFault::OutOfTurn);
            }
            (FromServer::Mark(mark), Some(screen)) => {
                screen.mark(now, mark);
                return Ok(());
            }
            (FromServer::Ping(number), Some(_)) => {
                // DT-13.
                if self.replies.len() < MOST_REPLIES {
                    self.replies.push_back(FromClient::Pong(number));
                }
                return Ok(());
            }
            (FromServer::Pong(number), Some(_)) => PageNews::Pong(number),
            (FromServer::Taken(count), Some(_)) => PageNews::Taken(count),
            (FromServer::Layout(layout), Some(_)) => PageNews::Layout(layout),
            (FromServer::Cursor(cursor), Some(_)) => PageNews::Cursor(cursor),
            (FromServer::Name(name), Some(_)) => PageNews::Name(name),
            (FromServer::Leds(leds), Some(_)) => PageNews::Leds(leds),
            (FromServer::Bell, Some(_)) => PageNews::Bell,
            (FromServer::Clipboard(text), Some(_)) => PageNews::Clipboard(text),
        };
        self.news.push_back(news);
        Ok(())
    }

    /// Draws what is delivered.
    fn draw(&mut self) -> Result<(), ViewerFault> {
        // WB-18: what comes before the welcome waits for it.
        let Some(screen) = &mut self.screen else { return Ok(()) };
        while let Some(message) = self.fenced.next() {
            screen.receive(&message)?;
        }
        Ok(())
    }
}

impl StreamEnd {
    fn next(&mut self) -> Result<Option<FromServer>, MessageFault> {
        while let Some(record) = self.splitter.next_record()? {
            if let Some(message) = self.inbox.receive(&record)? {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }
}

/// Answers that wait to be sent.
const MOST_REPLIES: usize = 64;

#[cfg(test)]
mod tests {
    use quickset_screen::message::{Permissions, ScreenOrder};

    use super::*;

    const NOW: Time = Time::from_millis(5);

    fn welcome(order: ScreenOrder) -> FromServer {
        FromServer::Welcome(Welcome {
            features: 0,
            order,
            permissions: Permissions::ALL,
            name: "desk".into(),
            visit: None,
        })
    }

    /// A message of the sequence: a screen of 4 x 4, number 0, behind nothing.
    const SIZE: [u8; 9] = [1, 0, 0, 0, 1, 1, 0, 4, 4];

    #[test]
    fn what_comes_before_the_welcome_waits_for_it() {
        // WB-18.
        let mut viewer = PageViewer::new(1 << 20);
        viewer.datagram(NOW, &SIZE).unwrap();
        assert_eq!(viewer.screen().bounds().area(), 0);
        viewer.control_bytes(NOW, &stream_bytes(&welcome(ScreenOrder::Latest))).unwrap();
        assert_eq!((viewer.screen().width(), viewer.screen().height()), (4, 4));
        assert!(viewer.changes().resized);
        assert!(matches!(viewer.next_news(), Some(PageNews::Welcome(_))));
    }

    #[test]
    fn a_server_that_speaks_out_of_turn_is_left() {
        let mut viewer = PageViewer::new(1 << 20);
        let early = viewer.control_bytes(NOW, &stream_bytes(&FromServer::Bell));
        assert_eq!(early, Err(ViewerFault::OutOfTurn));
        let mut viewer = PageViewer::new(1 << 20);
        let hello = stream_bytes(&welcome(ScreenOrder::Fenced));
        viewer.control_bytes(NOW, &hello).unwrap();
        assert_eq!(viewer.control_bytes(NOW, &hello), Err(ViewerFault::OutOfTurn));
        let on_clipboard = viewer.clipboard_bytes(&stream_bytes(&FromServer::Bell));
        assert_eq!(on_clipboard.map_err(|fault| fault.code()), Err(1));
    }

    #[test]
    fn no_number_of_the_server_is_trusted() {
        // DT-20: a screen beyond what this page wants to hold; DT-6: an item of no kind; WB-2.
        let mut viewer = PageViewer::new(1 << 20);
        viewer.control_bytes(NOW, &stream_bytes(&welcome(ScreenOrder::Fenced))).unwrap();
        let large = viewer.datagram(NOW, &[1, 0, 0, 0, 1, 1, 0, 0x7f, 0xff, 0x7f, 0xff]);
        assert_eq!(large.map_err(|fault| fault.code()), Err(4));
        let mut viewer = PageViewer::new(1 << 20);
        viewer.control_bytes(NOW, &stream_bytes(&welcome(ScreenOrder::Fenced))).unwrap();
        viewer.datagram(NOW, &SIZE).unwrap();
        assert_eq!(viewer.datagram(NOW, &[1, 0, 1, 0, 1, 2, 99]).map_err(|fault| fault.code()), Err(1));
        assert_eq!(viewer.datagram(NOW, &[3, 0, 0, 0, 0]).map_err(|fault| fault.code()), Err(1));
    }

    #[test]
    fn what_a_person_wishes_is_said() {
        // WB-28: as spec/desktop.md §15 has them, each behind its length.
        let mut viewer = PageViewer::new(1 << 20);
        viewer.control_bytes(NOW, &stream_bytes(&welcome(ScreenOrder::Fenced))).unwrap();
        viewer.wants_rate(5_000_000);
        viewer.wants_quality(80, 100);
        assert_eq!(viewer.next_control(NOW), Some(vec![5, 0x16, 0x80, 0x4c, 0x4b, 0x40]));
        assert_eq!(viewer.next_control(NOW), Some(vec![3, 0x17, 80, 100]));
        // More than the protocol can say is as much as it can.
        viewer.wants_rate(u64::MAX);
        assert_eq!(
            viewer.next_control(NOW).map(|said| said[1..].to_vec()),
            Some([&[0x16], &[0xff; 8][..]].concat())
        );
    }

    #[test]
    fn pings_are_answered_and_flooding_with_them_holds_little() {
        // DT-13.
        let mut viewer = PageViewer::new(1 << 20);
        viewer.control_bytes(NOW, &stream_bytes(&welcome(ScreenOrder::Fenced))).unwrap();
        for number in 0..1000 {
            viewer.control_bytes(NOW, &stream_bytes(&FromServer::Ping(number))).unwrap();
        }
        let first = viewer.next_control(NOW);
        assert_eq!(first, Some(stream_bytes(&FromClient::Pong(0))));
        assert_eq!(std::iter::from_fn(|| viewer.next_control(NOW)).count(), MOST_REPLIES - 1);
    }
}
