//! Arguments with units.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

use quickset::{
    AckPolicy, AckPolicyError, Algorithm, AlgorithmError, GroupError, KeyGroup, Protection, TransportConfig,
};
use quickset_sim::{LinkQueue, units};

/// A duration above zero, like `50ms`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    match units::duration(text) {
        Ok(Duration::ZERO) => Err("it must be above zero, like 50ms".to_owned()),
        other => other.map_err(|error| error.to_string()),
    }
}

/// A place to connect to, with its port: `HOST:PORT`, or without the port where there is a usual one. The
/// host is a name or an address; one of IPv6 may have a zone, and gets brackets.
pub(crate) fn place(text: &str, usual: Option<u16>) -> Result<String, String> {
    let form = match usual {
        Some(_) => "write HOST or HOST:PORT, like 192.0.2.7:4433 or [2001:db8::7]:4433",
        None => "write HOST:PORT, like 192.0.2.7:4433 or [2001:db8::7]:4433",
    };
    let (host, port) = if is_v6(text) {
        (text, None)
    } else if let Some((host, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let port = if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or(form)?) };
        if !is_v6(host) {
            return Err(format!("{host} is no address of IPv6; {form}"));
        }
        (host, port)
    } else {
        text.rsplit_once(':').map_or((text, None), |(host, port)| (host, Some(port)))
    };
    let strange = |c: char| c.is_whitespace() || c.is_control() || "[]:/%@".contains(c);
    if !is_v6(host) && (host.is_empty() || host.contains(strange)) {
        return Err(form.to_owned());
    }
    let port = match port.map(str::parse) {
        Some(Ok(0) | Err(_)) => return Err("a port is a number from 1 to 65535".to_owned()),
        Some(Ok(port)) => port,
        None => usual.ok_or(form)?,
    };
    Ok(if is_v6(host) { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
}

/// An address and a port to listen on; an address of IPv6 may have a zone, by the name of an interface or its
/// number.
pub(crate) fn listening(text: &str) -> Result<SocketAddr, String> {
    let form = "write ADDRESS:PORT, like 127.0.0.1:4433, [::]:4433 or [fe80::1%eth0]:4433";
    let named = |text: &str| {
        // No name is looked up but that of an interface.
        let (host, port) = text.strip_prefix('[')?.split_once("]:").filter(|(host, _)| is_v6(host))?;
        let mut found = (host, port.parse().ok()?).to_socket_addrs().ok()?;
        found.next()
    };
    text.parse().ok().or_else(|| named(text)).ok_or_else(|| form.to_owned())
}

/// An address of IPv6, perhaps with the zone that it is of.
fn is_v6(text: &str) -> bool {
    let (address, zone) = text.split_once('%').map_or((text, None), |(address, zone)| (address, Some(zone)));
    address.parse::<std::net::Ipv6Addr>().is_ok()
        && zone.is_none_or(|zone| !zone.is_empty() && zone.bytes().all(|b| b.is_ascii_graphic() && b != b'%'))
}

/// A transport whose peer may be silent for so long; for the first answer it has no more time than usual.
pub(crate) fn patient(transport: TransportConfig, silence: Duration) -> TransportConfig {
    let handshake_timeout = transport.handshake_timeout.min(silence);
    transport.with_idle_timeout(silence).with_handshake_timeout(handshake_timeout)
}

/// A rate to stay below, like `5mbit`: at least what a desktop is of any use with.
pub(crate) fn most_rate(text: &str) -> Result<u64, String> {
    match units::rate(text).map_err(|error| error.to_string())? {
        0..LEAST_RATE => Err("no desktop is of use with less than 100kbit".to_owned()),
        rate => Ok(rate),
    }
}

const LEAST_RATE: u64 = 100_000;

/// A number of bytes, like `1GB`.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    units::size(text).map_err(|error| error.to_string())
}

/// An amount of memory, like `256M`: K, M and G are powers of 1024, as systems count memory.
pub(crate) fn memory(text: &str) -> Result<u64, String> {
    let short = text.trim().strip_suffix(['K', 'M', 'G', 'T']).filter(|number| !number.is_empty());
    let bytes = match short {
        Some(number) if text.trim().ends_with('T') => size(&format!("{number}GiB"))?.saturating_mul(1024),
        Some(_) => size(&format!("{}iB", text.trim()))?,
        None => size(text)?,
    };
    if bytes < LEAST_MEMORY {
        return Err("a server needs 16M at least, to have something for several clients".to_owned());
    }
    Ok(bytes)
}

