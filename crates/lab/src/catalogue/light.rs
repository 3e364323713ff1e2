//! Acknowledgements, often and rarely: the light datapath of LiteQUIC (ACM Multimedia 2024).

use quickset_base::Duration;
use quickset_base::number::Float as _;

use super::link;
use crate::experiment::{Experiment, ExperimentWay, Params, Published, ReportFigure, ValueError, Varied};
use crate::play::{PlayFlow, Setting, Work};
use crate::timing;

/// What acknowledgements cost a processor.
pub(super) static THROUGHPUT: Experiment = Experiment {
    name: "throughput",
    title: "Ten downloads at once from a server that has one core",
    source: "LiteQUIC, ACM Multimedia 2024",
    about: "Ten clients fetch from one server over the loopback interface, with TLS; a thread for the server and one for all \
        clients. The link has no limit, so that the processor is what ends it. Each acknowledgement costs the server about as much as \
        sending several packets: it asks for one after 2, 10, 50 or 100 packets throughout (fixed), or for as few as it can stand (adaptive). Each \
        datagram that came is answered and acted on by itself (single), or all of a receive call as one (merged), which is what \
        makes one segmentation offload (gso) of many packets possible. Beside it stands HTTP/1.1 over TLS, from a server with the same \
        bytes, the same library for TLS and as many threads: TCP has its acknowledgements and its segmentation in the system, so that \
        `gso` changes nothing there. Published are Gbit/s on another machine. Runs take \
        turns; whatever else this machine does shows in them, and no two are the same.",
    baseline: &[
        ("ack", "2:adaptive:merged"),
        ("gso", "yes"),
        ("connections", "10"),
        ("size", "1GB"),
        ("cc", "cubic"),
    ],
    crossed: &[
        ("gso", "yes,no"),
        (
            "ack",
            "2:fixed:single,10:fixed:single,50:fixed:single,100:fixed:single,2:fixed:merged,10:fixed:merged,50:fixed:merged,\
                100:fixed:merged,2:adaptive:merged,10:adaptive:merged,50:adaptive:merged,100:adaptive:merged,http1",
        ),
    ],
    varied: Varied::OneByOne(&[("connections", "10")]),
    seeds: 5,
    figures: &[
        ReportFigure::Boxes { metric: "goodput_bps", over: "gso", colours: "ack" },
        ReportFigure::Boxes { metric: "cpu_s_per_gb", over: "gso", colours: "ack" },
    ],
    published: &[
        Published { figure: "plain", at: "gso=no ack=2:fixed:single", metric: "goodput_bps", value: 1.79e9 },
        Published { figure: "plain", at: "gso=no ack=10:fixed:single", metric: "goodput_bps", value: 2.43e9 },
        Published {
            figure: "plain",
            at: "gso=no ack=100:fixed:single",
            metric: "goodput_bps",
            value: 2.65e9,
        },
        Published { figure: "+gso", at: "ack=2:fixed:single", metric: "goodput_bps", value: 2.28e9 },
        Published { figure: "+gso", at: "ack=10:fixed:single", metric: "goodput_bps", value: 6.11e9 },
        Published { figure: "+gso", at: "ack=100:fixed:single", metric: "goodput_bps", value: 8.02e9 },
        Published { figure: "+merging", at: "ack=2:fixed:merged", metric: "goodput_bps", value: 5.20e9 },
        Published { figure: "+merging", at: "ack=10:fixed:merged", metric: "goodput_bps", value: 7.09e9 },
        Published { figure: "+merging", at: "ack=100:fixed:merged", metric: "goodput_bps", value: 7.94e9 },
        Published { figure: "+adaptive", at: "ack=2:adaptive:merged", metric: "goodput_bps", value: 7.72e9 },
        Published { figure: "+adaptive", at: "ack=10:adaptive:merged", metric: "goodput_bps", value: 7.75e9 },
        Published {
            figure: "+adaptive",
            at: "ack=100:adaptive:merged",
            metric: "goodput_bps",
            value: 7.97e9,
        },
        Published { figure: "HTTP/1.1", at: "ack=http1", metric: "goodput_bps", value: 8.85e9 },
    ],
    claims: &[
        (
            "throughput",
            "GSO gains little while every second packet is acknowledged; merging brings most of it, and adapting all.",
        ),
        ("throughput", "GSO alone is worth 74, 104 and 109 % after every 10, 50 and 100 packets."),
    ],
    unmeasured: &[("throughput", "The best other stacks have 4.32 and 6.17 Gbit/s on that machine.")],
    notes: &[
        "The published numbers are of another machine and another stack: none of them says how fast ours should be, and what can be \
        held against each other is what each step is worth on its own machine. From +gso on the published ones have faster cryptography \
        as well as segmentation offload, which is why 6.11 is more than GSO alone makes of 2.43; ours has the same cryptography \
        throughout. `cargo xtask bench-peers` measures TLS over TCP and other stacks beside ours on one machine.",
        "HTTP/1.1 is hyper over rustls, as `quickset http serve` has it, and what it sends is in memory, as with QUIC: over the loopback \
        interface TCP hands pages over in pieces of up to 64 kB that are never packets, and neither end pays for a network card.",
    ],
    way: ExperimentWay::Time(timing::transfer),
};

