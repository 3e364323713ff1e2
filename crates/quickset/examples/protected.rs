//! Screen updates that are repaired beforehand, and input with deadlines. Ends by itself.
//!
//! `cargo run -p quickset --example protected`
//!
//! Here nothing is lost, so `adaptive` adds nothing, and a fixed share of repair is what one sees. Across a
//! path that loses packets it is the other way round; `quickset demo` shows that.

use std::error::Error;
use std::time::Duration;

use quickset::bytes::Bytes;
use quickset::{ClientConfig, Endpoint, Identity, Outcome, Reliability, ServerConfig, Trust};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let identity = Identity::self_signed(["localhost"])?;
    let config = ClientConfig::new(Trust::pinned(identity.fingerprint()), &["screen/1"])?;
    let server = Endpoint::server("127.0.0.1:0".parse()?, &ServerConfig::new(identity, &["screen/1"])?)?;
    let address = server.local_addr();
    let viewing = tokio::spawn(async move {
        let connection = server.accept().await.ok_or("nobody came")?;
        let (mut screen, mut input) =
            tokio::try_join!(connection.accept_messages(), connection.accept_messages())?;
        let mut count = 0;
        while screen.next().await.transpose()?.is_some() {
            count += 1;
        }
        while input.next().await.transpose()?.is_some() {
            count += 1;
        }
        connection.closed().await;
        Ok::<u32, Box<dyn Error + Send + Sync>>(count)
    });

    let client = Endpoint::client()?;
    let connection = client.connect(address, "localhost", &config).await?;
    println!("both ends know forward erasure correction: {}", connection.has_fec());
    // Five repair symbols for each hundred, behind each fence; `Reliability::screen()` adds what the path
    // needs.
    let mut screen =
        connection.open_messages().await?.with(Reliability::screen().with("rs:105/100".parse()?));
    // Adaptive, and of use for a quarter of a second.
    let quarter = Duration::from_millis(250);
    let mut input = connection.open_messages().await?.with(Reliability::messages().within(quarter));
    let mut outcomes = screen.outcomes();
    for update in 0..20_u8 {
        for _ in 0..40 {
            screen.send(Bytes::from(vec![update; 1100])).await?;
        }
        screen.fence();
        let ticket = input.send(Bytes::from_static(b"x=10 y=20")).await?;
        println!("update {update:>2}: the pointer was {:?}", ticket.outcome().await);
        // The next update is drawn when this one has left.
        screen.drained_to(0).await?;
    }
    screen.finish()?;
    input.finish()?;
    let (mut delivered, mut recovered) = (0, 0);
    while let Some((_, outcome)) = outcomes.next().await {
        delivered += u32::from(outcome.is_delivered());
        recovered += u32::from(outcome == Outcome::Recovered);
    }
    input.finished().await?;
    let fec = connection.stats().fec;
    println!("{delivered} rectangles arrived, {recovered} of them by repair");
    println!(
        "{} symbols, {} repair symbols ({} bytes), {} recovered",
        fec.sources_sent, fec.repairs_sent, fec.repair_bytes, fec.recovered
    );
    connection.close(0, b"done");
    let count = viewing.await?.map_err(|e| e.to_string())?;
    assert!(delivered == 800 && count >= 800, "{delivered} of 800 rectangles, {count} messages");
    assert!(fec.repairs_sent >= 20, "each fence closes a block, and each block has repair");
    client.wait_idle().await;
    Ok(())
}
