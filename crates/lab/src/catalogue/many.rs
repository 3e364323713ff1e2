//! Many desktops behind one bottleneck, all of them with repair: an experiment of our own.

use quickset_base::Duration;
use quickset_base::number::{Float as _, Unsigned as _};

use super::link;
use crate::experiment::{Experiment, ExperimentWay, Params, ReportFigure, ValueError, Varied};
use crate::play::{PlayFlow, Setting, Work};

/// Users who all wait for one link.
pub(super) static SCREENS_MANY: Experiment = Experiment {
    name: "screens-many",
    title: "Many desktops that share a link, and all of them repair",
    source: "our own",
    about: "Up to 16 users each look at a desktop of their own over one link, as those of an office do. Each asks for an update of 50 \
        messages 300 ms after the one before is complete, for a minute; they begin one after the other. At 20 Mbit/s one of \
        them takes a thirteenth of the link, eight not two thirds, and 16 ask for more than it carries, so that each \
        has to wait for the others. The link loses nothing, or 1 % of the packets by chance, or its queue holds a quarter, half or one of a bandwidth-delay \
        product where all others hold four of them, and overflows. The question is whether repair that everybody uses hurts \
        everybody: what it adds takes the place of somebody's data, and it may fill the queue that loses the data. It does no harm if response and blocking \
        times are nowhere longer than without it, if the payload that all get together (goodput_bps, \
        in the second half of the run) is no less where the link is full, and if all get equal parts of it (fairness: Jain’s index, 1 is equal). \
        Good would be responses that are shorter under random loss for one as for eight, and repair that gives way where the \
        queue is what loses: adaptive repair is to send next to nothing there, while a fixed share is sent whatever it \
        does.",
    // Where no-harm asks for all that the link carries, one desktop asks for little: half the messages in an
    // update, and a queue that one alone does not fill. A minute, since each has to wait for the others.
    baseline: &[
        ("desktops", "1"),
        ("mode", "partial"),
        ("fec", "none"),
        ("fec_window", "4096"),
        ("cc", "cubic"),
        ("queue", "4bdp"),
        ("loss", "0"),
        ("rtt_ms", "50"),
        ("rate_mbit", "20"),
        ("messages", "50"),
        ("message_bytes", "1400"),
        ("seconds", "60"),
    ],
    crossed: &[("desktops", "1,2,4,8,16"), ("cc", "cubic,bbr"), ("fec", "none,rs:105/100,adaptive:screen")],
    varied: Varied::OneByOne(&[("loss", "0,1%"), ("queue", "0.25bdp,0.5bdp,1bdp,4bdp")]),
    seeds: 5,
    figures: &[
        ReportFigure::Boxes { metric: "response_ms.p50", over: "desktops", colours: "fec" },
        ReportFigure::Boxes { metric: "response_ms.p99", over: "desktops", colours: "fec" },
        ReportFigure::Boxes { metric: "blocking_ms.p99", over: "desktops", colours: "fec" },
        ReportFigure::Boxes { metric: "goodput_bps", over: "desktops", colours: "fec" },
        ReportFigure::Boxes { metric: "fairness", over: "desktops", colours: "fec" },
        ReportFigure::Boxes { metric: "repair_share", over: "desktops", colours: "fec" },
        ReportFigure::Boxes { metric: "overflowed", over: "desktops", colours: "fec" },
        ReportFigure::Distribution { metric: "response_ms", curves: "fec", logarithmic: true },
    ],
    published: &[],
    claims: &[],
    unmeasured: &[],
    notes: &[OVERFLOW],
    way: ExperimentWay::Play(setting),
};

/// Numbers of runs are of five seeds: `--set queue=0.25bdp,1bdp --set desktops=1,8,16 --set cc=cubic`.
const OVERFLOW: &str = "Where the queue is short, adaptive repair does not give way as it should: it takes the losses of a queue that others fill for \
    those of the path. With CUBIC, means of five seeds with 95 % confidence: at 16 desktops and a queue of one bandwidth-delay product \
    it sends 9.2 % of repair, an update takes 226 ms (±2.4) where it takes 214 (±10) without and 205 (±2.6) with a fixed 5 %, half of the \
    updates come within 219 ms where it is 189 without, and all get 17.0 Mbit/s together where they get 17.5 (±0.6) without. At 8 desktops and \
    a quarter of a product it sends 9.4 %, and at 16 desktops 5.4 %, with which responses are neither longer nor shorter than without (160 ms ±3.5 for \
    163 ±3.8, and 281 ±2.1 for 278 ±2.5). Where the queue does not overflow, at 8 desktops and one product, it sends 0.46 %. The \
    link is shared equally throughout (fairness 0.998 and more).";

fn setting(params: &Params) -> Result<Setting, ValueError> {
    let seconds = params.number("seconds")?;
    // More than can be asked for until the run ends.
    let updates = (seconds / THINK.as_secs_f64()).ceil().whole::<u64>() + 1;
    let plan = link::updates(params, updates, Duration::ZERO, Some(THINK))?;
    let desktops = params.whole("desktops")?;
    let mut flows = Vec::new();
    for n in 0..desktops {
        let mut flow = PlayFlow::new(
            &format!("desktop {}", n + 1),
            link::congestion(params)?,
            Work::Messages(plan.clone()),
        );
        flow.start = APART * n.saturated::<u32>();
        link::protect(&mut flow, params)?;
        flows.push(flow);
    }
    let spec = link::spec(params, 1.0)?;
    let limit = Duration::from_secs_f64(seconds);
    Ok(Setting::new(spec, flows, limit))
}

/// From an update to the request of the next.
const THINK: Duration = Duration::from_millis(300);
/// From the start of one desktop to that of the next: no part of a cycle of request and update, or all would
/// ask at once.
const APART: Duration = Duration::from_millis(170);
