//! `quickset desktop serve --web`: the page, where it comes from, and the link that opens the desktop by it.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use hyper::header::{ALT_SVC, CONTENT_TYPE, HeaderValue, ORIGIN};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use quickset::{Identity, ServerConfig};
use quickset_desktop::serve::{
    BrowserStream, PAGE_FIELDS, PageConfig, PageFile, PageStream, SESSION_PATH, TcpBrowsers,
};
use quickset_desktop::trust::{
    DesktopLabel, GatewayFolder, NoticeBoard, OneTimeToken, PageCertificates, PageLinks,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};

use super::devices::Notice;
use super::socket;
use crate::page;
use crate::say::{note, say};

/// Browsers as viewers.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Browsers")]
pub(super) struct PageArgs {
    /// Take browsers, too: prints a link that opens the desktop in one, on this machine; with --web-host and
    /// a certificate, anywhere
    #[arg(long)]
    web: bool,
    /// The name by which browsers reach this machine [default: its address]
    #[arg(long, value_name = "HOST", requires = "web")]
    web_host: Option<String>,
    /// Where the page is served for browsers on this machine; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:4480", requires = "web", value_parser = crate::values::listening)]
    web_page: SocketAddr,
    /// Where else the page may come from, like https://HOST; may be repeated
    #[arg(long, value_name = "ORIGIN", requires = "web", value_parser = origin)]
    web_origin: Vec<String>,
    /// Certificate of an authority as PEM, so that the page comes from https://HOST of --web-host, on the
    /// port of --listen
    #[arg(long, value_name = "FILE", requires_all = ["key", "web_host"])]
    cert: Option<std::path::PathBuf>,
    /// Its private key as PEM, readable by you alone
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<std::path::PathBuf>,
    /// The link lets its owner look, and nothing else
    #[arg(long, requires = "web")]
    web_view_only: bool,
}

/// An origin, as browsers write it.
fn origin(text: &str) -> Result<String, String> {
    let (scheme, host) = text.split_once("://").unwrap_or_default();
    let is_host = !host.is_empty() && !host.contains(['/', '#', '?', '@', ' ']);
    if matches!(scheme, "https" | "http") && is_host {
        Ok(text.to_ascii_lowercase())
    } else {
        Err("an origin is https://HOST or https://HOST:PORT, without a path".into())
    }
}

/// What is served to browsers, before anything listens.
pub(super) struct Pages {
    pub(super) config: PageConfig,
    certificates: Certificates,
    listener: TcpListener,
    host: String,
    token: OneTimeToken,
}

/// Where browsers come in.
pub(super) struct PageEntrance {
    /// Where gateways connect, and browsers by WebTransport.
    pub(super) bound: SocketAddr,
    pub(super) server: ServerConfig,
    /// Browsers that come there by TCP.
    pub(super) browsers: Option<TcpBrowsers>,
    /// Those with a name have a link each.
    pub(super) desktops: Vec<DesktopLabel>,
    /// What other commands are told of the server, and where; links come to that.
    pub(super) notice: Notice,
    pub(super) board: Option<NoticeBoard>,
}

enum Certificates {
    /// Of an authority.
    Signed,
    /// By their hashes.
    Hashed { folder: GatewayFolder, server: Identity },
}

impl PageArgs {
    /// What is served to browsers, if they are wanted, by a server that gateways know as `server`.
    ///
    /// # Errors
    /// When the page cannot be served, or there is no certificate for it.
    pub(super) async fn prepare(
        &self,
        folder: &GatewayFolder,
        listen: SocketAddr,
        server: &Identity,
    ) -> anyhow::Result<Option<Pages>> {
        if !self.web {
            return Ok(None);
        }
        let host = match &self.web_host {
            Some(host) => host.to_ascii_lowercase(),
            None => own_address(listen).to_string(),
        };
        let listener = TcpListener::bind(self.web_page).await.with_context(|| {
            format!("the page cannot be served at {}; choose another with --web-page", self.web_page)
        })?;
        let mut origins = self.web_origin.clone();
        // On the viewer's machine `desktop page` may have another port.
        origins.extend(["localhost", "127.0.0.1", "[::1]"].map(|name| format!("http://{name}:*")));
        // The page of the port of gateways itself.
        let name = page::authority_of(&host);
        origins.extend([format!("https://{name}"), format!("https://{name}:*")]);
        let links = PageLinks::new().with_invitations(folder.invitations()?);
        let (_, token) = links.add(Instant::now(), self.web_view_only, None);
        let (identity, certificates) = if let (Some(cert), Some(key)) = (&self.cert, &self.key) {
            (crate::cert::read(cert, key)?, Certificates::Signed)
        } else {
            let shown = folder.page_certificates(server, std::slice::from_ref(&host), SystemTime::now())?;
            let identity = shown.identity().clone();
            (identity, Certificates::Hashed { folder: folder.clone(), server: server.clone() })
        };
        let config = PageConfig { links: Arc::new(links), identity: Some(identity), origins, files: files() };
        Ok(Some(Pages { config, certificates, listener, host, token }))
    }
}

