//! A server that sends back what comes on a stream, and a client that uses it. Ends by itself.
//!
//! `cargo run -p quickset --example echo`

use std::error::Error;

use quickset::{ClientConfig, Connection, Endpoint, Identity, ServerConfig, Trust};
use tokio::io::AsyncReadExt;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let identity = Identity::self_signed(["localhost"])?;
    let fingerprint = identity.fingerprint();
    let server = Endpoint::server("127.0.0.1:0".parse()?, &ServerConfig::new(identity, &["echo/1"])?)?;
    println!("listening on {} {fingerprint}", server.local_addr());
    let address = server.local_addr();
    let serving = tokio::spawn(async move {
        while let Some(connection) = server.accept().await {
            tokio::spawn(async move {
                println!("{} left: {}", connection.remote_address(), serve(&connection).await);
            });
        }
    });

    let client = Endpoint::client()?;
    let config = ClientConfig::new(Trust::pinned(fingerprint), &["echo/1"])?;
    let connection = client.connect(address, "localhost", &config).await?;
    for text in ["live fence", "of cuttings"] {
        let (mut send, mut recv) = connection.open_bi().await?;
        send.write_all(text.as_bytes()).await?;
        send.finish()?;
        let mut echo = String::new();
        recv.read_to_string(&mut echo).await?;
        println!("{echo}");
        assert_eq!(echo, text);
    }
    connection.close(0, b"thank you");
    client.wait_idle().await;
    serving.abort();
    Ok(())
}

/// Echoes every stream of a connection, until it ends.
async fn serve(connection: &Connection) -> quickset::Closed {
    loop {
        match connection.accept_bi().await {
            Ok((mut send, mut recv)) => tokio::spawn(async move {
                while let Some(chunk) = recv.read_chunk(64 << 10).await? {
                    send.write_chunk(chunk).await?;
                }
                // Dropped, `send` finishes the stream.
                Ok::<_, Box<dyn Error + Send + Sync>>(())
            }),
            Err(closed) => return closed,
        };
    }
}
