//! How a text of the clipboard gets to whoever speaks RFB.

use quickset_rfb::ClipboardCaps;

/// By what it can do, in the order of what serves it worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// At once and in Latin-1: it knows nothing else.
    Plain,
    /// At once in UTF-8, if it has no more than so many bytes.
    Given {
        /// Bytes.
        most: usize,
    },
    /// It hears that there is one, and asks for it.
    Asked,
}

impl Way {
    /// To one who has the extended clipboard and has said this of it.
    pub(crate) fn of(caps: Option<&ClipboardCaps>) -> Self {
        match caps {
            // As the extension has it of those that say nothing.
            None => Self::Given { most: 20 << 20 },
            Some(caps) if !caps.formats.text() => Self::Plain,
            Some(caps) if caps.notify => Self::Asked,
            Some(caps) if caps.provide => Self::Given { most: caps.unsolicited_text as usize },
            Some(_) => Self::Plain,
        }
    }

    /// Whether the text itself has to be there, or only word of it.
    pub(crate) fn wants_text(self) -> bool {
        self != Self::Asked
    }

    /// Whether a text of so many bytes goes in UTF-8 at once.
    pub(crate) fn gives(self, bytes: usize) -> bool {
        matches!(self, Self::Given { most } if bytes <= most)
    }
}
