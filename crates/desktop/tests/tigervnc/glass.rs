//! What a viewer shows, from the memory of its X server.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::programs::Window;

/// Where a window of Xvfb shows its pixels: a part of the file that `-fbdir` makes, a picture in the format
/// of xwd (XWDFile.h) that is mapped into the X server's memory.
pub(crate) struct Glass {
    file: File,
    /// Of the window's first pixel, in bytes, and from one row to the next.
    start: u64,
    stride: u64,
    width: usize,
}

impl Glass {
    pub(crate) fn open(folder: &Path, window: &Window) -> Self {
        let file = File::open(folder.join("Xvfb_screen0")).expect("Xvfb has a screen");
        let mut header = [0; 100];
        file.read_exact_at(&mut header, 0).unwrap();
        // Numbers of four bytes, the most significant first.
        let field = |n: usize| u64::from(u32::from_be_bytes(header[4 * n..][..4].try_into().unwrap()));
        let [size, bits, stride, colours] = [0, 11, 12, 19].map(field);
        assert_eq!(bits, 32, "a pixel of Xvfb has four bytes");
        // A colour of the map has twelve bytes.
        let pixels = size + 12 * colours;
        let start = pixels + u64::from(window.y) * stride + 4 * u64::from(window.x);
        Self { file, start, stride, width: window.width.into() }
    }

    /// What it shows now, row by row as they are asked for.
    pub(crate) fn glance(&self) -> Glance<'_> {
        Glance { glass: self, rows: RefCell::default() }
    }

    fn row(&self, y: u16) -> Vec<u8> {
        let mut bytes = vec![0; 4 * self.width];
        self.file.read_exact_at(&mut bytes, self.start + u64::from(y) * self.stride).unwrap();
        bytes
    }
}

/// What was seen by one look, each row when it was asked for first.
pub(crate) struct Glance<'a> {
    glass: &'a Glass,
    rows: RefCell<BTreeMap<u16, Vec<u8>>>,
}

impl Glance<'_> {
    /// Red, green and blue from the most significant byte but one on.
    pub(crate) fn pixel(&self, x: u16, y: u16) -> u32 {
        let mut rows = self.rows.borrow_mut();
        let row = rows.entry(y).or_insert_with(|| self.glass.row(y));
        u32::from_le_bytes(row[4 * usize::from(x)..][..4].try_into().unwrap()) & 0xff_ff_ff
    }
}

#[test]
fn a_window_is_found_in_a_picture_of_xwd() {
    let folder = std::env::temp_dir().join(format!("quickset-glass-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    // A header of 104 bytes, with a name, and one colour; rows of 3 pixels and padding.
    let mut file = vec![0; 104 + 12];
    for (field, value) in [(0, 104_u32), (11, 32), (12, 16), (19, 1)] {
        file[4 * field..][..4].copy_from_slice(&value.to_be_bytes());
    }
    let pixel = |x: u32, y: u32| 0xff00_0000 | y << 8 | x;
    let pixels = (0..4).flat_map(|y| (0..4).map(move |x| pixel(x, y)));
    file.extend(pixels.flat_map(u32::to_le_bytes));
    std::fs::write(folder.join("Xvfb_screen0"), file).unwrap();
    let window = Window { id: String::new(), width: 2, height: 2, x: 1, y: 2 };
    let glass = Glass::open(&folder, &window);
    let glance = glass.glance();
    let seen = [(0, 0), (1, 0), (0, 1), (1, 1)].map(|(x, y)| glance.pixel(x, y));
    assert_eq!(seen, [0x201, 0x202, 0x301, 0x302]);
    std::fs::remove_dir_all(&folder).unwrap();
}
