//! One side of what programs in C, Python and Rust say to each other: `cargo xtask languages` plays each with
//! each. python-quic/languages/peer.py tells what is said.
//!
//!     languages server ADDRESS
//!     languages client ADDRESS FINGERPRINT
//!
//! And sessions of WebTransport, of which python-quic/languages/sessions.py tells:
//!
//!     languages echo ADDRESS
//!     languages session ADDRESS FINGERPRINT

#[path = "webtransport/echo.rs"]
mod echo;

use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

use quickset::bytes::Bytes;
use quickset::h3::webtransport::SessionEnding;
use quickset::h3::{self, Config, Request};
use quickset::{
    ClientConfig, Connection, Deadline, Endpoint, Identity, Outcome, ServerConfig, TicketId, Trust, policies,
};

const ALPN: &str = "languages/1";
const BYTES: usize = 300_000;
const UPDATES: u16 = 100;
const PARTS: u8 = 4;
const DATAGRAMS: u8 = 20;
/// Of a datagram: a packet has room for one.
const SIZE: usize = 1000;
/// Of those that go there and back, so many come at least.
const ANSWERS: usize = 15;
/// What a message is: the first byte of it.
const PART: u8 = 1;
const POSITION: u8 = 2;
const STALE: u8 = 3;

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["server", address] => serve(address).await,
        ["client", address, pin] => ask(address, pin).await,
        ["echo", address] => send_back(address).await,
        ["session", address, pin] => visit(address, pin).await,
        _ => Err("usage: languages server|echo ADDRESS | client|session ADDRESS FINGERPRINT".into()),
    }
}

async fn serve(address: &str) -> Result<(), Failure> {
    let identity = Identity::self_signed(["localhost"])?;
    let fingerprint = identity.fingerprint();
    let server = Endpoint::server(address.parse()?, &ServerConfig::new(identity, &[ALPN])?)?;
    println!("address {}\nfingerprint {fingerprint}", server.local_addr());
    let connection = server.accept().await.ok_or("nobody came")?;
    answer(&connection).await?;
    println!("closed: {}", connection.closed().await);
    Ok(())
}

async fn answer(connection: &Connection) -> Result<(), Failure> {
    let (mut send, mut receive) = connection.accept_bi().await?;
    let question = receive.read_to_end(BYTES).await?;
    let answer: Vec<u8> = question.iter().map(|byte| byte ^ 0xff).collect();
    send.write_all(&answer).await?;
    send.finish()?;

    let (mut heard, mut updates) = connection.accept_messages_bi().await?;
    let (mut last, mut segment) = (0, 0);
    while let Some(message) = updates.next().await {
        let message = message?;
        let (kind, update, part) = head(&message.payload)?;
        check(kind == PART || kind == POSITION, "a message whose time was over came")?;
        check(update >= last && message.segment >= segment, "a message crossed a fence")?;
        if update > last {
            heard.fence();
        }
        (last, segment) = (update, message.segment);
        heard.send(told(kind, update, part, b"")).await?;
    }
    heard.finish()?;
    heard.finished().await?;

    while let Ok(datagram) = connection.read_datagram().await {
        connection.send_datagram(datagram).await?;
    }
    Ok(())
}

async fn ask(address: &str, pin: &str) -> Result<(), Failure> {
    let config = ClientConfig::new(Trust::pinned(pin.parse()?), &[ALPN])?;
    let client = Endpoint::client()?;
    let connection = client.connect(address.parse()?, "localhost", &config).await?;

    let question: Vec<u8> = (0..BYTES).map(|i| (i * 31 + i / 251).to_le_bytes()[0]).collect();
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(&question).await?;
    send.finish()?;
    let answer = receive.read_to_end(BYTES).await?;
    check(answer.iter().map(|byte| byte ^ 0xff).eq(question), "other bytes came back")?;

    let positions = show(&connection).await?;

    for number in 0..DATAGRAMS {
        connection.send_datagram(Bytes::from(vec![number; SIZE])).await?;
    }
    for _ in 0..ANSWERS {
        let datagram = connection.read_datagram().await?;
        check(datagram.len() == SIZE && datagram[0] < DATAGRAMS, "another datagram came")?;
    }
    connection.close(7, b"done");
    client.wait_idle().await;
    println!("fine: {positions} of {UPDATES} positions arrived in time");
    Ok(())
}

