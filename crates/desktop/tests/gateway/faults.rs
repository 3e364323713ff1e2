//! Servers, gateways and viewers that die, stall or talk nonsense.

use quickset_desktop::message::{Permissions, ScreenOrder};
use quickset_desktop::serve::ServeError;
use quickset_desktop::view::{Credential, ViewNews};
use quickset_rfb::{Rect, ResizeStatus, RfbExtension, Screen, Security, ServerEvent, VncPassword};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::person::Person;
use super::scene::{Far, Home, Near, Setting, join};
use super::vnc::{Order as Draw, Vnc};

fn rect(x: u16, y: u16, w: u16, h: u16) -> Rect {
    Rect::new(x, y, w, h).unwrap()
}

#[tokio::test]
async fn the_last_picture_stays_while_the_vnc_server_is_away() {
    let home = Home::new();
    let vnc = Vnc::start(64, 48).await;
    let (_far, near) = join(&home, vnc.address, Setting::default()).await;
    let mut person = Person::sit(near.address).await;
    vnc.fill(rect(0, 0, 64, 48), 0x0044_5566);
    person.until("the picture", |p| p.screen.pixel(9, 9) == Some(0x0044_5566)).await;
    person.until("the name", |p| p.name == "test").await;
    let address = vnc.kill().await;
    person.until("word of it", |p| p.name.contains("away")).await;
    // Who comes now sees the last picture, too.
    let mut late = Person::sit(near.address).await;
    late.until("the last picture", |p| p.screen.pixel(9, 9) == Some(0x0044_5566)).await;
    let vnc = Vnc::start_on(address, 80, 40, Security::None).await;
    for person in [&mut person, &mut late] {
        person.until("the new server", |p| p.name == "test" && p.screen.width() == 80).await;
        person.sees(&vnc).await;
    }
    person.press(0x61);
    person.until("sent", |_| true).await;
    vnc.until("the key", |v| v.keys().len() == 2).await;
}

#[tokio::test]
async fn viewers_are_greeted_before_there_is_a_picture() {
    let home = Home::new();
    // Nobody is there.
    let address = Vnc::start(64, 48).await.kill().await;
    let (_far, near) = join(&home, address, Setting::default()).await;
    let mut person = Person::sit(near.address).await;
    assert!(person.name.contains("waiting for the VNC server"), "{}", person.name);
    assert!(person.screen.width() > 0 && person.screen.height() > 0, "some viewers take no empty screen");
    let vnc = Vnc::start_on(address, 80, 40, Security::None).await;
    vnc.fill(rect(3, 3, 5, 5), 0x0001_0203);
    person.until("the picture", |p| p.name == "test" && p.screen.width() == 80).await;
    person.sees(&vnc).await;
    // Without the other gateway, too.
    let nobody = Near::start(&home.client("client"), "127.0.0.1:9".parse().unwrap(), Credential::None).await;
    let person = Person::sit(nobody.address).await;
    assert!(person.name.contains("no connection"), "{}", person.name);
}

#[tokio::test]
async fn connections_that_say_nothing_do_not_take_all_places() {
    let home = Home::new();
    let vnc = Vnc::start(64, 48).await;
    let (_far, near) = join(&home, vnc.address, Setting::default()).await;
    let mut person = Person::sit(near.address).await;
    let mut idle = Vec::new();
    for _ in 0..40 {
        idle.push(tokio::net::TcpStream::connect(near.address).await.unwrap());
    }
    Person::sit(near.address).await.sees(&vnc).await;
    person.sees(&vnc).await;
}

#[tokio::test]
async fn a_vnc_server_that_draws_outside_is_left_and_tried_again() {
    let home = Home::new();
    let vnc = Vnc::start(64, 48).await;
    let (_far, near) = join(&home, vnc.address, Setting::default()).await;
    let mut person = Person::sit(near.address).await;
    person.sees(&vnc).await;
    // One Raw rectangle of 2x1 at (63, 0).
    let mut nonsense = vec![0, 0, 0, 1, 0, 63, 0, 0, 0, 2, 0, 1, 0, 0, 0, 0];
    nonsense.extend([0xff; 8]);
    vnc.tell(Draw::Bytes(nonsense));
    vnc.until("another connection", |v| v.connections() == 2).await;
    vnc.fill(rect(3, 3, 5, 5), 0x0001_0203);
    person.until("what came after", |p| p.screen.pixel(4, 4) == Some(0x0001_0203)).await;
    person.sees(&vnc).await;
}

