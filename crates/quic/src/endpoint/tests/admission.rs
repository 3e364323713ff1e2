//! Who is taken: proofs of address, limits, and what is counted (RFC 9000 §8.1).

use std::sync::Mutex;

use super::*;
use crate::endpoint::admit::{ServerLoad, decide};
use crate::endpoint::guests::GuestRoom;
use crate::validation::{TokenProof, new_tokens};

/// The token, the new id and the original one of a Retry that `endpoint` sends at `NOW`.
fn retried(endpoint: &mut Endpoint) -> (Vec<u8>, ConnectionId, ConnectionId) {
    let original = id(1, 12);
    let first = incoming(endpoint, NOW, peer(), &hello(original, &[], 1200));
    assert_eq!(endpoint.admission(&first), Admission::Retry);
    let response = endpoint.retry(NOW, first).unwrap();
    let Header::Retry { dcid, scid, token, tag, .. } = Parsed::parse(&response.bytes, 8).unwrap().header
    else {
        panic!()
    };
    assert_eq!(dcid, id(0xcc, 5));
    let body = &response.bytes[..response.bytes.len() - 16];
    assert_eq!(NullClient::new(&[]).retry_tag(Version::V1, &original, body), Some(tag));
    assert_eq!(endpoint.connections(), 0, "a Retry keeps nothing");
    (token.to_vec(), scid, original)
}

/// RFC 9000 §8.1.2, §17.2.5.1.
#[test]
fn retry_proves_the_address() {
    let mut endpoint = server(RetryPolicy::Always);
    let (token, scid, original) = retried(&mut endpoint);
    let second = incoming(&mut endpoint, NOW, peer(), &hello(scid, &token, 1200));
    assert!(second.is_validated() && !second.may_retry());
    assert_eq!(endpoint.admission(&second), Admission::Accept);
    let (_, start, _) = endpoint.accept(NOW, second).unwrap();
    assert_eq!(start.params.original_destination_connection_id, Some(original), "RFC 9000 §7.3");
    assert_eq!(start.params.retry_source_connection_id, Some(scid));
    assert_eq!(start.params.initial_source_connection_id, Some(start.local_cid));
    assert_eq!(start.params.stateless_reset_token, Some(NullSecrets(7).reset_token(&start.local_cid)));
    assert!(matches!(start.role, HandshakeRole::Server { validated: true, .. }));
}

/// RFC 9000 §8.1.2.
#[test]
fn bad_retry_tokens_are_refused() {
    let mut endpoint = server(RetryPolicy::Always);
    let (token, scid, _) = retried(&mut endpoint);
    let late = NOW + Duration::from_millis(10_001);
    let cases = [
        (NOW, at("192.0.2.1:4434"), scid, "another port"),
        (NOW, at("192.0.2.2:4433"), scid, "another address"),
        (NOW, peer(), id(9, 8), "another id"),
        (late, peer(), scid, "late"),
    ];
    for i in 0..token.len() {
        let mut token = token.clone();
        token[i] ^= 0x10;
        let second = incoming(&mut endpoint, NOW, peer(), &hello(scid, &token, 1200));
        assert!(!second.is_validated(), "byte {i}");
    }
    // An IPv4 client through a dual-stack socket is the same client.
    let second = incoming(&mut endpoint, NOW, at("[::ffff:192.0.2.1]:4433"), &hello(scid, &token, 1200));
    assert!(second.is_validated());
    for (now, path, dcid, what) in cases {
        let second = incoming(&mut endpoint, now, path, &hello(dcid, &token, 1200));
        assert_eq!(endpoint.admission(&second), Admission::Refuse, "{what}");
        let Err(DatagramRoute::Respond(response)) = endpoint.accept(now, second) else { panic!("{what}") };
        assert_eq!(refusal(&response, &dcid), Code::INVALID_TOKEN, "{what}");
    }
}

