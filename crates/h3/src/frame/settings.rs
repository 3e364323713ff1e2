use std::collections::BTreeSet;

use quickset_wire::Reader;

use crate::{Error, ErrorCode, varint};

/// What a SETTINGS frame says; what it leaves out is as in [`Settings::default`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The largest field section that is taken, as RFC 9114 §4.2.2 counts it; `None` for any.
    pub max_field_section_size: Option<u64>,
    /// Bytes of QPACK's dynamic table at most (RFC 9204 §5).
    pub qpack_max_table_capacity: u64,
    /// Streams that may wait for that table at most (RFC 9204 §5).
    pub qpack_blocked_streams: u64,
    /// Extended CONNECT is understood (RFC 9220 §3); of meaning from servers only.
    pub enable_connect_protocol: bool,
    /// HTTP datagrams are understood (RFC 9297 §2.1.1).
    pub h3_datagram: bool,
    /// Sessions of WebTransport that are taken, as drafts 7 to 12 of draft-ietf-webtrans-http3 have it. But
    /// for how it is said, those of all drafts are the same, and so it is said in each way.
    pub wt_max_sessions: u64,
    /// The same as draft 2 has it, which is what Chromium speaks.
    pub wt_draft_02: bool,
    /// The same as drafts 13 and 14 have it, which is what Safari speaks.
    pub wt_draft_13: u64,
    /// The same as draft 15 and those behind it have it (SETTINGS_WT_ENABLED): any number of them, by a
    /// protocol that is called `webtransport-h3`.
    pub wt_enabled: bool,
    /// Unidirectional streams that a session may have opened (draft-ietf-webtrans-http3 §5.5). With this or
    /// one of the next two said on both sides, sessions have flow control.
    pub wt_initial_max_streams_uni: u64,
    /// The same of bidirectional streams.
    pub wt_initial_max_streams_bidi: u64,
    /// Bytes that may have been sent on the streams of a session.
    pub wt_initial_max_data: u64,
    /// A setting that stands for nothing, to be sent along; its identifier is `grease(n)`.
    pub grease: Option<(u64, u64)>,
}

