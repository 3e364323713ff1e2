//! What fences of regions would bring: `scoped_fences [SEEDS [SECONDS [DESK…]]]`, 5 seeds, 60 s and all desks
//! unless told. `docs/scoped-fences.md` has its tables.
//!
//! Recorded screens are played over a lossy link with a fence behind each update, by the whole stack. When
//! each message was complete is seen there; when another order would have let it go follows by the definition
//! of that order.

use std::error::Error;

use quickset_base::Duration;
use quickset_base::number::Unsigned as _;
use quickset_lab::catalogue;
use quickset_lab::experiment::Overrides;
use quickset_lab::play::{
    MessageArrival, MessageChannel, MessageGroup, MessagePiece, Setting, Work, virtually,
};
use quickset_lab::stats::{Percentiles, Samples};
use quickset_lab::trace::{TracedUpdate, looped, scene};

/// The recorded screens, in pixels.
const SCREEN: [u16; 2] = [1280, 720];
const LOSSES: [&str; 2] = ["0.5%", "1%"];
const ORDERS: [(&str, Order); 6] = [
    ("total order", Order { by_message: true, grid: [1, 1], is_cut: false }),
    ("fences", Order::regions([1, 1])),
    ("2 × 2", Order::regions([2, 2])),
    ("4 × 4", Order::regions([4, 4])),
    ("4 × 4, cut", Order { is_cut: true, ..Order::regions([4, 4]) }),
    ("16 pixels", Order::regions([80, 45])),
];

/// Which messages wait for which: in each region those behind a fence for those before it, a message of
/// several regions in each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Order {
    /// A fence behind each message, and not behind each update.
    by_message: bool,
    /// Columns and rows of regions.
    grid: [u16; 2],
    /// Messages are cut at the borders of regions.
    is_cut: bool,
}

impl Order {
    const fn regions(grid: [u16; 2]) -> Self {
        Self { by_message: false, grid, is_cut: false }
    }
}

/// What is shown, and the part of the screen that somebody looks at.
struct Desk {
    name: &'static str,
    updates: Vec<TracedUpdate>,
    watched: [u16; 4],
}

/// A message as it came.
#[derive(Clone, Copy, Debug)]
struct Message {
    update: u32,
    area: [u16; 4],
    completed: Duration,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let seeds: u64 = words.next().map_or(Ok(5), |n| n.parse())?;
    let length = Duration::from_secs(words.next().map_or(Ok(60), |n| n.parse())?);
    let names: Vec<String> = words.collect();
    let mut desks = desks(length);
    desks.retain(|desk| names.is_empty() || names.iter().any(|name| name == desk.name));
    if desks.is_empty() {
        return Err("there is no such desk; leave DESK out for all of them".into());
    }
    let mut tables = [String::new(), String::new(), String::new()];
    for loss in LOSSES {
        for desk in &desks {
            let found = Found::of(desk, loss, seeds)?;
            let row = |cells: Vec<String>| format!("| {} | {loss} | {} |\n", desk.name, cells.join(" | "));
            let pair = |of: &Percentiles| format!("{:.1} / {:.0}", of.mean, of.p99);
            tables[0] += &row(found.blocking.iter().map(pair).collect());
            tables[1] += &row(found.shown.iter().map(pair).collect());
            let percent = |share: f64| format!("{:.1} %", share * 100.0);
            tables[2] += &row(vec![percent(found.outdated), percent(found.pieces - 1.0)]);
        }
    }
    let names: Vec<&str> = ORDERS.iter().map(|(name, _)| *name).collect();
    let heads = [names.join(" | "), names.join(" | "), "outdated in latest | more messages, cut".to_owned()];
    let titles = [
        "Blocking time, mean / 99th percentile in ms",
        "From an update being due to all of it shown, mean / 99th percentile in ms",
        "Messages",
    ];
    for ((title, head), rows) in titles.iter().zip(&heads).zip(&tables) {
        let rule = "--:|".repeat(head.split('|').count());
        println!("{title}\n\n| | lost | {head} |\n|---|--:|{rule}\n{rows}");
    }
    Ok(())
}

/// Each recording by itself, and typing in the left half of the screen beside each of two others in its right
/// half.
fn desks(length: Duration) -> Vec<Desk> {
    let recorded = |name: &str| looped(&scene(name).expect("a recording"), length);
    let alone = |name| Desk { name, updates: recorded(name), watched: [0, 0, SCREEN[0], SCREEN[1]] };
    let beside = |name, other: &str| Desk {
        name,
        updates: side_by_side(recorded("typing"), recorded(other)),
        watched: [0, 0, SCREEN[0] / 2, SCREEN[1]],
    };
    let mut all: Vec<Desk> = ["typing", "scroll", "fastscroll", "page", "video_soft"].map(alone).into();
    all.push(beside("typing, beside page", "page"));
    all.push(beside("typing, beside video_soft", "video_soft"));
    all
}

