//! quiche's own HTTP/3.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use quiche::Error as QuicError;
use quiche::h3::{Config, Connection, Error, Event, Header, NameValue};

use super::QuicheLine;
use super::driver::QuicheStream;
use super::waiting::QuicheWait;
use crate::{
    AnswerHead, H3_NO_ERROR, NAME, NoUpload, PeerConnection, StackAnswer, StackClient, StackDownload,
    StackIdentity, StackServer, StackSetup,
};

/// HTTP/3 of a connection.
#[derive(Default)]
pub(super) struct QuicheHttp {
    machine: Option<Connection>,
    /// Heads that came and that nobody has taken yet; of requests their streams, in the order in which they
    /// came.
    heads: BTreeMap<u64, Vec<Header>>,
    asked: VecDeque<u64>,
    finished: BTreeSet<u64>,
    reset: BTreeMap<u64, u64>,
}

impl QuicheStream {
    /// Takes note of what has come, and says by which machine the rest is done; none before the handshake.
    fn turn(&mut self) -> Result<Option<(&mut Connection, &mut quiche::Connection)>> {
        let Self { quic, http, .. } = self;
        if http.machine.is_none() && (quic.is_established() || quic.is_in_early_data()) {
            http.machine = Some(Connection::with_transport(quic, &Config::new()?)?);
        }
        let Some(machine) = &mut http.machine else { return Ok(None) };
        while let Some((id, event)) = may(machine.poll(quic))? {
            match event {
                Event::Headers { list, .. } => {
                    http.heads.insert(id, list);
                    http.asked.push_back(id);
                }
                Event::Finished => drop(http.finished.insert(id)),
                Event::Reset(code) => drop(http.reset.insert(id, code)),
                _ => {}
            }
        }
        Ok(Some((machine, quic)))
    }
}

pub struct Listener(super::Listener);

pub fn serve(listen: SocketAddr, identity: &StackIdentity, setup: &StackSetup) -> Result<Listener> {
    Ok(Listener(super::serve(listen, identity, setup)?))
}

impl StackServer for Listener {
    type Connection = Visit;

    fn address(&self) -> SocketAddr {
        self.0.address()
    }

    async fn accept(&mut self) -> Option<Visit> {
        Some(Visit(self.0.accept().await?))
    }
}

pub struct Caller(super::Caller);

pub fn client(server: SocketAddr, trusted: &StackIdentity, setup: &StackSetup) -> Result<Caller> {
    Ok(Caller(super::client(server, trusted, setup)?))
}

impl StackClient for Caller {
    type Connection = Visit;

    async fn connect(&self, early: bool) -> Result<Visit> {
        Ok(Visit(self.0.connect(early).await?))
    }

    async fn leave(self) {
        self.0.leave().await;
    }
}

/// A connection, from either side.
pub struct Visit(QuicheLine);

impl PeerConnection for Visit {
    type Answer = Upstream;
    type Download = Downstream;
    type Upload = NoUpload;

    async fn request(&mut self, question: &[u8]) -> Result<Downstream> {
        let head = [
            (&b":method"[..], &b"GET"[..]),
            (b":scheme", b"https"),
            (b":authority", NAME.as_bytes()),
            (b":path", question),
        ];
        let head = head.map(|(name, value)| Header::new(name, value));
        let asking = self.0.until(|one| {
            let Some((machine, quic)) = one.turn()? else { return Ok(None) };
            Ok(may(machine.send_request(quic, &head, true))?)
        });
        let id = asking.await?;
        Ok(Downstream { line: self.0.handle(), id, is_begun: false })
    }

    async fn requested(&mut self) -> Result<Upstream> {
        let next = self.0.until(|one| {
            one.turn()?;
            Ok(one.http.asked.pop_front())
        });
        let id = next.await?;
        Ok(Upstream { line: self.0.handle(), id })
    }

    fn close(self) {
        self.0.end(H3_NO_ERROR.into());
    }
}

pub struct Upstream {
    line: QuicheLine,
    id: u64,
}

impl Upstream {
    /// Sends of a piece what there is room for, until all has gone.
    async fn body(&self, piece: &[u8], is_last: bool) -> Result<()> {
        let mut at = 0;
        let sending = self.line.until(|one| {
            let Some((machine, quic)) = one.turn()? else { return Ok(None) };
            let sent = may(machine.send_body(quic, self.id, &piece[at..], is_last))?;
            at += sent.unwrap_or_default();
            Ok((sent.is_some() && at == piece.len()).then_some(()))
        });
        sending.await
    }
}

impl StackAnswer for Upstream {
    async fn question(&mut self) -> Result<Vec<u8>> {
        let list = self.line.until(|one| Ok(one.http.heads.remove(&self.id))).await?;
        let path = list.iter().find(|field| field.name() == b":path");
        Ok(path.context("a request without a path")?.value().to_vec())
    }

    async fn begin(&mut self, head: &AnswerHead) -> Result<()> {
        let (status, length) = (head.status.to_string(), head.length.to_string());
        let list = [(":status", &status), ("content-length", &length)];
        let list = list.map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes()));
        let sending = self.line.until(|one| {
            let Some((machine, quic)) = one.turn()? else { return Ok(None) };
            Ok(may(machine.send_response(quic, self.id, &list, false))?)
        });
        sending.await
    }

    async fn send(&mut self, piece: Bytes) -> Result<()> {
        self.body(&piece, false).await
    }

    async fn end(self) -> Result<()> {
        self.body(&[], true).await
    }
}

pub struct Downstream {
    line: QuicheLine,
    id: u64,
    is_begun: bool,
}

impl StackDownload for Downstream {
    async fn receive(&mut self, take: &mut impl FnMut(&[u8])) -> Result<bool> {
        let Self { line, id, is_begun } = self;
        let receiving = line.shared.until(line.id, QuicheWait::News, |one, buffer| {
            let Some((machine, quic)) = one.turn()? else { return Ok(None) };
            let came = may(machine.recv_body(quic, *id, buffer))?;
            if let Some(code) = one.http.reset.get(id) {
                bail!("the request was reset with code {code:#x}");
            }
            if let Some(list) = one.http.heads.remove(id) {
                let status = list.iter().find(|field| field.name() == b":status").map(NameValue::value);
                ensure!(status == Some(b"200"), "the answer is {status:?}");
                *is_begun = true;
            }
            if let Some(n) = came {
                take(&buffer[..n]);
                return Ok(Some(true));
            }
            Ok((*is_begun && one.http.finished.contains(id)).then_some(false))
        });
        receiving.await
    }
}

/// What a verb of HTTP/3 did, or nothing where it may do it later.
fn may<T>(done: Result<T, Error>) -> Result<Option<T>, Error> {
    match done {
        Ok(value) => Ok(Some(value)),
        Err(Error::Done | Error::StreamBlocked | Error::TransportError(QuicError::StreamLimit)) => Ok(None),
        Err(error) => Err(error),
    }
}
