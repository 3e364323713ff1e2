use quickset_base::{Duration, Time};
use quickset_wire::TransportErrorCode as Code;

use super::{HeaderKey, Keys, NextKeys, PacketKey, PacketKeys, Sealing};
use crate::TransportError;

/// The key phase bit in the first byte of a short header (RFC 9000 §17.3.1).
const KEY_PHASE: u8 = 0b0000_0100;

/// From this packet number of the peer on, the generation after the first is there before anybody needs it.
///
/// RFC 9001 §6.3 lets the next keys wait, and forbids that time tells whether a packet that cannot be opened
/// has changed its key phase. So they wait at the beginning, since most connections see no update; and the
/// first packet that cannot be opened, whatever its phase, has them made as one with a changed phase does.
const SOON: u64 = 32;

/// 1-RTT keys: the generation in use, the one before and the one after (RFC 9001 §6).
pub(super) struct OneRtt {
    local: Sealing,
    remote: Sealing,
    /// Once [`SOON`] has come, or somebody needed it before, or might have.
    next: Option<PacketKeys>,
    generator: Box<dyn NextKeys>,
    previous: Option<Previous>,
    generation: u64,
    /// The first packet sealed with the generation in use, once there is one.
    first_sealed: Option<u64>,
    /// The least packet number opened with the generation in use.
    first_opened: Option<u64>,
    sealed: u64,
    /// As many packets may be sealed with one generation (RFC 9001 §6.6).
    limit: u64,
    /// The peer acknowledged a packet of the generation in use.
    proven: bool,
}

struct Previous {
    remote: Box<dyn PacketKey>,
    /// When the generation in use was first opened; the old one is kept a while longer.
    superseded: Option<Time>,
}

impl OneRtt {
    pub(super) fn new(keys: Keys, generator: Box<dyn NextKeys>) -> Self {
        Self {
            limit: keys.local.packet.confidentiality_limit(),
            local: keys.local,
            remote: keys.remote,
            next: None,
            generator,
            previous: None,
            generation: 0,
            first_sealed: None,
            first_opened: None,
            sealed: 0,
            proven: false,
        }
    }

    pub(super) fn header(&self) -> &dyn HeaderKey {
        &*self.remote.header
    }

    pub(super) fn tag_len(&self) -> usize {
        self.local.packet.tag_len()
    }

    pub(super) fn integrity_limit(&self) -> u64 {
        self.remote.packet.integrity_limit()
    }

    pub(super) fn phase(&self) -> bool {
        self.generation % 2 == 1
    }

    pub(super) fn updates(&self) -> u64 {
        self.generation
    }

    /// RFC 9001 §6.4: what is sealed from an update on is sealed with the new keys; none of the old are left
    /// to seal with.
    pub(super) fn sealing(&mut self, number: u64) -> (&dyn PacketKey, &dyn HeaderKey) {
        self.first_sealed.get_or_insert(number);
        self.sealed += 1;
        (&*self.local.packet, &*self.local.header)
    }

    /// Nothing was sealed with the generation in use that is not the first: the peer can have no
    /// acknowledgement with it, and may not begin another (RFC 9001 §6.1).
    pub(super) fn is_unanswered(&self) -> bool {
        self.generation > 0 && self.first_sealed.is_none()
    }

    pub(super) fn open(
        &mut self,
        number: u64,
        header: &[u8],
        payload: &mut [u8],
        now: Time,
    ) -> Option<usize> {
        if (header[0] & KEY_PHASE != 0) == self.phase() {
            let Some(len) = self.remote.packet.open(number, header, payload) else {
                self.upcoming();
                return None;
            };
            if self.first_opened.is_none() {
                if let Some(previous) = &mut self.previous {
                    previous.superseded = Some(now);
                }
            }
            self.first_opened = Some(self.first_opened.map_or(number, |n| n.min(number)));
            if number >= SOON {
                self.upcoming();
            }
            return Some(len);
        }
        // RFC 9001 §6.5: the other phase is the old generation below the first number of this one, and
        // the next generation above it. Until this generation was seen, both are the old one.
        let old = self.first_opened.is_none_or(|first| number < first);
        if old && (self.previous.is_some() || self.first_opened.is_some()) {
            return self.previous.as_ref()?.remote.open(number, header, payload);
        }
        let len = self.upcoming().remote.open(number, header, payload)?;
        // The peer updated its keys; ours follow (RFC 9001 §6.2).
        self.rotate();
        self.first_opened = Some(number);
        if let Some(previous) = &mut self.previous {
            previous.superseded = Some(now);
        }
        Some(len)
    }

    /// The generation after the one in use.
    #[inline]
    fn upcoming(&mut self) -> &PacketKeys {
        self.next.get_or_insert_with(|| self.generator.next())
    }

    fn rotate(&mut self) {
        let PacketKeys { local, remote } = self.next.take().unwrap_or_else(|| self.generator.next());
        // RFC 9001 §6.3: made now, for the next update to take no longer than any packet.
        self.next = Some(self.generator.next());
        self.local.packet = local;
        let remote = std::mem::replace(&mut self.remote.packet, remote);
        self.previous = Some(Previous { remote, superseded: None });
        self.generation += 1;
        self.first_sealed = None;
        self.first_opened = None;
        self.sealed = 0;
        self.proven = false;
    }

    pub(super) fn on_acked(&mut self, largest: u64) {
        self.proven |= self.first_sealed.is_some_and(|first| largest >= first);
    }

    /// RFC 9001 §6.1: not before a packet of the generation in use was acknowledged, nor while the one
    /// before may still be needed (§6.5).
    pub(super) fn update(&mut self, _now: Time) -> bool {
        let may = self.proven && self.previous.is_none();
        if may {
            self.rotate();
        }
        may
    }

