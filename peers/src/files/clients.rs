//! All clients of one run, in one process.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use quickset::{AckPolicy, TransportConfig, h3};
use quickset_stacks::{NAME, StackCipher, StackGroup, StackIdentity, StackSetup};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::processes::{self, ServerFound};
use super::{FileCase, FileWay};
use crate::cases::{PATIENCE, TimedSpan, WARM};
use crate::pattern::{PatternSum, expected};
use crate::wire::say;

#[derive(Args, Debug)]
pub(crate) struct PeerFetch {
    way: FileWay,
    case: FileCase,
    /// Where the server is.
    #[arg(long)]
    server: SocketAddr,
    /// The folder of its certificate.
    #[arg(long)]
    identity: PathBuf,
    /// How long to measure.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// The program that fetches, where each client is a process.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Run on this core only.
    #[arg(long)]
    pub(crate) core: Option<usize>,
}

/// What has come so far.
#[derive(Default)]
struct FetchTally {
    bytes: Cell<u64>,
    times: RefCell<Vec<f64>>,
    is_over: Cell<bool>,
    /// The sum of the file.
    right: u64,
}

/// A connection that fetches one file again and again.
enum FileCaller {
    H3 { client: h3::Client },
    H1 { stream: Box<TlsStream<TcpStream>>, buffer: Vec<u8> },
}

impl PeerFetch {
    pub(crate) async fn run(self) -> Result<()> {
        let time = Duration::try_from_secs_f64(self.seconds)?;
        let identity = StackIdentity::read(&self.identity)?;
        if let Some(program) = &self.program {
            let server = ServerFound { address: self.server, identity };
            return processes::fetch(self.way, self.case, program, &server, time);
        }
        tokio::time::timeout(WARM + time + PATIENCE, self.fetch(&identity, time))
            .await
            .context("nothing moves any more")?
    }

    async fn fetch(self, trusted: &StackIdentity, time: Duration) -> Result<()> {
        let endpoint = quickset::Endpoint::client()?;
        let tally = Rc::new(FetchTally { right: expected(self.case.size()), ..FetchTally::default() });
        // All are there before one begins: a server may give the first so much that others wait for ever.
        let mut connected = Vec::new();
        for _ in 0..self.case.clients() {
            connected.push(match self.way {
                FileWay::QuicksetH3 => {
                    let tls = trusted.client(&setup(h3::ALPN.as_bytes()))?;
                    let mut config = quickset::ClientConfig::from_rustls(tls)?;
                    if self.case.ack().is_some() {
                        config = config.with_transport(to_the_packet());
                    }
                    let connection = endpoint.connect(self.server, NAME, &config).await?;
                    FileCaller::H3 { client: h3::Client::new(&connection, h3::Config::default())? }
                }
                FileWay::QuicksetH1 | FileWay::NginxH1 => {
                    FileCaller::by_tcp(self.server, trusted.client(&setup(b"http/1.1"))?).await?
                }
            });
        }
        let mut callers = JoinSet::new();
        for mut caller in connected {
            let (tally, case) = (tally.clone(), self.case);
            callers.spawn_local(async move {
                while !tally.is_over.get() {
                    caller.fetch(case, &tally).await?;
                }
                anyhow::Ok(())
            });
        }
        tokio::time::sleep(WARM).await;
        let (span, before) = (TimedSpan::begin()?, tally.bytes.get());
        tally.times.borrow_mut().clear();
        tokio::time::sleep(time).await;
        let found = span.end(tally.bytes.get() - before, tally.times.take());
        tally.is_over.set(true);
        say(&found)?;
        while let Some(caller) = callers.join_next().await {
            caller??;
        }
        Ok(())
    }
}

impl FileCaller {
    async fn by_tcp(server: SocketAddr, tls: Arc<rustls::ClientConfig>) -> Result<Self> {
        let tcp = TcpStream::connect(server).await?;
        tcp.set_nodelay(true)?;
        let stream = TlsConnector::from(tls).connect(ServerName::try_from(NAME)?, tcp).await?;
        Ok(Self::H1 { stream: Box::new(stream), buffer: vec![0; BUFFER] })
    }

