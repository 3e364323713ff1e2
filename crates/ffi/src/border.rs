//! What comes from C as a pointer, and what goes back through one: each pointer is looked at here.
//!
//! Callers of the library promise, in the header, that a pointer which is not null leads to as much memory as
//! its length says, and that a text ends with a zero byte. Everything else is checked.

use std::ffi::{CStr, c_char, c_void};
use std::net::SocketAddr;

use crate::status::{CallFailure, QS_TOO_SMALL};

/// Returns the text at `pointer`.
///
/// # Safety
/// The pointer is null or leads to a text that ends with a zero byte and does not change while `'a` lasts.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, CallFailure> {
    if pointer.is_null() {
        return Err(CallFailure::invalid(format!("{what} is a null pointer")));
    }
    // SAFETY: it is not null, and the caller vouches for the rest.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| CallFailure::invalid(format!("{what} is not UTF-8")))
}

/// Returns the bytes at `pointer`; null is as good as any other where there are none.
///
/// # Safety
/// The pointer is null or leads to `len` bytes that do not change while `'a` lasts.
pub(crate) unsafe fn bytes<'a>(pointer: *const c_void, len: usize) -> Result<&'a [u8], CallFailure> {
    check_length(len)?;
    if len == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(CallFailure::invalid("the data is a null pointer, and has a length"));
    }
    // SAFETY: it is not null, no longer than memory can be, and the caller vouches for the rest.
    Ok(unsafe { std::slice::from_raw_parts(pointer.cast(), len) })
}

/// A place of C's that is to be written to.
#[derive(Clone, Copy)]
pub(crate) struct OutPlace<T>(*mut T);

impl<T> OutPlace<T> {
    /// A place that has to be there.
    pub(crate) fn needed(pointer: *mut T, what: &str) -> Result<Self, CallFailure> {
        if pointer.is_null() {
            return Err(CallFailure::invalid(format!("{what} is a null pointer")));
        }
        Ok(Self(pointer))
    }

    /// A place that C may leave out.
    pub(crate) fn optional(pointer: *mut T) -> Self {
        Self(pointer)
    }

    /// Stores the value, if there is a place for it.
    ///
    /// # Safety
    /// The pointer is null or leads to memory for a `T`.
    pub(crate) unsafe fn put(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: it is not null, it need not be aligned, and the caller vouches for the rest.
            unsafe { self.0.write_unaligned(value) };
        }
    }
}

/// A buffer of C's, and where its caller reads how much of it is used or needed.
#[derive(Clone, Copy)]
pub(crate) struct Buffer {
    start: *mut u8,
    capacity: usize,
    length: OutPlace<usize>,
}

impl Buffer {
    pub(crate) fn new(start: *mut u8, capacity: usize, length: *mut usize) -> Result<Self, CallFailure> {
        check_length(capacity)?;
        if start.is_null() && capacity > 0 {
            return Err(CallFailure::invalid("the buffer is a null pointer, and has a length"));
        }
        Ok(Self { start, capacity, length: OutPlace::needed(length, "the place for the length")? })
    }

    pub(crate) fn capacity(self) -> usize {
        self.capacity
    }

    /// Copies all of `data` into the buffer and stores its length.
    ///
    /// # Errors
    /// `QS_TOO_SMALL`; the length is stored all the same.
    ///
    /// # Safety
    /// There is memory for what [`new`](Self::new) was told.
    pub(crate) unsafe fn fill(self, data: &[u8]) -> Result<(), CallFailure> {
        // SAFETY: the caller vouches for it.
        unsafe { self.length.put(data.len()) };
        if data.len() > self.capacity {
            let (len, room) = (data.len(), self.capacity);
            return Err(CallFailure::new(QS_TOO_SMALL, format!("{len} bytes, and a buffer of {room}")));
        }
        if !data.is_empty() {
            // SAFETY: there is room, it is not null since that room is more than none, and no data of ours
            // lies in memory of C's.
            unsafe { self.start.copy_from_nonoverlapping(data.as_ptr(), data.len()) };
        }
        Ok(())
    }

    /// The same for a text, which gets a zero byte behind it that the length does not count.
    ///
    /// # Errors
    /// As [`fill`](Self::fill): the length is then that of a buffer with room for the zero byte.
    ///
    /// # Safety
    /// As [`fill`](Self::fill).
    pub(crate) unsafe fn fill_text(self, text: &str) -> Result<(), CallFailure> {
        let mut data = text.as_bytes().to_vec();
        data.push(0);
        // SAFETY: the caller vouches for it.
        unsafe { self.fill(&data) }?;
        // SAFETY: as above.
        unsafe { self.length.put(text.len()) };
        Ok(())
    }
}

