//! Symbols that did not say that they were (`spec/fec.md` 6.1).

use super::*;

/// Packets with numbers below this are kept.
const PACKETS: u64 = 8;

fn keeping() -> ProtectReceiving {
    let offer =
        DecoderOffer { window: 64, sessions: 4, symbol: SIZE, schemes: Schemes::ALL, unmarked: PACKETS };
    ProtectReceiving::new(offer)
}

/// A STREAM frame on stream 0 with a length.
fn frame(n: u8) -> Vec<u8> {
    let len = 20 + n;
    let mut frame = vec![0x0e, 0, n, len];
    frame.resize(4 + usize::from(len), n);
    frame
}

/// The repair symbol of XOR over these.
fn sum(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut sum = vec![0; frames.iter().map(Vec::len).max().unwrap()];
    frames.iter().flat_map(|frame| frame.iter().enumerate()).for_each(|(at, byte)| sum[at] ^= byte);
    sum
}

/// FEC-65, FEC-69: in whatever order they come; the one that did not is recovered.
#[test]
fn what_came_unmarked_repairs_what_did_not() {
    let frames: Vec<Vec<u8>> = (0..4).map(frame).collect();
    let numbers = [1, 2, 5, 7];
    let packets = numbers.iter().fold(0, |bits, number| bits | 1 << number);
    for lost in 0..4 {
        for late in [false, true] {
            let mut receiving = keeping();
            let come = |receiving: &mut ProtectReceiving| {
                for (at, number) in numbers.into_iter().enumerate().filter(|(at, _)| *at != lost) {
                    assert!(receiving.heeds(number));
                    receiving.keep(number, &[&[0x01][..], &frames[at], &frame(9)].concat());
                }
            };
            if late {
                // What is named has not come yet.
                receiving.on_unmarked(0, packets).unwrap();
            }
            come(&mut receiving);
            give(&mut receiving, header(0, 0, 4, 1, 0), &sum(&frames)).unwrap();
            assert!(!receiving.has_work(), "nobody knows what it covers");
            receiving.on_unmarked(0, packets).unwrap();
            receiving.end_packet();
            receiving.work();
            let (session, sid, symbol) = receiving.next_recovered().expect("the one that is missing");
            assert_eq!((session, sid), (0, lost as u64));
            assert_eq!(symbol[..frames[lost].len()], frames[lost][..]);
            assert!(symbol[frames[lost].len()..].iter().all(|byte| *byte == 0));
            assert_eq!((receiving.next_recovered(), receiving.counts().sources), (None, 3));
            // FEC-20: a repeat of one that was recovered or named acts no more.
            for (sid, frame) in (0..).zip(&frames) {
                assert_eq!(receiving.on_copy(0, sid, frame).unwrap(), Dispatch::No);
                receiving.end_packet();
            }
        }
    }
}

/// FEC-61, errors 6, 10, 11 and 16.
#[test]
fn what_cannot_be_named_is_an_error() {
    refused(receiving(64, 4).on_unmarked(0, 1));
    refused(keeping().on_unmarked(0, 1 << PACKETS));
    refused(keeping().on_unmarked(0, varint::MAX));
    refused(keeping().on_unmarked(5, 1));
    refused(keeping().on_unmarked(8 * 4, 1));
    assert!(keeping().on_unmarked(8 * 3, (1 << PACKETS) - 1).is_ok());
    // The same symbol in another packet, with other bytes.
    let mut receiving = keeping();
    receiving.keep(0, &frame(0));
    receiving.keep(1, &frame(1));
    receiving.on_unmarked(0, 1).unwrap();
    refused(receiving.on_unmarked(0, 2));
    // One that the repair is too short for.
    let mut receiving = keeping();
    receiving.keep(0, &frame(1));
    give(&mut receiving, header(0, 0, 2, 1, 0), &frame(1)[1..]).unwrap();
    refused(receiving.on_unmarked(0, 1));
}

/// FEC-60: however often packets are named, what they held is looked at once. FEC-65: and not for ever.
#[test]
fn a_frame_is_given_to_one_session_once() {
    let mut receiving = keeping();
    (0..PACKETS).for_each(|number| receiving.keep(number, &frame(number as u8)));
    for session in [4, 8 + 4, 2 * 8 + 4] {
        for _ in 0..100 {
            receiving.on_unmarked(session, (1 << PACKETS) - 1).unwrap();
        }
    }
    assert_eq!(receiving.counts().sources, PACKETS);
    let mut receiving = keeping();
    receiving.keep(3, &frame(3));
    assert!(!receiving.heeds(PACKETS) && receiving.heeds(2 * PACKETS));
    receiving.keep(2 * PACKETS, &frame(4));
    receiving.on_unmarked(4, 1 << 3).unwrap();
    assert_eq!(receiving.counts().sources, 0);
    assert!(!receiving.heeds(4) && !receiving.heeds(2 * PACKETS));
}
