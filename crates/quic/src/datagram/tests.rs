use std::collections::VecDeque;

use proptest::prelude::*;
use quickset_base::Duration;
use quickset_wire as wire;
use quickset_wire::frame::{Frame, Frames};

use super::*;

fn room(config: &DatagramConfig, peer: u64) -> DatagramQueues {
    let mut room = DatagramQueues::new(config);
    room.set_peer(&TransportParams { max_datagram_frame_size: peer, ..TransportParams::default() });
    room
}

fn write(
    room: &mut DatagramQueues,
    now: Time,
    size: usize,
    packet: usize,
) -> (Wrote, Vec<Vec<u8>>, Vec<FrameToken>) {
    let (mut buffer, mut tokens) = (vec![0; size], Vec::new());
    let mut w = PacketWriter::new(wire::Writer::new(&mut buffer), &mut tokens);
    let wrote = room.write(&mut w, now, packet);
    let len = w.len();
    let data = Frames::new(&buffer[..len]).map(|frame| match frame.expect("a good frame") {
        Frame::Datagram { len: true, data } => data.to_vec(),
        other => panic!("{other:?}"),
    });
    (wrote, data.collect(), tokens)
}

fn push(room: &mut DatagramQueues, len: usize, how: &DatagramOptions) -> Result<DatagramTicket, Unsent> {
    room.push(Bytes::from(vec![7; len]), how, Time::ZERO, 1200)
}

#[test]
fn the_longest_datagram_is_what_its_frame_leaves() {
    // RFC 9221 §4: a type of one byte and a length as short as it can be; found by trying all.
    let by_trial = |size: usize| (0..=size).rev().find(|n| 1 + varint::size(*n as u64) + n <= size);
    for size in (0..300).chain(16_300..16_500) {
        assert_eq!(payload(size), by_trial(size), "a frame of {size} bytes");
    }
}

#[test]
fn frames_that_were_not_offered_end_the_connection() {
    // RFC 9221 §3.
    let take = |max: u64, has_len: bool, len: usize| {
        let mut room = room(&DatagramConfig { max_frame_size: max, ..DatagramConfig::default() }, 0);
        let payload = Bytes::from(vec![0; len]);
        room.on_frame(&payload, has_len, &payload).map_err(|e| e.code)
    };
    assert_eq!(take(0, false, 0), Err(Code::PROTOCOL_VIOLATION), "not even an empty one");
    assert_eq!(take(1, false, 0), Ok(()));
    assert_eq!(take(1, true, 0), Err(Code::PROTOCOL_VIOLATION));
    // The type and the length count: 1 + 2 + 97.
    assert_eq!((take(100, true, 97), take(100, true, 98)), (Ok(()), Err(Code::PROTOCOL_VIOLATION)));
    assert_eq!((take(100, false, 99), take(100, false, 100)), (Ok(()), Err(Code::PROTOCOL_VIOLATION)));
    // A peer that offers nothing is sent nothing.
    let how = DatagramOptions::default();
    let mut none = room(&DatagramConfig::default(), 0);
    assert_eq!(push(&mut none, 0, &how).map_err(|e| e.why), Err(DatagramError::Unsupported));
    let mut small = room(&DatagramConfig::default(), 100);
    assert_eq!(push(&mut small, 98, &how).map_err(|e| e.why), Err(DatagramError::TooLong { max: 97 }));
    assert!(push(&mut small, 97, &how).is_ok());
}

#[test]
fn a_datagram_that_does_not_fit_any_more_is_dropped_and_reported() {
    let mut room = room(&DatagramConfig::default(), 65_535);
    let how = DatagramOptions { report: true, ..DatagramOptions::default() };
    let long = push(&mut room, 1100, &how).unwrap();
    push(&mut room, 900, &how).unwrap();
    // No room in this packet: it waits. No room in any packet: it is gone.
    assert_eq!(write(&mut room, Time::ZERO, 1000, 1200).0, Wrote::NoRoom);
    let (wrote, data, tokens) = write(&mut room, Time::ZERO, 1000, 1000);
    assert_eq!((wrote, data[0].len(), tokens.len()), (Wrote::Frame(903), 900, 1));
    assert_eq!(room.next_event(), Some(DatagramEvent::Outcome));
    assert_eq!(room.next_outcome(), Some((long, DatagramOutcome::TooLong)));
    assert_eq!(room.next_outcome(), None);
    assert_eq!(room.stats().too_long, 1);
}

