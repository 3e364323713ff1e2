//! Versions: the one that both sides take, and what a forger achieves (RFC 9000 §6, RFC 9368, RFC 9369).

use quickset_wire::Version;
use quickset_wire::header::{Header, Parsed, version_negotiation};
use quickset_wire::params::{TransportParams, VersionInformation};

use super::*;
use crate::keys::ClientCrypto;

const BOTH: &[Version] = &[Version::V1, Version::V2];
const ONE: &[Version] = &[Version::V1];
const TWO: &[Version] = &[Version::V2];

fn speaks(versions: &[Version]) -> TransportConfig {
    TransportConfig { versions: versions.to_vec(), ..TransportConfig::fixed_mtu(1200) }
}

/// A server with one client, whose first packets somebody may see before the server does.
pub(super) struct Meeting {
    pub(super) now: Time,
    pub(super) client: Connection,
    far: Endpoint,
    pub(super) server: Option<Connection>,
}

impl Meeting {
    fn new(client: &[Version], server: &[Version]) -> Self {
        Self::seeded(1, speaks(client), speaks(server))
    }

    pub(super) fn seeded(seed: u64, client: TransportConfig, server: TransportConfig) -> Self {
        let crypto = Arc::new(NullClient::new(&[b"test"]));
        let config = ClientConfig { crypto: crypto as Arc<dyn ClientCrypto>, transport: Arc::new(client) };
        let endpoint = |n: u64, server| {
            let crypto = Arc::new(NullSecrets(n));
            Endpoint::new(
                EndpointConfig { crypto, connection_id_len: 8, resets_per_second: 10 },
                server,
                Rng::new(n),
            )
        };
        let server = ServerConfig {
            crypto: Arc::new(NullServer::new(&[b"test"])),
            transport: Arc::new(server),
            max_connections: 10,
            retry: RetryPolicy::Never,
            retry_token_lifetime: Duration::from_secs(10),
            gate: None,
            token_lifetime: Duration::from_secs(10),
        };
        let now = Time::from_millis(1);
        let (_, start) =
            endpoint(2 * seed + 1, None).connect(now, &config, address(2), "server", Vec::new()).unwrap();
        let client = Connection::new(start).unwrap();
        Self { now, client, far: endpoint(2 * seed, Some(server)), server: None }
    }

    /// A Version Negotiation packet for what the client sent first.
    fn negotiation(hello: &Datagram, versions: &[Version]) -> Datagram {
        let Ok(Parsed { header: Header::Initial { dcid, scid, .. }, .. }) = Parsed::parse(&hello.bytes, 0)
        else {
            panic!("no Initial packet");
        };
        let mut bytes = [0; 100];
        let mut w = wire::Writer::new(&mut bytes);
        version_negotiation(&mut w, &scid, &dcid, versions, 7);
        Datagram { path: address(2), bytes: w.written().into(), ..hello.clone() }
    }

    fn give(&mut self, datagram: Datagram) {
        self.client.handle(self.now, Input::Received(&mut vec![datagram]));
    }

    /// Whether another client of the same address that begins in `version` proves it by this token.
    fn proves(&mut self, version: Version, token: &[u8]) -> bool {
        let config = ClientConfig {
            crypto: Arc::new(NullClient::new(&[b"test"])),
            transport: Arc::new(speaks(&[version])),
        };
        let crypto = Arc::new(NullSecrets(99));
        let near = EndpointConfig { crypto, connection_id_len: 8, resets_per_second: 10 };
        let mut near = Endpoint::new(near, None, Rng::new(99));
        let (_, start) = near.connect(self.now, &config, address(2), "server", token.to_vec()).unwrap();
        let mut hello = drain(&mut Connection::new(start).unwrap(), self.now, address(1));
        let DatagramRoute::Incoming(incoming) = self.far.route(self.now, hello.remove(0)) else {
            panic!("no incoming")
        };
        incoming.is_validated()
    }

    /// Until both are quiet.
    pub(super) fn run(&mut self) {
        loop {
            let up = drain(&mut self.client, self.now, address(1));
            let mut down = Vec::new();
            if let Some(server) = &mut self.server {
                down = drain(server, self.now, address(2));
            }
            if up.is_empty() && down.is_empty() {
                return;
            }
            self.now += Duration::from_millis(1);
            down.extend(self.take(up));
            self.client.handle(self.now, Input::Received(&mut down));
        }
    }

