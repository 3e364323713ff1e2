//! QPACK and field sections: sections that wait, sections that swell, and a table that never rests
//! (RFC 9204 §7).

use quickset_base::Duration;
use quickset_h3::ErrorCode;
use quickset_h3::qpack::Decoder;
use quickset_wire::Dir;
use quickset_wire::frame::Frame;

use crate::arena::Setup;
use crate::hostile::Hostile;
use crate::memory::held;
use crate::requests::{ENCODER, bidi, frame, greet, head, section, speaking};

const MS: Duration = Duration::from_millis(1);

const HEADERS: u64 = 0x01;

/// An integer of QPACK (RFC 7541 §5.1).
fn int(first: u8, prefix: u32, value: u64) -> Vec<u8> {
    let max = (1 << prefix) - 1;
    if value < max {
        return vec![first | value as u8];
    }
    let mut bytes = vec![first | max as u8];
    let mut rest = value - max;
    while rest >= 128 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes
}

/// Table capacity of 4096, and one entry with a value of this size.
fn entry(size: usize) -> Vec<u8> {
    [int(0x20, 5, 4096), int(0x40, 5, 1), b"x".to_vec(), int(0, 7, size as u64), vec![b'v'; size]].concat()
}

/// One entry of four kilobytes, a byte for each time that it is meant.
#[test]
fn a_section_that_swells_is_answered_and_not_kept() {
    let mut arena = speaking(&Setup::http());
    arena.hostile().write(ENCODER, &entry(4000), false);
    arena.pass(50 * MS);
    arena.begin();
    // Required Insert Count 1, base 1; the request, and the entry ten thousand times.
    let mut coded = vec![2, 0];
    coded.extend_from_slice(&section()[2..]);
    coded.extend(std::iter::repeat_n(0x80, 10_000));
    let mut next = 0;
    let most = arena.each(60, 10 * MS, |hostile, _| {
        hostile.write(bidi(next), &frame(HEADERS, &coded), true);
        next += 1;
    });
    assert_eq!(arena.hostile().closed, None);
    arena.pass(50 * MS);
    let told = arena.hostile().data.keys().filter(|id| id.dir() == Dir::Bi).count();
    assert_eq!(told as u64, next, "each is told that it is too large");
    assert!(most < 300_000, "{most} bytes held");
    arena.assert_served();
}

/// As many small fields as a section may have, in requests that nobody answers: what is held is of the size
/// that was allowed, and no multiple that the attacker chooses.
#[test]
fn small_fields_are_held_by_the_size_that_they_count() {
    let mut arena = speaking(&Setup::http());
    arena.server().set_lazy(true);
    // :method GET and so on, and "accept: */*" from the static table, which counts 41 bytes: 512 lines in
    // all.
    let mut coded = section();
    coded.extend(std::iter::repeat_n(0xc0 | 0x1d, 508));
    let most = arena.each(60, 10 * MS, |hostile, n| hostile.write(bidi(n), &frame(HEADERS, &coded), true));
    arena.pass(50 * MS);
    assert_eq!(arena.server().last_requests(), 60);
    assert!(most < 60 * 3 * 508 * 41, "{} bytes for a request", most / 60);
}

/// A line more is too many: the client is told (RFC 6585 §5), and the application hears of none of them.
#[test]
fn fields_are_bounded_in_number() {
    let mut arena = speaking(&Setup::http());
    for (n, lines) in [508, 509, 1000].into_iter().enumerate() {
        let coded = [section(), vec![0xc0 | 0x1d; lines]].concat();
        arena.hostile().write(bidi(n as u64), &frame(HEADERS, &coded), true);
    }
    arena.pass(100 * MS);
    assert_eq!(arena.server().last_requests(), 1);
    let answers = [0, 1, 2].map(|n| arena.hostile().data.get(&bidi(n)).map(Vec::len));
    assert!(answers.iter().all(|len| len.is_some_and(|len| len > 0)), "{answers:?}");
    assert_eq!(arena.hostile().closed, None);
    arena.assert_served();
}

/// Sections that wait for a table that never comes: as many as were allowed, and no larger than any.
#[test]
fn sections_that_wait_are_bounded() {
    let mut arena = speaking(&Setup::http());
    // Required Insert Count 1 of a table that is empty, and a literal.
    let mut coded = vec![2, 0];
    coded.extend(int(0x20, 3, 1));
    coded.push(b'x');
    coded.extend(int(0, 7, 60_000));
    coded.extend(std::iter::repeat_n(b'v', 60_000));
    let most = arena.each(20, 30 * MS, |hostile, n| {
        if hostile.closed.is_none() {
            hostile.write(bidi(n), &frame(HEADERS, &coded), true);
        }
    });
    assert!(most < 17 * 70_000, "{most} bytes held");
    assert_eq!(arena.hostile().closed, Some(Err(ErrorCode::QPACK_DECOMPRESSION_FAILED.0)));
    arena.pass(Duration::from_secs(1));
    assert!(arena.grown() < 20_000, "{} bytes are left", arena.grown());
    arena.assert_served();
}

