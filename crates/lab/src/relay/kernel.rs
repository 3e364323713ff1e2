use std::net::SocketAddr;

/// Datagrams that the system dropped because the buffers of these sockets were full; `None` where it does
/// not tell.
pub(crate) fn drops(addresses: &[SocketAddr]) -> Option<u64> {
    let v4 = std::fs::read_to_string("/proc/net/udp").ok()?;
    let v6 = std::fs::read_to_string("/proc/net/udp6").unwrap_or_default();
    let ports: Vec<u16> = addresses.iter().map(SocketAddr::port).collect();
    Some(
        v4.lines()
            .chain(v6.lines())
            .filter_map(row)
            .filter(|(port, _)| ports.contains(port))
            .map(|r| r.1)
            .sum(),
    )
}

/// Local port and drops of a row of /proc/net/udp: the second column is `ADDRESS:PORT` in hexadecimal, the
/// last one the drops (proc(5)).
fn row(line: &str) -> Option<(u16, u64)> {
    let (_, port) = line.split_whitespace().nth(1)?.split_once(':')?;
    let drops = line.split_whitespace().last()?.parse().ok()?;
    Some((u16::from_str_radix(port, 16).ok()?, drops))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_and_headings_are_not() {
        let heading = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops";
        let socket = "  512: 0100007F:1F90 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 27190 2 0000000000000000 42";
        assert_eq!(row(heading), None);
        assert_eq!(row(socket), Some((8080, 42)));
    }
}
