//! Downloads into a small receive window: FlEC (IEEE/ACM ToN 2022), figures 6 to 11.

use super::bulk::download;
use crate::experiment::{Experiment, ExperimentWay, Published, ReportFigure, Varied};

/// Little loss.
pub(super) static RWIN_LOW: Experiment = Experiment {
    name: "rwin-0.5",
    title: "5 MB into receive windows of 70 kB to 3 MB at 0.5 % loss",
    source: "FlEC, IEEE/ACM ToN 2022, figure 6",
    about: ABOUT,
    baseline: &[
        ("mode", "plain"),
        ("fec", "none"),
        ("fec_window", "4096"),
        ("loss", "0.5%"),
        ("owd_ms", "200"),
        ("rate_mbit", "8"),
        ("rwin", "150kB"),
        ("size", "5MB"),
        ("cc", "bbr"),
        ("queue", "flec"),
    ],
    crossed: &[("rwin", WINDOWS), ("fec", PROTECTIONS)],
    varied: Varied::OneByOne(&[("loss", "0,0.5%")]),
    seeds: 95,
    figures: BOXES,
    published: &[],
    claims: &[(
        "6",
        "Repair gains less than at 2 % loss; with 70 kB it is slightly worse than plain QUIC, since 5 % of the window hold repair symbols.",
    )],
    unmeasured: &[],
    notes: &[],
    way: ExperimentWay::Play(download),
};

/// Much loss.
pub(super) static RWIN_HIGH: Experiment = Experiment {
    name: "rwin-2",
    title: "5 MB into receive windows of 70 kB to 3 MB at 2 % loss",
    source: "FlEC, IEEE/ACM ToN 2022, figure 7",
    about: ABOUT,
    baseline: &[
        ("mode", "plain"),
        ("fec", "none"),
        ("fec_window", "4096"),
        ("loss", "2%"),
        ("owd_ms", "200"),
        ("rate_mbit", "8"),
        ("rwin", "150kB"),
        ("size", "5MB"),
        ("cc", "bbr"),
        ("queue", "flec"),
    ],
    crossed: &[("rwin", WINDOWS), ("fec", PROTECTIONS)],
    varied: Varied::OneByOne(&[("loss", "0,2%")]),
    seeds: 95,
    figures: BOXES,
    published: &[],
    claims: &[("7", "The gains grow with the loss, and are greatest where the window is small.")],
    unmeasured: &[],
    notes: &[],
    way: ExperimentWay::Play(download),
};

/// What the time costs in bytes.
pub(super) static RWIN_SCATTER: Experiment = Experiment {
    name: "rwin-scatter",
    title: "5 MB into windows of 150 kB and 6 MB: the time against the bytes sent",
    source: "FlEC, IEEE/ACM ToN 2022, figures 8 and 9",
    about: ABOUT,
    baseline: &[
        ("mode", "plain"),
        ("fec", "none"),
        ("fec_window", "4096"),
        ("loss", "2%"),
        ("owd_ms", "200"),
        ("rate_mbit", "8"),
        ("rwin", "150kB"),
        ("size", "5MB"),
        ("cc", "bbr"),
        ("queue", "flec"),
    ],
    crossed: &[("rwin", "150kB,6MB"), ("fec", PROTECTIONS)],
    varied: Varied::OneByOne(&[("loss", "0,0.5%,2%")]),
    seeds: 95,
    figures: &[
        ReportFigure::Scatter { x: "bytes_sent", y: "dct_s", colours: "fec" },
        ReportFigure::Scatter { x: "bytes_sent", y: "dct_s", colours: "loss" },
    ],
    published: &[],
    claims: &[(
        "8, 9",
        "A policy that knows the window spends bytes where that saves time (150 kB, 2 %), and few where it does not (6 MB, 0.5 %).",
    )],
    unmeasured: &[],
    notes: &[],
    way: ExperimentWay::Play(download),
};

