use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use quickset_rfb::Screen;
use tokio::sync::Notify;

use crate::message::{ClipboardMessage, PersonInput};

/// What viewers do, on its way to the server: bounded, in order, and gone when there is no server.
///
/// While the link is down nothing is kept: what somebody typed at a picture that stands still must not arrive
/// a minute later.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    state: Mutex<InputsState>,
    /// Something can be taken.
    ready: Notify,
    /// Something was taken.
    room: Notify,
}

#[derive(Debug, Default)]
struct InputsState {
    queue: VecDeque<Act>,
    bytes: usize,
    open: bool,
}

/// One thing that a viewer does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// For the input stream.
    Input(PersonInput),
    /// Another size of the desktop, for the control stream.
    Wish { width: u16, height: u16, screens: Vec<Screen> },
}

impl Inputs {
    /// Adds an act; false when there is nobody to take it.
    ///
    /// A pointer that only moved replaces one before it: the way between is of no interest. Changes of
    /// buttons all stay (DT-10).
    pub(crate) fn push(&self, act: Act) -> bool {
        let mut state = self.lock();
        if !state.open {
            return false;
        }
        match (state.queue.back_mut(), act) {
            (Some(Act::Input(last)), Act::Input(input)) if last.yields_to(&input) => *last = input,
            (_, act) => {
                state.bytes += act.weight();
                state.queue.push_back(act);
            }
        }
        drop(state);
        self.ready.notify_one();
        true
    }

    /// Viewers should not be read on.
    pub(crate) fn is_full(&self) -> bool {
        self.lock().bytes > MOST
    }

    /// Waits until there is room.
    pub(crate) async fn room(&self) {
        loop {
            let notified = self.room.notified();
            if !self.is_full() {
                return;
            }
            notified.await;
        }
    }

    /// Takes the next act; waits for it. For one task at a time.
    pub(crate) async fn next(&self) -> Act {
        loop {
            let notified = self.ready.notified();
            if let Some(act) = self.take() {
                return act;
            }
            notified.await;
        }
    }

    /// There is a server now, or not any more: then what it did not take is gone.
    pub(crate) fn set_open(&self, open: bool) {
        let mut state = self.lock();
        state.open = open;
        state.queue.clear();
        state.bytes = 0;
        drop(state);
        self.room.notify_waiters();
    }

    fn take(&self) -> Option<Act> {
        let mut state = self.lock();
        let act = state.queue.pop_front()?;
        state.bytes -= act.weight();
        drop(state);
        self.room.notify_waiters();
        Some(act)
    }

    fn lock(&self) -> MutexGuard<'_, InputsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Act {
    /// Bytes held, about.
    fn weight(&self) -> usize {
        let more = match self {
            Self::Input(PersonInput::Clipboard(ClipboardMessage::Paste(text))) => text.len(),
            Self::Input(_) => 0,
            Self::Wish { screens, .. } => size_of_val(screens.as_slice()),
        };
        size_of::<Self>() + more
    }
}

/// Some thousands of key presses, or one text.
const MOST: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn pointer(buttons: u8, x: u16) -> Act {
        Act::Input(PersonInput::Pointer { buttons, x, y: 0 })
    }

    fn key(down: bool) -> Act {
        Act::Input(PersonInput::Key { down, keysym: 0x61, keycode: None })
    }

    #[test]
    fn motion_is_coalesced_and_clicks_and_keys_are_not() {
        let inputs = Inputs::default();
        inputs.set_open(true);
        let acts = [
            pointer(0, 1),
            pointer(0, 2),
            pointer(1, 2),
            pointer(1, 3),
            pointer(1, 4),
            pointer(0, 4),
            key(true),
            pointer(0, 5),
            key(false),
        ];
        for act in acts {
            assert!(inputs.push(act));
        }
        let left: Vec<Act> = std::iter::from_fn(|| inputs.take()).collect();
        let kept = [pointer(0, 2), pointer(1, 4), pointer(0, 4), key(true), pointer(0, 5), key(false)];
        assert_eq!(left, kept);
        assert_eq!(inputs.lock().bytes, 0);
    }

    #[test]
    fn without_a_server_nothing_is_kept() {
        let inputs = Inputs::default();
        assert!(!inputs.push(key(true)));
        inputs.set_open(true);
        assert!(inputs.push(key(true)));
        inputs.set_open(false);
        inputs.set_open(true);
        assert_eq!(inputs.take(), None);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_full_queue_is_no_place_for_more_until_some_is_taken() {
        let inputs = Inputs::default();
        inputs.set_open(true);
        inputs.room().await;
        inputs.push(Act::Input(PersonInput::Clipboard(ClipboardMessage::Paste("x".repeat(MOST)))));
        assert!(inputs.is_full());
        let (act, ()) = tokio::join!(inputs.next(), inputs.room());
        assert!(matches!(act, Act::Input(PersonInput::Clipboard(_))));
    }
}