/// Both at half their width, in the order of time.
fn side_by_side(left: Vec<TracedUpdate>, right: Vec<TracedUpdate>) -> Vec<TracedUpdate> {
    let half = |updates: Vec<TracedUpdate>, begin: u16| {
        updates.into_iter().map(move |mut update| {
            for drawn in &mut update.messages {
                let [x, y, w, h] = drawn.area;
                let (from, to) = (x / 2, (x + w).div_ceil(2));
                drawn.area = [begin + from, y, to - from, h];
            }
            update
        })
    };
    let mut both: Vec<TracedUpdate> = half(left, 0).chain(half(right, SCREEN[0] / 2)).collect();
    both.sort_by_key(|update| update.at);
    both
}

/// What was found on a desk, over all seeds.
struct Found {
    /// By order, in milliseconds.
    blocking: Vec<Percentiles>,
    /// From an update being due to all of it being let go: by order, in milliseconds.
    shown: Vec<Percentiles>,
    /// The share of messages that latest order neither brings nor has to.
    outdated: f64,
    /// Messages that are cut at the borders of 4 × 4 regions, for each one that is not.
    pieces: f64,
}

impl Found {
    fn of(desk: &Desk, loss: &str, seeds: u64) -> Result<Self, Box<dyn Error>> {
        let none = || vec![Samples::default(); ORDERS.len()];
        let (mut blocking, mut shown) = (none(), none());
        let (mut sent, mut outdated) = (0usize, 0usize);
        for seed in 1..=seeds {
            let seen = &virtually(&setting(desk, "partial", loss)?, seed)?.flows[0];
            let messages = messages(desk, &seen.arrivals);
            let due: Vec<Duration> = seen.groups.iter().filter_map(|group| group.due).collect();
            for (n, (_, order)) in ORDERS.iter().enumerate() {
                let (waits, delays) = order.judge(&messages, &due, desk.watched);
                blocking[n].join(waits);
                shown[n].join(delays);
            }
            let latest = &virtually(&setting(desk, "latest", loss)?, seed)?.flows[0];
            sent += messages.len();
            outdated += messages.len() - latest.arrivals.len();
        }
        let drawn = || desk.updates.iter().flat_map(|update| &update.messages);
        let pieces: usize = drawn().map(|drawn| regions(drawn.area, [4, 4]).count()).sum();
        Ok(Self {
            blocking: blocking.iter().map(Samples::percentiles).collect(),
            shown: shown.iter().map(Samples::percentiles).collect(),
            outdated: outdated.approx() / sent.approx(),
            pieces: pieces.approx() / drawn().count().approx(),
        })
    }
}

/// The baseline of `screen-traces`, showing something else.
fn setting(desk: &Desk, mode: &str, loss: &str) -> Result<Setting, Box<dyn Error>> {
    let words = [format!("mode={mode}"), format!("loss={loss}"), "scene=page".into(), "fec=none".into()];
    let experiment = catalogue::find("screen-traces")?;
    let points = experiment.points(&Overrides::parse(&words)?)?;
    let mut setting = experiment.setting(points.first().ok_or("no point")?)?;
    if let Work::Messages(plan) = &mut setting.flows[0].work {
        plan.groups = desk.updates.iter().map(group).collect();
    }
    Ok(setting)
}

fn group(update: &TracedUpdate) -> MessageGroup {
    let piece = |drawn: &quickset_lab::trace::Drawn| MessagePiece {
        bytes: drawn.bytes,
        deadline: None,
        area: Some(drawn.area),
    };
    let messages = update.messages.iter().map(piece).collect();
    MessageGroup { due: update.at, messages, fence: true, channel: MessageChannel::First }
}

/// What arrived, in the order of sending.
fn messages(desk: &Desk, arrivals: &[MessageArrival]) -> Vec<Message> {
    let areas: Vec<[u16; 4]> =
        desk.updates.iter().flat_map(|update| update.messages.iter().map(|drawn| drawn.area)).collect();
    let mut arrivals = arrivals.to_vec();
    arrivals.sort_by_key(|arrival| arrival.index);
    assert_eq!(arrivals.len(), areas.len(), "without deadlines every message comes");
    arrivals
        .iter()
        .zip(areas)
        .map(|(arrival, area)| Message { update: arrival.group, area, completed: arrival.completed })
        .collect()
}

