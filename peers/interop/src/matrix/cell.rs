//! One case with one peer, one way round.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use quickset_stacks::StackIdentity;

use super::cases::{Evidence, MatrixCase, Meddling};
use super::program::MatrixProgram;
use super::{CellOutcome, page};
use crate::adapters;
use crate::pattern::StreamPattern;
use crate::play::PlayRole;
use crate::play::chromium::PAGE;
use crate::relay::{InteropRelay, Road};
use crate::world::names;

pub(super) struct MatrixCell {
    pub(super) case: &'static MatrixCase,
    pub(super) peer: &'static str,
    pub(super) ours: PlayRole,
    pub(super) h3: bool,
    pub(super) quick: bool,
    pub(super) seed: u64,
    pub(super) our_program: Vec<OsString>,
    pub(super) peer_program: Vec<OsString>,
    pub(super) logs: PathBuf,
}

/// What a cell works with.
struct Ground {
    folder: PathBuf,
    files: Vec<(String, Vec<u8>)>,
    certificate: u64,
}

/// Time is up, and the client still at work.
#[derive(Debug, thiserror::Error)]
#[error("not over after {0} s")]
struct NotOver(u64);

/// What came of it.
struct CellPlayed {
    seconds: f64,
    figure: Option<String>,
}

impl MatrixCell {
    /// Plays it, in bounded time; what it leaves behind is kept only when it fails.
    pub(super) fn play(&self) -> Result<CellOutcome> {
        let ground = self.ground()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let result = runtime.block_on(self.run(&ground));
        drop(runtime);
        let _ = std::fs::remove_dir_all(ground.folder.join("served"));
        let _ = std::fs::remove_dir_all(ground.folder.join("fetched"));
        let _ = std::fs::remove_dir_all(ground.folder.join("identity"));
        Ok(match result {
            Ok(played) => {
                let _ = std::fs::remove_dir_all(&ground.folder);
                CellOutcome::Pass { seconds: played.seconds, figure: played.figure, surprise: false }
            }
            Err(error) => {
                let stalled = error.is::<NotOver>();
                CellOutcome::Fail { why: format!("{error:#}"), stalled, logs: Some(ground.folder) }
            }
        })
    }

    fn ground(&self) -> Result<Ground> {
        let ours = if self.ours == PlayRole::Server { "server" } else { "client" };
        let folder = self.logs.join(format!("{}-{}-our-{ours}", self.peer, self.case.name));
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        let served = folder.join("served");
        std::fs::create_dir_all(&served)?;
        std::fs::create_dir_all(folder.join("fetched"))?;
        let identity = StackIdentity::create(&folder.join("identity"), &names(self.case.names))?;
        let quick = self.quick && !self.case.quick.is_empty();
        let sizes = if quick { self.case.quick } else { self.case.files };
        let sizes = sizes.iter().flat_map(|(count, size)| std::iter::repeat_n(*size, *count));
        // Long paths, so that requests are something: what of them is early data is to be seen.
        let long = if self.case.name == "zerortt" { "x".repeat(200) } else { String::new() };
        let mut files = Vec::new();
        for (n, size) in sizes.enumerate() {
            let name = format!("{long}file{n}");
            let content = StreamPattern::new(self.seed + n as u64).take(size);
            std::fs::write(served.join(&name), &content)?;
            files.push((format!("/{name}"), content));
        }
        std::fs::write(served.join("page.html"), PAGE)?;
        if self.case.page {
            std::fs::create_dir_all(folder.join("seen"))?;
            for (name, content) in page::site() {
                std::fs::write(served.join(name), content)?;
            }
        }
        Ok(Ground { folder, files, certificate: identity.certificate.len() as u64 })
    }

