//! Ours, HTTP/3 on the machines themselves, driven by one socket.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use bytes::{Bytes, BytesMut};
use quickset_base::{AddressPair, Batch, Datagram, Input, Machine as _, Poll, Rng, Seed, Time};
use quickset_h3::{BodyRead, Config, Connection, Event, OnQuic, Request, Response, VerbRefusal};
use quickset_quic::{self as quic, ConnectionKey, Endpoint, Node, Side, StreamId};

use super::quickset::{any_port, client_config, endpoint_config, server_config};
use super::{PlayJob, PlayRole, dismissed, listening, note};
use crate::port::{Arrival, Port};
use crate::tls;

pub(super) async fn play(job: PlayJob) -> Result<()> {
    match job.role {
        PlayRole::Server => {
            let port = Port::bind(job.address)?;
            listening(port.address());
            let server = Some(server_config(&job)?);
            let mut site = InteropSite::new(&job, Side::Server, server)?;
            tokio::select! {
                ended = site.drive(&port) => ended?,
                () = dismissed() => {}
            }
            site.close();
            let _ = tokio::time::timeout(Duration::from_millis(100), site.drive(&port)).await;
        }
        PlayRole::Client => {
            let port = Port::bind(any_port(job.address))?;
            let config = client_config(&job)?;
            let mut site = InteropSite::new(&job, Side::Client, None)?;
            for paths in job.connections() {
                site.todo = paths;
                let now = site.now();
                site.node.connect(now, &config, AddressPair::to(job.address), tls::NAME)?;
                site.drive(&port).await?;
                site.close();
                // The farewell leaves; what the server says to it is not waited for.
                let _ = tokio::time::timeout(Duration::from_millis(20), site.drive(&port)).await;
            }
        }
    }
    Ok(())
}

/// A node whose connections speak HTTP/3.
struct InteropSite<'a> {
    job: &'a PlayJob,
    node: Node,
    side: Side,
    epoch: Instant,
    h3: BTreeMap<ConnectionKey, Connection>,
    /// A client's paths that are yet to be asked for, and what is under way: paths and contents.
    todo: Vec<String>,
    files: BTreeMap<(ConnectionKey, StreamId), (String, Vec<u8>)>,
    /// A server's answers on their way.
    out: BTreeMap<(ConnectionKey, StreamId), Bytes>,
    failed: Option<String>,
    closing: bool,
}

impl<'a> InteropSite<'a> {
    fn new(job: &'a PlayJob, side: Side, server: Option<quic::ServerConfig>) -> Result<Self> {
        let mut seed = [0; 32];
        rustls::crypto::aws_lc_rs::default_provider()
            .secure_random
            .fill(&mut seed)
            .map_err(|_| anyhow::anyhow!("the system has no entropy"))?;
        Ok(Self {
            job,
            node: Node::new(Endpoint::new(endpoint_config(), server, Rng::new(Seed(seed)))),
            side,
            epoch: Instant::now(),
            h3: BTreeMap::new(),
            todo: Vec::new(),
            files: BTreeMap::new(),
            out: BTreeMap::new(),
            failed: None,
            closing: false,
        })
    }

    fn now(&self) -> Time {
        Time::ZERO + self.epoch.elapsed()
    }

