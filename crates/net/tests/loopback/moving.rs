//! Endpoints whose socket is replaced while their connections are busy.

use quickset_net::{Endpoint, Move, SocketConfig};
use quickset_quic::{Migration, MoveError, TransportConfig};

use crate::ends::{
    LIMIT, Pair, client, client_config, endpoint_config, loopback, pair, pair_on, pattern, server,
    server_config, soon,
};

const LEN: usize = 20_000_000;

/// Sends from one side to the other, and replaces the client's socket at one and two thirds of the way.
async fn rebinds(pair: &Pair, up: bool) {
    let (from, to) = if up { (&pair.client, &pair.server) } else { (&pair.server, &pair.client) };
    let data = pattern(LEN);
    let mut send = soon(from.open_uni()).await.expect("a stream");
    let sending = async {
        send.write_all(&data).await.expect("written");
        send.finish().expect("ended");
        send.finished().await.expect("arrived");
    };
    let receiving = async {
        let mut recv = to.accept_uni().await.expect("a stream");
        let (mut got, mut rebound) = (Vec::new(), 0);
        while let Some(chunk) = recv.read_chunk(1 << 20).await.expect("data") {
            got.extend_from_slice(&chunk);
            if got.len() > (rebound + 1) * LEN / 3 && rebound < 2 {
                rebound += 1;
                let before = pair.client_endpoint.local_addr();
                pair.client_endpoint.rebind(loopback(), &SocketConfig::default()).expect("another socket");
                assert_ne!(pair.client_endpoint.local_addr(), before);
            }
        }
        assert_eq!(rebound, 2);
        got
    };
    let ((), got) =
        tokio::time::timeout(LIMIT, async { tokio::join!(sending, receiving) }).await.expect("in time");
    assert!(got == data, "all of it, once and in order");
}

#[tokio::test]
async fn an_upload_goes_on_over_another_socket() {
    let pair = pair(TransportConfig::fixed_mtu(1200)).await;
    rebinds(&pair, true).await;
    let moved = pair.client_endpoint.local_addr();
    soon(async {
        while pair.server.remote_address() != moved {
            pair.client.ping();
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(pair.server.stats().moves >= 1);
}

#[tokio::test]
async fn a_download_goes_on_over_another_socket() {
    let pair = pair(TransportConfig::fixed_mtu(1200)).await;
    rebinds(&pair, false).await;
    assert_eq!(pair.server.remote_address(), pair.client_endpoint.local_addr());
}

#[tokio::test]
async fn a_quiet_connection_tells_the_server_by_itself() {
    let pair = pair(TransportConfig::fixed_mtu(1200)).await;
    let (mut server, mut client) = (pair.server.moves(), pair.client.moves());
    // A client moves when it knows that the handshake is confirmed: when it has heard of the server.
    let mut send = soon(pair.client.open_uni()).await.unwrap();
    send.finish().unwrap();
    soon(send.finished()).await.unwrap();
    pair.client_endpoint.rebind(loopback(), &SocketConfig::default()).unwrap();
    let moved = pair.client_endpoint.local_addr();
    let to = |next| match next {
        Ok(Move::Done(path)) => path.remote,
        other => panic!("{other:?}"),
    };
    assert_eq!(to(soon(server.next()).await), moved);
    assert_eq!(to(soon(client.next()).await), pair.server_endpoint.local_addr());
}

/// The system has all of 127.0.0.0/8: the client leaves from another address of it, on the same socket.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_client_on_all_addresses_moves_between_them() {
    let any = std::net::SocketAddr::from(([0, 0, 0, 0], 0));
    let client = Endpoint::bind(any, &SocketConfig::default(), endpoint_config(2), None).unwrap();
    let pair = pair_on(
        server(server_config(TransportConfig::fixed_mtu(1200))),
        client,
        TransportConfig::fixed_mtu(1200),
    )
    .await;
    let mut send = soon(pair.client.open_uni()).await.unwrap();
    send.finish().unwrap();
    soon(send.finished()).await.unwrap();
    let (mut told, mut moves) = (pair.server.moves(), pair.client.moves());
    let there = std::net::IpAddr::from([127, 0, 0, 9]);
    soon(async {
        // Until the server's spare ids have come.
        while pair.client.migrate(Some(there)) == Err(MoveError::NoId) {
            pair.client.ping();
            tokio::task::yield_now().await;
        }
    })
    .await;
    let Ok(Move::Done(path)) = soon(told.next()).await else { panic!("it stayed") };
    assert_eq!(path.remote.ip(), there);
    // Who asks late hears of it all the same.
    soon(async {
        while pair.client.stats().moves == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let Ok(Move::Done(path)) = soon(moves.next()).await else { panic!("it stayed") };
    assert_eq!((path.local, pair.client.local_ip()), (Some(there), Some(there)));
}

/// RFC 9000 §9.6: a server on all addresses would rather be reached at another one.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_client_follows_the_server_to_its_preferred_address() {
    let any = std::net::SocketAddr::from(([0, 0, 0, 0], 0));
    let socket = std::net::UdpSocket::bind(any).unwrap();
    let port = socket.local_addr().unwrap().port();
    let preferred = std::net::SocketAddrV4::new([127, 0, 0, 8].into(), port);
    let migration = Migration::default().with_preferred_v4(Some(preferred));
    let config = server_config(TransportConfig::fixed_mtu(1200).with_migration(migration));
    socket.set_nonblocking(true).unwrap();
    let server =
        Endpoint::with_socket(socket, &SocketConfig::default(), endpoint_config(1), Some(config)).unwrap();
    let config = crate::ends::client_config(TransportConfig::fixed_mtu(1200));
    let client = client();
    let accepting = server.clone();
    let accepted = tokio::spawn(async move { accepting.accept().await });
    let connection = soon(client.connect(([127, 0, 0, 1], port).into(), "localhost", &config)).await.unwrap();
    let server_side = soon(accepted).await.unwrap().unwrap();
    soon(async {
        while connection.remote_address() != preferred.into() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut send = soon(connection.open_uni()).await.unwrap();
    soon(send.write_all(b"here as well")).await.unwrap();
    send.finish().unwrap();
    let mut recv = soon(server_side.accept_uni()).await.unwrap();
    assert_eq!(soon(recv.read_to_end(100)).await.unwrap(), b"here as well");
}

/// What tells of a change of networks has a runtime of its own, or none, and it may end while the endpoint
/// goes on.
#[test]
fn who_gives_an_endpoint_its_socket_need_not_stay() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (main, other) = (runtime(), runtime());
    let pair = main.block_on(pair(TransportConfig::fixed_mtu(1200)));
    let rebind = || pair.client_endpoint.rebind(loopback(), &SocketConfig::default());
    // Its answers come to the new socket and no other.
    let config = client_config(TransportConfig::fixed_mtu(1200));
    let connect = || pair.client_endpoint.connect(pair.server_endpoint.local_addr(), "localhost", &config);
    other.block_on(async { rebind().unwrap() });
    drop(other);
    main.block_on(soon(async { connect().await.unwrap() }));
    rebind().unwrap();
    main.block_on(soon(async { connect().await.unwrap() }));
    drop(main);
    assert!(rebind().is_err(), "nobody would use it");
}