#[tokio::test]
async fn an_update_that_takes_long_is_shown_in_parts() {
    for order in [ScreenOrder::Fenced, ScreenOrder::Latest] {
        let home = Home::new();
        let vnc = Vnc::start(64, 48).await;
        let (_far, near) = join(&home, vnc.address, Setting { order, ..Setting::default() }).await;
        let mut person = Person::sit(near.address).await;
        person.sees(&vnc).await;
        // Three rectangles of 16x16, Raw, and each comes when the one before it was seen.
        vnc.tell(Draw::Bytes(vec![0, 0, 0, 3]));
        for n in 0..3u8 {
            let head = [0, 16 * n, 0, 16, 0, 16, 0, 16, 0, 0, 0, 0];
            vnc.tell(Draw::Bytes([&head[..], &[n + 1, 0x55, 0x66, 0].repeat(256)].concat()));
            let colour = Some(0x0066_5501 + u32::from(n));
            person.until("the next part", |p| p.screen.pixel(16 * u16::from(n) + 15, 31) == colour).await;
        }
    }
}

/// Takes a connection of the gateway as a VNC server with a desktop of 8x8 and no name would.
async fn take(listener: &TcpListener) -> TcpStream {
    let accepted = tokio::time::timeout(crate::LIMIT, listener.accept()).await;
    let (mut socket, _) = accepted.expect("it comes").unwrap();
    // Version, None, its result, and ServerInit.
    let format = [32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0];
    let said = [b"RFB 003.008\n\x01\x01\0\0\0\0\0\x08\0\x08", &format[..], &[0; 4]].concat();
    socket.write_all(&said).await.unwrap();
    // Version, type, ClientInit, SetPixelFormat: it has come in.
    socket.read_exact(&mut [0; 12 + 1 + 1 + 20]).await.unwrap();
    socket
}

#[tokio::test]
async fn a_vnc_server_that_reads_nothing_while_it_writes_is_heard_to_the_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let home = Home::new();
    let (_far, near) = join(&home, listener.local_addr().unwrap(), Setting::default()).await;
    let mut vnc = take(&listener).await;
    let mut person = Person::sit(near.address).await;
    // More than a socket holds: each is sent unasked, since a server of the old kind cannot ask.
    for n in 0..8 {
        let text = format!("{n}{}", "x".repeat((1 << 20) - 1));
        person.rfb.text(&text).unwrap();
        person.until("sent", |_| true).await;
    }
    // It has colours to say all the while, more than a socket holds too, and then it reads.
    let colours = [&[1, 0, 0, 0, 0xff, 0xff][..], &vec![0; 6 * 0xffff]].concat();
    let said = async {
        for _ in 0..100 {
            vnc.write_all(&colours).await.unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let mut heard = vec![0; 1 << 16];
        let mut texts = 0;
        while texts < 8 << 20 {
            texts += vnc.read(&mut heard).await.unwrap();
        }
    };
    tokio::time::timeout(crate::LIMIT, said).await.expect("each waits for the other");
}

/// libvncserver 0.9.14 in x11vnc, which drops what comes by the extension.
#[tokio::test]
async fn a_vnc_server_with_half_a_clipboard_gets_plain_texts() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let home = Home::new();
    let (_far, near) = join(&home, listener.local_addr().unwrap(), Setting::default()).await;
    let mut vnc = take(&listener).await;
    // Capabilities: request, peek, provide, and text of up to 1 MiB.
    let caps = [&[3, 0, 0, 0][..], &(-8_i32).to_be_bytes(), &[0x17, 0, 0, 1, 0, 0x10, 0, 0]].concat();
    vnc.write_all(&caps).await.unwrap();
    let mut person = Person::sit(near.address).await;
    person.rfb.text("Gr\u{fc}\u{df}e").unwrap();
    person.until("sent", |_| true).await;
    // ClientCutText, RFC 6143 §7.5.6.
    let plain = b"\x06\0\0\0\0\0\0\x05Gr\xfc\xdfe";
    let mut heard = Vec::new();
    let hear = async {
        while !heard.windows(plain.len()).any(|part| part == plain) {
            assert_ne!(vnc.read_buf(&mut heard).await.unwrap(), 0, "the gateway hangs up");
        }
    };
    tokio::time::timeout(crate::LIMIT, hear).await.expect("the text comes");
}

