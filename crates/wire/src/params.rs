//! Transport parameters (RFC 9000 §18), as TLS carries them in its extension quic_transport_parameters.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use core::time::Duration;

use crate::cursor::{ByteCount, EncodeSink};
use crate::fec::FecDecoder;
use crate::frame::MAX_STREAMS;
use crate::{ConnectionId, Reader, ResetToken, Side, TransportErrorCode, Truncated, Version, Writer, varint};

// sizes: one field for each parameter of the RFCs.
/// What one side tells the other about itself (RFC 9000 §18.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportParams {
    /// The destination of the client's first Initial. Server only.
    pub original_destination_connection_id: Option<ConnectionId>,
    /// Closed silently after so long without traffic, in whole milliseconds; zero: never.
    pub max_idle_timeout: Duration,
    /// Resets this connection. Server only.
    pub stateless_reset_token: Option<ResetToken>,
    /// The largest UDP payload it takes, in bytes, at least 1200.
    pub max_udp_payload_size: u64,
    /// Bytes that may be sent on all streams together.
    pub initial_max_data: u64,
    /// Bytes on each bidirectional stream opened by the one who tells this.
    pub initial_max_stream_data_bidi_local: u64,
    /// Bytes on each bidirectional stream opened by the other.
    pub initial_max_stream_data_bidi_remote: u64,
    /// Bytes on each unidirectional stream opened by the other.
    pub initial_max_stream_data_uni: u64,
    /// Bidirectional streams that the other may open, at most 2^60.
    pub initial_max_streams_bidi: u64,
    /// Unidirectional streams that the other may open, at most 2^60.
    pub initial_max_streams_uni: u64,
    /// The delay in its ACKs counts in units of 2 to this microseconds; at most 20.
    pub ack_delay_exponent: u8,
    /// The longest it delays an ACK, in whole milliseconds below 2^14.
    pub max_ack_delay: Duration,
    /// The other must not migrate to another path (but to the preferred address).
    pub disable_active_migration: bool,
    /// Where the server would rather be reached. Server only.
    pub preferred_address: Option<PreferredAddress>,
    /// The connection ids of the other that it keeps, at least 2.
    pub active_connection_id_limit: u64,
    /// The source of its first Initial.
    pub initial_source_connection_id: Option<ConnectionId>,
    /// The source of the Retry, if there was one. Server only.
    pub retry_source_connection_id: Option<ConnectionId>,
    /// Takes fenced streams with records of up to this many payload bytes, at least 1200
    /// (`spec/fenced-streams.md`).
    pub fenced_streams: Option<u64>,
    /// The largest DATAGRAM frame it takes, type and length included, in bytes; 0: none (RFC 9221 §3).
    pub max_datagram_frame_size: u64,
    /// Understands forward erasure correction, and decodes this much (`spec/fec.md`).
    pub fec_decoder: Option<FecDecoder>,
    /// Keeps the first STREAM frame of each 1-RTT packet with a number below this, 1 to 62, since it may be a
    /// symbol without saying so; 0: it does not (`spec/fec.md`).
    pub fec_unmarked: u64,
    /// Takes ACK_FREQUENCY and IMMEDIATE_ACK (draft-ietf-quic-ack-frequency); the least delay of an ACK that
    /// may be asked for, in whole microseconds, not above `max_ack_delay`.
    pub min_ack_delay: Option<Duration>,
    /// Takes RESET_STREAM_AT (draft-ietf-quic-reliable-stream-reset §3).
    pub reset_stream_at: bool,
    /// Takes packets whose second bit is 0 (RFC 9287 §3).
    pub grease_quic_bit: bool,
    /// The version in use, and those that might be (RFC 9368 §3).
    pub version_information: Option<VersionInformation>,
}

/// The version_information parameter (RFC 9368 §3). Of the peer's Available Versions only those are kept that
/// this crate knows, and the first [`MAX`](Self::MAX) of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionInformation {
    /// Chosen Version: that of the packets it comes with, as far as its sender knows.
    pub chosen: Version,
    available: [Version; Self::MAX],
    count: u8,
}

impl VersionInformation {
    /// Versions that are kept.
    pub const MAX: usize = 4;

    /// With the first [`MAX`](Self::MAX) of `available`.
    pub fn new(chosen: Version, available: impl IntoIterator<Item = Version>) -> Self {
        let mut this = Self { chosen, available: [Version::NEGOTIATION; Self::MAX], count: 0 };
        for (place, version) in this.available.iter_mut().zip(available) {
            *place = version;
            this.count += 1;
        }
        this
    }

