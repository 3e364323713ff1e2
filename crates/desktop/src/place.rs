use std::io;
use std::net::SocketAddr;

/// The host of HOST:PORT, an address of IPv6 without its brackets, and the port.
///
/// # Errors
/// When it is no such place.
pub(crate) fn split(place: &str) -> io::Result<(&str, u16)> {
    let form = || io::Error::new(io::ErrorKind::InvalidInput, format!("{place} is not HOST:PORT"));
    let (host, port) = place.rsplit_once(':').ok_or_else(form)?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Ok((host, port.parse().map_err(|_| form())?))
}

/// All addresses of HOST:PORT, the one that was good the last time first.
///
/// Only without its brackets the system takes an address of IPv6 with a zone that has a name.
///
/// # Errors
/// When it has none, or nobody can be asked.
pub(crate) async fn look_up(place: &str, last: Option<SocketAddr>) -> io::Result<Vec<SocketAddr>> {
    let found = tokio::net::lookup_host(split(place)?).await?.collect();
    in_turn(found, last)
}

fn in_turn(mut found: Vec<SocketAddr>, last: Option<SocketAddr>) -> io::Result<Vec<SocketAddr>> {
    if found.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    // The others stay in the order of the system, which knows what it prefers.
    found.sort_by_key(|address| Some(*address) != last);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_told_from_ports() {
        for (place, host, port) in [
            ("host:1", "host", 1),
            ("192.0.2.7:65535", "192.0.2.7", 65535),
            ("[2001:db8::7]:4433", "2001:db8::7", 4433),
            ("[fe80::1%eth0]:4433", "fe80::1%eth0", 4433),
        ] {
            assert_eq!(split(place).unwrap(), (host, port));
        }
        for bad in ["host", "host:", "host:65536", ""] {
            assert!(split(bad).unwrap_err().to_string().contains("HOST:PORT"), "{bad}");
        }
    }

    #[test]
    fn what_was_good_the_last_time_comes_first() {
        let [a, b, c] = [1, 2, 3].map(|n| SocketAddr::from(([192, 0, 2, n], 4433)));
        assert_eq!(in_turn(vec![a, b, c], None).unwrap(), [a, b, c]);
        assert_eq!(in_turn(vec![a, b, c], Some(c)).unwrap(), [c, a, b]);
        assert_eq!(in_turn(vec![a, b], Some(c)).unwrap(), [a, b], "it is not its address any more");
        assert!(in_turn(Vec::new(), Some(c)).is_err());
    }

    #[tokio::test]
    async fn a_zone_has_a_name_or_a_number() {
        for zone in ["1", if cfg!(target_os = "linux") { "lo" } else { "1" }] {
            let found = look_up(&format!("[fe80::1%{zone}]:7"), None).await.unwrap();
            let SocketAddr::V6(address) = found[0] else { panic!("{found:?}") };
            assert_eq!((address.port(), address.scope_id()), (7, 1));
        }
    }
}
