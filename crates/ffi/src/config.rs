//! What connections are made by: certificates, trust, protocols, and numbers.

use std::any::Any;
use std::ffi::{c_char, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quickset::{
    ClientAuth, ClientConfig, Fingerprint, Identity, Protection, ServerConfig, TransportConfig, Trust,
    policies,
};

use crate::border::{Buffer, OutPlace, bytes, text};
use crate::status::{CallFailure, QS_CONFIG, QS_UNSUPPORTED, QsStatus, call};
use crate::table::{HandledObject, ReservedHandle, get};

/// A handle of a configuration.
pub type QsConfig = u64;

/// The silence after which a connection ends, in milliseconds; 0 for never.
pub const QS_OPTION_IDLE_TIMEOUT_MS: u32 = 1;
/// The silence after which a PING keeps a connection alive, in milliseconds; 0 for none, as at the start.
pub const QS_OPTION_KEEP_ALIVE_MS: u32 = 2;
/// How long a handshake may take, in milliseconds, at least 1.
pub const QS_OPTION_HANDSHAKE_TIMEOUT_MS: u32 = 3;
/// How many connections a server has at a time, handshakes included; 10,000 at the start.
pub const QS_OPTION_MAX_CONNECTIONS: u32 = 4;
/// The largest message that is taken, in bytes, at least 1200; 0 offers no fenced streams.
pub const QS_OPTION_MAX_MESSAGE: u32 = 5;
/// 0 to offer no forward erasure correction, 1 to offer it, as at the start.
pub const QS_OPTION_FEC: u32 = 6;
/// Whether a server asks clients for a certificate: 0 for no, as at the start, 1 for yes, 2 to refuse those
/// without. Who is welcome the application decides, by `qs_connection_peer_fingerprint`.
pub const QS_OPTION_CLIENT_AUTH: u32 = 7;
/// How many streams of both directions the peer may have open at a time.
pub const QS_OPTION_MAX_STREAMS_BI: u32 = 8;
/// How many streams of its direction the peer may have open at a time.
pub const QS_OPTION_MAX_STREAMS_UNI: u32 = 9;
/// How many bytes a stream holds before it takes no more to be sent.
pub const QS_OPTION_SEND_BUFFER: u32 = 10;

/// A configuration that is being made.
#[derive(Default)]
pub(crate) struct ConfigObject(Mutex<ConfigParts>);

#[derive(Default)]
struct ConfigParts {
    protocols: Vec<String>,
    identity: Option<Identity>,
    trust: ChosenTrust,
    protection: Option<Protection>,
    transport: TransportConfig,
    max_connections: Option<usize>,
    clients: ClientAuth,
    /// Made by the first connection and kept for the next: it knows the sessions to resume.
    client: Option<ClientConfig>,
}

#[derive(Default)]
enum ChosenTrust {
    #[default]
    Unsaid,
    Roots(Trust),
    Pins(Vec<Fingerprint>),
    Anybody,
}

impl ConfigObject {
    fn lock(&self) -> MutexGuard<'_, ConfigParts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn client(&self) -> Result<ClientConfig, CallFailure> {
        self.lock().client()
    }

    pub(crate) fn server(&self) -> Result<ServerConfig, CallFailure> {
        self.lock().server()
    }
}

impl ConfigParts {
    fn alpn(&self) -> Vec<&str> {
        self.protocols.iter().map(String::as_str).collect()
    }

