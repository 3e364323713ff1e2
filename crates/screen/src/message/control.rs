use quickset_base::number::Unsigned as _;
use quickset_rfb::{Cursor, Leds, Rect, ResizeReason, ResizeStatus, Screen};

use super::claim::{ClientOffer, HelloChoice};
use super::fields::{FieldReader, PutFields};
use super::input::ClipboardMessage;
use super::parts::StreamMessage;
use super::terms::{Permissions, ScreenOrder};
use super::visit::{VisitCount, VisitId};
use super::{MAX_NAME, MessageFault, VERSION};

/// What a client says on the control stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromClient {
    /// The first message.
    Hello(Hello),
    /// The client's answer to [`FromServer::Share`]: that it knows the secret, too, or nothing where the
    /// server does not.
    Proof(Option<[u8; 32]>),
    /// Pixels are missing.
    Refresh(Refresh),
    /// A copy could not be carried out (order latest).
    Unable {
        /// Its number.
        item: u64,
    },
    /// The viewer would like the screen to have another size.
    Wish {
        /// Columns.
        width: u16,
        /// Rows.
        height: u16,
        /// At most 255.
        screens: Vec<Screen>,
    },
    /// So much is to be sent at most, whatever the path takes: for a viewer on a thin link.
    Rate {
        /// Bits per second; 0: as much as the server wants.
        bps: u64,
    },
    /// Its pictures are to have a quality of JPEG between these, as far as the server allows, each 1 to 100.
    /// Another pair, like 0 and 0, is no wish any more.
    Quality {
        /// The lowest.
        least: u8,
        /// The highest.
        most: u8,
    },
    /// To be answered by [`FromServer::Pong`].
    Ping(u64),
    /// The answer to [`FromServer::Ping`].
    Pong(u64),
    /// Whether it wants to hear from now on: `spec/desktop.md` DT-76.
    Hear(bool),
}

/// What a server says on the control stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromServer {
    /// The answer to a [`Hello`] that offers a secret.
    Share {
        /// The server's share of the exchange.
        share: [u8; 33],
        /// That the server knows the secret.
        proof: [u8; 32],
    },
    /// The client may come in.
    Welcome(Welcome),
    /// How far the screen has been sent.
    Mark(ScreenMark),
    /// The screens that make up the framebuffer, or why a wish was not granted.
    Layout(ScreenLayout),
    /// The shape of the pointer.
    Cursor(Cursor),
    /// The name of the desktop; what is longer than 4096 bytes is cut.
    Name(String),
    /// Lamps of the keyboard.
    Leds(Leds),
    /// A beep.
    Bell,
    /// The clipboard.
    Clipboard(ClipboardMessage),
    /// To be answered by [`FromClient::Pong`].
    Ping(u64),
    /// The answer to [`FromClient::Ping`].
    Pong(u64),
    /// How many input messages of the client's visit were passed on to the desktop by now.
    Taken(u64),
}

/// Opens the session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// Bits of what the client understands beyond version 1: [`CLIPBOARD`](super::CLIPBOARD). Whether there
    /// is an offer is not said here.
    pub features: u64,
    /// A secret that it knows, and its share of an exchange about it.
    pub offer: Option<ClientOffer>,
    /// It shows a proof as versions of before do, on which guesses could be tried.
    pub is_older: bool,
    /// Which of several things it means.
    pub choice: HelloChoice,
    /// The visit of which this is a session; `None`: its input messages are not counted.
    pub visit: Option<VisitId>,
}

/// The server's answer to [`Hello`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Bits of what the server understands beyond version 1; none is defined but that whether there is a
    /// visit, which is not said here.
    pub features: u64,
    /// How screen messages may overtake each other.
    pub order: ScreenOrder,
    /// What the client may do.
    pub permissions: Permissions,
    /// The name of the desktop.
    pub name: String,
    /// What the server knows of the client's visit; `None` when it does not count its input messages.
    pub visit: Option<VisitCount>,
}

/// Pixels are missing at the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refresh {
    /// The screen stream has stopped: a new one is wanted, with the whole screen.
    pub restart: bool,
    /// Where.
    pub rect: Rect,
}

/// How far the screen has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScreenMark {
    /// The epoch of those items.
    pub epoch: u64,
    /// The number of the next item: all below have been sent.
    pub items: u64,
    /// At rest, the checksum of the screen: [`Framebuffer::crc32`](quickset_rfb::Framebuffer::crc32).
    pub sum: Option<u32>,
}

/// RFB's ExtendedDesktopSize, apart from its effect on the framebuffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScreenLayout {
    /// Who asked.
    pub reason: ResizeReason,
    /// How it went.
    pub status: ResizeStatus,
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
    /// At most 255.
    pub screens: Vec<Screen>,
}

