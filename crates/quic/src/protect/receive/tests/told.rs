//! What the peer is told of: recoveries, and the window.

use super::*;

/// FEC-38: told beside every ACK until it is known to have arrived, or does not matter any more.
#[test]
fn what_was_recovered_is_news() {
    let mut one = receiving(64, 1);
    for sid in [0, 2, 3] {
        source(&mut one, 4, sid).unwrap();
    }
    let over = header(4, 0, 4, 0, 1);
    give(&mut one, over, &repair(over)).unwrap();
    drain(&mut one);
    let write = |one: &mut ProtectReceiving, ms| {
        let (mut bytes, mut tokens) = ([0; 100], Vec::new());
        let mut w = PacketWriter::new(quickset_wire::Writer::new(&mut bytes), &mut tokens);
        one.write_acks(&mut w, Time::from_millis(ms), Duration::from_millis(50));
        let len = w.len();
        bytes[..len].to_vec()
    };
    // SYMBOL_ACK of session 4, SID 1, and a PING, once in a round trip (FEC-41).
    let told = [0x7f, 0x62, 4, 1, 0, 0];
    assert_eq!(write(&mut one, 100), [&told[..], &[1]].concat());
    assert_eq!(write(&mut one, 149), told);
    assert_eq!(write(&mut one, 150), [&told[..], &[1]].concat());
    // A REPAIR from SID 2 on says that the encoder knows.
    let over = header(4, 2, 2, 0, 2);
    give(&mut one, over, &repair(over)).unwrap();
    assert!(write(&mut one, 300).is_empty());
}

/// FEC-45, FEC-47.
#[test]
fn a_change_of_the_window_is_told_until_it_arrived() {
    let write = |one: &mut ProtectReceiving| {
        let (mut bytes, mut tokens) = ([0; 100], Vec::new());
        let mut w = PacketWriter::new(quickset_wire::Writer::new(&mut bytes), &mut tokens);
        one.write(&mut w);
        let len = w.len();
        bytes[..len].to_vec()
    };
    let mut one = receiving(64, 1);
    assert_eq!((one.want(), write(&mut one)), (Want::None, vec![]));
    one.set_window(32);
    assert_eq!(
        (one.want(), write(&mut one)),
        (Want::None, vec![]),
        "FEC-1: the peer has offered nothing yet"
    );
    one.agree();
    assert_eq!((one.want(), write(&mut one)), (Want::Data, vec![0x7f, 0x63, 1, 32]));
    assert_eq!(one.want(), Want::None);
    one.window_lost(1);
    assert_eq!((one.want(), write(&mut one)), (Want::Lost, vec![0x7f, 0x63, 1, 32]));
    one.set_window(16);
    one.window_lost(1);
    assert_eq!((one.want(), write(&mut one)), (Want::Data, vec![0x7f, 0x63, 2, 16]));
    one.window_acked(2);
    one.window_lost(1);
    assert_eq!(one.want(), Want::None);
    let mut none = receiving(0, 1);
    none.set_window(8);
    none.agree();
    assert_eq!(none.want(), Want::None);
}
