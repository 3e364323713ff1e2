//! The seam to the TLS handshake: what `tls` (and the null session of simulations) provides.

use std::any::Any;
use std::sync::Arc;

use quickset_base::Duration;
use quickset_wire::{ConnectionId, ResetToken, Side, Version};

use crate::{EarlyFate, HandshakeFault, TransportError};

/// A handshake in progress, and the connection's cryptographic identity afterwards.
pub trait CryptoSession: Send {
    /// Takes handshake bytes, in order, from the CRYPTO frames of the level that is being read.
    ///
    /// # Errors
    /// The TLS alert as CRYPTO_ERROR (RFC 9001 §4.8).
    fn read(&mut self, data: &[u8]) -> Result<(), TransportError>;

    /// Appends the handshake bytes to send at the level that is being written. `Some` carries new
    /// keys: later bytes belong to their level, and the caller asks again.
    fn write(&mut self, out: &mut Vec<u8>) -> Option<KeyChange>;

    /// True until the handshake is complete on this side (RFC 9001 §4.1.1).
    fn is_handshaking(&self) -> bool;

    /// The peer's transport parameters as they came, once they are there. They are authentic only
    /// when the handshake is complete.
    fn peer_params(&self) -> Option<&[u8]>;

    /// Keys of 0-RTT packets, once: for a client those that seal, from the start and when it has a session to
    /// resume, whose transport parameters [`peer_params`](Self::peer_params) are until the server's come; for
    /// a server those that open, when it has read a hello and takes the early data that it offers.
    fn early_keys(&mut self) -> Option<Sealing> {
        None
    }

    /// For a client that has [early keys](Self::early_keys): what the server said to it.
    fn early_fate(&self) -> EarlyFate {
        EarlyFate::None
    }

    /// For a server that has read nothing: early data is not to be taken.
    fn refuse_early(&mut self) {}

    /// For a server: the version in which the handshake goes on, once the client's hello has been read, if
    /// that is another one than it began in (RFC 9368 §2.3).
    fn chosen_version(&self) -> Option<Version> {
        None
    }

    /// For a client that has read nothing: the server goes on in `version`, and so do the keys to come. False
    /// when there would be none; [`ClientCrypto::follows`] says so beforehand.
    fn follow(&mut self, version: Version) -> bool {
        let _ = version;
        false
    }

    /// The application protocol agreed on (ALPN), once it is known.
    fn alpn(&self) -> Option<&[u8]>;

    /// For a server: the name that the client asked for (RFC 6066 §3), once its hello has been read.
    fn server_name(&self) -> Option<&str> {
        None
    }

    /// What went wrong, where the peer ends the handshake with `error` and this side knows more of it than
    /// that says.
    fn explain(&self, error: &TransportError) -> Option<HandshakeFault> {
        let _ = error;
        None
    }

    /// What the peer proved to be; the type is the implementation's own (certificates for `tls`).
    fn peer_identity(&self) -> Option<Box<dyn Any>>;

    /// Key material bound to this connection (RFC 8446 §7.5); false when there is none yet.
    fn export(&self, label: &[u8], context: &[u8], out: &mut [u8]) -> bool;

    /// The handshake is confirmed, and nothing of it is under way: what is needed for handshakes alone may
    /// go. May be said several times.
    fn rest(&mut self) {}

    /// The connection is over: secrets go, and what else nobody asks for any more. What was agreed on and
    /// proven is still told; nothing is read, written or exported from here on.
    fn end(&mut self) {}
}

/// New keys, as the handshake makes them.
#[expect(missing_debug_implementations, reason = "keys are never printed")]
pub enum KeyChange {
    /// For Handshake packets.
    Handshake(Keys),
    /// For 1-RTT packets, with the generator of all later generations.
    OneRtt {
        /// The first generation.
        keys: Keys,
        /// Those that follow (RFC 9001 §6).
        next: Box<dyn NextKeys>,
    },
}

/// Keys of one level, both directions.
#[expect(missing_debug_implementations, reason = "keys are never printed")]
pub struct Keys {
    /// Ours: what we seal with.
    pub local: Sealing,
    /// The peer's: what we open with.
    pub remote: Sealing,
}

/// Keys of one direction.
#[expect(missing_debug_implementations, reason = "keys are never printed")]
pub struct Sealing {
    /// Protects the header.
    pub header: Box<dyn HeaderKey>,
    /// Protects the payload.
    pub packet: Box<dyn PacketKey>,
}

/// Later generations of 1-RTT packet keys; header keys never change (RFC 9001 §6.1).
pub trait NextKeys: Send {
    /// The next generation: ours and the peer's.
    fn next(&mut self) -> PacketKeys;
}

