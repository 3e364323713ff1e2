//! How long calls wait.

use std::time::{Duration, Instant};

/// How long a call may take.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// It does what can be done at once.
    None,
    Until(Instant),
    Ever,
}

impl Patience {
    /// As C says it: 0 for none, less for ever, more for so many milliseconds.
    pub(crate) fn of_ms(ms: i32) -> Self {
        match u64::try_from(ms) {
            Ok(0) => Self::None,
            // So far ahead there is no overflow: it is 25 days at most.
            Ok(ms) => Self::Until(Instant::now() + Duration::from_millis(ms)),
            Err(_) => Self::Ever,
        }
    }
}
