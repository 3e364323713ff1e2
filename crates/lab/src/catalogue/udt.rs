//! Fences over a protocol with a fixed rate: Eghbal and Lu, ICCS 2022, figures 4 to 8.

use quickset_base::number::Unsigned as _;

use super::link;
use crate::experiment::{Experiment, ExperimentWay, Params, Published, ReportFigure, ValueError, Varied};
use crate::play::{
    MessageChannel, MessageGroup, MessagePiece, MessageStream, PlayFlow, Schedule, Setting, Work,
};

/// A file in messages at 800 Mbit/s, whatever gets lost.
pub(super) static FENCE_UDT: Experiment = Experiment {
    name: "fence-udt",
    title: "Messages at a fixed rate: how long they wait behind a loss, with fences and in total order",
    source: "ICCS 2022, figures 4 to 8",
    about: "32000 messages of 1400 bytes are sent at 800 Mbit/s over a link of 1 Gbit/s, and no loss slows the sender down. \
        In total order everything behind a lost message waits until it has come again, a round trip or more; with a fence \
        after every 1600 or 800 messages, only what is behind the next fence waits. Measured is how long messages \
        that have arrived wait (blocking time), over all of them and along the way. All rates of loss hold for each \
        direction: the paper's counts of lost messages fit that. The paper states no queue; ours has 9 MB, which at \
        these rates is never full. What gets lost is lost; with repair (sums of rows and of columns: xor2d), \
        those that come back before they are sent again are recovered, the others unrecovered. CUBIC and NewReno, which the \
        paper leaves for later, are slowed down by what is lost: the window that they keep decides how much a loss can hold back.",
    baseline: &[
        ("mode", "partial"),
        ("fec", "none"),
        ("fec_window", "16384"),
        ("loss", "0.5%"),
        ("rtt_ms", "70"),
        ("rate_mbit", "1000"),
        ("cc", "fixed:800mbit"),
        ("queue", "9MB"),
        ("messages", "32000"),
        ("message_bytes", "1400"),
        ("fence_every", "1600"),
    ],
    crossed: &[
        ("loss", "0,0.1%,0.5%,1%"),
        ("mode", "total,partial"),
        ("fec", "none,xor2d:40x40,xor2d:20x40,xor2d:20x20"),
    ],
    varied: Varied::OneByOne(&[
        ("rtt_ms", "20,70"),
        ("fence_every", "800,1600"),
        ("cc", "fixed:800mbit,cubic,newreno"),
    ]),
    seeds: 20,
    figures: &[
        ReportFigure::Distribution { metric: "blocking_ms", curves: "mode", logarithmic: false },
        ReportFigure::Series { series: "blocking", curves: "mode" },
    ],
    published: PUBLISHED,
    claims: &[
        (
            "4, 5, 6",
            "Messages wait less with fences than in total order at every rate of loss, and least with fences and repair.",
        ),
        (
            "7, 8",
            "In total order the blocking time stands near its peak for most messages; with fences it falls to nothing after each fence.",
        ),
    ],
    unmeasured: &[],
    notes: &[SLOWED],
    way: ExperimentWay::Play(setting),
};

/// RFC 9438 §4.3; numbers of runs are of all seeds: `--set loss=0.5% --set fec=none --set
/// cc=fixed:800mbit,cubic,newreno`.
const SLOWED: &str = "With CUBIC and NewReno, losses that no queue causes leave a window of √(3/2p) packets on average (RFC 9438 §4.3): at 0.5 % \
    each way 17.3 packets, which is 2.8 Mbit/s over a round trip of 70 ms, and 129 s for all of 44.8 MB. The runs of 20 seeds took 117 s \
    with CUBIC and 132 s with NewReno on average, and 0.7 s at the fixed rate. A loss holds back no more than what is under way with it. In \
    total order messages wait 7.2 ms (CUBIC, ±0.8 ms at 95 % confidence) and 8.1 ms (NewReno, ±0.6) on average, 99 % of them up to 90 and \
    111 ms; at the fixed rate, where thousands are under way, 71 ms (±1.7) on average. So few of them seldom reach across a fence behind each \
    1600: with fences messages wait 0.18 ms (±0.17) and 0.16 ms (±0.12) on average, and 99 % of them not at all, where the fixed \
    rate leaves 59 ms (±2.5). One seed says little of that: in some runs no loss falls just before a fence, and in the worst one message in \
    a hundred waits 59 ms. Fences are worth more to a sender that losses slow down than to a blast; what such a sender lacks is the rate, which \
    no order of delivery gives back.";

fn setting(params: &Params) -> Result<Setting, ValueError> {
    let (messages, every) = (params.whole("messages")?, params.whole("fence_every")?);
    let piece =
        MessagePiece { bytes: params.whole("message_bytes")?.saturated::<u32>(), deadline: None, area: None };
    let group = |begin: u64| MessageGroup {
        due: quickset_base::Duration::ZERO,
        messages: vec![piece; every.min(messages - begin).saturated::<usize>()],
        fence: true,
        channel: MessageChannel::First,
    };
    let plan = MessageStream {
        order: link::order(params),
        groups: (0..messages).step_by(every.saturated::<usize>()).map(group).collect(),
        tell_deadlines: false,
        schedule: Schedule::default(),
        interactive: None,
    };
    let mut flow = PlayFlow::new("blast", link::congestion(params)?, Work::Messages(plan));
    // A blast: nothing but its rate holds the sender back.
    link::windows(&mut flow.transport, None);
    flow.transport.send_buffer = 64 << 20;
    link::protect(&mut flow, params)?;
    let spec = link::spec(params, 1.0)?;
    let limit = link::patience(params, messages * u64::from(piece.bytes))?;
    Ok(Setting::new(spec, vec![flow], limit))
}

