//! A server that answers in capitals what comes on streams and in datagrams, and a client that asks. The
//! pages in docs/from show the same program with other libraries. Ends by itself.
//!
//! `cargo run -p quickset --example shout`

use std::error::Error;
use std::time::Duration;

use quickset::bytes::Bytes;
use quickset::{
    ClientConfig, Closed, Connection, Endpoint, Identity, RecvStream, SendStream, ServerConfig,
    TransportConfig, Trust,
};

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Fallible<()> {
    let identity = Identity::self_signed(["localhost"])?;
    let trust = Trust::pinned(identity.fingerprint());
    let transport = TransportConfig::default().with_max_bidi_streams(100);
    let config = ServerConfig::new(identity, &["shout/1"])?.with_transport(transport);
    let server = Endpoint::server("127.0.0.1:0".parse()?, &config)?;
    let address = server.local_addr();
    let serving = tokio::spawn(async move {
        while let Some(connection) = server.accept().await {
            tokio::spawn(async move {
                println!("server: the connection ended: {}", serve(&connection).await);
            });
        }
    });

    let client = Endpoint::client()?;
    let config = ClientConfig::new(trust, &["shout/1"])?;
    let connection = client.connect(address, "localhost", &config).await?;
    let (one, other) = tokio::try_join!(ask(&connection, "live fence"), ask(&connection, "of cuttings"))?;
    assert_eq!((one.as_str(), other.as_str()), ("LIVE FENCE", "OF CUTTINGS"));
    println!("client: {one} {other}");

    for n in 1..=3 {
        connection.send_datagram(Bytes::from(format!("tick {n}"))).await?;
    }
    // Each may be lost; here one that comes back is enough.
    let tick = tokio::time::timeout(Duration::from_secs(5), connection.read_datagram()).await??;
    assert!(tick.starts_with(b"TICK "));
    println!("client: {}", String::from_utf8_lossy(&tick));

    connection.close(0, b"done");
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
async fn serve(connection: &Connection) -> Closed {
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
                    let _ = connection.send_datagram(tick.to_ascii_uppercase().into()).await;
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
