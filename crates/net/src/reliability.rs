use std::time::Duration;

use quickset_quic::{Goal, Protection};

/// What an application says of a stream, so that losses are met with what fits it: sent again, repaired beforehand, or
/// left.
///
/// ```
/// # async fn example(connection: quickset_net::Connection) -> Result<(), Box<dyn std::error::Error>> {
/// # use std::time::Duration;
/// use quickset_net::Reliability;
///
/// let mut screen = connection.open_messages().await?.with(Reliability::screen());
/// let ms = Duration::from_millis;
/// let mut pointer = connection.open_messages().await?.with(Reliability::messages().within(ms(250)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reliability {
    protection: Protection,
    within: Option<Duration>,
}

impl Reliability {
    /// Nothing of its own, as at the start: what is lost is sent again, and repaired only if the connection repairs
    /// everything.
    pub fn none() -> Self {
        Self::default()
    }

    /// Updates of a screen: what lies before a [fence](crate::MessageSender::fence) is to be complete soon.
    pub fn screen() -> Self {
        Self::default().with(Protection::Adaptive(Some(Goal::Screen)))
    }

    /// Messages of which each counts by itself, until its deadline: input, chat, signals of media.
    ///
    /// Those that are much smaller than others, or due much sooner, like sound beside frames, want a channel of their own: repair
    /// is as long as the longest message that it covers, and sent for the one that is due first.
    pub fn messages() -> Self {
        Self::default().with(Protection::Adaptive(Some(Goal::Messages)))
    }

    /// A transfer: the last byte is to be there soon.
    pub fn bulk() -> Self {
        Self::default().with(Protection::Adaptive(Some(Goal::Bulk)))
    }

    /// Another protection, like `"rs:105/100".parse()?`. With [`Protection::None`] the stream has none of its own.
    #[must_use]
    pub fn with(mut self, protection: Protection) -> Self {
        self.protection = protection;
        self
    }

    /// Messages are of use for so long after they were sent, unless [`send_by`](crate::MessageSender::send_by) says
    /// otherwise. Streams of bytes have no deadlines.
    #[must_use]
    pub fn within(mut self, time: Duration) -> Self {
        self.within = Some(time);
        self
    }

    /// How losses are repaired.
    pub fn protection(&self) -> &Protection {
        &self.protection
    }

    /// How long messages are of use; `None`: for ever.
    pub fn deadline(&self) -> Option<Duration> {
        self.within
    }
}

impl From<Protection> for Reliability {
    fn from(protection: Protection) -> Self {
        Self::default().with(protection)
    }
}
