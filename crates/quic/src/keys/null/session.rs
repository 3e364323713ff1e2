use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use quickset_wire::{Side, TransportErrorCode, Version};

use super::seal::{NullNext, digest, directions, keys, mix, sealing, word};
use super::tickets::{Grant, IssuedTickets, NullTicket, NullTickets};
use crate::TransportError;
use crate::early::{EarlyFate, EarlyLimits};
use crate::keys::{ChooseVersion, CryptoSession, KeyChange, Sealing};

/// One side of a null handshake.
pub(super) struct NullSession {
    side: Side,
    stage: NullStage,
    /// What we offer, or speak.
    offered: Vec<Vec<u8>>,
    params: Vec<u8>,
    certificate: usize,
    /// Handshake bytes that are not yet a whole message.
    incoming: Vec<u8>,
    /// To be written at the present level, before the keys that follow it.
    outgoing: Vec<u8>,
    /// Binds keys to everything that was said.
    transcript: u64,
    alpn: Option<Vec<u8>>,
    peer_params: Option<Vec<u8>>,
    /// The secret of the 1-RTT keys, once it is agreed.
    master: Option<u64>,
    resumption: Resumption,
    /// A server's: who says in which version it goes on, and what was said.
    choose: Option<ChooseVersion>,
    chosen: Option<Version>,
}

/// What remains of a connection for a later one.
#[derive(Default)]
struct Resumption {
    /// A client's: the name of the server, and its tickets.
    kept: Option<(String, Arc<Mutex<NullTickets>>)>,
    /// A server's.
    issued: Option<Arc<Mutex<IssuedTickets>>>,
    /// The secret of the 0-RTT keys; a server's if it takes early data.
    secret: Option<u64>,
    fate: EarlyFate,
    refused: bool,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NullStage {
    /// A hello of the peer's.
    Hello,
    /// We send, in answer to a hello, what precedes Handshake keys.
    HandshakeKeys,
    /// Server: our flight, and the 1-RTT keys behind it.
    Flight,
    /// The peer's Finished; for a client with its flight.
    Finished,
    /// Client: our Finished, and the 1-RTT keys behind it.
    Complete,
    /// Nothing but tickets.
    Done,
}

impl NullSession {
    /// A client that offers `offered`, and begins with a hello to the server of that name, of at least `size`
    /// bytes.
    pub(super) fn client(
        version: Version,
        size: usize,
        name: &str,
        offered: Vec<Vec<u8>>,
        params: Vec<u8>,
        kept: Option<Arc<Mutex<NullTickets>>>,
    ) -> Self {
        let mut session = Self::new(Side::Client, version, offered, params);
        let mut body = Vec::with_capacity(size);
        put_list(&mut body, &session.offered);
        put(&mut body, name.as_bytes());
        put(&mut body, &session.params);
        let ticket = kept.as_ref().and_then(|kept| lock(kept).take(name));
        if let Some(ticket) = &ticket {
            put(&mut body, &ticket.id.to_be_bytes());
        }
        let before = session.transcript;
        session.say(CLIENT_HELLO_KIND, body, size);
        if let Some(NullTicket { secret, params, .. }) = ticket {
            session.resumption.secret = Some(mix(secret, mix(before, session.transcript)));
            session.resumption.fate = EarlyFate::Undecided;
            session.peer_params = Some(params);
        }
        session.resumption.kept = kept.map(|kept| (name.to_owned(), kept));
        session
    }

    /// A server that speaks `offered`, with a certificate chain of `certificate` bytes.
    pub(super) fn server(
        version: Version,
        certificate: usize,
        offered: Vec<Vec<u8>>,
        params: Vec<u8>,
        issued: Option<Arc<Mutex<IssuedTickets>>>,
    ) -> Self {
        let resumption = Resumption { issued, ..Resumption::default() };
        Self { certificate, resumption, ..Self::new(Side::Server, version, offered, params) }
    }

    fn new(side: Side, version: Version, offered: Vec<Vec<u8>>, params: Vec<u8>) -> Self {
        Self {
            side,
            stage: NullStage::Hello,
            offered,
            params,
            certificate: 0,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            transcript: mix(u64::from(version.0), TRANSCRIPT),
            alpn: None,
            peer_params: None,
            master: None,
            resumption: Resumption::default(),
            choose: None,
            chosen: None,
        }
    }

