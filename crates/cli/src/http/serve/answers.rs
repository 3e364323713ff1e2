//! How many answers are under way for each client's address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quickset::places::NetworkOwner;
use tokio::sync::Notify;

/// Turns for answers, so many for each address, and one for each of its connections in any case: who asks for
/// much does not keep those from having an answer that happen to be at the same address.
#[derive(Debug)]
pub(super) struct AnswerTurns {
    taken: Mutex<BTreeMap<NetworkOwner, TakenTurns>>,
    most: usize,
}

#[derive(Debug, Default)]
struct TakenTurns {
    answers: usize,
    /// Connections that there are, and what they wait for.
    guests: usize,
    left: Arc<Notify>,
}

/// A connection that asks for turns.
#[derive(Debug)]
pub(super) struct AnswerGuest {
    answers: Arc<AnswerTurns>,
    client: NetworkOwner,
    /// Answers that it has.
    own: Arc<AtomicUsize>,
}

/// An answer's turn: it is under way.
#[derive(Debug)]
pub(super) struct AnswerTurn {
    answers: Arc<AnswerTurns>,
    client: NetworkOwner,
    own: Arc<AtomicUsize>,
    /// It is the only one of its connection.
    pub(super) is_first: bool,
}

impl AnswerTurns {
    /// So many for each address.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { taken: Mutex::default(), most })
    }

    /// A connection from there.
    pub(super) fn guest(self: &Arc<Self>, client: IpAddr) -> AnswerGuest {
        let client = NetworkOwner::of(client);
        self.lock().entry(client).or_default().guests += 1;
        AnswerGuest { answers: self.clone(), client, own: Arc::default() }
    }

    fn forget(&self, client: NetworkOwner, change: impl FnOnce(&mut TakenTurns)) {
        let mut all = self.lock();
        let Some(taken) = all.get_mut(&client) else { return };
        change(taken);
        taken.left.notify_waiters();
        if taken.answers == 0 && taken.guests == 0 {
            all.remove(&client);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NetworkOwner, TakenTurns>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AnswerGuest {
    /// No answer is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.own.load(Ordering::Relaxed) == 0
    }

    /// Waits for a turn. Dropping the future loses nothing.
    pub(super) async fn turn(&self) -> AnswerTurn {
        loop {
            let (left, notified);
            {
                let mut taken = self.answers.lock();
                let taken = taken.entry(self.client).or_default();
                let is_first = self.own.load(Ordering::Relaxed) == 0;
                if is_first || taken.answers < self.answers.most {
                    taken.answers += 1;
                    self.own.fetch_add(1, Ordering::Relaxed);
                    let (answers, own) = (self.answers.clone(), self.own.clone());
                    return AnswerTurn { answers, client: self.client, own, is_first };
                }
                // Within the lock: what leaves from here on is heard.
                left = taken.left.clone();
                notified = left.notified();
            }
            notified.await;
        }
    }
}

impl Drop for AnswerGuest {
    fn drop(&mut self) {
        self.answers.forget(self.client, |taken| taken.guests -= 1);
    }
}

impl Drop for AnswerTurn {
    fn drop(&mut self) {
        self.own.fetch_sub(1, Ordering::Relaxed);
        self.answers.forget(self.client, |taken| taken.answers -= 1);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn an_address_has_so_many_and_each_connection_one() {
        let answers = AnswerTurns::new(3);
        let guest = |address: &str| answers.guest(address.parse().unwrap());
        let (greedy, modest, other) = (guest("192.0.2.1"), guest("192.0.2.1"), guest("192.0.2.2"));
        let mut taken: Vec<AnswerTurn> = std::iter::from_fn(|| now(greedy.turn())).collect();
        assert_eq!(taken.len(), 3);
        let first = now(modest.turn()).unwrap();
        assert!(first.is_first && now(modest.turn()).is_none(), "one in any case, and no more");
        assert!(now(other.turn()).is_some());
        taken.truncate(1);
        let second = now(modest.turn()).unwrap();
        assert!(!second.is_first);
        drop((first, second, taken, greedy, modest, other));
        assert!(answers.lock().is_empty(), "who left is forgotten");
    }

    #[tokio::test]
    async fn who_waits_hears_of_a_turn() {
        let answers = AnswerTurns::new(1);
        let address = "192.0.2.1".parse().unwrap();
        let guest = answers.guest(address);
        let first = guest.turn().await;
        let waits = tokio::spawn(async move { guest.turn().await.is_first });
        tokio::task::yield_now().await;
        drop(first);
        let limit = std::time::Duration::from_secs(10);
        assert!(tokio::time::timeout(limit, waits).await.expect("in time").unwrap());
    }
}
