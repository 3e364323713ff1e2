//! What a page in a browser calls: [`PageViewer`] with plain values and a clock in milliseconds.
//!
//! A panic becomes an exception that says what it was, so that the page can end the session with a sentence.

use quickset_base::Time;
use quickset_base::number::{Float as _, Unsigned as _};
use quickset_rfb::{Cursor, Rect, ResizeReason, ResizeStatus};
use quickset_screen::message::{ClipboardMessage, PersonInput, ScreenLayout, ScreenOrder};
use quickset_screen::visit::NOT_SENT;
use wasm_bindgen::prelude::*;

use crate::PageSoundPiece;
use crate::frames;
use crate::rgba;
use crate::{PageInputs, PageNews, PageViewer, ViewerFault};

/// A viewer on one session, with the contract of [`PageViewer`].
#[wasm_bindgen]
#[derive(Debug)]
pub struct WasmViewer {
    viewer: PageViewer,
    /// Rectangles that have changed and were not taken yet; the last is next.
    changed: Vec<Rect>,
    pixels: Vec<u8>,
}

/// A packet of Opus to be decoded and played.
#[wasm_bindgen]
#[derive(Debug)]
pub struct WasmSound(PageSoundPiece);

/// Why the session is to be ended.
#[wasm_bindgen]
#[derive(Debug)]
pub struct WasmFault {
    code: u32,
    text: String,
}

/// What the server says beside the screen. Which fields have a meaning depends on [`kind`](Self::kind).
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct WasmNews {
    kind: &'static str,
    text: String,
    bits: u32,
    number: f64,
    width: u16,
    height: u16,
    hot_x: u16,
    hot_y: u16,
    pixels: Vec<u8>,
    /// The news itself, as far as [`WasmVisit::hear`] has to know it.
    heard: Option<PageNews>,
}

#[wasm_bindgen]
impl WasmViewer {
    /// A viewer for screens of at most so many bytes, four a pixel.
    #[wasm_bindgen(constructor)]
    pub fn new(max_bytes: u32) -> Self {
        let viewer = PageViewer::new(quickset_base::number::index(max_bytes.into()));
        Self { viewer, changed: Vec::new(), pixels: Vec::new() }
    }

    /// The same on a WebSocket.
    #[wasm_bindgen(js_name = bySocket)]
    pub fn by_socket(max_bytes: u32) -> Self {
        let viewer = PageViewer::by_socket(quickset_base::number::index(max_bytes.into()));
        Self { viewer, changed: Vec::new(), pixels: Vec::new() }
    }

    /// Bytes that a WebSocket has brought.
    ///
    /// # Errors
    /// See [`ViewerFault`].
    pub fn socket_bytes(&mut self, now_ms: f64, bytes: &[u8]) -> Result<(), WasmFault> {
        Ok(self.viewer.socket_bytes(time(now_ms), bytes)?)
    }

    /// Bytes of the control stream.
    ///
    /// # Errors
    /// See [`ViewerFault`].
    pub fn control_bytes(&mut self, now_ms: f64, bytes: &[u8]) -> Result<(), WasmFault> {
        Ok(self.viewer.control_bytes(time(now_ms), bytes)?)
    }

    /// Bytes of the server's stream of the clipboard.
    ///
    /// # Errors
    /// See [`ViewerFault`].
    pub fn clipboard_bytes(&mut self, bytes: &[u8]) -> Result<(), WasmFault> {
        Ok(self.viewer.clipboard_bytes(bytes)?)
    }

    /// A datagram.
    ///
    /// # Errors
    /// See [`ViewerFault`].
    pub fn datagram(&mut self, now_ms: f64, datagram: &[u8]) -> Result<(), WasmFault> {
        Ok(self.viewer.datagram(time(now_ms), datagram)?)
    }

    /// The next bytes for the control stream.
    pub fn next_control(&mut self, now_ms: f64) -> Option<Vec<u8>> {
        self.viewer.next_control(time(now_ms))
    }

    /// The next datagram to send.
    pub fn next_datagram(&mut self, now_ms: f64) -> Option<Vec<u8>> {
        self.viewer.next_datagram(time(now_ms))
    }

    /// When to ask again even if nothing comes, in milliseconds of the page's clock.
    pub fn next_deadline(&self) -> Option<f64> {
        self.viewer.next_deadline().map(milliseconds)
    }

    /// What the server has said, in order.
    pub fn next_news(&mut self) -> Option<WasmNews> {
        self.viewer.next_news().map(WasmNews::of)
    }

