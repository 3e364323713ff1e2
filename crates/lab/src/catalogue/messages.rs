//! Messages with deadlines: FlEC (IEEE/ACM ToN 2022), figures 12 to 17. Which of them shows what follows from
//! the order in which the text speaks of them, and the numbers may be off by one: what is said of a figure is
//! what counts.

use quickset_base::Duration;
use quickset_base::number::Unsigned as _;
use quickset_sim::recording;

use super::link;
use crate::experiment::{CONFERENCE, Experiment, ExperimentWay, Params, ReportFigure, ValueError, Varied};
use crate::play::{MessageChannel, MessageGroup, MessagePiece, MessageStream, Schedule, Setting, Work};
use crate::trace::{VideoFrame, conference, frames};

/// Along the delay.
pub(super) static MESSAGES: Experiment = Experiment {
    name: "messages",
    title: "A video conference: which frames come within 250 ms, along the delay of the link",
    source: "FlEC, IEEE/ACM ToN 2022, figures 12 to 16, by our count",
    about: ABOUT,
    baseline: &[
        ("mode", "plain"),
        ("fec", "none"),
        ("fec_window", "4096"),
        ("api", "no"),
        ("schedule", "edf"),
        ("traffic", "video"),
        ("trace", CONFERENCE),
        ("messages", "2416"),
        ("deadline_ms", "250"),
        ("owd_ms", "100"),
        ("rate_mbit", "8"),
        ("rate_trace", "none"),
        ("loss", "1%"),
        ("cc", "bbr"),
        ("queue", "flec"),
    ],
    crossed: CROSSED,
    varied: Varied::OneByOne(&[
        ("owd_ms", "5,15,25,35,50,60,70,75,80,90,100,125,150,175,200"),
        ("loss", "0,1%"),
    ]),
    seeds: 20,
    figures: &[
        ReportFigure::Boxes { metric: "on_time", over: "owd_ms", colours: "mode" },
        ReportFigure::Lines { metric: "delivery_ms.p95", over: "owd_ms", curves: "mode" },
        ReportFigure::Lines { metric: "delivery_ms.p98", over: "owd_ms", curves: "mode" },
        ReportFigure::Lines { metric: "delivery_ms.p99", over: "owd_ms", curves: "mode" },
        ReportFigure::Lines { metric: "bytes_sent/plain", over: "owd_ms", curves: "mode" },
        ReportFigure::Distribution { metric: "delivery_ms", curves: "mode", logarithmic: false },
    ],
    published: &[],
    claims: &[
        (
            "12, 13, 14",
            "Of the delivery times (95, 98 and 99 %), plain QUIC’s 98 % are beyond 250 ms where the one-way delay is above 75 ms; FlEC delivers 99 % in time everywhere.",
        ),
        (
            "15",
            "No repair is sent where the one-way delay is below 70 ms, so no more bytes than plain QUIC’s: a retransmission comes in time there.",
        ),
        (
            "16",
            "A sender that does not know when the next message comes repairs each at once, and sends up to twice the bytes.",
        ),
    ],
    unmeasured: &[],
    notes: &[COUNTED],
    way: ExperimentWay::Play(setting),
};

/// Over the space of links.
pub(super) static MESSAGES_DESIGN: Experiment = Experiment {
    name: "messages-design",
    title: "A video conference over 95 lossy links: which frames come within 250 ms",
    source: "FlEC, IEEE/ACM ToN 2022, figure 17, by our count",
    about: ABOUT,
    baseline: MESSAGES.baseline,
    crossed: CROSSED,
    varied: Varied::Space {
        points: 95,
        ranges: &[("owd_ms", 5.0, 200.0), ("rate_mbit", 0.8, 30.0), ("loss", 0.001, 0.03)],
    },
    seeds: 1,
    figures: &[
        ReportFigure::Runs { metric: "on_time/plain", curves: "mode" },
        ReportFigure::Runs { metric: "on_time", curves: "mode" },
        ReportFigure::Scatter { x: "owd_ms", y: "on_time", colours: "mode" },
    ],
    published: &[],
    claims: &[("17", "FlEC never delivers fewer messages in time than plain QUIC.")],
    unmeasured: &[],
    notes: &[COUNTED],
    way: ExperimentWay::Play(setting),
};

const COUNTED: &str = "The numbers of the paper’s figures are counted from the order in which its text speaks of them, and may be off by one: what is \
    said of a figure is what our runs are to be held against.";