/// A generation of packet keys.
#[expect(missing_debug_implementations, reason = "keys are never printed")]
pub struct PacketKeys {
    /// Ours.
    pub local: Box<dyn PacketKey>,
    /// The peer's.
    pub remote: Box<dyn PacketKey>,
}

/// Seals and opens packets (RFC 9001 §5.3).
pub trait PacketKey: Send {
    /// Encrypts `payload` in place; its last [`tag_len`](Self::tag_len) bytes receive the tag.
    fn seal(&self, pn: u64, header: &[u8], payload: &mut [u8]);

    /// Decrypts `payload` in place and returns the length of the plain text, or `None` when it is not
    /// authentic.
    fn open(&self, pn: u64, header: &[u8], payload: &mut [u8]) -> Option<usize>;

    /// Bytes that sealing adds.
    fn tag_len(&self) -> usize;

    /// Packets that may be sealed with this key (RFC 9001 §6.6).
    fn confidentiality_limit(&self) -> u64;

    /// Packets that may fail to open with this key (RFC 9001 §6.6).
    fn integrity_limit(&self) -> u64;
}

/// Masks and unmasks packet numbers (RFC 9001 §5.4).
pub trait HeaderKey: Send {
    /// Masks the first byte and the packet number.
    fn protect(&self, sample: &[u8], first: &mut u8, pn: &mut [u8]);

    /// Undoes [`protect`](Self::protect). `pn` holds four bytes; only those that the unmasked first
    /// byte counts are changed.
    fn unprotect(&self, sample: &[u8], first: &mut u8, pn: &mut [u8]);

    /// Bytes of the sample.
    fn sample_len(&self) -> usize;
}

/// What both sides need before there is a session.
pub trait Crypto: Send + Sync {
    /// Initial keys from the client's first destination connection id (RFC 9001 §5.2); `None` for a
    /// version that it does not know.
    fn initial_keys(&self, version: Version, dcid: &ConnectionId, side: Side) -> Option<Keys>;

    /// The integrity tag of a Retry packet (RFC 9001 §5.8). `packet` is the packet without its tag.
    fn retry_tag(&self, version: Version, original_dcid: &ConnectionId, packet: &[u8]) -> Option<[u8; 16]>;
}

/// Starts client handshakes.
pub trait ClientCrypto: Crypto {
    /// Whether handshakes go on in another version where the server wants that ([`CryptoSession::follow`]),
    /// so that servers may be told of others.
    fn follows(&self) -> bool {
        false
    }

    /// A handshake towards `server_name`, announcing `params` (encoded transport parameters).
    ///
    /// # Errors
    /// A sentence for people, when the name or the configuration cannot be used.
    fn start(
        self: Arc<Self>,
        version: Version,
        server_name: &str,
        params: Vec<u8>,
    ) -> Result<Box<dyn CryptoSession>, String>;
}

/// Starts server handshakes.
pub trait ServerCrypto: Crypto {
    /// A handshake with a client, announcing `params` (encoded transport parameters).
    fn start(self: Arc<Self>, version: Version, params: Vec<u8>) -> Box<dyn CryptoSession>;

    /// The same with a client that may be answered in another version, where `choose` wants that and the
    /// handshake can be made so. One that resumes a session never is: what was given in one version is good
    /// for no other (RFC 9369 §5).
    fn start_choosing(
        self: Arc<Self>,
        version: Version,
        params: Vec<u8>,
        choose: ChooseVersion,
    ) -> Box<dyn CryptoSession> {
        drop(choose);
        self.start(version, params)
    }
}

/// Is told the transport parameters in a client's hello, and says in which version the handshake goes on and
/// what is announced there; `None`: in the one in which it began, with what is announced there.
pub type ChooseVersion = Box<dyn FnOnce(&[u8]) -> Option<(Version, Vec<u8>)> + Send>;

/// The endpoint's own secrets, which outlive connections.
pub trait EndpointCrypto: Send + Sync {
    /// The stateless reset token of a connection id of ours (RFC 9000 §10.3.2).
    fn reset_token(&self, id: &ConnectionId) -> ResetToken;

    /// Seals an address validation token; `nonce` is drawn anew for each.
    fn seal_token(&self, nonce: [u8; 12], plain: &[u8]) -> Vec<u8>;

    /// Opens what [`seal_token`](Self::seal_token) made, or `None`.
    fn open_token(&self, token: &[u8]) -> Option<Vec<u8>>;

    /// When the endpoint began, by a clock that goes on where another endpoint opens its tokens: they are
    /// dated by it. Zero, where nobody else opens them.
    fn began(&self) -> Duration {
        Duration::ZERO
    }
}
