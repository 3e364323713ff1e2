use std::collections::VecDeque;
use std::marker::PhantomData;
use std::mem;
use std::task::{Context, Poll, Waker};

/// Tasks that wait for something, any number of them over its life. All are woken, and those that find
/// nothing wait again: so a task that was woken and went away meanwhile takes nothing from the others. A task
/// that waits no more leaves nothing behind: each has a [`WakerSeat`].
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    /// By their numbers, in ascending order. Apart, since nobody ever waits for most things of most
    /// connections.
    #[expect(clippy::box_collection, reason = "a word instead of four, in six crowds of each connection")]
    waiting: Option<Box<VecDeque<(u64, Waker)>>>,
    seats: u64,
}

/// The number of a task in a crowd. It is never given again.
#[derive(Debug, Default)]
pub(crate) struct TaskId(Option<u64>);

impl Crowd {
    /// The task waits at this place. Returns what is to be dropped once no lock is held: a waker may be the
    /// last that holds its task, and the task hold what takes this lock when it is dropped.
    #[must_use]
    pub(crate) fn add(&mut self, place: &mut TaskId, cx: &Context<'_>) -> Option<Waker> {
        let seats = &mut self.seats;
        let number = *place.0.get_or_insert_with(|| {
            *seats += 1;
            *seats
        });
        let waiting = self.waiting.get_or_insert_default();
        match find(waiting, number) {
            Ok(at) if waiting[at].1.will_wake(cx.waker()) => None,
            Ok(at) => Some(mem::replace(&mut waiting[at].1, cx.waker().clone())),
            Err(at) => {
                waiting.insert(at, (number, cx.waker().clone()));
                None
            }
        }
    }

    /// The task at this place waits no more. Returns what is to be dropped once no lock is held.
    #[must_use]
    pub(crate) fn leave(&mut self, place: &mut TaskId) -> Option<Waker> {
        let number = place.0.take()?;
        let waiting = self.waiting.as_mut()?;
        let at = find(waiting, number).ok()?;
        waiting.remove(at).map(|(_, waker)| waker)
    }

    /// Moves all to `woken`, whose wakers are called once no lock is held.
    pub(crate) fn drain_to(&mut self, woken: &mut Vec<Waker>) {
        let Some(waiting) = &mut self.waiting else { return };
        woken.extend(waiting.drain(..).map(|(_, waker)| waker));
        if waiting.capacity() > KEPT {
            self.waiting = None;
        }
    }

    /// The same of those who will hardly wait again: nothing is kept for them.
    pub(crate) fn dismiss_to(&mut self, woken: &mut Vec<Waker>) {
        self.drain_to(woken);
        self.waiting = None;
    }

    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.as_ref().is_none_or(|waiting| waiting.is_empty())
    }

    /// How many wait.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.waiting.as_ref().map_or(0, |waiting| waiting.len())
    }
}

/// Where a number stands, or would. Who comes newly is the last.
fn find(waiting: &VecDeque<(u64, Waker)>, number: u64) -> Result<usize, usize> {
    match waiting.back() {
        Some((last, _)) if *last >= number => waiting.binary_search_by_key(&number, |one| one.0),
        _ => Err(waiting.len()),
    }
}

/// What a future holds that waits in a crowd behind a lock; with it, its place goes.
pub(crate) struct WakerSeat<G, L, C>
where
    L: Fn() -> G,
    C: Fn(&mut G) -> &mut Crowd,
{
    lock: L,
    crowd: C,
    place: TaskId,
    guard: PhantomData<fn() -> G>,
}

impl<G, L, C> WakerSeat<G, L, C>
where
    L: Fn() -> G,
    C: Fn(&mut G) -> &mut Crowd,
{
    /// For the crowd that `crowd` finds in what `lock` guards.
    pub(crate) fn new(lock: L, crowd: C) -> Self {
        Self { lock, crowd, place: TaskId::default(), guard: PhantomData }
    }

    /// Ready with what `look` finds, or the task waits for the next time that the crowd is woken.
    pub(crate) fn poll<T>(&mut self, cx: &Context<'_>, look: impl FnOnce(&mut G) -> Option<T>) -> Poll<T> {
        let mut guard = (self.lock)();
        let found = look(&mut guard);
        let crowd = (self.crowd)(&mut guard);
        let old = if found.is_some() { crowd.leave(&mut self.place) } else { crowd.add(&mut self.place, cx) };
        drop(guard);
        drop(old);
        found.map_or(Poll::Pending, Poll::Ready)
    }

    /// The same for whom polling is all: waits until `look` finds something.
    pub(crate) async fn wait<T>(mut self, mut look: impl FnMut(&mut G) -> Option<T>) -> T {
        std::future::poll_fn(|cx| self.poll(cx, &mut look)).await
    }
}

