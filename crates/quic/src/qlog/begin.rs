//! What is told once, at the beginning: who talks to whom, and what both sides announce.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ::qlog::events::EventData;
use ::qlog::events::connectivity::{
    ConnectionStarted, ConnectionState, ConnectionStateUpdated, MtuUpdated, TransportOwner,
};
use ::qlog::events::quic::{
    RecoveryParametersSet, TransportParametersSet, UnknownTransportParameter, VersionInformation,
};
use quickset_base::number::Unsigned as _;
use quickset_base::{AddressPair as Address, Time};
use quickset_wire::fec::FecDecoder;
use quickset_wire::{Space, TransportParams, Version, Writer, varint};

use super::frame::hex;
use super::log::{Qlog, QlogWriter};
use super::metrics::millis;
use super::{Beginning, Sinks, Subject, VersionFacts};
use crate::path::Path;
use crate::recovery::{Recovery, thresholds};

impl VersionFacts<'_> {
    fn told(&self) -> VersionInformation {
        let told = |params: &TransportParams| {
            let versions = params.version_information.as_ref()?;
            Some(versions.available().iter().map(|version| number(*version)).collect())
        };
        let ours = told(self.ours);
        let peers = self.peer.and_then(told);
        let (client_versions, server_versions) =
            if self.side.is_client() { (ours, peers) } else { (peers, ours) };
        VersionInformation { server_versions, client_versions, chosen_version: Some(number(self.chosen)) }
    }
}

impl Qlog {
    /// The trace begins, if there is a sink for it.
    pub(crate) fn begin(sinks: Option<&dyn Sinks>, now: Time, beginning: &Beginning<'_>) -> Self {
        let Beginning { versions, path, cids, recovery } = beginning;
        let remote = *cids.remote();
        // The client learns only from the Retry that its first choice was not the last.
        let original_dcid = versions.ours.original_destination_connection_id.unwrap_or(remote);
        let mut this = Self::open(sinks, &Subject { side: versions.side, original_dcid, now });
        if let Some(log) = this.log() {
            log.remote_cid = remote;
            let started = started(&path.address, hex(cids.first_local()), hex(&remote));
            log.event(now, &EventData::ConnectionStarted(started));
            log.state(now, None, ConnectionState::Attempted);
            log.event(now, &EventData::VersionInformation(versions.told()));
            let parameters = parameters(TransportOwner::Local, versions.ours);
            log.event(now, &EventData::TransportParametersSet(parameters));
            log.event(now, &EventData::RecoveryParametersSet(recovery_parameters(path, recovery)));
            let mtu = MtuUpdated { old: None, new: path.mtu.saturated(), done: Some(true) };
            log.event(now, &EventData::MtuUpdated(mtu));
            log.new_keys(now, Space::Initial);
        }
        this
    }

    /// The connection is of another version than it was.
    pub(crate) fn version(&mut self, now: Time, versions: VersionFacts<'_>) {
        if let Some(log) = self.log() {
            log.event(now, &EventData::VersionInformation(versions.told()));
        }
    }

    /// The peer's parameters are known; with the sizes of datagrams before and behind that.
    pub(crate) fn peer(&mut self, now: Time, versions: VersionFacts<'_>, mtu_before: usize, mtu: usize) {
        let (Some(log), Some(peer)) = (self.log(), versions.peer) else { return };
        let parameters = parameters(TransportOwner::Remote, peer);
        log.event(now, &EventData::TransportParametersSet(parameters));
        if peer.version_information.is_some() {
            log.event(now, &EventData::VersionInformation(versions.told()));
        }
        let (old, new) = (mtu_before.saturated(), mtu.saturated());
        if old != new {
            log.event(now, &EventData::MtuUpdated(MtuUpdated { old: Some(old), new, done: Some(true) }));
        }
    }

    /// The size of datagrams is another than `before`.
    pub(crate) fn size(&mut self, now: Time, before: usize, path: &Path) {
        if let Some(log) = self.log() {
            let (old, new) = (Some(before.saturated()), path.mtu.saturated());
            let done = Some(path.search.is_none());
            log.event(now, &EventData::MtuUpdated(MtuUpdated { old, new, done }));
        }
    }
}

fn recovery_parameters(path: &Path, recovery: &Recovery) -> RecoveryParametersSet {
    let (packets, eighths, granularity, persistent) = thresholds();
    RecoveryParametersSet {
        reordering_threshold: Some(packets.saturated()),
        time_threshold: Some(f32::from(eighths.saturated::<u16>()) / 8.0),
        timer_granularity: Some(granularity.as_millis().saturated()),
        initial_rtt: Some(millis(recovery.rtt().smoothed())),
        max_datagram_size: Some(path.mtu.saturated()),
        initial_congestion_window: Some(path.congestion.control().window),
        minimum_congestion_window: None,
        loss_reduction_factor: None,
        persistent_congestion_threshold: Some(persistent),
    }
}

impl QlogWriter {
    pub(super) fn state(&mut self, now: Time, old: Option<ConnectionState>, new: ConnectionState) {
        self.event(now, &EventData::ConnectionStateUpdated(ConnectionStateUpdated { old, new }));
    }
}

fn number(version: Version) -> String {
    format!("{:x}", version.0)
}

