//! What is left of TLS when the handshake is through: the peer's late words, and key material for others.
//!
//! The library's connection takes as much memory as all else that an idle connection has; what it would still
//! be asked for is little.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use quickset_quic::{TransportError, TransportErrorCode as Code};
use rustls::{AlertDescription, CipherSuite, KeyLog};

use crate::derive::expand_label;
use crate::provider::{digest, hkdf};

/// Key material for others (RFC 8446 §7.5), from the secret that TLS has for that.
pub(crate) struct Exporter {
    hash: hkdf::Algorithm,
    secret: Vec<u8>,
}

impl Exporter {
    /// `None` for suites that QUIC does not use.
    pub(crate) fn new(suite: CipherSuite, secret: Vec<u8>) -> Option<Self> {
        let hash = match suite {
            CipherSuite::TLS13_AES_128_GCM_SHA256 | CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => {
                hkdf::HKDF_SHA256
            }
            CipherSuite::TLS13_AES_256_GCM_SHA384 => hkdf::HKDF_SHA384,
            _ => return None,
        };
        Some(Self { hash, secret })
    }

    /// False when that much cannot be had, and `out` is not filled.
    pub(crate) fn export(&self, label: &[u8], context: &[u8], out: &mut [u8]) -> bool {
        let algorithm = self.hash.hmac_algorithm().digest_algorithm();
        let hash = |bytes: &[u8]| digest::digest(algorithm, bytes);
        let mut derived = vec![0; algorithm.output_len()];
        // RFC 8446 §7.5. Nothing at all is nothing that anybody could have wanted.
        !out.is_empty()
            && expand_label(self.hash, &self.secret, [label, hash(&[]).as_ref()], &mut derived)
            && expand_label(self.hash, &derived, [b"exporter", hash(context).as_ref()], out)
    }
}

thread_local! {
    static HEARD: Cell<Option<Vec<u8>>> = const { Cell::new(None) };
}

/// Overhears the secret of exporters, which TLS tells while it reads, on the same thread: whoever had it read
/// asks for it then ([`ExporterLog::heard`]). What else reads along still does.
pub(crate) struct ExporterLog(Arc<dyn KeyLog>);

impl ExporterLog {
    pub(crate) fn before(log: Arc<dyn KeyLog>) -> Arc<dyn KeyLog> {
        Arc::new(Self(log))
    }

    /// The secret that was told on this thread since it was asked for last.
    pub(crate) fn heard() -> Option<Vec<u8>> {
        HEARD.take()
    }
}

impl KeyLog for ExporterLog {
    fn log(&self, label: &str, random: &[u8], secret: &[u8]) {
        if label == EXPORTER {
            HEARD.set(Some(secret.to_vec()));
        }
        if self.0.will_log(label) {
            self.0.log(label, random, secret);
        }
    }

    fn will_log(&self, label: &str) -> bool {
        label == EXPORTER || self.0.will_log(label)
    }
}

impl fmt::Debug for ExporterLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExporterLog(..)")
    }
}

/// What a server says behind the handshake: tickets, and nothing else (RFC 9001 §6, §4.4).
#[derive(Debug, Default)]
pub(crate) struct LateWords {
    /// A message that is not there as a whole.
    begun: Vec<u8>,
    tickets: u64,
    /// TLS may have made something of what we cannot read.
    is_strange: bool,
}

impl LateWords {
    /// Whether tickets came, and nothing of another.
    pub(crate) fn has_tickets(&self) -> bool {
        self.tickets > 0 && self.begun.is_empty() && !self.is_strange
    }

    /// Counts what TLS itself reads.
    pub(crate) fn follow(&mut self, data: &[u8]) {
        if self.is_strange || self.read(data).is_err() {
            *self = Self { is_strange: true, ..Self::default() };
        }
    }

    /// Takes handshake bytes of a server. Tickets are passed over.
    ///
    /// # Errors
    /// `unexpected_message` for whatever else there is, `decode_error` for what is no ticket after all, and
    /// what RFC 9001 §4.6.1 has for those of another protocol.
    pub(crate) fn read(&mut self, data: &[u8]) -> Result<(), TransportError> {
        self.begun.extend_from_slice(data);
        let mut rest = &self.begun[..];
        while let Some((&[kind, a, b, c], body)) = rest.split_first_chunk() {
            let len = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
            if kind != NEW_SESSION_TICKET {
                return Err(unexpected());
            }
            if len > MAX_MESSAGE {
                return Err(malformed());
            }
            let Some((ticket, behind)) = body.split_at_checked(len) else { break };
            check_ticket(ticket)?;
            self.tickets += 1;
            rest = behind;
        }
        let done = self.begun.len() - rest.len();
        self.begun.drain(..done);
        if self.begun.is_empty() {
            self.begun = Vec::new();
        }
        Ok(())
    }
}

