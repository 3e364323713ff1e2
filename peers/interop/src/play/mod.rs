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
//! 5. `--identity` is a folder with `cert.pem` and `key.pem`; the server's name is `localhost`.

pub(crate) mod chromium;
mod files;

use std::io::Read as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use clap::{Args, ValueEnum};
use quickset_stacks::{Stack, StackCipher, StackGroup, StackIdentity, StackSetup, StackTickets};

use self::files::FilePlay;

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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, job.play())?;
    runtime.shutdown_timeout(Duration::from_millis(100));
    Ok(())
}

impl PlayJob {
    async fn play(self) -> Result<()> {
        let stack = match (self.peer.as_str(), self.h3) {
            ("chromium", _) => return chromium::play(self).await,
            ("quickset", false) => Stack::Quickset,
            ("quickset", true) => Stack::QuicksetH3,
            ("quinn", false) => Stack::Quinn,
            ("quinn", true) => Stack::QuinnH3,
            ("quiche", false) => Stack::Quiche,
            ("quiche", true) => Stack::QuicheH3,
            ("s2n-quic", _) => Stack::S2nQuic,
            (other, _) => bail!("there is no program {other:?}"),
        };
        let (identity, setup) = (StackIdentity::read(&self.identity)?, self.setup());
        let (role, address) = (self.role, self.address);
        let part = FilePlay(Rc::new(self));
        match role {
            PlayRole::Server => stack.serve(address, &identity, &setup, part).await,
            PlayRole::Client => stack.call(address, &identity, &setup, part).await,
        }
    }

    fn is(&self, case: &str) -> bool {
        self.case == case
    }

    fn setup(&self) -> StackSetup {
        let plain = StackSetup::new(if self.h3 { b"h3" } else { HQ });
        let is_last_resort = self.is("hello-again") && self.role == PlayRole::Server;
        StackSetup {
            cipher: if self.is("chacha20") { StackCipher::ChaCha20 } else { plain.cipher },
            groups: if is_last_resort { &[StackGroup::P384] } else { plain.groups },
            tickets: if self.is("zerortt") { StackTickets::Early } else { StackTickets::Kept },
            retry: self.is("retry") || self.case.starts_with("hello-retry"),
            likes_2: self.is("v2"),
            roams: self.is("connectionmigration"),
            traces: self.seen.clone(),
            ..plain
        }
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

    fn store(&self, path: &str, content: &[u8]) -> Result<()> {
        let name = path.trim_start_matches('/');
        ensure!(!name.contains('/'), "{path} is not here");
        std::fs::write(self.dir.join(name), content).with_context(|| format!("storing {path}"))
    }
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
