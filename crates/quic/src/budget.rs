//! What all connections of a process may hold together, and who of them how much.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crate::places::NetworkOwner;

/// Memory for all connections of a process, divided among addresses and among the connections of each. Clones
/// are the same one: several endpoints, and servers of other protocols beside them, share it.
///
/// Nobody is promised a part, and nobody may take all: an address may hold twice what is left for everybody,
/// and a connection twice what is left of that for its address (dynamic thresholds: Choudhury and Hahne,
/// "Dynamic queue length thresholds for shared-memory packet switches", IEEE/ACM Transactions on Networking
/// 6(2), 1998). One hungry address has two thirds; ten that come at a time have 95 % together; and whoever
/// comes next finds some. Of those that come one after the other the first has most. So when little is left,
/// the largest account of the address that holds most is [recalled](Account::is_recalled), if that address
/// holds much more than others do: its connection ends. And those of an address that hold something leave a
/// sixty-fourth of all to those of it that come later.
///
/// An address is what [`NetworkOwner`](crate::places::NetworkOwner) takes for one. Connections whose peer has
/// not proven its address are one address together, so that nobody takes the part of somebody else by
/// claiming to be there.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Mutex<Pot>>);

/// What a connection, or anything else that belongs to an address, holds of a [`Budget`]. Dropping it gives
/// all back.
#[derive(Debug)]
pub struct Account {
    budget: Budget,
    owner: BudgetOwner,
    number: u64,
    held: u64,
    call: Arc<Recall>,
}

/// How much of a [`Budget`] is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BudgetUse {
    /// Bytes that there are to hold.
    pub size: u64,
    /// Bytes held now.
    pub held: u64,
    /// Bytes held at most so far.
    pub peak: u64,
    /// How often something was refused.
    pub refusals: u64,
    /// Accounts that were recalled.
    pub recalls: u64,
}

#[derive(Debug)]
struct Pot {
    usage: BudgetUse,
    owners: BTreeMap<BudgetOwner, Owned>,
    /// Accounts that there were.
    numbers: u64,
    /// The one that was recalled last, while it holds something.
    recalled: Option<(BudgetOwner, u64)>,
}

/// `None`: those that have not proven where they are.
type BudgetOwner = Option<NetworkOwner>;

/// What an address holds, in all and by account.
#[derive(Debug, Default)]
struct Owned {
    held: u64,
    accounts: BTreeMap<u64, (u64, Arc<Recall>)>,
}

/// Whether an account is to be given up, and who is to hear of it.
#[derive(Debug, Default)]
struct Recall {
    is_recalled: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(bytes: u64) -> Self {
        let usage = BudgetUse { size: bytes, ..BudgetUse::default() };
        Self(Arc::new(Mutex::new(Pot { usage, owners: BTreeMap::new(), numbers: 0, recalled: None })))
    }

    /// An account of somebody at this address, which holds nothing; `None` where the address is not proven.
    pub fn account(&self, address: Option<IpAddr>) -> Account {
        let (owner, call) = (address.map(NetworkOwner::of), Arc::<Recall>::default());
        let number = {
            let mut pot = self.pot();
            pot.numbers += 1;
            let number = pot.numbers;
            pot.enter(owner, number, (0, call.clone()));
            number
        };
        Account { budget: self.clone(), owner, number, held: 0, call }
    }

    /// How much is in use.
    pub fn usage(&self) -> BudgetUse {
        self.pot().usage
    }

    fn pot(&self) -> MutexGuard<'_, Pot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Account {
    /// Takes so many bytes more; false, and nothing is taken, when that is more than its part.
    pub fn take(&mut self, bytes: u64) -> bool {
        let called = {
            let mut pot = self.budget.pot();
            if !pot.take(self.owner, self.number, bytes) {
                return false;
            }
            pot.recall(self.owner)
        };
        self.held += bytes;
        if let Some(called) = called {
            called.tell();
        }
        true
    }

    /// Gives bytes back, all of them at most.
    pub fn give(&mut self, bytes: u64) {
        let bytes = bytes.min(self.held);
        self.held -= bytes;
        self.budget.pot().give(self.owner, self.number, bytes);
    }

