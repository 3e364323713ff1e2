//! What repair costs where it cannot help, and what it costs others: an experiment of our own.

use quickset::Algorithm;
use quickset_base::Duration;
use quickset_base::number::{Float as _, Unsigned as _};

use super::link;
use crate::experiment::{Experiment, ExperimentWay, Params, ReportFigure, ValueError, Varied};
use crate::play::{PlayFlow, Setting, Work};

/// Who else may use the link.
pub const RIVALS: &[&str] = &["none", "cubic", "bbr"];

/// Nothing lost, a full queue, and company.
pub(super) static NO_HARM: Experiment = Experiment {
    name: "no-harm",
    title: "Repair where it cannot help: no loss, a queue that overflows, and a plain flow beside it",
    source: "our own",
    about: "A server shows a screen without end, in updates of 100 messages of 1400 bytes with a fence behind each, as fast as \
        the link takes it, while a plain flow without repair may fetch what it can over the same link (rival). The \
        queue holds a quarter of a bandwidth-delay product, one, or four; by itself the link loses nothing, or 1 % of the packets. What \
        is lost otherwise is lost to the queue, which is the senders' own doing: repair for it would only take the place of \
        data. Measured in the second half of the run are the use of the link (payload alone, so that repair is none of it) and \
        the first flow's share of what both get (first_share): beside an equal rival, what repair adds to it or takes from it. \
        Over the whole run: how much repair was sent, how long packets stand in the queue, and how long messages wait.",
    baseline: &[
        ("rival", "none"),
        ("fec", "none"),
        ("fec_window", "4096"),
        ("cc", "cubic"),
        ("queue", "1bdp"),
        ("loss", "0"),
        ("rtt_ms", "50"),
        ("rate_mbit", "20"),
        ("messages", "100"),
        ("message_bytes", "1400"),
        ("seconds", "30"),
    ],
    crossed: &[
        ("rival", "none,cubic"),
        ("queue", "0.25bdp,1bdp,4bdp"),
        ("fec", "none,rs:105/100,rs:110/100,adaptive:screen"),
    ],
    varied: Varied::OneByOne(&[("loss", "0,1%"), ("cc", "cubic,bbr")]),
    seeds: 5,
    figures: &[
        ReportFigure::Boxes { metric: "utilisation", over: "queue", colours: "fec" },
        ReportFigure::Boxes { metric: "first_share", over: "queue", colours: "fec" },
        ReportFigure::Boxes { metric: "repair_share_late", over: "queue", colours: "fec" },
        ReportFigure::Boxes { metric: "overflowed", over: "queue", colours: "fec" },
        ReportFigure::Distribution { metric: "blocking_ms", curves: "fec", logarithmic: false },
    ],
    published: &[],
    claims: &[],
    unmeasured: &[],
    notes: &[],
    way: ExperimentWay::Play(setting),
};

fn setting(params: &Params) -> Result<Setting, ValueError> {
    let seconds = params.number("seconds")?;
    let (messages, bytes) = (params.whole("messages")?, params.whole("message_bytes")?);
    // More than the link can carry.
    let updates = params.number("rate_mbit")? * 1e6 * seconds / 8.0 / (messages * bytes).approx();
    let plan = link::updates(params, updates.ceil().whole::<u64>() + 1, Duration::ZERO, None)?;
    let mut flow = PlayFlow::new("screen", link::congestion(params)?, Work::Messages(plan));
    link::protect(&mut flow, params)?;
    let mut flows = vec![flow];
    let rival = params.text("rival");
    if rival != "none" {
        let algorithm: Algorithm = rival.parse().map_err(|error| ValueError(format!("{error}")))?;
        let mut flow = PlayFlow::new("rival", algorithm, Work::Bytes(None));
        link::plain(&mut flow.transport);
        flows.push(flow);
    }
    let spec = link::spec(params, 1.0)?;
    let limit = Duration::from_secs_f64(seconds);
    Ok(Setting::new(spec, flows, limit))
}
