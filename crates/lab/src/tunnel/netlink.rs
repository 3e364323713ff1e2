//! The few words of rtnetlink(7) that set up an interface: the socket stays with the namespace in which it
//! was opened, whichever the thread is in later.

use std::io::{self, Read as _, Write as _};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use socket2::{Domain, Protocol, Socket, Type};

/// A conversation with the kernel about the interfaces of one network namespace.
#[derive(Debug)]
pub(crate) struct Netlink(Mutex<Socket>);

impl Netlink {
    /// In the namespace of the calling thread.
    pub(crate) fn open() -> io::Result<Self> {
        let socket = Socket::new(Domain::from(AF_NETLINK), Type::RAW, Some(Protocol::from(NETLINK_ROUTE)))?;
        Ok(Self(Mutex::new(socket)))
    }

    /// The index of the interface with this name.
    pub(crate) fn index(&self, name: &str) -> io::Result<u32> {
        let mut ask = Message::new(RTM_GETLINK, 0);
        ask.link(0, 0).attribute(IFLA_IFNAME, &[name.as_bytes(), &[0]].concat());
        // Behind the header of 16 bytes: family and type in four, then the index.
        let answer = self.ask(&ask)?;
        read_u32(&answer, HEADER + 4).ok_or_else(short)
    }

    /// Switches an interface on, with the largest packet and the queue in packets if they are given.
    pub(crate) fn up(&self, index: u32, size: Option<(u32, u32)>) -> io::Result<()> {
        let mut change = Message::new(RTM_NEWLINK, 0);
        change.link(index, IFF_UP);
        if let Some((mtu, queue)) = size {
            change.attribute(IFLA_MTU, &mtu.to_ne_bytes()).attribute(IFLA_TXQLEN, &queue.to_ne_bytes());
        }
        self.tell(&change)
    }

    /// Gives an interface an address in a network of `prefix` bits.
    pub(crate) fn address(&self, index: u32, address: IpAddr, prefix: u8) -> io::Result<()> {
        let mut add = Message::new(RTM_NEWADDR, CREATE);
        // No look for duplicates: there is nobody else on the wire, and it would take a second.
        add.bytes(&[family(address), prefix, IFA_F_NODAD, SCOPE_UNIVERSE]).bytes(&index.to_ne_bytes());
        match address {
            IpAddr::V4(v4) => {
                add.attribute(IFA_LOCAL, &v4.octets()).attribute(IFA_ADDRESS, &v4.octets());
            }
            IpAddr::V6(v6) => {
                add.attribute(IFA_ADDRESS, &v6.octets());
            }
        }
        self.tell(&add)
    }

    /// Routes everything to `gateway`, a neighbour on the interface.
    pub(crate) fn default_route(&self, index: u32, gateway: IpAddr) -> io::Result<()> {
        let mut add = Message::new(RTM_NEWROUTE, CREATE);
        add.bytes(&[family(gateway), 0, 0, 0, TABLE_MAIN, PROTOCOL_STATIC, SCOPE_UNIVERSE, UNICAST]);
        add.bytes(&0u32.to_ne_bytes());
        match gateway {
            IpAddr::V4(v4) => add.attribute(RTA_GATEWAY, &v4.octets()),
            IpAddr::V6(v6) => add.attribute(RTA_GATEWAY, &v6.octets()),
        };
        add.attribute(RTA_OIF, &index.to_ne_bytes());
        self.tell(&add)
    }

    /// Whether packets to this address arrive here: an address of IPv6 is there a little before its route is.
    pub(crate) fn is_local(&self, address: IpAddr) -> io::Result<bool> {
        let mut ask = Message::new(RTM_GETROUTE, 0);
        match address {
            IpAddr::V4(v4) => ask.bytes(&[AF_INET, 32]).bytes(&[0; 10]).attribute(RTA_DST, &v4.octets()),
            IpAddr::V6(v6) => ask.bytes(&[AF_INET6, 128]).bytes(&[0; 10]).attribute(RTA_DST, &v6.octets()),
        };
        let answer = self.ask(&ask)?;
        Ok(*answer.get(HEADER + ROUTE_TYPE).ok_or_else(short)? == LOCAL)
    }

    /// Packets that an interface could not hand over, because nobody had read those before.
    pub(crate) fn dropped(&self, index: u32) -> io::Result<u64> {
        let mut ask = Message::new(RTM_GETLINK, 0);
        ask.link(index, 0);
        let answer = self.ask(&ask)?;
        let statistics = attribute(&answer, HEADER + LINK, IFLA_STATS64).ok_or_else(short)?;
        let dropped = statistics.get(TX_DROPPED..TX_DROPPED + 8).ok_or_else(short)?;
        Ok(u64::from_ne_bytes(dropped.try_into().expect("eight bytes were taken")))
    }

    fn tell(&self, message: &Message) -> io::Result<()> {
        self.ask(message).map(drop)
    }

