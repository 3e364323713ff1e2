use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::message::{Permissions, ScreenOrder};

const SHIFT: u32 = 0xffe1;

fn welcome(visit: Option<VisitCount>) -> Welcome {
    let (order, permissions, name) = (ScreenOrder::Fenced, Permissions::ALL, "desk".into());
    Welcome { features: 0, order, permissions, name, visit }
}

fn resumed(taken: u64) -> Welcome {
    welcome(Some(VisitCount { resumed: true, taken }))
}

fn anew() -> Welcome {
    welcome(Some(VisitCount { resumed: false, taken: 0 }))
}

fn key(down: bool, keysym: u32) -> PersonInput {
    PersonInput::Key { down, keysym, keycode: None }
}

fn held(keysym: u32) -> PersonInput {
    PersonInput::Held { keysym, keycode: None }
}

fn pointer(buttons: u8, x: u16) -> PersonInput {
    PersonInput::Pointer { buttons, x, y: 0 }
}

fn paste(length: usize) -> PersonInput {
    PersonInput::Clipboard(ClipboardMessage::Paste("x".repeat(length)))
}

fn at(seconds: u64) -> Time {
    Time::from_millis(1000 * seconds)
}

fn sent(log: &mut InputLog) -> Vec<PersonInput> {
    std::iter::from_fn(|| log.next_input()).collect()
}

/// A log in a session that has begun.
fn log() -> InputLog {
    let mut log = InputLog::new();
    assert_eq!(log.begin(at(0), &anew()), Ok(false));
    log
}

fn done(log: &mut InputLog, now: Time, all: &[PersonInput]) {
    assert!(all.iter().all(|input| log.push(now, input.clone())));
}

/// What a server of its own model has: whoever reads what was sent passes it on, in order.
#[derive(Clone, Debug, Default)]
struct ModelServer {
    passed_on: Vec<PersonInput>,
    taken: u64,
    /// Of the visit, those that came by the stream included, of which it has passed on none twice.
    streamed: u64,
}

impl ModelServer {
    fn gets(&mut self, number: u64, input: PersonInput) {
        // WB-27.
        if number == self.taken {
            self.passed_on.push(input);
            self.taken += 1;
        }
    }
}

/// What may happen between a client, a session, and a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// A person presses a key, and another one each time.
    Press,
    /// The client sends one.
    Send,
    /// The server takes one off the stream, and passes it on.
    Read,
    /// The client sends its newest once more, in a datagram.
    Copy,
    /// The server gets the newest of those datagrams.
    Catch,
    /// The server says how many it has passed on.
    Tell,
    /// The client hears the first of that.
    Hear,
    /// The session breaks, with all that is under way.
    Cut,
    /// The next begins, if there is none.
    Begin,
}

const MOMENTS: [Moment; 9] = [
    Moment::Press,
    Moment::Send,
    Moment::Read,
    Moment::Copy,
    Moment::Catch,
    Moment::Tell,
    Moment::Hear,
    Moment::Cut,
    Moment::Begin,
];

#[derive(Debug)]
struct ModelWorld {
    log: InputLog,
    server: ModelServer,
    there: VecDeque<PersonInput>,
    copies: Vec<InputCopy>,
    back: VecDeque<u64>,
    is_open: bool,
    pressed: Vec<PersonInput>,
}

impl ModelWorld {
    fn new() -> Self {
        let (server, there, copies, back, pressed) = Default::default();
        Self { log: log(), server, there, copies, back, is_open: true, pressed }
    }

    fn happens(&mut self, moment: Moment) {
        match moment {
            Moment::Press => {
                let input = key(true, 0x100 + self.pressed.len() as u32);
                assert!(self.log.push(at(1), input.clone()));
                self.pressed.push(input);
            }
            Moment::Send => self.there.extend(self.log.next_input()),
            Moment::Read => {
                if let Some(input) = self.there.pop_front() {
                    self.server.gets(self.server.streamed, input);
                    self.server.streamed += 1;
                }
            }
            Moment::Copy => {
                self.copies.extend(self.log.copy().map(|copy| InputCopy::decode(&copy).unwrap()));
            }
            Moment::Catch => {
                if let Some(copy) = self.copies.pop() {
                    for (number, input) in (copy.first..).zip(copy.inputs) {
                        self.server.gets(number, input);
                    }
                }
            }
            Moment::Tell if self.is_open => self.back.push_back(self.server.taken),
            Moment::Hear => {
                if let Some(count) = self.back.pop_front() {
                    self.log.taken(count).unwrap();
                }
            }
            Moment::Cut => {
                self.log.end();
                self.there.clear();
                self.copies.clear();
                self.back.clear();
                self.is_open = false;
            }
            Moment::Begin if !self.is_open => {
                assert_eq!(self.log.begin(at(2), &resumed(self.server.taken)), Ok(false));
                self.server.streamed = self.server.taken;
                self.is_open = true;
            }
            Moment::Tell | Moment::Begin => {}
        }
    }

