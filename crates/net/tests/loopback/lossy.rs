use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::UdpSocket;
use tokio::task::JoinSet;

use crate::ends::loopback;

/// Passes datagrams on, but loses those from the client whose number `lose` says, counted from 0. As long as
/// it lives.
pub(crate) struct Lossy {
    pub(crate) address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Lossy {
    pub(crate) async fn before(server: SocketAddr, lose: fn(u64) -> bool) -> Self {
        let bind = || async { Arc::new(UdpSocket::bind(loopback()).await.expect("a free port")) };
        let (near, far) = (bind().await, bind().await);
        far.connect(server).await.expect("a route");
        let address = near.local_addr().expect("it is bound");
        let mut tasks = JoinSet::new();
        let (told, mut client) = tokio::sync::watch::channel(None);
        let (from, to) = (near.clone(), far.clone());
        tasks.spawn(async move {
            let mut buffer = vec![0; 65_536];
            for number in 0.. {
                let Ok((len, client)) = from.recv_from(&mut buffer).await else { return };
                let _ = told.send(Some(client));
                if !lose(number) {
                    let _ = to.send(&buffer[..len]).await;
                }
            }
        });
        tasks.spawn(async move {
            let mut buffer = vec![0; 65_536];
            let Ok(Some(client)) = client.wait_for(Option::is_some).await.map(|c| *c) else { return };
            while let Ok(len) = far.recv(&mut buffer).await {
                let _ = near.send_to(&buffer[..len], client).await;
            }
        });
        Self { address, _tasks: tasks }
    }
}