#[tokio::test]
async fn a_vnc_server_that_hangs_up_again_and_again_is_left_in_peace() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let home = Home::new();
    let far = Far::start(&home, listener.local_addr().unwrap(), Setting::default());
    let mut began = Vec::new();
    while began.len() < 5 {
        let hung_up = take(&listener).await;
        began.push(tokio::time::Instant::now());
        drop(hung_up);
    }
    // Each wait is twice the one before, less a quarter at most.
    let waited = began[4] - began[0];
    assert!(waited.as_millis() > (250 + 500 + 1000 + 2000) * 3 / 4, "{waited:?}");
    far.kill().await;
}

#[tokio::test]
async fn a_vnc_server_that_asks_for_much_work_with_few_bytes_locks_nobody_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let home = Home::new();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut from, mut to) = take(&listener).await.into_split();
        tokio::spawn(async move { tokio::io::copy(&mut from, &mut tokio::io::sink()).await });
        // DesktopSize of 8000x4000 and of 8001x4000, in updates of one rectangle: 122 MiB for 16 bytes.
        let update = |low: u8| [0, 0, 0, 1, 0, 0, 0, 0, 0x1f, 0x40 + low, 0x0f, 0xa0, 0xff, 0xff, 0xff, 0x21];
        let said = [update(0), update(1)].concat().repeat(1000);
        while to.write_all(&said).await.is_ok() {}
    });
    let (far, mut near) = join(&home, address, Setting::default()).await;
    near.met(&far).await;
    server.abort();
    far.kill().await;
}

/// RFC 6143 has no limits here. Names and pointers are for the eye and end nothing, however large; and where
/// a screen cannot be shown, viewers read why.
#[tokio::test]
async fn limits_of_ours_are_told_to_viewers_and_end_no_more_than_they_must() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let home = Home::new();
    let (_far, near) = join(&home, listener.local_addr().unwrap(), Setting::default()).await;
    let mut vnc = take(&listener).await;
    let mut person = Person::sit(near.address).await;
    let rect = |w: u16, h: u16, encoding: i32| {
        [&[0, 0, 0, 1, 0, 0, 0, 0][..], &w.to_be_bytes(), &h.to_be_bytes(), &encoding.to_be_bytes()].concat()
    };
    let name = [&rect(0, 0, -307)[..], &5000_u32.to_be_bytes(), &[b'n'; 5000]].concat();
    let cursor = [rect(600, 600, -239), vec![0; 600 * 600 * 4 + 75 * 600]].concat();
    vnc.write_all(&[&cursor[..], &name, &[2]].concat()).await.unwrap();
    person.until("the name", |p| p.name.starts_with("nnn")).await;
    person.until("the beep behind both", |p| p.bells == 1).await;
    vnc.write_all(&rect(20_000, 20, -223)).await.unwrap();
    person.until("why", |p| p.name.contains("20000x20 is larger than allowed")).await;
}

#[tokio::test]
async fn a_wrong_vnc_password_is_final() {
    let home = Home::new();
    let security = Security::VncAuth(VncPassword::new(b"right"));
    let vnc = Vnc::start_on("127.0.0.1:0".parse().unwrap(), 8, 8, security).await;
    let setting = Setting { vnc_password: Some(VncPassword::new(b"wrong")), ..Setting::default() };
    let mut far = Far::start(&home, vnc.address, setting);
    let error = far.end().await;
    assert!(matches!(&error, ServeError::Vnc(error) if error.is_final()), "{error}");
    assert_eq!(vnc.connections(), 1, "it is not tried again");
    let error = Far::start(&home, vnc.address, Setting::default()).end().await;
    assert!(matches!(&error, ServeError::Vnc(error) if error.is_final()), "{error}");
    let words = error.to_string();
    assert!(words.contains("wants a password") && words.contains("--vnc-password-file"), "{words}");
    let setting = Setting { vnc_password: Some(VncPassword::new(b"right")), ..Setting::default() };
    let (_far, near) = join(&home, vnc.address, setting).await;
    Person::sit(near.address).await.sees(&vnc).await;
}

#[tokio::test]
async fn a_viewer_that_stops_reading_holds_nobody_up() {
    let home = Home::new();
    let vnc = Vnc::start(640, 480).await;
    let (_far, near) = join(&home, vnc.address, Setting::default()).await;
    let mut stalled = Person::sit(near.address).await;
    stalled.sees(&vnc).await;
    let mut person = Person::sit(near.address).await;
    // Far more than all the buffers in between: 40 full pictures of 1.2 MB.
    for n in 1..=40 {
        vnc.fill(rect(0, 0, 640, 480), n);
        person.until("the picture", |p| p.screen.pixel(639, 479) == Some(n)).await;
    }
    let before = stalled.updates;
    stalled.sees(&vnc).await;
    assert!(stalled.updates - before < 20, "it gets the newest, not all: {}", stalled.updates - before);
}

