use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;

use quickset_base::Ecn;

use super::courier::{Courier, Exit};
use super::{socket, spawn};

/// The client side of a relay: reads what clients send, and gives each of them a socket of its own towards
/// the server.
#[derive(Debug)]
pub(crate) struct Clients {
    front: Arc<UdpSocket>,
    server: SocketAddr,
    courier: Arc<Courier>,
    back: BTreeMap<SocketAddr, Arc<UdpSocket>>,
    readers: Vec<JoinHandle<()>>,
}

impl Clients {
    pub(crate) fn new(front: Arc<UdpSocket>, server: SocketAddr, courier: Arc<Courier>) -> Self {
        Self { front, server, courier, back: BTreeMap::new(), readers: Vec::new() }
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
        let reader = spawn("relay-server", move || {
            let mut buffer = vec![0; MAX_DATAGRAM];
            let exit = Exit::Socket(front, Some(client));
            while !courier.is_stopped() {
                // An error here is a time-out, or the news that nobody listens at the server's port.
                if let Ok(len) = from.recv(&mut buffer) {
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
