use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::task::{Poll, ready};

use bytes::BytesMut;
use quickset_base::{AddressPair, Batch, Ecn};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Type};

use crate::pool;
use crate::ready::Polled;
use crate::refusal::{is_size, may_be_offload};

/// A UDP socket with segmentation offload, ECN and the addresses of received datagrams.
#[derive(Debug)]
pub(crate) struct Socket {
    io: Polled,
    /// It learns from refusals, and wrongly from those that are for an address: then it is made anew.
    state: RwLock<UdpSocketState>,
    bound: Bound,
    /// Segments that the system takes at a time, if it does as it says.
    segments: usize,
    /// It is told of errors that the network reports, and says them to whoever asks for anything.
    tells_errors: AtomicBool,
    /// It has done so until now, as far as that was tried, and may be asked to.
    offload: AtomicBool,
    #[cfg(test)]
    pub(crate) hitch: Hitch,
}

/// What tests say that the system does.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct Hitch {
    /// There is no room in its buffer.
    pub(crate) is_full: AtomicBool,
    /// It gives out nothing of what has come.
    pub(crate) fails: AtomicBool,
    /// It takes no larger datagrams, as if the interface had that MTU; 0: as large as it really takes.
    pub(crate) most: std::sync::atomic::AtomicUsize,
    /// It says this to all that is to leave, or to batches of several; 0: what it really says.
    pub(crate) says: std::sync::atomic::AtomicI32,
    pub(crate) says_to_several: std::sync::atomic::AtomicI32,
    /// How often it did either of the first two.
    pub(crate) refused: std::sync::atomic::AtomicU32,
}

/// What of a batch did not leave.
#[derive(Debug)]
pub(crate) struct UnsentBatch {
    /// The datagrams that did, a bit each, the first being the lowest.
    pub(crate) left: u64,
    /// What the system said to one that did not.
    pub(crate) error: io::Error,
}

impl UnsentBatch {
    /// There has been no room for too long.
    pub(crate) fn without_room() -> Self {
        Self { left: 0, error: io::Error::new(io::ErrorKind::WouldBlock, "the socket's buffer is full") }
    }
}

