//! The side of a server: what our gateway is to an unmodified viewer.
//!
//! In: the viewer's bytes, in any chunks, and updates of a [`Framebuffer`](crate::Framebuffer). Out: events,
//! and bytes for the viewer. The handshake, announcements of extensions and answers to the viewer's fences go
//! out unasked. Pixels leave in the viewer's format. Invariants: after an error nothing is read any more;
//! what is held is one message; no extension is used that the viewer has not listed. Source: RFC 6143 §7 and
//! the community's specification.

mod handshake;
mod paint;
mod session;
mod update;

use bytes::{BufMut, BytesMut};
use quickset_base::Rng;

pub use self::session::{PixelCoding, ViewerFeatures};
pub use self::update::UpdateWriter;

use self::handshake::ServerHandshake;
use self::session::ServerSession;
use crate::clipboard::put_latin1;
use crate::inlet::MessageInlet;
use crate::protocol::{MAX_TEXT, SERVER_BELL, SERVER_CUT_TEXT};
use crate::{
    Error, ExtendedClipboard, Fence, Limits, PixelFormat, Rect, RfbRefusal, RfbVersion, Screen, VncPassword,
};

/// What a viewer is told, and asked for.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// What the viewer must know.
    pub security: Security,
    /// The name of the desktop; what is longer than 4096 bytes is cut.
    pub name: String,
    /// Columns of the framebuffer.
    pub width: u16,
    /// Rows of the framebuffer.
    pub height: u16,
    /// The viewer is on this machine, where bytes cost less than packing them. A viewer that asks for a level
    /// of compression is given it nevertheless.
    pub is_local: bool,
    /// What the viewer may make us hold. The framebuffer is ours and not limited by it.
    pub limits: Limits,
}

/// How a viewer proves who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Security {
    /// Not at all.
    None,
    /// By DES challenge.
    VncAuth(VncPassword),
    /// Whatever it knows, it is told this and refused.
    Refuse(String),
}

/// A connection to a viewer. The contract:
///
/// 1. Give [`receive`](Self::receive) what came, again and again until it says `None`: then the input is used
///    up.
/// 2. Send [`output`](Self::output), taking out what was sent. It grows by what is called here, and by little
///    more than was received; to be safe from a viewer that never reads, stop reading from it while much is
///    waiting.
/// 3. After [`ServerEvent::Ready`], answer requests by [`update`](Self::update). Until then verbs are
///    refused.
/// 4. After an error send what is waiting (it may be the reason), and close.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    pub(crate) inlet: MessageInlet,
    out: BytesMut,
    phase: ServerPhase,
    error: Option<Error>,
}

#[derive(Debug)]
enum ServerPhase {
    Handshake(ServerHandshake),
    Session(Box<ServerSession>),
}

/// What a viewer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// The handshake is over.
    Ready {
        /// Other viewers may stay.
        shared: bool,
        /// The version spoken.
        version: RfbVersion,
    },
    /// From now on pixels leave in this format. A viewer that changes it late asks for all of them again.
    Format(PixelFormat),
    /// What the viewer has listed; extensions were announced to it.
    Features(ViewerFeatures),
    /// Wants an update.
    Request {
        /// Only what has changed.
        incremental: bool,
        /// Inside the framebuffer: what was outside is cut off. It may be empty.
        rect: Rect,
    },
    /// Wants changes in this rectangle without requests, or (`None`) not any more; the end was confirmed.
    ContinuousUpdates(Option<Rect>),
    /// A key.
    Key {
        /// Or up.
        down: bool,
        /// X11's.
        keysym: u32,
        /// The XT scan code, from a viewer with QEMU key events.
        keycode: Option<u32>,
    },
    /// The pointer.
    Pointer {
        /// Bit n is set while button n + 1 is down.
        buttons: u8,
        /// Column; may lie outside.
        x: u16,
        /// Row; may lie outside.
        y: u16,
    },
    /// Somebody copied this text; in Latin-1 on the wire.
    Text(String),
    /// A message of the extended clipboard.
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
    /// The viewer answers our fence, or with an empty payload the one that announced the extension.
    Fence(Fence),
    /// Wants another size; to be answered by [`UpdateWriter::resize`], whatever comes of it.
    SetDesktopSize {
        /// Columns.
        width: u16,
        /// Rows.
        height: u16,
        /// At most 255.
        screens: Vec<Screen>,
    },
}

impl Server {
    /// A connection that has just been accepted; the version is waiting in the output. VncAuth draws its
    /// challenge from `rng`.
    pub fn new(config: ServerConfig, rng: &mut Rng) -> Self {
        let mut challenge = [0; 16];
        rng.fill(&mut challenge);
        let phase = ServerPhase::Handshake(ServerHandshake::new(challenge));
        let out = BytesMut::from(&RfbVersion::V38.line()[..]);
        Self { config, inlet: MessageInlet::default(), out, phase, error: None }
    }

