use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use quickset_base::Time;
use quickset_rfb::{
    ClientEvent, Cursor, Framebuffer, Leds, PixelFormat, Rect, Resize, ResizeReason, ResizeStatus,
    RfbVersion, Screen, ServerInit,
};
use tokio::sync::Notify;

use crate::message::{ClipboardMessage, FromServer, ScreenLayout};
use crate::sender::{ScreenSender, SenderConfig};
use crate::wishes::SizeWishes;

/// What the VNC server shows, and who watches. Clones are handles of the same one.
///
/// It outlives connections to the VNC server: the last picture stays. Each client has a [`ScreenSender`] of
/// its own, which knows what that client has not been sent yet, and some flags for what goes on the control
/// stream: nothing that grows while a client does not read.
#[derive(Clone, Debug)]
pub(crate) struct ServerScreen {
    state: Arc<Mutex<ServerScreenState>>,
    clock: StageClock,
}

/// The time as senders count it.
#[derive(Clone, Debug)]
enum StageClock {
    /// Since then.
    Real(Instant),
    /// What a test says.
    #[cfg(test)]
    Played(Arc<Mutex<Time>>),
}

#[derive(Debug)]
struct ServerScreenState {
    screen: Framebuffer,
    /// There has been a VNC server.
    begun: bool,
    /// There is one now.
    there: bool,
    /// Why it is not, if that will not pass by itself.
    trouble: Option<String>,
    name: String,
    cursor: Option<Cursor>,
    leds: Option<Leds>,
    layout: Option<ScreenLayout>,
    clients: BTreeMap<u64, ClientSlot>,
    next: u64,
    /// What clients wish of the VNC server.
    wishes: SizeWishes,
    /// Who has copied a text.
    copier: Option<u64>,
}

#[derive(Debug)]
struct ClientSlot {
    sender: Arc<Mutex<ScreenSender>>,
    news: ClientNews,
    wants_text: bool,
    texts: Texts,
    told: Arc<Notify>,
    drawn: Arc<Notify>,
    copied: Arc<Notify>,
}

/// What a client has not been told on the control stream yet.
#[derive(Debug, Default)]
struct ClientNews {
    name: bool,
    cursor: bool,
    leds: bool,
    bell: bool,
    layouts: Layouts,
}

/// Sizes that a client has not been told, and answers to its wishes.
#[derive(Debug, Default)]
struct Layouts(VecDeque<ScreenLayout>);

/// What a client has not been told of the clipboard.
#[derive(Debug, Default)]
struct Texts {
    /// The newest.
    clipboard: Option<ClipboardMessage>,
    ask: bool,
}

/// A client's place in front of the stage, empty again when dropped.
#[derive(Debug)]
pub(crate) struct ClientSeat {
    stage: ServerScreen,
    id: u64,
    sender: Arc<Mutex<ScreenSender>>,
    /// There is something for the control stream.
    pub(crate) told: Arc<Notify>,
    /// There is something for the screen stream.
    pub(crate) drawn: Arc<Notify>,
    /// There is something of the clipboard.
    pub(crate) copied: Arc<Notify>,
}

impl ServerScreen {
    pub(crate) fn new(max_bytes: usize) -> Self {
        let state = ServerScreenState {
            screen: Framebuffer::new(0, 0, max_bytes).expect("nothing fits everywhere"),
            begun: false,
            there: false,
            trouble: None,
            name: String::new(),
            cursor: None,
            leds: None,
            layout: None,
            clients: BTreeMap::new(),
            next: 0,
            wishes: SizeWishes::default(),
            copier: None,
        };
        Self { state: Arc::new(Mutex::new(state)), clock: StageClock::Real(Instant::now()) }
    }

    /// The same in virtual time, which is what is written there.
    #[cfg(test)]
    pub(crate) fn played(max_bytes: usize, time: Arc<Mutex<Time>>) -> Self {
        Self { clock: StageClock::Played(time), ..Self::new(max_bytes) }
    }