    /// Bytes that it holds.
    #[inline]
    pub fn held(&self) -> u64 {
        self.held
    }

    /// It is somebody's at this address from now on, with what it holds, though that be more than a new one
    /// could take.
    pub fn move_to(&mut self, address: Option<IpAddr>) {
        let owner = address.map(NetworkOwner::of);
        if owner == self.owner {
            return;
        }
        let mut pot = self.budget.pot();
        if let Some(entry) = pot.leave(self.owner, self.number) {
            pot.enter(owner, self.number, entry);
        }
        self.owner = owner;
    }

    /// Others need what it holds: whoever it is of is to end, and drop it. Nothing takes it back.
    #[inline]
    pub fn is_recalled(&self) -> bool {
        self.call.is_recalled.load(Ordering::Relaxed)
    }

    /// Whom to wake when it is recalled, in place of whom it was before; at once when it is. The waker is
    /// woken by whoever takes bytes, in the middle of that.
    pub fn on_recall(&self, waker: Waker) {
        *self.call.waker() = Some(waker);
        if self.is_recalled() {
            self.call.tell();
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let mut pot = self.budget.pot();
        pot.usage.held -= self.held;
        pot.leave(self.owner, self.number);
    }
}

impl Recall {
    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        let waker = self.waker().take();
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Pot {
    fn take(&mut self, owner: BudgetOwner, number: u64, bytes: u64) -> bool {
        let all = self.usage.held.saturating_add(bytes);
        let left = self.usage.size.checked_sub(all).map(|left| left.saturating_mul(GREED));
        let granted = self.owners.get_mut(&owner).is_some_and(|owned| {
            let Some((held, _)) = owned.accounts.get_mut(&number) else { return false };
            // Who has something leaves room for those that have nothing yet.
            let room = if *held > 0 { self.usage.size / NEWCOMERS } else { 0 };
            let left_of_owner = left.and_then(|left| left.checked_sub(owned.held + bytes + room));
            let granted = left_of_owner.is_some_and(|left| *held + bytes <= left.saturating_mul(GREED));
            if granted {
                *held += bytes;
                owned.held += bytes;
            }
            granted
        });
        if granted {
            self.usage.held = all;
            self.usage.peak = self.usage.peak.max(all);
        } else {
            self.usage.refusals += 1;
        }
        granted
    }

    fn give(&mut self, owner: BudgetOwner, number: u64, bytes: u64) {
        self.usage.held -= bytes;
        let Some(owned) = self.owners.get_mut(&owner) else { return };
        owned.held -= bytes;
        if let Some((held, _)) = owned.accounts.get_mut(&number) {
            *held -= bytes;
        }
    }

    fn enter(&mut self, owner: BudgetOwner, number: u64, entry: (u64, Arc<Recall>)) {
        let owned = self.owners.entry(owner).or_default();
        owned.held += entry.0;
        owned.accounts.insert(number, entry);
    }

    /// The account is not this owner's any more.
    fn leave(&mut self, owner: BudgetOwner, number: u64) -> Option<(u64, Arc<Recall>)> {
        self.recalled.take_if(|called| *called == (owner, number));
        let owned = self.owners.get_mut(&owner)?;
        let entry = owned.accounts.remove(&number)?;
        owned.held -= entry.0;
        if owned.accounts.is_empty() {
            self.owners.remove(&owner);
        }
        Some(entry)
    }

    /// Recalls an account when little is left for all and one address has much more than others, or little
    /// for the address of `owner` and one of its accounts has much more than its others. One at a time, so
    /// that no more end than have to.
    fn recall(&mut self, owner: BudgetOwner) -> Option<Arc<Recall>> {
        if self.recalled.is_some() {
            return None;
        }
        let BudgetUse { size, held, .. } = self.usage;
        let left = size - held;
        let (owner, owned, least) = if left < size / RESERVE {
            let mean = held / self.owners.len().max(1) as u64;
            let (owner, most) = self.owners.iter().max_by_key(|(_, owned)| owned.held)?;
            (most.held > mean.saturating_mul(MUCH)).then_some((*owner, most, 0))?
        } else {
            let owned = self.owners.get(&owner)?;
            let limit = left.saturating_mul(GREED);
            let is_short = limit.saturating_sub(owned.held) < limit / RESERVE;
            let mean = owned.held / owned.accounts.len().max(1) as u64;
            is_short.then_some((owner, owned, mean.saturating_mul(MUCH)))?
        };
        let largest = owned.accounts.iter().max_by_key(|(_, (held, _))| *held);
        let (number, (_, call)) = largest.filter(|(_, (held, _))| *held > least)?;
        self.recalled = Some((owner, *number));
        call.is_recalled.store(true, Ordering::Relaxed);
        self.usage.recalls += 1;
        Some(call.clone())
    }
}

/// So many times what is left may be held by one.
const GREED: u64 = 2;

/// One part of so many of an address's share is for those of it that hold nothing yet: else whoever was there
/// first could keep all others of its address out.
const NEWCOMERS: u64 = 64;

/// With less than one part of so many left, the account of who holds much is recalled.
const RESERVE: u64 = 16;

/// Much is so many times what addresses hold in the mean: where all are alike, and there are too many, it is
/// the newcomers that go elsewhere.
const MUCH: u64 = 2;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: u64 = 1 << 20;

