//! A desktop is recorded by a viewer's gateway, and played to a viewer.

use std::path::Path;
use std::time::Duration;

use quickset_base::Time;
use quickset_desktop::LinkConfig;
use quickset_desktop::message::ScreenOrder;
use quickset_desktop::record::{RecordError, ScreenRecorder};
use quickset_desktop::recording::RecordingPlayer;
use quickset_desktop::trust::DeviceRights;
use quickset_desktop::view::{
    Credential, ReplayConfig, ReplayError, ReplayGateway, ServerTrust, ViewConfig, ViewGateway,
};
use quickset_rfb::{Rect, ServerEvent};
use tokio::sync::oneshot;

use super::person::Person;
use super::scene::{Far, Home, Setting};
use super::vnc::{Order as Draw, Vnc};

fn rect(x: u16, y: u16, w: u16, h: u16) -> Rect {
    Rect::new(x, y, w, h).unwrap()
}

/// Plays a recording in a task, until the other end is dropped.
async fn play(file: &Path, from: Duration) -> (std::net::SocketAddr, oneshot::Sender<()>) {
    let config = ReplayConfig {
        file: file.into(),
        listen: "127.0.0.1:0".parse().unwrap(),
        viewer_password: None,
        speed: 1.0,
        from,
    };
    let gateway = ReplayGateway::start(config).await.unwrap();
    let (address, (stop, stopped)) = (gateway.local_addr(), oneshot::channel());
    tokio::spawn(gateway.run_until(stopped));
    (address, stop)
}

/// Records a desktop: what a viewer saw at the end.
async fn take(home: &Home, file: &Path, order: ScreenOrder) -> Person {
    let vnc = Vnc::start(320, 240).await;
    let folder = home.client("client");
    let key = folder.client_identity().unwrap().fingerprint();
    home.server().authorized().unwrap().add(key, &DeviceRights::default(), "test").unwrap();
    let far = Far::start(home, vnc.address, Setting { order, ..Setting::default() });
    let recorder = ScreenRecorder::create(file, false).unwrap();
    // RC-13.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert!(matches!(ScreenRecorder::create(file, false), Err(RecordError::Exists(_))));
    let view = ViewGateway::start(ViewConfig {
        server: far.address.to_string(),
        listen: "127.0.0.1:0".parse().unwrap(),
        trust: ServerTrust::Known(folder.known_servers().unwrap()),
        credential: Credential::None,
        desktop: None,
        identity: folder.client_identity().unwrap(),
        viewer_password: None,
        sound: None,
        link: LinkConfig::default(),
    })
    .await
    .unwrap()
    .with_recorder(recorder.clone());
    let address = view.local_addr();
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(view.run_until(stopped));
    let mut person = Person::sit(address).await;
    person.sees(&vnc).await;
    for step in 0..40_u16 {
        vnc.fill(rect(step * 4, step * 2, 37, 21), u32::from(step) * 0x0001_0307);
        if step % 3 == 0 {
            vnc.tell(Draw::Copy(rect(16, 0, 270, 150), 0, 32));
        }
        if step == 20 {
            vnc.tell(Draw::Resize(300, 200));
        }
    }
    vnc.tell(Draw::Cursor(5));
    vnc.fill(rect(240, 180, 30, 15), 0x0080_8080);
    vnc.fill(rect(299, 199, 1, 1), 0x00ab_cdef);
    person.until("the last pixel", |p| p.screen.pixel(299, 199) == Some(0x00ab_cdef)).await;
    person.sees(&vnc).await;
    person.until("the shape", |p| p.cursor.width == 5).await;
    person.press(0x71);
    person.rfb.pointer(0, 250, 190).unwrap();
    person.until("sent", |_| true).await;
    vnc.until("the pointer", |v| v.events().iter().any(|e| matches!(e, ServerEvent::Pointer { x: 250, .. })))
        .await;
    drop(stop);
    let _ = task.await.unwrap();
    tokio::task::spawn_blocking(move || recorder.finish()).await.unwrap().unwrap();
    person
}

