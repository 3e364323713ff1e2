use std::collections::BTreeMap;
use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quickset::places::{Place, Places};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use super::ViewerOwner;
use super::vnc::VncCommand;
use crate::held::HeldInput;
use crate::message::{HeldKey, PersonInput, VisitCount, VisitId};

/// The visits to a desktop: how much of what its clients did was passed on, from session to session.
///
/// Each is that of a credential, so that nobody can take up another's. A visit is in the hands of one session
/// at a time, its *turn*. Whoever comes next waits until the turn is given up: then nothing more of the
/// former session is passed on, its place is free, and the count is final. What it held down goes over to
/// the next; if nobody waits, it is let go first, and then the count is kept for a while.
#[derive(Clone, Debug, Default)]
pub(super) struct VisitBook(Arc<Mutex<VisitPages>>);

#[derive(Debug, Default)]
struct VisitPages {
    open: BTreeMap<VisitKey, OpenVisit>,
    kept: Places<ViewerOwner, KeptVisit>,
    places: BTreeMap<VisitKey, Place>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct VisitKey {
    owner: ViewerOwner,
    id: VisitId,
}

/// One that is in somebody's hands.
#[derive(Debug)]
struct OpenVisit {
    /// Tells that session to end.
    end: Option<oneshot::Sender<()>>,
    /// The one that waits for it.
    next: Option<oneshot::Sender<VisitTurn>>,
}

/// One of which there is no session.
#[derive(Debug)]
struct KeptVisit {
    key: VisitKey,
    taken: u64,
    since: Instant,
}

/// A session's hands: what it has passed on, and what it holds down. Dropped, they go over to the next
/// session of the visit, or let go, however that happened (DT-9).
#[derive(Debug)]
pub(super) struct VisitTurn {
    /// `None`: the session is all there is.
    visit: Option<(VisitBook, VisitKey)>,
    taken: u64,
    held: HeldInput,
    told: watch::Sender<u64>,
    /// Another session of this visit has come.
    ended: Option<oneshot::Receiver<()>>,
    commands: mpsc::Sender<VncCommand>,
}

impl VisitBook {
    /// The turn of a session of this visit, and what its client is told of it. The former session is ended.
    ///
    /// When that cannot let go of what it holds, since the VNC server takes nothing, it is a session of no
    /// visit.
    pub(super) async fn enter(
        &self,
        owner: ViewerOwner,
        id: VisitId,
        commands: &mpsc::Sender<VncCommand>,
    ) -> (VisitTurn, Option<VisitCount>) {
        let key = VisitKey { owner, id };
        let turn = match self.open(&key, commands) {
            Ok(begun) => return begun,
            Err(turn) => turn,
        };
        match timeout(PATIENCE, turn).await {
            Ok(Ok(turn)) => {
                let taken = turn.taken;
                (turn, Some(VisitCount { resumed: true, taken }))
            }
            // One after us has it, or is to have it.
            Ok(Err(_)) | Err(_) => (VisitTurn::alone(commands), None),
        }
    }

    /// At once if nobody has it. Otherwise whoever has it is told, and gives it up.
    fn open(
        &self,
        key: &VisitKey,
        commands: &mpsc::Sender<VncCommand>,
    ) -> Result<(VisitTurn, Option<VisitCount>), oneshot::Receiver<VisitTurn>> {
        let mut pages = self.lock();
        if let Some(open) = pages.open.get_mut(key) {
            let (next, turn) = oneshot::channel();
            open.next = Some(next);
            if let Some(end) = open.end.take() {
                let _ = end.send(());
            }
            return Err(turn);
        }
        let kept = pages.places.remove(key).and_then(|place| pages.kept.leave(place));
        let kept = kept.filter(|kept| kept.since.elapsed() < KEPT);
        let (resumed, taken) = (kept.is_some(), kept.map_or(0, |kept| kept.taken));
        let turn = pages.turn(self, key, Hands { taken, held: HeldInput::default() }, commands.clone());
        drop(pages);
        Ok((turn, Some(VisitCount { resumed, taken })))
    }

