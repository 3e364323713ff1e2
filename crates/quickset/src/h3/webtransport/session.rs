use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use bytes::Bytes;
use quickset_h3::{ErrorCode, Request, Response, VerbRefusal};
use quickset_net::{Connection, LayerTurn};
use quickset_quic::{Dir, StreamId};

use super::super::http::{ExchangeHandle, Http, or_wait, wait};
use super::super::{Call, Client};
use super::{RecvStream, SendStream, SessionEnding, SessionError};

/// A session of WebTransport, on either side. Clones are handles of the same one.
///
/// With the last handle of it and of its streams it is closed with code 0.
#[derive(Clone, Debug)]
pub struct Session {
    pub(super) held: Arc<SessionShared>,
}

/// What all handles of a session and of its streams hold.
#[derive(Debug)]
pub(super) struct SessionShared {
    pub(super) exchange: Arc<ExchangeHandle>,
    request: Request,
    /// The server's choice.
    protocol: Option<String>,
}

impl Session {
    /// The request that it began with: its path, and the page's `origin` among its fields.
    pub fn request(&self) -> &Request {
        &self.held.request
    }

    /// The application protocol that the server chose of those that the client's request
    /// [offers](quickset_h3::Request::offering), if it did.
    pub fn protocol(&self) -> Option<&str> {
        self.held.protocol.as_deref()
    }

    /// Opens a stream in both directions; waits while the peer allows no more of them. The peer hears of it
    /// with the first bytes, of which the stream's header is some. Dropping the future means that there was
    /// none.
    ///
    /// # Errors
    /// When the session or the connection is over.
    pub async fn open_bi(&self) -> Result<(SendStream, RecvStream), SessionError> {
        Ok(SendStream::pair(self, self.open(Dir::Bi).await?))
    }

    /// Opens a stream to the peer; waits while it allows no more of them. Dropping the future means that
    /// there was none.
    ///
    /// # Errors
    /// When the session or the connection is over.
    pub async fn open_uni(&self) -> Result<SendStream, SessionError> {
        Ok(SendStream::new(self, self.open(Dir::Uni).await?))
    }