async fn recorded_in_order(order: ScreenOrder) {
    let home = Home::new();
    let file = home.0.join("desk.qsr");
    let person = take(&home, &file, order).await;
    // The first picture stands, and time goes on when somebody comes.
    let (address, _stop) = play(&file, Duration::ZERO).await;
    let mut viewer = Person::sit(address).await;
    viewer.until("a name", |p| p.name.contains("(recording, ")).await;
    // End: all of it was seen as it was, but for the pointer, which is painted.
    viewer.press(0xff57);
    viewer.until("the end", |p| p.name.ends_with("its end)")).await;
    let at = |p: &Person, x, y| p.screen.pixel(x, y);
    viewer.until("the last pixel", |p| at(p, 299, 199) == Some(0x00ab_cdef)).await;
    let pointer: Vec<_> = (250..255).map(|x| (x, 190)).collect();
    let differs = |seen: &Person| {
        let bounds = person.screen.bounds();
        let places = (0..bounds.bottom()).flat_map(|y| (0..bounds.right()).map(move |x| (x, y)));
        places.filter(|&(x, y)| at(seen, x, y) != at(&person, x, y)).collect::<Vec<_>>()
    };
    viewer.until("the same picture", |p| differs(p) == pointer).await;
    // Home: the first picture again.
    viewer.press(0xff50);
    viewer.until("the beginning", |p| (p.screen.width(), p.screen.height()) == (320, 240)).await;
}

#[tokio::test]
async fn a_file_that_is_no_recording_is_refused() {
    let home = Home::new();
    let file = home.0.join("other.qsr");
    std::fs::write(&file, "text").unwrap();
    let config = ReplayConfig {
        file,
        listen: "127.0.0.1:0".parse().unwrap(),
        viewer_password: None,
        speed: 1.0,
        from: Duration::ZERO,
    };
    let refused = ReplayGateway::start(config).await.unwrap_err();
    assert!(matches!(&refused, ReplayError::File { .. }), "{refused}");
    assert!(refused.to_string().contains("desktop view --record"), "{refused}");
}

#[tokio::test]
async fn what_was_recorded_is_shown_to_a_viewer() {
    recorded_in_order(ScreenOrder::Fenced).await;
}

#[tokio::test]
async fn what_was_recorded_in_the_order_latest_is_shown_to_a_viewer() {
    recorded_in_order(ScreenOrder::Latest).await;
}

#[tokio::test]
async fn a_server_records_what_it_shows_whoever_looks() {
    let home = Home::new();
    let vnc = Vnc::start(200, 100).await;
    let file = home.0.join("server.qsr");
    let recorder = ScreenRecorder::create(&file, false).unwrap();
    let setting = Setting { recorder: Some(recorder.clone()), ..Setting::default() };
    let far = Far::start(&home, vnc.address, setting);
    for step in 0..30_u16 {
        vnc.fill(rect(step * 5, step, 37, 21), u32::from(step) * 0x0005_0307);
        if step % 3 == 0 {
            vnc.tell(Draw::Copy(rect(16, 0, 150, 70), 0, 30));
        }
    }
    vnc.tell(Draw::Cursor(5));
    vnc.fill(rect(199, 99, 1, 1), 0x00ab_cdef);
    // What is written so far can be played while more is written.
    let shown = async {
        loop {
            let recorded = std::fs::File::open(&file).unwrap();
            if let Ok(mut player) = RecordingPlayer::open(recorded, 1 << 20) {
                player.advance(Time::MAX).unwrap();
                if vnc.picture() == Some(player.screen().crc32()) && player.cursor().is_some() {
                    return player;
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let player = tokio::time::timeout(super::LIMIT, shown).await.expect("all of it is recorded");
    assert!(!player.facts().is_whole);
    assert_eq!(player.screen().pixel(199, 99), Some(0x00ab_cdef));
    far.kill().await;
    tokio::task::spawn_blocking(move || recorder.finish()).await.unwrap().unwrap();
    let player = RecordingPlayer::open(std::fs::File::open(&file).unwrap(), 1 << 20).unwrap();
    assert!(player.facts().is_whole);
}
