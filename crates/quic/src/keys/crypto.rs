use std::collections::BTreeMap;
use std::ops::Range;

use quickset_base::number::{index, within_u32};
use quickset_wire::frame::{crypto_header, crypto_header_size};
use quickset_wire::{Space, TransportErrorCode as Code};

use crate::TransportError;
use crate::packet::{FrameToken, PacketWriter, Want};

/// Handshake bytes that may be received ahead of a gap (RFC 9000 §7.5 asks for 4096 at least).
const MAX_AHEAD: u64 = 64 << 10;

/// Pieces that may be held ahead of a gap: clients split their hello, nobody splits it like this.
const MAX_PIECES: usize = 128;

/// The handshake bytes of one level, both directions: CRYPTO frames.
#[derive(Debug, Default)]
pub(crate) struct CryptoStream {
    outgoing: Vec<u8>,
    next: usize,
    lost: Vec<Range<usize>>,
    read: u64,
    ahead: BTreeMap<u64, Vec<u8>>,
}

impl CryptoStream {
    /// Bytes to send, behind those before.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.outgoing.extend_from_slice(bytes);
    }

    /// Sends everything again, as if nothing had been sent (Retry, RFC 9000 §17.2.5.3).
    pub(crate) fn restart(&mut self) {
        self.next = 0;
        self.lost.clear();
    }

    /// Sends everything anew that was sent, though some of it may have arrived.
    pub(crate) fn again(&mut self) {
        self.lost.clear();
        if self.next > 0 {
            self.lost.push(0..self.next);
        }
    }

    /// The keys of the level are not needed any more. How much was read stays: the packet that brought the
    /// last of it may say some of that again behind it, which is nothing new.
    pub(crate) fn end(&mut self) {
        *self = Self { read: self.read, ..Self::default() };
    }

    /// Whether a CRYPTO frame says again what was read.
    pub(crate) fn has_read(&self, offset: u64, len: usize) -> bool {
        len > 0 && offset + len as u64 <= self.read
    }

    /// Takes a CRYPTO frame and appends what is now in order to `out`.
    pub(crate) fn on_data(
        &mut self,
        offset: u64,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), TransportError> {
        let end = offset + data.len() as u64;
        if end > self.read + MAX_AHEAD {
            return Err(exceeded());
        }
        if end <= self.read {
            return Ok(());
        }
        if offset > self.read {
            // By what they hold, since pieces may overlap: each byte may come in all of them.
            let held: usize = self.ahead.values().map(Vec::len).sum();
            if self.ahead.len() >= MAX_PIECES || (held + data.len()) as u64 > MAX_AHEAD {
                return Err(exceeded());
            }
            let piece = self.ahead.entry(offset).or_default();
            if piece.len() < data.len() {
                *piece = data.to_vec();
            }
            return Ok(());
        }
        self.deliver(offset, data, out);
        while let Some(piece) = self.ahead.first_entry().filter(|e| *e.key() <= self.read) {
            let (offset, data) = piece.remove_entry();
            self.deliver(offset, &data, out);
        }
        Ok(())
    }

    fn deliver(&mut self, offset: u64, data: &[u8], out: &mut Vec<u8>) {
        let skip = index(self.read - offset);
        if let Some(new) = data.get(skip..) {
            out.extend_from_slice(new);
            self.read += new.len() as u64;
        }
    }

    /// Gives back the memory of what is gone.
    pub(crate) fn rest(&mut self) {
        self.outgoing.shrink_to_fit();
        self.lost.shrink_to_fit();
    }

    /// True when bytes are held that wait for others.
    pub(crate) fn has_gap(&self) -> bool {
        !self.ahead.is_empty()
    }

    pub(crate) fn want(&self) -> Want {
        if !self.lost.is_empty() {
            Want::Lost
        } else if self.next < self.outgoing.len() {
            Want::Data
        } else {
            Want::None
        }
    }

    /// Whether `room` bytes hold all that was never sent, which is something, and is all there is to send.
    pub(crate) fn fits(&self, room: usize) -> bool {
        let left = self.outgoing.len() - self.next;
        self.want() == Want::Data && crypto_header_size(self.next as u64, room) + left <= room
    }

    /// Writes CRYPTO frames, lost bytes first.
    pub(crate) fn write(&mut self, w: &mut PacketWriter<'_>, space: Space) {
        loop {
            let (range, lost) = match self.lost.last() {
                Some(range) => (range.clone(), true),
                None => (self.next..self.outgoing.len(), false),
            };
            let offset = range.start as u64;
            let room = w.room();
            let fits = room.saturating_sub(crypto_header_size(offset, room)).min(range.len());
            if fits == 0 {
                return;
            }
            crypto_header(w.bytes(), offset, fits);
            w.bytes().bytes(&self.outgoing[range.start..range.start + fits]);
            w.record(FrameToken::Crypto { space, offset, len: within_u32(fits as u64) }, true);
            if !lost {
                self.next += fits;
            } else if fits == range.len() {
                self.lost.pop();
            } else if let Some(rest) = self.lost.last_mut() {
                rest.start += fits;
            }
        }
    }

    pub(crate) fn lost(&mut self, offset: u64, len: u32) {
        let start = index(offset);
        let end = (start + len as usize).min(self.outgoing.len());
        // After a restart the bytes are on their way again already; and of two copies both may be lost.
        let known = self.lost.iter().any(|range| range.start <= start && end <= range.end);
        if start < self.next && start < end && !known {
            self.lost.push(start..end);
        }
    }
}

