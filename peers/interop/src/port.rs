//! A UDP socket that shows and sets marks of congestion.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;

use anyhow::Result;
use quickset_base::Ecn;
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use tokio::io::Interest;
use tokio::net::UdpSocket;

pub(crate) struct Port {
    io: UdpSocket,
    state: UdpSocketState,
    address: SocketAddr,
}

/// One datagram, as it came.
pub(crate) struct Arrival {
    pub(crate) from: SocketAddr,
    pub(crate) ecn: Ecn,
    pub(crate) bytes: Vec<u8>,
}

impl Port {
    pub(crate) fn bind(address: SocketAddr) -> Result<Self> {
        let domain = socket2::Domain::for_address(address);
        let socket = socket2::Socket::new(domain, socket2::Type::DGRAM, Some(socket2::Protocol::UDP))?;
        // Bursts of all stacks fit; losses are for the link to decide.
        socket.set_recv_buffer_size(4 << 20)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        let socket = std::net::UdpSocket::from(socket);
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let io = UdpSocket::from_std(socket)?;
        let address = io.local_addr()?;
        Ok(Self { io, state, address })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for datagrams and puts them behind those that `into` holds.
    pub(crate) async fn receive(&self, into: &mut Vec<Arrival>) -> Result<()> {
        let mut buffer = vec![0; 1 << 16];
        loop {
            self.io.readable().await?;
            let mut metas = [RecvMeta::default()];
            let received = self.io.try_io(Interest::READABLE, || {
                self.state.recv(UdpSockRef::from(&self.io), &mut [IoSliceMut::new(&mut buffer)], &mut metas)
            });
            let meta = &metas[0];
            match received {
                Ok(_) => {
                    // What the system joined is taken apart again.
                    let ecn = meta.ecn.map_or(Ecn::NotEct, |ecn| Ecn::from_bits(ecn as u8));
                    let datagrams = buffer[..meta.len].chunks(meta.stride.max(1));
                    into.extend(datagrams.map(|d| Arrival { from: meta.addr, ecn, bytes: d.to_vec() }));
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // An earlier datagram found nobody (ICMP): that is no trouble of this socket.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends one datagram; what the system does not take is lost, as on any path.
    pub(crate) async fn send(&self, to: SocketAddr, ecn: Ecn, contents: &[u8]) {
        let transmit = Transmit {
            destination: to,
            ecn: EcnCodepoint::from_bits(ecn.bits()),
            contents,
            segment_size: None,
            src_ip: None,
        };
        loop {
            let sent = self
                .io
                .try_io(Interest::WRITABLE, || self.state.try_send(UdpSockRef::from(&self.io), &transmit));
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.io.writable().await.is_err() {
                        return;
                    }
                }
                _ => return,
            }
        }
    }
}
