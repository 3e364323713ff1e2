//! Connection ids without end (RFC 9000 §5.1, §21.7).

use quickset_base::Duration;
use quickset_wire::frame::Frame;
use quickset_wire::{ConnectionId, ResetToken, TransportErrorCode as Code};

use crate::arena::Setup;

const MS: Duration = Duration::from_millis(1);

const NEW_CONNECTION_ID: u64 = 0x18;
const RETIRE_CONNECTION_ID: u64 = 0x19;

fn new(sequence: u64, retire_prior_to: u64) -> Frame<'static> {
    let id = ConnectionId::new(&sequence.to_be_bytes()).expect("eight bytes");
    let mut token = [0; 16];
    token[..8].copy_from_slice(&sequence.to_be_bytes());
    Frame::NewConnectionId { sequence, retire_prior_to, id, token: ResetToken(token) }
}

/// Who announces an id and retires it, and never hears that it was retired.
#[test]
fn ids_retired_faster_than_acknowledged_end_the_connection() {
    let mut arena = Setup::new().attacked();
    arena.hostile().acks = false;
    let most = arena.each(100, MS, |hostile, n| {
        if hostile.closed.is_none() {
            let frames: Vec<_> = (0..10).map(|i| new(1 + 10 * n + i, 1 + 10 * n + i)).collect();
            hostile.say(&frames);
        }
    });
    assert_eq!(arena.hostile().closed, Some(Ok(Code::CONNECTION_ID_LIMIT_ERROR)));
    assert!(most < 20_000, "{most} bytes held");
    arena.assert_served();
}

/// The same from one who plays by the rules: it may go on as long as it likes, and pays for each.
#[test]
fn ids_that_are_changed_for_ever_cost_nothing_that_lasts() {
    let mut arena = Setup::new().attacked();
    let most = arena.each(1000, 25 * MS, |hostile, n| hostile.say(&[new(1 + n, 1 + n)]));
    assert_eq!(arena.hostile().closed, None);
    assert!(arena.hostile().heard(RETIRE_CONNECTION_ID) >= 990);
    assert!(most < 10_000, "{most} bytes held");
    arena.assert_served();
}

#[test]
fn one_id_announced_ten_thousand_times_is_one_id() {
    let mut arena = Setup::new().attacked();
    let frames: Vec<_> = (0..30).map(|_| new(1, 0)).collect();
    let most = arena.each(334, MS, |hostile, _| hostile.say(&frames));
    assert_eq!(arena.hostile().closed, None);
    assert!(most < 40_000, "{most} bytes held");
    arena.assert_served();
}

/// Each id of ours that is retired is replaced. That is an answer of 27 bytes or so to two: it must not be an
/// answer to nothing, and nothing of the old ones may stay.
#[test]
fn retiring_what_was_given_earns_one_id_each() {
    let mut arena = Setup::new().attacked();
    let mut retired = 0;
    // With what it has there is always one in use.
    let most = arena.each(1000, 5 * MS, |hostile, _| {
        let using = hostile.dcid;
        let ids = std::mem::take(&mut hostile.ids);
        let retire: Vec<_> = ids
            .iter()
            .filter(|(_, id)| *id != using)
            .map(|(sequence, _)| Frame::RetireConnectionId { sequence: *sequence })
            .collect();
        retired += retire.len() as u64;
        if !retire.is_empty() {
            hostile.say(&retire);
        }
    });
    let given = arena.hostile().heard(NEW_CONNECTION_ID);
    assert!(retired > 500, "{retired} were retired");
    assert!(given <= retired + 8, "{given} ids for {retired}");
    assert!(most < 20_000, "{most} bytes held");
    assert_eq!(arena.hostile().closed, None);
    // None of the retired leads to the connection any more, the one in use does.
    arena.hostile().say(&[Frame::Ping]);
    arena.assert_served();
}

/// The same without ever acknowledging: what is in flight is bounded by congestion control.
#[test]
fn retiring_without_acknowledging_comes_to_an_end() {
    let mut arena = Setup::new().attacked();
    arena.hostile().acks = false;
    let before = arena.sent_to_hostile().datagrams;
    let most = arena.each(3000, MS, |hostile, _| {
        let using = hostile.dcid;
        let ids = std::mem::take(&mut hostile.ids);
        for (sequence, _) in ids.iter().filter(|(_, id)| *id != using) {
            hostile.say(&[Frame::RetireConnectionId { sequence: *sequence }]);
        }
    });
    let (sent, got) = (arena.sent_to_hostile().datagrams - before, arena.hostile().sent_datagrams);
    assert!(sent <= 2 * got + 20, "{sent} datagrams for {got}");
    assert!(most < 100_000, "{most} bytes held");
    arena.assert_served();
}
