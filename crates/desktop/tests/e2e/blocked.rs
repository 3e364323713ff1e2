//! A firewall of the kernel that stops UDP, from the start or in the middle of a session: `desktop view` and
//! the page in Chromium go on by TCP, and back to QUIC when UDP gets through.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use quickset_rfb::ClientConfig;

use super::browser::ChromiumSeat;
use super::page_scene::{Opening, PageScene, Seat};
use super::person::Person;
use super::programs::{Display, Program};
use super::walled::{FAR, NEAR, Verdict, Walled};
use super::{Folder, LIMIT, quickset};

/// From the beginning of a session to its first picture, without UDP.
const FIRST_PICTURE: Duration = Duration::from_millis(1500);
/// From the end of UDP to a picture by TCP.
const NEXT_PICTURE: Duration = Duration::from_secs(3);
/// The same for the page, which looks for an answer each second, and has just had one.
const NEXT_PICTURE_OF_PAGE: Duration = Duration::from_millis(2500);
/// From UDP's return to QUIC.
const BACK: Duration = Duration::from_secs(30);

/// DT-56, DT-58.
#[tokio::test]
#[ignore = "needs root, nftables and X programs: cargo xtask e2e"]
async fn desktop_view_goes_by_tcp_behind_a_firewall_without_udp() {
    let Some(net) = Walled::new() else { return };
    let folder = Folder::new("blocked-view");
    let desktop = Display::start(800, 600).await;
    let mut signs = Signs::default();
    let serves = ["serve", "--vnc", &desktop.vnc.to_string(), "--listen", &format!("{FAR}:0")];
    let mut serve = Program::start(quickset().args(serves).env("XDG_DATA_HOME", folder.0.join("server")));
    let listening = |line: &str| line.strip_prefix("listening on ").map(str::to_owned);
    let words = serve.prints("where it listens", listening).await;
    let (address, pin) = words.split_once(' ').unwrap();
    let token = serve.prints("a token", |line| line.strip_prefix("token ").map(str::to_owned)).await;
    let mut credential = vec!["--token", &token];
    for verdict in [Verdict::Drop, Verdict::Reject] {
        let sign = signs.put_up(&desktop);
        net.block(verdict);
        let begun = Instant::now();
        let mut view = quickset();
        view.args(["view", address, "--pin", pin, "--listen", &format!("{NEAR}:0")]);
        // The key is known from the first time on.
        view.args(std::mem::take(&mut credential)).env("XDG_DATA_HOME", folder.0.join("client"));
        let mut gateway = net.near(|| Program::start(&mut view));
        let viewers: SocketAddr = gateway.prints("where it listens", listening).await.parse().unwrap();
        let mut person = sits(&net, viewers).await;
        let first = sees(&mut person, sign, begun).await;
        println!("view, UDP meets {verdict:?}: a picture {first:?} after the start");
        assert!(first < FIRST_PICTURE, "{first:?}");
        assert!(person.name.contains("by TCP"), "{}", person.name);
        assert!(net.open() > 0, "the firewall has stopped something");
        is_named(&mut person, false, BACK).await;
        for _ in 0..2 {
            let begun = Instant::now();
            net.block(verdict);
            let sign = signs.put_up(&desktop);
            let next = sees(&mut person, sign, begun).await;
            println!("view, UDP meets {verdict:?} in the middle: a picture after {next:?}");
            is_named(&mut person, true, NEXT_PICTURE).await;
            assert!(next < NEXT_PICTURE, "{next:?}");
            assert!(net.open() > 0, "the firewall has stopped something");
            let back = is_named(&mut person, false, BACK).await;
            println!("view: back by QUIC after {back:?}");
            let sign = signs.put_up(&desktop);
            sees(&mut person, sign, Instant::now()).await;
        }
    }
}

/// DT-58, WB-19.
#[tokio::test]
#[ignore = "needs root, nftables, X programs and Chromium: cargo xtask e2e"]
async fn the_page_goes_by_tcp_behind_a_firewall_without_udp() {
    let Some(net) = Walled::new() else { return };
    for verdict in [Verdict::Drop, Verdict::Reject] {
        net.block(verdict);
        // The page is handed out on the near side, too.
        let mut page = net.near(|| Program::start(quickset().args(["page", "--listen", "127.0.0.1:0"])));
        let place = |line: &str| line.strip_prefix("serving the page at ").map(str::to_owned);
        let place = page.prints("where it is", place).await;
        let open = |opening: &Opening<'_>| {
            let fragment = opening.url.split_once('#').unwrap().1;
            let url = format!("{place}#{fragment}");
            let opening = Opening { url: &url, ..*opening };
            net.near(|| ChromiumSeat::open(&opening))
        };
        let listen = format!("{FAR}:0");
        let name = format!("blocked-page-{verdict:?}");
        let between = async |server: SocketAddr| (server, ());
        let mut scene = PageScene::set(&name, [&listen, "127.0.0.1:0"], between, open).await;
        println!("page, UDP meets {verdict:?}: the desktop {:?} after Chromium was started", scene.opened);
        assert_eq!(scene.way().await, "TCP");
        // Of the page alone: without the start of the browser.
        let first = scene.reload().await;
        println!("  after {first:?} in a browser that is there");
        assert_eq!(scene.way().await, "TCP");
        assert!(net.open() > 0, "the firewall has stopped something");
        let begun = Instant::now();
        scene.goes_by("QUIC").await;
        assert!(begun.elapsed() < BACK, "{:?}", begun.elapsed());
        println!("  back by QUIC {:?} after UDP was let through", begun.elapsed());
        let mut signs = Signs::default();
        for _ in 0..2 {
            scene.seat.evaluate(AN_ANSWER);
            let begun = Instant::now();
            net.block(verdict);
            let sign = signs.put_up(&scene.desktop);
            while scene.seat.evaluate(&sign.is_shown()) != true {
                assert!(begun.elapsed() < LIMIT, "no picture; the page says {}", scene.notice());
                scene.far.look(Duration::from_millis(10)).await;
            }
            let next = begun.elapsed();
            println!("  UDP meets {verdict:?} in the middle: a picture after {next:?}");
            scene.goes_by("TCP").await;
            // A browser that is told that nothing arrives begins anew by itself, when it has sent something.
            let limit = if matches!(verdict, Verdict::Drop) { NEXT_PICTURE_OF_PAGE } else { NEXT_PICTURE };
            assert!(next < limit, "{next:?}");
            scene.settle().await;
            assert!(net.open() > 0, "the firewall has stopped something");
            let begun = Instant::now();
            scene.goes_by("QUIC").await;
            println!("  back by QUIC after {:?}", begun.elapsed());
            assert!(begun.elapsed() < BACK, "{:?}", begun.elapsed());
            scene.settle().await;
        }
        drags(&mut scene, &net, verdict).await;
        scene.end();
    }
}

