//! Playing a [`Setting`]: links, flows and their work, and what was seen of it.
//!
//! *In:* a setting and a seed. *Out:* [`RunSeen`]. The two ends of a flow are machines (`Actor`), each a QUIC
//! node with a small application on top. [`virtually`] puts them into a simulated world, [`really`] gives
//! each a socket and a thread, with TLS, and the same link as a relay between them. It is the same
//! application, so the two differ in nothing but time, cryptography and the system.

pub(crate) mod actor;
mod real;
mod recording;
mod seen;
mod virtual_time;

use quickset::{Algorithm, TransportConfig};
use quickset_base::Duration;
use quickset_quic::Protection;
use quickset_sim::{Cpu, LinkSpec, TrafficPace};

pub use actor::CredentialsError;
pub use real::{Accuracy, RealError, really};
pub use recording::Recording;
pub use seen::{FlowProgress, FlowSeen, GroupSeen, MessageArrival, ResourceSeen, RunSeen, ServerLook};
pub use virtual_time::{VirtualTimeError, recorded, virtually};

/// One run, as data.
#[derive(Clone, Debug)]
pub struct Setting {
    /// From clients to servers.
    pub up: LinkSpec,
    /// From servers to clients; all flows share both links.
    pub down: LinkSpec,
    /// Who uses them.
    pub flows: Vec<PlayFlow>,
    /// Packets of others beside them, towards clients. In virtual time only.
    pub cross: Vec<Cross>,
    /// What work takes of the processor of the server, which is one and the same for all flows then, and they
    /// all [`VideoWatch`] what it has. `None`: each flow has a server of its own, which works in no time. In
    /// virtual time only; in reality all work takes the time that it takes.
    pub processor: Option<Cpu>,
    /// The run ends here at the latest.
    pub limit: Duration,
}

/// A client that asks a server, mostly one of its own, for something.
#[derive(Clone, Debug)]
pub struct PlayFlow {
    /// What reports call it.
    pub name: String,
    /// When the client connects.
    pub start: Duration,
    /// The configuration of both ends.
    pub transport: TransportConfig,
    /// What protects requests and answers against loss, a stream each, if the configuration offers it. Of a
    /// [`PageVisit`] the requests alone.
    pub protection: Protection,
    /// What it asks for.
    pub work: Work,
}

/// Packets that somebody else sends from servers to clients, whatever becomes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cross {
    /// UDP payload of each.
    pub bytes: u32,
    /// How they follow one another.
    pub pace: TrafficPace,
}

/// What a client asks for.
#[derive(Clone, Debug)]
pub enum Work {
    /// So many bytes on one stream; `None`: as many as go through until the run ends.
    Bytes(Option<u64>),
    /// Messages on one stream.
    Messages(MessageStream),
    /// Resources by HTTP/3, a request each.
    Visit(PageVisit),
    /// A video by HTTP/3, segment by segment.
    Watch(VideoWatch),
}

/// A video that a player watches to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct VideoWatch {
    /// The rule by which the player chooses bitrates.
    pub rule: quickset_abr::RuleName,
    /// The bitrates that there are, in bit/s.
    pub ladder: Vec<u64>,
    /// How long a segment plays. The last one may be shorter.
    pub segment: Duration,
    /// How long all of it plays.
    pub length: Duration,
    /// Of so many bytes of a segment one is on the wire: the player counts each for as many.
    pub scale: u64,
}

impl VideoWatch {
    /// Bytes on the wire of the segment of this number, the first being 1, at this bitrate.
    pub(crate) fn bytes(&self, bitrate: u64, number: u64) -> Option<u64> {
        let begin = u32::try_from(number.checked_sub(1)?).ok()?;
        let left =
            self.length.checked_sub(self.segment.checked_mul(begin)?).filter(|left| !left.is_zero())?;
        let bits = u128::from(bitrate) * left.min(self.segment).as_millis() / 1000;
        u64::try_from(bits / 8 / u128::from(self.scale.max(1))).ok().map(|bytes| bytes.max(1))
    }
}

/// Resources that a browser asks for on one connection.
#[derive(Clone, Debug)]
pub struct PageVisit {
    /// All of them, in the order in which they are asked for when several can be.
    pub resources: Vec<PageResource>,
    /// What repairs answers that are more urgent than this, where their requests say nothing of it (`exp_b`).
    pub repair: (u8, Protection),
}

