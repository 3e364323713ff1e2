use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use quickset_base::Ecn;

use super::courier::{Courier, Exit};
use super::{socket, spawn};

/// The client side of a relay: reads what clients send, and gives each of them a socket of its own towards
/// the server.
#[derive(Debug)]
pub(crate) struct RelayClients {
    front: Arc<UdpSocket>,
    server: SocketAddr,
    courier: Arc<Courier>,
    /// How often clients have got other sockets.
    bindings: Arc<AtomicU64>,
    binding: u64,
    back: BTreeMap<SocketAddr, Arc<UdpSocket>>,
    readers: Vec<JoinHandle<()>>,
}

impl RelayClients {
    pub(crate) fn new(
        front: Arc<UdpSocket>,
        server: SocketAddr,
        courier: Arc<Courier>,
        bindings: Arc<AtomicU64>,
    ) -> Self {
        let (back, readers) = (BTreeMap::new(), Vec::new());
        Self { front, server, courier, bindings, binding: 0, back, readers }
    }

    /// Reads until the relay is stopped.
    pub(crate) fn run(mut self) {
        let mut buffer = vec![0; MAX_DATAGRAM];
        while !self.courier.is_stopped() {
            if let Ok((len, client)) = self.front.recv_from(&mut buffer) {
                if let Some(back) = self.back_of(client) {
                    self.courier.take(0, &buffer[..len], Ecn::NotEct, &Exit::Socket(back, None));
                }
            }
        }
        for reader in self.readers {
            let _ = reader.join();
        }
    }

    /// The client's socket towards the server; none for a client too many, or when the system has no more.
    fn back_of(&mut self, client: SocketAddr) -> Option<Arc<UdpSocket>> {
        let binding = self.bindings.load(Ordering::Relaxed);
        if std::mem::replace(&mut self.binding, binding) != binding {
            self.back.clear();
            self.readers.retain(|reader| !reader.is_finished());
        }
        if let Some(back) = self.back.get(&client) {
            return Some(back.clone());
        }
        if self.back.len() == MAX_CLIENTS {
            return None;
        }
        let back = self.admit(client).ok()?;
        self.back.insert(client, back.clone());
        Some(back)
    }

    fn admit(&mut self, client: SocketAddr) -> io::Result<Arc<UdpSocket>> {
        let back = Arc::new(socket(self.front.local_addr()?.ip())?);
        back.connect(self.server)?;
        self.courier.listen_on(back.local_addr()?);
        let (from, front, courier) = (back.clone(), self.front.clone(), self.courier.clone());
        let (bindings, binding) = (self.bindings.clone(), self.binding);
        let reader = spawn("relay-server", move || {
            let mut buffer = vec![0; MAX_DATAGRAM];
            let exit = Exit::Socket(front, Some(client));
            let is_current = || bindings.load(Ordering::Relaxed) == binding;
            while !courier.is_stopped() && is_current() {
                // An error here is a time-out, or the news that nobody listens at the server's port.
                let received = from.recv(&mut buffer);
                // It may have waited for long.
                if let (Ok(len), true) = (received, is_current()) {
                    courier.take(1, &buffer[..len], Ecn::NotEct, &exit);
                }
            }
        })?;
        self.readers.push(reader);
        Ok(back)
    }
}

/// Each costs a socket and a thread.
const MAX_CLIENTS: usize = 256;
const MAX_DATAGRAM: usize = 65_536;
