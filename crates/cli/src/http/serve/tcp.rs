//! The site by HTTP/1.1 and HTTP/2 over TLS and TCP, for clients that do not know of HTTP/3 here yet, or
//! cannot reach it.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use hyper::header::{ALT_SVC, EXPECT, HOST, HeaderName, HeaderValue};
use hyper::http;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use quickset::h3::{Field, Request};
use quickset_base::number::Unsigned as _;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::super::pulse::{Pulse, PulseLimits, Still};
use super::super::site::FileAnswer;
use super::PATIENCE;
use super::answers::AnswerGuest;
use super::body::AnswerBody;
use super::clients::called;
use super::desk::{Asker, MAX_CONTENT, ServeDesk, ServedVersion};
use super::purse::Purse;
use super::seats::{Seats, resting};

/// What all connections of TCP share.
pub(super) struct Tcp {
    pub(super) tls: Arc<rustls::ServerConfig>,
    /// Where else the site is: the value of Alt-Svc.
    pub(super) elsewhere: HeaderValue,
    pub(super) desk: Arc<ServeDesk>,
    pub(super) seats: Arc<Seats>,
    /// Descriptors for connections: with none left, others wait in the system's queue.
    pub(super) sockets: Arc<Semaphore>,
    /// Bytes of what clients bring that may be on their way on a connection of HTTP/2.
    pub(super) window: u32,
}

/// The application protocols, the best first.
pub(super) const ALPN: [&str; 2] = ["h2", "http/1.1"];

/// A listening socket; `[::]` takes IPv4, too.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    // Else a server could not start again while connections of the one before linger. (Elsewhere it means
    // more.)
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    TcpListener::from_std(socket.into())
}

/// Has the connections that come to a socket use a congestion controller.
///
/// # Errors
/// The system has none of that name, or does not let us have it.
#[cfg(target_os = "linux")]
pub(super) fn congest(listener: &TcpListener, name: &str) -> io::Result<()> {
    socket2::SockRef::from(listener).set_tcp_congestion(name.as_bytes())
}

/// Other systems leave no choice.
#[cfg(not(target_os = "linux"))]
pub(super) fn congest(_listener: &TcpListener, _name: &str) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether an error of accepting is that of the connection that was to be accepted, which is gone: those of
/// its network are handed over so on Linux (accept(2)).
fn is_of_one(error: &io::Error) -> bool {
    use io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionRefused
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown
            | ErrorKind::TimedOut
    )
}

/// Where HTTP/3 is, for a day (RFC 7838 §3).
pub(super) fn elsewhere(port: u16) -> HeaderValue {
    HeaderValue::try_from(format!("h3=\":{port}\"; ma=86400")).expect("it is ASCII")
}

impl Tcp {
    /// Takes connections for ever.
    pub(super) async fn accept(
        self: Arc<Self>,
        listener: TcpListener,
        stop: &watch::Receiver<bool>,
        talks: &mut JoinSet<()>,
    ) {
        loop {
            let next = async {
                let socket = self.sockets.clone().acquire_owned().await.map_err(io::Error::other)?;
                Ok::<_, io::Error>((listener.accept().await?, socket))
            };
            tokio::select! {
                accepted = next => match accepted {
                    Ok(((stream, client), socket)) => {
                        let client = canonical(client);
                        // Without a seat it is closed.
                        if let Some(seat) = self.seats.take(client.ip()).map(Arc::new) {
                            let talk = self.clone().talk(stream, client, resting(&seat), stop.clone());
                            talks.spawn(async move {
                                tokio::select! {
                                    () = talk => {}
                                    () = seat.lost() => {}
                                }
                                drop(socket);
                            });
                        }
                    }
                    // That connection is gone, and others wait behind it.
                    Err(error) if is_of_one(&error) => {}
                    // We have no more descriptors: they come back.
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                },
                Some(_) = talks.join_next() => {}
            }
        }
    }

