//! A hello that fills two datagrams, as a share of X25519MLKEM768 makes it: in any order, with either of them
//! lost or twice.

use std::sync::atomic::{AtomicUsize, Ordering};

use quickset_base::Ecn;
use quickset_quic::{Admission, Gate, TransportErrorCode, Version};
use quickset_tls::provider::kx_group;
use rustls::crypto::SupportedKxGroup;

use super::*;

/// In the order in which quickset's own configurations have them.
pub(crate) const GROUPS: [&dyn SupportedKxGroup; 3] =
    [kx_group::X25519MLKEM768, kx_group::X25519, kx_group::SECP256R1];

/// Which datagrams of a flight arrive, and in which order.
pub(crate) const ARRIVALS: [&[usize]; 7] =
    [&[0, 1], &[1, 0], &[0], &[1], &[0, 0, 1], &[1, 1, 0], &[1, 0, 1, 0]];

/// A server that takes these groups alone.
fn serving(
    groups: &[&'static dyn SupportedKxGroup],
    retry: RetryPolicy,
    change: impl FnOnce(&mut TransportConfig),
) -> World {
    guarded(None, groups, retry, change)
}

/// The same behind a gate.
fn guarded(
    gate: Option<Gate>,
    groups: &[&'static dyn SupportedKxGroup],
    retry: RetryPolicy,
    change: impl FnOnce(&mut TransportConfig),
) -> World {
    World::behind(gate, retry, |tls, transport| {
        let mut provider = default_provider();
        provider.kx_groups = groups.to_vec();
        *tls = rustls::ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(tls.cert_resolver.clone());
        tls.alpn_protocols = vec![b"test".to_vec()];
        change(transport);
    })
}

/// A client that offers these groups, and shares of the first.
fn client(world: &World, groups: &[&'static dyn SupportedKxGroup], versions: &[Version]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(world.trusted.clone()).unwrap();
    let mut provider = default_provider();
    provider.kx_groups = groups.to_vec();
    let mut tls = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"test".to_vec()];
    let tickets = Arc::new(quickset_tls::TicketMemory::default());
    ClientConfig {
        crypto: Arc::new(Client::new(Arc::new(tls)).unwrap().with_tickets(tickets, b"roots")),
        transport: Arc::new(TransportConfig::fixed_mtu(1200).with_versions(versions.to_vec())),
    }
}

/// Begins a connection and returns its first flight.
fn begin(world: &mut World, config: &ClientConfig) -> Vec<Datagram> {
    let to = AddressPair::to(ADDRESSES[1].parse().unwrap());
    world.nodes[0].connect(world.now, config, to, "localhost").unwrap();
    world.turn(0)
}

pub(crate) fn copies(flight: &[Datagram], which: &[usize]) -> Vec<Datagram> {
    let copy = |d: &Datagram| Datagram { path: d.path, ecn: Ecn::NotEct, bytes: d.bytes[..].into() };
    which.iter().map(|at| copy(&flight[*at])).collect()
}

/// Hands datagrams over one by one, and returns what was sent in answer.
fn give(world: &mut World, to: usize, datagrams: Vec<Datagram>) -> Vec<Datagram> {
    let mut answers = Vec::new();
    for datagram in datagrams {
        world.nodes[to].handle(world.now, Input::Received(&mut vec![datagram]));
        answers.append(&mut world.turn(to));
    }
    answers
}

fn size(datagrams: &[Datagram]) -> usize {
    datagrams.iter().map(|datagram| datagram.bytes.len()).sum()
}

/// RFC 8446 §4.1.4: who insists on a group that the hello has no share of costs a round trip.
#[test]
fn neither_new_nor_old_servers_cost_a_round_trip() {
    let one_trip = |server: &[&'static dyn SupportedKxGroup], offered: &[&'static dyn SupportedKxGroup]| {
        let mut world = serving(server, RetryPolicy::Never, |_| {});
        let config = client(&world, offered, &[Version::V1]);
        let hello = begin(&mut world, &config);
        let answer = give(&mut world, 1, hello);
        give(&mut world, 0, answer);
        world.connected(0)
    };
    assert!(one_trip(&[kx_group::X25519MLKEM768], &GROUPS));
    assert!(one_trip(&[kx_group::X25519], &GROUPS));
    // What was offered before: the group of the one server, without a share.
    let before = [kx_group::X25519, kx_group::X25519MLKEM768];
    assert!(!one_trip(&[kx_group::X25519MLKEM768], &before));
}

/// RFC 9000 §14.1, §8.1.
#[test]
fn both_datagrams_are_padded_and_whatever_arrives_of_them_is_enough() {
    for versions in [&[Version::V1][..], &[Version::V2, Version::V1]] {
        for which in ARRIVALS {
            let mut world = serving(&GROUPS, RetryPolicy::Never, |_| {});
            let config = client(&world, &GROUPS, versions);
            let hello = begin(&mut world, &config);
            assert_eq!(hello.iter().map(|d| d.bytes.len()).collect::<Vec<_>>(), [1200, 1200]);
            let hello = copies(&hello, which);
            let received = size(&hello);
            let answer = give(&mut world, 1, hello);
            let whole = which.contains(&0) && which.contains(&1);
            assert_eq!(answer.iter().any(|d| d.bytes.len() >= 1000), whole, "{which:?}: a flight, or an ACK");
            assert!(size(&answer) <= 3 * received, "{which:?}");
            give(&mut world, 0, answer);
            // What is missing comes a probe timeout after what its neighbour's acknowledgement took, at once
            // here.
            world.run();
            assert!(world.connected(0) && world.connected(1), "{which:?}: {:?}", world.events);
            assert_eq!(world.nodes[1].endpoint().counters().accepted, 1, "{which:?}");
        }
    }
}

/// RFC 9000 §17.2.5.2: a client heeds one Retry. There is one for both halves, and another when they come
/// again.
#[test]
fn a_client_is_asked_once_by_either_half() {
    for which in ARRIVALS {
        let mut world = serving(&GROUPS, RetryPolicy::Always, |_| {});
        let config = client(&world, &GROUPS, &[Version::V1]);
        let hello = begin(&mut world, &config);
        let retries = give(&mut world, 1, copies(&hello, which));
        assert_eq!(retries.len(), 1, "{which:?}");
        let again = give(&mut world, 0, retries);
        assert_eq!(again.iter().map(|d| d.bytes.len()).collect::<Vec<_>>(), [1200, 1200], "{which:?}");
        let answer = give(&mut world, 1, copies(&again, which));
        give(&mut world, 0, answer);
        world.run();
        assert!(world.connected(0) && world.connected(1), "{which:?}: {:?}", world.events);
        let counters = world.nodes[1].endpoint().counters();
        assert_eq!((counters.accepted, counters.retries), (1, 1), "{which:?}");
    }
    // The Retry is lost.
    let mut world = serving(&GROUPS, RetryPolicy::Always, |_| {});
    let config = client(&world, &GROUPS, &[Version::V1]);
    let hello = begin(&mut world, &config);
    assert_eq!(give(&mut world, 1, hello).len(), 1);
    for _ in 0..3 {
        world.run();
    }
    assert!(world.connected(0) && world.connected(1), "{:?}", world.events);
    assert_eq!(world.nodes[1].endpoint().counters().retries, 2);
}

/// RFC 9000 §6.2: of several Version Negotiation packets a client heeds one.
#[test]
fn a_version_is_negotiated_once_for_both_halves() {
    for which in ARRIVALS {
        let mut world =
            serving(&GROUPS, RetryPolicy::Never, |transport| transport.versions = vec![Version::V2]);
        let config = client(&world, &GROUPS, &[Version::V1, Version::V2]);
        let hello = begin(&mut world, &config);
        let told = give(&mut world, 1, copies(&hello, which));
        assert_eq!(told.len(), which.len());
        let again = give(&mut world, 0, told);
        assert_eq!(again.len(), 2, "{which:?}");
        let answer = give(&mut world, 1, copies(&again, which));
        give(&mut world, 0, answer);
        world.run();
        assert!(world.connected(0) && world.connected(1), "{which:?}: {:?}", world.events);
        assert_eq!(world.nodes[1].endpoint().counters().accepted, 1, "{which:?}");
    }
}

/// RFC 9368 §2.3: the server chooses when it has the whole of the hello.
#[test]
fn another_version_within_the_handshake() {
    for which in ARRIVALS {
        let versions = [Version::V2, Version::V1];
        let mut world =
            serving(&GROUPS, RetryPolicy::Never, |transport| transport.versions = versions.to_vec());
        let mut config = client(&world, &GROUPS, &versions);
        Arc::get_mut(&mut config.transport).unwrap().first_version = Some(Version::V1);
        let hello = begin(&mut world, &config);
        let answer = give(&mut world, 1, copies(&hello, which));
        give(&mut world, 0, answer);
        world.run();
        assert!(world.connected(0) && world.connected(1), "{which:?}: {:?}", world.events);
        let key = world.nodes[0].keys().next().unwrap();
        assert_eq!(world.nodes[0].connection(key).unwrap().version(), Version::V2, "{which:?}");
    }
}

/// A half takes the place of a whole, and as long.
#[test]
fn halves_of_hellos_count_as_clients() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let gate = Gate::new(move |_, usual| {
        counted.fetch_add(1, Ordering::Relaxed);
        usual
    });
    let mut world = guarded(Some(gate), &GROUPS, RetryPolicy::WhenBusy(4), |_| {});
    let config = client(&world, &GROUPS, &[Version::V1]);
    let halves = (0..12).map(|n| begin(&mut world, &config).swap_remove(n % 2)).collect();
    give(&mut world, 1, halves);
    let counters = world.nodes[1].endpoint().counters();
    // A quarter of ten places is for clients that have not proved their address.
    assert_eq!((counters.accepted, counters.retries), (2, 10));
    assert_eq!(asked.load(Ordering::Relaxed), 12);
    // The handshake timeout is 10 s.
    for _ in 0..11 {
        world.now += Duration::from_secs(1);
        world.turn(1);
    }
    assert_eq!(world.nodes[1].keys().count(), 0);
    // The other half of one that is accepted is no other client.
    let hello = begin(&mut world, &config);
    give(&mut world, 1, hello);
    assert_eq!(asked.load(Ordering::Relaxed), 13);
    assert_eq!(world.nodes[1].endpoint().counters().accepted, 3);
}

/// The client is refused once.
#[test]
fn a_gate_refuses_by_either_half() {
    for which in ARRIVALS {
        let gate = Gate::new(|_, _| Admission::Refuse);
        let mut world = guarded(Some(gate), &GROUPS, RetryPolicy::Never, |_| {});
        let config = client(&world, &GROUPS, &[Version::V1]);
        let hello = begin(&mut world, &config);
        let answers = give(&mut world, 1, copies(&hello, which));
        assert_eq!(answers.len(), 1, "{which:?}");
        give(&mut world, 0, answers);
        assert_eq!(world.nodes[1].endpoint().counters().refused, 1, "{which:?}");
        let refused = |event: &Event| match event {
            Event::Closed(Closed::ByPeer(error)) => error.code == TransportErrorCode::CONNECTION_REFUSED,
            _ => false,
        };
        assert_eq!(world.events[0].iter().filter(|e| refused(e)).count(), 1, "{which:?}: {:?}", world.events);
        assert_eq!(world.nodes[1].keys().count(), 0);
    }
}

/// RFC 9002 §6.2.3: a client that has what it cannot read yet says hello again, and the server its answer, at
/// once.
#[test]
fn what_is_lost_of_the_answer_comes_again_without_a_timeout() {
    for lost in 0..2 {
        let mut world = serving(&GROUPS, RetryPolicy::Never, |_| {});
        let config = client(&world, &GROUPS, &[Version::V1]);
        let hello = begin(&mut world, &config);
        let mut answer = give(&mut world, 1, hello);
        assert_eq!(answer.len(), 3, "a share, a certificate");
        answer.remove(lost);
        // All in one batch, as they would come.
        let now = world.now;
        world.nodes[0].handle(now, Input::Received(&mut answer));
        let said = world.turn(0);
        let again = give(&mut world, 1, said);
        give(&mut world, 0, again);
        assert!(world.connected(0), "without datagram {lost}, in no time");
    }
}
