use quickset_base::Duration;
use quickset_base::number::Unsigned as _;
use quickset_quic::{Protection, Stats};
use quickset_sim::Rate;

use super::sharing::{self, delivered_by};
use super::{
    CountedPackets, Detail, Histogram, Promptness, RepairShare, RunMetrics, Times, courses, expectation,
    loads, viewing,
};
use crate::play::{FlowSeen, RunSeen, Setting, Work};
use crate::stats::{Percentiles, Samples};

/// What measures need to know of a setting.
#[derive(Clone, Copy, Debug)]
pub struct Yardstick {
    /// The round-trip time without queues.
    pub rtt: Duration,
    /// The link's rate towards clients in bits per second, if it has one.
    pub rate: Option<u64>,
}

impl Yardstick {
    /// That of a setting.
    pub fn of(setting: &Setting) -> Self {
        let rate = match setting.down.rate {
            Rate::Constant(bps) => Some(bps),
            _ => None,
        };
        Self { rtt: setting.up.delay + setting.down.delay, rate }
    }
}

/// The measures of a run.
pub fn measure(setting: &Setting, seen: &RunSeen) -> (RunMetrics, Detail) {
    let yardstick = Yardstick::of(setting);
    let mut detail = Detail { length_s: seen.ended.as_secs_f64(), ..Detail::default() };
    let times = times(setting, seen, &mut detail);
    let mut metrics = RunMetrics {
        times,
        counted: counted(setting, seen, yardstick),
        finished: seen.flows.iter().all(|flow| flow.finished.is_some()),
        broken: seen.flows.iter().find_map(|flow| flow.broken.clone()),
        promptness: Promptness {
            on_time: on_time(setting, seen),
            late_share: late_share(setting, seen, 0),
            late_share_later: late_share(setting, seen, SETTLED),
        },
        repair: repair(setting, seen),
        viewing: viewing::viewing(seen),
        ..RunMetrics::default()
    };
    if let ([flow], [work]) = (&seen.flows[..], &setting.flows[..]) {
        alone(&mut metrics, flow, &work.work, yardstick);
    }
    if setting.flows.iter().all(|flow| is_endless(setting, &flow.work)) {
        sharing::shared(&mut metrics, setting, seen, yardstick);
        detail.series.extend(sharing::series(setting, seen));
        // Nothing is to come to an end here.
        metrics.finished = metrics.broken.is_none();
    }
    for (flow, work) in seen.flows.iter().zip(&setting.flows) {
        if matches!(work.work, Work::Bytes(_)) {
            detail.series.insert(format!("goodput/{}", work.name), goodput(flow, seen.ended));
            detail.series.insert(format!("queue/{}", work.name), queueing(flow, yardstick.rtt));
        }
    }
    let mut visits = loads::visits(setting, &seen.flows);
    if let (Some((flow, visit, seen)), None) = (visits.next(), visits.next()) {
        metrics.loads = loads::loads(setting, flow, visit, seen);
        detail.series.extend(loads::series(&metrics.loads.resources));
    }
    (metrics, detail)
}

/// Whether there is more to do than the link can carry until the run ends, or than is asked for until then.
fn is_endless(setting: &Setting, work: &Work) -> bool {
    match work {
        Work::Bytes(size) => size.is_none(),
        Work::Visit(_) | Work::Watch(_) => false,
        Work::Messages(messages) => {
            if let Some(pause) = messages.interactive {
                return pause * messages.groups.len().saturated::<u32>() >= setting.limit;
            }
            let Rate::Constant(bps) = setting.down.rate else { return false };
            let pieces = messages.groups.iter().flat_map(|group| &group.messages);
            let bytes: u64 = pieces.map(|piece| u64::from(piece.bytes)).sum();
            bytes.approx() * 8.0 >= bps.approx() * setting.limit.as_secs_f64()
        }
    }
}

/// A flow alone: completion, and how far from the ideal.
fn alone(metrics: &mut RunMetrics, flow: &FlowSeen, work: &Work, yardstick: Yardstick) {
    let Some(end) = flow.finished else { return };
    let took = end.saturating_sub(flow.started).as_secs_f64();
    metrics.completion_s = Some(took);
    metrics.paced_s = paced(flow).map(|due| due.saturating_sub(flow.started).as_secs_f64());
    if took > 0.0 {
        metrics.goodput_bps = Some(flow.delivered.approx() * 8.0 / took);
    }
    if let (Work::Bytes(Some(size)), Some(rate)) = (work, yardstick.rate) {
        let ideal = 2.0 * yardstick.rtt.as_secs_f64() + size.approx() * 8.0 / rate.approx();
        metrics.dct_s = Some(took);
        metrics.dct_over_ideal = Some(took / ideal);
    }
}

