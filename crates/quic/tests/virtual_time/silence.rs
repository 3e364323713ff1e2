//! No silence outlives a path that is back, in virtual time: outages, bindings that change about them,
//! losses, and what the connection does meanwhile. Each run is drawn from its seed, and `QUICKSET_SEED`
//! replays it; `QUICKSET_SILENCE_RUNS` is how many there are (`cargo xtask silence`).

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::net::SocketAddr;

use bytes::Bytes;
use quickset_base::{Duration, Rng, Time};
use quickset_quic::{Algorithm, Dir, StreamId};
use quickset_sim::address;

use crate::common::{Pair, Setup};

/// Runs of all kinds together, unless told otherwise.
const RUNS: u64 = 1_000;
const RUNS_VARIABLE: &str = "QUICKSET_SILENCE_RUNS";

/// What the connection does while its path is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Upload,
    Download,
    Both,
    /// Nothing but keeping itself alive.
    Idle,
}

/// When a NAT gives the client another port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rebinding {
    Never,
    /// So shortly before the outage that little or nothing gets through in between.
    Before,
    Within,
    After,
}

/// One run; times count from the end of the handshake.
#[derive(Clone, Debug)]
struct Run {
    seed: u64,
    work: Work,
    rebinding: Rebinding,
    /// When the outage begins, and how long it is.
    begin: Duration,
    outage: Duration,
    /// What waits meanwhile goes on behind it; else it is lost.
    holds: bool,
    /// When the binding changes, if it does.
    rebound: Duration,
    /// In percent, each way.
    loss: u64,
    rtt: Duration,
    congestion: Algorithm,
    /// Of both sides, where nothing else keeps the connection alive.
    keep_alive: Duration,
}

impl Run {
    fn new(seed: u64, work: Work) -> Self {
        let mut rng = Rng::new(4 * seed + work as u64);
        let mut below = |n: u64| rng.below(n);
        let begin = ms(1_000 + below(1_000));
        let outage = Duration::from_secs(1 + below(28));
        let rebinding = [Rebinding::Never, Rebinding::Before, Rebinding::Within, Rebinding::After];
        let rebinding = rebinding[below(4) as usize];
        let rebound = match rebinding {
            Rebinding::Never => Duration::ZERO,
            Rebinding::Before => begin.saturating_sub(ms(below(400))),
            Rebinding::Within => begin + ms(below(outage.as_millis() as u64)),
            Rebinding::After => begin + outage + ms(below(2_000)),
        };
        Self {
            seed,
            work,
            rebinding,
            begin,
            outage,
            holds: below(4) == 0,
            rebound,
            loss: [0, 1, 5][below(3) as usize],
            rtt: ms(20 + below(280)),
            congestion: [Algorithm::Bbr, Algorithm::Cubic, Algorithm::NewReno][below(3) as usize].clone(),
            keep_alive: ms(1_000 + below(9_000)),
        }
    }

    /// The link, before the outage is known.
    fn link(&self) -> String {
        format!("rate=1mbit delay={}us queue=20kB loss={}%", self.rtt.as_micros() / 2, self.loss)
    }

    fn setup(&self) -> Setup {
        Setup::new(self.seed, &self.link()).transport(|t| {
            t.congestion = self.congestion.clone();
            t.keep_alive = (self.work == Work::Idle).then_some(self.keep_alive);
        })
    }

    /// How long it may take from the path's return for 99 of 100 runs.
    fn allowed(&self) -> Duration {
        ms(1_500) + 3 * self.rtt
    }

