//! quiche, which leaves sockets, timers and tasks to its user: these are ours, with segmentation offload both
//! ways by quinn-udp. Windows and datagrams as for the others, no pacing (which it leaves to its user too).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, IoSliceMut, Write as _};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use quiche::{Config, ConnectionId, RecvInfo};
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::{Notify, mpsc};

use super::{
    MTU, PeerConnection, SOCKET_BUFFER, StackAnswer, StackClient, StackDownload, StackServer, WINDOW,
};
use crate::pattern::PatternSum;
use crate::tls::{self, PeerGroup, PeersIdentity, Trusted};

type QuicheId = [u8; 16];

/// What the driver and the handles share.
struct QuicheShared {
    state: RefCell<QuicheState>,
    /// A handle did something that may have to be sent.
    work: Notify,
    /// Where new connections of a server go.
    accepted: mpsc::UnboundedSender<QuicheLine>,
}

struct QuicheState {
    config: Config,
    address: SocketAddr,
    connections: BTreeMap<QuicheId, QuicheStream>,
    /// Those with something to send, perhaps.
    stirred: BTreeSet<QuicheId>,
    /// By the ids that clients drew: more of their first flight may bear these.
    drawn: BTreeMap<Vec<u8>, QuicheId>,
    serial: u64,
    server: bool,
}

struct QuicheStream {
    quic: quiche::Connection,
    /// Something came.
    news: Rc<Notify>,
    drawn: Vec<u8>,
    closed: bool,
}

/// A handle of a connection.
pub(crate) struct QuicheLine {
    shared: Rc<QuicheShared>,
    id: QuicheId,
    news: Rc<Notify>,
    /// The next stream of either side: a client opens them, a server awaits them in order.
    next: u64,
}

pub(crate) struct Listener {
    address: SocketAddr,
    accepted: mpsc::UnboundedReceiver<QuicheLine>,
}

pub(crate) fn serve(listen: SocketAddr, identity: &PeersIdentity) -> Result<Listener> {
    let mut config = config(identity.group)?;
    let certificate = Pem::new("CERTIFICATE", &identity.certificate)?;
    let key = Pem::new("PRIVATE KEY", identity.key.secret_pkcs8_der())?;
    config.load_cert_chain_from_pem_file(certificate.path()?)?;
    config.load_priv_key_from_pem_file(key.path()?)?;
    let (shared, accepted) = start(listen, config, true)?;
    let address = shared.state.borrow().address;
    Ok(Listener { address, accepted })
}

impl StackServer for Listener {
    type Connection = QuicheLine;

    fn address(&self) -> SocketAddr {
        self.address
    }

    async fn accept(&mut self) -> Option<QuicheLine> {
        self.accepted.recv().await
    }
}

pub(crate) struct Caller {
    shared: Rc<QuicheShared>,
    server: SocketAddr,
}

pub(crate) fn client(server: SocketAddr, trusted: &Trusted) -> Result<Caller> {
    let mut config = config(trusted.group)?;
    config.load_verify_locations_from_file(Pem::new("CERTIFICATE", &trusted.certificate)?.path()?)?;
    config.verify_peer(true);
    let (shared, _) = start((server.ip(), 0).into(), config, false)?;
    Ok(Caller { shared, server })
}

impl StackClient for Caller {
    type Connection = QuicheLine;

    async fn connect(&self) -> Result<QuicheLine> {
        let line = {
            let mut state = self.shared.state.borrow_mut();
            let (id, local) = (state.fresh_id(), state.address);
            let source = ConnectionId::from_ref(&id);
            let quic = quiche::connect(Some(tls::NAME), &source, local, self.server, &mut state.config)?;
            QuicheLine { shared: self.shared.clone(), id, news: state.add(id, quic, Vec::new()), next: 0 }
        };
        line.until(|quic| Ok(quic.is_established().then_some(()))).await?;
        Ok(line)
    }
}

impl QuicheLine {
    /// Waits until `verb` has a result, and lets what it did be sent.
    async fn until<T>(
        &self,
        mut verb: impl FnMut(&mut quiche::Connection) -> Result<Option<T>>,
    ) -> Result<T> {
        loop {
            {
                let mut state = self.shared.state.borrow_mut();
                let one = state.connections.get_mut(&self.id).context("the connection is over")?;
                let result = verb(&mut one.quic);
                state.stirred.insert(self.id);
                self.shared.work.notify_one();
                if let Some(value) = result? {
                    return Ok(value);
                }
            }
            self.news.notified().await;
        }
    }

