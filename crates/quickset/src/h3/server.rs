use std::future::{Future as _, poll_fn};
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use quickset_h3::{Config, ErrorCode, Priority, Request, Response};
use quickset_net::{Connection, LayerTaken, Reliability};

use super::http::{ExchangeHandle, Http, HttpLink};
use super::sender::CHUNK;
use super::{Content, ContentSender, HttpError};

/// A server on a connection of a client.
///
/// Dropping it takes no more requests. Requests that were taken go on, and the connection ends with the last
/// of them. [`shutdown`](Self::shutdown) ends it in a way that loses no request.
#[derive(Debug)]
pub struct Server {
    link: Arc<HttpLink>,
}

/// A request and what is needed to answer it.
///
/// [`Reply::stopped`] tells when the client gives it up. The request counts among those that the client may
/// have open until everything that answers it is dropped.
#[derive(Debug)]
pub struct Call {
    /// The head of the request.
    pub request: Request,
    /// How urgent the answer is to the client. The transport obeys by itself.
    pub priority: Priority,
    /// The content of the request, which is still to be read.
    pub content: Content,
    /// The way to answer.
    pub reply: Reply,
}

/// The answer to a request, which is still to be given. Dropping it fails the request with H3_INTERNAL_ERROR.
#[derive(Debug)]
pub struct Reply {
    pub(super) sender: ContentSender,
    pub(super) exchange: Arc<ExchangeHandle>,
}

impl Server {
    /// Speaks HTTP/3 on a connection of which no stream was accepted. `config` says what we take.
    ///
    /// # Errors
    /// When HTTP is spoken on it already.
    pub fn new(connection: &Connection, config: Config) -> Result<Self, LayerTaken> {
        let max_waiting = config.max_waiting.or(Some(WAITING));
        Ok(Self { link: Http::begin(connection, Config { max_waiting, ..config })? })
    }

    /// Repairs losses of answers that are more urgent than `below`: with 3, of those that are more urgent
    /// than usual.
    ///
    /// The urgency is that of the response if it says one, and otherwise the client's last word. An answer
    /// whose priority asks for repair, or for none (`exp_b` and `exp_d`, see [`Priority::tolerance`]), has
    /// what it asks for, up to [`Config::max_burst`]. Without this call only answers are repaired that ask
    /// for it by these parameters or by [`ContentSender::set_reliability`], unless the connection repairs
    /// everything.
    pub fn repair_urgent(&self, below: u8, reliability: &Reliability) {
        let protection = reliability.protection();
        self.link
            .layered
            .with(|http, turn| http.verb(turn, |machine, t| machine.repair_urgent(t, below, protection)));
    }

    /// Waits for the next request; `None` when the connection is over. Dropping the future loses nothing.
    pub async fn accept(&mut self) -> Option<Call> {
        let (id, request, priority) = poll_fn(|cx| {
            self.link.layered.poll(cx, |http, turn, waker| {
                match (http.over(turn), http.next_incoming(turn)) {
                    (Some(_), _) => Poll::Ready(None),
                    (None, Some(incoming)) => Poll::Ready(Some(incoming)),
                    (None, None) => {
                        http.await_incoming(waker);
                        Poll::Pending
                    }
                }
            })
        })
        .await?;
        let exchange = Arc::new(ExchangeHandle { link: self.link.clone(), id });
        let content = Content::new(exchange.clone());
        let reply = Reply { sender: ContentSender::new(exchange.clone()), exchange };
        Some(Call { request, priority, content, reply })
    }

    /// Tells the client to make no new requests here. Requests that it makes before it learns of this are
    /// served.
    pub fn go_away(&self) {
        self.link.layered.with(|http, turn| http.verb(turn, |machine, t| machine.go_away(t, true)));
    }

