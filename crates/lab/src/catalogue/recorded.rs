//! Recorded screens across lossy links: an experiment of our own.

use quickset_base::Duration;

use super::link;
use crate::experiment::{Experiment, ExperimentWay, Params, ReportFigure, ValueError, Varied};
use crate::play::{
    MessageChannel, MessageGroup, MessagePiece, MessageStream, PlayFlow, Schedule, Setting, Work,
};
use crate::trace::{Drawn, TracedUpdate, looped, scene};

/// Five scenes of a real VNC server.
pub(super) static SCREEN_TRACES: Experiment = Experiment {
    name: "screen-traces",
    title: "Recorded screens: typing, scrolling, paging and video over a lossy link",
    source: "our own: recordings of Xvnc",
    about: "What a VNC server drew was recorded: typing, scrolling line by line, a long file at once, a pager, and video over the \
        whole screen; a scene is looped to a minute. Each rectangle is a message, each update of the screen ends \
        with a fence. In total order a lost packet stops everything behind it; in partial order (mode partial) just the \
        updates behind its own; in latest order nothing waits, and what newer messages have covered is neither sent nor \
        sent again: the viewer draws no pixel over a newer one. Losses are independent (a share), or come in bursts \
        (ge: the shares of packets at which a burst begins and ends, lost within one, and lost outside). Repair covers an update, \
        also where no fence ends it. Measured is how long what has arrived waits (blocking \
        time), how long a message takes from being due to being let go (delivery time), how many pauses within \
        an update are longer than a round trip (over_rtt), and how many messages were given up.",
    baseline: &[
        ("scene", "page"),
        ("mode", "partial"),
        ("fec", "none"),
        ("fec_window", "4096"),
        ("loss", "1%"),
        ("rtt_ms", "100"),
        ("rate_mbit", "100"),
        ("rate_trace", "none"),
        ("cc", "bbr"),
        ("queue", "1bdp"),
        ("seconds", "60"),
    ],
    crossed: &[
        ("scene", "typing,scroll,fastscroll,page,video_soft"),
        ("mode", "total,partial,latest"),
        ("fec", "none,rs:105/100,adaptive:screen"),
    ],
    varied: Varied::OneByOne(&[
        ("loss", "0;0.5%;1%;2%;ge:0.5%,25%,95%,0.5%"),
        ("rtt_ms", "20,100,200"),
        ("rate_mbit", "20,100"),
    ]),
    seeds: 5,
    figures: &[
        ReportFigure::Distribution { metric: "delivery_ms", curves: "mode", logarithmic: true },
        ReportFigure::Distribution { metric: "blocking_ms", curves: "mode", logarithmic: false },
        ReportFigure::Boxes { metric: "delivery_ms.p99", over: "loss", colours: "mode" },
    ],
    published: &[],
    claims: &[],
    unmeasured: &[],
    notes: &[],
    way: ExperimentWay::Play(setting),
};

fn setting(params: &Params) -> Result<Setting, ValueError> {
    let name = params.text("scene");
    let updates = scene(&name).ok_or_else(|| ValueError(format!("there is no scene `{name}`")))?;
    let length = Duration::from_secs_f64(params.number("seconds")?);
    let updates = looped(&updates, length);
    let bytes = updates.iter().flat_map(|update| &update.messages).map(|drawn| u64::from(drawn.bytes)).sum();
    let plan = MessageStream {
        order: link::order(params),
        groups: updates.iter().map(group).collect(),
        tell_deadlines: false,
        schedule: Schedule::default(),
        interactive: None,
    };
    let mut flow = PlayFlow::new("screen", link::congestion(params)?, Work::Messages(plan));
    let spec = link::spec(params, 1.0)?;
    let limit = length + link::patience(params, bytes)?;
    link::protect(&mut flow, params)?;
    Ok(Setting::new(spec, vec![flow], limit))
}

fn group(update: &TracedUpdate) -> MessageGroup {
    let piece = |drawn: &Drawn| MessagePiece { bytes: drawn.bytes, deadline: None, area: Some(drawn.area) };
    let messages = update.messages.iter().map(piece).collect();
    MessageGroup { due: update.at, messages, fence: true, channel: MessageChannel::First }
}