    fn handle(&self) -> Self {
        Self { shared: self.shared.clone(), id: self.id, news: self.news.clone(), next: 0 }
    }
}

impl PeerConnection for QuicheLine {
    type Answer = Upstream;
    type Download = Downstream;

    async fn request(&mut self, bytes: u64) -> Result<Downstream> {
        let id = self.next;
        self.next += 4;
        let mut up = Upstream { line: self.handle(), id };
        up.send(Bytes::copy_from_slice(&bytes.to_be_bytes())).await?;
        up.line.until(|quic| Ok(Some(quic.stream_send(id, &[], true)?))).await?;
        Ok(Downstream { line: up.line, id, buffer: vec![0; 64 << 10] })
    }

    async fn requested(&mut self) -> Option<(u64, Upstream)> {
        let id = self.next;
        self.next += 4;
        // Requests are so small that they come whole.
        let request = self.until(|quic| {
            let mut request = [0; 8];
            match quic.stream_recv(id, &mut request) {
                Ok((8, _)) => Ok(Some(request)),
                Ok(_) => bail!("half a request"),
                Err(quiche::Error::Done | quiche::Error::InvalidStreamState(_)) => Ok(None),
                Err(error) => Err(error.into()),
            }
        });
        let request = request.await.ok()?;
        Some((u64::from_be_bytes(request), Upstream { line: self.handle(), id }))
    }

    fn close(self) {
        let mut state = self.shared.state.borrow_mut();
        if let Some(one) = state.connections.get_mut(&self.id) {
            // Closed already is closed.
            let _ = one.quic.close(true, 0, b"");
            one.closed = true;
        }
        state.stirred.insert(self.id);
        self.shared.work.notify_one();
    }
}

pub(crate) struct Upstream {
    line: QuicheLine,
    id: u64,
}

impl StackAnswer for Upstream {
    async fn send(&mut self, piece: Bytes) -> Result<()> {
        let (id, mut at) = (self.id, 0);
        self.line
            .until(|quic| {
                match quic.stream_send(id, &piece[at..], false) {
                    Ok(n) => at += n,
                    Err(quiche::Error::Done) => {}
                    Err(error) => return Err(error.into()),
                }
                Ok((at == piece.len()).then_some(()))
            })
            .await
    }

    async fn end(self) -> Result<()> {
        let id = self.id;
        self.line.until(|quic| Ok(Some(quic.stream_send(id, &[], true)?))).await?;
        Ok(())
    }
}

pub(crate) struct Downstream {
    line: QuicheLine,
    id: u64,
    buffer: Vec<u8>,
}

impl StackDownload for Downstream {
    async fn receive(&mut self, sum: &mut PatternSum) -> Result<bool> {
        let (id, buffer) = (self.id, &mut self.buffer);
        self.line
            .until(|quic| match quic.stream_recv(id, buffer) {
                Ok((n, end)) => {
                    sum.add(&buffer[..n]);
                    Ok(if n > 0 || end { Some(n > 0 && !end) } else { None })
                }
                Err(quiche::Error::Done) => Ok(None),
                Err(error) => Err(error.into()),
            })
            .await
    }
}

impl QuicheState {
    fn fresh_id(&mut self) -> QuicheId {
        // Unique is enough here; nobody guesses them on loopback.
        self.serial += 1;
        let mut id = [u8::from(self.server); 16];
        id[..8].copy_from_slice(&self.serial.to_be_bytes());
        id
    }

    fn add(&mut self, id: QuicheId, quic: quiche::Connection, drawn: Vec<u8>) -> Rc<Notify> {
        let news = Rc::new(Notify::new());
        self.connections.insert(id, QuicheStream { quic, news: news.clone(), drawn, closed: false });
        self.stirred.insert(id);
        news
    }

