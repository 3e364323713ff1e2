use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// Sets up a connection with the VNC server or a viewer.
///
/// What is written leaves at once. Whoever vanishes without a word, with its machine or the network, is
/// noticed after a minute even when nobody has anything to say: a desktop at rest is silent for hours.
pub(crate) fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    // As often as the system likes, which is nine times on Linux.
    let keepalive = TcpKeepalive::new().with_time(SILENCE).with_interval(BETWEEN);
    SockRef::from(socket).set_tcp_keepalive(&keepalive)
}

/// After how much of it the other end is asked whether it is there.
const SILENCE: Duration = Duration::from_secs(15);
/// How long one question waits before the next.
const BETWEEN: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_has_vanished_is_noticed() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        assert!(!SockRef::from(&socket).keepalive().unwrap(), "not unless it is asked for");
        prepare(&socket).unwrap();
        assert!(SockRef::from(&socket).keepalive().unwrap() && socket.nodelay().unwrap());
    }
}
