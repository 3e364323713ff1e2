//! How fast one connection carries bytes over the loopback. Ends by itself.
//!
//! `cargo run --release -p quickset --example transfer [MEGABYTES]`

use std::error::Error;
use std::time::Instant;

use quickset::bytes::Bytes;
use quickset::{ClientConfig, Endpoint, Identity, ServerConfig, TransportConfig, Trust};

fn main() -> Result<(), Box<dyn Error>> {
    let megabytes: u32 = std::env::args().nth(1).map_or(Ok(16), |n| n.parse())?;
    let transport = TransportConfig::default().with_mtu(1472);
    let identity = Identity::self_signed(["localhost"])?;
    let config = ClientConfig::new(Trust::pinned(identity.fingerprint()), &["transfer/1"])?
        .with_transport(transport.clone());
    let server_config = ServerConfig::new(identity, &["transfer/1"])?.with_transport(transport);

    // Each side has a thread of its own: it is one connection, which no third would speed up.
    let (tell, told) = std::sync::mpsc::channel();
    let receiving = std::thread::spawn(move || {
        let received = runtime()?.block_on(async {
            let server = Endpoint::server("127.0.0.1:0".parse()?, &server_config)?;
            tell.send(server.local_addr())?;
            let connection = server.accept().await.ok_or("nobody came")?;
            let mut stream = connection.accept_uni().await?;
            let (mut received, mut chunks) = (0, vec![Bytes::new(); 64]);
            loop {
                match stream.read_chunks(&mut chunks).await? {
                    0 => break,
                    n => received += chunks[..n].iter().map(Bytes::len).sum::<usize>(),
                }
            }
            connection.closed().await;
            Ok::<_, Box<dyn Error + Send + Sync>>(received)
        })?;
        Ok::<_, Box<dyn Error + Send + Sync>>(received)
    });

    let address = told.recv()?;
    runtime()?.block_on(async {
        let client = Endpoint::client()?;
        let connection = client.connect(address, "localhost", &config).await?;
        let mut stream = connection.open_uni().await?;
        let block = Bytes::from(vec![7; 1 << 20]);
        let start = Instant::now();
        for _ in 0..megabytes {
            stream.write_chunk(block.clone()).await?;
        }
        stream.finish()?;
        stream.finished().await?;
        let seconds = start.elapsed().as_secs_f64();
        let stats = connection.stats();
        let bits = f64::from(megabytes) * 8.0 * 1_048_576.0;
        println!("{megabytes} MiB in {seconds:.3} s: {:.2} Gbit/s", bits / seconds / 1e9);
        println!(
            "{} datagrams, {} packets lost, RTT {:?}",
            stats.sent_datagrams, stats.lost_packets, stats.rtt
        );
        connection.close(0, b"done");
        client.wait_idle().await;
        Ok::<_, Box<dyn Error>>(())
    })?;
    let received = receiving.join().map_err(|_| "the server panicked")?.map_err(|e| e.to_string())?;
    assert_eq!(received as u64, u64::from(megabytes) << 20);
    Ok(())
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}
