/// CRC-32 (IEEE 802.3) of bytes: the checksum of Ethernet, gzip and PNG.
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut steps = bytes.chunks_exact(16);
    let sum = steps.by_ref().fold(!0, |sum, step| {
        let word = |n: usize| u32::from_le_bytes([step[n], step[n + 1], step[n + 2], step[n + 3]]);
        crc(sum, &[word(0), word(4), word(8), word(12)])
    });
    let rest = steps.remainder().iter();
    !rest.fold(sum, |sum, byte| sum >> 8 ^ CRC[0][usize::from(sum.to_le_bytes()[0] ^ byte)])
}

/// Sixteen bytes a step, with one table per byte: each step waits for the one before.
pub(crate) fn crc(start: u32, words: &[u32]) -> u32 {
    let part = |word: u32, table: usize| {
        let b = word.to_le_bytes().map(usize::from);
        CRC[table + 3][b[0]] ^ CRC[table + 2][b[1]] ^ CRC[table + 1][b[2]] ^ CRC[table][b[3]]
    };
    let mut steps = words.chunks_exact(4);
    let sum = steps.by_ref().fold(start, |sum, step| {
        part(sum ^ step[0], 12) ^ (part(step[1], 8) ^ part(step[2], 4) ^ part(step[3], 0))
    });
    steps.remainder().iter().fold(sum, |sum, word| part(sum ^ word, 0))
}

/// `CRC[k][b]` is the remainder of byte `b` followed by k zero bytes; the polynomial is reflected.
static CRC: [[u32; 256]; 16] = {
    let mut tables = [[0; 256]; 16];
    let mut byte = 0u32;
    while byte < 256 {
        let mut sum = byte;
        let mut bit = 0;
        while bit < 8 {
            sum = sum >> 1 ^ if sum & 1 == 1 { 0xedb8_8320 } else { 0 };
            bit += 1;
        }
        tables[0][byte as usize] = sum;
        byte += 1;
    }
    let mut k = 1;
    while k < 16 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[k - 1][byte];
            tables[k][byte] = before >> 8 ^ tables[0][(before & 255) as usize];
            byte += 1;
        }
        k += 1;
    }
    tables
};

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
        for (n, sum) in (1..).zip(sums) {
            assert_eq!(!crc(!0, &words[..n]), sum, "{n} words");
            assert_eq!(crc32(&text[..4 * n]), sum, "{n} words of bytes");
        }
        // The check value of the catalogue of CRCs, and as zlib has them, of lengths that leave a rest.
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
        assert_eq!(crc32(&text[..17]), 0xd98e_f5c7);
        assert_eq!(crc32(&text[..35]), 0x7e2f_2f5d);
    }
}
