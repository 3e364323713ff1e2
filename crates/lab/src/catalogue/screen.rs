//! Screen updates across a lossy link: Eghbal and Lu, Future Internet 2025, figures 9 to 26.

use quickset_base::Duration;
use quickset_base::number::Unsigned as _;

use super::link;
use crate::experiment::{Experiment, ExperimentWay, Params, Published, ReportFigure, ValueError, Varied};
use crate::play::{PlayFlow, Setting, Work};

/// Updates come by themselves.
pub(super) static STREAMING: Experiment = Experiment {
    name: "screen-streaming",
    title: "A screen that is streamed: 300 updates of 100 messages, one request",
    source: "Future Internet 2025, figures 9 to 17",
    about: ABOUT,
    baseline: BASELINE,
    crossed: CROSSED,
    varied: VARIED,
    seeds: 20,
    figures: &[
        ReportFigure::Distribution { metric: "blocking_ms", curves: "mode", logarithmic: false },
        ReportFigure::Distribution { metric: "inter_delivery_ms", curves: "mode", logarithmic: true },
        ReportFigure::Series { series: "gaps", curves: "mode" },
    ],
    published: STREAMING_PUBLISHED,
    claims: &[
        ("9 to 17", "Messages wait less with fences than in total order, and hardly at all with repair."),
        ("17", "Without loss, repair makes times between messages less than 10 ms longer."),
    ],
    unmeasured: &[],
    notes: &[PACE, CUBIC],
    way: ExperimentWay::Play(|params| setting(params, None)),
};

/// Each update is asked for.
pub(super) static INTERACTIVE: Experiment = Experiment {
    name: "screen-interactive",
    title: "A screen that answers: each update is asked for 300 ms after the one before is complete",
    source: "Future Internet 2025, figures 18 to 26",
    about: ABOUT,
    baseline: BASELINE,
    crossed: CROSSED,
    varied: VARIED,
    seeds: 20,
    figures: &[
        ReportFigure::Distribution { metric: "inter_delivery_ms", curves: "mode", logarithmic: true },
        ReportFigure::Distribution { metric: "response_ms", curves: "mode", logarithmic: false },
        ReportFigure::Series { series: "gaps", curves: "mode" },
    ],
    published: INTERACTIVE_PUBLISHED,
    claims: &[
        (
            "18 to 25",
            "Fences do not shorten the response time, they take the pauses out of it: inter-delivery times above the round-trip time.",
        ),
        ("26", "Without loss none of it has a considerable effect."),
    ],
    unmeasured: &[],
    notes: &[HALF, CUBIC_ASKED],
    way: ExperimentWay::Play(|params| setting(params, Some(THINK))),
};

/// Losses in bursts.
pub(super) static BURSTS: Experiment = Experiment {
    name: "screen-bursts",
    title: "A screen that is streamed over a link that loses in bursts, with each code",
    source: "our own: Future Internet 2025, figure 9, with other losses",
    about: "The baseline of screen-streaming in partial order: 300 updates of 100 messages, a fence behind each. The link loses \
        one packet in 200 on average, one by one or in bursts of two, four and eight on average (ge: the shares of packets at \
        which a burst begins and ends). A burst takes more of a block than its repair was meant for. Reed-Solomon \
        recovers as many losses as it has repair symbols, wherever they are; cut into interleaved parts (stride) it bears fewer, and \
        costs less to decode. Of each code: how long messages wait, and how many blocks fail, beside what chance alone would give, and beside \
        what RaptorQ (RFC 6330) with as many symbols would leave at most: it is no part of the protocol, and codec has what it costs. Five \
        repair symbols for 100, and ten; LDPC needs more symbols than were lost, sums (xor) repair one loss in each. The same share of \
        repair is worth less to small blocks and more to large ones, which updates of 20, 50 and 200 messages show.",
    baseline: BASELINE,
    crossed: &[
        ("mode", "partial"),
        (
            "fec",
            "none,rs:105/100,rs:105/100:stride=4,rs:110/100,rs:110/100:stride=4,ldpc:110/100,xor:5,xor:10,\
                xor2d:10x10,fixed:20,fixed:10,adaptive:screen",
        ),
    ],
    varied: Varied::OneByOne(&[
        ("loss", "0;0.5%;ge:0.2513%,50%;ge:0.1256%,25%;ge:0.0628%,12.5%"),
        ("messages", "20,50,100,200"),
    ]),
    seeds: 20,
    figures: &[
        ReportFigure::Distribution { metric: "blocking_ms", curves: "mode", logarithmic: false },
        ReportFigure::Boxes { metric: "blocking_ms.p99", over: "loss", colours: "mode" },
        ReportFigure::Boxes { metric: "failed_blocks", over: "loss", colours: "mode" },
        ReportFigure::Boxes { metric: "failed_blocks", over: "messages", colours: "mode" },
        ReportFigure::Boxes { metric: "repair_share", over: "loss", colours: "mode" },
    ],
    published: &[],
    claims: &[],
    unmeasured: &[],
    notes: &[],
    way: ExperimentWay::Play(|params| setting(params, None)),
};

