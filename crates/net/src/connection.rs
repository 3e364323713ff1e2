use std::any::Any;
use std::fmt;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, MutexGuard};
use std::task::{Context, Poll};

use quickset_quic::{
    ClassError, Closed, Dir, EarlyFate, MoveError, Priority, Side, Stats, StreamId, Version,
};

use crate::error::ExportError;
use crate::messages::MessageSender;
use crate::moves::Move;
use crate::received::MessageReceiver;
use crate::recv::RecvStream;
use crate::send::SendStream;
use crate::shared::{Owner, Shared, State};
use crate::wakers::{Crowd, Place, Seat};

/// A connection. Clones are handles of the same one.
///
/// All futures may be dropped at any point: nothing is lost by it but the waiting. When the last handle
/// of the connection and of its streams is dropped, the connection closes with code 0, or with what a protocol above it calls no
/// error (HTTP/3: H3_NO_ERROR).
#[derive(Clone)]
pub struct Connection {
    owner: Arc<Owner>,
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
        Seat::new(|| self.shared().lock(), |state| &mut state.phase).wait(|state| state.closed()).await
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
        Seat::new(|| self.shared().lock(), |state| &mut state.phase).wait(|state| state.connected()).await
    }

    /// True while what is sent, or read, is early data: the handshake is not through. An attacker can send what a client
    /// sent early again, to this server or to another one with the same key.
    pub fn is_early(&self) -> bool {
        self.shared().lock().conn.is_early()
    }

    /// Waits until it is known what became of early data. True when the server took it; false when it did not, or there
    /// was none, or the connection ended before.
    pub async fn accepted_early(&self) -> bool {
        let seat = Seat::new(|| self.shared().lock(), |state| &mut state.phase);
        seat.wait(|state| match state.conn.early_data() {
            EarlyFate::Accepted => Some(true),
            EarlyFate::Rejected => Some(false),
            EarlyFate::None if state.connected => Some(false),
            EarlyFate::None | EarlyFate::Undecided => state.closed().map(|_| false),
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

    /// The address of this machine that packets leave from, as far as the socket tells.
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.shared().lock().conn.path().local
    }

    /// Tries the path from another address of this machine, of the socket's port, and goes on there if it carries packets
    /// both ways; meanwhile the connection stays where it is. Clients only, on a socket that takes all addresses.
    /// [`moves`](Self::moves), asked for before, tell how it ended.
    ///
    /// # Errors
    /// See [`MoveError`].
    pub fn migrate(&self, local: Option<IpAddr>) -> Result<(), MoveError> {
        let shared = self.shared();
        let result = shared.lock().conn.migrate(shared.now(), local);
        shared.nudge();
        result
    }

    /// From now on, each move of the connection to another path, by the will of either side or of a NAT, and each failure of
    /// one of ours.
    ///
    /// ```no_run
    /// # use quickset_net::{Connection, Move};
    /// # async fn f(connection: &Connection, wifi: std::net::IpAddr) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut moves = connection.moves();
    /// connection.migrate(Some(wifi))?;
    /// match moves.next().await? {
    ///     Move::Done(path) => println!("from {:?} now", path.local),
    ///     Move::Failed(path) => println!("no way from {:?}", path.local),
    ///     _ => {}
    /// }
    /// # Ok(()) }
    /// ```
    pub fn moves(&self) -> Moves {
        let seen = self.shared().lock().moves.count();
        Moves { owner: self.owner.clone(), seen }
    }

    /// Which side of the connection this is.
    pub fn side(&self) -> Side {
        self.shared().lock().conn.side()
    }

    /// The QUIC version agreed on. It may become another one as long as the handshake is not through.
    pub fn version(&self) -> Version {
        self.shared().lock().conn.version()
    }

    /// The application protocol agreed on (ALPN).
    pub fn alpn(&self) -> Option<Vec<u8>> {
        self.shared().lock().conn.session().alpn().map(<[u8]>::to_vec)
    }

    /// The name of the server that the client asked for (SNI, RFC 6066 §3), in lower case: for a server of several names. `None`
    /// when it asked for none, or for an address, and on the client's side.
    pub fn server_name(&self) -> Option<String> {
        self.shared().lock().conn.session().server_name().map(str::to_owned)
    }

    /// What the peer proved to be, if it did; the type is the TLS side's own. For that of the `quickset`
    /// crate it is the chain of certificates in DER.
    pub fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.shared().lock().conn.session().peer_identity()
    }

    /// Fills `out` with key material that only the two ends of this connection share (RFC 8446 §7.5).
    ///
    /// # Errors
    /// [`ExportError`]; what is in `out` then is no secret.
    pub fn export_keying_material(
        &self,
        label: &[u8],
        context: &[u8],
        out: &mut [u8],
    ) -> Result<(), ExportError> {
        if self.shared().lock().conn.session().export(label, context, out) {
            Ok(())
        } else {
            Err(ExportError)
        }
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

    /// From now on the peer may have so many streams open at a time that go both ways ([`Dir::Bi`]), or that only it sends
    /// on, in place of [`max_bidi_streams`](quickset_quic::TransportConfig::max_bidi_streams) or `max_uni_streams`. It hears at
    /// once of more. Fewer hold when as many are over: those that it was allowed it may still open.
    pub fn set_max_streams(&self, dir: Dir, most: u64) {
        self.shared().lock().conn.set_max_streams(dir, most);
        self.shared().nudge();
    }

    /// From now on the peer may have so many bytes on their way that were not read, on all streams together, in place of
    /// what need has made of the window until now ([`max_connection_window`]), and it grows no more. One message of the
    /// longest that are taken fits in any case. A larger window holds at once, a smaller one when as much was read.
    ///
    /// [`max_connection_window`]: quickset_quic::TransportConfig::max_connection_window
    pub fn set_connection_window(&self, bytes: u64) {
        self.shared().lock().conn.set_connection_window(bytes);
        self.shared().nudge();
    }

    pub(crate) fn owner(&self) -> &Arc<Owner> {
        &self.owner
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.owner.shared
    }

    /// See [`connected`](Self::connected).
    pub(crate) fn poll_connected(&self, place: &mut Place, cx: &Context<'_>) -> Poll<Result<(), Closed>> {
        let mut state = self.shared().lock();
        let connected = state.connected();
        let old = if connected.is_none() { state.phase.add(place, cx) } else { None };
        drop(state);
        drop(old);
        connected.map_or(Poll::Pending, Poll::Ready)
    }

    async fn open(&self, dir: Dir, messages: bool) -> Result<StreamId, Closed> {
        let seat = Seat::new(|| self.shared().lock(), |state| &mut state.available[dir as usize]);
        self.stream(seat, |state| if messages { state.conn.open_messages(dir) } else { state.conn.open(dir) })
            .await
    }

    async fn accept(&self, dir: Dir, messages: bool) -> Result<StreamId, Closed> {
        let seat = Seat::new(|| self.shared().lock(), |state| &mut state.opened[dir as usize]);
        self.stream(seat, |state| {
            let id = state.conn.accept(dir)?;
            if messages {
                // Nobody had a handle of it, so that this fails only for a stream that the peer gave up
                // already; then the handles find its end.
                let _ = state.conn.as_messages(id);
            }
            Some(id)
        })
        .await
    }

    /// Gets a stream by `verb`. The handle counts from here on, and the future is ready with it: nothing is lost between
    /// the two. What happened to the stream before is told as soon as it is there, so that there must be a place for it then.
    async fn stream<'a, L, C>(
        &'a self,
        mut seat: Seat<MutexGuard<'a, State>, L, C>,
        mut verb: impl FnMut(&mut State) -> Option<StreamId>,
    ) -> Result<StreamId, Closed>
    where
        L: Fn() -> MutexGuard<'a, State>,
        C: for<'g> Fn(&'g mut MutexGuard<'a, State>) -> &'g mut Crowd,
    {
        poll_fn(|cx| {
            let stream = seat.poll(cx, |state| match state.closed() {
                Some(closed) => Some(Err(closed)),
                None => verb(state).inspect(|id| state.expect(*id)).map(Ok),
            });
            self.shared().nudge();
            stream
        })
        .await
    }
}

/// How a connection moves, from [`Connection::moves`] on. It keeps the connection open.
pub struct Moves {
    owner: Arc<Owner>,
    seen: u64,
}

impl Moves {
    /// Waits for the next one. Of more than eight that nobody asked for the oldest are forgotten. Dropping the future loses
    /// nothing.
    ///
    /// # Errors
    /// When the connection is over.
    pub async fn next(&mut self) -> Result<Move, Closed> {
        let Self { owner, seen } = self;
        Seat::new(|| owner.shared.lock(), |state| &mut state.movers)
            .wait(|state| match state.moves.after(seen) {
                Some(next) => Some(Ok(next)),
                None => state.closed().map(Err),
            })
            .await
    }
}

impl fmt::Debug for Moves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Moves").field("seen", &self.seen).finish_non_exhaustive()
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
