//! A packet's payload: every frame that is read comes back from its own encoding, and ends.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quickset_wire::Writer;
use quickset_wire::frame::{self, Frame, Frames, SymbolFrames};

fuzz_target!(|payload: &[u8]| {
    let mut frames = Frames::new(payload);
    let mut left = payload.len();
    while let Some(item) = frames.next() {
        assert!(frames.remaining() < left, "every frame takes a byte");
        left = frames.remaining();
        match item {
            Ok(frame) => round_trip(&frame),
            Err(_) => assert!(frames.next().is_none(), "a fault is the last item"),
        }
    }
});

fn round_trip(frame: &Frame<'_>) {
    let mut buffer = vec![0; frame.size()];
    let mut w = Writer::new(&mut buffer);
    frame.encode(&mut w);
    assert_eq!(w.room(), 0, "size and encoding differ: {frame:?}");
    let mut again = Frames::new(&buffer);
    assert_eq!(again.next(), Some(Ok(*frame)));
    assert_eq!(again.next(), None);
    match frame {
        Frame::Ack(ack) => rewrite(ack),
        Frame::SymbolAck(ack) => {
            let mut buffer = vec![0; frame.size()];
            let written = frame::symbol_ack(&mut Writer::new(&mut buffer), ack.session, ack.ranges());
            assert_eq!(written, ack.ranges().len());
        }
        Frame::SourceSymbol { data, .. } => {
            for inner in SymbolFrames::new(data).map_while(Result::ok) {
                assert!(inner.allowed_in_symbol());
            }
        }
        _ => {}
    }
}

/// The ranges of an ACK, written by the writer that a connection uses, say the same.
fn rewrite(ack: &frame::Ack<'_>) {
    let mut buffer = vec![0; 64 + 16 * ack.ranges().len()];
    let mut w = Writer::new(&mut buffer);
    let written = frame::ack(&mut w, ack.ranges(), ack.delay, ack.ecn);
    assert_eq!(written, ack.ranges().len().min(1 << 14));
    let Some(Ok(Frame::Ack(again))) = Frames::new(w.written()).next() else { panic!("not an ACK") };
    assert!(again.ranges().eq(ack.ranges().take(written)));
    assert_eq!((again.largest, again.delay, again.ecn), (ack.largest, ack.delay, ack.ecn));
}
