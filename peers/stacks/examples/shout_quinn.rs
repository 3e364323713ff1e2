//! The program of docs/from/quinn.md with quinn: the left side of `crates/quickset/examples/shout.rs`.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Connection, ConnectionError, Endpoint, RecvStream, SendStream, ServerConfig};
use rustls::pki_types::PrivatePkcs8KeyDer;

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Fallible<()> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let certificate = made.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(made.key_pair.serialize_der());
    let mut tls = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key.into())?;
    tls.alpn_protocols = vec![b"shout/1".to_vec()];
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    let mut transport = quinn::TransportConfig::default();
    transport.max_concurrent_bidi_streams(100_u32.into());
    config.transport_config(Arc::new(transport));
    let server = Endpoint::server(config, "127.0.0.1:0".parse()?)?;
    let address = server.local_addr()?;
    let serving = tokio::spawn(async move {
        while let Some(incoming) = server.accept().await {
            tokio::spawn(async move {
                match incoming.await {
                    Ok(connection) => {
                        println!("server: the connection ended: {}", serve(&connection).await);
                    }
                    Err(error) => println!("server: a handshake failed: {error}"),
                }
            });
        }
    });

    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate)?;
    let mut tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"shout/1".to_vec()];
    let mut client = Endpoint::client("127.0.0.1:0".parse()?)?;
    client.set_default_client_config(ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?)));
    let connection = client.connect(address, "localhost")?.await?;
    let (one, other) = tokio::try_join!(ask(&connection, "live fence"), ask(&connection, "of cuttings"))?;
    assert_eq!((one.as_str(), other.as_str()), ("LIVE FENCE", "OF CUTTINGS"));
    println!("client: {one} {other}");

    for n in 1..=3 {
        connection.send_datagram_wait(Bytes::from(format!("tick {n}"))).await?;
    }
    // Each may be lost; here one that comes back is enough.
    let tick = tokio::time::timeout(Duration::from_secs(5), connection.read_datagram()).await??;
    assert!(tick.starts_with(b"TICK "));
    println!("client: {}", String::from_utf8_lossy(&tick));

    connection.close(0_u32.into(), b"done");
    client.wait_idle().await;
    serving.abort();
    Ok(())
}

async fn ask(connection: &Connection, question: &str) -> Fallible<String> {
    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(question.as_bytes()).await?;
    send.finish()?;
    Ok(String::from_utf8(recv.read_to_end(64 << 10).await?)?)
}

/// Answers until the connection ends, and returns why it did.
async fn serve(connection: &Connection) -> ConnectionError {
    loop {
        tokio::select! {
            stream = connection.accept_bi() => match stream {
                Ok((send, recv)) => drop(tokio::spawn(async move {
                    if let Err(error) = answer(send, recv).await {
                        println!("server: a stream failed: {error}");
                    }
                })),
                Err(closed) => return closed,
            },
            datagram = connection.read_datagram() => match datagram {
                Ok(tick) => {
                    // It waits while the queue is full; a client that has gone is noticed above.
                    let _ = connection.send_datagram_wait(tick.to_ascii_uppercase().into()).await;
                }
                Err(closed) => return closed,
            },
        }
    }
}

async fn answer(mut send: SendStream, mut recv: RecvStream) -> Fallible<()> {
    let question = recv.read_to_end(64 << 10).await?;
    send.write_all(&question.to_ascii_uppercase()).await?;
    send.finish()?;
    Ok(())
}
