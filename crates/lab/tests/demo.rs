//! The demonstration, short: what must hold whatever the machine is busy with.

use std::time::Duration;

use quickset_lab::demo::{self, DemoConfig, DemoMode};

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
