//! `quickset demo --web`: the modes side by side, live, on a page for browsers.

mod visit;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName, HeaderValue, ORIGIN};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use quickset_desktop::serve::PAGE_FIELDS;
use quickset_lab::demo::{DemoConfig, LiveDemo, LiveWatch};
use quickset_sim::LossModel;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use crate::interrupts::Interrupts;
use crate::page;
use crate::say::{note, say};

/// What is shown, and where.
pub(super) struct WebShow {
    pub(super) plan: DemoConfig,
    /// Updates a second.
    pub(super) pace: u32,
    /// How long; `None`: until somebody wants it to stop.
    pub(super) length: Option<Duration>,
    /// Where the page is served.
    pub(super) page: SocketAddr,
    /// Whether a browser is to open it.
    pub(super) opens: bool,
}

/// What visitors of the page get.
struct LivePage {
    watch: LiveWatch,
    /// What there is to see, for each who comes.
    greeting: String,
    /// What the links may be told to lose.
    losses: Vec<LossModel>,
    seats: Arc<Semaphore>,
    /// True once it is over.
    ended: watch::Receiver<bool>,
}

impl WebShow {
    /// Prints where the page is, and serves it until somebody wants this to stop.
    ///
    /// # Errors
    /// When the page cannot be served, or a connection of the demonstration breaks.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let mut interrupts = Interrupts::new()?;
        let listener = TcpListener::bind(self.page).await.with_context(|| {
            format!("the page cannot be served at {}; choose another with --web-page", self.page)
        })?;
        let bound = listener.local_addr()?;
        let live = tokio::select! {
            started = LiveDemo::start(&self.plan, self.pace) => started?,
            () = interrupts.next() => return Ok(()),
        };
        let place = place(bound);
        say!("open {place}")?;
        note!("that shows the modes side by side, to {SEATS} pages at a time; Ctrl-C ends it");
        if self.opens {
            super::open(&place)?;
        }
        let (end, ended) = watch::channel(false);
        let losses = losses(&self.plan.loss);
        let page = Arc::new(LivePage {
            greeting: visit::greeting(&self.plan, self.pace, &live.watch(), &losses).to_string(),
            watch: live.watch(),
            losses,
            seats: Arc::new(Semaphore::new(SEATS)),
            ended,
        });
        let mut visitors = JoinSet::new();
        let ended = tokio::select! {
            ended = live.run() => match ended { Err(error) => Err(error.into()), Ok(never) => match never {} },
            served = page.serve(listener, &mut visitors) => match served? {},
            () = interrupts.next() => Ok(()),
            () = pause(self.length) => Ok(()),
        };
        // Pages are told, so that they look for it no more; who does not listen is not waited for.
        end.send_replace(true);
        let _ = tokio::time::timeout(GOODBYE, async { while visitors.join_next().await.is_some() {} }).await;
        ended
    }
}

/// Where browsers on this machine find the page.
fn place(bound: SocketAddr) -> String {
    if bound.ip().is_loopback() || bound.ip().is_unspecified() {
        return format!("http://localhost:{}/", bound.port());
    }
    format!("http://{bound}/")
}

async fn pause(length: Option<Duration>) {
    match length {
        Some(length) => tokio::time::sleep(length).await,
        None => std::future::pending().await,
    }
}

/// Waits until it is over.
async fn over(ended: &mut watch::Receiver<bool>) {
    // Without a sender it is, too.
    let _ = ended.wait_for(|ended| *ended).await;
}

/// What visitors may choose from: some shares, and what it was at first.
fn losses(first: &LossModel) -> Vec<LossModel> {
    let mut losses = vec![LossModel::None];
    losses.extend(SHARES.map(LossModel::Independent));
    if !losses.contains(first) {
        losses.push(first.clone());
    }
    losses
}

impl LivePage {
    async fn serve(
        self: &Arc<Self>,
        listener: TcpListener,
        visitors: &mut JoinSet<()>,
    ) -> anyhow::Result<Infallible> {
        let places = Arc::new(Semaphore::new(PLACES));
        loop {
            let place = places.clone().acquire_owned().await?;
            let stream = loop {
                tokio::select! {
                    accepted = listener.accept() => match accepted {
                        Ok((stream, _)) => break stream,
                        // That connection is gone, or descriptors are: they come back.
                        Err(error) => {
                            tracing::debug!(%error, "a browser did not come in");
                            tokio::time::sleep(Duration::from_millis(50)).await;
                        }
                    },
                    Some(_) = visitors.join_next() => {}
                }
            };
            let page = self.clone();
            visitors.spawn(async move {
                let _place = place;
                if let Err(error) = page.talk(stream).await {
                    tracing::debug!(%error, "a browser has left");
                }
            });
        }
    }

