//! A handshake without cryptography, for simulations, fuzzing and unit tests.
//!
//! *In, out:* the traits of the session seam. The handshake has the round trips and about the bytes of
//! TLS 1.3 with a small certificate; packets carry a 16-byte checksum in the place of the tag and their
//! payload as it is. No entropy is drawn: equal inputs give equal bytes.
//!
//! Invariants: a packet that was altered, or sealed by another connection, level, direction or generation,
//! does not open (but for a chance of 2^-64). **It protects nothing against anybody**, and no default build
//! holds it.

mod seal;
mod session;
#[cfg(test)]
mod tests;
mod tickets;

use std::sync::{Arc, Mutex};

use quickset_wire::{ConnectionId, ResetToken, Side, Version};

use super::{ChooseVersion, ClientCrypto, Crypto, CryptoSession, EndpointCrypto, Keys, ServerCrypto};
use seal::{TAG, digest, initial_keys, retry_tag};
use session::NullSession;
use tickets::{IssuedTickets, NullTickets};

/// Starts null handshakes of clients.
#[derive(Clone, Debug)]
pub struct NullClient {
    alpn: Vec<Vec<u8>>,
    tickets: Option<Arc<Mutex<NullTickets>>>,
    hello: usize,
}

impl NullClient {
    /// A client that offers the application protocols `alpn`, each of at most 255 bytes.
    pub fn new(alpn: &[&[u8]]) -> Self {
        Self { alpn: protocols(alpn), tickets: None, hello: session::CLIENT_HELLO }
    }

    /// The same with tickets: later connections to a server resume an earlier one, and may carry early data.
    /// Clones share the tickets, each of which is used once.
    #[must_use]
    pub fn with_tickets(mut self) -> Self {
        self.tickets = Some(Arc::default());
        self
    }

    /// The same with hellos of `len` bytes, at most 60,000: with a share of X25519MLKEM768 they are some
    /// 1600.
    #[must_use]
    pub fn with_hello(mut self, len: usize) -> Self {
        self.hello = len.min(60_000);
        self
    }
}

/// Starts null handshakes of servers.
#[derive(Clone, Debug)]
pub struct NullServer {
    alpn: Vec<Vec<u8>>,
    certificate: usize,
    issued: Option<Arc<Mutex<IssuedTickets>>>,
}

impl NullServer {
    /// A server that speaks the application protocols `alpn`, the best first; without any it takes
    /// clients that offer none.
    pub fn new(alpn: &[&[u8]]) -> Self {
        Self { alpn: protocols(alpn), certificate: 900, issued: None }
    }

    /// The same with early data: it is taken with a ticket of a connection of this server or a clone, once.
    #[must_use]
    pub fn with_early_data(mut self) -> Self {
        self.issued = Some(Arc::default());
        self
    }

    /// The same with a certificate chain of `len` bytes, at most 60,000; long ones meet the
    /// anti-amplification limit (RFC 9000 §8.1).
    #[must_use]
    pub fn with_certificate(mut self, len: usize) -> Self {
        self.certificate = len.min(60_000);
        self
    }
}

/// An endpoint's secrets, from a number.
#[derive(Clone, Debug)]
pub struct NullSecrets(pub u64);

impl Crypto for NullClient {
    fn initial_keys(&self, version: Version, dcid: &ConnectionId, side: Side) -> Option<Keys> {
        initial_keys(version, dcid, side)
    }

    fn retry_tag(&self, version: Version, original_dcid: &ConnectionId, packet: &[u8]) -> Option<[u8; TAG]> {
        retry_tag(version, original_dcid, packet)
    }
}

impl Crypto for NullServer {
    fn initial_keys(&self, version: Version, dcid: &ConnectionId, side: Side) -> Option<Keys> {
        initial_keys(version, dcid, side)
    }

    fn retry_tag(&self, version: Version, original_dcid: &ConnectionId, packet: &[u8]) -> Option<[u8; TAG]> {
        retry_tag(version, original_dcid, packet)
    }
}

impl ClientCrypto for NullClient {
    fn follows(&self) -> bool {
        true
    }

    fn start(
        self: Arc<Self>,
        version: Version,
        server_name: &str,
        params: Vec<u8>,
    ) -> Result<Box<dyn CryptoSession>, String> {
        if server_name.is_empty() || server_name.len() > 255 {
            return Err("a server name has 1 to 255 bytes".into());
        }
        let tickets = self.tickets.clone();
        let offered = self.alpn.clone();
        Ok(Box::new(NullSession::client(version, self.hello, server_name, offered, params, tickets)))
    }
}

impl ServerCrypto for NullServer {
    fn start(self: Arc<Self>, version: Version, params: Vec<u8>) -> Box<dyn CryptoSession> {
        Box::new(self.session(version, params))
    }

    fn start_choosing(
        self: Arc<Self>,
        version: Version,
        params: Vec<u8>,
        choose: ChooseVersion,
    ) -> Box<dyn CryptoSession> {
        Box::new(self.session(version, params).choosing(choose))
    }
}

impl NullServer {
    fn session(&self, version: Version, params: Vec<u8>) -> NullSession {
        let issued = self.issued.clone();
        NullSession::server(version, self.certificate, self.alpn.clone(), params, issued)
    }
}

impl EndpointCrypto for NullSecrets {
    fn reset_token(&self, id: &ConnectionId) -> ResetToken {
        ResetToken(digest(self.0 ^ RESET, id, &[]))
    }

    fn seal_token(&self, nonce: [u8; 12], plain: &[u8]) -> Vec<u8> {
        let mut token = [&nonce, plain].concat();
        let tag = digest(self.0, &nonce, plain);
        token.extend_from_slice(&tag);
        token
    }

    fn open_token(&self, token: &[u8]) -> Option<Vec<u8>> {
        let (sealed, tag) = token.split_last_chunk::<TAG>()?;
        let (nonce, plain) = sealed.split_first_chunk::<12>()?;
        (digest(self.0, nonce, plain) == *tag).then(|| plain.to_vec())
    }
}

fn protocols(alpn: &[&[u8]]) -> Vec<Vec<u8>> {
    alpn.iter().map(|p| p[..p.len().min(255)].to_vec()).collect()
}

// Tells one use of a secret from another.
const RESET: u64 = 0x7265_7365;