fn exceeded() -> TransportError {
    TransportError::new(Code::CRYPTO_BUFFER_EXCEEDED, "handshake bytes too far ahead of a gap")
}

#[cfg(test)]
mod tests {
    use super::*;
    use quickset_wire as wire;
    use quickset_wire::frame::{Frame, Frames};

    /// RFC 9000 §7.5; RFC 9001 §4.1.3.
    #[test]
    fn pieces_in_any_order_come_out_in_order() {
        // Chromium's "chaos protection" sends its hello like this.
        let hello: Vec<u8> = (0..=255).collect();
        let mut stream = CryptoStream::default();
        let mut out = Vec::new();
        for (from, to) in [(100, 200), (150, 256), (10, 50), (100, 200), (0, 20), (0, 5), (45, 120)] {
            stream.on_data(from as u64, &hello[from..to], &mut out).unwrap();
        }
        assert_eq!(out, hello);
        assert!(!stream.has_gap());
    }

    /// RFC 9000 §7.5.
    #[test]
    fn a_flood_ahead_of_a_gap_is_refused() {
        let mut stream = CryptoStream::default();
        let mut out = Vec::new();
        assert_eq!(stream.on_data(MAX_AHEAD, &[0], &mut out).unwrap_err().code, Code::CRYPTO_BUFFER_EXCEEDED);
        let flood = (0..1000).try_for_each(|i| stream.on_data(2 * i + 1, &[0], &mut out));
        assert_eq!(flood.unwrap_err().code, Code::CRYPTO_BUFFER_EXCEEDED);
        // Few pieces, each over nearly all of the others.
        let mut stream = CryptoStream::default();
        let piece = vec![0; 20_000];
        let flood = (0..4).try_for_each(|i| stream.on_data(i + 1, &piece, &mut out));
        assert_eq!(flood.unwrap_err().code, Code::CRYPTO_BUFFER_EXCEEDED);
    }

    /// RFC 9000 §13.3.
    #[test]
    fn lost_bytes_are_sent_again_and_only_those() {
        let mut stream = CryptoStream::default();
        stream.push(&[7; 100]);
        let send = |stream: &mut CryptoStream, size: usize| {
            let (mut buffer, mut tokens) = (vec![0; size], Vec::new());
            let mut w = PacketWriter::new(wire::Writer::new(&mut buffer), &mut tokens);
            stream.write(&mut w, Space::Initial);
            let len = w.len();
            Frames::new(&buffer[..len])
                .map(|f| match f.unwrap() {
                    Frame::Crypto { offset, data } => (offset, data.len()),
                    other => panic!("{other:?}"),
                })
                .collect::<Vec<_>>()
        };
        // Type, offset and length take a byte each, the offset two from 64 on.
        assert_eq!(send(&mut stream, 53), [(0, 50)]);
        assert_eq!(send(&mut stream, 200), [(50, 50)]);
        assert_eq!(stream.want(), Want::None);
        stream.lost(20, 10);
        assert_eq!(stream.want(), Want::Lost);
        assert_eq!(send(&mut stream, 200), [(20, 10)]);
        stream.restart();
        stream.lost(20, 10);
        assert_eq!(send(&mut stream, 200), [(0, 100)], "a restart sends all of it, once");
    }
}
