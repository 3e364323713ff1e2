//! The receiver's rules, one by one.

use bytes::Bytes;
use quickset_base::{Duration, Time};
use quickset_wire::TransportErrorCode as Code;

use crate::TransportError;
use crate::streams::fenced::{Fenced, Message, RecordFault, RecordReceiver};

/// What a test gives to a receiver; `F` is a frame without flags, `S` has START, `E` START and EACH.
#[derive(Clone, Debug)]
enum Give {
    F(u64, u64, Vec<u8>),
    S(u64, u64, Vec<u8>),
    E(u64, u64, Vec<u8>),
    Fin(Box<Give>),
    Abandon(u64, u64),
    Stream(u64, Vec<u8>),
    Reset(u64),
}
use Give::{Abandon, E, F, Fin, Reset, S, Stream};

/// A record of `len` bytes of payload.
fn record(len: usize) -> Vec<u8> {
    let mut bytes = if len < 64 { vec![len as u8] } else { (0x4000 | len as u16).to_be_bytes().to_vec() };
    bytes.extend((0..len).map(|i| i as u8));
    bytes
}

/// A part of a record of `len` bytes of payload, by the record's own bytes.
fn part(len: usize, from: usize, to: usize) -> Vec<u8> {
    record(len)[from..to].to_vec()
}

fn records(lens: &[usize]) -> Vec<u8> {
    lens.iter().flat_map(|&len| record(len)).collect()
}

fn give(receiver: &mut RecordReceiver, now: Time, what: &Give) -> Result<u64, TransportError> {
    let (fin, what) = if let Fin(inner) = what { (true, &**inner) } else { (false, what) };
    let (offset, distance, data, start, each) = match what {
        F(offset, fence, data) => (*offset, offset.wrapping_sub(*fence), data, false, false),
        S(offset, fence, data) => (*offset, offset.wrapping_sub(*fence), data, true, false),
        E(offset, fence, data) => (*offset, offset.wrapping_sub(*fence), data, true, true),
        Abandon(offset, len) => return receiver.on_abandon(now, *offset, *len),
        Stream(offset, data) => {
            let payload = Bytes::from(data.clone());
            return receiver.on_stream(now, *offset, fin, &payload, &payload);
        }
        Reset(size) => return receiver.on_reset(*size),
        Fin(_) => unreachable!("one FIN is enough"),
    };
    let payload = Bytes::from(data.clone());
    receiver.on_fenced(now, &Fenced { offset, distance, start, each, fin }, &payload, &payload)
}

fn new() -> RecordReceiver {
    RecordReceiver::new(20_000, 60_000)
}

/// Gives all but the last, which must be fine, and returns what the last one led to.
fn last_of(gives: &[Give]) -> Result<u64, Code> {
    let mut receiver = new();
    let (last, before) = gives.split_last().unwrap();
    for what in before {
        give(&mut receiver, Time::ZERO, what).unwrap_or_else(|e| panic!("{what:?} of {gives:?}: {e}"));
        receiver.check();
    }
    give(&mut receiver, Time::ZERO, last).map_err(|error| error.code)
}

fn read_all(receiver: &mut RecordReceiver) -> Vec<Message> {
    std::iter::from_fn(|| receiver.next()).collect()
}

/// Lengths and segments of what can be read after each frame.
fn deliveries(gives: &[Give]) -> Vec<Vec<(usize, u64)>> {
    let mut receiver = new();
    let mut all = Vec::new();
    for what in gives {
        give(&mut receiver, Time::ZERO, what).unwrap_or_else(|e| panic!("{what:?} of {gives:?}: {e}"));
        receiver.check();
        all.push(read_all(&mut receiver).iter().map(|m| (m.payload.len(), m.segment)).collect());
    }
    all
}

