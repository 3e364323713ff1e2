//! The heart of the client's gateway: screen messages become a screen.
//!
//! *In:* screen messages as their stream delivers them ([`ScreenReceiver::receive`]), and marks. *Out:* the
//! screen, what of it has changed, and what to tell the server ([`ScreenReceiver::control`]). Invariants:
//! nothing is drawn outside the screen; what one message can make us decode, draw or hold is bounded; in the
//! order latest a cell never goes back to an older item. After a fault nothing more is to be given.
//!
//! Source: `spec/desktop.md` §5 to §9.

#[cfg(test)]
mod tests;
mod watch;

use std::collections::VecDeque;

use quickset_base::{Duration, Time};
use quickset_rfb::{CopyRect, Damage, Framebuffer, Rect};

use self::watch::{MarkWatch, Position};
use crate::codec::{CodedPixels, ItemKind, MAX_DECODED, RectangleDecoder, max_written};
use crate::message::{FieldReader, FromClient, MessageFault, Refresh, ScreenMark, ScreenOrder};
use crate::order::{CellValues, is_whole_cells};

/// How to receive a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// The server's, from its WELCOME.
    pub order: ScreenOrder,
    /// The largest screen, in bytes; four a pixel.
    pub max_bytes: usize,
    /// How long a mark may be unmet before a refresh is asked for.
    pub patience: Duration,
}

impl Default for ReceiverConfig {
    /// Fenced, up to 256 MiB, 3 s.
    fn default() -> Self {
        Self { order: ScreenOrder::Fenced, max_bytes: 256 << 20, patience: Duration::from_secs(3) }
    }
}

/// Receives a screen. The contract:
///
/// 1. Give each message of the newest screen stream to [`receive`](Self::receive), in the order in which the
///    stream delivers them; each MARK of the control stream to [`mark`](Self::mark).
/// 2. Then, and at [`next_deadline`](Self::next_deadline), send what [`control`](Self::control) returns until
///    it says `None`.
/// 3. Show what [`changes`](Self::changes) says.
/// 4. With a new connection, [`reconnected`](Self::reconnected).
#[derive(Debug)]
pub struct ScreenReceiver {
    config: ReceiverConfig,
    screen: Framebuffer,
    changes: Changes,
    epoch: u64,
    /// The number after the highest of this connection's items.
    next: u64,
    versions: CellValues<u64>,
    decoder: RectangleDecoder,
    scratch: Vec<u32>,
    unable: VecDeque<u64>,
    /// More copies than can be reported: the whole screen is wanted.
    overflow: bool,
    watch: MarkWatch,
    stats: ReceiverStats,
}

/// What has changed on the screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// It has another size.
    pub resized: bool,
    /// What was drawn.
    pub damage: Damage,
}

/// Counts since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Screen messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Messages of another epoch, which were passed over.
    pub stale: u64,
    /// Items that could not be carried out: copies, and pixels of cells that they cut.
    pub unable: u64,
    /// Refreshes asked for.
    pub refreshes: u64,
}

impl ScreenReceiver {
    /// A receiver whose screen has no pixels until the first message.
    pub fn new(config: ReceiverConfig) -> Self {
        Self {
            config,
            screen: Framebuffer::new(0, 0, config.max_bytes).expect("no pixels always fit"),
            changes: Changes::default(),
            epoch: 0,
            next: 0,
            versions: CellValues::new(),
            decoder: RectangleDecoder::new(),
            scratch: Vec::new(),
            unable: VecDeque::new(),
            overflow: false,
            watch: MarkWatch::new(config.patience),
            stats: ReceiverStats::default(),
        }
    }

    /// The screen as far as it has come.
    pub fn screen(&self) -> &Framebuffer {
        &self.screen
    }

    /// What was received.
    pub fn stats(&self) -> &ReceiverStats {
        &self.stats
    }

    /// What has changed since the last call.
    pub fn changes(&mut self) -> Changes {
        core::mem::take(&mut self.changes)
    }

    /// There is a new connection, with this order: epochs and items count from 1 again (`spec/desktop.md`
    /// §9). The screen stays until it is drawn anew.
    pub fn reconnected(&mut self, order: ScreenOrder) {
        self.config.order = order;
        (self.epoch, self.next) = (0, 0);
        self.versions.fill(0);
        self.unable.clear();
        self.overflow = false;
        self.watch = MarkWatch::new(self.config.patience);
    }

