//! Several drivers on one port, so that as many cores work: which of them a datagram is for.
//!
//! Each shard has a socket of its own on the port (SO_REUSEPORT), a router, a driver and connections. What
//! they have in common is the [`Lobby`]: who comes and goes. Connection ids say which shard a connection is
//! on ([`ShardIds`]). Where the system can be told so ([`steer`](crate::steer)), it goes by that, too; where
//! it goes by addresses, or by something else for a moment, shards hand datagrams over to one another.
//!
//! No shard waits for another, and none takes a lock of another's while it has its own router: what may be
//! another's is put aside until then.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use quickset_base::{Datagram, Rng, Seed};
use quickset_quic::{self as quic, ConnectionId, ConnectionIds};

use crate::line::ClosingWords;
use crate::lobby::Lobby;
use crate::shared::ConnectionLine;
use crate::steer::{LONG_ID, SHORT_ID};

/// What the shards of an endpoint share. An endpoint of one socket is one shard.
pub(crate) struct ShardGroup {
    count: usize,
    /// The system gives each what is for it.
    is_steered: bool,
    lobby: Mutex<Lobby>,
    /// Once all are there.
    doors: OnceLock<Box<[ShardDoor]>>,
    handed: AtomicU64,
    lost: AtomicU64,
}

/// What the others have of a shard.
pub(crate) struct ShardDoor {
    pub(crate) line: Weak<ConnectionLine>,
    pub(crate) router: Weak<Mutex<quic::Endpoint>>,
}

/// Where a datagram belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShardOf {
    Here,
    There(usize),
    /// There, if that shard knows its connection id, and else here.
    Perhaps(usize),
}

impl ShardGroup {
    pub(crate) fn new(count: usize, is_steered: bool) -> Self {
        Self {
            count,
            is_steered,
            lobby: Mutex::new(Lobby::new(count)),
            doors: OnceLock::new(),
            handed: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        }
    }

    pub(crate) fn lobby(&self) -> MutexGuard<'_, Lobby> {
        self.lobby.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All shards are there.
    pub(crate) fn assemble(&self, doors: impl Iterator<Item = ShardDoor>) {
        // Nobody does so twice.
        let _ = self.doors.set(doors.collect());
    }

    /// Asks all drivers to close their connections, or to look whether they are still needed.
    pub(crate) fn wake_drivers(&self, farewell: Option<&ClosingWords>) {
        for line in self.doors.get().into_iter().flatten().filter_map(|door| door.line.upgrade()) {
            line.wake_driver(farewell.cloned());
        }
    }

    /// Where a datagram belongs that came to the socket of `own`.
    #[inline]
    pub(crate) fn shard_of(&self, own: usize, router: &quic::Endpoint, datagram: &[u8]) -> ShardOf {
        if self.count == 1 { ShardOf::Here } else { self.by_id(own, router, datagram) }
    }

    fn by_id(&self, own: usize, router: &quic::Endpoint, datagram: &[u8]) -> ShardOf {
        let Some(DatagramTarget { id, is_long }) = DatagramTarget::of(datagram) else { return ShardOf::Here };
        let to = shard_in(id, self.count);
        if to == own {
            ShardOf::Here
        } else if !is_long || self.is_steered {
            ShardOf::There(to)
        } else if router.knows(id) {
            ShardOf::Here
        } else {
            // A client's first id says nothing: it is taken where the system put it. One of a handshake under
            // way may say where that is.
            ShardOf::Perhaps(to)
        }
    }

    /// Whether a shard has the connection that a datagram with a long header names, or may have it.
    pub(crate) fn knows(&self, shard: usize, datagram: &[u8]) -> bool {
        let target = DatagramTarget::of(datagram);
        let router = self.doors.get().and_then(|doors| doors.get(shard)?.router.upgrade());
        // Waited for, since an answer that is a guess would let the parts of one hello go to two shards. A
        // turn of a driver is short, and one that never comes holds no lock.
        target.zip(router).is_some_and(|(target, router)| {
            router.lock().unwrap_or_else(PoisonError::into_inner).knows(target.id)
        })
    }

    /// Hands datagrams over to another shard. Those that it has no room for are lost, as a socket's are. Of
    /// one that has ended they stay.
    pub(crate) fn hand_over(&self, to: usize, datagrams: &mut Vec<Datagram>) {
        let given = datagrams.len();
        let line = self.doors.get().and_then(|doors| doors.get(to)?.line.upgrade());
        let Some(taken) = line.and_then(|line| line.hand_over(datagrams)) else { return };
        datagrams.clear();
        self.handed.fetch_add(taken as u64, Ordering::Relaxed);
        self.lost.fetch_add((given - taken) as u64, Ordering::Relaxed);
    }