/// Where a socket is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) address: SocketAddr,
    /// It speaks IPv4, perhaps in IPv6 clothes.
    pub(crate) v4: bool,
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
        let v4 = match address.ip() {
            IpAddr::V4(_) => true,
            IpAddr::V6(ip) if ip.is_unspecified() => {
                // What the system does not tell is tried.
                !socket2::SockRef::from(&socket).only_v6().unwrap_or(false)
            }
            IpAddr::V6(ip) => ip.to_ipv4_mapped().is_some(),
        };
        let segments = state.max_gso_segments();
        let offload = AtomicBool::new(config.segmentation_offload);
        Ok(Self {
            io: Polled::new(socket)?,
            state: RwLock::new(state),
            bound: Bound { address, v4 },
            segments,
            tells_errors: AtomicBool::new(false),
            offload,
            #[cfg(test)]
            hitch: Hitch::default(),
        })
    }

    /// Where it is bound.
    pub(crate) fn bound(&self) -> Bound {
        self.bound
    }

    /// Segments that may go out in one call, as of now: the system may change its mind.
    #[inline]
    pub(crate) fn segments(&self) -> usize {
        let offload = self.offload.load(Ordering::Relaxed);
        if offload { self.state().max_gso_segments().clamp(1, Batch::MAX_SEGMENTS) } else { 1 }
    }

    fn state(&self) -> RwLockReadGuard<'_, UdpSocketState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills buffers from the front, at most [`WIDTH`] of them, and returns how many; and whether that was
    /// all and the next call is pending until the system tells of more. It is found out when one datagram
    /// came alone, and in no `hurry`.
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
            #[cfg(test)]
            self.hitch.check(&self.hitch.fails, io::ErrorKind::ConnectionReset)?;
            let n = self.state().recv(socket, &mut slices, metas)?;
            Ok((n, TAKES_ALL && !hurry && n == 1 && metas[0].len <= metas[0].stride))
        };
        self.io.poll_receive(cx, receive, |(_, all)| *all)
    }

    /// Sends a batch, or those of its datagrams that the system takes. Pending only while the socket's buffer
    /// is full.
    pub(crate) fn poll_send(
        &self,
        cx: &mut std::task::Context<'_>,
        batch: &Batch,
    ) -> Poll<Result<(), UnsentBatch>> {
        let segment = (batch.count() > 1).then(|| batch.segment());
        let transmit = self.transmit(&batch.path, batch.ecn, batch.bytes(), segment);
        let send = |socket: UdpSockRef<'_>| {
            #[cfg(test)]
            self.hitch.check(&self.hitch.is_full, io::ErrorKind::WouldBlock)?;
            self.try_send(socket, &transmit)
        };
        Poll::Ready(match ready!(self.io.poll_send(cx, send)) {
            Ok(()) => Ok(()),
            Err(error) if batch.count() > 1 => self.send_one_by_one(batch, &error),
            Err(error) => {
                self.forgive(&error);
                Err(UnsentBatch { left: 0, error })
            }
        })
    }

    /// Nothing waits for room any more.
    pub(crate) fn sent_all(&self) {
        self.io.sent_all();
    }

    /// Sends what no connection is responsible for; when the system does not take it, it is gone, and false
    /// says so.
    pub(crate) fn send_response(&self, path: &AddressPair, bytes: &[u8]) -> bool {
        let sent = self.send_alone(path, Ecn::NotEct, bytes);
        sent.inspect_err(|error| tracing::trace!(%error, to = %path.remote, "not answered")).is_ok()
    }

    /// A batch was refused as a whole, and perhaps only some of it is meant: those that are too large, or
    /// their segmentation, which not every device does.
    fn send_one_by_one(&self, batch: &Batch, whole: &io::Error) -> Result<(), UnsentBatch> {
        let (mut left, mut refused) = (0, None);
        for (at, segment) in batch.segments().enumerate() {
            // Most often it is the address, which is the same for all of them.
            let same = |(least, error): &(usize, io::Error)| !is_size(error) || segment.len() >= *least;
            if refused.as_ref().is_some_and(same) {
                continue;
            }
            match self.send_alone(&batch.path, batch.ecn, segment) {
                Ok(()) => left |= 1 << at,
                Err(error) => refused = Some((segment.len(), error)),
            }
        }
        if left & 1 == 1 && may_be_offload(whole) {
            tracing::debug!(error = %whole, "datagrams go one by one from here on");
            self.offload.store(false, Ordering::Relaxed);
        }
        self.forgive(whole);
        match refused {
            Some((_, error)) => Err(UnsentBatch { left, error }),
            None => Ok(()),
        }
    }

    /// Sends a datagram by itself.
    fn send_alone(&self, path: &AddressPair, ecn: Ecn, bytes: &[u8]) -> io::Result<()> {
        let sent = self.try_send(self.io.socket(), &self.transmit(path, ecn, bytes, None));
        sent.inspect_err(|error| self.forgive(error))
    }

    fn try_send(&self, socket: UdpSockRef<'_>, transmit: &Transmit<'_>) -> io::Result<()> {
        #[cfg(test)]
        self.hitch.refuse(transmit)?;
        let state = self.state();
        let sent = state.try_send(socket, transmit);
        if sent.is_err() && self.tells_errors.load(Ordering::Relaxed) {
            // It may be of another datagram, and has been said then.
            return state.try_send(self.io.socket(), transmit);
        }
        sent
    }

    /// From now on the socket hears what the network says to what it sends, or not any more.
    #[cfg(target_os = "linux")]
    pub(crate) fn tell_errors(&self, on: bool) -> io::Result<()> {
        use nix::sys::socket::{setsockopt, sockopt};

        self.tells_errors.store(on, Ordering::Relaxed);
        let name = self.io.other_name()?;
        let v6 = self.bound.address.is_ipv6().then(|| setsockopt(&name, sockopt::Ipv6RecvErr, &on));
        let v4 = self.bound.v4.then(|| setsockopt(&name, sockopt::Ipv4RecvErr, &on));
        [v4, v6].into_iter().flatten().try_for_each(|set| Ok(set?))
    }

    /// Another name of the socket.
    #[cfg(target_os = "linux")]
    pub(crate) fn other_name(&self) -> io::Result<std::os::fd::OwnedFd> {
        self.io.other_name()
    }

    /// Something was refused. Nobody can be answered whose port is 0, or from an address that is not ours any
    /// more: the same error then says nothing of offload, nor of marks, of which all others would go without
    /// from now on.
    fn forgive(&self, error: &io::Error) {
        if error.kind() == io::ErrorKind::InvalidInput || self.state().max_gso_segments() < self.segments {
            self.renew();
        }
    }

    fn renew(&self) {
        match UdpSocketState::new(self.io.socket()) {
            Ok(state) => *self.state.write().unwrap_or_else(PoisonError::into_inner) = state,
            Err(error) => tracing::debug!(%error, "the socket goes on with less"),
        }
    }

    fn transmit<'a>(
        &self,
        path: &AddressPair,
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
        match (self.bound.address, address.ip()) {
            (SocketAddr::V6(_), IpAddr::V4(ip)) => {
                SocketAddr::new(ip.to_ipv6_mapped().into(), address.port())
            }
            _ => address,
        }
    }

    /// Where a received message came from, as the rest of the program knows addresses.
    pub(crate) fn path(&self, meta: &RecvMeta) -> AddressPair {
        let remote = canonical(meta.addr);
        // A socket on one address has no choice, and to spell it out costs a control message each way.
        let local = if self.bound.address.ip().is_unspecified() {
            meta.dst_ip.map(|ip| ip.to_canonical())
        } else {
            None
        };
        AddressPair { remote, local }
    }
}

