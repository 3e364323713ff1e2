use proptest::prelude::*;

use super::*;
use crate::message::{PutFields, code};

fn receiver(order: ScreenOrder) -> ScreenReceiver {
    ScreenReceiver::new(ReceiverConfig { order, max_bytes: 1 << 20, ..ReceiverConfig::default() })
}

/// A message with these items.
fn message(epoch: u64, first: u64, items: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_varint(epoch);
    out.put_varint(first);
    for item in items {
        out.put(item);
    }
    out
}

fn size(width: u16, height: u16) -> Vec<u8> {
    let mut out = vec![0];
    out.put_varint(width.into());
    out.put_varint(height.into());
    out
}

fn solid(rect: (u16, u16, u16, u16), colour: u32) -> Vec<u8> {
    let mut out = vec![1];
    out.put_rect(Rect::new(rect.0, rect.1, rect.2, rect.3).unwrap());
    out.put_colour(colour);
    out
}

fn copy(to: (u16, u16, u16, u16), x: u16, y: u16, versions: Option<u64>) -> Vec<u8> {
    let mut out = vec![7];
    out.put_rect(Rect::new(to.0, to.1, to.2, to.3).unwrap());
    out.put_varint(x.into());
    out.put_varint(y.into());
    if let Some(versions) = versions {
        out.put_u64(versions);
    }
    out
}

/// A receiver of a screen of 64 x 48, which is item 1.
fn ready(order: ScreenOrder) -> ScreenReceiver {
    let mut r = receiver(order);
    r.receive(&message(1, 1, &[&size(64, 48)])).unwrap();
    r
}

#[test]
fn the_examples_of_the_specification_are_drawn() {
    let hex = |text: &str| -> Vec<u8> {
        text.split_whitespace().map(|b| u8::from_str_radix(b, 16).unwrap()).collect()
    };
    let mut r = receiver(ScreenOrder::Fenced);
    r.receive(&hex("01 01 00 45 00 42 d0")).unwrap_err();
    let mut r2 = ScreenReceiver::new(ReceiverConfig::default());
    r2.receive(&hex("01 01 00 45 00 42 d0")).unwrap();
    assert!(r2.changes().resized);
    r2.receive(&hex("01 02 01 00 00 45 00 42 d0 ff ff ff 01 10 20 10 10 00 00 00")).unwrap();
    let pixel = |r: &ScreenReceiver, x, y| r.screen().pixel(x, y).unwrap();
    assert_eq!([pixel(&r2, 16, 32), pixel(&r2, 31, 47), pixel(&r2, 32, 47)], [0, 0, 0xff_ffff]);
    r2.receive(&hex("01 04 02 00 00 04 02 01 00 00 00 ff ff ff 5a")).unwrap();
    let row = |y| [0, 1, 2, 3].map(|x| pixel(&r2, x, y) & 1);
    assert_eq!([row(0), row(1)], [[0, 1, 0, 1], [1, 0, 1, 0]]);
    r2.receive(&hex("01 05 07 00 00 42 80 41 d0 00 10")).unwrap();
    assert_eq!([pixel(&r2, 16, 16), pixel(&r2, 15, 16), pixel(&r2, 0, 0)], [0, 0xff_ffff, 0xff_ffff]);
    assert_eq!(r2.changes().damage.area().bounding(), Rect::sized(1280, 720));
}