    /// Answers a browser, and lets it look if it wants to.
    async fn talk(&self, stream: TcpStream) -> io::Result<()> {
        // Frames leave at once.
        stream.set_nodelay(true)?;
        let mut names = page::local_names();
        // By an address nobody is led astray, and beyond this machine there is no other name.
        names.push(page::authority_of(&stream.local_addr()?.ip().to_canonical().to_string()));
        let begun = Mutex::new(None);
        let answer = service_fn(async |request| self.answer(request, &names, &begun));
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(MOST_HEAD);
        let talk = pin!(http.serve_connection(TokioIo::new(stream), answer).with_upgrades());
        // A page is taken within moments; who is slower than that comes again. Looking takes as long as it
        // likes.
        let mut ended = self.ended.clone();
        tokio::select! {
            talked = tokio::time::timeout(LONGEST_TALK, talk) => talked?.map_err(io::Error::other)?,
            () = over(&mut ended) => return Ok(()),
        }
        let begun = begun.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Seated { upgraded, _seat }) = begun {
            let stream = upgraded.await.map_err(io::Error::other)?;
            visit::visit(TokioIo::new(stream), self).await;
        }
        Ok(())
    }

    fn answer<B>(
        &self,
        mut request: Request<B>,
        names: &[String],
        begun: &Mutex<Option<Seated>>,
    ) -> io::Result<Response<Full<Bytes>>> {
        if !page::asks_for(&request, names) {
            return Ok(reply(StatusCode::MISDIRECTED_REQUEST, None));
        }
        if request.uri().path() != LIVE_PATH {
            let file = FILES.iter().find(|file| file.path == request.uri().path());
            return Ok(match (request.method(), file) {
                (&Method::GET | &Method::HEAD, Some(file)) => reply(StatusCode::OK, Some(file)),
                (&Method::GET | &Method::HEAD, None) => reply(StatusCode::NOT_FOUND, None),
                _ => reply(StatusCode::METHOD_NOT_ALLOWED, None),
            });
        }
        if !page::wants_socket(&request) {
            return Ok(reply(StatusCode::UPGRADE_REQUIRED, None));
        }
        if !is_from_here(&request) {
            tracing::warn!(origin = ?request.headers().get(ORIGIN), "a foreign page");
            return Ok(reply(StatusCode::FORBIDDEN, None));
        }
        let Ok(seat) = self.seats.clone().try_acquire_owned() else {
            return Ok(reply(StatusCode::SERVICE_UNAVAILABLE, None));
        };
        let (upgraded, response) = page::switch(&mut request)?;
        *begun.lock().unwrap_or_else(PoisonError::into_inner) = Some(Seated { upgraded, _seat: seat });
        Ok(response)
    }
}

/// A visitor who may look.
struct Seated {
    upgraded: OnUpgrade,
    _seat: OwnedSemaphorePermit,
}

/// Whether the page that asks is our own: browsers tell where a page comes from, and ours comes from where it
/// asks, whatever the port is called on the way to us.
fn is_from_here<B>(request: &Request<B>) -> bool {
    let field = |name| request.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let (Some(origin), Some(host)) = (field(ORIGIN), field(HOST)) else { return false };
    origin.strip_prefix("http://").is_some_and(|origin| origin.eq_ignore_ascii_case(host))
}

fn reply(status: StatusCode, file: Option<&'static LiveFile>) -> Response<Full<Bytes>> {
    let content = file.map_or(&b""[..], |file| file.content);
    let mut response = Response::new(Full::new(Bytes::from_static(content)));
    *response.status_mut() = status;
    let fields = response.headers_mut();
    for (name, value) in PAGE_FIELDS {
        fields.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    // It needs less than the page of a desktop.
    fields.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    if let Some(file) = file {
        fields.insert(CONTENT_TYPE, HeaderValue::from_static(file.media_type));
    }
    response
}

/// A file of the page.
struct LiveFile {
    path: &'static str,
    media_type: &'static str,
    content: &'static [u8],
}

const FILES: [LiveFile; 3] = [
    LiveFile {
        path: "/",
        media_type: "text/html; charset=utf-8",
        content: include_bytes!("page/index.html"),
    },
    LiveFile {
        path: "/live.js",
        media_type: "text/javascript; charset=utf-8",
        content: include_bytes!("page/live.js"),
    },
    LiveFile {
        path: "/live.css",
        media_type: "text/css; charset=utf-8",
        content: include_bytes!("page/live.css"),
    },
];

/// Where the WebSocket is.
const LIVE_PATH: &str = "/live";
/// What the page may do: nothing that is not ours.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// What the links may be told to lose besides nothing: shares, each way.
const SHARES: [f64; 5] = [0.005, 0.01, 0.02, 0.05, 0.1];
/// Connections at a time.
const PLACES: usize = 64;
/// Pages that look at a time. What each costs is some milliseconds of a core for each of its frames.
const SEATS: usize = 16;
/// How long files may take.
const LONGEST_TALK: Duration = Duration::from_secs(60);
/// How long the head of a request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest head of a request, in bytes.
const MOST_HEAD: usize = 16 << 10;
/// How long pages may take to hear that it is over.
const GOODBYE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_leads_to_where_the_page_is() {
        for (bound, expected) in [
            ("127.0.0.1:4480", "http://localhost:4480/"),
            ("[::1]:1", "http://localhost:1/"),
            ("0.0.0.0:4480", "http://localhost:4480/"),
            ("192.0.2.7:80", "http://192.0.2.7:80/"),
            ("[2001:db8::7]:80", "http://[2001:db8::7]:80/"),
        ] {
            assert_eq!(place(bound.parse().unwrap()), expected);
        }
    }

    #[test]
    fn what_was_lost_at_first_can_be_chosen_again() {
        let texts = |first: &str| -> Vec<String> {
            losses(&first.parse().unwrap()).iter().map(LossModel::to_string).collect()
        };
        assert_eq!(texts("2%"), ["none", "0.5%", "1%", "2%", "5%", "10%"]);
        assert_eq!(texts("0%").len(), 6);
        assert_eq!(texts("ge:1%,25%")[6..], ["ge:1%,25%,100%,0%"]);
    }
}
