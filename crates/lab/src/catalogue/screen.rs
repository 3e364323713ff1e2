//! Screen updates across a lossy link: Eghbal and Lu, Future Internet 2025, figures 9 to 26.

use quickset_base::Duration;

use super::link;
use crate::experiment::{Experiment, Figure, Params, Published, ValueError, Varied};
use crate::play::{Flow, Group, Messages, Piece, Setting, Work};

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
        Figure::Distribution { metric: "blocking_ms", curves: "mode", logarithmic: false },
        Figure::Distribution { metric: "inter_delivery_ms", curves: "mode", logarithmic: true },
    ],
    published: STREAMING_PUBLISHED,
    setting: |params| setting(params, None),
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
        Figure::Distribution { metric: "inter_delivery_ms", curves: "mode", logarithmic: true },
        Figure::Distribution { metric: "response_ms", curves: "mode", logarithmic: false },
    ],
    published: INTERACTIVE_PUBLISHED,
    setting: |params| setting(params, Some(THINK)),
};

fn setting(params: &Params, interactive: Option<Duration>) -> Result<Setting, ValueError> {
    let as_published = params.text("profile") == "as-published";
    let updates = params.whole("updates")?;
    let piece = Piece { bytes: params.whole("message_bytes")? as u32, deadline: None, area: None };
    let interval = match params.number_or_word("pace") {
        Some(pace) => Duration::from_secs_f64(1.0 / pace),
        // The paper's pace: 300 updates in 15 s.
        None if as_published => Duration::from_millis(50),
        None => Duration::ZERO,
    };
    let group = |n: u64| Group {
        due: interval * n as u32,
        messages: vec![piece; params.whole("messages").unwrap_or(1) as usize],
        fence: true,
    };
    let messages =
        Messages { order: link::order(params), groups: (0..updates).map(group).collect(), interactive };
    let bytes = updates * params.whole("messages")? * u64::from(piece.bytes);
    // Half the stated loss each way: the counts of the paper fit that (its bridge lost in both directions).
    let spec = link::spec(params, if as_published { 0.5 } else { 1.0 })?;
    let think = interactive.unwrap_or_default() * updates as u32;
    let limit = link::patience(params, bytes)?
        + interval * updates as u32
        + think
        + Duration::from_secs_f64(
            updates as f64 * if interactive.is_some() { params.number("rtt_ms")? * 8e-3 } else { 0.0 },
        );
    let flow = Flow::new("screen", link::congestion(params)?, Work::Messages(messages));
    Ok(Setting { up: spec.clone(), down: spec, flows: vec![flow], limit })
}

const THINK: Duration = Duration::from_millis(300);

const ABOUT: &str = "A server shows a screen to a client over a link that loses packets. The screen changes in updates of 100 \
    messages of 1400 bytes; nothing of an update may be drawn before all of the one before it is. In total order, which \
    is what a TCP connection or a QUIC stream gives, a lost packet holds back everything behind it; in partial order, \
    with a fence behind each update, only the updates behind it wait. Measured is how long messages that have arrived \
    wait (blocking time), the time between two messages being handed on (inter-delivery time; points above the \
    round-trip time are pauses that one sees), and how long an update takes (response time). Profile as-published \
    halves the stated loss for each direction and paces 20 updates a second, as the paper's bridge and counts had it; \
    profile ours takes the full loss each way and sends as fast as the link takes it.";

const BASELINE: &[(&str, &str)] = &[
    ("profile", "ours"),
    ("mode", "partial"),
    ("loss", "0.5%"),
    ("rtt_ms", "100"),
    ("rate_mbit", "100"),
    ("cc", "bbr"),
    ("queue", "9MB"),
    ("pace", "max"),
    ("updates", "300"),
    ("messages", "100"),
    ("message_bytes", "1400"),
];

const CROSSED: &[(&str, &str)] = &[("profile", "as-published,ours"), ("mode", "total,partial")];

const VARIED: Varied = Varied::OneByOne(&[
    ("loss", "0,0.1%,0.5%,1%"),
    ("rtt_ms", "50,100,200"),
    ("rate_mbit", "10,100,1000"),
    ("cc", "bbr,cubic"),
]);

const STREAMING_PUBLISHED: &[Published] = &[];
const INTERACTIVE_PUBLISHED: &[Published] = &[];
