//! Hierarchical max-min fair scheduling with strict urgencies: a room that is kept.
//!
//! Until it is filled, `quic` sends its streams by strict urgency and in turns. There is nothing to call yet.

#![forbid(unsafe_code)]