#[tokio::test]
async fn a_gateway_that_comes_back_finds_its_viewers() {
    let home = Home::new();
    let vnc = Vnc::start(64, 48).await;
    let (far, mut near) = join(&home, vnc.address, Setting::default()).await;
    let mut person = Person::sit(near.address).await;
    vnc.fill(rect(0, 0, 64, 48), 0x0066_6666);
    person.until("the picture", |p| p.screen.pixel(0, 0) == Some(0x0066_6666)).await;
    person.rfb.key(true, 0xffe1).unwrap();
    person.until("sent", |_| true).await;
    vnc.until("the key", |v| v.keys() == [(true, 0xffe1)]).await;
    // That it has arrived is said before the next picture; of what is in doubt the viewer would be told.
    vnc.fill(rect(0, 0, 64, 48), 0x0055_5555);
    person.until("a picture", |p| p.screen.pixel(0, 0) == Some(0x0055_5555)).await;
    let listen = far.kill().await;
    // Why it is over stands in the title, once, however often it is tried.
    let away = |name: &str| name.starts_with("test (no connection: ") && name.ends_with("; trying again)");
    person.until("the reason", |p| away(&p.name) && p.name.matches("connection: ").count() == 1).await;
    vnc.fill(rect(0, 0, 10, 10), 0x0077_7777);
    let far = Far::again(&home, vnc.address, Setting { listen, ..Setting::default() }).await;
    person.until("the new picture", |p| p.screen.pixel(5, 5) == Some(0x0077_7777)).await;
    person.sees(&vnc).await;
    assert_eq!(near.stats.totals().sessions, 2);
    assert_eq!(far.stats.totals().clients, 1);
    assert_eq!(person.name, "test");
    let mut news = Vec::new();
    while let Ok(one) = near.news.try_recv() {
        news.push(one);
    }
    let (first, last) = (news.first(), news.last());
    for connected in [first, last] {
        let told = matches!(connected, Some(ViewNews::Connected { server, size: Some(_), .. }) if *server == listen.to_string());
        assert!(told, "{news:?}");
    }
    let away = |news: &ViewNews| matches!(news, ViewNews::Away { error, .. } if !error.is_empty());
    assert!(news.len() > 2 && news[1..news.len() - 1].iter().all(away), "{news:?}");
}

#[tokio::test]
async fn keys_are_let_go_when_the_viewers_gateway_dies() {
    // DT-9.
    let home = Home::new();
    let vnc = Vnc::start(64, 48).await;
    let (_far, near) = join(&home, vnc.address, Setting::default()).await;
    let mut person = Person::sit(near.address).await;
    person.rfb.key(true, 0x61).unwrap();
    person.rfb.pointer(4, 7, 8).unwrap();
    person.until("sent", |_| true).await;
    vnc.until("the button", |v| matches!(v.events().last(), Some(ServerEvent::Pointer { buttons: 4, .. })))
        .await;
    let stats = near.stats.clone();
    near.kill().await;
    assert!(!stats.totals().connected, "whoever counts does not keep the session");
    vnc.until("the release", |v| {
        v.keys() == [(true, 0x61), (false, 0x61)]
            && matches!(v.events().last(), Some(ServerEvent::Pointer { buttons: 0, x: 7, y: 8 }))
    })
    .await;
}

/// How many wishes for another size the VNC server has heard.
fn wishes(vnc: &Vnc) -> usize {
    vnc.events().iter().filter(|e| matches!(e, ServerEvent::SetDesktopSize { .. })).count()
}

