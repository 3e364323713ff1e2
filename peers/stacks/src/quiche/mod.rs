//! quiche, which leaves sockets, timers and tasks to its user: these are ours, with segmentation offload both
//! ways by quinn-udp. Tuned it has windows and datagrams as the others, and no pacing (which it leaves to its
//! user too).

mod driver;
pub mod h3;

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use quiche::{Config, ConnectionId, Error};
use tokio::sync::{Notify, mpsc};

use self::driver::{QuicheId, QuicheShared, QuicheStream, start};
use crate::{
    FIXED_MTU, FIXED_WINDOW, MAX_QUESTION, NAME, PeerConnection, StackAnswer, StackClient, StackDownload,
    StackIdentity, StackServer, StackSetup, StackTickets,
};

/// A handle of a connection.
pub struct QuicheLine {
    shared: Rc<QuicheShared>,
    id: QuicheId,
    news: Rc<Notify>,
    /// The next stream of either side: a client opens them, a server awaits them in order.
    next: u64,
}

pub struct Listener {
    address: SocketAddr,
    accepted: mpsc::UnboundedReceiver<QuicheLine>,
}

pub fn serve(listen: SocketAddr, identity: &StackIdentity, setup: &StackSetup) -> Result<Listener> {
    let mut config = config(setup)?;
    config.load_cert_chain_from_pem_file(&path(identity, "cert.pem")?)?;
    config.load_priv_key_from_pem_file(&path(identity, "key.pem")?)?;
    let (shared, accepted) = start(listen, config, setup, true)?;
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

pub struct Caller {
    shared: Rc<QuicheShared>,
    server: SocketAddr,
}

pub fn client(server: SocketAddr, trusted: &StackIdentity, setup: &StackSetup) -> Result<Caller> {
    let mut config = config(setup)?;
    config.load_verify_locations_from_file(&path(trusted, "cert.pem")?)?;
    config.verify_peer(true);
    let (shared, _) = start((server.ip(), 0).into(), config, setup, false)?;
    Ok(Caller { shared, server })
}

impl StackClient for Caller {
    type Connection = QuicheLine;

    async fn connect(&self, early: bool) -> Result<QuicheLine> {
        let line = {
            let mut state = self.shared.state.borrow_mut();
            let (id, local) = (state.fresh_id(), state.address);
            let source = ConnectionId::from_ref(&id);
            let mut quic = quiche::connect(Some(NAME), &source, local, self.server, &mut state.config)?;
            if let Some(session) = &state.session {
                quic.set_session(session)?;
            }
            QuicheLine { shared: self.shared.clone(), id, news: state.add(id, quic, Vec::new()), next: 0 }
        };
        self.shared.work.notify_one();
        line.until(|one| {
            let is_there = one.quic.is_established() || early && one.quic.is_in_early_data();
            Ok(is_there.then_some(()))
        })
        .await?;
        Ok(line)
    }

    async fn migrate(&self, line: &QuicheLine) -> Result<()> {
        // In the midst of what is on its way.
        tokio::time::sleep(crate::quinn::SETTLED).await;
        let other = self.shared.move_to((self.server.ip(), 0).into())?;
        line.until(|one| {
            let can = one.quic.available_dcids() > 0;
            Ok(can.then(|| one.quic.migrate_source(other)).transpose()?)
        })
        .await?;
        Ok(())
    }

    async fn leave(self) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

impl QuicheLine {
    /// Waits until `verb` has a result, and lets what it did be sent.
    async fn until<T>(&self, mut verb: impl FnMut(&mut QuicheStream) -> Result<Option<T>>) -> Result<T> {
        loop {
            {
                let mut state = self.shared.state.borrow_mut();
                let one = state.connections.get_mut(&self.id).context("the connection is over")?;
                let result = verb(one);
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

    fn end(&self, code: u64) {
        let mut shared = self.shared.state.borrow_mut();
        let state = &mut *shared;
        if let Some(one) = state.connections.get_mut(&self.id) {
            if state.tickets != StackTickets::None {
                state.session = one.quic.session().map(<[u8]>::to_vec);
            }
            // Closed already is closed.
            let _ = one.quic.close(true, code, b"");
            one.closed = true;
        }
        state.stirred.insert(self.id);
        self.shared.work.notify_one();
    }
}

impl PeerConnection for QuicheLine {
    type Answer = Upstream;
    type Download = Downstream;

    async fn request(&mut self, question: &[u8]) -> Result<Downstream> {
        let id = self.next;
        self.next += 4;
        let mut up = Upstream { line: self.handle(), id };
        up.send(Bytes::copy_from_slice(question)).await?;
        up.line.until(|one| Ok(may(one.quic.stream_send(id, &[], true))?)).await?;
        Ok(Downstream { line: up.line, id, buffer: vec![0; BUFFER] })
    }

    async fn requested(&mut self) -> Result<Upstream> {
        let id = self.next;
        self.next += 4;
        self.until(|one| Ok(one.quic.stream_readable(id).then_some(()))).await?;
        Ok(Upstream { line: self.handle(), id })
    }

    fn close(self) {
        self.end(0);
    }
}

pub struct Upstream {
    line: QuicheLine,
    id: u64,
}

impl StackAnswer for Upstream {
    async fn question(&mut self) -> Result<Vec<u8>> {
        let (id, mut question, mut len) = (self.id, vec![0; MAX_QUESTION], 0);
        let read = self.line.until(|one| {
            let Some((n, is_over)) = may(one.quic.stream_recv(id, &mut question[len..]))? else {
                return Ok(None);
            };
            len += n;
            ensure!(is_over || len < MAX_QUESTION, "more than {MAX_QUESTION} bytes");
            Ok(is_over.then_some(()))
        });
        read.await?;
        question.truncate(len);
        Ok(question)
    }

    async fn send(&mut self, piece: Bytes) -> Result<()> {
        let (id, mut at) = (self.id, 0);
        self.line
            .until(|one| {
                at += may(one.quic.stream_send(id, &piece[at..], false))?.unwrap_or_default();
                Ok((at == piece.len()).then_some(()))
            })
            .await
    }

    async fn end(self) -> Result<()> {
        let id = self.id;
        self.line.until(|one| Ok(may(one.quic.stream_send(id, &[], true))?)).await?;
        Ok(())
    }
}

pub struct Downstream {
    line: QuicheLine,
    id: u64,
    buffer: Vec<u8>,
}

impl StackDownload for Downstream {
    async fn receive(&mut self, take: &mut impl FnMut(&[u8])) -> Result<bool> {
        let (id, buffer) = (self.id, &mut self.buffer);
        self.line
            .until(|one| {
                let Some((n, end)) = may(one.quic.stream_recv(id, buffer))? else { return Ok(None) };
                take(&buffer[..n]);
                Ok(if n > 0 || end { Some(n > 0 && !end) } else { None })
            })
            .await
    }
}

/// What a verb of quiche did, or nothing where it may do it later.
fn may<T>(done: Result<T, Error>) -> Result<Option<T>, Error> {
    match done {
        Ok(value) => Ok(Some(value)),
        Err(Error::Done | Error::StreamLimit) => Ok(None),
        Err(error) => Err(error),
    }
}

fn config(setup: &StackSetup) -> Result<Config> {
    let mut config = Config::new(quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(&[setup.protocol])?;
    config.set_max_idle_timeout(setup.idle.as_millis() as u64);
    config.set_max_recv_udp_payload_size(FIXED_MTU.into());
    config.set_max_send_udp_payload_size(FIXED_MTU.into());
    config.set_initial_max_streams_bidi(100);
    let (window, all) = if setup.is_fixed() {
        let window = FIXED_WINDOW.into();
        config.set_max_connection_window(window);
        config.set_max_stream_window(window);
        config.enable_pacing(false);
        (window, window)
    } else {
        config.set_initial_max_stream_data_uni(1_000_000);
        config.set_initial_max_streams_uni(100);
        config.set_active_connection_id_limit(8);
        (1_000_000, 10_000_000)
    };
    config.set_initial_max_data(all);
    config.set_initial_max_stream_data_bidi_local(window);
    config.set_initial_max_stream_data_bidi_remote(window);
    let groups: Vec<&str> = setup.groups.iter().map(|group| group.name()).collect();
    config.set_curves_list(&groups.join(":"))?;
    if setup.tickets == StackTickets::Early {
        config.enable_early_data();
    }
    Ok(config)
}

/// quiche takes certificates and keys as files.
fn path(identity: &StackIdentity, name: &str) -> Result<String> {
    let path = identity.folder.join(name).into_os_string();
    path.into_string().ok().context("the folder of the identity has no name in UTF-8")
}

/// Bytes taken from a stream at a time.
const BUFFER: usize = 64 << 10;
