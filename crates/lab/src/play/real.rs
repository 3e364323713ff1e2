use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use bytes::BytesMut;
use quickset_base::{AddressPair, Batch, Datagram, Duration, Ecn, Input, Machine as _, Poll, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::actor::{self, Actor, CredentialsError, FlowCredentials};
use super::{FlowSeen, RunSeen, Setting};
use crate::relay::{Lateness, Relay, kernel};

/// Why a run in real time came to no end.
#[derive(Debug, thiserror::Error)]
pub enum RealError {
    /// No socket or thread.
    #[error("the system gives no socket or thread: {0}")]
    System(#[from] io::Error),
    /// Others that send are simulated ones.
    #[error("cross traffic is there in virtual time only; leave --real out, or set cross=none")]
    Cross,
    /// No TLS.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
}

/// How well the emulated link kept its times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Accuracy {
    /// How much later than the model says packets left.
    pub lateness: Lateness,
    /// Datagrams that the system dropped before the link saw them, or behind it; `None` where it does not
    /// tell.
    pub overruns: Option<u64>,
}

/// Plays a setting in real time: sockets on the loopback interface, TLS, and the link as a relay between
/// them. The loss model takes the same packets as in virtual time, by their number. ECN marks are not
/// carried.
///
/// The machines are driven by a loop of the laboratory's own and not by tokio: so the whole of an application
/// is in one machine, and what differs from virtual time is the system alone.
///
/// It ends when every client has what it wanted, at the setting's limit, or soon after `stop` is set;
/// `observer` is told the time several times a second.
///
/// # Errors
/// When the system gives no socket or thread, and for cross traffic.
pub fn really(
    setting: &Setting,
    seed: u64,
    stop: &AtomicBool,
    observer: &mut dyn FnMut(Duration),
) -> Result<(RunSeen, Accuracy), RealError> {
    if !setting.cross.is_empty() {
        return Err(RealError::Cross);
    }
    let credentials = FlowCredentials::tls(seed)?;
    let mut servers: Vec<(SocketAddr, UdpSocket)> = Vec::new();
    // One that all flows share has one socket.
    let count = if setting.processor.is_some() { 1 } else { setting.flows.len() };
    for _ in 0..count {
        let socket = socket()?;
        servers.push((socket.local_addr()?, socket));
    }
    let behind = |n: usize| servers[n.min(count - 1)].0;
    let addresses: Vec<SocketAddr> = (0..setting.flows.len()).map(behind).collect();
    let relay = Relay::shared(&addresses, setting.up.clone(), setting.down.clone(), seed)?;
    let started = Instant::now();
    let mut near = Threads::default();
    let mut far = Threads::default();
    for (n, (_, socket)) in servers.into_iter().enumerate() {
        let server = if setting.processor.is_some() {
            actor::origin(&setting.flows, &credentials, seed)
        } else {
            actor::far(&setting.flows[n], &credentials, seed, n as u64)
        };
        far.start(server, socket, started)?;
    }
    for (n, flow) in setting.flows.iter().enumerate() {
        let client = actor::near(flow, &credentials, seed, n as u64, relay.addresses()[n]);
        near.start(client, socket()?, started)?;
    }
    while !near.are_done() && started.elapsed() < setting.limit && !stop.load(Ordering::Relaxed) {
        thread::sleep(LOOK_EVERY);
        observer(started.elapsed());
    }
    let ended = started.elapsed().min(setting.limit);
    let (clients, dropped_there) = near.end()?;
    let (mut servers, dropped_here) = far.end()?;
    let mut flows = vec![FlowSeen::default(); clients.len()];
    for (n, (seen, mut client)) in flows.iter_mut().zip(clients).enumerate() {
        let last = servers.len().saturating_sub(1);
        if let Some(server) = servers.get_mut(n.min(last)) {
            server.tell(n, seen);
        }
        client.tell(n, seen);
    }
    // When the last one was done, not when that was looked for.
    let finished: Option<Vec<Duration>> = flows.iter().map(|flow| flow.finished).collect();
    let ended = finished.and_then(|times| times.into_iter().max()).unwrap_or(ended);
    let [up, down] = relay.counts();
    let dropped = [relay.overruns(), dropped_there, dropped_here];
    let accuracy = Accuracy { lateness: relay.lateness(), overruns: dropped.into_iter().sum() };
    Ok((RunSeen { flows, up, down, processor: None, ended }, accuracy))
}

/// An actor that has come to its end, and how many datagrams for it the system has dropped, where that tells.
type ActorDone = (Actor, Option<u64>);

/// Actors under way, each with a thread of its own. Dropped, they end.
#[derive(Default)]
struct Threads {
    stop: std::sync::Arc<AtomicBool>,
    all: Vec<JoinHandle<io::Result<ActorDone>>>,
}

impl Threads {
    fn start(&mut self, actor: Actor, socket: UdpSocket, started: Instant) -> io::Result<()> {
        let stop = self.stop.clone();
        let driver = ActorDriver {
            actor,
            socket,
            started,
            batch: Batch::new(),
            inbox: Vec::new(),
            buffer: vec![0; MAX_DATAGRAM],
        };
        let thread = thread::Builder::new().name("actor".into()).spawn(move || driver.run(&stop))?;
        self.all.push(thread);
        Ok(())
    }

    /// True when all have come to their end by themselves.
    fn are_done(&self) -> bool {
        self.all.iter().all(JoinHandle::is_finished)
    }

    /// The actors, and what the system has dropped of theirs.
    fn end(&mut self) -> io::Result<(Vec<Actor>, Option<u64>)> {
        self.stop.store(true, Ordering::Relaxed);
        let join = |thread: JoinHandle<io::Result<ActorDone>>| {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        let done = self.all.drain(..).map(join).collect::<io::Result<Vec<ActorDone>>>()?;
        let (actors, dropped): (Vec<Actor>, Vec<Option<u64>>) = done.into_iter().unzip();
        Ok((actors, dropped.into_iter().sum()))
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.all.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Drives an actor over a socket.
struct ActorDriver {
    actor: Actor,
    socket: UdpSocket,
    started: Instant,
    batch: Batch,
    inbox: Vec<Datagram>,
    buffer: Vec<u8>,
}

impl ActorDriver {
    /// Until the actor is done, or is told to stop.
    fn run(mut self, stop: &AtomicBool) -> io::Result<ActorDone> {
        while !self.actor.is_done() && !stop.load(Ordering::Relaxed) {
            let wake = self.send()?;
            if self.actor.is_done() {
                break;
            }
            let wait = wake.map_or(LOOK_EVERY, |at| at.since(self.now()).min(LOOK_EVERY));
            if self.wait(wait)? {
                self.receive()?;
            } else if wake.is_some_and(|at| at <= self.now()) {
                let now = self.now();
                self.actor.handle(now, Input::Timer);
            }
        }
        // As long as the socket is there.
        let dropped = kernel::drops(&[self.socket.local_addr()?]);
        Ok((self.actor, dropped))
    }

    /// Lets the actor do everything that it wants to now; returns when it is to be woken.
    fn send(&mut self) -> io::Result<Option<Time>> {
        loop {
            let now = self.now();
            match self.actor.poll(now, &mut self.batch) {
                Poll::Sleep(wake, _) => return Ok(wake),
                Poll::Event => {}
                Poll::Send => {
                    for segment in self.batch.segments() {
                        match self.socket.send_to(segment, self.batch.path.remote) {
                            // What the system has no room for is lost, as on any network; and a refused port
                            // is one that has closed.
                            Err(error) if !is_passing(&error) => return Err(error),
                            _ => {}
                        }
                    }
                    self.batch.clear();
                }
            }
        }
    }

    /// True when datagrams have come.
    fn wait(&self, at_most: Duration) -> io::Result<bool> {
        let mut sockets = [PollFd::new(&self.socket, PollFlags::IN)];
        let timeout = Timespec {
            tv_sec: i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(at_most.subsec_nanos()),
        };
        match poll(&mut sockets, Some(&timeout)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Hands over all that is there, as one batch.
    fn receive(&mut self) -> io::Result<()> {
        while self.inbox.len() < MAX_BATCH {
            match self.socket.recv_from(&mut self.buffer) {
                Ok((length, remote)) => {
                    let bytes = BytesMut::from(&self.buffer[..length]);
                    self.inbox.push(Datagram { path: AddressPair::to(remote), ecn: Ecn::NotEct, bytes });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        if !self.inbox.is_empty() {
            let now = self.now();
            self.actor.handle(now, Input::Received(&mut self.inbox));
            self.inbox.clear();
        }
        Ok(())
    }

    fn now(&self) -> Time {
        Time::ZERO + self.started.elapsed()
    }
}

fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, WouldBlock};
    matches!(error.kind(), ConnectionRefused | Interrupted | WouldBlock)
        || error.raw_os_error() == Some(ENOBUFS)
}

fn socket() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_nonblocking(true)?;
    let buffers = socket2::SockRef::from(&socket);
    // The system may grant less.
    let _ = buffers.set_recv_buffer_size(BUFFER);
    let _ = buffers.set_send_buffer_size(BUFFER);
    Ok(socket)
}

/// How long it takes at most to see that a run is over or to be stopped.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// What one call of recvmmsg returns in the production driver, about.
const MAX_BATCH: usize = 64;
const MAX_DATAGRAM: usize = 65_536;
const BUFFER: usize = 4 << 20;
const ENOBUFS: i32 = 105;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    /// What nobody gets round to reading is lost to no model, and a row says so.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_the_system_drops_at_the_ends_is_counted() {
        let experiment = catalogue::find("screen-streaming").unwrap();
        let setting = experiment.setting(&experiment.base()).unwrap();
        let [end, other] = [(); 2].map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        socket2::SockRef::from(&end).set_recv_buffer_size(4096).unwrap();
        end.set_nonblocking(true).unwrap();
        for _ in 0..100 {
            other.send_to(&[0; 1000], end.local_addr().unwrap()).unwrap();
        }
        let credentials = FlowCredentials::tls(1).unwrap();
        let client = actor::near(&setting.flows[0], &credentials, 1, 0, other.local_addr().unwrap());
        let mut threads = Threads::default();
        threads.start(client, end, Instant::now()).unwrap();
        let (actors, dropped) = threads.end().unwrap();
        assert_eq!(actors.len(), 1);
        assert!(dropped.is_some_and(|dropped| (50..100).contains(&dropped)), "{dropped:?}");
    }

    /// Players who share a server have one in reality as well: each is served on a connection of its own, and
    /// all see the same.
    #[test]
    fn players_share_a_server_over_sockets() {
        let experiment = catalogue::find("dash").unwrap();
        let words =
            ["players=3", "abr=dynamic", "datapath=adaptive", "seconds=2", "segment_s=1", "scale=200"];
        let words = crate::experiment::Overrides::parse(&words.map(str::to_owned)).unwrap();
        let points = experiment.points(&words).unwrap();
        let setting = experiment.setting(&points[0]).unwrap();
        let (seen, _) = really(&setting, 1, &AtomicBool::new(false), &mut |_| {}).unwrap();
        assert_eq!(seen.flows.len(), 3);
        for flow in &seen.flows {
            let watched = flow.watched.unwrap();
            assert!(flow.broken.is_none() && flow.finished.is_some(), "{:?}", flow.broken);
            assert_eq!((watched.played, watched.segments), (Duration::from_secs(2), 2));
            // At least what the lowest bitrate has, of which one byte in 200 was on the wire, and on this
            // connection.
            assert!(flow.delivered >= 2 * 1_000_000 / 8 / 200, "{}", flow.delivered);
            assert!(flow.server.sent_bytes > flow.delivered, "{:?}", flow.server);
        }
    }
}
