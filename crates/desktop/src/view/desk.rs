use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quickset_rfb::{
    Cursor, Damage, Framebuffer, Leds, Rect, Resize, ResizeReason, ResizeStatus, Screen, TooLarge,
};
use tokio::sync::Notify;

use super::inputs::{Act, Inputs};
use super::overlay::{Overlay, OverlayWords};
use crate::message::{ClipboardMessage, PersonInput};
use crate::wishes::SizeWishes;

/// The desktop as viewers are shown it, and who watches.
///
/// It outlives connections to the server: the last picture stays. For each viewer there is what it has not
/// been told yet: an area and some flags, never pixels or messages, so that one that does not read costs
/// nothing more.
#[derive(Debug)]
pub(crate) struct ViewerScreen {
    state: Mutex<ViewerScreenState>,
    /// There is a first picture, or a blank one in its place.
    begun: Notify,
    pub(crate) inputs: Inputs,
}

#[derive(Debug)]
pub(crate) struct ViewerScreenState {
    pub(crate) screen: Framebuffer,
    pub(crate) name: String,
    /// The same without what there is to say of the connection.
    server_name: String,
    pub(crate) cursor: Option<Cursor>,
    /// Where a viewer has put the pointer last, or a recording.
    pub(crate) pointer: Option<(u16, u16)>,
    /// The pointer is a part of the picture, and not that of viewers.
    pub(crate) has_pointer: bool,
    pub(crate) leds: Option<Leds>,
    /// Words in a corner of the picture.
    pub(crate) overlay: Overlay,
    /// The server's text, if it has come.
    pub(crate) text: Option<Arc<str>>,
    layout: Vec<Screen>,
    /// The size that goes with it: the screen has it already, or will soon.
    agreed: Option<(u16, u16)>,
    begun: bool,
    viewers: BTreeMap<u64, ViewerSlot>,
    next: u64,
    /// What viewers wish of the server, and whether they may.
    wishes: SizeWishes,
    may_wish: bool,
    /// Who has copied a text.
    copier: Option<u64>,
}

#[derive(Debug)]
struct ViewerSlot {
    news: ViewerNews,
    wake: Arc<Notify>,
    wants_text: bool,
    /// It is shown where the pointer is.
    follows_pointer: bool,
}

/// What a viewer has not been told yet.
#[derive(Debug, Default)]
pub(crate) struct ViewerNews {
    pub(crate) damage: Damage,
    pub(crate) size: bool,
    pub(crate) answers: SizeAnswers,
    pub(crate) cursor: bool,
    pub(crate) name: bool,
    pub(crate) leds: bool,
    pub(crate) bell: bool,
    pub(crate) clipboard: Option<ClipboardNews>,
    /// The server pastes what this viewer has copied.
    pub(crate) asked: bool,
}

/// What became of a viewer's wishes for another size, in their order.
#[derive(Debug, Default)]
pub(crate) struct SizeAnswers(VecDeque<ResizeStatus>);

/// News of the server's clipboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClipboardNews {
    /// There is a text, to be asked for.
    Offered,
    /// The text is there.
    Here {
        /// This viewer has asked for it.
        wanted: bool,
    },
}

/// A viewer's place at the desk, empty again when dropped.
#[derive(Debug)]
pub(crate) struct ViewerSeat {
    desk: Arc<ViewerScreen>,
    id: u64,
    pub(crate) wake: Arc<Notify>,
}

