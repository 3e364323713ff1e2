//! Whatever applications and a channel do, in whatever order: in the end both rooms are at rest, and nothing
//! is left in them.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use proptest::prelude::*;
use quickset_base::Rng;
use quickset_sched::Priority;
use quickset_wire::{Dir, Side, StreamId, TransportParams};

use super::*;
use crate::packet::{Channel, Want};
use crate::streams::{Chunk, Class, ClassError, Outcome, Piece, ReadError, Ticket};

/// What the application of one side knows of a stream.
#[derive(Clone, Debug, Default)]
struct Known {
    messages: bool,
    unordered: bool,
    sends: bool,
    reads: bool,
    tickets: Vec<Ticket>,
    /// What became of those sent.
    outcomes: BTreeMap<Ticket, Outcome>,
    /// Those that say which they are.
    long: BTreeSet<Ticket>,
    /// The messages that were read, by what names them.
    got: BTreeSet<u64>,
    /// All was read to the end.
    finished: bool,
}

struct World {
    rng: Rng,
    loss: f64,
    now: Time,
    rooms: [Streams; 2],
    known: [BTreeMap<StreamId, Known>; 2],
    /// Streams that carry messages, as the application protocol has it.
    letters: BTreeSet<StreamId>,
    flight: [Vec<Packet>; 2],
    datagrams: [u64; 2],
    /// What the client's peer says, where it is not known yet.
    unknown: Option<TransportParams>,
    /// Its peer takes early data.
    is_taken: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let fenced = [rng.chance(0.8), rng.chance(0.8)];
        let reset_at = rng.chance(0.8);
        let configs = fenced.map(|fenced| TransportConfig {
            max_bidi_streams: 1 + rng.below(5),
            max_uni_streams: 1 + rng.below(5),
            fenced_streams: fenced.then_some(2000),
            stream_window: 3000,
            max_stream_window: 3000 + rng.below(9000),
            max_connection_window: 4000 + rng.below(20_000),
            send_buffer: 500 + rng.below(10_000),
            max_classes: 1 + rng.below(6) as usize,
            reset_stream_at: reset_at,
            ..TransportConfig::fixed_mtu(1200)
        });
        let mut rooms =
            [Side::Client, Side::Server].map(|side| Streams::new(side, &(&configs[side as usize]).into()));
        rooms[1].set_peer(&announce(&configs[0]));
        let params = announce(&configs[1]);
        let (is_early, is_taken) = (rng.chance(0.3), rng.chance(0.3));
        if is_early {
            let mut before = configs[1].clone();
            if !is_taken {
                before.stream_window = 1000 + rng.below(9000);
                before.max_connection_window = 1000 + rng.below(20_000);
            }
            rooms[0].set_early(&TransportParams { fenced_streams: None, ..announce(&before) });
        } else {
            rooms[0].set_peer(&params);
        }
        Self {
            loss: rng.unit() * 0.4,
            rng,
            now: Time::from_millis(1000),
            rooms,
            known: Default::default(),
            letters: BTreeSet::new(),
            flight: Default::default(),
            datagrams: [0; 2],
            unknown: is_early.then_some(params),
            is_taken,
        }
    }

    fn learn(&mut self, side: usize, id: StreamId) {
        let ours = id.initiator() as usize == side;
        let messages = self.letters.contains(&id);
        let unordered = !messages && self.rng.chance(0.2);
        let both = id.dir() == Dir::Bi;
        let mut known =
            Known { messages, unordered, sends: both || ours, reads: both || !ours, ..Known::default() };
        if messages {
            let done = self.rooms[side].messages(id).begin();
            assert!(done.is_ok(), "{id:?} {:?}", self.rooms[side].slab.by_id_mut(id));
        }
        if unordered && known.reads {
            known.unordered = self.rooms[side].receiving(id).as_unordered().is_ok();
        }
        self.known[side].insert(id, known);
    }

    fn accept(&mut self, side: usize) {
        for dir in Dir::ALL {
            while let Some(id) = self.rooms[side].accept(dir) {
                self.learn(side, id);
            }
        }
    }

    fn some_stream(&mut self, side: usize) -> Option<StreamId> {
        let n = self.known[side].len() as u64;
        let at = self.rng.below(n.max(1)) as usize;
        self.known[side].keys().nth(at).copied()
    }

    fn priority(&mut self) -> Priority {
        let priority = Priority::weighted(0.5 + self.rng.unit() * 4.0).urgency(self.rng.below(8) as u8);
        Priority { incremental: self.rng.chance(0.5), critical: self.rng.chance(0.1), ..priority }
    }

    fn path(&mut self) -> Vec<Class> {
        let names = ["a", "b", "c"];
        (0..self.rng.below(4))
            .map(|_| Class {
                name: names[self.rng.below(3) as usize].to_owned(),
                priority: Priority::weighted(1.0).urgency(self.rng.below(8) as u8),
            })
            .collect()
    }

    /// Something that an application may do.
    fn act(&mut self, side: usize) {
        match self.rng.below(34) {
            0..=2 => {
                let dir = Dir::ALL[self.rng.below(2) as usize];
                if let Some(id) = self.rooms[side].open(dir) {
                    if self.rng.chance(0.6) {
                        self.letters.insert(id);
                    }
                    self.learn(side, id);
                }
            }
            3 => self.accept(side),
            4 => self.rooms[side]
                .limits_mut()
                .set_max_streams(Dir::ALL[self.rng.below(2) as usize], self.rng.below(6)),
            // With 0 bytes nothing would end.
            5 => self.rooms[side].limits_mut().set_window(1 + self.rng.below(20_000)),
            6 => {
                let priority = self.priority();
                self.rooms[side].datagrams().set_priority(priority);
            }
            7 => {
                let path = self.path();
                let _ = self.rooms[side].datagrams().set_class(&path);
            }
            8 => {
                let path = self.path();
                let names: Vec<_> = path.iter().map(|class| &class.name[..]).collect();
                let priority = Priority { critical: false, ..self.priority() };
                let _ = self.rooms[side].set_class_priority(&names, priority);
            }
            9 => {
                self.datagrams[side] += self.rng.below(4);
                self.rooms[side].datagrams().set_waiting(self.datagrams[side] > 0);
            }
            10 => {
                let due = self.rng.chance(0.5);
                let channel = match self.some_stream(side) {
                    Some(id) if self.rng.chance(0.5) => self.rooms[side].slab.key(id).map(Channel::Stream),
                    _ if self.rng.chance(0.5) => Some(Channel::Datagrams),
                    _ => Some(Channel::Connection),
                };
                // Channels of streams are those of their own.
                let is = |channel: &Channel| match channel {
                    Channel::Stream(key) => self.rooms[side]
                        .slab
                        .get(*key)
                        .is_some_and(|stream| stream.own.is_some() && stream.class.is_some()),
                    _ => true,
                };
                if let Some(channel) = channel.filter(is) {
                    self.rooms[side].repair().set_due(channel, due);
                }
            }
            _ => {
                if let Some(id) = self.some_stream(side) {
                    self.act_on(side, id);
                }
            }
        }
    }

    fn act_on(&mut self, side: usize, id: StreamId) {
        let now = self.now;
        let room = &mut self.rooms[side];
        match self.rng.below(40) {
            0..=9 => self.send(side, id),
            10..=19 => self.steer(side, id),
            20 => drop(room.sending(id).flush(now)),
            21 => drop(room.sending(id).finish()),
            22 => drop(room.sending(id).reset(7)),
            23 => drop(room.sending(id).reset_at(7, self.rng.below(4000))),
            24 => {
                if let Some(ticket) = self.some_ticket(side, id) {
                    let _ = self.rooms[side].sending(id).reset_behind(7, ticket);
                }
            }
            25 => drop(room.receiving(id).stop(8)),
            26..=29 => self.read(side, id),
            30..=31 => {
                let priority = self.priority();
                let _ = self.rooms[side].sending(id).set_priority(priority);
            }
            32..=33 => {
                let path = self.path();
                let _ = self.rooms[side].sending(id).set_class(&path);
            }
            34..=35 => {
                let own = self.rng.chance(0.5);
                if let Some(channel) = room.sending(id).own_channel(own).ok().filter(|_| !own) {
                    // As the conductor does when it lets a channel go.
                    room.repair().set_due(channel, false);
                }
            }
            _ => drop(self.hear(side, id)),
        }
    }

    /// What became of a message: told once for each, and nobody has what was dropped.
    fn hear(&mut self, side: usize, id: StreamId) -> Option<Outcome> {
        let (ticket, outcome) = self.rooms[side].messages(id).next_outcome()?;
        let known = self.known[side].get_mut(&id).expect("it is known");
        assert!(known.tickets.contains(&ticket), "{id:?} {ticket:?}");
        assert_eq!(known.outcomes.insert(ticket, outcome), None, "{id:?} {ticket:?}");
        if let Some(stats) = self.rooms[side].of(id).message_stats() {
            let settled = stats.on_time + stats.late + stats.dropped + stats.abandoned;
            let told = known.outcomes.values();
            let dropped = told.clone().filter(|outcome| **outcome == Outcome::Dropped).count() as u64;
            assert_eq!(stats.queued, known.tickets.len() as u64);
            assert!(settled >= told.len() as u64 && settled <= stats.queued, "{stats:?}");
            assert!(stats.dropped >= dropped && stats.recovered <= stats.on_time + stats.late, "{stats:?}");
            assert!(
                stats.sent >= settled - stats.dropped && stats.sent <= stats.queued - stats.dropped,
                "{stats:?}"
            );
        }
        Some(outcome)
    }

    fn send(&mut self, side: usize, id: StreamId) {
        let (now, room) = (self.now, &mut self.rooms[side]);
        let known = self.known[side].get_mut(&id).expect("it is known");
        if !known.messages {
            let _ = room.sending(id).write(&mut Bytes::from(vec![7; self.rng.below(3000) as usize]));
            return;
        }
        let deadline = match self.rng.below(7) {
            0 => Some(Time::from_millis(1)),
            1 => Some(now),
            2..=3 => Some(now + Duration::from_millis(self.rng.below(300))),
            4 => Some(now + Duration::from_secs(100)),
            5 => Some(Time::MAX),
            _ => None,
        };
        let most = if self.rng.chance(0.3) { 1900 } else { 60 };
        // Messages of some length say which they are.
        let mut message = vec![7; self.rng.below(most) as usize];
        if let Some(name) = message.first_chunk_mut::<8>() {
            *name = (known.tickets.len() as u64).to_be_bytes();
        }
        let is_long = message.len() >= 8;
        if let Ok(ticket) = room.messages(id).send(message.into(), deadline) {
            known.tickets.push(ticket);
            known.long.extend(is_long.then_some(ticket));
        }
    }

    /// What is said of messages.
    fn steer(&mut self, side: usize, id: StreamId) {
        let (now, yes) = (self.now, self.rng.chance(0.5));
        let room = &mut self.rooms[side];
        match self.rng.below(11) {
            0..=2 => drop(room.messages(id).fence(now)),
            3 => drop(room.messages(id).set_ordered(yes)),
            4 => drop(room.messages(id).set_resend(yes)),
            5 => drop(room.messages(id).set_even(yes)),
            6 => drop(room.messages(id).set_first_come(yes)),
            7 => drop(room.messages(id).announce()),
            8 => {
                let at = now + Duration::from_millis(self.rng.below(100));
                let _ = room.messages(id).expect(yes.then_some(at));
            }
            _ => {
                if let Some(ticket) = self.some_ticket(side, id) {
                    self.rooms[side].messages(id).supersede(ticket, now);
                }
            }
        }
    }

    fn some_ticket(&mut self, side: usize, id: StreamId) -> Option<Ticket> {
        let tickets = &self.known[side][&id].tickets;
        tickets.get(self.rng.below(tickets.len().max(1) as u64) as usize).copied()
    }

    /// Reads until there is nothing.
    fn read(&mut self, side: usize, id: StreamId) {
        let known = self.known[side].get_mut(&id).expect("it is known");
        if known.reads {
            while Self::read_one(&mut self.rooms[side], id, known) {}
        }
    }

    fn read_one(room: &mut Streams, id: StreamId, known: &mut Known) -> bool {
        if known.unordered {
            return matches!(room.receiving(id).read_unordered(1500), Ok(Piece::Data { .. }));
        }
        if !known.messages {
            return matches!(room.receiving(id).read(1500), Ok(Chunk::Data(_)));
        }
        match room.messages(id).next() {
            Ok(next) => {
                if let Some(name) = next.as_ref().and_then(|next| next.payload.first_chunk::<8>()) {
                    assert!(known.got.insert(u64::from_be_bytes(*name)), "{id:?}: read twice");
                }
                next.is_some()
            }
            Err(error) => {
                known.finished |= error == ReadError::Finished;
                if error == ReadError::TooLong {
                    let _ = room.receiving(id).stop(9);
                }
                false
            }
        }
    }

    fn collect(&mut self, side: usize) {
        drain_events(&mut self.rooms[side]);
        for id in self.known[side].keys().copied().collect::<Vec<_>>() {
            while self.hear(side, id).is_some() {}
        }
        drain_events(&mut self.rooms[side]);
    }

    /// Packets leave, and those in flight arrive or are lost. True when anything moved.
    fn network(&mut self, from: usize, most: u64) -> bool {
        let mut moved = false;
        for _ in 0..most.max(1) {
            let room = &mut self.rooms[from];
            let size = if self.rng.chance(0.3) { 80 + self.rng.below(1120) } else { 1200 };
            // Data that is protected goes by channels.
            let channel = room.next_channel().map(|turn| turn.channel).filter(|_| self.rng.chance(0.5));
            if let Some(sent) = packet_of(room, size as usize, self.now, channel) {
                moved = true;
                self.flight[from].push(sent);
            }
            // Who is no stream has its turn, too.
            if room.datagrams().is_next() {
                self.datagrams[from] -= 1;
                room.datagrams().sent(100);
                room.datagrams().set_waiting(self.datagrams[from] > 0);
                moved = true;
            } else if let Some(turn) = room.next_channel().filter(|turn| room.is_repair_due(turn.channel)) {
                room.repair().sent(turn.key, 500);
                room.repair().set_due(turn.channel, false);
                moved = true;
            }
        }
        for _ in 0..self.flight[from].len().min(most as usize) {
            moved = true;
            let at = self.rng.below(self.flight[from].len() as u64) as usize;
            let sent = self.flight[from].swap_remove(at);
            let lost = self.rng.chance(self.loss);
            if !lost || self.rng.chance(0.2) {
                receive(&mut self.rooms[1 - from], &sent.payload, self.now).unwrap();
            }
            for token in sent.tokens {
                match lost {
                    true => self.rooms[from].lost(token, self.now),
                    false if self.rng.chance(0.1) => self.rooms[from].recovered(token, self.now),
                    false => self.rooms[from].acked(token, self.now),
                }
            }
            self.rooms.iter().for_each(Streams::check);
        }
        moved
    }

    fn on_time(&mut self, most: u64) {
        self.now += Duration::from_millis(self.rng.below(most));
        for room in &mut self.rooms {
            let idle = self.rng.chance(0.3);
            let one_way = Duration::from_millis(if idle { 0 } else { 50 });
            room.on_time(&RoomView { one_way, ..view(self.now) });
            assert!(room.deadline().is_none_or(|(at, _)| at > self.now));
            room.check();
        }
    }

    /// Early data that the server does not take, or takes. False when the client cannot go on.
    fn begin_early(&mut self) -> bool {
        let Some(params) = self.unknown.take() else { return true };
        for _ in 0..self.rng.below(80) {
            self.act(0);
            self.rooms[0].check();
            if self.rng.chance(0.3) {
                self.network(0, 0);
            }
        }
        if self.is_taken {
            self.rooms[0].set_peer(&params);
        } else {
            let (sent, room) = (std::mem::take(&mut self.flight[0]), &mut self.rooms[0]);
            sent.iter().flat_map(|sent| &sent.tokens).for_each(|token| room.lost(*token, self.now));
            room.rewind();
            room.check();
            room.set_peer(&params);
            if room.limits().has_too_many() {
                return false;
            }
            if self.rng.chance(0.3) {
                room.reset_all(9);
            }
        }
        self.rooms[0].check();
        true
    }

    fn run(&mut self) {
        if !self.begin_early() {
            return;
        }
        for _ in 0..100 + self.rng.below(500) {
            let side = self.rng.below(2) as usize;
            self.act(side);
            self.rooms[side].check();
            if self.rng.chance(0.3) {
                self.on_time(30);
            }
            if self.rng.chance(0.3) {
                let most = self.rng.below(4);
                self.network(side, most);
            }
            if self.rng.chance(0.2) {
                self.collect(side);
            }
        }
        self.end();
    }

    /// Everything is brought to its end.
    fn end(&mut self) {
        let mut quiet = 0;
        self.loss = 0.1;
        for round in 0..5000 {
            let mut moved = false;
            for side in 0..2 {
                self.accept(side);
                for id in self.known[side].keys().copied().collect::<Vec<_>>() {
                    if round == 0 && self.known[side][&id].sends {
                        let _ = self.rooms[side].sending(id).finish();
                    }
                    self.read(side, id);
                }
                // Those that came late.
                if round > 0 {
                    for id in self.known[side].keys() {
                        let _ = self.rooms[side].sending(*id).finish();
                    }
                }
                self.collect(side);
                moved |= self.network(side, 5);
                self.rooms[side].check();
            }
            quiet =
                if moved || self.flight.iter().any(|packets| !packets.is_empty()) { 0 } else { quiet + 1 };
            if quiet == 4 {
                return self.verify();
            }
            self.on_time(20);
        }
        panic!("it never ends: {:?}", self.rooms);
    }

    fn verify(&mut self) {
        self.verify_messages();
        for side in 0..2 {
            let received = self.rooms[1 - side].limits().received();
            let room = &mut self.rooms[side];
            assert_eq!(room.len(), 0, "slots leak: {room:?}");
            assert_eq!(room.limits().sent(), received, "both sides count alike");
            assert_eq!(room.limits().received(), room.limits().consumed(), "credit leaks");
            assert_eq!(room.want(), Want::None);
            assert!(room.deadlines.is_empty() && room.control.is_empty() && room.events.is_empty());
            room.datagrams().set_class(&[]).unwrap();
            for name in ["a", "b", "c"] {
                let class = room.set_class_priority(&[name], Priority::weighted(1.0));
                assert_eq!(class, Err(ClassError::UnknownClass), "classes leak");
            }
        }
    }
}

impl World {
    /// FS-56: each message has an outcome, and none that what the peer has would contradict.
    fn verify_messages(&self) {
        for (side, id, known) in
            (0..2).flat_map(|side| self.known[side].iter().map(move |(id, known)| (side, id, known)))
        {
            assert_eq!(known.outcomes.len(), known.tickets.len(), "{id:?} {known:?}");
            let Some(peer) = self.known[1 - side].get(id).filter(|peer| peer.reads && peer.messages) else {
                continue;
            };
            for (name, ticket) in known.tickets.iter().enumerate() {
                let (outcome, got) = (known.outcomes[ticket], peer.got.contains(&(name as u64)));
                assert!(!got || outcome != Outcome::Dropped, "{id:?} {ticket:?} was dropped, and read");
                let lacks = !got && outcome.is_delivered() && known.long.contains(ticket);
                assert!(!lacks || !peer.finished, "{id:?} {ticket:?} was delivered, and not read");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn everything_ends_and_nothing_is_left(seed: u64) {
        World::new(seed).run();
    }
}