#[test]
fn boundaries_are_passed_when_all_before_them_has_left() {
    let mut room = room(&DatagramConfig::default(), 65_535);
    let how = DatagramOptions::default();
    let at = |ms| Time::from_millis(ms);
    push(&mut room, 10, &how).unwrap();
    push(&mut room, 10, &DatagramOptions { deadline: Some(at(5)), ..how }).unwrap();
    room.flush();
    room.flush();
    push(&mut room, 10, &how).unwrap();
    write(&mut room, at(1), 1200, 1200);
    assert_eq!(room.demand().boundaries, 0);
    // The second of the two is given up: what is left of the group was sent.
    room.on_time(at(5));
    assert_eq!((room.demand().boundaries, room.demand().boundary), (1, Some((Boundary::Fence, at(5)))));
    assert!(!room.demand().limited);
    write(&mut room, at(6), 1200, 1200);
    room.flush();
    assert_eq!((room.demand().boundaries, room.demand().limited), (1, true));
}

#[test]
fn of_many_at_once_those_are_taken_that_there_is_room_for() {
    let mut room = room(&DatagramConfig { send_count: 3, ..DatagramConfig::default() }, 65_535);
    let how = DatagramOptions { report: true, ..DatagramOptions::default() };
    let all = [10, 20, 2000, 30, 40, 50].map(|len| Bytes::from(vec![7; len]));
    let mut data = VecDeque::from(all.clone());
    // RFC 9221 §5: never fragmented; 1200 bytes are a type, a length of two, and 1197.
    let too_long = room.push_all(&mut data, &how, Time::ZERO, 1200);
    assert_eq!(
        (too_long, data.make_contiguous()),
        (Err(DatagramError::TooLong { max: 1197 }), &mut all.clone()[2..])
    );
    data.pop_front();
    assert_eq!(room.push_all(&mut data, &how, Time::ZERO, 1200), Err(DatagramError::Full));
    assert_eq!((data.make_contiguous(), room.stats().unsent), (&mut all.clone()[4..], 3));
    for len in [10, 20, 30] {
        assert_eq!(write(&mut room, Time::ZERO, 1200, 1200).1[0].len(), len);
    }
    assert_eq!(room.next_event(), Some(DatagramEvent::Writable));
    assert_eq!(room.push_all(&mut data, &how, Time::ZERO, 1200), Ok(()));
    assert_eq!((data.len(), room.stats().unsent, room.stats().sent), (0, 2, 3));
    // Whatever was asked, nobody is to collect outcomes of those that have no names.
    room.acked(0, false);
    assert_eq!((room.next_event(), room.next_outcome()), (None, None));
}

proptest! {
    /// What comes, in packets with others or alone, is what is read, in whatever portions, but for the oldest
    /// of too many.
    #[test]
    fn what_is_read_is_the_newest_of_what_came(
        steps in prop::collection::vec((1usize..40, 0usize..1300, 0usize..6), 1..40),
    ) {
        let config = DatagramConfig { receive_bytes: 8000, receive_count: 20, ..DatagramConfig::default() };
        let (mut room, mut model, mut dropped, mut number) = (room(&config, 0), VecDeque::new(), 0, 0u8);
        for (n, most, reads) in steps {
            let lengths = (0..n).map(|i| if most % 3 == 0 { most / n + 1 } else { (most + i * 7) % 600 });
            let mut parts: Vec<Vec<u8>> = Vec::new();
            for len in lengths {
                number = number.wrapping_add(1);
                parts.push(vec![number; len]);
            }
            let payload = Bytes::from(parts.concat());
            let mut at = 0;
            for part in parts {
                room.on_frame(&payload[at..at + part.len()], true, &payload).expect("as was offered");
                at += part.len();
                model.push_back(part);
                while model.len() > 20 || model.iter().map(Vec::len).sum::<usize>() > 8000 {
                    model.pop_front();
                    dropped += 1;
                }
            }
            room.check();
            let mut got = Vec::new();
            for read in 0..reads {
                if read % 2 == 0 { got.extend(room.pop()); } else { room.pop_all(read * 3, &mut got); }
            }
            for one in got {
                prop_assert_eq!(model.pop_front().expect("it came"), one);
            }
            room.check();
            let stats = room.stats();
            prop_assert_eq!((stats.dropped, stats.unread), (dropped, model.len() as u64));
        }
    }
}

