//! The size of datagrams: the search for larger ones, and the way back (RFC 8899, RFC 9000 §14).

use quickset_base::number::within_u16;
use quickset_base::{Batch, Time};
use quickset_wire::Space;
use quickset_wire::frame::Frame;

use super::PacketLink;
use super::packets::Destination;
use crate::cc::Pacer;
use crate::common::Common;
use crate::error::TransportError;
use crate::packet::{FrameToken, MIN_INITIAL, Phase};
use crate::path::Search;
use crate::recovery::SettledPackets;

impl PacketLink {
    /// A datagram that tried this size arrived. True when those that follow are larger.
    pub(crate) fn on_size_arrived(&mut self, cx: &mut Common, path: u8, size: u16) -> bool {
        let Some(search) = self.path.search.as_mut().filter(|_| path == self.path.number) else {
            return false;
        };
        let before = self.path.mtu;
        let mtu = search.on_arrived(size.into(), cx.now, before);
        self.candidates.stir();
        if mtu > before {
            self.path.set_mtu(mtu);
            tracing::debug!(mtu, "the path takes larger datagrams");
            cx.qlog.size(cx.now, before, &self.path);
        }
        mtu > before
    }

    /// A datagram that tried this size was lost. RFC 9000 §14.4: that is no sign of congestion.
    pub(crate) fn on_size_lost(&mut self, cx: &mut Common, path: u8, size: u16) {
        let pause = self.pto();
        cx.stats.mtu.lost_probes += 1;
        let Some(search) = self.path.search.as_mut().filter(|_| path == self.path.number) else {
            return;
        };
        search.on_lost(size.into(), cx.now, self.path.mtu, pause);
        self.candidates.stir();
    }

    /// Packets were settled: do large ones still get through? True when those that follow are smaller.
    pub(crate) fn watch_size(&mut self, cx: &mut Common, settled: &SettledPackets) -> bool {
        let (now, mtu) = (cx.now, self.path.mtu);
        let Some(search) = &mut self.path.search else { return false };
        search.doubts(now, mtu, &settled.acked_packets, &settled.lost_packets) && self.fall(cx)
    }

    /// A probe timeout. During the handshake every packet counts, and none shows what the path takes.
    /// True when those that follow are smaller.
    pub(crate) fn watch_silence(&mut self, cx: &mut Common) -> bool {
        cx.phase < Phase::Confirmed && self.path.recovery.pto_count() >= MAX_SILENCE && self.fall(cx)
    }

    /// A datagram larger than those in use was to try whether the path takes it, and the system does not.
    pub(crate) fn on_size_refused(&mut self, cx: &Common, size: usize) {
        let (now, mtu) = (cx.now, self.path.mtu);
        if let Some(search) = &mut self.path.search {
            search.on_refused(size, now, mtu);
        }
        self.candidates.stir();
    }

    /// What was to try a size did not leave, for another reason.
    pub(crate) fn on_size_untried(&mut self) {
        if let Some(search) = &mut self.path.search {
            search.untried();
            self.candidates.stir();
        }
    }

    /// The system does not take datagrams of `size` bytes any more: those that follow are smaller. False when
    /// they are as small as they may be (RFC 9000 §14).
    pub(crate) fn shrink(&mut self, cx: &mut Common, size: usize) -> bool {
        let (now, before) = (cx.now, self.path.mtu);
        let lowest = self.path.search.as_ref().map_or(MIN_INITIAL, |search| search.lowest());
        let Some(mtu) = [lowest, MIN_INITIAL].into_iter().find(|least| *least < size.min(before)) else {
            return false;
        };
        self.path.set_mtu(mtu);
        if let Some(search) = &mut self.path.search {
            search.on_refused(size, now, mtu);
        }
        self.candidates.stir();
        cx.stats.mtu.falls += 1;
        tracing::debug!(mtu, before, "the system takes no datagrams as large any more");
        cx.qlog.size(cx.now, before, &self.path);
        true
    }

    /// Back to what every path takes. False when datagrams are no larger.
    fn fall(&mut self, cx: &mut Common) -> bool {
        let (at, before) = (cx.now + self.pto(), self.path.mtu);
        let Some(search) = &mut self.path.search else { return false };
        let lowest = search.lowest();
        if before <= lowest {
            return false;
        }
        search.fall(before, at);
        self.path.mtu = lowest;
        self.begin_anew(cx);
        cx.stats.mtu.falls += 1;
        tracing::debug!(mtu = lowest, before, "the path takes no large datagrams any more");
        self.on_other_size();
        cx.qlog.size(cx.now, before, &self.path);
        true
    }

