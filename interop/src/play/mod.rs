//! One side of one case, in a process of its own: what each program here does, whatever the stack.
//!
//! The contract, which the Python programs beside keep too:
//!
//! 1. `--role server`: listens on `--address`, prints `listening ADDRESS`, serves the files of `--dir`, and
//!    ends when its standard input does.
//! 2. `--role client`: fetches the paths named from `--address` into `--dir`, over as many connections as the
//!    case has, and ends with 0 when all are there. One that starts other programs ends with its standard
//!    input, too.
//! 3. Either may print `note NAME VALUE` for the judge.
//! 4. `--seen` is a folder for traces, where a case has some; only stacks that leave them are given it.
//! 5. `--identity` is a folder with `cert.pem`, `key.pem` and both in DER; the server's name is `localhost`.

pub(crate) mod chromium;
#[cfg(feature = "quiche")]
mod quiche;
mod quickset;
mod quickset_h3;
mod quinn;
mod quinn_h3;
#[cfg(feature = "s2n-quic")]
mod s2n;

use std::io::Read as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use clap::{Args, ValueEnum};

use crate::tls::{InteropIdentity, TlsWishes};

/// One side of one case.
#[derive(Args, Clone, Debug)]
pub(crate) struct PlayJob {
    /// The stack.
    #[arg(long)]
    peer: String,
    #[arg(long, value_enum)]
    role: PlayRole,
    /// The case, whose name says what is special.
    #[arg(long)]
    case: String,
    /// Where to listen, or where the server is.
    #[arg(long)]
    address: SocketAddr,
    /// What is served, or where to put what was fetched.
    #[arg(long)]
    dir: PathBuf,
    /// The folder of the server's certificate and key.
    #[arg(long)]
    identity: PathBuf,
    /// Where what the judge reads besides goes: traces of connections, a browser's log of its network.
    #[arg(long)]
    seen: Option<PathBuf>,
    /// HTTP/3 instead of hq-interop.
    #[arg(long)]
    h3: bool,
    /// What to fetch, like `/a`.
    paths: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlayRole {
    Client,
    Server,
}

/// Plays it.
pub(crate) fn play(job: PlayJob) -> Result<()> {
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    match (job.peer.as_str(), job.h3) {
        ("chromium", _) => threads.block_on(chromium::play(job))?,
        ("quickset", false) => threads.block_on(quickset::play(job))?,
        ("quickset", true) => threads.block_on(quickset_h3::play(job))?,
        ("quinn", false) => threads.block_on(quinn::play(job))?,
        ("quinn", true) => threads.block_on(quinn_h3::play(job))?,
        #[cfg(feature = "quiche")]
        ("quiche", _) => threads.block_on(quiche::play(job))?,
        #[cfg(feature = "s2n-quic")]
        ("s2n-quic", _) => threads.block_on(s2n::play(job))?,
        (other, _) => bail!("there is no program {other:?} in this build"),
    }
    threads.shutdown_timeout(Duration::from_millis(100));
    Ok(())
}

impl PlayJob {
    fn is(&self, case: &str) -> bool {
        self.case == case
    }

    /// The server makes the client prove its address.
    fn retries(&self) -> bool {
        self.is("retry") || self.case.starts_with("hello-retry")
    }

    fn identity(&self) -> Result<InteropIdentity> {
        InteropIdentity::read(&self.identity)
    }

    fn wishes(&self) -> TlsWishes {
        let protocol: &[u8] = if self.h3 { b"h3" } else { HQ };
        let p384 = self.is("hello-again") && self.role == PlayRole::Server;
        TlsWishes { protocol, chacha: self.is("chacha20"), p384, early: self.is("zerortt") }
    }

    /// What is fetched over each connection, one after the other.
    fn connections(&self) -> Vec<Vec<String>> {
        match self.case.as_str() {
            "handshakeloss" | "handshakecorruption" => self.paths.iter().map(|p| vec![p.clone()]).collect(),
            "resumption" | "zerortt" => {
                let (first, rest) = self.paths.split_at(self.paths.len().min(1));
                vec![first.to_vec(), rest.to_vec()]
            }
            _ => vec![self.paths.clone()],
        }
    }

    /// The file of a path; nothing outside the folder.
    fn file(&self, path: &str) -> Option<Bytes> {
        let name = path.strip_prefix('/')?.split('?').next()?;
        if name.contains(['/', '\\']) || name.starts_with('.') {
            return None;
        }
        std::fs::read(self.dir.join(name)).ok().map(Bytes::from)
    }

    /// The file that an hq-interop request asks for.
    fn requested(&self, request: &[u8]) -> Result<Bytes> {
        let line = std::str::from_utf8(request)?.trim_end();
        let path = line.strip_prefix("GET ").with_context(|| format!("not a request: {line:?}"))?;
        self.file(path).with_context(|| format!("there is no {path}"))
    }

    fn store(&self, path: &str, content: &[u8]) -> Result<()> {
        let name = path.trim_start_matches('/');
        ensure!(!name.contains('/'), "{path} is not here");
        std::fs::write(self.dir.join(name), content).with_context(|| format!("storing {path}"))
    }
}

/// An hq-interop request.
fn request(path: &str) -> Bytes {
    format!("GET {path}\r\n").into()
}

/// Says where a server is.
fn listening(address: SocketAddr) {
    println!("listening {address}");
}

/// Says something to the judge.
fn note(name: &str, value: impl std::fmt::Display) {
    println!("note {name} {value}");
}

/// Waits until whoever started us has no more use for us.
async fn dismissed() {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = sender.send(());
    });
    let _ = receiver.await;
}

/// HTTP/0.9 over QUIC, as the QUIC interop runner has it.
pub(crate) const HQ: &[u8] = b"hq-interop";

/// The largest request of hq-interop.
const MAX_REQUEST: usize = 4096;
/// The largest file.
const MAX_FILE: usize = 1 << 30;
