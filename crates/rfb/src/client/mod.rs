//! The side of a viewer: what our gateway is to a VNC server.
//!
//! In: the server's bytes, in any chunks, and commands. Out: events, and bytes for the server. The handshake,
//! SetPixelFormat, SetEncodings, answers to the server's fences and our clipboard capabilities go out
//! unasked. Pixels are 0x00RRGGBB whatever format was asked for. Invariants: after an error nothing is read
//! any more; what is held is one message, or one row of pixels. Source: RFC 6143 §7 and the community's
//! specification.

mod command;
mod handshake;
mod session;

use bytes::BytesMut;

use self::handshake::ClientHandshake;
use self::session::RfbClientSession;
use crate::inlet::MessageInlet;
use crate::{
    Cursor, Encoding, Error, ExtendedClipboard, Fence, Leds, Limits, PixelFormat, PlainLogin, Rect, Resize,
    RfbRefusal, RfbVersion, VencryptWish, VncPassword,
};

/// How to talk to a server.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// For VncAuth. With a password VncAuth is preferred, without one None is the only choice.
    pub password: Option<VncPassword>,
    /// For VeNCrypt with a user's name and password, which then is preferred.
    pub login: Option<PlainLogin>,
    /// Whether to encrypt; with any other than [`VencryptWish::Never`] there may be a
    /// [`ClientEvent::StartTls`].
    pub vencrypt: VencryptWish,
    /// Leaves other viewers connected.
    pub shared: bool,
    /// What the server may use, best first. What we could not read is left out: Hextile, Tight, ZRLE, and
    /// [`Encoding::Other`].
    pub encodings: Vec<Encoding>,
    /// The format to ask for; true colour. Pixels are converted either way.
    pub format: PixelFormat,
    /// What the server may make us hold.
    pub limits: Limits,
}

impl Default for ClientConfig {
    /// Shared, no password, no TLS, everything we know, and [`PixelFormat::XRGB`].
    fn default() -> Self {
        use Encoding as E;
        let encodings = vec![
            E::CopyRect,
            E::Raw,
            E::LastRect,
            E::Cursor,
            E::ExtendedDesktopSize,
            E::DesktopSize,
            E::DesktopName,
            E::LedState,
            E::QemuKeys,
            E::Fence,
            E::ContinuousUpdates,
            E::ExtendedClipboard,
        ];
        Self {
            password: None,
            login: None,
            vencrypt: VencryptWish::Never,
            shared: true,
            encodings,
            format: PixelFormat::XRGB,
            limits: Limits::default(),
        }
    }
}

/// A connection to a VNC server. The contract:
///
/// 1. Give [`receive`](Self::receive) what came, again and again until it says `None`: then the input is used
///    up.
/// 2. Send [`output`](Self::output), taking out what was sent. It grows by commands, and by at most as many
///    bytes as were received; to be safe from a server that never reads, stop reading from it while much is
///    waiting.
/// 3. At [`ClientEvent::StartTls`] the rest of the input has to be used up as ever, and the output sent. Then
///    shake hands by TLS as its client, check whose certificate it is, call
///    [`tls_started`](Self::tls_started), and go on with what is inside of TLS.
/// 4. After [`ClientEvent::Ready`], ask for updates. Until then commands are refused.
/// 5. After an error send what is waiting, if you like, and close.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    pub(crate) inlet: MessageInlet,
    out: BytesMut,
    phase: ClientPhase,
    error: Option<Error>,
}

#[derive(Debug)]
enum ClientPhase {
    Handshake(ClientHandshake),
    Session(Box<RfbClientSession>),
}

/// What a server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEvent<'a> {
    /// The server begins with TLS: contract, 3.
    StartTls,
    /// The handshake is over; pixel format and encodings are set.
    Ready(ServerInit),
    /// Rows of a rectangle: one of the server's comes in one or several such parts, from top to bottom, as
    /// its bytes come.
    Pixels {
        /// Where; inside the framebuffer, not empty.
        rect: Rect,
        /// As many as the rectangle has, row by row.
        pixels: &'a [u32],
    },
    /// A rectangle is copied from (`x`, `y`), as it is after all events before this one.
    Copy {
        /// Where to; inside the framebuffer.
        rect: Rect,
        /// Left edge of the source; inside the framebuffer.
        x: u16,
        /// Top edge of the source.
        y: u16,
    },
    /// All of an update was reported: now the screen can be shown.
    UpdateEnd,
    /// The pointer has another shape; with width or height 0 it has none.
    Cursor(Cursor),
    /// The framebuffer has another size (unless the status says otherwise), or its screens are listed. Pixels
    /// that are in both sizes stay.
    Resize(Resize),
    /// The desktop has another name.
    Name(String),
    /// Lamps of the keyboard.
    Leds(Leds),
    /// A beep.
    Bell,
    /// Somebody copied this text; in Latin-1 on the wire.
    Text(String),
    /// A message of the extended clipboard. Our capabilities have been sent when it is the server's.
    Clipboard(ExtendedClipboard),
    /// A text was longer than [`Limits::text_bytes`] and was passed over.
    TextDropped {
        /// As announced: of the text, or of the message with it.
        bytes: u64,
    },
    /// A text of the extended clipboard cannot be unpacked and was passed over.
    TextBroken {
        /// Of the message with it.
        bytes: u64,
    },
    /// The server answers our fence.
    Fence(Fence),
    /// The server has ended continuous updates as asked: now there is an update per request.
    ContinuousUpdatesEnded,
    /// For the first time the server shows that it has an extension.
    Supports(RfbExtension),
    /// Entries of a colour map, red, green and blue of 65535; of no use with true colour.
    Colours {
        /// The first entry.
        first: u16,
        /// Their intensities.
        colours: Vec<[u16; 3]>,
    },
}

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerInit {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
    /// The format that is natural to it; ours is set already.
    pub format: PixelFormat,
    /// The name of the desktop.
    pub name: String,
    /// The version spoken.
    pub version: RfbVersion,
}

