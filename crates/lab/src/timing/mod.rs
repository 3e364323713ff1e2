//! What this machine takes for work that no link holds up: codes, decisions, transfers over loopback, and
//! video to players.
//!
//! *In:* the point of an experiment, and a seed for the data. *Out:* measures. Nothing here is the same
//! twice, and whatever else the machine does shows in it.

mod codes;
mod datapath;
mod transfer;
#[cfg(target_os = "linux")]
mod video;
#[cfg(target_os = "linux")]
mod watch;

use std::time::Instant;

use quickset_base::Rng;
use quickset_base::number::{Float as _, Unsigned as _};
use quickset_sched::{Priority, Tree};

pub(crate) use datapath::datapath;
pub(crate) use transfer::{profile, transfer};
#[cfg(target_os = "linux")]
pub(crate) use video::video;

use crate::experiment::{Params, Timed, TimingError};
use crate::results::{Detail, RunMetrics, Timings};

/// Times a code: one repair symbol, and the recovery of what was lost early.
///
/// # Errors
/// When a value does not fit, or what comes out is not what went in.
pub(crate) fn codec(params: &Params, seed: u64) -> Timed {
    let whole = |key: &str| params.whole(key).map_err(|error| TimingError(error.to_string()));
    let (count, losses, size) = (
        whole("symbols")?.saturated::<usize>(),
        whole("losses")?.saturated::<usize>(),
        whole("symbol_bytes")?.saturated::<usize>(),
    );
    if losses > count {
        return Err(TimingError(format!("of {count} symbols {losses} cannot be lost; set losses to less")));
    }
    let mut rng = Rng::new(seed);
    let symbols: Vec<Vec<u8>> = (0..count)
        .map(|_| {
            let mut symbol = vec![0; size];
            rng.fill(&mut symbol);
            symbol
        })
        .collect();
    let timings = match params.text("codec").as_str() {
        "rs" => codes::blocks(&symbols, losses),
        "raptorq" => codes::fountain(&symbols, losses, &mut rng),
        _ => codes::window(&symbols, losses, &mut rng),
    };
    let timings =
        timings.ok_or_else(|| TimingError("what was lost did not come back as it was".to_owned()))?;
    Ok((RunMetrics { timings, finished: true, ..RunMetrics::default() }, Detail::default()))
}

/// The median over repetitions of what `work` takes, without what prepares it; `None` once it does not
/// succeed.
fn median_ms<T>(mut prepare: impl FnMut() -> T, mut work: impl FnMut(T) -> bool) -> Option<f64> {
    let begun = Instant::now();
    let mut times = Vec::new();
    while times.len() < LEAST || (begun.elapsed() < LONG_ENOUGH && times.len() < MOST) {
        let prepared = prepare();
        let started = Instant::now();
        let done = work(prepared);
        times.push(started.elapsed().as_secs_f64() * 1e3);
        if !done {
            return None;
        }
    }
    times.sort_by(f64::total_cmp);
    Some(times[times.len() / 2])
}

/// There are no quotas to be had.
#[cfg(not(target_os = "linux"))]
pub(crate) fn video(_: &Params, _: u64) -> Timed {
    Err(TimingError(
        "players before a real server need Linux, for its quotas of processor time; `quickset lab run dash` plays them in \
         virtual time"
            .to_owned(),
    ))
}

/// Times decisions of who sends next, among leaves that all have something to send.
///
/// # Errors
/// When a value does not fit.
pub(crate) fn decisions(params: &Params, seed: u64) -> Timed {
    let whole = |key: &str| params.whole(key).map_err(|error| TimingError(error.to_string()));
    let (leaves, depth) = (whole("leaves")?, whole("depth")?.saturated::<u32>());
    let mut tree =
        bushy(leaves, depth, &mut Rng::new(seed)).map_err(|error| TimingError(error.to_string()))?;
    let ms = median_ms(
        || (),
        |()| {
            (0..DECISIONS).all(|_| {
                let leaf = tree.next();
                leaf.inspect(|leaf| tree.charge(*leaf, FRAME)).is_some()
            })
        },
    );
    let ms = ms.ok_or_else(|| TimingError("nobody's turn came".to_owned()))?;
    let timings = Timings { decisions_per_s: Some(DECISIONS.approx() * 1e3 / ms), ..Timings::default() };
    Ok((RunMetrics { timings, finished: true, ..RunMetrics::default() }, Detail::default()))
}

/// Leaves `depth` steps below the root, in branches of about equal size; those whose turns follow each other
/// were made in no particular order.
fn bushy(leaves: u64, depth: u32, rng: &mut Rng) -> Result<Tree<u64>, quickset_sched::Error> {
    let mut tree = Tree::new(FRAME, u32::MAX);
    let fan = leaves.approx().powf(1.0 / f64::from(depth)).ceil().whole::<usize>();
    let mut parents = vec![tree.root()];
    for _ in 1..depth {
        let mut children = Vec::new();
        for parent in parents {
            for _ in 0..fan {
                children.push(tree.insert_branch(parent, Priority::weighted(1.0))?);
            }
        }
        parents = children;
    }
    let of = |leaf: u64| parents[(leaf * parents.len() as u64 / leaves).saturated::<usize>()];
    let mut ids = (0..leaves)
        .map(|leaf| tree.insert_leaf(of(leaf), Priority::weighted(1.0), leaf))
        .collect::<Result<Vec<_>, _>>()?;
    while let Some(last) = ids.len().checked_sub(1) {
        tree.set_backlogged(ids.swap_remove(rng.below(last as u64 + 1).saturated::<usize>()), true);
    }
    Ok(tree)
}

/// A frame of the timed scheduler, in bytes, and the decisions of one repetition.
const FRAME: u32 = 1200;
const DECISIONS: u64 = 10_000;
/// Repetitions.
const LEAST: usize = 5;
const MOST: usize = 1000;
const LONG_ENOUGH: std::time::Duration = std::time::Duration::from_millis(300);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;
    use crate::experiment::Overrides;

    pub(super) fn points(name: &str, words: &[&str]) -> Vec<Params> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        catalogue::find(name).unwrap().points(&Overrides::parse(&words).unwrap()).unwrap()
    }

    #[test]
    fn codes_are_timed_when_all_comes_back() {
        for params in points("codec", &["symbols=120", "symbol_bytes=50", "losses=5,12"]) {
            let timings = codec(&params, 1).unwrap().0.timings;
            assert!(timings.encode_ms.unwrap() > 0.0 && timings.decode_ms.unwrap() > 0.0, "{params}");
        }
        let all = codec(&points("codec", &["symbols=9", "losses=9", "codec=rlc"])[0], 1);
        assert!(all.is_ok(), "a window of which nothing came");
        let more = codec(&points("codec", &["symbols=9", "losses=10", "codec=rlc"])[0], 1);
        assert!(more.unwrap_err().to_string().contains("set losses to less"));
    }

    #[test]
    fn decisions_are_counted() {
        for params in points("sched-scale", &["leaves=1,50"]) {
            let timings = decisions(&params, 1).unwrap().0.timings;
            assert!(timings.decisions_per_s.unwrap() > 0.0, "{params}");
        }
    }
}
