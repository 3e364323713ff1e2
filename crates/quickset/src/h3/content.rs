use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use quickset_h3::{Abort, BodyRead, ErrorCode, Field, Priority, VerbRefusal};
use quickset_net::LayerTurn;
use quickset_quic::StreamId;
use tokio::io::{AsyncRead, ReadBuf};

use super::http::{ExchangeHandle, Http};
use super::{ExchangeDatagrams, HttpError};

/// The content of a request or response, to be read as it arrives.
///
/// At most 64 KiB and a window of flow control are taken from the peer before they are read. Dropping the
/// content before its end tells the peer that the rest is not wanted. It is also a reader of tokio: use
/// `tokio::io::copy(&mut content, …)`, and then [`trailers`](Self::trailers).
#[derive(Debug)]
pub struct Content {
    exchange: Arc<ExchangeHandle>,
    /// Read and not given out.
    ahead: Ahead,
    /// It came to its end, one way or the other.
    pub(super) ended: bool,
    /// Why, if it broke off.
    failed: Option<HttpError>,
}

/// What one look at the connection finds: whoever reads on need not come back for each packet's worth of it.
#[derive(Debug, Default)]
struct Ahead {
    /// The first; empty without. A short message is one piece, for which no list is made.
    front: Bytes,
    behind: VecDeque<Bytes>,
    trailers: Vec<Field>,
    /// What comes behind all of these: the end, or why there is none.
    end: Option<Result<(), HttpError>>,
}

impl Content {
    pub(super) fn new(exchange: Arc<ExchangeHandle>) -> Self {
        Self { exchange, ahead: Ahead::default(), ended: false, failed: None }
    }

    /// Waits for the next bytes, at least one; `None` behind the last. They are returned as they arrived,
    /// mostly those of one packet, so gather some before you write them to a file. Dropping the future loses
    /// nothing.
    ///
    /// # Errors
    /// When the content ends before its end: each time, so that it does not look complete.
    pub async fn next(&mut self) -> Result<Option<Bytes>, HttpError> {
        poll_fn(|cx| self.poll_next(cx, CHUNK)).await
    }

    /// At most `max` bytes, which is not 0.
    fn poll_next(&mut self, cx: &mut Context<'_>, max: usize) -> Poll<Result<Option<Bytes>, HttpError>> {
        if self.ended {
            return Poll::Ready(self.failed.clone().map_or(Ok(None), Err));
        }
        let Self { exchange, ahead, ended, failed } = self;
        if ahead.is_empty() {
            let read = |http: &mut Http, turn: &mut LayerTurn<'_>, waker: &Waker| {
                http.read(turn, exchange.id, ahead, waker)
            };
            ready!(exchange.link.layered.poll(cx, read));
        }
        if let Some(data) = ahead.take(max) {
            return Poll::Ready(Ok(Some(data)));
        }
        *ended = true;
        *failed = ahead.end.take().and_then(Result::err);
        Poll::Ready(failed.clone().map_or(Ok(None), Err))
    }

    /// Reads all of the content, up to `limit` bytes. Dropping the future loses the bytes read so far.
    ///
    /// # Errors
    /// When it ends before its end, or is longer.
    pub async fn read_to_end(&mut self, limit: usize) -> Result<Vec<u8>, HttpError> {
        let mut all = Vec::new();
        while let Some(data) = self.next().await? {
            if data.len() > limit - all.len() {
                return Err(HttpError::TooLong(limit));
            }
            all.extend_from_slice(&data);
        }
        Ok(all)
    }

    /// Returns the fields behind the content, once [`next`](Self::next) has returned `None`.
    pub fn trailers(&self) -> &[Field] {
        &self.ahead.trailers
    }

    /// Returns the datagrams of this exchange (RFC 9297), which can be taken and sent beside the content.
    pub fn datagrams(&self) -> ExchangeDatagrams {
        ExchangeDatagrams::new(self.exchange.clone())
    }

    /// See [`ExchangeDatagrams::next`].
    ///
    /// # Errors
    /// When the exchange or the connection broke off.
    pub async fn next_datagram(&self) -> Result<Option<Bytes>, HttpError> {
        self.exchange.next_datagram().await
    }

    /// Tells the server that this response has another priority than its request said. This is for clients.
    ///
    /// # Errors
    /// When the exchange is over.
    pub fn prioritise(&self, priority: &Priority) -> Result<(), HttpError> {
        self.exchange.verb(|machine, t, id| machine.prioritise(t, id, priority))
    }

    /// Asks the peer to send no more of it, with this code.
    pub fn stop(mut self, code: ErrorCode) {
        self.give_up(code);
    }

    fn give_up(&mut self, code: ErrorCode) {
        if !std::mem::replace(&mut self.ended, true) {
            // When the exchange is over, so is its content.
            let _ = self.exchange.verb(|machine, t, id| {
                machine.stop(t, id, code);
                Ok::<_, VerbRefusal>(())
            });
        }
    }
}

