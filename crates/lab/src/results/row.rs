use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Histogram, Loads, Viewing};
use crate::experiment::Params;
use crate::stats::Percentiles;

/// What came of one run. As JSON it is a row of `quickset lab run --json`, with [`Detail`] left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The experiment.
    pub experiment: String,
    /// The seed of its losses.
    pub seed: u64,
    /// The commit that it ran at, with a `+` and a sum of the code behind it when that had changes.
    pub commit: String,
    /// `sim` in virtual time, `real` over sockets and the emulated link, `machine` where this machine was
    /// timed.
    pub world: String,
    /// The parameters, one member each.
    #[serde(flatten)]
    pub params: Params,
    /// The measures, one member each.
    #[serde(flatten)]
    pub metrics: RunMetrics,
    /// What figures are drawn from.
    #[serde(default)]
    pub detail: Detail,
}

/// Measures of a run. What a run does not have is left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunMetrics {
    /// Distributions of times.
    #[serde(flatten)]
    pub times: Times,
    /// Counts and totals.
    #[serde(flatten)]
    pub counted: CountedPackets,
    /// Whether everything arrived before the run's limit.
    pub finished: bool,
    /// Why the connection broke, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
    /// From the client's first packet to its having everything, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_s: Option<f64>,
    /// When the last update was due, in seconds from the client's first packet: no run is complete before.
    /// Missing where all are due at once, and where each is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paced_s: Option<f64>,
    /// Download completion time: as `completion_s`, of bytes on one stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dct_s: Option<f64>,
    /// `dct_s` over that of our own plain QUIC with the same losses, of runs with repair in virtual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dct_ratio: Option<f64>,
    /// `dct_s` over what arithmetic allows: two round trips, and every byte once at the link's rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dct_over_ideal: Option<f64>,
    /// What was in time.
    #[serde(flatten)]
    pub promptness: Promptness,
    /// Payload delivered to applications, in bits per second: of a flow alone from the client's first packet
    /// to its having everything, of flows without end in the second half of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_bps: Option<f64>,
    /// Jain's index over the flows' goodputs in the second half of the run: 1 is equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fairness: Option<f64>,
    /// `goodput_bps` of flows without end over what the link carries in UDP datagrams of full length, less
    /// what others send on average. Headers of IP and UDP are none of it. Missing where others send as much
    /// as the link carries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilisation: Option<f64>,
    /// How true the emulated link was. In real time only.
    #[serde(flatten)]
    pub emulation: Emulation,
    /// The first flow's share of all goodput in the second half of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_share: Option<f64>,
    /// How long the last flow had been there when ten seconds began in which each of several got within a
    /// tenth of an equal part, in seconds. Missing when there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_after_s: Option<f64>,
    /// What became of the resources that a browser asked for.
    #[serde(flatten)]
    pub loads: Loads,
    /// What viewers had of a video.
    #[serde(flatten)]
    pub viewing: Viewing,
    /// What repair is of all that servers sent, where they may send some.
    #[serde(flatten)]
    pub repair: RepairShare,
    /// What this machine took, in experiments that time it.
    #[serde(flatten)]
    pub timings: Timings,
}

/// How true an emulated link was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Emulation {
    /// How late packets left it, beyond what the model says: the 99th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_p99_ms: Option<f64>,
    /// Datagrams that the system dropped before it saw them, or behind it: losses that no model decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overruns: Option<u64>,
}

/// What was in time, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Promptness {
    /// The share of messages let go before their deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_time: Option<f64>,
    /// The share of updates, of those that are asked for, that were complete later than one and a half round
    /// trips; the first of a run apart, which waits for the congestion window to open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_share: Option<f64>,
    /// The same of those behind the first 5000 messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_share_later: Option<f64>,
}

