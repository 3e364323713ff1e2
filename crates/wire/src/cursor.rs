use crate::varint;

/// The bytes end before the value does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cut short")]
pub struct Truncated;

/// Reads from a slice, front to back. A read that fails takes nothing, but for
/// [`varint_bytes`](Self::varint_bytes), which may have taken the length.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    total: usize,
}

impl<'a> Reader<'a> {
    /// A cursor at the first of `bytes`.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, total: bytes.len() }
    }

    /// True when every byte was read.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Bytes still to read.
    #[inline]
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Bytes read so far.
    #[inline]
    pub const fn position(&self) -> usize {
        self.total - self.rest.len()
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Truncated> {
        self.array::<1>().map(|[b]| b)
    }

    /// Two bytes, big-endian.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, Truncated> {
        self.array().map(u16::from_be_bytes)
    }

    /// Four bytes, big-endian.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Truncated> {
        self.array().map(u32::from_be_bytes)
    }

    /// Eight bytes, big-endian.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Truncated> {
        self.array().map(u64::from_be_bytes)
    }

    /// A varint (RFC 9000 §16), in any of its forms: only frame types must be shortest.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Truncated> {
        let first = *self.rest.first().ok_or(Truncated)?;
        match first >> 6 {
            0 => {
                self.rest = &self.rest[1..];
                Ok(u64::from(first))
            }
            1 => self.u16().map(|v| u64::from(v & 0x3fff)),
            2 => self.u32().map(|v| u64::from(v & 0x3fff_ffff)),
            _ => self.u64().map(|v| v & varint::MAX),
        }
    }

    /// The next `n` bytes.
    #[inline]
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8], Truncated> {
        let (head, tail) = self.rest.split_at_checked(n).ok_or(Truncated)?;
        self.rest = tail;
        Ok(head)
    }

    /// The next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        let (head, tail) = self.rest.split_first_chunk::<N>().ok_or(Truncated)?;
        self.rest = tail;
        Ok(*head)
    }

    /// A varint and as many bytes as it says.
    #[inline]
    pub fn varint_bytes(&mut self) -> Result<&'a [u8], Truncated> {
        let n = self.varint()?;
        self.bytes(usize::try_from(n).map_err(|_| Truncated)?)
    }

    /// Everything that is left; the reader is empty afterwards.
    #[inline]
    pub fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.rest)
    }

    /// Leaves out `n` bytes that are known to be there.
    #[inline]
    pub(crate) fn skip(&mut self, n: usize) {
        self.rest = &self.rest[n..];
    }

    /// Everything that is left, without taking it.
    #[inline]
    pub const fn peek(&self) -> &'a [u8] {
        self.rest
    }
}

/// Writes into a slice, front to back.
///
/// # Panics
/// Writing past the end is a bug of ours, not a condition: every verb panics on it, so callers ask
/// [`room`](Self::room) first. The same holds for numbers too large for the form they are written in.
#[derive(Debug)]
pub struct Writer<'a> {
    bytes: &'a mut [u8],
    len: usize,
}