    /// The time as senders count it.
    pub(crate) fn now(&self) -> Time {
        match &self.clock {
            StageClock::Real(started) => Time::ZERO + started.elapsed(),
            #[cfg(test)]
            StageClock::Played(time) => *time.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// The name of the desktop, as people are told it.
    pub(crate) fn title(&self) -> String {
        self.lock().title()
    }

    /// A client sits down: everything is news to it.
    pub(crate) fn sit(&self, config: SenderConfig) -> ClientSeat {
        let now = self.now();
        let mut state = self.lock();
        let mut sender = ScreenSender::new(config);
        if state.begun {
            let screen = &state.screen;
            let pixels = ClientEvent::Pixels { rect: screen.bounds(), pixels: screen.pixels() };
            for event in [ready(screen, ""), pixels, ClientEvent::UpdateEnd] {
                draw(&mut sender, now, &event);
            }
        }
        let id = state.next;
        state.next += 1;
        let news = ClientNews {
            // It may have changed since the client was told.
            name: true,
            cursor: state.cursor.is_some(),
            leds: state.leds.is_some(),
            layouts: Layouts(state.layout.clone().into_iter().collect()),
            ..ClientNews::default()
        };
        let [told, drawn, copied] = [(); 3].map(|()| Arc::new(Notify::new()));
        let sender = Arc::new(Mutex::new(sender));
        let slot = ClientSlot {
            sender: sender.clone(),
            news,
            wants_text: false,
            texts: Texts::default(),
            told: told.clone(),
            drawn: drawn.clone(),
            copied: copied.clone(),
        };
        state.clients.insert(id, slot);
        told.notify_one();
        ClientSeat { stage: self.clone(), id, sender, told, drawn, copied }
    }

    /// The VNC server is there.
    pub(crate) fn begin(&self, width: u16, height: u16, name: &str) -> bool {
        let mut state = self.lock();
        if let Err(error) = state.screen.resize(width, height) {
            tracing::warn!(%error, "the VNC server's screen");
            return false;
        }
        (state.begun, state.there, state.trouble) = (true, true, None);
        name.clone_into(&mut state.name);
        let now = self.now();
        let init = ready(&state.screen, name);
        state.each_sender(now, &init);
        state.tell(|news| news.name = true);
        true
    }

    /// The VNC server is gone, and why if that is likely to be so again; what it showed last stays.
    pub(crate) fn lost(&self, why: Option<String>) {
        let mut state = self.lock();
        let was_there = std::mem::take(&mut state.there);
        let known = std::mem::replace(&mut state.trouble, why);
        if was_there || known != state.trouble {
            state.tell(|news| news.name = true);
        }
        for client in state.wishes.give_up() {
            state.prohibit(client);
        }
    }

    pub(crate) fn pixels(&self, rect: Rect, pixels: &[u32]) {
        let mut state = self.lock();
        let put = state.screen.put(rect, pixels);
        debug_assert_eq!(put, Ok(()), "RFB has checked it");
        state.each_sender(self.now(), &ClientEvent::Pixels { rect, pixels });
    }

    pub(crate) fn copy(&self, rect: Rect, x: u16, y: u16) {
        let mut state = self.lock();
        let copied = state.screen.copy(rect, x, y);
        debug_assert_eq!(copied, Ok(()), "RFB has checked it");
        state.each_sender(self.now(), &ClientEvent::Copy { rect, x, y });
    }

    pub(crate) fn update_end(&self) {
        let state = self.lock();
        state.each_sender(self.now(), &ClientEvent::UpdateEnd);
        state.clients.values().for_each(|slot| slot.drawn.notify_one());
    }

    /// The screen has another size, or a wish was not granted. False when it is too large.
    pub(crate) fn resize(&self, resize: Resize) -> bool {
        let mut state = self.lock();
        if resize.status == ResizeStatus::Done {
            if let Err(error) = state.screen.resize(resize.width, resize.height) {
                tracing::warn!(%error, "the VNC server's screen");
                return false;
            }
        }
        let granted = (resize.status == ResizeStatus::Done).then_some((resize.width, resize.height));
        let askers = match resize.reason {
            ResizeReason::ThisClient => state.wishes.answered(granted),
            _ => Vec::new(),
        };
        let Resize { width, height, reason, status, screens } = resize.clone();
        state.each_sender(self.now(), &ClientEvent::Resize(resize));
        let layout = ScreenLayout { reason: ResizeReason::Server, status, width, height, screens };
        if status == ResizeStatus::Done {
            state.layout = Some(layout.clone());
        }
        for (id, slot) in &mut state.clients {
            let others = match reason {
                ResizeReason::ThisClient | ResizeReason::OtherClient => ResizeReason::OtherClient,
                ResizeReason::Server => reason,
            };
            // One for each of its wishes.
            let answers = askers.iter().filter(|asker| *asker == id).count();
            for _ in 0..answers {
                slot.news.layouts.push(ScreenLayout { reason: ResizeReason::ThisClient, ..layout.clone() });
            }
            // That a wish was not granted is for the one who had it.
            if status == ResizeStatus::Done && answers == 0 {
                slot.news.layouts.push(ScreenLayout { reason: others, ..layout.clone() });
            }
            slot.told.notify_one();
            slot.drawn.notify_one();
        }
        true
    }

    /// DT-55: one screen that is all of the desktop, which keeps who it is.
    pub(crate) fn one_screen(&self, width: u16, height: u16) -> Vec<Screen> {
        let state = self.lock();
        let first = state.layout.as_ref().and_then(|layout| layout.screens.first());
        let (id, flags) = first.map_or((0, 0), |screen| (screen.id, screen.flags));
        vec![Screen { id, rect: Rect::sized(width, height), flags }]
    }

    /// A client's wish was told to the VNC server.
    pub(crate) fn wished(&self, client: u64, size: (u16, u16)) {
        self.lock().wishes.add(client, size);
    }

    /// A client's wish cannot even be told to the VNC server.
    pub(crate) fn prohibited(&self, client: u64) {
        self.lock().prohibit(client);
    }

    pub(crate) fn cursor(&self, cursor: Cursor) {
        let mut state = self.lock();
        state.cursor = Some(cursor);
        state.tell(|news| news.cursor = true);
    }

    pub(crate) fn name(&self, name: &str) {
        let mut state = self.lock();
        name.clone_into(&mut state.name);
        state.tell(|news| news.name = true);
    }

    pub(crate) fn leds(&self, leds: Leds) {
        let mut state = self.lock();
        state.leds = Some(leds);
        state.tell(|news| news.leds = true);
    }

    pub(crate) fn bell(&self) {
        self.lock().tell(|news| news.bell = true);
    }

    /// Somebody copied a text at the VNC server.
    pub(crate) fn offer(&self) {
        let mut state = self.lock();
        state.copier = None;
        for slot in state.clients.values_mut() {
            slot.copy(|texts| texts.clipboard = Some(ClipboardMessage::Offer));
        }
    }

    /// The VNC server's text, which clients asked for.
    pub(crate) fn text_given(&self, text: &str) {
        let mut state = self.lock();
        for slot in state.clients.values_mut().filter(|slot| slot.wants_text) {
            slot.wants_text = false;
            slot.copy(|texts| texts.clipboard = Some(ClipboardMessage::Paste(text.to_owned())));
        }
    }

    /// The text of a VNC server that gives every text to everybody.
    pub(crate) fn text(&self, text: &str) {
        let mut state = self.lock();
        state.copier = None;
        for slot in state.clients.values_mut() {
            slot.copy(|texts| texts.clipboard = Some(ClipboardMessage::Paste(text.to_owned())));
        }
    }

    /// The VNC server pastes: whoever copied a text last is asked for it. False when nobody did.
    pub(crate) fn ask(&self) -> bool {
        let mut state = self.lock();
        let copier = state.copier;
        let Some(slot) = copier.and_then(|id| state.clients.get_mut(&id)) else { return false };
        slot.copy(|texts| texts.ask = true);
        true
    }

    fn lock(&self) -> MutexGuard<'_, ServerScreenState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServerScreenState {
    fn title(&self) -> String {
        if self.there {
            return self.name.clone();
        }
        // What is said behind it is to be read, however long it is.
        let name: String = self.name.chars().take(SHORT).collect();
        match (name.as_str(), &self.trouble) {
            ("", None) => "(waiting for the VNC server)".to_owned(),
            ("", Some(why)) => format!("(the VNC server cannot be shown: {why})"),
            (name, None) => format!("{name} (the VNC server is away)"),
            (name, Some(why)) => format!("{name} (the VNC server cannot be shown: {why})"),
        }
    }

    fn tell(&mut self, what: impl Fn(&mut ClientNews)) {
        for slot in self.clients.values_mut() {
            what(&mut slot.news);
            slot.told.notify_one();
        }
    }

    fn prohibit(&mut self, client: u64) {
        let Some(slot) = self.clients.get_mut(&client) else { return };
        let (reason, status) = (ResizeReason::ThisClient, ResizeStatus::Prohibited);
        slot.news.layouts.push(ScreenLayout { reason, status, width: 0, height: 0, screens: Vec::new() });
        slot.told.notify_one();
    }

    /// All senders hear of all that is drawn, in order.
    fn each_sender(&self, now: Time, event: &ClientEvent<'_>) {
        for slot in self.clients.values() {
            let mut sender = slot.sender.lock().unwrap_or_else(PoisonError::into_inner);
            let before = sender.patience();
            draw(&mut sender, now, event);
            // An update that takes long is shown in parts: somebody has to know when.
            if before.is_none() && sender.patience().is_some() {
                slot.drawn.notify_one();
            }
        }
    }
}

impl Layouts {
    /// A size takes the place of one before it that was not told; answers are told each, as many as a client
    /// that reads leaves waiting.
    fn push(&mut self, layout: ScreenLayout) {
        if self.0.back().is_some_and(|last| last.reason != ResizeReason::ThisClient) {
            self.0.pop_back();
        }
        if self.0.len() == MOST_ANSWERS {
            self.0.pop_front();
        }
        self.0.push_back(layout);
    }
}

impl ClientSlot {
    fn copy(&mut self, what: impl FnOnce(&mut Texts)) {
        what(&mut self.texts);
        self.copied.notify_one();
    }
}

impl ClientSeat {
    /// The client's sender. Not to be held for long: the VNC server waits meanwhile.
    pub(crate) fn sender(&self) -> MutexGuard<'_, ScreenSender> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client's sender, for whoever counts.
    pub(crate) fn share(&self) -> Arc<Mutex<ScreenSender>> {
        self.sender.clone()
    }

    pub(crate) fn now(&self) -> Time {
        self.stage.now()
    }

    /// Takes what is to be told on the control stream.
    pub(crate) fn news(&self) -> Vec<FromServer> {
        let mut state = self.stage.lock();
        let Some(slot) = state.clients.get_mut(&self.id) else { return Vec::new() };
        let mut news = std::mem::take(&mut slot.news);
        let mut out = Vec::new();
        if news.name {
            out.push(FromServer::Name(state.title()));
        }
        out.extend(state.cursor.clone().filter(|_| news.cursor).map(FromServer::Cursor));
        out.extend(state.leds.filter(|_| news.leds).map(FromServer::Leds));
        out.extend(news.layouts.0.drain(..).map(FromServer::Layout));
        if news.bell {
            out.push(FromServer::Bell);
        }
        out
    }

    /// Takes what is to be told of the clipboard.
    pub(crate) fn texts(&self) -> Vec<ClipboardMessage> {
        let mut state = self.stage.lock();
        let Some(slot) = state.clients.get_mut(&self.id) else { return Vec::new() };
        let texts = std::mem::take(&mut slot.texts);
        texts.clipboard.into_iter().chain(texts.ask.then_some(ClipboardMessage::Ask)).collect()
    }

    /// This client has copied a text.
    pub(crate) fn copied(&self) {
        self.stage.lock().copier = Some(self.id);
    }

    /// This client pastes.
    pub(crate) fn wants_text(&self) {
        if let Some(slot) = self.stage.lock().clients.get_mut(&self.id) {
            slot.wants_text = true;
        }
    }

    /// What the client is called in commands.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for ClientSeat {
    fn drop(&mut self) {
        self.stage.lock().clients.remove(&self.id);
    }
}

fn draw(sender: &mut ScreenSender, now: Time, event: &ClientEvent<'_>) {
    // What goes on the control stream comes from the stage, which knows who had which wish.
    if let Err(error) = sender.rfb(now, event) {
        tracing::error!(%error, "the sender does not follow the screen");
    }
}

fn ready(screen: &Framebuffer, name: &str) -> ClientEvent<'static> {
    ClientEvent::Ready(ServerInit {
        width: screen.width(),
        height: screen.height(),
        format: PixelFormat::XRGB,
        name: name.to_owned(),
        version: RfbVersion::V38,
    })
}

/// Answers to wishes that wait for a client that does not read.
const MOST_ANSWERS: usize = 32;

/// Characters of a name that has something behind it.
const SHORT: usize = 100;
