use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use quickset_base::Time;
use quickset_rfb::Screen;
use quickset_screen::visit::InputLog;
use tokio::sync::Notify;

use crate::message::{MessageFault, PersonInput, Welcome};

/// What viewers do, on its way to the server: bounded, in order, and kept until the server has passed it on,
/// or for ten seconds without a session.
#[derive(Debug)]
pub(crate) struct Inputs {
    state: Mutex<InputsState>,
    /// Something can be taken.
    ready: Notify,
    /// Something was taken.
    room: Notify,
    started: Instant,
}

#[derive(Debug, Default)]
struct InputsState {
    log: InputLog,
    /// Other sizes: for the session that there is alone.
    wishes: VecDeque<Act>,
}

/// One thing that a viewer does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// For the input stream.
    Input(PersonInput),
    /// Another size of the desktop, for the control stream.
    Wish { width: u16, height: u16, screens: Vec<Screen> },
}

impl Default for Inputs {
    fn default() -> Self {
        let (state, ready, room) = (Mutex::default(), Notify::new(), Notify::new());
        Self { state, ready, room, started: Instant::now() }
    }
}

impl Inputs {
    /// Adds an act; false when there is nobody to take it.
    pub(crate) fn push(&self, act: Act) -> bool {
        let mut state = self.lock();
        let taken = match act {
            Act::Input(input) => state.log.push(self.now(), input),
            wish @ Act::Wish { .. } => {
                let is_open = state.log.is_open() && state.wishes.len() < MOST_WISHES;
                if is_open {
                    state.wishes.push_back(wish);
                }
                is_open
            }
        };
        drop(state);
        self.ready.notify_one();
        taken
    }

    /// Viewers should not be read on. Without a session they are, or what they said would come later, and
    /// nobody would know how much.
    pub(crate) fn is_full(&self) -> bool {
        let state = self.lock();
        state.log.is_open() && state.log.unsent_bytes() > MOST
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

    /// There is a server now, which says this. True when something that was done before will not be sent.
    ///
    /// # Errors
    /// When it says that it has passed on what it was not sent.
    pub(crate) fn begin(&self, welcome: &Welcome) -> Result<bool, MessageFault> {
        let missed = self.lock().log.begin(self.now(), welcome);
        self.ready.notify_one();
        missed
    }

    /// The server has passed on so much.
    ///
    /// # Errors
    /// As in [`begin`](Self::begin).
    pub(crate) fn taken(&self, count: u64) -> Result<(), MessageFault> {
        self.lock().log.taken(count)?;
        self.ready.notify_one();
        Ok(())
    }

    /// There is no server any more.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.log.end();
        state.wishes.clear();
        drop(state);
        self.room.notify_waiters();
    }

    fn take(&self) -> Option<Act> {
        let mut state = self.lock();
        let wish = state.wishes.pop_front();
        let act = wish.or_else(|| state.log.next_input().map(Act::Input))?;
        drop(state);
        self.room.notify_waiters();
        Some(act)
    }

    fn now(&self) -> Time {
        Time::ZERO + self.started.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, InputsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Some thousands of key presses, or one text.
const MOST: usize = 256 << 10;
/// Wishes that wait to be sent: a window that is resized has some.
const MOST_WISHES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{ClipboardMessage, Permissions, ScreenOrder, VisitCount};

    fn welcome(taken: u64) -> Welcome {
        let visit = Some(VisitCount { resumed: taken > 0, taken });
        let (order, permissions, name) = (ScreenOrder::Fenced, Permissions::ALL, String::new());
        Welcome { features: 0, order, permissions, name, visit }
    }

    fn open() -> Inputs {
        let inputs = Inputs::default();
        assert_eq!(inputs.begin(&welcome(0)), Ok(false));
        inputs
    }

    fn key(down: bool) -> Act {
        Act::Input(PersonInput::Key { down, keysym: 0x61, keycode: None })
    }

    #[test]
    fn without_a_server_keys_are_kept_and_wishes_are_not() {
        let inputs = Inputs::default();
        let wish = Act::Wish { width: 9, height: 9, screens: Vec::new() };
        assert!(!inputs.push(key(true)) && !inputs.push(wish.clone()), "nobody has seen anything yet");
        inputs.begin(&welcome(0)).unwrap();
        assert!(inputs.push(key(true)) && inputs.push(wish.clone()));
        assert_eq!(
            (inputs.take(), inputs.take(), inputs.take()),
            (Some(wish.clone()), Some(key(true)), None)
        );
        inputs.end();
        assert!(inputs.push(key(false)) && !inputs.push(wish));
        inputs.begin(&welcome(1)).unwrap();
        assert_eq!((inputs.take(), inputs.take()), (Some(key(false)), None));
        assert!(inputs.taken(3).is_err() && inputs.taken(2).is_ok());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_full_queue_is_no_place_for_more_until_some_is_taken() {
        let inputs = open();
        inputs.room().await;
        inputs.push(Act::Input(PersonInput::Clipboard(ClipboardMessage::Paste("x".repeat(MOST)))));
        assert!(inputs.is_full());
        let (act, ()) = tokio::join!(inputs.next(), inputs.room());
        assert!(matches!(act, Act::Input(PersonInput::Clipboard(_))));
        // Whoever types while there is none is heard all the same.
        inputs.push(Act::Input(PersonInput::Clipboard(ClipboardMessage::Paste("x".repeat(MOST)))));
        inputs.end();
        assert!(!inputs.is_full());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_waits_for_a_count_goes_on_with_it() {
        let inputs = open();
        let paste = || Act::Input(PersonInput::Clipboard(ClipboardMessage::Paste("x".repeat(1 << 20))));
        for _ in 0..4 {
            assert!(inputs.push(paste()));
        }
        let first = std::iter::from_fn(|| inputs.take()).count();
        assert!(first < 4, "{first}");
        let heard = async { inputs.taken(1) };
        let (act, heard) = tokio::join!(inputs.next(), heard);
        assert_eq!((act, heard), (paste(), Ok(())));
    }
}
