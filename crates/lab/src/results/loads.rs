//! What became of the resources that a browser asked for.

use std::collections::BTreeMap;

use quickset_base::Duration;
use quickset_base::number::Unsigned as _;
use serde::{Deserialize, Serialize};

use super::fluid;
use super::measure::{Yardstick, ms};
use crate::play::{FlowSeen, PageVisit, PlayFlow, ResourceSeen, Setting, Work};
use crate::stats::Samples;

/// Measures of what a browser asked for. Times count from the client's first packet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Loads {
    /// The share of answers that took longer than 1.6 round trips, of those asked for one after the other and
    /// so short that they need not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow: Option<f64>,
    /// Of the same the share that took longer than 2.6 round trips: what was sent again was lost, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_twice: Option<f64>,
    /// The share of bytes that were read at most 10 ms later than the path's delay allows, of content that
    /// comes bit by bit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_path: Option<f64>,
    /// Until everything was there that is seen first, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paint_s: Option<f64>,
    /// Of resources that are all asked for at once: by what share of the predicted time the one farthest from
    /// it was off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_prediction: Option<f64>,
    /// Of the same: whether they were complete in the predicted order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_order: Option<bool>,
    /// Of the same: how far the share of those that share the connection at first was off their weight in any
    /// 200 ms in which all of them had something to send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_share: Option<f64>,
    /// The same, one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ResourceLoad>,
}

/// A resource. Times are in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceLoad {
    /// Its name.
    pub name: String,
    /// When it was asked for.
    pub start: f64,
    /// When its first byte was read.
    pub first_byte: f64,
    /// When all of it was there.
    pub completion: f64,
    /// When it would have been if bytes were a fluid.
    pub predicted: f64,
    /// Megabits per second of content, in steps of 50 ms.
    pub bins: Vec<f64>,
}

/// The measures of a flow.
pub(super) fn loads(setting: &Setting, flow: &PlayFlow, visit: &PageVisit, seen: &FlowSeen) -> Loads {
    let yardstick = Yardstick::of(setting);
    let is_page =
        visit.resources.len() > 1 && visit.resources.iter().all(|resource| resource.after.is_empty());
    let times = in_turn(flow, visit, seen, yardstick);
    let above =
        |round_trips: f64| times.as_ref().map(|times| times.share_above(ms(yardstick.rtt) * round_trips));
    let mut loads = Loads {
        slow: above(SLOW),
        slow_twice: above(SLOW + 1.0),
        on_path: on_path(setting, visit, seen),
        paint_s: paint(visit, seen).map(|at| since(seen.started, at)),
        ..Loads::default()
    };
    if let (true, Some(rate)) = (is_page, yardstick.rate) {
        let mtu = f64::from(flow.transport.mtu);
        let share = (mtu - HEADERS) / (mtu + f64::from(setting.down.overhead));
        loads.resources = listed(visit, seen, rate.approx() / 8.0 * share);
        if loads.resources.len() == visit.resources.len() {
            let off = |load: &ResourceLoad| (load.completion / load.predicted - 1.0).abs();
            loads.off_prediction = loads.resources.iter().map(off).max_by(f64::total_cmp);
            loads.in_order = Some(is_in_order(&loads.resources));
            loads.off_share = off_share(visit, seen);
        }
    }
    loads
}

/// Milliseconds that answers took which were asked for in turn, where all of them could have taken less than
/// [`SLOW`] round trips.
fn in_turn(flow: &PlayFlow, visit: &PageVisit, seen: &FlowSeen, yardstick: Yardstick) -> Option<Samples> {
    let rtt = yardstick.rtt.as_secs_f64();
    let mtu = f64::from(flow.transport.mtu);
    let least = |bytes: u64| {
        rtt + bytes.approx() * mtu / (mtu - HEADERS) * 8.0 / yardstick.rate.unwrap_or(u64::MAX).approx()
    };
    let measured = visit.resources.iter().filter(|resource| !resource.warm_up);
    let can_be_fast = measured.clone().all(|resource| least(resource.bytes) < SLOW * rtt);
    // Those under way at once would hold each other up.
    let in_turn = visit.resources.windows(2).enumerate().all(|(n, pair)| pair[1].after == [n]);
    let times = response_ms(visit, seen);
    (can_be_fast && in_turn && !times.is_empty()).then_some(times)
}