    /// Somebody gives up the turn, and holds this down. If nobody takes it over, that is returned, to be let
    /// go.
    fn pass(&self, key: &VisitKey, mut hands: Hands, commands: &mpsc::Sender<VncCommand>) -> Option<Hands> {
        loop {
            let mut pages = self.lock();
            let Some(next) = pages.open.get_mut(key).and_then(|open| open.next.take()) else {
                if hands.held.is_empty() {
                    pages.keep(key, hands.taken);
                    return None;
                }
                return Some(hands);
            };
            let turn = pages.turn(self, key, hands, commands.clone());
            drop(pages);
            match next.send(turn) {
                Ok(()) => return None,
                // Who waited is gone. The turn is none any more, so that dropping it does nothing.
                Err(mut turn) => hands = turn.disarm(),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, VisitPages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What goes from turn to turn.
#[derive(Debug, Default)]
struct Hands {
    taken: u64,
    held: HeldInput,
}

impl VisitPages {
    fn turn(
        &mut self,
        book: &VisitBook,
        key: &VisitKey,
        hands: Hands,
        commands: mpsc::Sender<VncCommand>,
    ) -> VisitTurn {
        let (end, ended) = oneshot::channel();
        self.open.insert(key.clone(), OpenVisit { end: Some(end), next: None });
        let Hands { taken, held } = hands;
        let (visit, told) = (Some((book.clone(), key.clone())), watch::Sender::new(taken));
        VisitTurn { visit, taken, held, told, ended: Some(ended), commands }
    }

    /// DT-64: there is no session of it any more. For its count those make room that have been kept for too
    /// long, then the oldest of its owner, then of whoever has the most.
    fn keep(&mut self, key: &VisitKey, taken: u64) {
        self.open.remove(key);
        while let Some(oldest) = self.kept.oldest() {
            let is_over = self.kept.holder(oldest).is_none_or(|kept| kept.since.elapsed() >= KEPT);
            if !is_over {
                break;
            }
            self.forget(oldest);
        }
        let owner = &key.owner;
        let other = if self.kept.of(owner) >= MOST_OF_ONE {
            self.kept.oldest_of(owner)
        } else if self.kept.len() >= MOST {
            self.kept.just(owner).or(self.kept.oldest_of(owner)).or(self.kept.oldest())
        } else {
            None
        };
        if let Some(other) = other {
            self.forget(other);
        }
        let kept = KeptVisit { key: key.clone(), taken, since: Instant::now() };
        let place = self.kept.take(owner.clone(), kept);
        self.places.insert(key.clone(), place);
    }

    fn forget(&mut self, place: Place) {
        if let Some(kept) = self.kept.leave(place) {
            self.places.remove(&kept.key);
        }
    }
}

impl VisitTurn {
    /// Of a session that is all there is.
    pub(super) fn alone(commands: &mpsc::Sender<VncCommand>) -> Self {
        let (taken, held, told) = (0, HeldInput::default(), watch::Sender::new(0));
        Self { visit: None, taken, held, told, ended: None, commands: commands.clone() }
    }

    /// Ready when another session of this visit has come. For one to wait.
    pub(super) fn ended(&mut self) -> impl Future<Output = ()> + use<> {
        let ended = self.ended.take();
        async move {
            match ended {
                // Its end is not dropped before we give up the turn.
                Some(ended) => drop(ended.await),
                None => std::future::pending().await,
            }
        }
    }

    /// What the client is to be told of: how many messages were passed on; `None` if nobody counts.
    pub(super) fn told(&self) -> Option<watch::Receiver<u64>> {
        self.visit.as_ref().map(|_| self.told.subscribe())
    }

    /// What is down.
    pub(super) fn held(&mut self) -> &mut HeldInput {
        &mut self.held
    }

    /// How many messages of the visit were passed on, or are for nobody.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// So many messages of the visit were passed on, or are for nobody; they do not become fewer.
    pub(super) fn count_to(&mut self, taken: u64) {
        if taken > self.taken {
            self.taken = taken;
            self.told.send_replace(taken);
        }
    }

    /// Waits until the VNC server takes something; `None` when the desktop is gone.
    pub(super) async fn room(&self) -> Option<mpsc::OwnedPermit<VncCommand>> {
        self.commands.clone().reserve_owned().await.ok()
    }

    fn disarm(&mut self) -> Hands {
        self.visit = None;
        Hands { taken: self.taken, held: take(&mut self.held) }
    }
}

impl Drop for VisitTurn {
    fn drop(&mut self) {
        let (visit, commands) = (self.visit.take(), self.commands.clone());
        let hands = self.disarm();
        let mut left = match &visit {
            Some((book, key)) => match book.pass(key, hands, &commands) {
                Some(left) => left,
                None => return,
            },
            None if hands.held.is_empty() => return,
            None => hands,
        };
        // Behind what is under way already. Without a runtime the VNC connection is gone too.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            for input in let_go(&mut left.held) {
                if commands.send(VncCommand::Input(input)).await.is_err() {
                    break;
                }
            }
            if let Some((book, key)) = visit {
                // Nothing is held any more.
                let _ = book.pass(&key, left, &commands);
            }
        });
    }
}

/// What lets go of all that is held.
fn let_go(held: &mut HeldInput) -> Vec<PersonInput> {
    let release = held.release();
    let keys = release.keys.into_iter();
    let keys = keys.map(|HeldKey { keysym, keycode }| PersonInput::Key { down: false, keysym, keycode });
    let pointer = release.pointer.map(|(x, y)| PersonInput::Pointer { buttons: 0, x, y });
    keys.chain(pointer).collect()
}

/// How long a visit is kept without a session. After ten seconds a client sends nothing of what was done
/// before (DT-65), but it is to learn whether that was passed on, or the person is told of a loss that was
/// none; and networks of trains and lifts come back within two minutes.
const KEPT: Duration = Duration::from_secs(120);
/// Visits without a session that are kept, of one credential and of all, each of some two hundred bytes. A
/// person has a few viewers.
const MOST_OF_ONE: usize = 16;
const MOST: usize = 256;
/// How long a former session may take to let go. It does so at once, unless its VNC server takes nothing.
const PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use quickset::Fingerprint;

