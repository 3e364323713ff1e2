//! What limits say is of all shards together.

use std::net::SocketAddr;
use std::sync::Arc;

use super::over_loopback::{CLIENTS, client_config, config, is_echoed, loopback, serve, sharded_with, soon};
use crate::connection::Connection;
use crate::endpoint::Endpoint;
use crate::socket::SocketConfig;
use crate::tokio_runtime::TokioRuntime;

fn client() -> Endpoint {
    Endpoint::bind(loopback(), &SocketConfig::default(), config(2), None).unwrap()
}

/// A client that tries until there is a place for it.
async fn comes_in(address: SocketAddr) -> (Endpoint, Connection) {
    loop {
        let client = client();
        if let Ok(connection) = client.connect(address, "localhost", &client_config()).await {
            return (client, connection);
        }
    }
}

/// Small limits mean what they say: of clients at four shards as many are taken as at one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_places_are_few_in_all() {
    const PLACES: usize = 6;
    for is_steered in [cfg!(target_os = "linux"), false] {
        let server = sharded_with(Arc::new(TokioRuntime::current()), is_steered, PLACES);
        serve(&server);
        let mut taken = Vec::new();
        for _ in 0..CLIENTS {
            let client = client();
            if let Ok(connection) =
                soon(client.connect(server.local_addr(), "localhost", &client_config())).await
            {
                soon(is_echoed(&connection, b"x")).await;
                taken.push((client, connection));
            }
        }
        assert_eq!(taken.len(), PLACES);
        assert_eq!(server.counters().refused, (CLIENTS - PLACES) as u64);
        // A place that is free again is free for clients of all shards.
        for _ in 0..CLIENTS {
            let (gone, connection) = taken.remove(0);
            connection.close(0, b"");
            soon(gone.wait_idle()).await;
            let come = soon(comes_in(server.local_addr())).await;
            soon(is_echoed(&come.1, b"y")).await;
            taken.push(come);
        }
        for (_, connection) in &taken {
            soon(is_echoed(connection, b"z")).await;
        }
    }
}
