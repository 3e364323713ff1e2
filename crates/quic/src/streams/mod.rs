//! Streams: ids and limits, flow control at both levels, sending and receiving halves, who sends next.
//!
//! *In:* the application's verbs (`open`, `write`, `read`, …); frames of streams by `on_frame`; what became
//! of packets by `acked` and `lost`. *Out:* frames by `write_control` and `write_data`; [`StreamEvent`]s; by
//! `demand` and `deadlines`, what the application wants of a channel, for those who protect it.
//!
//! Invariants: a stream holds a slot of the slab until both halves are through and the application was
//! told so; tokens name slots by generation, so those of an old owner find nothing. What a peer can make
//! us hold is bounded by the credit that was advertised, and by a limit on gaps. Credit of the
//! connection is what all streams consumed, in whatever way: read, dropped after `stop`, or reset.
//! Nothing done per packet depends on the number of streams or on the size of a window.
//!
//! Sources: RFC 9000 §2 to §4, §19; `spec/fenced-streams.md` for messages.

mod assembler;
mod demand;
mod early;
mod event;
mod fenced;
mod flow;
mod gaps;
mod inbound;
mod limits;
mod messages;
mod numbers;
mod outbound;
mod outsiders;
mod ranges;
mod recv;
mod send;
mod send_buffer;
mod settings;
mod short_queue;
mod slab;
mod store;
mod stretch;
#[cfg(test)]
mod tests;
mod turns;
mod verbs;
mod work;

use std::collections::{BTreeSet, VecDeque};

use quickset_base::Time;
use quickset_sched::ClassId;
use quickset_wire::{Dir, Side, StreamId, TransportParams};

pub(crate) use demand::ChannelDeadlines;
pub use event::{
    Chunk, FinishError, Piece, ReadError, RecvState, ResetAtError, SendError, SendState, StreamEvent,
    UnknownStream, WriteError,
};
pub use fenced::{Message, MessageStats, Outcome, Ticket};
pub(crate) use inbound::Stretch;
pub(crate) use outbound::StreamTurn;

use crate::packet::{Channel, StreamKey, Want};
use demand::{DemandShare, DemandTally, PassedBoundaries, share};
use flow::ReceiveWindow;
use limits::StreamLimits;
use messages::Records;
use numbers::Theirs;
use recv::RecvHalf;
use send::SendHalf;
pub(crate) use settings::StreamSettings;
use slab::Slab;
pub(crate) use store::STREAM_COST;
use store::StreamBytes;
pub use turns::{Class, ClassError};
use turns::{Turns, has};
use work::OwedWork;

/// All streams of a connection.
// sizes: what all streams have in common.
#[derive(Debug)]
pub(crate) struct Streams {
    side: Side,
    config: StreamsConfig,
    records: Records,
    /// What the peer allows on a stream from the start.
    initial: Initial,
    slab: Slab<Stream>,
    limits: StreamLimits,
    /// Who has something to send, and who is next.
    turns: Turns,
    /// Ends of streams that were written, as a count that begins anew at its end.
    ended: u32,
    /// Who wrote a symbol of the connection's own channel last.
    recent: StreamKey,
    /// What they hold to be sent.
    store: StreamBytes,
    /// Streams of messages whose next record is longer than what is left of the connection's credit.
    starving: Vec<StreamKey>,
    /// When messages become too late, by stream.
    deadlines: BTreeSet<(Time, StreamKey)>,
    /// Streams with bits in `control`.
    control: VecDeque<StreamKey>,
    /// Streams with bits in `events`.
    events: VecDeque<StreamKey>,
    /// Events about the connection, as bits of [`news`].
    news: u8,
    /// What reliability policies are told.
    tally: DemandTally,
    /// What the peer's frames took beyond what is usual.
    owed: OwedWork,
}

/// What of the configuration concerns streams.
#[derive(Clone, Copy, Debug)]
struct StreamsConfig {
    stream_window: u64,
    max_stream_window: u64,
    send_buffer: u64,
    /// We take RESET_STREAM_AT.
    reset_at: bool,
}

/// The peer's initial limits, by who opened the stream.
#[derive(Clone, Copy, Debug, Default)]
struct Initial {
    ours_bidi: u64,
    theirs_bidi: u64,
    ours_uni: u64,
    /// It takes RESET_STREAM_AT.
    reset_at: bool,
}