    /// Tells the client to make no new requests, serves those that are on their way with `serve`, waits until
    /// all answers have arrived, and ends the connection. Dropping the future ends nothing.
    pub async fn shutdown(&mut self, mut serve: impl FnMut(Call)) {
        let link = self.link.clone();
        let mut shutdown = std::pin::pin!(link.shutdown());
        loop {
            let mut accept = std::pin::pin!(self.accept());
            let call = poll_fn(|cx| {
                if shutdown.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(None);
                }
                accept.as_mut().poll(cx)
            });
            match call.await {
                Some(call) => serve(call),
                None => return,
            }
        }
    }

    /// Returns the connection.
    pub fn connection(&self) -> &Connection {
        self.link.layered.connection()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.link.layered.with(super::http::Http::reject_incoming);
    }
}

impl Reply {
    /// Sends an interim response (1xx). There may be any number of them before the final one.
    ///
    /// # Errors
    /// When it is none, or the exchange or the connection is over.
    pub fn interim(&self, response: &Response) -> Result<(), HttpError> {
        if !response.is_interim() {
            return Err(HttpError::Refused(quickset_h3::VerbRefusal::OutOfOrder));
        }
        self.exchange.verb(|machine, t, id| machine.respond(t, id, response, false))
    }

    /// Sends the head of the response. Its content follows.
    ///
    /// # Errors
    /// When it breaks a rule, or the exchange or the connection is over.
    pub fn respond(self, response: &Response) -> Result<ContentSender, HttpError> {
        if response.is_interim() {
            return Err(HttpError::Refused(quickset_h3::VerbRefusal::OutOfOrder));
        }
        self.exchange.verb(|machine, t, id| machine.respond(t, id, response, false))?;
        Ok(self.sender)
    }

    /// Sends a response with all of its content, and ends it. What is short leaves together. The call waits
    /// while the peer does not take the content. Dropping the future gives up the answer.
    ///
    /// # Errors
    /// See [`respond`](Self::respond) and [`ContentSender::send`].
    pub async fn answer(mut self, response: &Response, mut content: Bytes) -> Result<(), HttpError> {
        if response.is_interim() {
            return Err(HttpError::Refused(quickset_h3::VerbRefusal::OutOfOrder));
        }
        // The machine keeps what it takes until the stream does: little at a time.
        let mut part = content.split_to(content.len().min(CHUNK));
        if content.is_empty() {
            self.exchange.verb(|machine, t, id| machine.answer(t, id, response, &mut part))?;
            self.sender.ended = true;
            return Ok(());
        }
        self.exchange.verb(|machine, t, id| machine.respond(t, id, response, false))?;
        self.sender.send(part).await?;
        self.sender.send(content).await?;
        self.sender.finish()
    }

    /// Sends a response without content.
    ///
    /// # Errors
    /// See [`respond`](Self::respond).
    pub fn end(self, response: &Response) -> Result<(), HttpError> {
        self.respond(response)?.finish()
    }

    /// Says that nothing was done with the request, so that the client may make it again.
    pub fn reject(self) {
        self.sender.cancel(ErrorCode::H3_REQUEST_REJECTED);
    }

    /// See [`ContentSender::set_reliability`].
    pub fn set_reliability(&self, reliability: &Reliability) {
        self.sender.set_reliability(reliability);
    }

    /// Sets how the answer is sent if neither the client nor the `priority` field of the response says so;
    /// each parameter counts by itself. It comes before [`Config::usual`].
    pub fn presume(&self, priority: &Priority) {
        // An exchange that is over has nothing to be sent.
        let _ = self.exchange.verb(|machine, t, id| machine.presume(t, id, priority));
    }

    /// Waits until the client no longer wants an answer, and returns why; see [`ContentSender::stopped`].
    pub async fn stopped(&self) -> HttpError {
        self.sender.stopped().await
    }

    /// See [`ContentSender::priority_changed`].
    ///
    /// # Errors
    /// As there.
    pub async fn priority_changed(&self) -> Result<Priority, HttpError> {
        self.sender.priority_changed().await
    }
}

/// Bytes of heads that wait to be accepted, unless told: those of a page's requests.
const WAITING: u64 = 64 << 10;
