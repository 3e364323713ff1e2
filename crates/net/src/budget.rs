//! What a task may do before others have their turn, where the runtime counts it.
//!
//! A handle that always finds something would keep its task on the thread. tokio counts for its tasks; for
//! those of other runtimes this is without effect, and they yield themselves.

#[cfg(not(feature = "tokio"))]
pub(crate) use unlimited::poll_budget;

#[cfg(feature = "tokio")]
pub(crate) use crate::tokio_runtime::poll_budget;

#[cfg(not(feature = "tokio"))]
mod unlimited {
    use std::task::{Context, Poll};

    /// Nobody counts.
    pub(crate) struct UnlimitedBudget;

    /// Ready while the task may go on.
    pub(crate) fn poll_budget(_cx: &mut Context<'_>) -> Poll<UnlimitedBudget> {
        Poll::Ready(UnlimitedBudget)
    }

    impl UnlimitedBudget {
        #[expect(clippy::unused_self, reason = "what is called is what the runtime's has")]
        pub(crate) fn made_progress(&self) {}
    }
}
