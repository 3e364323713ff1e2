use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use quickset_base::{AddressPair, Batch, Ecn};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};

use crate::refusal::{is_size, may_be_offload};
use crate::runtime::{SocketReadiness, SocketWatch};
use crate::socket::{
    Bound, DatagramSocket, ReceiveBuffers, ReceivedCount, ReceivedMeta, SocketConfig, UnsentBatch, WIDTH,
    canonical,
};
#[cfg(target_os = "linux")]
use crate::{errors::next_error, socket::UndeliveredDatagram};

/// The system's UDP, with segmentation offload, ECN and the addresses of received datagrams, over the poller
/// of any runtime.
#[derive(Debug)]
pub struct SystemSocket<W> {
    incoming: W,
    /// While there is no room.
    room: Mutex<Option<W>>,
    /// While somebody wants to hear errors.
    #[cfg(target_os = "linux")]
    errors: Mutex<Option<W>>,
    /// It learns from refusals, and wrongly from those that are for an address: then it is made anew.
    state: RwLock<UdpSocketState>,
    bound: Bound,
    /// Segments that the system takes at a time, if it does as it says.
    segments: usize,
    /// Of an endpoint that uses it.
    busy_poll: Duration,
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

impl<W: SocketWatch> SystemSocket<W> {
    /// Takes over a socket that is bound and watched for what comes.
    ///
    /// # Errors
    /// When the system does not let it be used for datagrams.
    pub fn new(incoming: W, config: &SocketConfig) -> io::Result<Self> {
        let socket = incoming.socket();
        let reference = || UdpSockRef::from(socket);
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
        #[cfg(target_os = "linux")]
        demand_buffers(socket, config.buffer);
        let address = socket.local_addr()?;
        let v4 = match address.ip() {
            IpAddr::V4(_) => true,
            IpAddr::V6(ip) if ip.is_unspecified() => {
                // What the system does not tell is tried.
                !socket2::SockRef::from(socket).only_v6().unwrap_or(false)
            }
            IpAddr::V6(ip) => ip.to_ipv4_mapped().is_some(),
        };
        let segments = state.max_gso_segments();
        Ok(Self {
            incoming,
            room: Mutex::default(),
            #[cfg(target_os = "linux")]
            errors: Mutex::default(),
            state: RwLock::new(state),
            bound: Bound { address, v4 },
            segments,
            busy_poll: config.busy_poll,
            tells_errors: AtomicBool::new(false),
            offload: AtomicBool::new(config.segmentation_offload),
            #[cfg(test)]
            hitch: Hitch::default(),
        })
    }

    fn state(&self) -> RwLockReadGuard<'_, UdpSocketState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn socket(&self) -> UdpSockRef<'_> {
        self.incoming.socket().into()
    }

    /// What `send` returns, once there is room.
    fn poll_room<T>(
        &self,
        cx: &mut Context<'_>,
        mut send: impl FnMut(&UdpSocket) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        match send(self.incoming.socket()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return Poll::Ready(result),
        }
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        let watched = match &mut *room {
            Some(watched) => watched,
            none => none.insert(self.incoming.another(SocketReadiness::Room)?),
        };
        watched.poll_io(cx, send, |_| false)
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
            Some((_, error)) => Err(UnsentBatch::new(left, error, batch)),
            None => Ok(()),
        }
    }

    /// Sends a datagram by itself.
    fn send_alone(&self, path: &AddressPair, ecn: Ecn, bytes: &[u8]) -> io::Result<()> {
        let sent = self.try_send(self.socket(), &self.transmit(path, ecn, bytes, None));
        sent.inspect_err(|error| self.forgive(error))
    }

    fn try_send(&self, socket: UdpSockRef<'_>, transmit: &Transmit<'_>) -> io::Result<()> {
        #[cfg(test)]
        self.hitch.refuse(transmit)?;
        let state = self.state();
        let sent = state.try_send(socket, transmit);
        if sent.is_err() && self.tells_errors.load(Ordering::Relaxed) {
            // It may be of another datagram, and has been said then.
            return state.try_send(self.socket(), transmit);
        }
        sent
    }

