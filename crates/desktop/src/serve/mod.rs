//! The server's gateway: a viewer of the VNC server, a server to viewers' gateways.
//!
//! *In:* the VNC server's updates; clients' input. *Out:* screen messages for each client as its connection
//! has room; commands for the VNC server. Parts: `vnc` keeps up the connection to the VNC server, `stage`
//! holds what it shows and what each client has not been told, `door` lets clients in, `session` serves one.
//!
//! A client whose key is authorised never waits for one whose key is not: each kind has places of its own, at
//! the door and behind it, and whoever comes next to the door takes the place of whoever waits there longest
//! and has shown nothing.
//!
//! Invariants: nothing is queued but what the transport is about to send; what clients may not do is dropped
//! here, whatever they claim; when the VNC server goes away its last picture stays, and it is tried again.

mod census;
mod desktops;
mod door;
mod input;
mod page_screen;
mod page_sound;
mod pages;
mod recorded;
mod row;
mod session;
mod stage;
mod tcp_door;
mod tcp_screen;
#[cfg(test)]
mod viewers_tests;
mod visits;
mod vnc;
mod vnc_error;
mod vnc_tls;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use quickset::places::NetworkOwner;
use quickset::{
    Budget, ClientAuth, Connection, Endpoint, Fingerprint, Identity, Protection, ServerConfig, SocketConfig,
    h3,
};
use tokio::sync::watch;

pub use census::{ClientTotals, ServeStats};
pub use desktops::DesktopConfig;
pub use pages::{HTTP_1, PAGE_FIELDS, PageConfig, PageFile, SESSION_PATH};
pub use tcp_door::{BrowserStream, PageBytes, PageStream, TcpBrowsers};
pub use vnc_error::VncError;
pub use vnc_tls::VncTrust;

use crate::link::{LinkConfig, PeerLink};
use crate::message::{ALPN, Permissions, ScreenOrder, code};
use crate::record::ScreenRecorder;
use crate::sender::JpegQuality;
use crate::sound::SoundCommand;
use crate::sound::record::SoundSource;
use crate::tcp::{TCP_ALPN, TcpEnd, TcpFacts, TcpLink};
use crate::trust::{ClientGate, FileWatch, PageEntry, PageLinkId};
use desktops::{DesktopKeeper, ServedDesktop};
use door::{Admitted, AdmittedBy, ClientTerms};
use row::{PlaceRow, TakenPlace, Yields};
use session::ClientSession;
use tcp_door::{BrowserDoor, TcpConfigs, TcpEntrance};

/// What a server's gateway is to do.
#[derive(Debug)]
pub struct ServeConfig {
    /// The VNC servers that can be reached through this gateway, at least one. Who does not say which it
    /// wants sees the first.
    pub desktops: Vec<DesktopConfig>,
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Sockets on that port, each driven by a core of its own; 0 is one for each core.
    pub sockets: usize,
    /// Who we are.
    pub identity: Identity,
    /// Who may come in.
    pub gate: ClientGate,
    /// How much reordering the screen is to bear.
    pub order: ScreenOrder,
    /// Between which qualities of JPEG pictures may be, as each client's link is. Text is always exact, and
    /// so is what rests.
    pub quality: JpegQuality,
    /// What clients may do.
    pub permissions: Permissions,
    /// Viewers at a time: so many with an authorised key, and so many that a password or token lets in.
    pub max_viewers: usize,
    /// The connections.
    pub link: LinkConfig,
    /// What the connections of all clients may hold together; `None`: each what its own limits allow.
    pub memory: Option<Budget>,
    /// Pages in browsers; `None`: none is taken.
    pub pages: Option<PageConfig>,
    /// What records what the desktop plays, for the gateways of viewers that want to hear it, whichever of
    /// the desktops they see; `None`: there is no sound. It runs while somebody hears.
    pub sound: Option<SoundCommand>,
}

/// A server's gateway that takes clients.
#[derive(Debug)]
pub struct ServeGateway {
    endpoint: Endpoint,
    /// On the same port; `None` where the system has none.
    tcp: Option<TcpEntrance>,
    server: ServerConfig,
    fingerprint: Fingerprint,
    gate: Arc<ClientGate>,
    max_viewers: usize,
    pages: Option<PageConfig>,
    shared: ServeShared,
    desktops: Vec<ServedDesktop>,
    keepers: Vec<DesktopKeeper>,
    recorder: Option<ScreenRecorder>,
}