    /// Plays it. Returns how long it took from the path's return until everything went on; or how it ended.
    fn play(&self) -> Result<Duration, String> {
        let mut pair = self.setup().connected();
        let begun = pair.world.now();
        let (begin, outage) = ((begun + self.begin).as_nanos(), self.outage.as_nanos());
        for link in [pair.up, pair.down] {
            let kind = if self.holds { "blackout" } else { "outage" };
            let spec = format!("{} {kind}={begin}ns+{outage}ns", self.link());
            pair.world.link_mut(link).change(spec.parse().expect("a link"));
        }
        let watch = Watch::begin(self.work, &mut pair);
        if self.rebinding != Rebinding::Never {
            pass_until(&mut pair, begun + self.rebound);
            pair.world.rebind(address(1), SocketAddr::new(address(1).ip(), 9_999));
        }
        let back = begun + (self.begin + self.outage).max(self.rebound);
        pass_until(&mut pair, back);
        watch.go_on(&mut pair)
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, work, rebinding, begin, outage, holds, rebound, loss, .. } = self;
        let Self { rtt, congestion, keep_alive, .. } = self;
        let kind = if *holds { "blackout" } else { "outage" };
        write!(
            f,
            "seed {seed}, {work:?} by {congestion}, RTT {rtt:?}, loss {loss} %, {kind} {begin:?}+{outage:?}"
        )?;
        if *rebinding != Rebinding::Never {
            write!(f, ", rebinding {rebinding:?} at {rebound:?}")?;
        }
        if *work == Work::Idle { write!(f, ", keep-alive {keep_alive:?}") } else { Ok(()) }
    }
}

/// What goes one way, and has to go on.
#[derive(Clone, Copy, Debug)]
enum Flow {
    /// Data, to the client or to the server.
    Data { id: StreamId, up: bool },
    /// What keeps the connection alive, and its acknowledgement, by the side that asks.
    Pings { client: bool },
}

/// Sees what goes on.
struct Watch {
    flows: Vec<Flow>,
}

impl Watch {
    fn begin(work: Work, pair: &mut Pair) -> Self {
        let (key, server_key) = (pair.key, pair.server_key());
        // More than there is time for.
        static ZEROS: [u8; 8 << 20] = [0; 8 << 20];
        let data = Bytes::from_static(&ZEROS);
        let mut flows = Vec::new();
        if matches!(work, Work::Upload | Work::Both) {
            let id = pair.client_mut().send(key, Dir::Uni, data.clone());
            flows.push(Flow::Data { id, up: true });
        }
        if matches!(work, Work::Download | Work::Both) {
            let id = pair.server_mut().send(server_key, Dir::Uni, data);
            flows.push(Flow::Data { id, up: false });
        }
        if work == Work::Idle {
            flows = vec![Flow::Pings { client: true }, Flow::Pings { client: false }];
        }
        Self { flows }
    }

    /// The path is back: how long it takes until everything goes on.
    fn go_on(&self, pair: &mut Pair) -> Result<Duration, String> {
        let back = pair.world.now();
        let mut waits: Vec<_> = self.flows.iter().map(|flow| (*flow, flow.seen(pair), back)).collect();
        let mut longest = Duration::ZERO;
        while !waits.is_empty() {
            pair.pass(STEP);
            let now = pair.world.now();
            let closed = (&pair.client().closed, &pair.server().closed);
            if !closed.0.is_empty() || !closed.1.is_empty() {
                return Err(format!("dead {:?} behind the path's return: {closed:?}", now.since(back)));
            }
            if now > back + LIMIT {
                return Err(format!("nothing went on within {LIMIT:?}: {waits:?}"));
            }
            waits.retain_mut(|(flow, before, since)| {
                if flow.seen(pair) > *before {
                    longest = longest.max(now.since(*since));
                    return false;
                }
                if !flow.waits(pair) {
                    *since = now;
                }
                true
            });
        }
        Ok(longest)
    }
}

impl Flow {
    /// What has arrived of it.
    fn seen(self, pair: &mut Pair) -> u64 {
        let (key, server_key) = (pair.key, pair.server_key());
        match self {
            Self::Data { id, up } => {
                let (peer, key) = if up { (pair.server(), server_key) } else { (pair.client(), key) };
                peer.received.get(&(key, id)).map_or(0, |data| data.len() as u64)
            }
            Self::Pings { client } => {
                let (peer, key) =
                    if client { (pair.client_mut(), key) } else { (pair.server_mut(), server_key) };
                // Of a side that has closed, the last that it has seen.
                peer.node.connection(key).map_or(0, |c| c.stats().received_packets)
            }
        }
    }