/// What a server's processor does.
pub(super) static PROFILE: Experiment = Experiment {
    name: "light-profile",
    title: "What a server spends its processor on, by how often it is acknowledged",
    source: "LiteQUIC, ACM Multimedia 2024, figures 2, 4 and 5",
    about: "Ten clients fetch a file from one server over the loopback interface, as in throughput, by QUIC or by HTTP/1.1 over TLS \
        (ack http1), each end on a thread of its own; the file is in the system's page cache and read by the server's thread. A thousand \
        times a second of its processor time the kernel notes where that thread is (perf_event_open with the clock of the processor, \
        user and kernel mode). In the kernel it is the system call that counts, by the function of the C library that made it. In \
        the program it is the innermost function, with those that the compiler has put it into, that is known to belong to a part: by \
        the file that it was written in, or, in the assembly of aws-lc, by its name. AES of a single block is half of headers and half of \
        payload: each packet has one mask for either. Copying in the program cannot be told by \
        who asks for it, and is among all else. A kernel that does not permit it (kernel.perf_event_paranoid above 1 for who is not root) leaves \
        the shares out. Sends and reads are counted one by one, by the driver of the server's socket; a read brings at most eight \
        messages of the system, and each of these up to 64 datagrams that it has joined.",
    baseline: &[
        ("ack", "2:adaptive:merged"),
        ("gso", "yes"),
        ("connections", "10"),
        ("size", "1GB"),
        ("cc", "cubic"),
        ("source", "file"),
        ("offered_gbit", "unlimited"),
    ],
    crossed: &[
        ("gso", "yes,no"),
        (
            "ack",
            "2:fixed:single,10:fixed:single,50:fixed:single,100:fixed:single,2:fixed:merged,10:fixed:merged,100:fixed:merged,\
                2:adaptive:merged,http1",
        ),
    ],
    varied: Varied::OneByOne(&[("offered_gbit", "unlimited,2,4,6")]),
    seeds: 3,
    figures: &[
        ReportFigure::Parts {
            metrics: &[
                "spent_sending",
                "spent_receiving",
                "spent_acks",
                "spent_headers",
                "spent_payload",
                "spent_file",
                "spent_rest",
            ],
            over: "ack",
        },
        ReportFigure::Distribution { metric: "packets_per_send", curves: "ack", logarithmic: false },
        ReportFigure::Distribution { metric: "packets_per_read", curves: "ack", logarithmic: false },
        ReportFigure::Boxes { metric: "goodput_bps", over: "gso", colours: "ack" },
    ],
    published: &[
        Published { figure: "2", at: "gso=no ack=2:fixed:single", metric: "spent_sending", value: 0.4824 },
        Published { figure: "2", at: "gso=no ack=2:fixed:single", metric: "spent_acks", value: 0.1843 },
        Published { figure: "2", at: "gso=no ack=2:fixed:single", metric: "spent_crypto", value: 0.1616 },
        Published { figure: "2", at: "gso=no ack=100:fixed:single", metric: "spent_sending", value: 0.5764 },
        Published { figure: "2", at: "gso=no ack=100:fixed:single", metric: "spent_acks", value: 0.0265 },
        Published { figure: "2", at: "gso=yes ack=100:fixed:single", metric: "spent_crypto", value: 0.4691 },
        Published { figure: "2", at: "gso=no ack=http1", metric: "spent_sending", value: 0.3203 },
        Published { figure: "2", at: "gso=no ack=http1", metric: "spent_crypto", value: 0.2880 },
        Published { figure: "4", at: "gso=yes ack=10:fixed:single", metric: "sends_over_10kb", value: 0.994 },
        Published {
            figure: "4",
            at: "gso=yes ack=100:fixed:single",
            metric: "sends_over_60kb",
            value: 0.502,
        },
        Published { figure: "4", at: "gso=yes ack=100:fixed:single", metric: "spent_headers", value: 0.1212 },
        Published { figure: "4", at: "gso=yes ack=100:fixed:single", metric: "spent_payload", value: 0.3325 },
        Published { figure: "5", at: "ack=2:fixed:single offered_gbit=2", metric: "reads_of_1", value: 0.48 },
        Published {
            figure: "5",
            at: "ack=2:fixed:single offered_gbit=2",
            metric: "reads_up_to_3",
            value: 0.84,
        },
        Published { figure: "5", at: "ack=2:fixed:single offered_gbit=6", metric: "reads_full", value: 0.97 },
    ],
    claims: &[
        (
            "2",
            "Plain HTTP/3 spends half on sending and a fifth on acknowledgements; with one after 100 packets those are next to nothing, and sending \
            is what is left. With segmentation offload cryptography is the most.",
        ),
        (
            "4",
            "Rare acknowledgements make sends large: almost all hold over 10 kB after every 10, half of them over 60 kB after every 100.",
        ),
        (
            "5",
            "The faster the server, the more acknowledgements a read brings: one at 2 Gbit/s, as many as it takes from 6 on.",
        ),
    ],
    unmeasured: &[(
        "4",
        "The paper's own cryptography takes 0.61 % for headers, in batches, and 21.91 % for payload, where what it had before took 12.12 and 33.25 %.",
    )],
    notes: &[
        "The published shares are of nginx on another processor and a network card; what can be held against each other is which part is \
        the largest, and which way it goes. The loopback interface has the sender's thread do what a card and the receiver's kernel would do: \
        a send carries its packets up to the receiver's socket.",
        "The paper does not tell reading sockets from acknowledgements; here both are told, and together they are what its share may be.",
        "Figure 5 has reads of up to 128 datagrams, and ours take eight messages of the system, so that the published 80 % of at most 60 at \
        4 Gbit/s have no counterpart; full are here reads of eight datagrams or more. What is offered beyond what this machine can \
        do is not sent: the goodput says how much was.",
    ],
    way: ExperimentWay::Time(timing::profile),
};