/// Why a server's gateway has ended, or did not begin.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Clients cannot connect.
    #[error("cannot listen on {address}: {error}; choose another address or port with --listen")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        error: io::Error,
    },
    /// There will be no picture.
    #[error(transparent)]
    Vnc(#[from] VncError),
    /// The socket is gone.
    #[error("the endpoint was closed")]
    Closed,
}

impl ServeGateway {
    /// Begins to listen for clients.
    ///
    /// # Errors
    /// When the socket cannot be bound.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers and I/O.
    pub fn start(config: ServeConfig) -> Result<Self, ServeError> {
        let fingerprint = config.identity.fingerprint();
        // Every gateway has a key, so that a token can be exchanged for it; which keys are welcome the gate
        // says. Browsers have none, and are asked all the same: TLS does not know yet who asks.
        let (protocols, keys): (&[&str], _) = match &config.pages {
            None => (&[ALPN], ClientAuth::Mandatory),
            Some(_) => (&[ALPN, h3::ALPN], ClientAuth::Optional),
        };
        let server = ServerConfig::new(config.identity, protocols)
            .and_then(|server| server.with_client_auth(keys))
            .expect("the protocols have names, and TLS is ours")
            .with_max_connections(connections(config.max_viewers))
            .with_transport(config.link.serving(config.pages.is_some()));
        if let Some(identity) = config.pages.as_ref().and_then(|pages| pages.identity.as_ref()) {
            PageConfig::show(&server, identity);
        }
        let server = if config.link.key_log { server.with_key_log() } else { server };
        let server = match config.memory {
            Some(memory) => server.with_budget(memory),
            None => server,
        };
        let listen = |error| ServeError::Listen { address: config.listen, error };
        let socket = SocketConfig { sockets: config.sockets, ..SocketConfig::default() };
        let endpoint = Endpoint::bind(config.listen, &socket, Some(&server)).map_err(listen)?;
        // DT-56.
        let tcp = listen_by_tcp(endpoint.local_addr())
            .inspect_err(|error| {
                let port = endpoint.local_addr().port();
                tracing::warn!(port, %error, "no viewer gets in by TCP, where UDP does not get through");
            })
            .ok();
        let browsers = server.clone().with_client_auth(ClientAuth::None).expect("TLS is ours");
        let tls = TcpConfigs {
            gateways: server.tls(&[TCP_ALPN]),
            browsers: config.pages.as_ref().map(|_| browsers.tls(&[HTTP_1])),
        };
        let tcp = tcp.map(|listener| TcpEntrance { listener, tls, browsers: None });
        let (desktops, keepers) = config.desktops.into_iter().map(DesktopConfig::open).unzip();
        let terms = ClientTerms { order: config.order, permissions: config.permissions, hears: false };
        let sound = config.sound.map(|command| SoundSource::new(command, config.link.sound()));
        let shared = ServeShared {
            terms,
            quality: config.quality,
            stats: ServeStats::default(),
            protection: config.link.screen(),
            sound,
            max_rate_bps: config.link.max_rate_bps,
        };
        let (gate, max_viewers, pages) = (Arc::new(config.gate), config.max_viewers, config.pages);
        let recorder = None;
        Ok(Self {
            endpoint,
            tcp,
            server,
            fingerprint,
            gate,
            max_viewers,
            pages,
            shared,
            desktops,
            keepers,
            recorder,
        })
    }

    /// The same, and what the first desktop shows is recorded from now on, whoever looks. Where the recording
    /// fails the gateway goes on: [`ScreenRecorder::failed`] says so.
    #[must_use]
    pub fn with_recorder(mut self, recorder: ScreenRecorder) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Where clients connect.
    pub fn local_addr(&self) -> SocketAddr {
        self.endpoint.local_addr()
    }

    /// Browsers that come by TCP, to the port of [`local_addr`](Self::local_addr), for whoever serves pages
    /// to them; the first time this is called. `None` when the system has not given us that port of TCP.
    ///
    /// As many wait as there is room for; others are turned away.
    pub fn browsers(&mut self) -> Option<TcpBrowsers> {
        let tcp = self.tcp.as_mut().filter(|tcp| tcp.browsers.is_none())?;
        let (door, browsers) = BrowserDoor::new();
        tcp.browsers = Some(door);
        Some(browsers)
    }

    /// What clients connect to, for whoever watches it.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// What clients connect by, for whoever shows another certificate of the same key when one ends
    /// ([`ServerConfig::set_identity`], [`PageConfig::show`]), and for servers of the page on TCP
    /// ([`ServerConfig::tls`]).
    pub fn config(&self) -> &ServerConfig {
        &self.server
    }

