use quickset_base::Batch;
use quickset_wire::frame::Frame;

use super::packet::Destination;
use crate::conn::Connection;
use crate::packet::{Phase, Token};
use crate::path::LEAST;

impl Connection {
    /// A datagram larger than those that the path is known to take. False when none is due.
    ///
    /// RFC 9000 §14.4: PING and PADDING, of which nothing is missed. It is outside of congestion control:
    /// there is one at a time, and it is not lost for anything that congestion control should hear of.
    pub(crate) fn transmit_size(&mut self, out: &mut Batch) -> bool {
        let Some(size) = self.link.path.search.as_ref().and_then(|search| search.wants(self.common.now))
        else {
            return false;
        };
        if !self.may_search() || !self.life.lifecycle.is_open() {
            return false;
        }
        if !self.ping_out(out, size, Token::MtuProbe { path: self.link.path.number, size: size as u16 }) {
            return false;
        }
        self.common.stats.mtu.probes += 1;
        let nudge = self.common.now + 2 * self.pto();
        if let Some(search) = &mut self.link.path.search {
            search.on_sent(nudge);
        }
        true
    }

    /// A call that is due: whether the path is there at all. False when none is.
    ///
    /// It is outside of congestion control, which has every reason to hold it back: few are sent, and they
    /// are small.
    pub(crate) fn transmit_call(&mut self, out: &mut Batch) -> bool {
        self.life.liveness.takes_call()
            && self.life.lifecycle.is_open()
            && self.ping_out(out, LEAST, Token::Nothing)
    }

    /// A datagram of `size` bytes with nothing but PING and PADDING, which loss detection knows and
    /// congestion control does not. False when it cannot be sealed.
    fn ping_out(&mut self, out: &mut Batch, size: usize, token: Token) -> bool {
        if let Err(error) = self.link.keys.before_seal(self.common.phase == Phase::Confirmed, self.common.now)
        {
            self.fail(error);
            return false;
        }
        let to = Destination { address: self.link.path.address, id: *self.link.cids.remote() };
        self.packet_beside(out, to, size, |_, w| {
            w.put(&Frame::Ping, token);
        });
        self.link.path.on_sent(size);
        true
    }
}
