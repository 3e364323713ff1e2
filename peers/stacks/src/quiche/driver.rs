//! The socket of an endpoint, and the task that drives its connections.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::io::{ErrorKind, IoSliceMut};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use anyhow::Result;
use quiche::{Config, Connection, ConnectionId, RecvInfo};
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::{Notify, mpsc};

use super::QuicheLine;
use super::h3::QuicheHttp;
use super::waiting::{QuicheWait, QuicheWaiting};
use crate::{FIXED_MTU, StackSetup, StackTickets, StackTuning};

pub(super) type QuicheId = [u8; 16];

/// What the driver and the handles share.
pub(super) struct QuicheShared {
    pub(super) state: RefCell<QuicheState>,
    /// A handle did something that may have to be sent.
    pub(super) work: Notify,
    /// Where new connections of a server go.
    accepted: mpsc::UnboundedSender<QuicheLine>,
    /// A client's second socket, for connections that move.
    other: OnceCell<QuicheSocket>,
}

pub(super) struct QuicheState {
    pub(super) config: Config,
    pub(super) address: SocketAddr,
    pub(super) connections: BTreeMap<QuicheId, QuicheStream>,
    /// Those with something to send, perhaps.
    pub(super) stirred: BTreeSet<QuicheId>,
    /// When each wants to be told of the time, of those that do.
    timers: BTreeSet<(Instant, QuicheId)>,
    /// Where what streams have is read to.
    scratch: Vec<u8>,
    pub(super) tickets: StackTickets,
    /// What the last connection left for the next.
    pub(super) session: Option<Vec<u8>>,
    /// By other ids than the first of ours: those that clients drew, which more of their first flight may
    /// bear, and those for other paths.
    aliases: BTreeMap<Vec<u8>, QuicheId>,
    serial: u64,
    server: bool,
    retry: bool,
    tuning: StackTuning,
    /// Streams are read by its HTTP/3, which looks at all of them.
    is_http: bool,
    /// Answers to those of whom there is no connection yet.
    replies: Vec<(SocketAddr, Vec<u8>)>,
}

pub(super) struct QuicheStream {
    pub(super) quic: Connection,
    pub(super) http: QuicheHttp,
    pub(super) closed: bool,
    waiting: QuicheWaiting,
    /// Something came, or it begins.
    has_news: bool,
    /// When its time is up, as the driver knows it.
    armed: Option<Instant>,
    aliases: Vec<Vec<u8>>,
}