impl<G, L, C> Drop for WakerSeat<G, L, C>
where
    L: Fn() -> G,
    C: Fn(&mut G) -> &mut Crowd,
{
    fn drop(&mut self) {
        if self.place.0.is_some() {
            let mut guard = (self.lock)();
            let old = (self.crowd)(&mut guard).leave(&mut self.place);
            drop(guard);
            drop(old);
        }
    }
}

/// Places that an empty crowd keeps, so that who waits again and again allocates once.
const KEPT: usize = 16;

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn who_waits_no_more_leaves_nothing() {
        let list = Mutex::new((Crowd::default(), false));
        let seat = || WakerSeat::new(|| list.lock().unwrap(), |guard| &mut guard.0);
        let waiting = || Box::pin(seat().wait(|guard| guard.1.then_some(7)));
        let cx = &mut Context::from_waker(Waker::noop());
        let (mut first, mut second) = (waiting(), waiting());
        for _ in 0..3 {
            assert_eq!((first.as_mut().poll(cx), second.as_mut().poll(cx)), (Poll::Pending, Poll::Pending));
            assert_eq!(list.lock().unwrap().0.len(), 2, "each has one place");
        }
        drop(first);
        assert_eq!(list.lock().unwrap().0.len(), 1);
        list.lock().unwrap().1 = true;
        assert_eq!(second.as_mut().poll(cx), Poll::Ready(7));
        assert_eq!(list.lock().unwrap().0.len(), 0);
    }

    /// However many wait, each leaves by itself, those that were woken come back to where they were, and a
    /// crowd that was large keeps nothing of it.
    #[test]
    fn a_crowd_of_many_is_woken_in_the_order_in_which_it_came() {
        const MANY: usize = 1000;
        let cx = &Context::from_waker(Waker::noop());
        let mut crowd = Crowd::default();
        let mut places: Vec<TaskId> = (0..MANY).map(|_| TaskId::default()).collect();
        for place in &mut places {
            assert!(crowd.add(place, cx).is_none());
        }
        let mut woken = Vec::new();
        crowd.drain_to(&mut woken);
        assert_eq!((woken.len(), crowd.len()), (MANY, 0));
        assert!(crowd.waiting.as_ref().is_none_or(|waiting| waiting.capacity() <= KEPT));
        // They come back from the last to the first.
        for place in places.iter_mut().rev() {
            assert!(crowd.add(place, cx).is_none());
        }
        let numbers = |crowd: &Crowd| -> Vec<u64> {
            crowd.waiting.iter().flat_map(|all| all.iter()).map(|one| one.0).collect()
        };
        assert!(numbers(&crowd).into_iter().eq(1..=MANY as u64));
        for place in places.iter_mut().step_by(2) {
            assert!(crowd.leave(place).is_some() && crowd.leave(place).is_none());
        }
        assert!(numbers(&crowd).iter().all(|number| number % 2 == 0));
        assert_eq!(crowd.len(), MANY / 2);
    }

    /// A place from before is not that of somebody who came later.
    #[test]
    fn who_was_woken_takes_no_place_from_others() {
        let list = Mutex::new((Crowd::default(), ()));
        let seat = || WakerSeat::new(|| list.lock().unwrap(), |guard| &mut guard.0);
        let cx = &Context::from_waker(Waker::noop());
        let (mut first, mut second) = (seat(), seat());
        assert_eq!(first.poll(cx, |_| None::<()>), Poll::Pending);
        let mut woken = Vec::new();
        list.lock().unwrap().0.drain_to(&mut woken);
        assert_eq!(woken.len(), 1);
        assert_eq!(second.poll(cx, |_| None::<()>), Poll::Pending);
        drop(first);
        assert_eq!(list.lock().unwrap().0.len(), 1);
    }
}
