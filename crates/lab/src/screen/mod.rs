//! A moving test desktop: windows, scrolling text and a video, made up from a seed, and cut into messages.
//!
//! *In:* a seed. *Out:* [`Desktop::update`]: the next update as messages of at most [`MAX_MESSAGE`] bytes,
//! each a rectangle whose pixels it carries whole, palette-coded, so that it can be drawn without any other;
//! and [`Picture`], which a receiver draws them into.
//!
//! Invariants: equal seeds give equal messages; the messages of one update never overlap; after
//! [`Desktop::settle`] whoever applied all messages in order, or the newest of each cell in any order, has
//! the same picture as the desktop.
//!
//! It stands for a real screen where a demonstration needs one without any software besides: the sizes of its
//! updates (100 messages of about 1 kB) are those of full-screen video (100 to 300 kB as JPEG).

mod desktop;
mod font;
mod palette;
mod picture;
#[expect(clippy::cast_possible_wrap, reason = "coordinates on a screen are far below 2^31")]
mod scenes;
mod tile;

pub use desktop::{Desktop, DesktopUpdate, MESSAGES};
pub use palette::rgb;
pub use picture::{Picture, SeenCells};
pub use tile::{MAX_MESSAGE, ScreenTile, TileError, TileHeader};

/// The width of the desktop in pixels.
pub const WIDTH: usize = 1280;
/// The height of the desktop in pixels.
pub const HEIGHT: usize = 720;
/// The side of a cell in pixels: what changed is found, and what is newest is kept, cell by cell.
pub const CELL: usize = 16;
/// Cells in a row.
pub const COLUMNS: usize = WIDTH / CELL;
/// Rows of cells.
pub const ROWS: usize = HEIGHT / CELL;

#[cfg(test)]
mod tests;
