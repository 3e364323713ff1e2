//! Screen messages: whatever comes is drawn or refused, and the screen stays within its limit. The first byte
//! of the input is the order and the size of the screen, then come messages, each behind its length in two
//! bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quickset_base::Time;
use quickset_desktop::message::{ScreenMark, ScreenOrder};
use quickset_desktop::receiver::{ReceiverConfig, ScreenReceiver};

const MAX_BYTES: usize = 1 << 20;

fuzz_target!(|input: &[u8]| {
    let Some((&first, mut rest)) = input.split_first() else { return };
    let order = [ScreenOrder::Ordered, ScreenOrder::Fenced, ScreenOrder::Latest][usize::from(first % 3)];
    let mut receiver =
        ScreenReceiver::new(ReceiverConfig { order, max_bytes: MAX_BYTES, ..ReceiverConfig::default() });
    // Item 1 of epoch 1: a size from 8 x 40 to 71 x 103.
    let side = first / 4;
    let size = [1, 1, 0, 0x40, side + 8, 0x40, side + 40];
    receiver.receive(&size).expect("a size of our own");
    while let Some((&length, after)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes(length));
        let (message, after) = after.split_at(after.len().min(length));
        rest = after;
        if receiver.receive(message).is_err() {
            break;
        }
    }
    assert!(receiver.screen().bounds().area() * 4 <= MAX_BYTES);
    assert!(receiver.screen().pixels().iter().all(|pixel| pixel >> 24 == 0));
    receiver.mark(Time::ZERO, ScreenMark { epoch: 1, items: 2, sum: Some(0) });
    let answers = std::iter::from_fn(|| receiver.control(Time::from_millis(10_000))).take(1000).count();
    assert!(answers < 1000, "answers are bounded");
});