/// Requests that wait, are reset, and come again.
#[test]
fn sections_that_wait_and_are_reset_make_room() {
    let mut arena = speaking(&Setup::http());
    let coded = [2, 0, 0x80];
    let bytes = frame(HEADERS, &coded);
    let mut next = 0;
    let most = arena.each(300, 10 * MS, |hostile, _| {
        if hostile.closed.is_some() || next >= hostile.allowed[0] {
            return;
        }
        let id = bidi(next);
        next += 1;
        hostile.write(id, &bytes, false);
        hostile.say(&[
            Frame::ResetStream {
                id,
                code: ErrorCode::H3_REQUEST_CANCELLED.0,
                final_size: bytes.len() as u64,
            },
            Frame::StopSending { id, code: ErrorCode::H3_REQUEST_CANCELLED.0 },
        ]);
    });
    assert_eq!(arena.hostile().closed, None, "who gave up is waiting no more ({next})");
    assert!(next > 50, "{next}");
    assert!(most < 200_000, "{most} bytes held");
    arena.assert_served();
}

/// Long entries that are dropped, while short ones live on that took their names: what is held is of the
/// table's size.
#[test]
fn names_outlive_no_values() {
    let before = held();
    let mut decoder = Decoder::new(4096, 0, 4096);
    decoder.on_instructions(&int(0x20, 5, 4096)).expect("it is allowed");
    for k in 0..100_usize {
        // Behind k short entries one that fills the table, and then one with its name and no value.
        let value = 4096 - 33 * (k + 2);
        let long = [int(0x40, 5, 1), b"x".to_vec(), int(0, 7, value as u64), vec![b'v'; value]].concat();
        let mut bytes = [long, int(0x80, 6, 0), int(0, 7, 0)].concat();
        // The older short ones again, so that the long one is the oldest. Each time that is the one behind
        // the others.
        bytes.extend((0..k).flat_map(|_| int(0x00, 5, k as u64 + 1)));
        decoder.on_instructions(&bytes).expect("it is in order");
    }
    // An entry is twice what it counts for, at most, in places of the table and what an allocation costs.
    let most = held() - before;
    assert!(most < 5 * 4096, "{most} bytes held");
}

/// Insertions without end. What is told of them is told at once, and by one that takes nothing of what it is
/// told they come to an end.
#[test]
fn a_table_that_never_rests_is_bounded() {
    let inserts = [0xc0, 0].repeat(400);
    let mut arena = speaking(&Setup::http());
    arena.hostile().write(ENCODER, &int(0x20, 5, 4096), false);
    let before = arena.sent_to_hostile().datagrams;
    // Each by three packets more that pay for it.
    let insert = |hostile: &mut Hostile, _| {
        hostile.write(ENCODER, &inserts, false);
        (0..3).for_each(|_| hostile.say(&[Frame::Padding(1)]));
    };
    let most = arena.each(1000, MS, insert);
    assert_eq!(arena.hostile().closed, None);
    assert_eq!(arena.server().unpaid_packets(), 0);
    assert!(most < 30_000, "{most} bytes held");
    let answers = arena.sent_to_hostile().datagrams - before;
    assert!(answers <= 1100, "{answers} datagrams for 1000");
    arena.assert_served();

    let mut arena = Setup::http().attacked();
    arena.replace_hostile(|params| params.initial_max_stream_data_uni = 20);
    arena.hostile().connect();
    arena.pass(100 * MS);
    greet(arena.hostile());
    arena.hostile().write(ENCODER, &int(0x20, 5, 4096), false);
    let most = arena.each(1000, MS, insert);
    assert!(most < 150_000, "{most} bytes held");
    arena.assert_served();
}

/// A field section that is announced as larger than memory, and goes on for ever.
#[test]
fn a_section_without_end_is_not_held() {
    let mut arena = speaking(&Setup::http());
    arena.hostile().write(bidi(0), &head(HEADERS, 1 << 50), false);
    let most = arena.each(500, MS, |hostile, _| hostile.write(bidi(0), &[0; 1000], false));
    assert!(most < 100_000, "{most} bytes held");
    assert!(arena.hostile().data.contains_key(&bidi(0)), "it is told");
    arena.assert_served();
}