/// What a server may have beyond RFC 6143.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RfbExtension {
    /// [`Client::fence`] works.
    Fence,
    /// [`Client::continuous_updates`] works.
    ContinuousUpdates,
    /// [`Client::set_desktop_size`] works.
    SetDesktopSize,
    /// [`Client::key_code`] works.
    QemuKeys,
    /// [`Client::clipboard`] works.
    Clipboard,
}

impl Client {
    /// A connection that has just been opened. The server speaks first.
    pub fn new(config: ClientConfig) -> Self {
        let phase = ClientPhase::Handshake(ClientHandshake::default());
        Self { config, inlet: MessageInlet::default(), out: BytesMut::new(), phase, error: None }
    }

    /// Reads until something has happened; `None` when all of `input` is used up.
    ///
    /// # Errors
    /// What is wrong with the server's bytes, or why it does not want us; then the same for ever.
    pub fn receive(&mut self, input: &mut &[u8]) -> Result<Option<ClientEvent<'_>>, Error> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let rect = loop {
            match self.step(input) {
                Ok(ClientStep::Again) => {}
                Ok(ClientStep::Starved) => return Ok(None),
                Ok(ClientStep::Event(event)) => return Ok(Some(event)),
                Ok(ClientStep::Pixels(rect)) => break rect,
                Err(error) => {
                    self.error = Some(error.clone());
                    return Err(error);
                }
            }
        };
        let ClientPhase::Session(session) = &self.phase else { return Ok(None) };
        Ok(Some(ClientEvent::Pixels { rect, pixels: session.pixels() }))
    }

    /// Bytes for the server. Take out what was sent.
    pub fn output(&mut self) -> &mut BytesMut {
        &mut self.out
    }

    /// TLS has begun, with whomever it should be: what is received from now on was inside, and so has to be
    /// what is sent.
    ///
    /// # Errors
    /// [`RfbRefusal::NotReady`] unless [`ClientEvent::StartTls`] came last.
    pub fn tls_started(&mut self) -> Result<(), RfbRefusal> {
        match &mut self.phase {
            ClientPhase::Handshake(handshake) if self.error.is_none() => {
                handshake.tls_started(&self.config, &mut self.out)
            }
            _ => Err(RfbRefusal::NotReady),
        }
    }

    /// The framebuffer's columns and rows; `None` before [`ClientEvent::Ready`].
    pub fn size(&self) -> Option<(u16, u16)> {
        self.session().ok().map(RfbClientSession::size)
    }

    /// The server has shown that it has `extension`.
    pub fn supports(&self, extension: RfbExtension) -> bool {
        self.session().is_ok_and(|s| s.supports(extension))
    }

    fn step(&mut self, input: &mut &[u8]) -> Result<ClientStep, Error> {
        let mut source = self.inlet.with(input);
        match &mut self.phase {
            ClientPhase::Handshake(handshake) => {
                let step = handshake.step(&self.config, &mut source, &mut self.out)?;
                if let ClientStep::Event(ClientEvent::Ready(init)) = &step {
                    self.phase = ClientPhase::Session(Box::new(RfbClientSession::new(
                        &self.config,
                        init,
                        handshake.left,
                    )));
                    self.set_format();
                    let encodings = self.config.encodings.clone();
                    self.put_encodings(&encodings);
                }
                Ok(step)
            }
            ClientPhase::Session(session) => session.step(&mut source, &mut self.out),
        }
    }

    fn session(&self) -> Result<&RfbClientSession, RfbRefusal> {
        match &self.phase {
            ClientPhase::Session(session) if self.error.is_none() => Ok(session),
            _ => Err(RfbRefusal::NotReady),
        }
    }
}

/// What one look at the input has led to.
#[derive(Debug)]
enum ClientStep {
    /// The rest of a message has not come yet.
    Starved,
    /// A step further, and nothing to tell.
    Again,
    Event(ClientEvent<'static>),
    /// The session's pixels are those of this rectangle.
    Pixels(Rect),
}
