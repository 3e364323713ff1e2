use std::time::Duration;

use quickset_quic::{Goal, Protection};

/// What an application needs of a stream. It decides how losses are met: whether data is sent again, repaired
/// beforehand, or left.
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
    /// Asks for nothing, as every stream does at the start: lost data is sent again, and repaired only if the
    /// connection protects all streams.
    pub fn none() -> Self {
        Self::default()
    }

    /// Suits updates of a screen: everything before a [fence](crate::MessageSender::fence) should be complete
    /// soon.
    pub fn screen() -> Self {
        Self::default().with(Protection::Adaptive(Some(Goal::Screen)))
    }

    /// Suits messages that count one by one, each until its deadline: input, chat, signals of media.
    ///
    /// Give messages a stream of their own if they are much smaller than others or due much sooner, like
    /// sound beside video frames. A repair symbol is as long as the longest message that it covers, and is
    /// sent for the message that is due first.
    pub fn messages() -> Self {
        Self::default().with(Protection::Adaptive(Some(Goal::Messages)))
    }

    /// Suits a transfer, of which the last byte should arrive soon.
    pub fn bulk() -> Self {
        Self::default().with(Protection::Adaptive(Some(Goal::Bulk)))
    }

    /// Replaces the protection by another one, like `"rs:105/100".parse()?`. With [`Protection::None`] the
    /// stream has no protection of its own.
    #[must_use]
    pub fn with(mut self, protection: Protection) -> Self {
        self.protection = protection;
        self
    }

    /// Sets how long after sending a message is of use, unless [`send_by`](crate::MessageSender::send_by)
    /// says otherwise. Streams of bytes have no deadlines.
    #[must_use]
    pub fn within(mut self, time: Duration) -> Self {
        self.within = Some(time);
        self
    }

    /// Returns how losses are repaired.
    pub fn protection(&self) -> &Protection {
        &self.protection
    }

    /// Returns how long messages are of use; `None` if they are of use for ever.
    pub fn deadline(&self) -> Option<Duration> {
        self.within
    }
}

impl From<Protection> for Reliability {
    fn from(protection: Protection) -> Self {
        Self::default().with(protection)
    }
}