/// Milliseconds from each request to the end of its answer.
pub(super) fn response_ms(visit: &PageVisit, seen: &FlowSeen) -> Samples {
    let all = visit.resources.iter().zip(&seen.resources).filter(|(resource, _)| !resource.warm_up);
    let took = |seen: &ResourceSeen| Some(seen.complete?.saturating_sub(seen.requested?));
    all.filter_map(|(_, seen)| took(seen)).map(|took| took.as_secs_f64() * 1e3).collect()
}

/// Milliseconds from a byte coming into being at the server to its being read, one of a hundred bytes.
pub(super) fn byte_delay_ms(visit: &PageVisit, seen: &FlowSeen) -> Samples {
    let mut samples = Samples::default();
    for (resource, seen) in visit.resources.iter().zip(&seen.resources) {
        let (Some(drip), Some(begun)) = (resource.drip, seen.begun) else { continue };
        let mut place = 0;
        for read in &seen.progress {
            while place < read.delivered {
                let due = begun + drip.due(place);
                samples.add(read.at.saturating_sub(due).as_secs_f64() * 1e3);
                place += GRAIN;
            }
        }
    }
    samples
}

fn on_path(setting: &Setting, visit: &PageVisit, seen: &FlowSeen) -> Option<f64> {
    let delays = byte_delay_ms(visit, seen);
    let limit = (setting.down.delay + TOLERANCE).as_secs_f64() * 1e3;
    (!delays.is_empty()).then(|| 1.0 - delays.share_above(limit))
}

/// When the last of what is seen first was there; `None` if it never was, or nothing is.
fn paint(visit: &PageVisit, seen: &FlowSeen) -> Option<Duration> {
    let all = visit.resources.iter().zip(&seen.resources).filter(|(resource, _)| resource.is_seen);
    let ends: Option<Vec<Duration>> = all.map(|(_, seen)| seen.complete).collect();
    ends?.into_iter().max()
}

/// The resources that were complete.
fn listed(visit: &PageVisit, seen: &FlowSeen, bytes_per_s: f64) -> Vec<ResourceLoad> {
    let first = |seen: &ResourceSeen| seen.progress.first().map(|read| read.at);
    let Some(first_of_all) = seen.resources.iter().filter_map(first).min() else { return Vec::new() };
    let before = fluid::bytes_before_end(&visit.resources);
    let load = |((resource, got), bytes): ((&crate::play::PageResource, &ResourceSeen), f64)| {
        Some(ResourceLoad {
            name: resource.name.clone(),
            start: since(seen.started, got.requested?),
            first_byte: since(seen.started, first(got)?),
            completion: since(seen.started, got.complete?),
            predicted: since(seen.started, first_of_all) + bytes / bytes_per_s,
            bins: bins(got, seen.started),
        })
    };
    visit.resources.iter().zip(&seen.resources).zip(before).filter_map(load).collect()
}

fn bins(seen: &ResourceSeen, started: Duration) -> Vec<f64> {
    let mut bins: BTreeMap<usize, u64> = BTreeMap::new();
    let mut before = 0;
    for read in &seen.progress {
        let bin = (read.at.saturating_sub(started).as_nanos() / BIN.as_nanos()) as usize;
        *bins.entry(bin).or_default() += read.delivered - before;
        before = read.delivered;
    }
    let last = bins.keys().last().map_or(0, |last| last + 1);
    let mbit = |bin: usize| bins.get(&bin).map_or(0.0, |bytes| bytes.approx() * 8e-6 / BIN.as_secs_f64());
    (0..last).map(mbit).collect()
}

