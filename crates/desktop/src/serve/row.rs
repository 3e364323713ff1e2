use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quickset::places::{Place, Places};
use tokio::sync::oneshot;

/// A few places of one kind, shared among owners: who comes takes one, if need be that of another, who hears
/// of it.
#[derive(Debug)]
pub(crate) struct PlaceRow<O> {
    places: Mutex<Places<O, oneshot::Sender<()>>>,
    most: usize,
    most_of_one: usize,
    yields: Yields,
}

/// When all places are taken, whose is the next one's, beside those of whoever has more than that one would
/// have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Yields {
    /// That of whoever has been there for the longest: nobody has a reason to stay long.
    Oldest,
    /// Its own oldest, if it has one.
    Own,
}

/// A place that was taken. Dropping it makes room for another.
#[derive(Debug)]
pub(crate) struct TakenPlace<O: Ord + Clone> {
    row: Arc<PlaceRow<O>>,
    place: Place,
    lost: oneshot::Receiver<()>,
}

impl<O: Ord + Clone> PlaceRow<O> {
    /// For so many, and so many of one owner.
    pub(crate) fn new(most: usize, most_of_one: usize, yields: Yields) -> Arc<Self> {
        Arc::new(Self { places: Mutex::default(), most, most_of_one, yields })
    }

    /// A place for one of `owner`, if anybody makes room.
    pub(crate) fn take(self: &Arc<Self>, owner: O) -> Option<TakenPlace<O>> {
        let mut places = self.lock();
        let other = if places.of(&owner) >= self.most_of_one {
            Some(places.oldest_of(&owner)?)
        } else if places.len() < self.most {
            None
        } else {
            let last = match self.yields {
                Yields::Oldest => places.oldest(),
                Yields::Own => places.oldest_of(&owner),
            };
            Some(places.just(&owner).or(last)?)
        };
        if let Some(told) = other.and_then(|other| places.leave(other)) {
            let _ = told.send(());
        }
        let (tell, lost) = oneshot::channel();
        let place = places.take(owner, tell);
        drop(places);
        Some(TakenPlace { row: self.clone(), place, lost })
    }

    fn lock(&self) -> MutexGuard<'_, Places<O, oneshot::Sender<()>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<O: Ord + Clone> TakenPlace<O> {
    /// Waits until another has taken it. Dropping the future loses nothing.
    pub(crate) async fn lost(&mut self) {
        // The sender is with the place, and goes without a word only with the spot.
        let _ = (&mut self.lost).await;
    }
}

impl<O: Ord + Clone> Drop for TakenPlace<O> {
    fn drop(&mut self) {
        self.row.lock().leave(self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_lost<O: Ord + Clone>(spot: &mut TakenPlace<O>) -> bool {
        spot.lost.try_recv().is_ok()
    }

    #[test]
    fn who_waits_at_the_door_makes_room_for_the_next() {
        let row = PlaceRow::new(4, 2, Yields::Oldest);
        let mut many: Vec<_> = (0..3).map(|_| row.take("a").unwrap()).collect();
        assert!(is_lost(&mut many[0]) && !is_lost(&mut many[1]), "two of one");
        let mut others = ["b", "c"].map(|owner| row.take(owner).unwrap());
        let mut fifth = row.take("d").unwrap();
        assert!(is_lost(&mut many[1]), "whoever has the most");
        let mut sixth = row.take("e").unwrap();
        assert!(is_lost(&mut many[2]), "all have one, and it was there first");
        drop(many);
        assert_eq!(row.lock().len(), 4, "who has lost its place frees none");
        drop(others);
        others = ["f", "g"].map(|owner| row.take(owner).unwrap());
        let all = others.iter_mut().chain([&mut fifth, &mut sixth]);
        assert!(all.map(is_lost).all(|lost| !lost));
        drop((others, fifth, sixth));
        assert!(row.lock().is_empty());
    }

    #[test]
    fn who_looks_makes_room_for_its_own_and_for_who_has_less() {
        let row = PlaceRow::new(3, 3, Yields::Own);
        let mut first = ["a", "a", "a"].map(|owner| row.take(owner).unwrap());
        let mut other = row.take("b").unwrap();
        assert_eq!(first.each_mut().map(is_lost), [true, false, false]);
        let mut again = row.take("b").unwrap();
        assert!(is_lost(&mut other), "its own, since it would have as many as the other then");
        let mut third = row.take("c").unwrap();
        assert_eq!(first.each_mut().map(is_lost), [false, true, false]);
        assert!(row.take("d").is_none(), "each has one");
        assert!(row.take("c").is_some() && is_lost(&mut third) && !is_lost(&mut again));
    }
}
