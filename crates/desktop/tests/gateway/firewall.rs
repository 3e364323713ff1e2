use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinHandle;

/// A firewall before a server, which lets TCP through, and UDP as long as it is open.
pub(crate) struct Firewall {
    pub(crate) address: SocketAddr,
    /// To the server, and to the client.
    ways: Arc<[AtomicBool; 2]>,
    tasks: [JoinHandle<()>; 2],
}

impl Firewall {
    pub(crate) async fn start(server: SocketAddr, is_open: bool) -> Self {
        // The number of a port of UDP may be taken in TCP.
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()).await {
                break (udp, tcp);
            }
        };
        let address = udp.local_addr().unwrap();
        let ways = Arc::new([AtomicBool::new(is_open), AtomicBool::new(is_open)]);
        let open = ways.clone();
        let udp = tokio::spawn(async move {
            let inner = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let (mut client, mut to_server, mut to_client) = (None, vec![0; 65_536], vec![0; 65_536]);
            loop {
                tokio::select! {
                    came = udp.recv_from(&mut to_server) => if let Ok((length, from)) = came {
                        client = Some(from);
                        if open[0].load(Ordering::Relaxed) {
                            let _ = inner.send_to(&to_server[..length], server).await;
                        }
                    },
                    came = inner.recv_from(&mut to_client) => if let (Ok((length, _)), Some(client)) = (came, client) {
                        if open[1].load(Ordering::Relaxed) {
                            let _ = udp.send_to(&to_client[..length], client).await;
                        }
                    },
                }
            }
        });
        let tcp = tokio::spawn(async move {
            loop {
                let (mut near, _) = tcp.accept().await.unwrap();
                tokio::spawn(async move {
                    let mut far = TcpStream::connect(server).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                });
            }
        });
        Self { address, ways, tasks: [udp, tcp] }
    }

    pub(crate) fn set_open(&self, is_open: bool) {
        self.set_ways([is_open; 2]);
    }

    /// To the server, and to the client.
    pub(crate) fn set_ways(&self, ways: [bool; 2]) {
        for (way, is_open) in self.ways.iter().zip(ways) {
            way.store(is_open, Ordering::Relaxed);
        }
    }
}

impl Drop for Firewall {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
