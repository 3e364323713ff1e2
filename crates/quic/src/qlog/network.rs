use quickset_base::Time;
use serde::Serialize;

use super::log::QlogWriter;
use crate::stats::EcnState;

/// In the words of ecn_state_updated, which is of a later draft than the one that viewers load.
#[derive(Serialize)]
struct EcnUpdated {
    #[serde(skip_serializing_if = "Option::is_none")]
    old: Option<&'static str>,
    new: &'static str,
}

impl QlogWriter {
    /// What is known of the path in use; told when it is something else than before.
    #[inline]
    pub(super) fn path(&mut self, now: Time, ecn: EcnState) {
        if ecn != self.ecn {
            let old = std::mem::replace(&mut self.ecn, ecn);
            self.named(now, ECN, &EcnUpdated { old: word(old), new: word(ecn).unwrap_or("unknown") });
        }
    }
}

/// The standard's words; it has none for what is not wanted.
const fn word(state: EcnState) -> Option<&'static str> {
    match state {
        EcnState::Off => None,
        EcnState::Testing => Some("testing"),
        EcnState::Unknown => Some("unknown"),
        EcnState::Capable => Some("capable"),
        EcnState::Failed => Some("failed"),
    }
}

const ECN: &str = "quickset:ecn_updated";