    /// A message of the screen stream.
    ///
    /// # Errors
    /// What is wrong with it; [`MessageFault::code`] is what to close the connection with. Items before the
    /// wrong one have been drawn.
    pub fn receive(&mut self, message: &[u8]) -> Result<(), MessageFault> {
        // DT-5.
        if message.len() > MAX_MESSAGE {
            return Err(MessageFault::Long(message.len()));
        }
        self.stats.messages += 1;
        self.stats.bytes += message.len() as u64;
        let mut fields = FieldReader::new(message, "a screen message");
        let (epoch, first) = (fields.varint()?, fields.varint()?);
        // DT-14.
        if fields.is_empty() {
            return Err(MessageFault::Item { item: first, what: "a message has no item" });
        }
        if fields.rest().first() == Some(&(ItemKind::Size as u8)) {
            return self.size(epoch, first, &mut fields);
        }
        // DT-19.
        if epoch != self.epoch {
            self.stats.stale += 1;
            return Ok(());
        }
        let mut limits = MessageLimits { decode: MAX_DECODED, write: max_written(self.screen.bounds()) };
        let mut item = first;
        while !fields.is_empty() {
            self.item(item, &mut fields, &mut limits)?;
            // Numbers off the wire are below 2^62.
            item += 1;
        }
        self.next = self.next.max(item);
        self.watch.seen(self.position());
        Ok(())
    }

    /// How far the server has sent.
    pub fn mark(&mut self, now: Time, mark: ScreenMark) {
        let position = self.position();
        self.watch.mark(now, mark, position);
    }

    /// What to tell the server, if anything.
    pub fn control(&mut self, now: Time) -> Option<FromClient> {
        if let Some(item) = self.unable.pop_front() {
            return Some(FromClient::Unable { item });
        }
        let restart = if core::mem::take(&mut self.overflow) {
            false
        } else {
            let screen = &self.screen;
            self.watch.wish(now, self.position(), || screen.crc32())?
        };
        self.stats.refreshes += 1;
        Some(FromClient::Refresh(Refresh { restart, rect: self.screen.bounds() }))
    }

    /// When to ask [`control`](Self::control) even if nothing happens.
    pub fn next_deadline(&self) -> Option<Time> {
        self.watch.deadline(self.position())
    }

    fn position(&self) -> Position {
        Position { epoch: self.epoch, items: self.next }
    }

    /// DT-17.
    fn size(&mut self, epoch: u64, item: u64, fields: &mut FieldReader<'_>) -> Result<(), MessageFault> {
        fields.u8()?;
        let (width, height) = (fields.varint()?, fields.varint()?);
        if !fields.is_empty() {
            return Err(MessageFault::Item { item, what: "a size is not alone" });
        }
        if epoch <= self.epoch {
            return Err(MessageFault::Item { item, what: "a size does not begin an epoch" });
        }
        // DT-20.
        let too_large = MessageFault::TooLarge { width, height };
        let (Ok(w), Ok(h)) = (u16::try_from(width), u16::try_from(height)) else { return Err(too_large) };
        self.screen.resize(w, h).map_err(|_| too_large)?;
        self.versions.resize(w, h);
        self.changes.resized = true;
        self.changes.damage = Damage::from(self.screen.bounds());
        (self.epoch, self.next) = (epoch, self.next.max(item + 1));
        self.watch.seen(self.position());
        Ok(())
    }

    fn item(
        &mut self,
        item: u64,
        fields: &mut FieldReader<'_>,
        limits: &mut MessageLimits,
    ) -> Result<(), MessageFault> {
        let fault = |what| MessageFault::Item { item, what };
        // DT-42.
        let kind =
            ItemKind::ALL.get(usize::from(fields.u8()?)).copied().ok_or(fault("its kind is not known"))?;
        if kind == ItemKind::Size {
            return Err(fault("a size is not alone"));
        }
        let rect = fields.rect()?;
        // DT-15.
        if rect.is_empty() || !self.screen.bounds().contains(rect) {
            return Err(fault("its rectangle is empty or not inside the screen"));
        }
        // DT-16.
        let decode = if matches!(kind, ItemKind::Solid | ItemKind::Copy) { 0 } else { rect.area() };
        limits.take(decode, rect.area()).ok_or(fault("its message has too many pixels"))?;
        if kind == ItemKind::Copy {
            return self.copy(item, rect, fields);
        }
        let coded = CodedPixels::read(kind, rect, fields)?;
        if self.config.order == ScreenOrder::Latest {
            // DT-30, DT-85.
            let cuts = !is_whole_cells(rect, self.screen.bounds());
            let versions = if cuts { Some(fields.u64()?) } else { None };
            return self.newest(item, rect, coded, versions);
        }
        match coded {
            CodedPixels::Solid(colour) => self.screen.fill(rect, colour),
            coded => self.screen.put(rect, self.decoder.decode(rect, coded).map_err(fault)?),
        }
        .map_err(|_| fault("it is not inside the screen"))?;
        self.changes.damage.add(rect);
        Ok(())
    }

