//! What a desktop plays, heard in Chromium, whose device is none that anybody hears; and whether it comes
//! with what is seen.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use quickset_base::number::Float as _;
use quickset_lab::relay::Relay;
use serde_json::Value;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{
    ChangeGCAux, ConnectionExt as _, CreateGCAux, CreateWindowAux, Rectangle, WindowClass,
};
use x11rb::rust_connection::RustConnection;

use super::browser::ChromiumSeat;
use super::firewall::Firewall;
use super::page_scene::{ANYWHERE, PageScene, Seat};
use super::tone::pure_share;
use super::{Folder, LIMIT, LOSSY};

#[tokio::test]
#[ignore = "needs X programs and Chromium: cargo xtask e2e"]
async fn a_browser_hears_the_desktop() {
    let between = async |server| {
        let path: quickset_sim::LinkSpec = LOSSY.parse().unwrap();
        let relay = Relay::start(server, path.clone(), path, 7).unwrap();
        (relay.address(), relay)
    };
    let folder = Folder::new("sound-tone");
    let more = ["--sound", "--sound-source", &tone(&folder.0).display().to_string()].map(str::to_owned);
    let mut scene = PageScene::set_with("sound", ANYWHERE, &more, between, ChromiumSeat::open).await;
    scene.hears_a_tone().await;
    // A device that stands still: what comes meanwhile is dropped, and nothing is heard late behind it.
    scene.seat.evaluate("heard.context.suspend().then(() => 0)");
    scene.far.look(Duration::from_secs(3)).await;
    scene.seat.evaluate("heard.context.resume().then(() => 0)");
    scene.hears_purely().await;
    scene.tell("sound");
    // Off again: the program ends, and the page says nothing of sound.
    scene.seat.press_button("sound");
    scene.until("document.getElementById('sound').getAttribute('aria-pressed') === 'false'").await;
    scene.until("!document.getElementById('figures').innerText.includes('sound')").await;
    assert!(scene.between.counts().iter().any(|way| way.lost > 0));
    scene.settle().await;
    scene.end();
}

/// WB-26: where UDP does not get through.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs X programs and Chromium: cargo xtask e2e"]
async fn a_browser_hears_the_desktop_by_tcp() {
    let between = async |server| {
        let firewall = Firewall::start(server, false).await;
        (firewall.address, firewall)
    };
    let folder = Folder::new("sound-tone-tcp");
    let more = ["--sound", "--sound-source", &tone(&folder.0).display().to_string()].map(str::to_owned);
    let mut scene = PageScene::set_with("sound-tcp", ANYWHERE, &more, between, ChromiumSeat::open).await;
    assert_eq!(scene.way().await, "TCP");
    scene.hears_a_tone().await;
    scene.tell("sound by TCP");
    scene.end();
}

/// A program that turns a part of the screen white and plays a tone, at the same moment.
#[tokio::test]
#[ignore = "needs X programs and Chromium: cargo xtask e2e"]
async fn sound_and_picture_come_together() {
    let between = async |server| {
        let path: quickset_sim::LinkSpec = "rate=100mbit delay=50ms queue=1MB".parse().unwrap();
        let relay = Relay::start(server, path.clone(), path, 7).unwrap();
        (relay.address(), relay)
    };
    let folder = Folder::new("sound-flash");
    let pipe = folder.0.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let more = ["--sound", "--sound-source", &format!("cat {}", pipe.display())].map(str::to_owned);
    let mut scene = PageScene::set_with("sound-sync", ANYWHERE, &more, between, ChromiumSeat::open).await;
    let flasher = Flasher::start(&scene.desktop.name, pipe);
    scene.seat.evaluate(TAP);
    scene.seat.press_button("sound");
    scene.until("window.heard !== undefined").await;
    scene.until(IS_LOUD).await;
    // Frames that come late, as all do on a machine that is busy otherwise, make the delay longer for a
    // while; the page says by how much, and may be behind by that, too.
    let end = Instant::now() + LIMIT;
    loop {
        let met = scene.seat.evaluate(&meter(FLASH.0 + 10, FLASH.1 + 10));
        let [sounds, seen] = ["sounds", "seen"]
            .map(|name| met[name].as_array().unwrap().iter().filter_map(Value::as_f64).collect::<Vec<_>>());
        let behind = behind(&sounds, &seen);
        let said: f64 = scene.figure("sound behind").await.trim_end_matches(" ms").parse().unwrap();
        println!("  sound behind the picture by {behind:.0?} ms; behind its frames by {said} ms, it says");
        let median = behind.get(behind.len() / 2).copied().unwrap_or(f64::MAX);
        let most = if Instant::now() < end { LIP_SYNC } else { LIP_SYNC + (said - LEAST_BEHIND).max(0.0) };
        if behind.len() >= 5 && (-40.0..=most).contains(&median) {
            break;
        }
        assert!(Instant::now() < end, "{median} ms: {behind:?}; behind its frames by {said} ms; {met}");
        scene.far.look(Duration::from_millis(50)).await;
    }
    drop(flasher);
    scene.tell("sound and picture");
    scene.end();
}