    /// What clients may pin.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// What is counted, now and later.
    pub fn stats(&self) -> ServeStats {
        self.shared.stats.clone()
    }

    /// Serves clients until that makes no sense any more, and says why.
    pub async fn run(self) -> ServeError {
        let Err(error) = self.run_until(std::future::pending::<std::convert::Infallible>()).await;
        error
    }

    /// The same, until `stop` is ready: then clients are told that the session is over.
    ///
    /// # Errors
    /// Why it ended before.
    pub async fn run_until<T>(self, stop: impl Future<Output = T>) -> Result<T, ServeError> {
        let Self { endpoint, tcp, gate, max_viewers, pages, shared, desktops, keepers, recorder, .. } = self;
        let (tell, changed) = watch::channel(());
        let files = watched(&gate, pages.as_ref(), tell);
        let (ends, sound) = (endpoint.clone(), shared.sound.clone());
        let recorder = recorder.zip(desktops.first().map(|desktop| desktop.stage.clone()));
        let house = Arc::new(House::new(gate, max_viewers, pages, HouseRooms { shared, desktops, changed }));
        let result = tokio::select! {
            error = desktops::keep(keepers) => Err(ServeError::from(error)),
            error = take_clients(endpoint, house.clone()) => Err(error),
            never = take_by_tcp(tcp, house) => match never {},
            never = files => match never {},
            never = record(sound) => match never {},
            never = recorded::record(recorder) => match never {},
            stopped = stop => Ok(stopped),
        };
        match &result {
            Ok(_) => ends.close(code::DONE, b"the server's gateway was stopped"),
            Err(error) => ends.close(code::GONE, error.to_string().as_bytes()),
        }
        // The clients hear of it, or have had the time to.
        let _ = tokio::time::timeout(FAREWELL, ends.wait_idle()).await;
        result
    }
}

/// What all sessions have in common.
#[derive(Clone, Debug)]
struct ServeShared {
    terms: ClientTerms,
    quality: JpegQuality,
    stats: ServeStats,
    protection: Protection,
    sound: Option<SoundSource>,
    /// Bits per second that a client is sent at most.
    max_rate_bps: Option<u64>,
}

/// Records while somebody hears.
async fn record(sound: Option<SoundSource>) -> std::convert::Infallible {
    match sound {
        Some(sound) => sound.run().await,
        None => std::future::pending().await,
    }
}

/// Tells when the files have changed that say who may come in.
fn watched(
    gate: &ClientGate,
    pages: Option<&PageConfig>,
    tell: watch::Sender<()>,
) -> impl Future<Output = std::convert::Infallible> + use<> {
    let of_pages = pages.and_then(|pages| pages.links.invitations());
    let invitations = gate.invitations().into_iter().chain(of_pages).map(|all| all.path().to_owned());
    let mut files = FileWatch::new(invitations.chain([gate.authorized().path().to_owned()]));
    async move {
        loop {
            tokio::time::sleep(LOOK).await;
            if files.look() {
                tell.send_replace(());
            }
        }
    }
}

/// Serves each client in a task of its own; when this is dropped, they end.
async fn take_clients(endpoint: Endpoint, house: Arc<House>) -> ServeError {
    let mut sessions = tokio::task::JoinSet::new();
    loop {
        let connection = tokio::select! {
            accepted = endpoint.accept() => match accepted {
                Some(connection) => connection,
                None => return ServeError::Closed,
            },
            Some(_) = sessions.join_next() => continue,
        };
        let house = house.clone();
        sessions.spawn(async move {
            house.receive(&connection).await;
            // The words are on their way while a handle is there.
            let _ = tokio::time::timeout(FAREWELL, connection.closed()).await;
        });
    }
}

/// The same for those who come by TCP.
async fn take_by_tcp(tcp: Option<TcpEntrance>, house: Arc<House>) -> std::convert::Infallible {
    match tcp {
        Some(entrance) => tcp_door::take(entrance, house).await,
        None => std::future::pending().await,
    }
}

/// # Errors
/// When the port is taken.
fn listen_by_tcp(address: SocketAddr) -> io::Result<tokio::net::TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener)
}

/// The door, and the places on both sides of it.
#[derive(Debug)]
struct House {
    gate: Arc<ClientGate>,
    /// For those with an authorised key.
    known: ClientPlaces<Fingerprint>,
    /// For the others, whom nobody knows before they have shown something.
    strangers: ClientPlaces<NetworkOwner>,
    /// For those who shake hands by TCP: to connect costs them nothing, and is to take nobody's place who has
    /// done so.
    greeting: Arc<PlaceRow<NetworkOwner>>,
    pages: Option<PageConfig>,
    rooms: HouseRooms,
}