/// When the last group was due, where some are due later than others and nobody asks for each.
fn paced(flow: &FlowSeen) -> Option<Duration> {
    let due = || flow.groups.iter().filter(|group| group.requested.is_none()).filter_map(|group| group.due);
    due().max().filter(|last| due().min().is_some_and(|first| first < *last))
}

/// Mbit/s in steps of a hundredth of the run, 100 ms at least.
fn goodput(flow: &FlowSeen, end: Duration) -> Vec<(f64, f64)> {
    let step = (end / 100).max(Duration::from_millis(100));
    let mut series = Vec::new();
    let mut at = step;
    let mut last = 0;
    while at <= end {
        let now = delivered_by(flow, at);
        series.push((at.as_secs_f64(), (now - last).approx() * 8e-6 / step.as_secs_f64()));
        (last, at) = (now, at + step);
    }
    series
}

/// Milliseconds that the smoothed round-trip time was above `rtt`, in up to 200 places.
fn queueing(flow: &FlowSeen, rtt: Duration) -> Vec<(f64, f64)> {
    let every = flow.looks.len().div_ceil(200).max(1);
    let looks = flow.looks.iter().step_by(every);
    looks.map(|look| (look.at.as_secs_f64(), ms(look.rtt.saturating_sub(rtt)))).collect()
}

fn counted(setting: &Setting, seen: &RunSeen, yardstick: Yardstick) -> CountedPackets {
    let sum = |of: fn(&FlowSeen) -> u64| seen.flows.iter().map(of).sum();
    let unrecovered =
        if is_protected(setting) { sum(unrecovered) } else { seen.down.lost + seen.down.overflowed };
    CountedPackets {
        messages_delivered: sum(|flow| flow.arrivals.len() as u64),
        abandoned: sum(|flow| flow.abandoned),
        over_rtt: seen.flows.iter().map(|flow| over_rtt(flow, yardstick.rtt)).sum(),
        bytes_sent: sum(|flow| flow.server.sent_bytes),
        bytes_useful: sum(|flow| flow.delivered),
        lost: seen.down.lost,
        overflowed: seen.down.overflowed,
        repair_bytes: sum(|flow| flow.server.fec.repair_bytes),
        recovered: sum(|flow| flow.client.fec.recovered_here),
        unrecovered,
        resent: sum(|flow| flow.server.fec.unrecovered),
        retransmitted: sum(|flow| flow.server.lost_packets),
        failed_blocks: sum(|flow| flow.server.fec.failed_blocks),
        blocks: sum(|flow| flow.server.fec.blocks),
    }
}

/// Source symbols that the client neither got nor rebuilt, their frames having come in others, and those that
/// were sent once more. Where the run ended first, some are on their way, and what the server knew has to do.
fn unrecovered(flow: &FlowSeen) -> u64 {
    let (sent, got) = (flow.server.fec, flow.client.fec);
    if flow.finished.is_none() {
        return sent.unrecovered;
    }
    sent.sources_sent.saturating_sub(got.sources_received + got.recovered_here) + sent.repeats_sent
}

fn is_protected(setting: &Setting) -> bool {
    setting.flows.iter().any(|flow| flow.protection != Protection::None)
}

/// What repair costs, where there may be some.
fn repair(setting: &Setting, seen: &RunSeen) -> RepairShare {
    if !is_protected(setting) {
        return RepairShare::default();
    }
    let share = |repair: u64, all: u64| (all > 0).then(|| repair.approx() / all.approx());
    let (mut whole, mut late) = ([0; 2], [0; 2]);
    for (flow, seen) in setting.flows.iter().zip(&seen.flows) {
        if flow.protection == Protection::None {
            continue;
        }
        let sent = |stats: &Stats| [stats.fec.repair_bytes, stats.sent_bytes];
        let (now, early) = (sent(&seen.server), seen.early.as_ref().map_or(sent(&seen.server), sent));
        for n in 0..2 {
            whole[n] += now[n];
            late[n] += now[n] - early[n];
        }
    }
    RepairShare {
        repair_share: share(whole[0], whole[1]),
        repair_share_late: share(late[0], late[1]),
        failed_blocks_expected: expectation::failed_blocks(setting, seen),
        failed_blocks_raptorq: expectation::failed_blocks_of_raptorq(setting, seen),
    }
}

