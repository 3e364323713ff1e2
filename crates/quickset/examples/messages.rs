//! Screen updates as messages on a fenced stream, with deadlines. Ends by itself.
//!
//! `cargo run -p quickset --example messages`

use std::error::Error;
use std::time::Duration;

use quickset::bytes::Bytes;
use quickset::{ClientConfig, Deadline, Endpoint, Identity, ServerConfig, Trust};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let identity = Identity::self_signed(["localhost"])?;
    let config = ClientConfig::new(Trust::pinned(identity.fingerprint()), &["screen/1"])?;
    let server = Endpoint::server("127.0.0.1:0".parse()?, &ServerConfig::new(identity, &["screen/1"])?)?;
    let address = server.local_addr();
    let viewing = tokio::spawn(async move {
        let connection = server.accept().await.ok_or("nobody came")?;
        let mut screen = connection.accept_messages().await?;
        let (mut count, mut last) = (0, 0);
        while let Some(message) = screen.next().await {
            let message = message?;
            // Within a segment rectangles come as they arrive; from one to the next the order holds.
            assert!(message.segment >= last, "a message crossed a fence");
            last = message.segment;
            count += 1;
            println!(
                "segment {:>6}: {:>5} bytes, held back {:?}",
                message.segment,
                message.payload.len(),
                message.blocked()
            );
        }
        connection.closed().await;
        Ok::<u32, Box<dyn Error + Send + Sync>>(count)
    });

    let client = Endpoint::client()?;
    let connection = client.connect(address, "localhost", &config).await?;
    let mut screen = connection.open_messages().await?;
    for update in 0..5_u8 {
        for rectangle in 0..4 {
            screen.send(Bytes::from(vec![update; 1000 + 500 * rectangle])).await?;
        }
        screen.fence();
    }
    // A pointer position is of use for a moment only; on a path this short it will be in time.
    let pointer = Bytes::from_static(b"x=10 y=20");
    let ticket = screen.send_by(pointer, Deadline::after(Duration::from_millis(250))).await?;
    let outcome = ticket.outcome().await;
    println!("the pointer was {outcome:?}");
    // One whose time was over before it was sent does not leave at all.
    let late = screen.send_by(Bytes::from_static(b"late"), Deadline::after(Duration::ZERO)).await?;
    println!("the late message was {:?}", late.outcome().await);
    screen.finish()?;
    screen.finished().await?;
    connection.close(0, b"done");
    let count = viewing.await?.map_err(|e| e.to_string())?;
    assert!(count >= 20, "rectangles have no deadline: all {count} arrive");
    assert!(!outcome.is_delivered() || count > 20, "what was delivered was seen");
    client.wait_idle().await;
    Ok(())
}