    /// The path is good from now on.
    fn settles(mut self) -> (Vec<PersonInput>, Vec<PersonInput>) {
        self.happens(Moment::Begin);
        self.there.extend(sent(&mut self.log));
        while !self.there.is_empty() {
            self.happens(Moment::Read);
        }
        self.happens(Moment::Tell);
        while !self.back.is_empty() {
            self.happens(Moment::Hear);
        }
        assert_eq!((self.log.entries.len(), self.log.all.bytes, self.log.deeds.len()), (0, 0, 0));
        (self.server.passed_on, self.pressed)
    }
}

#[test]
fn each_key_comes_once_and_in_order_wherever_sessions_are_cut() {
    // DT-61, DT-63, WB-27: all orders of so many moments, behind two keys of which one is under way.
    const LENGTH: u32 = 6;
    for n in 0..MOMENTS.len().pow(LENGTH) {
        let mut world = ModelWorld::new();
        for moment in [Moment::Press, Moment::Press, Moment::Send] {
            world.happens(moment);
        }
        let moments = (0..LENGTH).map(|place| MOMENTS[n / MOMENTS.len().pow(place) % MOMENTS.len()]);
        let moments: Vec<Moment> = moments.collect();
        for &moment in &moments {
            world.happens(moment);
        }
        let (passed_on, pressed) = world.settles();
        assert_eq!(passed_on, pressed, "{moments:?}");
    }
}

proptest! {
    #[test]
    fn each_key_comes_once_and_in_order_through_many_sessions(
        moments in prop::collection::vec(prop::sample::select(MOMENTS.to_vec()), 0..200),
    ) {
        // DT-61, DT-63.
        let mut world = ModelWorld::new();
        for &moment in &moments {
            world.happens(moment);
        }
        let (passed_on, pressed) = world.settles();
        prop_assert_eq!(passed_on, pressed);
    }

    #[test]
    fn a_server_that_says_anything_is_refused_or_followed(
        steps in prop::collection::vec((0u8..6, 0u64..8, 0u32..4), 0..100),
    ) {
        // DT-63: whatever it claims, what is kept adds up, and only what was sent is dropped.
        let mut log = log();
        let (mut most, mut now) = (0, 0);
        for (step, n, keysym) in steps {
            now += n / 2;
            match step {
                0 => drop(log.push(at(now), key(n % 2 == 0, SHIFT + keysym))),
                1 => drop(log.push(at(now), pointer(keysym as u8, n as u16))),
                2 => most += u64::from(log.next_input().is_some_and(|input| !matches!(input, PersonInput::Held { .. }))),
                3 => prop_assert!(n <= most || log.taken(n).is_err()),
                4 => log.end(),
                _ => {
                    log.end();
                    if log.begin(at(now), &resumed(n)).is_ok() {
                        most = n;
                    }
                }
            }
            let bytes: usize = log.entries.iter().map(InputEntry::weight).sum();
            let deeds = log.entries.iter().filter(|entry| entry.kind == LogKind::Deed).count();
            prop_assert_eq!((log.all.bytes, log.deeds.len(), log.all.entries), (bytes, deeds, log.entries.len()));
            prop_assert!(log.sent.entries <= log.all.entries);
        }
    }
}

#[test]
fn what_a_server_cannot_have_passed_on_is_refused() {
    // DT-63.
    let mut log = log();
    done(&mut log, at(0), &[key(true, 1), key(true, 2), key(true, 3)]);
    assert!(log.next_input().is_some() && log.next_input().is_some());
    for (count, is_possible) in [(u64::MAX, false), (3, false), (1, true), (0, false), (2, true), (1, false)]
    {
        let fault = log.taken(count).err().map(|fault| fault.code());
        assert_eq!(fault, (!is_possible).then_some(crate::message::code::PROTOCOL), "{count}");
    }
    log.end();
    for count in [0, 1, 3, 1 << 61] {
        assert!(log.begin(at(0), &resumed(count)).is_err(), "{count}");
    }
    assert_eq!(log.begin(at(0), &resumed(2)), Ok(false));
    assert_eq!(sent(&mut log), [key(true, 3)]);
}

