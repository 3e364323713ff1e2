use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A program, stopped when dropped.
pub(crate) struct Program {
    name: String,
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Program {
    /// Starts a program, and gathers what it prints, on either stream.
    pub(crate) fn start(command: &mut Command) -> Self {
        let name = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{name}: {error}"));
        let lines = Arc::new(Mutex::new(Vec::new()));
        let gather = |stream: Box<dyn std::io::Read + Send>| {
            let lines = lines.clone();
            // It ends with the program.
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    lines.lock().unwrap().push(line);
                }
            });
        };
        gather(Box::new(child.stdout.take().unwrap()));
        gather(Box::new(child.stderr.take().unwrap()));
        Self { name, child, lines }
    }

    /// What it has printed.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// Waits for something in what it prints.
    pub(crate) async fn prints<T>(&mut self, what: &str, find: impl Fn(&str) -> Option<T>) -> T {
        let end = Instant::now() + crate::LIMIT;
        loop {
            if let Some(found) = self.lines().iter().rev().find_map(|line| find(line)) {
                return found;
            }
            let ended = self.child.try_wait().unwrap();
            let last = || self.lines().join("\n  ");
            assert!(ended.is_none(), "{} ended: {ended:?}\n  {}", self.name, last());
            assert!(Instant::now() < end, "{} does not print {what}:\n  {}", self.name, last());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// How long processors have worked for it so far, in steps of 10 ms, as Linux tells it. What its children
    /// took counts once they have ended.
    pub(crate) fn worked(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // proc_pid_stat(5): the name of the program is in brackets, and may hold others.
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let ticks = fields[11..15].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum::<u64>();
        Duration::from_millis(10 * ticks)
    }

    /// It has ended.
    pub(crate) fn ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let lines = self.lines();
            let from = lines.len().saturating_sub(12);
            eprintln!("--- {}:\n  {}", self.name, lines[from..].join("\n  "));
        }
    }
}

/// An X server that is a VNC server.
pub(crate) struct Display {
    server: Program,
    pub(crate) name: String,
    pub(crate) vnc: SocketAddr,
}

impl Display {
    /// On a display that nobody uses.
    pub(crate) async fn start(width: u16, height: u16) -> Self {
        Self::begin(|name, port| {
            let mut command = Command::new("Xtigervnc");
            command.args([name, "-geometry", &format!("{width}x{height}"), "-depth", "24"]);
            command.args(["-rfbport", &port.to_string(), "-SecurityTypes", "None", "-localhost=1"]);
            // The frame rate of the server must not be what limits.
            command.args(["-AlwaysShared", "-FrameRate", "60"]);
            command
        })
        .await
    }

    /// The same with a program that takes the name of a display and serves VNC on a port of loopback.
    pub(crate) async fn begin(command: impl Fn(&str, u16) -> Command) -> Self {
        for number in 100 + std::process::id() % 400..700 {
            if Path::new(&format!("/tmp/.X11-unix/X{number}")).exists() {
                continue;
            }
            // Somebody else may take the port before the server does: then the next number is tried.
            let vnc = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let name = format!(":{number}");
            let mut server = Program::start(&mut command(&name, vnc.port()));
            let end = Instant::now() + crate::LIMIT;
            while !server.ended() && Instant::now() < end {
                if std::net::TcpStream::connect(vnc).is_ok() {
                    return Self { server, name, vnc };
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        panic!("no X server comes up");
    }

    /// How long processors have worked for the X server.
    pub(crate) fn worked(&self) -> Duration {
        self.server.worked()
    }

    /// A program on this display.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> Program {
        Program::start(&mut self.command(program, arguments))
    }

    /// Runs a program to its end, and returns what it prints; nothing when it fails.
    pub(crate) fn ask(&self, program: &str, arguments: &[&str]) -> String {
        String::from_utf8(self.ask_bytes(program, arguments)).unwrap()
    }

    /// The same for what is no UTF-8.
    pub(crate) fn ask_bytes(&self, program: &str, arguments: &[&str]) -> Vec<u8> {
        let mut child =
            self.command(program, arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut bytes = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut bytes).unwrap();
        if child.wait().unwrap().success() { bytes } else { Vec::new() }
    }

    /// Waits for a window whose line in the tree of windows holds `title`: its number and where it is.
    pub(crate) async fn window(&self, title: &str) -> Window {
        Window::titled(&self.name, title).await
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).env("DISPLAY", &self.name).env("LC_ALL", "C.UTF-8").env_remove("WINDOWID");
        command
    }
}

/// A line of `xwininfo -tree`.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) id: String,
    pub(crate) width: u16,
    pub(crate) height: u16,
    pub(crate) x: u16,
    pub(crate) y: u16,
}

impl Window {
    /// Waits for one of this display whose line in the tree of windows holds `title`.
    pub(crate) async fn titled(display: &str, title: &str) -> Self {
        let end = Instant::now() + crate::LIMIT;
        loop {
            let mut command = Command::new("xwininfo");
            command.args(["-display", display, "-root", "-tree"]).env("LC_ALL", "C.UTF-8");
            let tree = String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned();
            if let Some(window) = tree.lines().find(|line| line.contains(title)).and_then(Self::read) {
                return window;
            }
            assert!(Instant::now() < end, "there is no window {title}:\n{tree}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// `0x200005 "title": ("a" "B")  800x600+1+20  +1+20`.
    fn read(line: &str) -> Option<Self> {
        let id = line.split_whitespace().next()?.to_owned();
        let (rest, place) = line.rsplit_once("  ")?;
        let size = rest.rsplit_once("  ")?.1.split('+').next()?;
        let (width, height) = size.split_once('x')?;
        let mut place = place.split('+').skip(1);
        Some(Self {
            id,
            width: width.parse().ok()?,
            height: height.parse().ok()?,
            x: place.next()?.parse().ok()?,
            y: place.next()?.parse().ok()?,
        })
    }
}
