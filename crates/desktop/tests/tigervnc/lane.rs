//! A way to a desktop far away: its programs on both sides of a link.

use std::fmt;
use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use quickset_lab::tunnel::{Tunnel, TunnelConfig, TunnelSide};
use quickset_sim::LinkSpec;

use super::Plan;
use super::desktop::Desktop;
use super::glass::Glass;
use super::pages::PAGE;
use super::programs::{Display, Program, Window};

/// By what a desktop is seen.
#[derive(Clone)]
pub(crate) enum Way {
    Gateways,
    /// TigerVNC's server and viewer, with TCP that has this congestion control.
    TigerVnc(String),
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gateways => f.pad("gateways"),
            Self::TigerVnc(tcp) => f.pad(&format!("TigerVNC, {tcp}")),
        }
    }
}

/// The congestion controls that TCP of this kernel has now.
pub(crate) fn congestion_controls() -> Vec<String> {
    let known = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    known.split_whitespace().map(str::to_owned).collect()
}

/// What TigerVNC's viewer says that it is.
pub(crate) fn version() -> String {
    // It says so on one stream or the other, by its version.
    let said = Command::new("xtigervncviewer").arg("--version").output().expect(
        "xtigervncviewer cannot be started: install it (Debian's package is tigervnc-viewer) and try again",
    );
    let said = [said.stdout, said.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    said.lines().find(|line| line.contains("TigerVNC")).unwrap_or("TigerVNC of an unknown version").to_owned()
}

/// A desktop, a link, and a viewer. Programs end before their network and their folder go.
pub(crate) struct Lane {
    pub(crate) desktop: Desktop,
    pub(crate) glass: Glass,
    serve: Option<Program>,
    view: Option<Program>,
    viewer: Program,
    _screen: Program,
    pub(crate) tunnel: Tunnel,
    _folder: Folder,
}

/// What a lane has used so far.
#[derive(Clone, Copy)]
pub(crate) struct Spent {
    /// IP bytes that the link carried to the viewer.
    pub(crate) bytes: u64,
    /// Times of processors: of the server, the gateways, and the viewer.
    pub(crate) server: Duration,
    pub(crate) serve: Duration,
    pub(crate) view: Duration,
    pub(crate) viewer: Duration,
}

impl Lane {
    /// Starts all its programs, and waits until the viewer has its window.
    pub(crate) fn open(way: &Way, link: &LinkSpec, plan: &Plan) -> Self {
        // A tunnel changes the network of the thread that opens it, and of what that starts.
        let open = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(Self::start(way, link, plan))
        };
        std::thread::scope(|scope| scope.spawn(open).join().unwrap())
    }

    async fn start(way: &Way, link: &LinkSpec, plan: &Plan) -> Self {
        let folder = Folder::new(&way.to_string().replace(", ", "-"));
        let both =
            TunnelConfig { up: link.clone(), down: link.clone(), seed: SEED, mtu: 1500, enclosed: true };
        let tunnel = Tunnel::open(&both).unwrap_or_else(|error| panic!("no link can be made: {error}"));
        let far = tunnel.address(TunnelSide::Far);

        tunnel.enter(TunnelSide::Far).unwrap();
        if let Way::TigerVnc(tcp) = way {
            route(tunnel.address(TunnelSide::Near), tcp);
        }
        let display = server(matches!(way, Way::TigerVnc(_))).await;
        let vnc = display.vnc;
        let quickset = |name: &str| {
            let mut command = Command::new(&plan.binary);
            command.arg("desktop").env("HOME", &folder.0).env("XDG_DATA_HOME", folder.0.join(name));
            command
        };
        let listening = |line: &str| line.strip_prefix("listening on ").map(str::to_owned);
        let (mut serve, mut view, mut target) = (None, None, format!("{far}::{}", vnc.port()));
        if let Way::Gateways = way {
            let listen = format!("{far}:0");
            let program = Program::start(quickset("server").args([
                "serve",
                "--vnc",
                &vnc.to_string(),
                "--listen",
                &listen,
                "--stats",
            ]));
            let program = serve.insert(program);
            let words = program.prints("where it listens", listening).await;
            let (address, pin) = words.split_once(' ').unwrap();
            let token =
                program.prints("a token", |line| line.strip_prefix("token ").map(str::to_owned)).await;
            tunnel.enter(TunnelSide::Near).unwrap();
            let local = ["--listen", "127.0.0.1:0", "--pin", pin, "--token", &token];
            let program = view.insert(Program::start(quickset("client").args(["view", address]).args(local)));
            let address = program.prints("where it listens", listening).await;
            let port = address.rsplit_once(':').unwrap().1;
            target = format!("127.0.0.1::{port}");
        }
        // Its X server is where it draws, before the viewer sees anything.
        let desktop = Desktop::on(display);

        tunnel.enter(TunnelSide::Near).unwrap();
        let (screen, name) = screen(&folder).await;
        let viewer = Program::start(&mut viewer(&name, &target, plan.quality, &folder));
        let window = Window::titled(&name, "TigerVNC Viewer").await;
        let glass = Glass::open(&folder.0, &window);
        Self { desktop, glass, serve, view, viewer, _screen: screen, tunnel, _folder: folder }
    }

    pub(crate) fn spent(&self) -> Spent {
        let worked = |program: &Option<Program>| program.as_ref().map_or(Duration::ZERO, Program::worked);
        Spent {
            bytes: self.tunnel.counts()[1].sent_bytes,
            server: self.desktop.display.worked(),
            serve: worked(&self.serve),
            view: worked(&self.view),
            viewer: self.viewer.worked(),
        }
    }

    /// Looks once a millisecond until something is true.
    pub(crate) fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let end = Instant::now() + super::LIMIT;
        while !holds(self) {
            assert!(
                Instant::now() < end,
                "in vain: {what}; the viewer says:\n  {}",
                self.viewer.lines().join("\n  ")
            );
            std::thread::sleep(LOOK);
        }
    }
}