#[test]
fn what_may_have_been_passed_on_is_not_sent_again_and_the_person_is_told() {
    // DT-64: the server knows nothing of the visit, or does not count; nothing of it was passed on twice.
    for next in [anew(), welcome(None)] {
        let mut log = log();
        done(&mut log, at(0), &[key(true, 1), key(false, 1), key(true, 2)]);
        assert_eq!(sent(&mut log).len(), 3);
        log.taken(2).unwrap();
        log.end();
        done(&mut log, at(1), &[key(false, 2), key(true, 3)]);
        assert_eq!(log.begin(at(2), &next), Ok(true), "of the second key nobody knows");
        assert_eq!(sent(&mut log), []);
        done(&mut log, at(2), &[key(false, 3), key(true, 4)]);
        assert_eq!(sent(&mut log).last(), Some(&key(true, 4)));
    }
    // What was never sent is.
    let mut log = log();
    log.end();
    done(&mut log, at(1), &[key(true, 5)]);
    assert_eq!(log.begin(at(2), &welcome(None)), Ok(false));
    assert_eq!(sent(&mut log), [key(true, 5)]);
    // Behind a session that was not counted the counts of before go on.
    log.end();
    done(&mut log, at(3), &[key(false, 5)]);
    assert_eq!(log.begin(at(3), &resumed(0)), Ok(false));
    assert_eq!(sent(&mut log), [key(false, 5)]);
    assert_eq!(log.taken(1), Ok(()));
}

#[test]
fn what_is_typed_for_too_long_is_not_sent_at_all() {
    // DT-65.
    let mut log = log();
    log.end();
    done(&mut log, at(1), &[key(true, 1), key(false, 1)]);
    done(&mut log, at(11), &[key(true, 2)]);
    assert_eq!(log.begin(at(11), &resumed(0)), Ok(false), "ten seconds, and no more");
    assert_eq!(sent(&mut log), [key(true, 1), key(false, 1), key(true, 2)]);
    log.taken(3).unwrap();
    // The end of what was typed does harm without its beginning, whenever it is found out.
    for is_found_early in [false, true] {
        log.end();
        done(&mut log, at(20), &[key(true, 3), key(false, 3)]);
        if is_found_early {
            done(&mut log, at(31), &[key(true, 4)]);
        } else {
            done(&mut log, at(29), &[key(true, 4)]);
        }
        let taken = log.least;
        assert_eq!(log.begin(at(32), &resumed(taken)), Ok(true));
        let all = sent(&mut log);
        assert!(all.iter().all(|input| *input == key(false, 2)), "{all:?}");
        assert!(log.push(at(32), key(true, 5)));
        assert_eq!(sent(&mut log), [key(true, 5)]);
        log.taken(taken + all.len() as u64 + 1).unwrap();
        assert!(!log.missed, "the person is told once");
    }
    // Who only moved the pointer has missed nothing.
    log.end();
    done(&mut log, at(40), &[pointer(0, 7)]);
    done(&mut log, at(60), &[key(true, 6)]);
    let taken = log.least;
    assert_eq!(log.begin(at(61), &resumed(taken)), Ok(false));
    assert_eq!(sent(&mut log), [pointer(0, 7), key(true, 6)]);
}

#[test]
fn what_was_let_go_meanwhile_is_let_go_though_nothing_else_is_sent() {
    // DT-65: the former session may have been held until this one began, with all that was down in it.
    let mut log = log();
    done(&mut log, at(0), &[key(true, SHIFT), key(true, 1), key(true, 9), pointer(3, 1)]);
    assert_eq!(sent(&mut log).len(), 4);
    log.taken(4).unwrap();
    log.end();
    let meanwhile = [
        key(true, 2),
        key(false, 1),
        key(false, SHIFT),
        pointer(2, 2),
        pointer(6, 3),
        key(false, 2),
        key(true, SHIFT + 2),
        key(true, 3),
    ];
    done(&mut log, at(1), &meanwhile);
    done(&mut log, at(12), &[pointer(6, 4)]);
    assert_eq!(log.begin(at(12), &resumed(4)), Ok(true));
    // One is down yet, and pressed no second time; what was pressed meanwhile is not.
    assert_eq!(sent(&mut log), [held(SHIFT + 2), key(false, SHIFT), key(false, 1), pointer(2, 4)]);
    done(&mut log, at(13), &[pointer(6, 5), pointer(2, 5), pointer(6, 5)]);
    assert_eq!(sent(&mut log), [pointer(2, 5), pointer(6, 5)], "a button counts when it is pressed again");
    log.taken(4 + 3 + 3).unwrap_err();
    log.taken(4 + 3 + 2).unwrap();
    // In doubt it is let go, too: this was sent, and nobody has said that it arrived.
    done(&mut log, at(20), &[key(true, 5)]);
    assert_eq!(sent(&mut log), [key(true, 5)]);
    log.end();
    done(&mut log, at(21), &[key(false, 5), key(true, 6)]);
    done(&mut log, at(32), &[key(false, 6)]);
    assert_eq!(log.begin(at(33), &resumed(10)), Ok(true));
    let all = sent(&mut log);
    assert!(all.contains(&key(false, 5)) && !all.contains(&key(true, 6)), "{all:?}");
}