    /// The same for a server that may go on in another version.
    pub(super) fn choosing(mut self, choose: ChooseVersion) -> Self {
        self.choose = Some(choose);
        self
    }

    /// Keys to come are those of `version`.
    fn turn(&mut self, version: Version) {
        self.transcript = mix(self.transcript, mix(u64::from(version.0), TRANSCRIPT));
        self.chosen = Some(version);
    }

    /// Queues a message of at least `size` bytes and adds it to the transcript.
    fn say(&mut self, kind: u8, mut body: Vec<u8>, size: usize) {
        body.resize(body.len().max(size.saturating_sub(MESSAGE_HEADER)), 0);
        let start = self.outgoing.len();
        self.outgoing.push(kind);
        let len = u16::try_from(body.len()).expect("messages are bounded by what they are made of");
        self.outgoing.extend_from_slice(&len.to_be_bytes());
        self.outgoing.append(&mut body);
        self.transcript = mix(self.transcript, word(&digest(0, &self.outgoing[start..], &[])));
    }

    /// Takes one whole message.
    fn hear(&mut self, message: &[u8]) -> Result<(), TransportError> {
        let (kind, body) = (message[0], &message[MESSAGE_HEADER..]);
        let before = self.transcript;
        self.transcript = mix(before, word(&digest(0, message, &[])));
        match (self.side, self.stage, kind) {
            (Side::Server, NullStage::Hello, CLIENT_HELLO_KIND) => {
                let (offers, body) = take_list(body).ok_or_else(malformed)?;
                let (_name, body) = take(body).ok_or_else(malformed)?;
                let (params, rest) = take(body).ok_or_else(malformed)?;
                self.agree(&offers)?;
                self.peer_params = Some(params.to_vec());
                self.resume(rest, before);
                let resumes = take(rest).is_some_and(|(id, _)| !id.is_empty());
                let chosen = self.choose.take().filter(|_| !resumes).and_then(|choose| choose(params));
                if let Some((version, params)) = chosen {
                    self.params = params;
                    self.turn(version);
                }
                self.stage = NullStage::HandshakeKeys;
                // What TLS has random bytes for: no two connections have the same keys.
                self.say(SERVER_HELLO_KIND, digest(0, &self.params, &[]).to_vec(), SERVER_HELLO);
            }
            (Side::Client, NullStage::Hello, SERVER_HELLO_KIND) => self.stage = NullStage::HandshakeKeys,
            (Side::Client, NullStage::Finished, FLIGHT_KIND) => {
                let (chosen, body) = take_list(body).ok_or_else(malformed)?;
                let (params, rest) = take(body).ok_or_else(malformed)?;
                self.peer_params = Some(params.to_vec());
                if self.resumption.fate == EarlyFate::Undecided {
                    let taken = take(rest).is_some_and(|(early, _)| !early.is_empty());
                    self.resumption.fate = if taken { EarlyFate::Accepted } else { EarlyFate::Rejected };
                }
                self.alpn = chosen.first().map(|p| p.to_vec());
                // RFC 9001 §8.1: a server that agrees on none of what was offered is not talked to.
                if !self.offered.is_empty() && !self.offered.iter().any(|p| self.alpn.as_ref() == Some(p)) {
                    return Err(no_protocol());
                }
            }
            (_, NullStage::Finished, FINISHED_KIND) => {
                // A client has heard the flight before: without it there are no parameters.
                if self.peer_params.is_none() {
                    return Err(unexpected());
                }
                if body.first_chunk::<8>() != Some(&before.to_be_bytes()) {
                    return Err(alert(DECRYPT_ERROR, "the handshake was altered on its way"));
                }
                self.finish();
            }
            (Side::Client, NullStage::Done, TICKET_KIND) => self.keep(body),
            _ => return Err(unexpected()),
        }
        Ok(())
    }

    /// The peer's Finished was good.
    fn finish(&mut self) {
        match self.side {
            Side::Client => {
                self.master = Some(mix(self.transcript, MASTER));
                self.say(FINISHED_KIND, self.transcript.to_be_bytes().to_vec(), FINISHED);
                self.stage = NullStage::Complete;
            }
            Side::Server => {
                let ticket = self.issue();
                self.say(TICKET_KIND, ticket, TICKET);
                self.stage = NullStage::Done;
            }
        }
    }

