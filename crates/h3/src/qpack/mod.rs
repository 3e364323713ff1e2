//! QPACK: field lines to bytes and back, with a table that both ends share (RFC 9204).
//!
//! An [`Encoder`] makes encoded field sections, and instructions for the table on the way: both leave on
//! streams of their own and may arrive in any order. A [`Decoder`] keeps a section that is ahead of its table
//! until the instructions are there, and answers with instructions of its own, by which the encoder knows
//! what it may refer to and drop.
//!
//! In: whole sections, and bytes of the instruction streams in any cut. Out: fields; bytes for the
//! instruction streams. Invariants: the encoder never refers to what the peer may not have when the peer
//! allows no blocked streams, never drops what is referred to or not known to have arrived, and keeps account
//! of a bounded number of references. The decoder keeps at most the table, one instruction that is cut short,
//! and one section a stream of those that it allows to wait.
//!
//! ```
//! use quickset_h3::Field;
//! use quickset_h3::qpack::{Decoder, Encoder, DecodedSection};
//!
//! let mut decoder = Decoder::new(4096, 16, 16 << 10);
//! let mut encoder = Encoder::new(4096);
//! encoder.apply(4096, 16); // what the decoder's SETTINGS say
//!
//! let fields = [Field::new(":method", "GET"), Field::new("user-agent", "quickset")];
//! let section = encoder.encode(0, &fields);
//! assert_eq!(decoder.section(0, &section)?, DecodedSection::Blocked);
//! decoder.on_instructions(&encoder.take_instructions())?;
//! assert_eq!(decoder.unblocked().unwrap()?, (0, DecodedSection::Fields(fields.to_vec())));
//!
//! encoder.on_instructions(&decoder.take_instructions())?;
//! assert_eq!(encoder.encode(4, &fields).len(), 4, "two bytes of prefix and one for each field");
//! # Ok::<_, quickset_h3::Error>(())
//! ```

mod decoder;
mod encoder;
mod huffman;
mod prim;
mod statics;
mod table;

pub use decoder::{DecodedSection, Decoder};
pub use encoder::Encoder;

#[cfg(test)]
mod tests;