/// Below this, a few connections would leave nothing for the next.
const LEAST_MEMORY: u64 = 16 << 20;

/// Seconds, up to an hour: a number, with decimals or without.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is not a number of seconds, like 16".to_owned())?;
    if (0.1..=3600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("write 0.1 to 3600 seconds".to_owned())
    }
}

/// A queue that takes a packet of 1500 bytes, like `9MB`.
pub(crate) fn queue(text: &str) -> Result<LinkQueue, String> {
    let queue: LinkQueue = text.parse().map_err(|error: units::UnitError| error.to_string())?;
    let room = match &queue {
        LinkQueue::Bytes(bytes) => *bytes,
        LinkQueue::Mark(mark) => mark.limit,
        LinkQueue::Red(red) => red.limit,
        LinkQueue::CoDel(codel) => codel.limit,
        LinkQueue::Packets(0) => 0,
        // One of so long a time takes at least one packet.
        LinkQueue::Packets(_) | LinkQueue::Time(_) | LinkQueue::Unlimited => u64::MAX,
    };
    if room < PACKET {
        return Err(format!("it takes no packet of {PACKET} bytes; write at least {PACKET}B, like 9MB"));
    }
    Ok(queue)
}

/// The largest packet on the links of the demonstration, headers included.
const PACKET: u64 = 1500;

/// What [`congestion`] takes, for the help of its options.
pub(crate) fn controllers() -> String {
    format!("Congestion controller: {}", Algorithm::FORMS)
}

/// The same where there is TCP beside QUIC.
pub(crate) fn http_controllers() -> String {
    format!(
        "{}. HTTP/3 has cubic without it; a server has TCP use it, too, where the system (Linux) can [default: cubic, and for TCP what the system has]",
        controllers()
    )
}

/// A congestion controller.
pub(crate) fn congestion(text: &str) -> Result<Algorithm, String> {
    text.parse().map_err(|error: AlgorithmError| error.to_string())
}

/// How many cores a server of QUIC works on.
#[derive(Debug, clap::Args)]
pub(crate) struct CoresArgs {
    /// Cores that serve QUIC, each with a socket of its own on the port; which of them has a client is in the
    /// connection ids [default: as many as this process may use]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1024))]
    cores: Option<u16>,
}

impl CoresArgs {
    /// Sockets, of which 0 are one for each core.
    pub(crate) fn sockets(&self) -> usize {
        self.cores.map_or(0, usize::from)
    }
}

/// How to acknowledge: `2:adaptive:merged`.
pub(crate) fn acks(text: &str) -> Result<AckPolicy, String> {
    text.parse().map_err(|error: AckPolicyError| error.to_string())
}

/// A group that keys are exchanged by: `x25519`.
pub(crate) fn group(text: &str) -> Result<KeyGroup, String> {
    text.parse().map_err(|error: GroupError| error.to_string())
}

/// The help of an option that names a protection: what it is for, the names, and what else there is to say.
pub(crate) fn protections(what: &str, more: &str) -> String {
    format!("{what}, by any of: {}{more}", quickset_policies::FORMS)
}

