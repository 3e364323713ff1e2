//! What codes and decisions cost this machine: TUM (IFIP Networking 2025), figure 2, FlEC (ToN 2022), section
//! 6, and our own.

use crate::experiment::{Experiment, ExperimentWay, Published, ReportFigure, Varied};
use crate::timing;

/// Codes alone.
pub(super) static CODEC: Experiment = Experiment {
    name: "codec",
    title: "What repair symbols cost to make, and to use",
    source: "TUM, IFIP Networking 2025, figure 2",
    about: "One repair symbol is made over a window of 100 to 2000 packets (rlc), and 50 packets that were lost at the \
        beginning of it are recovered from 50 repair symbols, all of which have arrived: the time from the first of these to the \
        last packet. Reed-Solomon (rs) does the same in blocks of 100 with five repair symbols each, five losses in each; RaptorQ (raptorq, RFC 6330) \
        in one block of all packets, whose repair symbols share what is computed once for the block: it is told as a part of 50. An \
        ideal code recovers as many losses as there are repair symbols; how many more are needed is the mean over 200 \
        other sets of 50 losses. RaptorQ may fail in one case in 100 without any more, in one in 10,000 with one more, and in one in \
        1,000,000 with two (RFC 6330 §5.8); a square matrix of random numbers out of 256, as a window has it, is singular in one case in 255. Times are medians of \
        many repetitions on one core of this machine, whatever else it does, and of no two runs the same.",
    baseline: &[("codec", "rlc"), ("symbols", "1000"), ("symbol_bytes", "1500"), ("losses", "50")],
    crossed: &[("codec", "rlc,rs,raptorq")],
    varied: Varied::OneByOne(&[("symbols", "100,250,500,750,1000,1250,1500,1750,2000")]),
    seeds: 5,
    figures: &[
        ReportFigure::Lines { metric: "encode_ms", over: "symbols", curves: "codec" },
        ReportFigure::Lines { metric: "decode_ms", over: "symbols", curves: "codec" },
        ReportFigure::Lines { metric: "excess", over: "symbols", curves: "codec" },
    ],
    // Of one repair symbol the paper says that it takes less than this.
    published: &[
        Published { figure: "2", at: "codec=rlc", metric: "encode_ms", value: 1.0 },
        Published { figure: "2", at: "codec=rlc symbols=2000", metric: "encode_ms", value: 3.0 },
        Published { figure: "2", at: "codec=rlc", metric: "decode_ms", value: 35.0 },
    ],
    claims: &[],
    unmeasured: &[],
    notes: &[],
    way: ExperimentWay::Time(timing::codec),
};

/// A connection with them.
pub(super) static PERF_FEC: Experiment = Experiment {
    name: "perf-fec",
    title: "What forward erasure correction costs a fast transfer",
    source: "FlEC, IEEE/ACM ToN 2022, section 6",
    about: "A gigabyte is fetched over the loopback interface, with TLS, a thread for each end. Without losses there is nothing to \
        repair, so all of it is cost. Offered and idle it should cost next to nothing (adaptive:bulk, which wraps no packet \
        of a path without losses). Five symbols of Reed-Solomon for each 100 are 5 % more to send, and coded once a block; repair \
        after each 20 packets is as much, and codes the whole window each time. \
        Published, on another machine and stack, are 650 Mbit/s without, 300 with the bulk policy, and 280 with one repair symbol for \
        10 packets. Runs take turns; whatever else this machine does shows in them.",
    baseline: &[("fec", "none"), ("fec_window", "4096"), ("size", "1GB"), ("cc", "cubic")],
    crossed: &[("fec", "none,adaptive:bulk,bulk,rs:105/100,fixed:20,fixed:10")],
    varied: Varied::OneByOne(&[("size", "1GB")]),
    seeds: 5,
    figures: &[
        ReportFigure::Boxes { metric: "goodput_bps", over: "size", colours: "fec" },
        ReportFigure::Boxes { metric: "cpu_s_per_gb", over: "size", colours: "fec" },
    ],
    published: &[
        Published { figure: "text", at: "fec=none", metric: "goodput_bps", value: 650e6 },
        Published { figure: "text", at: "fec=bulk", metric: "goodput_bps", value: 300e6 },
        Published { figure: "text", at: "fec=fixed:10", metric: "goodput_bps", value: 280e6 },
    ],
    claims: &[],
    unmeasured: &[],
    notes: &[],
    way: ExperimentWay::Time(timing::transfer),
};

/// What `dash` makes its server's processor of.
pub(super) static DATAPATH: Experiment = Experiment {
    name: "datapath",
    title: "What a datagram, a batch and a byte cost the server that sends them",
    source: "our own",
    about: "A server sends 30 MB to a client on the same thread, with TLS and without sockets, and its part is timed: with \
        datagrams of 1452 and of 8000 bytes, with many in a batch and with one, with an acknowledgement for 2 datagrams and for 100. What a byte, a datagram, \
        a batch and an acknowledgement take is what the differences leave. The acknowledgements of a receive call are acted on one by one (gso) or as one (merging). \
        To that comes what the system takes, for calls over the loopback interface that send one datagram, or 44, and that receive a small one. \
        Each is the least of seven runs, or the median of 2000 calls. The experiments dash and dash-poor count with these costs.",
    baseline: &[("datapath", "gso"), ("size", "30MB")],
    crossed: &[("datapath", "gso,merging")],
    varied: Varied::OneByOne(&[("size", "30MB")]),
    seeds: 5,
    figures: &[
        ReportFigure::Boxes { metric: "send_batch_ns", over: "size", colours: "datapath" },
        ReportFigure::Boxes { metric: "send_datagram_ns", over: "size", colours: "datapath" },
        ReportFigure::Boxes { metric: "receive_batch_ns", over: "size", colours: "datapath" },
        ReportFigure::Boxes { metric: "receive_datagram_ns", over: "size", colours: "datapath" },
        ReportFigure::Boxes { metric: "byte_ps", over: "size", colours: "datapath" },
    ],
    published: &[],
    claims: &[],
    unmeasured: &[],
    notes: &[],
    way: ExperimentWay::Time(timing::datapath),
};

/// The scheduler alone.
pub(super) static SCHED_SCALE: Experiment = Experiment {
    name: "sched-scale",
    title: "How many decisions a second who sends next takes, among how many",
    source: "our own",
    about: "Leaves of a tree of classes, all with something to send and of equal weight, in branches of about equal size at each \
        step. A decision is to ask whose turn it is, and to charge a frame of 1200 bytes. Turns are a frame or two, and those \
        that follow each other lie apart in memory: it is the most that decisions can cost. Medians of many repetitions on one \
        core of this machine, whatever else it does, and of no two runs the same.",
    baseline: &[("leaves", "1000"), ("depth", "1")],
    crossed: &[("depth", "1,2,4,8")],
    varied: Varied::OneByOne(&[("leaves", "10,1000,100000")]),
    seeds: 5,
    figures: &[ReportFigure::Boxes { metric: "decisions_per_s", over: "leaves", colours: "depth" }],
    published: &[],
    claims: &[],
    unmeasured: &[],
    notes: &[],
    way: ExperimentWay::Time(timing::decisions),
};
