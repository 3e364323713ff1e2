//! How flows share a link.

use quickset_base::Duration;
use quickset_base::number::Unsigned as _;
use quickset_sim::TrafficPace;

use super::{RunMetrics, Yardstick};
use crate::play::{FlowSeen, RunSeen, Setting};

/// How flows that go on for the whole run share in its second half, and when they first did.
pub(super) fn shared(metrics: &mut RunMetrics, setting: &Setting, seen: &RunSeen, yardstick: Yardstick) {
    let (from, to) = (seen.ended / 2, seen.ended);
    let seconds = to.saturating_sub(from).as_secs_f64();
    if seconds <= 0.0 {
        return;
    }
    let rates: Vec<f64> = seen
        .flows
        .iter()
        .map(|flow| (delivered_by(flow, to) - delivered_by(flow, from)).approx() * 8.0 / seconds)
        .collect();
    let (sum, squares) = (rates.iter().sum::<f64>(), rates.iter().map(|rate| rate * rate).sum::<f64>());
    metrics.goodput_bps = Some(sum);
    if squares > 0.0 {
        metrics.fairness = Some(sum * sum / (rates.len().approx() * squares));
        metrics.first_share = Some(rates[0] / sum);
    }
    metrics.fair_after_s = fair_after(setting, seen).map(|time| time.as_secs_f64());
    let payload = setting.flows.first().map_or(1.0, |flow| {
        let mtu = f64::from(flow.transport.mtu);
        mtu / (mtu + f64::from(setting.down.overhead))
    });
    metrics.utilisation = yardstick.rate.and_then(|rate| {
        let others = setting.cross.iter().map(|cross| {
            let (bytes, overhead) = (f64::from(cross.bytes), f64::from(setting.down.overhead));
            mean_bps(cross.pace) * (bytes + overhead) / bytes
        });
        // Of a link that others fill, but for what is rounded, there is no share.
        let left = rate.approx() - others.sum::<f64>();
        (left > rate.approx() * 1e-6).then(|| sum / (left * payload))
    });
}

/// Bits of payload a second in the long run.
fn mean_bps(pace: TrafficPace) -> f64 {
    match pace {
        TrafficPace::Constant { bps } | TrafficPace::Poisson { bps } => bps.approx(),
        TrafficPace::OnOff { bps, on, off, .. } => {
            bps.approx() * on.as_secs_f64() / (on + off).as_secs_f64().max(1e-9)
        }
    }
}

/// From the start of the last flow to the first ten seconds in which each gets what it would get of equal
/// parts, or a tenth more or less.
fn fair_after(setting: &Setting, seen: &RunSeen) -> Option<Duration> {
    let count = seen.flows.len();
    let last = setting.flows.iter().map(|flow| flow.start).max().filter(|_| count > 1)?;
    let starts = (0..).map(|step| last + STEP * step).take_while(|from| *from + WINDOW <= seen.ended);
    let is_fair = |from: &Duration| {
        let shares = shares(seen, *from, *from + WINDOW);
        shares.is_some_and(|shares| {
            shares.iter().all(|share| (share * count.approx() - 1.0).abs() <= FAIR + 1e-9)
        })
    };
    starts.into_iter().find(is_fair).map(|from| from.saturating_sub(last))
}

/// Each flow's part of what all got, in per cent, in windows of ten seconds one after the other: at their
/// ends.
pub(super) fn series(setting: &Setting, seen: &RunSeen) -> Vec<(String, Vec<(f64, f64)>)> {
    if seen.flows.len() < 2 {
        return Vec::new();
    }
    let ends = (1..).map(|n| WINDOW * n).take_while(|end| *end <= seen.ended);
    let windows: Vec<(f64, Vec<f64>)> = ends
        .filter_map(|end| Some((end.as_secs_f64(), shares(seen, end.saturating_sub(WINDOW), end)?)))
        .collect();
    let flows = setting.flows.iter().enumerate();
    flows
        .map(|(n, flow)| {
            let points = windows.iter().map(|(end, shares)| (*end, shares[n] * 100.0));
            (format!("share/{}", flow.name), points.collect())
        })
        .collect()
}