    /// Server: looks up the ticket in a hello, if there is one. Each is good once.
    fn resume(&mut self, rest: &[u8], before: u64) {
        let id = take(rest).and_then(|(id, _)| Some(u64::from_be_bytes(*id.first_chunk()?)));
        let Some((id, issued)) = id.zip(self.resumption.issued.as_ref()) else { return };
        let Some(grant) = lock(issued).take(id) else { return };
        let limits = EarlyLimits::decode(&self.params);
        // RFC 8446 §4.2.10, RFC 9000 §7.4.1.
        let same = grant.alpn == self.alpn && limits.is_some_and(|limits| limits.cover(&grant.limits));
        if same && !self.resumption.refused {
            self.resumption.secret = Some(mix(grant.secret, mix(before, self.transcript)));
            self.resumption.fate = EarlyFate::Accepted;
        }
    }

    /// Server: a ticket for a later connection; nothing when it gives none.
    fn issue(&self) -> Vec<u8> {
        let (Some(issued), Some(master)) = (&self.resumption.issued, self.master) else { return Vec::new() };
        let Some(limits) = EarlyLimits::decode(&self.params) else { return Vec::new() };
        let id = mix(master, TICKET_ID);
        let grant = Grant { secret: mix(master, TICKET_SECRET), alpn: self.alpn.clone(), limits };
        lock(issued).put(id, grant);
        let mut body = Vec::new();
        put(&mut body, &id.to_be_bytes());
        body
    }

    /// Client: keeps a ticket.
    fn keep(&self, body: &[u8]) {
        let id = take(body).and_then(|(id, _)| Some(u64::from_be_bytes(*id.first_chunk()?)));
        let (Some(id), Some((name, kept))) = (id, &self.resumption.kept) else { return };
        let (Some(master), Some(params)) = (self.master, &self.peer_params) else { return };
        let ticket = NullTicket { id, secret: mix(master, TICKET_SECRET), params: params.clone() };
        lock(kept).put(name, ticket);
    }

    /// Server: picks the protocol that it likes best among those offered.
    fn agree(&mut self, offers: &[&[u8]]) -> Result<(), TransportError> {
        self.alpn = self.offered.iter().find(|p| offers.contains(&p.as_slice())).cloned();
        if self.alpn.is_none() && !(self.offered.is_empty() && offers.is_empty()) {
            return Err(no_protocol());
        }
        Ok(())
    }

    /// Server: everything from the encrypted extensions to Finished.
    fn flight(&mut self) {
        let mut body = Vec::with_capacity(self.certificate + 256);
        put_list(&mut body, self.alpn.as_slice());
        put(&mut body, &self.params);
        if self.resumption.fate == EarlyFate::Accepted {
            put(&mut body, &[1]);
        }
        let size = body.len() + self.certificate + SIGNATURE;
        self.say(FLIGHT_KIND, body, size);
        self.say(FINISHED_KIND, self.transcript.to_be_bytes().to_vec(), FINISHED);
        self.master = Some(mix(self.transcript, MASTER));
    }

    fn one_rtt(&self) -> Option<KeyChange> {
        let master = self.master?;
        let [local, remote] = directions(master, self.side);
        Some(KeyChange::OneRtt { keys: keys(local, remote), next: Box::new(NullNext::new(local, remote)) })
    }
}

impl CryptoSession for NullSession {
    fn read(&mut self, data: &[u8]) -> Result<(), TransportError> {
        self.incoming.extend_from_slice(data);
        let incoming = std::mem::take(&mut self.incoming);
        let mut rest = incoming.as_slice();
        while let Some((&[_, high, low], _)) = rest.split_first_chunk::<MESSAGE_HEADER>() {
            let len = MESSAGE_HEADER + usize::from(u16::from_be_bytes([high, low]));
            let Some((message, behind)) = rest.split_at_checked(len) else { break };
            self.hear(message)?;
            rest = behind;
        }
        self.incoming = rest.to_vec();
        Ok(())
    }

