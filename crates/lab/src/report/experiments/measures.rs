//! All measures, with what is said of them where people read.

use super::words::{LESS, OVER};

/// What to say of a measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportMeasure {
    /// As in rows, without a percentile.
    pub(crate) path: &'static str,
    pub(crate) label: &'static str,
    pub(crate) unit: &'static str,
    /// From the unit of rows to this one.
    pub(crate) factor: f64,
    pub(crate) better: Better,
    /// What it is, in a sentence.
    pub(crate) about: &'static str,
}

/// Which way a measure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Less,
    More,
    Neither,
}

impl ReportMeasure {
    /// Of a path with or without a percentile; a measure that is not known here has its path for a name.
    pub(crate) fn of(path: &str) -> Option<&'static Self> {
        let base = path.split(['.', OVER, LESS]).next().unwrap_or(path);
        MEASURES.iter().find(|measure| measure.path == base)
    }
}

const fn measure(
    path: &'static str,
    label: &'static str,
    unit: (&'static str, f64),
    better: Better,
    about: &'static str,
) -> ReportMeasure {
    ReportMeasure { path, label, unit: unit.0, factor: unit.1, better, about }
}

const MS: (&str, f64) = ("ms", 1.0);
const SECONDS: (&str, f64) = ("s", 1.0);
const COUNT: (&str, f64) = ("", 1.0);
const PERCENT: (&str, f64) = ("%", 100.0);
const MEGABYTES: (&str, f64) = ("MB", 1e-6);

const MEASURES: &[ReportMeasure] = &[
    measure(
        "blocking_ms",
        "blocking time",
        MS,
        Better::Less,
        "from the moment a message was complete at the receiver to the moment it was let go: how long it waited for \
         others",
    ),
    measure(
        "inter_delivery_ms",
        "inter-delivery time",
        MS,
        Better::Less,
        "from one message let go to the next; messages let go together have nothing between them and are drawn at the \
         left edge",
    ),
    measure(
        "response_ms",
        "response time",
        MS,
        Better::Less,
        "from the request to all of its answer being there",
    ),
    measure(
        "delivery_ms",
        "delivery time",
        MS,
        Better::Less,
        "from a message being due at the sender to its being let go",
    ),
    measure(
        "byte_delay_ms",
        "byte delay",
        MS,
        Better::Less,
        "from a byte being due at the sender to its being read",
    ),
    measure(
        "over_rtt",
        "pauses over a round trip",
        COUNT,
        Better::Less,
        "how many times in a run the next message of the same update was let go more than a round trip after the one \
         before",
    ),
    measure(
        "completion_s",
        "completion",
        SECONDS,
        Better::Less,
        "from the client’s first packet, the handshake included, to its having everything",
    ),
    measure(
        "paced_s",
        "the pace alone",
        SECONDS,
        Better::Neither,
        "from the client’s first packet to the last update being due: no run is complete before",
    ),
    measure(
        "dct_s",
        "download time",
        SECONDS,
        Better::Less,
        "from the client’s first packet, the handshake included, to the last byte",
    ),
    measure(
        "dct_ratio",
        "download time over plain QUIC’s",
        COUNT,
        Better::Less,
        "over that of plain QUIC with the same losses",
    ),
    measure(
        "dct_over_ideal",
        "download time over the ideal",
        COUNT,
        Better::Less,
        "over what arithmetic allows: two round trips, and every byte once at the link’s rate",
    ),
    measure(
        "bdp_over_window",
        "bandwidth-delay product over the receive window",
        COUNT,
        Better::Neither,
        "above 1 the window, and not the link, is what a sender without losses is held by",
    ),
    measure(
        "on_time",
        "on time",
        PERCENT,
        Better::More,
        "the share of messages let go before their deadline",
    ),
    measure(
        "goodput_bps",
        "goodput",
        ("Mbit/s", 1e-6),
        Better::More,
        "payload that applications were given, over time; of flows without end in the second half of the run",
    ),
    measure(
        "fairness",
        "fairness",
        COUNT,
        Better::More,
        "Jain’s index over the flows’ goodputs in the second half of the run: 1 is equal, 0.5 all for one of two",
    ),
    measure(
        "utilisation",
        "utilisation",
        PERCENT,
        Better::More,
        "payload in the second half of the run over what the link carries in UDP datagrams of full length, less what \
         others send on average",
    ),
    measure(
        "first_share",
        "the first flow’s share",
        PERCENT,
        Better::Neither,
        "of all goodput in the second half of the run",
    ),
    measure(
        "fair_after_s",
        "time to equal parts",
        SECONDS,
        Better::Less,
        "from the last flow’s start to the first ten seconds in which each gets within a tenth of an equal part",
    ),
    measure(
        "slow",
        "slow answers",
        PERCENT,
        Better::Less,
        "the share of answers that took longer than 1.6 round trips: something was sent again",
    ),
    measure(
        "slow_twice",
        "answers that are slow twice",
        PERCENT,
        Better::Less,
        "the share of answers that took longer than 2.6 round trips: what was sent again was lost, too",
    ),
    measure(
        "on_path",
        "bytes without delay",
        PERCENT,
        Better::More,
        "the share of bytes read at most 10 ms later than the path’s delay allows",
    ),
    measure(
        "paint_s",
        "first sight",
        SECONDS,
        Better::Less,
        "from the client’s first packet, the handshake included, to everything that is seen first being there",
    ),
    measure(
        "off_prediction",
        "off the prediction",
        PERCENT,
        Better::Less,
        "the greatest difference of a resource’s completion from the time computed for a fluid, over that time",
    ),
    measure(
        "off_share",
        "off the weights",
        PERCENT,
        Better::Less,
        "the greatest difference of a share from the weight, in 200 ms in which all who share have something to send",
    ),
    measure(
        "average_bitrate_mbps",
        "average bitrate",
        ("Mbit/s", 1.0),
        Better::More,
        "AB: the mean over all that was played by all players, by the bitrates of the video",
    ),
    measure(
        "rebuffering_s",
        "time standing still",
        SECONDS,
        Better::Less,
        "RT: how long a player stood still in all, after its first picture; the mean over players",
    ),
    measure("stalls", "stalls", COUNT, Better::Less, "how often a player stood still; the mean over players"),
    measure(
        "startup_s",
        "time to the first picture",
        SECONDS,
        Better::Less,
        "from the first packet of a player, the handshake included; the mean over players",
    ),
    measure(
        "switches",
        "switches",
        COUNT,
        Better::Less,
        "segments of another bitrate than the one before; the mean over players",
    ),
    measure(
        "processor_share",
        "processor in use",
        PERCENT,
        Better::Neither,
        "of the time of the run, the server’s one core, or the part of it that it has",
    ),
    measure(
        "average_bitrate_virtual_mbps",
        "average bitrate in virtual time",
        ("Mbit/s", 1.0),
        Better::More,
        "of the same players before a modelled processor that carries as much with plain HTTP/3 (dash, dash-poor)",
    ),
    measure(
        "average_bitrate_over_virtual",
        "average bitrate over that in virtual time",
        COUNT,
        Better::Neither,
        "the one of the run over the one that the model has",
    ),
    measure(
        "rebuffering_virtual_s",
        "time standing still in virtual time",
        SECONDS,
        Better::Less,
        "of the same players before the modelled processor; the mean over players",
    ),
    measure(
        "server_share",
        "the server’s part of a core",
        PERCENT,
        Better::Neither,
        "what the system gave it at most, in periods of 10 ms",
    ),
    measure(
        "capacity_mbps",
        "what the server’s part carries",
        ("Mbit/s", 1.0),
        Better::Neither,
        "by plain HTTP/3, found with ten downloads before the first run, in bytes of the video",
    ),
    measure(
        "server_s_per_gb",
        "processor time of the server",
        ("s/GB", 1.0),
        Better::Less,
        "for each gigabyte of content that players got",
    ),
    measure(
        "load_share",
        "cores of the players in use",
        PERCENT,
        Better::Neither,
        "of the time of the run; near 100 % it is the players that were too slow, and not the server",
    ),
    measure(
        "queue_ms",
        "queueing delay",
        MS,
        Better::Less,
        "how much the senders’ smoothed round-trip time was above that without queues",
    ),
    measure("bytes_sent", "bytes sent", MEGABYTES, Better::Less, "UDP payload that servers sent"),
    measure("bytes_useful", "bytes given to applications", MEGABYTES, Better::Neither, "payload delivered"),
    measure("repair_bytes", "bytes of repair symbols", MEGABYTES, Better::Less, "of the bytes sent"),
    measure("lost", "packets lost", COUNT, Better::Neither, "by the link’s loss model, towards the client"),
    measure("overflowed", "packets dropped by the queue", COUNT, Better::Less, "towards the client"),
    measure(
        "repair_share",
        "share of repair",
        PERCENT,
        Better::Less,
        "bytes of repair symbols over all bytes sent",
    ),
    measure(
        "repair_share_late",
        "share of repair, later",
        PERCENT,
        Better::Less,
        "the same behind the first 2000 packets, when the losses have been measured",
    ),
    measure(
        "late_share",
        "updates late",
        PERCENT,
        Better::Less,
        "complete later than one and a half round trips after they were asked for; the first of a run apart",
    ),
    measure(
        "late_share_later",
        "updates late, later",
        PERCENT,
        Better::Less,
        "the same behind the first 5000 messages, when the losses have been measured",
    ),
    measure(
        "recovered",
        "packets recovered",
        COUNT,
        Better::Neither,
        "rebuilt by clients from repair symbols, before they came again",
    ),
    measure(
        "unrecovered",
        "packets not recovered",
        COUNT,
        Better::Less,
        "lost ones that only came again; with repair, of those that were protected",
    ),
    measure(
        "resent",
        "protected packets sent again",
        COUNT,
        Better::Less,
        "for all that the sender knew: where the notice of a recovery was lost or late, also ones that had been rebuilt",
    ),
    measure(
        "failed_blocks",
        "failed blocks",
        COUNT,
        Better::Less,
        "blocks of which a packet was sent again. A lost notice, or repair that came late, counts a block here that was \
         decoded all the same",
    ),
    measure(
        "failed_blocks_expected",
        "failed blocks, by chance",
        COUNT,
        Better::Neither,
        "as many as the losses of the link alone would give: the binomial tail for each block, or that of the chain of \
         bursts",
    ),
    measure(
        "failed_blocks_raptorq",
        "failed blocks, of RaptorQ",
        COUNT,
        Better::Neither,
        "as many as the losses of the link would leave at most if each block were one of RaptorQ with as many repair symbols. Of \
         as many symbols as there are sources it may fail in one case in 100, of one more in 10,000, of two more in 1,000,000 \
         (RFC 6330 §5.8)",
    ),
    measure("retransmitted", "packets declared lost", COUNT, Better::Neither, "and sent again"),
    measure("abandoned", "messages given up", COUNT, Better::Neither, "by the sender: outdated, or too late"),
    measure("messages_delivered", "messages let go", COUNT, Better::More, "in a run"),
    measure("encode_ms", "one repair symbol", MS, Better::Less, "the time to make it"),
    measure(
        "decode_ms",
        "all losses",
        MS,
        Better::Less,
        "the time to recover them from repair symbols that have arrived",
    ),
    measure(
        "excess",
        "symbols needed beyond the losses",
        COUNT,
        Better::Less,
        "how many repair symbols more than were lost it takes to recover all, on average over random losses",
    ),
    measure(
        "decisions_per_s",
        "decisions a second",
        ("million/s", 1e-6),
        Better::More,
        "of who sends next, on one core",
    ),
    measure(
        "cpu_s_per_gb",
        "processor time",
        ("s/GB", 1.0),
        Better::Less,
        "of both ends, for each gigabyte (10^9 bytes) of payload",
    ),
    measure("send_batch_ns", "a batch sent", ("ns", 1.0), Better::Less, "whatever is in it"),
    measure("send_datagram_ns", "a datagram sent", ("ns", 1.0), Better::Less, "without its bytes"),
    measure("receive_batch_ns", "a call that receives", ("ns", 1.0), Better::Less, "whatever comes"),
    measure(
        "receive_datagram_ns",
        "an acknowledgement",
        ("ns", 1.0),
        Better::Less,
        "received in a datagram of its own, with what is done about it",
    ),
    measure("byte_ps", "a byte", ("ps", 1.0), Better::Less, "copied and enciphered"),
    measure(
        "spent_sending",
        "sending",
        PERCENT,
        Better::Neither,
        "calls of the system that send, and what prepares them",
    ),
    measure("spent_receiving", "receiving", PERCENT, Better::Neither, "the same of those that receive"),
    measure(
        "spent_acks",
        "acknowledgements",
        PERCENT,
        Better::Neither,
        "what came is read and acted on, with loss detection and congestion control",
    ),
    measure(
        "spent_headers",
        "cryptography of headers",
        PERCENT,
        Better::Neither,
        "masks of packet numbers, both ways",
    ),
    measure(
        "spent_payload",
        "cryptography of payload",
        PERCENT,
        Better::Neither,
        "what packets or records hold, both ways",
    ),
    measure("spent_crypto", "cryptography", PERCENT, Better::Neither, "of headers and payload"),
    measure("spent_file", "reading files", PERCENT, Better::Neither, "from the page cache"),
    measure(
        "spent_rest",
        "all else",
        PERCENT,
        Better::Neither,
        "packets filled, bytes copied in the program, tasks run, memory managed",
    ),
    measure(
        "packets_per_send",
        "packets of a send",
        COUNT,
        Better::More,
        "how many packets a call that sends hands over",
    ),
    measure(
        "packets_per_read",
        "datagrams of a read",
        COUNT,
        Better::More,
        "how many datagrams a call that receives brings: of a server that sends, each holds an acknowledgement",
    ),
    measure(
        "sends_over_10kb",
        "sends of more than 10 kB",
        PERCENT,
        Better::More,
        "of all calls that send, by packets of 1452 bytes",
    ),
    measure("sends_over_60kb", "sends of more than 60 kB", PERCENT, Better::More, "the same"),
    measure("reads_of_1", "reads of one datagram", PERCENT, Better::Neither, "of all calls that receive"),
    measure("reads_up_to_3", "reads of three datagrams at most", PERCENT, Better::Neither, "the same"),
    measure("reads_full", "reads of eight datagrams or more", PERCENT, Better::Neither, "the same"),
    measure(
        "lateness_p99_ms",
        "lateness of the emulated link, 99 %",
        MS,
        Better::Less,
        "beyond what the model says",
    ),
    measure(
        "overruns",
        "packets that the system dropped",
        COUNT,
        Better::Less,
        "before the emulated link saw them, or behind it",
    ),
];