    /// Takes note of what has changed since the last call. Whether the screen has another size.
    pub fn changes(&mut self) -> bool {
        let changes = self.viewer.changes();
        self.changed.clear();
        if changes.resized {
            self.changed.push(self.viewer.screen().bounds());
        } else {
            self.changed.extend_from_slice(changes.damage.area().rects());
        }
        changes.resized
    }

    /// Columns of the screen.
    pub fn width(&self) -> u16 {
        self.viewer.screen().width()
    }

    /// Rows of the screen.
    pub fn height(&self) -> u16 {
        self.viewer.screen().height()
    }

    /// The next rectangle that has changed, as left, top, width and height; its pixels are at
    /// [`pixels`](Self::pixels) until the next call.
    pub fn next_rect(&mut self) -> Option<Vec<u16>> {
        loop {
            let rect = self.changed.pop()?.intersection(self.viewer.screen().bounds());
            if let (false, Ok(rows)) = (rect.is_empty(), self.viewer.screen().rows(rect)) {
                rgba::opaque(rows, &mut self.pixels);
                return Some(vec![rect.left(), rect.top(), rect.width(), rect.height()]);
            }
        }
    }

    /// Where in the memory the pixels of the last rectangle are: red, green, blue, 255.
    pub fn pixels(&self) -> *const u8 {
        self.pixels.as_ptr()
    }

    /// Asks the server to answer.
    pub fn ping(&mut self, number: f64) {
        self.viewer.ping(number.whole());
    }

    /// Asks for another size of the screen.
    pub fn wish(&mut self, width: u16, height: u16) {
        self.viewer.wish(width, height);
    }

    /// Asks the server to send no more than so many bits per second; 0: as much as it likes.
    pub fn wants_rate(&mut self, bps: f64) {
        self.viewer.wants_rate(bps.whole());
    }

    /// Asks the server for pictures of a quality of JPEG between these; two zeros: as it likes.
    pub fn wants_quality(&mut self, least: u8, most: u8) {
        self.viewer.wants_quality(least, most);
    }

    /// Says whether somebody hears from now on.
    pub fn wants_sound(&mut self, wanted: bool) {
        self.viewer.wants_sound(wanted);
    }

    /// When to ask for the next sound, in milliseconds of the page's clock.
    pub fn sound_due(&self) -> Option<f64> {
        self.viewer.sound_due().map(milliseconds)
    }

    /// The next piece to be decoded, if it is due.
    pub fn next_sound(&mut self, now_ms: f64) -> Option<WasmSound> {
        self.viewer.next_sound(time(now_ms)).map(WasmSound)
    }

    /// What came of sound so far: the delay in milliseconds, frames that came, that came too late, that
    /// repair replaced, pieces that were concealed, frames left out, and records that could not be read.
    pub fn sound_figures(&self) -> Vec<f64> {
        let sound = self.viewer.sound();
        let frames = sound.frames;
        let counts = [
            frames.received,
            frames.late,
            sound.recovered,
            frames.concealed,
            frames.skipped,
            frames.unreadable,
        ];
        let delay = sound.delay.as_secs_f64() * 1000.0;
        std::iter::once(delay).chain(counts.map(quickset_base::number::Unsigned::approx)).collect()
    }

    /// What came so far: messages, recovered ones, repair datagrams, ones that were given up, ones that came
    /// again, and the bytes of the screen.
    pub fn figures(&self) -> Vec<f64> {
        let datagrams = self.viewer.datagrams();
        let bytes = self.viewer.messages().map_or(0, |messages| messages.bytes);
        let counts = [
            datagrams.messages,
            datagrams.recovered,
            datagrams.repairs,
            datagrams.gone,
            datagrams.duplicates,
            bytes,
        ];
        counts.map(quickset_base::number::Unsigned::approx).to_vec()
    }
}

#[wasm_bindgen]
impl WasmSound {
    /// The packet of 20 ms, or of a gap its first byte.
    #[wasm_bindgen(getter)]
    pub fn packet(&self) -> Vec<u8> {
        self.0.packet.clone()
    }

    /// In how many samples of each channel to play it.
    #[wasm_bindgen(getter)]
    pub fn samples(&self) -> u16 {
        self.0.samples
    }

    /// It stands for a frame that did not come in time.
    #[wasm_bindgen(getter)]
    pub fn is_gap(&self) -> bool {
        self.0.is_gap
    }
}

/// How long before it is heard each piece is due, in milliseconds.
#[wasm_bindgen]
pub fn sound_lead() -> f64 {
    crate::SOUND_LEAD.as_secs_f64() * 1000.0
}