    fn at(n: u8) -> IpAddr {
        [192, 0, 2, n].into()
    }

    fn owned(budget: &Budget, address: IpAddr) -> u64 {
        budget.pot().owners[&Some(NetworkOwner::of(address))].held
    }

    /// Takes small steps until there is no more.
    fn fill(account: &mut Account) -> u64 {
        while account.take(64) {}
        account.held()
    }

    fn share(held: u64) -> f64 {
        held as f64 / SIZE as f64
    }

    /// With R for newcomers (G² - GR)/(1 + G + G²) for one connection; with n addresses of many connections
    /// each (G - R)/(1 + nG).
    #[test]
    fn one_takes_not_all_and_many_take_alike() {
        let budget = Budget::new(SIZE);
        let mut one = budget.account(Some(at(1)));
        assert!((share(fill(&mut one)) - (4.0 - 2.0 / 64.0) / 7.0).abs() < 1e-3);
        drop(one);
        for n in [1, 2, 10] {
            let mut accounts: Vec<Account> =
                (0..200).map(|connection| budget.account(Some(at(connection % n)))).collect();
            // In turns, as they would.
            while accounts.iter_mut().fold(false, |any, account| account.take(64) | any) {}
            for address in 0..n {
                let held = owned(&budget, at(address));
                let expected = (2.0 - 1.0 / 64.0) / (1.0 + 2.0 * f64::from(n));
                assert!((share(held) / expected - 1.0).abs() < 0.05, "{n}: {} {expected}", share(held));
            }
            let (least, most) = accounts.iter().fold((u64::MAX, 0), |(least, most), account| {
                (least.min(account.held()), most.max(account.held()))
            });
            assert!(most - least <= 64, "{n}: {least} {most}");
        }
    }

    /// Many of an address hold all that it may, each as much as the others, so that none is recalled.
    #[test]
    fn who_comes_to_an_address_that_has_all_finds_some() {
        let budget = Budget::new(SIZE);
        let mut old: Vec<Account> = (0..200).map(|_| budget.account(Some(at(1)))).collect();
        while old.iter_mut().fold(false, |any, account| account.take(64) | any) {}
        let mut new = budget.account(Some(at(1)));
        // Two sevenths of what is kept for such: it has twice of what it leaves, three times in all.
        assert!(new.take(SIZE / 64 * 2 / 7), "{:?}", budget.usage());
        assert!(old.iter_mut().all(|account| !account.take(1)) && !new.take(SIZE / 64));
    }

    /// One address after the other takes what it can.
    #[test]
    fn who_comes_late_finds_some() {
        let budget = Budget::new(SIZE);
        let mut hungry: Vec<Account> = Vec::new();
        for n in 0..50 {
            let mut account = budget.account(Some(at(n)));
            assert!(fill(&mut account) > SIZE / 1000, "{n}: nothing is left");
            hungry.push(account);
            // Who is recalled ends.
            hungry.retain(|account| !account.is_recalled());
        }
        assert!(hungry.len() > 2, "not one alone");
        assert_eq!(budget.usage().recalls, 50 - hungry.len() as u64);
    }

