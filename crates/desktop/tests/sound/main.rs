//! Sound between both gateways as `quickset` runs them, from a sound server to another across a link that
//! loses packets: which frames come in time for a play-out delay of 120 ms, and for how many more bytes; by
//! QUIC, by QUIC without repair and by TCP, at the same time, and by QUIC where nothing is lost. `cargo xtask
//! sound` runs it, and prints a row for each.
//!
//! A null sink plays a tone, `desktop serve --sound` records its monitor, and `desktop view --sound` plays
//! into another null sink, whose monitor is listened to. The link is that of `quickset link`, TCP and all.
//! QUICKSET_SOUND_SECONDS says for how long, …_LOSS over which losses, …_BINARY with which command; …_STRICT
//! is set where the machine is free enough to be held to the figures.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "numbers in tests are small, or cut on purpose"
)]

#[expect(dead_code, reason = "nobody looks at the desktop here")]
#[path = "../e2e/programs.rs"]
mod programs;
mod pulse;
mod purity;
#[path = "../gateway/tone.rs"]
mod tone;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use programs::{Display, Program};
use pulse::{Listener, PulseServer};
use purity::Purity;
use serde_json::Value;

/// How long a condition may take.
const LIMIT: Duration = Duration::from_secs(40);
/// The link, each way, but for what it loses.
const LINK: &[&str] = &["--rate", "100mbit", "--delay", "50ms", "--queue", "1MB"];
/// How much later than the fastest a frame may come: 120 ms from its recording, of which the way takes 50.
const IN_TIME: u64 = 70;

/// A way from one gateway to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Where nothing is lost: what is late there is so for this machine.
    Clear,
    Quic,
    /// Without repair.
    Bare,
    /// UDP does not get through.
    Tcp,
}

const WAYS: [Way; 4] = [Way::Clear, Way::Quic, Way::Bare, Way::Tcp];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, PulseAudio and X programs: cargo xtask sound"]
async fn frames_come_in_time() {
    let word = |name: &str, usual: &str| std::env::var(name).unwrap_or_else(|_| usual.into());
    let seconds: u64 = word("QUICKSET_SOUND_SECONDS", "20").parse().unwrap();
    let loss = word("QUICKSET_SOUND_LOSS", "1%");
    let folder = Folder::new();
    let far = PulseServer::start(&folder.0.join("far"), &["far"]).await;
    let near = PulseServer::start(&folder.0.join("near"), &WAYS.map(Way::sink)).await;
    let tone = far.plays(&folder.tone());
    let display = Display::start(320, 240).await;
    let mut running = Vec::new();
    for way in WAYS {
        running.push(Gateways::start(way, &folder.0, &display, [&far, &near], (&loss, seconds)).await);
    }
    let end = Instant::now() + Duration::from_secs(seconds) + LIMIT;
    let mut rows = Vec::new();
    for gateways in running {
        rows.push(gateways.row(end).await);
    }
    drop(tone);
    println!("{seconds} s of sound over 50 ms each way that lose {loss}\n{HEAD}");
    for row in &rows {
        println!("{}", row.line());
    }
    let worst = rows.iter().map(|row| row.link_late).fold(0.0, f64::max);
    println!("packets left the links {worst:.1} ms late (p99); what waits for this machine is late, too");
    for row in &rows {
        row.judge(&rows[0]);
    }
    if std::env::var_os("QUICKSET_SOUND_STRICT").is_some() {
        rows[1].judge_strictly(&rows[0]);
    }
}