#[test]
fn the_worked_example_with_its_fourth_packet_lost() {
    // wire.md and §17: records of 1152, 1152 and 5002 bytes with prefix, a fence, N1.
    let r3 = |from: usize, to: usize| part(5000, from, to);
    let frames = [
        S(0, 0, record(1150)),
        S(1152, 0, record(1150)),
        S(2304, 0, r3(0, 1164)),
        F(4632, 0, r3(2328, 3492)),
        F(5796, 0, r3(3492, 4656)),
        F(6960, 0, r3(4656, 5002)),
        S(7306, 7306, record(1150)),
    ];
    let mut receiver = new();
    let mut read = Vec::new();
    for (n, frame) in frames.iter().enumerate() {
        give(&mut receiver, Time::from_millis(n as u64), frame).unwrap();
        read.extend(read_all(&mut receiver));
    }
    assert_eq!(read.len(), 2, "R1 and R2 at once; N1 is held");
    assert!(read.iter().all(|m| m.segment == 0 && m.blocked() == Duration::ZERO));
    let resends = [F(3468, 0, r3(1164, 1764)), F(4068, 0, r3(1764, 2328))];
    give(&mut receiver, Time::from_millis(100), &resends[0]).unwrap();
    assert!(!receiver.is_readable());
    give(&mut receiver, Time::from_millis(101), &resends[1]).unwrap();
    let late = read_all(&mut receiver);
    assert_eq!(&late[0].payload[..], &record(5000)[2..]);
    assert_eq!((late[0].segment, late[1].segment), (0, 7306));
    assert_eq!(late[1].blocked(), Duration::from_millis(95), "completed at 6 ms, released at 101 ms");
    give(&mut receiver, Time::from_millis(102), &Fin(Box::new(F(8458, 7306, vec![])))).unwrap();
    assert!(receiver.is_finished());
    assert_eq!(receiver.take_consumed(), 8458);
    // Abandoned instead, R3 lets N1 go just as well.
    let mut gives = frames.to_vec();
    gives.push(Abandon(2304, 5002));
    assert_eq!(deliveries(&gives).last().unwrap(), &[(1150, 7306)]);
}

