//! WebTransport: a session whose peer says more than its application hears (draft-ietf-webtrans-http3 §8, RFC 9297 §5).

use quickset_base::Duration;
use quickset_h3::{Config, capsule};

use crate::arena::{Arena, Setup};
use crate::hostile::Hostile;
use crate::requests::{CONTROL, DECODER, ENCODER, bidi, frame};

/// SETTINGS_H3_DATAGRAM and SETTINGS_WT_MAX_SESSIONS, each 1.
const SETTINGS: &[u8] = &[0x33, 1, 0xc0, 0, 0, 0, 0xc6, 0x71, 0x70, 0x6a, 1];

/// A session on the first stream.
fn in_session() -> Arena {
    let mut arena = Setup { deaf: true, ..Setup::sessions() }.attacked();
    begin(arena.hostile());
    arena.pass(Duration::from_millis(50));
    assert!(arena.hostile().data.contains_key(&bidi(0)), "it is taken: {:?}", arena.hostile().closed);
    arena.begin();
    arena
}

/// What a client says that wants a session, as the draft has it (§3.2): an extended CONNECT of literal fields (RFC 9204 §4.5.6).
pub(crate) fn begin(hostile: &mut Hostile) {
    hostile.write(CONTROL, &[&[0][..], &frame(4, SETTINGS)].concat(), false);
    hostile.write(ENCODER, &[2], false);
    hostile.write(DECODER, &[3], false);
    let mut section = vec![0, 0];
    for (name, value) in [
        (":method", "CONNECT"),
        (":protocol", "webtransport"),
        (":scheme", "https"),
        (":authority", "a"),
        (":path", "/"),
    ] {
        let (len, more) = (name.len().min(7), name.len().checked_sub(7));
        section.push(0x20 | len as u8);
        section.extend(more.map(|more| more as u8));
        section.extend_from_slice(name.as_bytes());
        section.push(value.len() as u8);
        section.extend_from_slice(value.as_bytes());
    }
    hostile.write(bidi(0), &frame(1, &section), false);
}

/// Capsules need no packet of their size: a thousand of the largest would be 60 MB. Those of no bytes are bounded in number.
#[test]
fn datagrams_that_nobody_hears_are_lost() {
    let limit = isize::try_from(Config::default().max_datagram_bytes).unwrap();
    for (len, at_once, rounds) in [(60_000, 1, 100), (1000, 60, 40), (0, 5000, 10)] {
        let mut arena = in_session();
        let mut bytes = Vec::new();
        for _ in 0..at_once {
            capsule::encode(&mut bytes, capsule::DATAGRAM, &vec![7; len]);
        }
        let bytes = frame(0, &bytes);
        let pause = Duration::from_millis(20);
        let most = arena.each(rounds, pause, |hostile, _| hostile.write(bidi(0), &bytes, false));
        assert_eq!(arena.hostile().closed, None, "it is no fault: they may be lost");
        // What waits, each as an event; a capsule in pieces; what of the stream came and is not read.
        let allowed = limit + 1024 * 200 + 300_000;
        assert!(most < allowed, "{most} bytes held for datagrams of {len} bytes");
        assert!(most > limit / 4 || len == 0, "{most}: they were held");
        arena.assert_served();
    }
}