/// The numbers of the regions that an area touches.
fn regions(area: [u16; 4], grid: [u16; 2]) -> impl Iterator<Item = usize> {
    let [x, y, w, h] = area.map(u32::from);
    let of = |at: u32, axis: usize| at * u32::from(grid[axis]) / u32::from(SCREEN[axis]);
    let (columns, rows) = (of(x, 0)..=of(x + w - 1, 0), of(y, 1)..=of(y + h - 1, 1));
    rows.flat_map(move |row| columns.clone().map(move |column| (row * u32::from(grid[0]) + column) as usize))
}

impl Order {
    /// How long messages of the watched area wait, and how long its updates take to be shown from when they
    /// are due, in milliseconds.
    fn judge(self, messages: &[Message], due: &[Duration], watched: [u16; 4]) -> (Samples, Samples) {
        let is_watched = |area: [u16; 4]| area[0] + area[2] <= watched[0] + watched[2];
        let mut blocking = Samples::default();
        let mut shown: Vec<Option<Duration>> = vec![None; due.len()];
        for (message, released) in self.released(messages) {
            if is_watched(message.area) {
                blocking.add(released.saturating_sub(message.completed).as_secs_f64() * 1e3);
                let last = shown[message.update as usize].get_or_insert(released);
                *last = released.max(*last);
            }
        }
        let delays = shown.iter().zip(due).filter_map(|(shown, due)| Some((*shown)?.saturating_sub(*due)));
        (blocking, delays.map(|delay| delay.as_secs_f64() * 1e3).collect())
    }

    /// Each message, or each piece of one, and when the order lets it go.
    fn released(self, messages: &[Message]) -> Vec<(Message, Duration)> {
        let same = |a: &Message, b: &Message| !self.by_message && a.update == b.update;
        // By region: when all before its last fence was let go.
        let mut free = vec![Duration::ZERO; usize::from(self.grid[0]) * usize::from(self.grid[1])];
        let mut all = Vec::new();
        for segment in messages.chunk_by(same) {
            let mut behind = free.clone();
            for message in segment {
                let touched: Vec<usize> = regions(message.area, self.grid).collect();
                let at_once = if self.is_cut { 1 } else { touched.len() };
                for piece in touched.chunks(at_once) {
                    let before = piece.iter().map(|region| free[*region]).max().unwrap_or_default();
                    let released = before.max(message.completed);
                    for region in piece {
                        behind[*region] = behind[*region].max(released);
                    }
                    all.push((*message, released));
                }
            }
            free = behind;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the definition gives is what the stack did.
    #[test]
    fn one_region_is_what_fences_are() {
        let desk = desks(Duration::from_secs(2)).pop().unwrap();
        for (mode, order) in [("partial", ORDERS[1].1), ("total", ORDERS[0].1)] {
            let seen = &virtually(&setting(&desk, mode, "5%").unwrap(), 1).unwrap().flows[0];
            let mut arrivals = seen.arrivals.clone();
            arrivals.sort_by_key(|arrival| arrival.index);
            let released = order.released(&messages(&desk, &arrivals));
            for (arrival, (message, released)) in arrivals.iter().zip(&released) {
                assert_eq!(arrival.released, *released, "{mode}: {message:?}");
            }
            assert!(arrivals.iter().any(|arrival| arrival.released > arrival.completed), "nothing was lost");
        }
    }

    /// Two updates in each of two regions and one across both: by hand.
    #[test]
    fn a_region_waits_for_itself() {
        let at =
            |update, x, w, ms| Message { update, area: [x, 0, w, 9], completed: Duration::from_millis(ms) };
        let messages =
            [at(0, 0, 9, 90), at(0, 700, 9, 10), at(1, 700, 9, 20), at(2, 600, 90, 30), at(3, 700, 9, 40)];
        let released = |order: Order| -> Vec<u128> {
            order.released(&messages).iter().map(|(_, at)| at.as_millis()).collect()
        };
        assert_eq!(released(Order::regions([1, 1])), [90, 10, 90, 90, 90]);
        // What waits across the border holds back what is behind it on both sides.
        assert_eq!(released(Order::regions([2, 1])), [90, 10, 20, 90, 90]);
        // Cut in two, its right part and what is behind that are free.
        let cut = Order { is_cut: true, ..Order::regions([2, 1]) };
        assert_eq!(released(cut), [90, 10, 20, 90, 30, 40]);
    }
}
