use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, compress_to_output, create_comp_flags_from_zip_params,
};
use quickset_base::number::Unsigned as _;

/// One zlib stream (RFC 1950) that lasts as long as its connection and never ends: each
/// [`write`](Self::write) can be unpacked when its bytes have come.
///
/// The level may change between any two writes: a new compressor refers to nothing but what it has packed
/// itself, and that is the newest part of the window.
#[derive(Default)]
pub(super) struct Zlib {
    begun: bool,
    /// The compressor, which takes 300 kB, and its level. There is none at level 0.
    compressor: Option<(u8, Box<CompressorOxide>)>,
}

impl Zlib {
    /// Appends `data`, packed at `level` (0 to 9), to `out`.
    pub(super) fn write(&mut self, level: u8, data: &[u8], out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.begun, true) {
            // RFC 1950 §2.2: deflate with a window of 32 KiB; and the remainder that makes it a multiple of
            // 31.
            out.extend([0x78, 0x01]);
        }
        if level == 0 {
            self.compressor = None;
            store(data, out);
            return;
        }
        if self.compressor.as_ref().is_none_or(|(now, _)| *now != level) {
            // No window size means no header: there is one already.
            let flags = create_comp_flags_from_zip_params(level.into(), 0, 0);
            self.compressor = Some((level, Box::new(CompressorOxide::new(flags))));
        }
        if let Some((_, compressor)) = &mut self.compressor {
            compress_to_output(compressor, data, TDEFLFlush::Sync, |packed| {
                out.extend_from_slice(packed);
                true
            });
        }
    }
}

impl std::fmt::Debug for Zlib {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Zlib(level {})", self.compressor.as_ref().map_or(0, |c| c.0))
    }
}

/// RFC 1951 §3.2.4: blocks that hold their bytes as they are.
fn store(data: &[u8], out: &mut Vec<u8>) {
    for block in data.chunks(u16::MAX.into()) {
        let length: u16 = block.len().saturated();
        out.push(0);
        out.extend(length.to_le_bytes());
        out.extend((!length).to_le_bytes());
        out.extend_from_slice(block);
    }
}

#[cfg(test)]
mod tests {
    use miniz_oxide::inflate::stream::{InflateState, inflate};
    use miniz_oxide::{DataFormat, MZFlush};
    use quickset_base::Rng;

    use super::*;

    /// Each piece can be unpacked when it has come, whatever its size is and how well it packs: at some of
    /// them the compressor has more to hand out than it has room for.
    #[test]
    fn nothing_of_a_piece_comes_with_the_next() {
        let mut rng = Rng::new(7);
        let (mut zlib, mut state) = (Zlib::default(), InflateState::new_boxed(DataFormat::Zlib));
        let mut plain = vec![0; 1 << 18];
        for round in 0..400 {
            let size = rng.below(1 << (4 + round % 14)) as usize;
            let kinds = [2, 30, 256][rng.below(3) as usize];
            let data: Vec<u8> = (0..size).map(|_| rng.below(kinds) as u8).collect();
            let level = if round % 50 < 40 { 1 } else { rng.below(10) as u8 };
            let mut packed = Vec::new();
            zlib.write(level, &data, &mut packed);
            let unpacked = inflate(&mut state, &packed, &mut plain, MZFlush::Sync);
            assert_eq!(unpacked.bytes_consumed, packed.len());
            assert!(plain[..unpacked.bytes_written] == data, "round {round}: {size} bytes of {kinds} kinds");
            // RFC 1951 §3.2.4: an empty block ends on a byte, so that nothing of it can be held back.
            assert!(level == 0 || packed.ends_with(&[0, 0, 0xff, 0xff]));
        }
    }
}
