use bytes::Bytes;
use quickset_base::number::Unsigned as _;

use super::scenes::Scenes;
use super::tile::{MAX_MESSAGE, ScreenTile, TileHeader, bits};
use super::{CELL, COLUMNS, HEIGHT, ROWS, WIDTH};

/// Messages of an update at most. What changed beyond that waits for the next one.
pub const MESSAGES: usize = 100;

/// A desktop that moves with each update.
#[derive(Debug)]
pub struct Desktop {
    scenes: Scenes,
    update: u32,
    /// What the desktop shows, and what the messages so far add up to.
    shown: Vec<u8>,
    sent: Vec<u8>,
    /// Cells that were sent at all.
    known: Vec<bool>,
    /// The row of cells where the next update begins, so that none waits for ever.
    row: usize,
}

/// One update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesktopUpdate {
    /// Counted from 0.
    pub number: u32,
    /// The messages, each with its rectangle.
    pub messages: Vec<(TileHeader, Bytes)>,
}

/// What is known of a cell that changed: enough to tell how long a tile gets, without coding it.
#[derive(Clone, Copy, Debug)]
struct CellContent {
    colours: [u128; 2],
    /// Runs of one colour, each row of the cell for itself.
    runs: usize,
}

impl Desktop {
    /// A desktop as it is before the first update: nothing of it was sent.
    pub fn new(seed: u64) -> Self {
        Self {
            scenes: Scenes::new(seed),
            update: 0,
            shown: vec![0; WIDTH * HEIGHT],
            sent: vec![0; WIDTH * HEIGHT],
            known: vec![false; COLUMNS * ROWS],
            row: 0,
        }
    }

    /// Moves everything on and returns what changed, in at most [`MESSAGES`] messages.
    pub fn update(&mut self) -> DesktopUpdate {
        self.scenes.advance();
        self.scenes.draw(&mut self.shown);
        self.send()
    }

    /// Without moving on, what was not sent so far; an update without messages when all was.
    pub fn settle(&mut self) -> DesktopUpdate {
        self.send()
    }

    /// The palette index of each pixel shown, row by row.
    pub fn pixels(&self) -> &[u8] {
        &self.shown
    }

    fn send(&mut self) -> DesktopUpdate {
        let mut changed = self.changes();
        let mut update = DesktopUpdate { number: self.update, messages: Vec::new() };
        self.update += 1;
        let first = self.row;
        'screen: for row in (0..ROWS).map(|row| (first + row) % ROWS) {
            for column in 0..COLUMNS {
                if changed[row * COLUMNS + column].is_none() {
                    continue;
                }
                if update.messages.len() == MESSAGES {
                    self.row = row;
                    break 'screen;
                }
                let (w, h) = grow(&mut changed, row, column);
                update.messages.push(self.cut(update.number, column, row, w, h));
            }
        }
        update
    }

    /// The content of each cell that changed since it was last sent.
    fn changes(&self) -> Vec<Option<CellContent>> {
        let cells = (0..ROWS).flat_map(|row| (0..COLUMNS).map(move |column| (row, column)));
        cells.map(|(row, column)| self.has_changed(row, column).then(|| self.content(row, column))).collect()
    }

    fn has_changed(&self, row: usize, column: usize) -> bool {
        !self.known[row * COLUMNS + column]
            || lines(row, column).any(|at| self.shown[at..at + CELL] != self.sent[at..at + CELL])
    }

    fn content(&self, row: usize, column: usize) -> CellContent {
        let mut content = CellContent { colours: [0; 2], runs: 0 };
        for at in lines(row, column) {
            let line = &self.shown[at..at + CELL];
            content.runs += 1 + line.windows(2).filter(|pair| pair[0] != pair[1]).count();
            for pixel in line {
                content.colours[usize::from(pixel >> 7)] |= 1 << (pixel & 127);
            }
        }
        content
    }

    /// The cells from (column, row) on as a message, which counts as sent.
    fn cut(&mut self, update: u32, column: usize, row: usize, w: usize, h: usize) -> (TileHeader, Bytes) {
        for line in row..row + h {
            self.known[line * COLUMNS + column..][..w].fill(true);
        }
        let [x, y, w, h] = [column, row, w, h].map(|cells| cells * CELL);
        let mut pixels = Vec::with_capacity(w * h);
        for line in y..y + h {
            let at = line * WIDTH + x;
            pixels.extend_from_slice(&self.shown[at..at + w]);
            self.sent[at..at + w].copy_from_slice(&self.shown[at..at + w]);
        }
        let header = TileHeader {
            epoch: 0,
            update,
            x: x.saturated::<u16>(),
            y: y.saturated::<u16>(),
            w: w.saturated::<u16>(),
            h: h.saturated::<u16>(),
        };
        let message = ScreenTile { header, pixels }.encode();
        debug_assert!(message.len() <= MAX_MESSAGE, "a tile of {} bytes", message.len());
        (header, message.into())
    }
}

impl CellContent {
    fn join(self, other: Self) -> Self {
        let [a, b] = self.colours;
        let [c, d] = other.colours;
        Self { colours: [a | c, b | d], runs: self.runs + other.runs }
    }

    /// A bound on the message for `cells` cells with this content.
    fn size(self, cells: usize) -> usize {
        let colours: usize = self.colours.iter().map(|half| half.count_ones() as usize).sum();
        let pixels = cells * CELL * CELL;
        let coded = match colours {
            // Runs of a cell's row never exceed 16 pixels, so each fits into a byte.
            0..=16 => 1 + colours + self.runs.min(pixels * bits(colours) / 8),
            _ => pixels,
        };
        TileHeader::SIZE + coded
    }
}

/// Takes a rectangle of changed cells, as wide and then as high as fits into a message.
fn grow(changed: &mut [Option<CellContent>], row: usize, column: usize) -> (usize, usize) {
    let (mut w, mut h) = (0, 1);
    let mut all = CellContent { colours: [0; 2], runs: 0 };
    while column + w < COLUMNS {
        let Some(more) = changed[row * COLUMNS + column + w] else { break };
        let joined = all.join(more);
        if joined.size(w + 1) > MAX_MESSAGE {
            break;
        }
        (all, w) = (joined, w + 1);
    }
    while row + h < ROWS {
        let line = &changed[(row + h) * COLUMNS + column..][..w];
        let joined = line.iter().try_fold(all, |all, cell| cell.map(|cell| all.join(cell)));
        let Some(joined) = joined.filter(|joined| joined.size(w * (h + 1)) <= MAX_MESSAGE) else { break };
        (all, h) = (joined, h + 1);
    }
    for line in row..row + h {
        changed[line * COLUMNS + column..][..w].fill(None);
    }
    (w, h)
}

/// Where the lines of a cell begin.
fn lines(row: usize, column: usize) -> impl Iterator<Item = usize> {
    (0..CELL).map(move |line| (row * CELL + line) * WIDTH + column * CELL)
}

const _: () = assert!(WIDTH % CELL == 0 && HEIGHT % CELL == 0);
// A cell of any content fits.
const _: () = assert!(TileHeader::SIZE + CELL * CELL <= MAX_MESSAGE);