/// What a request is for.
#[derive(Clone, Debug, PartialEq)]
pub struct PageResource {
    /// What reports call it.
    pub name: String,
    /// The bytes of its content.
    pub bytes: u64,
    /// The Priority field of its request; none if it is empty.
    pub priority: String,
    /// It is asked for when all of these have come: their places, which are before its own.
    pub after: Vec<usize>,
    /// The server has its content bit by bit, or else all at once.
    pub drip: Option<Drip>,
    /// It prepares the connection for others, and is not measured.
    pub warm_up: bool,
    /// Somebody waits to see it.
    pub is_seen: bool,
}

/// Content that comes into being bit by bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drip {
    /// Bytes at a time.
    pub bytes: u64,
    /// How many times a second.
    pub per_second: u32,
}

impl PageResource {
    /// Some bytes, asked for at once and without a priority.
    pub fn new(name: impl Into<String>, bytes: u64) -> Self {
        Self {
            name: name.into(),
            bytes,
            priority: String::new(),
            after: Vec::new(),
            drip: None,
            warm_up: false,
            is_seen: false,
        }
    }
}

/// A stream of messages.
#[derive(Clone, Debug)]
pub struct MessageStream {
    /// How they wait for one another.
    pub order: MessageOrder,
    /// The groups, in order. All rows of a screen update are a group.
    pub groups: Vec<MessageGroup>,
    /// The sender is told of deadlines, and gives up what has missed its own. Without, it sends everything.
    pub tell_deadlines: bool,
    /// Which of those that wait goes first.
    pub schedule: Schedule,
    /// With it, the client asks for each group by itself, this long after the one before is complete;
    /// without, one request at the start is for all, and each is sent when it is due.
    pub interactive: Option<Duration>,
}

/// How messages wait for one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageOrder {
    /// All in the order of sending.
    Total,
    /// None crosses a fence; [`MessageGroup::fence`] says where they are.
    Partial,
    /// No fences; what newer messages cover is not sent, nor sent again.
    Latest,
    /// No fences, and all are delivered: as a stream for each message would do it.
    Plain,
}

/// Which of the messages that wait goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// That with the closest deadline, if the sender is told of deadlines.
    #[default]
    Deadlines,
    /// That which came first.
    FirstCome,
    /// Each has a stream of its own, and these take turns, as in a QUIC stack that knows no messages.
    RoundRobin,
}

/// Messages that are sent at one time.
#[derive(Clone, Debug)]
pub struct MessageGroup {
    /// When, counted from the first request's arrival at the server.
    pub due: Duration,
    /// What.
    pub messages: Vec<MessagePiece>,
    /// Whether a fence follows, in partial order.
    pub fence: bool,
    /// Which of two channels takes them; the second is more urgent.
    pub channel: MessageChannel,
}

/// A channel of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MessageChannel {
    /// The one that all have.
    #[default]
    First,
    /// One besides, which goes before the first.
    Urgent,
}

/// A message to be sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MessagePiece {
    /// Its length, 8 at least.
    pub bytes: u32,
    /// Counted from when its group is due.
    pub deadline: Option<Duration>,
    /// The part of a screen that it draws: x, y, width, height. Newer messages that cover it make it
    /// outdated.
    pub area: Option<[u16; 4]>,
}

impl Setting {
    /// Flows that have a link to themselves, which is the same both ways.
    pub fn new(link: LinkSpec, flows: Vec<PlayFlow>, limit: Duration) -> Self {
        Self { up: link.clone(), down: link, flows, cross: Vec::new(), processor: None, limit }
    }
}

impl PlayFlow {
    /// A flow from the start of the run, with room for its largest message, and without forward erasure
    /// correction.
    pub fn new(name: &str, congestion: Algorithm, work: Work) -> Self {
        let transport = TransportConfig::fixed_mtu(MTU)
            .with_congestion(congestion)
            .with_fenced_streams(Some(work.largest_message().max(64 << 10)))
            .with_idle_timeout(None)
            .with_handshake_timeout(Duration::from_secs(60))
            .with_fec(None);
        let name = name.to_owned();
        Self { name, start: Duration::ZERO, transport, protection: Protection::None, work }
    }
}

impl Work {
    fn largest_message(&self) -> u64 {
        match self {
            Self::Bytes(_) | Self::Visit(_) | Self::Watch(_) => 0,
            Self::Messages(messages) => {
                let pieces = messages.groups.iter().flat_map(|group| &group.messages);
                pieces.map(|piece| u64::from(piece.bytes)).max().unwrap_or(0)
            }
        }
    }
}

/// What is left of 1500 bytes behind the headers of IPv4 and UDP.
const MTU: u16 = 1472;
