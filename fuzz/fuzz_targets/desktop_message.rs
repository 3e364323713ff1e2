//! Control and input messages of the desktop: what is read comes back from its own records, through an inbox.
//! The first byte of the input says whose messages they are, the second cuts the rest into records.
#![no_main]

use std::fmt::Debug;

use libfuzzer_sys::fuzz_target;
use quickset_desktop::message::{FromClient, FromServer, PersonInput, RecordInbox, StreamMessage};

fuzz_target!(|input: &[u8]| {
    let Some((&[whose, length], records)) = input.split_first_chunk() else { return };
    let records = records.chunks(usize::from(length) * 8 + 1);
    match whose % 3 {
        0 => read::<FromClient>(records),
        1 => read::<FromServer>(records),
        _ => read::<PersonInput>(records),
    }
});

fn read<'a, M: StreamMessage + PartialEq + Debug>(records: impl Iterator<Item = &'a [u8]>) {
    let mut inbox = RecordInbox::<M>::new();
    for record in records {
        match inbox.receive(record) {
            Ok(None) => {}
            Ok(Some(message)) => round_trip(&message),
            Err(_) => return,
        }
    }
}

fn round_trip<M: StreamMessage + PartialEq + Debug>(message: &M) {
    let mut inbox = RecordInbox::<M>::new();
    let records = message.records();
    let (last, parts) = records.split_last().expect("a message is one record at least");
    for part in parts {
        assert_eq!(inbox.receive(part), Ok(None));
    }
    assert_eq!(inbox.receive(last).as_ref().map(Option::as_ref), Ok(Some(message)));
}