impl Spent {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            bytes: self.bytes - before.bytes,
            server: self.server.saturating_sub(before.server),
            serve: self.serve.saturating_sub(before.serve),
            view: self.view.saturating_sub(before.view),
            viewer: self.viewer.saturating_sub(before.viewer),
        }
    }
}

/// TCP to this address has a congestion control from now on. It goes by route, since a network of one's own
/// may not have another one than that of the host by the setting for all of it.
fn route(address: Ipv4Addr, tcp: &str) {
    let ip = |words: &[&str]| {
        let done = Command::new("ip").args(words).output();
        let done =
            done.expect("ip cannot be started: install it (Debian's package is iproute2) and try again");
        let why = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "ip {}: {why}", words.join(" "));
        String::from_utf8(done.stdout).unwrap()
    };
    let address = address.to_string();
    let found = ip(&["-o", "-4", "route", "get", &address]);
    // `10.77.0.2 dev tun0 src 10.77.0.1 …`
    let device = found.split_whitespace().skip_while(|word| *word != "dev").nth(1).unwrap();
    ip(&["route", "add", &format!("{address}/32"), "dev", device, "congctl", tcp]);
}

/// TigerVNC's server, for everybody on its side of the link or for this host alone.
async fn server(everybody: bool) -> Display {
    Display::begin(|name, port| {
        let mut command = Command::new("Xtigervnc");
        command.args([name, "-geometry", &format!("{}x{}", PAGE.width(), PAGE.height()), "-depth", "24"]);
        command.args(["-rfbport", &port.to_string(), "-SecurityTypes", "None", "-AlwaysShared"]);
        command.arg(format!("-localhost={}", u8::from(!everybody)));
        // The frame rate of the server must not be what limits.
        command.args(["-FrameRate", "60"]);
        command
    })
    .await
}

/// The screen that a viewer draws on, as a file in this folder, and its name.
async fn screen(folder: &Folder) -> (Program, String) {
    let mut command = Command::new("Xvfb");
    command.args(["-displayfd", "1", "-screen", "0", SCREEN, "-nolisten", "tcp", "-nocursor", "-fbdir"]);
    let mut screen = Program::start(command.arg(&folder.0));
    let number = |line: &str| line.parse::<u16>().ok();
    let number = screen.prints("the number of its display", number).await;
    (screen, format!(":{number}"))
}

/// TigerVNC's viewer: as it comes, but that it asks for one quality if one is told, and that its window has
/// the size of the desktop.
fn viewer(display: &str, target: &str, quality: Option<u8>, folder: &Folder) -> Command {
    let mut command = Command::new("xtigervncviewer");
    command.env("DISPLAY", display).env("HOME", &folder.0).env("LC_ALL", "C.UTF-8");
    command.args(["-SecurityTypes", "None", "-RemoteResize=0", "-MenuKey", "", "-geometry"]);
    command.arg(format!("{}x{}+0+0", PAGE.width(), PAGE.height()));
    if let Some(quality) = quality {
        command.args(["-AutoSelect=0", "-PreferredEncoding=Tight", "-FullColor=1"]);
        command.args(["-QualityLevel", &quality.to_string()]);
    }
    command.arg(target);
    command
}

/// Gone after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("quickset-tigervnc-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Links of the same loss lose the same packets, by number.
const SEED: u64 = 1;
/// More than the desktop: the viewer has no window as large as its screen.
const SCREEN: &str = "1280x960x24";
/// From one look at a screen to the next.
pub(crate) const LOOK: Duration = Duration::from_millis(1);
