//! How a text of the clipboard gets to whoever speaks RFB.

use quickset_rfb::ClipboardCaps;

/// By what it can do, in the order of what serves it worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClipboardWay {
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

impl ClipboardWay {
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

    /// Whether a text goes in UTF-8 at once. One that Latin-1 has goes by RFC 6143 §7.5.6 and §7.6.4, which
    /// everybody understands: x11vnc says that it takes the other and drops it.
    pub(crate) fn gives(self, text: &str) -> bool {
        matches!(self, Self::Given { most } if text.len() <= most) && text.chars().any(|c| c > '\u{ff}')
    }
}

#[cfg(test)]
mod tests {
    use quickset_rfb::Formats;

    use super::*;

    #[test]
    fn what_latin_1_has_needs_no_extension() {
        // As libvncserver 0.9.14 says it.
        let caps = ClipboardCaps {
            formats: Formats::TEXT,
            request: true,
            peek: true,
            notify: false,
            provide: true,
            unsolicited_text: 1 << 20,
        };
        let way = ClipboardWay::of(Some(&caps));
        assert!(!way.gives("plain") && !way.gives("Gr\u{fc}\u{df}e \u{ff}"));
        assert!(way.gives("\u{100}") && way.gives("5 \u{20ac}"));
        assert!(!way.gives(&"\u{20ac}".repeat(1 << 20)), "longer than it takes");
        assert!(!ClipboardWay::Plain.gives("5 \u{20ac}"));
    }
}
