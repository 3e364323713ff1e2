use quickset_base::Time;
use serde::Serialize;

use crate::conn::Connection;

/// What a protocol above has to tell: the same trace, on the same clock.
impl Connection {
    /// Whether the connection leaves a trace.
    pub fn is_traced(&self) -> bool {
        self.common.qlog.is_on()
    }

    /// Writes an event of the application's protocol into the trace, if there is one. `name` is
    /// `category:event`; who writes it sees to it that `data` holds no secrets and is of bounded size.
    pub fn trace(&mut self, now: Time, name: &'static str, data: &impl Serialize) {
        if let Some(log) = self.common.qlog.log() {
            log.named(now, name, data);
        }
    }
}