/// Of the updates that were asked for behind the first `settled` messages, but the first, those that took
/// more than one and a half round trips, or never came.
fn late_share(setting: &Setting, seen: &RunSeen, settled: u64) -> Option<f64> {
    let rtt = setting.up.delay + setting.down.delay;
    let (mut late, mut all) = (0u64, 0u64);
    for (flow, seen) in setting.flows.iter().zip(&seen.flows) {
        let Work::Messages(messages) = &flow.work else { continue };
        let mut sent = 0;
        for (asked, seen) in messages.groups.iter().zip(&seen.groups) {
            let Some(requested) = seen.requested else { continue };
            if sent > 0 && sent >= settled {
                let took = seen.complete.map(|complete| complete.saturating_sub(requested));
                all += 1;
                late += u64::from(took.is_none_or(|took| 2 * took > 3 * rtt));
            }
            sent += asked.messages.len() as u64;
        }
    }
    (all > 0).then(|| late.approx() / all.approx())
}

/// Messages behind which the losses of a path are known.
const SETTLED: u64 = 5000;

fn over_rtt(flow: &FlowSeen, rtt: Duration) -> u64 {
    let gaps = flow.arrivals.windows(2).filter(|pair| pair[0].group == pair[1].group);
    gaps.filter(|pair| pair[1].released.saturating_sub(pair[0].released) > rtt).count() as u64
}

fn times(setting: &Setting, seen: &RunSeen, detail: &mut Detail) -> Times {
    let mut samples: [Samples; 6] = Default::default();
    let [blocking, inter_delivery, response, delivery, byte_delay, queue] = &mut samples;
    for (_, visit, seen) in loads::visits(setting, &seen.flows) {
        response.join(loads::response_ms(visit, seen));
        byte_delay.join(loads::byte_delay_ms(visit, seen));
    }
    for flow in &seen.flows {
        blocking.extend(flow.arrivals.iter().map(|a| ms(a.released.saturating_sub(a.completed))));
        // Between updates that are asked for one by one lies the pause of the one who asks.
        let within = flow.groups.iter().any(|group| group.requested.is_some());
        let gaps = flow.arrivals.windows(2).filter(|pair| !within || pair[0].group == pair[1].group);
        inter_delivery.extend(gaps.map(|pair| ms(pair[1].released.saturating_sub(pair[0].released))));
        let due = |group: u32| flow.groups.get(group as usize).and_then(|group| group.due);
        let delays = flow.arrivals.iter().filter_map(|a| Some(a.released.saturating_sub(due(a.group)?)));
        delivery.extend(delays.map(ms));
        let rtt = setting.up.delay + setting.down.delay;
        queue.extend(flow.looks.iter().map(|look| ms(look.rtt.saturating_sub(rtt))));
        let whole = flow.groups.iter().filter_map(|group| Some((group.requested?, group.complete?)));
        response.extend(whole.map(|(requested, complete)| ms(complete.saturating_sub(requested))));
    }
    if let [flow] = &seen.flows[..] {
        if matches!(setting.flows[0].work, Work::Messages(_)) {
            detail.series.insert("blocking".to_owned(), courses::blocking(flow));
            detail
                .series
                .insert("gaps".to_owned(), courses::gaps(flow, setting.up.delay + setting.down.delay));
        }
    }
    let mut summary = |name: &str, samples: &Samples| -> Option<Percentiles> {
        if samples.is_empty() {
            return None;
        }
        let sorted = samples.sorted();
        detail.histograms.insert(name.to_owned(), Histogram::of_sorted(sorted.values()));
        Some(sorted.percentiles())
    };
    Times {
        blocking_ms: summary("blocking_ms", blocking),
        inter_delivery_ms: summary("inter_delivery_ms", inter_delivery),
        response_ms: summary("response_ms", response),
        delivery_ms: summary("delivery_ms", delivery),
        byte_delay_ms: summary("byte_delay_ms", byte_delay),
        queue_ms: summary("queue_ms", queue),
    }
}

/// Of all messages with a deadline, those let go before it.
fn on_time(setting: &Setting, seen: &RunSeen) -> Option<f64> {
    let (mut all, mut good) = (0u64, 0u64);
    for (flow, seen) in setting.flows.iter().zip(&seen.flows) {
        let Work::Messages(messages) = &flow.work else { continue };
        let deadlines: Vec<Option<Duration>> = messages
            .groups
            .iter()
            .flat_map(|group| group.messages.iter().map(|piece| piece.deadline))
            .collect();
        all += deadlines.iter().flatten().count() as u64;
        let in_time = seen.arrivals.iter().filter(|a| {
            let due = seen.groups.get(a.group as usize).and_then(|group| group.due);
            let deadline = deadlines.get(a.index as usize).copied().flatten();
            matches!((due, deadline), (Some(due), Some(deadline)) if a.released <= due + deadline)
        });
        good += in_time.count() as u64;
    }
    (all > 0).then(|| good.approx() / all.approx())
}

pub(super) fn ms(duration: Duration) -> f64 {
    // The nearest number to the decimal one, so that it is written as such.
    duration.as_nanos().approx() / 1e6
}
