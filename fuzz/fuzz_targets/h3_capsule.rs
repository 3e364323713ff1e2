//! Capsules: the same however the bytes are cut, none above the limit, and each comes back from its own
//! encoding.
//!
//! The first byte of the input is the limit, the second the size of the pieces.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use quickset_h3::Error;
use quickset_h3::capsule::{Capsule, CapsuleReader, encode};

fuzz_target!(|input: &[u8]| {
    let Some((&[limit, piece], stream)) = input.split_first_chunk() else { return };
    let max = u64::from(limit) * 5;
    let whole = read(max, stream, stream.len());
    assert_eq!(whole, read(max, stream, 1 + usize::from(piece)));
    let mut again = Vec::new();
    for capsule in &whole.0 {
        assert!(capsule.value.len() as u64 <= max, "above the limit");
        encode(&mut again, capsule.kind, &capsule.value);
    }
    // Ours are written as short as can be.
    assert!(again.len() <= stream.len());
    assert_eq!(read(max, &again, again.len()), (whole.0, Ok(true)));
});

/// The capsules, and whether the stream may end behind them.
fn read(max: u64, stream: &[u8], piece: usize) -> (Vec<Capsule>, Result<bool, Error>) {
    let mut reader = CapsuleReader::new(max);
    let mut capsules = Vec::new();
    for bytes in stream.chunks(piece.max(1)) {
        let mut bytes = Bytes::copy_from_slice(bytes);
        loop {
            match reader.next(&mut bytes) {
                Ok(Some(capsule)) => capsules.push(capsule),
                Ok(None) => break,
                Err(error) => return (capsules, Err(error)),
            }
        }
        assert!(bytes.is_empty(), "all was taken");
    }
    (capsules, Ok(reader.is_between_capsules()))
}
