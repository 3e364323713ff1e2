use quickset_base::number::Unsigned as _;

use super::tile::{ScreenTile, TileError, TileHeader};
use super::{CELL, COLUMNS, HEIGHT, ROWS, WIDTH, rgb};

/// What a receiver has drawn so far: a palette index for each pixel.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture {
    pixels: Vec<u8>,
    /// The update that each cell shows, plus one; 0 while it shows nothing.
    newest: Vec<u32>,
}

/// What somebody who looks at a picture again and again has seen of it: which update each cell showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenCells(Vec<u32>);

impl SeenCells {
    /// Nothing was seen yet but black.
    pub fn new() -> Self {
        Self(vec![0; COLUMNS * ROWS])
    }
}

impl Default for SeenCells {
    fn default() -> Self {
        Self::new()
    }
}

impl Picture {
    /// All black.
    pub fn new() -> Self {
        Self { pixels: vec![0; WIDTH * HEIGHT], newest: vec![0; COLUMNS * ROWS] }
    }

    /// Draws a message over what is there: for messages that arrive in an order that can be trusted.
    ///
    /// # Errors
    /// When the message is damaged; nothing is drawn then.
    pub fn draw(&mut self, message: &[u8]) -> Result<TileHeader, TileError> {
        self.apply(message, |_, _| true)
    }

    /// Draws those cells of a message that show nothing newer: for messages that overtake one another.
    ///
    /// # Errors
    /// When the message is damaged; nothing is drawn then.
    pub fn draw_newest(&mut self, message: &[u8]) -> Result<TileHeader, TileError> {
        self.apply(message, |shown, update| shown <= update)
    }

    /// The palette index of each pixel, row by row.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// Appends what has changed since `seen` to `out`, and notes it there: for each cell its number, row by
    /// row (two bytes, the greater first), and the palette index of each of its [`CELL`]² pixels, row by row.
    /// Returns how many cells these are.
    pub fn changes(&self, seen: &mut SeenCells, out: &mut Vec<u8>) -> usize {
        let mut cells = 0;
        for (cell, (seen, newest)) in seen.0.iter_mut().zip(&self.newest).enumerate() {
            if *seen == *newest {
                continue;
            }
            *seen = *newest;
            cells += 1;
            out.extend_from_slice(&cell.saturated::<u16>().to_be_bytes());
            let (row, column) = (cell / COLUMNS, cell % COLUMNS);
            for line in 0..CELL {
                let at = (row * CELL + line) * WIDTH + column * CELL;
                out.extend_from_slice(&self.pixels[at..at + CELL]);
            }
        }
        cells
    }

    /// The picture as a PNG file.
    pub fn png(&self) -> Vec<u8> {
        png(&self.pixels)
    }

    fn apply(&mut self, message: &[u8], wins: impl Fn(u32, u32) -> bool) -> Result<TileHeader, TileError> {
        let tile = ScreenTile::decode(message)?;
        let TileHeader { update, x, y, w, h, .. } = tile.header;
        let [x, y, w, h] = [x, y, w, h].map(usize::from);
        let update = update.saturating_add(1);
        for row in (0..h).step_by(CELL) {
            for column in (0..w).step_by(CELL) {
                let newest = &mut self.newest[(y + row) / CELL * COLUMNS + (x + column) / CELL];
                if !wins(*newest, update) {
                    continue;
                }
                *newest = update;
                for line in row..row + CELL {
                    let to = (y + line) * WIDTH + x + column;
                    let from = line * w + column;
                    self.pixels[to..to + CELL].copy_from_slice(&tile.pixels[from..from + CELL]);
                }
            }
        }
        Ok(tile.header)
    }
}

impl Default for Picture {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Picture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Picture(..)")
    }
}

/// A PNG with a palette (PNG, third edition, W3C 2025): IHDR, PLTE, one IDAT, IEND.
fn png(pixels: &[u8]) -> Vec<u8> {
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut header = Vec::new();
    header.extend_from_slice(&WIDTH.saturated::<u32>().to_be_bytes());
    header.extend_from_slice(&HEIGHT.saturated::<u32>().to_be_bytes());
    // 8 bits, indexed colour, deflate, the one filter method, not interlaced.
    header.extend_from_slice(&[8, 3, 0, 0, 0]);
    chunk(&mut file, *b"IHDR", &header);
    let palette: Vec<u8> = (0..=u8::MAX).flat_map(rgb).collect();
    chunk(&mut file, *b"PLTE", &palette);
    // Each row begins with the number of its filter: none.
    let rows: Vec<u8> =
        pixels.chunks(WIDTH).flat_map(|row| std::iter::once(0).chain(row.iter().copied())).collect();
    chunk(&mut file, *b"IDAT", &miniz_oxide::deflate::compress_to_vec_zlib(&rows, 9));
    chunk(&mut file, *b"IEND", &[]);
    file
}

fn chunk(file: &mut Vec<u8>, kind: [u8; 4], data: &[u8]) {
    file.extend_from_slice(&data.len().saturated::<u32>().to_be_bytes());
    let start = file.len();
    file.extend_from_slice(&kind);
    file.extend_from_slice(data);
    let sum = crc32fast::hash(&file[start..]);
    file.extend_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_applies_the_changes_has_the_picture() {
        let mut desktop = crate::screen::Desktop::new(4);
        let (mut picture, mut seen) = (Picture::new(), SeenCells::new());
        let mut copy = vec![0; WIDTH * HEIGHT];
        for look in 0..3 {
            for (_, message) in (0..look * 4).flat_map(|_| desktop.update().messages) {
                picture.draw(&message).unwrap();
            }
            let mut changes = Vec::new();
            let cells = picture.changes(&mut seen, &mut changes);
            assert_eq!(cells > 0, look > 0);
            assert_eq!(changes.len(), cells * (2 + CELL * CELL));
            for change in changes.chunks(2 + CELL * CELL) {
                let cell = usize::from(change[0]) * 256 + usize::from(change[1]);
                for (line, pixels) in change[2..].chunks(CELL).enumerate() {
                    let at = (cell / COLUMNS * CELL + line) * WIDTH + cell % COLUMNS * CELL;
                    copy[at..at + CELL].copy_from_slice(pixels);
                }
            }
            assert!(copy == picture.pixels(), "look {look}");
        }
        assert_eq!(picture.changes(&mut seen, &mut Vec::new()), 0);
    }

    #[test]
    fn a_png_holds_the_pixels() {
        let file = Picture::new().png();
        assert!(file.starts_with(b"\x89PNG\r\n\x1a\n"));
        let at = file.windows(4).position(|w| w == b"IDAT").unwrap();
        let len = u32::from_be_bytes(file[at - 4..at].try_into().unwrap()) as usize;
        let rows = miniz_oxide::inflate::decompress_to_vec_zlib(&file[at + 4..at + 4 + len]).unwrap();
        assert_eq!(rows.len(), HEIGHT * (WIDTH + 1));
    }
}
