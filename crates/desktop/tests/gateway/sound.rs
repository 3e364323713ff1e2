//! Sound from a program at the server's to a program at the viewer's, and what becomes of it when these fail.

use std::path::{Path, PathBuf};
use std::time::Duration;

use quickset_desktop::message::{CLIPBOARD, FromClient, FromServer, Hello};
use quickset_desktop::sound::SoundCommand;
use quickset_desktop::trust::GatewayFolder;
use quickset_desktop::view::{Credential, ServerTrust};
use quickset_screen::sound::{SENDS_SOUND, SoundFrame, WANTS_SOUND};

use super::firewall::Firewall;
use super::person::Person;
use super::scene::{Far, Home, LIMIT, Near, Setting, ViewWish};
use super::tone::pure_share;
use super::vnc::Vnc;
use super::wire::Bare;

/// A tone of 1 kHz, two seconds of it.
pub(crate) fn tone(home: &Home) -> PathBuf {
    let path = home.0.join("tone");
    let value = |n: u32| ((f64::from(n) * std::f64::consts::TAU / 48.0).sin() * 8000.0) as i16;
    let samples = (0..96_000).flat_map(|n| [value(n); 2]).flat_map(i16::to_le_bytes);
    std::fs::write(&path, samples.collect::<Vec<u8>>()).unwrap();
    path
}

fn shell(words: &str) -> SoundCommand {
    SoundCommand::new("sh", ["-c", words])
}

pub(crate) fn over_and_over(tone: &Path) -> SoundCommand {
    shell(&format!("while cat {}; do :; done", tone.display()))
}

/// The first channel of samples of 16 bits.
fn left(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(4).map(|s| f64::from(i16::from_le_bytes([s[0], s[1]]))).collect()
}

fn known_client(home: &Home) -> GatewayFolder {
    let folder = home.client("client");
    let key = folder.client_identity().unwrap().fingerprint();
    home.server()
        .authorized()
        .unwrap()
        .add(key, &quickset_desktop::trust::DeviceRights::default(), "x")
        .unwrap();
    folder
}

async fn hearing(folder: &GatewayFolder, server: std::net::SocketAddr, sink: SoundCommand) -> Near {
    let (credential, trust) = (Credential::None, ServerTrust::Anybody);
    Near::looking(folder, server, ViewWish { credential, trust, desktop: None, sound: Some(sink) }).await
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(LIMIT, wait).await.is_ok(), "in vain: {what}");
}

/// By QUIC, and where UDP does not get through.
#[tokio::test]
async fn what_the_desktop_plays_is_heard() {
    for by_udp in [true, false] {
        let (home, vnc) = (Home::new(), Vnc::start(16, 16).await);
        let sound = Some(over_and_over(&tone(&home)));
        let folder = known_client(&home);
        let far = Far::start(&home, vnc.address, Setting { sound, ..Setting::default() });
        let firewall = Firewall::start(far.address, by_udp).await;
        let heard = home.0.join("heard");
        let near = hearing(&folder, firewall.address, shell(&format!("cat > {}", heard.display()))).await;
        let length = || std::fs::metadata(&heard).map_or(0, |file| file.len());
        until("three seconds are heard", || length() > 3 * 48_000 * 4).await;
        let totals = near.stats.totals();
        assert_eq!(totals.by_tcp, !by_udp);
        assert!(totals.sound.played > 100 && totals.sound.unreadable == 0, "{:?}", totals.sound);
        // On a machine that is busy otherwise there are gaps.
        let share = pure_share(&left(&std::fs::read(&heard).unwrap()));
        assert!(share > 0.6, "{share} by_udp={by_udp}, {:?}", totals.sound);
    }
}

/// DT-67, DT-68, DT-69.
#[tokio::test]
async fn sound_is_for_whoever_wants_to_hear() {
    let (home, vnc) = (Home::new(), Vnc::start(16, 16).await);
    let sound = Some(over_and_over(&tone(&home)));
    let far = Far::start(&home, vnc.address, Setting { sound, ..Setting::default() });
    for (features, offered) in
        [(0, 0), (CLIPBOARD, 0), (WANTS_SOUND, 0), (CLIPBOARD | WANTS_SOUND, SENDS_SOUND)]
    {
        let mut bare = Bare::named("bare", &home, &far, true).await;
        bare.say(&FromClient::Hello(Hello { features, ..Hello::default() })).await;
        let Some(FromServer::Welcome(welcome)) = bare.hear().await else { panic!("WELCOME comes first") };
        assert_eq!(welcome.features, offered, "{features}");
        if offered == 0 {
            continue;
        }
        let _clipboard = bare.connection.accept_messages_bi().await.unwrap();
        let (_, mut frames) = bare.connection.accept_messages_bi().await.unwrap();
        let mut seen = Vec::new();
        while seen.len() < 25 {
            let record = tokio::time::timeout(LIMIT, frames.next()).await.unwrap().unwrap().unwrap().payload;
            let frame = SoundFrame::read(&record).expect("a frame of 20 ms");
            seen.push((frame.number, frame.time));
        }
        seen.sort_unstable();
        let follow = |pair: &[(u64, u64)]| {
            let [(number, time), (next, later)] = [pair[0], pair[1]];
            next > number && later >= time + (next - number) * 960
        };
        assert!(seen.windows(2).all(follow), "{seen:?}");
    }
}

