//! Places that are few, and who makes room in them: shared evenly among owners, so that nobody gets more by
//! asking more.
//!
//! *In:* who comes, as whose, and who leaves. *Out:* whose place the next one may have.
//!
//! Invariants: nothing is decided by chance or by the order of a hash; every step takes time logarithmic in
//! the places taken.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

/// Who holds a place, in the order in which they came, each as one of an owner's.
#[derive(Clone, Debug)]
pub struct Places<O, H> {
    holders: BTreeMap<Place, (O, H)>,
    by_owner: BTreeMap<O, BTreeSet<Place>>,
    /// How many places an owner has, and the oldest of them, which tells who it is.
    ranks: BTreeSet<(usize, Reverse<Place>)>,
    next: u64,
}

/// Names a place that was taken. Of two the smaller one was taken before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(u64);

/// What counts as one owner of addresses: an address of IPv4, in IPv6 clothes or not, or a network of 64 bits
/// with IPv6, since whoever has one address of it has all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetworkOwner(IpAddr);

impl<O: Ord + Clone, H> Places<O, H> {
    /// Nobody is there.
    pub const fn new() -> Self {
        Self { holders: BTreeMap::new(), by_owner: BTreeMap::new(), ranks: BTreeSet::new(), next: 0 }
    }

    /// Takes a place for one of `owner`. How many there are is for the caller to know.
    pub fn take(&mut self, owner: O, holder: H) -> Place {
        let place = Place(self.next);
        self.next += 1;
        self.ranked(&owner, |places| places.insert(place));
        self.holders.insert(place, (owner, holder));
        place
    }

    /// The place is free again. `None` when it was before.
    pub fn leave(&mut self, place: Place) -> Option<H> {
        let (owner, holder) = self.holders.remove(&place)?;
        self.ranked(&owner, |places| places.remove(&place));
        Some(holder)
    }

    /// Places taken.
    pub fn len(&self) -> usize {
        self.holders.len()
    }

    /// True when nobody is there.
    pub fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }

    /// Places that `owner` has.
    pub fn of(&self, owner: &O) -> usize {
        self.by_owner.get(owner).map_or(0, BTreeSet::len)
    }

    /// Who holds a place.
    pub fn holder(&self, place: Place) -> Option<&H> {
        self.holders.get(&place).map(|(_, holder)| holder)
    }

    /// The place that was taken first of all.
    pub fn oldest(&self) -> Option<Place> {
        self.holders.keys().next().copied()
    }

    /// The place that `owner` took first.
    pub fn oldest_of(&self, owner: &O) -> Option<Place> {
        self.by_owner.get(owner)?.first().copied()
    }

    /// The oldest place of whoever has the most, and how many that are. Of several that have as many it is
    /// the oldest.
    pub fn most(&self) -> Option<(usize, Place)> {
        self.ranks.last().map(|(count, Reverse(oldest))| (*count, *oldest))
    }

    /// The place that is just to take for one more of `owner`: the oldest of whoever has the most, unless
    /// `owner` would then have more than that one.
    pub fn just(&self, owner: &O) -> Option<Place> {
        let (count, oldest) = self.most()?;
        (count > self.of(owner) + 1).then_some(oldest)
    }

    /// Changes what an owner has.
    fn ranked(&mut self, owner: &O, change: impl FnOnce(&mut BTreeSet<Place>) -> bool) {
        let places = self.by_owner.entry(owner.clone()).or_default();
        let rank = |places: &BTreeSet<Place>| Some((places.len(), Reverse(*places.first()?)));
        let before = rank(places);
        change(places);
        let after = rank(places);
        if let Some(before) = before {
            self.ranks.remove(&before);
        }
        match after {
            Some(after) => drop(self.ranks.insert(after)),
            None => drop(self.by_owner.remove(owner)),
        }
    }
}

impl<O: Ord + Clone, H> Default for Places<O, H> {
    fn default() -> Self {
        Self::new()
    }
}

impl NetworkOwner {
    /// The one that `address` belongs to.
    pub fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    fn network(address: &str) -> NetworkOwner {
        NetworkOwner::of(address.parse().unwrap())
    }

    #[test]
    fn an_ipv6_network_is_one_owner_and_a_mapped_address_is_ipv4() {
        assert_eq!(network("::ffff:192.0.2.1"), network("192.0.2.1"));
        assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:0:0:2"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
    }

    #[test]
    fn who_has_the_most_makes_room_and_nobody_gains_by_asking() {
        let mut places = Places::new();
        let [first, second, third] = ["a", "a", "a"].map(|owner| places.take(owner, ()));
        let other = places.take("b", ());
        assert_eq!(places.just(&"c"), Some(first), "three of a");
        assert_eq!(places.just(&"b"), Some(first));
        assert_eq!(places.just(&"a"), None, "it would gain nothing that it does not lose");
        places.leave(first);
        assert_eq!((places.just(&"c"), places.just(&"b")), (Some(second), None), "two and one");
        places.leave(second);
        assert_eq!((places.most(), places.just(&"c")), (Some((1, third)), None), "the older of two equals");
        assert_eq!((places.oldest(), places.oldest_of(&"b")), (Some(third), Some(other)));
        assert_eq!(places.leave(second), None);
    }

    proptest! {
        /// Against a list that is searched.
        #[test]
        fn places_are_what_a_list_says(steps in prop::collection::vec((0_u8..4, 0_usize..8, any::<bool>()), 0..60)) {
            let mut places = Places::new();
            let mut list: Vec<(Place, u8)> = Vec::new();
            for (owner, at, comes) in steps {
                if comes || list.is_empty() {
                    list.push((places.take(owner, owner), owner));
                } else {
                    let (place, owner) = list.remove(at % list.len());
                    prop_assert_eq!(places.leave(place), Some(owner));
                }
                let of = |owner: u8| list.iter().filter(|(_, o)| *o == owner).count();
                let most = (0..4).map(of).max().filter(|most| *most > 0);
                let oldest = list.iter().find(|(_, owner)| Some(of(*owner)) == most).map(|(place, _)| *place);
                prop_assert_eq!(places.most(), most.zip(oldest));
                prop_assert_eq!((places.len(), places.oldest()), (list.len(), list.first().map(|(p, _)| *p)));
                for owner in 0..4 {
                    prop_assert_eq!(places.of(&owner), of(owner));
                    prop_assert_eq!(places.oldest_of(&owner), list.iter().find(|(_, o)| *o == owner).map(|(p, _)| *p));
                    prop_assert_eq!(places.just(&owner), oldest.filter(|_| most > Some(of(owner) + 1)));
                }
            }
            prop_assert_eq!(places.by_owner.len(), (0..4).filter(|o| places.of(o) > 0).count());
        }
    }
}
