//! A link in real time for any program: two TUN devices joined by the simulator's own [`Link`].
//!
//! *In:* the IP packets that programs on the one side send, TCP and all. *Out:* the same packets on the other
//! side, each when and if the link delivers it, with the congestion marks of its queue. The near side is a
//! network namespace of its own, whose only way out is the link. The far side is the namespace of whoever
//! [opens](Tunnel::open) the tunnel, where it is one more interface and nothing else changes; or, when it is
//! to be [enclosed](TunnelConfig::enclosed), a second new namespace, for which no privileges are needed.
//! [`programs`] runs programs on both sides.
//!
//! Invariants: no packet leaves before its time; which packets the loss model takes depends on (seed,
//! direction, ordinal) and nothing else; what systems say to their neighbours of their own accord is no
//! traffic and gets no ordinal. Nothing is left behind however the process ends: devices go with their
//! descriptors, namespaces with the last process in them, and nothing has a name in the file system. How late
//! packets leave is measured: [`Tunnel::lateness`].

mod device;
mod namespace;
mod netlink;
mod packet;
mod place;
pub mod programs;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use quickset_sim::{Link, LinkCounts, LinkSpec};
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

use crate::relay::Lateness;
use crate::relay::courier::{Courier, Exit};
pub(crate) use device::Device;
use namespace::Namespace;
use place::TunnelAddresses;

/// What to open.
#[derive(Clone, Debug)]
pub struct TunnelConfig {
    /// The link from the near side to the far one.
    pub up: LinkSpec,
    /// The way back.
    pub down: LinkSpec,
    /// Equal seeds lose equal packets.
    pub seed: u64,
    /// The largest packet of the devices, IP header included: 576 to 65535; below 1280 without IPv6.
    pub mtu: u32,
    /// Whether the far side is a new namespace too. Without privileges it has to be.
    pub enclosed: bool,
}

/// One of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelSide {
    /// Behind the link: direction 0, up, begins here.
    Near,
    /// Where the servers are.
    Far,
}

/// An open tunnel; it closes when dropped.
#[derive(Debug)]
pub struct Tunnel {
    place: TunnelAddresses,
    near: TunnelEnd,
    far: TunnelEnd,
    v6: bool,
    courier: Arc<Courier>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct TunnelEnd {
    device: Arc<Device>,
    namespace: Namespace,
}

impl Tunnel {
    /// Opens a tunnel. The calling thread is on the near side from then on, and so is what it starts.
    ///
    /// # Errors
    /// A sentence about what this system does not allow, and what would help. The thread may have changed its
    /// namespace then. An enclosed tunnel without privileges can only be opened by a process of one thread.
    pub fn open(plan: &TunnelConfig) -> Result<Self, TunnelError> {
        let system = |what| move |source| TunnelError::System { what, source };
        let place = if plan.enclosed {
            let fresh = Namespace::fresh().or_else(|error| match error {
                TunnelError::Namespaces { .. } => Namespace::fresh_of_user(),
                other => Err(other),
            });
            fresh?;
            device::start_loopback().map_err(system("the far loopback interface does not start"))?;
            TunnelAddresses::first()
        } else if nix::unistd::Uid::effective().is_root() {
            TunnelAddresses::find()
                .map_err(system("no addresses for the link can be chosen"))?
                .ok_or(TunnelError::Full)?
        } else {
            return Err(TunnelError::Unprivileged);
        };
        let far = TunnelEnd { device: Arc::new(Device::open()?), namespace: Namespace::current()? };
        let namespace = Namespace::fresh()?;
        device::start_loopback().map_err(system("the near loopback interface does not start"))?;
        let near = TunnelEnd { device: Arc::new(Device::open()?), namespace };

        for (end, host) in [(&far, FAR), (&near, NEAR)] {
            end.device
                .start(plan.mtu, place.v4(host).into())
                .map_err(system("an end of the link gets no address"))?;
        }
        near.device.is_way_out(place.v4(FAR).into()).map_err(system("the near side gets no route"))?;
        // A system without IPv6, or a link with packets too small for it, carries IPv4 alone.
        let v6 = Self::start_v6(&place, &near, &far).is_ok();

        let links = [Link::new(plan.up.clone(), plan.seed, 0), Link::new(plan.down.clone(), plan.seed, 1)];
        let courier = Arc::new(Courier::new(links));
        let mut tunnel = Self { place, near, far, v6, courier, threads: Vec::new() };
        // From here on a failure drops the tunnel, and that ends the threads that run.
        tunnel.start().map_err(system("a thread cannot be started"))?;
        Ok(tunnel)
    }

    fn start_v6(place: &TunnelAddresses, near: &TunnelEnd, far: &TunnelEnd) -> io::Result<()> {
        for (end, host) in [(far, FAR), (near, NEAR)] {
            end.device.add(place.v6(host).into(), 64)?;
        }
        near.device.is_way_out(place.v6(FAR).into())
    }

