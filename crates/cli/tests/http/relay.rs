//! A network between a client and a server: it loses datagrams, and changes its port as a router may.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// What it does with what goes to the client.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    /// Of full datagrams each such is lost. 0: none.
    pub(crate) lose_each: u64,
    /// Behind so many datagrams the server sees the client at another port, and again behind as many. 0:
    /// never.
    pub(crate) move_each: u64,
}

/// For one client at a time. Ends when it is dropped.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    weather: Weather,
    inner: UdpSocket,
    /// Replaced when the port changes.
    outer: Mutex<Arc<UdpSocket>>,
    client: Mutex<Option<SocketAddr>>,
    lost: AtomicU64,
    moved: AtomicU64,
    dark: AtomicBool,
    over: AtomicBool,
}

impl Relay {
    pub(crate) fn new(server: SocketAddr, weather: Weather) -> Self {
        let shared = Arc::new(Shared {
            weather,
            inner: socket(),
            outer: Mutex::new(Arc::new(towards(server))),
            client: Mutex::default(),
            lost: AtomicU64::default(),
            moved: AtomicU64::default(),
            dark: AtomicBool::default(),
            over: AtomicBool::default(),
        });
        let address = shared.inner.local_addr().unwrap();
        let (up, down) = (shared.clone(), shared.clone());
        let threads =
            vec![std::thread::spawn(move || up.up()), std::thread::spawn(move || down.down(server))];
        Self { address, shared, threads }
    }

    /// From now on nothing goes through, either way; or all again.
    pub(crate) fn set_dark(&self, dark: bool) {
        self.shared.dark.store(dark, Ordering::Relaxed);
    }

    /// Datagrams lost.
    pub(crate) fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }

    /// Changes of the port.
    pub(crate) fn moved(&self) -> u64 {
        self.shared.moved.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn up(&self) {
        let mut buffer = vec![0; 65536];
        while !self.over.load(Ordering::Relaxed) {
            if let Ok((n, from)) = self.inner.recv_from(&mut buffer) {
                if self.dark.load(Ordering::Relaxed) {
                    continue;
                }
                *self.client.lock().unwrap() = Some(from);
                let outer = self.outer.lock().unwrap().clone();
                let _ = outer.send(&buffer[..n]);
            }
        }
    }

    fn down(&self, server: SocketAddr) {
        let mut buffer = vec![0; 65536];
        let (mut full, mut all) = (0, 0);
        while !self.over.load(Ordering::Relaxed) {
            let outer = self.outer.lock().unwrap().clone();
            let Ok(n) = outer.recv(&mut buffer) else { continue };
            if self.dark.load(Ordering::Relaxed) {
                continue;
            }
            all += 1;
            if self.weather.move_each > 0 && all % self.weather.move_each == 0 {
                *self.outer.lock().unwrap() = Arc::new(towards(server));
                self.moved.fetch_add(1, Ordering::Relaxed);
            }
            full += u64::from(n > 1000);
            if n > 1000 && self.weather.lose_each > 0 && full % self.weather.lose_each == 0 {
                self.lost.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let client = *self.client.lock().unwrap();
            let _ = self.inner.send_to(&buffer[..n], client.unwrap());
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    socket
}

fn towards(server: SocketAddr) -> UdpSocket {
    let socket = socket();
    socket.connect(server).unwrap();
    socket
}