impl Pages {
    /// Prints the links, and serves the page until the future is dropped, on its own port and to browsers
    /// that come by TCP to that of gateways.
    ///
    /// # Errors
    /// When a page of an authority's certificate has no port of TCP, or standard output is closed.
    pub(super) async fn serve(self, entrance: PageEntrance) -> anyhow::Result<Infallible> {
        let Self { config, certificates, listener, host, token } = self;
        let PageEntrance { bound, server, browsers, desktops, notice, board } = entrance;
        let place = authority(&host, bound.port());
        let page = listener.local_addr()?;
        let names = vec![page::authority_of(&host)];
        let near = listen(PageSource::Port(listener), config.clone(), page::local_names(), bound.port());
        match certificates {
            Certificates::Signed => {
                let browsers = browsers.with_context(|| {
                    format!("the page cannot be served at {bound} by TCP; choose another port with --listen")
                })?;
                let link = format!("https://{place}/#");
                print(&link, &desktops, &token)?;
                notice.with_link(&link).put_up(board.as_ref());
                let far = listen(PageSource::Gateway(browsers), config, names, bound.port());
                tokio::select! { never = far => never, never = near => never }
            }
            Certificates::Hashed { folder, server: identity } => {
                let far = async {
                    match browsers {
                        Some(browsers) => {
                            listen(PageSource::Gateway(browsers), config, names, bound.port()).await
                        }
                        None => std::future::pending().await,
                    }
                };
                let names = [host];
                let link = |shown: &PageCertificates| {
                    let hashes = shown.hashes().map(|hash| BASE64_URL_SAFE_NO_PAD.encode(hash)).join(",");
                    format!("http://localhost:{}/#server={place}&hash={hashes}&", page.port())
                };
                let shown = folder.page_certificates(&identity, &names, SystemTime::now())?;
                print(&link(&shown), &desktops, &token)?;
                notice.with_link(&link(&shown)).put_up(board.as_ref());
                note!(
                    "that opens the desktop in a browser on this machine; on another, run `quickset desktop page` there and open \
                     the same link"
                );
                let change = async {
                    loop {
                        // Looked at each hour: a machine that sleeps loses count of time.
                        tokio::time::sleep(Duration::from_secs(3600)).await;
                        match folder.page_certificates(&identity, &names, SystemTime::now()) {
                            Ok(shown) => {
                                PageConfig::show(&server, shown.identity());
                                notice.with_link(&link(&shown)).put_up(board.as_ref());
                            }
                            Err(error) => note!("the next certificate for browsers cannot be shown: {error}"),
                        }
                    }
                };
                tokio::select! { never = far => never, never = near => never, never = change => never }
            }
        }
    }
}

/// Prints a link for each desktop.
fn print(link: &str, desktops: &[DesktopLabel], token: &OneTimeToken) -> anyhow::Result<()> {
    if desktops.is_empty() {
        say!("open {link}token={}", token.reveal())?;
    }
    desktops.iter().try_for_each(|name| say!("open {link}desktop={name}&token={}", token.reveal()))
}

/// Serve the page of `desktop serve --web` to browsers on this machine.
///
/// A link that `desktop serve --web` has printed on another machine opens the desktop once this runs here:
/// browsers speak to a server that no authority knows only on pages of their own machine.
#[derive(Debug, clap::Args)]
#[command(after_help = PAGE_EXAMPLE)]
pub(super) struct PageCommand {
    /// Where browsers find the page
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:4480", value_parser = crate::values::listening)]
    listen: SocketAddr,
    /// Write the files of the page to this folder, for a server of your own, and end
    #[arg(short, long, value_name = "DIR")]
    output: Option<std::path::PathBuf>,
}

