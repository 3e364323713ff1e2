//! Video to many players from a server that is short of processor: LiteQUIC (ACM Multimedia 2024), figures 1,
//! 8 and 9.

use quickset::{AckPolicy, TransportConfig};
use quickset_base::Duration;
use quickset_base::number::{Float as _, Unsigned as _};
use quickset_sim::{Cpu, LinkQueue, LinkSpec, LossModel, Rate};

use super::link;
use crate::experiment::{
    Experiment, ExperimentWay, HTTP1, Params, Published, ReportFigure, ValueError, Varied,
};
use crate::play::{PlayFlow, Setting, VideoWatch, Work};

/// On a network that is never the bottleneck.
pub(super) static DASH: Experiment = Experiment {
    name: "dash",
    title: "Video to 20 to 100 players from a server that has one slow core",
    source: "LiteQUIC, ACM Multimedia 2024, figures 1, 8 and 9",
    about: "Up to 100 players watch a video of five minutes by HTTP/3, in segments of ten seconds and bitrates of 1 to 50 Mbit/s, over \
        10 Gbit/s; they begin one after the other within one segment. The one server has a core that works for each datagram, each \
        batch of them and each byte, and what it has no time for is late. Each acknowledgement makes it work as well: one \
        for every second packet, datagrams sent one by one (plain); handed over together, as far as each acknowledgement alone \
        lets it go (gso); acknowledgements of a receive call acted on as one (merging); and asked for less often while they come \
        faster than it works (adaptive). Costs were measured (quickset lab run datapath) and multiplied (processor), so that plain HTTP/3 carries the published 1.79 \
        Gbit/s, which is short from the 36th player at 50 Mbit/s on. Measured are the mean bitrate of what \
        was played (AB), how long players stood still in all (RT), how long until the first picture, and switches. All of it is in virtual time, on \
        a network that is 25 times slower in everything (scale), rate, delay and processor, for a video of as many times fewer bytes, of which players take each for 25: \
        a run has five million packets and not 130, and each does what it would do. What shrinks with that is how much longer a segment is than a round trip. \
        With half the scale bitrates are the same within some per cent, and times standing still, which are seconds of five minutes, are less.",
    baseline: &[
        ("players", "100"),
        ("abr", "dynamic"),
        ("datapath", "plain"),
        ("processor", PROCESSOR),
        ("segment_s", "10"),
        ("seconds", "300"),
        ("scale", "25"),
        ("cc", "cubic"),
        ("rtt_ms", "0.2"),
        ("rate_mbit", "10000"),
        ("queue", "4MB"),
        ("loss", "0"),
    ],
    crossed: &[("players", PLAYERS), ("abr", RULES), ("datapath", DATAPATHS)],
    varied: Varied::OneByOne(&[("loss", "0")]),
    seeds: 3,
    figures: FIGURES,
    published: &[
        Published { figure: "8", at: "players=40 datapath=plain", metric: "rebuffering_s", value: 0.96 },
        Published {
            figure: "8",
            at: "players=80 datapath=merging",
            metric: "average_bitrate_mbps",
            value: 47.68,
        },
        Published { figure: "8", at: "players=80 datapath=merging", metric: "rebuffering_s", value: 0.17 },
        Published { figure: "8", at: "datapath=merging", metric: "average_bitrate_mbps", value: 41.24 },
        Published { figure: "8", at: "datapath=merging", metric: "rebuffering_s", value: 0.22 },
        Published { figure: "9", at: "datapath=plain", metric: "rebuffering_s", value: 9.27 },
        Published { figure: "9", at: "abr=throughput datapath=plain", metric: "rebuffering_s", value: 32.37 },
        Published { figure: "9", at: "abr=lol+ datapath=plain", metric: "rebuffering_s", value: 31.63 },
    ],
    claims: &[
        ("8", "Plain HTTP/3 falls behind from 40 players on."),
        (
            "8",
            "At 80 players merging has 19 % more bitrate, and 83 % less time standing still, than offload and fast cryptography alone.",
        ),
        (
            "9",
            "With 100 players, whatever the rule, viewers of a light server stand still for 0.23 s on average.",
        ),
        ("9", "With Throughput, L2A and LoL+ a light server has more than 48.30 Mbit/s."),
    ],
    unmeasured: UNMEASURED,
    notes: &[OTHERS],
    way: ExperimentWay::Play(setting),
};

