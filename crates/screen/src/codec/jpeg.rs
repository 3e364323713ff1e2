//! How coarse a JPEG is, and at which resolution it has colours.

/// What an item says of its JPEG before the scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JpegForm {
    /// 1 to 100.
    quality: u8,
    /// Colours have the resolution of the picture, and not half of it.
    is_full: bool,
}

impl JpegForm {
    /// Colours at half the resolution, in a quality of 1 to 100.
    #[cfg(feature = "encode")]
    pub(crate) fn halved(quality: u8) -> Self {
        Self { quality: quality.clamp(1, 100), is_full: false }
    }

    /// With colours at full resolution: about as many bytes as this in a quality a little lower.
    #[cfg(feature = "encode")]
    pub(crate) fn in_full(self) -> Self {
        let coarse = scale(self.quality) * 11 / 8;
        let quality = if coarse < 100 { 100 - coarse / 2 } else { 5000 / coarse };
        Self { quality: quality.clamp(1, 100) as u8, is_full: true }
    }

    /// What says it in an item. DT-22: `None` where nothing does.
    pub(crate) fn read(byte: u8) -> Option<Self> {
        let quality = byte & !FULL;
        (1..=100).contains(&quality).then_some(Self { quality, is_full: byte & FULL != 0 })
    }

    /// The same to write.
    #[cfg(feature = "encode")]
    pub(crate) fn byte(self) -> u8 {
        self.quality | if self.is_full { FULL } else { 0 }
    }

    pub(crate) fn quality(self) -> u8 {
        self.quality
    }

    pub(crate) fn is_full(self) -> bool {
        self.is_full
    }

    /// Whether colours at full resolution make a smaller error than these, with as many bytes: `lost` is what
    /// half of the resolution leaves of them, the mean squared error of red and blue less green, times 32.
    /// Found with pictures whose colours have details of different strength, at qualities from 40 to 98.
    #[cfg(feature = "encode")]
    pub(crate) fn wants_full(self, lost: u64) -> bool {
        let coarse = u64::from(scale(self.quality));
        lost * 600 >= 32 * (1200 + coarse * coarse)
    }
}

/// `spec/desktop.md` §6: *s*, by which the tables are multiplied, in percent.
pub(super) fn scale(quality: u8) -> u32 {
    let quality = u32::from(quality.clamp(1, 100));
    if quality < 50 { 5000 / quality } else { 200 - 2 * quality }
}

/// The bit that says so.
const FULL: u8 = 128;