/// One stream, in both directions.
#[derive(Debug)]
struct Stream {
    id: StreamId,
    key: StreamKey,
    /// Its leaf in [`Turns`], if it sends, and what it has to send: bits of [`has`].
    class: Option<ClassId>,
    has: u8,
    /// The application knows of it.
    accepted: bool,
    /// The peer opened it, and it is known to carry bytes (FS-39).
    bytes: bool,
    /// What is new of it goes along with whatever leaves.
    piggyback: bool,
    /// It has a channel of its own, and this is what it has passed as one.
    own: Option<Box<PassedBoundaries>>,
    /// What it adds to the sums of its channel.
    share: DemandShare,
    /// It stands in `Streams::events`.
    listed: bool,
    /// It stands in `Streams::starving`.
    starving: bool,
    /// It waits for others to hold less, and this is what it holds itself.
    crowded: bool,
    held: u64,
    /// Its entry in `Streams::deadlines`.
    deadline: Option<Time>,
    /// What to tell the application, as bits of [`told`].
    events: u8,
    /// Frames that are due, as bits of [`owes`].
    control: u8,
    send: Option<SendHalf>,
    recv: Option<RecvHalf>,
}

impl Streams {
    /// No streams yet. Nothing may be opened or sent before [`set_peer`](Self::set_peer).
    pub(crate) fn new(side: Side, settings: &StreamSettings) -> Self {
        let (stream_window, _) = settings.first_windows();
        Self {
            side,
            config: StreamsConfig {
                stream_window,
                max_stream_window: settings.max_stream_window,
                // Nothing would ever be taken.
                send_buffer: settings.send_buffer.max(1),
                reset_at: settings.reset_stream_at,
            },
            records: Records::new(settings.max_record()),
            initial: Initial::default(),
            slab: Slab::new(),
            limits: StreamLimits::new(side, settings),
            turns: Turns::new(settings.max_classes),
            ended: 0,
            recent: StreamKey { index: u32::MAX, generation: 0 },
            store: StreamBytes::new(settings),
            starving: Vec::new(),
            deadlines: BTreeSet::new(),
            control: VecDeque::new(),
            events: VecDeque::new(),
            news: 0,
            tally: DemandTally::default(),
            owed: OwedWork::default(),
        }
    }

    /// Whether there were many streams, and are none.
    #[inline]
    pub(crate) fn is_swollen(&self) -> bool {
        self.slab.is_swollen()
    }

    /// Gives back what streams took that are gone.
    pub(crate) fn rest(&mut self) {
        self.slab.rest();
        self.control.shrink_to_fit();
        self.events.shrink_to_fit();
    }

    /// Writes our limits into what is announced to the peer.
    pub(crate) fn offer(settings: &StreamSettings, params: &mut TransportParams) {
        let (stream, connection) = settings.first_windows();
        params.initial_max_data = connection;
        params.initial_max_stream_data_bidi_local = stream;
        params.initial_max_stream_data_bidi_remote = stream;
        params.initial_max_stream_data_uni = stream;
        let streams = |most| Theirs::new(most, settings.max_fenced()).advertised();
        params.initial_max_streams_bidi = streams(settings.max_bidi_streams);
        params.initial_max_streams_uni = streams(settings.max_uni_streams);
        params.fenced_streams = settings.max_record();
        params.reset_stream_at = settings.reset_stream_at;
    }

    /// Takes the peer's limits. Behind [remembered ones](Self::set_early), it raises them.
    pub(crate) fn set_peer(&mut self, params: &TransportParams) {
        self.records.theirs = params.fenced_streams;
        if params.fenced_streams.is_none() {
            self.limits.without_fenced();
        }
        if self.records.end_care() {
            let (_, longest) = self.records.sending();
            let senders =
                self.slab.iter_mut().filter_map(|(_, stream)| stream.send.as_mut()?.messages.as_mut());
            senders.for_each(|sender| sender.set_max_record(longest));
        }
        self.set_limits(params);
    }

    fn set_limits(&mut self, params: &TransportParams) {
        self.initial = Initial {
            ours_bidi: params.initial_max_stream_data_bidi_remote,
            theirs_bidi: params.initial_max_stream_data_bidi_local,
            ours_uni: params.initial_max_stream_data_uni,
            reset_at: params.reset_stream_at,
        };
        self.raise_credit(params.initial_max_data);
        for (dir, max) in
            Dir::ALL.into_iter().zip([params.initial_max_streams_bidi, params.initial_max_streams_uni])
        {
            self.allow(dir, max);
        }
        let (side, initial) = (self.side, self.initial);
        let mut raised = Vec::new();
        for (key, stream) in self.slab.iter_mut() {
            if let Some(half) = &mut stream.send {
                half.raise(initial.of(side, stream.id));
                raised.push(key);
            }
        }
        for key in raised {
            self.refresh(key);
        }
    }

    /// Credit of the connection, and how many streams there may be.
    #[inline]
    pub(crate) fn limits(&self) -> &StreamLimits {
        &self.limits
    }

