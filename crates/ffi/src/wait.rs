//! How a call waits: not at all, for a while, or for ever. The futures of the library are polled with the
//! waker of an interest, on the thread of the caller.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use crate::events::Interest;
use crate::patience::Patience;
use crate::status::{CallFailure, QS_WOULD_BLOCK};

/// Has `poll` try until it is ready, as long as `patience` lasts. Without any, an event tells when to try
/// again. No lock may be held: others use the object meanwhile.
pub(crate) fn attempt<T>(
    interest: &Arc<Interest>,
    patience: Patience,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<Result<T, CallFailure>>,
) -> Result<T, CallFailure> {
    let waker = interest.waker();
    let mut cx = Context::from_waker(&waker);
    let waits = !matches!(patience, Patience::None);
    loop {
        let times = interest.times();
        if !waits {
            // Before it is polled: what happens from then on is told.
            interest.arm(true);
        }
        if let Poll::Ready(result) = poll(&mut cx) {
            if !waits {
                interest.arm(false);
            }
            return result;
        }
        match patience {
            Patience::None => return Err(CallFailure::new(QS_WOULD_BLOCK, "")),
            Patience::Until(end) => interest.wait(times, Some(end))?,
            Patience::Ever => interest.wait(times, None)?,
        }
    }
}

/// A future that is made when it is first asked for, and kept from one call to the next.
pub(crate) struct KeptFuture<T>(Mutex<Option<BoxedFuture<T>>>);

pub(crate) type BoxedFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl<T> Default for KeptFuture<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> KeptFuture<T> {
    /// Polls the future, which `make` makes if there is none.
    pub(crate) fn poll(&self, cx: &mut Context<'_>, make: impl FnOnce() -> BoxedFuture<T>) -> Poll<T> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let polled = kept.get_or_insert_with(make).as_mut().poll(cx);
        if polled.is_ready() {
            *kept = None;
        }
        polled
    }

    /// Drops the future, if there is one.
    pub(crate) fn clear(&self) {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(kept);
    }
}

/// A poll of nothing but a look: ready with what was found.
pub(crate) fn found<T>(found: Option<T>) -> Poll<Result<T, CallFailure>> {
    found.map_or(Poll::Pending, |found| Poll::Ready(Ok(found)))
}