#[tokio::test]
async fn every_wish_for_another_size_is_answered() {
    let home = Home::new();
    let vnc = Vnc::start(64, 48).await;
    let (_far, near) = join(&home, vnc.address, Setting::default()).await;
    let mut person = Person::sit(near.address).await;
    let mut other = Person::sit(near.address).await;
    // By this the gateways learn that there are other sizes.
    vnc.tell(Draw::Resize(66, 48));
    for person in [&mut person, &mut other] {
        person.until("the size", |p| p.screen.width() == 66).await;
        person.until("word of it", |p| p.rfb.supports(RfbExtension::SetDesktopSize)).await;
    }
    // In quick succession, of two viewers.
    for (width, others) in [(80, false), (90, false), (100, true), (110, false)] {
        let person = if others { &mut other } else { &mut person };
        person.rfb.set_desktop_size(width, 50, &[]).unwrap();
        person.until("sent", |_| true).await;
        vnc.until("the wish", |v| wishes(v) == (usize::from(width) - 70) / 10).await;
    }
    let (done, no) = (ResizeStatus::Done, ResizeStatus::InvalidLayout);
    for (status, width) in [(done, 80), (no, 90), (no, 100), (done, 110)] {
        vnc.tell(Draw::Answer(status, width, 50));
    }
    person.until("three answers", |p| p.answers.len() == 3).await;
    other.until("an answer", |p| p.answers.len() == 1).await;
    let statuses: Vec<ResizeStatus> = person.answers.iter().map(|a| a.0).collect();
    assert_eq!((statuses, other.answers[0].0), (vec![done, no, done], no));
    for person in [&mut person, &mut other] {
        person.until("the size", |p| (p.screen.width(), p.screen.height()) == (110, 50)).await;
        person.sees(&vnc).await;
        assert!(person.answers.len() < 4, "and nobody hears of it twice");
    }
    // DT-55: a VNC server refuses a layout without screens.
    let asked = |event: &ServerEvent| match event {
        ServerEvent::SetDesktopSize { screens, .. } => Some(screens.clone()),
        _ => None,
    };
    let asked: Vec<Vec<Screen>> = vnc.events().iter().filter_map(asked).collect();
    let whole = |width| vec![Screen { id: 7, rect: Rect::sized(width, 50), flags: 3 }];
    assert_eq!(asked, [80, 90, 100, 110].map(whole));
    // Nobody is left to answer.
    person.rfb.set_desktop_size(30, 30, &[]).unwrap();
    person.until("sent", |_| true).await;
    vnc.until("the wish", |v| wishes(v) == 5).await;
    vnc.kill().await;
    person.until("an answer", |p| p.answers.len() == 4).await;
    assert_eq!(person.answers[3], (ResizeStatus::Prohibited, 110, 50));
    person.rfb.set_desktop_size(40, 40, &[]).unwrap();
    person.until("an answer without a VNC server", |p| p.answers.len() == 5).await;
    assert_eq!(person.answers[4], (ResizeStatus::Prohibited, 110, 50));
}

#[tokio::test]
async fn a_wish_that_may_not_be_is_answered_too() {
    let home = Home::new();
    let vnc = Vnc::start(64, 48).await;
    let permissions = Permissions { wish: false, ..Permissions::ALL };
    let (_far, near) = join(&home, vnc.address, Setting { permissions, ..Setting::default() }).await;
    let mut person = Person::sit(near.address).await;
    person.sees(&vnc).await;
    person.until("word of it", |p| p.rfb.supports(RfbExtension::SetDesktopSize)).await;
    for n in 1..=2 {
        person.rfb.set_desktop_size(80, 40, &[]).unwrap();
        person.until("an answer", |p| p.answers.len() == n).await;
    }
    assert_eq!(person.answers, [(ResizeStatus::Prohibited, 64, 48); 2]);
    assert_eq!(wishes(&vnc), 0);
}

#[tokio::test]
async fn view_only_and_no_clipboard_hold_at_the_server() {
    // DT-8.
    for (input, clipboard) in [(false, true), (true, false)] {
        let home = Home::new();
        let vnc = Vnc::start(64, 48).await;
        let permissions = Permissions { input, clipboard, wish: false };
        let (_far, near) = join(&home, vnc.address, Setting { permissions, ..Setting::default() }).await;
        let mut person = Person::sit(near.address).await;
        person.press(0x61);
        person.rfb.pointer(1, 2, 3).unwrap();
        person.rfb.text("a text").unwrap();
        person.press(0x62);
        person.rfb.text("another").unwrap();
        person.until("sent", |_| true).await;
        // What is allowed shows that what is not would have been there.
        let is_input = |e: &ServerEvent| matches!(e, ServerEvent::Key { .. } | ServerEvent::Pointer { .. });
        let is_text = |e: &ServerEvent| match e {
            ServerEvent::Text(_) => true,
            ServerEvent::Clipboard(c) => !matches!(c, quickset_rfb::ExtendedClipboard::Caps(_)),
            _ => false,
        };
        if input {
            vnc.until("the keys", |v| v.keys().len() == 4).await;
            assert!(!vnc.events().iter().any(is_text), "{:?}", vnc.events());
        } else {
            vnc.until("the texts", |v| v.events().iter().filter(|e| is_text(e)).count() == 2).await;
            assert!(!vnc.events().iter().any(is_input), "{:?}", vnc.events());
        }
    }
}