/// Recovered and unrecovered packets, which together are what was lost; "20x20" rows are of total order as
/// far as can be inferred.
const PUBLISHED: &[Published] = &[
    number("4", "mode=total fec=xor2d:40x40 loss=0.1% rtt_ms=20", "recovered", 34.0),
    number("4", "mode=total fec=xor2d:40x40 loss=0.1% rtt_ms=20", "unrecovered", 0.0),
    number("4", "mode=partial fec=xor2d:40x40 loss=0.1% rtt_ms=20", "recovered", 30.0),
    number("4", "mode=partial fec=xor2d:40x40 loss=0.1% rtt_ms=20", "unrecovered", 0.0),
    number("4", "mode=total fec=xor2d:40x40 loss=0.5% rtt_ms=20", "recovered", 133.0),
    number("4", "mode=total fec=xor2d:40x40 loss=0.5% rtt_ms=20", "unrecovered", 32.0),
    number("4", "mode=partial fec=xor2d:40x40 loss=0.5% rtt_ms=20", "recovered", 151.0),
    number("4", "mode=partial fec=xor2d:40x40 loss=0.5% rtt_ms=20", "unrecovered", 33.0),
    number("4", "mode=total fec=xor2d:40x40 loss=1% rtt_ms=20", "recovered", 217.0),
    number("4", "mode=total fec=xor2d:40x40 loss=1% rtt_ms=20", "unrecovered", 72.0),
    number("4", "mode=total fec=xor2d:20x20 loss=1% rtt_ms=20", "recovered", 299.0),
    number("4", "mode=total fec=xor2d:20x20 loss=1% rtt_ms=20", "unrecovered", 22.0),
    number("5", "mode=total fec=xor2d:40x40 loss=0.1%", "recovered", 34.0),
    number("5", "mode=total fec=xor2d:40x40 loss=0.1%", "unrecovered", 0.0),
    number("5", "mode=partial fec=xor2d:40x40 loss=0.1%", "recovered", 29.0),
    number("5", "mode=partial fec=xor2d:40x40 loss=0.1%", "unrecovered", 0.0),
    number("5", "mode=total fec=xor2d:40x40 loss=0.5%", "recovered", 146.0),
    number("5", "mode=total fec=xor2d:40x40 loss=0.5%", "unrecovered", 14.0),
    number("5", "mode=partial fec=xor2d:40x40 loss=0.5%", "recovered", 149.0),
    number("5", "mode=partial fec=xor2d:40x40 loss=0.5%", "unrecovered", 7.0),
    number("5", "mode=total fec=xor2d:40x40 loss=1%", "recovered", 275.0),
    number("5", "mode=total fec=xor2d:40x40 loss=1%", "unrecovered", 45.0),
    number("5", "mode=partial fec=xor2d:40x40 loss=1%", "recovered", 304.0),
    number("5", "mode=partial fec=xor2d:40x40 loss=1%", "unrecovered", 45.0),
    number("5", "mode=total fec=xor2d:20x20 loss=1%", "recovered", 285.0),
    number("5", "mode=total fec=xor2d:20x20 loss=1%", "unrecovered", 2.0),
    number("6", "mode=total fec=xor2d:20x40 loss=0.1% fence_every=800", "recovered", 33.0),
    number("6", "mode=total fec=xor2d:20x40 loss=0.1% fence_every=800", "unrecovered", 0.0),
    number("6", "mode=partial fec=xor2d:20x40 loss=0.1% fence_every=800", "recovered", 72.0),
    number("6", "mode=partial fec=xor2d:20x40 loss=0.1% fence_every=800", "unrecovered", 0.0),
    number("6", "mode=total fec=xor2d:20x40 loss=0.5% fence_every=800", "recovered", 158.0),
    number("6", "mode=total fec=xor2d:20x40 loss=0.5% fence_every=800", "unrecovered", 0.0),
    number("6", "mode=partial fec=xor2d:20x40 loss=0.5% fence_every=800", "recovered", 204.0),
    number("6", "mode=partial fec=xor2d:20x40 loss=0.5% fence_every=800", "unrecovered", 0.0),
    number("6", "mode=total fec=xor2d:20x40 loss=1% fence_every=800", "recovered", 302.0),
    number("6", "mode=total fec=xor2d:20x40 loss=1% fence_every=800", "unrecovered", 0.0),
    number("6", "mode=partial fec=xor2d:20x40 loss=1% fence_every=800", "recovered", 304.0),
    number("6", "mode=partial fec=xor2d:20x40 loss=1% fence_every=800", "unrecovered", 0.0),
    number("6", "mode=total fec=xor2d:20x20 loss=1% fence_every=800", "recovered", 302.0),
    number("6", "mode=total fec=xor2d:20x20 loss=1% fence_every=800", "unrecovered", 0.0),
];

const fn number(figure: &'static str, at: &'static str, metric: &'static str, value: f64) -> Published {
    Published { figure, at, metric, value }
}
