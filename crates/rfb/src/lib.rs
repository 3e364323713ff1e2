//! RFB, the protocol of VNC, without input or output: bytes in, events out; commands in, bytes out.
//!
//! [`Client`] talks to a VNC server, [`Server`] to a viewer; both take whatever chunks a connection delivers.
//! [`Framebuffer`] is a shadow of a screen, [`Region`] the part of it that is dirty. Nothing here reads a
//! clock, opens a socket or reserves memory by a number off the wire beyond [`Limits`]. Sources: RFC 6143 and
//! the community's RFB specification (rfbproto).
//!
//! ```
//! use quickset_rfb::{Client, ClientConfig, ClientEvent, Framebuffer, Region};
//!
//! /// What came from the server becomes pixels and a dirty area; what is to be sent is in `client.output()`.
//! fn receive(client: &mut Client, mut input: &[u8], screen: &mut Framebuffer, dirty: &mut Region)
//!     -> Result<(), Box<dyn std::error::Error>>
//! {
//!     while let Some(event) = client.receive(&mut input)? {
//!         match event {
//!             ClientEvent::Ready(init) => screen.resize(init.width, init.height)?,
//!             ClientEvent::Pixels { rect, pixels } => {
//!                 screen.put(rect, pixels)?;
//!                 dirty.add(rect);
//!             }
//!             ClientEvent::Copy { rect, x, y } => {
//!                 screen.copy(rect, x, y)?;
//!                 dirty.add(rect);
//!             }
//!             ClientEvent::UpdateEnd => client.request(true, screen.bounds())?,
//!             _ => {}
//!         }
//!     }
//!     Ok(())
//! }
//!
//! let mut client = Client::new(ClientConfig::default());
//! let mut screen = Framebuffer::new(0, 0, 1 << 28)?;
//! receive(&mut client, b"RFB 003.008\n", &mut screen, &mut Region::new())?;
//! assert_eq!(client.output()[..], b"RFB 003.008\n"[..]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    expect(clippy::cast_possible_truncation, reason = "numbers in tests are small, or cut on purpose")
)]

mod client;
mod clipboard;
mod crc;
mod damage;
mod error;
mod framebuffer;
mod inlet;
mod part;
mod pixel;
mod protocol;
mod rect;
mod region;
mod server;
#[cfg(test)]
mod tests;
mod vencrypt;
mod vnc_auth;

pub use client::{Client, ClientConfig, ClientEvent, RfbExtension, ServerInit};
pub use clipboard::{ClipboardCaps, ExtendedClipboard, Formats};
pub use crc::crc32;
pub use damage::{CopyRect, Damage};
pub use error::{Error, RawRect, RfbRefusal};
pub use framebuffer::{Framebuffer, Outside, TooLarge};
pub use part::Part;
pub use pixel::{ColourChannel, PixelFormat};
pub use protocol::{
    Cursor, Encoding, Fence, Leds, Resize, ResizeReason, ResizeStatus, RfbVersion, Screen, SecurityType,
};
pub use rect::Rect;
pub use region::Region;
pub use server::{PixelCoding, Security, Server, ServerConfig, ServerEvent, UpdateWriter, ViewerFeatures};
pub use vencrypt::{PlainLogin, VencryptType, VencryptWish};
pub use vnc_auth::VncPassword;

/// How much the other side may make us hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest framebuffer, at four bytes a pixel. Default 256 MiB, which is 8K. No side is ever longer
    /// than [`Framebuffer::MAX_SIDE`].
    pub framebuffer_bytes: usize,
    /// The longest text of the clipboard, in bytes. Default 1 MiB; longer ones are passed over and reported.
    pub text_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { framebuffer_bytes: 256 << 20, text_bytes: 1 << 20 }
    }
}

impl Limits {
    fn check_size(&self, width: u16, height: u16) -> Result<(), Error> {
        let bytes = u64::from(width) * u64::from(height) * 4;
        let side = Framebuffer::MAX_SIDE;
        if width > side || height > side || bytes > self.framebuffer_bytes as u64 {
            return Err(Error::FramebufferSize { width, height });
        }
        Ok(())
    }
}