/// RFC 9000 §8.1.1, §8.1.3.
#[test]
fn tokens_of_earlier_connections_spare_the_retry() {
    let mut giver = server(RetryPolicy::Never);
    let (_, start) = accepted(&mut giver, id(1, 8));
    let HandshakeRole::Server { seal, validated: false, .. } = start.role else { panic!() };
    let client = start.path.remote.ip();
    let new_tokens = new_tokens(&*seal.unwrap(), &mut Rng::new(5), NOW, client, start.version);
    assert!(new_tokens.len() > 1 && new_tokens[0] != new_tokens[1]);
    let token = &new_tokens[0];

    let mut endpoint = server(RetryPolicy::Always);
    let mut present = |now: Time, from: &str, dcid: u8| {
        let first = incoming(&mut endpoint, now, at(from), &hello(id(dcid, 8), token, 1200));
        let admission = endpoint.admission(&first);
        (admission == Admission::Accept).then(|| endpoint.accept(now, first).unwrap().1)
    };
    assert!(present(NOW, "192.0.2.2:4433", 1).is_none(), "another address");
    assert!(present(Time::from_millis(999), "192.0.2.1:4433", 1).is_none(), "before it was made");
    assert!(present(NOW + Duration::from_secs(1_001), "192.0.2.1:4433", 1).is_none(), "late");
    let start = present(NOW + Duration::from_secs(900), "192.0.2.1:9", 1).expect("another port is no matter");
    assert!(matches!(start.role, HandshakeRole::Server { validated: true, .. }));
    assert!(present(NOW + Duration::from_secs(900), "192.0.2.1:9", 2).is_none(), "RFC 9000 §8.1.4: a replay");
}

#[test]
fn a_server_whose_tokens_are_good_for_no_time_gives_none() {
    let config = ServerConfig { token_lifetime: Duration::ZERO, ..server_config(RetryPolicy::Never) };
    let mut endpoint = Endpoint::new(self::config(), Some(config), Rng::new(1));
    let (_, start) = accepted(&mut endpoint, id(1, 8));
    assert!(matches!(start.role, HandshakeRole::Server { seal: None, .. }));
}

#[test]
fn a_full_server_refuses() {
    let config = ServerConfig { max_connections: 1, ..server_config(RetryPolicy::Never) };
    let mut endpoint = Endpoint::new(self::config(), Some(config), Rng::new(1));
    let (key, _) = accepted(&mut endpoint, id(1, 8));
    let second = incoming(&mut endpoint, NOW, peer(), &hello(id(2, 8), &[], 1200));
    assert_eq!(endpoint.admission(&second), Admission::Refuse);
    let response = endpoint.refuse(second).unwrap();
    assert_eq!(refusal(&response, &id(2, 8)), Code::CONNECTION_REFUSED);
    assert!(response.bytes.len() < 1200);
    endpoint.signal(key, Signal::Drained);
    accepted(&mut endpoint, id(3, 8));
}

#[test]
fn the_policy_is_a_table() {
    let retried = TokenProof::Retry { original_dcid: id(1, 8), retry_scid: id(2, 8), trip: Duration::ZERO };
    let before = TokenProof::Before { nonce: [0; 12] };
    let (never, busy, always) = (RetryPolicy::Never, RetryPolicy::WhenBusy(3), RetryPolicy::Always);
    let other = accepted(&mut server(never), id(1, 8)).0;
    for (retry, room, unproven, proof, wanted) in [
        (never, GuestRoom::Free, 99, TokenProof::None, Admission::Accept),
        (never, GuestRoom::None, 0, TokenProof::None, Admission::Refuse),
        (never, GuestRoom::None, 0, retried, Admission::Refuse),
        (never, GuestRoom::Free, 0, TokenProof::Bad, Admission::Refuse),
        (busy, GuestRoom::Free, 2, TokenProof::None, Admission::Accept),
        (busy, GuestRoom::Free, 3, TokenProof::None, Admission::Retry),
        (busy, GuestRoom::Free, 3, before, Admission::Accept),
        (busy, GuestRoom::Of(other), 3, before, Admission::Accept),
        (busy, GuestRoom::Later, 0, retried, Admission::Ignore),
        // Who may be anybody is asked, and told whether there is room once it has answered.
        (busy, GuestRoom::None, 0, TokenProof::None, Admission::Retry),
        (busy, GuestRoom::None, 0, retried, Admission::Refuse),
        (always, GuestRoom::Free, 0, TokenProof::None, Admission::Retry),
        (always, GuestRoom::Free, 0, retried, Admission::Accept),
        (always, GuestRoom::Free, 0, TokenProof::Bad, Admission::Refuse),
    ] {
        for forged in [false, true] {
            let load = ServerLoad { room, unproven, forged };
            let asks = forged && retry == busy && proof == TokenProof::None;
            let wanted = if asks { Admission::Retry } else { wanted };
            assert_eq!(decide(proof, load, &server_config(retry)), wanted, "{retry:?} {load:?} {proof:?}");
        }
    }
}