/// What a person does, from session to session, with the contract of [`PageInputs`].
#[wasm_bindgen]
#[derive(Debug)]
pub struct WasmVisit(PageInputs);

#[wasm_bindgen]
impl WasmVisit {
    /// One that is called by these 16 random bytes.
    #[wasm_bindgen(constructor)]
    pub fn new(random: &[u8]) -> Self {
        let mut id = [0; 16];
        id.iter_mut().zip(random).for_each(|(to, from)| *to = *from);
        Self(PageInputs::new(id))
    }

    /// The first bytes for the control stream of a session.
    pub fn hello(&self, token: &str, desktop: &str, device: &str) -> Vec<u8> {
        self.0.hello(token, desktop, device)
    }

    /// A key; `keycode` is the XT code, where the page knows it.
    pub fn key(&mut self, now_ms: f64, down: bool, keysym: u32, keycode: Option<u32>) {
        self.0.does(time(now_ms), PersonInput::Key { down, keysym, keycode });
    }

    /// The pointer: which buttons are down, and where it is.
    pub fn pointer(&mut self, now_ms: f64, buttons: u8, x: u16, y: u16) {
        self.0.does(time(now_ms), PersonInput::Pointer { buttons, x, y });
    }

    /// A text may have been copied here.
    pub fn offer(&mut self, now_ms: f64) {
        self.0.does(time(now_ms), PersonInput::Clipboard(ClipboardMessage::Offer));
    }

    /// The text that was copied here.
    pub fn paste(&mut self, now_ms: f64, text: &str) {
        self.0.does(time(now_ms), PersonInput::Clipboard(ClipboardMessage::Paste(text.into())));
    }

    /// The text that was offered, please.
    pub fn ask(&mut self, now_ms: f64) {
        self.0.does(time(now_ms), PersonInput::Clipboard(ClipboardMessage::Ask));
    }

    /// The server says something. What the person is to be told then, if anything.
    ///
    /// # Errors
    /// See [`ViewerFault`].
    pub fn hear(&mut self, now_ms: f64, news: &WasmNews) -> Result<Option<String>, WasmFault> {
        let Some(news) = &news.heard else { return Ok(None) };
        Ok(self.0.hear(time(now_ms), news)?.then(|| NOT_SENT.into()))
    }

    /// The next bytes for the input stream.
    pub fn next_input(&mut self, now_ms: f64) -> Option<Vec<u8>> {
        self.0.next_input(time(now_ms))
    }

    /// A datagram with what was sent on the input stream lately, if that is due.
    pub fn next_copy(&mut self, now_ms: f64) -> Option<Vec<u8>> {
        self.0.next_copy(time(now_ms))
    }

    /// When to ask for the next copy, in milliseconds.
    pub fn next_deadline(&self) -> Option<f64> {
        self.0.next_deadline().map(milliseconds)
    }

    /// The session is over.
    pub fn ended(&mut self) {
        self.0.ended();
    }
}

/// What bytes for the control stream are on a WebSocket.
#[wasm_bindgen]
pub fn control_frames(bytes: &[u8]) -> Vec<u8> {
    PageViewer::control_frames(bytes)
}

/// What bytes for the input stream are there.
#[wasm_bindgen]
pub fn input_frames(bytes: &[u8]) -> Vec<u8> {
    frames::frames(frames::INPUT, bytes)
}

/// What a WebSocket is to send when it has sent nothing for three seconds.
#[wasm_bindgen]
pub fn still_here() -> Vec<u8> {
    frames::STILL_HERE.to_vec()
}

/// Panics become exceptions, with what they say.
#[wasm_bindgen(start)]
pub fn start() {
    std::panic::set_hook(Box::new(|panic| {
        wasm_bindgen::throw_str(&format!("a fault of this page: {panic}"))
    }));
}

#[wasm_bindgen]
impl WasmFault {
    /// The code to end the session with.
    #[wasm_bindgen(getter)]
    pub fn code(&self) -> u32 {
        self.code
    }

    /// For people.
    #[wasm_bindgen(getter)]
    pub fn text(&self) -> String {
        self.text.clone()
    }
}

impl From<ViewerFault> for WasmFault {
    fn from(fault: ViewerFault) -> Self {
        Self { code: fault.code().saturated(), text: fault.to_string() }
    }
}

#[wasm_bindgen]
impl WasmNews {
    /// `welcome`, `name`, `cursor`, `leds`, `bell`, `layout`, `offer`, `ask`, `text`, `pong`, `taken` or
    /// `goodbye`.
    #[wasm_bindgen(getter)]
    pub fn kind(&self) -> String {
        self.kind.into()
    }