/// The copies of small ones that are kept do not keep each other: less than a block with each.
#[test]
fn one_small_datagram_keeps_little_of_the_others() {
    let mut room = room(&DatagramConfig::default(), 0);
    let payload = Bytes::from(vec![7; 1100]);
    let mut kept: Vec<Bytes> = Vec::new();
    for _ in 0..100 {
        for part in payload.chunks(100) {
            room.on_frame(part, true, &payload).expect("as was offered");
        }
    }
    room.pop_all(usize::MAX, &mut kept);
    // Neighbours lie one behind the other, in blocks of 2048 bytes: as many of 100 fit one.
    let begins = |one: &Bytes| one.as_ptr() as usize;
    let (mut runs, mut longest) = (vec![1], 0);
    for pair in kept.windows(2) {
        if begins(&pair[0]) + 100 == begins(&pair[1]) {
            *runs.last_mut().expect("there is one") += 1;
        } else {
            runs.push(1);
        }
    }
    longest = runs.iter().copied().max().unwrap_or(longest);
    assert_eq!(runs.iter().sum::<usize>(), 1100);
    assert!(runs.len() <= 1100 / 20 + 2, "{} allocations", runs.len());
    assert!(longest <= 2 * 20, "{longest} in a row");
}

/// What an application and a connection do.
#[derive(Clone, Debug)]
enum Step {
    Push {
        len: usize,
        wait_ms: Option<u64>,
        drop_oldest: bool,
        report: bool,
    },
    Write {
        size: usize,
        packet: usize,
    },
    Pass(u64),
    /// What became of a datagram in flight.
    Settle(prop::sample::Index, u8),
    Outcome,
    Event,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0usize..400, prop::option::of(0u64..20), any::<bool>(), any::<bool>())
            .prop_map(|(len, wait_ms, drop_oldest, report)| Step::Push { len, wait_ms, drop_oldest, report }),
        5 => (0usize..500, prop_oneof![4 => Just(500usize), 1 => 100usize..500])
            .prop_map(|(size, packet)| Step::Write { size: size.min(packet), packet }),
        1 => (0u64..8).prop_map(Step::Pass),
        3 => (any::<prop::sample::Index>(), 0u8..3).prop_map(|(at, fate)| Step::Settle(at, fate)),
        1 => Just(Step::Outcome),
        1 => Just(Step::Event),
    ]
}

/// The queue as a list, without a thought for cost.
#[derive(Default)]
struct Model {
    queue: VecDeque<(u64, usize, Option<Time>, bool)>,
    pushed: u64,
    outcomes: VecDeque<(u64, DatagramOutcome)>,
    flight: Vec<(u64, bool)>,
    refused: bool,
}

const BYTES: usize = 1000;
const COUNT: usize = 6;

impl Model {
    fn drop_if(&mut self, why: DatagramOutcome, gone: impl Fn(&(u64, usize, Option<Time>, bool)) -> bool) {
        for one in self.queue.iter().filter(|one| gone(one) && one.3) {
            self.outcomes.push_back((one.0, why));
        }
        self.queue.retain(|one| !gone(one));
    }

    fn is_full_for(&self, len: usize) -> bool {
        let bytes: usize = self.queue.iter().map(|one| one.1).sum();
        !self.queue.is_empty() && (self.queue.len() == COUNT || bytes + len > BYTES)
    }
}

