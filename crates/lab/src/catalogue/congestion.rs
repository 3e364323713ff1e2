//! Congestion controllers alone and against each other: an experiment of our own.

use quickset::Algorithm;
use quickset_base::Duration;
use quickset_base::number::{Float as _, Unsigned as _};
use quickset_sim::TrafficPace;

use super::link;
use crate::experiment::{Experiment, ExperimentWay, Params, ReportFigure, ValueError, Varied};
use crate::play::{Cross, PlayFlow, Setting, Work};

/// Who may share the link.
pub const FLOWS: &[&str] = &[
    "bbr",
    "cubic",
    "newreno",
    "bbr+bbr",
    "cubic+cubic",
    "newreno+newreno",
    "bbr+cubic",
    "bbr+newreno",
    "cubic+newreno",
];

/// How others may send.
pub const CROSS: &[&str] = &["none", "constant", "poisson", "bursts"];

/// Random loss, full queues, and company.
pub(super) static CONGESTION: Experiment = Experiment {
    name: "congestion",
    title: "BBR, CUBIC and NewReno alone, against themselves and against each other",
    source: "our own",
    about: "One or two flows send as much as they can for a minute over one link, the second from the tenth second on. The queue \
        holds a quarter of a bandwidth-delay product, one, or four, and the link loses nothing else, 0.1 % or 1 % of the packets. \
        Others may take a quarter of the link on average (cross): at equal distances, at random ones, or half of it in bursts of a second or so. \
        Measured in the second half of the run: how much of the capacity that others leave is used, and how it is shared (Jain's index, 1 is equal; the first flow's \
        share). Of pairs: how long the second has been there when ten seconds begin in which both get within a tenth of half \
        (fair_after_s), and the shares of each ten seconds. Over the whole run: how long packets wait in the queue (queue_ms, by the senders' smoothed round-trip time), and what \
        was lost: to the queue (overflowed) and to chance (lost).",
    baseline: &[
        ("flows", "bbr"),
        ("queue", "1bdp"),
        ("loss", "0"),
        ("rtt_ms", "100"),
        ("rate_mbit", "20"),
        ("rate_trace", "none"),
        ("cross", "none"),
        ("cross_share", "0.25"),
        ("seconds", "60"),
    ],
    crossed: &[
        ("queue", "0.25bdp,1bdp,4bdp"),
        (
            "flows",
            "bbr,cubic,newreno,bbr+bbr,cubic+cubic,newreno+newreno,bbr+cubic,bbr+newreno,cubic+newreno",
        ),
    ],
    varied: Varied::OneByOne(&[
        ("loss", "0,0.1%,1%"),
        ("rtt_ms", "20,100"),
        ("rate_mbit", "20,100"),
        ("cross", "none,constant,poisson,bursts"),
    ]),
    seeds: 3,
    figures: &[
        ReportFigure::Boxes { metric: "utilisation", over: "loss", colours: "flows" },
        ReportFigure::Boxes { metric: "queue_ms.p95", over: "queue", colours: "flows" },
        ReportFigure::Boxes { metric: "fairness", over: "queue", colours: "flows" },
        ReportFigure::Boxes { metric: "first_share", over: "queue", colours: "flows" },
        ReportFigure::Boxes { metric: "fair_after_s", over: "queue", colours: "flows" },
        ReportFigure::Boxes { metric: "overflowed", over: "queue", colours: "flows" },
        ReportFigure::Series { series: "share", curves: "flow" },
        ReportFigure::Series { series: "goodput", curves: "flow" },
        ReportFigure::Series { series: "queue", curves: "flow" },
    ],
    published: &[],
    claims: &[],
    unmeasured: &[],
    notes: &[],
    way: ExperimentWay::Play(setting),
};

fn setting(params: &Params) -> Result<Setting, ValueError> {
    let names = params.text("flows");
    let names: Vec<&str> = names.split('+').collect();
    let mut flows = Vec::new();
    for (n, name) in names.iter().enumerate() {
        let algorithm: Algorithm = name.parse().map_err(|error| ValueError(format!("{error}")))?;
        // Two of a kind have numbers.
        let twin = names.iter().filter(|other| *other == name).count() > 1;
        let called = if twin { format!("{name} {}", n + 1) } else { (*name).to_owned() };
        let mut flow = PlayFlow::new(&called, algorithm, Work::Bytes(None));
        flow.start = LATER * n.saturated::<u32>();
        link::plain(&mut flow.transport);
        flows.push(flow);
    }
    let spec = link::spec(params, 1.0)?;
    let limit = Duration::from_secs_f64(params.number("seconds")?);
    Ok(Setting { cross: cross(params)?, ..Setting::new(spec, flows, limit) })
}

/// Others on the link: on average `cross_share` of its rate, in packets of full length.
fn cross(params: &Params) -> Result<Vec<Cross>, ValueError> {
    let payload = f64::from(PACKET) / f64::from(PACKET + 28);
    let bps = (link::mean_mbit(params)? * 1e6 * params.number("cross_share")? * payload).whole::<u64>();
    let second = Duration::from_secs(1);
    let pace = match params.text("cross").as_str() {
        _ if bps == 0 => return Ok(Vec::new()),
        "constant" => TrafficPace::constant(bps),
        "poisson" => TrafficPace::poisson(bps),
        "bursts" => TrafficPace::OnOff { bps: 2 * bps, on: second, off: second, drawn: true },
        _ => return Ok(Vec::new()),
    };
    Ok(vec![Cross { bytes: PACKET, pace }])
}

/// UDP payload of a packet of 1500 bytes.
const PACKET: u32 = 1472;
/// How much later the second flow comes.
const LATER: Duration = Duration::from_secs(10);
