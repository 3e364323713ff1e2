//! quiche, which leaves sockets, timers and tasks to its user: these are ours, with segmentation offload both
//! ways by quinn-udp. Tuned it has windows and datagrams as the others, and no pacing (which it leaves to its
//! user too).

mod driver;
pub mod h3;
mod waiting;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use boring::ssl::{SslContextBuilder, SslMethod, SslOptions};
use bytes::Bytes;
use quiche::{Config, ConnectionId, Error};
use tokio::sync::mpsc;

use self::driver::{QuicheId, QuicheShared, QuicheStream, start};
use self::waiting::QuicheWait;
use crate::setup::DATAGRAMS;
use crate::{
    AnswerHead, FIXED_MTU, FIXED_WINDOW, MAX_QUESTION, NAME, PeerConnection, StackAnswer, StackClient,
    StackCounter, StackCounts, StackDownload, StackIdentity, StackServer, StackSetup, StackTickets,
    StackUpload,
};

/// A handle of a connection.
pub struct QuicheLine {
    shared: Rc<QuicheShared>,
    id: QuicheId,
    /// The next stream of either side: a client opens them, a server awaits them in order.
    next: u64,
    /// The same of those of one direction.
    next_upload: u64,
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
    used_tickets: Arc<AtomicU64>,
}

