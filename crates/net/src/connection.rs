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
use crate::shared::{HandlesOwner, LockedState, Shared};
use crate::wakers::{Crowd, TaskId, WakerSeat};

/// A QUIC connection. Clones are handles of the same connection.
///
/// Every future here may be dropped at any point: only the waiting is lost. The connection closes when the
/// last handle of it and of its streams is dropped. It closes with code 0, or with the code that a protocol
/// above it uses for "no error" (HTTP/3: H3_NO_ERROR).
#[derive(Clone)]
pub struct Connection {
    owner: Arc<HandlesOwner>,
}

impl Connection {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { owner: Arc::new(HandlesOwner { shared }) }
    }

    /// Opens a stream that both sides can send on. The call waits until the peer allows one more stream.
    ///
    /// The peer learns of the stream with its first bytes, or with its end.
    ///
    /// # Errors
    /// When the connection is over.
    pub async fn open_bi(&self) -> Result<(SendStream, RecvStream), Closed> {
        let id = self.open(Dir::Bi, false).await?;
        Ok((SendStream::new(self.owner.clone(), id), RecvStream::new(self.owner.clone(), id)))
    }

    /// Opens a stream that only we send on. The call waits until the peer allows one more stream.
    ///
    /// # Errors
    /// When the connection is over.
    pub async fn open_uni(&self) -> Result<SendStream, Closed> {
        let id = self.open(Dir::Uni, false).await?;
        Ok(SendStream::new(self.owner.clone(), id))
    }

    /// Waits for the next stream that the peer opens and that both sides can send on.
    ///
    /// # Errors
    /// When the connection is over.
    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), Closed> {
        let id = self.accept(Dir::Bi, false).await?;
        Ok((SendStream::new(self.owner.clone(), id), RecvStream::new(self.owner.clone(), id)))
    }

    /// Waits for the next stream that the peer opens and that only it sends on.
    ///
    /// # Errors
    /// When the connection is over.
    pub async fn accept_uni(&self) -> Result<RecvStream, Closed> {
        let id = self.accept(Dir::Uni, false).await?;
        Ok(RecvStream::new(self.owner.clone(), id))
    }

    /// Opens a stream of messages that only we send on.
    ///
    /// QUIC does not mark such a stream: the application's protocol has to say which streams carry messages.
    /// The peer takes it with [`accept_messages`](Self::accept_messages).
    ///
    /// # Errors
    /// When the connection is over.
    pub async fn open_messages(&self) -> Result<MessageSender, Closed> {
        let id = self.open(Dir::Uni, true).await?;
        Ok(MessageSender::new(self.owner.clone(), id))
    }

    /// Opens a stream of messages that both sides can send on. The peer takes it with
    /// [`accept_messages_bi`](Self::accept_messages_bi).
    ///
    /// # Errors
    /// When the connection is over.
    pub async fn open_messages_bi(&self) -> Result<(MessageSender, MessageReceiver), Closed> {
        let id = self.open(Dir::Bi, true).await?;
        Ok((MessageSender::new(self.owner.clone(), id), MessageReceiver::new(self.owner.clone(), id)))
    }

    /// Waits for the next stream that the peer opens and that only it sends on, and takes it as a stream of
    /// messages.
    ///
    /// # Errors
    /// When the connection is over.
    pub async fn accept_messages(&self) -> Result<MessageReceiver, Closed> {
        let id = self.accept(Dir::Uni, true).await?;
        Ok(MessageReceiver::new(self.owner.clone(), id))
    }

    /// Waits for the next stream that the peer opens and that both sides can send on, and takes it as a
    /// stream of messages.
    ///
    /// # Errors
    /// When the connection is over.
    pub async fn accept_messages_bi(&self) -> Result<(MessageSender, MessageReceiver), Closed> {
        let id = self.accept(Dir::Bi, true).await?;
        Ok((MessageSender::new(self.owner.clone(), id), MessageReceiver::new(self.owner.clone(), id)))
    }

    /// Ends the connection at once. The peer's application gets `code` and `reason`, of which 256 bytes are
    /// sent at most.
    ///
    /// Data that has not arrived yet is lost: where that matters, wait for [`SendStream::finished`] first.
    /// The call does not wait: before the program ends, wait for
    /// [`Endpoint::wait_idle`](crate::Endpoint::wait_idle), so that the peer hears of it.
    pub fn close(&self, code: u64, reason: &[u8]) {
        let shared = self.shared();
        shared.lock().conn.close(shared.now(), code, reason);
        shared.nudge();
    }

    /// Waits for the end of the connection and returns why it ended.
    pub async fn closed(&self) -> Closed {
        WakerSeat::new(|| self.shared().lock(), |state| &mut state.phase).wait(|state| state.closed()).await
    }

    /// Returns why the connection ended; `None` while it is open.
    pub fn close_reason(&self) -> Option<Closed> {
        self.shared().lock().closed()
    }

    /// Changes the priority of a class among its siblings. `path` holds the names of the classes from the
    /// connection down to it. The change counts from the next packet on. Streams are put into classes by
    /// [`SendStream::set_class`].
    ///
    /// # Errors
    /// When no stream is in such a class.
    pub fn set_class_priority(&self, path: &[&str], priority: Priority) -> Result<(), ClassError> {
        let result = self.shared().lock().conn.streams().set_class_priority(path, priority);
        self.shared().nudge();
        result
    }

    /// Returns what was counted so far.
    pub fn stats(&self) -> Stats {
        self.shared().lock().conn.stats()
    }

    /// Waits until the handshake is complete. From then on no data is early data, and the peer has proved who
    /// it is.
    ///
    /// Without early data a connection is complete when it is handed out, and this returns at once.
    ///
    /// # Errors
    /// When the connection is over.
    pub async fn connected(&self) -> Result<(), Closed> {
        WakerSeat::new(|| self.shared().lock(), |state| &mut state.phase)
            .wait(|state| state.connected())
            .await
    }

    /// Returns whether data sent or read now is early data, since the handshake is not complete. An attacker
    /// can replay what a client sent early: to this server, or to another one with the same key.
    pub fn is_early(&self) -> bool {
        self.shared().lock().conn.is_early()
    }

    /// Waits until it is known whether the server took the early data. Returns false as well if there was no
    /// early data, or if the connection ended first.
    pub async fn accepted_early(&self) -> bool {
        let seat = WakerSeat::new(|| self.shared().lock(), |state| &mut state.phase);
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

    /// Returns the peer's address.
    pub fn remote_address(&self) -> SocketAddr {
        self.shared().lock().conn.path().remote
    }

    /// Returns the address of this machine that packets leave from; `None` where the socket does not tell.
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.shared().lock().conn.path().local
    }

    /// Tries the path from another address of this machine, on the port of the socket, and moves the
    /// connection there if the path carries packets both ways. Until that is known the connection stays where
    /// it is.
    ///
    /// Only clients may do this, and only on a socket that is bound to all addresses. To learn how it ended,
    /// call [`moves`](Self::moves) before.
    ///
    /// # Errors
    /// See [`MoveError`].
    pub fn migrate(&self, local: Option<IpAddr>) -> Result<(), MoveError> {
        let shared = self.shared();
        let result = shared.lock().conn.migrate(shared.now(), local);
        shared.nudge();
        result
    }

    /// Returns the moves of the connection to other paths from now on, and our own attempts that failed. A
    /// move may be the will of either side, or the work of a NAT.
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

    /// Returns whether this is the client's or the server's side.
    pub fn side(&self) -> Side {
        self.shared().lock().conn.side()
    }

    /// Returns the QUIC version agreed on. It may still change while the handshake is not complete.
    pub fn version(&self) -> Version {
        self.shared().lock().conn.version()
    }

    /// Returns the application protocol agreed on (ALPN).
    pub fn alpn(&self) -> Option<Vec<u8>> {
        self.shared().lock().conn.session().alpn().map(<[u8]>::to_vec)
    }

    /// Returns the server name that the client asked for (SNI, RFC 6066 §3), in lower case. A server of
    /// several names tells them apart by it.
    ///
    /// It is `None` if the client asked for no name or for an address, and on the client's side.
    pub fn server_name(&self) -> Option<String> {
        self.shared().lock().conn.session().server_name().map(str::to_owned)
    }

    /// Returns what the peer proved to be, if anything. The TLS layer chooses the type; in the `quickset`
    /// crate it is a chain of certificates in DER, which `Peer` reads.
    pub fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.shared().lock().conn.session().peer_identity()
    }

    /// Fills `out` with key material that only the two ends of this connection share (RFC 8446 §7.5).
    ///
    /// # Errors
    /// Returns [`ExportError`], and `out` is not filled: do not use it as a secret.
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

    /// Sends a PING. The answer keeps the path open and gives an RTT sample.
    pub fn ping(&self) {
        self.shared().lock().conn.ping();
        self.shared().nudge();
    }

    /// Sends no more than so many bits of UDP payload per second from now on, or, with `None`, as many as the
    /// path takes. See [`TransportConfig::max_rate_bps`](quickset_quic::TransportConfig::max_rate_bps).
    pub fn set_max_rate_bps(&self, most: Option<u64>) {
        let shared = self.shared();
        shared.lock().conn.set_max_rate_bps(shared.now(), most);
        shared.nudge();
    }

    /// Changes to fresh packet keys (RFC 9001 §6). Returns false if a change is not allowed now: the
    /// handshake is not confirmed yet, or the last change is not acknowledged.
    pub fn update_keys(&self) -> bool {
        let shared = self.shared();
        let updated = shared.lock().conn.update_keys(shared.now());
        shared.nudge();
        updated
    }

    /// Returns whether both sides agreed on fenced streams. Without them messages travel on plain streams, in
    /// order.
    pub fn has_fenced_streams(&self) -> bool {
        self.shared().lock().conn.has_fenced_streams()
    }

    /// Returns whether both sides agreed on forward erasure correction. Without it nothing is repaired: lost
    /// data is sent again.
    pub fn has_fec(&self) -> bool {
        self.shared().lock().conn.has_fec()
    }

    /// Sets how many symbols we keep of each of the peer's FEC sessions for decoding. With fewer symbols we
    /// need less memory, and the peer can repair only newer losses. With 0 it sends no more repair.
    pub fn set_fec_window(&self, window: u64) {
        self.shared().lock().conn.set_fec_window(window);
        self.shared().nudge();
    }

    /// Sets how many streams the peer may have open at a time: those that both sides send on ([`Dir::Bi`]) or
    /// those that only it sends on ([`Dir::Uni`]). This replaces
    /// [`max_bidi_streams`](quickset_quic::TransportConfig::max_bidi_streams) or `max_uni_streams`.
    ///
    /// A larger number holds at once. A smaller number holds only as streams end, since the peer may still
    /// use those that it was allowed.
    pub fn set_max_streams(&self, dir: Dir, most: u64) {
        self.shared().lock().conn.streams().set_max(dir, most);
        self.shared().nudge();
    }

    /// Sets how many bytes the peer may send beyond what was read, on all streams together. This replaces
    /// [`max_connection_window`], and the window no longer grows by itself. The window is
    /// never smaller than one message of the longest size that we take.
    ///
    /// A larger window holds at once, a smaller one when enough was read.
    ///
    /// [`max_connection_window`]: quickset_quic::TransportConfig::max_connection_window
    pub fn set_connection_window(&self, bytes: u64) {
        self.shared().lock().conn.streams().set_window(bytes);
        self.shared().nudge();
    }

    pub(crate) fn owner(&self) -> &Arc<HandlesOwner> {
        &self.owner
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.owner.shared
    }

    /// See [`connected`](Self::connected).
    pub(crate) fn poll_connected(&self, place: &mut TaskId, cx: &Context<'_>) -> Poll<Result<(), Closed>> {
        let mut state = self.shared().lock();
        let connected = state.connected();
        let old = if connected.is_none() { state.phase.add(place, cx) } else { None };
        drop(state);
        drop(old);
        connected.map_or(Poll::Pending, Poll::Ready)
    }

    async fn open(&self, dir: Dir, messages: bool) -> Result<StreamId, Closed> {
        let seat = WakerSeat::new(|| self.shared().lock(), |state| &mut state.available[dir as usize]);
        self.stream(seat, dir, |state| {
            if messages { state.conn.streams().open_messages(dir) } else { state.conn.streams().open(dir) }
        })
        .await
    }

    async fn accept(&self, dir: Dir, messages: bool) -> Result<StreamId, Closed> {
        let seat = WakerSeat::new(|| self.shared().lock(), |state| &mut state.opened[dir as usize]);
        self.stream(seat, dir, |state| {
            let id = state.conn.streams().accept(dir)?;
            if messages {
                // Nobody had a handle of it, so that this fails only for a stream that the peer gave up
                // already; then the handles find its end.
                let _ = state.conn.messages(id).begin();
            }
            Some(id)
        })
        .await
    }

    /// Gets a stream by `verb`, held for a handle of each of its directions, which the caller makes at once.
    /// They count from here on, and the future is ready with it: nothing is lost between the two. What
    /// happened to the stream before is told as soon as it is there, so that there must be a place for it
    /// then.
    async fn stream<'a, L, C>(
        &'a self,
        mut seat: WakerSeat<MutexGuard<'a, LockedState>, L, C>,
        dir: Dir,
        mut verb: impl FnMut(&mut LockedState) -> Option<StreamId>,
    ) -> Result<StreamId, Closed>
    where
        L: Fn() -> MutexGuard<'a, LockedState>,
        C: for<'g> Fn(&'g mut MutexGuard<'a, LockedState>) -> &'g mut Crowd,
    {
        let handles = if dir == Dir::Bi { 2 } else { 1 };
        poll_fn(|cx| {
            let mut wants_poll = false;
            let stream = seat.poll(cx, |state| {
                let stream = match state.closed() {
                    Some(closed) => Some(Err(closed)),
                    None => verb(state).inspect(|id| state.hold(*id, handles)).map(Ok),
                };
                wants_poll = state.conn.wants_poll();
                stream
            });
            if wants_poll {
                self.shared().nudge();
            }
            stream
        })
        .await
    }
}

/// The moves of a connection, from [`Connection::moves`] on. This handle keeps the connection open.
pub struct Moves {
    owner: Arc<HandlesOwner>,
    seen: u64,
}

impl Moves {
    /// Waits for the next move. If nobody asks, the eight newest moves are kept. Dropping the future loses
    /// nothing.
    ///
    /// # Errors
    /// When the connection is over.
    pub async fn next(&mut self) -> Result<Move, Closed> {
        let Self { owner, seen } = self;
        WakerSeat::new(|| owner.shared.lock(), |state| &mut state.movers)
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
