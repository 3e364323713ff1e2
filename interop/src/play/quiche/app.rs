//! What goes over a connection of quiche: files, asked for and answered.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use bytes::Bytes;
use quiche::Connection;
use quiche::h3::{self, Header, NameValue as _};

use crate::play::{PlayJob, PlayRole, request};
use crate::tls;

pub(super) struct App<'a> {
    job: &'a PlayJob,
    h3: Option<h3::Connection>,
    /// A client's paths that are yet to be asked for.
    todo: Vec<String>,
    next: u64,
    /// What is being received: paths and contents; a server's are requests.
    inwards: BTreeMap<u64, (String, Vec<u8>)>,
    /// What is being sent.
    outwards: BTreeMap<u64, Bytes>,
    received: usize,
}

impl<'a> App<'a> {
    pub(super) fn client(job: &'a PlayJob, todo: Vec<String>) -> Self {
        Self {
            job,
            h3: None,
            todo,
            next: 0,
            inwards: BTreeMap::new(),
            outwards: BTreeMap::new(),
            received: 0,
        }
    }

    pub(super) fn server(job: &'a PlayJob) -> Self {
        Self::client(job, Vec::new())
    }

    /// All was asked for and has come.
    pub(super) fn is_done(&self) -> bool {
        self.todo.is_empty() && self.inwards.is_empty()
    }

    /// Something has come.
    pub(super) fn has_begun(&self) -> bool {
        self.received > 50_000
    }

    /// Does what can be done now.
    pub(super) fn turn(&mut self, connection: &mut Connection) -> Result<()> {
        if self.job.h3 {
            if self.h3.is_none() {
                self.h3 = Some(h3::Connection::with_transport(connection, &h3::Config::new()?)?);
            }
            let Some(mut h3) = self.h3.take() else { return Ok(()) };
            let result = self.turn_h3(connection, &mut h3);
            self.h3 = Some(h3);
            result
        } else {
            self.turn_hq(connection)
        }
    }

    fn turn_hq(&mut self, connection: &mut Connection) -> Result<()> {
        while let Some(path) = self.todo.last() {
            if connection.peer_streams_left_bidi() == 0 {
                break;
            }
            // Requests are short: flow control has room for all or it is tried again.
            match connection.stream_send(self.next, &request(path), true) {
                Ok(_) => {}
                Err(quiche::Error::Done | quiche::Error::StreamLimit) => break,
                Err(error) => return Err(error.into()),
            }
            self.inwards.insert(self.next, (path.clone(), Vec::new()));
            self.todo.pop();
            self.next += 4;
        }
        let mut buffer = [0; 1 << 16];
        for id in connection.readable() {
            loop {
                match connection.stream_recv(id, &mut buffer) {
                    Ok((len, over)) => {
                        self.received += len;
                        self.inwards.entry(id).or_default().1.extend_from_slice(&buffer[..len]);
                        if over {
                            self.arrived(id)?;
                        }
                    }
                    Err(quiche::Error::Done | quiche::Error::InvalidStreamState(_)) => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        for (id, data) in &mut self.outwards {
            match connection.stream_send(*id, data, true) {
                Ok(len) => drop(data.split_to(len)),
                Err(quiche::Error::Done) => {}
                Err(error) => eprintln!("answering: {error}"),
            }
        }
        self.outwards.retain(|_, data| !data.is_empty());
        Ok(())
    }

    /// A stream has come to its end.
    fn arrived(&mut self, id: u64) -> Result<()> {
        let Some((path, content)) = self.inwards.remove(&id) else { return Ok(()) };
        if self.job.role == PlayRole::Client {
            return self.job.store(&path, &content);
        }
        self.outwards.insert(id, self.job.requested(&content)?);
        Ok(())
    }

    fn turn_h3(&mut self, connection: &mut Connection, h3: &mut h3::Connection) -> Result<()> {
        while let Some(path) = self.todo.last() {
            let head = [(":method", "GET"), (":scheme", "https"), (":authority", tls::NAME), (":path", path)];
            let head = head.map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes()));
            match h3.send_request(connection, &head, true) {
                Ok(id) => drop(self.inwards.insert(id, (path.clone(), Vec::new()))),
                Err(h3::Error::StreamBlocked | h3::Error::TransportError(quiche::Error::StreamLimit)) => {
                    break;
                }
                Err(error) => return Err(error.into()),
            }
            self.todo.pop();
        }
        loop {
            match h3.poll(connection) {
                Ok((id, h3::Event::Headers { list, .. })) => self.head(connection, h3, id, &list)?,
                Ok((id, h3::Event::Data)) => self.content(connection, h3, id)?,
                Ok((id, h3::Event::Finished)) => {
                    if let Some((path, content)) = self.inwards.remove(&id) {
                        self.job.store(&path, &content)?;
                    }
                }
                Ok((_, h3::Event::Reset(code))) => bail!("a request was reset with code {code:#x}"),
                Ok(_) => {}
                Err(h3::Error::Done) => break,
                Err(error) => return Err(error.into()),
            }
        }
        for (id, data) in &mut self.outwards {
            match h3.send_body(connection, *id, data, true) {
                Ok(len) => drop(data.split_to(len)),
                Err(h3::Error::Done) => {}
                Err(error) => eprintln!("answering: {error}"),
            }
        }
        self.outwards.retain(|_, data| !data.is_empty());
        Ok(())
    }

    fn head(
        &mut self,
        connection: &mut Connection,
        h3: &mut h3::Connection,
        id: u64,
        list: &[Header],
    ) -> Result<()> {
        let find = |name: &[u8]| list.iter().find(|field| field.name() == name).map(|f| f.value().to_vec());
        if self.job.role == PlayRole::Client {
            ensure!(find(b":status").as_deref() == Some(b"200"), "the status is {:?}", find(b":status"));
            return Ok(());
        }
        let path = String::from_utf8(find(b":path").unwrap_or_default())?;
        let file = self.job.file(&path);
        let status = if file.is_some() { b"200" } else { b"404" };
        let file = file.unwrap_or_default();
        h3.send_response(connection, id, &[Header::new(b":status", status)], file.is_empty())?;
        if !file.is_empty() {
            self.outwards.insert(id, file);
        }
        Ok(())
    }

    fn content(&mut self, connection: &mut Connection, h3: &mut h3::Connection, id: u64) -> Result<()> {
        let mut buffer = [0; 1 << 16];
        loop {
            match h3.recv_body(connection, id, &mut buffer) {
                Ok(len) => {
                    self.received += len;
                    if let Some((_, content)) = self.inwards.get_mut(&id) {
                        content.extend_from_slice(&buffer[..len]);
                    }
                }
                Err(h3::Error::Done) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