/// By the limit that there is, whatever it is.
#[test]
fn a_quarter_of_the_places_is_for_clients_that_may_be_anywhere() {
    for (max_connections, unproven) in [(1, 1), (7, 1), (50, 12), (500, 100), (10_000, 100)] {
        let config = ServerConfig { max_connections, ..server_config(RetryPolicy::WhenBusy(100)) };
        let mut endpoint = Endpoint::new(self::config(), Some(config), Rng::new(1));
        let taken = (0..u16::MAX).take_while(|n| {
            let dcid = ConnectionId::new(&[&n.to_be_bytes()[..], &[7; 6]].concat()).unwrap();
            let first = incoming(&mut endpoint, NOW, peer(), &hello(dcid, &[], 1200));
            endpoint.admission(&first) == Admission::Accept && endpoint.accept(NOW, first).is_ok()
        });
        assert_eq!(taken.count(), unproven, "of {max_connections}");
    }
}

/// A client at `path` proves its address by Retry, and comes in if it may.
fn proven(endpoint: &mut Endpoint, now: Time, path: AddressPair, n: u8) -> Result<ConnectionKey, Admission> {
    let first = incoming(endpoint, now, path, &hello(id(n, 12), &[], 1200));
    let response = endpoint.retry(now, first).unwrap();
    let Header::Retry { scid, token, .. } = Parsed::parse(&response.bytes, 8).unwrap().header else {
        panic!()
    };
    let again = incoming(endpoint, now, path, &hello(scid, token, 1200));
    match endpoint.admission(&again) {
        Admission::Accept => Ok(endpoint.accept(now, again).unwrap().0),
        other => Err(other),
    }
}

fn displaced(endpoint: &mut Endpoint) -> Vec<ConnectionKey> {
    std::iter::from_fn(|| endpoint.displaced()).collect()
}

#[test]
fn who_has_proved_its_address_takes_the_place_of_who_has_not() {
    let config = ServerConfig { max_connections: 3, ..server_config(RetryPolicy::Never) };
    let mut endpoint = Endpoint::new(self::config(), Some(config), Rng::new(1));
    let unproven = [1, 2, 3].map(|n| accepted(&mut endpoint, id(n, 8)).0);
    // The second has received what was sent where it says it is, and the third is through.
    endpoint.signal(unproven[1], Signal::Proven);
    endpoint.signal(unproven[2], Signal::Established);
    assert_eq!(displaced(&mut endpoint), []);
    let late = incoming(&mut endpoint, NOW, peer(), &hello(id(4, 8), &[], 1200));
    assert_eq!(endpoint.admission(&late), Admission::Refuse, "it may be anybody");
    let new = proven(&mut endpoint, NOW, peer(), 5).unwrap();
    assert_eq!(displaced(&mut endpoint), [unproven[0]]);
    assert_eq!(endpoint.counters().displaced, 1);
    // From here on all have proved theirs, and have some time.
    assert_eq!(proven(&mut endpoint, NOW, peer(), 6), Err(Admission::Ignore));
    let later = NOW + Duration::from_secs(1);
    assert!(proven(&mut endpoint, later, peer(), 6).is_ok());
    assert_eq!(displaced(&mut endpoint), [unproven[1]]);
    endpoint.signal(unproven[0], Signal::Drained);
    endpoint.signal(unproven[1], Signal::Drained);
    endpoint.signal(new, Signal::Established);
    assert!(proven(&mut endpoint, later + Duration::from_secs(1), peer(), 7).is_ok());
    assert_eq!(displaced(&mut endpoint).len(), 1);
    assert_eq!(endpoint.connections(), 4, "one does not know that it is gone");
}

/// All are through with the handshake: nobody makes room, and those that are over are in nobody's way.
#[test]
fn a_full_house_refuses_until_somebody_leaves() {
    let config = ServerConfig { max_connections: 2, ..server_config(RetryPolicy::WhenBusy(9)) };
    let mut endpoint = Endpoint::new(self::config(), Some(config), Rng::new(1));
    let through: Vec<_> = (1..3)
        .map(|n| {
            let key = proven(&mut endpoint, NOW, peer(), n).unwrap();
            endpoint.signal(key, Signal::Established);
            key
        })
        .collect();
    let mut now = NOW + Duration::from_secs(1);
    assert_eq!(proven(&mut endpoint, now, peer(), 9), Err(Admission::Refuse));
    endpoint.signal(through[0], Signal::Over);
    let mut next = through[1];
    for n in 3..6 {
        let key = proven(&mut endpoint, now, peer(), n).unwrap();
        endpoint.signal(key, Signal::Established);
        assert_eq!(proven(&mut endpoint, now, peer(), n + 100), Err(Admission::Refuse), "two are there");
        endpoint.signal(std::mem::replace(&mut next, key), Signal::Over);
        now += Duration::from_millis(1);
    }
    // Of those that are over there are no more than of the others.
    assert_eq!(displaced(&mut endpoint).len(), 2);
}

