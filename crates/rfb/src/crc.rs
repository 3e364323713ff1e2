use crc32fast::Hasher;

/// CRC-32 (IEEE 802.3) of bytes: the checksum of Ethernet, gzip and PNG.
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// Goes on with words as little-endian bytes.
pub(crate) fn update(sum: &mut Hasher, words: &[u32]) {
    let mut bytes = [0; 4 * AT_ONCE];
    for words in words.chunks(AT_ONCE) {
        let bytes = &mut bytes[..4 * words.len()];
        for (four, word) in bytes.chunks_exact_mut(4).zip(words) {
            four.copy_from_slice(&word.to_le_bytes());
        }
        sum.update(bytes);
    }
}

/// Words that are written as bytes and then summed: what the nearest cache holds.
const AT_ONCE: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_crc32() {
        // As zlib computes them, of the first one, two and more words.
        let text = b"123456789abcdef0ghijklmnopqrstuvwxyzABCD";
        let words: Vec<u32> =
            text.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
        let sums = [
            0x9be3_e0a3,
            0x9ae0_daaf,
            0xbdb0_c0e4,
            0x57c5_6ba8,
            0x57f6_20e1,
            0x1790_263e,
            0x4079_b2a3,
            0xf13d_56e2,
            0x7776_75c9,
            0x356c_117d,
        ];
        for (n, wanted) in (1..).zip(sums) {
            let mut sum = Hasher::new();
            update(&mut sum, &words[..n]);
            assert_eq!(sum.finalize(), wanted, "{n} words");
            assert_eq!(crc32(&text[..4 * n]), wanted, "{n} words of bytes");
        }
        // The check value of the catalogue of CRCs.
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn many_words_have_the_sum_of_their_bytes() {
        let words: Vec<u32> = (0..3 * AT_ONCE + 7).map(|n| (n as u32).wrapping_mul(0x9e37_79b1)).collect();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut sum = Hasher::new();
        let (first, second) = words.split_at(1500);
        update(&mut sum, first);
        update(&mut sum, second);
        assert_eq!(sum.finalize(), crc32(&bytes));
    }
}