    async fn run(&self, ground: &Ground) -> Result<CellPlayed> {
        let ip: IpAddr =
            if self.case.name == "ipv6" { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
        let mut server = self.start(PlayRole::Server, (ip, 0).into(), ground)?;
        let address = server.listening().await?;
        let beside = if self.case.name == "crosstraffic" {
            Some(BesideTransfer::start(self, ground).await?)
        } else {
            None
        };
        let servers: Vec<SocketAddr> =
            std::iter::once(address).chain(beside.as_ref().map(|beside| beside.address)).collect();
        let relay = InteropRelay::between(&servers, &self.road()?, self.seed)?;
        let mut beside = match beside {
            Some(mut beside) => {
                beside.fetch(self, ground, relay.addresses()[1])?;
                tokio::time::sleep(Duration::from_secs(1)).await;
                Some(beside)
            }
            None => None,
        };
        let start = Instant::now();
        let mut client = self.start(PlayRole::Client, relay.address(), ground)?;
        let ended = async {
            tokio::select! {
                ended = client.ended() => ended,
                () = self.meddle(&relay) => Err(anyhow!("the meddling ended")),
            }
        };
        let ended = tokio::time::timeout(self.case.limit(), ended).await;
        let seconds = start.elapsed().as_secs_f64();
        // The client's farewell is still on the road.
        tokio::time::sleep(Duration::from_millis(100)).await;
        if ended.is_err() {
            // It may have started others, and takes them along when it goes by itself.
            client.dismiss().await?;
        }
        let server_ended = server.dismiss().await?;
        let beside_ended = match &mut beside {
            Some(beside) => beside.end().await,
            None => Ok(()),
        };
        write_seen(&relay, &ground.folder)?;
        match ended {
            Err(_) => return Err(NotOver(self.case.seconds).into()),
            Ok(Ok(0)) => {}
            Ok(status) => {
                let said = last_words(&ground.folder.join("client.log"));
                return Err(anyhow!("the client ended with {}: {said}", status?));
            }
        }
        ground.compare()?;
        beside_ended?;
        self.check_ours(ground, server_ended)?;
        let ours = if self.ours == PlayRole::Server { &server } else { &client };
        let evidence = Evidence {
            ours: self.ours,
            seen: relay.seen(),
            flows: &relay.flows(),
            certificate: ground.certificate,
            key_updates: ours.noted("key_updates"),
            files: ground.files.len() as u64,
            bytes: ground.files.iter().map(|(_, content)| content.len() as u64).sum(),
            seconds,
            folder: &ground.folder,
        };
        (self.case.judge)(&evidence)?;
        let figure = if self.case.measures() {
            let rate = evidence.bytes as f64 * 8.0 / relay.span(0).as_secs_f64();
            Some(format!("{:.2} Mbit/s", rate / 1e6))
        } else {
            evidence.handshake().filter(|_| self.case.is_hello())
        };
        Ok(CellPlayed { seconds, figure })
    }

    /// Files that came say nothing about a panic in some task of ours, nor about how our server goes.
    fn check_ours(&self, ground: &Ground, server_ended: Option<i32>) -> Result<()> {
        let name = if self.ours == PlayRole::Server { "server" } else { "client" };
        let said = std::fs::read(ground.folder.join(format!("{name}.log")))?;
        if let Some(line) = String::from_utf8_lossy(&said).lines().find(|line| line.contains("panicked at")) {
            return Err(anyhow!("ours panicked: {line}"));
        }
        ensure!(
            self.ours == PlayRole::Client || server_ended == Some(0),
            "our server ended with {}",
            server_ended.map_or_else(|| "a kill: it did not go".to_owned(), |status| status.to_string())
        );
        Ok(())
    }

    fn road(&self) -> Result<Road> {
        let up = self.case.up.map(str::parse).transpose()?;
        Ok(Road { link: self.case.road.parse()?, start: None, up })
    }

    fn start(&self, role: PlayRole, address: SocketAddr, ground: &Ground) -> Result<MatrixProgram> {
        let program = if role == self.ours { &self.our_program } else { &self.peer_program };
        let name = if role == PlayRole::Server { "server" } else { "client" };
        let log = ground.folder.join(format!("{name}.log"));
        MatrixProgram::start(program, &self.arguments(role, address, ground, self.h3), &log)
    }

    fn arguments(&self, role: PlayRole, address: SocketAddr, ground: &Ground, h3: bool) -> Vec<OsString> {
        let (role, folder) =
            if role == PlayRole::Server { ("server", "served") } else { ("client", "fetched") };
        let mut arguments: Vec<OsString> =
            ["--role", role, "--case", self.case.name].map(OsString::from).into();
        arguments.extend(["--address".into(), address.to_string().into()]);
        arguments.extend(["--dir".into(), ground.folder.join(folder).into()]);
        arguments.extend(["--identity".into(), ground.folder.join("identity").into()]);
        if h3 {
            arguments.push("--h3".into());
        }
        if self.case.page {
            arguments.extend(["--seen".into(), ground.folder.join("seen").into()]);
        }
        if role == "client" {
            arguments.extend(ground.files.iter().map(|(path, _)| path.into()));
        }
        arguments
    }

    /// What happens on the road meanwhile; it has no end of its own.
    async fn meddle(&self, relay: &InteropRelay) {
        let pause = async |ms| tokio::time::sleep(Duration::from_millis(ms)).await;
        match self.case.meddling {
            Meddling::None => {}
            Meddling::Cut => {
                pause(1500).await;
                relay.cut();
                pause(2000).await;
                relay.mend();
            }
            // Python takes a second to come up.
            Meddling::Port | Meddling::Address => {
                for last in [2, 3] {
                    pause(1500).await;
                    let last = if self.case.meddling == Meddling::Address { last } else { 1 };
                    relay.rebind(Ipv4Addr::new(127, 0, 0, last).into()).await;
                }
            }
        }
        std::future::pending::<()>().await;
    }
}

impl Ground {
    fn compare(&self) -> Result<()> {
        for (path, content) in &self.files {
            let file = self.folder.join("fetched").join(path.trim_start_matches('/'));
            let fetched = std::fs::read(&file).with_context(|| format!("{path} did not come"))?;
            ensure!(
                fetched == *content,
                "{path} has {} bytes or other ones, not {}",
                fetched.len(),
                content.len()
            );
        }
        Ok(())
    }
}

/// A transfer from quinn to quinn on the same road, of three times the bytes.
struct BesideTransfer {
    address: SocketAddr,
    server: MatrixProgram,
    client: Option<MatrixProgram>,
}

impl BesideTransfer {
    async fn start(cell: &MatrixCell, ground: &Ground) -> Result<Self> {
        let arguments = cell.arguments(PlayRole::Server, (Ipv4Addr::LOCALHOST, 0).into(), ground, false);
        let mut server = MatrixProgram::start(
            &adapters::own("quinn")?,
            &arguments,
            &ground.folder.join("beside-server.log"),
        )?;
        let address = server.listening().await.context("the server beside")?;
        Ok(Self { address, server, client: None })
    }