#[cfg(test)]
impl Hitch {
    fn check(&self, what: &AtomicBool, error: io::ErrorKind) -> io::Result<()> {
        if !what.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        Err(error.into())
    }

    fn refuse(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let size = transmit.segment_size.unwrap_or(transmit.contents.len());
        let several = transmit.segment_size.map(|_| &self.says_to_several);
        let said = [Some(&self.says), several].into_iter().flatten().map(|says| says.load(Ordering::Relaxed));
        match (said.max().unwrap_or(0), self.most.load(Ordering::Relaxed)) {
            (0, most) if most == 0 || size <= most => Ok(()),
            (0, _) => Err(nix::errno::Errno::EMSGSIZE.into()),
            (said, _) => Err(io::Error::from_raw_os_error(said)),
        }
    }
}

impl Bound {
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

/// The mark that a message arrived with.
pub(crate) fn ecn(meta: &RecvMeta) -> Ecn {
    meta.ecn.map_or(Ecn::NotEct, |ecn| Ecn::from_bits(ecn as u8))
}

/// Messages per receive call. With receive offload (GRO) a message holds up to 64 KiB of datagrams, so that
/// more would save little, while each costs [`pool::SIZE`] bytes of memory that must be ready.
pub(crate) const WIDTH: usize = 8;

/// Whether a receive call takes all messages that there are, as far as there are buffers: elsewhere it takes
/// one.
const TAKES_ALL: bool = cfg!(target_os = "linux");

const _: () = assert!(pool::SIZE >= Batch::MAX_BYTES);

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use std::future::poll_fn;

    fn batch(path: AddressPair, ecn: Ecn, segments: u8) -> Batch {
        let mut batch = Batch::with_limit(usize::from(segments));
        (batch.path, batch.ecn) = (path, ecn);
        for n in 0..segments {
            batch.space(100).fill(n);
            batch.commit(100);
        }
        batch
    }

    async fn send(socket: &Socket, batch: &Batch) -> Result<(), UnsentBatch> {
        poll_fn(|cx| socket.poll_send(cx, batch)).await
    }

    /// What comes, one mark and first byte for each datagram, until there were `n`.
    async fn marks(socket: &Socket, n: usize) -> Vec<(Ecn, u8)> {
        let mut buffers = std::array::from_fn(|_| BytesMut::zeroed(pool::SIZE));
        let mut metas = [RecvMeta::default(); WIDTH];
        let mut seen = Vec::new();
        while seen.len() < n {
            let wait = poll_fn(|cx| socket.poll_recv(cx, &mut buffers, &mut metas, true));
            let limit = std::time::Duration::from_secs(10);
            let (messages, _) = tokio::time::timeout(limit, wait).await.expect("in time").unwrap();
            for (buffer, meta) in buffers.iter().zip(&metas[..messages]) {
                seen.extend(buffer[..meta.len].chunks(meta.stride).map(|segment| (ecn(meta), segment[0])));
            }
        }
        seen
    }