    /// What the server says to these at once.
    pub(super) fn answer(&mut self, up: Vec<Datagram>) -> Vec<Datagram> {
        self.take(up);
        drain(self.server.as_mut().expect("somebody came"), self.now, address(2))
    }

    pub(super) fn give_all(&mut self, mut down: Vec<Datagram>) {
        self.client.handle(self.now, Input::Received(&mut down));
    }

    /// What arrives at the server. Returns what its endpoint answers itself.
    fn take(&mut self, up: Vec<Datagram>) -> Vec<Datagram> {
        let mut down = Vec::new();
        for datagram in up {
            match self.far.route(self.now, datagram) {
                DatagramRoute::Incoming(incoming) => {
                    let Ok((_, start, first)) = self.far.accept(self.now, incoming) else {
                        panic!("not taken")
                    };
                    let mut server = Connection::new(start).unwrap();
                    server.handle(self.now, Input::Received(&mut vec![first]));
                    self.server = Some(server);
                }
                DatagramRoute::Respond(response) => {
                    down.push(Datagram {
                        path: address(2),
                        ecn: quickset_base::Ecn::NotEct,
                        bytes: response.bytes[..].into(),
                    });
                }
                DatagramRoute::Connection(_, datagram) => {
                    self.server.as_mut().unwrap().handle(self.now, Input::Received(&mut vec![datagram]));
                }
                _ => {}
            }
        }
        down
    }

    fn error(&self) -> Option<Code> {
        match &self.client.stats().closed {
            Some(Closed::Failed(error)) => Some(error.code),
            _ => None,
        }
    }
}

#[test]
fn the_first_version_that_both_speak_is_spoken() {
    let swapped = &[Version::V2, Version::V1][..];
    for (client, server, spoken, asked) in [
        (BOTH, BOTH, Version::V1, 0),
        (swapped, BOTH, Version::V2, 0),
        (swapped, ONE, Version::V1, 1),
        (BOTH, TWO, Version::V2, 1),
        (TWO, BOTH, Version::V2, 0),
        // What nobody knows is passed over.
        (&[Version(0x1a2a_3a4a), Version(77), Version::V2], TWO, Version::V2, 0),
    ] {
        let mut meeting = Meeting::new(client, server);
        meeting.run();
        let far = meeting.server.as_ref().expect("somebody came");
        assert!(meeting.client.is_established() && far.is_established(), "{client:?} {server:?}");
        assert_eq!((meeting.client.version(), far.version()), (spoken, spoken), "{client:?} {server:?}");
        assert_eq!(meeting.far.counters().version_negotiations, asked, "{client:?} {server:?}");
    }
}

/// RFC 9368 §2.3, RFC 9369 §4.
#[test]
fn a_server_goes_on_in_what_its_client_likes_best() {
    let swapped = &[Version::V2, Version::V1][..];
    for (first, client, server, spoken) in [
        (Version::V1, swapped, BOTH, Version::V2),
        (Version::V1, swapped, swapped, Version::V2),
        (Version::V2, BOTH, BOTH, Version::V1),
        // Whoever does not know it, or is not asked to, stays.
        (Version::V1, swapped, ONE, Version::V1),
        (Version::V1, BOTH, swapped, Version::V1),
        (Version::V2, swapped, swapped, Version::V2),
        // What is not spoken is not begun in.
        (Version::V2, ONE, BOTH, Version::V1),
    ] {
        let name = format!("{first} {client:?} {server:?}");
        let config = TransportConfig { first_version: Some(first), ..speaks(client) };
        let mut meeting = Meeting::seeded(1, config, speaks(server));
        let hello = drain(&mut meeting.client, meeting.now, address(1));
        let began = crate::keys::version_of(&hello[0].bytes).unwrap();
        assert_eq!(began, if client.contains(&first) { first } else { Version::V1 }, "{name}");
        let answer = meeting.answer(hello);
        // RFC 9369 §4.1: all long headers of the answer are of what was agreed on.
        for datagram in &answer {
            assert_eq!(crate::keys::version_of(&datagram.bytes), Some(spoken), "{name}");
        }
        meeting.give_all(answer);
        meeting.run();
        let far = meeting.server.as_ref().expect("somebody came");
        assert!(meeting.client.is_established() && far.is_established(), "{name}");
        assert_eq!((meeting.client.version(), far.version()), (spoken, spoken), "{name}");
        assert_eq!(meeting.far.counters().version_negotiations, 0, "{name}");
    }
}

