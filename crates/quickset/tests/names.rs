//! Whatever the face hands out has a name there: applications depend on `quickset` and on nothing else of the
//! project.

#![cfg(feature = "self-signed")]

use quickset::layer::{Layer, LayerTurn};
use quickset::{
    AckStats, AddressPair, Admission, ClientConfig, ConnectError, Dir, EarlyGate, EcnState, EcnStats,
    Fingerprint, Gate, HandshakeFault, IdentityError, Incoming, MtuStats, PeerCertificates, ServerConfig,
    Stats, StreamId, TicketKey, Time, TransportConfig, TransportError, TransportErrorCode, Version, policy,
    quic,
};

/// Each type as it is met: a field, what a function takes, what it returns.
#[test]
fn types_in_fields_and_signatures_have_names() {
    fn acks(stats: &Stats) -> (AckStats, EcnStats, MtuStats) {
        (stats.acks, stats.ecn, stats.mtu)
    }
    fn ecn(stats: &EcnStats) -> EcnState {
        stats.state
    }
    fn code(error: &TransportError) -> (TransportErrorCode, Option<&HandshakeFault>) {
        (error.code, error.fault.as_deref())
    }
    fn refused(error: ConnectError) -> Option<quic::BeginError> {
        if let ConnectError::Refused(why) = error { Some(why) } else { None }
    }
    fn first(peer: &PeerCertificates) -> Option<&quickset::pki_types::CertificateDer<'static>> {
        peer.first()
    }
    fn unfit(error: IdentityError) -> Option<quickset::rustls::Error> {
        if let IdentityError::Unfit(why) = error { Some(why) } else { None }
    }
    fn unmade(error: IdentityError) -> Option<quickset::rcgen::Error> {
        if let IdentityError::Make(why) = error { Some(why) } else { None }
    }
    fn seen(view: &policy::CodingView<'_>) -> Time {
        view.now
    }
    fn core(server: &ServerConfig, client: &ClientConfig) -> (quic::ServerConfig, quic::ClientConfig) {
        (server.quic(), client.quic().clone())
    }
    fn below<'a>(turn: &'a mut LayerTurn<'_>) -> &'a mut quic::Connection {
        turn.connection
    }
    struct Idle;
    impl Layer for Idle {
        fn on_stream(&mut self, _: &mut LayerTurn<'_>, _: quic::StreamEvent) {}
        fn on_datagrams(&mut self, _: &mut LayerTurn<'_>) {}
        fn on_closed(&mut self, _: &mut LayerTurn<'_>) {}
    }
    let _ = (acks, ecn, code, refused, first, unfit, unmade, seen, core, below, Idle);
    let _ = Gate::new(
        |client: &Incoming, usual: Admission| if client.is_validated() { usual } else { Admission::Retry },
    );
    let _ = EarlyGate::new(|path: &AddressPair| path.remote.port() != 0);
    let _: fn(&StreamId) -> Dir = |id| id.dir();
    let _: fn(TicketKey) -> Version = |key| key.version;
    let _: fn(&quickset::pki_types::CertificateDer<'_>) -> Option<Fingerprint> = Fingerprint::of;
    let only = TransportConfig::default().with_versions(vec![Version::V1]);
    assert_eq!(only.begins_in(), Some(Version::V1));
    assert_eq!(TransportErrorCode::crypto(120).alert(), Some(120));
    let (bytes, other) = (quickset::bytes::Bytes::from_static(b"a"), bytes::Bytes::from_static(b"a"));
    assert_eq!(bytes, other, "one crate under two names");
}