/// Updates of a few messages.
pub(super) static SMALL: Experiment = Experiment {
    name: "screen-small",
    title: "A screen that answers with little: updates of 4 to 60 messages",
    source: "our own: Future Internet 2025, figure 18, with smaller updates",
    about: "The baseline of screen-interactive in partial order: 1500 updates, each asked for 300 ms after the one before is \
        complete. An update of a few messages is seldom hit by a loss, and one repair symbol is a large part of it. An update is late \
        when it takes more than one and a half round trips. A fixed number of repair symbols for each update and each request (tum) shows what \
        each more of them is good for; adaptive repair is to find by itself how many are enough.",
    baseline: SMALL_BASELINE,
    crossed: &[("loss", "0,0.5%,1%"), ("fec", "none,tum:1,tum:2,tum:3,tum:4,adaptive:screen")],
    varied: Varied::OneByOne(&[("messages", "4,8,12,20,28,60")]),
    seeds: 5,
    figures: &[
        ReportFigure::Boxes { metric: "late_share", over: "messages", colours: "fec" },
        ReportFigure::Boxes { metric: "repair_share_late", over: "messages", colours: "fec" },
        ReportFigure::Distribution { metric: "response_ms", curves: "fec", logarithmic: false },
    ],
    published: &[],
    claims: &[],
    unmeasured: &[],
    notes: &[],
    way: ExperimentWay::Play(|params| setting(params, Some(THINK))),
};

fn setting(params: &Params, interactive: Option<Duration>) -> Result<Setting, ValueError> {
    let as_published = params.text("profile") == "as-published";
    let updates = params.whole("updates")?;
    let interval = match params.number_or_word("pace") {
        Some(pace) => Duration::from_secs_f64(1.0 / pace),
        // The paper's pace: 300 updates in 15 s.
        None if as_published => Duration::from_millis(50),
        None => Duration::ZERO,
    };
    let messages = link::updates(params, updates, interval, interactive)?;
    let bytes = updates * params.whole("messages")? * params.whole("message_bytes")?;
    // Half the stated loss each way: the counts of the paper fit that (its bridge lost in both directions).
    let spec = link::spec(params, if as_published { 0.5 } else { 1.0 })?;
    let think = interactive.unwrap_or_default() * updates.saturated::<u32>();
    let limit = link::patience(params, bytes)?
        + interval * updates.saturated::<u32>()
        + think
        + Duration::from_secs_f64(
            updates.approx() * if interactive.is_some() { params.number("rtt_ms")? * 8e-3 } else { 0.0 },
        );
    let mut flow = PlayFlow::new("screen", link::congestion(params)?, Work::Messages(messages));
    link::protect(&mut flow, params)?;
    Ok(Setting::new(spec, vec![flow], limit))
}

const THINK: Duration = Duration::from_millis(300);

