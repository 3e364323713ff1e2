use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use quickset_h3::{Config, Priority, Request, Response, Settings, VerbRefusal};
use quickset_net::{Connection, LayerTaken};

use super::http::{ExchangeHandle, Http, HttpLink, or_wait};
use super::{Content, ContentSender, HttpError};

/// Speaks HTTP/3 as a client on a connection. Clones are handles of the same client.
///
/// The connection is closed when the last handle of the client and of its requests is dropped, also if there
/// are other handles of the connection.
#[derive(Clone, Debug)]
pub struct Client {
    link: Arc<HttpLink>,
}

/// Waits for the answer to a request. Dropping it tells the server that the answer is not wanted.
#[derive(Debug)]
pub struct Answer {
    /// Its end is the answer's.
    content: Content,
    exchange: Arc<ExchangeHandle>,
}

impl Client {
    /// Speaks HTTP/3 on a connection that we began and on which no stream was opened. `config` says what we
    /// take.
    ///
    /// # Errors
    /// When HTTP is spoken on it already.
    pub fn new(connection: &Connection, config: Config) -> Result<Self, LayerTaken> {
        Ok(Self { link: Http::begin(connection, config)? })
    }

    /// Makes a request with content, or for a tunnel (CONNECT). The head is sent, and the content follows.
    /// The call waits while the server allows no more requests at a time. If the future is dropped, there was
    /// no request.
    ///
    /// # Errors
    /// When the request breaks a rule, the server takes no new ones, or the connection is over.
    pub async fn request(&self, request: &Request) -> Result<(ContentSender, Answer), HttpError> {
        let exchange = self.open(request, false).await?;
        let answer = Answer::new(exchange.clone());
        Ok((ContentSender::new(exchange), answer))
    }

    /// Makes a request without content.
    ///
    /// # Errors
    /// See [`request`](Self::request).
    pub async fn ask(&self, request: &Request) -> Result<Answer, HttpError> {
        Ok(Answer::new(self.open(request, true).await?))
    }

    /// Makes a request without content and waits for the response.
    ///
    /// # Errors
    /// See [`request`](Self::request) and [`Answer::response`].
    pub async fn fetch(&self, request: &Request) -> Result<(Response, Content), HttpError> {
        self.ask(request).await?.response().await
    }

    /// Waits for the server's settings, which tell what it takes. Extended CONNECT and datagrams need them.
    ///
    /// # Errors
    /// When the connection is over before.
    pub async fn settings(&self) -> Result<Settings, HttpError> {
        poll_fn(|cx| {
            self.link.layered.poll(cx, |http, turn, waker| match (http.settings(), http.over(turn)) {
                (Some(settings), _) => Poll::Ready(Ok(settings)),
                (None, Some(over)) => Poll::Ready(Err(over)),
                (None, None) => {
                    http.watch(waker);
                    Poll::Pending
                }
            })
        })
        .await
    }

    /// Returns whether the server takes no new requests. Make further requests on another connection.
    pub fn is_going_away(&self) -> bool {
        self.link.layered.with(|http, turn| http.going || http.over(turn).is_some())
    }

    /// Makes no more requests, waits for those under way, and ends the connection. Dropping the future ends
    /// nothing. Before the program ends, wait for [`Endpoint::wait_idle`](crate::Endpoint::wait_idle), so
    /// that the server hears of it.
    pub async fn shutdown(&self) {
        self.link.shutdown().await;
    }

    /// Returns the connection.
    pub fn connection(&self) -> &Connection {
        self.link.layered.connection()
    }

    pub(super) async fn open(&self, request: &Request, end: bool) -> Result<Arc<ExchangeHandle>, HttpError> {
        let id = poll_fn(|cx| {
            self.link.layered.poll(cx, |http, turn, waker| {
                if let Some(over) = http.over(turn) {
                    return Poll::Ready(Err(over));
                }
                match http.verb(turn, |machine, t| machine.request(t, request, end)) {
                    Ok(id) => {
                        http.made(id);
                        Poll::Ready(Ok(id))
                    }
                    Err(VerbRefusal::Blocked) => {
                        http.await_available(waker);
                        Poll::Pending
                    }
                    Err(refusal) => Poll::Ready(Err(http.refused(turn, None, refusal))),
                }
            })
        })
        .await?;
        Ok(Arc::new(ExchangeHandle { link: self.link.clone(), id }))
    }
}

impl Answer {
    fn new(exchange: Arc<ExchangeHandle>) -> Self {
        Self { content: Content::new(exchange.clone()), exchange }
    }

    /// Waits for the next interim response (1xx); `None` when the final response is there.
    ///
    /// # Errors
    /// When there will be no response.
    pub async fn interim(&mut self) -> Result<Option<Response>, HttpError> {
        let take = self.exchange.wait(|slot, waker| match (slot.interim.pop_front(), &slot.response) {
            (Some(interim), _) => Poll::Ready(Some(interim)),
            (None, Some(_)) => Poll::Ready(None),
            (None, None) => {
                slot.reader = Some(waker.clone());
                Poll::Pending
            }
        });
        take.await
    }

    /// Waits for the response. Its content is still to be read. Dropping the future gives up the answer.
    ///
    /// # Errors
    /// When there will be none: [`Abort::Rejected`](super::Abort::Rejected) lets the request be made again
    /// elsewhere.
    pub async fn response(self) -> Result<(Response, Content), HttpError> {
        let take = self.exchange.wait(|slot, waker| or_wait(slot.response.take(), &mut slot.reader, waker));
        let response = take.await?;
        Ok((response, self.content))
    }

    /// Tells the server to send the response with another priority than the request asked for.
    ///
    /// # Errors
    /// When the exchange is over.
    pub fn prioritise(&self, priority: &Priority) -> Result<(), HttpError> {
        self.content.prioritise(priority)
    }
}