/// Where the network is one, too.
pub(super) static DASH_POOR: Experiment = Experiment {
    name: "dash-poor",
    title: "The same video over 20 ms and losses of 0.5 %",
    source: "LiteQUIC, ACM Multimedia 2024, figure 9",
    about: "As dash, with a round trip of 20 ms and 0.5 % of the packets lost each way, at random: a window of CUBIC is some 17 packets then, and \
        a player gets some 10 Mbit/s whatever the server could do. The network is ten times slower in everything (scale), and not 25, with \
        which a request would take half a second of the ten that its segment plays.",
    baseline: &[
        ("players", "100"),
        ("abr", "l2a"),
        ("datapath", "plain"),
        ("processor", PROCESSOR),
        ("segment_s", "10"),
        ("seconds", "300"),
        ("scale", "10"),
        ("cc", "cubic"),
        ("rtt_ms", "20"),
        ("rate_mbit", "10000"),
        ("queue", "4MB"),
        ("loss", "0.5%"),
    ],
    crossed: &[("players", PLAYERS), ("abr", RULES), ("datapath", DATAPATHS)],
    varied: Varied::OneByOne(&[("loss", "0,0.5%")]),
    seeds: 3,
    figures: FIGURES,
    published: &[],
    claims: &[],
    unmeasured: &[
        (
            "9",
            "With L2A and 20 players plain HTTP/3 has 1.28 times the bitrate of HTTP/1.1, and stands still 89.9 % less.",
        ),
        (
            "9",
            "With 100 players only the light server keeps 1.28 times the bitrate of HTTP/1.1, and 85.2 % less time standing still.",
        ),
    ],
    notes: &[],
    way: ExperimentWay::Play(setting),
};

const FIGURES: &[ReportFigure] = &[
    ReportFigure::Lines { metric: "average_bitrate_mbps", over: "players", curves: "datapath" },
    ReportFigure::Lines { metric: "rebuffering_s", over: "players", curves: "datapath" },
    ReportFigure::Boxes { metric: "average_bitrate_mbps", over: "abr", colours: "datapath" },
    ReportFigure::Boxes { metric: "rebuffering_s", over: "abr", colours: "datapath" },
    ReportFigure::Lines { metric: "startup_s", over: "players", curves: "datapath" },
    ReportFigure::Lines { metric: "switches", over: "players", curves: "datapath" },
    ReportFigure::Lines { metric: "processor_share", over: "players", curves: "datapath" },
];

const UNMEASURED: &[(&str, &str)] = &[
    ("1", "At 40 players plain HTTP/3 has 23 % less bitrate than HTTP/1.1."),
    (
        "8",
        "At 100 players HTTP/3 with merging has 88 % of the bitrate of HTTP/1.1, and stands still for 0.13 s on average where HTTP/1.1 does for 0.23.",
    ),
];

const OTHERS: &str = "The published numbers are of another stack on another machine, in real time. One number of theirs went into the model, what plain HTTP/3 \
    carries (1.79 Gbit/s with an acknowledgement for every second packet); all else, what offload and merging are worth among it, comes of our own \
    costs. There from GSO on cryptography is faster, too; here it is the same throughout. There is no TCP in the simulator: dash-real has a \
    server and players in processes of their own, with HTTP/1.1 beside.";

/// From the largest on: where each has a panel, that is the one in sight.
const PLAYERS: &str = "100,80,60,40,20";
const RULES: &str = "dynamic,bola,throughput,l2a,lol+";
const DATAPATHS: &str = "plain,gso,merging,adaptive";

