//! How fast bytes go from one end to the other, and what they cost: `quickset-perf/1`.
//!
//! *In:* on the server's side an endpoint to [`serve`]; on the client's a [`PerfJob`] to [`measure`]. *Out:*
//! [`Speed`].
//!
//! The protocol: a client opens a bidirectional stream and begins it with 9 bytes: what it wants (0 download,
//! 1 upload, 2 report) and, as a 64-bit integer in network byte order, how many bytes; 0 is without end. What
//! is then transferred is the same pattern from its start on each stream, and each byte is compared. A
//! download ends with the stream, or when the client stops it. An upload is answered with the number of bytes
//! that arrived intact, 64 bits. A report is JSON: the server's processor time since the connection's first
//! stream, and what it sent, lost and repaired on that connection.
//!
//! Beside it stands what takes none of this: the same bytes by HTTP/1.1 over TLS ([`serve_http1`],
//! [`measure_http1`]).

mod client;
mod cost;
mod http1;
mod pattern;
mod server;
mod source;

use quickset::FecStats;
use serde::{Deserialize, Serialize};

pub use client::{PerfError, PerfJob, measure};
pub use cost::processor_time;
#[cfg(target_os = "linux")]
pub(crate) use cost::{processor_time_of, processor_time_of_children};
pub use http1::{HTTP1, measure_http1, serve_http1};
pub use server::{serve, serve_from};
pub use source::{PatternSource, write_pattern};

/// The application protocol.
pub const PROTOCOL: &str = "quickset-perf/1";

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the server to the client.
    #[default]
    Download,
    /// From the client to the server.
    Upload,
}

/// What was measured. As JSON it is what `quickset perf client --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Speed {
    /// Payload bits a second, from the first request to the last byte, on all connections together.
    pub bits_per_second: f64,
    /// Seconds of processor time of the client's process for each gigabyte (10^9 bytes) of payload; null
    /// where the system does not tell. It tells on Linux, in steps of 10 ms.
    pub cpu_s_per_gb_client: Option<f64>,
    /// The same for the server.
    pub cpu_s_per_gb_server: Option<f64>,
    /// Packets sent by the side that sends the bytes.
    pub packets: u64,
    /// Those of them that were declared lost.
    pub lost: u64,
    /// What forward erasure correction did on that side.
    pub fec: Repaired,
    /// Payload bytes, each of which was compared with what was sent.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
    /// Connections used.
    pub connections: usize,
    /// Which way.
    pub direction: Direction,
}

/// What forward erasure correction did, on the side that sends the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repaired {
    /// Source symbols: packets that were protected.
    pub symbols: u64,
    /// Repair symbols sent.
    pub repairs: u64,
    /// Bytes of their data.
    pub repair_bytes: u64,
    /// Symbols that the receiver recovered.
    pub recovered: u64,
    /// Symbols that were lost and had to be sent again.
    pub unrecovered: u64,
}

impl Repaired {
    fn add(&mut self, other: Self) {
        self.symbols += other.symbols;
        self.repairs += other.repairs;
        self.repair_bytes += other.repair_bytes;
        self.recovered += other.recovered;
        self.unrecovered += other.unrecovered;
    }
}

impl From<FecStats> for Repaired {
    fn from(fec: FecStats) -> Self {
        Self {
            symbols: fec.sources_sent,
            repairs: fec.repairs_sent,
            repair_bytes: fec.repair_bytes,
            recovered: fec.recovered,
            unrecovered: fec.unrecovered,
        }
    }
}

/// What the server tells about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct PerfReport {
    cpu_s: Option<f64>,
    packets: u64,
    lost: u64,
    fec: Repaired,
}

/// What a stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PerfRequest {
    Download(u64),
    Upload(u64),
    Report,
}

impl PerfRequest {
    const SIZE: usize = 9;

    fn encode(self) -> [u8; Self::SIZE] {
        let (kind, bytes) = match self {
            Self::Download(bytes) => (0, bytes),
            Self::Upload(bytes) => (1, bytes),
            Self::Report => (2, 0),
        };
        let mut out = [kind; Self::SIZE];
        out[1..].copy_from_slice(&bytes.to_be_bytes());
        out
    }

    fn decode(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        let [kind, rest @ ..] = bytes;
        let n = u64::from_be_bytes(*rest);
        match kind {
            0 => Some(Self::Download(n)),
            1 => Some(Self::Upload(n)),
            2 => Some(Self::Report),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_their_layout() {
        assert_eq!(PerfRequest::Upload(0x0102).encode(), [1, 0, 0, 0, 0, 0, 0, 1, 2]);
        for request in [PerfRequest::Download(0), PerfRequest::Upload(u64::MAX), PerfRequest::Report] {
            assert_eq!(PerfRequest::decode(&request.encode()), Some(request));
        }
        assert_eq!(PerfRequest::decode(&[3; 9]), None);
    }
}
