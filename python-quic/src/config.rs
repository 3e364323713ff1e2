//! What Python says of endpoints, read and checked.

use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use quickset::{Algorithm, Fingerprint, Identity, Protection, TransportConfig, Trust, policies};

use crate::errors::bad;

/// Who a server or a client proves to be.
#[pyclass(frozen, module = "quickset._native")]
pub(crate) struct NativeIdentity(pub(crate) Identity);

#[pymethods]
impl NativeIdentity {
    #[staticmethod]
    fn from_pem(certificates: &str, key: &str) -> PyResult<Self> {
        Identity::from_pem(certificates, key).map(Self).map_err(bad)
    }

    #[staticmethod]
    fn self_signed(names: Vec<String>) -> PyResult<Self> {
        if names.is_empty() {
            return Err(bad("a certificate is for one name at least, such as \"localhost\""));
        }
        Identity::self_signed(names).map(Self).map_err(bad)
    }

    #[staticmethod]
    fn for_browsers(names: Vec<String>) -> PyResult<Self> {
        if names.is_empty() {
            return Err(bad("a certificate is for one name at least, such as \"localhost\""));
        }
        Identity::for_browsers(names).map(Self).map_err(bad)
    }

    #[getter]
    fn certificate_hash<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.certificate_hash())
    }

    #[getter]
    fn fingerprint(&self) -> String {
        self.0.fingerprint().to_string()
    }

    #[getter]
    fn certificate_pem(&self) -> &str {
        self.0.certificate_pem()
    }

    #[getter]
    fn private_key_pem(&self) -> &str {
        self.0.private_key_pem()
    }
}

/// Whom a client believes: the holders of keys, or certificates of authorities, or anybody if neither is
/// given.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct GivenTrust {
    pins: Option<Vec<String>>,
    roots: Option<String>,
}

impl GivenTrust {
    pub(crate) fn trust(&self) -> PyResult<Trust> {
        match (&self.pins, &self.roots) {
            (Some(pins), _) if pins.is_empty() => Err(bad("pin one fingerprint at least")),
            (Some(pins), _) => {
                let pins: Result<Vec<Fingerprint>, _> = pins.iter().map(|pin| pin.parse()).collect();
                pins.map(Trust::pinned_any).map_err(bad)
            }
            (None, Some(pem)) => Trust::roots(pem).map_err(bad),
            (None, None) => Ok(Trust::insecure()),
        }
    }
}

/// How connections behave; `None` is the default of the library.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct GivenTransport {
    /// Seconds; 0 is never.
    idle_timeout: Option<f64>,
    /// Seconds.
    keep_alive: Option<f64>,
    handshake_timeout: Option<f64>,
    congestion: Option<String>,
    /// The longest message that is taken, in bytes.
    max_message: Option<u64>,
    max_bidi_streams: Option<u64>,
    max_uni_streams: Option<u64>,
    send_buffer: Option<u64>,
    protection: Option<String>,
}

impl GivenTransport {
    /// The transport, and what protects all streams.
    pub(crate) fn read(&self) -> PyResult<(TransportConfig, Option<Protection>)> {
        let mut config = TransportConfig::default();
        if let Some(idle) = self.idle_timeout {
            let idle = seconds(idle)?;
            config.idle_timeout = Some(idle).filter(|idle| !idle.is_zero());
        }
        if let Some(interval) = self.keep_alive {
            config.keep_alive = Some(positive(interval)?);
        }
        if let Some(patience) = self.handshake_timeout {
            config.handshake_timeout = positive(patience)?;
        }
        if let Some(name) = &self.congestion {
            config.congestion = name.parse::<Algorithm>().map_err(bad)?;
        }
        if let Some(max) = self.max_message {
            if !MESSAGES.contains(&max) {
                return Err(bad(format!(
                    "max_message is {max}, and may be {} to {} bytes",
                    MESSAGES.start(),
                    MESSAGES.end()
                )));
            }
            config.fenced_streams = Some(max);
        }
        if let Some(most) = self.max_bidi_streams {
            config.max_bidi_streams = streams(most)?;
        }
        if let Some(most) = self.max_uni_streams {
            config.max_uni_streams = streams(most)?;
        }
        if let Some(bytes) = self.send_buffer {
            config.send_buffer = bytes;
        }
        let protection = self.protection.as_deref().map(protection).transpose()?;
        Ok((config, protection))
    }
}

/// Reads a protection, as the command and `Protection` of Rust do.
pub(crate) fn protection(text: &str) -> PyResult<Protection> {
    policies::read(text).map_err(bad)
}

/// Says what a protection is called, or raises `ValueError`.
#[pyfunction]
pub(crate) fn check_protection(text: &str) -> PyResult<String> {
    Ok(protection(text)?.to_string())
}

/// Application protocols as the configurations take them.
pub(crate) fn alpn(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// A time that Python has in seconds.
pub(crate) fn seconds(given: f64) -> PyResult<Duration> {
    let time = Duration::try_from_secs_f64(given).ok().filter(|time| *time <= LONGEST);
    time.ok_or_else(|| bad(format!("a time is 0 to {} seconds, not {given}", LONGEST.as_secs())))
}

fn positive(given: f64) -> PyResult<Duration> {
    match seconds(given)? {
        Duration::ZERO => Err(bad("this time has to be more than 0 seconds")),
        time => Ok(time),
    }
}

fn streams(most: u64) -> PyResult<u64> {
    // RFC 9000 §4.6: more cannot be expressed as ids.
    if most <= 1 << 60 { Ok(most) } else { Err(bad("there are at most 2**60 streams")) }
}

/// An error code of an application: RFC 9000 §16 has 62 bits for it.
pub(crate) fn code(code: u64) -> PyResult<u64> {
    if code < 1 << 62 { Ok(code) } else { Err(bad("a code is less than 2**62")) }
}

pub(crate) fn urgency(urgency: u8) -> PyResult<u8> {
    if urgency <= 7 { Ok(urgency) } else { Err(bad("an urgency is 0 (most) to 7 (least)")) }
}

/// Shared by the connections of an endpoint.
pub(crate) type SharedEndpoint = Arc<quickset::Endpoint>;

/// Far beyond what anybody waits for, and far below what clocks can express.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
const MESSAGES: std::ops::RangeInclusive<u64> = 1200..=16 << 20;
