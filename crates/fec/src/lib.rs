//! Erasure codes over byte slices: a room that is kept.
//!
//! GF(256) kernels, XOR, two-dimensional XOR, Reed-Solomon, LDPC-Staircase and sliding windows will live here,
//! useful alone and knowing no QUIC. There is nothing to call yet.