/// How much later than each flash its tone is heard, in milliseconds, the least first.
pub(crate) fn behind(sounds: &[f64], seen: &[f64]) -> Vec<f64> {
    let nearest = seen.iter().filter_map(|seen| {
        let after = sounds.iter().map(|heard| heard - seen).filter(|by| by.abs() < 590.0);
        after.min_by(|a, b| a.abs().total_cmp(&b.abs()))
    });
    let mut behind: Vec<f64> = nearest.collect();
    behind.sort_by(f64::total_cmp);
    behind
}

impl<S: Seat, B> PageScene<S, B> {
    /// Switches sound on, listens, and looks at the page's figures.
    async fn hears_a_tone(&mut self) {
        self.until("!document.getElementById('sound').hidden").await;
        self.seat.evaluate(TAP);
        self.seat.press_button("sound");
        self.until("window.heard?.context.state === 'running'").await;
        self.hears_purely().await;
        self.seat.evaluate("document.getElementById('figures').hidden = false");
        let behind = self.figure("sound behind").await;
        let behind: f64 = behind.trim_end_matches(" ms").parse().unwrap();
        assert!((30.0..600.0).contains(&behind), "{behind} ms");
        for figure in ["sound too late", "sound recovered", "sound concealed", "sound gaps"] {
            println!("  {figure}: {}", self.figure(figure).await);
        }
    }

    /// Listens until it is a tone for most of the time.
    async fn hears_purely(&mut self) {
        let end = Instant::now() + LIMIT;
        let mut best = 0.0_f64;
        // On a machine that is busy otherwise there are gaps.
        while best < 0.9 {
            self.far.look(Duration::from_millis(700)).await;
            let heard = self.seat.evaluate(
                "(() => { const data = new Float32Array(heard.fftSize);
                    heard.getFloatTimeDomainData(data);
                    return Array.from(data, (sample) => Math.round(sample * 32768)); })()",
            );
            let heard: Vec<f64> = heard.as_array().unwrap().iter().filter_map(Value::as_f64).collect();
            let share = pure_share(&heard);
            println!("  a tone of 1 kHz in {:.0} % of two thirds of a second", share * 100.0);
            best = best.max(share);
            let figures = self.seat.evaluate("document.getElementById('figures').innerText");
            assert!(Instant::now() < end, "no tone is heard: {best}; {figures}; {}", self.notice());
        }
    }
}

