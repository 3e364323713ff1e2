//! What became of a URL.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use quickset::Connection;
use quickset::h3::Response;
use serde::{Serialize, Serializer};

use super::H3Url;
use crate::say::plain;

/// What became of a URL. Times are in milliseconds; those of the request run from when it was made.
#[derive(Debug, Serialize)]
pub(super) struct FetchRow {
    pub(super) url: String,
    /// The versions of HTTP and QUIC that were spoken.
    pub(super) http: Option<&'static str>,
    pub(super) quic: Option<String>,
    pub(super) status: Option<u16>,
    /// The fields of the answer, if they are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) headers: Option<Vec<(String, String)>>,
    /// Bytes of content received.
    pub(super) bytes: u64,
    /// Until the connection was there; it is shared.
    pub(super) handshake_ms: f64,
    pub(super) first_byte_ms: Option<f64>,
    pub(super) total_ms: f64,
    #[serde(serialize_with = "as_text")]
    pub(super) file: Option<PathBuf>,
    pub(super) error: Option<String>,
}

impl FetchRow {
    pub(super) fn new(url: &H3Url, handshake_ms: f64) -> Self {
        Self {
            url: url.text.clone(),
            http: None,
            quic: None,
            status: None,
            headers: None,
            bytes: 0,
            handshake_ms,
            first_byte_ms: None,
            total_ms: 0.0,
            file: None,
            error: None,
        }
    }

    /// The head of an answer came, of which the fields are kept if somebody wants to see them.
    pub(super) fn answered(&mut self, connection: &Connection, response: &Response, include: bool) {
        self.http = Some(HTTP);
        self.quic = Some(connection.version().to_string());
        self.status = Some(response.status);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let fields = response.fields.iter().map(|field| (text(&field.name), text(&field.value)));
        self.headers = include.then(|| fields.collect());
    }

    /// The head, as HTTP/1.1 has it, with the line that ends it; `None` without fields that were asked for.
    /// What a server sends does not act on a terminal.
    pub(super) fn head(&self) -> Option<String> {
        let mut head = format!("{HTTP} {}\n", self.status?);
        for (name, value) in self.headers.as_ref()? {
            let _ = writeln!(head, "{name}: {}", plain(value));
        }
        Some(head + "\n")
    }
}

/// As far as it is text: JSON has nothing else.
#[expect(clippy::ref_option, reason = "serde wants it so")]
fn as_text<S: Serializer>(file: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    file.as_ref().map(|file| file.to_string_lossy()).serialize(serializer)
}

pub(super) fn ms(began: Instant) -> f64 {
    (began.elapsed().as_secs_f64() * 1e6).round() / 1e3
}

/// The version that all of it is spoken in.
const HTTP: &str = "HTTP/3";
