//! Codes of WebTransport applications among those of HTTP/3.

/// The code of RESET_STREAM and STOP_SENDING for an application's code (draft-ietf-webtrans-http3 §4.4):
/// those that stand for nothing in HTTP/3 are left out.
pub fn http_code(code: u32) -> u64 {
    FIRST_CODE + u64::from(code) + u64::from(code) / 0x1e
}

/// The application's code behind one of RESET_STREAM or STOP_SENDING; `None` for one that is not an
/// application's.
pub fn session_code(code: u64) -> Option<u32> {
    if code < FIRST_CODE || crate::frame::is_grease(code) {
        return None;
    }
    let shifted = code - FIRST_CODE;
    u32::try_from(shifted - shifted / 0x1f).ok()
}

const FIRST_CODE: u64 = 0x52e4_a40f_a8db;
