//! The demonstration, short: what must hold whatever the machine is busy with.

use std::time::Duration;

use quickset_lab::demo::{self, DemoConfig, DemoError, DemoMode, LiveDemo, LiveFigures};
use quickset_lab::screen::SeenCells;

fn plan() -> DemoConfig {
    DemoConfig { duration: Duration::from_secs(1), paces: vec![10], ..DemoConfig::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_mode_delivers_the_whole_picture() {
    let mut told = 0;
    let findings = demo::run(&plan(), |progress| told += progress.modes.len()).await.unwrap();
    assert_eq!(findings.modes.iter().map(|row| row.mode).collect::<Vec<_>>(), DemoMode::ALL);
    for row in &findings.modes {
        assert!(row.picture_equal, "{}: the pictures differ", row.mode);
        assert_eq!(row.messages + row.abandoned, 1000, "{}", row.mode);
        assert_eq!(row.updates_per_s, 10);
        assert_eq!(row.updates, 10, "{}: an update was never whole, or twice", row.mode);
        let whole = row.whole_update_ms;
        assert!(whole.p50 >= 50.0 && whole.p99 >= whole.p50, "{}: {whole:?}", row.mode);
        // Nothing is whole before its last message.
        assert!(row.mode == DemoMode::Latest || whole.max + 1.0 >= row.delivery_ms.p50, "{}", row.mode);
        assert!(row.mode == DemoMode::Latest || row.overtaken == 0, "{}", row.mode);
        assert!(row.lost > 0, "{}: nothing was lost, so nothing was shown", row.mode);
        assert!(row.delivery_ms.p50 >= 50.0, "{}: faster than the link", row.mode);
    }
    let [total, partial, repaired, latest] = &findings.modes[..] else { panic!("four modes") };
    assert_eq!((total.abandoned, partial.abandoned, repaired.abandoned), (0, 0, 0));
    for without in [total, partial, latest] {
        assert_eq!((without.repair_bytes, without.recovered), (0, 0), "{}", without.mode);
    }
    assert!(repaired.recovered > 0 && repaired.repair_bytes > 0, "{repaired:?}");
    assert!(repaired.repair_bytes < repaired.sent_bytes / 4, "{repaired:?}");
    assert!(latest.blocking_ms.max < f64::EPSILON, "nothing waits where there are no fences");
    assert!(told >= DemoMode::ALL.len());
}

#[test]
fn what_is_not_to_be_repaired_is_not_compared() {
    let modes = |protection: &str| {
        DemoConfig { protection: quickset_policies::read(protection).unwrap(), ..plan() }
            .modes()
            .map(DemoMode::name)
            .collect::<Vec<_>>()
    };
    assert_eq!(modes("none"), ["total", "partial", "latest"]);
    assert_eq!(modes("rs:110/100"), ["total", "partial", "partial+fec", "latest"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_loses_everything_is_an_error_that_says_so() {
    let plan = DemoConfig { loss: "100%".parse().unwrap(), ..plan() };
    let error = demo::run(&plan, |_| ()).await.unwrap_err();
    assert!(error.to_string().contains("less loss"), "{error}");
}

/// Looks at a demonstration until what is wanted has been seen.
async fn watched(live: LiveDemo, mut enough: impl FnMut(&[LiveFigures]) -> bool) -> Result<(), DemoError> {
    let watch = live.watch();
    let look = async {
        while !enough(&watch.figures()) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        ended = live.run() => match ended? {},
        seen = tokio::time::timeout(Duration::from_secs(60), look) => { seen.expect("it is never seen"); Ok(()) }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_watches_sees_every_mode_move_and_what_the_link_does_to_it() {
    let live = LiveDemo::start(&plan(), 20).await.unwrap();
    let watch = live.watch();
    assert_eq!(watch.modes().collect::<Vec<_>>(), DemoMode::ALL);
    let mut seen: Vec<_> = DemoMode::ALL.map(|_| (SeenCells::new(), 0)).into();
    watched(live, |figures| {
        for (mode, (cells, changes)) in seen.iter_mut().enumerate() {
            *changes += usize::from(watch.changes(mode, cells, &mut Vec::new()) > 0);
        }
        let goes_on = figures.iter().all(|mode| mode.updates > 20 && mode.whole_update_p50_ms >= 50.0);
        if goes_on && seen.iter().all(|(_, changes)| *changes > 10) {
            watch.set_loss("20%".parse().unwrap());
        }
        // Each fifth packet: total order holds most of them, and its picture stands still.
        let total = &figures[0];
        let is_lossy = watch.loss().to_string() == "20%";
        is_lossy
            && total.blocked_share > 0.5
            && total.stalls.last().is_some_and(|stall| stall.lasted_ms > 100.0)
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_desktop_that_is_too_fast_for_the_link_waits() {
    let slow = DemoConfig { rate: "5mbit".parse().unwrap(), rtt: Duration::from_millis(10), ..plan() };
    // 100 kB each, a hundred times as much as fits through.
    let live = LiveDemo::start(&slow, 100).await.unwrap();
    let watch = live.watch();
    let mut waited = 0;
    watched(live, |figures| {
        waited += usize::from(watch.is_waiting());
        waited > 5 && figures.iter().all(|mode| mode.updates > 0)
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_that_breaks_ends_what_is_watched() {
    let live = LiveDemo::start(&plan(), 20).await.unwrap();
    live.watch().set_loss("100%".parse().unwrap());
    let ended = tokio::time::timeout(Duration::from_secs(90), live.run()).await.unwrap();
    assert!(ended.unwrap_err().to_string().contains("less loss"));
}
