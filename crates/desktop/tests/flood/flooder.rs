//! The flood: a process of its own, since it is to be on a core of its own.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use quickset::quic::{Connection, ConnectionId, Endpoint, EndpointConfig, EndpointCrypto, ResetToken};
use quickset::{ClientConfig, Trust};
use quickset_base::{AddressPair, Batch, Machine as _, Poll, Rng, Time};

/// A flood that is under way, of this test in another process.
pub(crate) struct Flood(Option<(Child, BufReader<ChildStdout>)>);

impl Flood {
    /// So many first packets a second to `at`, until it is stopped, or for a minute.
    pub(crate) fn start(at: SocketAddr, rate: u64) -> Self {
        if rate == 0 {
            return Self(None);
        }
        assert!(at.ip().is_loopback(), "nobody else is flooded");
        let itself = std::env::current_exe().unwrap();
        let mut command = Command::new("taskset");
        command.args(["-c", "1"]).arg(itself).args(["--ignored", "--nocapture", "newcomers"]);
        command.env(ASKED, format!("{at} {rate}"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let begins = said.by_ref().lines().any(|line| line.unwrap().contains(BEGINS));
        assert!(begins, "the flooder ended at once");
        Self(Some((child, said)))
    }

    /// Packets sent.
    pub(crate) fn stop(mut self) -> u64 {
        let Some((mut child, said)) = self.0.take() else { return 0 };
        // Its end is the word.
        drop(child.stdin.take());
        let said = std::io::read_to_string(said).unwrap();
        child.wait().unwrap();
        let sent = said.lines().find_map(|line| line.split(ENDS).nth(1)?.trim().parse().ok());
        sent.expect("it says how many")
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        if let Some((child, _)) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// This process is the flooder.
pub(crate) fn is_asked() -> bool {
    std::env::var_os(ASKED).is_some()
}

/// Floods until there is no more input, at the given rate as far as this core can.
pub(crate) fn run() {
    let asked = std::env::var(ASKED).unwrap();
    let (at, rate) = asked.split_once(' ').unwrap();
    let (at, rate): (SocketAddr, u64) = (at.parse().unwrap(), rate.parse().unwrap());
    assert!(at.ip().is_loopback(), "nobody else is flooded");
    let stop = std::thread::spawn(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
    let sockets: Vec<UdpSocket> = (0..ADDRESSES)
        .map(|n| {
            let socket = UdpSocket::bind((Ipv4Addr::new(127, 66, (n >> 8) as u8, n as u8), 0)).unwrap();
            // What it is answered lies there.
            socket.set_nonblocking(true).unwrap();
            socket
        })
        .collect();
    let hellos = hellos();
    let mut rng = Rng::new(7);
    println!("{BEGINS}");
    let (begun, mut sent) = (Instant::now(), 0_u64);
    while !stop.is_finished() && begun.elapsed() < Duration::from_secs(60) {
        let due = (begun.elapsed().as_secs_f64() * rate as f64) as u64;
        // Who was held up does not make up for it all at once.
        sent = sent.max(due.saturating_sub(rate / 100));
        while sent < due {
            let socket = &sockets[sent as usize % sockets.len()];
            if sent % 4 == 0 {
                let _ = socket.send_to(&noise(&mut rng), at);
            } else {
                let _ = socket.send_to(&hellos[sent as usize % hellos.len()], at);
            }
            sent += 1;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    println!("{ENDS}{sent}");
}

/// First flights of clients that are all different, as they would be sent.
fn hellos() -> Vec<Vec<u8>> {
    let config = ClientConfig::new(Trust::insecure(), &["h3", quickset_desktop::message::ALPN]).unwrap();
    let endpoint =
        EndpointConfig { crypto: std::sync::Arc::new(NoSecrets), connection_id_len: 8, resets_per_second: 0 };
    let mut endpoint = Endpoint::new(endpoint, None, Rng::new(5));
    let to = AddressPair::to(([127, 0, 0, 1], 1).into());
    let mut batch = Batch::with_limit(1);
    (0..HELLOS)
        .map(|_| {
            let begun = endpoint.connect(Time::ZERO, config.quic(), to, "localhost", Vec::new());
            let mut client = Connection::new(begun.unwrap().1).unwrap();
            batch.clear();
            while !matches!(client.poll(Time::ZERO, &mut batch), Poll::Send) {}
            batch.bytes().to_vec()
        })
        .collect()
}

/// What looks like a first packet from outside (RFC 9000 §17.2.2): version 1, two ids of eight bytes, no
/// token.
fn noise(rng: &mut Rng) -> [u8; 1200] {
    let mut packet = [0; 1200];
    rng.fill(&mut packet[..64]);
    packet[..6].copy_from_slice(&[0xc3, 0, 0, 0, 1, 8]);
    packet[14] = 8;
    // The token's length, and that of the rest in two bytes.
    packet[23] = 0;
    packet[24..26].copy_from_slice(&(0x4000_u16 | (1200 - 26)).to_be_bytes());
    packet
}

/// It accepts nothing, and gives no tokens.
struct NoSecrets;

impl EndpointCrypto for NoSecrets {
    fn reset_token(&self, _: &ConnectionId) -> ResetToken {
        ResetToken([0; 16])
    }

    fn seal_token(&self, _: [u8; 12], _: &[u8]) -> Vec<u8> {
        Vec::new()
    }

    fn open_token(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

/// Where it is to go, and how fast: then this process is the flooder.
const ASKED: &str = "QUICKSET_FLOOD_TO";

/// What the flooder says.
const BEGINS: &str = "the flood begins";
const ENDS: &str = "flooded with ";

/// Addresses that it comes from.
const ADDRESSES: u16 = 256;

/// Clients that are not alike.
const HELLOS: usize = 1024;
