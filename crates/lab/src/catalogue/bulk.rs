//! Downloads over lossy links: Michel et al., "FlEC" (IEEE/ACM ToN 2022), figures 3 and 4.

use quickset_base::number::Float;
use quickset_quic::Protection;

use super::link;
use crate::experiment::{Experiment, ExperimentWay, Params, ReportFigure, ValueError, Varied};
use crate::play::{Setting, Work};

/// Files of five sizes.
pub(super) static BULK: Experiment = Experiment {
    name: "bulk",
    title: "Downloads of 10 kB to 10 MB over 95 lossy links",
    source: "FlEC, IEEE/ACM ToN 2022, figures 3 and 4",
    about: "A client fetches a file from a server: 10 kB to 10 MB, over 95 links whose delay (5 to 100 ms one way), rate \
        (1 to 30 Mbit/s) and loss (0.1 to 8 % each way, the handshake's packets included) fill the space of these three \
        evenly. The queue holds one and a half bandwidth-delay products, the receive window never stops the sender, and \
        the congestion controller is BBR. Measured is the time from the first packet of the handshake to the last byte, \
        over what arithmetic allows: two round trips and each byte once at the link's rate; and, with repair, over that of \
        plain QUIC under the same losses (dct_ratio). Numbers over all points take of each point the median of its seeds.",
    baseline: &[
        ("mode", "plain"),
        ("fec", "none"),
        ("fec_window", "4096"),
        ("owd_ms", "50"),
        ("rate_mbit", "10"),
        ("loss", "1%"),
        ("size", "1MB"),
        ("cc", "bbr"),
        ("queue", "flec"),
        ("rwin", "unlimited"),
    ],
    crossed: &[("size", "10kB,40kB,100kB,1MB,10MB"), ("fec", "none,bulk,ac-rlnc,sr,adaptive:bulk")],
    varied: Varied::Space {
        points: 95,
        ranges: &[("owd_ms", 5.0, 100.0), ("rate_mbit", 1.0, 30.0), ("loss", 0.001, 0.08)],
    },
    seeds: 5,
    figures: &[
        ReportFigure::Runs { metric: "dct_ratio", curves: "fec" },
        ReportFigure::Runs { metric: "dct_s/ac-rlnc", curves: "fec" },
        ReportFigure::Runs { metric: "dct_over_ideal", curves: "fec" },
        ReportFigure::Scatter { x: "loss", y: "dct_ratio", colours: "fec" },
        ReportFigure::Scatter { x: "bytes_sent", y: "dct_s", colours: "fec" },
    ],
    published: &[],
    claims: &[
        (
            "3",
            "With repair symbols, the ratio to plain QUIC is below 1 for most points; at most a few of 40 kB and 100 kB are worse.",
        ),
        ("4", "Repair for the last flight alone is better than AC-RLNC, which repairs all along."),
    ],
    unmeasured: &[],
    notes: &[],
    way: ExperimentWay::Play(download),
};

/// One download, with the receive window of the key `rwin`.
pub(super) fn download(params: &Params) -> Result<Setting, ValueError> {
    let size = params.number_or_word("size").map(Float::whole);
    let mut flow = link::flec_flow("download", params, Work::Bytes(size))?;
    // The memory that holds repair symbols is taken from the window (FlEC §5.2).
    let share = if flow.protection == Protection::None { 1.0 } else { 0.95 };
    link::windows(
        &mut flow.transport,
        params.number_or_word("rwin").map(|bytes| (bytes * share).whole::<u64>()),
    );
    let spec = link::spec(params, 1.0)?;
    let limit = match size {
        Some(size) => link::patience(params, size)?,
        None => ENDLESS,
    };
    Ok(Setting::new(spec, vec![flow], limit))
}

/// What never ends is looked at for so long.
const ENDLESS: quickset_base::Duration = quickset_base::Duration::from_secs(60);