/// RFC 9369 §5: tokens are good in the version of their connection alone, so those of a connection that went
/// on in another one are of that.
#[test]
fn tokens_are_of_the_version_that_was_agreed_on() {
    let swapped = &[Version::V2, Version::V1][..];
    for (first, client, spoken) in [
        (Version::V1, BOTH, Version::V1),
        (Version::V1, swapped, Version::V2),
        (Version::V2, BOTH, Version::V1),
    ] {
        let config = TransportConfig { first_version: Some(first), ..speaks(client) };
        let mut meeting = Meeting::seeded(1, config, speaks(BOTH));
        let hello = drain(&mut meeting.client, meeting.now, address(1));
        let answer = meeting.answer(hello);
        meeting.give_all(answer);
        let finished = drain(&mut meeting.client, meeting.now, address(1));
        let done = meeting.answer(finished);
        meeting.give_all(done);
        let event = |client: &mut Connection| std::iter::from_fn(|| client.poll_event()).collect::<Vec<_>>();
        let tokens: Vec<_> = event(&mut meeting.client)
            .into_iter()
            .filter_map(|event| if let Event::NewToken(token) = event { Some(token) } else { None })
            .collect();
        assert_eq!((tokens.len(), meeting.client.version()), (2, spoken), "{first} {client:?}");
        for (version, token) in [(Version::V1, &tokens[0]), (Version::V2, &tokens[1])] {
            assert_eq!(meeting.proves(version, token), version == spoken, "{first} {client:?} in {version}");
        }
    }
}

/// What is late of the version before turns nothing back, and what a forger writes turns nothing at all: the
/// keys of Initial packets are everybody's, so that the parameters have the last word (RFC 9368 §4).
#[test]
fn only_authentic_packets_and_the_parameters_decide() {
    let swapped = &[Version::V2, Version::V1][..];
    let config = TransportConfig { first_version: Some(Version::V1), ..speaks(swapped) };
    let mut meeting = Meeting::seeded(1, config.clone(), speaks(BOTH));
    let hello = drain(&mut meeting.client, meeting.now, address(1));
    let answer = meeting.answer(hello);
    // The answer with a bit changed opens in neither version.
    let mut forged = answer[0].clone();
    forged.bytes[60] ^= 1;
    meeting.give(forged);
    assert_eq!(meeting.client.version(), Version::V1);
    meeting.give_all(answer);
    assert_eq!(meeting.client.version(), Version::V2);
    let untold = meeting.client.check_version(&TransportParams::default()).unwrap_err();
    assert_eq!(untold.code, Code::VERSION_NEGOTIATION_ERROR, "RFC 9368 §4: who negotiates says so");
    meeting.client.heard_in(Version::V1);
    assert_eq!(meeting.client.version(), Version::V2, "once");
    meeting.run();
    assert!(meeting.client.is_established());

    // A server that says another version than its packets have is no server.
    let meeting = Meeting::seeded(1, config, speaks(BOTH));
    let told = VersionInformation::new(Version::V2, BOTH.to_vec());
    let params = TransportParams { version_information: Some(told), ..TransportParams::default() };
    let error = meeting.client.check_version(&params).unwrap_err();
    assert_eq!(error.code, Code::VERSION_NEGOTIATION_ERROR);
}

#[test]
fn without_a_common_version_there_is_nothing_to_say() {
    for (client, server) in [(ONE, TWO), (TWO, ONE)] {
        let mut meeting = Meeting::new(client, server);
        meeting.run();
        assert_eq!(meeting.client.stats().closed, Some(Closed::NoCommonVersion));
        assert!(meeting.server.is_none());
    }
}