    /// What its sender takes: a client in order of preference, a server in any.
    pub fn available(&self) -> &[Version] {
        &self.available[..usize::from(self.count)]
    }

    fn decode(value: &[u8]) -> Result<Self, ParamsError> {
        let versions = value.chunks_exact(4);
        // RFC 9368 §4: zero is no version, and the parameter that has it is malformed.
        let rest = versions.remainder();
        let word = |w: &[u8]| w.iter().fold(0, |n, byte| n << 8 | u32::from(*byte));
        let versions = versions.map(|w| Version(word(w)));
        if !rest.is_empty() || versions.clone().any(|version| version == Version::NEGOTIATION) {
            return Err(ParamsError::Length(id::VERSION_INFORMATION));
        }
        let chosen = versions.clone().next().ok_or(ParamsError::Length(id::VERSION_INFORMATION))?;
        Ok(Self::new(chosen, versions.skip(1).filter(|version| version.is_known())))
    }

    /// RFC 9368 §6.1: with one more that does not exist, so that nobody comes to rely on knowing them all.
    fn emit(&self, grease: u32, out: &mut impl EncodeSink) {
        out.varint(id::VERSION_INFORMATION);
        out.varint(4 * (self.available().len() as u64 + 2));
        for version in [self.chosen].iter().chain(self.available()) {
            out.bytes(&version.0.to_be_bytes());
        }
        out.bytes(&Version::reserved(grease).0.to_be_bytes());
    }
}

/// The preferred_address parameter: where a client may move once the handshake is confirmed (RFC 9000 §9.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreferredAddress {
    /// `None` when there is none of this family.
    pub ipv4: Option<SocketAddrV4>,
    /// `None` when there is none of this family.
    pub ipv6: Option<SocketAddrV6>,
    /// The connection id to use there, sequence number 1; 1 to 20 bytes.
    pub id: ConnectionId,
    /// Resets the connection under that id.
    pub token: ResetToken,
}

/// Why transport parameters are refused; the connection closes with TRANSPORT_PARAMETER_ERROR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamsError {
    /// A parameter, or the list, ends too early.
    #[error("cut short")]
    Truncated,
    /// The value of this parameter is longer or shorter than its kind allows.
    #[error("transport parameter {0:#x} has the wrong length")]
    Length(u64),
    /// The value of this parameter is outside its range.
    #[error("transport parameter {0:#x} is out of range")]
    Range(u64),
    /// This parameter comes twice (RFC 9000 §7.4).
    #[error("transport parameter {0:#x} comes twice")]
    Duplicate(u64),
    /// A client sent this parameter, which is for servers (RFC 9000 §18.2).
    #[error("transport parameter {0:#x} from a client")]
    ServerOnly(u64),
}

impl ParamsError {
    /// The error code to close with.
    pub const fn code(self) -> TransportErrorCode {
        TransportErrorCode::TRANSPORT_PARAMETER_ERROR
    }
}

impl From<Truncated> for ParamsError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}

/// What holds for a side that sends no parameters.
impl Default for TransportParams {
    fn default() -> Self {
        Self {
            original_destination_connection_id: None,
            max_idle_timeout: Duration::ZERO,
            stateless_reset_token: None,
            max_udp_payload_size: MAX_UDP_PAYLOAD_SIZE,
            initial_max_data: 0,
            initial_max_stream_data_bidi_local: 0,
            initial_max_stream_data_bidi_remote: 0,
            initial_max_stream_data_uni: 0,
            initial_max_streams_bidi: 0,
            initial_max_streams_uni: 0,
            ack_delay_exponent: ACK_DELAY_EXPONENT,
            max_ack_delay: MAX_ACK_DELAY,
            disable_active_migration: false,
            preferred_address: None,
            active_connection_id_limit: ACTIVE_CONNECTION_ID_LIMIT,
            initial_source_connection_id: None,
            retry_source_connection_id: None,
            fenced_streams: None,
            max_datagram_frame_size: 0,
            fec_decoder: None,
            fec_unmarked: 0,
            min_ack_delay: None,
            reset_stream_at: false,
            grease_quic_bit: false,
            version_information: None,
        }
    }
}

impl TransportParams {
    /// No encoding is longer, in bytes.
    pub const MAX_SIZE: usize = 384;

