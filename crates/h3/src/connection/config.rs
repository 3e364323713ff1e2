use super::credit::{MAX_DATA, MAX_STREAMS};
use crate::{Priority, Settings};

/// How a connection behaves.
#[derive(Clone, Debug)]
pub struct Config {
    /// The largest field section that is taken, in bytes as RFC 9114 §4.2.2 counts it. It bounds what is held
    /// of one encoded, and of the interim responses to a request together, too.
    pub max_field_section: u64,
    /// Bytes of heads of requests that wait until the application [takes](crate::Connection::took) them,
    /// after which a server decodes no more of them until it does; `None`: it is not told when, and decodes
    /// all.
    pub max_waiting: Option<u64>,
    /// Bytes of QPACK's dynamic table, in each direction at most; 0 is none.
    pub table: u64,
    /// Requests that may wait for that table, in our direction. Each holds at most one field section.
    pub max_blocked: u64,
    /// A server takes extended CONNECT requests (RFC 9220).
    pub extended_connect: bool,
    /// HTTP datagrams (RFC 9297); of use when the transport has datagrams.
    pub datagrams: bool,
    /// Bytes of HTTP datagrams that wait for the application at most; those that come further are lost. One
    /// that is larger than this waits alone.
    pub max_datagram_bytes: usize,
    /// Sessions of WebTransport at a time; 0 is none. More than none implies extended CONNECT and datagrams.
    /// We limit a session by QUIC alone, so it is at most 1, and keep to the limits that a peer sets it. All
    /// drafts from the second to the sixteenth are offered and taken.
    pub webtransport: u64,
    /// Repair symbols that a client may have a server send at a time (exp_b); 0 is none. They take of the
    /// rate that congestion control allows, and of nobody else's.
    pub max_burst: u32,
    /// How a server sends a response of which neither the client nor the response says it, by content type:
    /// `text/html`, `image/*` or `*/*`, the first that fits. From the start nothing, so that all is as
    /// RFC 9218 §4 has it.
    pub usual: Vec<(String, Priority)>,
    /// Priorities kept for requests that have not come yet (RFC 9218 §7).
    pub max_early_priorities: usize,
    /// Unidirectional streams of the peer that are listened to at a time. The connection itself needs three.
    /// With [`webtransport`](Self::webtransport) the limit is that of QUIC alone.
    pub max_inlets: usize,
    /// What stands for nothing is sent along so that peers learn to ignore it (RFC 9114 §7.2.4.1): a number
    /// to choose by.
    pub grease: Option<u64>,
    /// What the server said the last time, for a client that sends early data (RFC 9114 §7.2.4.2).
    pub remembered: Option<Settings>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_field_section: 64 << 10,
            max_waiting: None,
            table: 4096,
            max_blocked: 16,
            extended_connect: false,
            datagrams: false,
            // Twenty milliseconds of 100 Mbit/s.
            max_datagram_bytes: 256 << 10,
            webtransport: 0,
            max_burst: 8,
            usual: Vec::new(),
            max_early_priorities: 100,
            max_inlets: 16,
            grease: None,
            remembered: None,
        }
    }
}

impl Config {
    /// What is usual for a content type, whatever its parameters (RFC 9110 §8.3.1).
    pub(super) fn usual_of(&self, kind: &[u8]) -> Option<&Priority> {
        let kind = kind.split(|b| *b == b';').next()?.trim_ascii();
        let fits = |pattern: &str| match pattern.strip_suffix('*') {
            Some("*/") => true,
            Some(start) => kind.get(..start.len()).is_some_and(|k| k.eq_ignore_ascii_case(start.as_bytes())),
            None => kind.eq_ignore_ascii_case(pattern.as_bytes()),
        };
        self.usual.iter().find(|(pattern, _)| fits(pattern)).map(|(_, priority)| priority)
    }

    /// What the peer is told.
    pub(super) fn settings(&self, is_server: bool) -> Settings {
        let webtransport = self.webtransport.min(1);
        Settings {
            max_field_section_size: Some(self.max_field_section),
            qpack_max_table_capacity: self.table,
            qpack_blocked_streams: self.max_blocked,
            // RFC 9220 §3: of meaning from servers only.
            enable_connect_protocol: is_server && (self.extended_connect || webtransport > 0),
            h3_datagram: self.datagrams || webtransport > 0,
            wt_max_sessions: webtransport,
            wt_draft_02: webtransport > 0,
            wt_draft_13: webtransport,
            wt_enabled: webtransport > 0,
            wt_initial_max_streams_uni: webtransport * MAX_STREAMS,
            wt_initial_max_streams_bidi: webtransport * MAX_STREAMS,
            wt_initial_max_data: webtransport * MAX_DATA,
            grease: self.grease.map(|n| (crate::frame::grease(n % (1 << 40)), n % (1 << 62))),
        }
    }
}