const ABOUT: &str = "A server shows a screen to a client over a link that loses packets. The screen changes in updates of 100 \
    messages of 1400 bytes; nothing of an update may be drawn before all of the one before it is. In total order, which \
    is what a TCP connection or a QUIC stream gives, a lost packet holds back everything behind it; in partial order, \
    with a fence behind each update, only the updates behind it wait. With repair (fec), so many \
    symbols behind each update replace packets of it that are lost, and a request has one for itself. Measured is how long messages that have arrived \
    wait (blocking time), the time between two messages being handed on (inter-delivery time; points above the \
    round-trip time are pauses that one sees), and how long an update takes (response time). Profile as-published \
    halves the stated loss for each direction and paces 20 updates a second, as the paper's bridge and counts had it; \
    profile ours takes the full loss each way and sends as fast as the link takes it.";

const HALF: &str = "“As the paper has it” halves the loss for each direction: 0.5 % are 0.25 % each way. The paper writes 2 % where its bridge \
    loses 1 % in each direction, and its counts of pauses fit half the stated rates (300 updates of 100 packets, of which 14, 61 and \
    119 had a pause at 0.1, 0.5 and 1 %; half the rates give 14.6, 66 and 118, the full ones 29, 118 and 190). Beside each of these \
    numbers stands ours with the full rate of loss each way.";

const PACE: &str = "“As the paper has it” halves the loss for each direction (0.5 % are 0.25 % each way), which the paper’s counts of pauses fit, \
    and paces: an update each 50 ms, since the paper’s 300 took 15 s. An update of 140 kB is on a wire of 100 Mbit/s for 12 ms, \
    so that between two updates there is a pause of 38 ms in every run, with and without loss: it is the generator’s and says \
    nothing about fences or repair. The last update is due after 14.95 s, and with two round trips and its own 12 ms nobody can be done \
    before 15.1 s (10 Mbit/s: 35 s, for there the wire is the slower): so much of a completion is the pace. Beside each of these numbers stands ours with the \
    full loss each way and no pace, where the wire needs 3.6 s for all 42 MB.";

/// RFC 9438 §4.3, §5.1.
const CUBIC: &str = "CUBIC’s completions can be longer than published (67 s in figure 16): with losses that no queue causes, its window is what \
    RFC 9438 computes from their rate. At 0.25 % each way and a round trip of 100 ms that is an average of 24.5 packets (§4.3, as Reno: \
    √(3/2p); the cubic part alone, 1.054 · (RTT/p)^0.75, would be 16.8), or 2.7 Mbit/s, and 122 s for 42 MB; at 0.5 % 17.3 packets, 1.9 Mbit/s and 173 s. In 67 s \
    one gets at 0.075 %. Slow start, and losses of one round trip that count once, make it somewhat faster than that.";

/// The same for updates that are asked for.
const CUBIC_ASKED: &str = "CUBIC’s completions can be longer than published (160 s in figure 25): with losses that no queue causes, its window is \
    what RFC 9438 computes from their rate. At 0.25 % each way that is an average of 24.5 packets (§4.3, as Reno: √(3/2p)), so that an \
    update of 100 packets takes 4.1 windows, five round trips of 100 ms: with the 300 ms before each request 240 s for 300 updates. At 0.5 % \
    it is 17.3 packets, 5.8 windows, and 270 s. The published 160 s leave 0.23 s for an update, in which two windows come.";

const BASELINE: &[(&str, &str)] = &baseline("300", "100");

/// Five times as many updates of a fifth of the messages: as many packets that losses can hit.
const SMALL_BASELINE: &[(&str, &str)] = &baseline("1500", "20");

const fn baseline(updates: &'static str, messages: &'static str) -> [(&'static str, &'static str); 13] {
    [
        ("profile", "ours"),
        ("mode", "partial"),
        ("fec", "none"),
        ("fec_window", "4096"),
        ("loss", "0.5%"),
        ("rtt_ms", "100"),
        ("rate_mbit", "100"),
        ("cc", "bbr"),
        ("queue", "9MB"),
        ("pace", "max"),
        ("updates", updates),
        ("messages", messages),
        ("message_bytes", "1400"),
    ]
}

