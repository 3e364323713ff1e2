//! Unreliable datagrams (RFC 9221): a room that is kept.
//!
//! Its doors will be those of every room: `on_frame` for DATAGRAM, `want` and `write`, `lost` for a report
//! to the application. It offers no transport parameter, so no peer sends us the frame.