/// What rare acknowledgements cost where the network is the bottleneck.
pub(super) static THROUGHPUT_POOR: Experiment = Experiment {
    name: "throughput-poor",
    title: "Rare acknowledgements over links with small buffers",
    source: "LiteQUIC, ACM Multimedia 2024",
    about: "A client fetches what it can for some seconds, over links of 50 to 1000 Mbit/s whose buffers hold 200 kB or 1 MB, which is \
        little at such rates, with 0.5 % of loss or none. The processor has time: what is asked of the network is whether fewer \
        acknowledgements (after 2, 10 or 100 packets throughout) make the sender slower, by bursts that a small buffer does not hold and \
        by news that come late. Where nothing but the network limits it, the adaptive rule asks for nothing, and must be as fast as \
        every second packet. Measured in the second half of the run.",
    baseline: &[
        ("ack", "2:fixed:merged"),
        ("cc", "cubic"),
        ("rtt_ms", "20"),
        ("rate_mbit", "200"),
        ("queue", "200kB"),
        ("loss", "0"),
        ("seconds", "8"),
    ],
    crossed: &[
        ("rate_mbit", "50,200,800,1000"),
        ("queue", "200kB,1MB"),
        ("loss", "0,0.5%"),
        ("ack", "2:fixed:merged,10:fixed:merged,100:fixed:merged,2:adaptive:merged"),
    ],
    varied: Varied::OneByOne(&[("rtt_ms", "5,20,50,100"), ("cc", "cubic,bbr")]),
    seeds: 3,
    figures: &[
        ReportFigure::Heat {
            metric: "goodput_bps/100:fixed:merged",
            x: "rate_mbit",
            y: "rtt_ms",
            panels: "ack",
        },
        ReportFigure::Boxes { metric: "goodput_bps", over: "rate_mbit", colours: "ack" },
        ReportFigure::Boxes { metric: "utilisation", over: "rtt_ms", colours: "ack" },
        ReportFigure::Boxes { metric: "utilisation", over: "loss", colours: "ack" },
        ReportFigure::Boxes { metric: "overflowed", over: "queue", colours: "ack" },
    ],
    published: &[
        Published {
            figure: "text",
            at: "rate_mbit=800 rtt_ms=100",
            metric: "goodput_bps/100:fixed:merged",
            value: 1.33,
        },
        Published {
            figure: "text",
            at: "rate_mbit=1000 rtt_ms=5 loss=0.5%",
            metric: "goodput_bps/100:fixed:merged",
            value: 1.7,
        },
    ],
    claims: &[(
        "throughput-poor",
        "Every second packet gains up to a third on every hundredth at 800 Mbit/s and 100 ms with the small buffer, and 1.7 times at 1000 Mbit/s and 5 ms with loss; the adaptive rule is never slower than every second.",
    )],
    unmeasured: &[],
    notes: &[
        "The published gain of a third at 800 Mbit/s with the small buffer is found at 20 ms (1.33: 674 Mbit/s to 508) and, in runs that are \
        long enough, at 50 ms (1.31: 86 % of the link to 66 % with seconds=40); at 100 ms it is 1.05 in 8 s and 1.10 in 120 s (587 Mbit/s to \
        532). A run of 8 s at 100 ms is over before CUBIC has climbed once to where the buffer overflows, which takes some 25 s: it \
        shows how slow start ended. And at 100 ms either way of acknowledging gets no further than 82 and 77 % of the link, from where \
        it is cut to 0.7 of that, so that there is less to lose. (--set rate_mbit=800 --set queue=200kB --set loss=0 --set rtt_ms=100 --set \
        seconds=120.)",
        "A hundred packets are 145 kB: the smaller the buffer is beside that, the more they cost. With 50 kB at 200 Mbit/s and 50 ms every \
        second packet gains 1.77 (86 % of the link to 48 %).",
        "With 0.5 % of loss, at 1000 Mbit/s and 5 ms, the gain is 7 where 1.7 was published (42 Mbit/s to 6.4, three seeds; 10 with the \
        first): a window of CUBIC is then some 18 packets (42 Mbit/s times 5 ms), so that the hundredth never comes, and each window waits for \
        the delay that acknowledgements may have, 25 ms. A round then takes 30 ms and not 5, with about the same window (6.4 Mbit/s times 30 ms \
        are 17 packets). A fixed number asks for just that; the adaptive rule asks for no more than a quarter of a window and of a round \
        trip, and loses nothing. With BBR, whose window such losses leave alone, the gain is 1.26 with the small buffer (940 Mbit/s to 744) \
        and none with the large one. (--set rate_mbit=1000 --set rtt_ms=5 --set loss=0.5% --set cc=cubic,bbr.)",
    ],
    way: ExperimentWay::Play(endless),
};

