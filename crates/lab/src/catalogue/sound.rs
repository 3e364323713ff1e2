//! Sound of a desktop: frames of Opus every 20 ms, each of which is of use until it is to be heard.

use quickset_base::Duration;
use quickset_base::number::Unsigned as _;

use super::link;
use crate::experiment::{Experiment, ExperimentWay, Params, ReportFigure, ValueError, Varied};
use crate::play::{MessageChannel, MessageGroup, MessagePiece, MessageStream, Schedule, Setting, Work};

/// Beside what TCP would do.
pub(super) static SOUND: Experiment = Experiment {
    name: "sound",
    title: "Sound of a desktop: which frames come in time for a play-out delay of 120 ms",
    source: "our own: spec/desktop.md §13",
    about: ABOUT,
    baseline: &[
        ("mode", "plain"),
        ("fec", "none"),
        ("fec_window", "4096"),
        ("api", "yes"),
        ("messages", "30000"),
        ("message_bytes", "246"),
        ("deadline_ms", "120"),
        ("owd_ms", "50"),
        ("rate_mbit", "20"),
        ("rate_trace", "none"),
        ("loss", "1%"),
        ("cc", "bbr"),
        ("queue", "flec"),
    ],
    crossed: &[("mode", "total,plain"), ("api", "no,yes"), ("fec", "none,messages,adaptive:messages")],
    varied: Varied::OneByOne(&[("loss", "0;1%;3%;ge:0.5%,50%"), ("owd_ms", "10,30,50,70")]),
    seeds: 5,
    figures: &[
        ReportFigure::Boxes { metric: "on_time", over: "loss", colours: "mode" },
        ReportFigure::Boxes { metric: "on_time", over: "owd_ms", colours: "mode" },
        ReportFigure::Lines { metric: "bytes_sent/plain", over: "loss", curves: "mode" },
        ReportFigure::Distribution { metric: "delivery_ms", curves: "mode", logarithmic: false },
    ],
    published: &[],
    claims: &[],
    unmeasured: &[],
    notes: &[],
    way: ExperimentWay::Play(setting),
};

fn setting(params: &Params) -> Result<Setting, ValueError> {
    let deadline = Duration::from_secs_f64(params.number("deadline_ms")? / 1e3);
    let bytes = params.whole("message_bytes")?.saturated::<u32>();
    let count = params.whole("messages")?.saturated::<u32>();
    let frame = MessagePiece { bytes, deadline: Some(deadline), area: None };
    let group = |n: u32| MessageGroup {
        due: EVERY * n,
        messages: vec![frame],
        fence: false,
        channel: MessageChannel::First,
    };
    let plan = MessageStream {
        order: link::order(params),
        groups: (0..count).map(group).collect(),
        tell_deadlines: params.text("api") == "yes",
        schedule: Schedule::Deadlines,
        interactive: None,
    };
    let flow = link::flec_flow("sound", params, Work::Messages(plan))?;
    let limit = EVERY * count + link::patience(params, u64::from(bytes) * u64::from(count))?;
    Ok(Setting::new(link::spec(params, 1.0)?, vec![flow], limit))
}

/// A frame of Opus.
const EVERY: Duration = Duration::from_millis(20);

const ABOUT: &str = "Ten minutes of sound, a frame of Opus every 20 ms (96 kbit/s, 240 bytes and 6 of number and time, as the gateway sends them), are sent as messages. \
    Each is of use for 120 ms from its recording, which is the delay at which it is played. A resend needs more than that where the \
    way takes 50 ms, since that something is missing shows with the third frame behind it. In mode total with api=no and no repair \
    the frames are in one ordered stream and all are sent until they arrive, as by TCP; mode plain lets each go when it is there. With api=yes the sender \
    knows of the deadlines and of when the next frame comes, and repair (fec) waits for as many frames as that leaves time for. Measured are \
    the share of all frames that are let go in time, the time from a frame being due to its being let go, and the bytes sent.";
