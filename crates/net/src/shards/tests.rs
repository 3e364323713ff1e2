use std::collections::BTreeSet;

use quickset_base::Seed;

use super::*;
use crate::steer::MAX_SHARDS;

#[test]
fn ids_name_their_shard_and_are_random_beside() {
    let mut rng = Rng::new(Seed([1; 32]));
    for count in [1, 2, 3, 7, 64, MAX_SHARDS] {
        for shard in [0, count / 2, count - 1] {
            let ids = ShardIds { shard, count };
            let drawn: Vec<ConnectionId> = (0..200).map(|_| ids.draw(&mut rng)).collect();
            assert!(drawn.iter().all(|id| shard_in(id, count) == shard && id.len() == ids.id_len()));
            let distinct: BTreeSet<&[u8]> = drawn.iter().map(|id| &**id).collect();
            assert_eq!(distinct.len(), drawn.len());
        }
    }
}

/// RFC 8999: where the id stands in either header; nothing is read that is not there.
#[test]
fn the_id_is_found_in_both_headers_and_in_nothing_else() {
    let found = |bytes: &[u8]| DatagramTarget::of(bytes).map(|found| (found.id.to_vec(), found.is_long));
    let id = [1, 2, 3, 4, 5, 6, 7, 8];
    let short = [&[0x40][..], &id, &[9]].concat();
    assert_eq!(found(&short), Some((id.to_vec(), false)));
    let long = [&[0xc0, 0, 0, 0, 1, 8][..], &id, &[0]].concat();
    assert_eq!(found(&long), Some((id.to_vec(), true)));
    for end in 0..long.len() - 1 {
        assert_eq!(found(&long[..end]), None, "{end}");
    }
    assert_eq!(found(&short[..8]), None);
    assert_eq!(found(&[0xc0, 0, 0, 0, 1, 1, 7, 7, 7]), None, "an id of a byte names no shard");
    assert_eq!(found(&[0xc0, 0, 0, 0, 1, 255, 7, 7, 7]), None);
}

#[cfg(feature = "tokio")]
mod balanced;
#[cfg(feature = "tokio")]
mod early;
#[cfg(feature = "tokio")]
mod limits;
#[cfg(feature = "tokio")]
mod over_loopback;
#[cfg(all(feature = "tokio", target_os = "linux"))]
mod refused;
#[cfg(feature = "tokio")]
mod trouble;