    /// Datagrams that were handed over, and that were lost then.
    pub(crate) fn handed(&self) -> [u64; 2] {
        [&self.handed, &self.lost].map(|count| count.load(Ordering::Relaxed))
    }
}

/// The connection id that a datagram is sent to, as far as it says which shard.
struct DatagramTarget<'a> {
    id: &'a [u8],
    is_long: bool,
}

impl<'a> DatagramTarget<'a> {
    /// `None` for what is none of QUIC's. RFC 8999 §5.1, §5.2: headers of all versions.
    fn of(datagram: &'a [u8]) -> Option<Self> {
        let is_long = datagram.first()? & 0x80 != 0;
        let id = if is_long {
            let len = usize::from(*datagram.get(LONG_ID - 1)?);
            datagram.get(LONG_ID..LONG_ID + len)?
        } else {
            datagram.get(SHORT_ID..SHORT_ID + ID_LEN)?
        };
        (id.len() >= NUMBER).then_some(Self { id, is_long })
    }
}

/// Connection ids that say which shard.
///
/// The first two bytes are a number, and that modulo the number of shards is the shard: so every first id
/// that a client draws names one, too, and all as often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardIds {
    pub(crate) shard: usize,
    pub(crate) count: usize,
}

impl ConnectionIds for ShardIds {
    fn id_len(&self) -> usize {
        ID_LEN
    }

    fn draw(&self, rng: &mut Rng) -> ConnectionId {
        let mut id = [0; ID_LEN];
        rng.fill(&mut id);
        let drawn = usize::from(u16::from_be_bytes([id[0], id[1]]));
        let mut number = drawn - drawn % self.count + self.shard;
        if number > usize::from(u16::MAX) {
            number -= self.count;
        }
        let number = u16::try_from(number).expect("a multiple of the count, and less than that more");
        id[..NUMBER].copy_from_slice(&number.to_be_bytes());
        ConnectionId::new(&id).expect("at most 20 bytes")
    }
}

/// Connection ids that say something else, drawn until one says by chance which shard, too.
#[derive(Clone, Debug)]
pub(crate) struct PickedIds {
    pub(crate) ids: Arc<dyn ConnectionIds>,
    pub(crate) shard: usize,
    pub(crate) count: usize,
}

impl PickedIds {
    /// Tries whether there are such ids at all.
    ///
    /// # Errors
    /// What stands in the first two bytes of all ids leaves out some shards: the server's id in clear, for
    /// example.
    pub(crate) fn check(&self) -> io::Result<()> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(io::Error::other)?;
        let found = (self.ids.id_len() >= NUMBER).then(|| self.pick(&mut Rng::new(Seed(seed))));
        match found.flatten() {
            Some(_) => Ok(()),
            None => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the first two bytes of these connection ids name not every socket: have one, or hide the server's id",
            )),
        }
    }

    fn pick(&self, rng: &mut Rng) -> Option<ConnectionId> {
        let is_of = |id: &ConnectionId| shard_in(id, self.count) == self.shard;
        (0..DRAWS * self.count).map(|_| self.ids.draw(rng)).find(is_of)
    }
}

impl ConnectionIds for PickedIds {
    fn id_len(&self) -> usize {
        self.ids.id_len()
    }

    fn draw(&self, rng: &mut Rng) -> ConnectionId {
        // What names another shard is handed over there and lost: none has been drawn in e^64 endpoints.
        self.pick(rng).unwrap_or_else(|| self.ids.draw(rng))
    }

    fn is_ours(&self, id: &ConnectionId) -> bool {
        // Of whichever shard: they have one key, and each answers for those that have ended.
        self.ids.is_ours(id)
    }
}

/// The shard that an id of two bytes or more names.
fn shard_in(id: &[u8], count: usize) -> usize {
    usize::from(u16::from_be_bytes([id[0], id[1]])) % count
}

/// The length of ids, and of the number in them.
const ID_LEN: usize = 8;
const NUMBER: usize = 2;

/// Ids that are drawn for each shard before it is given up.
const DRAWS: usize = 64;

#[cfg(test)]
mod tests;