#[test]
fn a_forged_version_negotiation_is_found_out() {
    // The server would have taken version 1. RFC 9368 §4: so its parameters say.
    let mut meeting = Meeting::new(BOTH, BOTH);
    let hello = drain(&mut meeting.client, meeting.now, address(1));
    meeting.give(Meeting::negotiation(&hello[0], TWO));
    assert_eq!(meeting.client.version(), Version::V2);
    meeting.run();
    assert_eq!(meeting.error(), Some(Code::VERSION_NEGOTIATION_ERROR));
}

#[test]
fn version_negotiation_that_is_late_or_not_for_us_is_ignored() {
    let mut meeting = Meeting::new(BOTH, BOTH);
    let hello = drain(&mut meeting.client, meeting.now, address(1)).remove(0);
    // RFC 9000 §6.2: it names what we speak, so it cannot be an answer.
    meeting.give(Meeting::negotiation(&hello, BOTH));
    // Of somebody who did not see our packet.
    for at in [6, 15] {
        let mut other = Meeting::negotiation(&hello, TWO);
        other.bytes[at] ^= 1;
        meeting.give(other);
    }
    assert_eq!((meeting.client.version(), &meeting.client.stats().closed), (Version::V1, &None));
    let mut meeting = Meeting::new(BOTH, TWO);
    let first = drain(&mut meeting.client, meeting.now, address(1)).remove(0);
    meeting.give(Meeting::negotiation(&first, TWO));
    let second = drain(&mut meeting.client, meeting.now, address(1)).remove(0);
    // A second one, real or not, turns nothing back.
    meeting.give(Meeting::negotiation(&first, ONE));
    meeting.give(Meeting::negotiation(&second, ONE));
    assert_eq!((meeting.client.version(), &meeting.client.stats().closed), (Version::V2, &None));
    // Behind the handshake it is no more than noise.
    let mut meeting = Meeting::new(BOTH, BOTH);
    let hello = drain(&mut meeting.client, meeting.now, address(1));
    let forged = Meeting::negotiation(&hello[0], TWO);
    let DatagramRoute::Incoming(incoming) = meeting.far.route(meeting.now, hello[0].clone()) else {
        panic!("no incoming")
    };
    let Ok((_, start, first)) = meeting.far.accept(meeting.now, incoming) else { panic!("not taken") };
    let mut server = Connection::new(start).unwrap();
    server.handle(meeting.now, Input::Received(&mut vec![first]));
    meeting.server = Some(server);
    meeting.run();
    meeting.give(forged);
    assert!(meeting.client.is_established() && meeting.client.version() == Version::V1);
}

/// RFC 9368 §4, each rule by itself.
#[test]
fn parameters_that_contradict_the_packets_are_errors() {
    let pair = joined();
    let with = |versions| TransportParams { version_information: versions, ..TransportParams::default() };
    let of = |chosen, available: &[Version]| with(Some(VersionInformation::new(chosen, available.to_vec())));
    let code = |end: &Connection, params| end.check_version(&params).err().map(|error| error.code);
    let wrong = Some(Code::VERSION_NEGOTIATION_ERROR);
    for end in [&pair.client, &pair.server] {
        assert_eq!(code(end, with(None)), None, "those who know nothing of it");
        assert_eq!(code(end, of(Version::V1, BOTH)), None);
        assert_eq!(code(end, of(Version::V2, BOTH)), wrong);
    }
    assert_eq!(code(&pair.server, of(Version::V1, TWO)), Some(Code::TRANSPORT_PARAMETER_ERROR));
    assert_eq!(code(&pair.client, of(Version::V1, TWO)), None, "a server that is just being changed");
    let mut meeting = Meeting::new(BOTH, TWO);
    let hello = drain(&mut meeting.client, meeting.now, address(1));
    meeting.give(Meeting::negotiation(&hello[0], TWO));
    assert_eq!(code(&meeting.client, with(None)), wrong);
    assert_eq!(code(&meeting.client, of(Version::V2, TWO)), None);
    assert_eq!(code(&meeting.client, of(Version::V2, &[])), wrong);
    assert_eq!(code(&meeting.client, of(Version::V2, BOTH)), wrong);
}