pub fn client(server: SocketAddr, trusted: &StackIdentity, setup: &StackSetup) -> Result<Caller> {
    let mut config = config(setup)?;
    config.load_verify_locations_from_file(&path(trusted, "cert.pem")?)?;
    config.verify_peer(true);
    let (shared, _) = start((server.ip(), 0).into(), config, setup, false)?;
    Ok(Caller { shared, server, used_tickets: setup.used_tickets.clone() })
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
            state.add(id, quic, Vec::new());
            QuicheLine::new(self.shared.clone(), id)
        };
        self.shared.work.notify_one();
        line.until(|one| {
            let is_there = one.quic.is_established() || early && one.quic.is_in_early_data();
            if is_there {
                self.used_tickets.fetch_add(one.quic.is_resumed().into(), Ordering::Relaxed);
            }
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
    fn new(shared: Rc<QuicheShared>, id: QuicheId) -> Self {
        // RFC 9000 §2.1: the first stream of a client, and its first of one direction.
        Self { shared, id, next: 0, next_upload: 2 }
    }

    /// Waits until `verb` has a result, which is tried again whenever something has come.
    async fn until<T>(&self, mut verb: impl FnMut(&mut QuicheStream) -> Result<Option<T>>) -> Result<T> {
        self.shared.until(self.id, QuicheWait::News, |one, _| verb(one)).await
    }

    fn handle(&self) -> Self {
        Self::new(self.shared.clone(), self.id)
    }

    /// Waits until there may be one more stream of both directions, or of one.
    async fn opening(&self, wait: QuicheWait) -> Result<()> {
        self.shared
            .until(self.id, wait, |one, _| {
                let left = match wait {
                    QuicheWait::OpeningUni => one.quic.peer_streams_left_uni(),
                    _ => one.quic.peer_streams_left_bidi(),
                };
                Ok((left > 0).then_some(()))
            })
            .await
    }

    /// Sends on a stream.
    async fn write(&self, stream: u64, piece: &[u8], is_last: bool) -> Result<()> {
        let (mut at, wait) = (0, QuicheWait::Writing(stream));
        self.shared
            .until(self.id, wait, |one, _| {
                let sent = may(one.quic.stream_send(stream, &piece[at..], is_last))?;
                at += sent.unwrap_or_default();
                Ok((sent.is_some() && at == piece.len()).then_some(()))
            })
            .await
    }

    async fn arrived(&self, stream: u64) -> Result<()> {
        let wait = QuicheWait::Reading(stream);
        self.shared.until(self.id, wait, |one, _| Ok(one.quic.stream_readable(stream).then_some(()))).await
    }

    fn end(&self, code: u64) {
        let mut shared = self.shared.state.borrow_mut();
        let state = &mut *shared;
        if let Some(one) = state.connections.get_mut(&self.id) {
            if matches!(state.tickets, StackTickets::Kept | StackTickets::Early) {
                state.session = one.quic.session().map(<[u8]>::to_vec);
            }
            // Closed already is closed.
            let _ = one.quic.close(true, code, b"");
            one.closed = true;
        }
        self.shared.stir(state, self.id);
    }
}

impl PeerConnection for QuicheLine {
    type Answer = Upstream;
    type Download = Downstream;
    type Upload = Upstream;

    async fn request(&mut self, question: &[u8]) -> Result<Downstream> {
        self.opening(QuicheWait::OpeningBidi).await?;
        let id = self.next;
        self.next += 4;
        self.write(id, question, true).await?;
        Ok(Downstream { line: self.handle(), id })
    }

    async fn requested(&mut self) -> Result<Upstream> {
        self.arrived(self.next).await?;
        let id = self.next;
        self.next += 4;
        Ok(Upstream { line: self.handle(), id })
    }

    async fn open_upload(&mut self) -> Result<Upstream> {
        self.opening(QuicheWait::OpeningUni).await?;
        let id = self.next_upload;
        self.next_upload += 4;
        self.write(id, &[], false).await?;
        Ok(Upstream { line: self.handle(), id })
    }

    async fn accept_upload(&mut self) -> Result<Downstream> {
        self.arrived(self.next_upload).await?;
        let id = self.next_upload;
        self.next_upload += 4;
        Ok(Downstream { line: self.handle(), id })
    }

    async fn send_datagrams(&mut self, data: &mut VecDeque<Bytes>) -> Result<()> {
        self.shared
            .until(self.id, QuicheWait::DatagramRoom, |one, _| {
                let before = data.len();
                while let Some(datagram) = data.front() {
                    if may(one.quic.dgram_send(datagram))?.is_none() {
                        break;
                    }
                    data.pop_front();
                }
                Ok((data.len() < before).then_some(()))
            })
            .await
    }

    async fn receive_datagrams(&mut self, take: &mut impl FnMut(&[u8])) -> Result<()> {
        self.shared
            .until(self.id, QuicheWait::Datagrams, |one, scratch| {
                let mut came = None;
                while let Some(n) = may(one.quic.dgram_recv(scratch))? {
                    take(&scratch[..n]);
                    came = Some(());
                }
                Ok(came)
            })
            .await
    }

    fn counter(&self) -> Option<StackCounter> {
        let line = self.handle();
        Some(Box::new(move || {
            let state = line.shared.state.borrow();
            let stats = state.connections.get(&line.id)?.quic.stats();
            Some(StackCounts {
                sent_packets: stats.sent as u64,
                lost_packets: stats.lost as u64,
                ..StackCounts::default()
            })
        }))
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
        let (id, mut question) = (self.id, Vec::new());
        let Upstream { line, .. } = self;
        line.shared
            .until(line.id, QuicheWait::Reading(id), |one, scratch| {
                while let Some((n, is_over)) = may(one.quic.stream_recv(id, scratch))? {
                    ensure!(question.len() + n <= MAX_QUESTION, "more than {MAX_QUESTION} bytes");
                    question.extend_from_slice(&scratch[..n]);
                    if is_over {
                        return Ok(Some(()));
                    }
                }
                Ok(None)
            })
            .await?;
        Ok(question)
    }

    async fn send(&mut self, piece: Bytes) -> Result<()> {
        self.line.write(self.id, &piece, false).await
    }

    async fn end(self) -> Result<()> {
        self.line.write(self.id, &[], true).await
    }

    async fn whole(self, _head: &AnswerHead, content: Bytes) -> Result<()> {
        self.line.write(self.id, &content, true).await
    }
}

impl StackUpload for Upstream {
    async fn send(&mut self, piece: Bytes) -> Result<()> {
        StackAnswer::send(self, piece).await
    }

    async fn end(self) -> Result<()> {
        StackAnswer::end(self).await
    }
}

pub struct Downstream {
    line: QuicheLine,
    id: u64,
}

impl StackDownload for Downstream {
    async fn receive(&mut self, take: &mut impl FnMut(&[u8])) -> Result<bool> {
        let Self { line, id } = self;
        line.shared
            .until(line.id, QuicheWait::Reading(*id), |one, scratch| {
                let Some((n, end)) = may(one.quic.stream_recv(*id, scratch))? else { return Ok(None) };
                take(&scratch[..n]);
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
    let mut config = if setup.tickets == StackTickets::None {
        let mut tls = SslContextBuilder::new(SslMethod::tls())?;
        tls.set_options(SslOptions::NO_TICKET);
        Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, tls)?
    } else {
        Config::new(quiche::PROTOCOL_VERSION)?
    };
    config.set_application_protos(&[setup.protocol])?;
    config.set_max_idle_timeout(setup.idle.as_millis() as u64);
    config.set_max_recv_udp_payload_size(FIXED_MTU.into());
    config.set_max_send_udp_payload_size(FIXED_MTU.into());
    config.set_initial_max_streams_bidi(setup.streams.unwrap_or(100).into());
    config.set_initial_max_streams_uni(setup.streams.unwrap_or(100).into());
    config.enable_dgram(true, DATAGRAMS, DATAGRAMS);
    let (window, all) = if setup.is_fixed() {
        let window = FIXED_WINDOW.into();
        config.set_max_connection_window(window);
        config.set_max_stream_window(window);
        config.enable_pacing(false);
        (window, window)
    } else {
        config.set_active_connection_id_limit(8);
        (1_000_000, 10_000_000)
    };
    config.set_initial_max_data(all);
    config.set_initial_max_stream_data_bidi_local(window);
    config.set_initial_max_stream_data_bidi_remote(window);
    config.set_initial_max_stream_data_uni(window);
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