    /// Gives a datagram to its connection; a new one is returned.
    fn take(&mut self, datagram: &mut [u8], from: SocketAddr) -> Option<(QuicheId, Rc<Notify>)> {
        let header = quiche::Header::from_slice(datagram, 16).ok()?;
        let own =
            QuicheId::try_from(header.dcid.as_ref()).ok().filter(|id| self.connections.contains_key(id));
        let known = own.or_else(|| self.drawn.get(header.dcid.as_ref()).copied());
        let (id, new) = match known {
            Some(id) => (id, None),
            None if self.server && header.ty == quiche::Type::Initial => {
                let id = self.fresh_id();
                let source = ConnectionId::from_ref(&id);
                let quic = quiche::accept(&source, None, self.address, from, &mut self.config).ok()?;
                self.drawn.insert(header.dcid.to_vec(), id);
                (id, Some((id, self.add(id, quic, header.dcid.to_vec()))))
            }
            None => return None,
        };
        let one = self.connections.get_mut(&id)?;
        // A datagram that is not for us does no harm.
        let _ = one.quic.recv(datagram, RecvInfo { from, to: self.address });
        self.stirred.insert(id);
        new
    }
}

fn start(
    address: SocketAddr,
    config: Config,
    server: bool,
) -> Result<(Rc<QuicheShared>, mpsc::UnboundedReceiver<QuicheLine>)> {
    let socket = std::net::UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    let plain = socket2::SockRef::from(&socket);
    plain.set_recv_buffer_size(SOCKET_BUFFER)?;
    plain.set_send_buffer_size(SOCKET_BUFFER)?;
    let offload = UdpSocketState::new(UdpSockRef::from(&socket))?;
    let socket = UdpSocket::from_std(socket)?;
    let (sender, accepted) = mpsc::unbounded_channel();
    let state = QuicheState {
        config,
        address: socket.local_addr()?,
        connections: BTreeMap::new(),
        stirred: BTreeSet::new(),
        drawn: BTreeMap::new(),
        serial: 0,
        server,
    };
    let shared = Rc::new(QuicheShared { state: RefCell::new(state), work: Notify::new(), accepted: sender });
    let driver = QuicheDriver { shared: shared.clone(), socket, offload };
    tokio::task::spawn_local(async move {
        if let Err(error) = driver.drive().await {
            eprintln!("quiche's driver: {error:#}");
            std::process::exit(1);
        }
    });
    Ok((shared, accepted))
}

struct QuicheDriver {
    shared: Rc<QuicheShared>,
    socket: UdpSocket,
    offload: UdpSocketState,
}

impl QuicheDriver {
    async fn drive(self) -> Result<()> {
        let mut buffers = vec![vec![0; 64 << 10]; BATCH_SIZE];
        let mut out = vec![0; usize::from(MTU) * self.offload.max_gso_segments().min(44)];
        loop {
            let deadline = self.deadline();
            let pause = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                ready = self.socket.readable() => { ready?; self.receive(&mut buffers)?; }
                () = self.shared.work.notified() => {}
                () = pause => self.on_time(),
            }
            self.send(&mut out).await?;
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.shared.state.borrow().connections.values().filter_map(|one| one.quic.timeout_instant()).min()
    }

    fn on_time(&self) {
        let (now, mut state) = (Instant::now(), self.shared.state.borrow_mut());
        let QuicheState { connections, stirred, .. } = &mut *state;
        for (id, one) in connections {
            if one.quic.timeout_instant().is_some_and(|at| at <= now) {
                one.quic.on_timeout();
                one.news.notify_waiters();
                stirred.insert(*id);
            }
        }
    }