fn started(path: &Address, src_cid: String, dst_cid: String) -> ConnectionStarted {
    let remote = path.remote.ip();
    let unspecified = match remote {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    ConnectionStarted {
        ip_version: Some(if remote.is_ipv4() { "v4" } else { "v6" }.to_owned()),
        src_ip: path.local.unwrap_or(unspecified).to_string(),
        dst_ip: remote.to_string(),
        protocol: Some("QUIC".to_owned()),
        src_port: None,
        dst_port: Some(path.remote.port()),
        src_cid: Some(src_cid),
        dst_cid: Some(dst_cid),
    }
}

/// All but the stateless reset token, and the preferred address, which comes with one.
fn parameters(owner: TransportOwner, params: &TransportParams) -> TransportParametersSet {
    let fenced = params.fenced_streams.map(|max| unknown(FENCED_STREAMS, |w| w.varint(max)));
    let fec = params.fec_decoder.map(|decoder| unknown(FEC_DECODER, |w| decoder.encode(w)));
    let kept = (params.fec_unmarked > 0).then(|| unknown(FEC_UNMARKED, |w| w.varint(params.fec_unmarked)));
    let least = params.min_ack_delay.map(|least| {
        let micros = u64::try_from(least.as_micros()).unwrap_or(u64::MAX).min(varint::MAX);
        unknown(MIN_ACK_DELAY, |w| w.varint(micros))
    });
    let most = params.max_datagram_frame_size;
    let datagrams = (most > 0).then(|| unknown(MAX_DATAGRAM_FRAME_SIZE, |w| w.varint(most)));
    let resets = params.reset_stream_at.then(|| unknown(RESET_STREAM_AT, |_| {}));
    let greases = params.grease_quic_bit.then(|| unknown(GREASE_QUIC_BIT, |_| {}));
    let id = |id: Option<quickset_wire::ConnectionId>| id.map(|id| hex(&id));
    TransportParametersSet {
        owner: Some(owner),
        resumption_allowed: None,
        early_data_enabled: None,
        tls_cipher: None,
        aead_tag_length: None,
        original_destination_connection_id: id(params.original_destination_connection_id),
        initial_source_connection_id: id(params.initial_source_connection_id),
        retry_source_connection_id: id(params.retry_source_connection_id),
        stateless_reset_token: None,
        disable_active_migration: Some(params.disable_active_migration),
        max_idle_timeout: Some(u64::try_from(params.max_idle_timeout.as_millis()).unwrap_or(u64::MAX)),
        max_udp_payload_size: Some(u32::try_from(params.max_udp_payload_size).unwrap_or(u32::MAX)),
        ack_delay_exponent: Some(params.ack_delay_exponent.into()),
        max_ack_delay: Some(params.max_ack_delay.as_millis().saturated()),
        active_connection_id_limit: Some(
            u32::try_from(params.active_connection_id_limit).unwrap_or(u32::MAX),
        ),
        initial_max_data: Some(params.initial_max_data),
        initial_max_stream_data_bidi_local: Some(params.initial_max_stream_data_bidi_local),
        initial_max_stream_data_bidi_remote: Some(params.initial_max_stream_data_bidi_remote),
        initial_max_stream_data_uni: Some(params.initial_max_stream_data_uni),
        initial_max_streams_bidi: Some(params.initial_max_streams_bidi),
        initial_max_streams_uni: Some(params.initial_max_streams_uni),
        preferred_address: None,
        unknown_parameters: fenced
            .into_iter()
            .chain(fec)
            .chain(kept)
            .chain(least)
            .chain(datagrams)
            .chain(resets)
            .chain(greases)
            .collect(),
    }
}

/// A parameter for which the data model has no name, with the bytes that went over the wire.
fn unknown(id: u64, write: impl FnOnce(&mut Writer<'_>)) -> UnknownTransportParameter {
    let mut buffer = [0; FecDecoder::MAX_SIZE];
    let mut w = Writer::new(&mut buffer);
    write(&mut w);
    UnknownTransportParameter { id, value: hex(w.written()) }
}

/// FS-2: the transport parameter of fenced streams.
const FENCED_STREAMS: u64 = 0x0071_53f1;
/// FEC-3: that of forward erasure correction.
const FEC_DECODER: u64 = 0x0715_3fec;
/// FEC-64: symbols that do not say that they are.
const FEC_UNMARKED: u64 = 0x0715_3fee;
/// RFC 9221 §3.
const MAX_DATAGRAM_FRAME_SIZE: u64 = 0x20;
/// draft-ietf-quic-reliable-stream-reset §3.
const RESET_STREAM_AT: u64 = 0x1d;
/// RFC 9287 §3.
const GREASE_QUIC_BIT: u64 = 0x2ab2;
/// draft-ietf-quic-ack-frequency §3.
const MIN_ACK_DELAY: u64 = 0xff04_de1b;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use quickset_wire::fec::Schemes;

    use super::*;

    #[test]
    fn extensions_are_told_as_they_went_over_the_wire() {
        let decoder =
            FecDecoder { window: 1024, max_sessions: 4, max_symbol_size: 1200, schemes: Schemes::ALL };
        let params = TransportParams {
            fenced_streams: Some(65_536),
            fec_decoder: Some(decoder),
            fec_unmarked: 32,
            min_ack_delay: Some(Duration::from_millis(1)),
            max_datagram_frame_size: 1200,
            reset_stream_at: true,
            grease_quic_bit: true,
            ..TransportParams::default()
        };
        let told = parameters(TransportOwner::Local, &params).unknown_parameters;
        let told: Vec<_> = told.iter().map(|p| (p.id, p.value.as_str())).collect();
        // The values in the examples of spec/, and 1000 and 1200 as varints.
        let expected = [
            (0x0071_53f1, "80010000"),
            (0x0715_3fec, "44000444b00001020304"),
            (0x0715_3fee, "20"),
            (0xff04_de1b, "43e8"),
            (0x20, "44b0"),
            (0x1d, ""),
            (0x2ab2, ""),
        ];
        assert_eq!(told, expected);
    }
}