    /// Reads what the side `from` sent. Unknown parameters are skipped (RFC 9000 §7.4.2). Whether the
    /// connection ids are the right ones is for the caller to check (RFC 9000 §7.3).
    pub fn decode(from: Side, bytes: &[u8]) -> Result<Self, ParamsError> {
        let mut params = Self::default();
        let mut seen = 0u32;
        let mut r = Reader::new(bytes);
        while !r.is_empty() {
            let id = r.varint()?;
            let value = r.varint_bytes()?;
            // RFC 9000 §7.4: none comes twice. Unknown ones are not remembered, so that memory and time
            // stay bounded.
            let Some(bit) = bit(id) else { continue };
            if seen & bit != 0 {
                return Err(ParamsError::Duplicate(id));
            }
            seen |= bit;
            if from.is_client() && is_server_only(id) {
                return Err(ParamsError::ServerOnly(id));
            }
            params.take(id, value)?;
        }
        // draft-ietf-quic-ack-frequency §3; only now, since the parameters come in any order.
        if params.min_ack_delay.is_some_and(|least| least > params.max_ack_delay) {
            return Err(ParamsError::Range(id::MIN_ACK_DELAY));
        }
        Ok(params)
    }

    /// Writes the parameters as the side `by` sends them: those at their defaults and those not its to send
    /// are left out, and one reserved parameter made from `grease` is put in (RFC 9000 §18.1).
    ///
    /// # Panics
    /// When there is no room ([`size`](Self::size), at most [`MAX_SIZE`](Self::MAX_SIZE)), or a number is
    /// above 2^62 - 1.
    pub fn encode(&self, by: Side, grease: u64, w: &mut Writer<'_>) {
        self.emit(by, grease, w);
    }

    /// The bytes that [`encode`](Self::encode) writes.
    pub fn size(&self, by: Side, grease: u64) -> usize {
        let mut count = ByteCount(0);
        self.emit(by, grease, &mut count);
        count.0
    }

    fn take(&mut self, id: u64, value: &[u8]) -> Result<(), ParamsError> {
        match id {
            id::ORIGINAL_DESTINATION_CONNECTION_ID => {
                self.original_destination_connection_id = Some(cid(id, value)?);
            }
            id::MAX_IDLE_TIMEOUT => self.max_idle_timeout = Duration::from_millis(number(id, value)?),
            id::STATELESS_RESET_TOKEN => {
                let token = value.try_into().map_err(|_| ParamsError::Length(id))?;
                self.stateless_reset_token = Some(ResetToken(token));
            }
            id::MAX_UDP_PAYLOAD_SIZE => self.max_udp_payload_size = within(id, value, 1200, varint::MAX)?,
            id::INITIAL_MAX_DATA => self.initial_max_data = number(id, value)?,
            id::INITIAL_MAX_STREAM_DATA_BIDI_LOCAL => {
                self.initial_max_stream_data_bidi_local = number(id, value)?;
            }
            id::INITIAL_MAX_STREAM_DATA_BIDI_REMOTE => {
                self.initial_max_stream_data_bidi_remote = number(id, value)?;
            }
            id::INITIAL_MAX_STREAM_DATA_UNI => self.initial_max_stream_data_uni = number(id, value)?,
            id::INITIAL_MAX_STREAMS_BIDI => {
                self.initial_max_streams_bidi = within(id, value, 0, MAX_STREAMS)?;
            }
            id::INITIAL_MAX_STREAMS_UNI => self.initial_max_streams_uni = within(id, value, 0, MAX_STREAMS)?,
            id::ACK_DELAY_EXPONENT => {
                self.ack_delay_exponent =
                    u8::try_from(within(id, value, 0, 20)?).map_err(|_| ParamsError::Range(id))?;
            }
            id::MAX_ACK_DELAY => {
                self.max_ack_delay = Duration::from_millis(within(id, value, 0, (1 << 14) - 1)?);
            }
            id::DISABLE_ACTIVE_MIGRATION => match value {
                [] => self.disable_active_migration = true,
                _ => return Err(ParamsError::Length(id)),
            },
            id::RESET_STREAM_AT => match value {
                [] => self.reset_stream_at = true,
                _ => return Err(ParamsError::Length(id)),
            },
            id::GREASE_QUIC_BIT => match value {
                [] => self.grease_quic_bit = true,
                _ => return Err(ParamsError::Length(id)),
            },
            id::VERSION_INFORMATION => {
                self.version_information = Some(VersionInformation::decode(value)?);
            }
            id::PREFERRED_ADDRESS => self.preferred_address = Some(PreferredAddress::decode(value)?),
            id::ACTIVE_CONNECTION_ID_LIMIT => {
                self.active_connection_id_limit = within(id, value, 2, varint::MAX)?;
            }
            id::INITIAL_SOURCE_CONNECTION_ID => self.initial_source_connection_id = Some(cid(id, value)?),
            id::RETRY_SOURCE_CONNECTION_ID => self.retry_source_connection_id = Some(cid(id, value)?),
            // FS-2, FS-3.
            id::FENCED_STREAMS => self.fenced_streams = Some(within(id, value, 1200, varint::MAX)?),
            id::MAX_DATAGRAM_FRAME_SIZE => self.max_datagram_frame_size = number(id, value)?,
            // FEC-3: at least three numbers, and nothing but numbers.
            id::FEC_DECODER => {
                let decoder = FecDecoder::decode(value).map_err(|Truncated| ParamsError::Length(id))?;
                self.fec_decoder = Some(decoder);
            }
            // FEC-64.
            id::FEC_UNMARKED => self.fec_unmarked = within(id, value, 1, MAX_UNMARKED)?,
            id::MIN_ACK_DELAY => self.min_ack_delay = Some(Duration::from_micros(number(id, value)?)),
            _ => {}
        }
        Ok(())
    }

