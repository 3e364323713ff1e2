//! The heart of the server's gateway: what an RFB server draws becomes screen messages.
//!
//! *In:* events of an RFB client ([`ScreenSender::rfb`]); what became of messages; the client's refreshes.
//! *Out:* screen messages and fences ([`ScreenSender::poll`]), and marks ([`ScreenSender::control`]). What
//! has changed is kept as an area of a shadow screen and encoded when the transport has room, so nothing is
//! ever queued that is not the newest.
//!
//! Invariant: the client's screen, once all that was handed out has arrived, equals the shadow outside
//! `ScreenDamage::dirty`, as it was before the queued copies; that is why copies go first. Where a cell is
//! lossy it equals nearly. A message never is longer than the budget.
//!
//! Source: `spec/desktop.md` §5 to §8.

mod bundle;
mod config;
mod cut;
mod damage;
#[cfg(test)]
mod film_tests;
mod flights;
mod lossy;
mod marks;
mod motion;
mod near;
mod piece;
mod quality;
mod stats;
#[cfg(test)]
mod tests;
mod touched;

use std::collections::VecDeque;

use bytes::Bytes;
use quickset_base::Time;
use quickset_rfb::{ClientEvent, CopyRect, Framebuffer, Outside, Rect, ResizeStatus, TooLarge};

pub use self::config::SenderConfig;
pub use self::quality::{JpegQuality, LinkEstimate, ParseQualityError};
pub use self::stats::{ItemCount, SenderStats};
pub use crate::codec::ItemKind;

use self::bundle::{EncodedItem, ItemBundle};
use self::damage::{ScreenDamage, is_tall};
use self::flights::ScreenFlights;
use self::lossy::Lossy;
use self::marks::ScreenMarks;
use self::motion::ScreenMotion;
use self::near::{Focus, Near};
use self::piece::PieceMaker;
use self::quality::QualityControl;
use self::touched::Touched;
use crate::codec::{PieceRoom, PixelLoss};
use crate::message::{FromServer, PutFields as _, Refresh, ScreenLayout, ScreenOrder};
use crate::order::{CELL, whole_cells};

/// Sends a screen. The contract:
///
/// 1. Give each event of the RFB client to [`rfb`](Self::rfb), and send the control message that may come
///    back.
/// 2. While the transport has room, [`poll`](Self::poll) and hand what comes to the screen stream at once and
///    in order: messages, and fences between them.
/// 3. Tell [`outcome`](Self::outcome) of every message. In the order latest, messages without `keep` should
///    be given up as soon as they are lost, those named by [`superseded`](Self::superseded) at any time; in
///    other orders none should.
/// 4. Send what [`control`](Self::control) returns, and give REFRESH and UNABLE to [`refresh`](Self::refresh)
///    and [`unable`](Self::unable).
/// 5. [`point`](Self::point), [`set_link`](Self::set_link) and [`wish_quality`](Self::wish_quality) may be
///    told at any time, or never.
/// 6. Poll again after each of these, and at [`next_deadline`](Self::next_deadline).
#[derive(Debug)]
pub struct ScreenSender {
    config: SenderConfig,
    shadow: Framebuffer,
    damage: ScreenDamage,
    lossy: Lossy,
    flights: ScreenFlights,
    marks: ScreenMarks,
    motion: ScreenMotion,
    quality: QualityControl,
    pieces: PieceMaker,
    near: Near,
    /// Encoded, but the last message was full.
    spare: Option<EncodedItem>,
    /// Handed out next: a message with the fences around it.
    ready: VecDeque<ScreenItem>,
    /// What was sent since the last fence.
    segment: Touched,
    /// SIZE is to be sent.
    size_due: bool,
    epoch: u64,
    /// The number of the next item.
    next: u64,
    stats: SenderStats,
}

/// For the screen stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScreenItem {
    /// A message.
    Message {
        /// Names it for [`ScreenSender::outcome`].
        id: u64,
        /// One record.
        payload: Bytes,
        /// Must arrive, in every order.
        keep: bool,
    },
    /// A fence between what came before and what comes after.
    Fence,
    /// An update ends here, and nothing waits for it (order latest): what was lost of it is worth repair now.
    Flush,
}