    fn start(&mut self) -> io::Result<()> {
        let courier = self.courier.clone();
        self.threads.push(spawn("link-courier", move || courier.run())?);
        let ways = [("link-up", &self.near, &self.far), ("link-down", &self.far, &self.near)];
        for (direction, (name, from, to)) in ways.into_iter().enumerate() {
            let (courier, from, exit) =
                (self.courier.clone(), from.device.clone(), Exit::Device(to.device.clone()));
            self.threads.push(spawn(name, move || carry(&courier, direction, &from, &exit))?);
        }
        Ok(())
    }

    /// Moves the calling thread, and what it starts from then on, to this side.
    ///
    /// # Errors
    /// When the system does not let it.
    pub fn enter(&self, side: TunnelSide) -> io::Result<()> {
        self.end(side).namespace.enter()
    }

    /// The address of a side, of IPv4.
    pub fn address(&self, side: TunnelSide) -> Ipv4Addr {
        self.place.v4(host(side))
    }

    /// The address of a side, of IPv6 where there is any.
    pub fn address6(&self, side: TunnelSide) -> Option<Ipv6Addr> {
        self.v6.then(|| self.place.v6(host(side)))
    }

    /// What happened up and down.
    pub fn counts(&self) -> [LinkCounts; 2] {
        self.courier.counts()
    }

    /// Packets that the link has taken and that have not left yet, up and down.
    pub fn in_flight(&self) -> u64 {
        self.courier.waiting()
    }

    /// Packets handed on so far, up and down.
    pub fn forwarded(&self) -> [u64; 2] {
        self.courier.forwarded()
    }

    /// How much later than the model says packets left so far.
    pub fn lateness(&self) -> Lateness {
        self.courier.lateness()
    }

    /// Packets that the system dropped before they could be read, up and down, which the link knows nothing
    /// of; `None` where the system does not tell.
    pub fn overruns(&self) -> Option<[u64; 2]> {
        Some([self.near.device.overruns().ok()?, self.far.device.overruns().ok()?])
    }

    fn end(&self, side: TunnelSide) -> &TunnelEnd {
        match side {
            TunnelSide::Near => &self.near,
            TunnelSide::Far => &self.far,
        }
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.courier.stop();
        for thread in self.threads.drain(..) {
            // A thread that panicked has told so already.
            let _ = thread.join();
        }
    }
}

/// Why there is no tunnel, and what would help.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunnelError {
    /// The user may not add interfaces to this namespace.
    #[error(
        "without root a link cannot reach servers outside of it; give the server with --far 'COMMAND', so that both \
         ends run inside, or run it as root"
    )]
    Unprivileged,
    /// The device of devices is missing or closed to this user.
    #[error("/dev/net/tun cannot be opened ({0}); {help}", help = node_help(.0))]
    Node(#[source] io::Error),
    /// The system makes no namespaces for this user.
    #[error("no network namespace can be made ({source}); {hint}")]
    Namespaces {
        /// What the system says.
        source: io::Error,
        /// What would help.
        hint: String,
    },
    /// 256 links are open, or the host has routes to all of these addresses.
    #[error("all of 10.77.0.0/16 is in use on this machine; --far runs both ends inside, apart from it")]
    Full,
    /// Anything else that the system refuses.
    #[error("{what}: {source}")]
    System {
        /// What does not work.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
}

fn node_help(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "as root, `chmod 0666 /dev/net/tun` opens it to all users, as most systems have it"
        }
        io::ErrorKind::NotFound => {
            "as root, `modprobe tun` brings it (docker: --device /dev/net/tun --cap-add NET_ADMIN)"
        }
        _ => "as root, `modprobe tun` brings what is behind it",
    }
}

/// Takes packets from a device into the link until the tunnel is closed.
fn carry(courier: &Courier, direction: usize, from: &Device, exit: &Exit) {
    let mut buffer = vec![0; LARGEST];
    while !courier.is_stopped() {
        match from.read(&mut buffer) {
            Ok(Some(len)) if packet::is_routed(&buffer[..len]) => {
                let bytes = &buffer[..len];
                courier.take(direction, bytes, packet::ecn(bytes), exit);
            }
            Ok(_) => {}
            // The interface is switched off, or somebody has deleted it.
            Err(_) => thread::sleep(A_WHILE),
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        be_prompt();
        run();
    })
}

/// Lets the calling thread run as soon as it has something to do, as far as the system allows it: timers to
/// the nanosecond instead of 50 µs, and before everything that is not real-time itself, which takes root. The
/// threads of a link are done with a packet in microseconds; a system keeps a share of its time from them.
fn be_prompt() {
    let _ = nix::sys::prctl::set_timerslack(1);
    let round_robin = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::RoundRobin);
    let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, round_robin);
}

fn host(side: TunnelSide) -> u8 {
    match side {
        TunnelSide::Near => NEAR,
        TunnelSide::Far => FAR,
    }
}

const FAR: u8 = 1;
const NEAR: u8 = 2;
const LARGEST: usize = 65_536;
const A_WHILE: std::time::Duration = std::time::Duration::from_millis(50);
