use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::task::Poll;

use bytes::BytesMut;
use quickset_base::{Batch, Ecn, Path};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Type};

use crate::pool;
use crate::ready::Polled;

/// A UDP socket with segmentation offload, ECN and the addresses of received datagrams.
#[derive(Debug)]
pub(crate) struct Socket {
    io: Polled,
    state: UdpSocketState,
    address: SocketAddr,
    offload: bool,
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
}

impl Default for SocketConfig {
    fn default() -> Self {
        Self { dual_stack: true, segmentation_offload: true, buffer: 4 << 20 }
    }
}

impl Socket {
    /// Binds a socket. Within a tokio runtime only.
    pub(crate) fn bind(address: SocketAddr, config: &SocketConfig) -> io::Result<Self> {
        let socket = socket2::Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            // What a system does unasked differs. One without dual stack still has IPv6.
            let only_v6 = !(config.dual_stack && address.ip().is_unspecified());
            if let Err(error) = socket.set_only_v6(only_v6) {
                tracing::debug!(%error, only_v6, "the system decides about dual stack itself");
            }
        }
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        Self::new(socket.into(), config)
    }

    /// Takes over a socket that is bound.
    pub(crate) fn new(socket: std::net::UdpSocket, config: &SocketConfig) -> io::Result<Self> {
        let reference = || UdpSockRef::from(&socket);
        let state = UdpSocketState::new(reference())?;
        // A burst of a few milliseconds at 10 Gbit/s must fit; less is a loss of speed, not an error.
        for result in [
            state.set_recv_buffer_size(reference(), config.buffer),
            state.set_send_buffer_size(reference(), config.buffer),
        ] {
            if let Err(error) = result {
                tracing::debug!(%error, "the system keeps its own buffer size");
            }
        }
        let address = socket.local_addr()?;
        Ok(Self { io: Polled::new(socket)?, state, address, offload: config.segmentation_offload })
    }

    /// The address that it is bound to.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Segments that may go out in one call, as of now: the system may change its mind.
    #[inline]
    pub(crate) fn segments(&self) -> usize {
        if self.offload { self.state.max_gso_segments().clamp(1, Batch::MAX_SEGMENTS) } else { 1 }
    }

    /// Fills buffers from the front, at most [`WIDTH`] of them, and returns how many; and whether that was all and the
    /// next call is pending until the system tells of more. It is found out when one datagram came alone, and in no `hurry`.
    pub(crate) fn poll_recv(
        &self,
        cx: &mut std::task::Context<'_>,
        buffers: &mut [BytesMut; WIDTH],
        metas: &mut [RecvMeta; WIDTH],
        hurry: bool,
    ) -> Poll<io::Result<(usize, bool)>> {
        let receive = |socket: UdpSockRef<'_>| {
            let mut rest = buffers.iter_mut();
            let mut slices: [IoSliceMut<'_>; WIDTH] = std::array::from_fn(|_| {
                IoSliceMut::new(rest.next().map_or(&mut [], |buffer| &mut buffer[..]))
            });
            let n = self.state.recv(socket, &mut slices, metas)?;
            Ok((n, TAKES_ALL && !hurry && n == 1 && metas[0].len <= metas[0].stride))
        };
        self.io.poll_receive(cx, receive, |(_, all)| *all)
    }

    /// Sends a batch. What the network or the system does not take is lost, as datagrams are; pending only
    /// while the socket's buffer is full.
    pub(crate) fn poll_send(&self, cx: &mut std::task::Context<'_>, batch: &Batch) -> Poll<()> {
        let segment = (batch.count() > 1).then(|| batch.segment());
        let transmit = self.transmit(&batch.path, batch.ecn, batch.bytes(), segment);
        self.io.poll_send(cx, |socket| self.state.try_send(socket, &transmit)).map(|sent| {
            let Err(error) = sent else { return };
            if batch.count() > 1 && self.state.max_gso_segments() == 1 {
                // The device has just turned out not to segment.
                self.send_one_by_one(batch);
            } else {
                tracing::debug!(%error, to = %batch.path.remote, bytes = batch.bytes().len(), "not sent");
            }
        })
    }

    /// Nothing waits for room any more.
    pub(crate) fn sent_all(&self) {
        self.io.sent_all();
    }

    /// Sends what no connection is responsible for; when there is no room, it is lost.
    pub(crate) fn send_response(&self, path: &Path, bytes: &[u8]) {
        let transmit = self.transmit(path, Ecn::NotEct, bytes, None);
        if let Err(error) = self.state.try_send(self.io.socket(), &transmit) {
            tracing::debug!(%error, to = %path.remote, "an answer was not sent");
        }
    }

    fn send_one_by_one(&self, batch: &Batch) {
        for segment in batch.segments() {
            let transmit = self.transmit(&batch.path, batch.ecn, segment, None);
            if let Err(error) = self.state.try_send(self.io.socket(), &transmit) {
                tracing::debug!(%error, to = %batch.path.remote, "not sent");
            }
        }
    }

    fn transmit<'a>(
        &self,
        path: &Path,
        ecn: Ecn,
        contents: &'a [u8],
        segment_size: Option<usize>,
    ) -> Transmit<'a> {
        Transmit {
            destination: self.outwards(path.remote),
            ecn: EcnCodepoint::from_bits(ecn.bits()),
            contents,
            segment_size,
            src_ip: path.local.map(|ip| self.outwards(SocketAddr::new(ip, 0)).ip()),
        }
    }

    /// A dual-stack socket wants IPv4 addresses in IPv6 clothes.
    fn outwards(&self, address: SocketAddr) -> SocketAddr {
        match (self.address, address.ip()) {
            (SocketAddr::V6(_), IpAddr::V4(ip)) => {
                SocketAddr::new(ip.to_ipv6_mapped().into(), address.port())
            }
            _ => address,
        }
    }

    /// Where a received message came from, as the rest of the program knows addresses.
    pub(crate) fn path(&self, meta: &RecvMeta) -> Path {
        let remote = canonical(meta.addr);
        // A socket on one address has no choice, and to spell it out costs a control message each way.
        let local =
            if self.address.ip().is_unspecified() { meta.dst_ip.map(|ip| ip.to_canonical()) } else { None };
        Path { remote, local }
    }
}

/// IPv4 without IPv6 clothes; the zone of an IPv6 address stays.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

/// The mark that a message arrived with.
pub(crate) fn ecn(meta: &RecvMeta) -> Ecn {
    meta.ecn.map_or(Ecn::NotEct, |ecn| Ecn::from_bits(ecn as u8))
}

/// Messages per receive call. With receive offload (GRO) a message holds up to 64 KiB of datagrams, so that
/// more would save little, while each costs [`pool::SIZE`] bytes of memory that must be ready.
pub(crate) const WIDTH: usize = 8;

/// Whether a receive call takes all messages that there are, as far as there are buffers: elsewhere it takes one.
const TAKES_ALL: bool = cfg!(target_os = "linux");

const _: () = assert!(pool::SIZE >= Batch::MAX_BYTES);
