//! WebTransport: a session whose peer says more than its application hears (draft-ietf-webtrans-http3 §8,
//! RFC 9297 §5).

use quickset_base::Duration;
use quickset_h3::{Config, capsule};

use crate::arena::{Arena, Setup};
use crate::hostile::Hostile;
use crate::requests::{CONTROL, DECODER, ENCODER, bidi, frame};

/// SETTINGS_H3_DATAGRAM and SETTINGS_WT_MAX_SESSIONS, each 1.
const SETTINGS: &[u8] = &[0x33, 1, 0xc0, 0, 0, 0, 0xc6, 0x71, 0x70, 0x6a, 1];

/// A session on the first stream.
fn in_session() -> Arena {
    taken(Setup { deaf: true, ..Setup::sessions() }.attacked(), SETTINGS)
}

/// The attacker's session is taken.
fn taken(mut arena: Arena, settings: &[u8]) -> Arena {
    begin_with(arena.hostile(), settings);
    arena.pass(Duration::from_millis(50));
    assert!(arena.hostile().data.contains_key(&bidi(0)), "it is taken: {:?}", arena.hostile().closed);
    arena.begin();
    arena
}

/// What a client says that wants a session, as the draft has it (§3.2): an extended CONNECT of literal fields
/// (RFC 9204 §4.5.6).
pub(crate) fn begin(hostile: &mut Hostile) {
    begin_with(hostile, SETTINGS);
}

fn begin_with(hostile: &mut Hostile, settings: &[u8]) {
    hostile.write(CONTROL, &[&[0][..], &frame(4, settings)].concat(), false);
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

/// Capsules need no packet of their size: a thousand of the largest would be 60 MB. Those of no bytes are
/// bounded in number.
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

/// SETTINGS_WT_INITIAL_MAX_STREAMS_UNI and SETTINGS_WT_INITIAL_MAX_DATA, each 1
/// (draft-ietf-webtrans-http3 §9.2).
const LIMITS: &[u8] = &[0x6b, 0x64, 1, 0x6b, 0x61, 1];

/// Capsules that raise limits, each by one, as large as they go (§5.6.2, §5.6.4).
fn raises(kinds: &[u64], limits: core::ops::Range<u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for limit in limits {
        for &kind in kinds {
            capsule::encode(&mut bytes, kind, &(0xc000_0000_0000_0000 | limit).to_be_bytes());
        }
    }
    frame(0, &bytes)
}

/// Limits that grow are told to who was refused, and not each to an application that asks for no events.
/// Those that say that the peer is held up, of which there is nothing to tell, may come without end, too.
#[test]
fn limits_that_grow_without_end_are_no_events() {
    let all = [
        capsule::WT_MAX_STREAMS_BIDI,
        capsule::WT_MAX_STREAMS_UNI,
        capsule::WT_MAX_DATA,
        capsule::WT_STREAMS_BLOCKED_BIDI,
        capsule::WT_STREAMS_BLOCKED_UNI,
        capsule::WT_DATA_BLOCKED,
    ];
    for settings in [SETTINGS.to_vec(), [SETTINGS, LIMITS].concat()] {
        let arena = Setup { deaf: true, ..Setup::sessions() }.attacked();
        let mut arena = taken(arena, &settings);
        let most = arena.each(40, Duration::from_millis(20), |hostile, n| {
            hostile.write(bidi(0), &raises(&all, 2 + n * 50..52 + n * 50), false);
        });
        assert_eq!(arena.hostile().closed, None, "it is no fault");
        assert!(most < 30_000, "{most} bytes held for 12000 capsules");
        arena.assert_served();
    }
}

/// Who raises its limits by one again and again has us say each time that we are held up; and may never read
/// it.
#[test]
fn who_reads_nothing_of_a_session_is_told_little() {
    let mut setup = Setup { eager: true, ..Setup::sessions() };
    setup.transport.send_buffer = 4 << 10;
    let mut arena = setup.arena();
    // The session's stream has room for the response, and for nothing more.
    arena.replace_hostile(|params| params.initial_max_stream_data_bidi_local = 64);
    arena.hostile().connect();
    arena.pass(Duration::from_millis(200));
    let mut arena = taken(arena, &[SETTINGS, LIMITS].concat());
    let most = arena.each(40, Duration::from_millis(20), |hostile, n| {
        // Each in a packet of its own: what comes together is answered together.
        for limit in 2 + n * 100..102 + n * 100 {
            hostile.write(bidi(0), &raises(&[capsule::WT_MAX_DATA], limit..limit + 1), false);
        }
    });
    assert_eq!(arena.hostile().closed, None, "it is no fault");
    assert!(most > 4 << 10, "{most} bytes: we were held up, and said so");
    assert!(most < 150_000, "{most} bytes held for 4000 capsules");
    arena.assert_served();
}