    fn emit(&self, by: Side, grease: u64, out: &mut impl EncodeSink) {
        let millis = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX).min(varint::MAX);
        let plain = Self::default();
        for (id, value, default) in [
            (id::MAX_IDLE_TIMEOUT, millis(self.max_idle_timeout), 0),
            (id::MAX_UDP_PAYLOAD_SIZE, self.max_udp_payload_size, plain.max_udp_payload_size),
            (id::INITIAL_MAX_DATA, self.initial_max_data, 0),
            (id::INITIAL_MAX_STREAM_DATA_BIDI_LOCAL, self.initial_max_stream_data_bidi_local, 0),
            (id::INITIAL_MAX_STREAM_DATA_BIDI_REMOTE, self.initial_max_stream_data_bidi_remote, 0),
            (id::INITIAL_MAX_STREAM_DATA_UNI, self.initial_max_stream_data_uni, 0),
            (id::INITIAL_MAX_STREAMS_BIDI, self.initial_max_streams_bidi, 0),
            (id::INITIAL_MAX_STREAMS_UNI, self.initial_max_streams_uni, 0),
            (id::ACK_DELAY_EXPONENT, self.ack_delay_exponent.into(), plain.ack_delay_exponent.into()),
            (id::MAX_ACK_DELAY, millis(self.max_ack_delay), millis(plain.max_ack_delay)),
            (
                id::ACTIVE_CONNECTION_ID_LIMIT,
                self.active_connection_id_limit,
                plain.active_connection_id_limit,
            ),
            // No default is a value that may be sent.
            (id::FENCED_STREAMS, self.fenced_streams.unwrap_or(0), 0),
            (id::MAX_DATAGRAM_FRAME_SIZE, self.max_datagram_frame_size, 0),
            (id::FEC_UNMARKED, self.fec_unmarked, 0),
        ] {
            if value != default {
                out.varint(id);
                out.varint(varint::size(value) as u64);
                out.varint(value);
            }
        }
        if let Some(decoder) = &self.fec_decoder {
            let mut len = ByteCount(0);
            decoder.emit(&mut len);
            out.varint(id::FEC_DECODER);
            out.varint(len.0 as u64);
            decoder.emit(out);
        }
        if let Some(least) = self.min_ack_delay {
            let micros = u64::try_from(least.as_micros()).unwrap_or(u64::MAX).min(varint::MAX);
            out.varint(id::MIN_ACK_DELAY);
            out.varint(varint::size(micros) as u64);
            out.varint(micros);
        }
        if self.disable_active_migration {
            parameter(out, id::DISABLE_ACTIVE_MIGRATION, &[]);
        }
        if self.reset_stream_at {
            parameter(out, id::RESET_STREAM_AT, &[]);
        }
        if self.grease_quic_bit {
            parameter(out, id::GREASE_QUIC_BIT, &[]);
        }
        if let Some(versions) = &self.version_information {
            versions.emit((grease & 0xffff_ffff) as u32, out);
        }
        if let Some(cid) = &self.initial_source_connection_id {
            parameter(out, id::INITIAL_SOURCE_CONNECTION_ID, cid);
        }
        if by.is_server() {
            self.emit_server_only(out);
        }
        // RFC 9000 §18.1: ids 31·N + 27 stand for nothing.
        let value = grease.to_be_bytes();
        parameter(out, 31 * (grease % GREASE_IDS) + 27, &value[..(grease >> 61) as usize]);
    }

    fn emit_server_only(&self, out: &mut impl EncodeSink) {
        if let Some(cid) = &self.original_destination_connection_id {
            parameter(out, id::ORIGINAL_DESTINATION_CONNECTION_ID, cid);
        }
        if let Some(cid) = &self.retry_source_connection_id {
            parameter(out, id::RETRY_SOURCE_CONNECTION_ID, cid);
        }
        if let Some(token) = &self.stateless_reset_token {
            parameter(out, id::STATELESS_RESET_TOKEN, &token.0);
        }
        if let Some(address) = &self.preferred_address {
            address.emit(out);
        }
    }
}

