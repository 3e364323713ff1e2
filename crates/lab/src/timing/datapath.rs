//! What a server's processor takes for a datagram, a batch of them, and a byte.
//!
//! Two things are timed. What QUIC does: a server and a client, with TLS and without sockets, on one thread,
//! of which the server's calls count; with datagrams of two lengths, with many in a batch and with one, and
//! with many acknowledgements and few, so that each cost is what a difference leaves. And what the system
//! does: calls that send one datagram and many, and calls that receive small ones, over loopback.

use std::fmt::Display;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Instant;

use quickset::AckPolicy;
use quickset_base::number::Unsigned as _;
use quickset_base::{AddressPair, Batch, Datagram, Duration, Ecn, Input, Machine as _, Poll, Time};

use super::transfer::MTU;
use crate::experiment::{HTTP1, Params, Timed, TimingError};
use crate::play::actor::{Actor, FlowCredentials, far, near};
use crate::play::{PlayFlow, Work};
use crate::results::{Costs, Detail, RunMetrics, Timings};

/// Times a server's work.
///
/// # Errors
/// When a value does not fit, or the system gives no socket or no segmentation offload.
pub(crate) fn datapath(params: &Params, seed: u64) -> Timed {
    let wrong = |error: &dyn Display| TimingError(format!("nothing was timed: {error}"));
    if params.text("datapath") == HTTP1 {
        return Err(TimingError(
            "what TCP costs is the system's, and not to be told apart here; `quickset lab run throughput` has HTTP/1.1".to_owned(),
        ));
    }
    let size = params.whole("size").map_err(|error| wrong(&error))?;
    let credentials = FlowCredentials::tls(seed).map_err(|error| wrong(&error))?;
    let least = |mtu, gso, acks| {
        let flow = flow(size, mtu, gso, acks);
        let runs = (0..REPETITIONS).map(|n| DatapathTransfer::new(&flow, &credentials, seed + n).run());
        // Whatever else the machine does makes it more.
        runs.min_by(|one, other| one.ns.total_cmp(&other.ns)).unwrap_or_default()
    };
    let rarely = AckPolicy::default().with_every(100).with_adaptive(false);
    let merging = matches!(params.text("datapath").as_str(), "merging" | "adaptive");
    let often = AckPolicy::default().with_merging(merging).with_adaptive(false);
    let quic = Quic::of(
        [&least(MTU, true, rarely), &least(LONG, true, rarely)],
        &least(MTU, false, rarely),
        &least(MTU, true, often),
    );
    let system = SystemCosts::measure().map_err(|error| wrong(&error))?;
    let costs = Costs {
        send_batch_ns: Some(quic.batch + system.send_call),
        send_datagram_ns: Some(quic.datagram + system.send_segment),
        receive_batch_ns: Some(system.receive_call),
        receive_datagram_ns: Some(quic.acknowledgement + system.receive_datagram),
        byte_ps: Some(quic.byte * 1e3),
    };
    let timings = Timings { costs, ..Timings::default() };
    Ok((RunMetrics { timings, finished: true, ..RunMetrics::default() }, Detail::default()))
}

/// A download that nothing but the processor holds up.
fn flow(size: u64, mtu: u16, gso: bool, acks: AckPolicy) -> PlayFlow {
    let unlimited = "fixed:1000gbit".parse().expect("it is a rate");
    let mut flow = PlayFlow::new("transfer", unlimited, Work::Bytes(Some(size)));
    let transport = &mut flow.transport;
    (transport.mtu, transport.gso, transport.acks) = (mtu, gso, acks);
    (transport.fenced_streams, transport.send_buffer) = (None, 1 << 20);
    flow
}

/// What a server did, and the nanoseconds that it took for it.
#[derive(Clone, Copy, Debug, Default)]
struct Worked {
    ns: f64,
    batches: f64,
    datagrams: f64,
    bytes: f64,
    received: f64,
}

/// A transfer without sockets, in a time of its own.
struct DatapathTransfer {
    client: Actor,
    server: Actor,
    now: Time,
    batch: Batch,
    up: Vec<Datagram>,
    down: Vec<Datagram>,
    worked: Worked,
}