impl Ahead {
    fn is_empty(&self) -> bool {
        self.chunks() == 0 && self.end.is_none()
    }

    /// Pieces that were read.
    fn chunks(&self) -> usize {
        usize::from(!self.front.is_empty()) + self.behind.len()
    }

    fn push(&mut self, data: Bytes) {
        if self.front.is_empty() {
            self.front = data;
        } else {
            self.behind.push_back(data);
        }
    }

    /// The next bytes, at most `max`.
    fn take(&mut self, max: usize) -> Option<Bytes> {
        if self.front.is_empty() {
            return None;
        }
        if self.front.len() > max {
            return Some(self.front.split_to(max));
        }
        let next = self.behind.pop_front().unwrap_or_default();
        Some(std::mem::replace(&mut self.front, next))
    }
}

impl Http {
    /// What is there, a little of it, behind what is read ahead, of which there is none.
    fn read(&mut self, turn: &mut LayerTurn<'_>, id: StreamId, ahead: &mut Ahead, waker: &Waker) -> Poll<()> {
        // This may find the end, with which datagrams end.
        self.take_datagrams(turn);
        let mut room = CHUNK;
        while room > 0 && ahead.chunks() < CHUNKS && ahead.end.is_none() {
            match self.verb(turn, |machine, t| machine.read(t, id, room)) {
                Ok(BodyRead::Data(data)) => {
                    room -= data.len();
                    ahead.push(data);
                }
                Ok(BodyRead::Trailers(fields)) => ahead.trailers = fields,
                Ok(BodyRead::Finished) => ahead.end = Some(Ok(())),
                Ok(BodyRead::Blocked) if ahead.chunks() > 0 => break,
                Ok(BodyRead::Blocked) => {
                    let Some(over) = self.over(turn) else {
                        self.slot(id).reader = Some(waker.clone());
                        return Poll::Pending;
                    };
                    ahead.end = Some(Err(over));
                }
                Err(refusal) => {
                    if let VerbRefusal::Aborted(why) = refusal {
                        self.broke_off(turn, id, why);
                    }
                    ahead.end = Some(Err(self.refused(turn, Some(id), refusal)));
                }
            }
        }
        Poll::Ready(())
    }

    /// Content broke off. Who sends the other way hears of it here, since the machine tells only who reads; a
    /// server may go on with its answer to a request that was given up.
    fn broke_off(&mut self, turn: &mut LayerTurn<'_>, id: StreamId, why: Abort) {
        let goes_on = turn.connection.side().is_server() && matches!(why, Abort::Reset(_));
        self.on_slot(id, turn, |slot, woken| {
            slot.broken = Some(why);
            if !goes_on {
                slot.aborted.get_or_insert(why);
                slot.wake(woken);
            }
        });
    }
}

/// The end of the content is that of what is read; [`trailers`](Content::trailers) are there by then. One
/// that breaks off is an error each time: it does not look complete. Dropping a future that reads loses
/// nothing beyond what that says of itself.
impl AsyncRead for Content {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(super::read_into(buffer, |room| this.poll_next(cx, room)))?;
        while buffer.remaining() > 0 {
            let Some(data) = this.ahead.take(buffer.remaining()) else { break };
            buffer.put_slice(&data);
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        // RFC 9114 §4.1: a server that answers without all of the request finds nothing wrong with it.
        let is_server = self.exchange.link.layered.connection().side().is_server();
        self.give_up(if is_server { ErrorCode::H3_NO_ERROR } else { ErrorCode::H3_REQUEST_CANCELLED });
    }
}

/// Bytes read at a time, and ahead.
const CHUNK: usize = 64 << 10;

/// In so many pieces: each may keep a received packet, however few bytes of it.
const CHUNKS: usize = 32;
