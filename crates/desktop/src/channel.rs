use quickset::{Priority, h3};

/// A channel of `spec/desktop.md` §3; its number is the kind of its frames on TCP (DT-56).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DesktopChannel {
    Control,
    Input,
    Screen,
    Clipboard,
    Sound,
}

impl DesktopChannel {
    /// Its place among the others: keys before all, a long text beside the screen, and of that a tenth.
    pub(crate) fn priority(self) -> Priority {
        match self {
            Self::Input => Priority::weighted(1.0).urgency(0),
            Self::Control => Priority::weighted(1.0).urgency(1),
            // DT-68.
            Self::Sound => Priority::weighted(1.0).urgency(2),
            // DT-47.
            Self::Screen => Priority::weighted(9.0).urgency(3),
            Self::Clipboard => Priority::weighted(1.0).urgency(3),
        }
    }

    /// The same among the streams of a page's session.
    pub(crate) fn page_priority(self) -> h3::Priority {
        match self {
            Self::Input => h3::Priority::new(0, true),
            Self::Control => h3::Priority::new(1, true),
            Self::Sound => h3::Priority::new(2, true),
            Self::Screen | Self::Clipboard => h3::Priority::new(3, true),
        }
    }
}
