//! A path between a client and a server: what arrives at one of its two sockets leaves by the other as a link of
//! the simulator decides, in real time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};

use anyhow::Result;
use quickset_base::{Ecn, Time};
use quickset_sim::{Link, LinkSpec};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// How a path is; the same both ways.
#[derive(Clone, Debug, Default)]
pub(crate) struct Road {
    pub(crate) link: LinkSpec,
    /// The first so many packets of each direction meet this link instead.
    pub(crate) start: Option<(u64, LinkSpec)>,
}

/// What the relay saw go by.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) retries: u64,
    pub(crate) version_negotiations: u64,
    /// Datagrams lost and damaged by the links.
    pub(crate) lost: u64,
    pub(crate) corrupted: u64,
    /// Bytes passed on to the server before a Handshake packet of the client was among them: until then the
    /// server may not send more than three times as many (RFC 9000 §8.1).
    pub(crate) unproven: u64,
    /// What the server sent meanwhile.
    pub(crate) answered: u64,
    proven: bool,
    /// The server sent more than it may.
    pub(crate) amplified: bool,
}

/// A running relay for one client. It ends when dropped.
pub(crate) struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    state: Mutex<State>,
}

struct State {
    server: SocketAddr,
    cut: bool,
    seen: Seen,
}

impl Relay {
    /// A relay in front of `server`.
    pub(crate) fn start(server: SocketAddr, road: &Road, seed: u64) -> Result<Self> {
        let (front, back) = (socket()?, socket()?);
        let address = front.local_addr()?;
        let state = State { server, cut: false, seen: Seen::default() };
        let shared = Arc::new(Shared { state: Mutex::new(state) });
        let lanes = [0, 1].map(|direction| Lane::new(road, seed, direction));
        let runner = Runner {
            sockets: [front, back],
            lanes,
            client: None,
            waiting: BinaryHeap::new(),
            shared: shared.clone(),
            epoch: Instant::now(),
            count: 0,
        };
        Ok(Self { address, shared, task: tokio::spawn(runner.run()) })
    }

    /// Where clients find the server.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on nothing passes.
    pub(crate) fn cut(&self) {
        self.shared.lock().cut = true;
    }

    /// From now on datagrams of the client go to another server.
    pub(crate) fn redirect(&self, server: SocketAddr) {
        self.shared.lock().server = server;
    }

    pub(crate) fn seen(&self) -> Seen {
        self.shared.lock().seen
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }
}

/// Towards the server, and towards the client: also the index of the socket that a direction comes in by.
const UP: usize = 0;
const DOWN: usize = 1;

/// One direction.
struct Lane {
    link: Link,
    left: u64,
    after: LinkSpec,
}

impl Lane {
    fn new(road: &Road, seed: u64, direction: u64) -> Self {
        let (left, first) = road.start.clone().unwrap_or((0, road.link.clone()));
        Self { link: Link::new(first, seed, direction), left, after: road.link.clone() }
    }

    fn link(&mut self) -> &mut Link {
        if self.left == 0 {
            self.link.change(self.after.clone());
        }
        self.left = self.left.wrapping_sub(1);
        &mut self.link
    }
}

type Parcel = Reverse<(Time, u64, usize, Vec<u8>)>;

struct Runner {
    sockets: [UdpSocket; 2],
    lanes: [Lane; 2],
    client: Option<SocketAddr>,
    waiting: BinaryHeap<Parcel>,
    shared: Arc<Shared>,
    epoch: Instant,
    count: u64,
}

impl Runner {
    async fn run(mut self) {
        loop {
            let due = self.waiting.peek().map(|Reverse((at, ..))| self.epoch + at.since(Time::ZERO));
            let timer = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = self.sockets[UP].readable() => self.take(UP),
                _ = self.sockets[DOWN].readable() => self.take(DOWN),
                () = timer => {}
            }
            self.pass_on().await;
        }
    }

    /// Takes in what waits at a socket, in turns with the other.
    fn take(&mut self, direction: usize) {
        let mut buffer = [0; 2048];
        for _ in 0..64 {
            let Ok((len, from)) = self.sockets[direction].try_recv_from(&mut buffer) else { return };
            let datagram = &buffer[..len];
            if direction == UP {
                self.client = Some(from);
            }
            let now = Time::ZERO + self.epoch.elapsed();
            let link = self.lanes[direction].link();
            // Only queues that decide at their head make a packet wait for its fate, and no case has one.
            let Some(fate) = link.send(now, len, Ecn::NotEct).known() else { continue };
            let mut state = self.shared.lock();
            if direction == DOWN {
                state.seen.answer(datagram);
            }
            let mut any = false;
            for delivery in fate.deliveries() {
                any = true;
                let mut bytes = datagram.to_vec();
                if let Some(damage) = delivery.damage {
                    damage.apply(&mut bytes);
                    state.seen.corrupted += 1;
                }
                self.waiting.push(Reverse((delivery.at, self.count, direction, bytes)));
                self.count += 1;
            }
            state.seen.lost += u64::from(!any);
        }
    }

    /// Sends what is due.
    async fn pass_on(&mut self) {
        let now = Time::ZERO + self.epoch.elapsed();
        while self.waiting.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            let Some(Reverse((_, _, direction, bytes))) = self.waiting.pop() else { return };
            let to = {
                let mut state = self.shared.lock();
                if state.cut {
                    continue;
                }
                if direction == UP {
                    state.seen.ask(&bytes);
                    Some(state.server)
                } else {
                    self.client
                }
            };
            if let Some(to) = to {
                // What the system does not take is lost, as on any path.
                let _ = self.sockets[1 - direction].send_to(&bytes, to).await;
            }
        }
    }
}

