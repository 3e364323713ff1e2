use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Buf as _;
use quickset_base::Rng;
use quickset_rfb::{
    Cursor, ExtendedClipboard, Framebuffer, Rect, Resize, ResizeReason, ResizeStatus, Screen, Security,
    Server, ServerConfig, ServerEvent,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

/// A VNC server that draws what it is told.
pub(crate) struct Vnc {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    orders: mpsc::UnboundedSender<Order>,
    task: JoinHandle<()>,
}

struct Shared {
    state: Mutex<State>,
    heard: Notify,
}

struct State {
    screen: Framebuffer,
    events: Vec<ServerEvent>,
    connections: usize,
    /// Orders that were not carried out yet.
    pending: usize,
}

impl super::person::Person {
    /// Waits until the screen is that of the VNC server.
    pub(crate) async fn sees(&mut self, vnc: &Vnc) {
        self.until("the same picture", |p| vnc.picture() == Some(p.screen.crc32())).await;
    }
}

/// What it is told.
pub(crate) enum Order {
    Fill(Rect, u32),
    Put(Rect, Vec<u32>),
    Copy(Rect, u16, u16),
    Resize(u16, u16),
    /// What becomes of a wish for this size.
    Answer(ResizeStatus, u16, u16),
    /// A pointer with so many columns.
    Cursor(u16),
    Text(String),
    /// By the extended clipboard, unasked.
    Give(String),
    Bell,
    /// Bytes that are no RFB.
    Bytes(Vec<u8>),
}

impl Vnc {
    pub(crate) async fn start(width: u16, height: u16) -> Self {
        Self::start_on("127.0.0.1:0".parse().unwrap(), width, height, Security::None).await
    }

    pub(crate) async fn start_on(address: SocketAddr, width: u16, height: u16, security: Security) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let screen = Framebuffer::new(width, height, 64 << 20).unwrap();
        let state = Mutex::new(State { screen, events: Vec::new(), connections: 0, pending: 0 });
        let shared = Arc::new(Shared { state, heard: Notify::new() });
        let (orders, mut incoming) = mpsc::unbounded_channel();
        let theirs = shared.clone();
        let task = tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                theirs.state.lock().unwrap().connections += 1;
                theirs.heard.notify_waiters();
                Connection::serve(socket, &theirs, &mut incoming, security.clone()).await;
            }
        });
        Self { address, shared, orders, task }
    }

    pub(crate) fn tell(&self, order: Order) {
        self.shared.state.lock().unwrap().pending += 1;
        self.orders.send(order).unwrap();
    }

    pub(crate) fn fill(&self, rect: Rect, colour: u32) {
        self.tell(Order::Fill(rect, colour));
    }

    /// What it has heard so far.
    pub(crate) fn events(&self) -> Vec<ServerEvent> {
        self.shared.state.lock().unwrap().events.clone()
    }

    /// Keys that it has heard, down and up.
    pub(crate) fn keys(&self) -> Vec<(bool, u32)> {
        let key = |event: &ServerEvent| match event {
            ServerEvent::Key { down, keysym, .. } => Some((*down, *keysym)),
            _ => None,
        };
        self.events().iter().filter_map(key).collect()
    }

    /// The sum of its pixels, once it has done all that it was told.
    pub(crate) fn picture(&self) -> Option<u32> {
        let state = self.shared.state.lock().unwrap();
        (state.pending == 0).then(|| state.screen.crc32())
    }

    pub(crate) fn connections(&self) -> usize {
        self.shared.state.lock().unwrap().connections
    }

    /// Waits until something is true.
    pub(crate) async fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let wait = async {
            loop {
                let heard = self.shared.heard.notified();
                if holds(self) {
                    return;
                }
                heard.await;
            }
        };
        let done = tokio::time::timeout(crate::LIMIT, wait).await;
        assert!(done.is_ok(), "in vain: {what}; heard {:?}", self.events());
    }

    /// Dies, with all its connections.
    pub(crate) async fn kill(mut self) -> SocketAddr {
        self.task.abort();
        let _ = (&mut self.task).await;
        self.address
    }
}

impl Drop for Vnc {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Connection<'a> {
    rfb: Server,
    shared: &'a Shared,
    wanted: bool,
    continuous: bool,
    dirty: quickset_rfb::Region,
    /// Told while nothing may be sent.
    waiting: Vec<Order>,
}