/// What this machine took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timings {
    /// One repair symbol, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encode_ms: Option<f64>,
    /// All that was lost, recovered from repair symbols that have arrived, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode_ms: Option<f64>,
    /// Repair symbols that were needed beyond as many as were lost, on average over random losses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excess: Option<f64>,
    /// Seconds of processor time for each gigabyte (10^9 bytes) of payload, both ends together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_s_per_gb: Option<f64>,
    /// Decisions of the scheduler a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decisions_per_s: Option<f64>,
    /// What a server's work costs.
    #[serde(flatten)]
    pub costs: Costs,
    /// What the server's thread spent its time on.
    #[serde(flatten)]
    pub spent: SpentOn,
    /// How much the server's calls of the system carried.
    #[serde(flatten)]
    pub carried: CallsCarried,
    /// What a server in a process of its own had of a core and took of it, and the same in virtual time.
    #[serde(flatten)]
    pub served: ServedShare,
}

/// What a server in a process of its own had of a core, what that took and carried, and what is seen in
/// virtual time instead.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServedShare {
    /// The part of one core that the system gave it at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_share: Option<f64>,
    /// What plain HTTP/3 carries by that, as a rate of the video.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_mbps: Option<f64>,
    /// Seconds of the server's processor time for each gigabyte (10^9 bytes) of content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_s_per_gb: Option<f64>,
    /// How much of the run the cores of the players were busy with them, and with the link in front of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_share: Option<f64>,
    /// The average bitrate in virtual time, before a processor that carries as much. Missing with HTTP/1.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_bitrate_virtual_mbps: Option<f64>,
    /// The one of the run over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_bitrate_over_virtual: Option<f64>,
    /// How long a player stood still there, as `rebuffering_s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuffering_virtual_s: Option<f64>,
}

/// What a server's processor takes for what it sends and receives, the system's part included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// A batch sent, in nanoseconds, whatever is in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_batch_ns: Option<f64>,
    /// A datagram in it, in nanoseconds, without its bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_datagram_ns: Option<f64>,
    /// A call that receives, in nanoseconds, whatever comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_batch_ns: Option<f64>,
    /// A datagram that it brings, in nanoseconds: an acknowledgement, and what is done about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_datagram_ns: Option<f64>,
    /// A byte, in picoseconds: it is copied and enciphered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub byte_ps: Option<f64>,
}

/// Shares of the processor time of a server's thread, as it was sampled; missing where the system does not
/// permit that.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpentOn {
    /// Calls of the system that send, and what prepares them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent_sending: Option<f64>,
    /// The same of those that receive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent_receiving: Option<f64>,
    /// What came is read and acted on: of a server that sends, acknowledgements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent_acks: Option<f64>,
    /// The protection of headers, both ways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent_headers: Option<f64>,
    /// The rest of cryptography.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent_payload: Option<f64>,
    /// Both together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent_crypto: Option<f64>,
    /// Files are read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent_file: Option<f64>,
    /// Everything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent_rest: Option<f64>,
}

/// How much the calls of the system of a server carried that speaks QUIC.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallsCarried {
    /// Packets of a call that sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets_per_send: Option<Percentiles>,
    /// Datagrams of a call that receives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets_per_read: Option<Percentiles>,
    /// The share of calls that send which carried more than 10 kB, by packets of full length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sends_over_10kb: Option<f64>,
    /// The same of 60 kB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sends_over_60kb: Option<f64>,
    /// The share of calls that receive which brought a single datagram.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads_of_1: Option<f64>,
    /// The share of those that brought three at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads_up_to_3: Option<f64>,
    /// The share of those that brought as many as there are messages of the system in a read, or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads_full: Option<f64>,
}

/// What repair is of all that servers sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RepairShare {
    /// `repair_bytes` over `bytes_sent`, where forward erasure correction was offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair_share: Option<f64>,
    /// The same of what was sent behind the first 2000 packets, of flows that send more: estimates have
    /// settled there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair_share_late: Option<f64>,
    /// How many `failed_blocks` chance alone would give, where blocks and losses are such that this can be
    /// computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_blocks_expected: Option<f64>,
    /// How many blocks RaptorQ with as many symbols, source and repair, would fail to decode by chance at
    /// most (RFC 6330 §5.8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_blocks_raptorq: Option<f64>,
}