/// RFC 9000 §21.9: one network shakes a quarter of all hands, and others have no part in that.
#[test]
fn handshakes_are_shared_among_networks() {
    let config = ServerConfig { max_connections: 40, ..server_config(RetryPolicy::Never) };
    let mut endpoint = Endpoint::new(self::config(), Some(config), Rng::new(1));
    let from = |n: u8| at(&format!("198.51.100.{n}:1"));
    let greedy = (0..40).map_while(|n| proven(&mut endpoint, NOW, from(1), n).ok()).count();
    assert_eq!(greedy, 10);
    let second = proven(&mut endpoint, NOW, from(2), 100).unwrap();
    assert_eq!(displaced(&mut endpoint), []);
    // It waits no longer than others do for it.
    assert_eq!(proven(&mut endpoint, NOW + Duration::from_millis(999), from(1), 50), Err(Admission::Ignore));
    assert!(proven(&mut endpoint, NOW + Duration::from_secs(1), from(1), 51).is_ok());
    assert_eq!(displaced(&mut endpoint).len(), 1);
    // Networks enough to fill the house: who has the most makes room for who has few, at once.
    let others = (3..6).flat_map(|network| [network; 10]).enumerate();
    let came =
        others.filter(|(n, network)| proven(&mut endpoint, NOW, from(*network), *n as u8).is_ok()).count();
    assert!(came >= 29, "{came}");
    displaced(&mut endpoint);
    for n in 0..5 {
        let at = proven(&mut endpoint, NOW, from(9), 200 + n);
        assert!(at.is_ok() && displaced(&mut endpoint).len() == 1, "{n}: {at:?}");
    }
    endpoint.signal(second, Signal::Established);
}

/// Who says hello in the name of another has no part in what that one may have.
#[test]
fn a_victims_address_is_no_reason_against_the_victim() {
    let config = ServerConfig { max_connections: 8, ..server_config(RetryPolicy::Never) };
    let mut endpoint = Endpoint::new(self::config(), Some(config), Rng::new(1));
    (1..9).for_each(|n| drop(accepted(&mut endpoint, id(n, 8))));
    for n in 10..14 {
        assert!(proven(&mut endpoint, NOW, peer(), n).is_ok(), "{n}");
        assert_eq!(displaced(&mut endpoint).len(), 1);
    }
}

/// Noise in the form of first packets costs a key each as long as nothing has to be proved.
#[test]
fn noise_is_a_reason_to_ask_for_proof() {
    let mut endpoint = server(RetryPolicy::WhenBusy(1000));
    let mut noise = |now: Time| {
        let mut bytes = hello(id(1, 8), &[], 1200);
        bytes[700] ^= 1;
        let first = incoming(&mut endpoint, now, peer(), &bytes);
        let admission = endpoint.admission(&first);
        if admission == Admission::Accept {
            assert!(matches!(endpoint.accept(now, first), Err(DatagramRoute::Dropped(Dropped::Forged))));
        }
        admission
    };
    let looked_at = (0..10_000).filter(|_| noise(NOW) == Admission::Accept).count();
    assert_eq!(looked_at, 100, "a second's worth");
    assert_eq!(noise(NOW + Duration::from_millis(10)), Admission::Accept);
    assert_eq!(noise(NOW + Duration::from_millis(10)), Admission::Retry);
}

