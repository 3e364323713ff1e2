//! What calls come to: a number, and for the last failure of a thread a sentence and a code.

use std::any::Any;
use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

use quickset::{Closed, ConnectError, DatagramError, ReadError, ReceiveError, SendError, WriteError};

/// What a call came to: `QS_OK`, another number that is not negative, or a negative one for a failure.
pub type QsStatus = i32;

/// The call did what it says.
pub const QS_OK: QsStatus = 0;
/// There is nothing more to come: the stream has ended, or the endpoint is closed. This is no failure.
pub const QS_END: QsStatus = 1;
/// Nothing can be done now, and the call did not wait. An event tells when to try again.
pub const QS_WOULD_BLOCK: QsStatus = -1;
/// The call waited as long as it was told to.
pub const QS_TIMED_OUT: QsStatus = -2;
/// An argument cannot be used: a null pointer, a length that no memory has, a text that is not UTF-8.
pub const QS_INVALID: QsStatus = -3;
/// The handle is zero, of another kind, or was freed.
pub const QS_BAD_HANDLE: QsStatus = -4;
/// The connection is over, or never came about; `qs_connection_closed` tells why.
pub const QS_CLOSED: QsStatus = -5;
/// The peer wants no more of the stream; `qs_error_code` is its code.
pub const QS_STOPPED: QsStatus = -6;
/// The peer gave the stream up; `qs_error_code` is its code.
pub const QS_RESET: QsStatus = -7;
/// The stream, or this direction of it, was ended here, or has no such direction.
pub const QS_ENDED: QsStatus = -8;
/// The buffer is too small; the length that it needs was stored, with the zero byte of a text, and nothing is
/// lost.
pub const QS_TOO_SMALL: QsStatus = -9;
/// The message or datagram is longer than the peer takes; `qs_error_code` is the most in bytes.
pub const QS_TOO_LONG: QsStatus = -10;
/// What the peer sends cannot be read as what was asked for.
pub const QS_MALFORMED: QsStatus = -11;
/// The peer, the system or this build does not have it.
pub const QS_UNSUPPORTED: QsStatus = -12;
/// The handshake of the connection is not complete.
pub const QS_NOT_READY: QsStatus = -13;
/// The configuration cannot be used.
pub const QS_CONFIG: QsStatus = -14;
/// The operating system refused: a socket, a thread, entropy.
pub const QS_SYSTEM: QsStatus = -15;
/// The process is a child of the one that uses the library, by `fork`.
pub const QS_FORKED: QsStatus = -16;
/// A fault of the library. Please report it with the message.
pub const QS_INTERNAL: QsStatus = -17;

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct CallFailure {
    pub(crate) status: QsStatus,
    text: Cow<'static, str>,
    /// What `qs_error_code` tells.
    code: u64,
}

/// What the last failure of a thread left.
struct LastFailure {
    text: CString,
    code: u64,
}

thread_local! {
    static LAST: RefCell<LastFailure> = RefCell::new(LastFailure { text: CString::default(), code: 0 });
}

impl CallFailure {
    pub(crate) fn new(status: QsStatus, text: impl Into<Cow<'static, str>>) -> Self {
        Self { status, text: text.into(), code: 0 }
    }

    pub(crate) fn invalid(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(QS_INVALID, text)
    }

    /// What an error says, as this status.
    pub(crate) fn of(status: QsStatus, error: impl Display) -> Self {
        Self::new(status, error.to_string())
    }

    /// Nothing more comes.
    pub(crate) fn end() -> Self {
        Self::new(QS_END, "")
    }

    fn with_code(mut self, code: u64) -> Self {
        self.code = code;
        self
    }

    fn panicked(panic: &(dyn Any + Send)) -> Self {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no words");
        Self::new(QS_INTERNAL, format!("a fault of the library: {said}"))
    }

    /// Leaves the words for who asks, and returns the number.
    fn tell(self) -> QsStatus {
        if !matches!(self.status, QS_WOULD_BLOCK | QS_TIMED_OUT | QS_END) {
            let text: Vec<u8> = self.text.bytes().filter(|byte| *byte != 0).collect();
            let last = LastFailure { text: CString::new(text).unwrap_or_default(), code: self.code };
            // A thread that ends has nobody left who would ask.
            let _ = LAST.try_with(|kept| kept.replace(last));
        }
        self.status
    }
}