/// The RFB server's event does not fit the shadow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// Pixels beyond the edge.
    #[error(transparent)]
    Outside(#[from] Outside),
    /// A screen larger than is allowed.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}

impl ScreenSender {
    /// A sender whose screen has no pixels until [`rfb`](Self::rfb) tells the size.
    pub fn new(config: SenderConfig) -> Self {
        let config = SenderConfig { budget: config.budget.clamp(LEAST_BUDGET, MOST_BUDGET), ..config };
        let shadow = Framebuffer::new(0, 0, config.max_bytes).expect("no pixels always fit");
        Self {
            config,
            shadow,
            damage: ScreenDamage::new(),
            lossy: Lossy::new(config.rest),
            flights: ScreenFlights::new(config.patches),
            marks: ScreenMarks::default(),
            motion: ScreenMotion::new(),
            quality: QualityControl::new(config.quality),
            pieces: PieceMaker::new(&config),
            near: Near::default(),
            spare: None,
            ready: VecDeque::new(),
            segment: Touched::nothing(),
            size_due: false,
            epoch: 0,
            next: 1,
            stats: SenderStats::default(),
        }
    }

    /// The screen as the RFB server has it.
    pub fn screen(&self) -> &Framebuffer {
        &self.shadow
    }

    /// The longest message, in bytes: with less room than that nothing is encoded.
    pub fn budget(&self) -> usize {
        self.config.budget
    }

    /// Messages are as long as this from now on, within what [`SenderConfig::budget`] allows: the path takes
    /// larger packets, or smaller ones. What is ready already stays as it is.
    pub fn set_budget(&mut self, budget: usize) {
        let budget = budget.clamp(LEAST_BUDGET, MOST_BUDGET);
        if std::mem::replace(&mut self.config.budget, budget) == budget {
            return;
        }
        // It may be too long now, and is encoded anew.
        let most = ItemBundle::new(self.config.budget, self.epoch, self.next, self.shadow.bounds()).most();
        if let Some(spare) = self.spare.take_if(|spare| spare.bytes.len() > most) {
            self.damage.refresh(spare.writes);
        }
    }

    /// What was sent.
    pub fn stats(&self) -> &SenderStats {
        &self.stats
    }

    /// An event of the RFB client, and the control message that tells the client of it. Fences, clipboards
    /// and extensions are between the gateway and its server: they do nothing here.
    ///
    /// # Errors
    /// When it does not fit the shadow, which happens only if events were left out.
    pub fn rfb(&mut self, now: Time, event: &ClientEvent<'_>) -> Result<Option<FromServer>, Misfit> {
        Ok(match event {
            ClientEvent::Ready(init) => {
                self.resize(init.width, init.height)?;
                Some(FromServer::Name(init.name.clone()))
            }
            ClientEvent::Pixels { rect, pixels } => {
                self.shadow.put(*rect, pixels)?;
                self.damage.pixels(now, *rect);
                self.motion.drawn(*rect);
                None
            }
            ClientEvent::Copy { rect, x, y } => {
                self.copy(now, *rect, *x, *y)?;
                None
            }
            ClientEvent::UpdateEnd => {
                self.damage.update_end();
                self.motion.update_end(now, |place| self.lossy.is_lossy(place));
                None
            }
            ClientEvent::Resize(resize) => {
                if resize.status == ResizeStatus::Done {
                    self.resize(resize.width, resize.height)?;
                }
                Some(FromServer::Layout(ScreenLayout {
                    reason: resize.reason,
                    status: resize.status,
                    width: resize.width,
                    height: resize.height,
                    screens: resize.screens.clone(),
                }))
            }
            ClientEvent::Cursor(cursor) => Some(FromServer::Cursor(cursor.clone())),
            ClientEvent::Name(name) => Some(FromServer::Name(name.clone())),
            ClientEvent::Leds(leds) => Some(FromServer::Leds(*leds)),
            ClientEvent::Bell => Some(FromServer::Bell),
            ClientEvent::Text(_)
            | ClientEvent::Clipboard(_)
            | ClientEvent::TextDropped { .. }
            | ClientEvent::TextBroken { .. }
            | ClientEvent::Fence(_)
            | ClientEvent::ContinuousUpdatesEnded
            | ClientEvent::Supports(_)
            | ClientEvent::Colours { .. }
            | ClientEvent::StartTls => None,
        })
    }

    /// The client's pointer is here: what is drawn around it is sent before the rest, as far as a few
    /// messages go.
    pub fn point(&mut self, x: u16, y: u16) {
        self.near.point(x, y);
    }

    /// Between which qualities the client wishes its pictures to be: they are, as far as
    /// [`SenderConfig::quality`] allows. `None`: it has no wish any more.
    pub fn wish_quality(&mut self, wish: Option<JpegQuality>) {
        // DT-84.
        let limits = self.config.quality;
        self.quality.set_range(wish.map_or(limits, |wish| limits.wished(wish)));
    }

    /// What the transport knows of the link: pictures have the quality that it carries.
    pub fn set_link(&mut self, link: LinkEstimate) {
        self.quality.set_link(link);
    }

    /// What to hand to the screen stream next, if there is anything and `room` bytes are enough for it. Asked
    /// with less room than the budget it encodes nothing.
    pub fn poll(&mut self, now: Time, room: usize) -> Option<ScreenItem> {
        if self.ready.is_empty() && room >= self.config.budget && self.flights.has_room() {
            self.build(now);
        }
        match self.ready.front()? {
            ScreenItem::Message { payload, .. } if payload.len() > room => None,
            _ => self.ready.pop_front(),
        }
    }

    /// A mark, when one is due.
    pub fn control(&mut self, now: Time) -> Option<FromServer> {
        let rest = self.is_at_rest();
        self.marks.due(now, self.epoch, self.next, rest.then_some(&self.shadow)).map(FromServer::Mark)
    }

    /// The message `id` has arrived, or will not.
    pub fn outcome(&mut self, id: u64, arrived: bool) {
        let latest = self.config.order == ScreenOrder::Latest;
        match self.flights.landed(id, arrived) {
            flights::Landing::Fine => {}
            flights::Landing::Missing(cells) if latest => self.damage.missing(&cells),
            // DT-29: what follows may build on it. A size that is missing makes all that follows unreadable.
            flights::Landing::Missing(_) => self.refresh_all(),
            flights::Landing::MissingSize => self.restart(),
        }
    }

    /// A message that nobody needs any more: newer ones cover it. To be called until it says `None`.
    pub fn superseded(&mut self) -> Option<u64> {
        self.flights.superseded()
    }

    /// The client asks for pixels. When that is for a new stream, a new one is to be opened first, and the
    /// old one reset; outcomes of messages on the old one are not told any more.
    pub fn refresh(&mut self, refresh: &Refresh) {
        // DT-40.
        if refresh.restart {
            self.restart();
        } else {
            self.damage.refresh(self.shadow.bounds().intersection(refresh.rect));
            // The client's pixels are not what was sent: they are of no use to copies.
            self.flights.doubt_all();
            self.damage.drop_copies();
        }
    }

    /// A copy could not be carried out.
    pub fn unable(&mut self, item: u64) {
        // DT-35.
        match self.flights.unable(item) {
            Some(cells) => self.damage.missing(&cells),
            None if item < self.next => self.refresh_all(),
            None => {}
        }
    }

    /// All over again: a new epoch and the whole screen, for a new stream.
    pub fn restart(&mut self) {
        self.ready.clear();
        self.spare = None;
        self.segment.clear();
        self.flights.forget();
        self.motion.forget();
        self.size_due = true;
        self.refresh_all();
    }

    /// When to poll again even if nothing happens.
    pub fn next_deadline(&self) -> Option<Time> {
        let quiet = self.damage.is_nothing();
        let lossless = self.lossy.deadline().filter(|_| quiet);
        let film = self.motion.deadline(quiet, self.lossy.has_rested());
        let mark = self.marks.deadline(self.epoch, self.next);
        let waiting = [mark, lossless, film, self.damage.deadline()];
        waiting.into_iter().flatten().min()
    }

    /// Until when what is drawn waits for the end of its update; `None` without either.
    pub fn patience(&self) -> Option<Time> {
        self.damage.deadline()
    }

    fn refresh_all(&mut self) {
        self.damage.drop_copies();
        self.damage.refresh(self.shadow.bounds());
        self.flights.doubt_all();
    }

    fn resize(&mut self, width: u16, height: u16) -> Result<(), Misfit> {
        if (width, height) == (self.shadow.width(), self.shadow.height()) && self.epoch > 0 {
            return Ok(());
        }
        self.damage.drop_copies();
        if let Some(spare) = self.spare.take() {
            self.damage.refresh(spare.writes);
        }
        self.shadow.resize(width, height)?;
        self.damage.clip(self.shadow.bounds());
        // The client will not see the size in between, so it cannot lose what that has cut off.
        if self.size_due {
            self.damage.refresh(self.shadow.bounds());
        }
        self.size_due = true;
        self.lossy.resize(width, height);
        self.motion.resize(width, height);
        self.flights.resize(width, height);
        self.pieces.resize(width, height);
        Ok(())
    }

    fn copy(&mut self, now: Time, to: Rect, x: u16, y: u16) -> Result<(), Misfit> {
        self.shadow.copy(to, x, y)?;
        if self.damage.copy(now, CopyRect { to, x, y }) {
            self.lossy.copied(now, to, x, y);
        }
        Ok(())
    }

    /// The client has, or will have, exactly the screen: nothing is left to send.
    pub fn is_at_rest(&self) -> bool {
        let quiet = self.ready.is_empty() && self.spare.is_none() && !self.size_due && self.epoch > 0;
        let landed = self.config.order != ScreenOrder::Latest || self.flights.is_empty();
        quiet && landed && self.damage.is_nothing() && self.lossy.is_nothing()
    }

    /// Builds the next message, if there is anything to send.
    fn build(&mut self, now: Time) {
        if self.size_due {
            return self.build_size();
        }
        self.look_at_frames(now);
        let mut bundle = ItemBundle::new(self.config.budget, self.epoch, self.next, self.shadow.bounds());
        // Encoded before any copy that waits: it goes first, or the copy would read what was not there yet.
        if let Some(spare) = self.spare.take() {
            self.push(&mut bundle, &spare);
        }
        if self.add_copies(now, &mut bundle) && self.add_pixels(now, &mut bundle) {
            self.add_lossless(now, &mut bundle);
        }
        self.close(bundle);
    }

    /// DT-17, DT-18: alone, between two fences.
    fn build_size(&mut self) {
        self.size_due = false;
        self.epoch += 1;
        self.fence();
        let (width, height) = (self.shadow.width(), self.shadow.height());
        let payload = bundle::size(self.epoch, self.next, width, height);
        self.stats.message(payload.len());
        self.stats.item(ItemKind::Size, payload.len(), 0);
        self.flights.size(self.next);
        self.ready.push_back(ScreenItem::Message { id: self.next, payload, keep: true });
        self.next += 1;
        self.ready.push_back(ScreenItem::Fence);
        self.segment.clear();
    }

    /// Copies that wait. False when there is no more room.
    fn add_copies(&mut self, now: Time, bundle: &mut ItemBundle) -> bool {
        let latest = self.config.order == ScreenOrder::Latest;
        while let Some(copy) = self.damage.next_copy(now) {
            if latest && self.flights.are_fragile(self.next) && is_tall(&copy) {
                self.damage.cut_copy();
                continue;
            }
            let from = copy.from();
            if latest && self.flights.is_doubtful(from, copy.to) {
                // The client could not carry it out.
                self.damage.skip_copy();
                continue;
            }
            let versions = latest.then(|| self.flights.sum(from, copy.to));
            let item = bundle::copy(copy, versions);
            if !self.admits(bundle, &item) {
                return false;
            }
            self.push(bundle, &item);
            self.damage.copy_sent();
        }
        true
    }

    /// Pixels of this update. False when there is no more room, or more to come.
    fn add_pixels(&mut self, now: Time, bundle: &mut ItemBundle) -> bool {
        let fenced = self.config.order == ScreenOrder::Fenced;
        self.begin(now);
        let focus = self.focus(now, bundle);
        let still_first = self.still_first(now);
        loop {
            let conflicts = |rect| fenced && self.segment.conflicts(rect, None);
            let rect = match still_first {
                None => self.damage.next_rect(now, focus, conflicts),
                Some(first) => self.damage.next_beside(now, focus, self.motion.area(), first, conflicts),
            };
            let Some(rect) = rect else { break };
            if !self.add_piece(now, bundle, rect, PixelLoss::Allowed) {
                return false;
            }
        }
        // DT-28: the end of an update.
        bundle.ends_update = self.damage.turn_ended();
        !bundle.ends_update
    }

    /// What has become of frames of what moves.
    fn look_at_frames(&mut self, now: Time) {
        self.motion.settle(now);
        while let Some(frame) = self.motion.next_arrived(self.flights.first()) {
            self.quality.arrived(now, frame);
        }
        self.motion.hold(now, self.quality.link().min_rtt);
    }

    /// Begins an update, if it is time for one, in the quality that the link carries.
    fn begin(&mut self, now: Time) {
        if !self.damage.begin(now, self.motion.held()) {
            return;
        }
        let (still, moves) = self.damage.turn_areas(self.motion.area());
        self.quality.begin(still, moves, self.motion.interval());
        if moves > 0 {
            self.motion.frame_begins(now);
        }
    }

    /// Whether what does not move goes first in a message; `None` when not both wait.
    fn still_first(&mut self, now: Time) -> Option<bool> {
        let moving = self.motion.area();
        if self.damage.turn_meets(moving) && self.damage.waits_beside(now, moving) {
            return Some(self.motion.stands_back());
        }
        self.motion.is_alone();
        None
    }

    /// What the message is to begin with, or to go on with: what a person looks at, as far as others do not
    /// wait for too long.
    fn focus(&mut self, now: Time, bundle: &ItemBundle) -> Focus {
        let Some((x, y)) = self.near.pointer().filter(|_| !self.damage.is_nothing()) else {
            return Focus::NOWHERE;
        };
        let area = self.pieces.around(x, y, NEAR, self.shadow.bounds());
        if !self.damage.is_divided(now, area) {
            self.near.is_alone();
            return Focus { area, first: true };
        }
        let led = bundle.leader.map(|rect| rect.meets(area));
        Focus { area, first: self.near.goes_first(led) }
    }

    /// DT-26: lossy areas at rest, when nothing else is to be sent.
    fn add_lossless(&mut self, now: Time, bundle: &mut ItemBundle) {
        if !self.damage.is_nothing() || self.motion.waits_to_refresh(now) {
            return;
        }
        let before = bundle.room();
        while let Some(rect) = self.lossy.next_rect(now, &self.motion) {
            if !self.add_piece(now, bundle, rect, PixelLoss::None) {
                break;
            }
        }
        self.motion.refreshed(now, before - bundle.room(), self.quality.link().rate);
    }

    /// Adds a part of `rect` at its upper left. False when there is no more room.
    fn add_piece(&mut self, now: Time, bundle: &mut ItemBundle, rect: Rect, loss: PixelLoss) -> bool {
        let room = bundle.room();
        if room < LEAST_ROOM {
            return false;
        }
        let latest = self.config.order == ScreenOrder::Latest;
        let bounds = self.shadow.bounds();
        let rect = if latest { self.flights.patch_or_cells(rect, bounds, bundle.next()) } else { rect };
        let piece = self.pieces.cut(rect, room, loss);
        let moves = loss == PixelLoss::Allowed && self.motion.area().meets(piece);
        self.pieces.set_quality(self.quality.of(moves));
        // Slivers that fill a message up would leave slivers to send, each with a header of its own.
        if piece != rect && room * 2 < self.config.budget {
            return false;
        }
        // DT-30. Lines of text do not stand at multiples of 16.
        let step = if latest { CELL } else { STEP };
        // DT-85: some have a sum behind them.
        let sum = if latest && whole_cells(rect, bounds) != rect { bundle::SUM } else { 0 };
        let room = PieceRoom { wanted: room.saturating_sub(sum), most: bundle.most() - sum, step };
        let made = self.pieces.make(&self.shadow, piece, loss, room, self.config.budget);
        let (kind, piece, mut bytes) = made;
        self.stats.retries = self.pieces.retries();
        let patches = latest && whole_cells(piece, bounds) != piece;
        if patches {
            // Nothing is sent between this and the message that it goes with.
            bytes.put_u64(self.flights.sum(Rect::EMPTY, piece));
        }
        let item = EncodedItem { kind, bytes, writes: piece, reads: None, patches };
        self.damage.encoded(piece);
        self.lossy.encoded(now, piece, item.kind);
        if loss == PixelLoss::Allowed {
            self.note_piece(moves, &item);
        }
        if self.admits(bundle, &item) {
            self.push(bundle, &item);
            return true;
        }
        self.spare = Some(item);
        false
    }

    /// What a piece took says what the next ones will.
    fn note_piece(&mut self, moves: bool, item: &EncodedItem) {
        let lossy = item.kind == ItemKind::Jpeg;
        if lossy {
            self.stats.quality(moves, self.quality.of(moves));
        }
        self.quality.learn(moves, item.writes.area(), item.bytes.len(), lossy);
        if moves {
            self.motion.frame_grows(item.bytes.len());
        }
    }

    /// DT-28: a message that need not wait for a fence is not made to by another item.
    fn admits(&self, bundle: &ItemBundle, item: &EncodedItem) -> bool {
        let fenced = self.config.order == ScreenOrder::Fenced;
        let harmless = !fenced
            || bundle.is_empty()
            || bundle.conflicts
            || !self.segment.conflicts(item.writes, item.reads);
        harmless && bundle.admits(item)
    }

    fn push(&mut self, bundle: &mut ItemBundle, item: &EncodedItem) {
        let number = bundle.next();
        self.stats.item(item.kind, item.bytes.len(), item.writes.area());
        if self.config.order == ScreenOrder::Latest {
            self.flights.sent(number, item.effect());
        }
        bundle.conflicts |= self.segment.conflicts(item.writes, item.reads);
        bundle.push(item);
    }

    /// The message is as full as it gets: with the fences it needs it is ready.
    fn close(&mut self, bundle: ItemBundle) {
        let (order, ends_update) = (self.config.order, bundle.ends_update);
        if !bundle.is_empty() {
            if order == ScreenOrder::Fenced && bundle.conflicts {
                self.fence();
            }
            let id = self.next;
            self.next = bundle.next();
            // In the order latest it only matters that there is something to fence off.
            if order != ScreenOrder::Latest || self.segment.is_nothing() {
                self.segment.add_all(&bundle.touched);
            }
            let payload = bundle.finish();
            self.stats.message(payload.len());
            self.flights.closed(id, self.next, order == ScreenOrder::Latest);
            let waiting = self.spare.as_ref().map_or(0, |spare| spare.bytes.len());
            self.motion.frame_message(id, waiting);
            self.ready.push_back(ScreenItem::Message { id, payload, keep: order != ScreenOrder::Latest });
        }
        if self.motion.in_frame() && self.spare.is_none() && !self.damage.turn_meets(self.motion.area()) {
            self.motion.frame_ends();
        }
        match order {
            // DT-27.
            ScreenOrder::Ordered => self.fence(),
            ScreenOrder::Fenced if ends_update => self.fence(),
            ScreenOrder::Latest if ends_update => self.ready.push_back(ScreenItem::Flush),
            ScreenOrder::Fenced | ScreenOrder::Latest => {}
        }
    }

    /// A fence, unless nothing was sent since the last.
    fn fence(&mut self) {
        if !self.segment.is_nothing() {
            self.ready.push_back(ScreenItem::Fence);
            self.stats.fences += 1;
            self.segment.clear();
        }
    }
}

/// Bytes of messages that what is near the pointer takes: 37 ms at 2 Mbit/s.
const NEAR: usize = 9200;
/// What [`SenderConfig::budget`] may be.
const LEAST_BUDGET: usize = 1000;
/// DT-5.
const MOST_BUDGET: usize = 16384;
/// Rows at multiples of which a piece may end in orders with fences.
const STEP: u16 = 4;
/// With less room than this a message is sent as it is.
const LEAST_ROOM: usize = 64;
