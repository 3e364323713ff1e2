//! Tunnels as sockets meet them. Interfaces and namespaces take root and /dev/net/tun; without them these
//! tests say so and check nothing.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use quickset_base::number::Unsigned as _;
use quickset_base::{Ecn, Time};
use quickset_lab::tunnel::{Tunnel, TunnelConfig, TunnelSide};
use quickset_sim::{Fate, Link, LinkSpec, SendResult};

/// Runs a test in a thread of its own, which may change its namespace, on a tunnel.
fn on(plan: TunnelConfig, test: impl FnOnce(&Tunnel) + Send + 'static) {
    let may = std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    if let (Err(error), _) | (Ok(_), Some(error)) = (may, not_root()) {
        eprintln!("SKIPPED: interfaces cannot be made here: {error}");
        return;
    }
    let run = thread::spawn(move || test(&Tunnel::open(&plan).unwrap()));
    if let Err(panic) = run.join() {
        std::panic::resume_unwind(panic);
    }
}

fn not_root() -> Option<std::io::Error> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap().trim();
    let admin = 1 << 12 | 1 << 21;
    let has = u64::from_str_radix(effective, 16).unwrap() & admin == admin;
    (!has).then(|| std::io::Error::other("NET_ADMIN and SYS_ADMIN are missing"))
}

/// The reason to give up on a condition.
const LIMIT: Duration = Duration::from_secs(20);

fn plan(up: &str, down: &str, seed: u64) -> TunnelConfig {
    TunnelConfig { up: up.parse().unwrap(), down: down.parse().unwrap(), seed, mtu: 1500, enclosed: false }
}

fn enclosed(up: &str, down: &str, seed: u64) -> TunnelConfig {
    TunnelConfig { enclosed: true, ..plan(up, down, seed) }
}

/// A socket on a side of the tunnel.
fn bound(tunnel: &Tunnel, side: TunnelSide) -> UdpSocket {
    tunnel.enter(side).unwrap();
    let socket = UdpSocket::bind((tunnel.address(side), 0)).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket
}

