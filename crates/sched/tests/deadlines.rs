//! The closest deadline that can still be met, beside a list that is searched.

use proptest::prelude::*;
use proptest::sample::Index;
use quickset_sched::{Deadlines, DueMessage, MessageId};

#[test]
fn closest_deadline_that_can_be_met() {
    let mut messages = Deadlines::new();
    messages.insert("none", None, 10);
    messages.insert("late", Some(129), 10);
    messages.insert("far", Some(500), 10);
    let blocked = messages.insert("blocked", Some(131), 10);
    messages.insert("near", Some(200), 10);
    let name = |messages: &Deadlines<_>, id: Option<MessageId>| id.and_then(|id| Some(messages.get(id)?.key));

    // At 100 and 30 away: 130 can be met just so.
    let next = messages.next(100, 30, |&key| key != "blocked");
    assert_eq!(name(&messages, next), Some("near"));
    let next = messages.next(100, 29, |_| true);
    assert_eq!(name(&messages, next), Some("late"), "129 can be met when it takes 29");
    assert_eq!(messages.expire(100, 29), None);
    assert_eq!(messages.next_expiry(30), Some(99));
    assert_eq!(messages.expire(100, 30), Some(DueMessage { key: "late", deadline: Some(129), size: 10 }));
    assert_eq!(messages.expire(100, 30), None);

    // What is blocked is first as soon as it is not.
    let next = messages.next(100, 30, |_| true);
    assert_eq!(next, Some(blocked));
    // Nothing with a deadline can go, so it is first come.
    let next = messages.next(100, 30, |&key| key == "none");
    assert_eq!(name(&messages, next), Some("none"));
    let next = messages.next(1000, 0, |_| true);
    assert_eq!(name(&messages, next), Some("none"), "what is not there in time is not told");
    let next = messages.next(u64::MAX, u64::MAX, |_| false);
    assert_eq!(next, None);
    assert_eq!((messages.len(), messages.bytes()), (4, 40));
}

#[derive(Clone, Debug)]
enum Op {
    Insert(Option<u64>, u64),
    Remove(Index),
    Expire(u64),
    Next { now: u64, owd: u64, blocked: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (prop::option::weighted(0.8, 0..200_u64), any::<u64>()).prop_map(|(d, size)| Op::Insert(d, size >> 8)),
        2 => any::<Index>().prop_map(Op::Remove),
        1 => (0..100_u64).prop_map(Op::Expire),
        3 => (0..150_u64, 0..50_u64, any::<u64>()).prop_map(|(now, owd, blocked)| Op::Next { now, owd, blocked }),
    ]
}

proptest! {
    #[test]
    fn like_a_list(ops in prop::collection::vec(op(), 1..200)) {
        const OWD: u64 = 10;
        let mut messages = Deadlines::new();
        // In the order in which they came; the key is the place in `ids`.
        let mut list: Vec<DueMessage<usize>> = Vec::new();
        let mut ids: Vec<MessageId> = Vec::new();
        for op in ops {
            match op {
                Op::Insert(deadline, size) => {
                    let key = ids.len();
                    list.push(DueMessage { key, deadline, size });
                    ids.push(messages.insert(key, deadline, size));
                }
                Op::Remove(which) if !ids.is_empty() => {
                    let key = which.index(ids.len());
                    let known = list.iter().position(|m| m.key == key).map(|at| list.remove(at));
                    prop_assert_eq!(messages.remove(ids[key]), known);
                }
                Op::Remove(_) => {}
                Op::Expire(now) => {
                    let mut late: Vec<_> =
                        list.iter().copied().filter(|m| m.deadline.is_some_and(|d| now + OWD > d)).collect();
                    list.retain(|m| !late.contains(m));
                    late.sort_by_key(|m| (m.deadline, m.key));
                    let expired: Vec<_> = std::iter::from_fn(|| messages.expire(now, OWD)).collect();
                    prop_assert_eq!(expired, late);
                }
                Op::Next { now, owd, blocked } => {
                    let sendable = |key: usize| blocked >> (key % 64) & 1 == 0;
                    let in_time = list
                        .iter()
                        .filter(|m| sendable(m.key) && m.deadline.is_some_and(|d| now + owd <= d))
                        .min_by_key(|m| (m.deadline, m.key));
                    let first = list.iter().find(|m| sendable(m.key) && m.deadline.is_none());
                    let expected = in_time.or(first).map(|m| ids[m.key]);
                    prop_assert_eq!(messages.next(now, owd, |&key| sendable(key)), expected);
                }
            }
            prop_assert_eq!(messages.len(), list.len());
            prop_assert_eq!(messages.is_empty(), list.is_empty());
            prop_assert_eq!(messages.bytes(), list.iter().map(|m| m.size).sum::<u64>());
            for (key, id) in ids.iter().enumerate() {
                prop_assert_eq!(messages.get(*id), list.iter().find(|m| m.key == key));
            }
        }
    }
}