impl<'a> Writer<'a> {
    /// A cursor at the first of `bytes`.
    #[inline]
    pub const fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, len: 0 }
    }

    /// Bytes written.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True when nothing was written.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that may still be written.
    #[inline]
    pub const fn room(&self) -> usize {
        self.bytes.len() - self.len
    }

    /// What was written.
    #[inline]
    pub fn written(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// What was written, for encryption in place.
    #[inline]
    pub fn written_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self, v: u8) {
        self.bytes[self.len] = v;
        self.len += 1;
    }

    /// Two bytes, big-endian.
    #[inline]
    pub fn u16(&mut self, v: u16) {
        self.array(v.to_be_bytes());
    }

    /// Four bytes, big-endian.
    #[inline]
    pub fn u32(&mut self, v: u32) {
        self.array(v.to_be_bytes());
    }

    /// Eight bytes, big-endian.
    #[inline]
    pub fn u64(&mut self, v: u64) {
        self.array(v.to_be_bytes());
    }

    /// A varint in its shortest form; `v` is at most [`varint::MAX`].
    #[inline]
    pub fn varint(&mut self, v: u64) {
        assert!(v <= varint::MAX, "{v} does not fit a varint");
        let (bytes, size) = varint::encoded(v);
        // All eight bytes at once where there is room: what is behind the number is not written yet.
        match self.bytes[self.len..].first_chunk_mut() {
            Some(space) => *space = bytes,
            None => self.bytes[self.len..][..size].copy_from_slice(&bytes[..size]),
        }
        self.len += size;
    }

    /// A varint of two bytes, so that it can be patched; `v` is below 2^14.
    #[inline]
    pub fn varint2(&mut self, v: u64) {
        self.u16(two(v));
    }

    /// A varint of four bytes, so that it can be patched; `v` is below 2^30.
    #[inline]
    pub fn varint4(&mut self, v: u64) {
        assert!(v < 1 << 30, "{v} does not fit a varint of 4 bytes");
        self.u32(0x8000_0000 | (v & 0x3fff_ffff) as u32);
    }

    /// `bytes` as they are.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.space(bytes.len()).copy_from_slice(bytes);
    }

    /// The length of `bytes` as a varint, then `bytes`.
    #[inline]
    pub fn varint_bytes(&mut self, bytes: &[u8]) {
        self.varint(bytes.len() as u64);
        self.bytes(bytes);
    }

    /// `n` zeros.
    #[inline]
    pub fn zeros(&mut self, n: usize) {
        self.space(n).fill(0);
    }

    /// Counts the next `n` bytes as written and returns them, holding whatever was there, to be filled.
    #[inline]
    pub fn space(&mut self, n: usize) -> &mut [u8] {
        let space = &mut self.bytes[self.len..][..n];
        self.len += n;
        space
    }

    /// Takes back everything written after the first `len` bytes; no effect beyond what was written.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Overwrites one written byte.
    #[inline]
    pub fn patch_u8(&mut self, at: usize, v: u8) {
        self.patch(at, [v]);
    }

    /// Overwrites two written bytes, big-endian.
    #[inline]
    pub fn patch_u16(&mut self, at: usize, v: u16) {
        self.patch(at, v.to_be_bytes());
    }

    /// Overwrites what [`varint2`](Self::varint2) wrote at `at`; `v` is below 2^14.
    #[inline]
    pub fn patch_varint2(&mut self, at: usize, v: u64) {
        self.patch_u16(at, two(v));
    }

    /// The next `N` bytes, if there is so much room. [`space`](Self::space) counts those that were filled as
    /// written.
    #[inline]
    pub(crate) fn ahead<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        self.bytes.get_mut(self.len..)?.first_chunk_mut()
    }

    #[inline]
    fn array<const N: usize>(&mut self, v: [u8; N]) {
        self.space(N).copy_from_slice(&v);
    }

    #[inline]
    fn patch<const N: usize>(&mut self, at: usize, v: [u8; N]) {
        self.bytes[..self.len][at..][..N].copy_from_slice(&v);
    }
}

/// `v` as a varint of one byte; `v` is below 2^6, which only debug builds check: mostly it is a constant.
#[inline]
pub(crate) const fn one(v: u64) -> u8 {
    debug_assert!(v < 1 << 6, "a number that does not fit a varint of 1 byte");
    (v & 0x3f) as u8
}

/// `v` as a varint of two bytes.
#[inline]
pub(crate) const fn two(v: u64) -> u16 {
    assert!(v < 1 << 14, "a number that does not fit a varint of 2 bytes");
    0x4000 | (v & 0x3fff) as u16
}

/// Where an encoder puts its bytes: a [`Writer`], or a [`ByteCount`] that only adds up their number. One
/// encoder serves both, so that a size and the bytes written cannot differ.
pub(crate) trait EncodeSink {
    fn varint(&mut self, v: u64);
    fn bytes(&mut self, bytes: &[u8]);
    fn zeros(&mut self, n: usize);

    #[inline]
    fn varint_bytes(&mut self, bytes: &[u8]) {
        self.varint(bytes.len() as u64);
        self.bytes(bytes);
    }
}

impl EncodeSink for Writer<'_> {
    #[inline]
    fn varint(&mut self, v: u64) {
        Writer::varint(self, v);
    }

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        Writer::bytes(self, bytes);
    }

    #[inline]
    fn zeros(&mut self, n: usize) {
        Writer::zeros(self, n);
    }
}

/// The bytes that an encoder would write.
pub(crate) struct ByteCount(pub(crate) usize);

impl EncodeSink for ByteCount {
    #[inline]
    fn varint(&mut self, v: u64) {
        self.0 += varint::size(v);
    }

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }

    #[inline]
    fn zeros(&mut self, n: usize) {
        self.0 += n;
    }
}