    /// The peer's next stream in both directions. Dropping the future loses nothing.
    ///
    /// # Errors
    /// When the session or the connection is over.
    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), SessionError> {
        Ok(SendStream::pair(self, self.accept(Dir::Bi).await?))
    }

    /// The peer's next stream to us. Dropping the future loses nothing.
    ///
    /// # Errors
    /// When the session or the connection is over.
    pub async fn accept_uni(&self) -> Result<RecvStream, SessionError> {
        Ok(RecvStream::new(self, self.accept(Dir::Uni).await?))
    }

    /// Sends a datagram. It may be lost, on the way or before.
    ///
    /// # Errors
    /// When it does not fit a packet, or the session or the connection is over.
    pub fn send_datagram(&self, payload: &[u8]) -> Result<(), SessionError> {
        let max = self.max_datagram();
        self.with(|http, turn, id| {
            match http.verb(turn, |machine, t| machine.send_datagram(t, id, payload)) {
                Ok(()) => Ok(()),
                Err(VerbRefusal::TooLarge) => Err(SessionError::TooLarge(max.unwrap_or(0))),
                Err(refusal) => Err(http.session_refused(turn, id, id, refusal)),
            }
        })
    }

    /// Bytes that a datagram has at most, as the path is now; `None` when the peer takes none.
    pub fn max_datagram(&self) -> Option<usize> {
        self.held.exchange.max_datagram()
    }

    /// The next datagram, in the order of arrival. Those that nobody takes make room for later ones. Dropping
    /// the future loses nothing.
    ///
    /// # Errors
    /// When the session or the connection is over.
    pub async fn next_datagram(&self) -> Result<Bytes, SessionError> {
        self.wait(|http, id, waker| {
            let next = http.slot(id).datagrams.pop_front();
            if next.is_none() {
                wait(&mut http.rooms.entry(id).or_default().listening, waker);
            }
            next
        })
        .await
    }

    /// Ends the session, with a code and a reason for the peer's application; of the reason go the first 1024
    /// bytes. Does not wait. Streams are given up in both directions, and what was not read of them is lost.
    /// Nothing happens when it is over.
    pub fn close(&self, code: u32, reason: &str) {
        self.with(|http, turn, id| {
            if http.verb(turn, |machine, t| machine.close_session(t, id, code, reason)).is_ok() {
                http.end_room(turn, id, SessionEnding { code, reason: reason.into() });
            }
        });
    }

    /// Waits until the session is over and tells how it ended, whichever side ended it. Dropping the future
    /// ends nothing.
    ///
    /// # Errors
    /// When the connection ended first.
    pub async fn closed(&self) -> Result<SessionEnding, SessionError> {
        let never = self.wait(|http, id, waker| {
            wait(&mut http.rooms.entry(id).or_default().waiting, waker);
            None::<SessionEnding>
        });
        match never.await {
            Ok(ending) | Err(SessionError::Over(ending)) => Ok(ending),
            Err(error) => Err(error),
        }
    }

    /// Asks the peer to end the session soon. Nothing changes by itself.
    ///
    /// # Errors
    /// When the session or the connection is over.
    pub fn drain(&self) -> Result<(), SessionError> {
        self.with(|http, turn, id| {
            let result = http.verb(turn, |machine, t| machine.drain_session(t, id));
            result.map_err(|refusal| http.session_refused(turn, id, id, refusal))
        })
    }

    /// Waits until the peer asks to end the session soon. Dropping the future loses nothing.
    ///
    /// # Errors
    /// When the session or the connection is over.
    pub async fn draining(&self) -> Result<(), SessionError> {
        self.wait(|http, id, waker| {
            let room = http.rooms.entry(id).or_default();
            if !room.draining {
                wait(&mut room.waiting, waker);
            }
            room.draining.then_some(())
        })
        .await
    }

    /// The connection.
    pub fn connection(&self) -> &Connection {
        self.held.exchange.link.layered.connection()
    }

    async fn open(&self, dir: Dir) -> Result<StreamId, SessionError> {
        let session = self.held.exchange.id;
        poll_fn(|cx| {
            self.held.exchange.link.layered.poll(cx, |http, turn, waker| {
                if let Some(over) = http.session_over(turn, session) {
                    return Poll::Ready(Err(over));
                }
                match http.verb(turn, |machine, t| machine.open_session_stream(t, session, dir)) {
                    Ok(id) => {
                        http.rooms.entry(session).or_default().streams.insert(id);
                        http.slot(id);
                        Poll::Ready(Ok(id))
                    }
                    Err(VerbRefusal::Blocked) => {
                        http.await_available(waker);
                        Poll::Pending
                    }
                    Err(refusal) => Poll::Ready(Err(http.session_refused(turn, session, session, refusal))),
                }
            })
        })
        .await
    }

    async fn accept(&self, dir: Dir) -> Result<StreamId, SessionError> {
        self.wait(|http, id, waker| {
            let room = http.rooms.entry(id).or_default();
            let next = room.next(dir);
            if next.is_none() {
                wait(&mut room.waiting, waker);
            }
            next
        })
        .await
    }

    /// Waits for what `take` finds, or leaves a waker for.
    async fn wait<T>(
        &self,
        mut take: impl FnMut(&mut Http, StreamId, &Waker) -> Option<T>,
    ) -> Result<T, SessionError> {
        let id = self.held.exchange.id;
        poll_fn(|cx| {
            self.held.exchange.link.layered.poll(cx, |http, turn, waker| {
                match (take(http, id, waker), http.session_over(turn, id)) {
                    (Some(found), _) => Poll::Ready(Ok(found)),
                    (None, Some(over)) => Poll::Ready(Err(over)),
                    (None, None) => Poll::Pending,
                }
            })
        })
        .await
    }

    fn with<T>(&self, verb: impl FnOnce(&mut Http, &mut LayerTurn<'_>, StreamId) -> T) -> T {
        let id = self.held.exchange.id;
        self.held.exchange.link.layered.with(|http, turn| verb(http, turn, id))
    }
}