    fn client(&mut self) -> Result<ClientConfig, CallFailure> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let trust = match &self.trust {
            ChosenTrust::Unsaid => {
                return Err(CallFailure::new(
                    QS_CONFIG,
                    "say which servers to trust: qs_config_trust_roots or qs_config_trust_fingerprint",
                ));
            }
            ChosenTrust::Roots(roots) => roots.clone(),
            ChosenTrust::Pins(pins) => Trust::pinned_any(pins.iter().copied()),
            ChosenTrust::Anybody => Trust::insecure(),
        };
        let client = ClientConfig::new(trust, &self.alpn()).map_err(unfit)?;
        let client = client.with_transport(self.transport());
        let client = match &self.identity {
            Some(identity) => client.with_identity(identity.clone()),
            None => client,
        };
        self.client = Some(client.clone());
        Ok(client)
    }

    fn server(&self) -> Result<ServerConfig, CallFailure> {
        let identity = self.identity.clone().ok_or_else(|| {
            CallFailure::new(
                QS_CONFIG,
                "a server needs a certificate: qs_config_set_identity or qs_config_set_self_signed",
            )
        })?;
        let server = ServerConfig::new(identity, &self.alpn()).map_err(unfit)?;
        let server = server.with_transport(self.transport()).with_client_auth(self.clients).map_err(unfit)?;
        Ok(match self.max_connections {
            Some(max) => server.with_max_connections(max),
            None => server,
        })
    }

    fn transport(&self) -> TransportConfig {
        let mut transport = self.transport.clone();
        if let (Some(fec), Some(protection)) = (&mut transport.fec, &self.protection) {
            fec.protection.clone_from(protection);
        }
        transport
    }

    fn set_number(&mut self, option: u32, value: u64) -> Result<(), CallFailure> {
        match option {
            QS_OPTION_IDLE_TIMEOUT_MS => self.transport.idle_timeout = duration(value)?,
            QS_OPTION_KEEP_ALIVE_MS => self.transport.keep_alive = duration(value)?,
            QS_OPTION_HANDSHAKE_TIMEOUT_MS => {
                let time = duration(value)?.ok_or_else(|| CallFailure::invalid("a handshake takes time"))?;
                self.transport.handshake_timeout = time;
            }
            QS_OPTION_MAX_CONNECTIONS => {
                self.max_connections = Some(usize::try_from(value).unwrap_or(usize::MAX));
            }
            QS_OPTION_MAX_MESSAGE => {
                self.transport.fenced_streams = match value {
                    0 => None,
                    1200.. => Some(value.min(LONGEST_MESSAGE)),
                    _ => return Err(CallFailure::invalid("the largest message has at least 1200 bytes")),
                };
            }
            QS_OPTION_FEC => match value {
                0 => self.transport.fec = None,
                1 => self.transport.fec = TransportConfig::default().fec,
                _ => return Err(CallFailure::invalid("QS_OPTION_FEC is 0 or 1")),
            },
            QS_OPTION_CLIENT_AUTH => {
                self.clients = match value {
                    0 => ClientAuth::None,
                    1 => ClientAuth::Optional,
                    2 => ClientAuth::Mandatory,
                    _ => return Err(CallFailure::invalid("QS_OPTION_CLIENT_AUTH is 0, 1 or 2")),
                };
            }
            QS_OPTION_MAX_STREAMS_BI => self.transport.max_bidi_streams = value.min(MOST_STREAMS),
            QS_OPTION_MAX_STREAMS_UNI => self.transport.max_uni_streams = value.min(MOST_STREAMS),
            QS_OPTION_SEND_BUFFER => {
                self.transport.send_buffer = value;
                let all = &mut self.transport.connection_send_buffer;
                *all = value.max(*all);
            }
            _ => return Err(CallFailure::new(QS_UNSUPPORTED, format!("there is no option {option}"))),
        }
        self.client = None;
        Ok(())
    }
}

/// RFC 9000 §4.6: no more can be counted.
const MOST_STREAMS: u64 = 1 << 60;

/// What fits the number on the wire (RFC 9000 §16), and any memory.
const LONGEST_MESSAGE: u64 = 1 << 40;

/// A year, in milliseconds.
const YEAR_MS: u64 = 365 * 24 * 3600 * 1000;

fn duration(ms: u64) -> Result<Option<Duration>, CallFailure> {
    if ms > YEAR_MS {
        return Err(CallFailure::invalid("a time of more than a year; 0 says never"));
    }
    Ok((ms > 0).then(|| Duration::from_millis(ms)))
}

fn unfit(error: impl std::fmt::Display) -> CallFailure {
    CallFailure::of(QS_CONFIG, error)
}

