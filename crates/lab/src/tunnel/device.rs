use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use quickset_base::Ecn;
use tun_rs::{DeviceBuilder, SyncDevice};

use super::TunnelError;
use super::netlink::Netlink;
use super::packet::mark;
use crate::relay::courier::PacketSink;

/// A TUN device: what the system routes to it can be read, what is written to it arrives at the system. It
/// belongs to the namespace in which it was opened, and goes when it is dropped or the process ends.
pub(crate) struct Device {
    tun: SyncDevice,
    netlink: Netlink,
    index: u32,
}

impl Device {
    /// In the namespace of the calling thread; not switched on yet.
    pub(crate) fn open() -> Result<Self, TunnelError> {
        // Tried by ourselves first: tun-rs would make a node that is missing.
        OpenOptions::new().read(true).write(true).open(NODE).map_err(TunnelError::Node)?;
        let system = |what| move |source| TunnelError::System { what, source };
        // The kernel fills in the number.
        let tun = DeviceBuilder::new()
            .name("quickset%d")
            .with(|options| {
                options.packet_information(false);
            })
            .enable(false)
            .build_sync()
            .map_err(system(
                "a TUN device cannot be made (in a container it takes the capability NET_ADMIN)",
            ))?;
        tun.set_nonblocking(true).map_err(system("the TUN device always blocks"))?;
        let netlink = Netlink::open().map_err(system("the kernel does not talk about interfaces"))?;
        let name = tun.name().map_err(system("the TUN device has no name"))?;
        let index = netlink.index(&name).map_err(system("the TUN device cannot be found"))?;
        Ok(Self { tun, netlink, index })
    }

    /// Gives the device its address and switches it on.
    pub(crate) fn start(&self, mtu: u32, address: IpAddr) -> io::Result<()> {
        self.netlink.up(self.index, Some((mtu, QUEUE)))?;
        self.netlink.address(self.index, address, 24)
    }

    /// A further address, in a network of its own. Packets to it arrive from now on.
    pub(crate) fn add(&self, address: IpAddr, prefix: u8) -> io::Result<()> {
        self.netlink.address(self.index, address, prefix)?;
        let until = Instant::now() + SETTLING;
        while !self.netlink.is_local(address).unwrap_or(false) {
            if Instant::now() > until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Sends everything that has no other way through this device.
    pub(crate) fn is_way_out(&self, gateway: IpAddr) -> io::Result<()> {
        self.netlink.default_route(self.index, gateway)
    }

    /// Packets for this device that the system dropped before they could be read.
    pub(crate) fn overruns(&self) -> io::Result<u64> {
        self.netlink.dropped(self.index)
    }

    /// Reads a packet; none when a while has passed without.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.tun.recv(buffer) {
                Ok(len) => return Ok(Some(len)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            let mut ready = [PollFd::new(self.tun.as_fd(), PollFlags::POLLIN)];
            match poll(&mut ready, PollTimeout::from(PATIENCE_MS)) {
                Ok(0) | Err(nix::Error::EINTR) => return Ok(None),
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl PacketSink for Device {
    fn write(&self, packet: &[u8]) -> io::Result<usize> {
        self.tun.send(packet)
    }

    fn mark(&self, packet: &mut [u8], ecn: Ecn) {
        mark(packet, ecn);
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("index", &self.index).finish_non_exhaustive()
    }
}

/// Switches on the loopback interface of the calling thread's namespace.
pub(crate) fn start_loopback() -> io::Result<()> {
    let netlink = Netlink::open()?;
    netlink.up(netlink.index("lo")?, None)
}

const NODE: &str = "/dev/net/tun";
/// How long a reader waits before it looks whether the tunnel is closed.
const PATIENCE_MS: u8 = 50;
/// How long a system may take until an address that it has accepted works.
const SETTLING: Duration = Duration::from_secs(1);
/// Packets that wait for their reader: half a second at 100 Mbit/s, or a burst of a whole send buffer.
const QUEUE: u32 = 4096;
