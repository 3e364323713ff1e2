//! The memory that connections share: whatever one of them asks to be held, there is no more of it.

use quickset_base::Duration;
use quickset_quic::{Account, Budget};
use quickset_wire::frame::Frame;
use quickset_wire::{Dir, Side, StreamId, TransportErrorCode as Code};

use quickset_sim::address;

use crate::arena::{ECHO, Setup};
use crate::hostile::hello;

const MS: Duration = Duration::from_millis(1);

/// Of all connections, in bytes.
const SIZE: isize = 2 << 20;

fn bidi(n: u64) -> StreamId {
    StreamId::new(Side::Client, Dir::Bi, n)
}

fn setup() -> (Setup, Budget) {
    let (mut setup, budget) = (Setup::new(), Budget::new(SIZE as u64));
    setup.transport.budget = Some(budget.clone());
    (setup, budget)
}

/// Nobody reads what it sends, which is more than there is memory for and less than its credit.
#[test]
fn what_nobody_reads_is_bounded() {
    for gap in [0, 1] {
        let (setup, budget) = setup();
        let mut arena = setup.attacked();
        arena.server().set_lazy(true);
        let data = [7; 1100];
        let most = arena.each(4000, MS, |hostile, n| {
            let offset = (n / 8) * 1100 + gap;
            hostile.say(&[Frame::Stream { id: bidi(n % 8), offset, fin: false, data: &data }]);
        });
        assert_eq!(arena.hostile().closed, None, "it keeps within its credit");
        assert!(most > SIZE / 3, "{most}: as much as one may have");
        assert!(most < SIZE, "{most}");
        assert!(budget.usage().refusals > 0 && budget.usage().peak <= SIZE as u64);
    }
}

/// Connections that may open many streams do so in one packet each, and hold nothing else: by the streams
/// that it names, by the last of them alone, and by what only asks for credit.
#[test]
fn streams_are_paid_for_before_they_are_open() {
    let openers: [fn(u64) -> Vec<Frame<'static>>; 3] = [
        |n| (0..n).map(|n| Frame::Stream { id: bidi(n), offset: 0, fin: false, data: b"a" }).collect(),
        |n| vec![Frame::Stream { id: bidi(n - 1), offset: 0, fin: false, data: b"a" }],
        |n| vec![Frame::StreamDataBlocked { id: bidi(n - 1), limit: 0 }],
    ];
    for opener in openers {
        let (mut setup, budget) = setup();
        (setup.transport.max_bidi_streams, setup.transport.max_fenced_streams) = (500, 500);
        let mut arena = setup.attacked();
        let most = arena.each(1, 100 * MS, |hostile, _| hostile.say(&opener(450)));
        assert!(most < SIZE / 10, "{most} for a packet that is not taken");
        assert_eq!((budget.usage().refusals > 0, arena.hostile().closed), (true, None));
        let few = arena.each(1, 100 * MS, |hostile, _| hostile.say(&opener(50)));
        assert!(few > most + 10_000, "{few}: fewer are open");
    }
}

/// What it asks for is sent to it, and it acknowledges nothing of that.
#[test]
fn what_nobody_takes_is_bounded() {
    let (setup, budget) = setup();
    let mut arena = setup.attacked();
    arena.hostile().acks = false;
    let data = [7; 1100];
    let most = arena.each(4000, MS, |hostile, n| {
        let offset = (n / 8) * 1100;
        if hostile.closed.is_none() {
            hostile.say(&[Frame::Stream { id: bidi(n % 8), offset, fin: false, data: &data }]);
        }
    });
    assert!(most < SIZE, "{most}");
    assert!(budget.usage().peak <= SIZE as u64);
    arena.assert_served();
}

/// Connections that hold nothing cost something, too; and when they are gone, nothing is left of them.
#[test]
fn connections_are_paid_for() {
    let (mut setup, budget) = setup();
    setup.max_connections = 100_000;
    let mut arena = setup.arena();
    let before = budget.usage().held;
    arena.each(200, 5 * MS, |hostile, n| hostile.raw(hello(1000 + n, address(1), ECHO).0));
    let usage = budget.usage();
    assert!(usage.refusals > 100, "{usage:?}");
    assert!(arena.connections() < 40, "{}", arena.connections());
    arena.assert_served();
    arena.pass(Duration::from_secs(40));
    arena.begin();
    arena.pass(Duration::from_secs(1));
    arena.assert_served();
    assert_eq!((arena.connections(), budget.usage().held), (1, before));
}

/// Who holds most of it when others come goes.
#[test]
fn who_holds_much_gives_way() {
    let (setup, budget) = setup();
    let mut arena = setup.attacked();
    arena.server().set_lazy(true);
    let data = [7; 1100];
    arena.each(1000, MS, |hostile, n| {
        hostile.say(&[Frame::Stream { id: bidi(n % 8), offset: (n / 8) * 1100, fin: false, data: &data }]);
    });
    arena.server().set_lazy(false);
    let held = arena.grown();
    assert!(held > SIZE / 3, "{held}");
    let mut others: Vec<Account> = (0..20).map(|n| budget.account(Some([198, 51, 100, n].into()))).collect();
    for other in &mut others {
        while other.take(1000) {}
        // Those have no connection that could go.
        arena.pass(MS);
        if arena.hostile().closed.is_some() {
            break;
        }
    }
    arena.pass(50 * MS);
    assert_eq!(arena.hostile().closed, Some(Ok(Code::INTERNAL_ERROR)));
    assert!(arena.grown() < held / 10, "{} of {held} bytes are left", arena.grown());
    assert_eq!(arena.honest().closed, None);
}