    /// A connection, until the client or we have enough.
    async fn talk(
        self: Arc<Self>,
        stream: TcpStream,
        client: SocketAddr,
        pulse: Arc<Pulse>,
        mut stop: watch::Receiver<bool>,
    ) {
        // With nothing left for it, it is closed.
        let cost = CONNECTION_COST + u64::from(self.window - WINDOW);
        let Some(purse) = Purse::new(&self.desk.budget, client.ip(), cost) else { return };
        // What can be sent together is handed over together.
        let _ = stream.set_nodelay(true);
        let handshake = TlsAcceptor::from(self.tls.clone()).accept(stream);
        let done = tokio::select! {
            done = tokio::time::timeout(self.desk.limits.idle, handshake) => done,
            // Nothing is under way that could be finished.
            _ = stop.wait_for(|stop| *stop) => return,
        };
        let Ok(Ok(stream)) = done else { return };
        let is_two = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let version = if is_two { ServedVersion::Two } else { ServedVersion::One };
        let chain = stream.get_ref().1.peer_certificates();
        let name = chain.and_then(|chain| chain.first().map(called));
        let asker = Asker { client, name, version, pulse };
        let guest = Arc::new(self.desk.answers.guest(client.ip()));
        tokio::select! {
            () = self.speak(stream, asker, purse.clone(), guest, stop) => {}
            // Others need what it holds.
            () = purse.recalled() => {}
        }
    }

    /// A connection behind its handshake.
    async fn speak(
        &self,
        stream: TlsStream<TcpStream>,
        asker: Asker,
        purse: Arc<Purse>,
        guest: Arc<AnswerGuest>,
        stop: watch::Receiver<bool>,
    ) {
        let (desk, elsewhere, of) = (self.desk.clone(), self.elsewhere.clone(), asker.clone());
        let service = service_fn(move |request| {
            answer(desk.clone(), elsewhere.clone(), request, of.clone(), purse.clone(), guest.clone())
        });
        let stream = TokioIo::new(stream);
        let limits = self.desk.limits;
        if asker.version == ServedVersion::Two {
            let mut two = http2::Builder::new(TokioExecutor::new());
            two.max_concurrent_streams(MAX_REQUESTS)
                .max_header_list_size(MAX_HEAD.saturated::<u32>())
                .initial_stream_window_size(self.window)
                .initial_connection_window_size(self.window)
                .max_send_buf_size(SEND_BUFFER);
            let connection = pin!(two.serve_connection(stream, service));
            drive(connection, &asker.pulse, limits, stop, http2::Connection::graceful_shutdown).await;
        } else {
            let mut one = http1::Builder::new();
            one.max_buf_size(MAX_HEAD);
            let connection = pin!(one.serve_connection(stream, service));
            drive(connection, &asker.pulse, limits, stop, http1::Connection::graceful_shutdown).await;
        }
    }
}

/// Drives a connection to its end, or to ours.
async fn drive<C: Future>(
    mut connection: Pin<&mut C>,
    pulse: &Pulse,
    limits: PulseLimits,
    mut stop: watch::Receiver<bool>,
    goodbye: fn(Pin<&mut C>),
) {
    let idle = tokio::select! {
        // What went wrong went wrong with answers, and they are logged.
        _ = connection.as_mut() => return,
        // The last of an answer may still be in its buffers.
        _ = stop.wait_for(|stop| *stop) => PATIENCE / 2,
        still = pulse.still(limits) => match still {
            Still::Idle => Duration::from_secs(1),
            Still::Stalled => return,
        }
    };
    goodbye(connection.as_mut());
    // From now on: what is under way may end as always, and who asks for nothing has to hear of it only.
    pulse.moved();
    tokio::select! {
        _ = connection => {}
        _ = pulse.still(PulseLimits { idle, ..limits }) => {}
    }
}