/// Distributions of times, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// From a message being complete at the receiver to fences letting it go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocking_ms: Option<Percentiles>,
    /// From one message being let go to the next; where updates are asked for one by one, within an update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inter_delivery_ms: Option<Percentiles>,
    /// From the request of an update to all of it being let go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_ms: Option<Percentiles>,
    /// From a message being due at the sender to its being let go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery_ms: Option<Percentiles>,
    /// From a byte being due at the sender to its being read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub byte_delay_ms: Option<Percentiles>,
    /// How much the servers' smoothed round-trip time was above that without queues, looked at 20 times a
    /// second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_ms: Option<Percentiles>,
}

/// Counts and totals. Packets and bytes are those from servers to clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CountedPackets {
    /// Messages let go.
    pub messages_delivered: u64,
    /// Messages that the sender gave up: outdated, or too late.
    pub abandoned: u64,
    /// Inter-delivery times within one update that were longer than the round-trip time.
    pub over_rtt: u64,
    /// UDP payload that servers sent.
    pub bytes_sent: u64,
    /// Payload that applications were given.
    pub bytes_useful: u64,
    /// Of `bytes_sent`, those of repair symbols.
    pub repair_bytes: u64,
    /// Packets that the link lost, of those sent to the client.
    pub lost: u64,
    /// Packets that its queue dropped.
    pub overflowed: u64,
    /// Packets that clients rebuilt from repair symbols before they came again.
    pub recovered: u64,
    /// Lost packets that only came again: without repair all that were lost, with repair the protected ones
    /// that clients could not rebuild, and those sent again as the same symbol.
    pub unrecovered: u64,
    /// Protected packets that servers sent again, for all they knew: where the notice of a recovery is lost
    /// or late, also one that was rebuilt.
    #[serde(default)]
    pub resent: u64,
    /// Packets that servers declared lost and sent again.
    pub retransmitted: u64,
    /// Repair blocks of which a packet was sent again, for all that servers knew.
    pub failed_blocks: u64,
    /// Repair blocks.
    pub blocks: u64,
}

/// What figures are drawn from; only in the journal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Detail {
    /// For each metric of [`Times`] that there is, its distribution.
    #[serde(default)]
    pub histograms: BTreeMap<String, Histogram>,
    /// Named series of (x, y): `blocking` (message index, ms), `goodput/FLOW` (s, Mbit/s), `queue/FLOW` (s,
    /// ms), `share/FLOW` (s, per cent of what all flows got in the ten seconds before).
    #[serde(default)]
    pub series: BTreeMap<String, Vec<(f64, f64)>>,
    /// How long the run took in reality, in seconds.
    #[serde(default)]
    pub wall_s: f64,
    /// How long it was in its own time, in seconds.
    #[serde(default)]
    pub length_s: f64,
}

impl Row {
    /// A number by its path: a metric (`completion_s`, `blocking_ms.p99`), or a key of the parameters.
    pub fn number(&self, path: &str) -> Option<f64> {
        if let Ok(n) = self.params.number(path) {
            return Some(n);
        }
        let json = serde_json::to_value(&self.metrics).ok()?;
        path.split('.').try_fold(&json, |at, name| at.get(name)).and_then(serde_json::Value::as_f64)
    }

    /// The row without what only figures need.
    #[must_use]
    pub fn bare(&self) -> serde_json::Value {
        let mut json = serde_json::to_value(self).expect("rows are plain data");
        if let Some(members) = json.as_object_mut() {
            members.remove("detail");
        }
        json
    }

    /// What tells this run from all others: world, parameters, seed.
    pub fn identity(&self) -> String {
        identity(&self.world, &self.params, self.seed)
    }
}

/// See [`Row::identity`].
pub(crate) fn identity(world: &str, params: &Params, seed: u64) -> String {
    format!("{world} {params} seed={seed}")
}