impl HandledObject for ConfigObject {
    fn name() -> &'static str {
        "a configuration"
    }

    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// Does `change` to a configuration. Connections that are there already stay as they are.
fn change(
    config: QsConfig,
    change: impl FnOnce(&mut ConfigParts) -> Result<(), CallFailure>,
) -> Result<(), CallFailure> {
    let config = get::<ConfigObject>(config)?;
    let mut parts = config.lock();
    change(&mut parts)?;
    parts.client = None;
    Ok(())
}

/// Makes a configuration for servers, clients or both, and stores its handle in `config`. Endpoints and
/// connections take what it holds when they are made; it may be changed or freed afterwards. Keep that of a
/// client: later connections by it resume the session of an earlier one.
///
/// # Safety
/// `config` leads to memory for a handle, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_config_new(config: *mut QsConfig) -> QsStatus {
    call(|| {
        let place = OutPlace::needed(config, "the place for the handle")?;
        let handle = ReservedHandle::new(0)?.place(Arc::new(ConfigObject::default()))?;
        // SAFETY: the caller vouches for it.
        unsafe { place.put(handle) };
        Ok(())
    })
}

/// Adds an application protocol (ALPN), 1 to 255 bytes like `chat/1`, behind those that were added before. At
/// least one is needed.
///
/// # Safety
/// `protocol` is a text, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_config_add_protocol(config: QsConfig, protocol: *const c_char) -> QsStatus {
    call(|| {
        // SAFETY: the caller vouches for it.
        let protocol = unsafe { text(protocol, "the protocol") }?;
        if protocol.is_empty() || protocol.len() > 255 {
            return Err(CallFailure::invalid("the name of a protocol has 1 to 255 bytes"));
        }
        change(config, |parts| {
            parts.protocols.push(protocol.to_owned());
            Ok(())
        })
    })
}

/// Sets who the server proves to be, or the client if it is asked: PEM with a chain of certificates, its own
/// first, and PEM with the private key. Neither text needs a zero byte behind it.
///
/// # Safety
/// The pointers lead to as many bytes as their lengths say, or are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_config_set_identity(
    config: QsConfig,
    certificates: *const c_void,
    certificates_length: usize,
    key: *const c_void,
    key_length: usize,
) -> QsStatus {
    call(|| {
        // SAFETY: the caller vouches for it.
        let certificates = pem(unsafe { bytes(certificates, certificates_length) }?)?;
        // SAFETY: as above.
        let key = pem(unsafe { bytes(key, key_length) }?)?;
        let identity = Identity::from_pem(certificates, key).map_err(unfit)?;
        change(config, |parts| {
            parts.identity = Some(identity);
            Ok(())
        })
    })
}

/// Makes a new key, and a certificate for this host name or address that it signs itself. Clients know it by
/// its fingerprint: see `qs_config_fingerprint` and `qs_config_trust_fingerprint`.
///
/// # Safety
/// `name` is a text, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_config_set_self_signed(config: QsConfig, name: *const c_char) -> QsStatus {
    call(|| {
        // SAFETY: the caller vouches for it.
        let name = unsafe { text(name, "the name") }?;
        let identity = Identity::self_signed([name]).map_err(unfit)?;
        change(config, |parts| {
            parts.identity = Some(identity);
            Ok(())
        })
    })
}

const NO_IDENTITY: &str =
    "there is no certificate yet: call qs_config_set_identity or qs_config_set_self_signed before";

/// Stores the fingerprint of the key, which clients may pin: a text of 71 bytes and a zero byte.
///
/// # Safety
/// `buffer` leads to `capacity` bytes and `length` to memory for a number, or they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_config_fingerprint(
    config: QsConfig,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> QsStatus {
    call(|| {
        let buffer = Buffer::new(buffer.cast(), capacity, length)?;
        let identity = get::<ConfigObject>(config)?.lock().identity.clone();
        let identity = identity.ok_or_else(|| CallFailure::new(QS_CONFIG, NO_IDENTITY))?;
        // SAFETY: the caller vouches for it.
        unsafe { buffer.fill_text(&identity.fingerprint().to_string()) }
    })
}