/// A handle that does not stand for what it should.
pub(crate) fn bad_handle(what: &str) -> CallFailure {
    CallFailure::new(QS_BAD_HANDLE, format!("the handle is not that of {what}, or it was freed"))
}

/// Runs the body of an exported function. No panic leaves it: C could not catch one.
pub(crate) fn call(body: impl FnOnce() -> Result<(), CallFailure>) -> QsStatus {
    let outcome = match check_process() {
        Ok(()) => catch_unwind(AssertUnwindSafe(body)),
        Err(forked) => Ok(Err(forked)),
    };
    match outcome {
        Ok(Ok(())) => QS_OK,
        Ok(Err(failure)) => failure.tell(),
        Err(panic) => CallFailure::panicked(&*panic).tell(),
    }
}

/// The process that made the first handle; 0 before that.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// From now on the library belongs to this process.
pub(crate) fn claim_process() {
    let _ = PROCESS.compare_exchange(0, std::process::id(), Ordering::Relaxed, Ordering::Relaxed);
}

/// Before any lock is taken: a child has the locks as they were, and none of the threads that would let them
/// go.
fn check_process() -> Result<(), CallFailure> {
    let owner = PROCESS.load(Ordering::Relaxed);
    if owner == 0 || owner == std::process::id() {
        return Ok(());
    }
    Err(CallFailure::new(
        QS_FORKED,
        "handles do not survive fork: use them in the process that made them, or call exec",
    ))
}

/// Describes a status in a few words, in static memory. It never returns null.
#[unsafe(no_mangle)]
pub extern "C" fn qs_error_string(status: QsStatus) -> *const c_char {
    describe(status).as_ptr()
}

fn describe(status: QsStatus) -> &'static CStr {
    match status {
        QS_OK => c"success",
        QS_END => c"there is nothing more to come",
        QS_WOULD_BLOCK => c"nothing can be done now; an event tells when to try again",
        QS_TIMED_OUT => c"the time to wait is over",
        QS_INVALID => c"an argument cannot be used",
        QS_BAD_HANDLE => c"the handle is zero, of another kind, or was freed",
        QS_CLOSED => c"the connection is over",
        QS_STOPPED => c"the peer wants no more of the stream",
        QS_RESET => c"the peer gave the stream up",
        QS_ENDED => c"the stream, or this direction of it, has ended here",
        QS_TOO_SMALL => c"the buffer is too small",
        QS_TOO_LONG => c"it is longer than the peer takes",
        QS_MALFORMED => c"what the peer sends cannot be read",
        QS_UNSUPPORTED => c"the peer, the system or this build does not have it",
        QS_NOT_READY => c"the handshake is not complete",
        QS_CONFIG => c"the configuration cannot be used",
        QS_SYSTEM => c"the operating system refused",
        QS_FORKED => c"handles do not survive fork",
        QS_INTERNAL => c"a fault of the library",
        _ => c"an unknown status",
    }
}

/// Tells what exactly was wrong when a call on this thread last failed, in a sentence for people. (A call
/// that returned `QS_WOULD_BLOCK`, `QS_TIMED_OUT` or `QS_END` counts as none that failed.) The text is good
/// until the next call of the library on this thread, `qs_error_string` and `qs_error_code` excepted. It is
/// empty if nothing has failed, and never null.
#[unsafe(no_mangle)]
pub extern "C" fn qs_error_message() -> *const c_char {
    LAST.try_with(|last| last.borrow().text.as_ptr()).unwrap_or(c"".as_ptr())
}

/// Tells the number that belongs to the failure that `qs_error_message` describes: the peer's code for
/// `QS_STOPPED` and `QS_RESET`, the most in bytes for `QS_TOO_LONG`, and 0 for others.
#[unsafe(no_mangle)]
pub extern "C" fn qs_error_code() -> u64 {
    LAST.try_with(|last| last.borrow().code).unwrap_or(0)
}