/// Sends the updates, and compares what came of each with what the server says. Returns how many positions
/// arrived.
async fn show(connection: &Connection) -> Result<usize, Failure> {
    let (mut updates, mut heard) = connection.open_messages_bi().await?;
    updates.set_protection(&policies::read("adaptive:screen")?);
    let mut outcomes = updates.outcomes();
    let mut sent: HashMap<TicketId, (u8, u16, u8)> = HashMap::new();
    for update in 0..UPDATES {
        for part in 0..PARTS {
            let ticket = updates.send(told(PART, update, part, &[part; 900])).await?;
            sent.insert(ticket.id(), (PART, update, part));
        }
        for (kind, ms) in [(POSITION, 40), (STALE, 0)] {
            let deadline = Deadline::after(Duration::from_millis(ms));
            let ticket = updates.send_by(told(kind, update, 0, b"x=10 y=20"), deadline).await?;
            sent.insert(ticket.id(), (kind, update, 0));
        }
        updates.fence();
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    updates.finish()?;
    let mut arrived = Vec::new();
    while let Some((ticket, outcome)) = outcomes.next().await {
        let name = sent.remove(&ticket).ok_or("an outcome of nothing, or a second one")?;
        match name.0 {
            PART => check(outcome.is_delivered(), "a part did not arrive")?,
            STALE => check(outcome == Outcome::Dropped, "a message whose time was over was sent")?,
            _ => {}
        }
        if outcome.is_delivered() {
            arrived.push(name);
        }
    }
    check(sent.is_empty(), "messages have no outcome")?;

    let (mut told_of, mut last) = (Vec::new(), 0);
    while let Some(message) = heard.next().await {
        let name = head(&message?.payload)?;
        check(name.1 >= last, "an answer crossed a fence")?;
        last = name.1;
        check(!told_of.contains(&name), "a message came twice")?;
        told_of.push(name);
    }
    check(arrived.iter().all(|name| told_of.contains(name)), "what arrived was not received")?;
    check(told_of.iter().all(|name| name.0 != STALE), "a message whose time was over was received")?;
    Ok(arrived.iter().filter(|name| name.0 == POSITION).count())
}

async fn send_back(address: &str) -> Result<(), Failure> {
    let identity = Identity::self_signed(["localhost"])?;
    let fingerprint = identity.fingerprint();
    let server = Endpoint::server(address.parse()?, &ServerConfig::new(identity, &[h3::ALPN])?)?;
    println!("address {}\nfingerprint {fingerprint}", server.local_addr());
    let connection = server.accept().await.ok_or("nobody came")?;
    echo::serve(&connection, |_, ending| println!("closed: {ending}")).await
}

async fn visit(address: &str, pin: &str) -> Result<(), Failure> {
    let config = ClientConfig::new(Trust::pinned(pin.parse()?), &[h3::ALPN])?;
    let endpoint = Endpoint::client()?;
    let connection = endpoint.connect(address.parse()?, "localhost", &config).await?;
    let client = h3::Client::new(&connection, Config { webtransport: 1, ..Config::default() })?;
    let request = Request::extended("webtransport", "localhost", "/echo").offering(&["echo/2", "echo/1"])?;
    let session = client.session(&request).await?;
    check(session.protocol() == Some("echo/2"), "another protocol was chosen")?;

    let question: Bytes = (0..=250).cycle().take(BYTES).collect();
    let (mut send, mut receive) = session.open_bi().await?;
    let say = async {
        send.send(question.clone()).await?;
        send.finish()
    };
    let (said, answer) = tokio::join!(say, receive.read_to_end(BYTES));
    said?;
    check(answer? == question, "other bytes came back")?;
    let mut send = session.open_uni().await?;
    send.send(question.slice(..1000)).await?;
    send.finish()?;
    check(session.accept_uni().await?.read_to_end(1000).await? == question[..1000], "not one way back")?;
    for number in 0..DATAGRAMS {
        session.send_datagram(&[number; SIZE])?;
    }
    for _ in 0..ANSWERS {
        let datagram = session.next_datagram().await?;
        check(datagram.len() == SIZE + 6 && datagram.starts_with(b"/echo "), "another datagram came")?;
    }
    // It may be lost.
    let ending = loop {
        session.send_datagram(b"end")?;
        let soon = tokio::time::timeout(Duration::from_millis(200), session.closed());
        if let Ok(ending) = soon.await {
            break ending?;
        }
    };
    check(ending == SessionEnding { code: 42, reason: "as you say".into() }, "it ended in another way")?;
    connection.close(0x100, b"");
    endpoint.wait_idle().await;
    println!("fine: {ending}");
    Ok(())
}

/// A message: what it is, of which update, its number, and something more.
fn told(kind: u8, update: u16, part: u8, more: &[u8]) -> Bytes {
    let [high, low] = update.to_be_bytes();
    [&[kind, high, low, part], more].concat().into()
}

fn head(message: &[u8]) -> Result<(u8, u16, u8), Failure> {
    match *message {
        [kind, high, low, part, ..] => Ok((kind, u16::from_be_bytes([high, low]), part)),
        _ => Err("a message is too short".into()),
    }
}

fn check(holds: bool, otherwise: &str) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(otherwise.into()) }
}