/// The series `goodput/NAME` of each resource.
pub(super) fn series(loads: &[ResourceLoad]) -> impl Iterator<Item = (String, Vec<(f64, f64)>)> {
    loads.iter().map(|load| {
        let point = |(n, mbit): (usize, &f64)| ((n.approx() + 0.5) * BIN.as_secs_f64(), *mbit);
        // Before its first byte there is nothing to see.
        let points = load.bins.iter().enumerate().skip_while(|(_, mbit)| **mbit <= 0.0);
        (format!("goodput/{}", load.name), points.map(point).collect())
    })
}

/// Whether no resource was complete before one that was predicted for an earlier time.
fn is_in_order(loads: &[ResourceLoad]) -> bool {
    loads.iter().all(|one| {
        loads.iter().all(|other| one.predicted >= other.predicted || one.completion <= other.completion)
    })
}

/// See [`Loads::off_share`]; `None` when nobody shares, or not for so long.
fn off_share(visit: &PageVisit, seen: &FlowSeen) -> Option<f64> {
    let mut sharing: BTreeMap<usize, (f64, Vec<&ResourceSeen>)> = BTreeMap::new();
    for (share, seen) in fluid::first_shares(&visit.resources).into_iter().zip(&seen.resources) {
        let Some((child, part)) = share else { continue };
        sharing.entry(child).or_insert((part, Vec::new())).1.push(seen);
    }
    if sharing.len() < 2 {
        return None;
    }
    let begun = |all: &[&ResourceSeen]| all.iter().filter_map(|seen| Some(seen.progress.first()?.at)).min();
    let ended = |all: &[&ResourceSeen]| all.iter().filter_map(|seen| seen.complete).max();
    let from = sharing.values().filter_map(|(_, all)| begun(all)).max()?;
    let to = sharing.values().filter_map(|(_, all)| ended(all)).min()?;
    let mut worst: Option<f64> = None;
    let mut at = from;
    while at + WINDOW <= to {
        let came = |all: &[&ResourceSeen]| -> f64 {
            all.iter().map(|seen| (read_by(seen, at + WINDOW) - read_by(seen, at)).approx()).sum()
        };
        let sum: f64 = sharing.values().map(|(_, all)| came(all)).sum();
        let off = sharing.values().map(|(part, all)| (came(all) / sum - part).abs()).fold(0.0, f64::max);
        worst = Some(worst.map_or(off, |worst| worst.max(off)));
        at += WINDOW;
    }
    worst
}

/// Bytes that were read by then.
fn read_by(seen: &ResourceSeen, at: Duration) -> u64 {
    seen.progress.iter().take_while(|read| read.at <= at).last().map_or(0, |read| read.delivered)
}

/// Work of browsers, with what was seen of it.
pub(super) fn visits<'a>(
    setting: &'a Setting,
    seen: &'a [FlowSeen],
) -> impl Iterator<Item = (&'a PlayFlow, &'a PageVisit, &'a FlowSeen)> {
    setting.flows.iter().zip(seen).filter_map(|(flow, seen)| match &flow.work {
        Work::Visit(visit) => Some((flow, visit, seen)),
        _ => None,
    })
}

fn since(started: Duration, at: Duration) -> f64 {
    at.saturating_sub(started).as_secs_f64()
}

/// Round trips: less than one retransmission takes.
const SLOW: f64 = 1.6;
/// What a queue, the packets of a chunk and repair may take.
const TOLERANCE: Duration = Duration::from_millis(10);
const GRAIN: u64 = 100;
const BIN: Duration = Duration::from_millis(50);
const WINDOW: Duration = Duration::from_millis(200);
/// Bytes of a packet that are no content: its header with an id of eight bytes, a tag, the header of a STREAM
/// frame.
const HEADERS: f64 = 36.0;