/// Writes the front of `whole` to a struct of C's whose first field says how long C thinks it is, and has
/// that field say how much was written. So a program that knows fewer fields gets those.
///
/// # Errors
/// When there is no struct, or it is shorter than that field and one more.
///
/// # Safety
/// The pointer is null or leads to as many bytes as its first field, a `uint64_t`, says. `T` is `repr(C)`,
/// has no padding, and begins with a `u64`.
pub(crate) unsafe fn put_sized<T: Copy>(pointer: *mut T, whole: &T) -> Result<(), CallFailure> {
    const HEAD: usize = size_of::<u64>();
    if pointer.is_null() {
        return Err(CallFailure::invalid("the struct is a null pointer"));
    }
    // SAFETY: it is not null, and has at least this field.
    let known = unsafe { pointer.cast::<u64>().read_unaligned() };
    let known = usize::try_from(known).unwrap_or(usize::MAX);
    if known < 2 * HEAD {
        return Err(CallFailure::invalid("set the field `size` of the struct to its sizeof before the call"));
    }
    let written = known.min(size_of::<T>());
    let source = std::ptr::from_ref(whole).cast::<u8>();
    // SAFETY: both have so many bytes, and `whole` is ours.
    unsafe { pointer.cast::<u8>().copy_from_nonoverlapping(source, written) };
    // SAFETY: as for reading it.
    unsafe { pointer.cast::<u64>().write_unaligned(written as u64) };
    Ok(())
}

/// Reads an address and port like `192.0.2.1:443` or `[2001:db8::1]:443`.
pub(crate) fn address(text: &str) -> Result<SocketAddr, CallFailure> {
    let wrong = || format!("{text:?} is no address with a port, like 192.0.2.1:443 or [2001:db8::1]:443");
    text.parse().map_err(|_| CallFailure::invalid(wrong()))
}

/// RFC 9000 §16: what goes over the wire as a number has 62 bits.
pub(crate) fn check_code(code: u64) -> Result<u64, CallFailure> {
    if code < 1 << 62 { Ok(code) } else { Err(CallFailure::invalid("a code is less than 2^62")) }
}

fn check_length(len: usize) -> Result<(), CallFailure> {
    if isize::try_from(len).is_err() {
        return Err(CallFailure::invalid("no memory is so long; was a negative length cast?"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;
    use crate::status::QS_INVALID;

    #[test]
    fn lengths_that_no_memory_has_are_refused() {
        let byte = 7_u8;
        let start: *const u8 = &raw const byte;
        for len in [usize::MAX, isize::MAX.unsigned_abs() + 1] {
            // SAFETY: so long a length is refused before the pointer is used.
            let refused = unsafe { bytes(start.cast(), len) };
            assert_eq!(refused.expect_err("too long").status, QS_INVALID);
            let mut length = 0;
            assert!(Buffer::new(start.cast_mut(), len, &raw mut length).is_err());
        }
        // SAFETY: there is one byte.
        assert_eq!(unsafe { bytes(start.cast(), 1) }.unwrap(), [7]);
        // SAFETY: nothing is read through null.
        assert!(unsafe { bytes(ptr::null(), 0) }.unwrap().is_empty());
        // SAFETY: as above.
        assert!(unsafe { bytes(ptr::null(), 1) }.is_err());
    }

    #[test]
    fn a_buffer_too_small_says_how_large_it_has_to_be() {
        let (mut memory, mut length) = ([0_u8; 4], 0);
        let buffer = Buffer::new(memory.as_mut_ptr(), 4, &raw mut length).unwrap();
        // SAFETY: there are four bytes.
        assert_eq!(unsafe { buffer.fill(b"fives") }.expect_err("too small").status, QS_TOO_SMALL);
        assert_eq!((length, memory), (5, [0; 4]));
        let buffer = Buffer::new(memory.as_mut_ptr(), 4, &raw mut length).unwrap();
        // SAFETY: as above; a text of four bytes has a fifth.
        assert_eq!(unsafe { buffer.fill_text("four") }.expect_err("too small").status, QS_TOO_SMALL);
        assert_eq!(length, 5, "a buffer of this length has room for it");
        let buffer = Buffer::new(memory.as_mut_ptr(), 4, &raw mut length).unwrap();
        // SAFETY: as above.
        unsafe { buffer.fill_text("abc") }.unwrap();
        assert_eq!((length, &memory), (3, b"abc\0"));
    }

    #[test]
    fn a_struct_of_an_older_program_gets_the_fields_that_it_knows() {
        let whole = [0_u64, 1, 2, 3];
        let mut older = [16_u64, 77, 88, 99];
        // SAFETY: it is longer than it says.
        unsafe { put_sized(&raw mut older, &whole) }.unwrap();
        assert_eq!(older, [16, 1, 88, 99]);
        let mut newer = [40_u64, 77, 88, 99, 55];
        // SAFETY: it is as long as it says.
        unsafe { put_sized(newer.as_mut_ptr().cast(), &whole) }.unwrap();
        assert_eq!(newer, [32, 1, 2, 3, 55]);
        let mut unset = [0_u64; 4];
        // SAFETY: it is longer than it says.
        assert!(unsafe { put_sized(&raw mut unset, &whole) }.is_err());
    }
}
