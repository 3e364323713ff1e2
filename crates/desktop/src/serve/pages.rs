//! Pages in browsers: the files of the page, and sessions of those that were opened by a link.

use std::sync::Arc;

use bytes::Bytes;
use quickset::h3::webtransport::Session;
use quickset::h3::{self, Call, HttpError, Request, Response};
use quickset::{Connection, Identity, ServerConfig};

use crate::trust::PageLinks;

/// The page and who may open the desktop by it.
#[derive(Clone, Debug)]
pub struct PageConfig {
    /// The links that are good.
    pub links: Arc<PageLinks>,
    /// Who the server proves to be towards browsers; `None`: the same as towards gateways, which go on to
    /// know it by its own key when browsers want a certificate of an authority.
    pub identity: Option<Identity>,
    /// Where pages may come from that open a session: `https://HOST[:PORT]`, or `http://localhost:PORT`. The
    /// port `*` is any.
    pub origins: Vec<String>,
    /// What is served by HTTP/3 besides sessions.
    pub files: Arc<[PageFile]>,
}

/// A file of the page.
#[derive(Clone, Debug)]
pub struct PageFile {
    /// Its path, from `/` on.
    pub path: &'static str,
    /// Its media type.
    pub media_type: &'static str,
    /// Its bytes.
    pub content: Bytes,
}

impl PageConfig {
    /// Has `server` prove to be `identity` towards browsers, by QUIC and by TCP.
    pub fn show(server: &ServerConfig, identity: &Identity) {
        server.set_identity_for(&[h3::ALPN, HTTP_1], identity);
    }

    /// The file at this path; what stands behind `?` does not count.
    pub fn file(&self, path: &[u8]) -> Option<&PageFile> {
        let path = path.split(|&byte| byte == b'?').next()?;
        self.files.iter().find(|file| file.path.as_bytes() == path)
    }

    /// WB-16: whether a session may be opened by a page that comes from there.
    fn welcomes(&self, request: &Request) -> bool {
        let origin = request.fields.iter().find(|field| &field.name[..] == b"origin");
        origin.is_some_and(|origin| self.is_welcome(&origin.value))
    }

    /// The same by the value of its field `origin`.
    pub fn is_welcome(&self, origin: &[u8]) -> bool {
        self.origins.iter().any(|ours| is_of(ours.as_bytes(), origin))
    }
}

fn is_of(ours: &[u8], origin: &[u8]) -> bool {
    match ours.strip_suffix(b"*") {
        Some(host) => origin
            .strip_prefix(host)
            .is_some_and(|port| !port.is_empty() && port.iter().all(u8::is_ascii_digit)),
        None => ours == origin,
    }
}

/// The protocol of pages and sessions by TCP.
pub const HTTP_1: &str = "http/1.1";

/// What a page of ours may do: nothing that is not ours, and nobody shows it within a page of theirs.
pub const PAGE_FIELDS: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' blob: data:; \
         connect-src 'self' https: wss:; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'",
    ),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("cache-control", "no-cache"),
];

/// Answers requests on a connection until it ends or a session begins, which is all that a browser does on a
/// connection of its own for it.
pub(super) async fn answer(connection: &Connection, config: &PageConfig) -> Option<(h3::Server, Session)> {
    let settings = h3::Config { webtransport: 1, ..h3::Config::default() };
    let mut server = h3::Server::new(connection, settings).ok()?;
    loop {
        let call = server.accept().await?;
        if call.is_session() {
            match begin(call, config) {
                Ok(Some(session)) => return Some((server, session)),
                Ok(None) => {}
                Err(error) => tracing::debug!(%error, "a session did not begin"),
            }
        } else if let Err(error) = give(call, config).await {
            tracing::debug!(%error, "a file was not taken");
        }
    }
}

/// Begins a session, or says why not.
fn begin(call: Call, config: &PageConfig) -> Result<Option<Session>, String> {
    let status = if call.request.path.as_deref() != Some(SESSION_PATH.as_bytes()) {
        404
    } else if !config.welcomes(&call.request) {
        tracing::warn!(origin = ?call.request.fields.iter().find(|field| &field.name[..] == b"origin"), "a foreign page");
        403
    } else {
        return call.into_session(&Response::new(200)).map(Some).map_err(|error| error.to_string());
    };
    call.reply.end(&Response::new(status)).map(|()| None).map_err(|error| error.to_string())
}

/// Answers a request for a file.
async fn give(call: Call, config: &PageConfig) -> Result<(), HttpError> {
    let is_get = matches!(&call.request.method[..], b"GET" | b"HEAD");
    let file = call.request.path.as_deref().and_then(|path| config.file(path));
    let (status, file) = match (is_get, file) {
        (false, _) => (405, None),
        (true, None) => (404, None),
        (true, Some(file)) => (200, Some(file)),
    };
    let mut head = Response::new(status);
    for (name, value) in PAGE_FIELDS {
        head = head.with(name, value);
    }
    if status == 405 {
        head = head.with("allow", "GET, HEAD");
    }
    let Some(file) = file else { return call.reply.end(&head) };
    head = head.with("content-type", file.media_type).with("content-length", file.content.len().to_string());
    if &call.request.method[..] == b"HEAD" {
        return call.reply.end(&head);
    }
    let mut out = call.reply.respond(&head)?;
    out.send(file.content.clone()).await?;
    out.finish()
}

/// Where sessions are opened (`spec/web.md` §8).
pub const SESSION_PATH: &str = "/desktop";
