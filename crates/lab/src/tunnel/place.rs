use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The addresses of a tunnel: 10.77.N.0/24 and fd77:0:0:N::/64, where the host is 1 and the program 2.
#[derive(Debug)]
pub(crate) struct TunnelAddresses {
    number: u8,
    /// As long as this is bound no other tunnel takes the number. Such names are per network namespace, and
    /// the system frees them when a process ends in whatever way.
    _claim: Option<UnixDatagram>,
}

impl TunnelAddresses {
    /// The first that is free in the namespace of the calling thread; none when all are in use.
    pub(crate) fn find() -> io::Result<Option<Self>> {
        let taken = networks(&fs::read_to_string("/proc/thread-self/net/route")?);
        for number in 0..=u8::MAX {
            let network = u32::from(Ipv4Addr::new(10, 77, number, 0));
            if taken.iter().any(|(address, mask)| (address ^ network) & mask & SLASH_24 == 0) {
                continue;
            }
            let name = SocketAddr::from_abstract_name(format!("quickset-link-10.77.{number}"))?;
            match UnixDatagram::bind_addr(&name) {
                Ok(claim) => return Ok(Some(Self { number, _claim: Some(claim) })),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The first, for namespaces that nobody else is in.
    pub(crate) fn first() -> Self {
        Self { number: 0, _claim: None }
    }

    pub(crate) fn v4(&self, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.number, host)
    }

    pub(crate) fn v6(&self, host: u8) -> Ipv6Addr {
        Ipv6Addr::new(0xfd77, 0, 0, self.number.into(), 0, 0, 0, host.into())
    }
}

/// Addresses and masks of the routes of this file: columns 2 and 8 in hexadecimal, as the bytes lie in
/// memory. Not those to half the world or more than a /16, within which we may well take a place.
fn networks(routes: &str) -> Vec<(u32, u32)> {
    let row = |line: &str| {
        let number = |column| {
            let text = line.split_whitespace().nth(column)?;
            Some(u32::from_be_bytes(u32::from_str_radix(text, 16).ok()?.to_ne_bytes()))
        };
        Some((number(1)?, number(7)?))
    };
    routes.lines().skip(1).filter_map(row).filter(|(_, mask)| mask.leading_ones() >= 16).collect()
}

const SLASH_24: u32 = 0xffff_ff00;

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_endian = "little")]
    #[test]
    fn routes_are_read() {
        let routes = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                      eth0\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                      eth0\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
                      vpn\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n\
                      q\t00034D0A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        assert_eq!(networks(routes), [(0xc0a8_0000, 0xffff_ff00), (0x0a4d_0300, 0xffff_ff00)]);
    }

    #[test]
    fn two_never_have_the_same_place() {
        let [one, two] = [(); 2].map(|()| TunnelAddresses::find().unwrap().unwrap());
        assert_ne!(one.number, two.number);
        // There are 256, whoever else runs links at this moment: what is let go is free again.
        for _ in 0..300 {
            assert_ne!(TunnelAddresses::find().unwrap().unwrap().number, two.number);
        }
        assert_eq!(TunnelAddresses::first().v6(2).to_string(), "fd77::2");
    }
}
