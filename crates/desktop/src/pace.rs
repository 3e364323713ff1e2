use quickset::{RateCap, Time};
use tokio::time::Instant;

/// When what is sent by TCP may leave, if somebody wants no more than so much to be sent: the system does all
/// the rest. QUIC has the same in its connections.
#[derive(Debug)]
pub(crate) struct TcpPace {
    begin: Instant,
    cap: Option<RateCap>,
}

impl TcpPace {
    /// Whenever it wants to.
    pub(crate) fn new() -> Self {
        Self { begin: Instant::now(), cap: None }
    }

    /// No more than so many bits per second from now on; `None`: as many as there is room for.
    pub(crate) fn set_max_rate_bps(&mut self, most: Option<u64>) {
        let now = self.now();
        match (most, &mut self.cap) {
            (Some(most), Some(cap)) => cap.set_rate(most, now),
            (Some(most), none) => *none = Some(RateCap::new(most, now)),
            (None, cap) => *cap = None,
        }
    }

    /// When a frame of so many bytes may leave that is not urgent; `None`: now.
    pub(crate) fn due(&mut self, bytes: usize) -> Option<Instant> {
        let now = self.now();
        let at = self.cap.as_mut()?.wait(now, (bytes + AROUND) as u64).err()?;
        Some(self.begin + std::time::Duration::from_nanos(at.as_nanos()))
    }

    /// One of so many bytes has left, urgent or not.
    pub(crate) fn on_sent(&mut self, bytes: usize) {
        if let Some(cap) = &mut self.cap {
            cap.on_sent((bytes + AROUND) as u64);
        }
    }

    fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Around a frame: its head, a record of TLS, and the head of a WebSocket's message.
const AROUND: usize = 32;
