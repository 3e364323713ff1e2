//! A server of HTTP/2 made by hand (RFC 9113): real TLS, and above that whatever a test wants said.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use quickset::{Identity, ServerConfig};
use rustls::{ServerConnection, StreamOwned};

use crate::server::{Say, Script};
use crate::wire::prefixed;

/// A server that runs until the test ends.
pub(crate) struct Hostile {
    pub(crate) address: SocketAddr,
    pub(crate) pin: String,
    requests: Arc<AtomicUsize>,
    /// The most connections that there were at a time.
    peak: Arc<AtomicUsize>,
}

impl Hostile {
    pub(crate) fn new(script: Script) -> Self {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        let pin = identity.fingerprint().to_string();
        let tls = ServerConfig::new(identity, &["any"]).unwrap().tls(&["h2"]);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (requests, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counted, most) = (requests.clone(), peak.clone());
        thread::spawn(move || {
            let (script, all) = (Arc::new(script), Arc::new(AtomicUsize::new(0)));
            for (n, socket) in listener.incoming().flatten().enumerate() {
                let (script, requests, open) = (script.clone(), counted.clone(), all.clone());
                let stream = StreamOwned::new(ServerConnection::new(tls.clone()).unwrap(), socket);
                most.fetch_max(1 + open.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
                thread::spawn(move || {
                    // Its end is the client's doing, or what was to be said.
                    let _ = Talk::new(stream).serve(&script, n, &requests);
                    open.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        Self { address, pin, requests, peak }
    }

    /// How often something was asked for.
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// The most connections that there were at a time.
    pub(crate) fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }
}

/// One connection.
struct Talk {
    stream: StreamOwned<ServerConnection, TcpStream>,
    /// Streams of requests that were not answered.
    asked: VecDeque<u32>,
    /// What may be sent: of the connection, of each stream at first, and of each what has changed since.
    window: i64,
    initial: i64,
    windows: BTreeMap<u32, i64>,
}

impl Talk {
    fn new(stream: StreamOwned<ServerConnection, TcpStream>) -> Self {
        // RFC 9113 §6.9.2.
        let (window, initial) = (65_535, 65_535);
        Self { stream, asked: VecDeque::new(), window, initial, windows: BTreeMap::new() }
    }

    fn serve(mut self, script: &Script, n: usize, requests: &AtomicUsize) -> io::Result<()> {
        let mut preface = [0; 24];
        self.stream.read_exact(&mut preface)?;
        self.put(&frame(SETTINGS, 0, 0, &[]))?;
        if n >= script.spared {
            self.say(0, &script.control)?;
        }
        loop {
            let Some(stream) = self.asked.pop_front() else {
                self.read()?;
                continue;
            };
            let n = requests.fetch_add(1, Ordering::Relaxed);
            let answer = script.answers.get(n).or(script.answers.last()).cloned().unwrap_or_default();
            self.say(stream, &answer)?;
        }
    }

    fn say(&mut self, stream: u32, all: &[Say]) -> io::Result<()> {
        for what in all {
            match what {
                Say::Head(status, fields) => self.fields(stream, Some(*status), fields)?,
                Say::Data(content) => self.data(stream, content)?,
                Say::Trailers(fields) => self.fields(stream, None, fields)?,
                Say::Bytes(bytes) => self.put(bytes)?,
                Say::Forever(what) => loop {
                    self.say(stream, std::slice::from_ref(what))?;
                },
                Say::Wait(time) => thread::sleep(*time),
                Say::End => self.put(&frame(DATA, END_STREAM, stream, &[]))?,
                // The codes of HTTP/3 are those of HTTP/2 and more (RFC 9114 §8.1), of which the last digits
                // will do.
                Say::Reset(code) => self.put(&frame(RST_STREAM, 0, stream, &(*code as u32).to_be_bytes()))?,
                Say::Close(code) => {
                    self.put(&goaway(stream, *code as u32))?;
                    self.stream.conn.send_close_notify();
                    self.stream.flush()?;
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                Say::Leave => return Err(io::ErrorKind::ConnectionAborted.into()),
            }
        }
        Ok(())
    }

    fn fields(
        &mut self,
        stream: u32,
        status: Option<u16>,
        fields: &[(&'static str, String)],
    ) -> io::Result<()> {
        let status = status.map(|status| (":status", status.to_string()));
        let mut section = Vec::new();
        for (name, value) in status.iter().chain(fields) {
            section.extend(field(name, value));
        }
        let end = if status.is_none() { END_STREAM } else { 0 };
        let mut parts = section.chunks(MAX_FRAME).peekable();
        let (mut kind, mut flags) = (HEADERS, end);
        while let Some(part) = parts.next() {
            let last = if parts.peek().is_none() { END_HEADERS } else { 0 };
            self.put(&frame(kind, flags | last, stream, part))?;
            (kind, flags) = (CONTINUATION, 0);
        }
        Ok(())
    }

    /// Content, as far as the client takes it.
    fn data(&mut self, stream: u32, content: &[u8]) -> io::Result<()> {
        let len = i64::try_from(content.len()).unwrap();
        while self.window < len || self.initial + *self.windows.entry(stream).or_default() < len {
            self.read()?;
        }
        self.window -= len;
        *self.windows.entry(stream).or_default() -= len;
        self.put(&frame(DATA, 0, stream, content))
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// The next frame of the client.
    fn read(&mut self) -> io::Result<()> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head)?;
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut payload = vec![0; len];
        self.stream.read_exact(&mut payload)?;
        let word = |at: usize| payload[at..at + 4].try_into().map_or(0, u32::from_be_bytes);
        match (head[3], head[4]) {
            (HEADERS, _) => self.asked.push_back(stream),
            (SETTINGS, 0) => {
                for at in (0..len).step_by(6).filter(|at| payload[*at..at + 2] == INITIAL_WINDOW_SIZE) {
                    self.initial = word(at + 2).into();
                }
                self.put(&frame(SETTINGS, ACK, 0, &[]))?;
            }
            (WINDOW_UPDATE, _) if stream == 0 => self.window += i64::from(word(0)),
            (WINDOW_UPDATE, _) => *self.windows.entry(stream).or_default() += i64::from(word(0)),
            _ => {}
        }
        Ok(())
    }
}

/// A frame (RFC 9113 §4.1).
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A setting in a frame of its own.
pub(crate) fn setting(id: u8, value: u32) -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[&[0, id][..], &value.to_be_bytes()].concat())
}

/// No more requests are taken than this one.
pub(crate) fn goaway(last: u32, code: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat())
}

/// A field as it is, of which nothing is remembered (RFC 7541 §6.2.2).
pub(crate) fn field(name: &str, value: &str) -> Vec<u8> {
    let mut out = vec![0];
    for text in [name, value] {
        out.extend(prefixed(0, 7, text.len()));
        out.extend_from_slice(text.as_bytes());
    }
    out
}

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

const INITIAL_WINDOW_SIZE: [u8; 2] = [0, 4];

/// RFC 9113 §4.2: as long as a frame is, unless more is allowed.
const MAX_FRAME: usize = 16_384;