    /// An update takes a round trip or three; an eighth of the limit is left for it.
    #[inline]
    pub(super) fn nears_limit(&self) -> bool {
        self.sealed >= self.limit - self.limit / 8
    }

    pub(super) fn keep_within_limit(&mut self, confirmed: bool, now: Time) -> Result<(), TransportError> {
        if confirmed && self.nears_limit() {
            self.update(now);
        }
        if self.sealed >= self.limit {
            return Err(TransportError::new(Code::AEAD_LIMIT_REACHED, "no fresh keys in time"));
        }
        Ok(())
    }

    /// RFC 9001 §6.5: old keys are kept for three PTOs after the first packet under new ones.
    pub(super) fn deadline(&self, pto: Duration) -> Option<Time> {
        self.previous.as_ref().and_then(|p| p.superseded).map(|t| t + 3 * pto)
    }

    pub(super) fn on_time(&mut self, now: Time, pto: Duration) {
        if self.deadline(pto).is_some_and(|t| t <= now) {
            self.previous = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Opens what ends in the number of its generation. Masks nothing.
    struct Numbered(u8);

    impl PacketKey for Numbered {
        fn seal(&self, _: u64, _: &[u8], payload: &mut [u8]) {
            *payload.last_mut().expect("room for the tag") = self.0;
        }

        fn open(&self, _: u64, _: &[u8], payload: &mut [u8]) -> Option<usize> {
            payload.split_last().filter(|(tag, _)| **tag == self.0).map(|(_, plain)| plain.len())
        }

        fn tag_len(&self) -> usize {
            1
        }

        fn confidentiality_limit(&self) -> u64 {
            u64::MAX
        }

        fn integrity_limit(&self) -> u64 {
            u64::MAX
        }
    }

    impl HeaderKey for Numbered {
        fn protect(&self, _: &[u8], _: &mut u8, _: &mut [u8]) {}

        fn unprotect(&self, _: &[u8], _: &mut u8, _: &mut [u8]) {}

        fn sample_len(&self) -> usize {
            16
        }
    }

    /// Counts the generations that were made.
    struct Counted(Arc<AtomicU64>);

    impl NextKeys for Counted {
        fn next(&mut self) -> PacketKeys {
            let made = u8::try_from(self.0.fetch_add(1, Ordering::Relaxed) + 1).expect("few generations");
            PacketKeys { local: Box::new(Numbered(made)), remote: Box::new(Numbered(made)) }
        }
    }

    fn fresh() -> (OneRtt, Arc<AtomicU64>) {
        let sealing = || Sealing { header: Box::new(Numbered(0)), packet: Box::new(Numbered(0)) };
        let made = Arc::<AtomicU64>::default();
        (OneRtt::new(Keys { local: sealing(), remote: sealing() }, Box::new(Counted(made.clone()))), made)
    }

    fn open(keys: &mut OneRtt, number: u64, phase: u8, generation: u8) -> bool {
        keys.open(number, &[0x40 | phase], &mut [1, 2, generation], Time::ZERO) == Some(2)
    }

    /// RFC 9001 §6.3: a short connection makes no second generation, a longer one does so whatever its phase.
    #[test]
    fn the_second_generation_is_made_with_time() {
        let (mut keys, made) = fresh();
        assert!((0..SOON).all(|number| open(&mut keys, number, 0, 0)));
        assert_eq!(made.load(Ordering::Relaxed), 0);
        assert!(open(&mut keys, SOON, 0, 0) && open(&mut keys, SOON + 1, 0, 0));
        assert_eq!(made.load(Ordering::Relaxed), 1);
    }

    /// RFC 9001 §6.3: what is forged takes the same steps, whatever its phase.
    #[test]
    fn forged_packets_of_either_phase_have_the_next_generation_made() {
        for phase in [0, KEY_PHASE] {
            let (mut keys, made) = fresh();
            assert!(open(&mut keys, 0, 0, 0));
            assert_eq!(made.load(Ordering::Relaxed), 0);
            assert!(!open(&mut keys, 1, phase, 9) && !open(&mut keys, 2, phase, 9));
            assert_eq!(made.load(Ordering::Relaxed), 1, "{phase}");
        }
    }

    /// RFC 9001 §6.2, §6.3: an update is followed before the next generation would have been made, and one
    /// that is forged costs its making once.
    #[test]
    fn an_early_update_is_followed_and_a_forged_one_costs_once() {
        let (mut keys, made) = fresh();
        assert!(open(&mut keys, 0, 0, 0));
        for number in 1..4 {
            assert!(!open(&mut keys, number, KEY_PHASE, 9));
            assert_eq!((made.load(Ordering::Relaxed), keys.updates()), (1, 0));
        }
        assert!(open(&mut keys, 4, KEY_PHASE, 1));
        // The one behind it is there at once.
        assert_eq!((made.load(Ordering::Relaxed), keys.updates()), (2, 1));
        assert!(open(&mut keys, 3, 0, 0), "RFC 9001 §6.5: a late one of the first generation");
    }

    /// RFC 9001 §6.1: our own update needs no packet to have been many.
    #[test]
    fn an_update_of_our_own_makes_what_it_needs() {
        let (mut keys, made) = fresh();
        assert!(!keys.update(Time::ZERO), "nothing is acknowledged");
        let _ = keys.sealing(0);
        keys.on_acked(0);
        assert!(keys.update(Time::ZERO));
        assert_eq!((made.load(Ordering::Relaxed), keys.updates()), (2, 1));
        assert!(open(&mut keys, 1, KEY_PHASE, 1));
    }
}