impl Seen {
    fn ask(&mut self, datagram: &[u8]) {
        if !self.proven {
            self.unproven += datagram.len() as u64;
            self.proven = holds_handshake(datagram);
        }
    }

    fn answer(&mut self, datagram: &[u8]) {
        if let [first @ 0x80..=0xff, version @ ..] = datagram {
            let negotiates = version.starts_with(&[0; 4]);
            self.version_negotiations += u64::from(negotiates);
            // RFC 9000 §17.2.5: Retry is type 3.
            self.retries += u64::from(!negotiates && first >> 4 & 3 == 3);
        }
        if !self.proven {
            self.answered += datagram.len() as u64;
            self.amplified |= self.answered > 3 * self.unproven;
        }
    }
}

/// Whether one of the packets that share a datagram is a Handshake packet. Only the plain parts of the headers
/// are read (RFC 9000 §17.2); an independent reader, since it judges ours.
fn holds_handshake(mut datagram: &[u8]) -> bool {
    loop {
        let Some((kind, rest)) = long_packet(datagram) else { return false };
        if kind == 2 {
            return true;
        }
        datagram = rest;
    }
}

/// The type of the long-header packet in front, and what lies behind it.
fn long_packet(datagram: &[u8]) -> Option<(u8, &[u8])> {
    let (first, rest) = datagram.split_first()?;
    if first & 0x80 == 0 {
        return None;
    }
    let kind = first >> 4 & 3;
    let (_version, mut rest) = rest.split_at_checked(4)?;
    for _id in 0..2 {
        let (len, after) = rest.split_first()?;
        rest = after.get(usize::from(*len)..)?;
    }
    if kind == 0 {
        let (token, after) = varint(rest)?;
        rest = after.get(token..)?;
    }
    let (len, after) = varint(rest)?;
    Some((kind, after.get(len..)?))
}

/// RFC 9000 §16.
fn varint(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let len = 1 << (bytes.first()? >> 6);
    let (value, rest) = bytes.split_at_checked(len)?;
    let value = value.iter().fold(0_u64, |v, b| v << 8 | u64::from(*b)) & (u64::MAX >> (66 - 8 * len));
    Some((usize::try_from(value).ok()?, rest))
}

fn socket() -> Result<UdpSocket> {
    let socket =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, Some(socket2::Protocol::UDP))?;
    // Bursts of both stacks fit; losses are for the link to decide.
    socket.set_recv_buffer_size(4 << 20)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    Ok(UdpSocket::from_std(socket.into())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flags, version, two ids of 8 bytes, then `tail`.
    fn long(kind: u8, tail: &[u8]) -> Vec<u8> {
        [&[0xc0 | kind << 4, 0, 0, 0, 1, 8][..], &[1; 8], &[8], &[2; 8], tail].concat()
    }

    #[test]
    fn a_handshake_packet_is_found_behind_an_initial_one() {
        let initial = long(0, &[2, 9, 9, 0x40, 3, 7, 7, 7]);
        let handshake = long(2, &[1, 7]);
        assert!(!holds_handshake(&initial));
        assert!(holds_handshake(&[initial.clone(), handshake.clone()].concat()));
        assert!(holds_handshake(&handshake));
        assert!(!holds_handshake(&[&initial[..], &[0x40; 30]].concat()));
        assert!(!holds_handshake(&handshake[..20]));
    }

    #[test]
    fn varints_as_in_the_appendix() {
        // RFC 9000 §A.1.
        assert_eq!(varint(&[0x25, 1]), Some((37, &[1][..])));
        assert_eq!(varint(&[0x7b, 0xbd]), Some((15293, &[][..])));
        assert_eq!(varint(&[0x9d, 0x7f, 0x3e, 0x7d]), Some((494_878_333, &[][..])));
        assert_eq!(varint(&[0x7b]), None);
    }

    #[test]
    fn three_times_is_the_limit() {
        let mut seen = Seen::default();
        seen.ask(&[0; 1200]);
        (0..3).for_each(|_| seen.answer(&[0; 1200]));
        assert!(!seen.amplified);
        seen.answer(&[0; 1]);
        assert!(seen.amplified);
    }
}