    /// The same of connections at one address.
    #[test]
    fn who_comes_late_to_an_address_finds_some() {
        let budget = Budget::new(SIZE);
        let mut hungry: Vec<Account> = Vec::new();
        for n in 0..50 {
            let mut account = budget.account(Some(at(1)));
            assert!(fill(&mut account) > SIZE / 1000, "{n}: nothing is left");
            hungry.push(account);
            hungry.retain(|account| !account.is_recalled());
        }
        assert!(hungry.len() > 2, "not one alone");
    }

    #[test]
    fn where_all_are_alike_none_is_recalled() {
        let budget = Budget::new(SIZE);
        let mut accounts: Vec<Account> = (0..100).map(|n| budget.account(Some(at(n)))).collect();
        while accounts.iter_mut().fold(false, |any, account| account.take(64) | any) {}
        assert!(SIZE - budget.usage().held < SIZE / RESERVE, "little is left");
        assert_eq!(budget.usage().recalls, 0);
        assert!(accounts.iter().all(|account| !account.is_recalled()));
    }

    #[test]
    fn who_waits_for_the_recall_is_woken() {
        struct Bell(AtomicBool);
        impl std::task::Wake for Bell {
            fn wake(self: Arc<Self>) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let budget = Budget::new(SIZE);
        let (bell, mut first) = (Arc::new(Bell(AtomicBool::new(false))), budget.account(Some(at(0))));
        fill(&mut first);
        first.on_recall(bell.clone().into());
        let mut others: Vec<Account> = (1..20).map(|n| budget.account(Some(at(n)))).collect();
        for account in &mut others {
            fill(account);
        }
        assert!(first.is_recalled() && bell.0.load(Ordering::Relaxed));
        let late = Arc::new(Bell(AtomicBool::new(false)));
        first.on_recall(late.clone().into());
        assert!(late.0.load(Ordering::Relaxed), "it is recalled already");
    }

    #[test]
    fn who_has_not_proven_an_address_takes_nobodys_part() {
        let budget = Budget::new(SIZE);
        let mut forged = budget.account(None);
        let unproven = fill(&mut forged);
        let mut honest = budget.account(Some(at(1)));
        assert!(honest.take(unproven / 4), "the part of an address of its own");
        forged.move_to(Some(at(2)));
        assert_eq!(owned(&budget, at(2)), unproven);
        assert!(!budget.pot().owners.contains_key(&None), "who left is forgotten");
    }

    proptest! {
        /// Whatever happens in whatever order, the sums are those of the accounts, and there is never more.
        #[test]
        fn sums_are_right(steps in prop::collection::vec((0_usize..8, 0_u8..4, 0_u64..SIZE / 4), 1..200)) {
            let budget = Budget::new(SIZE);
            let mut accounts: Vec<Option<Account>> = (0..8).map(|_| None).collect();
            let mut refusals = 0;
            for (which, verb, bytes) in steps {
                let address = (which % 3 != 0).then(|| at(which as u8 % 3));
                let account = accounts[which].get_or_insert_with(|| budget.account(address));
                match verb {
                    0 => refusals += u64::from(!account.take(bytes)),
                    1 => account.give(bytes),
                    2 => account.move_to(Some(at(bytes as u8 % 3))),
                    _ => accounts[which] = None,
                }
                let held: u64 = accounts.iter().flatten().map(Account::held).sum();
                let usage = budget.usage();
                prop_assert_eq!((usage.held, usage.refusals), (held, refusals));
                prop_assert!(held <= SIZE && usage.peak >= held);
                let pot = budget.pot();
                prop_assert_eq!(pot.owners.values().map(|owned| owned.held).sum::<u64>(), held);
                let all = pot.owners.values().map(|owned| owned.accounts.len()).sum::<usize>();
                prop_assert_eq!(all, accounts.iter().flatten().count());
            }
        }
    }
}