    fn write(&mut self, out: &mut Vec<u8>) -> Option<KeyChange> {
        match self.stage {
            NullStage::HandshakeKeys => {
                out.append(&mut self.outgoing);
                let [local, remote] = directions(mix(self.transcript, HANDSHAKE), self.side);
                self.stage = if self.side.is_client() { NullStage::Finished } else { NullStage::Flight };
                Some(KeyChange::Handshake(keys(local, remote)))
            }
            NullStage::Flight => {
                self.flight();
                out.append(&mut self.outgoing);
                self.stage = NullStage::Finished;
                self.one_rtt()
            }
            NullStage::Complete => {
                out.append(&mut self.outgoing);
                self.stage = NullStage::Done;
                self.one_rtt()
            }
            NullStage::Hello | NullStage::Finished | NullStage::Done => {
                out.append(&mut self.outgoing);
                None
            }
        }
    }

    fn is_handshaking(&self) -> bool {
        !matches!(self.stage, NullStage::Complete | NullStage::Done)
    }

    fn peer_params(&self) -> Option<&[u8]> {
        self.peer_params.as_deref()
    }

    fn early_keys(&mut self) -> Option<Sealing> {
        self.resumption.secret.take().map(sealing)
    }

    fn early_fate(&self) -> EarlyFate {
        self.resumption.fate
    }

    fn refuse_early(&mut self) {
        self.resumption.refused = true;
    }

    fn chosen_version(&self) -> Option<Version> {
        self.chosen
    }

    fn follow(&mut self, version: Version) -> bool {
        let may = self.stage == NullStage::Hello;
        if may {
            self.turn(version);
        }
        may
    }

    fn alpn(&self) -> Option<&[u8]> {
        self.alpn.as_deref()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn export(&self, label: &[u8], context: &[u8], out: &mut [u8]) -> bool {
        let Some(master) = self.master else { return false };
        let seed = word(&digest(master, label, context));
        for (i, chunk) in out.chunks_mut(8).enumerate() {
            let bytes = mix(seed, i as u64).to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
        true
    }

    fn end(&mut self) {
        self.master = None;
    }
}

/// What a panic of another test left is still whole.
fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = u16::try_from(bytes.len()).expect("names, protocols and parameters are short");
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(bytes);
}

fn put_list<T: AsRef<[u8]>>(out: &mut Vec<u8>, items: impl IntoIterator<Item = T>) {
    let start = out.len();
    out.push(0);
    // A list is counted by one byte; what is beyond is not offered.
    for item in items.into_iter().take(255) {
        out[start] += 1;
        put(out, item.as_ref());
    }
}

fn take(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))
}

fn take_list(bytes: &[u8]) -> Option<(Vec<&[u8]>, &[u8])> {
    let (&n, mut rest) = bytes.split_first()?;
    let mut items = Vec::new();
    for _ in 0..n {
        let (item, behind) = take(rest)?;
        items.push(item);
        rest = behind;
    }
    Some((items, rest))
}

fn alert(code: u8, reason: &'static str) -> TransportError {
    TransportError::new(TransportErrorCode::crypto(code), reason)
}

fn unexpected() -> TransportError {
    alert(UNEXPECTED_MESSAGE, "a handshake message out of turn")
}

fn malformed() -> TransportError {
    alert(DECODE_ERROR, "a handshake message that cannot be read")
}

fn no_protocol() -> TransportError {
    alert(NO_APPLICATION_PROTOCOL, "no application protocol in common")
}

const MESSAGE_HEADER: usize = 3;

const CLIENT_HELLO_KIND: u8 = 1;
const SERVER_HELLO_KIND: u8 = 2;
const TICKET_KIND: u8 = 4;
const FLIGHT_KIND: u8 = 8;
const FINISHED_KIND: u8 = 20;

// Bytes of TLS 1.3 messages as rustls makes them with one X25519 share and one ECDSA certificate.
pub(super) const CLIENT_HELLO: usize = 300;
pub(super) const SERVER_HELLO: usize = 90;
const SIGNATURE: usize = 80;
const FINISHED: usize = 36;
const TICKET: usize = 180;

// RFC 8446 §6.
const UNEXPECTED_MESSAGE: u8 = 10;
const DECODE_ERROR: u8 = 50;
const DECRYPT_ERROR: u8 = 51;
const NO_APPLICATION_PROTOCOL: u8 = 120;

// Tell one use of a secret from another.
const HANDSHAKE: u64 = 0x6861_6e64;
const MASTER: u64 = 0x6d61_7374;
const TICKET_ID: u64 = 0x7469_636b;
const TICKET_SECRET: u64 = 0x7365_6372;
const TRANSCRIPT: u64 = 0x7472_616e;
