//! What is packed for viewers, and what is not.

use std::time::Duration;

use super::*;

/// What TigerVNC's viewer asks for, unless somebody tells it otherwise: Tight, fences, continuous updates,
/// and level 2 of compression.
const TIGERVNC: &[i32] = &[7, -312, -313, -254];

/// A page of text in two colours, another one each time.
fn turn(desk: &ViewerScreen, page: u32) {
    let bounds = desk.lock().screen.bounds();
    let mut from = desk.lock().screen.clone();
    let ink = |n: u32| if (n / 3 * 7 + page) % 5 == 0 { 0x0020_2020 } else { 0x00ff_ffff };
    let pixels: Vec<u32> = (0..bounds.area() as u32).map(ink).collect();
    from.put(bounds, &pixels).unwrap();
    desk.draw(&from, &Damage::from(bounds));
}

/// Turns pages for a viewer that takes so many milliseconds for each, and says how many bytes each took.
fn pages(is_local: bool, takes: &[u64]) -> Vec<usize> {
    let desk = desk(640, 480);
    let mut viewer = LocalViewer::new(&desk, Security::None, is_local);
    let mut now = Instant::now();
    let mut hears = |viewer: &mut LocalViewer, after: u64, said: &[u8]| {
        now += Duration::from_millis(after);
        viewer.feed(now, said).unwrap();
        viewer.compose(now);
        viewer.rfb().output().split().len()
    };
    // RFC 6143 §7.1 and §7.3, SetEncodings, and EnableContinuousUpdates of the whole.
    hears(&mut viewer, 0, b"RFB 003.008\n\x01\x01");
    let head = [2, 0, 0, TIGERVNC.len() as u8];
    let wishes: Vec<u8> = head.into_iter().chain(TIGERVNC.iter().flat_map(|n| n.to_be_bytes())).collect();
    hears(&mut viewer, 0, &wishes);
    hears(&mut viewer, 0, &[150, 1, 0, 0, 0, 0, 2, 128, 1, 224]);
    let mut sizes = Vec::new();
    for (page, &ms) in (0..).zip(takes) {
        turn(&desk, page);
        sizes.push(hears(&mut viewer, 0, &[]));
        hears(&mut viewer, ms, b"\xf8\0\0\0\0\0\0\x01\x06update");
    }
    sizes
}

#[test]
fn nothing_is_packed_for_a_viewer_of_this_machine_that_takes_it_as_fast() {
    const RAW: usize = 640 * 480 * 4;
    let here = pages(true, &[3; 4]);
    assert!(here.iter().all(|&bytes| bytes >= RAW), "{here:?}");
    // As through a tunnel of 100 Mbit/s: after two pages it is seen.
    let tunnel = pages(true, &[98, 98, 5, 5]);
    assert!(tunnel[..2].iter().all(|&bytes| bytes >= RAW), "{tunnel:?}");
    assert!(tunnel[2..].iter().all(|&bytes| bytes < RAW / 20), "{tunnel:?}");
    let elsewhere = pages(false, &[3; 2]);
    assert!(elsewhere.iter().all(|&bytes| bytes < RAW / 20), "{elsewhere:?}");
}
