//! The seam below the driver: what it asks of a socket.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use quickset_base::{AddressPair, Batch, Ecn};
use quickset_quic::{ConnectionIds, Obstacle};
use socket2::{Domain, Protocol, Type};

use crate::pool::{self, ReceivePool};
use crate::refusal::obstacle;

/// A way for datagrams, out and in. [`SystemSocket`](crate::SystemSocket) is the system's UDP; others lead to
/// the same process, a relay, a ring of the network interface.
///
/// The task of an endpoint is the only one that polls a socket, and what it polls is woken as futures are.
///
/// 1. Datagrams may be lost, doubled and overtaken. They are never cut or put together, but as
///    [`ReceivedMeta::stride`] and [`Batch::segment`] say.
/// 2. A datagram that is too large for the way is lost or refused ([`Obstacle::Size`]): connections find out
///    what size arrives. Whoever fragments it may make them believe in sizes that cost more than they bring.
/// 3. No method waits. Each is called for a batch and not for each datagram.
/// 4. What a socket does not know it leaves out: marks ([`Ecn::NotEct`]), local addresses (`None`), errors of
///    the network.
pub trait DatagramSocket: fmt::Debug + Send + Sync + 'static {
    /// Returns the address that the socket has on this side.
    fn local_addr(&self) -> SocketAddr;

    /// Whether IPv4 addresses are reached, which only a socket on the wildcard address of IPv6 has to say.
    fn reaches_v4(&self) -> bool {
        canonical(self.local_addr()).is_ipv4()
    }

    /// Fills buffers from the first one on, describes what is in them, and returns how many were filled, at
    /// least one. While there is nothing it is pending, and wakes the task when something has come.
    ///
    /// An error is of this call: the socket is asked again, after many in a row now and then only. Without a
    /// `hurry` the task is about to sleep, and a system that can tell cheaply whether that was all may do so.
    ///
    /// # Errors
    /// When the socket fails.
    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut ReceiveBuffers,
        hurry: bool,
    ) -> Poll<io::Result<ReceivedCount>>;

    /// Sends a batch, or those of its datagrams that can leave. It is pending while there is no room for
    /// anything, has taken nothing then, and wakes the task when there is room; the same batch comes again,
    /// or is given up.
    ///
    /// # Errors
    /// When not all have left: which have, and why others have not.
    fn poll_send(&self, cx: &mut Context<'_>, batch: &Batch) -> Poll<Result<(), UnsentBatch>>;

    /// Sends a datagram that is of no connection, and without a mark. What cannot leave at once is lost.
    ///
    /// # Errors
    /// When it has not left.
    fn send_response(&self, path: &AddressPair, bytes: &[u8]) -> io::Result<()>;

    /// Returns how many datagrams a batch may have from now on, at most [`Batch::MAX_SEGMENTS`]; it may
    /// change.
    fn max_segments(&self) -> usize {
        1
    }

    /// Returns how long an endpoint with nothing to do polls on at most instead of sleeping, where it expects
    /// an answer sooner ([`SocketConfig::busy_poll`]); zero, unless told, for never. Its runtime's
    /// [`yield_now`](crate::Runtime::yield_now) has to look for what has come. One with a clock of its own,
    /// which may stand still meanwhile, never does it.
    fn busy_poll(&self) -> Duration {
        Duration::ZERO
    }

    /// Nothing waits for room any more: a socket that watches for it need not go on.
    fn sent_all(&self) {}

    /// From now on the socket hears what the network says to what it sends (ICMP), or not any more. It is
    /// wanted while a client waits for the first answer of its server.
    ///
    /// # Errors
    /// When it cannot hear. Such a handshake times out.
    fn hear_errors(&self, hears: bool) -> io::Result<()> {
        if hears { Err(io::ErrorKind::Unsupported.into()) } else { Ok(()) }
    }

    /// Tells of datagrams that came back, until there are no more, and has the task woken when there are;
    /// some at a time are enough, if the task is woken for the rest.
    fn poll_errors(&self, cx: &mut Context<'_>, tell: &mut dyn FnMut(UndeliveredDatagram<'_>)) {
        let _ = (cx, tell);
    }
}

/// The buffers of a receive call, [`WIDTH`](Self::WIDTH) of [`SIZE`](Self::SIZE) bytes, and what is said of
/// their content.
///
/// They hold whatever an earlier call left there.
pub struct ReceiveBuffers {
    /// Nobody else may put others in their place, since the pool relies on what they are made of.
    buffers: [BytesMut; WIDTH],
    metas: [ReceivedMeta; WIDTH],
}

/// What is said of a filled buffer.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedMeta {
    /// Where its datagrams came from, and to which of our addresses, where that is known and there are
    /// several.
    pub path: AddressPair,
    /// The mark of each of them.
    pub ecn: Ecn,
    /// The bytes that were filled.
    pub len: usize,
    /// The bytes of each datagram, of which the last may have fewer: several of one sender may come together
    /// (GRO). One that is alone has `len`.
    pub stride: usize,
}

