//! A descriptor that is readable or not, for poll(2) and its like.

use std::io;

#[cfg(unix)]
use std::os::{fd::AsRawFd as _, unix::net::UnixStream};

/// A pair of sockets, of which the one is readable while a byte is under way from the other. Systems that
/// wait for handles of another kind have none.
pub(crate) struct Doorbell {
    #[cfg(unix)]
    reader: UnixStream,
    #[cfg(unix)]
    writer: UnixStream,
}

#[cfg(unix)]
impl Doorbell {
    pub(crate) fn new() -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        Ok(Self { reader, writer })
    }

    /// The descriptor, where there is one.
    #[expect(clippy::unnecessary_wraps, reason = "other systems have none")]
    pub(crate) fn descriptor(&self) -> Option<i32> {
        Some(self.reader.as_raw_fd())
    }

    /// Makes the descriptor readable. It is not.
    pub(crate) fn raise(&self) {
        // There is room for one byte, since there is none.
        let _ = io::Write::write(&mut &self.writer, &[1]);
    }

    /// Makes it unreadable again.
    pub(crate) fn clear(&self) {
        // The byte is there, unless the application has read what it was told to leave alone.
        let _ = io::Read::read(&mut &self.reader, &mut [0; 8]);
    }

    #[cfg(test)]
    pub(crate) fn is_raised(&self) -> bool {
        let raised = io::Read::read(&mut &self.reader, &mut [0; 8]).is_ok();
        if raised {
            self.raise();
        }
        raised
    }
}

#[cfg(not(unix))]
#[expect(
    clippy::unused_self,
    clippy::unnecessary_wraps,
    reason = "where there are descriptors they are used"
)]
impl Doorbell {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {})
    }

    pub(crate) fn descriptor(&self) -> Option<i32> {
        None
    }

    pub(crate) fn raise(&self) {}

    pub(crate) fn clear(&self) {}
}