impl PreferredAddress {
    fn decode(value: &[u8]) -> Result<Self, ParamsError> {
        let wrong = |Truncated| ParamsError::Length(id::PREFERRED_ADDRESS);
        let mut r = Reader::new(value);
        let ipv4 = SocketAddrV4::new(Ipv4Addr::from(r.array::<4>().map_err(wrong)?), r.u16().map_err(wrong)?);
        let ipv6 = Ipv6Addr::from(r.array::<16>().map_err(wrong)?);
        let ipv6 = SocketAddrV6::new(ipv6, r.u16().map_err(wrong)?, 0, 0);
        let len = r.u8().map_err(wrong)? as usize;
        // RFC 9000 §18.2: a server without connection ids has no preferred address.
        if !(1..=ConnectionId::MAX).contains(&len) {
            return Err(ParamsError::Range(id::PREFERRED_ADDRESS));
        }
        let id = cid(id::PREFERRED_ADDRESS, r.bytes(len).map_err(wrong)?)?;
        let token = ResetToken(r.array().map_err(wrong)?);
        if !r.is_empty() {
            return Err(ParamsError::Length(id::PREFERRED_ADDRESS));
        }
        // All zeros: no address of this family.
        let ipv4 = (!ipv4.ip().is_unspecified() || ipv4.port() != 0).then_some(ipv4);
        let ipv6 = (!ipv6.ip().is_unspecified() || ipv6.port() != 0).then_some(ipv6);
        Ok(Self { ipv4, ipv6, id, token })
    }

    fn emit(&self, out: &mut impl EncodeSink) {
        let (ip4, port4) = self.ipv4.map_or((Ipv4Addr::UNSPECIFIED, 0), |a| (*a.ip(), a.port()));
        let (ip6, port6) = self.ipv6.map_or((Ipv6Addr::UNSPECIFIED, 0), |a| (*a.ip(), a.port()));
        out.varint(id::PREFERRED_ADDRESS);
        out.varint((4 + 2 + 16 + 2 + 1 + self.id.len() + 16) as u64);
        out.bytes(&ip4.octets());
        out.bytes(&port4.to_be_bytes());
        out.bytes(&ip6.octets());
        out.bytes(&port6.to_be_bytes());
        out.bytes(&[self.id.len_byte()]);
        out.bytes(&self.id);
        out.bytes(&self.token.0);
    }
}

fn parameter(out: &mut impl EncodeSink, id: u64, value: &[u8]) {
    out.varint(id);
    out.varint_bytes(value);
}

/// A value that is one varint and nothing else.
fn number(id: u64, value: &[u8]) -> Result<u64, ParamsError> {
    let mut r = Reader::new(value);
    match r.varint() {
        Ok(n) if r.is_empty() => Ok(n),
        _ => Err(ParamsError::Length(id)),
    }
}

fn within(id: u64, value: &[u8], min: u64, max: u64) -> Result<u64, ParamsError> {
    match number(id, value)? {
        n if (min..=max).contains(&n) => Ok(n),
        _ => Err(ParamsError::Range(id)),
    }
}

fn cid(id: u64, value: &[u8]) -> Result<ConnectionId, ParamsError> {
    ConnectionId::new(value).ok_or(ParamsError::Length(id))
}

