//! A WebTransport server that sends back what a page sends, and a page that shows it.
//!
//! `cargo run -p quickset --example webtransport`, and open the address that it prints in Chromium or
//! Firefox. Ends with ctrl-c.

mod echo;
mod page;

use std::error::Error;

use quickset::{Endpoint, Identity, ServerConfig, h3};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // No authority signed it: the page names it by its hash.
    let identity = Identity::for_browsers(["localhost"])?;
    let hash = identity.certificate_hash();
    let server = Endpoint::server("127.0.0.1:0".parse()?, &ServerConfig::new(identity, &[h3::ALPN])?)?;
    // Browsers have WebTransport on pages by HTTPS, and on those of localhost.
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("open http://localhost:{}/", listener.local_addr()?.port());
    tokio::spawn(page::serve(listener, page::of(server.local_addr().port(), &hash), |shown| {
        println!("the page:\n{shown}");
    }));
    while let Some(connection) = server.accept().await {
        tokio::spawn(async move {
            let from = connection.remote_address();
            if let Err(error) =
                echo::serve(&connection, |path, ending| println!("{from} {path}: {ending}")).await
            {
                println!("{from}: {error}");
            }
        });
    }
    Ok(())
}
