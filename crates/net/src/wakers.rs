use std::task::{Context, Waker};

/// Tasks that wait for the same thing. All are woken, and those that find nothing wait again: so a task
/// that was woken and went away meanwhile takes nothing from the others.
#[derive(Debug, Default)]
pub(crate) struct Wakers(Vec<Waker>);

impl Wakers {
    /// The task waits. One that polls again and again is kept once.
    pub(crate) fn add(&mut self, cx: &Context<'_>) {
        if !self.0.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.0.push(cx.waker().clone());
        }
    }

    /// Moves all to `woken`, whose wakers are called once no lock is held.
    pub(crate) fn drain_to(&mut self, woken: &mut Vec<Waker>) {
        woken.append(&mut self.0);
    }

    /// Wakes all.
    pub(crate) fn wake(&mut self) {
        self.0.drain(..).for_each(Waker::wake);
    }
}