    use super::*;

    const KNOWN: VisitId = VisitId([1; 16]);

    fn owner(n: u8) -> ViewerOwner {
        ViewerOwner::Key(Fingerprint([n; 32]))
    }

    fn id(n: u8) -> VisitId {
        VisitId([n; 16])
    }

    /// Open visits, kept ones, and those that are found by their names.
    fn sizes(book: &VisitBook) -> (usize, usize, usize) {
        let pages = book.lock();
        (pages.open.len(), pages.kept.len(), pages.places.len())
    }

    fn up(command: &VncCommand) -> u32 {
        match command {
            VncCommand::Input(PersonInput::Key { down: false, keysym, .. }) => *keysym,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn the_next_session_of_a_visit_takes_over_what_the_former_held() {
        // DT-61, DT-66.
        let (book, (commands, mut given)) = (VisitBook::default(), mpsc::channel(8));
        let (mut first, begun) = book.enter(owner(1), KNOWN, &commands).await;
        assert_eq!(begun, Some(VisitCount { resumed: false, taken: 0 }));
        first.held().key(true, 0x61, None);
        first.count_to(5);
        let ended = first.ended();
        let serves = async {
            ended.await;
            drop(first);
        };
        let ((mut second, begun), ()) = tokio::join!(book.enter(owner(1), KNOWN, &commands), serves);
        assert_eq!(begun, Some(VisitCount { resumed: true, taken: 5 }));
        assert!(second.held().holds(0x61, None) && given.try_recv().is_err(), "it is down all the time");
        // Another credential with the same visit has another.
        let (other, begun) = book.enter(owner(2), KNOWN, &commands).await;
        assert_eq!(begun, Some(VisitCount { resumed: false, taken: 0 }));
        drop((second, other));
        // DT-9, and the count is kept.
        assert_eq!(up(&given.recv().await.unwrap()), 0x61);
        let (mut third, begun) = book.enter(owner(1), KNOWN, &commands).await;
        assert_eq!(begun, Some(VisitCount { resumed: true, taken: 5 }));
        assert!(third.held().is_empty() && given.try_recv().is_err());
    }

    #[tokio::test]
    async fn what_is_held_is_let_go_before_the_next_session_does_anything() {
        let (book, (commands, mut given)) = (VisitBook::default(), mpsc::channel(1));
        let (mut first, _) = book.enter(owner(1), KNOWN, &commands).await;
        first.held().key(true, 0x61, None);
        first.held().key(true, 0x62, None);
        first.count_to(7);
        drop(first);
        let (next, ()) = tokio::join!(book.enter(owner(1), KNOWN, &commands), async {
            for keysym in [0x61, 0x62] {
                assert_eq!(up(&given.recv().await.unwrap()), keysym);
            }
        });
        assert_eq!(next.1, Some(VisitCount { resumed: true, taken: 7 }));
        assert!(given.try_recv().is_err());
        // A desktop that takes nothing holds nobody up: such a session is of no visit.
        let mut stuck = next.0;
        stuck.held().key(true, 0x63, None);
        stuck.held().key(true, 0x64, None);
        drop(stuck);
        let (turn, begun) = book.enter(owner(1), KNOWN, &commands).await;
        assert!(begun.is_none() && turn.told().is_none());
        for keysym in [0x63, 0x64] {
            assert_eq!(up(&given.recv().await.unwrap()), keysym);
        }
        let (_, begun) = book.enter(owner(1), KNOWN, &commands).await;
        assert_eq!(
            begun,
            Some(VisitCount { resumed: true, taken: 7 }),
            "who waited in vain has taken nothing"
        );
    }

    #[tokio::test]
    async fn of_many_that_come_at_once_one_has_the_turn_and_nothing_is_lost() {
        let (book, (commands, _given)) = (VisitBook::default(), mpsc::channel(8));
        let (mut turn, _) = book.enter(owner(1), KNOWN, &commands).await;
        turn.count_to(3);
        let mut waiting = Vec::new();
        for _ in 0..20 {
            let (book, commands) = (book.clone(), commands.clone());
            waiting.push(tokio::spawn(async move { book.enter(owner(1), KNOWN, &commands).await.1 }));
        }
        turn.ended().await;
        // Some are gone while they wait.
        waiting.iter().skip(1).step_by(2).for_each(tokio::task::JoinHandle::abort);
        drop(turn);
        for entered in waiting {
            if let Ok(Some(visit)) = entered.await {
                assert_eq!(visit, VisitCount { resumed: true, taken: 3 });
            }
        }
        assert_eq!(
            book.enter(owner(1), KNOWN, &commands).await.1,
            Some(VisitCount { resumed: true, taken: 3 })
        );
        assert!(book.lock().open.len() <= 1);
    }

    #[tokio::test]
    async fn who_has_many_visits_pushes_out_its_own() {
        // DT-64.
        let (book, (commands, _given)) = (VisitBook::default(), mpsc::channel(8));
        book.enter(owner(2), KNOWN, &commands).await.0.count_to(9);
        for n in 0..200 {
            book.enter(owner(1), id(n), &commands).await.0.count_to(1);
        }
        assert_eq!(sizes(&book), (0, MOST_OF_ONE + 1, MOST_OF_ONE + 1));
        for (n, resumed) in [(199, true), (0, false)] {
            let taken = u64::from(resumed);
            let (turn, begun) = book.enter(owner(1), id(n), &commands).await;
            assert_eq!(begun, Some(VisitCount { resumed, taken }));
            drop(turn);
        }
        // Of many credentials with one each.
        for n in 3..=255 {
            drop(book.enter(owner(n), KNOWN, &commands).await);
        }
        let (open, kept, places) = sizes(&book);
        assert!(open == 0 && kept <= MOST && places == kept, "{open} {kept} {places}");
        let begun = book.enter(owner(2), KNOWN, &commands).await.1;
        assert_eq!(begun, Some(VisitCount { resumed: true, taken: 9 }), "there was room for all");
    }
}
