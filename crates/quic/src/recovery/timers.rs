use quickset_base::{Duration, Reason, Time};
use quickset_wire::Space;

use super::Recovery;

/// When something is due.
impl Recovery {
    /// When [`on_time`](Self::on_time) is due. A server that may send nothing more to an address that is not
    /// validated sets no probe timer: `may_probe` is false (RFC 9002 §6.2.2.1). It is asked again when a
    /// datagram gave it credit (RFC 9002 §A.6).
    pub(crate) fn deadline(&self, may_probe: bool) -> Option<(Time, Reason)> {
        if let Some((time, _)) = self.loss_time() {
            return Some((time, Reason::LossTime));
        }
        let (time, _) = if may_probe { self.pto_time()? } else { return None };
        Some((time, Reason::Pto))
    }

    pub(super) fn loss_time(&self) -> Option<(Time, Space)> {
        let times = Space::ALL.into_iter().filter_map(|s| Some((self.spaces.get(s)?.loss_time?, s)));
        times.min_by_key(|(time, _)| *time)
    }

    /// When and in which space a probe is due (RFC 9002 §6.2.1, §A.8).
    pub(super) fn pto_time(&self) -> Option<(Time, Space)> {
        let of = |space: Space| {
            let numbers = self.spaces.get(space)?;
            // RFC 9002 §6.2.1: 1-RTT packets are probed for only when the peer surely can read them.
            let waits = numbers.sent.eliciting() > 0 && (space != Space::Data || self.confirmed);
            waits.then(|| (numbers.last_eliciting + self.probe_wait(space), space))
        };
        let earliest = Space::ALL.into_iter().filter_map(of).min_by_key(|(time, _)| *time);
        if earliest.is_some() || self.side.is_server() || self.confirmed {
            return earliest;
        }
        // RFC 9002 §6.2.2.1: the server may be out of credit and wait for us, so a client goes on probing;
        // not only until an address of ours is known to be validated, for a NAT may have given us another.
        let space = if self.has_handshake_keys { Space::Handshake } else { Space::Initial };
        let begun = self.next_number(Space::Initial) > 0;
        begun.then(|| (self.touched + self.probe_wait(space), space))
    }

    /// How long a probe waits behind what was sent last (RFC 9002 §6.2.1).
    fn probe_wait(&self, space: Space) -> Duration {
        let pto = self.pto(space);
        let doubled = pto.saturating_mul(1 << self.pto_count.min(MAX_BACKOFF));
        // RFC 9002 §6.2.1 would have it doubled as often as it takes. But who gives up when the handshake has
        // taken too long would ask thrice until then, and not at all for the last third of the time. It is
        // that time that bounds what probes cost which are no further apart.
        if self.confirmed { doubled } else { doubled.min(self.handshake_wait.max(pto)) }
    }

    /// When the last of the application's packets left that elicits, if any of them waits for its
    /// acknowledgement.
    #[inline]
    pub(crate) fn waits_since(&self) -> Option<Time> {
        let numbers = &self.spaces.data;
        (numbers.sent.eliciting() > 0).then_some(numbers.last_eliciting)
    }
}

/// Probe timeouts double so often at most; the idle timeout ends what is left.
const MAX_BACKOFF: u32 = 16;
/// Probes fall into the time that the handshake may take, that many at least where a probe timeout is no
/// longer.
pub(super) const HANDSHAKE_PROBES: u32 = 8;