impl QuicheShared {
    /// Waits until `verb` has a result. What it is waited for says when it is tried again. A verb that has
    /// none may have done something all the same.
    pub(super) async fn until<T>(
        &self,
        id: QuicheId,
        wait: QuicheWait,
        mut verb: impl FnMut(&mut QuicheStream, &mut [u8]) -> Result<Option<T>>,
    ) -> Result<T> {
        poll_fn(|cx| {
            let mut state = self.state.borrow_mut();
            let QuicheState { connections, scratch, .. } = &mut *state;
            let Some(one) = connections.get_mut(&id) else {
                return Poll::Ready(Err(anyhow::anyhow!("the connection is over")));
            };
            let result = verb(one, scratch);
            if let Ok(None) = result {
                one.waiting.add(wait, cx);
            }
            // Who waits for something else has done nothing yet.
            if !matches!(result, Ok(None)) || matches!(wait, QuicheWait::News | QuicheWait::Writing(_)) {
                self.stir(&mut state, id);
            }
            result.transpose().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Has the driver look at a connection.
    pub(super) fn stir(&self, state: &mut QuicheState, id: QuicheId) {
        state.stirred.insert(id);
        self.work.notify_one();
    }

    /// Where connections may move to.
    pub(super) fn move_to(&self, address: SocketAddr) -> Result<SocketAddr> {
        let socket = QuicheSocket::new(std::net::UdpSocket::bind(address)?)?;
        let address = self.other.get_or_init(|| socket).address;
        self.work.notify_one();
        Ok(address)
    }
}

impl QuicheState {
    pub(super) fn fresh_id(&mut self) -> QuicheId {
        // Unique is enough here; nobody guesses them on loopback.
        self.serial += 1;
        let mut id = [u8::from(self.server); 16];
        id[..8].copy_from_slice(&self.serial.to_be_bytes());
        id
    }

    pub(super) fn add(&mut self, id: QuicheId, quic: Connection, drawn: Vec<u8>) {
        let one = QuicheStream {
            quic,
            http: QuicheHttp::default(),
            closed: false,
            waiting: QuicheWaiting::default(),
            has_news: true,
            armed: None,
            aliases: vec![drawn],
        };
        self.connections.insert(id, one);
        self.stirred.insert(id);
    }

    /// Gives a datagram to its connection; a new one is returned.
    fn take(&mut self, datagram: &mut [u8], from: SocketAddr, to: SocketAddr) -> Option<QuicheId> {
        let header = quiche::Header::from_slice(datagram, 16).ok()?;
        let own =
            QuicheId::try_from(header.dcid.as_ref()).ok().filter(|id| self.connections.contains_key(id));
        let known = own.or_else(|| self.aliases.get(header.dcid.as_ref()).copied());
        let (id, new) = match known {
            Some(id) => (id, None),
            None if self.server && header.ty == quiche::Type::Initial => {
                let id = self.admit(&header, from)?;
                (id, Some(id))
            }
            None => return None,
        };
        let one = self.connections.get_mut(&id)?;
        // A datagram that is not for us does no harm.
        let _ = one.quic.recv(datagram, RecvInfo { from, to });
        one.has_news = true;
        self.stirred.insert(id);
        new
    }

    /// A new connection, unless its client is to prove its address.
    fn admit(&mut self, header: &quiche::Header<'_>, from: SocketAddr) -> Option<QuicheId> {
        let token = header.token.as_deref().unwrap_or_default();
        let mut id = self.fresh_id();
        let mut original = None;
        if self.retry {
            if token.is_empty() {
                // The token is the id that the client chose: nobody forges it here.
                let (source, mut out) = (ConnectionId::from_ref(&id), vec![0; 1500]);
                let drawn = &header.dcid;
                let len =
                    quiche::retry(&header.scid, drawn, &source, drawn, header.version, &mut out).ok()?;
                out.truncate(len);
                self.replies.push((from, out));
                return None;
            }
            // The client uses the id that it was given.
            original = Some(ConnectionId::from_ref(token));
            id = QuicheId::try_from(header.dcid.as_ref()).ok()?;
        }
        let source = ConnectionId::from_ref(&id);
        let quic = quiche::accept(&source, original.as_ref(), self.address, from, &mut self.config).ok()?;
        self.aliases.insert(header.dcid.to_vec(), id);
        self.add(id, quic, header.dcid.to_vec());
        Some(id)
    }

    /// Gives the peer ids for other paths.
    fn spare(&mut self, id: QuicheId) {
        while self.connections.get(&id).is_some_and(|one| one.quic.scids_left() > 0) {
            let fresh = self.fresh_id();
            let Some(one) = self.connections.get_mut(&id) else { return };
            let token = u128::from_be_bytes(fresh) ^ u128::MAX;
            if one.quic.new_scid(&ConnectionId::from_ref(&fresh), token, false).is_err() {
                return;
            }
            one.aliases.push(fresh.to_vec());
            self.aliases.insert(fresh.to_vec(), id);
        }
    }

    /// Forgets a connection that is over: quiche gives one up whose first datagram does not decrypt, and when
    /// the client sends it again, with the same id, it is to open another.
    fn bury(&mut self, id: QuicheId) {
        let Some(mut one) = self.connections.remove(&id) else { return };
        if let Some(at) = one.armed {
            self.timers.remove(&(at, id));
        }
        for alias in &one.aliases {
            self.aliases.remove(alias);
        }
        let errors = [one.quic.local_error(), one.quic.peer_error()];
        if let Some(error) = errors.into_iter().flatten().find(|error| !error.is_app) {
            eprintln!("over: {error:?}");
        }
        one.waiting.wake_all();
    }

    /// Behind whatever was done with a connection: wakes its tasks, and notes when its time is up.
    fn settle(&mut self, id: QuicheId) {
        let Some(one) = self.connections.get_mut(&id) else { return };
        if std::mem::take(&mut one.has_news) {
            one.waiting.wake_for_news();
        }
        if !self.is_http {
            one.waiting.wake_for_streams(&mut one.quic);
        }
        let next = one.quic.timeout_instant();
        let last = std::mem::replace(&mut one.armed, next);
        if last != next {
            if let Some(at) = last {
                self.timers.remove(&(at, id));
            }
            if let Some(at) = next {
                self.timers.insert((at, id));
            }
        }
        if one.closed || one.quic.is_draining() || one.quic.is_closed() {
            self.bury(id);
        }
    }
}

pub(super) fn start(
    address: SocketAddr,
    config: Config,
    setup: &StackSetup,
    server: bool,
) -> Result<(Rc<QuicheShared>, mpsc::UnboundedReceiver<QuicheLine>)> {
    let socket = QuicheSocket::new(setup.socket(address)?)?;
    let (sender, accepted) = mpsc::unbounded_channel();
    let state = QuicheState {
        config,
        address: socket.address,
        connections: BTreeMap::new(),
        stirred: BTreeSet::new(),
        timers: BTreeSet::new(),
        scratch: vec![0; SCRATCH],
        tickets: setup.tickets,
        session: None,
        aliases: BTreeMap::new(),
        serial: 0,
        server,
        retry: setup.retry,
        tuning: setup.tuning,
        is_http: setup.protocol == b"h3",
        replies: Vec::new(),
    };
    let shared = Rc::new(QuicheShared {
        state: RefCell::new(state),
        work: Notify::new(),
        accepted: sender,
        other: OnceCell::new(),
    });
    let driver = QuicheDriver { shared: shared.clone(), socket };
    tokio::task::spawn_local(async move {
        if let Err(error) = driver.drive().await {
            eprintln!("quiche's driver: {error:#}");
            std::process::exit(1);
        }
    });
    Ok((shared, accepted))
}

struct QuicheSocket {
    io: UdpSocket,
    offload: UdpSocketState,
    address: SocketAddr,
}

impl QuicheSocket {
    fn new(socket: std::net::UdpSocket) -> Result<Self> {
        socket.set_nonblocking(true)?;
        let offload = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let io = UdpSocket::from_std(socket)?;
        Ok(Self { address: io.local_addr()?, io, offload })
    }

    async fn send(&self, to: SocketAddr, contents: &[u8], segment: usize) -> Result<()> {
        let transmit = Transmit {
            destination: to,
            ecn: None,
            contents,
            segment_size: (segment < contents.len()).then_some(segment),
            src_ip: None,
        };
        loop {
            let sent = self
                .io
                .try_io(Interest::WRITABLE, || self.offload.try_send(UdpSockRef::from(&self.io), &transmit));
            match sent {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.io.writable().await?,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

struct QuicheDriver {
    shared: Rc<QuicheShared>,
    socket: QuicheSocket,
}

/// Datagrams of one size, of which the last may be shorter.
struct QuicheBatch {
    len: usize,
    segment: usize,
    path: quiche::SendInfo,
}

impl QuicheDriver {
    async fn drive(self) -> Result<()> {
        let mut buffers = vec![vec![0; 64 << 10]; BATCH_SIZE];
        let is_fixed = self.shared.state.borrow().tuning == StackTuning::Fixed;
        // What is paced has a time of its own for each datagram.
        let segments = if is_fixed { self.socket.offload.max_gso_segments().min(44) } else { 1 };
        let mut out = vec![0; usize::from(FIXED_MTU) * segments];
        loop {
            let deadline = self.deadline();
            let pause = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                    None => std::future::pending().await,
                }
            };
            let other = async {
                match self.shared.other.get() {
                    Some(other) => other.io.readable().await.map(|()| other),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                ready = self.socket.io.readable() => { ready?; self.receive(&self.socket, &mut buffers)?; }
                other = other => self.receive(other?, &mut buffers)?,
                () = self.shared.work.notified() => {}
                () = pause => self.on_time(),
            }
            self.send(&mut out).await?;
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.shared.state.borrow().timers.first().map(|(at, _)| *at)
    }

    fn on_time(&self) {
        let (now, mut state) = (Instant::now(), self.shared.state.borrow_mut());
        while let Some(&(at, id)) = state.timers.first().filter(|(at, _)| *at <= now) {
            state.timers.remove(&(at, id));
            state.stirred.insert(id);
            let Some(one) = state.connections.get_mut(&id) else { continue };
            one.armed = None;
            one.has_news = true;
            one.quic.on_timeout();
        }
    }

    fn receive(&self, socket: &QuicheSocket, buffers: &mut [Vec<u8>]) -> Result<()> {
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let mut slices: Vec<IoSliceMut<'_>> = buffers.iter_mut().map(|one| IoSliceMut::new(one)).collect();
        let received = socket.io.try_io(Interest::READABLE, || {
            socket.offload.recv(UdpSockRef::from(&socket.io), &mut slices, &mut metas)
        });
        let n = match received {
            Ok(n) => n,
            // That an earlier datagram found nobody (ICMP) is no trouble of this socket.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionRefused) => {
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let mut state = self.shared.state.borrow_mut();
        for (meta, buffer) in metas[..n].iter().zip(buffers) {
            for datagram in buffer[..meta.len].chunks_mut(meta.stride.max(1)) {
                if let Some(id) = state.take(datagram, meta.addr, socket.address) {
                    let line = QuicheLine::new(self.shared.clone(), id);
                    // Nobody accepts any more: then it is not answered.
                    let _ = self.shared.accepted.send(line);
                }
            }
        }
        Ok(())
    }

    /// Sends what those that were stirred have, a run of equal datagrams at a time.
    async fn send(&self, out: &mut [u8]) -> Result<()> {
        let replies = std::mem::take(&mut self.shared.state.borrow_mut().replies);
        for (to, reply) in replies {
            self.socket.send(to, &reply, reply.len()).await?;
        }
        let stirred = std::mem::take(&mut self.shared.state.borrow_mut().stirred);
        for id in stirred {
            self.prepare(id);
            while let Some(QuicheBatch { len, segment, path }) = self.fill(id, out) {
                let wait = path.at.saturating_duration_since(Instant::now());
                if wait > Duration::from_millis(1) {
                    tokio::time::sleep(wait).await;
                }
                let other = self.shared.other.get().filter(|other| other.address == path.from);
                other.unwrap_or(&self.socket).send(path.to, &out[..len], segment).await?;
            }
            self.shared.state.borrow_mut().settle(id);
        }
        Ok(())
    }

    /// Who is not measured may move.
    fn prepare(&self, id: QuicheId) {
        let mut state = self.shared.state.borrow_mut();
        let may = state.tuning == StackTuning::Own
            && state.connections.get(&id).is_some_and(|one| one.quic.is_established());
        if may {
            state.spare(id);
        }
    }

    fn fill(&self, id: QuicheId, out: &mut [u8]) -> Option<QuicheBatch> {
        let mut state = self.shared.state.borrow_mut();
        let quic = &mut state.connections.get_mut(&id)?.quic;
        let (mut len, mut segment, mut last) = (0, 0, None);
        while out.len() - len >= usize::from(FIXED_MTU) {
            let end = if segment == 0 { usize::from(FIXED_MTU) } else { segment };
            let Ok((n, path)) = quic.send(&mut out[len..len + end]) else { break };
            last = Some(path);
            segment = segment.max(n);
            len += n;
            // Behind a short datagram all would have to be as short, and more of them than the kernel takes
            // at once.
            if n < segment || segment < usize::from(FIXED_MTU) * 3 / 4 {
                break;
            }
        }
        last.map(|path| QuicheBatch { len, segment, path })
    }
}

/// Bytes taken from a stream at a time.
const SCRATCH: usize = 64 << 10;