async fn answer(
    desk: Arc<ServeDesk>,
    elsewhere: HeaderValue,
    request: http::Request<Incoming>,
    asker: Asker,
    purse: Arc<Purse>,
    guest: Arc<AnswerGuest>,
) -> Result<http::Response<AnswerBody>, io::Error> {
    let (head, mut brought) = request.into_parts();
    // What it holds while it waits counts, too.
    let paid = purse.answer(guest.is_idle());
    let turn = guest.turn().await;
    let asked = head_of(&head);
    let is_put = desk.takes(&asked);
    let answer = match &paid {
        Some(_) if is_put => desk.put(asked, &asker, &mut brought, &purse).await,
        Some(_) => desk.answer(asked, &asker).await,
        None => Some(desk.turn_away(&asked, &asker)),
    };
    let Some((FileAnswer { response, content }, entry)) = answer else {
        return Err(io::Error::other("there was a panic"));
    };
    // RFC 9110 §10.1.1: who waits to be asked for it has sent nothing, and need not when this is the answer.
    // By HTTP/2 nobody is asked.
    if !(is_put && asker.version == ServedVersion::One && head.headers.contains_key(EXPECT)) {
        let most = if is_put { MAX_REFUSED } else { MAX_CONTENT };
        let _ = tokio::time::timeout(PATIENCE_FOR_REST, pass_over(&mut brought, most)).await;
    }
    let mut out = http::Response::new(AnswerBody::new(content, entry, purse, turn, paid));
    *out.status_mut() = http::StatusCode::from_u16(response.status).map_err(io::Error::other)?;
    for field in &response.fields {
        let name = HeaderName::from_bytes(&field.name).map_err(io::Error::other)?;
        let value = HeaderValue::from_maybe_shared(field.value.clone()).map_err(io::Error::other)?;
        out.headers_mut().append(name, value);
    }
    out.headers_mut().insert(ALT_SVC, elsewhere);
    Ok(out)
}

/// What comes with a request is of no use, but clients take it ill when a little of it is not read. Who sends
/// nothing, or too much, does not get far.
async fn pass_over(content: &mut Incoming, most: usize) {
    let mut left = most;
    while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut *content).poll_frame(cx)).await {
        left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        if left == 0 {
            return;
        }
    }
}

/// The head of a request as all versions have it.
fn head_of(head: &http::request::Parts) -> Request {
    let text = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    let mut hosts = head.headers.get_all(HOST).into_iter();
    let is_old = head.version < http::Version::HTTP_11;
    let authority = match (head.uri.authority(), hosts.next(), hosts.next()) {
        // RFC 9112 §3.2: there is one at most, and it is a host.
        (_, _, Some(_)) => None,
        (_, Some(host), _) if !is_host(host.as_bytes()) => None,
        // RFC 9113 §8.3.1: nor two that differ.
        (Some(one), Some(other), _) if head.version == http::Version::HTTP_2 && one.as_str() != other => None,
        // Only who speaks an older version may leave it out, and who speaks a newer one has another for it.
        (Some(_), None, _) if head.version == http::Version::HTTP_11 => None,
        (None, None, _) => is_old.then(Bytes::new),
        // RFC 9112 §3.2.2: what the request line says goes before the field.
        (Some(authority), _, _) => Some(text(authority.as_str())),
        (None, Some(host), _) => Some(Bytes::copy_from_slice(host.as_bytes())),
    };
    let fields = head.headers.iter().filter(|(name, _)| **name != HOST);
    let path = head.uri.path_and_query().map(|path| text(path.as_str()));
    Request {
        method: text(head.method.as_str()),
        scheme: Some(Bytes::from_static(b"https")),
        authority,
        path,
        protocol: None,
        fields: fields
            .map(|(name, value)| Field::new(text(name.as_str()), Bytes::copy_from_slice(value.as_bytes())))
            .collect(),
    }
}

/// As QUIC has it, and the log: IPv4 without IPv6 clothes, which it has on a socket for both.
fn canonical(client: SocketAddr) -> SocketAddr {
    match client.ip().to_canonical() {
        IpAddr::V4(address) => SocketAddr::from((address, client.port())),
        IpAddr::V6(_) => client,
    }
}

/// Whether it is a host, perhaps with a port (RFC 9110 §7.2).
fn is_host(value: &[u8]) -> bool {
    let authority = http::uri::Authority::try_from(value);
    authority.is_ok_and(|authority| !authority.host().is_empty() && !authority.as_str().contains('@'))
}