impl Call {
    /// Whether this is a request for a session of WebTransport, on a connection that offers them.
    pub fn is_session(&self) -> bool {
        let ExchangeHandle { link, id } = &*self.reply.exchange;
        link.layered.with(|http, turn| http.verb(turn, |machine, _| machine.is_session(*id)))
    }

    /// Accepts a session with a response of 2xx, in one of the application protocols that its client
    /// [speaks](quickset_h3::Request::protocols) if the response [chooses](quickset_h3::Response::choosing)
    /// it. To decline one, answer the request with another status: 404 for a path that has none, 403 for a
    /// page that may not.
    ///
    /// # Errors
    /// When it is no request for a session, the response is not 2xx or chooses what was not offered, or the
    /// exchange or the connection is over.
    pub fn into_session(mut self, response: &Response) -> Result<Session, SessionError> {
        if !self.is_session() || !response.is_success() {
            return Err(SessionError::NoSession);
        }
        let protocol = agreed(&self.request, response)?;
        let mut response = response.clone();
        if self.request.fields.iter().any(|field| &field.name[..] == OFFER_02) {
            response = response.with("sec-webtransport-http3-draft", "draft02");
        }
        let exchange = self.reply.exchange.clone();
        // The session may be over as soon as it is one.
        exchange.link.layered.with(|http, _| http.enter_room(exchange.id));
        if let Err(error) = exchange.verb(|machine, t, id| machine.respond(t, id, &response, false)) {
            exchange.link.layered.with(|http, _| http.rooms.remove(&exchange.id));
            return Err(error.into());
        }
        // From now on the session is what ends it.
        self.reply.sender.ended = true;
        self.content.ended = true;
        Ok(Session { held: Arc::new(SessionShared { exchange, request: self.request.clone(), protocol }) })
    }
}

impl Client {
    /// Begins a session by a request as [`Request::extended`] with the protocol `webtransport` makes it; it
    /// goes as the server's draft calls it. Waits for the server's settings and its answer. Dropping the
    /// future gives it up.
    ///
    /// # Errors
    /// When the server takes no sessions, declines this one, or chooses a protocol that was not offered, or
    /// there is one on this connection; or the connection is over.
    pub async fn session(&self, request: &Request) -> Result<Session, SessionError> {
        if !matches!(request.protocol.as_deref(), Some(b"webtransport" | b"webtransport-h3")) {
            return Err(SessionError::NoSession);
        }
        self.settings().await?;
        let exchange = self.open(request, false).await?;
        exchange.link.layered.with(|http, _| http.enter_room(exchange.id));
        let mut held = SessionShared { exchange, request: request.clone(), protocol: None };
        let answer = held.exchange.wait(|slot, waker| or_wait(slot.response.take(), &mut slot.reader, waker));
        let answer = answer.await?;
        if !answer.is_success() {
            return Err(SessionError::Declined(answer.status));
        }
        match agreed(request, &answer) {
            Ok(protocol) => held.protocol = protocol,
            Err(error) => {
                // draft-ietf-webtrans-http3 §3.3.
                let id = held.exchange.id;
                let ExchangeHandle { link, .. } = &*held.exchange;
                link.layered.with(|http, turn| {
                    http.verb(turn, |machine, t| machine.cancel(t, id, ErrorCode::WT_ALPN_ERROR));
                });
                return Err(error);
            }
        }
        Ok(Session { held: Arc::new(held) })
    }
}

impl Drop for SessionShared {
    fn drop(&mut self) {
        let ExchangeHandle { link, id } = &*self.exchange;
        link.layered.with(|http, turn| http.leave_room(turn, *id));
    }
}

/// What a response chooses of what a request offers. A choice without an offer stands for nothing.
fn agreed(request: &Request, response: &Response) -> Result<Option<String>, SessionError> {
    let offered = request.protocols();
    match response.protocol().filter(|_| !offered.is_empty()) {
        Some(chosen) if !offered.contains(&chosen) => Err(SessionError::NotOffered(chosen)),
        chosen => Ok(chosen),
    }
}

/// By this a client says that it speaks draft 2; it is answered in kind.
const OFFER_02: &[u8] = b"sec-webtransport-http3-draft02";