proptest! {
    #[test]
    fn the_queue_agrees_with_a_list(steps in prop::collection::vec(step(), 1..150)) {
        let config = DatagramConfig { send_bytes: BYTES, send_count: COUNT, ..DatagramConfig::default() };
        let (mut room, mut model) = (room(&config, 65_535), Model::default());
        let mut now = Time::ZERO;
        let mut writable = false;
        for step in steps {
            match step {
                Step::Push { len, wait_ms, drop_oldest, report } => {
                    let deadline = wait_ms.map(|ms| now + Duration::from_millis(ms));
                    let when_full = if drop_oldest { WhenFull::DropOldest } else { WhenFull::Refuse };
                    let number = model.pushed;
                    let data = Bytes::from([&number.to_be_bytes()[..], &vec![0; len]].concat());
                    let len = data.len();
                    let pushed = room.push(data.clone(), &DatagramOptions { deadline, when_full, report }, now, 500);
                    if model.is_full_for(len) && !drop_oldest {
                        prop_assert_eq!(pushed, Err(Unsent { why: DatagramError::Full, data }));
                        model.refused = true;
                    } else {
                        prop_assert_eq!(pushed, Ok(DatagramTicket(number)));
                        while model.is_full_for(len) {
                            let oldest = model.queue[0].0;
                            model.drop_if(DatagramOutcome::Displaced, |one| one.0 == oldest);
                        }
                        model.queue.push_back((number, len, deadline, report));
                        model.pushed += 1;
                    }
                }
                Step::Write { size, packet } => {
                    let (wrote, data, tokens) = write(&mut room, now, size, packet);
                    while model.queue.front().is_some_and(|one| 1 + varint::size(one.1 as u64) + one.1 > packet) {
                        let first = model.queue[0].0;
                        model.drop_if(DatagramOutcome::TooLong, |one| one.0 == first);
                    }
                    match model.queue.front().copied() {
                        None => prop_assert_eq!(wrote, Wrote::Nothing),
                        Some((number, len, _, reported)) => {
                            let frame = 1 + varint::size(len as u64) + len;
                            if frame > size {
                                prop_assert_eq!(wrote, Wrote::NoRoom);
                            } else {
                                prop_assert_eq!(wrote, Wrote::Frame(frame));
                                prop_assert_eq!((&data[0][..8], data[0].len()), (&number.to_be_bytes()[..], len));
                                prop_assert_eq!(tokens, [FrameToken::Datagram { number, reported }]);
                                model.queue.pop_front();
                                model.flight.push((number, reported));
                            }
                        }
                    }
                }
                Step::Pass(ms) => {
                    now += Duration::from_millis(ms);
                    let due = room.deadline().map(|(at, _)| at);
                    let soonest = model.queue.iter().filter_map(|one| one.2).min();
                    prop_assert!(soonest.is_none() || due <= soonest, "late for {:?}: {:?}", soonest, due);
                    room.on_time(now);
                    model.drop_if(DatagramOutcome::Expired, |one| one.2.is_some_and(|at| at <= now));
                }
                Step::Settle(at, fate) => if !model.flight.is_empty() {
                    let (number, reported) = model.flight.remove(at.index(model.flight.len()));
                    let fate = match fate {
                        0 => { room.acked(number, reported); DatagramOutcome::Acknowledged }
                        1 => { room.lost(number, reported); DatagramOutcome::Lost }
                        _ => { room.recovered(number, reported); DatagramOutcome::Recovered }
                    };
                    if reported {
                        model.outcomes.push_back((number, fate));
                    }
                }
                Step::Outcome => {
                    let told = room.next_outcome().map(|(ticket, outcome)| (ticket.0, outcome));
                    prop_assert_eq!(told, model.outcomes.pop_front());
                }
                Step::Event => match room.next_event() {
                    Some(DatagramEvent::Writable) => writable = true,
                    Some(DatagramEvent::Outcome) => {}
                    other => prop_assert_eq!(other, None),
                }
            }
            room.check();
            prop_assert_eq!(room.is_empty(), model.queue.is_empty());
            prop_assert!(!writable || model.refused, "nobody was refused");
        }
        // Whoever was refused hears of it, once the queue is empty at the latest.
        while write(&mut room, now, 500, 500).0 != Wrote::Nothing {}
        while let Some(event) = room.next_event() {
            writable |= event == DatagramEvent::Writable;
        }
        prop_assert_eq!(writable, model.refused);
    }

    #[test]
    fn the_newest_that_fit_are_kept(sizes in prop::collection::vec(0usize..700, 1..60), reads in prop::collection::vec(any::<bool>(), 60)) {
        let mut room = room(&DatagramConfig { receive_bytes: BYTES, receive_count: COUNT, ..DatagramConfig::default() }, 0);
        let (mut model, mut dropped): (VecDeque<Vec<u8>>, u64) = (VecDeque::new(), 0);
        for (n, (len, read)) in sizes.iter().zip(reads).enumerate() {
            let payload = Bytes::from(vec![n as u8; 1200]);
            room.on_frame(&payload[..*len], true, &payload).unwrap();
            model.push_back(vec![n as u8; *len]);
            while model.len() > COUNT || model.iter().map(Vec::len).sum::<usize>() > BYTES {
                model.pop_front();
                dropped += 1;
            }
            if read {
                prop_assert_eq!(room.pop().map(|data| data.to_vec()), model.pop_front());
            }
            room.check();
            prop_assert_eq!(room.stats().dropped, dropped);
        }
    }
}

#[test]
fn news_of_what_came_is_told_once_until_all_is_taken() {
    let mut room = room(&DatagramConfig::default(), 0);
    let payload = Bytes::from_static(b"datagram");
    room.on_frame(&payload, true, &payload).unwrap();
    room.on_frame(&payload, true, &payload).unwrap();
    assert_eq!((room.next_event(), room.next_event()), (Some(DatagramEvent::Received), None));
    assert!(room.pop().is_some());
    room.on_frame(&payload, true, &payload).unwrap();
    assert_eq!(room.next_event(), None, "there is one left to be taken");
    let all: Vec<_> = std::iter::from_fn(|| room.pop()).collect();
    assert_eq!(all.len(), 2);
    room.on_frame(&payload, true, &payload).unwrap();
    assert_eq!(room.next_event(), Some(DatagramEvent::Received));
}