    fn receive(&self, buffers: &mut [Vec<u8>]) -> Result<()> {
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let mut slices: Vec<IoSliceMut<'_>> = buffers.iter_mut().map(|one| IoSliceMut::new(one)).collect();
        let received = self.socket.try_io(Interest::READABLE, || {
            self.offload.recv(UdpSockRef::from(&self.socket), &mut slices, &mut metas)
        });
        let n = match received {
            Ok(n) => n,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let mut state = self.shared.state.borrow_mut();
        for (meta, buffer) in metas[..n].iter().zip(buffers) {
            for datagram in buffer[..meta.len].chunks_mut(meta.stride.max(1)) {
                if let Some((id, news)) = state.take(datagram, meta.addr) {
                    let line = QuicheLine { shared: self.shared.clone(), id, news, next: 0 };
                    // Nobody accepts any more: then it is not answered.
                    let _ = self.shared.accepted.send(line);
                }
            }
        }
        for id in &state.stirred {
            if let Some(one) = state.connections.get(id) {
                one.news.notify_waiters();
            }
        }
        Ok(())
    }

    /// Sends what those that were stirred have, a run of equal datagrams at a time.
    async fn send(&self, out: &mut [u8]) -> Result<()> {
        let stirred = std::mem::take(&mut self.shared.state.borrow_mut().stirred);
        for id in stirred {
            while let Some((len, segment, to)) = self.fill(id, out) {
                let transmit = Transmit {
                    destination: to,
                    ecn: None,
                    contents: &out[..len],
                    segment_size: (segment < len).then_some(segment),
                    src_ip: None,
                };
                loop {
                    let sent = self.socket.try_io(Interest::WRITABLE, || {
                        self.offload.try_send(UdpSockRef::from(&self.socket), &transmit)
                    });
                    match sent {
                        Ok(()) => break,
                        Err(error) if error.kind() == ErrorKind::WouldBlock => self.socket.writable().await?,
                        Err(error) => return Err(error.into()),
                    }
                }
            }
            let mut state = self.shared.state.borrow_mut();
            let over = |one: &QuicheStream| one.closed || one.quic.is_draining() || one.quic.is_closed();
            if state.connections.get(&id).is_some_and(over) {
                if let Some(one) = state.connections.remove(&id) {
                    state.drawn.remove(&one.drawn);
                    one.news.notify_waiters();
                }
            }
        }
        Ok(())
    }

    /// Length, length of each but the last, and where to.
    fn fill(&self, id: QuicheId, out: &mut [u8]) -> Option<(usize, usize, SocketAddr)> {
        let mut state = self.shared.state.borrow_mut();
        let quic = &mut state.connections.get_mut(&id)?.quic;
        let (mut len, mut segment, mut to) = (0, 0, None);
        while out.len() - len >= usize::from(MTU) {
            let end = if segment == 0 { usize::from(MTU) } else { segment };
            let Ok((n, path)) = quic.send(&mut out[len..len + end]) else { break };
            to = Some(path.to);
            segment = segment.max(n);
            len += n;
            // Behind a short datagram all would have to be as short, and more of them than the kernel takes
            // at once.
            if n < segment || segment < usize::from(MTU) * 3 / 4 {
                break;
            }
        }
        to.map(|to| (len, segment, to))
    }
}

fn config(group: PeerGroup) -> Result<Config> {
    let window = u64::from(WINDOW);
    let mut config = Config::new(quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(&[tls::PROTOCOL])?;
    config.set_max_idle_timeout(30_000);
    config.set_max_recv_udp_payload_size(MTU.into());
    config.set_max_send_udp_payload_size(MTU.into());
    config.set_initial_max_data(window);
    config.set_initial_max_stream_data_bidi_local(window);
    config.set_initial_max_stream_data_bidi_remote(window);
    config.set_initial_max_streams_bidi(100);
    config.set_max_connection_window(window);
    config.set_max_stream_window(window);
    config.enable_pacing(false);
    config.set_curves_list(group.name())?;
    Ok(config)
}

/// A file in PEM, which is how quiche takes keys; gone when dropped.
struct Pem(std::path::PathBuf);

impl Pem {
    fn new(label: &str, der: &[u8]) -> Result<Self> {
        let name = format!("quickset-peers-{}-{}.pem", std::process::id(), label.replace(' ', "-"));
        let path = std::env::temp_dir().join(name);
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
        file.write_all(pem(label, der).as_bytes())?;
        Ok(Self(path))
    }

    fn path(&self) -> Result<&str> {
        self.0.to_str().context("the folder of temporary files has no name in UTF-8")
    }
}

impl Drop for Pem {
    fn drop(&mut self) {
        // One that stays does no harm: its key is of this run only.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// RFC 7468.
fn pem(label: &str, der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut body = String::new();
    for three in der.chunks(3) {
        let word =
            three.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for i in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * i)) as usize & 63];
            body.push(if i <= three.len() { char::from(digit) } else { '=' });
        }
        if body.len() % 65 == 64 {
            body.push('\n');
        }
    }
    format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
}
