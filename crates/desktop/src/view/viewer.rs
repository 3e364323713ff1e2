use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Buf as _;
use quickset_base::Rng;
use quickset_rfb::{
    ClipboardCaps, Error, ExtendedClipboard as Extended, Fence, Formats, Limits, Rect, ResizeStatus,
    Security, Server, ServerConfig, ServerEvent, ViewerFeatures,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};

use super::desk::{ClipboardNews, ViewerScreen, ViewerSeat};
use super::inputs::Act;
use super::nearness::ViewerNearness;
use super::owner;
use super::pointer::Painted;
use super::telling::{Telling, refused};
use crate::clip::ClipboardWay;
use crate::held::HeldInput;
use crate::local;
use crate::message::{ClipboardMessage, HeldKey, PersonInput};

/// An unmodified viewer on a local connection.
///
/// At most one update is on its way to it: what changes meanwhile is an area at the [`ViewerScreen`]. A
/// viewer that knows RFB's fences says with its answers when it has drawn one.
#[derive(Debug)]
pub(crate) struct LocalViewer {
    rfb: Server,
    seat: ViewerSeat,
    held: HeldInput,
    features: ViewerFeatures,
    /// The pointer on its screen, unless it draws that itself.
    painted: Painted,
    /// The key that shows the words in the corner, or hides them, is down.
    toggled: bool,
    /// It waits for an update of this area.
    request: Option<Rect>,
    /// It wants the whole of that area.
    full: bool,
    /// It takes updates of this area without asking.
    continuous: Option<Rect>,
    /// Updates that it has not answered the fence of.
    unanswered: u8,
    /// It connects from this machine.
    is_local: bool,
    nearness: ViewerNearness,
    /// What it has said of its extended clipboard.
    caps: Option<ClipboardCaps>,
    /// It has asked for a text, and knows how to.
    asked: bool,
    /// It has to ask somebody for a password.
    asks: bool,
    /// The handshake is over.
    ready: bool,
    /// Memory for pixels that are to be encoded, empty between updates.
    copied: Vec<u32>,
}

