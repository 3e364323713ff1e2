//! How messages fared, one by one, in few points.

use quickset_base::Duration;

use super::measure::ms;
use crate::play::FlowSeen;

/// How long each message waited for others after it had arrived, by its place in the order of sending: the
/// ends of lines on which all of them lie, to within [`NEAR_MS`] where there are few enough.
pub(super) fn blocking(flow: &FlowSeen) -> Vec<(f64, f64)> {
    let mut all: Vec<(f64, f64)> = flow
        .arrivals
        .iter()
        .map(|a| (f64::from(a.index), ms(a.released.saturating_sub(a.completed))))
        .collect();
    all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut near = NEAR_MS;
    loop {
        let ends = on_lines(&all, near);
        if ends.len() <= MOST_ENDS {
            return ends;
        }
        near *= 2.0;
    }
}

/// Of points in rising order those between which all others lie on lines, to within `near` up and down. Each
/// line is as long as it can be from where it begins, so that this takes a look or two at each point.
fn on_lines(points: &[(f64, f64)], near: f64) -> Vec<(f64, f64)> {
    let Some(first) = points.first() else { return Vec::new() };
    let mut ends = vec![*first];
    let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
    let mut last = *first;
    for point in &points[1..] {
        let begin = ends[ends.len() - 1];
        let slope = |y: f64| (y - begin.1) / (point.0 - begin.0);
        // The line to here passes all between, if it is as steep as each of them allows.
        if (low..=high).contains(&slope(point.1)) {
            (low, high) = (low.max(slope(point.1 - near)), high.min(slope(point.1 + near)));
        } else {
            ends.push(last);
            let slope = |y: f64| (y - last.1) / (point.0 - last.0);
            (low, high) = (slope(point.1 - near), slope(point.1 + near));
        }
        last = *point;
    }
    if last != ends[ends.len() - 1] {
        ends.push(last);
    }
    ends
}

/// Seconds from the client's first packet to a message being let go, and the milliseconds since the one
/// before it (where updates are asked for one by one, of the same update, since between them lies the pause
/// of the one who asks): all that are longer than a round trip, and of the others the longest of each
/// stretch.
pub(super) fn gaps(flow: &FlowSeen, rtt: Duration) -> Vec<(f64, f64)> {
    let one_by_one = flow.groups.iter().any(|group| group.requested.is_some());
    let within: Vec<(Duration, Duration)> = flow
        .arrivals
        .windows(2)
        .filter(|pair| !one_by_one || pair[0].group == pair[1].group)
        .map(|pair| (pair[1].released, pair[1].released.saturating_sub(pair[0].released)))
        .collect();
    let stretch = within.len().div_ceil(MOST_STRETCHES).max(1);
    let kept = within.chunks(stretch).flat_map(|stretch| {
        let longest = stretch.iter().map(|(_, gap)| *gap).max().unwrap_or_default();
        let mut is_first = true;
        stretch.iter().filter(move |(_, gap)| {
            let is_longest = *gap == longest && std::mem::take(&mut is_first);
            *gap > rtt || is_longest
        })
    });
    kept.map(|(at, gap)| (at.saturating_sub(flow.started).as_secs_f64(), ms(*gap))).collect()
}

/// Less than a figure shows.
const NEAR_MS: f64 = 0.05;
/// A row that is larger is of no use to anybody.
const MOST_ENDS: usize = 4000;
/// As many as a figure has room for.
const MOST_STRETCHES: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::play::MessageArrival;

    fn arrival(index: u32, group: u32, completed_ms: u64, released_ms: u64) -> MessageArrival {
        let [completed, released] = [completed_ms, released_ms].map(Duration::from_millis);
        MessageArrival { group, index, bytes: 1400, completed, released }
    }

    /// Ten arrive, the first of them late: the others wait, each a millisecond less than the one before.
    #[test]
    fn what_waits_for_one_message_is_a_line() {
        let mut arrivals: Vec<MessageArrival> =
            (0..10).map(|n| arrival(n, 0, if n == 0 { 100 } else { u64::from(n) }, 100)).collect();
        arrivals.reverse();
        let flow = FlowSeen { arrivals, ..FlowSeen::default() };
        assert_eq!(blocking(&flow), [(0.0, 0.0), (1.0, 99.0), (9.0, 91.0)]);
    }

    /// Every point of any course is found again, and nothing else is said of it.
    #[test]
    fn lines_pass_all_points() {
        let mut noise = 7u64;
        let points: Vec<(f64, f64)> = (0..5000u32)
            .map(|n| {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let jump = if noise >> 60 == 0 { 80.0 } else { 0.0 };
                (f64::from(n), (100.0 - f64::from(n % 97)) + jump + (noise >> 40) as f64 / 1e9)
            })
            .collect();
        let ends = on_lines(&points, 0.1);
        assert!(ends.len() < 2000, "{} ends", ends.len());
        for (x, y) in &points {
            let at = ends.partition_point(|end| end.0 < *x).max(1);
            let [(x0, y0), (x1, y1)] = [ends[at - 1], ends[at]];
            let there = y0 + (y1 - y0) * (x - x0) / (x1 - x0);
            assert!((there - y).abs() <= 0.1 + 1e-9, "{x}: {there}, not {y}");
        }
    }

    #[test]
    fn no_pause_over_a_round_trip_is_left_out() {
        // A message each millisecond but for three pauses close together.
        let mut at = 0;
        let arrivals: Vec<MessageArrival> = (0..40_000u32)
            .map(|n| {
                at += if [7, 8, 20].contains(&n) { 120 } else { 1 };
                arrival(n, u32::from(n >= 30_000), at, at)
            })
            .collect();
        let flow = FlowSeen { arrivals, started: Duration::from_millis(1), ..FlowSeen::default() };
        let gaps = gaps(&flow, Duration::from_millis(100));
        let long: Vec<(f64, f64)> = gaps.iter().copied().filter(|gap| gap.1 > 100.0).collect();
        assert_eq!(long, [(0.126, 120.0), (0.246, 120.0), (0.377, 120.0)]);
        assert!(gaps.len() <= MOST_STRETCHES + 3 && gaps.is_sorted_by(|a, b| a.0 < b.0));
    }
}
