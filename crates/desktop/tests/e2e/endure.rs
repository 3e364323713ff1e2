//! Minutes of varied work on the page in Chromium, over a path that loses 2 % in bursts.

use std::time::{Duration, Instant};

use quickset_lab::relay::Relay;

use super::browser::ChromiumSeat;
use super::page_scene::{ANYWHERE, PageScene};
use super::{UNICODE, seconds};

/// As long as `cargo xtask e2e --seconds` says, but no less than this.
const SHORT: Duration = Duration::from_secs(30);
/// Packets are lost in bursts of four, two in a hundred in the long run.
const BURSTS: &str = "rate=100mbit delay=50ms queue=1MB loss=ge:0.51%,25%";
/// Of the page's window, and of the desktop when somebody else chooses.
const WINDOWS: [(u16, u16); 4] = [(740, 540), (1000, 740), (840, 560), (1280, 800)];
const DESKTOPS: [(u16, u16); 3] = [(1024, 768), (800, 600), (1366, 700)];

#[tokio::test]
#[ignore = "needs X programs and Chromium: cargo xtask e2e"]
async fn a_page_endures_bursts_of_losses_and_resizes() {
    let between = async |server| {
        let path: quickset_sim::LinkSpec = BURSTS.parse().unwrap();
        let relay = Relay::start(server, path.clone(), path, 11).unwrap();
        (relay.address(), relay)
    };
    let mut scene = PageScene::set("endure", ANYWHERE, between, ChromiumSeat::open).await;
    scene.seat.may_use_the_clipboard();
    let end = Instant::now() + seconds().max(SHORT);
    let (mut rounds, mut rests) = (0, Vec::new());
    while Instant::now() < end {
        scene.type_keys(40).await;
        scene.work(Duration::from_secs(6)).await;
        let begun = Instant::now();
        scene.settle().await;
        // With the pointer's way to its place, which is most of it.
        rests.push(begun.elapsed());
        let (width, height) = WINDOWS[rounds % WINDOWS.len()];
        scene.resize(width, height).await;
        scene.settle().await;
        // Texts that are new each time, one of several packets.
        let text = format!("{rounds} {UNICODE}").repeat(if rounds % 2 == 0 { 1 } else { 100 });
        scene.carry_here(&text, "navigator.clipboard.readText()").await;
        scene.carry_there(&text.chars().rev().collect::<String>()).await;
        let (width, height) = DESKTOPS[rounds % DESKTOPS.len()];
        scene.resize_there(width, height).await;
        scene.settle().await;
        rounds += 1;
    }
    assert_eq!(scene.way().await, "QUIC");
    scene.tell("endure");
    assert!(scene.served().starts_with("client=1 "), "one session did it all");
    let counts = scene.between.counts();
    let share = counts
        .map(|way| f64::from(u32::try_from(way.lost).unwrap()) / f64::from(u32::try_from(way.sent).unwrap()));
    let longest = rests.iter().max().unwrap();
    println!("  {rounds} rounds; equal at rest after {longest:?} at most; lost {share:.4?}: {counts:?}");
    let recovered: u64 = scene.figure("recovered by repair").await.parse().unwrap();
    assert!(recovered > 0 && share.iter().all(|share| *share > 0.005), "{share:?}, {recovered} recovered");
    scene.end();
}