/// Why a viewer is gone.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ViewerGone {
    #[error("the connection to the viewer failed: {0}")]
    Io(#[from] io::Error),
    #[error("the viewer does not speak RFB as it should: {0}")]
    Rfb(#[from] Error),
    #[error("the viewer says nothing")]
    Silent,
}

impl LocalViewer {
    /// Serves a viewer until it leaves.
    pub(crate) async fn serve(
        mut socket: TcpStream,
        desk: Arc<ViewerScreen>,
        security: Security,
    ) -> Result<(), ViewerGone> {
        local::prepare(&socket)?;
        // Viewers give up on who does not greet, and people on who shows nothing.
        if timeout(GREET_AFTER, desk.begun()).await.is_err() {
            desk.begin_blank();
        }
        let security = owner::demand(&socket, &security).await?;
        // Bytes between two programs of a machine cost less than to pack them.
        let is_local = socket.peer_addr()?.ip().to_canonical().is_loopback();
        let mut viewer = Self::new(&desk, security, is_local);
        let result = viewer.run(&mut socket).await;
        viewer.let_go();
        result
    }

    pub(crate) fn new(desk: &Arc<ViewerScreen>, security: Security, is_local: bool) -> Self {
        let seat = desk.sit();
        let mut rng = Rng::new(rand_seed());
        let asks = matches!(security, Security::VncAuth(_));
        let config = seat.look(|desk, _| ServerConfig {
            security,
            name: desk.name.clone(),
            width: desk.screen.width(),
            height: desk.screen.height(),
            is_local,
            limits: Limits::default(),
        });
        Self {
            rfb: Server::new(config, &mut rng),
            seat,
            held: HeldInput::default(),
            features: ViewerFeatures::default(),
            painted: Painted::default(),
            toggled: false,
            request: None,
            full: false,
            continuous: None,
            unanswered: 0,
            is_local,
            nearness: ViewerNearness::default(),
            caps: None,
            asked: false,
            asks,
            ready: false,
            copied: Vec::new(),
        }
    }

    async fn run(&mut self, socket: &mut TcpStream) -> Result<(), ViewerGone> {
        let (mut from, mut to) = socket.split();
        let mut input = vec![0; 16 << 10];
        let wake = self.seat.wake.clone();
        let (start, mut heard) = (Instant::now(), 0);
        loop {
            self.compose(Instant::now());
            let waiting = self.rfb.output().len();
            // Of a viewer that does not read nothing more is read either, and whoever types faster than the
            // link carries waits.
            let full = self.seat.inputs().is_full();
            // A version is there at once; a password takes as long as somebody types.
            let patience = if self.asks && heard >= VERSION { PASSWORD } else { HANDSHAKE };
            tokio::select! {
                () = sleep_until(start + patience), if !self.ready => return Err(ViewerGone::Silent),
                read = from.read(&mut input), if waiting < MOST_WAITING && !full => {
                    match read? {
                        0 => return Ok(()),
                        n => {
                            heard += n;
                            let fed = self.feed(Instant::now(), &input[..n]);
                            if fed.is_err() {
                                // It may be the reason why it is refused; but who does not read is not waited
                                // for, with all that it holds down.
                                let said = timeout(LAST_WORDS, to.write_all(self.rfb.output())).await;
                                said.unwrap_or(Ok(()))?;
                            }
                            fed?;
                        }
                    }
                }
                written = async { to.write(self.rfb.output()).await }, if waiting > 0 => {
                    let written = written?;
                    self.rfb.output().advance(written);
                    // A full picture must not be paid for until the end.
                    if self.rfb.output().is_empty() && self.rfb.output().capacity() > KEPT {
                        *self.rfb.output() = bytes::BytesMut::new();
                    }
                }
                () = wake.notified() => {}
                () = self.seat.inputs().room(), if full => {}
            }
        }
    }

    /// Takes in what the viewer says.
    pub(crate) fn feed(&mut self, now: Instant, mut input: &[u8]) -> Result<(), Error> {
        while let Some(event) = self.rfb.receive(&mut input)? {
            self.on_event(now, event);
        }
        Ok(())
    }

    fn on_event(&mut self, now: Instant, event: ServerEvent) {
        match event {
            ServerEvent::Ready { .. } => self.ready = true,
            ServerEvent::Format(_) => {
                // What is on its screen is in the old format; the pixels that come are in the new one.
                let bounds = self.seat.look(|desk, _| desk.screen.bounds());
                self.seat.dirty(bounds);
            }
            ServerEvent::Features(features) => self.on_features(features),
            // To whom all changes come without requests, one for changes asks for nothing, and least of all
            // for less.
            ServerEvent::Request { incremental: true, .. } if self.continuous.is_some() => {}
            ServerEvent::Request { incremental, rect } => {
                if !incremental {
                    self.full = true;
                    self.seat.dirty(rect);
                }
                self.request = Some(self.request.map_or(rect, |r| r.bounding(rect)));
            }
            ServerEvent::ContinuousUpdates(rect) => {
                self.continuous = rect;
                self.request = self.request.filter(|_| rect.is_none() || self.full);
            }
            ServerEvent::Key { down, keysym, keycode } => {
                if self.toggles(down, keysym) {
                    return;
                }
                if self.held.key(down, keysym, keycode) {
                    self.input(PersonInput::Key { down, keysym, keycode });
                }
            }
            ServerEvent::Pointer { buttons, x, y } => {
                self.held.pointer(buttons, x, y);
                self.input(PersonInput::Pointer { buttons, x, y });
            }
            ServerEvent::Text(text) => self.clipboard(ClipboardMessage::Paste(text)),
            ServerEvent::Clipboard(message) => self.on_clipboard(message),
            ServerEvent::TextDropped { bytes } => tracing::warn!(bytes, "a viewer's text is too long"),
            ServerEvent::TextBroken { bytes } => {
                tracing::warn!(bytes, "a viewer's text cannot be unpacked");
            }
            ServerEvent::Fence(fence) => {
                if fence.payload == UPDATE {
                    self.unanswered = self.unanswered.saturating_sub(1);
                    self.nearness.answered(now);
                }
            }
            ServerEvent::SetDesktopSize { width, height, screens } => {
                if !self.seat.act(Act::Wish { width, height, screens }) {
                    self.seat.look(|_, news| news.answers.push(ResizeStatus::Prohibited));
                }
            }
        }
    }

    /// Whether a key is for the words in the corner, and not for the server: O with Control, Alt and Shift,
    /// where there may be words.
    fn toggles(&mut self, down: bool, keysym: u32) -> bool {
        if !matches!(keysym, LETTER_O | CAPITAL_O) {
            return false;
        }
        if !down {
            return std::mem::take(&mut self.toggled);
        }
        let held = |keys: &[u32]| keys.iter().any(|&key| self.held.holds(key, None));
        if !(held(&CONTROL) && held(&ALT) && held(&SHIFT)) {
            return false;
        }
        let toggles = self.seat.look(|desk, _| desk.overlay.is_begun());
        if toggles && !self.toggled {
            self.seat.toggle_overlay();
        }
        self.toggled |= toggles;
        toggles
    }

    fn on_features(&mut self, features: ViewerFeatures) {
        let before = std::mem::replace(&mut self.features, features);
        self.seat.set_follows_pointer(!features.cursor);
        self.seat.look(|_, news| {
            // It learns in this way that it can ask for another size.
            news.size |= features.extended_desktop_size && !before.extended_desktop_size;
            news.cursor |= features.cursor && !before.cursor;
            news.leds |= features.led_state && !before.led_state;
        });
    }

    fn on_clipboard(&mut self, message: Extended) {
        match message {
            Extended::Caps(caps) => self.caps = Some(caps),
            Extended::Notify(formats) if formats.text() => self.clipboard(ClipboardMessage::Offer),
            Extended::Provide(text) => self.clipboard(ClipboardMessage::Paste(text.unwrap_or_default())),
            Extended::Request(formats) if formats.text() => {
                self.asked = true;
                // Twelve bytes ask for a megabyte: it is given once, when what was told before has been
                // taken.
                let here = self.seat.look(|desk, news| {
                    let here = desk.text.is_some();
                    if here {
                        news.clipboard = Some(ClipboardNews::Here { wanted: true });
                    }
                    here
                });
                if !here {
                    self.clipboard(ClipboardMessage::Ask);
                }
            }
            Extended::Notify(_) | Extended::Request(_) => {}
            Extended::Peek => {
                let here = self.seat.look(|desk, _| desk.text.is_some());
                self.say(&Extended::Notify(if here { Formats::TEXT } else { Formats::NONE }));
            }
        }
    }

    /// How it gets texts.
    fn way(&self) -> ClipboardWay {
        match (self.features.extended_clipboard, self.asked) {
            (false, _) => ClipboardWay::Plain,
            (true, true) => ClipboardWay::Asked,
            (true, false) => ClipboardWay::of(self.caps.as_ref()),
        }
    }

    fn clipboard(&mut self, clipboard: ClipboardMessage) {
        self.input(PersonInput::Clipboard(clipboard));
    }

    fn input(&mut self, input: PersonInput) {
        // Without a server it is gone, as it should be.
        self.seat.act(Act::Input(input));
    }

    fn say(&mut self, message: &Extended) {
        refused(self.rfb.clipboard(message));
    }

    /// Writes what there is to tell, when the viewer has taken all that was told before.
    pub(crate) fn compose(&mut self, now: Instant) {
        if let Some(telling) = self.look() {
            self.tell(now, telling);
        }
    }

    /// Takes from the desk what there is to tell, when the viewer has taken all that was told before.
    pub(super) fn look(&mut self) -> Option<Telling> {
        if !self.ready || !self.rfb.output().is_empty() {
            return None;
        }
        let way = self.way();
        let Self { seat, features, painted, copied, full, .. } = self;
        let area = self.request.or(self.continuous);
        // Fences are answered once all before them was drawn: two under way keep a viewer busy.
        let ready = area.is_some() && self.unanswered < 2;
        let mut telling = Telling::new(std::mem::take(copied));
        let mut ask = false;
        telling.updates = seat.look(|desk, news| {
            ask = telling.take_aside(desk, news, way);
            if !ready {
                return false;
            }
            let paints = desk.has_pointer || !features.cursor;
            // For who has the shape it stays for `take_shape`.
            let other_shape = paints && std::mem::take(&mut news.cursor);
            for area in painted.follow(desk, paints, other_shape) {
                news.damage.add(area);
            }
            let told = telling.take_shape(desk, news, *features);
            let shown = painted.paint(desk);
            if features.copy_rect {
                news.damage.spoil(&shown.only_here);
            } else {
                news.damage.drop_copies();
            }
            let drawn = telling.take_pixels(&shown, news, area.unwrap_or_default());
            told || drawn || *full
        });
        if ask {
            self.clipboard(ClipboardMessage::Ask);
        }
        Some(telling)
    }

    /// Writes what was taken, while the desk is others'.
    pub(super) fn tell(&mut self, now: Instant, telling: Telling) {
        let updates = telling.updates;
        let has_fence = self.features.fence && self.continuous.is_some();
        self.rfb.set_plain(self.is_local && has_fence && self.nearness.is_near());
        self.copied = telling.write(&mut self.rfb);
        if self.copied.capacity() * size_of::<u32>() > KEPT {
            self.copied = Vec::new();
        }
        if !updates {
            return;
        }
        (self.request, self.full) = (None, false);
        if has_fence {
            self.nearness.written(now, self.rfb.output().len());
            let fence = Fence { block_before: true, payload: UPDATE.to_vec(), ..Fence::default() };
            refused(self.rfb.fence(&fence));
            self.unanswered += 1;
        }
    }

    /// Lets go of what the viewer held down when it left.
    pub(crate) fn let_go(&mut self) {
        let release = self.held.release();
        for HeldKey { keysym, keycode } in release.keys {
            self.input(PersonInput::Key { down: false, keysym, keycode });
        }
        if let Some((x, y)) = release.pointer {
            self.input(PersonInput::Pointer { buttons: 0, x, y });
        }
    }

    #[cfg(test)]
    pub(crate) fn rfb(&mut self) -> &mut Server {
        &mut self.rfb
    }
}

/// Only the challenge of VncAuth is drawn from it.
fn rand_seed() -> u64 {
    let mut bytes = [0; 8];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system has entropy: keys were made with it");
    u64::from_le_bytes(bytes)
}

/// X11's names of keys, left and right; Shift and Alt are Meta together.
const LETTER_O: u32 = 0x6f;
const CAPITAL_O: u32 = 0x4f;
const SHIFT: [u32; 2] = [0xffe1, 0xffe2];
const CONTROL: [u32; 2] = [0xffe3, 0xffe4];
const ALT: [u32; 4] = [0xffe9, 0xffea, 0xffe7, 0xffe8];
/// How long a viewer waits for a picture before it gets a blank one.
const GREET_AFTER: Duration = Duration::from_secs(3);
/// How long a viewer may take for the handshake, and when somebody has to type a password.
const HANDSHAKE: Duration = Duration::from_secs(10);
const PASSWORD: Duration = Duration::from_secs(120);
/// How long a viewer may take to read why it is left.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Bytes of its first word.
const VERSION: usize = 12;
/// The payload of the fence behind an update.
const UPDATE: &[u8] = b"update";
/// Bytes that may wait for a viewer while it is still read from.
const MOST_WAITING: usize = 64 << 20;
/// What a buffer keeps when it is empty.
const KEPT: usize = 1 << 20;
