//! A link in real time: a UDP relay on the loopback interface that delays, queues and loses packets by the
//! simulator's own [`Link`].
//!
//! *In:* datagrams of clients to [`Relay::address`], and the server's answers. *Out:* the same datagrams,
//! each when and if the link delivers it. Direction 0 is up (client to server), 1 is down. All clients share
//! the link, as hosts behind one line do; the server sees each client as an address of its own.
//!
//! Invariants: no packet leaves before its time; which packets the loss model takes depends on (seed,
//! direction, ordinal) and nothing else, so that protocols compared under one seed meet the same losses. How
//! late packets leave is measured: [`Relay::lateness`]. ECN marks are not carried.

mod clients;
pub(crate) mod courier;
pub(crate) mod kernel;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use quickset_sim::{Link, LinkCounts, LinkSpec};

use clients::RelayClients;
use courier::Courier;
pub use courier::Lateness;

/// A running relay; it stops when dropped.
#[derive(Debug)]
pub struct Relay {
    addresses: Vec<SocketAddr>,
    courier: Arc<Courier>,
    bindings: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Relay {
    /// Begins to relay between a free port of the loopback interface and `server`, through a link that is
    /// `up` towards the server and `down` towards clients. Equal seeds lose equal packets.
    ///
    /// # Errors
    /// When a socket cannot be bound or a thread cannot be started.
    pub fn start(server: SocketAddr, up: LinkSpec, down: LinkSpec, seed: u64) -> io::Result<Self> {
        Self::shared(&[server], up, down, seed)
    }

    /// As [`start`](Self::start), towards several servers that share the link; [`addresses`](Self::addresses)
    /// has a port for each.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn shared(servers: &[SocketAddr], up: LinkSpec, down: LinkSpec, seed: u64) -> io::Result<Self> {
        let courier = Arc::new(Courier::new([Link::new(up, seed, 0), Link::new(down, seed, 1)]));
        let bindings = Arc::new(AtomicU64::new(0));
        let mut relay = Self {
            addresses: Vec::new(),
            courier: courier.clone(),
            bindings: bindings.clone(),
            threads: Vec::new(),
        };
        // From here on a failure drops the relay, and that ends the threads that run.
        for server in servers {
            let loopback: IpAddr =
                if server.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
            let front = Arc::new(socket(loopback)?);
            let address = front.local_addr()?;
            courier.listen_on(address);
            relay.addresses.push(address);
            let clients = RelayClients::new(front, *server, courier.clone(), bindings.clone());
            relay.threads.push(spawn("relay-clients", move || clients.run())?);
        }
        relay.threads.push(spawn("relay-courier", move || courier.run())?);
        Ok(relay)
    }

    /// Where clients send to.
    ///
    /// # Panics
    /// When the relay has no server.
    pub fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Where clients of each server send to.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Each client has another port towards its server from now on, as behind a NAT that has forgotten it.
    /// What comes to the old one is not taken any more.
    pub fn rebind(&self) {
        self.bindings.fetch_add(1, Ordering::Relaxed);
    }

    /// Changes the link for what is sent from now on. Which packets an equal loss model takes stays as it
    /// was.
    pub fn change(&self, up: &LinkSpec, down: &LinkSpec) {
        self.courier.change([up, down]);
    }

    /// What happened up and down.
    pub fn counts(&self) -> [LinkCounts; 2] {
        self.courier.counts()
    }

    /// Packets that the link has taken and that have not left yet, up and down.
    pub fn in_flight(&self) -> u64 {
        self.courier.waiting()
    }

    /// Packets handed on so far, up and down; what the system refused to send is not counted.
    pub fn forwarded(&self) -> [u64; 2] {
        self.courier.forwarded()
    }

    /// How much later than the model says packets left so far.
    pub fn lateness(&self) -> Lateness {
        self.courier.lateness()
    }

    /// Packets that the system dropped before the relay could read them, which the link model knows nothing
    /// of; `None` where the system does not tell. It tells on Linux.
    pub fn overruns(&self) -> Option<u64> {
        kernel::drops(&self.courier.ports())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.courier.stop();
        for thread in self.threads.drain(..) {
            // A thread that panicked has told so already.
            let _ = thread.join();
        }
    }
}

/// A socket with buffers for a few milliseconds of bursts, that looks up often enough to be stopped.
fn socket(address: IpAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(SocketAddr::new(address, 0))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let buffers = socket2::SockRef::from(&socket);
    // The system may grant less, which `overruns` will show.
    let _ = buffers.set_recv_buffer_size(BUFFER);
    let _ = buffers.set_send_buffer_size(BUFFER);
    Ok(socket)
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(run)
}

/// How long a reader waits before it looks whether the relay is stopped.
const PATIENCE: std::time::Duration = std::time::Duration::from_millis(50);
const BUFFER: usize = 4 << 20;

#[cfg(test)]
mod tests;