/// What is behind the door.
#[derive(Debug)]
struct HouseRooms {
    shared: ServeShared,
    desktops: Vec<ServedDesktop>,
    /// Of the files that say who may come in.
    changed: watch::Receiver<()>,
}

/// Whose a viewer's place is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ViewerOwner {
    /// Of whoever has this key.
    Key(Fingerprint),
    /// Of whoever has this link.
    Link(PageLinkId),
}

/// Clients of one kind, and their places.
#[derive(Debug)]
struct ClientPlaces<O> {
    /// At the door.
    waiting: Arc<PlaceRow<O>>,
    /// Those that look.
    viewers: Arc<PlaceRow<ViewerOwner>>,
}

impl House {
    fn new(gate: Arc<ClientGate>, max_viewers: usize, pages: Option<PageConfig>, rooms: HouseRooms) -> Self {
        let (known, strangers) = (ClientPlaces::new(max_viewers), ClientPlaces::new(max_viewers));
        let waiting = at_the_door(max_viewers);
        let greeting = PlaceRow::new(waiting, waiting / 4, Yields::Oldest);
        Self { gate, known, strangers, greeting, pages, rooms }
    }

    /// Hears whoever has connected, and serves it if it may look.
    async fn receive(&self, connection: &Connection) {
        match &self.pages {
            Some(pages) if connection.alpn().as_deref() == Some(h3::ALPN.as_bytes()) => {
                self.receive_page(connection, pages).await;
            }
            _ => self.receive_gateway(PeerLink::Gateway(connection.clone())).await,
        }
    }

    async fn receive_gateway(&self, link: PeerLink) {
        let Some(key) = link.key() else {
            return link.close(code::DENIED, door::NO_KEY);
        };
        let network = NetworkOwner::of(link.remote_address().ip());
        let heard = door::admit(&link, &self.gate, &self.rooms);
        let (admitted, viewers) = if self.gate.knows(SystemTime::now(), key) {
            (wait(heard, self.known.waiting.take(key)).await, &self.known.viewers)
        } else {
            (wait(heard, self.strangers.waiting.take(network)).await, &self.strangers.viewers)
        };
        match admitted {
            Some(Ok(AdmittedBy { admitted, entry })) => {
                let over = self.over(entry.rights.until, |now| !self.gate.holds(now, key, &entry));
                self.serve(link, admitted, viewers.take(ViewerOwner::Key(key)), over).await;
            }
            Some(Err(_)) => {}
            None => link.close(code::BUSY, FULL_DOOR),
        }
    }

    /// The same for a browser: it may take the page first, and is a stranger until it shows a token.
    async fn receive_page(&self, connection: &Connection, pages: &PageConfig) {
        let network = NetworkOwner::of(connection.remote_address().ip());
        let heard = async {
            // Whoever has taken the page opens a session at once, on this connection or another.
            let (server, session) =
                tokio::time::timeout(OPENING, pages::answer(connection, pages)).await.ok()??;
            let link = PeerLink::Page(session);
            let admitted = door::admit_page(&link, &pages.links, &self.rooms).await.ok();
            Some((server, link, admitted))
        };
        // Without it the connection would end before the browser has heard how the session did.
        let _server = match wait(heard, self.strangers.waiting.take(network)).await {
            Some(Some((server, link, Some(admitted)))) => {
                self.serve_page(link, pages, admitted).await;
                server
            }
            Some(Some((server, _, None))) => server,
            Some(None) => return,
            None => return connection.close(code::BUSY, FULL_DOOR),
        };
        let _ = tokio::time::timeout(FAREWELL, connection.closed()).await;
    }

    /// The same for a page whose session is by TCP: its WebSocket was begun by a page of ours.
    async fn receive_page_by_tcp(&self, session: PageStream) {
        let Some(pages) = &self.pages else { return };
        let PageStream { stream, remote } = session;
        // A page has no key, and shows its token as it is.
        let facts = TcpFacts { remote, peer: None, exported: [0; 32] };
        let by_tcp = TcpLink::start(stream, facts, TcpEnd::Server);
        let link = PeerLink::Tcp(by_tcp.clone());
        let heard = door::admit_page(&link, &pages.links, &self.rooms);
        match wait(heard, self.strangers.waiting.take(NetworkOwner::of(remote.ip()))).await {
            Some(Ok(admitted)) => self.serve_page(link, pages, admitted).await,
            Some(Err(_)) => {}
            None => link.close(code::BUSY, FULL_DOOR),
        }
        let _ = tokio::time::timeout(FAREWELL, by_tcp.closed()).await;
    }