/// Half a second, then the program ends, and is started again: numbers go on, and times leave out the pause.
#[tokio::test]
async fn a_sound_server_that_vanishes_is_tried_again() {
    let (home, vnc) = (Home::new(), Vnc::start(16, 16).await);
    let sound = Some(shell(&format!("head -c 96000 {}", tone(&home).display())));
    let far = Far::start(&home, vnc.address, Setting { sound, ..Setting::default() });
    let mut bare = Bare::named("bare", &home, &far, true).await;
    let features = CLIPBOARD | WANTS_SOUND;
    bare.say(&FromClient::Hello(Hello { features, ..Hello::default() })).await;
    assert!(matches!(bare.hear().await, Some(FromServer::Welcome(_))));
    let _clipboard = bare.connection.accept_messages_bi().await.unwrap();
    let (_, mut frames) = bare.connection.accept_messages_bi().await.unwrap();
    let again = async {
        let (mut last, mut most) = (0, 0);
        loop {
            let record = frames.next().await.unwrap().unwrap().payload;
            let frame = SoundFrame::read(&record).unwrap();
            // The first wait is three quarters of a second at least.
            if frame.time > last + 24_000 && most >= 20 {
                return frame;
            }
            (last, most) = (last.max(frame.time), most.max(frame.number));
        }
    };
    let frame = tokio::time::timeout(LIMIT, again).await.expect("it is recorded again");
    assert!(frame.number <= 30, "25 frames are half a second: {frame:?}");
}

/// DT-75: on the side of who hears, half a second at a time.
#[tokio::test]
async fn what_plays_and_vanishes_is_started_again() {
    let (home, vnc) = (Home::new(), Vnc::start(16, 16).await);
    let sound = Some(over_and_over(&tone(&home)));
    let folder = known_client(&home);
    let far = Far::start(&home, vnc.address, Setting { sound, ..Setting::default() });
    let heard = home.0.join("heard");
    let sink =
        shell(&format!("head -c 96000 >> {}; echo 'Connection terminated' >&2; exit 1", heard.display()));
    let near = hearing(&folder, far.address, sink).await;
    let length = || std::fs::metadata(&heard).map_or(0, |file| file.len());
    until("it is played three times", || length() == 3 * 96_000).await;
    // The rest goes on, and no second session was needed.
    let mut person = Person::sit(near.address).await;
    person.sees(&vnc).await;
    assert_eq!(near.stats.totals().sessions, 1);
}

/// DT-76, and an honest client beside it.
#[tokio::test]
async fn a_flood_of_hear_starts_no_program_each_time_and_keeps_nobody_from_hearing() {
    let (home, vnc) = (Home::new(), Vnc::start(16, 16).await);
    let (tone, starts) = (tone(&home), home.0.join("starts"));
    let words = format!("echo >> {}; while cat {}; do :; done", starts.display(), tone.display());
    let far = Far::start(&home, vnc.address, Setting { sound: Some(shell(&words)), ..Setting::default() });
    let begun = std::time::Instant::now();
    let mut bare = Bare::named("bare", &home, &far, true).await;
    let features = CLIPBOARD | WANTS_SOUND;
    bare.say(&FromClient::Hello(Hello { features, ..Hello::default() })).await;
    assert!(matches!(bare.hear().await, Some(FromServer::Welcome(_))));
    let flood = async |bare: &mut Bare| {
        for n in 0..5000 {
            bare.say(&FromClient::Hear(n % 2 == 0)).await;
        }
        bare.say(&FromClient::Hear(true)).await;
    };
    flood(&mut bare).await;
    let _clipboard = bare.connection.accept_messages_bi().await.unwrap();
    let (_, mut frames) = bare.connection.accept_messages_bi().await.unwrap();
    let mut last = None;
    for _ in 0..25 {
        let record = tokio::time::timeout(LIMIT, frames.next()).await.unwrap().unwrap().unwrap().payload;
        // Losses of the loopback aside, numbers go on (DT-69).
        last = last.max(Some(SoundFrame::read(&record).expect("a frame of 20 ms").number));
    }
    assert!(last >= Some(24), "{last:?}");
    // It may be ended behind two seconds in which nobody hears, on a machine that is that busy.
    let count = std::fs::read(&starts).unwrap().len() as u64;
    assert!(count <= 1 + begun.elapsed().as_secs() / 2, "{count} starts in {:?}", begun.elapsed());
    let folder = known_client(&home);
    let near = hearing(&folder, far.address, shell("cat > /dev/null")).await;
    until("the other hears", || near.stats.totals().sound.played > 10).await;
    let before = near.stats.totals().sound;
    flood(&mut bare).await;
    until("the other goes on to hear", || near.stats.totals().sound.played > before.played + 50).await;
    assert_eq!(near.stats.totals().sessions, 1);
}

/// DT-75.
#[tokio::test]
async fn without_programs_for_sound_there_is_a_picture_all_the_same() {
    let (home, vnc) = (Home::new(), Vnc::start(16, 16).await);
    let missing = || SoundCommand::new(home.0.join("no such program"), [""; 0]);
    let folder = known_client(&home);
    let far = Far::start(&home, vnc.address, Setting { sound: Some(missing()), ..Setting::default() });
    let mut near = hearing(&folder, far.address, missing()).await;
    near.met(&far).await;
    let mut person = Person::sit(near.address).await;
    person.sees(&vnc).await;
    far.kill().await;
    // There is sound, and what plays it ends at once.
    let sound = Some(over_and_over(&tone(&home)));
    let far = Far::start(&home, vnc.address, Setting { sound, ..Setting::default() });
    let near = hearing(&folder, far.address, shell("exit 3")).await;
    until("it is played into nothing", || near.stats.totals().sound.played > 50).await;
    let mut person = Person::sit(near.address).await;
    person.sees(&vnc).await;
    assert_eq!(near.stats.totals().sessions, 1);
}
