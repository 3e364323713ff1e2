//! A path that loses datagrams: each of so many, in both directions, between one client and a server.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// It stops when it is dropped.
pub(crate) struct LossyRelay {
    address: SocketAddr,
    state: Arc<RelayState>,
    threads: Vec<JoinHandle<()>>,
}

struct RelayState {
    /// The client, as soon as it is known.
    client: Mutex<Option<SocketAddr>>,
    each: u64,
    lost: AtomicU64,
    stopped: AtomicBool,
}

impl LossyRelay {
    /// Loses every datagram whose number in its direction is a multiple of `each`.
    pub(crate) fn start(server: SocketAddr, each: u64) -> Self {
        let [front, back] = [(); 2].map(|()| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            // Often enough to be stopped.
            socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            Arc::new(socket)
        });
        back.connect(server).unwrap();
        let state = Arc::new(RelayState {
            client: Mutex::new(None),
            each,
            lost: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        });
        let address = front.local_addr().unwrap();
        let up = {
            let (state, front, back) = (state.clone(), front.clone(), back.clone());
            std::thread::spawn(move || {
                state.carry(&front, |datagram, from| {
                    *state.client.lock().unwrap() = Some(from);
                    // What the system refuses is lost, too.
                    let _ = back.send(datagram);
                });
            })
        };
        let down = {
            let state = state.clone();
            std::thread::spawn(move || {
                state.carry(&back, |datagram, _| {
                    let client = *state.client.lock().unwrap();
                    let _ = client.map(|client| front.send_to(datagram, client));
                });
            })
        };
        Self { address, state, threads: vec![up, down] }
    }

    /// Where the client sends to.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many datagrams it has lost.
    pub(crate) fn lost(&self) -> u64 {
        self.state.lost.load(Ordering::Relaxed)
    }
}

impl RelayState {
    fn carry(&self, from: &UdpSocket, mut deliver: impl FnMut(&[u8], SocketAddr)) {
        let (mut buffer, mut count) = ([0; 2048], 0_u64);
        while !self.stopped.load(Ordering::Relaxed) {
            // An error is that of a timeout, or of a port that is closed by now.
            let Ok((len, sender)) = from.recv_from(&mut buffer) else { continue };
            count += 1;
            if count % self.each == 0 {
                self.lost.fetch_add(1, Ordering::Relaxed);
            } else {
                deliver(&buffer[..len], sender);
            }
        }
    }
}

impl Drop for LossyRelay {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // One that panicked has told so.
            let _ = thread.join();
        }
    }
}