    /// What carries less than it did is another road (RFC 9000 §9.4), and what was lost of too large
    /// datagrams says nothing of its congestion, however much it was.
    fn begin_anew(&mut self, cx: &Common) {
        let (number, mtu) = (self.candidates.number(), self.path.mtu as u64);
        if self.candidates.told == self.path.number {
            self.candidates.told = number;
        }
        self.path.number = number;
        self.path.recovery.change_path(number, None, cx.now);
        self.path.congestion = cx.config.congestion.build(mtu, cx.now);
        self.path.pacer = Pacer::new(mtu, cx.now);
        self.held.paced_until = None;
    }

    /// The size of datagrams is another one, and perhaps a smaller one.
    pub(super) fn on_other_size(&mut self) {
        if let Some(search) = &mut self.path.search {
            search.rest();
            self.candidates.stir();
        }
    }

    /// Time is up, perhaps. True when the peer has to be asked for an answer.
    pub(super) fn on_size_time(&mut self, cx: &Common) -> bool {
        let Some(at) = self.size_due(cx) else { return false };
        let (now, mtu) = (cx.now, self.path.mtu);
        let Some(search) = self.path.search.as_mut().filter(|_| at <= now) else { return false };
        search.on_time(now, mtu)
    }

    /// When there is something to try, or to ask after. RFC 9000 §14.3: not before the path is known to work
    /// at all.
    pub(super) fn size_due(&self, cx: &Common) -> Option<Time> {
        let search = self.path.search.as_ref().filter(|_| self.may_search(cx))?;
        search.due(self.path.mtu)
    }

    /// Whether larger datagrams may be tried.
    fn may_search(&self, cx: &Common) -> bool {
        cx.phase == Phase::Confirmed && self.path.is_validated()
    }

    /// Whether the next packet of a probe timeout is one of [`least_size`](Self::least_size).
    #[cold]
    pub(crate) fn is_least(&self) -> bool {
        self.path.search.is_some() && self.probes[Space::Data.index()] == 1
    }

    /// What a packet may have that must get through whatever the path has become: every other probe of a
    /// probe timeout.
    #[cold]
    pub(crate) fn least_size(&self) -> usize {
        self.path.search.as_ref().map_or(usize::MAX, |search| search.lowest())
    }

    /// A datagram larger than those that the path is known to take. False when none is due.
    ///
    /// RFC 9000 §14.4: PING and PADDING, of which nothing is missed. It is outside of congestion control:
    /// there is one at a time, and it is not lost for anything that congestion control should hear of.
    pub(crate) fn transmit_size(&mut self, cx: &mut Common, out: &mut Batch) -> Result<bool, TransportError> {
        let Some(size) = self.path.search.as_ref().and_then(|search| search.wants(cx.now)) else {
            return Ok(false);
        };
        if !self.may_search(cx) {
            return Ok(false);
        }
        self.ping_out(
            cx,
            out,
            size,
            FrameToken::MtuProbe { path: self.path.number, size: within_u16(size as u64) },
        )?;
        cx.stats.mtu.probes += 1;
        let nudge = cx.now + 2 * self.pto();
        if let Some(search) = &mut self.path.search {
            search.on_sent(nudge);
        }
        Ok(true)
    }

    /// A datagram of `size` bytes with nothing but PING and PADDING, which loss detection knows and
    /// congestion control does not. Fails when it cannot be sealed.
    pub(crate) fn ping_out(
        &mut self,
        cx: &mut Common,
        out: &mut Batch,
        size: usize,
        token: FrameToken,
    ) -> Result<(), TransportError> {
        self.keys.before_seal(cx.phase == Phase::Confirmed, cx.now)?;
        let to = Destination { address: self.path.address, id: *self.cids.remote() };
        self.packet_beside(cx, out, to, size, |_, _, w| {
            w.put(&Frame::Ping, token);
        });
        self.path.on_sent(size);
        Ok(())
    }
}

/// The size to begin with on a path of which nothing is known, and the search that begins there.
pub(super) fn first_size(cx: &Common, is_v6: bool) -> (usize, Option<Box<Search>>) {
    let most = cx.peer.as_ref().map(|peer| peer.max_udp_payload_size);
    let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    let search = cx.config.mtu_discovery.map(|config| {
        let mut search = Search::new(config, is_v6);
        search.limit(most);
        Box::new(search)
    });
    (usize::from(cx.config.mtu.max(1200)).min(most), search)
}

/// Probe timeouts in a row, before the handshake is complete, after which it goes on in small packets.
const MAX_SILENCE: u32 = 2;