impl StreamMessage for FromClient {
    /// A wish that cannot be read is not answered either; whoever has it waits in vain.
    fn is_aside(_: u8) -> bool {
        false
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hello(hello) => {
                out.put_u8(HELLO);
                let offers = if hello.offer.is_some() { OFFERS } else { 0 };
                let says = if hello.choice == HelloChoice::default() { 0 } else { SAYS_WHICH };
                let visits = if hello.visit.is_some() { VISITS } else { 0 };
                let features = hello.features & !HELLO_FIELDS | offers | says | visits;
                put_greeting(out, features, hello.is_older);
                if let Some(offer) = &hello.offer {
                    offer.put(out);
                }
                if says != 0 {
                    hello.choice.put(out);
                }
                if let Some(VisitId(visit)) = &hello.visit {
                    out.put(visit);
                }
            }
            Self::Proof(proof) => {
                out.put_u8(PROOF);
                let proof = proof.as_ref().map_or(&[][..], |proof| &proof[..]);
                out.put_varint(proof.len() as u64);
                out.put(proof);
            }
            Self::Refresh(refresh) => {
                out.put_u8(REFRESH);
                out.put_u8(refresh.restart.into());
                out.put_rect(refresh.rect);
            }
            Self::Unable { item } => put_count(out, UNABLE, *item),
            Self::Wish { width, height, screens } => {
                out.put_u8(WISH);
                put_screens(out, *width, *height, screens);
            }
            Self::Rate { bps } => {
                out.put_u8(RATE);
                out.put_varint((*bps).min(MAX_VARINT));
            }
            Self::Quality { least, most } => out.put(&[QUALITY, *least, *most]),
            Self::Ping(n) => put_number(out, PING, *n),
            Self::Pong(n) => put_number(out, PONG, *n),
            Self::Hear(wanted) => out.put(&[HEAR, (*wanted).into()]),
        }
    }

    fn decode(message: &[u8]) -> Result<Option<Self>, MessageFault> {
        let mut f = FieldReader::new(message, "a control message");
        Ok(Some(match f.u8()? {
            HELLO => {
                let (features, proof) = greeting(&mut f)?;
                let offer = if features & OFFERS == 0 { None } else { Some(ClientOffer::read(&mut f)?) };
                let says = features & SAYS_WHICH != 0;
                let choice = if says { HelloChoice::read(&mut f)? } else { HelloChoice::default() };
                let visit = if features & VISITS == 0 { None } else { Some(VisitId(f.array()?)) };
                let features = features & !HELLO_FIELDS;
                Self::Hello(Hello { features, offer, is_older: proof.is_some(), choice, visit })
            }
            PROOF => Self::Proof(proof(&mut f)?),
            REFRESH => Self::Refresh(Refresh { restart: f.u8()? & 1 != 0, rect: f.rect()? }),
            UNABLE => Self::Unable { item: f.varint()? },
            WISH => {
                let (width, height, screens) = screens(&mut f)?;
                Self::Wish { width, height, screens }
            }
            RATE => Self::Rate { bps: f.varint()? },
            QUALITY => Self::Quality { least: f.u8()?, most: f.u8()? },
            PING => Self::Ping(f.u64()?),
            PONG => Self::Pong(f.u64()?),
            HEAR => Self::Hear(f.u8()? != 0),
            _ => return Ok(None),
        }))
    }
}