impl Connection<'_> {
    async fn serve(
        mut socket: TcpStream,
        shared: &Shared,
        orders: &mut mpsc::UnboundedReceiver<Order>,
        security: Security,
    ) {
        let (width, height) = {
            let state = shared.state.lock().unwrap();
            (state.screen.width(), state.screen.height())
        };
        let limits = quickset_rfb::Limits::default();
        let config = ServerConfig { security, name: "test".into(), width, height, is_local: true, limits };
        let rfb = Server::new(config, &mut Rng::new(1));
        let dirty = quickset_rfb::Region::new();
        let mut this =
            Connection { rfb, shared, wanted: false, continuous: false, dirty, waiting: Vec::new() };
        let (mut from, mut to) = socket.split();
        let mut input = vec![0; 65536];
        loop {
            this.draw();
            let waiting = this.rfb.output().len();
            tokio::select! {
                read = from.read(&mut input) => match read {
                    Ok(n) if n > 0 => if this.feed(&input[..n]).is_err() {
                        let _ = to.write_all(this.rfb.output()).await;
                        return;
                    },
                    _ => return,
                },
                written = async { to.write(this.rfb.output()).await }, if waiting > 0 => match written {
                    Ok(n) => this.rfb.output().advance(n),
                    Err(_) => return,
                },
                Some(order) = orders.recv() => this.waiting.push(order),
            }
        }
    }

    fn feed(&mut self, mut input: &[u8]) -> Result<(), quickset_rfb::Error> {
        while let Some(event) = self.rfb.receive(&mut input)? {
            match &event {
                ServerEvent::Request { incremental, rect } => {
                    self.wanted = true;
                    if !incremental {
                        self.dirty.add(*rect);
                    }
                }
                ServerEvent::ContinuousUpdates(rect) => self.continuous = rect.is_some(),
                _ => {
                    self.shared.state.lock().unwrap().events.push(event);
                    self.shared.heard.notify_waiters();
                }
            }
        }
        Ok(())
    }

    /// Carries out what it was told, each in an update of its own.
    fn draw(&mut self) {
        if !(self.wanted || self.continuous) {
            return;
        }
        let mut state = self.shared.state.lock().unwrap();
        for order in self.waiting.drain(..) {
            state.pending -= 1;
            match order {
                Order::Fill(rect, colour) => {
                    state.screen.fill(rect, colour).unwrap();
                    self.dirty.add(rect);
                }
                Order::Put(rect, pixels) => {
                    state.screen.put(rect, &pixels).unwrap();
                    self.dirty.add(rect);
                }
                Order::Copy(rect, x, y) => {
                    let mut update = self.rfb.update().unwrap();
                    for rect in self.dirty.take().rects() {
                        update.raw(*rect, &state.screen).unwrap();
                    }
                    state.screen.copy(rect, x, y).unwrap();
                    update.copy(rect, x, y).unwrap();
                }
                Order::Resize(width, height) => {
                    state.screen.resize(width, height).unwrap();
                    self.dirty.clip(state.screen.bounds());
                    let (reason, status) = (ResizeReason::Server, ResizeStatus::Done);
                    let screens = vec![Screen { id: 7, rect: state.screen.bounds(), flags: 3 }];
                    let resize = Resize { width, height, reason, status, screens };
                    self.rfb.update().unwrap().resize(&resize).unwrap();
                    self.dirty.add(state.screen.bounds());
                }
                Order::Answer(status, width, height) => {
                    if status == ResizeStatus::Done {
                        state.screen.resize(width, height).unwrap();
                        self.dirty.clip(state.screen.bounds());
                        self.dirty.add(state.screen.bounds());
                    }
                    let (width, height) = (state.screen.width(), state.screen.height());
                    let reason = ResizeReason::ThisClient;
                    let resize = Resize { width, height, reason, status, screens: Vec::new() };
                    self.rfb.update().unwrap().resize(&resize).unwrap();
                }
                Order::Cursor(width) => {
                    let pixels = vec![0; width.into()];
                    let mask = vec![0xff; usize::from(width.div_ceil(8))];
                    let cursor = Cursor { width, height: 1, hot_x: 0, hot_y: 0, pixels, mask };
                    self.rfb.update().unwrap().cursor(&cursor).unwrap();
                }
                Order::Text(text) => self.rfb.text(&text).unwrap(),
                Order::Give(text) => self.rfb.clipboard(&ExtendedClipboard::Provide(Some(text))).unwrap(),
                Order::Bell => self.rfb.bell().unwrap(),
                Order::Bytes(bytes) => self.rfb.output().extend_from_slice(&bytes),
            }
        }
        if self.dirty.is_empty() {
            return;
        }
        self.wanted = false;
        let mut update = self.rfb.update().unwrap();
        for rect in self.dirty.take().rects() {
            update.raw(*rect, &state.screen).unwrap();
        }
        drop(update);
        drop(state);
        self.shared.heard.notify_waiters();
    }
}