    async fn serve_page(&self, link: PeerLink, pages: &PageConfig, admitted: AdmittedBy<PageEntry>) {
        let AdmittedBy { admitted, entry } = admitted;
        let place = self.strangers.viewers.take(ViewerOwner::Link(entry.link.clone()));
        let over = self.over(entry.rights.until, |now| !pages.links.holds(now, &entry));
        self.serve(link, admitted, place, over).await;
    }

    /// DT-59: waits until a client may no longer do what it does.
    async fn over(&self, until: Option<SystemTime>, is_over: impl Fn(SystemTime) -> bool) {
        let mut changed = self.rooms.changed.clone();
        loop {
            let now = SystemTime::now();
            if is_over(now) {
                return;
            }
            // Looked at now and then: somebody may set the clock.
            let left =
                until.map(|until| until.duration_since(now).unwrap_or_default().clamp(LEAST_LEFT, MINUTE));
            let ended = async {
                match left {
                    Some(left) => tokio::time::sleep(left).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                told = changed.changed() => if told.is_err() { std::future::pending().await },
                () = ended => {}
            }
        }
    }

    /// Serves a client that was let in, as long as it has its place and may do what it does.
    async fn serve(
        &self,
        link: PeerLink,
        admitted: Admitted,
        place: Option<TakenPlace<ViewerOwner>>,
        over: impl Future<Output = ()>,
    ) {
        let (from, desktop) = (link.remote_address(), admitted.desktop.clone());
        // By QUIC it has been so since the connection began.
        link.set_max_rate_bps(self.rooms.shared.max_rate_bps);
        let (session, mut turn) = ClientSession::new(link.clone(), admitted, &self.rooms.shared);
        // Behind the turn: whoever has that next finds the place free, since this is dropped before it.
        let Some(mut place) = place else {
            return link.close(code::BUSY, b"no more viewers");
        };
        let ended = turn.ended();
        let error = tokio::select! {
            error = session.run(&mut turn) => error,
            () = ended => {
                link.close(code::BUSY, b"the session goes on by another way");
                tracing::info!(%from, "a client goes on by another way");
                return;
            }
            () = place.lost() => {
                link.close(code::BUSY, b"no more viewers: a newer one has taken the place");
                tracing::info!(%from, "a client made room for another");
                return;
            }
            () = over => {
                link.close(code::DENIED, OVER);
                tracing::info!(%from, "what a client was allowed is over");
                return;
            }
            why = desktop.gone() => {
                link.close(code::GONE, why.as_bytes());
                return;
            }
        };
        link.fail(&error);
        tracing::info!(%from, %error, "a client is gone");
    }
}

impl<O: Ord + Clone> ClientPlaces<O> {
    fn new(viewers: usize) -> Self {
        let waiting = at_the_door(viewers);
        Self {
            waiting: PlaceRow::new(waiting, waiting / 4, Yields::Oldest),
            viewers: PlaceRow::new(viewers, viewers, Yields::Own),
        }
    }
}

/// What comes of a visit while there is a place for it.
async fn wait<T, O: Ord + Clone>(visit: impl Future<Output = T>, place: Option<TakenPlace<O>>) -> Option<T> {
    let mut place = place?;
    tokio::select! {
        came = visit => Some(came),
        () = place.lost() => None,
    }
}

/// Connections at a time, those still in their handshake included: for viewers there is room whoever else is
/// there.
fn connections(viewers: usize) -> usize {
    let settled = viewers.saturating_add(at_the_door(viewers)).saturating_mul(2);
    settled.saturating_mul(2)
}

/// Clients of one kind that have shown no credential yet. Few viewers may come all at once, too.
fn at_the_door(viewers: usize) -> usize {
    viewers.max(16)
}

/// How long the words of an end may take.
const FAREWELL: Duration = Duration::from_secs(1);
/// How long a browser's connection may go on without a session.
const OPENING: Duration = Duration::from_secs(60);
/// For whoever finds no place at the door.
const FULL_DOOR: &[u8] = b"too many clients are at the door";
/// For whoever may no longer look.
const OVER: &[u8] = b"what you were allowed here has ended, or was taken back";
/// How often files are looked at that say who may come in.
const LOOK: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
/// Of the time that a client has, so that what ends within a rounded second is not looked at in a circle.
const LEAST_LEFT: Duration = Duration::from_millis(100);
