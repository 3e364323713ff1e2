use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use quickset_rfb::Security;
use tokio::net::TcpStream;

/// What a viewer has to show. Where viewers must know a password it is that. Otherwise those on this machine
/// are let in whose connection belongs to the user of this gateway, or to root, who may do all that anyway: a
/// port of the loopback is there for all users of the machine, and stock viewers have nothing else to show.
/// Viewers on other machines come in when the gateway listens to other machines.
pub(super) async fn demand(socket: &TcpStream, password: &Security) -> io::Result<Security> {
    if *password != Security::None {
        return Ok(password.clone());
    }
    let (here, viewer) = (canonical(socket.local_addr()?), canonical(socket.peer_addr()?));
    let whose = tokio::task::spawn_blocking(move || whose(here, viewer)).await.map_err(io::Error::other)?;
    let refuse = |why: &str| {
        tracing::warn!(%viewer, why, "a viewer is refused");
        Ok(Security::Refuse(why.to_owned()))
    };
    match whose {
        Whose::Users { ours, theirs } if theirs == ours || theirs == ROOT => Ok(Security::None),
        Whose::Users { .. } => refuse(ANOTHER_USER),
        Whose::Unknown if viewer.ip().is_loopback() => refuse(NOBODY_KNOWS),
        Whose::Unknown => Ok(Security::None),
    }
}

/// Whether it can be found out here whose a connection is.
pub(super) fn is_known() -> bool {
    cfg!(target_os = "linux")
}

/// To which users the two ends of a connection belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Users { ours: u32, theirs: u32 },
    Unknown,
}

fn whose(here: SocketAddr, viewer: SocketAddr) -> Whose {
    // Of tables that are not there nothing is known. IPv6 first: an IPv4 viewer of a socket of both is in
    // either.
    let tables =
        ["/proc/net/tcp6", "/proc/net/tcp"].map(|path| std::fs::read_to_string(path).unwrap_or_default());
    let user = |near, far| tables.iter().find_map(|table| owner(table, near, far));
    match (user(here, viewer), user(viewer, here)) {
        (Some(ours), Some(theirs)) => Whose::Users { ours, theirs },
        _ => Whose::Unknown,
    }
}

/// The user of the socket at `near` that is connected with `far`, in a table of Linux's (proc_net(5)). Only
/// of one that is open at its end: what was closed is listed as root's for as long as it lingers, and what
/// was sent before it was closed would be taken for root's.
fn owner(table: &str, near: SocketAddr, far: SocketAddr) -> Option<u32> {
    table.lines().skip(1).find_map(|line| {
        // sl local remote st queues timer retransmissions uid timeout inode
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, local, remote, ESTABLISHED, _, _, _, uid, _, inode, ..] = fields[..] else { return None };
        let same = address(local)? == near && address(remote)? == far && inode != "0";
        if same { uid.parse().ok() } else { None }
    })
}

/// `0100007F:1F90` and its like of IPv6: words of the machine's order in network order, and a port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let words = ip.as_bytes().chunks(8);
    let word =
        |word: &[u8]| u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok().map(u32::to_ne_bytes);
    let bytes = words.map(word).collect::<Option<Vec<_>>>()?.concat();
    let ip = match (<[u8; 4]>::try_from(&bytes[..]), <[u8; 16]>::try_from(&bytes[..])) {
        (Ok(ip), _) => IpAddr::V4(Ipv4Addr::from(ip)),
        (_, Ok(ip)) => IpAddr::V6(Ipv6Addr::from(ip)),
        _ => return None,
    };
    Some(canonical(SocketAddr::new(ip, port)))
}

/// Without the scope, which the table does not have, and of IPv4 where it is that.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

const ROOT: u32 = 0;
/// TCP_ESTABLISHED.
const ESTABLISHED: &str = "01";
const ANOTHER_USER: &str = "this desktop is shown to the user who started `quickset desktop view` only; with its option \
                            --viewer-password-file others who know the password come in";
const NOBODY_KNOWS: &str = "it cannot be found out which user this viewer belongs to; start `quickset desktop view` with \
                            --viewer-password-file";

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of a machine of little endian, as proc_net(5) has them.
    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:170D 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 41 1 0 100 0 0 10 0
   1: 0100007F:8235 0100007F:170D 01 00000000:00000000 00:00000000 00000000  1001        0 42 1 0 20 4 30 10 -1
   2: 0100007F:170D 0100007F:8235 01 00000000:00000000 00:00000000 00000000  1000        0 43 1 0 20 4 30 10 -1
   3: 0100007F:8236 0100007F:170D 05 00000000:00000000 00:00000000 00000000     0        0 0 1 0
   4: 0100007F:8237 0100007F:170D 01 00000000:00000000 00:00000000 00000000     0        0 0 1 0
   5: 0000000000000000FFFF00000100007F:8238 0000000000000000FFFF00000100007F:170D 01 0:0 00:0 0  7 0 44 1
   6: 00000000000000000000000001000000:8239 00000000000000000000000001000000:170D 01 0:0 00:0 0  8 0 45 1
   7: nonsense 0100007F:170D 01";

    #[test]
    #[cfg(target_endian = "little")]
    fn the_owner_is_that_of_the_open_end() {
        let at = |ip: &str, port| SocketAddr::new(ip.parse().unwrap(), port);
        let here = at("127.0.0.1", 5901);
        assert_eq!(owner(TABLE, at("127.0.0.1", 0x8235), here), Some(1001));
        assert_eq!(owner(TABLE, here, at("127.0.0.1", 0x8235)), Some(1000));
        assert_eq!(owner(TABLE, at("127.0.0.1", 0x8236), here), None, "it was closed");
        assert_eq!(owner(TABLE, at("127.0.0.1", 0x8237), here), None, "it has no file");
        assert_eq!(owner(TABLE, at("127.0.0.1", 0x8238), here), Some(7), "IPv4 in IPv6");
        assert_eq!(owner(TABLE, at("::1", 0x8239), at("::1", 5901)), Some(8));
        assert_eq!(owner(TABLE, at("127.0.0.2", 0x8235), here), None);
        assert_eq!(owner("", here, here), None);
    }

    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn a_connection_of_ones_own_is_known_until_it_is_closed() {
        for listen in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = tokio::net::TcpListener::bind(listen).await else { continue };
            let mut to = listener.local_addr().unwrap();
            if to.ip().is_unspecified() {
                to.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
            }
            let viewer = TcpStream::connect(to).await.unwrap();
            let (socket, _) = listener.accept().await.unwrap();
            assert_eq!(demand(&socket, &Security::None).await.unwrap(), Security::None, "{listen}");
            drop(viewer);
            let refused = demand(&socket, &Security::None).await.unwrap();
            assert!(
                matches!(refused, Security::Refuse(_)),
                "{listen}: what was said before it closed is not heard"
            );
        }
    }
}