#[test]
fn modifiers_that_are_held_come_before_what_was_typed_with_them() {
    // DT-66: Shift went down in the session that broke, Control and a letter were typed behind it.
    let mut log = log();
    done(&mut log, at(0), &[key(true, SHIFT), key(true, 0xffe5), key(true, 0x41)]);
    assert_eq!(sent(&mut log).len(), 3);
    log.taken(3).unwrap();
    log.end();
    done(&mut log, at(1), &[key(false, 0x41), key(true, 0x42), key(false, SHIFT), key(true, 0x63)]);
    assert_eq!(log.begin(at(2), &resumed(3)), Ok(false));
    let expected = [held(SHIFT), key(false, 0x41), key(true, 0x42), key(false, SHIFT), key(true, 0x63)];
    assert_eq!(sent(&mut log), expected, "a lock is no modifier, and a letter would be typed");
    // WB-27: a copy would overtake it.
    assert_eq!(log.copy(), None);
    log.taken(4).unwrap();
    let copy = log.copy().map(|copy| InputCopy::decode(&copy));
    assert_eq!(copy, Some(Ok(InputCopy { first: 4, inputs: expected[2..].to_vec() })));
    // It was let go behind what was passed on: said again as often as it is not known.
    log.taken(5).unwrap();
    log.end();
    assert_eq!(log.begin(at(2), &resumed(5)), Ok(false));
    assert_eq!(sent(&mut log), [held(SHIFT), key(false, SHIFT), key(true, 0x63)]);
    log.taken(7).unwrap();
    log.end();
    assert_eq!(log.begin(at(3), &resumed(7)), Ok(false));
    assert_eq!(sent(&mut log), []);
}

#[test]
fn of_motion_the_end_counts_and_buttons_change_where_they_did() {
    // DT-10.
    let mut log = log();
    let all = [pointer(0, 1), pointer(0, 2), pointer(1, 2), pointer(1, 3), pointer(1, 4), pointer(0, 4)];
    done(&mut log, at(0), &all);
    assert!(log.next_input().is_some());
    done(&mut log, at(0), &[pointer(0, 5), pointer(0, 6)]);
    assert_eq!(sent(&mut log), [pointer(1, 2), pointer(1, 4), pointer(0, 4), pointer(0, 6)]);
    done(&mut log, at(0), &[pointer(0, 7)]);
    assert_eq!(sent(&mut log), [pointer(0, 7)]);
    // What was sent and has not arrived is one motion, now.
    log.end();
    assert_eq!(log.begin(at(0), &resumed(4)), Ok(false));
    assert_eq!(sent(&mut log), [pointer(0, 7)]);
    assert_eq!(
        log.taken(6),
        Err(MessageFault::Value { what: "the number of input messages that were passed on", value: 6 })
    );
    assert_eq!(log.taken(5), Ok(()));
}

#[test]
fn what_is_kept_is_bounded_whatever_is_done_and_taken() {
    // DT-65: pastes while there is no session.
    let mut log = log();
    log.end();
    for _ in 0..10 {
        log.push(at(0), paste(1 << 20));
        assert!(log.all.bytes < 4 << 20);
    }
    assert_eq!(log.begin(at(1), &resumed(0)), Ok(true));
    assert_eq!(sent(&mut log), []);
    // A server that takes what is sent and never says so gets no more, until it does.
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..10 {
        taken += usize::from(log.push(at(1), paste(1 << 20)));
        refused += usize::from(!log.push(at(1), key(true, 1)));
        assert!(log.all.bytes < 7 << 20);
    }
    assert!(taken < 6 && refused > 4 && log.push(at(1), key(false, 1)), "{taken} {refused}");
    let first = sent(&mut log).len();
    assert!(first < 8 && log.unsent_bytes() > 1 << 20, "{first}");
    log.taken(first as u64).unwrap();
    assert!(log.next_input().is_some());
}

#[test]
fn nothing_is_kept_of_who_may_only_look_or_has_seen_nothing_yet() {
    // DT-65.
    let mut log = InputLog::new();
    assert!(!log.push(at(0), key(true, 1)));
    assert_eq!(log.begin(at(0), &anew()), Ok(false));
    assert_eq!(log.next_input(), None);
    log.end();
    assert!(log.push(at(0), key(true, 2)));
    let looks = Permissions { input: false, clipboard: false, wish: false };
    assert_eq!(log.begin(at(0), &Welcome { permissions: looks, ..welcome(None) }), Ok(false));
    assert!(!log.push(at(0), key(true, 3)) && log.next_input().is_none());
    log.end();
    assert!(!log.push(at(0), key(true, 4)) && log.entries.is_empty());
}