impl From<Closed> for CallFailure {
    fn from(closed: Closed) -> Self {
        Self::of(QS_CLOSED, closed)
    }
}

impl From<ConnectError> for CallFailure {
    fn from(error: ConnectError) -> Self {
        Self::of(QS_CLOSED, error)
    }
}

impl From<WriteError> for CallFailure {
    fn from(error: WriteError) -> Self {
        match &error {
            WriteError::Stopped(code) => Self::of(QS_STOPPED, &error).with_code(*code),
            WriteError::Ended => Self::of(QS_ENDED, error),
            _ => Self::of(QS_CLOSED, error),
        }
    }
}

impl From<ReadError> for CallFailure {
    fn from(error: ReadError) -> Self {
        match &error {
            ReadError::Reset(code) => Self::of(QS_RESET, &error).with_code(*code),
            ReadError::Messages => Self::of(QS_MALFORMED, error),
            _ => Self::of(QS_CLOSED, error),
        }
    }
}

impl From<SendError> for CallFailure {
    fn from(error: SendError) -> Self {
        match &error {
            SendError::TooLong { max } => Self::of(QS_TOO_LONG, &error).with_code(*max),
            SendError::Stopped(code) => Self::of(QS_STOPPED, &error).with_code(*code),
            SendError::Ended => Self::of(QS_ENDED, error),
            _ => Self::of(QS_CLOSED, error),
        }
    }
}

impl From<ReceiveError> for CallFailure {
    fn from(error: ReceiveError) -> Self {
        match &error {
            ReceiveError::Reset(code) => Self::of(QS_RESET, &error).with_code(*code),
            ReceiveError::Malformed(_) => Self::of(QS_MALFORMED, error),
            _ => Self::of(QS_CLOSED, error),
        }
    }
}

impl From<DatagramError> for CallFailure {
    fn from(error: DatagramError) -> Self {
        match &error {
            DatagramError::Unsupported => Self::of(QS_UNSUPPORTED, error),
            DatagramError::TooLong { max } => {
                Self::of(QS_TOO_LONG, &error).with_code(u64::try_from(*max).unwrap_or(u64::MAX))
            }
            _ => Self::of(QS_CLOSED, error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> String {
        LAST.with(|last| last.borrow().text.to_string_lossy().into_owned())
    }

    #[test]
    fn a_panic_does_not_leave_the_library() {
        assert_eq!(call(|| panic!("seven {}", 7)), QS_INTERNAL);
        assert_eq!(message(), "a fault of the library: seven 7");
        assert_eq!(call(|| panic!("plain")), QS_INTERNAL);
        assert_eq!(message(), "a fault of the library: plain");
    }

    #[test]
    fn what_is_no_failure_leaves_no_words() {
        assert_eq!(call(|| Err(CallFailure::invalid("first\0second"))), QS_INVALID);
        for status in [QS_WOULD_BLOCK, QS_TIMED_OUT, QS_END] {
            assert_eq!(call(|| Err(CallFailure::new(status, "other"))), status);
            assert_eq!(message(), "firstsecond", "a zero would end the text");
        }
    }

    #[test]
    fn every_status_has_words_of_its_own() {
        let all: Vec<&CStr> = (QS_INTERNAL..=QS_END).map(describe).collect();
        for (i, words) in all.iter().enumerate() {
            assert_ne!(*words, describe(-1000));
            assert!(!all[..i].contains(words), "{words:?} stands for two");
        }
    }

    #[test]
    fn codes_come_along() {
        let codes: [(CallFailure, QsStatus, u64); 4] = [
            (WriteError::Stopped(7).into(), QS_STOPPED, 7),
            (ReadError::Reset(8).into(), QS_RESET, 8),
            (SendError::TooLong { max: 9 }.into(), QS_TOO_LONG, 9),
            (DatagramError::TooLong { max: 10 }.into(), QS_TOO_LONG, 10),
        ];
        for (failure, status, code) in codes {
            assert_eq!(call(|| Err(failure)), status);
            assert_eq!(qs_error_code(), code);
        }
    }
}