impl PageCommand {
    pub(super) async fn run(&self) -> anyhow::Result<()> {
        if let Some(folder) = &self.output {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("the folder {} cannot be made", folder.display()))?;
            for file in files().iter().filter(|file| file.path != "/") {
                let path = folder.join(file.path.trim_start_matches('/'));
                std::fs::write(&path, &file.content)
                    .with_context(|| format!("{} cannot be written", path.display()))?;
            }
            note!("wrote the page to {}; serve it by https", folder.display());
            return Ok(());
        }
        let listener = TcpListener::bind(self.listen).await.with_context(|| {
            format!("the page cannot be served at {}; choose another with --listen", self.listen)
        })?;
        let page = listener.local_addr()?;
        say!("serving the page at http://localhost:{}/", page.port())?;
        let config =
            PageConfig { links: Arc::default(), identity: None, origins: Vec::new(), files: files() };
        let mut interrupts = crate::interrupts::Interrupts::new()?;
        tokio::select! {
            served = listen(PageSource::Port(listener), config, page::local_names(), 0) => {
                match served? {}
            }
            () = interrupts.next() => Ok(()),
        }
    }
}

/// The page, as `cargo xtask web` has built it.
fn files() -> Arc<[PageFile]> {
    let file = |path, media_type, content: &'static [u8]| PageFile {
        path,
        media_type,
        content: Bytes::from_static(content),
    };
    let index = include_bytes!("../../page/index.html");
    let html = "text/html; charset=utf-8";
    let script = "text/javascript; charset=utf-8";
    [
        file("/", html, index),
        file("/index.html", html, index),
        file("/page.js", script, include_bytes!("../../page/page.js")),
        file("/worker.js", script, include_bytes!("../../page/worker.js")),
        // What an AudioWorklet runs is a file of its own.
        file("/sound.js", script, include_bytes!("../../page/sound.js")),
        file("/page.css", "text/css; charset=utf-8", include_bytes!("../../page/page.css")),
        file("/viewer.wasm", "application/wasm", include_bytes!("../../page/viewer.wasm")),
    ]
    .into()
}

/// Where browsers come from.
enum PageSource {
    /// A port of this machine alone.
    Port(TcpListener),
    /// The port of gateways, by TLS.
    Gateway(TcpBrowsers),
}

enum PageVisitor {
    Plain(TcpStream),
    Tls(Box<BrowserStream>),
}