impl Settings {
    /// Writes the payload of a SETTINGS frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut put = |id, value| {
            varint::put(out, id);
            varint::put(out, value);
        };
        if let Some(max) = self.max_field_section_size {
            put(id::MAX_FIELD_SECTION_SIZE, max);
        }
        let others = [
            (id::QPACK_MAX_TABLE_CAPACITY, self.qpack_max_table_capacity),
            (id::QPACK_BLOCKED_STREAMS, self.qpack_blocked_streams),
            (id::ENABLE_CONNECT_PROTOCOL, u64::from(self.enable_connect_protocol)),
            (id::H3_DATAGRAM, u64::from(self.h3_datagram)),
            (id::WT_MAX_SESSIONS, self.wt_max_sessions),
            (id::WT_DRAFT_02, u64::from(self.wt_draft_02)),
            (id::WT_DRAFT_13, self.wt_draft_13),
            (id::WT_ENABLED, u64::from(self.wt_enabled)),
            (id::WT_INITIAL_MAX_STREAMS_UNI, self.wt_initial_max_streams_uni),
            (id::WT_INITIAL_MAX_STREAMS_BIDI, self.wt_initial_max_streams_bidi),
            (id::WT_INITIAL_MAX_DATA, self.wt_initial_max_data),
        ];
        for (id, value) in others.into_iter().filter(|&(_, value)| value != 0) {
            put(id, value);
        }
        if let Some((id, value)) = self.grease {
            put(id, value);
        }
    }

    /// Reads the payload of a SETTINGS frame; settings that stand for nothing are left out.
    ///
    /// # Errors
    /// H3_FRAME_ERROR when it ends inside a setting; H3_SETTINGS_ERROR for one that is there twice, or that
    /// HTTP/2 had and HTTP/3 has not, or whose value is out of range.
    pub fn decode(payload: &[u8]) -> Result<Self, Error> {
        let mut r = Reader::new(payload);
        let mut settings = Self::default();
        let mut seen = BTreeSet::new();
        while !r.is_empty() {
            let (Ok(id), Ok(value)) = (r.varint(), r.varint()) else {
                return Err(Error::new(ErrorCode::H3_FRAME_ERROR, "SETTINGS end inside a setting"));
            };
            // RFC 9114 §7.2.4: each at most once. The set is bounded by the frame.
            if !seen.insert(id) {
                return Err(wrong("a setting that is there twice"));
            }
            match id {
                id::MAX_FIELD_SECTION_SIZE => settings.max_field_section_size = Some(value),
                id::QPACK_MAX_TABLE_CAPACITY => settings.qpack_max_table_capacity = value,
                id::QPACK_BLOCKED_STREAMS => settings.qpack_blocked_streams = value,
                id::ENABLE_CONNECT_PROTOCOL => settings.enable_connect_protocol = flag(value)?,
                id::H3_DATAGRAM => settings.h3_datagram = flag(value)?,
                id::WT_MAX_SESSIONS => settings.wt_max_sessions = value,
                id::WT_DRAFT_02 => settings.wt_draft_02 = flag(value)?,
                id::WT_DRAFT_13 => settings.wt_draft_13 = value,
                // draft-ietf-webtrans-http3-16 §3.1: more than 1 is an error.
                id::WT_INITIAL_MAX_STREAMS_UNI => settings.wt_initial_max_streams_uni = value,
                id::WT_INITIAL_MAX_STREAMS_BIDI => settings.wt_initial_max_streams_bidi = value,
                id::WT_INITIAL_MAX_DATA => settings.wt_initial_max_data = value,
                id::WT_ENABLED => settings.wt_enabled = flag(value)?,
                // RFC 9114 §7.2.4.1, §11.2.2: what HTTP/2 had.
                0x00 | 0x02..=0x05 => return Err(wrong("a setting of HTTP/2")),
                _ => {}
            }
        }
        Ok(settings)
    }

    /// Whether sessions of WebTransport are taken, as any draft has it.
    pub fn takes_sessions(&self) -> bool {
        self.wt_enabled || self.takes_former_sessions()
    }

    /// The same as a draft before the fifteenth has it, by the protocol `webtransport`.
    pub(crate) fn takes_former_sessions(&self) -> bool {
        self.wt_draft_02 || self.wt_max_sessions > 0 || self.wt_draft_13 > 0
    }

    /// Whether the sessions of this side have flow control, if they have on the other one
    /// (draft-ietf-webtrans-http3 §5.1).
    pub(crate) fn controls_sessions(&self) -> bool {
        self.wt_initial_max_streams_uni > 0
            || self.wt_initial_max_streams_bidi > 0
            || self.wt_initial_max_data > 0
    }

    /// The same settings, and no sessions.
    pub(crate) fn without_sessions(self) -> Self {
        Self {
            wt_max_sessions: 0,
            wt_draft_02: false,
            wt_draft_13: 0,
            wt_enabled: false,
            wt_initial_max_streams_uni: 0,
            wt_initial_max_streams_bidi: 0,
            wt_initial_max_data: 0,
            ..self
        }
    }

    /// Whether what was sent to a peer of whom `before` is remembered is good with these settings, too
    /// (RFC 9114 §7.2.4.2): none of them is less.
    pub fn admit(&self, before: &Self) -> bool {
        // What was said is said again, even if what goes without saying is more.
        let section = match (before.max_field_section_size, self.max_field_section_size) {
            (before, Some(now)) => now >= before.unwrap_or(u64::MAX),
            (before, None) => before.is_none(),
        };
        // RFC 9204 §3.2.3: a table that was used keeps its size.
        let table = before.qpack_max_table_capacity == 0
            || before.qpack_max_table_capacity == self.qpack_max_table_capacity;
        table
            && section
            && self.qpack_blocked_streams >= before.qpack_blocked_streams
            && self.enable_connect_protocol >= before.enable_connect_protocol
            && self.h3_datagram >= before.h3_datagram
            && self.wt_max_sessions >= before.wt_max_sessions
            && self.wt_draft_02 >= before.wt_draft_02
            && self.wt_draft_13 >= before.wt_draft_13
            && self.wt_enabled >= before.wt_enabled
            && self.wt_initial_max_streams_uni >= before.wt_initial_max_streams_uni
            && self.wt_initial_max_streams_bidi >= before.wt_initial_max_streams_bidi
            && self.wt_initial_max_data >= before.wt_initial_max_data
    }
}

/// RFC 8441 §3 and RFC 9297 §2.1.1: 0 or 1.
fn flag(value: u64) -> Result<bool, Error> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(wrong("a setting that is neither 0 nor 1")),
    }
}

const fn wrong(reason: &'static str) -> Error {
    Error::new(ErrorCode::H3_SETTINGS_ERROR, reason)
}

/// Identifiers.
mod id {
    pub(super) const QPACK_MAX_TABLE_CAPACITY: u64 = 0x01;
    pub(super) const MAX_FIELD_SECTION_SIZE: u64 = 0x06;
    pub(super) const QPACK_BLOCKED_STREAMS: u64 = 0x07;
    pub(super) const ENABLE_CONNECT_PROTOCOL: u64 = 0x08;
    pub(super) const H3_DATAGRAM: u64 = 0x33;
    /// Of draft-ietf-webtrans-http3 from version 7 on; the number stands for the version.
    pub(super) const WT_MAX_SESSIONS: u64 = 0xc671_706a;
    /// SETTINGS_ENABLE_WEBTRANSPORT, of version 2 and its neighbours.
    pub(super) const WT_DRAFT_02: u64 = 0x2b60_3742;
    /// SETTINGS_WT_MAX_SESSIONS of versions 13 and 14.
    pub(super) const WT_DRAFT_13: u64 = 0x14e9_cd29;
    pub(super) const WT_INITIAL_MAX_STREAMS_UNI: u64 = 0x2b64;
    pub(super) const WT_INITIAL_MAX_STREAMS_BIDI: u64 = 0x2b65;
    pub(super) const WT_INITIAL_MAX_DATA: u64 = 0x2b61;
    /// SETTINGS_WT_ENABLED, of versions 15 and 16.
    pub(super) const WT_ENABLED: u64 = 0x2c7c_f000;
}