impl DatapathTransfer {
    fn new(flow: &PlayFlow, credentials: &FlowCredentials, seed: u64) -> Self {
        Self {
            client: near(flow, credentials, seed, 0, FAR),
            server: far(flow, credentials, seed, 0),
            now: Time::ZERO,
            batch: Batch::new(),
            up: Vec::new(),
            down: Vec::new(),
            worked: Worked::default(),
        }
    }

    /// Until the client has everything. It receives two datagrams at a time, so that it acknowledges as many
    /// as it is to.
    fn run(mut self) -> Worked {
        while !self.client.is_done() {
            let mut wakes = [self.let_client(), None];
            let mut some: Vec<Datagram> = self.up.drain(..self.up.len().min(MOST)).collect();
            let is_idle = some.is_empty();
            if !is_idle {
                self.worked.received += some.len().approx();
                let began = Instant::now();
                self.server.handle(self.now, Input::Received(&mut some));
                self.worked.ns += began.elapsed().as_nanos().approx();
            }
            wakes[1] = self.let_server();
            self.now += STEP;
            if is_idle && self.down.is_empty() {
                let Some(next) = wakes.into_iter().flatten().min() else { break };
                self.now = self.now.max(next);
                self.client.handle(self.now, Input::Timer);
                self.server.handle(self.now, Input::Timer);
            }
            for pair in std::mem::take(&mut self.down).chunks(2) {
                self.client.handle(self.now, Input::Received(&mut pair.to_vec()));
                self.let_client();
            }
        }
        self.worked
    }

    /// Lets the client send; returns when it is to be woken.
    fn let_client(&mut self) -> Option<Time> {
        loop {
            match self.client.poll(self.now, &mut self.batch) {
                Poll::Sleep(wake, _) => return wake,
                Poll::Event => {}
                Poll::Send => take(&mut self.batch, &mut self.up),
            }
        }
    }

    /// The same of the server, whose work counts.
    fn let_server(&mut self) -> Option<Time> {
        loop {
            let began = Instant::now();
            let poll = self.server.poll(self.now, &mut self.batch);
            self.worked.ns += began.elapsed().as_nanos().approx();
            match poll {
                Poll::Sleep(wake, _) => return wake,
                Poll::Event => {}
                Poll::Send => {
                    self.worked.batches += 1.0;
                    self.worked.datagrams += self.batch.count().approx();
                    self.worked.bytes += self.batch.bytes().len().approx();
                    take(&mut self.batch, &mut self.down);
                }
            }
        }
    }
}

/// Moves what is to be sent to the other side.
fn take(batch: &mut Batch, to: &mut Vec<Datagram>) {
    let path = AddressPair::to(FAR);
    let datagram = |bytes: &[u8]| Datagram { path, ecn: Ecn::NotEct, bytes: bytes.into() };
    to.extend(batch.segments().map(datagram));
    batch.clear();
}

/// What QUIC takes, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Quic {
    batch: f64,
    datagram: f64,
    byte: f64,
    acknowledgement: f64,
}

impl Quic {
    /// From runs with short and long datagrams, with one in a batch, and with an acknowledgement for two.
    fn of([short, long]: [&Worked; 2], single: &Worked, often: &Worked) -> Self {
        // Of a datagram with all its bytes.
        let each = |worked: &Worked| worked.ns / worked.datagrams;
        let length = |worked: &Worked| worked.bytes / worked.datagrams;
        let byte = ((each(long) - each(short)) / (length(long) - length(short))).max(0.0);
        let datagram = (each(long) - byte * length(long)).max(0.0);
        let sent = |worked: &Worked| datagram * worked.datagrams + byte * worked.bytes;
        // A batch of many is next to nothing for each of them.
        let batch = ((single.ns - sent(single)) / single.batches).max(0.0);
        let rest = often.ns - sent(often) - batch * often.batches;
        Self { batch, datagram, byte, acknowledgement: (rest / often.received.max(1.0)).max(0.0) }
    }
}

/// What the system takes, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct SystemCosts {
    send_call: f64,
    send_segment: f64,
    receive_call: f64,
    receive_datagram: f64,
}

