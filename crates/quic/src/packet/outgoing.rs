use quickset_wire::header::{LongHeader, ShortHeader, long_header, short_header};
use quickset_wire::{self as wire, Space};

use super::{FrameToken, PacketWriter};

/// A packet that is being made in its place. All that leaves is made by this: [`begin`](Self::begin) writes
/// the header, a [`writer`](Self::writer) the frames, and [`finish`](Self::finish) the padding and the
/// length.
#[derive(Debug)]
pub(crate) struct OutgoingPacket<'b> {
    buffer: &'b mut [u8],
    tokens: Vec<FrameToken>,
    at: Unsealed,
    /// Where the Length field of a long header stands.
    length_at: Option<usize>,
    payload_at: usize,
    tag_len: usize,
}

/// A packet that is complete, but for being sealed, and what it holds.
#[derive(Debug)]
pub(crate) struct MadePacket<'b> {
    /// From its first byte to the end of its tag.
    pub(crate) bytes: &'b mut [u8],
    pub(crate) tokens: Vec<FrameToken>,
    pub(crate) at: Unsealed,
    /// Of a long header, as packets are that share their datagram with others.
    pub(crate) is_long: bool,
    payload_at: usize,
    tag_len: usize,
}

/// What the header of a packet says beside its number.
#[derive(Debug)]
pub(crate) enum OutgoingHeader<'a> {
    Short(ShortHeader),
    Long(LongHeader<'a>),
}

/// The number of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbered {
    pub(crate) space: Space,
    pub(crate) number: u64,
    /// Bytes of it that the header has (RFC 9000 §17.1).
    pub(crate) len: usize,
}

/// A packet ready to be sealed: where its parts lie in the buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unsealed {
    pub(crate) space: Space,
    pub(crate) number: u64,
    pub(crate) number_at: usize,
    pub(crate) number_len: usize,
}

impl<'b> OutgoingPacket<'b> {
    /// Writes the header at the start of `buffer`, which the packet may fill, its tag of `tag_len` bytes
    /// included. What is in it is recorded behind `tokens`.
    #[inline]
    pub(crate) fn begin(
        buffer: &'b mut [u8],
        header: &OutgoingHeader<'_>,
        numbered: Numbered,
        tag_len: usize,
        tokens: Vec<FrameToken>,
    ) -> Self {
        let Numbered { space, number, len: number_len } = numbered;
        let mut w = wire::Writer::new(buffer);
        let length_at = match header {
            OutgoingHeader::Short(header) => {
                short_header(&mut w, header, number, number_len);
                None
            }
            OutgoingHeader::Long(header) => Some(long_header(&mut w, header, number, number_len)),
        };
        let payload_at = w.len();
        let at = Unsealed { space, number, number_at: payload_at - number_len, number_len };
        Self { buffer, tokens, at, length_at, payload_at, tag_len }
    }

    /// The number of the packet.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.at.number
    }

    /// The first byte of its header.
    #[inline]
    pub(crate) fn first_byte(&mut self) -> &mut u8 {
        &mut self.buffer[0]
    }

    #[inline]
    pub(crate) fn space(&self) -> Space {
        self.at.space
    }

    /// Bytes that the payload may have.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.buffer.len() - self.tag_len - self.payload_at
    }

    /// How long the payload has to be for a packet of `size` bytes.
    pub(crate) fn payload_of(&self, size: usize) -> usize {
        size.saturating_sub(self.payload_at + self.tag_len)
    }

    /// How long the packet is with this payload.
    pub(crate) fn size_with(&self, payload: usize) -> usize {
        self.payload_at + payload + self.tag_len
    }

    /// RFC 9001 §5.4.2: the payload has so many bytes at least, since with its number it makes up for the
    /// sample's offset.
    pub(crate) fn least(&self) -> usize {
        4_usize.saturating_sub(self.at.number_len)
    }

    /// Writes frames from the beginning of the payload on.
    #[inline]
    pub(crate) fn writer(&mut self) -> PacketWriter<'_> {
        let number = self.at.number;
        let (payload, tokens) = self.parts();
        PacketWriter::new(wire::Writer::new(payload), tokens).numbered(number)
    }

    /// The payload, and what is recorded of it, for who writes many that are alike.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&mut [u8], &mut Vec<FrameToken>) {
        let end = self.buffer.len() - self.tag_len;
        (&mut self.buffer[self.payload_at..end], &mut self.tokens)
    }

    /// Gives the packet up. What was recorded of it is of no meaning.
    pub(crate) fn abandon(self) -> Vec<FrameToken> {
        self.tokens
    }

    /// Ends the packet: of its payload `written` bytes are frames, and those up to `len` are PADDING.
    #[inline]
    pub(crate) fn finish(self, written: usize, len: usize) -> MadePacket<'b> {
        let Self { buffer, tokens, at, length_at, payload_at, tag_len } = self;
        buffer[payload_at + written..payload_at + len].fill(0);
        if let Some(length_at) = length_at {
            let length = at.number_len + len + tag_len;
            wire::Writer::new(&mut buffer[length_at..length_at + 2]).varint2(length as u64);
        }
        let bytes = &mut buffer[..payload_at + len + tag_len];
        MadePacket { bytes, tokens, at, is_long: length_at.is_some(), payload_at, tag_len }
    }
}

impl MadePacket<'_> {
    /// Frames and PADDING.
    #[inline]
    pub(crate) fn payload(&self) -> &[u8] {
        &self.bytes[self.payload_at..self.bytes.len() - self.tag_len]
    }
}