/// A program that plays a tone of 1 kHz without an end.
fn tone(folder: &Path) -> PathBuf {
    let (tone, program) = (folder.join("tone"), folder.join("play"));
    std::fs::write(&tone, (0..100).flat_map(|_| loud(true)).collect::<Vec<u8>>()).unwrap();
    std::fs::write(&program, format!("#!/bin/sh\nwhile cat {}; do :; done\n", tone.display())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// 10 ms of a tone of 1 kHz, or of silence that is not quite one, which would be no sound at all (DT-74).
fn loud(is_loud: bool) -> Vec<u8> {
    let height = if is_loud { 8000.0 } else { 8.0 };
    let value = |n: u32| {
        let value = (f64::from(n) * std::f64::consts::TAU / 48.0).sin() * height;
        i16::try_from(value.round().integer()).unwrap()
    };
    (0..480).flat_map(|n| [value(n); 2]).flat_map(i16::to_le_bytes).collect()
}

/// Flashes and plays, until it is dropped.
pub(crate) struct Flasher {
    ends: Arc<AtomicBool>,
}

impl Flasher {
    /// On a display, into a pipe that is read as a microphone is: 10 ms at a time, when they are over.
    pub(crate) fn start(display: &str, pipe: PathBuf) -> Self {
        let (x, number) = RustConnection::connect(Some(display)).unwrap();
        let screen = &x.setup().roots[number];
        let [window, gc] = std::array::from_fn(|_| x.generate_id().unwrap());
        let look = CreateWindowAux::new().override_redirect(1);
        let (left, top, side) = (FLASH.0, FLASH.1, 60);
        let class = WindowClass::INPUT_OUTPUT;
        x.create_window(screen.root_depth, window, screen.root, left, top, side, side, 0, class, 0, &look)
            .unwrap();
        x.create_gc(gc, window, &CreateGCAux::new()).unwrap();
        x.map_window(window).unwrap();
        x.flush().unwrap();
        let ends = Arc::new(AtomicBool::new(false));
        let over = ends.clone();
        std::thread::spawn(move || {
            // It waits for whoever reads, which ends with the gateway.
            let mut sound = std::fs::File::options().write(true).open(pipe).unwrap();
            let (begun, mut is_loud) = (Instant::now(), false);
            for tick in 1.. {
                let due = begun + Duration::from_millis(10) * tick;
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                if over.load(Ordering::Relaxed) || sound.write_all(&loud(is_loud)).is_err() {
                    return;
                }
                // 100 ms in 1200: how much later one is than the other is told apart.
                let now = tick % 120 < 10;
                if now != is_loud {
                    let colour = ChangeGCAux::new().foreground(if now { 0xff_ffff } else { 0 });
                    x.change_gc(gc, &colour).unwrap();
                    let all = Rectangle { x: 0, y: 0, width: side, height: side };
                    x.poly_fill_rectangle(window, gc, &[all]).unwrap();
                    x.flush().unwrap();
                    is_loud = now;
                }
            }
        });
        Self { ends }
    }
}

impl Drop for Flasher {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

/// In milliseconds: EBU R37 allows sound to be 40 before the picture, and as much behind it.
pub(crate) const LIP_SYNC: f64 = 60.0;
/// The least that the page says: DT-73, and what the device has.
const LEAST_BEHIND: f64 = 38.0;
/// Where there is nothing else.
pub(crate) const FLASH: (i16, i16) = (620, 400);

/// From now on the page's sound can be looked at on its way to the device.
const TAP: &str = "(() => {
    const connect = AudioNode.prototype.connect;
    AudioNode.prototype.connect = function (to, ...rest) {
        if (to instanceof AudioDestinationNode) {
            window.heard = new AnalyserNode(this.context, { fftSize: 32768 });
            connect.call(this, window.heard);
        }
        return connect.call(this, to, ...rest);
    };
})()";

const IS_LOUD: &str = "(() => { const data = new Float32Array(32768);
    heard.getFloatTimeDomainData(data);
    return data.some((sample) => Math.abs(sample) > .05); })()";

/// For ten seconds, when the pixel at that place turned white, and when a tone began to leave the device, in
/// milliseconds of the page's clock.
fn meter(x: i16, y: i16) -> String {
    format!(
        "new Promise((resolve) => {{
            const {{ context }} = heard, canvas = document.getElementById('screen');
            const pixel = new OffscreenCanvas(1, 1).getContext('2d', {{ willReadFrequently: true }});
            const seen = [], sounds = [], data = new Float32Array(4096), end = performance.now() + 10000;
            heard.fftSize = data.length;
            let white = true, last = 0;
            const look = () => {{
                pixel.drawImage(canvas, {x}, {y}, 1, 1, 0, 0, 1, 1);
                const now = pixel.getImageData(0, 0, 1, 1).data[0] > 127;
                if (now && !white) seen.push(performance.now());
                white = now;
                if (performance.now() < end) requestAnimationFrame(look);
                else resolve({{ seen, sounds, latency: [context.baseLatency, context.outputLatency] }});
            }};
            const listen = () => {{
                heard.getFloatTimeDomainData(data);
                const at = context.currentTime, {{ contextTime, performanceTime }} = context.getOutputTimestamp();
                for (let n = 0, quiet = 0; n < data.length; n++) {{
                    if (Math.abs(data[n]) < .03) {{ quiet += 1; continue; }}
                    // From the end of what there is.
                    const begun = at - (data.length - n) / context.sampleRate;
                    if (quiet > 1000 && begun > last + .3) {{
                        last = begun;
                        sounds.push(performanceTime + (begun - contextTime) * 1000);
                    }}
                    quiet = 0;
                }}
                if (performance.now() < end) setTimeout(listen, 10);
            }};
            look();
            listen();
        }})"
    )
}