/// DT-75: on either side one after the other, and what programs say of it is told in a sentence.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PulseAudio and X programs: cargo xtask sound"]
async fn sound_servers_vanish_and_come_back() {
    let folder = Folder::new();
    let [far_place, near_place] = ["far", "near"].map(|name| folder.0.join(name));
    let tone = folder.tone();
    let far = PulseServer::start(&far_place, &["far"]).await;
    let near = PulseServer::start(&near_place, &["near"]).await;
    let mut plays = far.plays(&tone);
    let display = Display::start(320, 240).await;
    let quickset = |side: &str, words: &[&str], place: &str| {
        let mut command = Command::new(binary());
        command.args(["desktop", side, "--listen", "127.0.0.1:0", "--sound"]).args(words);
        command.env("XDG_DATA_HOME", folder.0.join(side)).env("HOME", &folder.0).env("PULSE_SERVER", place);
        Program::start(&mut command)
    };
    let mut serve = quickset("serve", &["--vnc", &display.vnc.to_string()], &far.place);
    let listening = |line: &str| line.strip_prefix("listening on ").map(str::to_owned);
    let words = serve.prints("where it listens", listening).await;
    let (address, pin) = words.split_once(' ').unwrap();
    let token = serve.prints("a token", |line| line.strip_prefix("token ").map(str::to_owned)).await;
    let mut view = quickset("view", &[address, "--pin", pin, "--token", &token], &near.place);
    let heard = Heard::default();
    let mut ears = near.listens("near", heard.listener());
    heard.more("a tone").await;
    drop((far, plays));
    serve.prints("that nothing is recorded", |line| line.contains("`parec` has ended").then_some(())).await;
    let far = PulseServer::start(&far_place, &["far"]).await;
    plays = far.plays(&tone);
    heard.more("a tone, of the sound server that has come back at the server").await;
    drop((near, ears));
    view.prints("that nothing is played", |line| line.contains("`pacat` has ended").then_some(())).await;
    let near = PulseServer::start(&near_place, &["near"]).await;
    ears = near.listens("near", heard.listener());
    heard.more("a tone, of the sound server that has come back here").await;
    drop((ears, plays));
    for program in [&serve, &view] {
        let lines = program.lines();
        // Not a word of theirs is outside of our sentence.
        let theirs =
            lines.iter().filter(|line| ["onnection failure", "tream error"].iter().any(|w| line.contains(w)));
        assert!(theirs.clone().all(|line| line.contains("has ended (exit status")), "{lines:#?}");
    }
}

/// Stretches of a tone that were heard.
#[derive(Clone, Default)]
struct Heard(Arc<AtomicU32>);