    /// The same, to change what the peer may have.
    pub(crate) fn limits_mut(&mut self) -> &mut StreamLimits {
        &mut self.limits
    }

    /// What there is to send.
    #[inline]
    pub(crate) fn want(&self) -> Want {
        if self.turns.is_owed() {
            Want::Lost
        } else if self.limits.has_due()
            || !self.control.is_empty()
            || (self.turns.is_fresh() && !self.limits.is_spent())
        {
            Want::Data
        } else {
            Want::None
        }
    }

    /// Verifies what must hold between calls.
    ///
    /// # Panics
    /// When it does not: a bug of ours.
    pub(crate) fn check(&self) {
        let (mut live, mut unread, mut bytes, mut held) = ([0, 0], 0, [0, 0], 0);
        for (key, stream) in self.slab.iter() {
            if stream.id.initiator() != self.side {
                live[stream.id.dir() as usize] += 1;
                bytes[stream.id.dir() as usize] += u64::from(stream.bytes);
            }
            assert!(
                stream.events == 0 || !stream.accepted || stream.listed,
                "an event that nobody will tell"
            );
            held += stream.held;
            if let Some(half) = &stream.send {
                half.check();
                assert_eq!(stream.held, half.queued(), "{stream:?}");
                let (owes, fresh) = stream.wants(u64::MAX);
                self.turns.check(key, stream.class.expect("who sends has its turns"), stream.has);
                assert_eq!(owes, stream.has & has::OWED != 0, "{stream:?}");
                let waits = stream.has & (has::FRESH | has::PIGGYBACK) != 0 || stream.starving;
                assert!(fresh == waits || (half.messages.is_some() && waits), "{stream:?}");
            }
            if let Some(half) = &stream.recv {
                unread += half.check();
            }
            assert!(!stream.is_done() || stream.events != 0, "a stream that is over keeps its slot");
        }
        assert_eq!(held, self.store.held(), "what is held to be sent is miscounted");
        self.limits.check(live, bytes, unread);
        if cfg!(test) {
            self.check_tally();
            let all = self.slab.iter().map(|(key, stream)| (Channel::Stream(key), stream.has));
            self.turns.check_sums(all);
        }
    }

    /// Streams that hold a slot.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    /// Makes the slot of a stream.
    fn create(&mut self, id: StreamId) -> StreamKey {
        let ours = id.initiator() == self.side;
        let bidi = id.dir() == Dir::Bi;
        let limit = self.initial.of(self.side, id);
        let window = ReceiveWindow::new(self.config.stream_window, self.config.max_stream_window);
        let (slab, turns) = (&mut self.slab, &mut self.turns);
        slab.insert(id, |key| Stream {
            id,
            key,
            class: (bidi || ours).then(|| turns.add(key)),
            has: 0,
            accepted: ours,
            bytes: false,
            piggyback: false,
            own: None,
            share: DemandShare::default(),
            listed: false,
            starving: false,
            crowded: false,
            held: 0,
            deadline: None,
            events: 0,
            control: 0,
            send: (bidi || ours).then(|| SendHalf::new(limit)),
            recv: (bidi || !ours).then(|| RecvHalf::new(window)),
        })
    }

    /// Raises the number of streams that the peer allows.
    fn allow(&mut self, dir: Dir, max: u64) {
        if self.limits.allow(dir, max) {
            self.news |= news::AVAILABLE << dir as u8;
        }
    }

    /// Notes what a stream has to send now.
    fn refresh(&mut self, key: StreamKey) {
        let Some(stream) = self.slab.get_mut(key) else { return };
        let credit = self.limits.free();
        let (owes, fresh) = stream.wants(credit);
        let Some(half) = &stream.send else { return };
        self.store.change(&mut stream.held, half.queued());
        let mut bits = if owes { share::OWED } else { 0 };
        if fresh {
            bits |= share::FRESH;
        } else {
            if half.messages.is_some() && stream.wants(u64::MAX).1 {
                bits |= share::STARVING;
                if !stream.starving {
                    stream.starving = true;
                    self.starving.push(key);
                }
            }
            if half.is_starved() {
                bits |= share::STARVED;
                if half.credit.is_unreported() {
                    stream.owe(owes::BLOCKED, &mut self.control);
                }
            }
        }
        let mut has = stream.has & has::REPAIR | bits & (has::OWED | has::FRESH);
        if fresh && stream.piggyback {
            has ^= has::FRESH | has::PIGGYBACK;
        }
        stream.change(has, &mut self.turns);
        if let Some(half) = &stream.send {
            let before = std::mem::replace(&mut stream.share, DemandShare::of(half, bits));
            if stream.share.differs(before) {
                self.tally.beat();
            }
            self.tally.press(before, stream.share);
            if stream.own.is_none() {
                self.tally.change(before, stream.share);
            }
        }
        if fresh {
            self.note_blocked();
        }
        self.look_for_room();
    }

