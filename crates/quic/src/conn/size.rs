//! The size of datagrams: the search for larger ones, and the way back (RFC 8899, RFC 9000 §14).

use quickset_base::Time;
use quickset_wire::Space;

use super::Connection;
use crate::cc::Pacer;
use crate::packet::{MIN_INITIAL, Phase};
use crate::path::Search;
use crate::recovery::Settled;

impl Connection {
    /// A datagram that tried this size arrived.
    pub(super) fn on_size_arrived(&mut self, path: u8, size: u16) {
        let Some(search) = self.link.path.search.as_mut().filter(|_| path == self.link.path.number) else {
            return;
        };
        let before = self.link.path.mtu;
        let mtu = search.on_arrived(size.into(), self.common.now, before);
        self.link.candidates.stir();
        if mtu > before {
            self.link.path.set_mtu(mtu);
            tracing::debug!(mtu, "the path takes larger datagrams");
            // FEC-52, rule 7.
            self.protect.send.release_all();
            self.protect.send.stir();
            self.common.qlog.size(self.common.now, before, &self.link.path);
        }
    }

    /// A datagram that tried this size was lost. RFC 9000 §14.4: that is no sign of congestion.
    pub(super) fn on_size_lost(&mut self, path: u8, size: u16) {
        let pause = self.pto();
        self.common.stats.mtu.lost_probes += 1;
        let Some(search) = self.link.path.search.as_mut().filter(|_| path == self.link.path.number) else {
            return;
        };
        search.on_lost(size.into(), self.common.now, (self.link.path.mtu, pause));
        self.link.candidates.stir();
    }

    /// Packets were settled: do large ones still get through?
    pub(super) fn watch_size(&mut self, settled: &Settled) {
        let (now, mtu) = (self.common.now, self.link.path.mtu);
        let Some(search) = &mut self.link.path.search else { return };
        if search.doubts(now, mtu, (&settled.acked_packets, &settled.lost_packets)) {
            self.fall();
        }
    }

    /// A probe timeout. During the handshake every packet counts, and none shows what the path takes.
    pub(super) fn watch_silence(&mut self) {
        if self.common.phase < Phase::Confirmed && self.link.recovery.pto_count() >= MAX_SILENCE {
            self.fall();
        }
    }

    /// A datagram larger than those in use was to try whether the path takes it, and the system does not.
    pub(super) fn on_size_refused(&mut self, size: usize) {
        let (now, mtu) = (self.common.now, self.link.path.mtu);
        if let Some(search) = &mut self.link.path.search {
            search.on_refused(size, now, mtu);
        }
        self.link.candidates.stir();
    }

    /// What was to try a size did not leave, for another reason.
    pub(super) fn on_size_untried(&mut self) {
        if let Some(search) = &mut self.link.path.search {
            search.untried();
            self.link.candidates.stir();
        }
    }

    /// The system does not take datagrams of `size` bytes any more: those that follow are smaller. False when
    /// they are as small as they may be (RFC 9000 §14).
    pub(super) fn shrink(&mut self, size: usize) -> bool {
        let (now, before) = (self.common.now, self.link.path.mtu);
        let lowest = self.link.path.search.as_ref().map_or(MIN_INITIAL, |search| search.lowest());
        let Some(mtu) = [lowest, MIN_INITIAL].into_iter().find(|least| *least < size.min(before)) else {
            return false;
        };
        self.link.path.set_mtu(mtu);
        if let Some(search) = &mut self.link.path.search {
            search.on_refused(size, now, mtu);
        }
        self.link.candidates.stir();
        self.common.stats.mtu.falls += 1;
        tracing::debug!(mtu, before, "the system takes no datagrams as large any more");
        self.recode(before);
        true
    }

    /// Back to what every path takes.
    fn fall(&mut self) {
        let (at, before) = (self.common.now + self.pto(), self.link.path.mtu);
        let Some(search) = &mut self.link.path.search else { return };
        let lowest = search.lowest();
        if before <= lowest {
            return;
        }
        search.fall(before, at);
        self.link.path.mtu = lowest;
        self.begin_anew();
        self.common.stats.mtu.falls += 1;
        tracing::debug!(mtu = lowest, before, "the path takes no large datagrams any more");
        self.on_other_size();
        self.recode(before);
    }

    /// Datagrams are smaller than the `before` bytes that they had.
    fn recode(&mut self, before: usize) {
        // FEC-52, rule 7.
        self.protect.send.release_all();
        self.protect.send.shrink();
        self.protect.send.stir();
        self.drain_orphans();
        self.common.qlog.size(self.common.now, before, &self.link.path);
    }

    /// What carries less than it did is another road (RFC 9000 §9.4), and what was lost of too large
    /// datagrams says nothing of its congestion, however much it was.
    fn begin_anew(&mut self) {
        let (number, mtu) = (self.link.candidates.number(), self.link.path.mtu as u64);
        if self.link.candidates.told == self.link.path.number {
            self.link.candidates.told = number;
        }
        self.link.path.number = number;
        self.link.recovery.change_path(number, None, self.common.now);
        self.link.path.congestion = self.common.config.congestion.build(mtu, self.common.now);
        self.link.path.pacer = Pacer::new(mtu, self.common.now);
        self.link.paced_until = None;
    }

    /// The size of datagrams is another one, and perhaps a smaller one.
    pub(super) fn on_other_size(&mut self) {
        if let Some(search) = &mut self.link.path.search {
            search.rest();
            self.link.candidates.stir();
        }
    }

    /// The size to begin with on a path of which nothing is known, and the search that begins there.
    pub(super) fn first_size(&self, is_v6: bool) -> (usize, Option<Box<Search>>) {
        let most = self.common.peer.as_ref().map(|peer| peer.max_udp_payload_size);
        let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
        let search = self.common.config.mtu_discovery.map(|config| {
            let mut search = Search::new(config, is_v6);
            search.limit(most);
            Box::new(search)
        });
        (usize::from(self.common.config.mtu.max(1200)).min(most), search)
    }

    /// Time is up, perhaps.
    pub(super) fn on_size_time(&mut self) {
        let Some(at) = self.size_due() else { return };
        let (now, mtu) = (self.common.now, self.link.path.mtu);
        let Some(search) = self.link.path.search.as_mut().filter(|_| at <= now) else { return };
        if search.on_time(now, mtu) {
            self.life.lifecycle.ping();
        }
    }

    /// When there is something to try, or to ask after. RFC 9000 §14.3: not before the path is known to work
    /// at all.
    pub(super) fn size_due(&self) -> Option<Time> {
        let search = self.link.path.search.as_ref().filter(|_| self.may_search())?;
        search.due(self.link.path.mtu)
    }

    /// Whether larger datagrams may be tried.
    pub(crate) fn may_search(&self) -> bool {
        self.common.phase == Phase::Confirmed && self.link.path.is_validated()
    }

    /// Whether the next packet of a probe timeout is one of [`least_size`](Self::least_size).
    #[cold]
    pub(crate) fn is_least(&self) -> bool {
        self.link.path.search.is_some() && self.link.probes[Space::Data.index()] == 1
    }

    /// What a packet may have that must get through whatever the path has become: every other probe of a
    /// probe timeout.
    #[cold]
    pub(crate) fn least_size(&self) -> usize {
        self.link.path.search.as_ref().map_or(usize::MAX, |search| search.lowest())
    }
}

/// Probe timeouts in a row, before the handshake is complete, after which it goes on in small packets.
const MAX_SILENCE: u32 = 2;