/// Sends `n` numbered datagrams of `size` bytes, gently.
fn send(socket: &UdpSocket, to: SocketAddr, n: u32, size: usize) {
    for i in 0..n {
        let mut bytes = vec![0; size];
        bytes[..4].copy_from_slice(&i.to_le_bytes());
        socket.send_to(&bytes, to).unwrap();
        if i % 32 == 31 {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The numbers of `n` datagrams as they arrive.
fn drain(socket: &UdpSocket, n: usize) -> Vec<u32> {
    let mut buffer = [0; 2048];
    let got: Vec<u32> = (0..n)
        .map(|_| {
            socket.recv(&mut buffer).unwrap();
            u32::from_le_bytes(buffer[..4].try_into().unwrap())
        })
        .collect();
    socket.set_read_timeout(Some(Duration::from_millis(60))).unwrap();
    assert!(socket.recv(&mut buffer).is_err(), "one too many arrives");
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    got
}

/// Waits until it holds.
fn until(holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < LIMIT, "it does not come true");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The ordinals that the simulator's link delivers.
fn passed(spec: &LinkSpec, seed: u64, direction: u64, n: u32) -> Vec<u32> {
    let mut link = Link::new(spec.clone(), seed, direction);
    let is_lost = |sent| matches!(sent, SendResult::Known(Fate::Dropped(_)));
    (0..n).filter(|n| !is_lost(link.send(Time::from_millis(u64::from(*n)), 100, Ecn::NotEct))).collect()
}

#[test]
fn an_echo_takes_twice_the_delay() {
    on(plan("delay=15ms", "delay=25ms", 1), |tunnel| {
        let (server, client) = (bound(tunnel, TunnelSide::Far), bound(tunnel, TunnelSide::Near));
        let mut buffer = [0; 100];
        for _ in 0..20 {
            let started = Instant::now();
            client.send_to(&[7; 50], server.local_addr().unwrap()).unwrap();
            let (len, from) = server.recv_from(&mut buffer).unwrap();
            assert_eq!(from, client.local_addr().unwrap(), "nobody translates addresses");
            server.send_to(&buffer[..len], from).unwrap();
            client.recv(&mut buffer).unwrap();
            let took = started.elapsed();
            assert!(took >= Duration::from_millis(40), "{took:?}");
        }
        // It counts a packet when that has left, and may not have got round to it.
        until(|| tunnel.lateness().packets() == 40);
        let late = tunnel.lateness();
        assert_eq!(tunnel.forwarded(), [20, 20]);
        eprintln!("late: p50 {:?}, max {:?}", late.percentile(0.5), late.max());
    });
}

#[test]
fn the_losses_are_those_of_the_simulator_in_each_direction() {
    let spec = "delay=2ms loss=ge:5%,30%";
    on(plan(spec, spec, 11), move |tunnel| {
        let link: LinkSpec = spec.parse().unwrap();
        // So few that they wait in a socket's buffer if nobody gets round to reading.
        let n = 200;
        let [up, down] = [0, 1].map(|direction| passed(&link, 11, direction, n));
        assert!((100..190).contains(&up.len()) && up != down, "{} of {n} arrive", up.len());
        let (server, client) = (bound(tunnel, TunnelSide::Far), bound(tunnel, TunnelSide::Near));
        // Namespaces talk to their neighbours when interfaces come up: that must not move the ordinals.
        thread::sleep(Duration::from_millis(100));
        send(&client, server.local_addr().unwrap(), n, 100);
        assert_eq!(drain(&server, up.len()), up);
        send(&server, client.local_addr().unwrap(), n, 100);
        assert_eq!(drain(&client, down.len()), down);
        let counts = tunnel.counts();
        assert_eq!(counts.map(|counts| counts.sent), [u64::from(n); 2]);
        assert_eq!(counts[0].lost, u64::from(n) - up.len() as u64);
        // 100 bytes of payload, 8 of UDP, 20 of IPv4.
        assert_eq!(counts[0].sent_bytes, 128 * u64::from(n));
        assert_eq!(tunnel.overruns(), Some([0, 0]));
    });
}

#[test]
fn tcp_fills_the_rate_and_not_more() {
    on(plan("delay=5ms", "rate=20mbit delay=5ms queue=100kB", 1), |tunnel| {
        tunnel.enter(TunnelSide::Far).unwrap();
        let listener = TcpListener::bind((tunnel.address(TunnelSide::Far), 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let chunk = vec![7; 64 << 10];
            // Until the client has enough.
            while stream.write_all(&chunk).is_ok() {}
        });
        tunnel.enter(TunnelSide::Near).unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        client.set_read_timeout(Some(LIMIT)).unwrap();
        let mut buffer = vec![0; 64 << 10];
        let mut read_for = |time: Duration| {
            let (started, mut bytes) = (Instant::now(), 0);
            while started.elapsed() < time {
                bytes += client.read(&mut buffer).unwrap();
            }
            bytes.approx() * 8.0 / started.elapsed().as_secs_f64()
        };
        // Past slow start, and what had piled up is read.
        read_for(Duration::from_secs(1));
        // Of each 1500 bytes 52 are headers of IPv4 and TCP with timestamps.
        let most = 20e6 * 1448.0 / 1500.0;
        // A reader that was held up finds more than its share afterwards, and a sender sends less: they are
        // not always.
        let started = Instant::now();
        loop {
            let bps = read_for(Duration::from_secs(2));
            eprintln!("{:.2} of {:.2} Mbit/s", bps / 1e6, most / 1e6);
            if bps < most * 1.03 && bps > most * 0.85 {
                break;
            }
            assert!(started.elapsed() < 3 * LIMIT, "{bps}");
        }
        drop(client);
        server.join().unwrap();
        assert!(tunnel.counts()[1].peak_backlog <= 100_000);
    });
}

#[test]
fn congestion_marks_pass_and_are_set_by_the_queue() {
    // 1128 bytes last 9 ms at 1 Mbit/s, so a burst stays above the target of CoDel for long.
    on(enclosed("rate=1mbit queue=codel-ecn:1ms,20ms,1MB", "perfect", 1), |tunnel| {
        let (server, client) = (bound(tunnel, TunnelSide::Far), bound(tunnel, TunnelSide::Near));
        socket2::SockRef::from(&client).set_tos_v4(u32::from(Ecn::Ect0.bits())).unwrap();
        for _ in 0..60 {
            client.send_to(&[1; 1100], server.local_addr().unwrap()).unwrap();
        }
        let mut buffer = [0; 2048];
        for _ in 0..60 {
            // The system checks the header's checksum: a mark without it would not arrive.
            assert_eq!(server.recv(&mut buffer).unwrap(), 1100);
        }
        let [up, _] = tunnel.counts();
        assert!(up.marked > 0 && up.marked < 60 && up.aqm == 0, "{up:?}");
        tunnel.enter(TunnelSide::Far).unwrap();
        assert_eq!(seen("InCEPkts"), up.marked);
        assert_eq!(seen("InECT0Pkts"), 60 - up.marked);
    });
}

/// What the system has counted on this side: a row of names, then one of numbers.
fn seen(name: &str) -> u64 {
    let table = std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap();
    let mut rows = table.lines().filter(|line| line.starts_with("IpExt:"));
    let (names, numbers) = (rows.next().unwrap().split(' '), rows.next().unwrap().split(' '));
    names.zip(numbers).find(|(column, _)| *column == name).unwrap().1.parse().unwrap()
}

#[test]
fn several_are_open_at_once_and_do_not_meet() {
    on(plan("delay=1ms", "delay=1ms", 1), |one| {
        let first = one.address(TunnelSide::Far);
        let server = bound(one, TunnelSide::Far);
        // The far thread is where everybody is: another tunnel starts from there.
        let two = Tunnel::open(&plan("delay=1ms", "delay=1ms", 1)).unwrap();
        assert_ne!(two.address(TunnelSide::Far), first);
        assert_eq!(two.address(TunnelSide::Far).octets()[..2], [10, 77]);
        let client = bound(&two, TunnelSide::Near);
        // Behind the other link is this host too, at its own addresses, and what is sent there arrives by it.
        client.send_to(&[0; 4], (two.address(TunnelSide::Far), server.local_addr().unwrap().port())).unwrap();
        until(|| two.counts()[0].sent > 0);
        assert_eq!(one.counts()[0].sent, 0);
    });
}

#[test]
fn nothing_is_left_behind() {
    on(plan("perfect", "perfect", 1), |tunnel| {
        tunnel.enter(TunnelSide::Far).unwrap();
        let address = tunnel.address(TunnelSide::Far);
        let routes = || std::fs::read_to_string("/proc/thread-self/net/fib_trie").unwrap();
        assert!(routes().contains(&address.to_string()));
        drop(UdpSocket::bind((address, 0)).unwrap());
        let inner = Tunnel::open(&enclosed("perfect", "perfect", 1)).unwrap();
        // In its own world it may have the same addresses; it comes and goes there.
        assert_eq!(inner.address(TunnelSide::Far).to_string(), "10.77.0.1");
        drop(inner);
        tunnel.enter(TunnelSide::Far).unwrap();
        assert!(routes().contains(&address.to_string()), "the outer one is still there");
    });
    // The test above has dropped its tunnel; others of this process have other addresses.
    let again = |ran: &mut BTreeSet<String>| {
        let (tell, told) = std::sync::mpsc::channel();
        on(plan("perfect", "perfect", 1), move |tunnel| {
            tunnel.enter(TunnelSide::Far).unwrap();
            tell.send(tunnel.address(TunnelSide::Far).to_string()).unwrap();
        });
        ran.extend(told.try_iter());
    };
    let mut seen = BTreeSet::new();
    for _ in 0..12 {
        again(&mut seen);
    }
    // Places are free again at once: 12 tunnels in a row take no 12 of them.
    assert!(seen.len() < 12, "{seen:?}");
}

#[test]
fn both_protocols_reach_the_other_side_and_nothing_else_does() {
    on(enclosed("delay=1ms", "delay=1ms", 1), |tunnel| {
        tunnel.enter(TunnelSide::Far).unwrap();
        let far = tunnel.address6(TunnelSide::Far);
        let Some(far) = far else {
            eprintln!("SKIPPED: this system has no IPv6");
            return;
        };
        let server = UdpSocket::bind((far, 0)).unwrap();
        server.set_read_timeout(Some(LIMIT)).unwrap();
        tunnel.enter(TunnelSide::Near).unwrap();
        let client = UdpSocket::bind("[::]:0").unwrap();
        client.send_to(b"six", server.local_addr().unwrap()).unwrap();
        let mut buffer = [0; 16];
        let (len, from) = server.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"six");
        assert_eq!(from.ip(), tunnel.address6(TunnelSide::Near).unwrap());
        // Elsewhere there is no way on from the far side.
        let outside: SocketAddr = "192.0.2.1:9".parse().unwrap();
        assert!(TcpStream::connect_timeout(&outside, Duration::from_millis(200)).is_err());
    });
}