/// Each flow's part of what all got in a stretch of time; `None` when nobody got anything.
fn shares(seen: &RunSeen, from: Duration, to: Duration) -> Option<Vec<f64>> {
    let got: Vec<u64> =
        seen.flows.iter().map(|flow| delivered_by(flow, to) - delivered_by(flow, from)).collect();
    let all: u64 = got.iter().sum();
    (all > 0).then(|| got.iter().map(|bytes| bytes.approx() / all.approx()).collect())
}

/// Payload that the client had at a time.
pub(super) fn delivered_by(flow: &FlowSeen, at: Duration) -> u64 {
    let before = flow.progress.partition_point(|look| look.at <= at);
    before.checked_sub(1).map_or(0, |last| flow.progress[last].delivered)
}

/// Long enough for a cycle of any controller over a path of 100 ms to count little.
const WINDOW: Duration = Duration::from_secs(10);
/// How finely the first fair window is looked for.
const STEP: Duration = Duration::from_secs(1);
/// How far from an equal part is fair.
const FAIR: f64 = 0.1;

#[cfg(test)]
mod tests {
    use quickset::Algorithm;
    use quickset_sim::LinkSpec;

    use super::*;
    use crate::play::{FlowProgress, PlayFlow, Work};

    /// Two flows, the second from the tenth second on, that get so many bytes in each second.
    fn played(seconds: u64, got: fn(u64) -> [u64; 2]) -> (Setting, RunSeen) {
        let mut flows = vec![PlayFlow::new("a", Algorithm::Bbr, Work::Bytes(None)); 2];
        (flows[1].name, flows[1].start) = ("b".to_owned(), Duration::from_secs(10));
        let (link, limit) = (LinkSpec::default(), Duration::from_secs(seconds));
        let setting = Setting::new(link, flows, limit);
        let mut seen = RunSeen { ended: limit, flows: vec![FlowSeen::default(); 2], ..RunSeen::default() };
        for second in 0..seconds {
            for (flow, bytes) in seen.flows.iter_mut().zip(got(second)) {
                flow.delivered += bytes;
                flow.progress
                    .push(FlowProgress { at: Duration::from_secs(second + 1), delivered: flow.delivered });
            }
        }
        (setting, seen)
    }

    #[test]
    fn shares_of_each_ten_seconds() {
        let (setting, seen) = played(35, |second| if second < 10 { [7, 0] } else { [3, 1] });
        let expected = [
            ("share/a".to_owned(), vec![(10.0, 100.0), (20.0, 75.0), (30.0, 75.0)]),
            ("share/b".to_owned(), vec![(10.0, 0.0), (20.0, 25.0), (30.0, 25.0)]),
        ];
        assert_eq!(series(&setting, &seen), expected);
        assert_eq!(fair_after(&setting, &seen), None);
    }

    /// 55 to 45 is just within a tenth, 56 to 44 is not: with `n` seconds of 60 to 40 and the others even, of
    /// ten.
    #[test]
    fn equal_parts_are_found_to_the_second() {
        let (setting, seen) = played(60, |second| if second < 33 { [60, 40] } else { [50, 50] });
        // From 28 to 38 there are five seconds of either.
        assert_eq!(fair_after(&setting, &seen), Some(Duration::from_secs(18)));
        // A window must be over when the run is.
        let (setting, seen) = played(37, |second| if second < 33 { [60, 40] } else { [50, 50] });
        assert_eq!(fair_after(&setting, &seen), None);
    }

    #[test]
    fn nobody_alone_shares() {
        let (mut setting, mut seen) = played(30, |_| [1, 0]);
        setting.flows.truncate(1);
        seen.flows.truncate(1);
        assert_eq!(fair_after(&setting, &seen), None);
        assert!(series(&setting, &seen).is_empty());
    }
}