impl StreamMessage for FromServer {
    fn is_aside(kind: u8) -> bool {
        matches!(kind, CURSOR | NAME | LEDS | BELL) || ClipboardMessage::is_one(kind)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Share { share, proof } => {
                out.put_u8(SHARE);
                out.put(share);
                out.put(proof);
            }
            Self::Welcome(welcome) => {
                out.put_u8(WELCOME);
                let counts = if welcome.visit.is_some() { COUNTS } else { 0 };
                put_greeting(out, welcome.features & !COUNTS | counts, false);
                out.put_u8(welcome.order as u8);
                out.put_u8(welcome.permissions.bits());
                out.put_text(&welcome.name, MAX_NAME);
                if let Some(visit) = welcome.visit {
                    visit.put(out);
                }
            }
            Self::Mark(mark) => {
                out.put_u8(MARK);
                out.put_varint(mark.epoch);
                out.put_varint(mark.items);
                out.put_u8(mark.sum.is_some().into());
                if let Some(sum) = mark.sum {
                    out.put_u32(sum);
                }
            }
            Self::Layout(layout) => {
                out.put_u8(LAYOUT);
                out.put_u8(reason_code(layout.reason));
                out.put_u8(status_code(layout.status));
                put_screens(out, layout.width, layout.height, &layout.screens);
            }
            Self::Cursor(cursor) => put_cursor(out, cursor),
            Self::Name(name) => {
                out.put_u8(NAME);
                out.put_text(name, MAX_NAME);
            }
            Self::Leds(leds) => {
                out.put_u8(LEDS);
                out.put_u8(u8::from(leds.scroll) | u8::from(leds.num) << 1 | u8::from(leds.caps) << 2);
            }
            Self::Bell => out.put_u8(BELL),
            Self::Clipboard(clipboard) => clipboard.put(out),
            Self::Ping(n) => put_number(out, PING, *n),
            Self::Pong(n) => put_number(out, PONG, *n),
            Self::Taken(count) => put_count(out, TAKEN, *count),
        }
    }

    fn decode(message: &[u8]) -> Result<Option<Self>, MessageFault> {
        let mut f = FieldReader::new(message, "a control message");
        Ok(Some(match f.u8()? {
            SHARE => Self::Share { share: f.array()?, proof: f.array()? },
            WELCOME => {
                let (features, _) = greeting(&mut f)?;
                let (order, permissions) = (ScreenOrder::decode(f.u8()?)?, Permissions::decode(f.u8()?));
                let name = f.text(MAX_NAME)?;
                let visit = if features & COUNTS == 0 { None } else { Some(VisitCount::read(&mut f)?) };
                Self::Welcome(Welcome { features: features & !COUNTS, order, permissions, name, visit })
            }
            MARK => {
                let (epoch, items) = (f.varint()?, f.varint()?);
                let sum = if f.u8()? == 0 { None } else { Some(f.u32()?) };
                Self::Mark(ScreenMark { epoch, items, sum })
            }
            LAYOUT => {
                let (reason, status) = (reason(f.u8()?), status(f.u8()?));
                let (width, height, screens) = screens(&mut f)?;
                Self::Layout(ScreenLayout { reason, status, width, height, screens })
            }
            CURSOR => Self::Cursor(cursor(&mut f)?),
            NAME => Self::Name(f.text(MAX_NAME)?),
            LEDS => {
                let bits = f.u8()?;
                Self::Leds(Leds { scroll: bits & 1 != 0, num: bits & 2 != 0, caps: bits & 4 != 0 })
            }
            BELL => Self::Bell,
            PING => Self::Ping(f.u64()?),
            PONG => Self::Pong(f.u64()?),
            TAKEN => Self::Taken(f.varint()?),
            kind => return Ok(ClipboardMessage::read(kind, &mut f)?.map(Self::Clipboard)),
        }))
    }
}

fn put_count(out: &mut Vec<u8>, kind: u8, n: u64) {
    out.put_u8(kind);
    out.put_varint(n);
}

fn put_greeting(out: &mut Vec<u8>, features: u64, is_older: bool) {
    out.put_varint(VERSION);
    out.put_varint(features);
    // Of a proof of the kind of before nothing is read but that it is there.
    let proof: &[u8] = if is_older { &[0; 32] } else { &[] };
    out.put_varint(proof.len() as u64);
    out.put(proof);
}

fn greeting(f: &mut FieldReader<'_>) -> Result<(u64, Option<[u8; 32]>), MessageFault> {
    // DT-43: what follows may have another form in another version.
    match f.varint()? {
        VERSION => {}
        other => return Err(MessageFault::Version(other)),
    }
    Ok((f.varint()?, proof(f)?))
}

fn proof(f: &mut FieldReader<'_>) -> Result<Option<[u8; 32]>, MessageFault> {
    match f.length("the length of a proof", 32)? {
        0 => Ok(None),
        32 => f.array().map(Some),
        other => Err(MessageFault::Value { what: "the length of a proof", value: other as u64 }),
    }
}

fn put_number(out: &mut Vec<u8>, kind: u8, n: u64) {
    out.put_u8(kind);
    out.put_u64(n);
}

/// More than 255 screens cannot be told.
fn put_screens(out: &mut Vec<u8>, width: u16, height: u16, screens: &[Screen]) {
    let screens = &screens[..screens.len().min(255)];
    out.put_varint(width.into());
    out.put_varint(height.into());
    out.put_u8(screens.len().saturated());
    for screen in screens {
        out.put_u32(screen.id);
        for n in [screen.rect.left(), screen.rect.top(), screen.rect.width(), screen.rect.height()] {
            out.put_u16(n);
        }
        out.put_u32(screen.flags);
    }
}

