//! What keys make of links, where words stand for more than a number.

use quickset_base::Duration;
use quickset_sim::{Burst, LossModel};

use super::*;

/// A file with a recording of a rate, as long as it is needed.
struct Recorded(std::path::PathBuf);

impl Recorded {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("quickset-links-{name}-{}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// What is counted in products of bandwidth and delay goes by the rate that the link has, not by the one
/// which a recording takes the place of; so does what others take.
#[test]
fn a_recorded_rate_is_the_rate_of_everything_that_is_counted_by_it() {
    // 0.5 Mbit/s and 1.5 Mbit/s, a second each: 1 Mbit/s in the mean.
    let trace = Recorded::new("steps", "0 500kbit\n1 1500kbit\n2 repeat\n");
    let file = trace.0.display();
    let words = |more: &str| format!("flows=bbr rate_mbit=100 rate_trace={file} rtt_ms=80 loss=0 {more}");
    // 1 Mbit/s for 80 ms are 10 kB.
    assert_eq!(setting("congestion", &words("queue=1bdp")).down.queue, LinkQueue::Bytes(10_000));
    assert_eq!(setting("congestion", &words("queue=4bdp")).down.queue, LinkQueue::Bytes(40_000));
    let cross = setting("congestion", &words("queue=1bdp cross=constant cross_share=0.5")).cross;
    // Half of 1 Mbit/s, of which 1472 of 1500 bytes are payload.
    assert_eq!(cross[0].pace, quickset_sim::TrafficPace::constant(490_666));
    // FlEC: floor(1.5 · 1 / 8 · 2^20 · 0.4 / 1200) = 65.
    let messages = setting("messages", &format!("mode=plain api=no rate_trace={file} owd_ms=200 loss=0"));
    assert_eq!(messages.down.queue, LinkQueue::Packets(65));
}

/// A recording that ends with nothing has a mean of nothing, and no run waits for ever.
#[test]
fn a_recorded_rate_that_ends_at_zero_is_a_setting() {
    let trace = Recorded::new("end", "0 8mbit\n1 0\n");
    let setting = setting("messages", &format!("mode=plain api=no rate_trace={} loss=0", trace.0.display()));
    assert!(setting.limit < Duration::from_secs(10_000_000), "{:?}", setting.limit);
}

/// Half the loss of the profile as-published: as many bursts fewer, of the same length, in whichever model.
#[test]
fn the_profile_of_the_paper_halves_every_loss_that_can_be_halved() {
    let loss = |profile: &str, model: &str| {
        setting("screen-streaming", &format!("profile={profile} mode=total loss={model}")).down.loss
    };
    let halved = |model: &str| loss("as-published", model);
    assert_eq!(halved("1%"), LossModel::Independent(0.005));
    assert_eq!(halved("burst:100,5,20"), LossModel::Burst(Burst { every: 200, length: 5, jitter: 20 }));
    let (LossModel::Timed(whole), LossModel::Timed(half)) =
        (loss("ours", "get:990ms,10ms,90%,0.4%"), halved("get:990ms,10ms,90%,0.4%"))
    else {
        panic!("chains in time")
    };
    assert_eq!((half.bad, half.good), (whole.bad, whole.good * 2));
    assert!((half.bad_loss - 0.9).abs() < 1e-12 && (half.good_loss - 0.002).abs() < 1e-12, "{half:?}");
    assert_eq!(halved("list:3,7"), loss("ours", "list:3,7"));
}

/// Of a link that others fill no share is left to use.
#[test]
fn what_others_fill_has_no_utilisation() {
    let utilisation = |share: &str| {
        let words = "flows=bbr queue=1bdp rate_mbit=8 rtt_ms=20 seconds=2 cross=constant";
        let params = point("congestion", &format!("{words} cross_share={share}"));
        row(find("congestion").unwrap(), &params, 1).metrics.utilisation
    };
    assert_eq!(utilisation("1"), None);
    assert!(utilisation("0.25").is_some_and(|used| used < 1.1));
}
