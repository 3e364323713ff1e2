//! A small balancer: it knows how ids are made, and nothing of connections.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::net::UdpSocket;

use crate::layout;

/// Passes datagrams on between clients and two servers, to a server by the id that it made, and by the
/// client's address where there is none.
pub(crate) struct Balancer {
    pub(crate) address: SocketAddr,
    seen: Arc<Seen>,
}

/// What went through it.
#[derive(Default)]
struct Seen {
    /// Ids say nothing to it.
    is_blind: bool,
    /// It sends everything to the other server.
    errs: AtomicBool,
    /// Ids of short headers, which servers made.
    ids: Mutex<BTreeSet<Vec<u8>>>,
    last_short: Mutex<Option<Vec<u8>>>,
}

/// Where a client goes by its address alone.
pub(crate) fn by_address(client: SocketAddr) -> usize {
    let mut hasher = DefaultHasher::new();
    client.hash(&mut hasher);
    usize::from(hasher.finish() % 2 == 1)
}

/// The id that a datagram is for. RFC 8999 §5.1, §5.2: in a short header nothing tells where it ends.
fn id_of(datagram: &[u8]) -> Option<&[u8]> {
    if datagram.first()? & 0x80 == 0 {
        datagram.get(1..)
    } else {
        datagram.get(6..6 + usize::from(*datagram.get(5)?))
    }
}

/// The server that an id names, if it is one of ours: those that clients draw may name any.
fn by_id(datagram: &[u8]) -> Option<usize> {
    let server = layout().server_id(id_of(datagram)?)?;
    (server[0] < 2).then(|| usize::from(server[0]))
}

impl Balancer {
    pub(crate) async fn before(servers: [SocketAddr; 2]) -> Self {
        Self::start(servers, Seen::default()).await
    }

    /// One that goes by addresses alone.
    pub(crate) async fn blind(servers: [SocketAddr; 2]) -> Self {
        Self::start(servers, Seen { is_blind: true, ..Seen::default() }).await
    }

    async fn start(servers: [SocketAddr; 2], seen: Seen) -> Self {
        let front = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        let (address, seen) = (front.local_addr().unwrap(), Arc::new(seen));
        let watched = seen.clone();
        tokio::spawn(async move {
            let mut ways: HashMap<(SocketAddr, usize), Arc<UdpSocket>> = HashMap::new();
            let mut buffer = vec![0; 65_536];
            while let Ok((len, client)) = front.recv_from(&mut buffer).await {
                let datagram = &buffer[..len];
                watched.note(datagram);
                let named = by_id(datagram).filter(|_| !watched.is_blind);
                let right = named.unwrap_or_else(|| by_address(client));
                let to = right ^ usize::from(watched.errs.load(Ordering::SeqCst));
                let back = match ways.entry((client, to)) {
                    Entry::Occupied(way) => way.into_mut(),
                    Entry::Vacant(way) => {
                        let back = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
                        tokio::spawn(answer(front.clone(), back.clone(), client));
                        way.insert(back)
                    }
                };
                let _ = back.send_to(datagram, servers[to]).await;
            }
        });
        Self { address, seen }
    }

    /// From now on everything goes to the wrong server, or to the right one again.
    pub(crate) fn errs(&self, errs: bool) {
        self.seen.errs.store(errs, Ordering::SeqCst);
    }

    /// The ids of servers' that clients used behind their handshakes.
    pub(crate) fn ids(&self) -> Vec<Vec<u8>> {
        self.seen.ids.lock().unwrap().iter().cloned().collect()
    }

    /// The last packet with a short header that a client sent.
    pub(crate) fn last_short(&self) -> Option<Vec<u8>> {
        self.seen.last_short.lock().unwrap().clone()
    }
}

impl Seen {
    fn note(&self, datagram: &[u8]) {
        let is_short = datagram.first().is_some_and(|first| first & 0x80 == 0);
        if let Some(id) = id_of(datagram).filter(|id| is_short && id.len() >= layout().id_len()) {
            self.ids.lock().unwrap().insert(id[..layout().id_len()].to_vec());
            *self.last_short.lock().unwrap() = Some(datagram.to_vec());
        }
    }
}

/// Passes what a server says on to the client.
async fn answer(front: Arc<UdpSocket>, back: Arc<UdpSocket>, client: SocketAddr) {
    let mut buffer = vec![0; 65_536];
    while let Ok((len, _)) = back.recv_from(&mut buffer).await {
        let _ = front.send_to(&buffer[..len], client).await;
    }
}