/// A rule, frames, and what each lets go: lengths and segments.
type Row<'a> = (&'a str, &'a [Give], &'a [&'a [(usize, u64)]]);

#[test]
fn what_fences_let_go_and_in_which_order() {
    let table: &[Row<'_>] = &[
        (
            "FS-30: no fence, no waiting",
            &[S(11, 0, record(5)), S(0, 0, record(10))],
            &[&[(5, 0)], &[(10, 0)]],
        ),
        (
            "FS-28: a hole before the fence",
            &[S(11, 11, record(5)), S(0, 0, record(10))],
            &[&[], &[(10, 0), (5, 11)]],
        ),
        (
            "FS-31: by segment, whatever came first",
            &[S(8, 8, record(3)), S(4, 4, record(3)), S(0, 0, record(3))],
            &[&[], &[], &[(3, 0), (3, 4), (3, 8)]],
        ),
        (
            "FS-32: by completion within a segment",
            &[S(11, 4, record(5)), S(4, 4, record(6)), S(0, 0, record(3))],
            &[&[], &[], &[(3, 0), (5, 4), (6, 4)]],
        ),
        (
            "EACH: each boundary is a fence",
            &[E(4, 4, records(&[1, 2])), S(0, 0, record(3))],
            &[&[], &[(3, 0), (1, 4), (2, 6)]],
        ),
        (
            "EACH: the first may go before the others",
            &[S(0, 0, record(3)), E(8, 0, records(&[1, 2])), S(4, 0, record(3))],
            &[&[(3, 0)], &[(1, 0)], &[(3, 0), (2, 10)]],
        ),
        (
            "EACH: the last shares its segment",
            &[S(9, 6, record(7)), E(4, 4, records(&[1, 2])), S(0, 0, record(3))],
            &[&[], &[], &[(3, 0), (1, 4), (7, 6), (2, 6)]],
        ),
        (
            "EACH with a cut last record",
            &[E(0, 0, [record(2), part(9, 0, 4)].concat()), F(7, 3, part(9, 4, 10))],
            &[&[(2, 0)], &[(9, 3)]],
        ),
        (
            "empty records",
            &[S(1, 1, records(&[0, 0])), S(0, 0, record(0))],
            &[&[], &[(0, 0), (0, 1), (0, 1)]],
        ),
        (
            "FS-33: once only",
            &[S(0, 0, record(4)), S(0, 0, record(4)), S(0, 0, records(&[4, 1]))],
            &[&[(4, 0)], &[], &[(1, 0)]],
        ),
        (
            "FS-20: other cuts in a resend",
            &[S(2, 0, records(&[3, 3])), S(0, 0, records(&[1, 3, 3, 2]))],
            &[&[(3, 0), (3, 0)], &[(1, 0), (2, 0)]],
        ),
        ("a piece before its start", &[F(4, 0, part(9, 4, 10)), S(0, 0, part(9, 0, 5))], &[&[], &[(9, 0)]]),
        (
            "pieces overlap",
            &[F(6, 0, part(9, 6, 8)), F(4, 0, part(9, 4, 10)), S(0, 0, part(9, 0, 5))],
            &[&[], &[], &[(9, 0)]],
        ),
        (
            "a start in a piece's frame",
            &[F(6, 0, part(9, 6, 10)), S(0, 0, records(&[9, 2]))],
            &[&[], &[(9, 0), (2, 0)]],
        ),
    ];
    // FS-27 to FS-34, as the rows say: FS-28, FS-30, FS-31, FS-32, FS-33.
    for (rule, gives, expected) in table {
        assert_eq!(&deliveries(gives), expected, "{rule}");
    }
}

#[test]
fn abandoned_records() {
    let table: &[Row<'_>] = &[
        ("FS-49: neither missing nor expected", &[S(4, 4, record(3)), Abandon(0, 4)], &[&[], &[(3, 4)]]),
        (
            "FS-50: pieces are discarded",
            &[S(0, 0, part(9, 0, 5)), Abandon(0, 10), F(5, 0, part(9, 5, 10))],
            &[&[], &[], &[]],
        ),
        (
            "FS-51: parsed for the records around",
            &[Abandon(4, 4), S(0, 0, records(&[3, 3, 3]))],
            &[&[], &[(3, 0), (3, 0)]],
        ),
        (
            "FS-53: complete ones in their turn",
            &[S(8, 8, record(3)), S(4, 4, record(3)), Abandon(0, 12)],
            &[&[], &[], &[(3, 4), (3, 8)]],
        ),
        ("over fences that nobody will see", &[Abandon(0, 8), S(8, 6, record(3))], &[&[], &[(3, 6)]]),
        ("overlapping", &[Abandon(4, 8), Abandon(0, 8), S(12, 12, record(1))], &[&[], &[], &[(1, 12)]]),
        (
            "up to the final size",
            &[S(0, 0, record(3)), Abandon(4, 8), Fin(Box::new(F(12, 0, vec![])))],
            &[&[(3, 0)], &[], &[]],
        ),
    ];
    // FS-49, FS-50, FS-51, FS-53, as the rows say.
    for (rule, gives, expected) in table {
        assert_eq!(&deliveries(gives), expected, "{rule}");
    }
    // FS-50: the pieces are gone from memory at once.
    let mut receiver = new();
    for what in [S(0, 0, part(900, 0, 500)), F(1500, 0, vec![1; 300]), Abandon(0, 1800)] {
        give(&mut receiver, Time::ZERO, &what).unwrap();
    }
    assert_eq!(receiver.held_bytes(), 0);
    // FS-49: the stream is complete without them.
    give(&mut receiver, Time::ZERO, &Fin(Box::new(F(1800, 0, vec![])))).unwrap();
    assert!(receiver.is_finished());
}

/// FS-52, FS-38: each byte counts once, whichever way it goes.
#[test]
fn bytes_count_once_as_consumed() {
    let mut receiver = new();
    let mut steps = Vec::new();
    for what in [
        S(0, 0, part(9, 0, 5)),
        S(10, 0, record(4)),
        F(20, 15, part(9, 5, 8)),
        Abandon(0, 10),
        Abandon(15, 10),
        Abandon(10, 5),
    ] {
        give(&mut receiver, Time::ZERO, &what).unwrap();
        steps.push(receiver.take_consumed());
    }
    // Moved into a record; nothing; nothing; the other half; all of a record; none, it is still to be read.
    assert_eq!(steps, [5, 0, 0, 5, 10, 0]);
    receiver.next().unwrap();
    assert_eq!(receiver.take_consumed(), 5);
    assert_eq!(receiver.max_stream_data(), 60_025, "read or abandoned, with the window");
}

#[test]
fn credit() {
    // FS-36: room for a whole record whatever the window.
    let mut receiver = RecordReceiver::new(20_000, 1000);
    assert_eq!(receiver.max_stream_data(), 20_008);
    give(&mut receiver, Time::ZERO, &S(0, 0, part(5000, 0, 2000))).unwrap();
    assert_eq!(receiver.max_stream_data(), 20_008, "s is the start of the open record");
    give(&mut receiver, Time::ZERO, &F(2000, 0, part(5000, 2000, 5002))).unwrap();
    assert_eq!(receiver.max_stream_data(), 25_010, "s = m = 5002");
    assert_eq!(
        give(&mut receiver, Time::ZERO, &Abandon(25_000, 11)).unwrap_err().code,
        Code::FLOW_CONTROL_ERROR
    );
    // FS-37: reading what is behind a hole gives no credit beyond m + S.
    let mut receiver = RecordReceiver::new(1200, 4000);
    for n in 0..20 {
        if give(&mut receiver, Time::ZERO, &S(2 + n * 500, 0, record(498))).is_err() {
            break;
        }
        receiver.next().unwrap();
    }
    assert_eq!(receiver.max_stream_data(), 8000);
}

#[test]
fn errors_on_arrival() {
    let fence = Err(Code::FENCE_ERROR);
    let long = vec![0x80, 0, 0x4e, 0x21, 1];
    let table: &[(&str, &[Give])] = &[
        ("1: Distance greater than Offset", &[S(4, 5, record(1))]),
        ("2: START with Length 0", &[S(0, 0, vec![])]),
        ("2: EACH without START", &[S(0, 0, record(9)), E(0, 0, vec![])]),
        ("3: ABANDON with Length 0", &[Abandon(0, 0)]),
        ("4: ends inside a prefix", &[S(0, 0, vec![1, 1, 0x44])]),
        ("5: FIN on a cut record", &[Fin(Box::new(S(0, 0, part(9, 0, 5))))]),
        ("5: FIN inside a record, record first", &[S(0, 0, part(9, 0, 5)), Fin(Box::new(F(7, 0, vec![])))]),
        ("5: FIN inside a record, FIN first", &[Fin(Box::new(F(7, 0, vec![]))), S(0, 0, part(9, 0, 5))]),
        ("6: too long on sight", &[S(0, 0, long.clone())]),
        ("6: also as an unfinished prefix", &[S(0, 0, [record(2), long].concat())]),
        (
            "7: a fence where another frame says none, later",
            &[S(2, 0, records(&[3, 3])), S(10, 6, record(1))],
        ),
        ("7: the same, earlier", &[S(10, 6, record(1)), S(2, 0, records(&[3, 3]))]),
        ("7: below an open record", &[S(0, 0, records(&[3, 3])), S(8, 4, record(1))]),
        ("7: EACH against none", &[S(2, 0, records(&[3, 3])), E(2, 2, records(&[3, 3]))]),
        ("7: EACH against none behind it", &[E(4, 0, records(&[1, 1, 1])), S(10, 4, record(1))]),
        ("7: EACH over a boundary that is none", &[S(8, 6, record(1)), E(0, 0, records(&[1, 1, 1, 1, 1]))]),
        ("7: none against EACH", &[E(4, 0, records(&[1, 1, 1])), S(10, 0, record(1))]),
        ("7: EACH against a fence that is no boundary", &[S(20, 7, record(1)), E(4, 0, records(&[1, 3, 1]))]),
        ("8: a record across a fence, record first", &[S(0, 0, part(9, 0, 5)), S(12, 8, record(1))]),
        ("8: a record across a fence, fence first", &[S(12, 8, record(1)), S(2, 0, part(9, 0, 5))]),
        ("8: a piece across a fence", &[F(6, 0, part(9, 6, 10)), S(14, 8, record(1))]),
        ("9: START inside another", &[S(0, 0, part(9, 0, 5)), S(6, 0, record(1))]),
        ("9: START inside another's piece", &[F(6, 0, part(9, 6, 10)), S(7, 0, record(1))]),
        ("9: reaches over another", &[S(6, 0, record(1)), S(0, 0, part(9, 0, 3))]),
        ("9: another length", &[S(0, 0, part(9, 0, 5)), S(0, 0, part(8, 0, 6))]),
        ("10: no start at a boundary", &[F(0, 0, part(9, 0, 5))]),
        ("10: its own fence", &[F(5, 5, part(9, 5, 9))]),
        ("10: behind a record that ends there", &[S(0, 0, record(3)), F(4, 0, part(9, 4, 5))]),
        ("10: before a record that ends there", &[F(9, 0, part(9, 4, 5)), S(5, 0, record(3))]),
        ("10: inside a prefix", &[F(4, 0, vec![1]), S(3, 0, part(300, 0, 3))]),
        ("10: beyond its record, record first", &[S(0, 0, part(9, 0, 5)), F(5, 0, vec![1; 6])]),
        ("10: beyond its record, piece first", &[F(5, 0, vec![1; 6]), S(0, 0, part(9, 0, 5))]),
        ("10: over the start of another", &[S(6, 0, record(1)), F(4, 0, vec![1; 3])]),
        ("11: ABANDON begins inside", &[S(0, 0, part(9, 0, 5)), Abandon(4, 6)]),
        ("11: ABANDON ends inside", &[S(0, 0, part(9, 0, 5)), Abandon(0, 9)]),
        ("11: ABANDON begins at a piece", &[F(4, 0, part(9, 4, 6)), Abandon(4, 6)]),
        ("11: ABANDON ends in a piece", &[F(4, 0, part(9, 4, 6)), Abandon(0, 5)]),
        ("12: STREAM after FENCED", &[S(0, 0, record(9)), Stream(10, record(1))]),
        ("12: FENCED after STREAM", &[Stream(0, record(9)), S(10, 0, record(1))]),
        ("12: ABANDON after STREAM", &[Stream(0, record(9)), Abandon(10, 1)]),
    ];
    for (rule, gives) in table {
        assert_eq!(last_of(gives), fence, "FS-62 {rule}");
    }
    let size = Err(Code::FINAL_SIZE_ERROR);
    let end = || Fin(Box::new(S(0, 0, record(9))));
    let table: &[(&str, &[Give])] = &[
        ("data past it", &[end(), S(10, 0, record(0))]),
        ("ABANDON past it", &[end(), Abandon(10, 1)]),
        ("another one", &[end(), Fin(Box::new(F(11, 0, vec![])))]),
        ("below what came", &[S(0, 0, record(9)), Fin(Box::new(F(9, 0, vec![])))]),
        ("RESET_STREAM differs", &[end(), Reset(11)]),
    ];
    // FS-57.
    for (rule, gives) in table {
        assert_eq!(last_of(gives), size, "{rule}");
    }
}

/// FS-63: contradictions among the bytes above the lowest missing offset, however late the last fact comes;
/// below it everything is forgotten.
#[test]
fn contradictions_are_found_until_the_bytes_below_have_come() {
    let between = [S(30, 30, record(3)), S(34, 34, record(3)), Abandon(50, 4), S(60, 34, record(3))];
    let pairs: &[(&str, Give, Give)] = &[
        ("7", S(8, 4, records(&[3, 3])), S(16, 12, record(3))),
        ("8", S(16, 12, record(3)), S(8, 4, part(9, 0, 5))),
        ("9", S(10, 4, record(3)), S(8, 4, part(9, 0, 2))),
        ("10", F(12, 4, vec![1; 4]), S(8, 4, part(6, 0, 2))),
        ("11", F(12, 4, vec![1; 4]), Abandon(8, 5)),
    ];
    for (number, one, other) in pairs {
        for (first, second) in [(one, other), (other, one)] {
            let mut gives = vec![first.clone()];
            gives.extend(between.clone());
            gives.push(second.clone());
            let fault = last_of(&gives);
            assert_eq!(fault, Err(Code::FENCE_ERROR), "error {number}: {first:?}, later {second:?}");
        }
    }
    // 10: bytes that no START accounts for, when the hole below them closes.
    assert_eq!(
        last_of(&[F(4, 0, vec![1; 2]), S(20, 20, record(1)), S(0, 0, record(3))]),
        Err(Code::FENCE_ERROR)
    );
    // Below the lowest missing offset the same facts are not facts any more.
    for (number, one, other) in pairs.iter().filter(|(_, one, _)| matches!(one, S(..))) {
        let gives = [Abandon(0, 100), one.clone(), other.clone()];
        last_of(&gives).unwrap_or_else(|code| panic!("error {number}: {code}"));
    }
}

/// What looks odd and is right.
#[test]
fn not_errors() {
    let table: &[(&str, &[Give])] = &[
        ("a fence in what was abandoned", &[Abandon(0, 12), S(12, 5, record(1))]),
        (
            "the same segment from another start",
            &[S(6, 2, record(1)), S(2, 2, record(3)), S(0, 0, record(1))],
        ),
        ("one record of an EACH frame again", &[E(2, 0, records(&[1, 1, 1])), S(4, 4, record(1))]),
        ("EACH frames that overlap", &[E(2, 0, records(&[1, 1, 1])), E(4, 4, records(&[1, 1, 1, 1]))]),
        (
            "EACH over known fences",
            &[S(8, 8, record(1)), S(4, 4, record(1)), E(0, 0, records(&[1, 1, 1, 1, 1]))],
        ),
        ("FIN twice", &[Fin(Box::new(S(0, 0, record(1)))), Fin(Box::new(F(2, 0, vec![])))]),
        ("opened, then data", &[F(0, 0, vec![]), S(0, 0, record(1))]),
        ("a piece at the end of a piece", &[F(4, 0, vec![1; 2]), F(6, 0, vec![1; 2])]),
        ("a long form of a short length", &[S(0, 0, vec![0x40, 1, 7]), S(3, 0, record(2))]),
    ];
    for (rule, gives) in table {
        last_of(gives).unwrap_or_else(|code| panic!("{rule}: {code}"));
    }
}

/// FS-59: a reset frees nothing, and takes nothing back.
#[test]
fn a_reset_discards_what_is_held() {
    let mut receiver = new();
    give(&mut receiver, Time::ZERO, &S(0, 0, record(3))).unwrap();
    give(&mut receiver, Time::ZERO, &S(8, 8, record(3))).unwrap();
    give(&mut receiver, Time::ZERO, &S(20, 0, part(9, 0, 5))).unwrap_err();
    let mut receiver = new();
    for what in [S(0, 0, record(3)), S(8, 8, record(3)), S(12, 8, part(9, 0, 5))] {
        give(&mut receiver, Time::ZERO, &what).unwrap();
    }
    assert_eq!(receiver.take_consumed(), 5);
    assert_eq!(give(&mut receiver, Time::ZERO, &Reset(30)).unwrap(), 13);
    assert_eq!(receiver.take_consumed(), 21, "all but what was counted, and what can be read");
    assert_eq!(give(&mut receiver, Time::ZERO, &S(4, 4, record(3))).unwrap(), 0);
    assert_eq!(read_all(&mut receiver).len(), 1);
    assert_eq!(receiver.take_consumed(), 4);
    assert!(receiver.is_finished());
}

/// FS-66, FS-68: without the parameter.
#[test]
fn records_in_stream_frames() {
    // As many bytes as make at most 1024 gaps when they come one by one.
    let bytes = [records(&[3, 0, 100]), part(1500, 0, 1502), record(1)].concat();
    for step in [1, 2, 3, 7, 150, 1200, 6000] {
        let mut receiver = new();
        let chunks: Vec<_> = bytes.chunks(step).enumerate().map(|(n, c)| (n * step, c.to_vec())).collect();
        // Odd pieces first: everything waits for the bytes before it.
        for parity in [1, 0] {
            for (offset, chunk) in chunks.iter().filter(|(offset, _)| offset / step % 2 == parity).cloned() {
                let fin = offset + chunk.len() == bytes.len();
                let piece = Stream(offset as u64, chunk);
                let piece = if fin { Fin(Box::new(piece)) } else { piece };
                give(&mut receiver, Time::ZERO, &piece).unwrap();
            }
        }
        let read = read_all(&mut receiver);
        let found: Vec<_> = read.iter().map(|m| (m.payload.len(), m.segment)).collect();
        assert_eq!(found, [(3, 0), (0, 4), (100, 5), (1500, 107), (1, 1609)], "cut every {step}");
        assert_eq!(receiver.fault(), None);
        assert_eq!(receiver.take_consumed(), bytes.len() as u64);
        assert!(receiver.is_finished());
    }
    let faulty = |gives: &[Give]| {
        let mut receiver = new();
        for what in gives {
            give(&mut receiver, Time::ZERO, what).unwrap();
        }
        (receiver.fault(), read_all(&mut receiver).len(), receiver.held_bytes())
    };
    let long = [record(2), vec![0x80, 0, 0x4e, 0x21, 1]].concat();
    assert_eq!(faulty(&[Stream(0, long)]), (Some(RecordFault::TooLong), 1, 0));
    let cut = [record(2), part(9, 0, 5)].concat();
    assert_eq!(faulty(&[Fin(Box::new(Stream(0, cut)))]), (Some(RecordFault::Truncated), 1, 0));
    assert_eq!(
        faulty(&[Stream(0, vec![0x40]), Fin(Box::new(Stream(1, vec![])))]).0,
        Some(RecordFault::Truncated)
    );
}
