//! What the system means when it does not take a datagram.

use std::io::{self, ErrorKind};

use quickset_quic::{Obstacle, SystemRefusal};

/// What the system said to a datagram, with its words.
pub(crate) fn refusal(error: &io::Error, is_pinned: bool) -> SystemRefusal {
    SystemRefusal { obstacle: obstacle(error, is_pinned), words: error.to_string() }
}

/// What stands in the way of a datagram that was to leave from an address of its own, if it `is_pinned`.
pub(crate) fn obstacle(error: &io::Error, is_pinned: bool) -> Obstacle {
    if is_size(error) {
        return Obstacle::Size;
    }
    if error.raw_os_error().is_some_and(|code| FULL.contains(&code)) {
        return Obstacle::Room;
    }
    match error.kind() {
        ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable | ErrorKind::NetworkDown => {
            Obstacle::Route
        }
        ErrorKind::PermissionDenied => Obstacle::Rule,
        ErrorKind::WouldBlock | ErrorKind::OutOfMemory => Obstacle::Room,
        ErrorKind::AddrNotAvailable => Obstacle::Source,
        // Linux: what is to leave from an address that is not there.
        ErrorKind::InvalidInput if is_pinned => Obstacle::Source,
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => Obstacle::Port,
        // Linux: a blackhole of its own among the routes, or port 0.
        _ => Obstacle::Other,
    }
}

/// Whether the datagram is too large for the interface.
pub(crate) fn is_size(error: &io::Error) -> bool {
    error.raw_os_error() == Some(TOO_LARGE)
}

/// Whether it may be segmentation that the system, or the device, does not do. Which error says so differs.
pub(crate) fn may_be_offload(error: &io::Error) -> bool {
    is_size(error)
        || matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported)
        || error.raw_os_error().is_some_and(|code| NO_OFFLOAD.contains(&code))
}

#[cfg(unix)]
use by_errno::{FULL, NO_OFFLOAD, TOO_LARGE};
#[cfg(not(unix))]
use by_winsock::{FULL, NO_OFFLOAD, TOO_LARGE};

#[cfg(unix)]
mod by_errno {
    use nix::errno::Errno;

    pub(super) const TOO_LARGE: i32 = Errno::EMSGSIZE as i32;
    pub(super) const FULL: [i32; 1] = [Errno::ENOBUFS as i32];
    pub(super) const NO_OFFLOAD: [i32; 2] = [Errno::EIO as i32, Errno::EOPNOTSUPP as i32];
}

/// By the numbers of winsock2.h, which the standard library has no names for.
#[cfg(not(unix))]
mod by_winsock {
    /// WSAEMSGSIZE
    pub(super) const TOO_LARGE: i32 = 10_040;
    /// WSAENOBUFS
    pub(super) const FULL: [i32; 1] = [10_055];
    /// WSAEOPNOTSUPP
    pub(super) const NO_OFFLOAD: [i32; 1] = [10_045];
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use nix::errno::Errno;

    use super::*;

    /// The names of udp(7), ip(7), sendmsg(2) and ip-route(8), for Linux.
    #[test]
    fn each_error_has_its_obstacle() {
        for (error, expected) in [
            (Errno::EMSGSIZE, Obstacle::Size),
            (Errno::ENETUNREACH, Obstacle::Route),
            (Errno::EHOSTUNREACH, Obstacle::Route),
            (Errno::ENETDOWN, Obstacle::Route),
            (Errno::EACCES, Obstacle::Rule),
            (Errno::EPERM, Obstacle::Rule),
            (Errno::ENOBUFS, Obstacle::Room),
            (Errno::ENOMEM, Obstacle::Room),
            (Errno::EAGAIN, Obstacle::Room),
            (Errno::EADDRNOTAVAIL, Obstacle::Source),
            (Errno::ECONNREFUSED, Obstacle::Port),
            (Errno::EINVAL, Obstacle::Other),
            (Errno::EIO, Obstacle::Other),
        ] {
            let error = io::Error::from(error);
            assert_eq!(obstacle(&error, false), expected, "{error}");
        }
        let gone = io::Error::from(Errno::EINVAL);
        assert_eq!(obstacle(&gone, true), Obstacle::Source, "an address that was there a moment ago");
        for (error, expected) in [
            (Errno::EIO, true),
            (Errno::EINVAL, true),
            (Errno::EOPNOTSUPP, true),
            (Errno::EMSGSIZE, true),
            (Errno::ENETUNREACH, false),
            (Errno::ENOBUFS, false),
            (Errno::EPERM, false),
        ] {
            assert_eq!(may_be_offload(&error.into()), expected, "{error}");
        }
    }
}
