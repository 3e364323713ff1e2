//! Key updates without end (RFC 9001 §6).

use quickset_base::Duration;
use quickset_wire::TransportErrorCode as Code;
use quickset_wire::frame::Frame;

use crate::arena::Setup;

const MS: Duration = Duration::from_millis(1);

/// Who waits for an acknowledgement each time may update as often as it likes: nothing stays of it.
#[test]
fn keys_that_are_updated_with_every_round_trip_cost_no_more_than_keys() {
    let mut arena = Setup::new().attacked();
    let work = arena.server().work;
    let most = arena.each(300, 50 * MS, |hostile, _| {
        hostile.update_keys();
        hostile.say(&[Frame::Ping]);
        hostile.say(&[Frame::Ping]);
    });
    assert_eq!(arena.hostile().closed, None);
    assert!(arena.hostile().seen().iter().map(|range| range.end() - range.start() + 1).sum::<u64>() >= 300);
    // ACK frames are kept until a PING asks for news of them.
    assert!(most < 80_000, "{most} bytes held");
    let work = (arena.server().work - work) / 600;
    assert!(work < 60, "{work} allocations for a packet");
    arena.assert_served();
}

/// RFC 9001 §6.1, §6.2: who does not wait is told so, before it had keys made with each packet.
#[test]
fn keys_that_are_updated_with_every_packet_end_the_connection() {
    let mut arena = Setup::new().attacked();
    for _ in 0..100 {
        arena.hostile().update_keys();
        arena.hostile().say(&[Frame::Ping]);
    }
    arena.pass(100 * MS);
    let closed = arena.server().closed.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(closed.iter().any(|why| why.contains(&Code::KEY_UPDATE_ERROR.to_string())), "{closed:?}");
    arena.pass(Duration::from_secs(3));
    assert_eq!(arena.connections(), 1);
    arena.assert_served();
}