#[test]
fn what_must_not_be_is_refused() {
    let refused = |order, epoch, items: &[&[u8]]| {
        let mut r = ready(order);
        let before = r.screen().clone();
        let fault = r.receive(&message(epoch, 2, items)).unwrap_err();
        assert_eq!(r.screen(), &before, "{fault}");
        fault.code()
    };
    let whole = solid((0, 0, 64, 48), 1);
    let cases: [(ScreenOrder, u64, Vec<Vec<u8>>); 15] = [
        // DT-14.
        (ScreenOrder::Fenced, 1, vec![]),
        // DT-15: beyond an edge, empty, a source outside.
        (ScreenOrder::Fenced, 1, vec![solid((1, 0, 64, 48), 1)]),
        (ScreenOrder::Fenced, 1, vec![solid((0, 40, 4, 9), 1)]),
        (ScreenOrder::Fenced, 1, vec![solid((3, 3, 0, 4), 1)]),
        (ScreenOrder::Fenced, 1, vec![copy((0, 0, 60, 40), 5, 0, None)]),
        (
            ScreenOrder::Fenced,
            1,
            vec![vec![7, 0, 0, 4, 4, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0]],
        ),
        // DT-17: not alone, in an epoch that was.
        (ScreenOrder::Fenced, 2, vec![size(9, 9), solid((0, 0, 1, 1), 1)]),
        (ScreenOrder::Fenced, 1, vec![size(9, 9)]),
        (ScreenOrder::Fenced, 0, vec![size(9, 9)]),
        // DT-42.
        (ScreenOrder::Fenced, 1, vec![vec![8, 0, 0, 1, 1, 0]]),
        // An item that ends too early, or has nothing but a kind.
        (ScreenOrder::Fenced, 1, vec![whole[..7].to_vec()]),
        (ScreenOrder::Fenced, 1, vec![vec![1]]),
        // DT-30, DT-85: cells are cut, without versions.
        (ScreenOrder::Latest, 1, vec![solid((0, 0, 15, 16), 1)]),
        (ScreenOrder::Latest, 1, vec![solid((8, 0, 16, 16), 1)]),
        // DT-33: without versions.
        (ScreenOrder::Latest, 1, vec![copy((0, 0, 16, 16), 16, 0, None)]),
    ];
    for (order, epoch, items) in cases {
        let items: Vec<&[u8]> = items.iter().map(Vec::as_slice).collect();
        assert_eq!(refused(order, epoch, &items), code::PROTOCOL, "{items:02x?}");
    }
    // DT-5.
    assert!(ready(ScreenOrder::Fenced).receive(&vec![1; 16385]).is_err());
    // DT-20.
    let fault = ready(ScreenOrder::Fenced).receive(&message(2, 2, &[&size(600, 600)])).unwrap_err();
    assert_eq!(fault.code(), code::TOO_LARGE);
    assert!(ready(ScreenOrder::Fenced).receive(&message(2, 2, &[&size(16385, 1)])).is_err());
}

#[test]
fn what_one_message_draws_is_bounded() {
    // DT-16: 4 screens and 2^18 pixels; a screen is 3072.
    let whole = solid((0, 0, 64, 48), 1);
    let fill = |n: usize| {
        let items: Vec<&[u8]> = (0..n).map(|_| whole.as_slice()).collect();
        ready(ScreenOrder::Fenced).receive(&message(1, 2, &items))
    };
    let most = (262_144 + 4 * 3072) / 3072;
    assert_eq!(fill(most), Ok(()));
    assert!(fill(most + 1).is_err());
    // 2^18 pixels to decode: palettes of 3072 pixels, a byte each eight.
    let mut palette = vec![2];
    palette.put_rect(Rect::sized(64, 48));
    palette.extend([1, 0, 0, 0, 1, 1, 1]);
    palette.extend([0; 384]);
    let decode = |n: usize| {
        let mut r = ready(ScreenOrder::Fenced);
        let items: Vec<&[u8]> = (0..n).map(|_| palette.as_slice()).collect();
        r.receive(&message(1, 2, &items))
    };
    assert_eq!(decode(40), Ok(()), "as many as a message of 16 kB holds");
}

#[test]
fn another_epoch_is_passed_over() {
    // DT-19.
    let mut r = ready(ScreenOrder::Fenced);
    r.receive(&message(2, 2, &[&solid((0, 0, 64, 48), 5)])).unwrap();
    assert_eq!((r.screen().pixel(0, 0), r.stats().stale), (Some(0), 1));
    r.receive(&message(2, 3, &[&size(64, 48)])).unwrap();
    r.receive(&message(1, 4, &[&solid((0, 0, 64, 48), 5)])).unwrap();
    assert_eq!((r.screen().pixel(0, 0), r.stats().stale), (Some(0), 2));
}

#[test]
fn newer_cells_stay() {
    // DT-31: item 9 came before item 5, and only where they do not overlap is 5 drawn.
    let mut r = ready(ScreenOrder::Latest);
    r.receive(&message(1, 9, &[&solid((16, 0, 48, 16), 9)])).unwrap();
    r.receive(&message(1, 5, &[&solid((0, 0, 32, 48), 5)])).unwrap();
    let at = |x, y| r.screen().pixel(x, y).unwrap();
    assert_eq!([at(0, 0), at(16, 0), at(31, 15), at(16, 16), at(63, 0)], [5, 9, 9, 5, 9]);
}

