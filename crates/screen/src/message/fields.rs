//! Fields of messages: big-endian integers and the variable-length integers of RFC 9000 §16.

use quickset_rfb::Rect;

use super::MessageFault;

/// Reads fields from the front; each says what is missing when there is none.
#[derive(Clone, Debug)]
pub(crate) struct FieldReader<'a> {
    rest: &'a [u8],
    /// What is being read, for errors.
    what: &'static str,
}

impl<'a> FieldReader<'a> {
    pub(crate) fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { rest: bytes, what }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn take(&mut self, n: usize) -> Result<&'a [u8], MessageFault> {
        let (head, rest) = self.rest.split_at_checked(n).ok_or(MessageFault::Short(self.what))?;
        self.rest = rest;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], MessageFault> {
        let (head, rest) = self.rest.split_first_chunk().ok_or(MessageFault::Short(self.what))?;
        self.rest = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, MessageFault> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, MessageFault> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, MessageFault> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, MessageFault> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn colour(&mut self) -> Result<u32, MessageFault> {
        let [r, g, b] = self.array()?;
        Ok(u32::from_be_bytes([0, r, g, b]))
    }

    /// RFC 9000 §16: the two highest bits tell the length, which need not be the shortest.
    pub(crate) fn varint(&mut self) -> Result<u64, MessageFault> {
        let first = *self.rest.first().ok_or(MessageFault::Short(self.what))?;
        let bytes = self.take(1 << (first >> 6))?;
        Ok(bytes.iter().fold(0, |n, &b| n << 8 | u64::from(b)) & (u64::MAX >> 2 >> (64 - 8 * bytes.len())))
    }

    /// A coordinate or a length on the screen.
    pub(crate) fn side(&mut self, what: &'static str) -> Result<u16, MessageFault> {
        let value = self.varint()?;
        u16::try_from(value).map_err(|_| MessageFault::Value { what, value })
    }

    /// A number of bytes, at most `max`.
    pub(crate) fn length(&mut self, what: &'static str, max: usize) -> Result<usize, MessageFault> {
        let value = self.varint()?;
        usize::try_from(value).ok().filter(|&n| n <= max).ok_or(MessageFault::Value { what, value })
    }

    pub(crate) fn rect(&mut self) -> Result<Rect, MessageFault> {
        let [x, y] = [self.side("x")?, self.side("y")?];
        let [width, height] = [self.side("width")?, self.side("height")?];
        Rect::new(x, y, width, height).ok_or(MessageFault::Value {
            what: "an edge of a rectangle",
            value: u64::from(x).saturating_add(width.into()).max(u64::from(y).saturating_add(height.into())),
        })
    }

    /// A length and as many bytes of UTF-8.
    pub(crate) fn text(&mut self, max: usize) -> Result<String, MessageFault> {
        let length = self.length("the length of a text", max)?;
        let bytes = self.take(length)?;
        core::str::from_utf8(bytes).map(str::to_owned).map_err(|_| MessageFault::Text)
    }
}

/// Writes fields to the end.
pub(crate) trait PutFields {
    fn put(&mut self, bytes: &[u8]);

    fn put_u8(&mut self, n: u8) {
        self.put(&[n]);
    }

    fn put_u16(&mut self, n: u16) {
        self.put(&n.to_be_bytes());
    }

    fn put_u32(&mut self, n: u32) {
        self.put(&n.to_be_bytes());
    }

    fn put_u64(&mut self, n: u64) {
        self.put(&n.to_be_bytes());
    }

    fn put_colour(&mut self, n: u32) {
        self.put(&n.to_be_bytes()[1..]);
    }

    /// The shortest form. Numbers here count items, pixels and bytes: none reaches 2^62.
    fn put_varint(&mut self, n: u64) {
        match n {
            0..0x40 => self.put_u8((n & 0x3f) as u8),
            0x40..0x4000 => self.put_u16((n & 0x3fff) as u16 | 0x4000),
            0x4000..0x4000_0000 => self.put_u32((n & 0x3fff_ffff) as u32 | 0x8000_0000),
            _ => self.put_u64(n | 0xc000_0000_0000_0000),
        }
    }

    fn put_rect(&mut self, r: Rect) {
        for n in [r.left(), r.top(), r.width(), r.height()] {
            self.put_varint(n.into());
        }
    }

    /// A length and the text, cut between characters when it is longer than `max` bytes.
    fn put_text(&mut self, text: &str, max: usize) {
        let mut end = text.len().min(max);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.put_varint(end as u64);
        self.put(&text.as_bytes()[..end]);
    }
}

impl PutFields for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}
