//! What packets pay for: who says nothing but what makes work is held to what its packets earn, and nobody
//! else is.
//!
//! The storms are those of [`costs`](crate::costs). What is honest is said by hand, too, since ours would say
//! it in more packets.

use quickset_base::Duration;
use quickset_h3::{ErrorCode, capsule};
use quickset_quic::StreamId;
use quickset_wire::Dir;
use quickset_wire::frame::Frame;

use crate::arena::{Arena, Setup};
use crate::costs::{Knobs, STORMS, Storm};
use crate::hostile::Hostile;
use crate::requests::{CONTROL, ENCODER, bidi, frame, greet, request, section};

const MS: Duration = Duration::from_millis(1);

/// A storm of this name, and the server that it is for, with somebody honest.
fn storm(name: &str) -> (&'static Storm, Arena) {
    let storm = STORMS.iter().find(|storm| storm.name == name).expect("a storm of that name");
    let mut arena = storm.setup().attacked();
    storm.greet(&mut arena);
    arena.begin();
    (storm, arena)
}

/// Of each packet in them most has to be earned by others. What is taken in is what 160 steps a packet allow,
/// and what there was at first; the rest is dropped as if lost, and comes again. In a second these would be a
/// thousand packets.
#[test]
fn what_is_dear_in_streams_and_datagrams_is_paced() {
    // And what a packet asks for in steps, at least.
    let knobs = Knobs { size: 1, step: 1, many: 30, odd: false };
    let cases = [
        ("PRIORITY_UPDATE", 300, Knobs { odd: true, ..knobs }),
        ("PRIORITY_UPDATE of requests", 800, knobs),
        ("QPACK: entries", 250, knobs),
        ("QPACK: duplicates", 250, knobs),
        ("capsules: DATAGRAM", 300, knobs),
        ("datagrams of a session", 500, knobs),
        ("datagrams of no session", 500, knobs),
    ];
    for (name, steps, knobs) in cases {
        let (storm, mut arena) = storm(name);
        let mut say = storm.begin(knobs);
        let before = arena.server().received.datagrams;
        arena.each(1000, MS, |hostile, n| say(hostile, n));
        arena.pass(50 * MS);
        assert_eq!(arena.hostile().closed, None, "{name}");
        let (received, unpaid) =
            (arena.server().received.datagrams - before, arena.server().unpaid_packets());
        let (most, taken) = ((FIRST + 160 * received) / steps, 1000_u64.saturating_sub(unpaid));
        assert!(taken <= most, "{name}: {taken} packets taken of {received}, for which {most} have paid");
        assert!(taken > 20, "{name}: {taken} packets taken");
        arena.assert_served();
        // Others pay for it, and it goes on.
        arena.each(4000, MS / 20, |hostile, _| hostile.say(&[Frame::Ping]));
        arena.pass(50 * MS);
        let unpaid = arena.server().unpaid_packets();
        say(arena.hostile(), 1000);
        arena.pass(50 * MS);
        assert_eq!(arena.server().unpaid_packets(), unpaid, "{name}");
    }
}

/// Streams that come to nothing are as many as packets pay for, a few more at first, whoever gives them up.
#[test]
fn streams_that_are_for_nobody_are_not_replaced_at_once() {
    let cases = [
        ("streams of unknown types", Dir::Uni, 10),
        ("streams of no session", Dir::Bi, 10),
        ("streams of no session", Dir::Uni, 10),
        ("streams of a session, given up", Dir::Bi, 50),
    ];
    for (name, dir, steps) in cases {
        let (storm, mut arena) = storm(name);
        let before = arena.server().received.datagrams;
        let mut say = storm.begin(Knobs { size: 2, step: 1, many: 1, odd: dir == Dir::Uni });
        // Whatever it is allowed it uses at once, in packets of few.
        arena.each(3000, MS, |hostile, n| say(hostile, n));
        assert_eq!(arena.hostile().closed, None, "{name}");
        let received = arena.server().received.datagrams - before;
        let (allowed, most) = (arena.hostile().allowed[dir as usize], 300 + (FIRST + 160 * received) / steps);
        assert!(allowed > 100, "{name}, {dir:?}: {allowed} streams");
        assert!(allowed < most, "{name}, {dir:?}: {allowed} streams by {received} datagrams");
        assert!(arena.server().paced() > 0, "{name}, {dir:?}: {allowed} streams by {received} datagrams");
        arena.assert_served();
    }
}

/// What a server is there for costs nobody anything, however much of it comes in a packet.
#[test]
fn what_is_answered_is_never_paced() {
    for useful in STORMS.iter().filter(|storm| storm.is_useful) {
        for odd in [false, true] {
            let (storm, mut arena) = storm(useful.name);
            let mut say = storm.begin(Knobs { size: 1, step: 1, many: 1, odd });
            arena.each(1000, MS, |hostile, n| say(hostile, n));
            arena.assert_unpaced(storm.name);
            let heard = arena.server().last_requests();
            // Without their ends, they are as many as there may be.
            assert!(heard >= 60, "{}: {heard}", storm.name);
        }
    }
}

/// A browser that loads a page: a hundred requests at once, each said to be of some urgency once more, and
/// answers of a kilobyte.
#[test]
fn a_page_load_is_never_paced() {
    let mut arena = speaking(1000);
    for _ in 0..20 {
        let ids = load(&mut arena, true);
        let updates: Vec<u8> = ids.iter().flat_map(|id| update(*id)).collect();
        arena.hostile().write(CONTROL, &updates, false);
        arena.pass(500 * MS);
        arena.assert_unpaced("page loads");
    }
}

