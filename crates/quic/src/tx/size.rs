use quickset_base::Batch;
use quickset_wire::frame::Frame;
use quickset_wire::{self as wire, Space};

use crate::conn::Connection;
use crate::packet::{Phase, Token, Writer};
use crate::path::LEAST;

impl Connection {
    /// A datagram larger than those that the path is known to take. False when none is due.
    ///
    /// RFC 9000 §14.4: PING and PADDING, of which nothing is missed. It is outside of congestion control: there is one
    /// at a time, and it is not lost for anything that congestion control should hear of.
    pub(crate) fn transmit_size(&mut self, out: &mut Batch) -> bool {
        let Some(size) = self.path.search.as_ref().and_then(|search| search.wants(self.now)) else {
            return false;
        };
        if !self.may_search() || !self.lifecycle.is_open() {
            return false;
        }
        if !self.ping_out(out, size, Token::MtuProbe { path: self.path.number, size: size as u16 }) {
            return false;
        }
        self.stats.mtu.probes += 1;
        let nudge = self.now + 2 * self.pto();
        if let Some(search) = &mut self.path.search {
            search.on_sent(nudge);
        }
        true
    }

    /// A call that is due: whether the path is there at all. False when none is.
    ///
    /// It is outside of congestion control, which has every reason to hold it back: few are sent, and they are small.
    pub(crate) fn transmit_call(&mut self, out: &mut Batch) -> bool {
        self.vigil.takes_call() && self.lifecycle.is_open() && self.ping_out(out, LEAST, Token::Nothing)
    }

    /// A datagram of `size` bytes with nothing but PING and PADDING, which loss detection knows and congestion control does
    /// not. False when it cannot be sealed.
    fn ping_out(&mut self, out: &mut Batch, size: usize, token: Token) -> bool {
        if let Err(error) = self.keys.before_seal(self.phase == Phase::Confirmed, self.now) {
            self.fail(error);
            return false;
        }
        let buffer = out.space(size);
        let frame = self.header(Space::Data, buffer);
        let (end, number) = (size - frame.tag_len, frame.at.number);
        let mut tokens = std::mem::take(&mut self.scratch.tokens);
        let mut w = Writer::new(wire::Writer::new(&mut buffer[frame.payload_at..end]), &mut tokens);
        w.put(&Frame::Ping, token);
        let (written, room) = (w.len(), end - frame.payload_at);
        w.bytes().zeros(room - written);
        let len = self.sealed(frame, buffer, room);
        self.recovery.on_sent_elsewhere(number, self.now, len as u16, &mut tokens);
        self.scratch.tokens = tokens;
        out.path = self.path.address;
        out.commit(len);
        self.path.on_sent(len);
        self.stats.sent_packets += 1;
        self.stats.sent_datagrams += 1;
        self.stats.sent_bytes += len as u64;
        true
    }
}
