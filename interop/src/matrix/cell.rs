//! One case with one peer, one way round.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};

use super::cases::{Case, Evidence, Meddling};
use super::program::Program;
use super::{Outcome, page};
use crate::adapters;
use crate::pattern::Pattern;
use crate::play::chromium::PAGE;
use crate::play::{LACKS, Role};
use crate::relay::{Relay, Road};
use crate::tls::Identity;

pub(super) struct Cell {
    pub(super) case: &'static Case,
    pub(super) peer: &'static str,
    pub(super) ours: Role,
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

/// What came of it.
struct Played {
    seconds: f64,
    figure: Option<String>,
}

impl Cell {
    /// Plays it, in bounded time; what it leaves behind is kept only when it fails.
    pub(super) fn play(&self) -> Result<Outcome> {
        let ground = self.ground()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let result = runtime.block_on(self.run(&ground));
        drop(runtime);
        let _ = std::fs::remove_dir_all(ground.folder.join("served"));
        let _ = std::fs::remove_dir_all(ground.folder.join("fetched"));
        let _ = std::fs::remove_dir_all(ground.folder.join("identity"));
        Ok(match result {
            Ok(Some(played)) => {
                let _ = std::fs::remove_dir_all(&ground.folder);
                Outcome::Pass { seconds: played.seconds, figure: played.figure, surprise: false }
            }
            Ok(None) => {
                let _ = std::fs::remove_dir_all(&ground.folder);
                Outcome::PeerLacks { why: "it says so itself".into() }
            }
            Err(error) => Outcome::Fail { why: format!("{error:#}"), logs: Some(ground.folder) },
        })
    }

    fn ground(&self) -> Result<Ground> {
        let ours = if self.ours == Role::Server { "server" } else { "client" };
        let folder = self.logs.join(format!("{}-{}-our-{ours}", self.peer, self.case.name));
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        let served = folder.join("served");
        std::fs::create_dir_all(&served)?;
        std::fs::create_dir_all(folder.join("fetched"))?;
        let identity = Identity::new(self.case.names)?;
        identity.write(&folder.join("identity"))?;
        let quick = self.quick && !self.case.quick.is_empty();
        let sizes = if quick { self.case.quick } else { self.case.files };
        let sizes = sizes.iter().flat_map(|(count, size)| std::iter::repeat_n(*size, *count));
        // Long paths, so that requests are something: what of them is early data is to be seen.
        let long = if self.case.name == "zerortt" { "x".repeat(200) } else { String::new() };
        let mut files = Vec::new();
        for (n, size) in sizes.enumerate() {
            let name = format!("{long}file{n}");
            let content = Pattern::new(self.seed + n as u64).take(size);
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
        Ok(Ground { folder, files, certificate: identity.len() as u64 })
    }

    /// `None` when the peer says that it lacks the case.
    async fn run(&self, ground: &Ground) -> Result<Option<Played>> {
        let ip: IpAddr =
            if self.case.name == "ipv6" { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
        let mut server = self.start(Role::Server, (ip, 0).into(), ground)?;
        let address = match server.listening().await {
            Ok(address) => address,
            Err(_) if server.ended().await.is_ok_and(|status| status == LACKS) => return Ok(None),
            Err(error) => return Err(error),
        };
        let beside =
            if self.case.name == "crosstraffic" { Some(Beside::start(self, ground).await?) } else { None };
        let servers: Vec<SocketAddr> =
            std::iter::once(address).chain(beside.as_ref().map(|beside| beside.address)).collect();
        let relay = Relay::between(&servers, &self.road()?, self.seed)?;
        let mut beside = match beside {
            Some(mut beside) => {
                beside.fetch(self, ground, relay.addresses()[1])?;
                tokio::time::sleep(Duration::from_secs(1)).await;
                Some(beside)
            }
            None => None,
        };
        let start = Instant::now();
        let mut client = self.start(Role::Client, relay.address(), ground)?;
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
        server.dismiss().await?;
        if let Some(beside) = &mut beside {
            beside.end().await?;
        }
        write_seen(&relay, &ground.folder)?;
        match ended {
            Err(_) => return Err(anyhow!("not over after {} s", self.case.seconds)),
            Ok(Ok(0)) => {}
            Ok(Ok(LACKS)) => return Ok(None),
            Ok(status) => {
                let said = last_words(&ground.folder.join("client.log"));
                return Err(anyhow!("the client ended with {}: {said}", status?));
            }
        }
        ground.compare()?;
        let ours = if self.ours == Role::Server { &server } else { &client };
        let evidence = Evidence {
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
        let figure = self.case.measures().then(|| {
            let rate = evidence.bytes as f64 * 8.0 / relay.span(0).as_secs_f64();
            format!("{:.2} Mbit/s", rate / 1e6)
        });
        Ok(Some(Played { seconds, figure }))
    }

    fn road(&self) -> Result<Road> {
        let up = self.case.up.map(str::parse).transpose()?;
        Ok(Road { link: self.case.road.parse()?, start: None, up })
    }

    fn start(&self, role: Role, address: SocketAddr, ground: &Ground) -> Result<Program> {
        let program = if role == self.ours { &self.our_program } else { &self.peer_program };
        let name = if role == Role::Server { "server" } else { "client" };
        let log = ground.folder.join(format!("{name}.log"));
        Program::start(program, &self.arguments(role, address, ground, self.h3), &log)
    }

    fn arguments(&self, role: Role, address: SocketAddr, ground: &Ground, h3: bool) -> Vec<OsString> {
        let (role, folder) = if role == Role::Server { ("server", "served") } else { ("client", "fetched") };
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
    async fn meddle(&self, relay: &Relay) {
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
struct Beside {
    address: SocketAddr,
    server: Program,
    client: Option<Program>,
}

impl Beside {
    async fn start(cell: &Cell, ground: &Ground) -> Result<Self> {
        let arguments = cell.arguments(Role::Server, (Ipv4Addr::LOCALHOST, 0).into(), ground, false);
        let mut server =
            Program::start(&adapters::own("quinn")?, &arguments, &ground.folder.join("beside-server.log"))?;
        let address = server.listening().await.context("the server beside")?;
        Ok(Self { address, server, client: None })
    }

    fn fetch(&mut self, cell: &Cell, ground: &Ground, address: SocketAddr) -> Result<()> {
        let mut arguments = cell.arguments(Role::Client, address, ground, false);
        // Several streams of the same files: it must not end first.
        let paths: Vec<OsString> = ground.files.iter().map(|(path, _)| path.into()).collect();
        (0..2).for_each(|_| arguments.extend(paths.iter().cloned()));
        let dir = ground.folder.join("fetched").join("beside");
        std::fs::create_dir_all(&dir)?;
        if let Some(at) = arguments.iter().position(|argument| argument == "--dir") {
            arguments[at + 1] = dir.into();
        }
        let log = ground.folder.join("beside-client.log");
        self.client = Some(Program::start(&adapters::own("quinn")?, &arguments, &log)?);
        Ok(())
    }

    async fn end(&mut self) -> Result<()> {
        self.client = None;
        self.server.dismiss().await
    }
}

/// For whoever reads the logs.
fn write_seen(relay: &Relay, folder: &Path) -> Result<()> {
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