    fn fetch(&mut self, cell: &MatrixCell, ground: &Ground, address: SocketAddr) -> Result<()> {
        let mut arguments = cell.arguments(PlayRole::Client, address, ground, false);
        // Several streams of the same files: it must not end first.
        let paths: Vec<OsString> = ground.files.iter().map(|(path, _)| path.into()).collect();
        (0..2).for_each(|_| arguments.extend(paths.iter().cloned()));
        let dir = ground.folder.join("fetched").join("beside");
        std::fs::create_dir_all(&dir)?;
        if let Some(at) = arguments.iter().position(|argument| argument == "--dir") {
            arguments[at + 1] = dir.into();
        }
        let log = ground.folder.join("beside-client.log");
        self.client = Some(MatrixProgram::start(&adapters::own("quinn")?, &arguments, &log)?);
        Ok(())
    }

    /// Fails if it broke: then ours was alone.
    async fn end(&mut self) -> Result<()> {
        let status = self.client.as_mut().and_then(MatrixProgram::status);
        self.client = None;
        self.server.dismiss().await?;
        ensure!(status.is_none_or(|status| status == 0), "the transfer beside ended with {status:?}");
        Ok(())
    }
}

/// For whoever reads the logs.
fn write_seen(relay: &InteropRelay, folder: &Path) -> Result<()> {
    let mut text = String::new();
    for (n, flow) in relay.flows().iter().enumerate() {
        writeln!(text, "address {n} of the client: {flow:#?}")?;
    }
    Ok(std::fs::write(folder.join("relay.txt"), text)?)
}

/// The last line of a log.
fn last_words(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let words = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    words.chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::super::cases::CASES;
    use super::*;

    /// Served by hand: these are shell scripts in the places of both sides.
    const SERVES: &str = "echo listening 127.0.0.1:9; cat";
    const FETCHES: &str = r#"while [ "$1" != --dir ]; do shift; done; cp "$2"/../served/* "$2""#;

    fn played(ours: PlayRole, server: &str, client: &str) -> CellOutcome {
        let case = CASES.iter().find(|case| case.name == "handshake").expect("there is such a case");
        let script = |script: &str| ["sh", "-c", script, "sh"].map(OsString::from).to_vec();
        let (mut our_program, mut peer_program) = (script(server), script(client));
        if ours == PlayRole::Client {
            std::mem::swap(&mut our_program, &mut peer_program);
        }
        // A folder for each: tests run at a time.
        let at = std::process::id().to_string() + &server.len().to_string() + "-" + &client.len().to_string();
        let logs = std::env::temp_dir().join(format!("quickset-interop-{at}"));
        let (seed, peer) = (1, "shell");
        let cell = MatrixCell {
            case,
            peer,
            ours,
            h3: false,
            quick: true,
            seed,
            our_program,
            peer_program,
            logs: logs.clone(),
        };
        let outcome = cell.play().expect("the folder can be made");
        let _ = std::fs::remove_dir_all(logs);
        outcome
    }

    fn fails(ours: PlayRole, server: &str, client: &str, words: &str) {
        match played(ours, server, client) {
            CellOutcome::Fail { why, .. } => assert!(why.contains(words), "{why}"),
            other => panic!("{server} and {client}: {other:?}"),
        }
    }

    #[test]
    fn files_that_came_are_a_pass() {
        for ours in [PlayRole::Server, PlayRole::Client] {
            assert!(matches!(played(ours, SERVES, FETCHES), CellOutcome::Pass { .. }));
        }
    }

    #[test]
    fn sides_that_break_fail() {
        let spoiled = format!(r#"{FETCHES}; for file in "$2"/*; do echo >> $file; done"#);
        fails(PlayRole::Server, SERVES, &spoiled, "other ones");
        fails(PlayRole::Server, SERVES, "exit 0", "did not come");
        // As a program ends whose libraries are missing.
        fails(PlayRole::Server, SERVES, "exit 127", "the client ended with 127");
        fails(PlayRole::Client, "exit 127", FETCHES, "the server ended at once");
        // It stays, so that nobody should wait for its end.
        fails(PlayRole::Client, "echo listening nowhere; cat", FETCHES, "invalid socket address");
    }

    #[test]
    fn what_breaks_behind_the_files_is_seen_of_ours() {
        let panics = format!("{SERVES}; echo \"thread 'main' panicked at src/x.rs:1:1:\" >&2");
        let (server, client) = (PlayRole::Server, PlayRole::Client);
        fails(server, &panics, FETCHES, "ours panicked");
        assert!(matches!(played(client, &panics, FETCHES), CellOutcome::Pass { .. }), "theirs is theirs");
        fails(server, &format!("{SERVES}; exit 3"), FETCHES, "our server ended with 3");
    }
}