#[test]
fn copies_are_carried_out_exactly_or_not_at_all() {
    // DT-33, DT-34. Items 2 and 3 fill the left and right half; a copy of 20 columns to the right cuts cells.
    let start = || {
        let mut r = ready(ScreenOrder::Latest);
        r.receive(&message(1, 2, &[&solid((0, 0, 32, 48), 2), &solid((32, 0, 32, 48), 3)])).unwrap();
        let sum = r.versions.sum(Rect::sized(20, 48), Rect::new(32, 0, 20, 48).unwrap());
        (r, copy((32, 0, 20, 48), 0, 0, Some(sum)))
    };
    let at = |r: &ScreenReceiver, x, y| r.screen().pixel(x, y).unwrap();

    let (mut r, item) = start();
    r.receive(&message(1, 4, &[&item])).unwrap();
    assert_eq!([at(&r, 32, 0), at(&r, 51, 47), at(&r, 52, 0), at(&r, 31, 0)], [2, 2, 3, 2]);

    // A covered cell that is newer stays, the others are copied.
    let (mut r, item) = start();
    r.receive(&message(1, 5, &[&solid((32, 16, 16, 16), 9)])).unwrap();
    r.receive(&message(1, 4, &[&item])).unwrap();
    assert_eq!([at(&r, 32, 0), at(&r, 32, 16), at(&r, 48, 16), at(&r, 32, 32)], [2, 9, 2, 2]);
    assert_eq!(r.control(Time::ZERO), None);

    // A source that is newer, and a cut cell that is: nothing is copied, and the server hears of it.
    for newer in [(0, 0, 16, 16), (48, 32, 16, 16)] {
        let (mut r, item) = start();
        r.receive(&message(1, 5, &[&solid(newer, 9)])).unwrap();
        let before = r.screen().clone();
        r.receive(&message(1, 4, &[&item])).unwrap();
        assert_eq!(r.screen(), &before);
        assert_eq!(r.control(Time::ZERO), Some(FromClient::Unable { item: 4 }));
    }
}

#[test]
fn refusals_are_bounded() {
    let mut r = ready(ScreenOrder::Latest);
    let wrong = copy((0, 0, 16, 16), 16, 0, Some(7));
    for item in 0..300 {
        r.receive(&message(1, 2 + item, &[&wrong])).unwrap();
    }
    let mut answers = 0;
    let mut refreshed = false;
    while let Some(answer) = r.control(Time::ZERO) {
        answers += 1;
        refreshed |= matches!(answer, FromClient::Refresh(Refresh { restart: false, .. }));
    }
    assert!(refreshed && answers <= 257, "{answers}");
}

#[test]
fn marks_that_are_not_met_end_in_ever_rarer_refreshes() {
    // DT-37, DT-38, DT-39.
    let second = Time::from_millis(1000);
    let mut r = ready(ScreenOrder::Fenced);
    let after = |s: u64| Time::from_millis(1000 * s);
    r.mark(second, ScreenMark { epoch: 1, items: 2, sum: Some(r.screen().crc32()) });
    assert_eq!((r.control(second), r.next_deadline()), (None, None), "all is well");
    r.mark(second, ScreenMark { epoch: 1, items: 5, sum: None });
    let asked: Vec<u64> = (1..120)
        .filter(|&s| matches!(r.control(after(s)), Some(FromClient::Refresh(Refresh { restart: true, .. }))))
        .collect();
    // After 3 s, then 6, 12, 24, 48 later.
    assert_eq!(asked, [4, 10, 22, 46, 94]);
    // The sum alone is wrong: pixels, on the same stream.
    let mut r = ready(ScreenOrder::Fenced);
    r.mark(second, ScreenMark { epoch: 1, items: 2, sum: Some(1) });
    assert_eq!(r.control(after(3)), None);
    let whole = Rect::sized(64, 48);
    assert_eq!(r.control(after(4)), Some(FromClient::Refresh(Refresh { restart: false, rect: whole })));
    assert_eq!(r.control(after(30)), None);
}

#[test]
fn a_mark_that_is_not_met_ends_in_a_refresh_though_one_before_it_was() {
    // DT-37: of every mark.
    let at = Time::from_millis;
    let mut r = ready(ScreenOrder::Fenced);
    for (ms, items) in [(1000, 4), (1500, 6), (2000, 9)] {
        r.mark(at(ms), ScreenMark { epoch: 1, items, sum: (items == 9).then_some(1) });
        assert_eq!(r.control(at(ms)), None);
    }
    // Items 2 to 4 come, and nothing after them.
    for item in 2..5 {
        r.receive(&message(1, item, &[&solid((0, 0, 16, 16), 5)])).unwrap();
    }
    assert_eq!((r.control(at(2500)), r.next_deadline()), (None, Some(at(5500))));
    assert_eq!(r.control(at(5499)), None);
    let whole = Rect::sized(64, 48);
    assert_eq!(r.control(at(5500)), Some(FromClient::Refresh(Refresh { restart: true, rect: whole })));
    // Nobody is woken again and again while there is nothing to do.
    assert_eq!(r.control(at(5501)), None);
    assert!(r.next_deadline().unwrap() > at(5501));
    // However many marks a server sends, and the answer is the same.
    for items in 10..100_000 {
        r.mark(at(5600), ScreenMark { epoch: 1, items, sum: None });
    }
    r.receive(&[2, 1, 0, 32, 32]).unwrap();
    assert_eq!((r.control(at(5600)), r.next_deadline()), (None, None), "a new epoch is beyond all marks");
}