impl PageSource {
    async fn next(&mut self) -> PageVisitor {
        loop {
            match self {
                Self::Port(listener) => match listener.accept().await {
                    Ok((stream, _)) => return PageVisitor::Plain(stream),
                    // That connection is gone, or descriptors are: they come back.
                    Err(error) => {
                        tracing::debug!(%error, "a browser did not come in");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
                Self::Gateway(browsers) => match browsers.incoming.recv().await {
                    Some(stream) => return PageVisitor::Tls(Box::new(stream)),
                    // The gateway has ended.
                    None => std::future::pending().await,
                },
            }
        }
    }
}

/// Serves the page by HTTP/1.1. A request by another name than `names` comes from a page that had its own
/// name led to our address, and gets nothing.
async fn listen(
    mut source: PageSource,
    config: PageConfig,
    names: Vec<String>,
    quic: u16,
) -> anyhow::Result<Infallible> {
    let (config, names, places) =
        (Arc::new(config), Arc::<[String]>::from(names), Arc::new(Semaphore::new(PLACES)));
    loop {
        let place = places.clone().acquire_owned().await?;
        let visitor = source.next().await;
        let talk = PageTalk {
            config: config.clone(),
            names: names.clone(),
            quic,
            sessions: match &source {
                PageSource::Gateway(browsers) => Some(browsers.sessions.clone()),
                PageSource::Port(_) => None,
            },
        };
        tokio::spawn(async move {
            let _place = place;
            let talk = async {
                match visitor {
                    PageVisitor::Plain(stream) => {
                        let remote = stream.peer_addr()?;
                        talk.with(stream, remote).await
                    }
                    PageVisitor::Tls(stream) => {
                        let remote = stream.get_ref().0.peer_addr()?;
                        talk.with(*stream, remote).await
                    }
                }
            };
            // A page is taken within moments; who is slower than that comes again. A session goes its own
            // way.
            if let Ok(Err(error)) = tokio::time::timeout(LONGEST_TALK, talk).await {
                tracing::debug!(%error, "a browser has left");
            }
        });
    }
}

/// What a browser is answered.
struct PageTalk {
    config: Arc<PageConfig>,
    /// By which names we are asked.
    names: Arc<[String]>,
    /// The port of QUIC; 0: there is none.
    quic: u16,
    /// Where sessions go; `None`: none begins here.
    sessions: Option<mpsc::Sender<PageStream>>,
}

impl PageTalk {
    async fn with<S>(&self, stream: S, remote: SocketAddr) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let answer = service_fn(async |mut request| {
            let begun = self.begins(&request);
            if let Some(Ok(sessions)) = &begun {
                let ((upgraded, response), sessions) =
                    (page::switch(&mut request)?, mpsc::Sender::clone(sessions));
                tokio::spawn(async move {
                    if let Ok(upgraded) = upgraded.await {
                        let stream = socket::bytes(TokioIo::new(upgraded)).await;
                        let _ = sessions.send(PageStream { stream, remote }).await;
                    }
                });
                return Ok::<_, io::Error>(response);
            }
            let mut response = self.answer(&request);
            if let Some(Err(status)) = begun {
                *response.status_mut() = status;
                *response.body_mut() = http_body_util::Full::default();
            }
            Ok(response)
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(MOST_HEAD);
        http.serve_connection(TokioIo::new(stream), answer).with_upgrades().await.map_err(io::Error::other)
    }

    /// Whether a request begins a session, and where that goes; or why it may not. `None`: it wants none.
    fn begins<B>(&self, request: &Request<B>) -> Option<Result<&mpsc::Sender<PageStream>, StatusCode>> {
        let field = |name| request.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        if request.uri().path() != SESSION_PATH {
            return None;
        }
        Some(match &self.sessions {
            _ if !page::asks_for(request, &self.names) => Err(StatusCode::MISDIRECTED_REQUEST),
            _ if !page::wants_socket(request) => Err(StatusCode::UPGRADE_REQUIRED),
            // WB-16.
            _ if !self.config.is_welcome(field(ORIGIN).unwrap_or_default().as_bytes()) => {
                tracing::warn!(origin = ?field(ORIGIN), "a foreign page");
                Err(StatusCode::FORBIDDEN)
            }
            Some(sessions) => Ok(sessions),
            None => Err(StatusCode::NOT_FOUND),
        })
    }

    fn answer<B>(&self, request: &Request<B>) -> Response<http_body_util::Full<Bytes>> {
        let file = self.config.file(request.uri().path().as_bytes());
        let (status, file) = match (page::asks_for(request, &self.names), request.method(), file) {
            (false, ..) => (StatusCode::MISDIRECTED_REQUEST, None),
            (true, &Method::GET | &Method::HEAD, Some(file)) => (StatusCode::OK, Some(file)),
            (true, &Method::GET | &Method::HEAD, None) => (StatusCode::NOT_FOUND, None),
            (true, ..) => (StatusCode::METHOD_NOT_ALLOWED, None),
        };
        let body = file.map(|file| file.content.clone()).unwrap_or_default();
        let mut response = Response::new(http_body_util::Full::new(body));
        *response.status_mut() = status;
        let fields = response.headers_mut();
        for (name, value) in PAGE_FIELDS {
            fields.insert(name, HeaderValue::from_static(value));
        }
        if let Some(file) = file {
            fields.insert(CONTENT_TYPE, HeaderValue::from_static(file.media_type));
        }
        if let Some(elsewhere) = (self.quic != 0)
            .then(|| HeaderValue::try_from(format!("h3=\":{}\"", self.quic)))
            .and_then(Result::ok)
        {
            fields.insert(ALT_SVC, elsewhere);
        }
        response
    }
}

/// A host as in a URL, with a port.
pub(super) fn authority(host: &str, port: u16) -> String {
    format!("{}:{port}", page::authority_of(host))
}

/// The address by which others reach this machine, if it listens on all; as far as the system knows without
/// asking anybody.
pub(super) fn own_address(listen: SocketAddr) -> IpAddr {
    if !listen.ip().is_unspecified() {
        return listen.ip();
    }
    // Of TEST-NET-1 (RFC 5737): nothing is sent, the system looks up its routes.
    let found = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9))?;
        socket.local_addr()
    });
    found.map_or(Ipv4Addr::LOCALHOST.into(), |address| address.ip())
}