/// Of content that nobody reads, the least that a connection of HTTP/2 has from the start (RFC 9113 §6.9.2);
/// and of files, 20 Mbit/s at a round trip of 100 ms.
pub(super) const WINDOW: u32 = 65_535;
pub(super) const WINDOW_OF_FILES: u32 = 256 << 10;

/// Requests at a time on a connection of HTTP/2.
const MAX_REQUESTS: u32 = 100;

/// What a connection costs before it is asked for anything, in bytes: those of TLS and hyper, and what it may
/// hold in any case, [`WINDOW`] among that.
const CONNECTION_COST: u64 = 128 << 10;

/// Bytes of a head at most; 8 KiB of fields are more than browsers send.
const MAX_HEAD: usize = 16 << 10;

/// Bytes of a file that is not taken that are read nonetheless, for clients that look for an answer only when
/// they have sent it.
const MAX_REFUSED: usize = 1 << 20;

/// How long they may take for it.
const PATIENCE_FOR_REST: Duration = Duration::from_secs(5);

/// Bytes of an answer that wait in a connection of HTTP/2.
const SEND_BUFFER: usize = 128 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// accept(2), for Linux: what is to be tried again, and what is ours.
    #[cfg(target_os = "linux")]
    #[test]
    fn nobody_waits_for_a_connection_that_is_gone() {
        use rustix::io::Errno;

        let gone = [Errno::CONNABORTED, Errno::NETDOWN, Errno::HOSTUNREACH, Errno::NETUNREACH];
        assert!(gone.iter().all(|errno| is_of_one(&(*errno).into())));
        let ours = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
        assert!(!ours.iter().any(|errno| is_of_one(&(*errno).into())));
    }

    /// tcp(7): a connection has the controller of the socket that it came to. Every Linux has reno, and lets
    /// anybody have it.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn connections_use_the_controller_of_their_listener() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        congest(&listener, "reno").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (_client, accepted) = tokio::try_join!(client, listener.accept()).unwrap();
        let name = socket2::SockRef::from(&accepted.0).tcp_congestion().unwrap();
        assert_eq!(name.split(|byte| *byte == 0).next(), Some(&b"reno"[..]));
        assert_eq!(congest(&listener, "no-such").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn heads_name_one_host() {
        let with = |line: &str, version, hosts: &[&'static str]| {
            let mut request = http::Request::builder().uri(line).version(version);
            for host in hosts {
                request = request.header(HOST, *host);
            }
            let head = head_of(&request.header("Range", "bytes=0-1").body(()).unwrap().into_parts().0);
            assert_eq!(head.fields, [Field::new("range", "bytes=0-1")]);
            (head.authority, head.path.unwrap())
        };
        let (one_one, one_zero) = (http::Version::HTTP_11, http::Version::HTTP_10);
        let host = |host: &'static str| Some(Bytes::from(host));
        assert_eq!(with("/a?b", one_one, &["x:1"]), (host("x:1"), "/a?b".into()));
        assert_eq!(with("http://y/a", one_one, &["x"]), (host("y"), "/a".into()));
        assert_eq!(with("/", one_one, &["x", "x"]), (None, "/".into()));
        assert_eq!(with("/", one_one, &[]), (None, "/".into()));
        assert_eq!(with("/", one_zero, &[]), (host(""), "/".into()));
        assert_eq!(with("http://y/a", one_one, &[]), (None, "/a".into()));
        assert_eq!(with("http://y/a", one_zero, &[]), (host("y"), "/a".into()));
        assert_eq!(with("https://y/a", http::Version::HTTP_2, &[]), (host("y"), "/a".into()));
        assert_eq!(with("https://y/a", http::Version::HTTP_2, &["y"]), (host("y"), "/a".into()));
        assert_eq!(with("https://y/a", http::Version::HTTP_2, &["x"]), (None, "/a".into()));
        for none in ["", ":1", "a b", "a/b", "u@a", "a,b?"] {
            assert_eq!(with("/", one_one, &[none]).0, None, "{none}");
        }
        assert_eq!(with("/", one_one, &["[::1]:4433"]).0, host("[::1]:4433"));
    }
}
