//! Whether what `desktop view` plays comes with what it shows: a window that flashes and a tone that begins
//! at the same moment, across a path of 50 ms, into a sound server whose device nobody hears.

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use quickset_lab::relay::Relay;

use super::person::Person;
use super::programs::{Display, Program};
use super::pulse::PulseServer;
use super::sound::{FLASH, Flasher, LIP_SYNC, behind};
use super::{Folder, LIMIT, quickset};

#[tokio::test]
#[ignore = "needs PulseAudio, X programs and a free machine: cargo xtask sound"]
async fn sound_and_picture_come_together_to_a_viewer() {
    if std::env::var_os("QUICKSET_SOUND_STRICT").is_none() {
        println!(
            "left out: on a machine that does other things it measures those; cargo xtask sound runs it"
        );
        return;
    }
    let folder = Folder::new("lips");
    let pulse = PulseServer::start(&folder.0.join("pulse"), &["near"]).await;
    let desktop = Display::start(800, 600).await;
    let pipe = folder.0.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut serve = Program::start(
        quickset()
            .args(["serve", "--vnc", &desktop.vnc.to_string(), "--listen", "127.0.0.1:0"])
            .args(["--sound", "--sound-source", &format!("cat {}", pipe.display())])
            .env("XDG_DATA_HOME", folder.0.join("server")),
    );
    let listening = |line: &str| line.strip_prefix("listening on ").map(str::to_owned);
    let words = serve.prints("where it listens", listening).await;
    let (address, pin) = words.split_once(' ').unwrap();
    let token = serve.prints("a token", |line| line.strip_prefix("token ").map(str::to_owned)).await;
    let path: quickset_sim::LinkSpec = "rate=100mbit delay=50ms queue=1MB".parse().unwrap();
    let relay = Relay::start(address.parse().unwrap(), path.clone(), path, 7).unwrap();
    let mut view = Program::start(
        quickset()
            .args(["view", &relay.address().to_string(), "--listen", "127.0.0.1:0", "--sound", "--stats"])
            .args(["--pin", pin, "--token", &token])
            .env("XDG_DATA_HOME", folder.0.join("client"))
            .env("PULSE_SERVER", &pulse.place),
    );
    let gateway = view.prints("where it listens", listening).await.parse().unwrap();
    let mut person = Person::sit(gateway).await;
    let begun = Instant::now();
    let tones = Arc::<Mutex<Vec<f64>>>::default();
    let _listener = pulse.listens("near", onsets(begun, tones.clone()));
    let _flasher = Flasher::start(&desktop.name, pipe);
    let (mut seen, end) = (Vec::new(), begun + LIMIT);
    loop {
        for is_white in [true, false] {
            let shows = |p: &mut Person| {
                let pixel = p.screen.pixel(FLASH.0.unsigned_abs() + 10, FLASH.1.unsigned_abs() + 10);
                pixel.is_some_and(|pixel| (pixel & 0xff > 127) == is_white)
            };
            person.until("a flash, or its end", shows).await;
            if is_white {
                seen.push(ms(begun.elapsed()));
            }
        }
        // What is recorded last is heard soon.
        person.look(Duration::from_millis(400)).await;
        let from = seen.len().saturating_sub(9);
        let behind = behind(&tones.lock().unwrap(), &seen[from..]);
        let median = behind.get(behind.len() / 2).copied().unwrap_or(f64::MAX);
        let said = view.prints("at which delay it plays", said_delay).await;
        println!("  sound behind the picture by {behind:.0?} ms; behind its frames by {said} ms, it says");
        // As in a page: where this machine lets frames come late, sound may be behind by that, too.
        let most = if Instant::now() < end { LIP_SYNC } else { LIP_SYNC + (said - LEAST_BEHIND).max(0.0) };
        if behind.len() >= 8 && (-40.0..=most).contains(&median) {
            return;
        }
        assert!(Instant::now() < end, "{median} ms: {behind:?}; behind its frames by {said} ms");
    }
}

/// In milliseconds, of a line of statistics.
fn said_delay(line: &str) -> Option<f64> {
    line.split_once(" delay=")?.1.split_once("ms ")?.0.parse().ok()
}

/// Notes when each tone begins behind silence, in milliseconds from `begun`.
fn onsets(begun: Instant, tones: Arc<Mutex<Vec<f64>>>) -> impl FnMut(Instant, &[i16]) + Send {
    // Samples since the last that was loud.
    let mut quiet = 0_usize;
    move |at, samples| {
        for (n, sample) in samples.iter().enumerate() {
            if sample.unsigned_abs() < 1000 {
                quiet += 1;
                continue;
            }
            // 200 ms.
            if std::mem::take(&mut quiet) > 9600 {
                let behind = Duration::from_micros((samples.len() - n) as u64 * 1_000_000 / 48_000);
                tones.lock().unwrap().push(ms(at.duration_since(begun)) - ms(behind));
            }
        }
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// The least that the gateway says: DT-73.
const LEAST_BEHIND: f64 = 35.0;