/// A protection against loss: `none`, `adaptive`, `rs:105/100`.
pub(crate) fn protection(text: &str) -> Result<Protection, String> {
    quickset_policies::read(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use quickset_policies::PublishedPolicy;

    use super::*;

    #[test]
    fn ports_are_filled_in_and_impossible_ones_refused() {
        for (given, full) in [
            ("host", "host:5900"),
            ("host:1", "host:1"),
            ("[::1]:2", "[::1]:2"),
            ("[::1]", "[::1]:5900"),
            ("::1", "[::1]:5900"),
            ("1.2.3.4", "1.2.3.4:5900"),
            ("1.2.3.4:65535", "1.2.3.4:65535"),
            ("fe80::1%eth0", "[fe80::1%eth0]:5900"),
            ("[fe80::1%3]:7", "[fe80::1%3]:7"),
        ] {
            assert_eq!(place(given, Some(5900)).as_deref(), Ok(full));
            let without = if given == full { Ok(full) } else { Err(()) };
            assert_eq!(
                place(given, None).as_deref().map_err(|_| ()),
                without,
                "{given} without a usual port"
            );
        }
        for port in ["host:", "host:0", "host:65536", "host:99999", "[::1]:", "host:http", "host:-1"] {
            assert!(place(port, Some(1)).unwrap_err().contains("1 to 65535"), "{port}");
        }
        for form in [
            "",
            ":5",
            "[::1",
            "[::1]5",
            "[host]:5",
            "1:2:3",
            "fe80::1%",
            "[fe80::1%]:4",
            "a b:5",
            "h%0:5",
            "u@h",
            "h/x",
        ] {
            assert!(place(form, Some(1)).unwrap_err().contains("write HOST"), "{form}");
        }
    }

    #[test]
    fn values_are_read_with_their_units() {
        assert_eq!(duration("50ms"), Ok(Duration::from_millis(50)));
        assert!(duration("0").is_err());
        assert_eq!(size("1GB"), Ok(1_000_000_000));
        for good in ["1.5kB", "1packets", "50ms", "unlimited", "red:30kB,90kB,10%,9MB"] {
            assert_eq!(queue(good).map(|queue| queue.to_string()), Ok(good.to_owned()));
        }
        for bad in ["0", "1499B", "0packets", "mark:1kB,1kB", "red:100B,200B,10%,1kB"] {
            assert!(queue(bad).unwrap_err().contains("1500"), "{bad}");
        }
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        for bad in ["0", "-1", "nan", "inf", "4000", "1s"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
        assert_eq!(congestion("fixed:80mbit"), Ok(Algorithm::Fixed(80_000_000)));
        assert_eq!(congestion("newreno"), Ok(Algorithm::NewReno));
        assert_eq!(protection("adaptive"), Ok(Protection::Adaptive(None)));
        assert_eq!(acks("10:fixed"), Ok(AckPolicy::default().with_every(10).with_adaptive(false)));
        assert!(acks("10:often").unwrap_err().contains("adaptive or fixed"));
        assert!(protection("auto").unwrap_err().contains("adaptive[:bulk|screen|messages]"));
        assert!(congestion("vegas").unwrap_err().contains("bbr, cubic, newreno"));
    }

    /// The core reads rates and times by itself, since nothing there may depend on the simulator: they are
    /// the same.
    #[test]
    fn a_rate_is_the_same_rate_everywhere() {
        for text in ["10mbit", "2.5Mbit", "1gbit/s", "8bit", "1.5kbit", "1tbit"] {
            assert_eq!(
                congestion(&format!("fixed:{text}")),
                Ok(Algorithm::Fixed(units::rate(text).unwrap())),
                "{text}"
            );
        }
        for text in ["10", "0", "10000000", "10mb", "10MB", "mbit", "-1mbit", "0mbit", "1e3bit"] {
            assert!(units::rate(text).is_err() && congestion(&format!("fixed:{text}")).is_err(), "{text}");
        }
        for text in ["20ms", "1s", "300us", "5ns"] {
            let delay = units::duration(text).unwrap();
            assert_eq!(
                protection(&format!("tum:3:{text}")),
                Ok(PublishedPolicy::TumIncremental(3, delay).into()),
                "{text}"
            );
        }
        for text in ["20", "0.2", "20m", "20min"] {
            assert!(
                units::duration(text).is_err() && protection(&format!("tum:3:{text}")).is_err(),
                "{text}"
            );
            assert!(duration(text).unwrap_err().contains("like 50ms"), "{text}");
        }
        // Memory is counted by systems in powers of 1024, and bare in bytes.
        for (text, bytes) in [
            ("256M", Some(256 << 20)),
            ("1G", Some(1 << 30)),
            ("256MB", Some(256_000_000)),
            ("268435456", Some(256 << 20)),
            ("256", None),
        ] {
            assert_eq!(memory(text).ok(), bytes, "{text}");
        }
    }

    #[test]
    fn addresses_to_listen_on_may_be_of_a_zone() {
        for text in ["127.0.0.1:4433", "[::]:0", "[::1]:1", "[fe80::1%1]:7"] {
            assert_eq!(listening(text).unwrap().to_string(), text);
        }
        #[cfg(target_os = "linux")]
        assert_eq!(listening("[fe80::1%lo]:7").unwrap().to_string(), "[fe80::1%1]:7");
        for bad in ["localhost:1", "[localhost]:1", "[fe80::1%nosuch0]:7", "::1:7", "[::1]:99999", ""] {
            assert!(listening(bad).unwrap_err().contains("[fe80::1%eth0]"), "{bad}");
        }
        for bad in ["4433", ":4433", "127.0.0.1", "1.2.3.4:65536"] {
            assert!(listening(bad).unwrap_err().contains("ADDRESS:PORT, like 127.0.0.1"), "{bad}");
        }
    }
}