/// RFC 9000 §21.1.1.1: somebody else may have sent what is refused.
#[test]
fn refusals_to_who_knows_whom_are_few() {
    let config = ServerConfig { max_connections: 0, ..server_config(RetryPolicy::Never) };
    let mut endpoint = Endpoint::new(self::config(), Some(config), Rng::new(1));
    let (token, scid, _) = retried(&mut server(RetryPolicy::Always));
    let bad = [&token[..1], &[9; 50]].concat();
    let mut clients = (0_u64..).map(|n| ConnectionId::new(&n.to_be_bytes()).unwrap());
    let mut refused = |now: Time| {
        let mut next = || clients.next().unwrap();
        let plain = incoming(&mut endpoint, now, peer(), &hello(next(), &[], 1200));
        let bad = incoming(&mut endpoint, now, peer(), &hello(next(), &bad, 1200));
        [plain, bad].into_iter().filter_map(|client| endpoint.refuse(client)).count()
    };
    assert_eq!((0..1000).map(|_| refused(NOW)).sum::<usize>(), 100);
    assert_eq!(refused(NOW + Duration::from_millis(20)), 2);
    // Who is where it says always hears.
    let client = incoming(&mut endpoint, NOW, peer(), &hello(scid, &token, 1200));
    assert!(client.is_validated() && endpoint.refuse(client).is_some());
}

/// RFC 9000 §21.6.
#[test]
fn handshakes_under_way_are_counted() {
    let mut endpoint = server(RetryPolicy::WhenBusy(2));
    let (a, _) = accepted(&mut endpoint, id(1, 8));
    let (b, _) = accepted(&mut endpoint, id(2, 8));
    let mut next = || {
        let first = incoming(&mut endpoint, NOW, peer(), &hello(id(3, 8), &[], 1200));
        endpoint.admission(&first)
    };
    assert_eq!(next(), Admission::Retry);
    endpoint.signal(a, Signal::Established);
    endpoint.signal(a, Signal::Established);
    endpoint.signal(a, Signal::Drained);
    let mut next = || {
        let first = incoming(&mut endpoint, NOW, peer(), &hello(id(3, 8), &[], 1200));
        endpoint.admission(&first)
    };
    assert_eq!(next(), Admission::Accept, "one is left, counted once");
    endpoint.signal(b, Signal::Drained);
    assert_eq!(endpoint.connections(), 0);
}

/// The gate is asked about clients that there is room for, says what would be done anyway, and decides.
#[test]
fn a_gate_decides_about_each_client() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = asked.clone();
    let (refused, ignored, proven) = (at("192.0.2.2:1"), at("192.0.2.3:1"), at("192.0.2.4:1"));
    let gate = Gate::new(move |client, usual| {
        log.lock().unwrap().push((client.path(), client.is_validated(), usual));
        match client.path() {
            path if path == refused => Admission::Refuse,
            path if path == ignored => Admission::Ignore,
            path if path == proven => Admission::Retry,
            _ => usual,
        }
    });
    let config = ServerConfig { gate: Some(gate), max_connections: 2, ..server_config(RetryPolicy::Never) };
    let mut endpoint = Endpoint::new(self::config(), Some(config), Rng::new(1));
    let mut first = |path, n| {
        let incoming = incoming(&mut endpoint, NOW, path, &hello(id(n, 12), &[], 1200));
        (endpoint.admission(&incoming), incoming)
    };
    assert_eq!(first(refused, 1).0, Admission::Refuse);
    let (admission, unanswered) = first(ignored, 2);
    assert_eq!(admission, Admission::Ignore);
    let (admission, unproven) = first(proven, 3);
    assert_eq!(admission, Admission::Retry);
    let (admission, taken) = first(peer(), 4);
    assert_eq!(admission, Admission::Accept);

    let dropped = endpoint.counters().dropped;
    endpoint.ignore(unanswered);
    assert_eq!(endpoint.counters().dropped, dropped + 1);

    // Who has proven its address is not asked to do so again.
    let response = endpoint.retry(NOW, unproven).unwrap();
    let Header::Retry { scid, token, .. } = Parsed::parse(&response.bytes, 8).unwrap().header else {
        panic!()
    };
    let again = incoming(&mut endpoint, NOW, proven, &hello(scid, token, 1200));
    assert_eq!(endpoint.admission(&again), Admission::Accept);

    // To accept asks nobody a second time.
    let count = asked.lock().unwrap().len();
    endpoint.accept(NOW, taken).unwrap();
    endpoint.accept(NOW, again).unwrap();
    assert_eq!(asked.lock().unwrap().len(), count);
    assert_eq!(asked.lock().unwrap().last(), Some(&(proven, true, Admission::Accept)));

    // There is no room, and nothing to decide.
    let late = incoming(&mut endpoint, NOW, peer(), &hello(id(5, 12), &[], 1200));
    assert_eq!(endpoint.admission(&late), Admission::Refuse);
    assert_eq!(asked.lock().unwrap().len(), count);
}