/// What a receive call has brought.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedCount {
    /// Buffers that are filled.
    pub buffers: usize,
    /// Nothing is left, and the next call is pending until more has come. False where that is not known.
    pub was_all: bool,
}

/// What of a batch did not leave.
#[derive(Debug)]
pub struct UnsentBatch {
    /// The datagrams that did, a bit each, the first being the lowest.
    pub left: u64,
    /// What stands in the way of those that did not; connections act by it.
    pub obstacle: Obstacle,
    /// What was said to one of them, in words for who reads them.
    pub error: io::Error,
}

/// A datagram that came back.
#[derive(Clone, Copy, Debug)]
pub struct UndeliveredDatagram<'a> {
    /// Whom it was for.
    pub remote: SocketAddr,
    /// What the network says.
    pub error: &'a io::Error,
    /// Its first bytes, as far as they came back: connections believe only in what quotes their ids.
    pub quoted: &'a [u8],
}

/// How a socket is bound.
#[derive(Clone, Debug)]
pub struct SocketConfig {
    /// Whether a socket on the IPv6 wildcard address takes IPv4 as well. `true` unless told.
    pub dual_stack: bool,
    /// Whether several segments go out in one call where the system can (GSO). `true` unless told. The
    /// system refusing it has the same effect as `false`.
    pub segmentation_offload: bool,
    /// The size of the system's buffers in bytes, each way; the system may grant less. 4 MiB unless told.
    pub buffer: usize,
    /// How long an endpoint with nothing to do polls on instead of sleeping, while all other tasks have their
    /// turns: it does so where its peer is less than 0.25 ms away, its last waits were shorter than this, and
    /// nothing that was sent last is bulk. An answer is there sooner then, and costs less of the processor,
    /// since nobody has to be woken; but a thread that waits often for about as long is always busy. 50
    /// microseconds unless told; zero to sleep always.
    pub busy_poll: Duration,
    /// How many sockets share the port of an [`Endpoint`](crate::Endpoint), each driven by a task of its own,
    /// so that as many cores work for it; 0 is one for each that this process may use. 1 unless told. Where
    /// the system refuses, there are as many as it allows, at least one, and a warning in the log:
    /// [`Endpoint::sockets`](crate::Endpoint::sockets) tells how many. A port that is in use is an error.
    /// Limits of the endpoint are of all of them together.
    pub sockets: usize,
    /// Makes connection ids that tell a load balancer in front of several machines which of them it is, as
    /// `RoutableIds` of `quickset-tls` do; `None`, unless told, for ids that say nothing. Where there are
    /// several sockets, ids are drawn until one names the right socket, too: as many draws as there are
    /// sockets, on average. An endpoint over a socket of another kind
    /// ([`Endpoint::over`](crate::Endpoint::over)) does not look here.
    pub connection_ids: Option<Arc<dyn ConnectionIds>>,
}

impl Default for SocketConfig {
    fn default() -> Self {
        Self {
            dual_stack: true,
            segmentation_offload: true,
            buffer: 4 << 20,
            busy_poll: Duration::from_micros(50),
            sockets: 1,
            connection_ids: None,
        }
    }
}

impl SocketConfig {
    /// Binds a socket that does not block; its buffers and offload are set by who takes it over
    /// ([`Runtime::wrap`](crate::Runtime::wrap)).
    ///
    /// # Errors
    /// When the system says so.
    pub fn bind(&self, address: SocketAddr) -> io::Result<std::net::UdpSocket> {
        self.bind_beside(address, false)
    }

    /// Binds a socket, perhaps beside others of ours on the same port.
    pub(crate) fn bind_beside(&self, address: SocketAddr, others: bool) -> io::Result<std::net::UdpSocket> {
        let socket = socket2::Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            // What a system does unasked differs. One without dual stack still has IPv6.
            let only_v6 = !(self.dual_stack && address.ip().is_unspecified());
            if let Err(error) = socket.set_only_v6(only_v6) {
                tracing::debug!(%error, only_v6, "the system decides about dual stack itself");
            }
        }
        socket.set_nonblocking(true)?;
        if others {
            share_port(&socket)?;
        }
        socket.bind(&address.into())?;
        Ok(socket.into())
    }
}

#[cfg(all(unix, not(any(target_os = "solaris", target_os = "illumos", target_os = "cygwin"))))]
fn share_port(socket: &socket2::Socket) -> io::Result<()> {
    socket.set_reuse_port(true)
}

#[cfg(not(all(unix, not(any(target_os = "solaris", target_os = "illumos", target_os = "cygwin")))))]
fn share_port(_socket: &socket2::Socket) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

impl ReceiveBuffers {
    /// Buffers of a call. With receive offload (GRO) a buffer holds up to 64 KiB of datagrams, so that more
    /// would save little, while each costs [`SIZE`](Self::SIZE) bytes of memory that must be ready.
    pub const WIDTH: usize = 8;