    fn bind() -> Socket {
        Socket::bind(([0, 0, 0, 0], 0).into(), &SocketConfig::default()).unwrap()
    }

    fn to(socket: &Socket) -> AddressPair {
        AddressPair::to(([127, 0, 0, 1], socket.bound().address.port()).into())
    }

    /// Everybody can send a datagram that says it is from port 0.
    #[tokio::test]
    async fn who_cannot_be_answered_takes_nothing_from_others() {
        let (ours, theirs) = (bind(), bind());
        let before = ours.segments();
        assert!(before > 1, "Linux has offload");
        let nowhere = AddressPair::to(([127, 0, 0, 1], 0).into());
        // TEST-NET-1 (RFC 5737) is nobody's, as is an address that this machine had a moment ago.
        let from_nobody = AddressPair { local: Some([192, 0, 2, 1].into()), ..to(&theirs) };
        for path in [nowhere, from_nobody] {
            ours.send_response(&path, b"nothing");
            for several in [1, 3] {
                let unsent = send(&ours, &batch(path, Ecn::Ect0, several)).await.unwrap_err();
                assert_eq!(unsent.left, 0, "{path:?}");
            }
            assert_eq!(ours.segments(), before, "{path:?}");
            send(&ours, &batch(to(&theirs), Ecn::Ect0, 3)).await.unwrap();
            assert_eq!(marks(&theirs, 3).await, [0, 1, 2].map(|n| (Ecn::Ect0, n)), "{path:?}");
        }
    }

    #[tokio::test]
    async fn what_a_device_does_not_segment_goes_one_by_one_and_marked() {
        let (ours, theirs) = (bind(), bind());
        ours.hitch.says_to_several.store(nix::errno::Errno::EIO as i32, Ordering::Relaxed);
        send(&ours, &batch(to(&theirs), Ecn::Ect0, 3)).await.unwrap();
        assert_eq!(marks(&theirs, 3).await, [0, 1, 2].map(|n| (Ecn::Ect0, n)));
        assert_eq!(ours.segments(), 1, "it is not tried again");
    }

    /// What the system said when it was refused, for whom, is no reason to send one by one from here on.
    #[tokio::test]
    async fn of_a_refused_batch_leaves_what_can() {
        use nix::errno::Errno;

        let (ours, theirs) = (bind(), bind());
        let before = ours.segments();
        // Two of 100 bytes, and a last one of 40.
        let mut mixed = batch(to(&theirs), Ecn::Ect0, 3);
        mixed.clear();
        mixed.path = to(&theirs);
        for (n, len) in [(0, 100), (1, 100), (2, 40)] {
            mixed.space(100).fill(n);
            mixed.commit(len);
        }
        ours.hitch.most.store(99, Ordering::Relaxed);
        let unsent = send(&ours, &mixed).await.unwrap_err();
        assert_eq!((unsent.left, is_size(&unsent.error)), (0b100, true));
        assert_eq!(marks(&theirs, 1).await, [(Ecn::NotEct, 2)]);
        ours.hitch.most.store(0, Ordering::Relaxed);
        for errno in [Errno::ENETUNREACH, Errno::EPERM, Errno::ENOBUFS] {
            ours.hitch.says.store(errno as i32, Ordering::Relaxed);
            let unsent = send(&ours, &mixed).await.unwrap_err();
            assert_eq!((unsent.left, unsent.error.raw_os_error()), (0, Some(errno as i32)));
            assert!(!ours.send_response(&mixed.path, b"nothing"));
            // By the time that they are tried one by one, whatever it was is over.
            ours.hitch.says.store(0, Ordering::Relaxed);
            ours.hitch.says_to_several.store(errno as i32, Ordering::Relaxed);
            send(&ours, &mixed).await.unwrap();
            assert_eq!(marks(&theirs, 3).await.len(), 3);
            ours.hitch.says_to_several.store(0, Ordering::Relaxed);
        }
        assert_eq!(ours.segments(), before);
    }
}