const CROSSED: &[(&str, &str)] = &[
    ("profile", "as-published,ours"),
    ("mode", "total,partial"),
    ("fec", "none,rs:103/100,rs:105/100,rs:110/100,adaptive:screen"),
];

const VARIED: Varied = Varied::OneByOne(&[
    ("loss", "0,0.1%,0.5%,1%"),
    ("rtt_ms", "50,100,200"),
    ("rate_mbit", "10,100,1000"),
    ("cc", "bbr,cubic"),
]);

/// Figure 17 has curves, the completion, and that repair costs times between messages less than 10 ms.
const STREAMING_PUBLISHED: &[Published] = &[
    published("9", "mode=total", "blocking_ms.p80", 101.08),
    published("9", "mode=total", "blocking_ms.p99", 230.0),
    published("9", "mode=total", "inter_delivery_ms.p9995", 135.0),
    published("9", "mode=partial", "inter_delivery_ms.p9995", 102.0),
    published("9", "mode=total", "over_rtt", 59.0),
    published("9", "mode=partial", "over_rtt", 18.0),
    published("9", "mode=total", "completion_s", 15.23),
    published("9", "mode=partial", "completion_s", 15.58),
    published("10", "mode=total loss=0.1%", "over_rtt", 16.0),
    published("10", "mode=partial loss=0.1%", "over_rtt", 6.0),
    published("10", "mode=total loss=0.1%", "completion_s", 15.45),
    published("10", "mode=partial loss=0.1%", "completion_s", 16.01),
    published("11", "mode=total loss=1%", "blocking_ms.p70", 99.0),
    published("11", "mode=total loss=1%", "blocking_ms.p99", 264.0),
    published("11", "mode=total loss=1%", "over_rtt", 55.0),
    published("11", "mode=partial loss=1%", "over_rtt", 28.0),
    published("11", "mode=total loss=1%", "completion_s", 15.38),
    published("11", "mode=partial loss=1%", "completion_s", 16.06),
    published("12", "mode=total rtt_ms=50", "over_rtt", 57.0),
    published("12", "mode=partial rtt_ms=50", "over_rtt", 28.0),
    published("12", "mode=total rtt_ms=50", "completion_s", 16.02),
    published("12", "mode=partial rtt_ms=50", "completion_s", 18.09),
    published("13", "mode=total rtt_ms=200", "blocking_ms.p70", 191.88),
    published("13", "mode=total rtt_ms=200", "blocking_ms.p80", 225.0),
    published("13", "mode=total rtt_ms=200", "blocking_ms.p99", 429.0),
    published("13", "mode=total rtt_ms=200", "over_rtt", 34.0),
    published("13", "mode=partial rtt_ms=200", "over_rtt", 22.0),
    published("13", "mode=total rtt_ms=200", "completion_s", 17.94),
    published("13", "mode=partial rtt_ms=200", "completion_s", 16.18),
    published("14", "mode=total rate_mbit=10", "over_rtt", 71.0),
    published("14", "mode=partial rate_mbit=10", "over_rtt", 13.0),
    published("14", "mode=total rate_mbit=10", "completion_s", 40.77),
    published("14", "mode=partial rate_mbit=10", "completion_s", 41.39),
    published("15", "mode=total rate_mbit=1000", "over_rtt", 46.0),
    published("15", "mode=partial rate_mbit=1000", "over_rtt", 19.0),
    published("15", "mode=total rate_mbit=1000", "completion_s", 15.45),
    published("15", "mode=partial rate_mbit=1000", "completion_s", 16.04),
    published("16", "mode=total cc=cubic", "over_rtt", 70.0),
    published("16", "mode=partial cc=cubic", "over_rtt", 40.0),
    published("16", "mode=total cc=cubic", "completion_s", 66.98),
    published("16", "mode=partial cc=cubic", "completion_s", 68.12),
    published("17", "mode=total loss=0", "completion_s", 15.47),
    published("17", "mode=partial loss=0", "completion_s", 16.38),
    published("9", "mode=partial fec=rs:105/100", "blocking_ms.p99", 0.4),
    published("9", "mode=partial fec=rs:110/100", "blocking_ms.p99", 0.4),
    published("9", "mode=partial fec=rs:105/100", "inter_delivery_ms.p9995", 6.0),
    published("9", "mode=partial fec=rs:110/100", "inter_delivery_ms.p9995", 9.0),
    published("9", "mode=partial fec=rs:105/100", "over_rtt", 1.0),
    published("9", "mode=partial fec=rs:110/100", "over_rtt", 1.0),
    published("9", "mode=partial fec=rs:105/100", "completion_s", 16.09),
    published("9", "mode=partial fec=rs:110/100", "completion_s", 16.33),
    published("10", "mode=partial fec=rs:103/100 loss=0.1%", "over_rtt", 1.0),
    published("10", "mode=partial fec=rs:105/100 loss=0.1%", "over_rtt", 1.0),
    published("10", "mode=partial fec=rs:103/100 loss=0.1%", "completion_s", 15.43),
    published("10", "mode=partial fec=rs:105/100 loss=0.1%", "completion_s", 15.11),
    published("11", "mode=partial fec=rs:110/100 loss=1%", "blocking_ms.p99", 0.4),
    published("11", "mode=partial fec=rs:105/100 loss=1%", "over_rtt", 1.0),
    published("11", "mode=partial fec=rs:110/100 loss=1%", "over_rtt", 1.0),
    published("11", "mode=partial fec=rs:105/100 loss=1%", "completion_s", 15.19),
    published("11", "mode=partial fec=rs:110/100 loss=1%", "completion_s", 17.21),
    published("12", "mode=partial fec=rs:105/100 rtt_ms=50", "over_rtt", 0.0),
    published("12", "mode=partial fec=rs:110/100 rtt_ms=50", "over_rtt", 1.0),
    published("12", "mode=partial fec=rs:105/100 rtt_ms=50", "completion_s", 15.97),
    published("12", "mode=partial fec=rs:110/100 rtt_ms=50", "completion_s", 18.1),
    published("13", "mode=partial fec=rs:105/100 rtt_ms=200", "blocking_ms.p99", 0.4),
    published("13", "mode=partial fec=rs:105/100 rtt_ms=200", "over_rtt", 2.0),
    published("13", "mode=partial fec=rs:110/100 rtt_ms=200", "over_rtt", 1.0),
    published("13", "mode=partial fec=rs:105/100 rtt_ms=200", "completion_s", 15.48),
    published("13", "mode=partial fec=rs:110/100 rtt_ms=200", "completion_s", 17.44),
    published("14", "mode=partial fec=rs:105/100 rate_mbit=10", "over_rtt", 0.0),
    published("14", "mode=partial fec=rs:110/100 rate_mbit=10", "over_rtt", 0.0),
    published("14", "mode=partial fec=rs:105/100 rate_mbit=10", "completion_s", 41.24),
    published("14", "mode=partial fec=rs:110/100 rate_mbit=10", "completion_s", 42.88),
    published("15", "mode=partial fec=rs:105/100 rate_mbit=1000", "over_rtt", 1.0),
    published("15", "mode=partial fec=rs:110/100 rate_mbit=1000", "over_rtt", 1.0),
    published("15", "mode=partial fec=rs:105/100 rate_mbit=1000", "completion_s", 16.15),
    published("15", "mode=partial fec=rs:110/100 rate_mbit=1000", "completion_s", 16.92),
    published("16", "mode=partial fec=rs:105/100 cc=cubic", "over_rtt", 2.0),
    published("16", "mode=partial fec=rs:110/100 cc=cubic", "over_rtt", 3.0),
    published("16", "mode=partial fec=rs:105/100 cc=cubic", "completion_s", 71.92),
    published("16", "mode=partial fec=rs:110/100 cc=cubic", "completion_s", 75.08),
    published("17", "mode=partial fec=rs:105/100 loss=0", "inter_delivery_ms.p9995-partial", 10.0),
    published("17", "mode=partial fec=rs:110/100 loss=0", "inter_delivery_ms.p9995-partial", 10.0),
    published("17", "mode=partial fec=rs:105/100 loss=0", "completion_s", 15.94),
    published("17", "mode=partial fec=rs:110/100 loss=0", "completion_s", 17.1),
];

