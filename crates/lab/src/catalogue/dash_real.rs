//! The video of `dash`, in real time: programs in processes of their own, and HTTP/1.1 beside HTTP/3.

use crate::experiment::{Experiment, ExperimentWay, Published, ReportFigure, Varied};
use crate::timing;

/// Before a server that has a part of a core.
pub(super) static DASH_REAL: Experiment = Experiment {
    name: "dash-real",
    title: "The same video from a server that runs, and has a part of a core, by HTTP/3 and HTTP/1.1",
    source: "LiteQUIC, ACM Multimedia 2024, figures 8 and 9",
    about: "What dash plays in virtual time, with programs that run: quickset http serve in a process of its own, to which the system \
        gives a part of one core and no more (a control group with a quota, in periods of 10 ms), and quickset play with all players \
        in another, on the other cores, over the loopback interface. Real time is dear: the video lasts a minute and not five, in segments \
        of 2 s and not 10. The server's part is what lets plain HTTP/3 carry the published 1.79 Gbit/s over the scale, found before the first run with ten \
        downloads (quota=published); bitrates on the wire are those of the video over the scale, too, and told as those of the video. \
        HTTP/1.1 over TLS is served by the same program from the same files (http1), under the system's controller of the same name (cc). Beside each run with HTTP/3 stands what dash has with the same players \
        and a modelled processor that carries as much: all else is real. What the players' \
        cores were busy is told, so that one sees whether it was the server that was short. With rtt_ms and loss the players are behind an emulated link (quickset \
        link), which has what TCP needs as well; it works on the players' cores. It takes Linux, root, and two cores that do nothing else.",
    baseline: &[
        ("players", "100"),
        ("abr", "dynamic"),
        ("datapath", "plain"),
        ("quota", "published"),
        ("segment_s", "2"),
        ("seconds", "60"),
        ("scale", "2"),
        ("cc", "cubic"),
        ("rtt_ms", "0"),
        ("loss", "0"),
    ],
    crossed: &[
        ("players", "100,60,20"),
        ("abr", "dynamic,throughput"),
        ("datapath", "http1,plain,merging,adaptive"),
    ],
    varied: Varied::OneByOne(&[("loss", "0")]),
    seeds: 1,
    figures: &[
        ReportFigure::Lines { metric: "average_bitrate_mbps", over: "players", curves: "datapath" },
        ReportFigure::Lines { metric: "rebuffering_s", over: "players", curves: "datapath" },
        ReportFigure::Boxes { metric: "average_bitrate_mbps", over: "abr", colours: "datapath" },
        ReportFigure::Boxes { metric: "rebuffering_s", over: "abr", colours: "datapath" },
        ReportFigure::Lines { metric: "startup_s", over: "players", curves: "datapath" },
        ReportFigure::Lines { metric: "server_s_per_gb", over: "players", curves: "datapath" },
        ReportFigure::Lines { metric: "processor_share", over: "players", curves: "datapath" },
        ReportFigure::Lines { metric: "load_share", over: "players", curves: "datapath" },
        ReportFigure::Lines { metric: "average_bitrate_virtual_mbps", over: "players", curves: "datapath" },
        ReportFigure::Lines { metric: "average_bitrate_over_virtual", over: "players", curves: "datapath" },
        ReportFigure::Lines { metric: "rebuffering_virtual_s", over: "players", curves: "datapath" },
    ],
    published: &[
        Published { figure: "8", at: "datapath=merging", metric: "average_bitrate_mbps", value: 41.24 },
        Published { figure: "8", at: "datapath=merging", metric: "rebuffering_s", value: 0.22 },
        Published { figure: "9", at: "datapath=plain", metric: "rebuffering_s", value: 9.27 },
        Published { figure: "9", at: "abr=throughput datapath=plain", metric: "rebuffering_s", value: 32.37 },
    ],
    claims: &[
        ("8", "Plain HTTP/3 falls behind HTTP/1.1 from 40 players on, there by 23 % of the bitrate."),
        (
            "8",
            "At 100 players HTTP/3 with merging has 88 % of the bitrate of HTTP/1.1, and stands still for 0.13 s on average where HTTP/1.1 does for 0.23.",
        ),
        (
            "9",
            "With 100 players, whatever the rule, viewers of a light server stand still for 0.23 s on average.",
        ),
        (
            "9",
            "At 20 ms and 0.5 % of loss, with L2A and 20 players, plain HTTP/3 has 1.28 times the bitrate of HTTP/1.1, and stands still 89.9 % less; \
                with 100 players only the light server keeps that, and 85.2 % less time standing still.",
        ),
    ],
    unmeasured: &[],
    notes: &[
        "The published numbers are of a video of five minutes in segments of ten seconds, and of another server (nginx) on another machine. Times standing still are of a \
            minute here: what can be held against each other is who has more and by what factor.",
        "A server with a quota works for its part of each 10 ms and stands still for the rest; a round trip over the loopback interface takes as long. In virtual time the \
            processor is slow throughout.",
        "The poor network takes a scale of 1, since what a connection gets where packets are lost does not shrink with the video: --set rtt_ms=20 --set loss=0.5% --set scale=1 --set abr=l2a \
            --set players=20,100. The emulated link carries each packet through this process's kin: look at how late it was, at the end of this page.",
    ],
    way: ExperimentWay::Time(timing::video),
};
