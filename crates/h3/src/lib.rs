//! Sans-IO HTTP/3: a room that is kept.
//!
//! HTTP/3, QPACK and priorities will live here, on the stream verbs of `quic`. There is nothing to call yet.