/// A button that is down stays down while the page goes on by TCP and comes back to QUIC, and goes up once.
async fn drags<B>(scene: &mut PageScene<ChromiumSeat, B>, net: &Walled, verdict: Verdict) {
    let buttons = |scene: &PageScene<ChromiumSeat, B>| {
        let lines = scene.far_events();
        let count = |what: &str| lines.iter().filter(|line| line.starts_with(what)).count();
        (count("ButtonPress"), count("ButtonRelease"))
    };
    scene.lead_the_pointer(600, 100).await;
    let before = buttons(scene);
    scene.seat.hold(true);
    net.block(verdict);
    scene.point(610, 110);
    scene.goes_by("TCP").await;
    scene.point(620, 120);
    assert!(net.open() > 0, "the firewall has stopped something");
    scene.goes_by("QUIC").await;
    scene.point(630, 130);
    scene.seat.hold(false);
    let end = Instant::now() + LIMIT;
    while buttons(scene).1 == before.1 {
        assert!(Instant::now() < end, "it never goes up: {:?}", scene.far_events());
        scene.far.look(Duration::from_millis(20)).await;
    }
    assert_eq!(buttons(scene), (before.0 + 1, before.1 + 1), "{:?}", scene.far_events());
    // The line behind the name of an event says where, and the next one which button.
    let lines = scene.far_events();
    let up = lines.iter().rposition(|line| line.starts_with("ButtonRelease")).unwrap();
    assert!(lines[up + 1].contains("root:(630,130)"), "{:?}", &lines[up..]);
}

/// It tells its figures with each answer.
const AN_ANSWER: &str = "new Promise((done) => new MutationObserver((_, observer) => {
    observer.disconnect();
    done(true);
}).observe(document.getElementById('figures'), { childList: true }))";

/// Windows of one colour each, in one place, each over the one before: what is seen there is as new as it is.
#[derive(Default)]
struct Signs(Vec<Program>);

/// The colour of the newest.
#[derive(Clone, Copy, Debug)]
struct Sign(u32);

impl Signs {
    const PLACE: (u16, u16) = (330, 40);

    fn put_up(&mut self, desktop: &Display) -> Sign {
        let number = u32::try_from(self.0.len()).unwrap() + 1;
        let colour = (number * 0x33_1f49) & 0xff_ffff;
        let (x, y) = (Self::PLACE.0 - 20, Self::PLACE.1 - 20);
        let (place, colour_word) = (format!("20x5+{x}+{y}"), format!("#{colour:06x}"));
        let words = ["-geometry", &place, "-bg", &colour_word, "-fg", &colour_word, "-e", "sleep", "600"];
        self.0.push(desktop.run("xterm", &words));
        Sign(colour)
    }
}

impl Sign {
    /// An expression of JavaScript.
    fn is_shown(self) -> String {
        let ((x, y), [red, green, blue]) = (Signs::PLACE, [16, 8, 0].map(|part| self.0 >> part & 0xff));
        format!(
            "(() => {{ const c = new OffscreenCanvas(1, 1).getContext('2d', {{ alpha: false }});
                c.drawImage(document.getElementById('screen'), -{x}, -{y});
                return c.getImageData(0, 0, 1, 1).data.join() === '{red},{green},{blue},255'; }})()"
        )
    }
}

/// Somebody sits down before the gateway as soon as it takes viewers.
async fn sits(net: &Walled, gateway: SocketAddr) -> Person {
    let socket = net.near(|| std::net::TcpStream::connect(gateway)).unwrap();
    socket.set_nonblocking(true).unwrap();
    Person::on(tokio::net::TcpStream::from_std(socket).unwrap(), ClientConfig::default()).await
}

/// How long after `begun` a viewer sees it.
async fn sees(person: &mut Person, sign: Sign, begun: Instant) -> Duration {
    let (x, y) = Signs::PLACE;
    let is_there = |person: &mut Person| person.screen.pixel(x, y) == Some(sign.0);
    person.until("the newest window", is_there).await;
    begun.elapsed()
}

/// How long until the desktop's name says by which way it comes.
async fn is_named(person: &mut Person, by_tcp: bool, limit: Duration) -> Duration {
    let begun = Instant::now();
    person.until("the name says the way", |person| person.name.contains("by TCP") == by_tcp).await;
    assert!(begun.elapsed() < limit, "{by_tcp}: {:?}", begun.elapsed());
    begun.elapsed()
}