fn setting(params: &Params) -> Result<Setting, ValueError> {
    let deadline = Duration::from_secs_f64(params.number("deadline_ms")? / 1e3);
    let mut frames = recorded(params)?;
    frames.truncate(params.whole("messages")?.saturated::<usize>());
    let group = |frame: &VideoFrame, deadline, channel| MessageGroup {
        due: frame.at,
        messages: vec![MessagePiece { bytes: frame.bytes, deadline: Some(deadline), area: None }],
        fence: false,
        channel,
    };
    let length = frames.last().map_or(Duration::ZERO, |frame| frame.at);
    let mut groups: Vec<MessageGroup> =
        frames.iter().map(|frame| group(frame, deadline, MessageChannel::First)).collect();
    let sound = match params.text("traffic").as_str() {
        "video+audio" => Some(MessageChannel::First),
        "video/audio" => Some(MessageChannel::Urgent),
        _ => None,
    };
    if let Some(channel) = sound {
        let way = Duration::from_secs_f64(params.number("owd_ms")? / 1e3);
        let times = (0u32..).map(|n| AUDIO_EVERY * n).take_while(|at| *at <= length);
        groups.extend(
            times.map(|at| group(&VideoFrame { at, bytes: AUDIO_BYTES }, way + AUDIO_SLACK, channel)),
        );
        groups.sort_by_key(|group| group.due);
    }
    let bytes = groups.iter().flat_map(|group| &group.messages).map(|piece| u64::from(piece.bytes)).sum();
    let plan = MessageStream {
        order: link::order(params),
        groups,
        tell_deadlines: params.text("api") == "yes",
        schedule: match params.text("schedule").as_str() {
            "fifo" => Schedule::FirstCome,
            "round-robin" => Schedule::RoundRobin,
            _ => Schedule::Deadlines,
        },
        interactive: None,
    };
    let flow = link::flec_flow("conference", params, Work::Messages(plan))?;
    let spec = link::spec(params, 1.0)?;
    let limit = length + link::patience(params, bytes)?;
    Ok(Setting::new(spec, vec![flow], limit))
}

fn recorded(params: &Params) -> Result<Vec<VideoFrame>, ValueError> {
    let path = params.text("trace");
    if path == CONFERENCE {
        return Ok(conference());
    }
    let text = recording(&path).map_err(|error| ValueError(format!("the trace cannot be read: {error}")))?;
    let frames =
        frames(&text).map_err(|error| ValueError(format!("the trace {path} cannot be used: {error}")))?;
    if frames.is_empty() {
        return Err(ValueError(format!("the trace {path} has no frames; write lines like ?63721,1591")));
    }
    Ok(frames)
}

/// The library's own margin, the paper's, and what adapts.
const CROSSED: &[(&str, &str)] =
    &[("mode", "total,plain"), ("api", "no,yes"), ("fec", "none,messages,messages:25ms,adaptive:messages")];

/// Speech: a packet of it is of use for little longer than the way takes.
const AUDIO_EVERY: Duration = Duration::from_millis(20);
const AUDIO_BYTES: u32 = 160;
const AUDIO_SLACK: Duration = Duration::from_millis(60);

const ABOUT: &str = "The frames of a recorded video conference (2416 of them, 86.6 s, 15 and then 30 a second, 1915 bytes in the \
    median) are sent as messages, each of which is of use for 250 ms. Where a retransmission comes too late, a lost \
    packet is a lost frame. Mode plain lets each message go when it is complete, as a stream for each does in plain QUIC \
    (the paper's baseline); mode total is one ordered stream. With api=yes the sender is told of the deadlines and of when the \
    next frame comes, and gives up what has missed its deadline; with api=no it sends everything, and repair for a frame \
    goes right behind it. Repair is sent as late as the deadlines allow, so that it covers more frames, by the measured \
    jitter before that (messages) or by the paper's 25 ms; with repair, a frame is cut into packets of equal length. With schedule=edf, of the frames that wait the one with the closest deadline goes first, with fifo the \
    one that came first, with round-robin each has a stream of its own and these take turns; all of that matters with api=yes \
    alone. With traffic=video+audio, 160 bytes of sound that are of use for the one-way delay and 60 ms go beside the frames \
    every 20 ms; with traffic=video/audio, in a channel of their own that goes before that of the frames. Measured are the share of all frames that are let go in time, the time from a frame being due \
    to its being let go (of those that are), and the bytes sent.";
