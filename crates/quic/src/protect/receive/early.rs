use bytes::Bytes;
use quickset_base::number::index;
use quickset_wire::frame::{Frame, Frames, kind};

/// Data of the first packets, any of which may turn out to be a symbol (UNMARKED).
#[derive(Debug)]
pub(super) struct EarlyPayloads {
    /// Packets whose data is kept: those with a number below this.
    packets: u64,
    /// By packet number. Nothing is held for what did not come.
    frames: Vec<Option<Bytes>>,
    /// Nobody may ask for them any more.
    over: bool,
}

impl EarlyPayloads {
    pub(super) fn new(packets: u64) -> Self {
        Self { packets, frames: Vec::new(), over: packets == 0 }
    }

    /// Whether packet `number` matters here.
    #[inline]
    pub(super) fn heeds(&self, number: u64) -> bool {
        !self.over && (number < self.packets || number >= 2 * self.packets)
    }

    /// Keeps the first STREAM frame of a packet, of at most `size` bytes; or forgets all, once the packet is
    /// of those that come so much later (FEC-65).
    pub(super) fn keep(&mut self, number: u64, payload: &[u8], size: usize) {
        if number >= self.packets {
            self.over = true;
            self.frames = Vec::new();
            return;
        }
        let Some(frame) = first_stream(payload).filter(|frame| frame.len() <= size) else { return };
        let at = index(number);
        if self.frames.len() <= at {
            self.frames.resize(at + 1, None);
        }
        // A copy: the packet may lie in a datagram, and that among others, which would all be kept.
        self.frames[at] = Some(Bytes::copy_from_slice(frame));
    }

    /// Whether nothing is kept.
    pub(super) fn is_empty(&self) -> bool {
        self.frames.iter().all(Option::is_none)
    }

    /// That of packet `number`. It is given once, so that nobody can have it compared again and again.
    pub(super) fn take(&mut self, number: u64) -> Option<Bytes> {
        self.frames.get_mut(index(number))?.take()
    }
}

/// The first STREAM frame of a packet, if it has a length of its own.
fn first_stream(payload: &[u8]) -> Option<&[u8]> {
    let mut frames = Frames::new(payload);
    loop {
        let begin = payload.len() - frames.remaining();
        if let Frame::Stream { .. } = frames.next()?.ok()? {
            let frame = &payload[begin..payload.len() - frames.remaining()];
            let has_length = u64::from(frame[0]) & kind::STREAM_LEN != 0;
            return has_length.then_some(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FEC-65: the first of the packet, with a length, and not those in symbols.
    #[test]
    fn the_first_stream_frame_that_has_a_length_is_kept() {
        let symbol: &[u8] = &[0x7f, 0x60, 2, 0, 4, 0x0a, 8, 1, b's'];
        let first: &[u8] = &[0x0b, 0, 2, b'a', b'b'];
        let second: &[u8] = &[0x0a, 4, 1, b'c'];
        let endless: &[u8] = &[0x08, 4, b'd', b'e'];
        for (parts, expected) in [
            (vec![first], Some(first)),
            (vec![&[0x01, 0x00], symbol, first, second, &[0x00, 0x00]], Some(first)),
            (vec![second, first], Some(second)),
            (vec![symbol, &[0x01]], None),
            (vec![endless], None),
            (vec![&[0x01, 0x0a, 4]], None),
        ] {
            assert_eq!(first_stream(&parts.concat()), expected, "{parts:02x?}");
        }
    }

    #[test]
    fn frames_are_given_once_and_not_for_ever() {
        let frame = |data: u8| [0x0a, 4, 1, data];
        let mut early = EarlyPayloads::new(4);
        for number in [3, 0, 2] {
            assert!(early.heeds(number));
            early.keep(number, &frame(number as u8), 4);
        }
        early.keep(1, &frame(1), 3);
        assert!(!early.heeds(4) && !early.heeds(7) && early.heeds(8));
        assert_eq!(early.take(3).as_deref(), Some(&frame(3)[..]));
        assert_eq!((early.take(3), early.take(1), early.take(5)), (None, None, None));
        early.keep(8, &frame(8), 4);
        assert_eq!(early.take(0), None, "twice as many packets have come");
        assert!((0..20).all(|number| !early.heeds(number)));
        assert!(!EarlyPayloads::new(0).heeds(0));
    }
}