    /// Reads until something has happened; `None` when all of `input` is used up.
    ///
    /// # Errors
    /// What is wrong with the viewer's bytes or password; then the same for ever.
    pub fn receive(&mut self, input: &mut &[u8]) -> Result<Option<ServerEvent>, Error> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        loop {
            match self.step(input) {
                Ok(ServerStep::Again) => {}
                Ok(ServerStep::Starved) => return Ok(None),
                Ok(ServerStep::Event(event)) => return Ok(Some(event)),
                Err(error) => {
                    self.error = Some(error.clone());
                    return Err(error);
                }
            }
        }
    }

    /// Bytes for the viewer. Take out what was sent.
    pub fn output(&mut self) -> &mut BytesMut {
        &mut self.out
    }

    /// What the viewer has listed; nothing before it did.
    pub fn features(&self) -> ViewerFeatures {
        self.session().map(ServerSession::features).unwrap_or_default()
    }

    /// The format in which pixels leave.
    pub fn format(&self) -> PixelFormat {
        self.session().map_or(PixelFormat::XRGB, ServerSession::format)
    }

    /// From the next update on bytes cost less than to pack them, as on one machine, whatever level of
    /// compression the viewer asks for; or no more. Before [`ServerEvent::Ready`] this does nothing.
    pub fn set_plain(&mut self, plain: bool) {
        if let ServerPhase::Session(session) = &mut self.phase {
            session.is_plain = plain;
        }
    }

    /// An update, complete when it is dropped. One without rectangles is not sent.
    pub fn update(&mut self) -> Result<UpdateWriter<'_>, RfbRefusal> {
        let (session, out) = self.ready()?;
        Ok(UpdateWriter::counted(session, out))
    }

    /// An update that can be sent while it is being made; the viewer must know LastRect.
    pub fn streamed_update(&mut self) -> Result<UpdateWriter<'_>, RfbRefusal> {
        let (session, out) = self.ready()?;
        if !session.features().last_rect {
            return Err(RfbRefusal::NotSupported);
        }
        Ok(UpdateWriter::streamed(session, out))
    }

    /// Sounds a beep.
    pub fn bell(&mut self) -> Result<(), RfbRefusal> {
        let (_, out) = self.ready()?;
        out.put_u8(SERVER_BELL);
        Ok(())
    }

    /// Somebody copied this text. What Latin-1 lacks becomes a question mark: prefer the extended
    /// [`clipboard`](Self::clipboard).
    pub fn text(&mut self, text: &str) -> Result<(), RfbRefusal> {
        let (_, out) = self.ready()?;
        if text.len() > MAX_TEXT {
            return Err(RfbRefusal::TooLong);
        }
        put_latin1(SERVER_CUT_TEXT, text, out);
        Ok(())
    }

    /// A message of the extended clipboard.
    pub fn clipboard(&mut self, message: &ExtendedClipboard) -> Result<(), RfbRefusal> {
        let (session, out) = self.ready()?;
        if !session.features().extended_clipboard {
            return Err(RfbRefusal::NotSupported);
        }
        if matches!(message, ExtendedClipboard::Provide(Some(text)) if text.len() > MAX_TEXT) {
            return Err(RfbRefusal::TooLong);
        }
        message.encode(SERVER_CUT_TEXT, out);
        Ok(())
    }

    /// Sends a fence to be answered.
    pub fn fence(&mut self, fence: &Fence) -> Result<(), RfbRefusal> {
        let (session, out) = self.ready()?;
        if !session.features().fence {
            return Err(RfbRefusal::NotSupported);
        }
        if fence.payload.len() > Fence::MAX_PAYLOAD {
            return Err(RfbRefusal::TooLong);
        }
        fence.encode(true, out);
        Ok(())
    }

    fn step(&mut self, input: &mut &[u8]) -> Result<ServerStep, Error> {
        let mut source = self.inlet.with(input);
        match &mut self.phase {
            ServerPhase::Handshake(handshake) => {
                let step = handshake.step(&self.config, &mut source, &mut self.out)?;
                if matches!(step, ServerStep::Event(ServerEvent::Ready { .. })) {
                    self.phase = ServerPhase::Session(Box::new(ServerSession::new(&self.config)));
                }
                Ok(step)
            }
            ServerPhase::Session(session) => session.step(&mut source, &mut self.out),
        }
    }

    fn session(&self) -> Result<&ServerSession, RfbRefusal> {
        match &self.phase {
            ServerPhase::Session(session) if self.error.is_none() => Ok(session),
            _ => Err(RfbRefusal::NotReady),
        }
    }

    fn ready(&mut self) -> Result<(&mut ServerSession, &mut BytesMut), RfbRefusal> {
        match &mut self.phase {
            ServerPhase::Session(session) if self.error.is_none() => Ok((session, &mut self.out)),
            _ => Err(RfbRefusal::NotReady),
        }
    }
}

/// What one look at the input has led to.
#[derive(Debug)]
enum ServerStep {
    /// The rest of a message has not come yet.
    Starved,
    /// A step further, and nothing to tell.
    Again,
    Event(ServerEvent),
}
