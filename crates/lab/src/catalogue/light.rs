//! Acknowledgements, often and rarely: the light datapath of LiteQUIC (ACM Multimedia 2024).

use quickset_base::Duration;

use super::link;
use crate::experiment::{Experiment, Figure, Params, Published, ValueError, Varied, Way};
use crate::play::{Flow, Setting, Work};
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
        Figure::Boxes { metric: "goodput_bps", over: "gso", colours: "ack" },
        Figure::Boxes { metric: "cpu_s_per_gb", over: "gso", colours: "ack" },
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
    unmeasured: &[
        ("throughput", "The best other stacks have 4.32 and 6.17 Gbit/s on that machine."),
        (
            "throughput",
            "Of all sends 99.4 % hand over more than 10 kB after every 10 packets, 50.2 % more than 60 kB after every 100.",
        ),
        (
            "throughput",
            "Of reads of up to 128 datagrams, at 2 Gbit/s 48 % have one with an acknowledgement and 84 % at most three, at 4 Gbit/s 80 % at most 60, and from 6 Gbit/s on 97 % are full.",
        ),
        (
            "throughput",
            "Faster cryptography takes its share of the processor from 12.1 to 0.6 % for headers, and from 33.3 to 21.9 % for payload.",
        ),
    ],
    notes: &[
        "The published numbers are of another machine and another stack: none of them says how fast ours should be, and what can be \
        held against each other is what each step is worth on its own machine. From +gso on the published ones have faster cryptography \
        as well as segmentation offload, which is why 6.11 is more than GSO alone makes of 2.43; ours has the same cryptography \
        throughout. `cargo xtask bench-peers` measures TLS over TCP and other stacks beside ours on one machine.",
        "HTTP/1.1 is hyper over rustls, as `quickset http serve` has it, and what it sends is in memory, as with QUIC: over the loopback \
        interface TCP hands pages over in pieces of up to 64 kB that are never packets, and neither end pays for a network card.",
    ],
    way: Way::Time(timing::transfer),
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
        every second packet. Measured in the second half of the run. The published gain of a third at 800 Mbit/s and 100 ms is not \
        found with CUBIC (1.00): it came of bursts, one for each rare acknowledgement, that the small buffer did not hold, and this \
        sender paces them. At 1000 Mbit/s and 5 ms with loss more than the published 1.7 is found (7): at 0.5 % a window of CUBIC is some 17 \
        packets, so that the hundredth never comes and each window waits for the delay that acknowledgements may have, 25 ms. With BBR it is 1.3.",
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
        Figure::Heat { metric: "goodput_bps/100:fixed:merged", x: "rate_mbit", y: "rtt_ms", panels: "ack" },
        Figure::Boxes { metric: "goodput_bps", over: "rate_mbit", colours: "ack" },
        Figure::Boxes { metric: "utilisation", over: "rtt_ms", colours: "ack" },
        Figure::Boxes { metric: "utilisation", over: "loss", colours: "ack" },
        Figure::Boxes { metric: "overflowed", over: "queue", colours: "ack" },
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
    notes: &[],
    way: Way::Play(endless),
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
        Figure::Lines { metric: "utilisation", over: "send_buffer", curves: "ack" },
        Figure::Lines { metric: "goodput_bps", over: "send_buffer", curves: "ack" },
    ],
    published: &[],
    claims: &[(
        "window",
        "With an acknowledgement for every hundredth packet the window must be 50 kB larger.",
    )],
    unmeasured: &[],
    notes: &[],
    way: Way::Play(endless),
};

/// A download that goes on until the run ends, of a receiver that takes all.
fn endless(params: &Params) -> Result<Setting, ValueError> {
    let mut flow = Flow::new("download", link::congestion(params)?, Work::Bytes(None));
    link::plain(&mut flow.transport);
    link::windows(&mut flow.transport, None);
    flow.transport.acks = link::acks(params)?;
    if let Some(bytes) = params.get("send_buffer").and_then(|_| params.number_or_word("send_buffer")) {
        flow.transport.send_buffer = bytes as u64;
    }
    let spec = link::spec(params, 1.0)?;
    let limit = Duration::from_secs_f64(params.number("seconds")?);
    Ok(Setting::new(spec, vec![flow], limit))
}