    /// More may be sent on all streams together: MAX_DATA.
    fn raise_credit(&mut self, max: u64) {
        if self.limits.raise(max) {
            self.look_for_room();
            for key in std::mem::take(&mut self.starving) {
                if let Some(stream) = self.slab.get_mut(key) {
                    stream.starving = false;
                    self.refresh(key);
                }
            }
        }
    }

    /// Frees the slot of a stream that is over and of which all was told.
    fn settle(&mut self, key: StreamKey) {
        let Some(stream) = self.slab.get_mut(key) else { return };
        if stream.accepted && stream.send.as_mut().is_some_and(SendHalf::announces_reset) {
            stream.tell(told::RESET, &mut self.events);
        }
        if !stream.is_done() || stream.events != 0 {
            return;
        }
        let (id, bytes) = (stream.id, stream.bytes);
        self.store.change(&mut stream.held, 0);
        if let Some(class) = stream.class {
            self.turns.remove(key, class, stream.has);
        }
        if let Some(at) = stream.deadline {
            self.deadlines.remove(&(at, key));
        }
        self.tally.press(stream.share, DemandShare::default());
        if stream.own.is_none() {
            self.tally.change(stream.share, DemandShare::default());
        }
        self.tally.beat();
        self.slab.remove(id);
        if id.initiator() != self.side {
            self.limits.theirs(id.dir()).close(bytes);
            self.limits.note_closed(id.dir());
        }
    }
}

impl Stream {
    /// Tells the application, once it knows the stream.
    #[inline]
    fn tell(&mut self, event: u8, list: &mut VecDeque<StreamKey>) {
        self.events |= event;
        if self.accepted && !self.listed {
            self.listed = true;
            list.push_back(self.key);
        }
    }

    /// A frame about the stream is due.
    #[inline]
    fn owe(&mut self, frame: u8, list: &mut VecDeque<StreamKey>) {
        if self.control == 0 {
            list.push_back(self.key);
        }
        self.control |= frame;
    }

    /// Whether it has something to send that needs no credit of the connection, and something that may with
    /// `credit` bytes of it.
    #[inline]
    fn wants(&self, credit: u64) -> (bool, bool) {
        if self.want_messages(0).is_some() {
            let wants = |credit| self.want_messages(credit) > Some(Want::None);
            return (wants(0), wants(credit));
        }
        self.send.as_ref().map_or((false, false), |half| (half.owes(), half.sendable() > 0))
    }

    /// What it has to send becomes something else.
    #[inline]
    fn change(&mut self, after: u8, turns: &mut Turns) {
        let before = std::mem::replace(&mut self.has, after);
        if let Some(class) = self.class {
            turns.change(self.key, class, before, after);
        }
    }

    /// Both halves are through. The application has to have accepted the stream, or it would never learn.
    fn is_done(&self) -> bool {
        self.accepted
            && self.send.as_ref().is_none_or(SendHalf::is_done)
            && self.recv.as_ref().is_none_or(RecvHalf::is_done)
    }
}

impl Initial {
    fn of(&self, side: Side, id: StreamId) -> u64 {
        match (id.dir(), id.initiator() == side) {
            (Dir::Bi, true) => self.ours_bidi,
            (Dir::Bi, false) => self.theirs_bidi,
            (Dir::Uni, true) => self.ours_uni,
            (Dir::Uni, false) => 0,
        }
    }
}

/// The longest prefix of a record, in bytes.
const RECORD_PREFIX: u64 = 8;

/// Events of a stream, told in this order.
mod told {
    pub(super) const READABLE: u8 = 1;
    pub(super) const WRITABLE: u8 = 2;
    pub(super) const STOPPED: u8 = 4;
    pub(super) const MESSAGE: u8 = 8;
    pub(super) const OUTCOME: u8 = 16;
    pub(super) const FINISHED: u8 = 32;
    pub(super) const RESET: u8 = 64;
}

/// Events of the connection; shifted left by the direction.
mod news {
    pub(super) const OPENED: u8 = 1;
    pub(super) const AVAILABLE: u8 = 4;
}

/// Frames about a stream.
mod owes {
    pub(super) const RESET: u8 = 1;
    pub(super) const STOP: u8 = 2;
    pub(super) const MAX_DATA: u8 = 4;
    pub(super) const BLOCKED: u8 = 8;
}