impl Heard {
    fn listener(&self) -> impl FnMut(Instant, &[i16]) + Send + 'static {
        let heard = self.clone();
        move |_, samples| {
            let samples: Vec<f64> = samples.iter().map(|&sample| f64::from(sample)).collect();
            if tone::pure_share(&samples) > 0.5 {
                heard.0.fetch_add(1, Relaxed);
            }
        }
    }

    /// Waits for half a second of it.
    async fn more(&self, what: &str) {
        let (end, before) = (Instant::now() + LIMIT, self.0.load(Relaxed));
        while self.0.load(Relaxed) < before + 50 {
            assert!(Instant::now() < end, "in vain: {what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The command that serves and views.
fn binary() -> PathBuf {
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/debug/quickset");
    std::env::var_os("QUICKSET_SOUND_BINARY").map_or_else(built, PathBuf::from)
}

/// Both gateways, and the link between.
struct Gateways {
    way: Way,
    serve: Program,
    /// The link, and the viewer's gateway behind it.
    link: Program,
    heard: Arc<Purity>,
    _listener: Listener,
    report: PathBuf,
}

impl Gateways {
    async fn start(
        way: Way,
        folder: &Path,
        display: &Display,
        [far, near]: [&PulseServer; 2],
        (loss, seconds): (&str, u64),
    ) -> Self {
        let binary = binary();
        let home = folder.join(way.sink());
        let mut serve = Command::new(&binary);
        serve.args(["desktop", "serve", "--vnc", &display.vnc.to_string(), "--listen", "0.0.0.0:0"]);
        serve.args(["--sound", "--stats", "--fec", if way == Way::Bare { "none" } else { "adaptive" }]);
        serve.env("XDG_DATA_HOME", home.join("server")).env("PULSE_SERVER", &far.place);
        serve.env("HOME", &home);
        let mut serve = Program::start(&mut serve);
        let listening = |line: &str| line.strip_prefix("listening on ").map(str::to_owned);
        let words = serve.prints("where it listens", listening).await;
        let (address, pin) = words.split_once(' ').unwrap();
        let port = address.rsplit(':').next().unwrap();
        let token = serve.prints("a token", |line| line.strip_prefix("token ").map(str::to_owned)).await;
        let report = folder.join(format!("{}.json", way.sink()));
        let mut link = Command::new(&binary);
        let loss = if way == Way::Clear { "none" } else { loss };
        link.args(["link", "--quiet"]).args(LINK).args(["--loss", loss, "--seed", SEED, "--report"]);
        let words = if way == Way::Tcp { format!("{WALL} && {NEAR}") } else { NEAR.into() };
        link.arg(&report).args(["--", "sh", "-c", &words]);
        link.env("QUICKSET", &binary).env("SECONDS_OF_IT", seconds.to_string());
        link.env("PORT", port).env("PIN", pin).env("TOKEN", &token).env("HOME", &home);
        link.env("XDG_DATA_HOME", home.join("client")).env("PULSE_SERVER", &near.place);
        link.env("PULSE_SINK", way.sink());
        let heard = Arc::<Purity>::default();
        let counts = heard.clone();
        let listener = near.listens(way.sink(), move |_, samples| counts.count(samples));
        Self { way, serve, link: Program::start(&mut link), heard, _listener: listener, report }
    }

    /// What has become of it, once it is over.
    async fn row(mut self, end: Instant) -> Row {
        while !self.link.ended() {
            assert!(Instant::now() < end, "{:?} does not end: {:?}", self.way, self.link.lines());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // Nobody has missed its last line.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let view = last(&self.link, "connected=true");
        let serve = last(&self.serve, "client=");
        assert!(view.contains_key("frames"), "{:?}: no sound: {:?}", self.way, self.link.lines());
        let report = fs::read_to_string(&self.report).unwrap();
        let report: Value = serde_json::from_str(&report).unwrap();
        let number =
            |of: &BTreeMap<String, String>, name: &str| of.get(name).map_or(0, |n| n.parse().unwrap());
        let in_time = view["behind"].split(',').filter_map(|step| {
            let (ms, count) = step.split_once("ms:")?;
            let ms: u64 = ms.parse().ok()?;
            (ms < IN_TIME).then(|| count.parse::<u64>().unwrap())
        });
        let (played, pieces) = view["sound"].split_once('/').unwrap();
        let [played, pieces]: [u64; 2] = [played, pieces].map(|n| n.parse().unwrap());
        assert_eq!(view["by_tcp"] == "true", self.way == Way::Tcp, "{view:?}");
        Row {
            way: self.way,
            frames: number(&view, "frames"),
            in_time: in_time.sum(),
            came: number(&view, "came"),
            recovered: number(&view, "recovered"),
            concealed: pieces - played,
            bytes: number(&view, "frame-bytes"),
            repair_bytes: number(&serve, "repair-bytes"),
            link_bytes: report["down"]["bytes"].as_u64().unwrap(),
            link_lost: report["down"]["lost"].as_u64().unwrap(),
            link_late: report["lateness_ms"]["p99"].as_f64().unwrap(),
            pure: self.heard.share(),
        }
    }
}

/// The words `NAME=VALUE` of the last line that begins like this.
fn last(program: &Program, begin: &str) -> BTreeMap<String, String> {
    let lines = program.lines();
    let line = lines.iter().rev().find(|line| line.starts_with(begin));
    let line = line.unwrap_or_else(|| panic!("no line {begin}: {lines:?}"));
    let words = line.split(' ').filter_map(|word| word.split_once('='));
    words.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// What was counted by one way.
struct Row {
    way: Way,
    frames: u64,
    in_time: u64,
    came: u64,
    /// Symbols that the viewer's gateway has recovered: one is a frame, or a part of the screen.
    recovered: u64,
    concealed: u64,
    bytes: u64,
    repair_bytes: u64,
    /// IP packets towards the viewer, and those of them that were lost.
    link_bytes: u64,
    link_lost: u64,
    link_late: f64,
    pure: f64,
}

impl Row {
    fn share_in_time(&self) -> f64 {
        self.in_time as f64 / self.frames as f64
    }

    /// Bytes of repair for each of frames.
    fn extra(&self) -> f64 {
        self.repair_bytes as f64 / self.bytes as f64
    }

    fn line(&self) -> String {
        format!(
            "{:<16} {:>6} {:>7.2} % {:>5} {:>5} {:>9} {:>9} {:>8} {:>7} {:>5.1} % {:>6.0} {:>6.1} %",
            self.way.name(),
            self.frames,
            self.share_in_time() * 100.0,
            self.frames.saturating_sub(self.came),
            self.link_lost,
            self.recovered,
            self.concealed,
            self.bytes,
            self.repair_bytes,
            self.extra() * 100.0,
            self.link_bytes as f64 / self.frames as f64,
            self.pure * 100.0,
        )
    }

    /// What holds on any machine, beside what came where nothing is lost: on one that is busy, servers drop
    /// frames that are too old, and several are in a packet, as long as which repair is.
    fn judge(&self, clear: &Self) {
        assert!(self.frames > 0 && self.extra() <= 1.0, "{:?}: {:.1} %", self.way, self.extra() * 100.0);
        let lost = |row: &Self| row.frames.saturating_sub(row.came);
        match self.way {
            Way::Clear => {}
            Way::Quic => {
                assert!(self.repair_bytes > 0 && self.recovered > 0, "nothing is repaired");
                let most = lost(clear) + self.frames / 50;
                assert!(lost(self) <= most, "{} of {} are lost for good", lost(self), self.frames);
            }
            Way::Bare | Way::Tcp => assert_eq!(self.repair_bytes, 0, "{:?}", self.way),
        }
    }

    /// What holds on one that is free: of what this machine lets come in time.
    fn judge_strictly(&self, clear: &Self) {
        let share = self.share_in_time() / clear.share_in_time();
        assert!(share >= 0.998 && self.extra() <= 0.5, "{share} in time, {} more bytes", self.extra());
    }
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Clear => "QUIC, no loss",
            Self::Quic => "QUIC",
            Self::Bare => "QUIC, no repair",
            Self::Tcp => "TCP",
        }
    }

    /// Of what plays what comes this way.
    fn sink(self) -> &'static str {
        match self {
            Self::Clear => "clear",
            Self::Quic => "quic",
            Self::Bare => "bare",
            Self::Tcp => "tcp",
        }
    }
}

/// A folder that is gone after the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Relaxed);
        let path = std::env::temp_dir().join(format!("quickset-sound-{}-{n}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A file with ten seconds of a tone of 1 kHz.
    fn tone(&self) -> PathBuf {
        let file = self.0.join("tone");
        let value = |n: u32| ((f64::from(n) * std::f64::consts::TAU / 48.0).sin() * 8000.0) as i16;
        let samples = (0..480_000).flat_map(|n| [value(n); 2]).flat_map(i16::to_le_bytes);
        fs::write(&file, samples.collect::<Vec<u8>>()).unwrap();
        file
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const HEAD: &str = "\
by                                   lost                      bytes of            link,   heard
way              frames   in time  good  link  repaired concealed   frames  repair  extra  frame  a tone";
/// All links lose the same packets, by number.
const SEED: &str = "1";
/// What runs near, for so long.
const NEAR: &str = "exec timeout -s INT \"$SECONDS_OF_IT\" \
    \"$QUICKSET\" desktop view \"$QUICKSET_LINK_HOST:$PORT\" --listen 127.0.0.1:0 \
    --pin \"$PIN\" --token \"$TOKEN\" --sound --stats";
/// Before it, a firewall that stops UDP.
const WALL: &str = "nft add table inet wall && \
    nft add chain inet wall out '{ type filter hook output priority 0 ; }' && \
    nft add rule inet wall out meta l4proto udp drop";