/// What they cost a sender that can hold little.
pub(super) static WINDOW: Experiment = Experiment {
    name: "window",
    title: "Sending windows around the bandwidth-delay product, and rare acknowledgements",
    source: "LiteQUIC, ACM Multimedia 2024",
    about: "A server keeps 200 to 350 kB of what it has sent until that is acknowledged, and then takes as much from its \
        application: over 80 Mbit/s and 30 ms, 300 kB are under way. Packets that wait for an acknowledgement that comes once in 10 or 100 \
        take their part of that window. Measured in the second half of the run is what of the link is used.",
    baseline: &[
        ("ack", "2:fixed:merged"),
        ("cc", "cubic"),
        ("rtt_ms", "30"),
        ("rate_mbit", "80"),
        ("queue", "1MB"),
        ("loss", "0"),
        ("send_buffer", "300kB"),
        ("seconds", "10"),
    ],
    crossed: &[
        ("send_buffer", "200kB,225kB,250kB,275kB,300kB,325kB,350kB,400kB"),
        ("ack", "2:fixed:merged,10:fixed:merged,100:fixed:merged,2:adaptive:merged"),
    ],
    varied: Varied::OneByOne(&[("loss", "0")]),
    seeds: 3,
    figures: &[
        ReportFigure::Lines { metric: "utilisation", over: "send_buffer", curves: "ack" },
        ReportFigure::Lines { metric: "goodput_bps", over: "send_buffer", curves: "ack" },
    ],
    published: &[],
    claims: &[(
        "window",
        "With an acknowledgement for every hundredth packet the window must be 50 kB larger.",
    )],
    unmeasured: &[],
    notes: &[],
    way: ExperimentWay::Play(endless),
};

/// A download that goes on until the run ends, of a receiver that takes all.
fn endless(params: &Params) -> Result<Setting, ValueError> {
    let mut flow = PlayFlow::new("download", link::congestion(params)?, Work::Bytes(None));
    link::plain(&mut flow.transport);
    link::windows(&mut flow.transport, None);
    flow.transport.acks = link::acks(params)?;
    if let Some(bytes) = params.get("send_buffer").and_then(|_| params.number_or_word("send_buffer")) {
        flow.transport.send_buffer = bytes.whole::<u64>();
    }
    let spec = link::spec(params, 1.0)?;
    let limit = Duration::from_secs_f64(params.number("seconds")?);
    Ok(Setting::new(spec, vec![flow], limit))
}