/// Trusts servers with a certificate for their name that one of these authorities signed, which are given as
/// PEM. It replaces what was trusted before.
///
/// # Safety
/// `pem` leads to `length` bytes, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_config_trust_roots(
    config: QsConfig,
    pem: *const c_void,
    length: usize,
) -> QsStatus {
    call(|| {
        // SAFETY: the caller vouches for it.
        let roots = self::pem(unsafe { bytes(pem, length) }?)?;
        let roots = Trust::roots(roots).map_err(unfit)?;
        change(config, |parts| {
            parts.trust = ChosenTrust::Roots(roots);
            Ok(())
        })
    })
}

/// Trusts a server that has the key with this fingerprint, `sha256:` and 64 hexadecimal digits, whatever its
/// name. Called again it trusts several keys. It replaces what was trusted in another way.
///
/// # Safety
/// `fingerprint` is a text, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_config_trust_fingerprint(
    config: QsConfig,
    fingerprint: *const c_char,
) -> QsStatus {
    call(|| {
        // SAFETY: the caller vouches for it.
        let pin = unsafe { text(fingerprint, "the fingerprint") }?;
        let pin: Fingerprint = pin.parse().map_err(|error| CallFailure::invalid(format!("{error}")))?;
        change(config, |parts| {
            if let ChosenTrust::Pins(pins) = &mut parts.trust {
                pins.push(pin);
            } else {
                parts.trust = ChosenTrust::Pins(vec![pin]);
            }
            Ok(())
        })
    })
}

/// Trusts any server, so that whoever is between the two ends can read and change everything. This is for
/// tests.
#[unsafe(no_mangle)]
pub extern "C" fn qs_config_trust_anybody(config: QsConfig) -> QsStatus {
    call(|| {
        change(config, |parts| {
            parts.trust = ChosenTrust::Anybody;
            Ok(())
        })
    })
}

/// Protects all streams that have no protection of their own, by one of these: `none`, `adaptive`,
/// `adaptive:bulk`, `adaptive:screen`, `adaptive:messages`, `rs:N/K`, `rs:N/K:stride=D`, `ldpc:N/K`,
/// `xor:DEPTH`, or a policy of a paper (`bulk`, `buffer`, `messages`, `ac-rlnc`, `tum`, `xor2d`, `sr`,
/// `fixed`, with their parameters behind a colon). `qs_error_message` lists the forms for a text that is
/// none.
///
/// # Safety
/// `protection` is a text, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_config_set_protection(config: QsConfig, protection: *const c_char) -> QsStatus {
    call(|| {
        // SAFETY: the caller vouches for it.
        let protection = read_protection(unsafe { text(protection, "the protection") }?)?;
        change(config, |parts| {
            parts.protection = Some(protection);
            Ok(())
        })
    })
}

/// Sets a number, one of `QS_OPTION_…`.
#[unsafe(no_mangle)]
pub extern "C" fn qs_config_set_number(config: QsConfig, option: u32, value: u64) -> QsStatus {
    call(|| change(config, |parts| parts.set_number(option, value)))
}

pub(crate) fn read_protection(text: &str) -> Result<Protection, CallFailure> {
    policies::read(text).map_err(|error| CallFailure::invalid(error.to_string()))
}

fn pem(bytes: &[u8]) -> Result<&str, CallFailure> {
    // All authorities of the world take less than a tenth of it.
    if bytes.len() > LONGEST_PEM {
        let (len, most) = (bytes.len(), LONGEST_PEM);
        return Err(CallFailure::new(
            QS_CONFIG,
            format!("{len} bytes of PEM are too many; {most} are the most"),
        ));
    }
    std::str::from_utf8(bytes).map_err(|_| CallFailure::invalid("this is not PEM"))
}

/// Bytes of PEM that are read.
const LONGEST_PEM: usize = 16 << 20;