    /// DT-31: the cells that are older. Of those that it cuts the other pixels have to be the server's, which
    /// `versions` says.
    fn newest(
        &mut self,
        item: u64,
        rect: Rect,
        coded: CodedPixels<'_>,
        versions: Option<u64>,
    ) -> Result<(), MessageFault> {
        let fault = |what| MessageFault::Item { item, what };
        let pixels = match coded {
            // All cells of it look the same.
            CodedPixels::Solid(colour) => {
                self.scratch.clear();
                self.scratch.resize(CELL_AREA, colour);
                None
            }
            coded => Some(self.decoder.decode(rect, coded).map_err(fault)?),
        };
        // DT-85.
        let agrees = versions.is_none_or(|sum| sum == self.versions.sum(Rect::EMPTY, rect));
        let mut undone = false;
        for (place, cell) in self.versions.meeting(rect) {
            if self.versions.get(place) >= item {
                continue;
            }
            if !agrees && !rect.contains(cell) {
                undone = true;
                continue;
            }
            self.versions.set(place, item);
            let cell = cell.intersection(rect);
            match pixels {
                None => self.screen.put(cell, &self.scratch[..cell.area()]),
                Some(pixels) => {
                    part(pixels, rect, cell, &mut self.scratch);
                    self.screen.put(cell, &self.scratch)
                }
            }
            .map_err(|_| fault("it is not inside the screen"))?;
        }
        if undone {
            self.report(item);
        }
        self.changes.damage.add(rect);
        Ok(())
    }

    fn copy(&mut self, item: u64, to: Rect, fields: &mut FieldReader<'_>) -> Result<(), MessageFault> {
        let outside = MessageFault::Item { item, what: "its source is not inside the screen" };
        let (x, y) = (fields.side("a source")?, fields.side("a source")?);
        // DT-15.
        let from = to.moved_to(x, y).filter(|&from| self.screen.bounds().contains(from));
        let from = from.ok_or(outside.clone())?;
        if self.config.order == ScreenOrder::Latest {
            // DT-33.
            if fields.u64()? != self.versions.sum(from, to) {
                self.report(item);
                return Ok(());
            }
            // DT-34: what newer items have drawn stays.
            let overtaken = self.versions.meeting(to).any(|(place, _)| self.versions.get(place) >= item);
            if overtaken {
                return self.copy_older(item, from, to).ok_or(outside);
            }
            for (place, _) in self.versions.meeting(to) {
                self.versions.set(place, item);
            }
        }
        // DT-25.
        self.screen.copy(to, x, y).map_err(|_| outside)?;
        self.changes.damage.copy(CopyRect { to, x, y });
        Ok(())
    }

    /// Copies to cells that are older.
    fn copy_older(&mut self, item: u64, from: Rect, to: Rect) -> Option<()> {
        let mut source = Vec::new();
        self.screen.read(from, &mut source).ok()?;
        for (place, cell) in self.versions.meeting(to) {
            if self.versions.get(place) < item {
                self.versions.set(place, item);
                let cell = cell.intersection(to);
                part(&source, to, cell, &mut self.scratch);
                self.screen.put(cell, &self.scratch).ok()?;
            }
        }
        self.changes.damage.add(to);
        Some(())
    }

    fn report(&mut self, item: u64) {
        self.stats.unable += 1;
        if self.unable.len() < MAX_UNABLE {
            self.unable.push_back(item);
        } else {
            self.unable.clear();
            self.overflow = true;
        }
    }
}

/// DT-16: what is left to one message.
struct MessageLimits {
    decode: usize,
    write: usize,
}

impl MessageLimits {
    fn take(&mut self, decode: usize, write: usize) -> Option<()> {
        self.decode = self.decode.checked_sub(decode)?;
        self.write = self.write.checked_sub(write)?;
        Some(())
    }
}

/// The pixels of `part`, out of those of `whole`.
fn part(pixels: &[u32], whole: Rect, part: Rect, out: &mut Vec<u32>) {
    out.clear();
    let width = usize::from(whole.width());
    let (left, top) = (usize::from(part.left() - whole.left()), usize::from(part.top() - whole.top()));
    for row in pixels.chunks_exact(width).skip(top).take(part.height().into()) {
        out.extend_from_slice(&row[left..left + usize::from(part.width())]);
    }
}

/// DT-5: the longest message.
const MAX_MESSAGE: usize = 16384;
/// Copies that wait to be reported.
const MAX_UNABLE: usize = 256;
/// Pixels of a whole cell.
const CELL_AREA: usize = 256;