    /// Sends a request; returns the kernel's answer, its header included.
    fn ask(&self, message: &Message) -> io::Result<Vec<u8>> {
        let mut socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = message.0.clone();
        let len = bytes.len() as u32;
        bytes[..4].copy_from_slice(&len.to_ne_bytes());
        socket.write_all(&bytes)?;
        let mut answer = vec![0; ANSWER];
        let len = socket.read(&mut answer)?;
        answer.truncate(len);
        let kind = answer.get(4..6).ok_or_else(short)?;
        if u16::from_ne_bytes([kind[0], kind[1]]) != NLMSG_ERROR {
            // What was asked for comes alone: no acknowledgement was asked for then.
            return Ok(answer);
        }
        // An error is the negative of its number.
        match read_u32(&answer, HEADER).ok_or_else(short)?.wrapping_neg() {
            0 => Ok(answer),
            errno => Err(i32::try_from(errno).map_or_else(|_| short(), io::Error::from_raw_os_error)),
        }
    }
}

/// A request as it grows; its length is filled in last.
struct Message(Vec<u8>);

impl Message {
    fn new(kind: u16, flags: u16) -> Self {
        let mut message = Self(vec![0; 4]);
        let acknowledge = if matches!(kind, RTM_GETLINK | RTM_GETROUTE) { 0 } else { ACK };
        message.bytes(&kind.to_ne_bytes()).bytes(&(REQUEST | acknowledge | flags).to_ne_bytes());
        // Sequence number and sender: one question at a time needs neither.
        message.bytes(&[0; 8]);
        message
    }

    /// The body of requests about an interface, which changes just `flags`.
    fn link(&mut self, index: u32, flags: u32) -> &mut Self {
        self.bytes(&[0; 4])
            .bytes(&index.to_ne_bytes())
            .bytes(&flags.to_ne_bytes())
            .bytes(&flags.to_ne_bytes())
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Length, kind and value, filled up to a multiple of four.
    fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        self.bytes(&(4 + value.len() as u16).to_ne_bytes()).bytes(&kind.to_ne_bytes()).bytes(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }
}

/// The value of the first attribute of this kind from `at` on.
fn attribute(message: &[u8], mut at: usize, wanted: u16) -> Option<&[u8]> {
    loop {
        let head: [u8; 4] = message.get(at..at + 4)?.try_into().ok()?;
        let len = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        if u16::from_ne_bytes([head[2], head[3]]) == wanted {
            return message.get(at + 4..at + len);
        }
        at += len.max(4).next_multiple_of(4);
    }
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { AF_INET } else { AF_INET6 }
}

fn short() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer about an interface is too short")
}

// <linux/netlink.h>, <linux/rtnetlink.h>, <linux/if_link.h>, <linux/if_addr.h>
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const AF_NETLINK: i32 = 16;
const NETLINK_ROUTE: i32 = 0;
const NLMSG_ERROR: u16 = 2;
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const REQUEST: u16 = 1;
const ACK: u16 = 4;
/// NLM_F_CREATE and NLM_F_EXCL.
const CREATE: u16 = 0x600;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_TXQLEN: u16 = 13;
const IFLA_STATS64: u16 = 23;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const IFF_UP: u32 = 1;
const IFA_F_NODAD: u8 = 2;
const SCOPE_UNIVERSE: u8 = 0;
const TABLE_MAIN: u8 = 254;
const PROTOCOL_STATIC: u8 = 4;
const UNICAST: u8 = 1;
const LOCAL: u8 = 2;
/// Bytes of struct nlmsghdr and of struct ifinfomsg.
const HEADER: usize = 16;
const LINK: usize = 16;
/// In struct rtmsg.
const ROUTE_TYPE: usize = 7;
/// In struct rtnl_link_stats64: packets and bytes both ways, errors both ways, received drops come first.
const TX_DROPPED: usize = 7 * 8;
/// An answer about one interface takes some 2 kB.
const ANSWER: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_found_and_an_unknown_one_is_not() {
        let netlink = Netlink::open().unwrap();
        let index = netlink.index("lo").unwrap();
        let told = std::fs::read_to_string("/sys/class/net/lo/ifindex").unwrap();
        assert_eq!(told.trim(), index.to_string());
        assert!(netlink.dropped(index).is_ok());
        assert_eq!(netlink.index("quickset-none").unwrap_err().raw_os_error(), Some(19), "ENODEV");
    }

    #[test]
    fn local_addresses_are_told_from_others() {
        let netlink = Netlink::open().unwrap();
        assert!(netlink.is_local("127.0.0.1".parse().unwrap()).unwrap());
        // There is no way to it, or there is one, but it does not end here.
        assert!(!netlink.is_local("192.0.2.77".parse().unwrap()).unwrap_or(false));
    }

    #[test]
    fn attributes_are_written_as_they_are_read() {
        let mut message = Message::new(RTM_NEWLINK, 0);
        message.attribute(IFLA_IFNAME, b"abcde\0").attribute(IFLA_MTU, &7u32.to_ne_bytes());
        assert_eq!(message.0.len() % 4, 0);
        assert_eq!(attribute(&message.0, HEADER, IFLA_MTU), Some(&7u32.to_ne_bytes()[..]));
        assert_eq!(attribute(&message.0, HEADER, IFLA_IFNAME), Some(&b"abcde\0"[..]));
        assert_eq!(attribute(&message.0, HEADER, IFLA_STATS64), None);
        // A length of nothing must not stand still.
        assert_eq!(attribute(&[0; 64], 0, IFLA_MTU), None);
        assert_eq!(attribute(&[255; 64], 0, IFLA_MTU), None);
    }
}