const PAGE_EXAMPLE: &str = "\
Example: open a desktop of another machine in a browser here
  far$  quickset desktop serve --vnc 127.0.0.1:5900 --web
  open http://localhost:4480/#server=far:4433&hash=HASH,HASH&token=TOKEN
  here$ quickset desktop page
  here$ xdg-open 'http://localhost:4480/#server=far:4433&hash=HASH,HASH&token=TOKEN'";

/// Browsers that take the page at a time.
const PLACES: usize = 256;
/// How long a browser may stay with a connection, and with the head of a request.
const LONGEST_TALK: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest head of a request, in bytes.
const MOST_HEAD: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use hyper::header::HOST;

    use super::*;

    #[test]
    fn origins_are_what_browsers_send() {
        assert_eq!(origin("https://Desk.example").as_deref(), Ok("https://desk.example"));
        assert_eq!(origin("https://desk.example:8443").as_deref(), Ok("https://desk.example:8443"));
        for wrong in ["desk.example", "https://", "https://a/b", "ftp://a", "https://a b", "https://u@a"] {
            assert!(origin(wrong).is_err(), "{wrong}");
        }
    }

    fn talk(sessions: Option<mpsc::Sender<PageStream>>) -> PageTalk {
        let origins = vec!["https://desk.example:4433".into()];
        let config = PageConfig { links: Arc::default(), identity: None, origins, files: files() };
        PageTalk { config: Arc::new(config), names: page::local_names().into(), quic: 4433, sessions }
    }

    #[test]
    fn a_socket_begins_for_a_page_of_ours_alone() {
        // WB-19, WB-16.
        let (sessions, _begun) = mpsc::channel(1);
        let (talk, closed) = (talk(Some(sessions)), talk(None));
        let request = |changes: &[(&str, &str)]| {
            let mut request = Request::builder().uri("/desktop");
            let usual = [
                ("host", "localhost:4480"),
                ("connection", "Upgrade"),
                ("upgrade", "websocket"),
                ("sec-websocket-version", "13"),
                ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
                ("origin", "https://desk.example:4433"),
            ];
            for (name, value) in usual {
                let changed = changes.iter().find(|change| change.0 == name);
                request = request.header(name, changed.map_or(value, |change| change.1));
            }
            request.body(()).unwrap()
        };
        let status = |talk: &PageTalk, changes: &[(&str, &str)]| {
            talk.begins(&request(changes)).map(|begun| begun.map_or_else(|status| status.as_u16(), |_| 101))
        };
        assert_eq!(status(&talk, &[]), Some(101));
        assert_eq!(status(&talk, &[("host", "evil.example:4480")]), Some(421));
        assert_eq!(status(&talk, &[("origin", "https://evil.example")]), Some(403));
        assert_eq!(status(&talk, &[("origin", "")]), Some(403));
        assert_eq!(status(&talk, &[("upgrade", "h2c")]), Some(426));
        assert_eq!(status(&talk, &[("sec-websocket-version", "8")]), Some(426));
        assert_eq!(status(&closed, &[]), Some(404));
        assert!(talk.begins(&Request::builder().uri("/").body(()).unwrap()).is_none());
    }

    #[test]
    fn a_page_by_another_name_gets_nothing() {
        // WB-16: a foreign name that leads to our address.
        let talk = talk(None);
        let get = |method, host: &str, path: &str| {
            let request = Request::builder().method(method).uri(path).header(HOST, host).body(()).unwrap();
            talk.answer(&request).status().as_u16()
        };
        assert_eq!(get("GET", "localhost:4480", "/"), 200);
        assert_eq!(get("HEAD", "127.0.0.1:4480", "/viewer.wasm?x"), 200);
        assert_eq!(get("GET", "[::1]:9", "/"), 200);
        assert_eq!(get("GET", "localhost", "/"), 200);
        for evil in ["evil.example:4480", "localhost.evil.example", "localhost:80.evil.example", "localhost:"]
        {
            assert_eq!(get("GET", evil, "/"), 421, "{evil}");
        }
        assert_eq!(get("GET", "", "/"), 421);
        assert_eq!(get("GET", "localhost:4480", "/../Cargo.toml"), 404);
        assert_eq!(get("POST", "localhost:4480", "/"), 405);
    }
}
