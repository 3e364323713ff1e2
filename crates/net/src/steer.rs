//! Has the system give each socket of a port what is for it, by the number in connection ids.

use std::io;
use std::net::UdpSocket;

/// Tells the system which of the sockets on a port a datagram is for, by a program of classic BPF
/// (SO_ATTACH_REUSEPORT_CBPF of socket(7)): the socket's place in the order in which they were bound. The
/// program counts for all sockets on the port.
///
/// # Errors
/// The system does not take it, and goes by addresses.
#[cfg(target_os = "linux")]
pub(crate) fn steer(socket: &UdpSocket, count: u32) -> io::Result<()> {
    use nix::libc::{sock_filter, sock_fprog};
    use nix::sys::socket::{setsockopt, sockopt};
    use quickset_base::number::Unsigned as _;

    // What is loaded from behind the end of a datagram ends the program with 0.
    const LOAD_BYTE: u16 = 0x30;
    const LOAD_HALF: u16 = 0x28;
    const JUMP: u16 = 0x05;
    const JUMP_IF_SET: u16 = 0x45;
    const MODULO: u16 = 0x94;
    const RETURN: u16 = 0x16;
    let step = |code, k| sock_filter { code, jt: 0, jf: 0, k };
    let mut program = [
        step(LOAD_BYTE, 0),
        sock_filter { code: JUMP_IF_SET, jt: 0, jf: 2, k: 0x80 },
        step(LOAD_HALF, LONG_ID.saturated()),
        step(JUMP, 1),
        step(LOAD_HALF, SHORT_ID.saturated()),
        step(MODULO, count),
        step(RETURN, 0),
    ];
    let program = sock_fprog { len: 7, filter: program.as_mut_ptr() };
    Ok(setsockopt(socket, sockopt::AttachReusePortCbpf, &program)?)
}

/// Other systems go by addresses.
#[cfg(not(target_os = "linux"))]
pub(crate) fn steer(_socket: &UdpSocket, _count: u32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Sockets on a port at most: more than machines have cores, and few beside the numbers in ids.
pub(crate) const MAX_SHARDS: usize = 1024;

/// Where the id begins behind a short header's first byte, and a long one's version and length.
pub(crate) const SHORT_ID: usize = 1;
pub(crate) const LONG_ID: usize = 6;