impl SystemCosts {
    fn measure() -> io::Result<Self> {
        let (near, far) = (socket()?, socket()?);
        let (to, mut buffer) = (far.local_addr()?, vec![0; usize::from(u16::MAX)]);
        let mut drain = || while far.recv(&mut buffer).is_ok() {};
        let content = vec![0; usize::from(MTU) * MANY];
        offload(&near)?;
        let mut send = |segments: usize| {
            typical(|| {
                let began = Instant::now();
                let sent = near.send_to(&content[..usize::from(MTU) * segments], to);
                let took = began.elapsed();
                drain();
                sent.map(|_| took)
            })
        };
        let (one, many) = (send(1)?, send(MANY)?);
        let send_segment = (many - one) / (MANY - 1).approx();
        let mut small = [0; 64];
        let nothing = typical(|| {
            let began = Instant::now();
            let _ = far.recv(&mut small);
            Ok(began.elapsed())
        })?;
        let something = typical(|| {
            near.send_to(&content[..ACKNOWLEDGEMENT], to)?;
            let began = Instant::now();
            far.recv(&mut small)?;
            Ok(began.elapsed())
        })?;
        Ok(Self {
            send_call: (one - send_segment).max(0.0),
            send_segment,
            receive_call: nothing,
            receive_datagram: (something - nothing).max(0.0),
        })
    }
}

/// The median of many.
fn typical(mut once: impl FnMut() -> io::Result<Duration>) -> io::Result<f64> {
    let mut times = (0..CALLS).map(|_| once()).collect::<io::Result<Vec<Duration>>>()?;
    times.sort();
    Ok(times[times.len() / 2].as_nanos().approx())
}

fn socket() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Has the system cut what is sent into datagrams.
#[cfg(target_os = "linux")]
fn offload(socket: &UdpSocket) -> io::Result<()> {
    use nix::sys::socket::{setsockopt, sockopt::UdpGsoSegment};
    setsockopt(socket, UdpGsoSegment, &i32::from(MTU)).map_err(io::Error::from)
}

#[cfg(not(target_os = "linux"))]
fn offload(_: &UdpSocket) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "segmentation offload is asked for on Linux only"))
}

const FAR: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 4433);
/// Several times as long as usual, so that bytes tell.
const LONG: u16 = 8000;
/// What a receive call returns at most.
const MOST: usize = 64;
/// Of the longest length a call takes as many.
const MANY: usize = 44;
const ACKNOWLEDGEMENT: usize = 35;
/// Shorter than whatever goes by time.
const STEP: Duration = Duration::from_micros(1);
const REPETITIONS: u64 = 7;
const CALLS: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    /// Costs that are known give runs from which they are found again.
    #[test]
    fn costs_are_what_differences_leave() {
        let (batch, datagram, byte, ack) = (250.0, 300.0, 0.25, 700.0);
        let worked = |batches: f64, datagrams: f64, length: f64, received: f64| Worked {
            ns: batch * batches + datagram * datagrams + byte * datagrams * length + ack * received,
            batches,
            datagrams,
            bytes: datagrams * length,
            received,
        };
        // Without what a large batch adds, which is left out.
        let quic = Quic::of(
            [&worked(0.0, 1e4, 1200.0, 0.0), &worked(0.0, 1e4, 1452.0, 0.0)],
            &worked(1e4, 1e4, 1452.0, 0.0),
            &worked(5e3, 1e4, 1452.0, 5e3),
        );
        for (found, known) in
            [(quic.batch, batch), (quic.datagram, datagram), (quic.byte, byte), (quic.acknowledgement, ack)]
        {
            assert!((found / known - 1.0).abs() < 1e-6, "{quic:?}");
        }
    }

    /// Everything is sent once, an acknowledgement comes for each two datagrams, and batches are full or of
    /// one.
    #[test]
    fn a_transfer_without_sockets_is_counted() {
        let credentials = FlowCredentials::tls(1).unwrap();
        for (gso, every, merging) in [(true, 2, true), (true, 2, false), (false, 100, true)] {
            let flow = flow(
                1_000_000,
                MTU,
                gso,
                AckPolicy::default().with_merging(merging).with_every(every).with_adaptive(false),
            );
            let worked = DatapathTransfer::new(&flow, &credentials, 1).run();
            let datagrams = 1e6 / (f64::from(MTU) - 36.0);
            assert!((datagrams..datagrams * 1.05 + 20.0).contains(&worked.datagrams), "{worked:?}");
            assert!(worked.ns > 0.0 && (gso || worked.batches >= worked.datagrams), "{worked:?}");
            let received = datagrams / every as f64;
            assert!((received * 0.9..received * 1.2 + 30.0).contains(&worked.received), "{worked:?}");
        }
    }
}