/// Of figure 26, without loss, the paper gives no numbers.
const INTERACTIVE_PUBLISHED: &[Published] = &[
    published("18", "mode=total", "response_ms.p99", 325.26),
    published("18", "mode=total", "inter_delivery_ms.p9995", 113.5),
    published("18", "mode=partial", "inter_delivery_ms.p9995", 97.91),
    published("18", "mode=total", "over_rtt", 61.0),
    published("18", "mode=partial", "over_rtt", 7.0),
    published("18", "mode=total", "completion_s", 148.8),
    published("18", "mode=partial", "completion_s", 150.61),
    published("19", "mode=total loss=0.1%", "over_rtt", 14.0),
    published("19", "mode=partial loss=0.1%", "over_rtt", 0.0),
    published("19", "mode=total loss=0.1%", "completion_s", 138.96),
    published("19", "mode=partial loss=0.1%", "completion_s", 138.12),
    published("20", "mode=total loss=1%", "response_ms.p99", 319.88),
    published("20", "mode=partial loss=1%", "response_ms.p99", 318.02),
    published("20", "mode=total loss=1%", "over_rtt", 119.0),
    published("20", "mode=partial loss=1%", "over_rtt", 10.0),
    published("20", "mode=total loss=1%", "completion_s", 149.12),
    published("20", "mode=partial loss=1%", "completion_s", 150.37),
    published("21", "mode=total rtt_ms=50", "over_rtt", 70.0),
    published("21", "mode=partial rtt_ms=50", "over_rtt", 10.0),
    published("21", "mode=total rtt_ms=50", "completion_s", 128.98),
    published("21", "mode=partial rtt_ms=50", "completion_s", 133.74),
    published("22", "mode=total rtt_ms=200", "response_ms.p99", 422.0),
    published("22", "mode=total rtt_ms=200", "over_rtt", 55.0),
    published("22", "mode=partial rtt_ms=200", "over_rtt", 9.0),
    published("22", "mode=total rtt_ms=200", "completion_s", 180.24),
    published("22", "mode=partial rtt_ms=200", "completion_s", 185.66),
    published("23", "mode=total rate_mbit=10", "over_rtt", 79.0),
    published("23", "mode=partial rate_mbit=10", "over_rtt", 6.0),
    published("23", "mode=total rate_mbit=10", "completion_s", 165.38),
    published("23", "mode=partial rate_mbit=10", "completion_s", 165.59),
    published("24", "mode=total rate_mbit=1000", "over_rtt", 72.0),
    published("24", "mode=partial rate_mbit=1000", "over_rtt", 5.0),
    published("24", "mode=total rate_mbit=1000", "completion_s", 146.51),
    published("24", "mode=partial rate_mbit=1000", "completion_s", 146.0),
    published("25", "mode=total cc=cubic", "over_rtt", 68.0),
    published("25", "mode=partial cc=cubic", "over_rtt", 13.0),
    published("25", "mode=total cc=cubic", "completion_s", 159.68),
    published("25", "mode=partial cc=cubic", "completion_s", 157.12),
    published("18", "mode=partial fec=rs:105/100", "response_ms.p99", 161.82),
    published("18", "mode=partial fec=rs:105/100", "inter_delivery_ms.p9995", 1.47),
    published("18", "mode=partial fec=rs:110/100", "inter_delivery_ms.p9995", 1.79),
    published("18", "mode=partial fec=rs:105/100", "over_rtt", 0.0),
    published("18", "mode=partial fec=rs:110/100", "over_rtt", 1.0),
    published("18", "mode=partial fec=rs:105/100", "completion_s", 136.64),
    published("18", "mode=partial fec=rs:110/100", "completion_s", 139.14),
    published("19", "mode=partial fec=rs:105/100 loss=0.1%", "over_rtt", 1.0),
    published("19", "mode=partial fec=rs:110/100 loss=0.1%", "over_rtt", 1.0),
    published("19", "mode=partial fec=rs:105/100 loss=0.1%", "completion_s", 134.51),
    published("19", "mode=partial fec=rs:110/100 loss=0.1%", "completion_s", 135.61),
    published("20", "mode=partial fec=rs:105/100 loss=1%", "response_ms.p99", 316.94),
    published("20", "mode=partial fec=rs:110/100 loss=1%", "response_ms.p99", 164.19),
    published("20", "mode=partial fec=rs:105/100 loss=1%", "over_rtt", 1.0),
    published("20", "mode=partial fec=rs:110/100 loss=1%", "over_rtt", 1.0),
    published("20", "mode=partial fec=rs:105/100 loss=1%", "completion_s", 137.64),
    published("20", "mode=partial fec=rs:110/100 loss=1%", "completion_s", 135.77),
    published("21", "mode=partial fec=rs:105/100 rtt_ms=50", "over_rtt", 1.0),
    published("21", "mode=partial fec=rs:110/100 rtt_ms=50", "over_rtt", 1.0),
    published("21", "mode=partial fec=rs:105/100 rtt_ms=50", "completion_s", 123.46),
    published("21", "mode=partial fec=rs:110/100 rtt_ms=50", "completion_s", 122.56),
    published("22", "mode=partial fec=rs:105/100 rtt_ms=200", "response_ms.p99", 272.0),
    published("22", "mode=partial fec=rs:110/100 rtt_ms=200", "response_ms.p99", 272.0),
    published("22", "mode=partial fec=rs:105/100 rtt_ms=200", "over_rtt", 0.0),
    published("22", "mode=partial fec=rs:110/100 rtt_ms=200", "over_rtt", 0.0),
    published("22", "mode=partial fec=rs:105/100 rtt_ms=200", "completion_s", 167.06),
    published("22", "mode=partial fec=rs:110/100 rtt_ms=200", "completion_s", 167.88),
    published("23", "mode=partial fec=rs:105/100 rate_mbit=10", "over_rtt", 0.0),
    published("23", "mode=partial fec=rs:110/100 rate_mbit=10", "over_rtt", 0.0),
    published("23", "mode=partial fec=rs:105/100 rate_mbit=10", "completion_s", 158.97),
    published("23", "mode=partial fec=rs:110/100 rate_mbit=10", "completion_s", 158.2),
    published("24", "mode=partial fec=rs:105/100 rate_mbit=1000", "over_rtt", 0.0),
    published("24", "mode=partial fec=rs:110/100 rate_mbit=1000", "over_rtt", 2.0),
    published("24", "mode=partial fec=rs:105/100 rate_mbit=1000", "completion_s", 139.73),
    published("24", "mode=partial fec=rs:110/100 rate_mbit=1000", "completion_s", 138.71),
    published("25", "mode=partial fec=rs:105/100 cc=cubic", "over_rtt", 0.0),
    published("25", "mode=partial fec=rs:110/100 cc=cubic", "over_rtt", 0.0),
    published("25", "mode=partial fec=rs:105/100 cc=cubic", "completion_s", 150.32),
    published("25", "mode=partial fec=rs:110/100 cc=cubic", "completion_s", 147.66),
];

const fn published(figure: &'static str, at: &'static str, metric: &'static str, value: f64) -> Published {
    Published { figure, at, metric, value }
}
