//! The server, what it holds, and an honest client.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, atomic::AtomicBool};
use std::time::{Duration, Instant};

use quickset::h3::{self, Request};
use quickset::{ClientConfig, Endpoint, Trust};

/// A server process with a site of large files.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    peak: Arc<Peak>,
    _folder: tempfile::TempDir,
}

/// What a process holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holds {
    /// Memory of its own, in bytes.
    pub(crate) memory: u64,
    pub(crate) descriptors: usize,
}

#[derive(Debug, Default)]
struct Peak {
    memory: AtomicU64,
    descriptors: AtomicUsize,
    over: AtomicBool,
}

impl Server {
    pub(crate) fn start(words: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("honest"), vec![7; ANSWER]).unwrap();
        for n in 0..FILES {
            // Of nothing but holes: a large file that takes no room.
            let file = std::fs::File::create(folder.path().join(format!("large{n}"))).unwrap();
            file.set_len(1 << 30).unwrap();
        }
        let mut child = Command::new(env!("CARGO_BIN_EXE_quickset"))
            .args(["http", "serve"])
            .arg(folder.path())
            .args(["--listen", "127.0.0.1:0"])
            .args(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.strip_prefix("listening on ").and_then(|rest| rest.split(' ').next());
        let address = address.and_then(|address| address.parse().ok()).expect("where it listens");
        let peak = Arc::<Peak>::default();
        let (watched, id) = (peak.clone(), child.id());
        std::thread::spawn(move || {
            while !watched.over.load(Ordering::Relaxed) {
                if let Some(now) = look(id) {
                    watched.memory.fetch_max(now.memory, Ordering::Relaxed);
                    watched.descriptors.fetch_max(now.descriptors, Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        Self { child, address, peak, _folder: folder }
    }

    /// What it holds now.
    pub(crate) fn watch(&self) -> Holds {
        look(self.child.id()).expect("the server lives")
    }

    /// What it held at most so far.
    pub(crate) fn watch_peak(&self) -> Holds {
        let Peak { memory, descriptors, .. } = &*self.peak;
        Holds { memory: memory.load(Ordering::Relaxed), descriptors: descriptors.load(Ordering::Relaxed) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.peak.over.store(true, Ordering::Relaxed);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// proc(5): anonymous memory, and the files below `fd`.
fn look(id: u32) -> Option<Holds> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    let descriptors = std::fs::read_dir(format!("/proc/{id}/fd")).ok()?.count();
    Some(Holds { memory: kilobytes << 10, descriptors })
}

/// A client that takes what it asks for, with a connection of its own each time.
pub(crate) struct Honest {
    endpoint: Endpoint,
    server: SocketAddr,
}

impl Honest {
    pub(crate) fn new(server: &Server) -> Self {
        Self { endpoint: Endpoint::client().unwrap(), server: server.address }
    }

    /// Fetches the honest file, and says how long that took, from the first datagram on.
    pub(crate) async fn fetch(&mut self) -> Duration {
        let begun = Instant::now();
        let config = ClientConfig::new(Trust::insecure(), &[h3::ALPN]).unwrap();
        let fetched = async {
            let connection = self.endpoint.connect(self.server, "localhost", &config).await.unwrap();
            let client = h3::Client::new(&connection, h3::Config::default()).unwrap();
            let request = Request::new("GET", "localhost", "/honest");
            let (response, mut content) = client.fetch(&request).await.unwrap();
            assert_eq!(response.status, 200);
            assert_eq!(content.read_to_end(ANSWER + 1).await.unwrap().len(), ANSWER);
            connection.close(h3::ErrorCode::H3_NO_ERROR.0, b"");
        };
        tokio::time::timeout(Duration::from_secs(30), fetched).await.expect("an answer in time");
        begun.elapsed()
    }

    /// Fetches it again and again; how long that took, in order of length.
    pub(crate) async fn fetch_for(&mut self, time: Duration) -> Vec<Duration> {
        let (begun, mut times) = (Instant::now(), Vec::new());
        while begun.elapsed() < time {
            times.push(self.fetch().await);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        times.sort_unstable();
        times
    }
}

/// Bytes of the honest answer.
const ANSWER: usize = 1_000_000;

/// Large files, so that not all ask for the same.
pub(crate) const FILES: usize = 50;