    /// The system tells what the network says to what this socket sends, or not any more (IP_RECVERR of
    /// ip(7)).
    #[cfg(target_os = "linux")]
    fn tell_errors(&self, on: bool) -> io::Result<()> {
        use nix::sys::socket::{setsockopt, sockopt};

        self.tells_errors.store(on, Ordering::Relaxed);
        let socket = self.incoming.socket();
        let v6 = self.bound.address.is_ipv6().then(|| setsockopt(socket, sockopt::Ipv6RecvErr, &on));
        let v4 = self.bound.v4.then(|| setsockopt(socket, sockopt::Ipv4RecvErr, &on));
        [v4, v6].into_iter().flatten().try_for_each(|set| Ok(set?))
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
        match UdpSocketState::new(self.socket()) {
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
    #[inline]
    fn path(&self, meta: &RecvMeta) -> AddressPair {
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

impl<W: SocketWatch> DatagramSocket for SystemSocket<W> {
    fn local_addr(&self) -> SocketAddr {
        self.bound.address
    }

    fn reaches_v4(&self) -> bool {
        self.bound.v4
    }

    /// Whether that was all is found out when one datagram came alone.
    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut ReceiveBuffers,
        hurry: bool,
    ) -> Poll<io::Result<ReceivedCount>> {
        let receive = |socket: &UdpSocket| {
            #[cfg(test)]
            self.hitch.check(&self.hitch.fails, io::ErrorKind::ConnectionReset)?;
            let mut metas = [RecvMeta::default(); WIDTH];
            let n = self.state().recv(socket.into(), &mut buffers.slices(), &mut metas)?;
            for (at, meta) in metas[..n].iter().enumerate() {
                let RecvMeta { len, stride, .. } = *meta;
                buffers.describe(at, ReceivedMeta { path: self.path(meta), ecn: ecn(meta), len, stride });
            }
            let was_all = TAKES_ALL && !hurry && n == 1 && metas[0].len <= metas[0].stride;
            Ok(ReceivedCount { buffers: n, was_all })
        };
        self.incoming.poll_io(cx, receive, |received| received.was_all)
    }

    fn poll_send(&self, cx: &mut Context<'_>, batch: &Batch) -> Poll<Result<(), UnsentBatch>> {
        let segment = (batch.count() > 1).then(|| batch.segment());
        let transmit = self.transmit(&batch.path, batch.ecn, batch.bytes(), segment);
        let send = |socket: &UdpSocket| {
            #[cfg(test)]
            self.hitch.check(&self.hitch.is_full, io::ErrorKind::WouldBlock)?;
            self.try_send(socket.into(), &transmit)
        };
        Poll::Ready(match ready!(self.poll_room(cx, send)) {
            Ok(()) => Ok(()),
            Err(error) if batch.count() > 1 => self.send_one_by_one(batch, &error),
            Err(error) => {
                self.forgive(&error);
                Err(UnsentBatch::new(0, error, batch))
            }
        })
    }

    fn send_response(&self, path: &AddressPair, bytes: &[u8]) -> io::Result<()> {
        self.send_alone(path, Ecn::NotEct, bytes)
    }

    /// As of now: the system may change its mind.
    fn busy_poll(&self) -> Duration {
        self.busy_poll
    }

    fn max_segments(&self) -> usize {
        let offload = self.offload.load(Ordering::Relaxed);
        if offload { self.state().max_gso_segments().clamp(1, Batch::MAX_SEGMENTS) } else { 1 }
    }

    fn sent_all(&self) {
        *self.room.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    #[cfg(target_os = "linux")]
    fn hear_errors(&self, hears: bool) -> io::Result<()> {
        let watched = hears.then(|| self.incoming.another(SocketReadiness::Errors)).transpose()?;
        let told = self.tell_errors(hears);
        *self.errors.lock().unwrap_or_else(PoisonError::into_inner) = watched.filter(|_| told.is_ok());
        told
    }

    #[cfg(target_os = "linux")]
    fn poll_errors(&self, cx: &mut Context<'_>, tell: &mut dyn FnMut(UndeliveredDatagram<'_>)) {
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(errors) = &*errors else { return };
        for _ in 0..ERRORS_AT_ONCE {
            let next = errors.poll_io(cx, |socket| next_error(socket, &mut *tell), |()| false);
            match next {
                Poll::Ready(Ok(())) => {}
                // Of a runtime that has ended.
                Poll::Ready(Err(_)) | Poll::Pending => return,
            }
        }
        // Anybody can send them, and others have their turn first.
        cx.waker().wake_by_ref();
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

/// The mark that a message arrived with.
#[inline]
fn ecn(meta: &RecvMeta) -> Ecn {
    meta.ecn.map_or(Ecn::NotEct, |ecn| Ecn::from_bits(ecn as u8))
}

/// Whether a receive call takes all messages that there are, as far as there are buffers: elsewhere it takes
/// one.
const TAKES_ALL: bool = cfg!(target_os = "linux");

/// Errors in a turn.
#[cfg(target_os = "linux")]
const ERRORS_AT_ONCE: u32 = 32;

/// Linux cuts a size beyond its limit without a word. Who may go beyond does, and others are told once which
/// setting that is: bursts that find no room are lost, and taken for a sign of a full path.
#[cfg(target_os = "linux")]
fn demand_buffers(socket: &UdpSocket, wanted: usize) {
    use nix::sys::socket::{getsockopt, setsockopt, sockopt};
    static TOLD: AtomicBool = AtomicBool::new(false);
    // Linux counts what it needs besides, as much again (socket(7)).
    let is_cut = |size: nix::Result<usize>| size.is_ok_and(|size| size / 2 < wanted);
    if is_cut(getsockopt(socket, sockopt::RcvBuf)) {
        let _ = setsockopt(socket, sockopt::RcvBufForce, &wanted);
    }
    if is_cut(getsockopt(socket, sockopt::SndBuf)) {
        let _ = setsockopt(socket, sockopt::SndBufForce, &wanted);
    }
    let sizes = [
        ("net.core.rmem_max", getsockopt(socket, sockopt::RcvBuf)),
        ("net.core.wmem_max", getsockopt(socket, sockopt::SndBuf)),
    ];
    for (setting, size) in sizes {
        if is_cut(size) && !TOLD.swap(true, Ordering::Relaxed) {
            let bytes = size.unwrap_or_default() / 2;
            tracing::info!(
                bytes,
                wanted,
                "a socket's buffer is small, so that bursts may be lost; `sysctl -w {setting}={wanted}` gives it room"
            );
        }
    }
}

#[cfg(test)]
#[cfg(all(target_os = "linux", feature = "tokio"))]
mod tests {
    use super::*;
    use crate::pool::ReceivePool;
    use crate::tokio_runtime::TokioWatch;
    use std::future::poll_fn;

    type Socket = SystemSocket<TokioWatch>;

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

    /// socket(7): the limit is for those who may not go beyond it, and what the system tells is twice that.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn buffers_are_as_large_as_may_be() {
        use nix::sys::socket::{getsockopt, sockopt};
        let config = SocketConfig { buffer: 3 << 20, ..SocketConfig::default() };
        let socket =
            Socket::new(TokioWatch::new(config.bind(([127, 0, 0, 1], 0).into()).unwrap()).unwrap(), &config);
        let socket = socket.unwrap();
        let limit = |name: &str| {
            let text = std::fs::read_to_string(format!("/proc/sys/net/core/{name}")).unwrap();
            text.trim().parse::<usize>().unwrap().min(3 << 20)
        };
        // CAP_NET_ADMIN is bit 12 of what a process may do.
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let may = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
        let is_free = u64::from_str_radix(may.trim(), 16).unwrap() >> 12 & 1 == 1;
        let expected = |name| if is_free { 3 << 20 } else { limit(name) };
        let sizes = [
            getsockopt(socket.incoming.socket(), sockopt::RcvBuf).unwrap(),
            getsockopt(socket.incoming.socket(), sockopt::SndBuf).unwrap(),
        ];
        assert_eq!(sizes, ["rmem_max", "wmem_max"].map(|name| 2 * expected(name)));
    }

    /// What comes, one mark and first byte for each datagram, until there were `n`.
    async fn marks(socket: &Socket, n: usize) -> Vec<(Ecn, u8)> {
        let mut buffers = ReceiveBuffers::new(&mut ReceivePool::default());
        let mut seen = Vec::new();
        while seen.len() < n {
            let wait = poll_fn(|cx| socket.poll_recv(cx, &mut buffers, true));
            let limit = std::time::Duration::from_secs(10);
            let received = tokio::time::timeout(limit, wait).await.expect("in time").unwrap();
            for (buffer, meta) in buffers.filled(received.buffers) {
                seen.extend(buffer[..meta.len].chunks(meta.stride).map(|segment| (meta.ecn, segment[0])));
            }
        }
        seen
    }

    fn bind() -> Socket {
        let config = SocketConfig::default();
        Socket::new(TokioWatch::new(config.bind(([0, 0, 0, 0], 0).into()).unwrap()).unwrap(), &config)
            .unwrap()
    }

    fn to(socket: &Socket) -> AddressPair {
        AddressPair::to(([127, 0, 0, 1], socket.local_addr().port()).into())
    }

    /// Everybody can send a datagram that says it is from port 0.
    #[tokio::test]
    async fn who_cannot_be_answered_takes_nothing_from_others() {
        let (ours, theirs) = (bind(), bind());
        let before = ours.max_segments();
        assert!(before > 1, "Linux has offload");
        let nowhere = AddressPair::to(([127, 0, 0, 1], 0).into());
        // TEST-NET-1 (RFC 5737) is nobody's, as is an address that this machine had a moment ago.
        let from_nobody = AddressPair { local: Some([192, 0, 2, 1].into()), ..to(&theirs) };
        for path in [nowhere, from_nobody] {
            ours.send_response(&path, b"nothing").unwrap_err();
            for several in [1, 3] {
                let unsent = send(&ours, &batch(path, Ecn::Ect0, several)).await.unwrap_err();
                assert_eq!(unsent.left, 0, "{path:?}");
            }
            assert_eq!(ours.max_segments(), before, "{path:?}");
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
        assert_eq!(ours.max_segments(), 1, "it is not tried again");
    }

    /// What the system said when it was refused, for whom, is no reason to send one by one from here on.
    #[tokio::test]
    async fn of_a_refused_batch_leaves_what_can() {
        use nix::errno::Errno;

        let (ours, theirs) = (bind(), bind());
        let before = ours.max_segments();
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
            assert!(ours.send_response(&mixed.path, b"nothing").is_err());
            // By the time that they are tried one by one, whatever it was is over.
            ours.hitch.says.store(0, Ordering::Relaxed);
            ours.hitch.says_to_several.store(errno as i32, Ordering::Relaxed);
            send(&ours, &mixed).await.unwrap();
            assert_eq!(marks(&theirs, 3).await.len(), 3);
            ours.hitch.says_to_several.store(0, Ordering::Relaxed);
        }
        assert_eq!(ours.max_segments(), before);
    }

    /// The system says no twice, but that there is room.
    #[tokio::test]
    async fn room_is_watched_for_while_there_is_none() {
        let ours = bind();
        let refusals = std::cell::Cell::new(2);
        let send = |_: &UdpSocket| match refusals.get() {
            0 => Ok(()),
            n => {
                refusals.set(n - 1);
                Err(io::ErrorKind::WouldBlock.into())
            }
        };
        let is_watched = || ours.room.lock().unwrap().is_some();
        assert!(!is_watched());
        let first = poll_fn(|cx| Poll::Ready(ours.poll_room(cx, send).is_pending())).await;
        assert!(first && is_watched());
        ours.sent_all();
        assert!(!is_watched());
        refusals.set(1);
        let wait = poll_fn(|cx| ours.poll_room(cx, send));
        tokio::time::timeout(std::time::Duration::from_secs(10), wait).await.expect("in time").unwrap();
        assert!(is_watched() && refusals.get() == 0);
    }

    #[tokio::test]
    async fn errors_that_a_turn_has_no_time_for_are_told_in_the_next() {
        let ours = bind();
        ours.hear_errors(true).unwrap();
        let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        for _ in 0..40 {
            ours.send_response(&AddressPair::to(closed), b"hello").unwrap();
        }
        let mut turns = Vec::new();
        let all = poll_fn(|cx| {
            let mut told = 0;
            ours.poll_errors(cx, &mut |back| {
                assert_eq!((back.remote, back.quoted), (closed, &b"hello"[..]));
                told += 1;
            });
            turns.push(told);
            if turns.iter().sum::<u32>() == 40 { Poll::Ready(()) } else { Poll::Pending }
        });
        tokio::time::timeout(std::time::Duration::from_secs(10), all).await.expect("in time");
        assert!(turns.iter().all(|told| *told <= ERRORS_AT_ONCE), "{turns:?}");
    }
}