fn screens(f: &mut FieldReader<'_>) -> Result<(u16, u16, Vec<Screen>), MessageFault> {
    let (width, height) = (f.side("width")?, f.side("height")?);
    let mut screens = Vec::new();
    for _ in 0..f.u8()? {
        let id = f.u32()?;
        let (x, y) = (f.u16()?, f.u16()?);
        let rect = Rect::new(x, y, f.u16()?, f.u16()?);
        let rect =
            rect.ok_or(MessageFault::Value { what: "a screen beyond 65535, with the id", value: id.into() })?;
        screens.push(Screen { id, rect, flags: f.u32()? });
    }
    Ok((width, height, screens))
}

/// The caller's cursor is [consistent](Cursor::is_consistent).
fn put_cursor(out: &mut Vec<u8>, cursor: &Cursor) {
    out.put_u8(CURSOR);
    for n in [cursor.hot_x, cursor.hot_y, cursor.width, cursor.height] {
        out.put_varint(n.into());
    }
    cursor.pixels.iter().for_each(|&pixel| out.put_colour(pixel));
    out.put(&cursor.mask);
}

fn cursor(f: &mut FieldReader<'_>) -> Result<Cursor, MessageFault> {
    let (hot_x, hot_y) = (f.side("a hot spot")?, f.side("a hot spot")?);
    let (width, height) = (f.side("width")?, f.side("height")?);
    // DT-11.
    for (side, hot) in [(width, hot_x), (height, hot_y)] {
        if side > Cursor::MAX_SIDE {
            return Err(MessageFault::Value { what: "a side of a cursor", value: side.into() });
        }
        if hot >= side.max(1) {
            return Err(MessageFault::Value { what: "a hot spot", value: hot.into() });
        }
    }
    let area = width as usize * height as usize;
    let pixels = f.take(3 * area)?.chunks_exact(3);
    let pixels = pixels.map(|p| u32::from_be_bytes([0, p[0], p[1], p[2]])).collect();
    let mask = f.take((width as usize).div_ceil(8) * height as usize)?.to_vec();
    Ok(Cursor { width, height, hot_x, hot_y, pixels, mask })
}

fn reason_code(reason: ResizeReason) -> u8 {
    match reason {
        ResizeReason::Server => 0,
        ResizeReason::ThisClient => 1,
        ResizeReason::OtherClient => 2,
    }
}

fn reason(code: u8) -> ResizeReason {
    match code {
        1 => ResizeReason::ThisClient,
        2 => ResizeReason::OtherClient,
        _ => ResizeReason::Server,
    }
}

/// RFB's numbers; those above 254 are one.
fn status_code(status: ResizeStatus) -> u8 {
    match status {
        ResizeStatus::Done => 0,
        ResizeStatus::Prohibited => 1,
        ResizeStatus::OutOfResources => 2,
        ResizeStatus::InvalidLayout => 3,
        ResizeStatus::Other(n) => u8::try_from(n).unwrap_or(255),
    }
}

fn status(code: u8) -> ResizeStatus {
    match code {
        0 => ResizeStatus::Done,
        1 => ResizeStatus::Prohibited,
        2 => ResizeStatus::OutOfResources,
        3 => ResizeStatus::InvalidLayout,
        n => ResizeStatus::Other(n.into()),
    }
}

const HELLO: u8 = 0x02;
const WELCOME: u8 = 0x03;
const REFRESH: u8 = 0x04;
const UNABLE: u8 = 0x05;
const WISH: u8 = 0x06;
const MARK: u8 = 0x07;
const LAYOUT: u8 = 0x08;
const CURSOR: u8 = 0x09;
const NAME: u8 = 0x0a;
const LEDS: u8 = 0x0b;
const BELL: u8 = 0x0c;
const PING: u8 = 0x10;
const PONG: u8 = 0x11;
const SHARE: u8 = 0x12;
const PROOF: u8 = 0x13;
const TAKEN: u8 = 0x14;
const HEAR: u8 = 0x15;
const RATE: u8 = 0x16;
const QUALITY: u8 = 0x17;
/// What a varint can say.
const MAX_VARINT: u64 = (1 << 62) - 1;
/// The bit of HELLO's features that says that an offer follows.
const OFFERS: u64 = 2;
/// The bit of them that says that what the client means follows.
const SAYS_WHICH: u64 = 4;
/// The bit of them that says that the visit follows.
const VISITS: u64 = 8;
/// Those of them that say what follows.
const HELLO_FIELDS: u64 = OFFERS | SAYS_WHICH | VISITS;
/// The bit of WELCOME's features that says that what is known of the visit follows.
const COUNTS: u64 = 1;
