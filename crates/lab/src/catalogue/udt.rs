//! Fences over a protocol with a fixed rate: Eghbal and Lu, ICCS 2022, figures 4 to 8.

use super::link;
use crate::experiment::{Experiment, Figure, Params, Published, ValueError, Varied};
use crate::play::{Flow, Group, Messages, Piece, Setting, Work};

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
        these rates is never full. What gets lost is lost; with repair symbols, those that come back before a \
        retransmission does are recovered, the others unrecovered.",
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
    crossed: &[("loss", "0,0.1%,0.5%,1%"), ("mode", "total,partial")],
    varied: Varied::OneByOne(&[("rtt_ms", "20,70"), ("fence_every", "800,1600")]),
    seeds: 20,
    figures: &[
        Figure::Distribution { metric: "blocking_ms", curves: "mode", logarithmic: false },
        Figure::Series { series: "blocking", curves: "mode" },
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
    setting,
};

fn setting(params: &Params) -> Result<Setting, ValueError> {
    let (messages, every) = (params.whole("messages")?, params.whole("fence_every")?);
    let piece = Piece { bytes: params.whole("message_bytes")? as u32, deadline: None, area: None };
    let group = |begin: u64| Group {
        due: quickset_base::Duration::ZERO,
        messages: vec![piece; every.min(messages - begin) as usize],
        fence: true,
    };
    let plan = Messages {
        order: link::order(params),
        groups: (0..messages).step_by(every as usize).map(group).collect(),
        tell_deadlines: false,
        interactive: None,
    };
    let mut flow = Flow::new("blast", link::congestion(params)?, Work::Messages(plan));
    // A blast: nothing but its rate holds the sender back.
    link::windows(&mut flow.transport, None);
    flow.transport.send_buffer = 64 << 20;
    link::protect(&mut flow, params)?;
    let spec = link::spec(params, 1.0)?;
    let limit = link::patience(params, messages * u64::from(piece.bytes))?;
    Ok(Setting { up: spec.clone(), down: spec, flows: vec![flow], cross: Vec::new(), limit })
}

/// Recovered and unrecovered together are what was lost.
const PUBLISHED: &[Published] = &[
    lost("4", "mode=total loss=0.1% rtt_ms=20", 34.0),
    lost("4", "mode=partial loss=0.1% rtt_ms=20", 30.0),
    lost("4", "mode=total loss=0.5% rtt_ms=20", 165.0),
    lost("4", "mode=partial loss=0.5% rtt_ms=20", 184.0),
    lost("4", "mode=total loss=1% rtt_ms=20", 289.0),
    lost("5", "mode=total loss=0.1%", 34.0),
    lost("5", "mode=partial loss=0.1%", 29.0),
    lost("5", "mode=total loss=0.5%", 160.0),
    lost("5", "mode=partial loss=0.5%", 156.0),
    lost("5", "mode=total loss=1%", 320.0),
    lost("5", "mode=partial loss=1%", 349.0),
    lost("6", "mode=total loss=0.1% fence_every=800", 33.0),
    lost("6", "mode=partial loss=0.1% fence_every=800", 72.0),
    lost("6", "mode=total loss=0.5% fence_every=800", 158.0),
    lost("6", "mode=partial loss=0.5% fence_every=800", 204.0),
    lost("6", "mode=total loss=1% fence_every=800", 302.0),
    lost("6", "mode=partial loss=1% fence_every=800", 304.0),
];

const fn lost(figure: &'static str, at: &'static str, value: f64) -> Published {
    Published { figure, at, metric: "lost", value }
}
