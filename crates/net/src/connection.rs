use std::any::Any;
use std::fmt;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};

use quickset_quic::{ClassError, Closed, Dir, EarlyFate, MoveError, Priority, Side, Stats, StreamId};

use crate::messages::MessageSender;
use crate::received::MessageReceiver;
use crate::recv::RecvStream;
use crate::send::SendStream;
use crate::shared::{Shared, State};

/// A connection. Clones are handles of the same one.
///
/// All futures may be dropped at any point: nothing is lost by it but the waiting. When the last handle
/// of the connection and of its streams is dropped, the connection closes with code 0, or with what a protocol above it calls no
/// error (HTTP/3: H3_NO_ERROR).
#[derive(Clone)]
pub struct Connection {
    owner: Arc<Owner>,
}

/// What all handles of a connection hold.
pub(crate) struct Owner {
    pub(crate) shared: Arc<Shared>,
}

impl Connection {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { owner: Arc::new(Owner { shared }) }
    }

    /// Opens a stream for both directions; waits until the peer allows one more.
    ///
    /// The peer hears of it with the first bytes, or with its end.
    ///
    /// # Errors
    /// When the connection is over.
    pub async fn open_bi(&self) -> Result<(SendStream, RecvStream), Closed> {
        let id = self.open(Dir::Bi, false).await?;
        Ok((SendStream::new(self.owner.clone(), id), RecvStream::new(self.owner.clone(), id)))
    }

    /// Opens a stream for sending; waits until the peer allows one more.
    ///
    /// # Errors
    /// When the connection is over.
    pub async fn open_uni(&self) -> Result<SendStream, Closed> {
        let id = self.open(Dir::Uni, false).await?;
        Ok(SendStream::new(self.owner.clone(), id))
    }

    /// The next stream for both directions that the peer opens.
    ///
    /// # Errors
    /// When the connection is over.
    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), Closed> {
        let id = self.accept(Dir::Bi, false).await?;
        Ok((SendStream::new(self.owner.clone(), id), RecvStream::new(self.owner.clone(), id)))
    }

    /// The next stream that the peer opens for sending to us.
    ///
    /// # Errors
    /// When the connection is over.
    pub async fn accept_uni(&self) -> Result<RecvStream, Closed> {
        let id = self.accept(Dir::Uni, false).await?;
        Ok(RecvStream::new(self.owner.clone(), id))
    }

    /// Opens a stream of messages for sending. That it is one is for the application's protocol to know: the
    /// peer takes it with [`accept_messages`](Self::accept_messages).
    ///
    /// # Errors
    /// When the connection is over.
    pub async fn open_messages(&self) -> Result<MessageSender, Closed> {
        let id = self.open(Dir::Uni, true).await?;
        Ok(MessageSender::new(self.owner.clone(), id))
    }

    /// Opens a stream of messages for both directions, which the peer takes with
    /// [`accept_messages_bi`](Self::accept_messages_bi).
    ///
    /// # Errors
    /// When the connection is over.
    pub async fn open_messages_bi(&self) -> Result<(MessageSender, MessageReceiver), Closed> {
        let id = self.open(Dir::Bi, true).await?;
        Ok((MessageSender::new(self.owner.clone(), id), MessageReceiver::new(self.owner.clone(), id)))
    }

    /// The next stream for sending to us that the peer opens, as one of messages.
    ///
    /// # Errors
    /// When the connection is over.
    pub async fn accept_messages(&self) -> Result<MessageReceiver, Closed> {
        let id = self.accept(Dir::Uni, true).await?;
        Ok(MessageReceiver::new(self.owner.clone(), id))
    }

    /// The next stream for both directions that the peer opens, as one of messages.
    ///
    /// # Errors
    /// When the connection is over.
    pub async fn accept_messages_bi(&self) -> Result<(MessageSender, MessageReceiver), Closed> {
        let id = self.accept(Dir::Bi, true).await?;
        Ok((MessageSender::new(self.owner.clone(), id), MessageReceiver::new(self.owner.clone(), id)))
    }

    /// Ends the connection at once, with a code and words (at most 256 bytes) for the peer's application. What
    /// was not delivered is not: wait for [`SendStream::finished`] first where that matters.
    pub fn close(&self, code: u64, reason: &[u8]) {
        let shared = self.shared();
        shared.lock().conn.close(shared.now(), code, reason);
        shared.nudge();
    }

    /// Waits for the end of the connection.
    pub async fn closed(&self) -> Closed {
        poll_fn(|cx| {
            let mut state = self.shared().lock();
            if let Some(closed) = state.closed() {
                return Poll::Ready(closed);
            }
            state.phase.add(cx);
            Poll::Pending
        })
        .await
    }

    /// Why the connection ended, if it has.
    pub fn close_reason(&self) -> Option<Closed> {
        self.shared().lock().closed()
    }

    /// Changes what a class is among its siblings, by the names on the way to it; it counts from the next packet on. What hangs
    /// under a class is said by [`SendStream::set_class`].
    ///
    /// # Errors
    /// When nothing hangs under such a class.
    pub fn set_class_priority(&self, path: &[&str], priority: Priority) -> Result<(), ClassError> {
        let result = self.shared().lock().conn.set_class_priority(path, priority);
        self.shared().nudge();
        result
    }

    /// What was counted so far.
    pub fn stats(&self) -> Stats {
        self.shared().lock().conn.stats()
    }

    /// Waits for the end of the handshake: from then on nothing is early data, and the peer is who it says it is. At once
    /// ready but for connections with early data.
    ///
    /// # Errors
    /// When the connection is over.
    pub async fn connected(&self) -> Result<(), Closed> {
        poll_fn(|cx| self.poll_connected(cx)).await
    }

    /// True while what is sent, or read, is early data: the handshake is not through. An attacker can send what a client
    /// sent early again, to this server or to another one with the same key.
    pub fn is_early(&self) -> bool {
        self.shared().lock().conn.is_early()
    }

    /// Waits until it is known what became of early data. True when the server took it; false when it did not, or there
    /// was none, or the connection ended before.
    pub async fn accepted_early(&self) -> bool {
        poll_fn(|cx| {
            let mut state = self.shared().lock();
            match state.conn.early_data() {
                EarlyFate::Accepted => return Poll::Ready(true),
                EarlyFate::Rejected => return Poll::Ready(false),
                EarlyFate::None if state.connected => return Poll::Ready(false),
                _ if state.closed().is_some() => return Poll::Ready(false),
                EarlyFate::None | EarlyFate::Undecided => state.phase.add(cx),
            }
            Poll::Pending
        })
        .await
    }

    pub(crate) fn early_fate(&self) -> EarlyFate {
        self.shared().lock().conn.early_data()
    }

    /// Where the peer is.
    pub fn remote_address(&self) -> SocketAddr {
        self.shared().lock().conn.path().remote
    }

    /// Tries the path from another address of this machine, of the socket's port, and goes on there if it carries packets
    /// both ways; meanwhile the connection stays where it is. Clients only, on a socket that takes all addresses.
    /// [`moved`](Self::moved) tells how it ended.
    ///
    /// # Errors
    /// See [`MoveError`].
    pub fn migrate(&self, local: Option<IpAddr>) -> Result<(), MoveError> {
        let shared = self.shared();
        let result = shared.lock().conn.migrate(shared.now(), local);
        shared.nudge();
        result
    }

    /// Waits for the next move of the connection to another path, by the will of either side or of a NAT, or for the
    /// failure of one of ours. Returns where the peer is then ([`remote_address`](Self::remote_address)).
    ///
    /// # Errors
    /// When the connection is over.
    pub async fn moved(&self) -> Result<SocketAddr, Closed> {
        let begun = self.shared().lock().moves;
        poll_fn(|cx| {
            let mut state = self.shared().lock();
            if state.moves != begun {
                return Poll::Ready(Ok(state.conn.path().remote));
            }
            if let Some(closed) = state.closed() {
                return Poll::Ready(Err(closed));
            }
            state.movers.add(cx);
            Poll::Pending
        })
        .await
    }

    /// Which side of the connection this is.
    pub fn side(&self) -> Side {
        self.shared().lock().conn.side()
    }

    /// The application protocol agreed on (ALPN).
    pub fn alpn(&self) -> Option<Vec<u8>> {
        self.shared().lock().conn.session().alpn().map(<[u8]>::to_vec)
    }

    /// What the peer proved to be, if it did; the type is the TLS side's own. For that of the `quickset`
    /// crate it is the chain of certificates in DER.
    pub fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.shared().lock().conn.session().peer_identity()
    }

    /// Fills `out` with key material that only the two ends of this connection share (RFC 8446 §7.5). False
    /// when there is none.
    pub fn export_keying_material(&self, label: &[u8], context: &[u8], out: &mut [u8]) -> bool {
        self.shared().lock().conn.session().export(label, context, out)
    }

    /// Sends a PING: an RTT sample, and the path stays open.
    pub fn ping(&self) {
        self.shared().lock().conn.ping();
        self.shared().nudge();
    }

    /// Changes to fresh packet keys (RFC 9001 §6). False when that is not allowed now: the handshake is not
    /// confirmed, or the last change not acknowledged.
    pub fn update_keys(&self) -> bool {
        let shared = self.shared();
        let updated = shared.lock().conn.update_keys(shared.now());
        shared.nudge();
        updated
    }

    /// Whether fenced streams were agreed on. Without, messages travel as plain streams, in order.
    pub fn has_fenced_streams(&self) -> bool {
        self.shared().lock().conn.has_fenced_streams()
    }

    /// Whether forward erasure correction was agreed on. Without, nothing is repaired, and what is lost is sent again.
    pub fn has_fec(&self) -> bool {
        self.shared().lock().conn.has_fec()
    }

    /// From now on so many symbols of each of the peer's sessions are kept, for decoding: fewer take less memory, and let
    /// the peer repair losses less far back; 0 asks for no more repair.
    pub fn set_fec_window(&self, window: u64) {
        self.shared().lock().conn.set_fec_window(window);
        self.shared().nudge();
    }

    pub(crate) fn owner(&self) -> &Arc<Owner> {
        &self.owner
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.owner.shared
    }

    /// See [`connected`](Self::connected).
    pub(crate) fn poll_connected(&self, cx: &Context<'_>) -> Poll<Result<(), Closed>> {
        let mut state = self.shared().lock();
        if state.connected {
            return Poll::Ready(Ok(()));
        }
        if let Some(closed) = state.closed() {
            return Poll::Ready(Err(closed));
        }
        state.phase.add(cx);
        Poll::Pending
    }

    async fn open(&self, dir: Dir, messages: bool) -> Result<StreamId, Closed> {
        poll_fn(|cx| {
            self.poll_stream(cx, dir, |state| {
                let id = if messages { state.conn.open_messages(dir) } else { state.conn.open(dir) };
                (id, &mut state.available)
            })
        })
        .await
    }

    async fn accept(&self, dir: Dir, messages: bool) -> Result<StreamId, Closed> {
        poll_fn(|cx| {
            self.poll_stream(cx, dir, |state| {
                let id = state.conn.accept(dir);
                if let Some(id) = id.filter(|_| messages) {
                    // Nobody had a handle of it, so that this fails only for a stream that the peer gave up
                    // already; then the handles find its end.
                    let _ = state.conn.as_messages(id);
                }
                (id, &mut state.opened)
            })
        })
        .await
    }

    /// Tries to get a stream by `verb`, which also says where to wait for one. The handle counts from here on,
    /// and the future is ready with it: nothing is lost between the two.
    fn poll_stream(
        &self,
        cx: &Context<'_>,
        dir: Dir,
        verb: impl FnOnce(&mut State) -> (Option<StreamId>, &mut [crate::wakers::Wakers; 2]),
    ) -> Poll<Result<StreamId, Closed>> {
        let mut state = self.shared().lock();
        if let Some(closed) = state.closed() {
            return Poll::Ready(Err(closed));
        }
        let (id, waiting) = verb(&mut state);
        if id.is_none() {
            waiting[dir as usize].add(cx);
        }
        drop(state);
        self.shared().nudge();
        id.map_or(Poll::Pending, |id| Poll::Ready(Ok(id)))
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let shared = &self.shared;
        shared.lock().close(shared.now(), None, b"");
        shared.nudge();
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared().lock();
        f.debug_struct("Connection")
            .field("id", state.conn.id())
            .field("side", &state.conn.side())
            .field("remote", &state.conn.path().remote)
            .field("closed", &state.conn.closed())
            .finish_non_exhaustive()
    }
}