/// Over the whole space of links.
pub(super) static RWIN_DESIGN: Experiment = Experiment {
    name: "rwin-design",
    title: "5 MB into five receive windows over 95 lossy links",
    source: "FlEC, IEEE/ACM ToN 2022, figure 10",
    about: ABOUT,
    baseline: &[
        ("mode", "plain"),
        ("fec", "none"),
        ("fec_window", "4096"),
        ("loss", "1%"),
        ("owd_ms", "100"),
        ("rate_mbit", "10"),
        ("rwin", "150kB"),
        ("size", "5MB"),
        ("cc", "bbr"),
        ("queue", "flec"),
    ],
    crossed: &[("rwin", DESIGN_WINDOWS), ("fec", PROTECTIONS)],
    varied: Varied::Space {
        points: 95,
        ranges: &[("owd_ms", 5.0, 200.0), ("rate_mbit", 1.0, 30.0), ("loss", 0.001, 0.03)],
    },
    seeds: 1,
    figures: DESIGN_FIGURES,
    published: &[
        Published { figure: "10", at: "fec=buffer rwin=*", metric: "dct_ratio.below_one", value: 0.75 },
        Published {
            figure: "10",
            at: "fec=buffer rwin=150kB,250kB,400kB",
            metric: "dct_ratio.below_one",
            value: 0.8,
        },
        Published { figure: "10", at: "fec=buffer rwin=*", metric: "bdp_over_window.gaining", value: 1.53 },
        Published { figure: "10", at: "fec=buffer rwin=*", metric: "bdp_over_window.losing", value: 0.48 },
    ],
    claims: &[(
        "10",
        "75 % of the points gain, 80 % with windows up to 400 kB; the mean ratio of bandwidth-delay product to window is 1.53 where repair wins and 0.48 where it loses.",
    )],
    unmeasured: &[],
    notes: &[],
    way: ExperimentWay::Play(download),
};

/// The same with losses in bursts.
pub(super) static RWIN_BURSTY: Experiment = Experiment {
    name: "rwin-bursty",
    title: "5 MB into five receive windows over 95 links that lose in bursts",
    source: "FlEC, IEEE/ACM ToN 2022, figure 11",
    about: ABOUT,
    baseline: &[
        ("mode", "plain"),
        ("fec", "none"),
        ("fec_window", "4096"),
        ("ge_p", "0.005"),
        ("owd_ms", "100"),
        ("rate_mbit", "10"),
        ("rwin", "150kB"),
        ("size", "5MB"),
        ("cc", "bbr"),
        ("queue", "flec"),
    ],
    crossed: &[("rwin", DESIGN_WINDOWS), ("fec", PROTECTIONS)],
    varied: Varied::Space {
        points: 95,
        ranges: &[("owd_ms", 5.0, 200.0), ("rate_mbit", 1.0, 30.0), ("ge_p", 0.001, 0.015)],
    },
    seeds: 1,
    figures: DESIGN_FIGURES,
    published: &[],
    claims: &[("11", "Repair still improves most points when losses come in bursts of up to five packets.")],
    unmeasured: &[],
    notes: &[],
    way: ExperimentWay::Play(download),
};

const ABOUT: &str = "A receiver that can hold little makes loss expensive: behind a lost packet the window fills, the sender \
    stops, and the link stands idle for a round trip. A client fetches 5 MB into a receive window (of the stream and of \
    the connection) that stays at the size given, over links of 5 to 200 ms one way; the window lets through at most \
    itself once a round trip. Measured is the time from the first packet of the handshake to the last byte. Losses hold \
    for each direction; in bursts (rwin-bursty) one begins with the probability ge_p, goes on with 67 %, and ends after \
    five packets at the latest. When repair symbols are sent, the window is 5 % smaller: it pays for the memory that \
    holds them.";

const WINDOWS: &str = "70kB,150kB,250kB,400kB,1MB,3MB";
const DESIGN_WINDOWS: &str = "150kB,250kB,400kB,700kB,3MB";

const PROTECTIONS: &str = "none,buffer,adaptive:bulk";

const BOXES: &[ReportFigure] = &[
    ReportFigure::Boxes { metric: "dct_s", over: "rwin", colours: "fec" },
    ReportFigure::Boxes { metric: "dct_ratio", over: "rwin", colours: "fec" },
    ReportFigure::Boxes { metric: "bytes_sent", over: "rwin", colours: "fec" },
];

const DESIGN_FIGURES: &[ReportFigure] = &[
    ReportFigure::Runs { metric: "dct_ratio", curves: "fec" },
    ReportFigure::Scatter { x: "bdp_over_window", y: "dct_ratio", colours: "fec" },
    ReportFigure::Runs { metric: "dct_over_ideal", curves: "fec" },
];