/// A browser that navigates away from pages that it has only begun to load, from the very first on: two
/// hundred requests in 0.2 s.
#[test]
fn leaving_pages_is_never_paced() {
    for whole in [false, true] {
        let mut arena = speaking(5000);
        for _ in 0..10 {
            // One after the other, whose requests have ended or bring content.
            for _ in 0..2 {
                let ids = load(&mut arena, whole);
                arena.pass(5 * MS);
                give_up(arena.hostile(), &ids, whole);
                arena.pass(100 * MS);
            }
            // It loads another one, to its end.
            load(&mut arena, true);
            arena.pass(400 * MS);
            arena.assert_unpaced("pages that were left");
        }
    }
}

/// A table that is filled once, with what a browser says of itself, and referred to from then on.
#[test]
fn a_table_that_is_filled_is_never_paced() {
    let mut arena = speaking(0);
    let mut instructions = vec![0x3f, 0xe1, 0x1f];
    for n in 0..100_u8 {
        instructions.extend([0x41, b'a' + n % 20, 6]);
        instructions.extend([b'v', n, n, n, n, n]);
    }
    arena.hostile().write(ENCODER, &instructions, false);
    arena.pass(50 * MS);
    // Required Insert Count 100 of at most 128 entries, the base there, and the newest entry.
    let bytes = frame(1, &[&[101, 0][..], &section()[2..], &[0x80]].concat()).leak();
    for _ in 0..10 {
        ask(arena.hostile(), bytes, true);
        arena.pass(100 * MS);
        arena.assert_unpaced("a table");
    }
}

/// Datagrams of a few bytes, as games send them, as many as fit into each packet; and the same as capsules.
#[test]
fn datagrams_of_a_few_bytes_are_never_paced() {
    for as_capsules in [false, true] {
        let (_, mut arena) = storm("datagrams of a session");
        let data = [&[0][..], &[7; 20]].concat();
        let datagrams = [Frame::Datagram { len: true, data: &data }; 45];
        let mut capsules = Vec::new();
        (0..45).for_each(|_| capsule::encode(&mut capsules, capsule::DATAGRAM, &data));
        let capsules = frame(0, &capsules);
        arena.each(1000, MS, |hostile, _| {
            if as_capsules {
                hostile.write(bidi(0), &capsules, false);
            } else {
                hostile.say(&datagrams);
            }
        });
        arena.assert_unpaced("datagrams");
        arena.assert_served();
    }
}

/// The clients of our speed tests, which have a hundred requests under way and as many again with each
/// answer.
#[test]
fn a_hundred_thousand_requests_a_second_are_never_paced() {
    let mut arena = speaking(0);
    let bytes = request().leak();
    for _ in 0..1000 {
        // As many as there may be, which is what limits it over this path.
        ask(arena.hostile(), bytes, true);
        arena.pass(MS);
    }
    let requests = arena.server().last_requests();
    assert!(requests > 2000, "{requests} requests");
    arena.assert_unpaced("requests");
}

/// An attacker that says what a client says, with answers of so many bytes.
fn speaking(content: usize) -> Arena {
    let mut arena = Setup { content, ..Setup::http() }.attacked();
    greet(arena.hostile());
    arena.pass(50 * MS);
    arena.begin();
    arena
}

/// As many requests as there may be.
fn load(arena: &mut Arena, whole: bool) -> Vec<StreamId> {
    let ids = ask(arena.hostile(), request().leak(), whole);
    assert!(ids.len() >= 50, "{} requests may be", ids.len());
    ids
}

/// The same, which are these bytes each, in as few packets as they fit.
fn ask(hostile: &mut Hostile, bytes: &'static [u8], whole: bool) -> Vec<StreamId> {
    let ids = hostile.unopened();
    let frames: Vec<_> =
        ids.iter().map(|&id| Frame::Stream { id, offset: 0, fin: whole, data: bytes }).collect();
    frames.chunks(1000 / (bytes.len() + 4)).for_each(|some| hostile.say(some));
    ids
}

fn give_up(hostile: &mut Hostile, ids: &[StreamId], whole: bool) {
    let code = ErrorCode::H3_REQUEST_CANCELLED.0;
    let frames = ids.iter().flat_map(|&id| {
        let reset = Frame::ResetStream { id, code, final_size: request().len() as u64 };
        let stop = Frame::StopSending { id, code };
        if whole { vec![stop] } else { vec![reset, stop] }
    });
    let frames: Vec<_> = frames.collect();
    frames.chunks(150).for_each(|some| hostile.say(some));
}

/// RFC 9218 §7.2.
fn update(id: StreamId) -> Vec<u8> {
    // The id in a varint of two bytes.
    let id = [0x40 | (id.0 >> 8) as u8, id.0 as u8];
    frame(0xf_0700, &[&id[..], b"u=1, i"].concat())
}

impl Arena {
    /// Nobody was.
    fn assert_unpaced(&mut self, what: &str) {
        assert_eq!(self.hostile().closed, None, "{what}");
        assert_eq!(self.server().paced(), 0, "{what}");
        assert_eq!(self.server().unpaid_packets(), 0, "{what}");
    }
}

/// Steps that there are at first, which is more than a client has use for before it has paid for any.
const FIRST: u64 = 1 << 13;
