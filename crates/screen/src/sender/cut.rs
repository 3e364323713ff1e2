//! How large a piece is likely to fit.

use quickset_base::number::Unsigned as _;
use quickset_rfb::Rect;

use crate::codec::{MAX_PIXELS, PixelLoss};
use crate::order::{CELL, CellValues, whole_cells};

/// What pixels took when they were sent last, cell by cell: screens are much the same from one update to the
/// next.
#[derive(Debug)]
pub(super) struct CellSizes {
    /// Bytes for 256 pixels, times 16; 0 is not known.
    cells: CellValues<u16>,
    /// They went as JPEG.
    lossy: CellValues<bool>,
    /// The same for all that was sent lately, lossless pieces apart: a guess for cells that are new.
    likely: [u32; 2],
    /// How much to take, in tenths of what is likely to fit.
    aim: usize,
}

impl CellSizes {
    /// With `adaptive` pieces that are too large can be cut when they are.
    pub(super) fn new(adaptive: bool) -> Self {
        // A piece that is too long for the other codecs costs more than room that is left.
        let aim = if adaptive { CUT_LATER } else { FITTING };
        Self { cells: CellValues::new(), lossy: CellValues::new(), likely: [FIRST_GUESS; 2], aim }
    }

    pub(super) fn resize(&mut self, width: u16, height: u16) {
        self.cells.resize(width, height);
        self.lossy.resize(width, height);
    }

    /// The upper left part of `rect` that is likely to take `room` bytes, cut at multiples of 16.
    pub(super) fn cut(&self, rect: Rect, room: usize, loss: PixelLoss) -> Rect {
        let corner = Rect::between(rect.left(), rect.top(), rect.left() + 1, rect.top() + 1);
        let place = self.cells.meeting(corner).map(|(place, _)| place).next();
        let known = place.filter(|_| loss == PixelLoss::Allowed).map(|place| self.cells.get(place));
        // A JPEG is not cut when it is too large: it would be encoded a second time.
        let is_lossy = place.is_some_and(|place| loss == PixelLoss::Allowed && self.lossy.get(place));
        let aim = if is_lossy { FITTING } else { self.aim };
        let each = known.filter(|&n| n > 0).map_or(self.likely[loss as usize], u32::from).max(1) as usize;
        let pixels = (room * 256 * 16 * aim / 10 / each).clamp(AREA, MAX_PIXELS);
        if rect.area() <= pixels {
            return rect;
        }
        // Twice as wide as high: lines of text stay together, and pictures are nearly square.
        let width = (2 * pixels).isqrt().saturated::<u16>().min(rect.width());
        let right = edge(rect.left(), rect.right(), width);
        let height = (pixels / usize::from(right - rect.left())).saturated::<u16>().min(rect.height());
        let bottom = edge(rect.top(), rect.bottom(), height);
        let piece = Rect::between(rect.left(), rect.top(), right, bottom);
        if piece.area() <= MAX_PIXELS { piece } else { half(piece) }
    }

    /// Whole cells around a point, twice as wide as high, that take about so many bytes, but at most a
    /// quarter of the screen.
    pub(super) fn around(&self, x: u16, y: u16, bytes: usize, bounds: Rect) -> Rect {
        let (x, y) = (x.min(bounds.right()), y.min(bounds.bottom()));
        let square = |half: u16| {
            let (left, top) = (x.saturating_sub(2 * half), y.saturating_sub(half));
            whole_cells(Rect::between(left, top, x.saturating_add(2 * half), y.saturating_add(half)), bounds)
        };
        let (mut half, mut area) = (CELL, square(CELL));
        while area != bounds {
            half += half / 2;
            let wider = square(half);
            if wider.area() * 4 > bounds.area() || self.takes(wider) > bytes {
                break;
            }
            area = wider;
        }
        area
    }

    /// Bytes that the pixels of these cells are likely to take.
    fn takes(&self, area: Rect) -> usize {
        let likely = self.likely[PixelLoss::Allowed as usize];
        let known = self.cells.meeting(area).map(|(place, _)| match self.cells.get(place) {
            0 => likely as usize,
            known => known.into(),
        });
        known.sum::<usize>() / 16
    }

    /// `piece` took so many bytes, as JPEG or not; `None`: it would have, but did not fit.
    pub(super) fn learn(&mut self, piece: Rect, bytes: usize, loss: PixelLoss, lossy: Option<bool>) {
        let each = (bytes * 256 * 16 / piece.area().max(1)).max(1).saturated::<u16>();
        let likely = &mut self.likely[loss as usize];
        *likely = (*likely * 7 + u32::from(each)).div_ceil(8);
        if loss == PixelLoss::Allowed {
            for (place, _) in self.cells.meeting(piece) {
                self.cells.set(place, each);
                if let Some(lossy) = lossy {
                    self.lossy.set(place, lossy);
                }
            }
        }
    }
}

/// The upper or left half of what has more than one pixel, cut at a multiple of 16 where there is one inside.
pub(super) fn half(r: Rect) -> Rect {
    if r.width() >= r.height() {
        Rect::between(r.left(), r.top(), middle(r.left(), r.right()), r.bottom())
    } else {
        Rect::between(r.left(), r.top(), r.right(), middle(r.top(), r.bottom()))
    }
}

fn middle(start: u16, end: u16) -> u16 {
    let plain = start + (end - start) / 2;
    let below = plain / CELL * CELL;
    [below, below + CELL].into_iter().find(|&cut| start < cut && cut < end).unwrap_or(plain)
}

/// About `length` from `start`, at a multiple of 16 behind it; before `end`.
fn edge(start: u16, end: u16, length: u16) -> u16 {
    let wanted = start.saturating_add(length) / CELL * CELL;
    let next = (start / CELL + 1).saturating_mul(CELL);
    wanted.max(next).min(end)
}

/// Tenths of what is likely to fit: so that it does, and so that it is cut when it is encoded.
const FITTING: usize = 9;
const CUT_LATER: usize = 13;
/// A cell.
const AREA: usize = (CELL * CELL) as usize;
/// 12 bytes for a cell: between text and film.
const FIRST_GUESS: u32 = 12 * 16;