    /// Until a client has all, or a server for ever.
    async fn drive(&mut self, port: &Port) -> Result<()> {
        let (mut out, mut arrivals, mut inbox) = (Batch::new(), Vec::new(), Vec::new());
        loop {
            let sleep = loop {
                match self.node.poll(self.now(), &mut out) {
                    Poll::Send => {
                        for segment in out.segments() {
                            port.send(out.path.remote, out.ecn, segment).await;
                        }
                        out.clear();
                    }
                    Poll::Event => {
                        while let Some((key, event)) = self.node.poll_event() {
                            self.on_event(key, event)?;
                        }
                    }
                    Poll::Sleep(until, _) => break until,
                }
            };
            if let Some(failed) = self.failed.take() {
                bail!("{failed}");
            }
            let asked = self.todo.is_empty() && self.files.is_empty();
            if self.side.is_client() && asked && !self.h3.is_empty() && !self.closing {
                return Ok(());
            }
            let timer = async {
                match sleep {
                    Some(at) => tokio::time::sleep(at.since(self.now())).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                received = port.receive(&mut arrivals) => received?,
                () = timer => {}
            }
            let now = self.now();
            if arrivals.is_empty() {
                self.node.handle(now, Input::Timer);
            } else {
                inbox.extend(arrivals.drain(..).map(|arrival| datagram(&arrival)));
                self.node.handle(now, Input::Received(&mut inbox));
            }
        }
    }

    /// Ends all connections.
    fn close(&mut self) {
        let now = self.now();
        for key in std::mem::take(&mut self.h3).into_keys() {
            if let Some(connection) = self.node.connection(key) {
                note("key_updates", connection.stats().key_updates);
                // RFC 9114 §8.1: H3_NO_ERROR.
                connection.close(now, 0x100, b"");
            }
        }
        self.closing = true;
    }

    /// A verb of HTTP/3 on a connection.
    fn verb<T>(
        &mut self,
        key: ConnectionKey,
        verb: impl FnOnce(&mut Connection, &mut OnQuic<'_>) -> T,
    ) -> Option<T> {
        let now = self.now();
        let h3 = self.h3.get_mut(&key)?;
        let mut t = OnQuic { connection: self.node.connection(key)?, now };
        Some(verb(h3, &mut t))
    }

    fn on_event(&mut self, key: ConnectionKey, event: quic::Event) -> Result<()> {
        match event {
            quic::Event::Connected => {
                let now = self.now();
                if let Some(connection) = self.node.connection(key) {
                    let mut t = OnQuic { connection, now };
                    self.h3.insert(key, Connection::new(self.side, Config::default(), &mut t));
                    self.closing = false;
                }
                self.ask(key)?;
            }
            quic::Event::Stream(event) => drop(self.verb(key, |h3, t| h3.handle(t, event))),
            quic::Event::Closed(why) => {
                eprintln!("over: {why}");
                if let Some(connection) = self.node.connection(key) {
                    note("key_updates", connection.stats().key_updates);
                }
                self.h3.remove(&key);
                if self.side.is_client() && !self.closing {
                    self.failed = Some(format!("the connection is over: {why}"));
                }
            }
            _ => {}
        }
        while let Some(event) = self.h3.get_mut(&key).and_then(Connection::poll_event) {
            self.on_h3(key, event)?;
        }
        Ok(())
    }

    fn on_h3(&mut self, key: ConnectionKey, event: Event) -> Result<()> {
        match event {
            Event::Request { id, request, priority } => {
                let path = request.path.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
                let file = self.job.file(&path);
                eprintln!("{id:?} asks for {path}, u={} i={}", priority.urgency, priority.incremental);
                let status = if file.is_some() { 200 } else { 404 };
                let file = file.unwrap_or_default();
                let mut response = Response::new(status).with("content-length", file.len().to_string());
                if let Some(kind) = kind(&path) {
                    response = response.with("content-type", kind);
                }
                self.verb(key, |h3, t| h3.respond(t, id, &response, false));
                self.out.insert((key, id), file);
                self.send(key, id);
                self.read(key, id)?;
            }
            Event::Response { id, response } => {
                if response.status != 200 {
                    self.failed = Some(format!("status {}", response.status));
                }
                self.read(key, id)?;
            }
            Event::Readable(id) => self.read(key, id)?,
            Event::Priority { id, priority } => {
                eprintln!("{id:?} has u={} i={}", priority.urgency, priority.incremental);
            }
            Event::Writable(id) => self.send(key, id),
            Event::Available(_) => self.ask(key)?,
            Event::Aborted { id, why } => {
                eprintln!("{id:?} aborted: {why}");
                self.out.remove(&(key, id));
                if self.files.remove(&(key, id)).is_some() {
                    self.failed = Some(format!("a request was aborted: {why}"));
                }
            }
            Event::Closed(error) => self.failed = self.side.is_client().then(|| error.to_string()),
            _ => {}
        }
        Ok(())
    }

    fn ask(&mut self, key: ConnectionKey) -> Result<()> {
        while let Some(path) = self.todo.last().cloned() {
            let request = Request::new("GET", "localhost", path.clone());
            match self.verb(key, |h3, t| h3.request(t, &request, true)) {
                Some(Ok(id)) => {
                    self.todo.pop();
                    self.files.insert((key, id), (path, Vec::new()));
                }
                None | Some(Err(VerbRefusal::Blocked)) => return Ok(()),
                Some(Err(other)) => bail!("asking for {path}: {other}"),
            }
        }
        Ok(())
    }

    fn send(&mut self, key: ConnectionKey, id: StreamId) {
        let Some(mut data) = self.out.remove(&(key, id)) else { return };
        while !data.is_empty() {
            match self.verb(key, |h3, t| h3.send(t, id, &mut data)) {
                Some(Ok(_)) => {}
                Some(Err(VerbRefusal::Blocked)) => {
                    self.out.insert((key, id), data);
                    return;
                }
                // The client wants no more of it, which is for the client's program to judge.
                other => {
                    eprintln!("sending: {other:?}");
                    return;
                }
            }
        }
        self.verb(key, |h3, t| h3.finish(t, id));
    }

    fn read(&mut self, key: ConnectionKey, id: StreamId) -> Result<()> {
        loop {
            match self.verb(key, |h3, t| h3.read(t, id, 64 << 10)) {
                Some(Ok(BodyRead::Data(data))) => {
                    if let Some((_, content)) = self.files.get_mut(&(key, id)) {
                        content.extend_from_slice(&data);
                    }
                }
                Some(Ok(BodyRead::Trailers(_))) => {}
                Some(Ok(BodyRead::Finished)) => break,
                _ => return Ok(()),
            }
        }
        match self.files.remove(&(key, id)) {
            Some((path, content)) => self.job.store(&path, &content),
            None => Ok(()),
        }
    }
}

/// What browsers want to be told of.
fn kind(path: &str) -> Option<&'static str> {
    let (_, ending) = path.split('?').next()?.rsplit_once('.')?;
    Some(match ending {
        "html" => "text/html",
        "css" => "text/css",
        "js" => "text/javascript",
        "svg" => "image/svg+xml",
        "woff2" => "font/woff2",
        "bin" => "application/octet-stream",
        _ => return None,
    })
}

fn datagram(arrival: &Arrival) -> Datagram {
    Datagram {
        path: AddressPair::to(arrival.from),
        ecn: arrival.ecn,
        bytes: BytesMut::from(&arrival.bytes[..]),
    }
}
