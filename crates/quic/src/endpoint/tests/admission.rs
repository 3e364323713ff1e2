//! Who is taken: proofs of address, limits, and what is counted (RFC 9000 §8.1).

use std::sync::Mutex;

use super::*;
use crate::endpoint::admit::{Load, decide};
use crate::endpoint::token::Proof;

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
    assert!(matches!(start.role, Role::Server { validated: true, .. }));
}

/// RFC 9000 §8.1.2.
#[test]
fn bad_retry_tokens_are_refused() {
    let mut endpoint = server(RetryPolicy::Always);
    let (token, scid, _) = retried(&mut endpoint);
    let late = NOW + Duration::from_millis(10_001);
    let cases = [
        (late, peer(), scid, "late"),
        (NOW, at("192.0.2.1:4434"), scid, "another port"),
        (NOW, at("192.0.2.2:4433"), scid, "another address"),
        (NOW, peer(), id(9, 8), "another id"),
    ];
    for (now, path, dcid, what) in cases {
        let second = incoming(&mut endpoint, now, path, &hello(dcid, &token, 1200));
        assert_eq!(endpoint.admission(&second), Admission::Refuse, "{what}");
        let Err(Route::Respond(response)) = endpoint.accept(now, second) else { panic!("{what}") };
        assert_eq!(refusal(&response, &dcid), Code::INVALID_TOKEN, "{what}");
    }
    for i in 0..token.len() {
        let mut token = token.clone();
        token[i] ^= 0x10;
        let second = incoming(&mut endpoint, NOW, peer(), &hello(scid, &token, 1200));
        assert!(!second.is_validated(), "byte {i}");
    }
    // An IPv4 client through a dual-stack socket is the same client.
    let second = incoming(&mut endpoint, NOW, at("[::ffff:192.0.2.1]:4433"), &hello(scid, &token, 1200));
    assert!(second.is_validated());
}

/// RFC 9000 §8.1.1, §8.1.3.
#[test]
fn tokens_of_earlier_connections_spare_the_retry() {
    let mut giver = server(RetryPolicy::Never);
    let (_, start) = accepted(&mut giver, id(1, 8));
    let Role::Server { seal, validated: false, .. } = start.role else { panic!() };
    let told = (NOW, start.path.remote.ip(), start.version);
    let new_tokens = new_tokens(&*seal, &mut Rng::new(5), told);
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
    assert!(matches!(start.role, Role::Server { validated: true, .. }));
    assert!(present(NOW + Duration::from_secs(900), "192.0.2.1:9", 2).is_none(), "RFC 9000 §8.1.4: a replay");
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
    accepted(&mut endpoint, id(2, 8));
}

#[test]
fn the_policy_is_a_table() {
    let load = |connections, half_open| Load { connections, half_open };
    let retried = Proof::Retry { original_dcid: id(1, 8), retry_scid: id(2, 8) };
    let before = Proof::Before { nonce: [0; 12] };
    let (never, busy, always) = (RetryPolicy::Never, RetryPolicy::WhenBusy(3), RetryPolicy::Always);
    for (retry, load, proof, wanted) in [
        (never, load(99, 99), Proof::None, Admission::Accept),
        (never, load(100, 0), Proof::None, Admission::Refuse),
        (never, load(100, 0), retried, Admission::Refuse),
        (never, load(0, 0), Proof::Bad, Admission::Refuse),
        (busy, load(9, 2), Proof::None, Admission::Accept),
        (busy, load(9, 3), Proof::None, Admission::Retry),
        (busy, load(9, 3), before, Admission::Accept),
        (always, load(0, 0), Proof::None, Admission::Retry),
        (always, load(0, 0), retried, Admission::Accept),
        (always, load(0, 0), Proof::Bad, Admission::Refuse),
    ] {
        assert_eq!(decide(proof, load, &server_config(retry)), wanted, "{retry:?} {load:?} {proof:?}");
    }
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