fn setting(params: &Params) -> Result<Setting, ValueError> {
    if params.text("datapath") == HTTP1 {
        return Err(ValueError(
            "there is no TCP in the simulator; `quickset lab run dash-real` has HTTP/1.1 beside HTTP/3"
                .to_owned(),
        ));
    }
    let players = params.whole("players")?;
    let scale = params.whole("scale")?;
    let seconds = |key: &str| Ok(Duration::from_secs_f64(params.number(key)?));
    let rule = params.text("abr").parse();
    let watch = VideoWatch {
        rule: rule.map_err(|error: quickset_abr::UnknownAlgorithm| ValueError(error.to_string()))?,
        ladder: LADDER.to_vec(),
        segment: seconds("segment_s")?,
        length: seconds("seconds")?,
        scale,
    };
    let mut flow = PlayFlow::new("player", link::congestion(params)?, Work::Watch(watch.clone()));
    transport(&mut flow.transport, &params.text("datapath"), scale.saturated::<u32>());
    let flows = (0..players).map(|n| PlayFlow {
        name: format!("player {}", n + 1),
        start: watch.segment * n.saturated::<u32>() / players.saturated::<u32>(),
        ..flow.clone()
    });
    let merges = flow.transport.acks.merging;
    let processor =
        slowed(if merges { MERGED } else { SINGLE }, params.number("processor")? * scale.approx());
    let spec = dilated(link::spec(params, 1.0)?, scale.saturated::<u32>())?;
    // Who stands still for longer than all of it plays has seen enough.
    let limit = watch.length * 3 + PATIENCE;
    Ok(Setting { processor: Some(processor), ..Setting::new(spec, flows.collect(), limit) })
}

/// What the server does of a light datapath; both ends tell times that are so much longer.
fn transport(transport: &mut TransportConfig, datapath: &str, scale: u32) {
    link::plain(transport);
    link::windows(transport, None);
    // As `http serve` has it.
    transport.send_buffer = 2 << 20;
    transport.max_ack_delay *= scale;
    transport.min_ack_delay *= scale;
    transport.gso = datapath != "plain";
    transport.acks = AckPolicy::default()
        .with_merging(matches!(datapath, "merging" | "adaptive"))
        .with_adaptive(datapath == "adaptive");
}

/// A link on which everything takes so many times as long.
fn dilated(link: LinkSpec, scale: u32) -> Result<LinkSpec, ValueError> {
    let is_counted = matches!(link.queue, LinkQueue::Unlimited | LinkQueue::Bytes(_) | LinkQueue::Packets(_));
    if !is_counted || matches!(link.loss, LossModel::Timed(_)) {
        return Err(ValueError(
            "a queue or a loss model that goes by time does not fit: write a queue like 4MB, and a share of losses".to_owned(),
        ));
    }
    let Rate::Constant(bps) = link.rate else { return Ok(link) };
    let rate = Rate::Constant((bps / u64::from(scale)).max(1));
    Ok(LinkSpec { rate, delay: link.delay * scale, ..link })
}

/// The same processor, so many times slower.
fn slowed(cpu: Cpu, factor: f64) -> Cpu {
    let times = |cost: u32| (f64::from(cost) * factor).round().whole::<u32>();
    Cpu {
        receive_batch_ns: times(cpu.receive_batch_ns),
        receive_datagram_ns: times(cpu.receive_datagram_ns),
        send_batch_ns: times(cpu.send_batch_ns),
        send_datagram_ns: times(cpu.send_datagram_ns),
        byte_ps: times(cpu.byte_ps),
        ..cpu
    }
}

/// What `quickset lab run datapath` has found on a core of a Zen 4, with acknowledgements acted on one by
/// one: medians of seven runs of a release build.
const SINGLE: Cpu = Cpu {
    receive_batch_ns: 220,
    receive_datagram_ns: 1000,
    send_batch_ns: 1240,
    send_datagram_ns: 555,
    byte_ps: 138,
    // Of small datagrams a socket's buffer of 4 MB has room for so much: each takes 768 bytes of it.
    buffer: 200_000,
    // A turn of `net`: eight calls that receive, each into eight buffers, of which each may hold 64
    // datagrams, and 32 that send.
    batch: 4096,
    turn: 32,
};
/// The same, acted on as one.
const MERGED: Cpu = Cpu { receive_datagram_ns: 400, ..SINGLE };
/// With this the costs of plain HTTP/3 leave 1.79 Gbit/s.
const PROCESSOR: &str = "2.53";

/// Of the paper, in bit/s.
pub(crate) const LADDER: [u64; 7] =
    [1_000_000, 5_000_000, 10_000_000, 20_000_000, 30_000_000, 40_000_000, 50_000_000];
const PATIENCE: Duration = Duration::from_secs(60);
