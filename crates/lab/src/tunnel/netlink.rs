//! The few words of rtnetlink(7) that set up an interface: the socket stays with the namespace in which it
//! was opened, whichever the thread is in later.

use std::io::{self, Read as _, Write as _};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage as Message};
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
        let mut link = LinkMessage::default();
        link.attributes.push(LinkAttribute::IfName(name.to_owned()));
        Ok(self.link(link)?.header.index)
    }

    /// Switches an interface on, with the largest packet and the queue in packets if they are given.
    pub(crate) fn up(&self, index: u32, size: Option<(u32, u32)>) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        (link.header.flags, link.header.change_mask) = (LinkFlags::Up, LinkFlags::Up);
        if let Some((mtu, queue)) = size {
            link.attributes.extend([LinkAttribute::Mtu(mtu), LinkAttribute::TxQueueLen(queue)]);
        }
        self.tell(Message::SetLink(link), 0)
    }

    /// Gives an interface an address in a network of `prefix` bits.
    pub(crate) fn address(&self, index: u32, address: IpAddr, prefix: u8) -> io::Result<()> {
        let mut add = AddressMessage::default();
        (add.header.family, add.header.prefix_len, add.header.index) = (family(address), prefix, index);
        // No look for duplicates: there is nobody else on the wire, and it would take a second.
        add.header.flags = AddressHeaderFlags::Nodad;
        if address.is_ipv4() {
            add.attributes.push(AddressAttribute::Local(address));
        }
        add.attributes.push(AddressAttribute::Address(address));
        self.tell(Message::NewAddress(add), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Routes everything to `gateway`, a neighbour on the interface.
    pub(crate) fn default_route(&self, index: u32, gateway: IpAddr) -> io::Result<()> {
        let mut add = RouteMessage::default();
        add.header = RouteHeader {
            address_family: family(gateway),
            table: RouteHeader::RT_TABLE_MAIN,
            protocol: RouteProtocol::Static,
            scope: RouteScope::Universe,
            kind: RouteType::Unicast,
            ..RouteHeader::default()
        };
        add.attributes.extend([RouteAttribute::Gateway(gateway.into()), RouteAttribute::Oif(index)]);
        self.tell(Message::NewRoute(add), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Whether packets to this address arrive here: an address of IPv6 is there a little before its route is.
    pub(crate) fn is_local(&self, address: IpAddr) -> io::Result<bool> {
        let mut ask = RouteMessage::default();
        ask.header.address_family = family(address);
        ask.header.destination_prefix_length = if address.is_ipv4() { 32 } else { 128 };
        ask.attributes.push(RouteAttribute::Destination(address.into()));
        match self.ask(Message::GetRoute(ask), 0)? {
            Some(Message::NewRoute(route)) => Ok(route.header.kind == RouteType::Local),
            _ => Err(unclear()),
        }
    }

    /// Packets that an interface could not hand over, because nobody had read those before.
    pub(crate) fn dropped(&self, index: u32) -> io::Result<u64> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        let told = self.link(link)?.attributes.into_iter().find_map(|attribute| match attribute {
            LinkAttribute::Stats64(stats) => Some(stats.tx_dropped),
            _ => None,
        });
        told.ok_or_else(unclear)
    }

    fn link(&self, asked: LinkMessage) -> io::Result<LinkMessage> {
        match self.ask(Message::GetLink(asked), 0)? {
            Some(Message::NewLink(link)) => Ok(link),
            _ => Err(unclear()),
        }
    }

    fn tell(&self, message: Message, flags: u16) -> io::Result<()> {
        self.ask(message, NLM_F_ACK | flags).map(drop)
    }

    /// Sends a request; returns the kernel's answer, or nothing where it just did it. What is asked for comes
    /// alone: no acknowledgement is asked for then.
    fn ask(&self, message: Message, flags: u16) -> io::Result<Option<Message>> {
        let mut socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Sequence number and sender: one question at a time needs neither.
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        socket.write_all(&bytes)?;
        let mut answer = vec![0; ANSWER];
        let len = socket.read(&mut answer)?;
        let answer = NetlinkMessage::deserialize(&answer[..len])
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        match answer.payload {
            NetlinkPayload::InnerMessage(message) => Ok(Some(message)),
            NetlinkPayload::Error(error) if error.code.is_some() => Err(error.to_io()),
            _ => Ok(None),
        }
    }
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

fn unclear() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the kernel's answer about an interface is not what was asked for",
    )
}

// <linux/netlink.h>, <sys/socket.h>
const AF_NETLINK: i32 = 16;
const NETLINK_ROUTE: i32 = 0;

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
}