impl ViewerScreen {
    pub(crate) fn new(max_bytes: usize) -> Self {
        let screen = Framebuffer::new(0, 0, max_bytes).expect("nothing fits everywhere");
        let state = ViewerScreenState {
            screen,
            name: String::new(),
            server_name: String::new(),
            cursor: None,
            pointer: None,
            has_pointer: false,
            leds: None,
            overlay: Overlay::default(),
            text: None,
            layout: Vec::new(),
            agreed: None,
            begun: false,
            viewers: BTreeMap::new(),
            next: 0,
            wishes: SizeWishes::default(),
            may_wish: false,
            copier: None,
        };
        Self { state: Mutex::new(state), begun: Notify::new(), inputs: Inputs::default() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, ViewerScreenState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is no picture yet, and somebody wants to see one: a black one, and a name that says why.
    pub(crate) fn begin_blank(&self) {
        let mut state = self.lock();
        if state.begun || state.screen.resize(BLANK.0, BLANK.1).is_err() {
            return;
        }
        state.begun = true;
        if state.name.is_empty() {
            "(no connection yet; trying)".clone_into(&mut state.name);
        }
        drop(state);
        self.begun.notify_waiters();
    }

    /// Waits for the first picture.
    pub(crate) async fn begun(&self) {
        loop {
            let notified = self.begun.notified();
            if self.lock().begun {
                return;
            }
            notified.await;
        }
    }

    /// A viewer sits down: everything is news to it.
    pub(crate) fn sit(self: &Arc<Self>) -> ViewerSeat {
        let mut state = self.lock();
        let id = state.next;
        state.next += 1;
        let wake = Arc::new(Notify::new());
        let news = ViewerNews { cursor: true, leds: true, ..ViewerNews::default() };
        state
            .viewers
            .insert(id, ViewerSlot { news, wake: wake.clone(), wants_text: false, follows_pointer: true });
        ViewerSeat { desk: self.clone(), id, wake }
    }

    /// The screen has another size. What is in both stays.
    pub(crate) fn resize(&self, width: u16, height: u16) -> Result<(), TooLarge> {
        let mut state = self.lock();
        if (state.screen.width(), state.screen.height()) != (width, height) {
            state.screen.resize(width, height)?;
            let bounds = state.screen.bounds();
            state.tell(|news| {
                news.damage = Damage::from(bounds);
                news.size = true;
            });
        }
        state.begun = true;
        drop(state);
        self.begun.notify_waiters();
        Ok(())
    }

    /// Pixels have changed, as `damage` says: they are as in `from`, which has the same size.
    pub(crate) fn draw(&self, from: &Framebuffer, damage: &Damage) {
        let mut state = self.lock();
        let bounds = state.screen.bounds().intersection(from.bounds());
        let mut area = damage.area();
        area.clip(bounds);
        for &rect in area.rects() {
            let taken = state.screen.take(rect, from);
            debug_assert_eq!(taken, Ok(()), "both hold the rectangle");
        }
        state.tell(|news| {
            news.damage.then(damage);
            news.damage.clip(bounds);
        });
    }

    pub(crate) fn set_cursor(&self, cursor: Cursor) {
        let mut state = self.lock();
        state.cursor = Some(cursor);
        state.tell(|news| news.cursor = true);
    }

    /// The pointer in the picture, whatever viewers do with theirs: it is painted for all of them.
    pub(crate) fn show_pointer(&self, cursor: Option<&Cursor>, at: Option<(u16, u16)>) {
        let mut state = self.lock();
        if state.has_pointer && state.cursor.as_ref() == cursor && state.pointer == at {
            return;
        }
        (state.has_pointer, state.pointer) = (true, at);
        state.cursor = cursor.cloned();
        state.tell(|news| news.cursor = true);
    }

    pub(crate) fn set_name(&self, name: &str) {
        let mut state = self.lock();
        name.clone_into(&mut state.server_name);
        state.set_title(name.to_owned());
    }

    /// The name that the server has told.
    pub(crate) fn server_name(&self) -> String {
        self.lock().server_name.clone()
    }

    /// Somebody watches.
    pub(crate) fn has_viewers(&self) -> bool {
        !self.lock().viewers.is_empty()
    }

    /// There is no session with the server, for this reason; the next one, if there is one, tells the name
    /// again.
    pub(crate) fn set_away(&self, reason: &str, again: bool) {
        let mut state = self.lock();
        for viewer in state.wishes.give_up() {
            state.answer(viewer, ResizeStatus::Prohibited);
        }
        let then = if again { "; trying again" } else { "" };
        let reason = reason.lines().next().unwrap_or_default();
        let title = format!("{} (no connection: {reason}{then})", state.server_name);
        state.set_title(title.trim_start().to_owned());
    }

    /// Something that viewers read beside the name, until it is told or cleared.
    pub(crate) fn set_notice(&self, notice: Option<&str>) {
        let mut state = self.lock();
        let name = &state.server_name;
        let title = notice.map_or_else(|| name.clone(), |notice| format!("{name} ({notice})"));
        state.set_title(title);
    }

    /// Words are shown in a corner from now on, when there are some.
    pub(crate) fn begin_overlay(&self) {
        self.lock().overlay.begin();
    }

    /// The words in the corner.
    pub(crate) fn set_overlay(&self, lines: &[String]) {
        let mut state = self.lock();
        let bounds = state.screen.bounds();
        let words = OverlayWords::new(lines, bounds);
        state.change_overlay(|overlay| overlay.set(words));
    }

    /// Whether the server takes wishes for another size (DT-8): it is silent about those it does not.
    pub(crate) fn set_may_wish(&self, may: bool) {
        self.lock().may_wish = may;
    }

    pub(crate) fn set_leds(&self, leds: Leds) {
        let mut state = self.lock();
        state.leds = Some(leds);
        state.tell(|news| news.leds = true);
    }

    pub(crate) fn bell(&self) {
        self.lock().tell(|news| news.bell = true);
    }

    /// The server answers a wish, or says how its screens are laid out.
    pub(crate) fn set_layout(&self, resize: &Resize) {
        let mut state = self.lock();
        let done = resize.status == ResizeStatus::Done;
        if done {
            state.layout.clone_from(&resize.screens);
            state.agreed = Some((resize.width, resize.height));
            state.tell(|news| news.size = true);
        }
        if resize.reason != ResizeReason::ThisClient {
            return;
        }
        let granted = done.then_some((resize.width, resize.height));
        for viewer in state.wishes.answered(granted) {
            state.answer(viewer, resize.status);
        }
    }

    /// Somebody copied a text at the server.
    pub(crate) fn text_offered(&self) {
        let mut state = self.lock();
        (state.text, state.copier) = (None, None);
        state.tell(|news| news.clipboard = Some(ClipboardNews::Offered));
    }

    /// The server's text, asked for or not.
    pub(crate) fn text_came(&self, text: &str) {
        let mut state = self.lock();
        state.text = Some(text.into());
        for slot in state.viewers.values_mut() {
            let wanted = std::mem::take(&mut slot.wants_text);
            slot.news.clipboard = Some(ClipboardNews::Here { wanted });
            slot.wake.notify_one();
        }
    }

    /// The server pastes: whoever copied a text last is asked for it.
    pub(crate) fn text_asked(&self) {
        let mut state = self.lock();
        let copier = state.copier;
        let Some(slot) = copier.and_then(|id| state.viewers.get_mut(&id)) else {
            drop(state);
            // Whoever waits for it must not wait for ever.
            self.inputs.push(Act::Input(PersonInput::Clipboard(ClipboardMessage::Paste(String::new()))));
            return;
        };
        slot.news.asked = true;
        slot.wake.notify_one();
    }
}

impl ViewerScreenState {
    /// The size and screens as a viewer is told.
    pub(crate) fn resize_for(&self, reason: ResizeReason, status: ResizeStatus) -> Resize {
        let (width, height) = (self.screen.width(), self.screen.height());
        let bounds = self.screen.bounds();
        let fits = !self.layout.is_empty() && self.layout.iter().all(|s| bounds.contains(s.rect));
        let whole = || vec![Screen { id: 0, rect: bounds, flags: 0 }];
        let screens = if fits { self.layout.clone() } else { whole() };
        Resize { width, height, reason, status, screens }
    }

    /// The screen has the size that was agreed on.
    pub(crate) fn has_settled(&self) -> bool {
        self.agreed.is_none_or(|size| size == (self.screen.width(), self.screen.height()))
    }

    fn answer(&mut self, viewer: u64, status: ResizeStatus) {
        if let Some(slot) = self.viewers.get_mut(&viewer) {
            slot.news.answers.push(status);
            slot.wake.notify_one();
        }
    }

    fn set_title(&mut self, title: String) {
        if self.name != title {
            self.name = title;
            self.tell(|news| news.name = true);
        }
    }

    /// Somebody wants to see the words in the corner, or not.
    pub(crate) fn toggle_overlay(&mut self) {
        self.change_overlay(Overlay::toggle);
    }

    /// What is below the words, before and after, is drawn again.
    fn change_overlay(&mut self, change: impl FnOnce(&mut Overlay)) {
        let bounds = self.screen.bounds();
        let area = |overlay: &Overlay| overlay.shown().map_or(Rect::EMPTY, |words| words.area(bounds));
        let before = area(&self.overlay);
        change(&mut self.overlay);
        let after = area(&self.overlay);
        if !(before.is_empty() && after.is_empty()) {
            self.tell(|news| {
                news.damage.add(before);
                news.damage.add(after);
            });
        }
    }

    fn set_pointer(&mut self, x: u16, y: u16) {
        if !self.has_pointer && self.pointer.replace((x, y)) != Some((x, y)) {
            self.viewers.values().filter(|slot| slot.follows_pointer).for_each(|slot| slot.wake.notify_one());
        }
    }

    fn tell(&mut self, what: impl Fn(&mut ViewerNews)) {
        for slot in self.viewers.values_mut() {
            what(&mut slot.news);
            slot.wake.notify_one();
        }
    }
}

impl ViewerSeat {
    /// Looks at the desk and at what this viewer has not been told.
    pub(crate) fn look<T>(&self, at: impl FnOnce(&mut ViewerScreenState, &mut ViewerNews) -> T) -> T {
        let mut state = self.desk.lock();
        let slot = state.viewers.get_mut(&self.id).expect("the seat is taken until it is dropped");
        let mut news = std::mem::take(&mut slot.news);
        let seen = at(&mut state, &mut news);
        let slot = state.viewers.get_mut(&self.id).expect("it was there");
        slot.news = news;
        seen
    }

    /// This viewer does something; false when there is no server to take it.
    pub(crate) fn act(&self, act: Act) -> bool {
        let mut state = self.desk.lock();
        match &act {
            Act::Wish { .. } if !state.may_wish => return false,
            Act::Wish { width, height, .. } => {
                // Under the lock, or the answer could be there before.
                let size = (*width, *height);
                let sent = self.desk.inputs.push(act);
                if sent {
                    state.wishes.add(self.id, size);
                }
                return sent;
            }
            Act::Input(PersonInput::Clipboard(ClipboardMessage::Ask)) => {
                if let Some(slot) = state.viewers.get_mut(&self.id) {
                    slot.wants_text = true;
                }
            }
            Act::Input(PersonInput::Clipboard(_)) => state.copier = Some(self.id),
            Act::Input(PersonInput::Pointer { x, y, .. }) => state.set_pointer(*x, *y),
            Act::Input(_) => {}
        }
        drop(state);
        self.desk.inputs.push(act)
    }

    /// Words in the corner are shown to all viewers, or not.
    pub(crate) fn toggle_overlay(&self) {
        self.desk.lock().toggle_overlay();
    }

    /// This viewer is told when the pointer moves, or not.
    pub(crate) fn set_follows_pointer(&self, follows: bool) {
        if let Some(slot) = self.desk.lock().viewers.get_mut(&self.id) {
            slot.follows_pointer = follows;
        }
    }

    /// The area that is to be drawn again.
    pub(crate) fn dirty(&self, rect: Rect) {
        self.look(|_, news| news.damage.add(rect));
    }

    pub(crate) fn inputs(&self) -> &Inputs {
        &self.desk.inputs
    }
}

impl Drop for ViewerSeat {
    fn drop(&mut self) {
        self.desk.lock().viewers.remove(&self.id);
    }
}

impl SizeAnswers {
    /// One more, for a viewer that may not read.
    pub(crate) fn push(&mut self, status: ResizeStatus) {
        if self.0.len() == MOST_ANSWERS {
            self.0.pop_front();
        }
        self.0.push_back(status);
    }

    /// Takes the next that can be told: one that is granted waits until the screen is as agreed.
    pub(crate) fn next(&mut self, desk: &ViewerScreenState) -> Option<ResizeStatus> {
        let first = *self.0.front()?;
        (first != ResizeStatus::Done || desk.has_settled()).then(|| self.0.pop_front())?
    }
}

/// Columns and rows of a screen of which nothing is known: room for a title above it.
const BLANK: (u16, u16) = (640, 480);
/// Answers that wait for a viewer that does not read.
const MOST_ANSWERS: usize = 32;