/// A bit for each parameter that is known.
fn bit(id: u64) -> Option<u32> {
    match id {
        id::ORIGINAL_DESTINATION_CONNECTION_ID..=id::RETRY_SOURCE_CONNECTION_ID => Some(1 << id),
        id::FENCED_STREAMS => Some(1 << (id::RETRY_SOURCE_CONNECTION_ID + 1)),
        id::FEC_DECODER => Some(1 << (id::RETRY_SOURCE_CONNECTION_ID + 2)),
        id::MIN_ACK_DELAY => Some(1 << (id::RETRY_SOURCE_CONNECTION_ID + 3)),
        id::MAX_DATAGRAM_FRAME_SIZE => Some(1 << (id::RETRY_SOURCE_CONNECTION_ID + 4)),
        id::RESET_STREAM_AT => Some(1 << (id::RETRY_SOURCE_CONNECTION_ID + 5)),
        id::VERSION_INFORMATION => Some(1 << (id::RETRY_SOURCE_CONNECTION_ID + 6)),
        id::GREASE_QUIC_BIT => Some(1 << (id::RETRY_SOURCE_CONNECTION_ID + 7)),
        id::FEC_UNMARKED => Some(1 << (id::RETRY_SOURCE_CONNECTION_ID + 8)),
        _ => None,
    }
}

fn is_server_only(id: u64) -> bool {
    matches!(
        id,
        id::ORIGINAL_DESTINATION_CONNECTION_ID
            | id::STATELESS_RESET_TOKEN
            | id::PREFERRED_ADDRESS
            | id::RETRY_SOURCE_CONNECTION_ID
    )
}

// RFC 9000 §18.2: what is assumed where a parameter is absent.
const MAX_UDP_PAYLOAD_SIZE: u64 = 65_527;
const ACK_DELAY_EXPONENT: u8 = 3;
const MAX_ACK_DELAY: Duration = Duration::from_millis(25);
const ACTIVE_CONNECTION_ID_LIMIT: u64 = 2;

/// Packet numbers below this fit the bits of an UNMARKED frame.
pub const MAX_UNMARKED: u64 = 62;

/// How many reserved ids fit a varint.
const GREASE_IDS: u64 = (varint::MAX - 27) / 31 + 1;

mod id {
    pub(super) const ORIGINAL_DESTINATION_CONNECTION_ID: u64 = 0x00;
    pub(super) const MAX_IDLE_TIMEOUT: u64 = 0x01;
    pub(super) const STATELESS_RESET_TOKEN: u64 = 0x02;
    pub(super) const MAX_UDP_PAYLOAD_SIZE: u64 = 0x03;
    pub(super) const INITIAL_MAX_DATA: u64 = 0x04;
    pub(super) const INITIAL_MAX_STREAM_DATA_BIDI_LOCAL: u64 = 0x05;
    pub(super) const INITIAL_MAX_STREAM_DATA_BIDI_REMOTE: u64 = 0x06;
    pub(super) const INITIAL_MAX_STREAM_DATA_UNI: u64 = 0x07;
    pub(super) const INITIAL_MAX_STREAMS_BIDI: u64 = 0x08;
    pub(super) const INITIAL_MAX_STREAMS_UNI: u64 = 0x09;
    pub(super) const ACK_DELAY_EXPONENT: u64 = 0x0a;
    pub(super) const MAX_ACK_DELAY: u64 = 0x0b;
    pub(super) const DISABLE_ACTIVE_MIGRATION: u64 = 0x0c;
    pub(super) const PREFERRED_ADDRESS: u64 = 0x0d;
    pub(super) const ACTIVE_CONNECTION_ID_LIMIT: u64 = 0x0e;
    pub(super) const INITIAL_SOURCE_CONNECTION_ID: u64 = 0x0f;
    pub(super) const RETRY_SOURCE_CONNECTION_ID: u64 = 0x10;
    pub(super) const VERSION_INFORMATION: u64 = 0x11;
    pub(super) const RESET_STREAM_AT: u64 = 0x1d;
    pub(super) const MAX_DATAGRAM_FRAME_SIZE: u64 = 0x20;
    pub(super) const GREASE_QUIC_BIT: u64 = 0x2ab2;
    pub(super) const FENCED_STREAMS: u64 = 0x0071_53f1;
    pub(super) const FEC_DECODER: u64 = 0x0715_3fec;
    pub(super) const FEC_UNMARKED: u64 = 0x0715_3fee;
    pub(super) const MIN_ACK_DELAY: u64 = 0xff04_de1b;
}