    /// The file once, unless the time is over in the middle of it.
    async fn fetch(&mut self, case: FileCase, tally: &FetchTally) -> Result<()> {
        let (begun, mut sum) = (Instant::now(), PatternSum::default());
        let mut take = |part: &[u8]| {
            sum.add(part);
            tally.bytes.set(tally.bytes.get() + part.len() as u64);
            !tally.is_over.get()
        };
        let is_whole = match self {
            Self::H3 { client } => {
                let request = h3::Request::new("GET", NAME, case.path());
                let (response, mut content) = client.fetch(&request).await?;
                ensure!(response.status == 200, "the answer is {}", response.status);
                loop {
                    match content.next().await? {
                        None => break true,
                        Some(part) if !take(&part) => break false,
                        Some(_) => {}
                    }
                }
            }
            Self::H1 { stream, buffer } => {
                let request = format!("GET {} HTTP/1.1\r\nhost: {NAME}\r\n\r\n", case.path());
                stream.write_all(request.as_bytes()).await?;
                stream.flush().await?;
                let (mut end, head, length) = read_head(stream, buffer).await?;
                let mut left = length.checked_sub((end - head) as u64).context("more than was asked for")?;
                let mut goes_on = take(&buffer[head..end]);
                while left > 0 && goes_on {
                    end = stream.read(buffer).await?;
                    ensure!(end > 0, "the connection ended early");
                    left = left.checked_sub(end as u64).context("more than was asked for")?;
                    goes_on = take(&buffer[..end]);
                }
                left == 0
            }
        };
        tally.times.borrow_mut().push(begun.elapsed().as_secs_f64());
        if is_whole && (sum.bytes() != case.size() || sum.value() != tally.right) {
            bail!("{} bytes arrived instead of {}, or others", sum.bytes(), case.size());
        }
        Ok(())
    }
}

/// One cipher suite and one group.
fn setup(protocol: &'static [u8]) -> StackSetup {
    let (cipher, groups) = (StackCipher::Aes128, &[StackGroup::X25519][..]);
    StackSetup { cipher, groups, ..StackSetup::new(protocol) }
}

/// A batch of packets that came together is acknowledged as if each had come alone.
fn to_the_packet() -> TransportConfig {
    TransportConfig::default().with_acks(AckPolicy::default().with_merging(false))
}

/// Bytes read, those of them that are the head, and the length of the content.
async fn read_head(stream: &mut TlsStream<TcpStream>, buffer: &mut [u8]) -> Result<(usize, usize, u64)> {
    let mut end = 0;
    loop {
        let n = stream.read(&mut buffer[end..]).await?;
        ensure!(n > 0, "the connection ended in a head, or that is too long");
        end += n;
        if let Some((head, length)) = head(&buffer[..end])? {
            return Ok((end, head, length));
        }
    }
}

/// Bytes of the head, and the length of the content; `None` when there is more of the head.
fn head(bytes: &[u8]) -> Result<Option<(usize, u64)>> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
    let text = std::str::from_utf8(&bytes[..end])?;
    ensure!(text.starts_with("HTTP/1.1 200 "), "the answer is {text}");
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    Ok(Some((end + 4, length.context("no length")?.1.trim().parse()?)))
}

/// Bytes taken from a connection of TCP at a time.
const BUFFER: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_say_how_much_follows() {
        let text = b"HTTP/1.1 200 OK\r\ndate: x\r\nContent-Length: 12\r\n\r\n0123";
        assert_eq!(head(text).unwrap(), Some((text.len() - 4, 12)));
        assert_eq!(head(&text[..text.len() - 5]).unwrap(), None);
        assert!(head(b"HTTP/1.1 404 Not Found\r\ncontent-length: 1\r\n\r\n").is_err());
        assert!(head(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
