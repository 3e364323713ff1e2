//! The error queue of a socket (IP_RECVERR of ip(7)), without unsafe code.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use nix::libc::{SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};

use crate::socket::UndeliveredDatagram;

/// Takes an error out of the queue, and tells of it if it is the network's.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] when there is none.
pub(crate) fn next_error(
    socket: &UdpSocket,
    tell: &mut dyn FnMut(UndeliveredDatagram<'_>),
) -> io::Result<()> {
    let (mut quoted, mut control) = ([0; QUOTED], [0; CONTROL]);
    let mut buffers = [IoSliceMut::new(&mut quoted)];
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let read = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut buffers, Some(&mut control), flags);
    // Whatever else it says, there is nothing to read now.
    let Ok(read) = read else { return Err(io::ErrorKind::WouldBlock.into()) };
    let (len, remote) = (read.bytes, read.address.as_ref().and_then(inet));
    let code = read.cmsgs().ok().and_then(|mut all| {
        all.find_map(|message| match message {
            ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _) => {
                let from_network = [SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6].contains(&error.ee_origin);
                from_network.then_some(error.ee_errno)
            }
            _ => None,
        })
    });
    if let (Some(remote), Some(code)) = (remote, code.and_then(|code| i32::try_from(code).ok())) {
        let error = &io::Error::from_raw_os_error(code);
        tell(UndeliveredDatagram { remote, error, quoted: &quoted[..len.min(QUOTED)] });
    }
    Ok(())
}

fn inet(address: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = address.as_sockaddr_in().map(|v4| SocketAddr::V4((*v4).into()));
    v4.or_else(|| address.as_sockaddr_in6().map(|v6| SocketAddr::V6((*v6).into())))
}

/// As much of a datagram as says whose it is.
const QUOTED: usize = 64;
/// Room for what may come with it: the error and who said so, the address and the mark.
const CONTROL: usize = 256;