#[test]
fn a_screen_that_still_moves_is_not_begun_anew_however_far_behind_it_is() {
    // DT-37: on a slow path or a slow machine, and then it stops.
    let at = Time::from_millis;
    let mut r = ready(ScreenOrder::Fenced);
    for second in 1..60 {
        r.mark(at(1000 * second), ScreenMark { epoch: 1, items: 40 * second, sum: None });
        r.receive(&message(1, 1 + second, &[&solid((0, 0, 16, 16), 5)])).unwrap();
        assert_eq!(r.control(at(1000 * second)), None);
        assert!(r.next_deadline() >= Some(at(1000 * second + 3000)));
        // Not even just before the next comes.
        assert_eq!(r.control(at(1000 * second + 999)), None);
    }
    assert_eq!((r.next_deadline(), r.control(at(61_999))), (Some(at(62_000)), None));
    assert!(matches!(r.control(at(62_000)), Some(FromClient::Refresh(Refresh { restart: true, .. }))));
}

proptest! {
    #[test]
    fn any_message_is_drawn_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0u8..9, latest: bool,
    ) {
        let mut r = ready(if latest { ScreenOrder::Latest } else { ScreenOrder::Fenced });
        let _ = r.receive(&bytes);
        let _ = r.receive(&[&[1, 7, kind][..], &bytes].concat());
        prop_assert!(r.screen().bounds().area() * 4 <= 1 << 20);
    }
}

/// The item as it is to who takes patches.
fn patch(mut item: Vec<u8>, versions: u64) -> Vec<u8> {
    item.put_u64(versions);
    item
}

#[test]
fn a_part_of_a_cell_is_drawn_where_the_rest_is_the_servers() {
    // DT-85. Cells 0 and 1 are of item 2, all others are as they were.
    let pixel = |r: &ScreenReceiver, x, y| r.screen().pixel(x, y).unwrap();
    let mut r = ready(ScreenOrder::Latest);
    r.receive(&message(1, 2, &[&solid((0, 0, 32, 16), 7)])).unwrap();
    let mut versions = CellValues::<u64>::new();
    versions.resize(64, 48);
    for place in [0, 1] {
        versions.set(place, 2);
    }
    // Cells 0 and 2 are cut, cell 1 is covered.
    let rect = (8, 0, 32, 16);
    let sum = versions.sum(Rect::EMPTY, Rect::new(8, 0, 32, 16).unwrap());
    let good = message(1, 3, &[&patch(solid(rect, 5), sum)]);
    let mut other = r;
    // A sum of other versions: the covered cell is drawn, the others are not.
    let mut r = ready(ScreenOrder::Latest);
    r.receive(&good).unwrap();
    assert_eq!([4, 8, 16, 31, 32].map(|x| pixel(&r, x, 3)), [0, 0, 5, 5, 0]);
    assert_eq!(r.control(Time::ZERO), Some(FromClient::Unable { item: 3 }));
    // Once is enough.
    assert_eq!(r.control(Time::ZERO), None);
    other.receive(&good).unwrap();
    let drawn = [7, 5, 5, 5, 5, 0];
    assert_eq!([7, 8, 16, 31, 39, 40].map(|x| pixel(&other, x, 3)), drawn);
    // The same again does nothing, and is no reason to complain; nor is what newer items have drawn over.
    other.receive(&good).unwrap();
    assert_eq!([7, 8, 16, 31, 39, 40].map(|x| pixel(&other, x, 3)), drawn);
    assert_eq!(other.control(Time::ZERO), None);
    // A later one builds on it: cell 0 is of item 3 now.
    for place in [0, 1, 2] {
        versions.set(place, 3);
    }
    let sum = versions.sum(Rect::EMPTY, Rect::new(0, 0, 8, 16).unwrap());
    other.receive(&message(1, 4, &[&patch(solid((0, 0, 8, 16), 9), sum)])).unwrap();
    assert_eq!([7, 8, 16].map(|x| pixel(&other, x, 3)), [9, 5, 5]);
    assert_eq!(other.control(Time::ZERO), None);
}
