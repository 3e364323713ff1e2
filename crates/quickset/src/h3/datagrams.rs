use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use bytes::Bytes;
use quickset_h3::{Transport as _, VerbRefusal};
use quickset_net::LayerTurn;
use quickset_quic::StreamId;

use super::HttpError;
use super::http::{ExchangeHandle, Http, on_quic, wait};

/// The datagrams of an exchange (RFC 9297), both ways, beside its content: of a tunnel (extended CONNECT),
/// for example. Clones are handles of the same ones.
///
/// [`Content`](super::Content) and [`Sender`](super::ContentSender) give it, and stay what the exchange lives
/// by: datagrams come until the peer's content ends or ours to read is dropped, and can be sent until
/// [`Sender`](super::ContentSender) is through. A handle keeps the connection from ending, and not the
/// exchange.
///
/// ```
/// # use quickset::h3::{Content, HttpError, ContentSender};
/// # async fn f(mut content: Content, out: ContentSender) -> Result<(), HttpError> {
/// let datagrams = out.datagrams();
/// loop {
///     tokio::select! {
///         datagram = datagrams.next() => match datagram? {
///             Some(payload) => datagrams.send(&payload)?,
///             None => break,
///         },
///         // Capsules, and the end of the tunnel.
///         data = content.next() => if data?.is_none() { break },
///     }
/// }
/// out.finish()
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ExchangeDatagrams {
    exchange: Arc<ExchangeHandle>,
}

impl ExchangeDatagrams {
    pub(super) fn new(exchange: Arc<ExchangeHandle>) -> Self {
        Self { exchange }
    }

    /// The next datagram, in the order of arrival; `None` when no more come: the peer has ended its content,
    /// or we wanted no more of that, or gave the exchange up. The content need not have been read for it.
    /// Those that came before are given out first; those that come behind are dropped (RFC 9297 §2.1).
    ///
    /// 64 of them, and [`max_datagram_bytes`](super::Config::max_datagram_bytes), wait at most, and the
    /// oldest make room. Of several handles one has each. Dropping the future loses nothing.
    ///
    /// # Errors
    /// When the peer gave its content up, or the connection is over.
    pub async fn next(&self) -> Result<Option<Bytes>, HttpError> {
        self.exchange.next_datagram().await
    }

    /// Sends a datagram. It may be lost, on the way or before.
    ///
    /// # Errors
    /// When the peer takes none, or none so long; when what we send has ended, or the peer wants no more of
    /// it; or when the connection is over.
    pub fn send(&self, payload: &[u8]) -> Result<(), HttpError> {
        self.exchange.send_datagram(payload)
    }

    /// Bytes that a datagram has at most, as the path is now; `None` when the peer takes none.
    pub fn max_len(&self) -> Option<usize> {
        self.exchange.max_datagram()
    }
}

impl ExchangeHandle {
    pub(super) async fn next_datagram(&self) -> Result<Option<Bytes>, HttpError> {
        poll_fn(|cx| self.link.layered.poll(cx, |http, turn, waker| http.next_datagram(turn, self.id, waker)))
            .await
    }

    pub(super) fn send_datagram(&self, payload: &[u8]) -> Result<(), HttpError> {
        self.verb(|machine, t, id| machine.send_datagram(t, id, payload))
    }

    pub(super) fn max_datagram(&self) -> Option<usize> {
        self.link.layered.with(|_, turn| {
            let max = on_quic(turn).max_datagram()?;
            // RFC 9297 §2.1: the quarter of the stream's id goes before it.
            let header = match self.id.0 / 4 {
                0..=0x3f => 1,
                0x40..=0x3fff => 2,
                0x4000..=0x3fff_ffff => 4,
                _ => 8,
            };
            max.checked_sub(header)
        })
    }
}

impl Http {
    fn next_datagram(
        &mut self,
        turn: &mut LayerTurn<'_>,
        id: StreamId,
        waker: &Waker,
    ) -> Poll<Result<Option<Bytes>, HttpError>> {
        // What is there came before an end that is found now.
        self.take_datagrams(turn);
        if let Some(next) = self.slot(id).datagrams.pop_front() {
            return Poll::Ready(Ok(Some(next)));
        }
        let listened = self.verb(turn, |machine, t| machine.listen(t, id));
        let slot = self.slot(id);
        let why = slot.aborted.or(slot.broken);
        Poll::Ready(match (listened, why) {
            (Ok(true), _) => {
                if let Some(over) = self.over(turn) {
                    return Poll::Ready(Err(over));
                }
                wait(&mut self.slot(id).listeners, waker);
                return Poll::Pending;
            }
            // The exchange is over, and was not broken off by the peer.
            (Ok(false), _) | (Err(VerbRefusal::UnknownStream), None) => Ok(None),
            (Err(VerbRefusal::UnknownStream), Some(why)) => Err(HttpError::Aborted(why)),
            (Err(refusal), _) => Err(self.refused(turn, Some(id), refusal)),
        })
    }
}