    /// The bytes of each: the largest UDP payload, and so the largest that GRO makes.
    pub const SIZE: usize = pool::SIZE;

    /// With buffers of this pool.
    pub(crate) fn new(pool: &mut ReceivePool) -> Self {
        let nothing = ReceivedMeta { path: AddressPair::to(NOWHERE), ecn: Ecn::NotEct, len: 0, stride: 0 };
        Self { buffers: std::array::from_fn(|_| pool.take()), metas: [nothing; WIDTH] }
    }

    /// Returns the buffers, to be filled from the first one on.
    #[inline]
    pub fn slices(&mut self) -> [IoSliceMut<'_>; Self::WIDTH] {
        let mut rest = self.buffers.iter_mut();
        std::array::from_fn(|_| IoSliceMut::new(rest.next().map_or(&mut [], |buffer| &mut buffer[..])))
    }

    /// Says what is in a buffer.
    ///
    /// # Panics
    /// When there is no such buffer.
    #[inline]
    pub fn describe(&mut self, at: usize, meta: ReceivedMeta) {
        self.metas[at] = meta;
    }

    /// Copies one datagram into a buffer, and describes it. What is longer than any datagram is cut.
    ///
    /// # Panics
    /// See [`describe`](Self::describe).
    pub fn put(&mut self, at: usize, path: AddressPair, ecn: Ecn, bytes: &[u8]) {
        let len = bytes.len().min(self.buffers[at].len());
        self.buffers[at][..len].copy_from_slice(&bytes[..len]);
        self.describe(at, ReceivedMeta { path, ecn, len, stride: len });
    }

    /// What was received, and what is said of it.
    #[inline]
    pub(crate) fn filled(&mut self, n: usize) -> impl Iterator<Item = (&mut BytesMut, &ReceivedMeta)> {
        self.buffers.iter_mut().zip(&self.metas).take(n)
    }

    /// How many datagrams the first `n` buffers hold. No more bytes are believed in than a buffer has.
    #[inline]
    pub(crate) fn datagrams(&self, n: usize) -> usize {
        self.metas.iter().take(n).map(|meta| meta.len.min(Self::SIZE).div_ceil(meta.stride.max(1))).sum()
    }

    /// How many bytes they hold.
    #[inline]
    pub(crate) fn bytes(&self, n: usize) -> usize {
        self.metas.iter().take(n).map(|meta| meta.len.min(Self::SIZE)).sum()
    }
}

impl fmt::Debug for ReceiveBuffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceiveBuffers").field("metas", &self.metas).finish_non_exhaustive()
    }
}

impl UnsentBatch {
    /// What the system's words mean for a batch, some of which has `left`.
    pub fn new(left: u64, error: io::Error, batch: &Batch) -> Self {
        Self { left, obstacle: obstacle(&error, batch.path.local.is_some()), error }
    }

    /// There has been no room for too long.
    pub(crate) fn without_room() -> Self {
        let error = io::Error::new(io::ErrorKind::WouldBlock, "the socket's buffer is full");
        Self { left: 0, obstacle: Obstacle::Room, error }
    }
}

/// Where a socket is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) address: SocketAddr,
    /// It speaks IPv4, perhaps in IPv6 clothes.
    pub(crate) v4: bool,
}

impl Bound {
    pub(crate) fn of(socket: &dyn DatagramSocket) -> Self {
        Self { address: socket.local_addr(), v4: socket.reaches_v4() }
    }

    /// Whether it speaks the family of a canonical address.
    pub(crate) fn reaches(self, remote: SocketAddr) -> bool {
        if remote.is_ipv4() { self.v4 } else { !canonical(self.address).is_ipv4() }
    }
}

/// IPv4 without IPv6 clothes. The zone of an IPv6 address stays where it needs one (RFC 4007 §6): the system
/// tells none with others, and addresses are compared.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match (address, address.ip().to_canonical()) {
        (SocketAddr::V6(full), IpAddr::V6(ip)) if ip.is_unicast_link_local() => {
            SocketAddrV6::new(ip, full.port(), 0, full.scope_id()).into()
        }
        (_, ip) => SocketAddr::new(ip, address.port()),
    }
}

pub(crate) const WIDTH: usize = ReceiveBuffers::WIDTH;

const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);

const _: () = assert!(pool::SIZE >= Batch::MAX_BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_claims_more_than_there_is_room_for_is_not_believed() {
        let mut buffers = ReceiveBuffers::new(&mut ReceivePool::default());
        for meta in &mut buffers.metas {
            (meta.len, meta.stride) = (usize::MAX, 1);
        }
        assert_eq!(buffers.datagrams(usize::MAX), WIDTH * ReceiveBuffers::SIZE);
        assert_eq!(buffers.filled(usize::MAX).count(), WIDTH);
    }
}
