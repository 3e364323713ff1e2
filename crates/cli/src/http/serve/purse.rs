//! What a connection holds of the memory for all of them, beside what QUIC counts by itself.

use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use quickset::{Account, Budget};

/// The account of a connection, which all its answers pay from.
#[derive(Debug)]
pub(super) struct Purse(Mutex<PurseHeld>);

#[derive(Debug)]
struct PurseHeld {
    account: Account,
    /// Bytes of content on their way.
    content: usize,
    /// Answers that wait until some of that has left.
    waiting: Vec<Waker>,
}

/// Bytes of content on their way: who drops them gives them back.
struct PurseBytes {
    bytes: Bytes,
    purse: Arc<Purse>,
    paid: usize,
}

/// An answer under way, or what else was paid for as long as this is there.
#[derive(Debug)]
pub(super) struct Paid(Option<(Arc<Purse>, u64)>);

impl Purse {
    /// For a connection from there, which costs so much before it asks for anything; `None` when nothing is
    /// left for it.
    pub(super) fn new(budget: &Budget, client: IpAddr, cost: u64) -> Option<Arc<Self>> {
        let mut account = budget.account(Some(client));
        let held = account.take(cost).then(|| PurseHeld { account, content: 0, waiting: Vec::new() });
        held.map(|held| Arc::new(Self(Mutex::new(held))))
    }

    /// Pays for an answer, of which the first is free: each connection has one. `None` when nothing is left.
    pub(super) fn answer(self: &Arc<Self>, is_first: bool) -> Option<Paid> {
        if is_first {
            return Some(Paid(None));
        }
        self.hold(ANSWER_COST)
    }

    /// Pays for so many bytes; `None` when nothing is left.
    pub(super) fn hold(self: &Arc<Self>, bytes: u64) -> Option<Paid> {
        self.lock().account.take(bytes).then(|| Paid(Some((self.clone(), bytes))))
    }

    /// How many of `want` bytes of content may be read now, at least one; waits until some have left where
    /// these are too many.
    pub(super) fn poll_room(&self, cx: &Context<'_>, want: usize) -> Poll<usize> {
        let mut held = self.lock();
        let room = want.min(MOST.saturating_sub(held.content));
        if room > 0 && held.account.take(room as u64) {
            // It is taken again when it is read.
            held.account.give(room as u64);
            return Poll::Ready(room);
        }
        if held.content == 0 {
            // A little each connection may hold: it has paid for that.
            return Poll::Ready(want.min(LEAST));
        }
        held.waiting.push(cx.waker().clone());
        Poll::Pending
    }

    /// Counts bytes as on their way until they are dropped.
    pub(super) fn carry(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        let paid = {
            let mut held = self.lock();
            let paid = if held.account.take(bytes.len() as u64) { bytes.len() } else { 0 };
            held.content += bytes.len();
            paid
        };
        Bytes::from_owner(PurseBytes { bytes, purse: self.clone(), paid })
    }

    /// Waits until others need what the connection holds: it is to end then.
    pub(super) async fn recalled(&self) {
        poll_fn(|cx| {
            let held = self.lock();
            if held.account.is_recalled() {
                return Poll::Ready(());
            }
            held.account.on_recall(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn lock(&self) -> MutexGuard<'_, PurseHeld> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsRef<[u8]> for PurseBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for PurseBytes {
    fn drop(&mut self) {
        let waiting = {
            let mut held = self.purse.lock();
            held.content -= self.bytes.len();
            held.account.give(self.paid as u64);
            std::mem::take(&mut held.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Paid {
    fn drop(&mut self) {
        if let Some((purse, bytes)) = &self.0 {
            purse.lock().account.give(*bytes);
        }
    }
}

/// What an answer costs, in bytes: its task, the head of the request, and what is read of a file in this
/// moment.
const ANSWER_COST: u64 = 24 << 10;

/// Bytes of content that a connection may have on their way in any case.
const LEAST: usize = 16 << 10;

/// Bytes of content on their way to the system at most, for all answers of a connection: what it takes leaves
/// at once, and it holds a window of TCP by itself.
const MOST: usize = 512 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn room(purse: &Purse, want: usize) -> Option<usize> {
        match purse.poll_room(&Context::from_waker(Waker::noop()), want) {
            Poll::Ready(room) => Some(room),
            Poll::Pending => None,
        }
    }

    fn part(len: usize) -> Bytes {
        vec![0; len].into()
    }

    #[test]
    fn content_is_paid_for_until_it_is_dropped() {
        let budget = Budget::new(1 << 20);
        let purse = Purse::new(&budget, [192, 0, 2, 1].into(), 1000).unwrap();
        let mut parts = Vec::new();
        while let Some(room) = room(&purse, 100_000) {
            parts.push(purse.carry(part(room)));
        }
        let content: usize = parts.iter().map(Bytes::len).sum();
        assert_eq!((content, budget.usage().held), (MOST, 1000 + MOST as u64));
        drop(parts);
        assert_eq!(budget.usage().held, 1000);
        drop(purse);
        assert_eq!(budget.usage().held, 0);
    }

    #[test]
    fn with_nothing_left_a_connection_goes_on_and_none_begins() {
        let budget = Budget::new(1 << 20);
        let purse = Purse::new(&budget, [192, 0, 2, 1].into(), 1000).unwrap();
        let mut others: Vec<Account> =
            (0..100).map(|n| budget.account(Some([198, 51, 100, n].into()))).collect();
        while others.iter_mut().fold(false, |any, account| account.take(1000) | any) {}
        assert!(purse.answer(false).is_none() && purse.answer(true).is_some());
        let first = purse.carry(part(room(&purse, 1 << 20).unwrap()));
        assert_eq!((first.len(), room(&purse, 1 << 20)), (LEAST, None), "a little in any case");
        drop(first);
        assert_eq!(room(&purse, 1 << 20), Some(LEAST));
        assert!(Purse::new(&budget, [192, 0, 2, 2].into(), 64 << 10).is_none());
    }
}
