use quickset_base::Duration;
use quickset_play::ViewReport;
use quickset_quic::Stats;
use quickset_sim::{CpuCounts, LinkCounts};

/// What was seen of a run. Times count from the start of the run.
#[derive(Clone, Debug, Default)]
pub struct RunSeen {
    /// Each flow, in the order of the setting.
    pub flows: Vec<FlowSeen>,
    /// Packets towards servers.
    pub up: LinkCounts,
    /// Packets towards clients.
    pub down: LinkCounts,
    /// What the server's processor did, if its work takes time.
    pub processor: Option<CpuCounts>,
    /// When it ended.
    pub ended: Duration,
}

/// What was seen of a flow.
#[derive(Clone, Debug, Default)]
pub struct FlowSeen {
    /// When the client began to connect.
    pub started: Duration,
    /// When the handshake was complete at the client.
    pub connected: Option<Duration>,
    /// Messages at the client, in the order in which they were let go.
    pub arrivals: Vec<MessageArrival>,
    /// Each group, as far as it came.
    pub groups: Vec<GroupSeen>,
    /// Each resource, as far as it came.
    pub resources: Vec<ResourceSeen>,
    /// What a viewer had of a video.
    pub watched: Option<ViewReport>,
    /// Bytes delivered to the client's application, payload alone.
    pub delivered: u64,
    /// How they grew.
    pub progress: Vec<FlowProgress>,
    /// What the server's congestion controller was at, for bytes on a stream.
    pub looks: Vec<ServerLook>,
    /// When the client had everything that was to come.
    pub finished: Option<Duration>,
    /// Messages that the server gave up, outdated or too late.
    pub abandoned: u64,
    /// The server's counters when it had sent its first 2000 packets, if it came so far.
    pub early: Option<Stats>,
    /// The server's counters, and the client's.
    pub server: Stats,
    /// See [`server`](Self::server).
    pub client: Stats,
    /// Why the connection broke, if it did.
    pub broken: Option<String>,
}

/// A message at the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageArrival {
    /// The group it belongs to.
    pub group: u32,
    /// Its place in the order of sending, over all groups.
    pub index: u32,
    /// Its length.
    pub bytes: u32,
    /// When it was complete.
    pub completed: Duration,
    /// When fences let it go.
    pub released: Duration,
}

/// A group of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupSeen {
    /// When the client asked for it, if it asks for each.
    pub requested: Option<Duration>,
    /// When it was due at the server.
    pub due: Option<Duration>,
    /// When all its messages were let go.
    pub complete: Option<Duration>,
}

/// A resource that was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceSeen {
    /// When the client asked.
    pub requested: Option<Duration>,
    /// When the server began to answer.
    pub begun: Option<Duration>,
    /// How its content came, read by read.
    pub progress: Vec<FlowProgress>,
    /// When the client had all of it.
    pub complete: Option<Duration>,
}

/// A look at a flow on its way, taken a few times in a round trip.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowProgress {
    /// When.
    pub at: Duration,
    /// Payload bytes that the client's application had.
    pub delivered: u64,
}

/// A look at a server that sends bytes, taken every so often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerLook {
    /// When.
    pub at: Duration,
    /// The smoothed round-trip time.
    pub rtt: Duration,
    /// The congestion window in bytes.
    pub window: u64,
    /// Bytes in flight.
    pub in_flight: u64,
}