    /// Whether something is under way that is to be seen.
    fn waits(self, pair: &mut Pair) -> bool {
        let (key, server_key) = (pair.key, pair.server_key());
        match self {
            Self::Data { .. } => true,
            Self::Pings { client } => {
                let (peer, key) =
                    if client { (pair.client_mut(), key) } else { (pair.server_mut(), server_key) };
                peer.node.connection(key).is_some_and(|c| c.stats().in_flight > 0)
            }
        }
    }
}

fn pass_until(pair: &mut Pair, at: Time) {
    let now = pair.world.now();
    if at > now {
        pair.pass(at.since(now));
    }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// How closely it is looked, and for how long.
const STEP: Duration = ms(10);
const LIMIT: Duration = Duration::from_secs(40);

/// Plays a quarter of the runs. None dies, and of a hundred one may be late.
fn sweep(work: Work) {
    let runs = std::env::var(RUNS_VARIABLE).map_or(RUNS, |n| n.parse().expect("a number of runs"));
    let mut sweep = Sweep::default();
    for seed in quickset_sim::seeds(0..runs.div_ceil(4)) {
        sweep.add(&Run::new(seed, work));
    }
    let Sweep { dead, late, played, .. } = &sweep;
    println!("{work:?}: {} of {played} dead, {} late", dead.len(), late.len());
    let fine = dead.is_empty() && late.len() as u64 * 100 <= *played;
    assert!(fine, "{dead:#?} are dead, {late:#?} late, of {played}\n{}", sweep.report());
}

/// What became of runs.
#[derive(Default)]
struct Sweep {
    played: u64,
    dead: Vec<String>,
    late: Vec<String>,
    /// Of those that lived, by loss and rebinding, how long it took more than three round trips.
    took: BTreeMap<(u64, Rebinding), Vec<Duration>>,
}

impl Sweep {
    fn add(&mut self, run: &Run) {
        self.played += 1;
        match run.play() {
            Ok(took) => {
                let cell = self.took.entry((run.loss, run.rebinding)).or_default();
                cell.push(took.saturating_sub(3 * run.rtt));
                if took > run.allowed() {
                    self.late.push(format!("{run}: on after {took:?}"));
                }
            }
            Err(how) => self.dead.push(format!("{run}: {how}")),
        }
    }

    fn report(&self) -> String {
        let mut report = String::from("Beyond three round trips it took the runs of each kind:\n");
        for ((loss, rebinding), took) in &self.took {
            let mut took = took.clone();
            took.sort_unstable();
            let [p50, p90, p99, most] =
                [50, 90, 99, 100].map(|percent| took[(took.len() - 1) * percent / 100]);
            let _ = writeln!(
                report,
                "  loss {loss} %, rebinding {rebinding:?}: {} runs, {p50:?} (p50), {p90:?} (p90), {p99:?} (p99), {most:?} at most",
                took.len(),
            );
        }
        report
    }
}

/// Bursts of losses that end by packets, not by time: whoever falls silent in one stays in it. Requests of 20
/// kB and answers as long come through all of them.
#[test]
fn a_path_that_drops_in_bursts_ends_no_connection() {
    quickset_sim::each_seed(0..8, |seed| {
        let setup = Setup::new(seed, "rate=20mbit delay=40ms queue=300kB loss=ge:2%,20%");
        let mut pair = setup.connected();
        pair.server_mut().echo = true;
        let key = pair.key;
        for _ in 0..50 {
            pair.client_mut().send(key, Dir::Bi, vec![7; 20_000]);
        }
        pair.until("answered", |p| p.client().finished.len() == 50 || !p.client().closed.is_empty());
        assert_eq!(pair.client().closed, [], "{} answers", pair.client().finished.len());
    });
}

#[test]
fn uploads_go_on_behind_any_outage() {
    sweep(Work::Upload);
}

#[test]
fn downloads_go_on_behind_any_outage() {
    sweep(Work::Download);
}

#[test]
fn transfers_both_ways_go_on_behind_any_outage() {
    sweep(Work::Both);
}

#[test]
fn idle_connections_outlive_any_outage() {
    sweep(Work::Idle);
}