    /// Of a welcome and a name the name of the desktop, of a text itself, of a layout why it was not granted.
    #[wasm_bindgen(getter)]
    pub fn text(&self) -> String {
        self.text.clone()
    }

    /// Of a welcome what is allowed: 1 input, 2 clipboard, 4 wishes; and 8, that there is sound. Of leds: 1
    /// scroll, 2 num, 4 caps.
    #[wasm_bindgen(getter)]
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Of a goodbye its code, of a pong its number, of a welcome its order: 0 ordered, 1 fenced, 2 latest.
    #[wasm_bindgen(getter)]
    pub fn number(&self) -> f64 {
        self.number
    }

    /// Columns of a cursor or a layout.
    #[wasm_bindgen(getter)]
    pub fn width(&self) -> u16 {
        self.width
    }

    /// Rows of a cursor or a layout.
    #[wasm_bindgen(getter)]
    pub fn height(&self) -> u16 {
        self.height
    }

    /// Which column of a cursor points.
    #[wasm_bindgen(getter)]
    pub fn hot_x(&self) -> u16 {
        self.hot_x
    }

    /// Which row of a cursor points.
    #[wasm_bindgen(getter)]
    pub fn hot_y(&self) -> u16 {
        self.hot_y
    }

    /// Of a cursor its pixels: red, green, blue, 255 or 0.
    #[wasm_bindgen(getter)]
    pub fn pixels(&self) -> Vec<u8> {
        self.pixels.clone()
    }
}

impl WasmNews {
    fn of(news: PageNews) -> Self {
        match news {
            PageNews::Welcome(welcome) => {
                let heard = Some(PageNews::Welcome(welcome.clone()));
                let may = welcome.permissions;
                let bits = u32::from(may.input) | u32::from(may.clipboard) << 1 | u32::from(may.wish) << 2;
                let bits = bits | u32::from(PageViewer::offers_sound(&welcome)) << 3;
                let number = match welcome.order {
                    ScreenOrder::Ordered => 0.0,
                    ScreenOrder::Fenced => 1.0,
                    ScreenOrder::Latest => 2.0,
                };
                Self { kind: "welcome", text: welcome.name, bits, number, heard, ..Self::default() }
            }
            news @ PageNews::Taken(_) => Self { kind: "taken", heard: Some(news), ..Self::default() },
            PageNews::Name(text) => Self { kind: "name", text, ..Self::default() },
            PageNews::Cursor(cursor) => Self::cursor(&cursor),
            PageNews::Leds(leds) => {
                let bits = u32::from(leds.scroll) | u32::from(leds.num) << 1 | u32::from(leds.caps) << 2;
                Self { kind: "leds", bits, ..Self::default() }
            }
            PageNews::Bell => Self { kind: "bell", ..Self::default() },
            PageNews::Layout(layout) => Self::layout(&layout),
            PageNews::Clipboard(ClipboardMessage::Offer) => Self { kind: "offer", ..Self::default() },
            PageNews::Clipboard(ClipboardMessage::Ask) => Self { kind: "ask", ..Self::default() },
            PageNews::Clipboard(ClipboardMessage::Paste(text)) => {
                Self { kind: "text", text, ..Self::default() }
            }
            PageNews::Goodbye { code, words } => {
                Self { kind: "goodbye", text: words, number: code.approx(), ..Self::default() }
            }
            PageNews::Pong(number) => Self { kind: "pong", number: number.approx(), ..Self::default() },
        }
    }

    fn cursor(cursor: &Cursor) -> Self {
        Self {
            kind: "cursor",
            width: cursor.width,
            height: cursor.height,
            hot_x: cursor.hot_x,
            hot_y: cursor.hot_y,
            pixels: rgba::masked(cursor),
            ..Self::default()
        }
    }

    fn layout(layout: &ScreenLayout) -> Self {
        let text = match (layout.reason, layout.status) {
            (ResizeReason::ThisClient, ResizeStatus::Prohibited) => "The desktop's size may not be changed.",
            (ResizeReason::ThisClient, ResizeStatus::OutOfResources) => {
                "The desktop has no memory for this size."
            }
            (ResizeReason::ThisClient, ResizeStatus::InvalidLayout | ResizeStatus::Other(_)) => {
                "The desktop does not take this size."
            }
            _ => "",
        };
        let (width, height) = (layout.width, layout.height);
        Self { kind: "layout", text: text.into(), width, height, ..Self::default() }
    }
}

fn milliseconds(time: Time) -> f64 {
    time.as_nanos().approx() / 1e6
}

fn time(ms: f64) -> Time {
    Time::from_micros((ms * 1000.0).whole())
}
