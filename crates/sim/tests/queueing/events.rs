//! Events known beforehand, by arithmetic.

use quickset_base::{Ecn, Time};
use quickset_sim::{DropReason, Fate};

use crate::{arrival, carry, link, plain};

const MS: u64 = 1_000_000;

fn arrivals(text: &str, times: impl IntoIterator<Item = u64>, size: usize) -> Vec<Option<u64>> {
    carry(&mut link(text, 1), &plain(times, size)).iter().map(arrival).collect()
}

#[test]
fn what_waits_in_a_blackout_goes_on_behind_it() {
    // 1000 bytes in 1 ms; nothing leaves from 2.5 to 12.5 ms: the third is half done.
    let text = "rate=8mbit delay=5ms blackout=2500us+10ms";
    let out = arrivals(text, [0; 4], 1000);
    assert_eq!(out, [6 * MS, 7 * MS, 18 * MS, 19 * MS].map(Some));
    // With the queue's limit, which holds on: three fit, one being sent included.
    let out = arrivals(&format!("{text} queue=3kB"), [0, 0, 0, 0, 11 * MS, 11 * MS, 11 * MS], 1000);
    assert_eq!(out[3], None);
    assert_eq!(out[4..], [Some(19 * MS), Some(20 * MS), None]);
    // Without a rate, what waits leaves at once.
    let out = arrivals("delay=5ms blackout=0+10ms,every=1s queue=2kB", [0, 9 * MS, 9 * MS, 1000 * MS], 1000);
    assert_eq!(out, [Some(15 * MS), Some(15 * MS), None, Some(1015 * MS)]);
}

#[test]
fn an_outage_loses_what_leaves_in_it() {
    // One leaves at each whole millisecond; those of [3, 6) ms are lost, and those of [13, 16).
    let out = arrivals("rate=8mbit outage=3ms+3ms,every=10ms", [0; 20], 1000);
    let lost: Vec<usize> = (0..20).filter(|n| out[*n].is_none()).map(|n| n + 1).collect();
    assert_eq!(lost, [3, 4, 5, 13, 14, 15]);
    assert_eq!(out[15], Some(16 * MS));
    let mut link = link("outage=0+1s", 1);
    let fate = link.send(Time::ZERO, 100, Ecn::NotEct).known();
    assert_eq!((fate, link.counts().lost), (Some(Fate::Dropped(DropReason::Loss)), 1));
}

#[test]
fn a_handover_leads_to_another_link() {
    // Lost are those that leave from 3 to 5 ms; then 2 ms each, in the order of sending in spite of the
    // shorter delay, unless order does not matter.
    let text = "rate=8mbit delay=50ms handover=3ms+2ms:rate=4mbit,delay=10ms";
    let out = arrivals(text, [0; 7], 1000);
    assert_eq!(out, [Some(51 * MS), Some(52 * MS), None, None, Some(52 * MS), Some(52 * MS), Some(52 * MS)]);
    let out = arrivals(&format!("{text} reorder=yes"), [0; 7], 1000);
    assert_eq!(out[4..], [Some(15 * MS), Some(17 * MS), Some(19 * MS)]);
}

#[test]
fn what_is_being_sent_goes_on_at_the_new_rate() {
    // 8 Mbit/s until 1.5 ms, then a tenth of it: half a packet takes 5 ms.
    let out = arrivals("rate=8mbit at=1500us:rate=800kbit,delay=1ms", [0; 3], 1000);
    assert_eq!(out, [Some(MS), Some(7 * MS + MS / 2), Some(17 * MS + MS / 2)]);
    // From a recording to a rate, with its own header: 400 bytes are left of 3008.
    let path = crate::file("slow.trace", "10\n");
    let out = arrivals(&format!("rate=trace:{path} at=15ms:rate=800kbit"), [0], 1900);
    assert_eq!(out, [Some(19 * MS)]);
}

#[test]
fn the_mtu_is_that_of_the_time_of_sending() {
    let out =
        arrivals("mtu=1500 at=20ms:mtu=1280 at=40ms:mtu=9000", [0, 19 * MS, 20 * MS, 39 * MS, 40 * MS], 1400);
    assert_eq!(out, [Some(0), Some(19 * MS), None, None, Some(40 * MS)]);
}

#[test]
fn the_last_word_at_one_time_counts() {
    let out = arrivals("at=10ms:delay=7ms at=5ms:delay=1ms at=10ms:delay=3ms", [0, 5 * MS, 10 * MS], 9);
    assert_eq!(out, [Some(0), Some(6 * MS), Some(13 * MS)]);
}

#[test]
fn a_link_that_is_never_up_takes_no_time_to_say_so() {
    for events in [
        "blackout=0+5s,every=10s blackout=5s+5s,every=10s",
        // All opportunities lie in gaps.
        "blackout=0+1ms,every=10ms",
    ] {
        let path = crate::file("ten.trace", "10\n");
        assert_eq!(arrivals(&format!("rate=trace:{path} {events}"), [0, MS], 100), [Some(u64::MAX); 2]);
    }
}
