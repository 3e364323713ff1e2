//! Forward erasure correction: a room that is kept.
//!
//! It will turn runs of frames into source symbols and repair symbols, and feed recovered frames to
//! `rx::dispatch`. `Token::Symbol` and `Token::Repair` are its tokens; it offers no transport parameter, so
//! no peer sends us its frames.