/// RFC 8446 §4.6.1: lifetime, age, nonce, ticket, extensions.
fn check_ticket(body: &[u8]) -> Result<(), TransportError> {
    let extensions = || {
        let (_nonce, rest) = counted::<1>(body.get(8..)?)?;
        let (ticket, rest) = counted::<2>(rest)?;
        let (extensions, rest) = counted::<2>(rest)?;
        (!ticket.is_empty() && rest.is_empty()).then_some(extensions)
    };
    let mut rest = extensions().ok_or_else(malformed)?;
    while let Some((kind, behind)) = rest.split_first_chunk() {
        let (value, behind) = counted::<2>(behind).ok_or_else(malformed)?;
        // RFC 9001 §4.6.1.
        if u16::from_be_bytes(*kind) == EARLY_DATA && value != [0xff; 4] {
            return Err(TransportError::new(Code::PROTOCOL_VIOLATION, "a ticket with a limit on early data"));
        }
        rest = behind;
    }
    if rest.is_empty() { Ok(()) } else { Err(malformed()) }
}

/// A length of `N` bytes and as many bytes, and what follows.
fn counted<const N: usize>(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<N>()?;
    rest.split_at_checked(len.iter().fold(0, |len, byte| len << 8 | usize::from(*byte)))
}

/// Nothing is to come: of a client nothing at all, of a server no such message.
pub(crate) fn unexpected() -> TransportError {
    let code = Code::crypto(AlertDescription::UnexpectedMessage.into());
    TransportError::new(code, "a message of TLS that has no place behind the handshake")
}

fn malformed() -> TransportError {
    TransportError::new(Code::crypto(AlertDescription::DecodeError.into()), "a ticket that cannot be read")
}

/// What TLS calls it (the format of NSS key logs).
const EXPORTER: &str = "EXPORTER_SECRET";
/// RFC 8446 §4, §4.2.
const NEW_SESSION_TICKET: u8 = 4;
const EARLY_DATA: u16 = 42;
/// The largest ticket has 8 bytes, three lengths, and what these count.
const MAX_MESSAGE: usize = 8 + 1 + 255 + 2 + 65_535 + 2 + 65_534;

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(body.len()).unwrap().to_be_bytes();
        [&[kind, 0][..], &length, body].concat()
    }

    fn ticket(extensions: &[u8]) -> Vec<u8> {
        let fixed = [0, 0, 14, 16, 1, 2, 3, 4, 1, 9, 0, 3, 7, 7, 7];
        message(
            4,
            &[&fixed[..], &u16::try_from(extensions.len()).unwrap().to_be_bytes(), extensions].concat(),
        )
    }

    fn code(words: &mut LateWords, data: &[u8]) -> Option<u64> {
        words.read(data).err().map(|error| error.code.0)
    }

    /// RFC 8446 §4.6.1, RFC 9001 §4.6.1, §6.
    #[test]
    fn servers_give_tickets_and_say_nothing_else() {
        let early = [0, 42, 0, 4, 255, 255, 255, 255];
        let all = [ticket(&[]), ticket(&early), ticket(&[0xfa, 0xfa, 0, 1, 5])].concat();
        for cut in 0..all.len() {
            let mut words = LateWords::default();
            assert_eq!(code(&mut words, &all[..cut]), None, "{cut}");
            assert_eq!(code(&mut words, &all[cut..]), None, "{cut}");
            assert_eq!((words.tickets, words.has_tickets()), (3, true));
        }
        let mut begun = LateWords::default();
        begun.read(&all[..all.len() - 1]).unwrap();
        assert!(!begun.has_tickets(), "there is more to come");
        // unexpected_message: KeyUpdate, CertificateRequest, Finished.
        for kind in [24, 13, 20] {
            assert_eq!(code(&mut LateWords::default(), &message(kind, &[0])), Some(0x100 + 10));
        }
        let limited = [0, 42, 0, 4, 0, 0, 64, 0];
        assert_eq!(code(&mut LateWords::default(), &ticket(&limited)), Some(0xa));
        // decode_error.
        let mut short = ticket(&[]);
        short[3] -= 1;
        let torn = ticket(&[0, 42, 0, 9]);
        for wrong in [&short[..short.len() - 1], &torn, &message(4, &[]), &[4, 255, 0, 0]] {
            assert_eq!(code(&mut LateWords::default(), wrong), Some(0x100 + 50), "{wrong:?}");
        }
    }
}
