//! Several endpoints that are one server: what is counted, is counted of all.

use std::net::IpAddr;

use super::*;
use crate::endpoint::group::EndpointGroup;
use crate::validation::new_tokens;

/// Endpoints of one group, of so many connections.
fn grouped(most: usize, retry: RetryPolicy) -> [Endpoint; 2] {
    let group = Arc::new(EndpointGroup::default());
    [1, 2].map(|seed| {
        let server = ServerConfig { max_connections: most, ..server_config(retry) };
        Endpoint::new(config(), Some(server), Rng::new(seed)).with_group(group.clone())
    })
}

fn token(from: &str) -> Vec<u8> {
    let client = at(from).remote.ip();
    let IpAddr::V4(address) = client else { panic!() };
    let mut rng = Rng::new(u64::from(u32::from(address)));
    new_tokens(&NullSecrets(7), &mut rng, NOW, client, Version::V1).remove(0)
}

/// What becomes of a client's hello that comes with a token, as the configuration wants it.
fn says_hello(
    endpoint: &mut Endpoint,
    from: &str,
    dcid: u8,
    token: &[u8],
) -> Result<ConnectionKey, Admission> {
    let first = incoming(endpoint, NOW, at(from), &hello(id(dcid, 8), token, 1200));
    match endpoint.admission(&first) {
        Admission::Accept => Ok(endpoint.accept(NOW, first).expect("as was said").0),
        other => Err(other),
    }
}

/// RFC 9000 §8.1.4: a token is good once, whichever endpoint it comes to.
#[test]
fn a_token_is_good_at_one_endpoint_only() {
    let [mut one, mut other] = grouped(100, RetryPolicy::Always);
    let token = token("192.0.2.1:4433");
    let early = incoming(&mut other, NOW, at("192.0.2.1:4433"), &hello(id(9, 8), &token, 1200));
    assert!(early.is_validated());
    assert!(says_hello(&mut one, "192.0.2.1:4433", 1, &token).is_ok());
    let (_, start, _) = other.accept(NOW, early).unwrap();
    assert!(
        matches!(start.role, HandshakeRole::Server { validated: false, .. }),
        "it was spent between this one's judgement and its admission"
    );
    assert_eq!(says_hello(&mut other, "192.0.2.1:4433", 2, &token), Err(Admission::Retry));
}

#[test]
fn connections_of_all_endpoints_count() {
    let [mut one, mut other] = grouped(2, RetryPolicy::Never);
    let (first, _) = accepted(&mut one, id(1, 8));
    accepted(&mut other, id(2, 8));
    for endpoint in [&mut one, &mut other] {
        assert_eq!(says_hello(endpoint, "192.0.2.7:1", 3, &[]), Err(Admission::Refuse));
    }
    // Two that were admitted at the same time, and of which one is first.
    one.signal(first, Signal::Drained);
    let both = [&mut one, &mut other].map(|endpoint| {
        let first = incoming(endpoint, NOW, at("192.0.2.7:1"), &hello(id(4, 8), &[], 1200));
        assert_eq!(endpoint.admission(&first), Admission::Accept);
        first
    });
    let accepted = [&mut one, &mut other].into_iter().zip(both);
    let accepted = accepted.map(|(endpoint, first)| endpoint.accept(NOW, first).is_ok());
    assert_eq!(accepted.collect::<Vec<_>>(), [true, false]);
    drop(other);
    assert_eq!(one.guests.group().connections(), 1, "an endpoint that is gone has no clients");
}

/// Who has proved an address has the place of a handshake that has not, also of another endpoint's, and there
/// is never more than one too many for each such handshake.
#[test]
fn proof_takes_the_place_of_none_at_any_endpoint() {
    let [mut one, mut other] = grouped(3, RetryPolicy::Never);
    let unproven = [1, 2, 3].map(|n| accepted(&mut one, id(n, 8)).0);
    assert_eq!(one.displaced(), None);
    let proven = says_hello(&mut other, "192.0.2.1:4433", 4, &token("192.0.2.1:4433")).unwrap();
    assert_eq!((one.displaced(), one.displaced()), (Some(unproven[0]), None), "the oldest, and no other");
    one.signal(unproven[0], Signal::Drained);
    assert_eq!(one.guests.group().connections(), 3);
    // Those who are through with their handshake make no room.
    for key in &unproven[1..] {
        one.signal(*key, Signal::Established);
    }
    let (first, second) = (token("192.0.2.9:1"), token("192.0.2.8:1"));
    assert_eq!(says_hello(&mut other, "192.0.2.9:1", 5, &first), Err(Admission::Ignore), "it may end");
    assert_eq!(says_hello(&mut one, "192.0.2.8:1", 6, &second), Err(Admission::Ignore), "also elsewhere");
    other.signal(proven, Signal::Established);
    assert_eq!(says_hello(&mut one, "192.0.2.8:1", 6, &second), Err(Admission::Refuse));
}

/// A network has its part of the handshakes of all endpoints, and one of each in any case.
#[test]
fn a_network_has_its_part_of_all_places() {
    let [mut one, mut other] = grouped(100, RetryPolicy::Never);
    let mut rng = Rng::new(5);
    let client = at("192.0.2.1:1").remote.ip();
    let tokens: Vec<_> =
        (0..30).flat_map(|_| new_tokens(&NullSecrets(7), &mut rng, NOW, client, Version::V1)).collect();
    let mut tokens = tokens.iter();
    let mut comes =
        |endpoint: &mut Endpoint, n| says_hello(endpoint, "192.0.2.1:1", n, tokens.next().unwrap());
    for n in 0..25 {
        assert!(comes(&mut one, n).is_ok(), "a quarter of 100: {n}");
    }
    assert_eq!(comes(&mut one, 30), Err(Admission::Ignore));
    assert!(comes(&mut other, 31).is_ok());
    assert_eq!(comes(&mut other, 32), Err(Admission::Ignore));
}

/// Stateless resets are as few as for one endpoint.
#[test]
fn resets_of_all_endpoints_count() {
    let mut both = grouped(100, RetryPolicy::Never);
    let mut resets = 0;
    for n in 0..20 {
        for endpoint in &mut both {
            let route = endpoint.route(NOW, datagram(peer(), &short(&[n; 8], 100)));
            resets += u32::from(matches!(route, DatagramRoute::Respond(_)));
        }
    }
    assert_eq!(resets, config().resets_per_second);
}
