//! Connections whose sides prefer different versions, in virtual time.

use quickset_quic::{Dir, RetryPolicy, Version};

use crate::common::{Setup, pattern};

const BOTH: [Version; 2] = [Version::V1, Version::V2];

#[test]
fn a_version_is_agreed_on_whatever_is_lost() {
    for seed in quickset_sim::seeds(0..12) {
        for retry in [RetryPolicy::Never, RetryPolicy::Always] {
            // Begun again, or gone on with in the same handshake.
            let compatible = seed % 2 == 1;
            let mut setup = Setup::new(seed, "rate=10mbit delay=20ms queue=100kB loss=15%");
            setup.retry = retry;
            // In one datagram or in two, as with a share of X25519MLKEM768.
            setup.hello = if seed % 4 < 2 { 300 } else { 1600 };
            setup.client.versions = if compatible { vec![Version::V2, Version::V1] } else { BOTH.to_vec() };
            setup.client.first_version = compatible.then_some(Version::V1);
            setup.server.versions = if compatible { BOTH.to_vec() } else { vec![Version::V2] };
            setup.client.handshake_timeout = quickset_base::Duration::from_secs(60);
            setup.server.handshake_timeout = quickset_base::Duration::from_secs(60);
            let mut pair = setup.connected();
            let (key, data) = (pair.key, pattern(30_000));
            let id = pair.client_mut().send(key, Dir::Uni, data.clone());
            pair.until("delivered", |p| !p.server().finished.is_empty());
            let at = pair.server_key();
            assert!(pair.server().received[&(at, id)] == data, "seed {seed}");
            assert_eq!(pair.client_mut().connection(key).version(), Version::V2);
            assert_eq!(pair.server_mut().connection(at).version(), Version::V2);
        }
    }
}
