//! Memory for what is kept in case that it is asked for again: connections go before it.

use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use quickset::{Account, Budget};

/// A small part of a budget. It is for all clients, and so an account of its own has it.
#[derive(Debug)]
pub(super) struct Reserve {
    budget: Budget,
    account: Account,
    /// Bytes at most.
    most: u64,
}

impl Reserve {
    /// A sixteenth of the budget, and `most` bytes at most.
    pub(super) fn new(budget: Budget, most: u64) -> Self {
        let most = (budget.usage().size / PART).min(most);
        Self { account: account(&budget), budget, most }
    }

    /// Takes so many bytes more, if that may be.
    pub(super) fn take(&mut self, bytes: u64) -> bool {
        self.account.held() + bytes <= self.most && self.account.take(bytes)
    }

    pub(super) fn give(&mut self, bytes: u64) {
        self.account.give(bytes);
    }

    /// Whether connections need it: then all is given back, and whoever kept something there is to drop it.
    fn is_given_up(&mut self) -> bool {
        let is_recalled = self.account.is_recalled();
        if is_recalled {
            self.account = account(&self.budget);
        }
        is_recalled
    }

    /// Whom to wake when connections need it.
    fn on_recall(&self, waker: &Waker) {
        self.account.on_recall(waker.clone());
    }
}

/// What is kept in a reserve.
pub(super) trait ReserveSpare {
    fn reserve(&mut self) -> &mut Reserve;

    /// Drops all of it.
    fn clear(&mut self);

    /// Drops what nobody has wanted for a while, and gives back its part of the reserve.
    fn sweep(&mut self, now: Instant);

    /// If connections need the memory they have all of it, and what is asked for next is kept again.
    fn give_back(&mut self) {
        if self.reserve().is_given_up() {
            self.clear();
        }
    }
}

/// Has all of it given back whenever connections need the memory, and what nobody wants any more once in a
/// while, for as long as this is polled.
pub(super) async fn tend(spare: &Mutex<impl ReserveSpare>) {
    let lock = || -> MutexGuard<'_, _> { spare.lock().unwrap_or_else(PoisonError::into_inner) };
    let recalled = poll_fn(|cx| {
        let mut spare = lock();
        spare.give_back();
        spare.reserve().on_recall(cx.waker());
        Poll::<()>::Pending
    });
    let unwanted = async {
        loop {
            tokio::time::sleep(SWEEP).await;
            lock().sweep(Instant::now());
        }
    };
    tokio::join!(recalled, unwanted);
}

/// How often it is looked for what nobody wants any more.
pub(super) const SWEEP: Duration = Duration::from_secs(5);

/// No client is at this address.
fn account(budget: &Budget) -> Account {
    budget.account(Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)))
}

/// Of the budget.
const PART: u64 = 16;
