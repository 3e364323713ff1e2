//! A page in a browser, played by HTTP/3 and WebTransport of our own: `spec/web.md`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quickset::h3::webtransport::{RecvStream, SendStream, Session, SessionEnding, SessionError};
use quickset::h3::{self, Request};
use quickset::{ClientConfig, Endpoint, Trust};
use quickset_base::Time;
use quickset_desktop::message::{
    ClipboardMessage, FromClient, Hello, InputCopy, PersonInput, Refresh, ScreenOrder, Welcome, code,
    stream_bytes,
};
use quickset_desktop::serve::{PageConfig, PageFile};
use quickset_desktop::sound::SoundCommand;
use quickset_desktop::trust::{OneTimeToken, PageLinks};
use quickset_lab::relay::Relay;
use quickset_rfb::{ExtendedClipboard, Rect, ServerEvent};
use quickset_sim::LinkSpec;
use quickset_viewer::{PageInputs, PageNews, PageViewer};

use super::scene::{Far, Home, LIMIT, Setting};
use super::sound::{over_and_over, tone};
use super::vnc::{Order as Draw, Vnc};

const ORIGIN: &str = "https://desk.example";

/// Pages of a gateway, and a link to it.
pub(crate) fn pages() -> (PageConfig, OneTimeToken) {
    let links = PageLinks::new();
    let (_, token) = links.add(Instant::now(), false, None);
    let file =
        PageFile { path: "/", media_type: "text/html", content: Bytes::from_static(b"<!doctype html>") };
    (
        PageConfig {
            links: Arc::new(links),
            identity: None,
            origins: vec![ORIGIN.into(), "http://localhost:*".into()],
            files: [file].into(),
        },
        token,
    )
}

/// A browser that has connected.
struct Browser {
    client: h3::Client,
    _endpoint: Endpoint,
}

impl Browser {
    async fn open(home: &Home, address: SocketAddr) -> Self {
        let server = home.server().server_identity().unwrap().fingerprint();
        let config = ClientConfig::new(Trust::pinned(server), &[h3::ALPN]).unwrap();
        let endpoint = Endpoint::client().unwrap();
        let connection = endpoint.connect(address, "localhost", &config).await.unwrap();
        let config = h3::Config { webtransport: 1, ..h3::Config::default() };
        Self { client: h3::Client::new(&connection, config).unwrap(), _endpoint: endpoint }
    }

    async fn session(&self, path: &'static str, origin: &'static str) -> Result<Session, SessionError> {
        let request = Request::extended("webtransport", "localhost", path).with("origin", origin);
        self.client.session(&request).await
    }
}

/// A page that shows the desktop.
pub(crate) struct Page {
    session: Session,
    control: SendStream,
    incoming: RecvStream,
    input: SendStream,
    viewer: PageViewer,
    welcome: Option<Welcome>,
    texts: Vec<String>,
    /// What it has done and the desktop has.
    taken: u64,
    /// What the person does, unless that goes out as it is.
    visit: Option<PageInputs>,
    began: Instant,
    _browser: Browser,
}

impl Page {
    pub(crate) async fn begin(home: &Home, address: SocketAddr, hello: &[u8]) -> Self {
        let browser = Browser::open(home, address).await;
        let session = browser.session("/desktop", ORIGIN).await.unwrap();
        let (mut control, incoming) = session.open_bi().await.unwrap();
        control.send(Bytes::copy_from_slice(hello)).await.unwrap();
        let input = session.open_uni().await.unwrap();
        Self {
            session,
            control,
            incoming,
            input,
            viewer: PageViewer::new(256 << 20),
            welcome: None,
            texts: Vec::new(),
            taken: 0,
            visit: None,
            began: Instant::now(),
            _browser: browser,
        }
    }

    /// With what the person wishes: bits per second, and qualities of JPEG.
    pub(crate) async fn wishing(
        home: &Home,
        address: SocketAddr,
        token: &OneTimeToken,
        bps: u64,
        (least, most): (u8, u8),
    ) -> Self {
        let mut page = Self::by(home, address, token).await;
        page.until("the welcome", |page| page.welcome.is_some()).await;
        page.viewer.wants_rate(bps);
        page.viewer.wants_quality(least, most);
        page.turn().await;
        page
    }

    async fn by(home: &Home, address: SocketAddr, token: &OneTimeToken) -> Self {
        Self::begin(home, address, &PageViewer::hello(token.reveal(), "", "")).await
    }

    /// The next session of a visit.
    async fn visiting(home: &Home, address: SocketAddr, token: &OneTimeToken, visit: PageInputs) -> Self {
        let hello = visit.hello(token.reveal(), "", "");
        Self { visit: Some(visit), ..Self::begin(home, address, &hello).await }
    }

    /// The session is left as it is. Its visit.
    fn leave(&mut self) -> PageInputs {
        let mut visit = self.visit.take().expect("it has one");
        visit.ended();
        visit
    }

    async fn types(&mut self, input: PersonInput) {
        let now = self.now();
        self.visit.as_mut().expect("it has one").does(now, input);
        self.turn().await;
    }

    async fn does(&mut self, input: &PersonInput) {
        self.input.send(stream_bytes(input).into()).await.unwrap();
    }

    fn now(&self) -> Time {
        Time::ZERO + self.began.elapsed()
    }

    /// Takes what comes until something is true.
    async fn until(&mut self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let looks = async {
            while !holds(self) {
                let wait = self.viewer.next_deadline().map_or(LIMIT, |due| due.since(self.now()));
                tokio::select! {
                    datagram = self.session.next_datagram() => {
                        self.viewer.datagram(self.now(), &datagram.unwrap()).unwrap();
                    }
                    bytes = self.incoming.next() => {
                        self.viewer.control_bytes(self.now(), &bytes.unwrap().unwrap()).unwrap();
                    }
                    () = tokio::time::sleep(wait) => {}
                }
                self.turn().await;
            }
        };
        let done = tokio::time::timeout(LIMIT, looks).await;
        assert!(done.is_ok(), "in vain: {what}; {:?}", self.viewer);
    }

    /// Takes what comes for some time.
    pub(crate) async fn rests_for(&mut self, time: Duration) {
        let ended = tokio::time::timeout(time, self.until("nothing", |_| false)).await;
        assert!(ended.is_err());
    }

    /// Tells the server what it has to know, and hears the news.
    async fn turn(&mut self) {
        let now = self.now();
        while let Some(report) = self.viewer.next_datagram(now) {
            self.session.send_datagram(&report).unwrap();
        }
        while let Some(bytes) = self.viewer.next_control(now) {
            self.control.send(bytes.into()).await.unwrap();
        }
        while let Some(news) = self.viewer.next_news() {
            if let Some(visit) = &mut self.visit {
                assert_eq!(visit.hear(now, &news), Ok(false), "all of it is sent");
            }
            match news {
                PageNews::Welcome(welcome) => self.welcome = Some(welcome),
                PageNews::Taken(count) => self.taken = count,
                PageNews::Clipboard(ClipboardMessage::Paste(text)) => self.texts.push(text),
                _ => {}
            }
        }
        while let Some(bytes) = self.visit.as_mut().and_then(|visit| visit.next_input(now)) {
            self.input.send(bytes.into()).await.unwrap();
        }
    }

    pub(crate) async fn sees(&mut self, vnc: &Vnc) {
        let same =
            |page: &Self| page.welcome.is_some() && vnc.picture() == Some(page.viewer.screen().crc32());
        self.until("the same picture", same).await;
    }

    pub(crate) async fn ended(&self) -> SessionEnding {
        tokio::time::timeout(LIMIT, self.session.closed()).await.expect("it ends").unwrap()
    }
}

fn rect(x: u16, y: u16, w: u16, h: u16) -> Rect {
    Rect::new(x, y, w, h).unwrap()
}

/// Windows that move, scroll and change their size, over a path that loses 3 % each way.
async fn the_same_picture_in_order(order: ScreenOrder) {
    let (home, vnc) = (Home::new(), Vnc::start(640, 480).await);
    let (pages, token) = pages();
    let setting = Setting { order, pages: Some(pages), ..Setting::default() };
    let far = Far::start(&home, vnc.address, setting);
    let link: LinkSpec = "rate=50mbit delay=10ms queue=500kB loss=3%".parse().unwrap();
    let relay = Relay::start(far.address, link.clone(), link, 1).unwrap();
    let mut page = Page::by(&home, relay.address(), &token).await;
    page.sees(&vnc).await;
    assert_eq!(page.welcome.as_ref().map(|welcome| welcome.order), Some(order));
    for step in 0..60_u16 {
        // Of noise, so that a step is many messages.
        let pixels = (0..200 * 100).map(|n: u32| n.wrapping_mul(u32::from(step) + 7) & 0xff_ffff).collect();
        vnc.tell(Draw::Put(rect(step * 4, step * 3, 200, 100), pixels));
        if step % 3 == 0 {
            vnc.tell(Draw::Copy(rect(16, 0, 560, 400), 0, 32));
        }
        if step == 30 {
            vnc.tell(Draw::Resize(800, 500));
        }
        let shown = page.viewer.datagrams().messages;
        page.until("some of it", |page| page.viewer.datagrams().messages > shown).await;
    }
    page.sees(&vnc).await;
    let stats = *page.viewer.datagrams();
    println!("{order}: {stats:?}");
    assert!(stats.repairs > 0, "the path is seen to lose: {stats:?}");
    // Keys and clicks come in order.
    for key in 0x61..0x7b_u16 {
        for down in [true, false] {
            page.does(&PersonInput::Key { down, keysym: key.into(), keycode: None }).await;
            page.does(&PersonInput::Pointer { buttons: down.into(), x: key, y: 0 }).await;
        }
    }
    vnc.until("all keys", |vnc| vnc.keys().len() == 52).await;
    let expected: Vec<(bool, u32)> = (0x61..0x7b).flat_map(|key| [(true, key), (false, key)]).collect();
    assert_eq!(vnc.keys(), expected);
}

#[tokio::test]
async fn a_page_sees_the_same_picture_ordered() {
    the_same_picture_in_order(ScreenOrder::Ordered).await;
}

#[tokio::test]
async fn a_page_sees_the_same_picture_fenced() {
    the_same_picture_in_order(ScreenOrder::Fenced).await;
}

#[tokio::test]
async fn a_page_sees_the_same_picture_latest() {
    the_same_picture_in_order(ScreenOrder::Latest).await;
}

#[tokio::test]
async fn the_page_comes_from_the_same_port_and_may_nothing_else() {
    let (home, vnc) = (Home::new(), Vnc::start(64, 64).await);
    let far = Far::start(&home, vnc.address, Setting { pages: Some(pages().0), ..Setting::default() });
    let browser = Browser::open(&home, far.address).await;
    let fetch = async |method: &'static str, path: &'static str| {
        let (response, mut content) =
            browser.client.fetch(&Request::new(method, "localhost", path)).await.unwrap();
        let field = |name: &[u8]| {
            let found = response.fields.iter().find(|field| &field.name[..] == name);
            found.map(|field| String::from_utf8_lossy(&field.value).into_owned())
        };
        let policy = field(b"content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{policy}");
        let kind = field(b"content-type");
        (response.status, kind, String::from_utf8(content.read_to_end(1000).await.unwrap()).unwrap())
    };
    let page = || Some("text/html".to_owned());
    assert_eq!(fetch("GET", "/?x=1").await, (200, page(), "<!doctype html>".into()));
    assert_eq!(fetch("HEAD", "/").await, (200, page(), String::new()));
    assert_eq!(fetch("GET", "/../etc/passwd").await, (404, None, String::new()));
    assert_eq!(fetch("POST", "/").await, (405, None, String::new()));
}

#[tokio::test]
async fn foreign_pages_and_wrong_tokens_are_turned_away() {
    let (home, vnc) = (Home::new(), Vnc::start(64, 64).await);
    let (pages, token) = pages();
    let (link, looks) = pages.links.add(Instant::now(), true, None);
    let links = pages.links.clone();
    let far = Far::start(&home, vnc.address, Setting { pages: Some(pages), ..Setting::default() });
    // WB-16: another page, one whose name was bound to our address, none; and a path that is none of ours.
    let browser = Browser::open(&home, far.address).await;
    for origin in [
        "https://evil.example",
        "http://desk.example",
        "https://localhost",
        "http://localhost:",
        "http://localhost:80.evil.example",
        "http://localhost.evil.example:80",
        "null",
        "",
    ] {
        let refused = browser.session("/desktop", origin).await;
        assert!(matches!(refused, Err(SessionError::Declined(403))), "{origin}: {refused:?}");
    }
    // `desktop page` has whichever port its user chose.
    browser.session("/desktop", "http://localhost:4481").await.unwrap();
    let browser = Browser::open(&home, far.address).await;
    assert!(matches!(browser.session("/other", ORIGIN).await, Err(SessionError::Declined(404))));
    // WB-15: no token, a wrong one, and one that was taken back.
    let none = Page::begin(&home, far.address, &stream_bytes(&FromClient::Hello(Hello::default())))
        .await
        .ended()
        .await;
    assert_eq!(none.code, code::DENIED as u32);
    let wrong = Page::by(&home, far.address, &OneTimeToken::random()).await.ended().await;
    assert_eq!(wrong.code, code::DENIED as u32);
    assert!(wrong.reason.contains("link"), "{}", wrong.reason);
    let mut looker = Page::by(&home, far.address, &looks).await;
    looker.sees(&vnc).await;
    assert!(links.remove(link));
    let late = Page::by(&home, far.address, &looks).await.ended().await;
    assert_eq!(late.code, code::DENIED as u32);
    // DT-8: who may only look does nothing, whatever it says.
    let permissions = looker.welcome.as_ref().unwrap().permissions;
    assert!(!permissions.input && !permissions.clipboard && !permissions.wish);
    looker.does(&PersonInput::Key { down: true, keysym: 0x78, keycode: None }).await;
    let mut page = Page::by(&home, far.address, &token).await;
    page.sees(&vnc).await;
    page.does(&PersonInput::Key { down: true, keysym: 0x79, keycode: None }).await;
    vnc.until("a key", |vnc| !vnc.keys().is_empty()).await;
    assert_eq!(vnc.keys(), [(true, 0x79)]);
}

/// By a link with which one may only look, over a path that loses.
#[tokio::test]
async fn a_page_hears_from_when_it_asks_until_it_asks_no_more() {
    // DT-76, WB-26.
    let (home, vnc) = (Home::new(), Vnc::start(64, 64).await);
    let (pages, _) = pages();
    let (_, looks) = pages.links.add(Instant::now(), true, None);
    let sound = Some(over_and_over(&tone(&home)));
    let far = Far::start(&home, vnc.address, Setting { pages: Some(pages), sound, ..Setting::default() });
    let link: LinkSpec = "rate=50mbit delay=10ms queue=500kB loss=3%".parse().unwrap();
    let relay = Relay::start(far.address, link.clone(), link, 1).unwrap();
    let mut page = Page::by(&home, relay.address(), &looks).await;
    page.sees(&vnc).await;
    assert!(PageViewer::offers_sound(page.welcome.as_ref().unwrap()));
    page.rests_for(Duration::from_millis(300)).await;
    assert_eq!(page.viewer.sound().frames.received, 0);
    page.viewer.wants_sound(true);
    page.turn().await;
    page.until("two seconds of sound", |page| page.viewer.sound().frames.received >= 100).await;
    page.viewer.wants_sound(false);
    page.turn().await;
    loop {
        let before = page.viewer.sound().frames.received;
        page.rests_for(Duration::from_millis(400)).await;
        if page.viewer.sound().frames.received == before {
            break;
        }
    }
    let before = page.viewer.sound();
    page.viewer.wants_sound(true);
    page.turn().await;
    page.until("sound again", |page| page.viewer.sound().frames.received > before.frames.received + 20).await;
    let sound = page.viewer.sound();
    println!("{sound:?}");
    assert_eq!((sound.frames.unreadable, sound.frames.repeated), (0, 0));
    page.sees(&vnc).await;
}

/// DT-75, DT-67.
#[tokio::test]
async fn a_page_sees_where_there_is_no_sound_or_none_can_be_recorded() {
    for missing in [None, Some("no such program")] {
        let (home, vnc) = (Home::new(), Vnc::start(64, 64).await);
        let sound = missing.map(|name| SoundCommand::new(home.0.join(name), [""; 0]));
        let (pages, token) = pages();
        let offered = sound.is_some();
        let far = Far::start(&home, vnc.address, Setting { pages: Some(pages), sound, ..Setting::default() });
        let mut page = Page::by(&home, far.address, &token).await;
        page.sees(&vnc).await;
        assert_eq!(PageViewer::offers_sound(page.welcome.as_ref().unwrap()), offered);
        page.viewer.wants_sound(true);
        page.turn().await;
        vnc.fill(rect(1, 2, 3, 4), 0x12_3456 + u32::from(offered));
        page.sees(&vnc).await;
        assert_eq!(page.viewer.sound().frames.received, 0);
    }
}

#[tokio::test]
async fn a_page_that_has_lost_its_place_gets_all_of_it_again() {
    // WB-17.
    let (home, vnc) = (Home::new(), Vnc::start(320, 240).await);
    let (pages, token) = pages();
    let far = Far::start(&home, vnc.address, Setting { pages: Some(pages), ..Setting::default() });
    let mut page = Page::by(&home, far.address, &token).await;
    vnc.fill(rect(10, 20, 30, 40), 0x00ff_8800);
    page.sees(&vnc).await;
    // What is drawn by the old sequence does not come after the new one began.
    let restart = FromClient::Refresh(Refresh { restart: true, rect: Rect::sized(320, 240) });
    page.control.send(stream_bytes(&restart).into()).await.unwrap();
    let messages = page.viewer.datagrams().messages;
    page.until("all of it again", |page| page.viewer.datagrams().messages > messages).await;
    vnc.fill(rect(100, 100, 50, 50), 0x0000_88ff);
    page.sees(&vnc).await;
}

#[tokio::test]
async fn texts_go_both_ways() {
    let (home, vnc) = (Home::new(), Vnc::start(64, 64).await);
    let (pages, token) = pages();
    let far = Far::start(&home, vnc.address, Setting { pages: Some(pages), ..Setting::default() });
    let mut page = Page::by(&home, far.address, &token).await;
    page.sees(&vnc).await;
    vnc.tell(Draw::Text("z\u{fc}rich".into()));
    let mut clipboard = tokio::time::timeout(LIMIT, page.session.accept_uni()).await.unwrap().unwrap();
    while page.texts.is_empty() {
        let bytes = tokio::time::timeout(LIMIT, clipboard.next()).await.unwrap().unwrap().unwrap();
        page.viewer.clipboard_bytes(&bytes).unwrap();
        page.turn().await;
    }
    assert_eq!(page.texts, ["z\u{fc}rich"]);
    page.does(&PersonInput::Clipboard(ClipboardMessage::Paste("\u{e9}t\u{e9}".into()))).await;
    // The VNC server is told that there is one, and asks when somebody pastes.
    let told = |event: &ServerEvent| matches!(event, ServerEvent::Clipboard(ExtendedClipboard::Notify(_)));
    vnc.until("that there is a text", |vnc| vnc.events().iter().any(told)).await;
}

#[tokio::test]
async fn a_page_that_speaks_nonsense_is_ended_and_others_go_on() {
    let (home, vnc) = (Home::new(), Vnc::start(64, 64).await);
    let (pages, token) = pages();
    let far = Far::start(&home, vnc.address, Setting { pages: Some(pages), ..Setting::default() });
    let mut other = Page::by(&home, far.address, &token).await;
    other.sees(&vnc).await;
    // WB-13: a report that is cut, one of numbers that were not sent, one of a sequence to come.
    // WB-27: input that is cut. The same of sound, which was not even asked for (WB-23).
    for report in [
        &[4, 0, 2][..],
        &[4, 0, 0x7f, 0xff, 0, 0, 0, 0],
        &[4, 9, 0, 0, 0, 0, 0],
        &[5],
        &[5, 4, 0, 1, 0, 0, 0, 0],
        &[6, 0, 6, 0x20],
    ] {
        let mut page = Page::by(&home, far.address, &token).await;
        page.sees(&vnc).await;
        page.session.send_datagram(report).unwrap();
        assert_eq!(page.ended().await.code, code::PROTOCOL as u32, "{report:?}");
    }
    // WB-1: what is not known yet does no harm. DT-5: a record too long, before it is there.
    let mut page = Page::by(&home, far.address, &token).await;
    page.session.send_datagram(&[77, 1, 2, 3]).unwrap();
    page.sees(&vnc).await;
    page.input.send(Bytes::from_static(&[0x80, 0x01, 0x00, 0x01])).await.unwrap();
    assert_eq!(page.ended().await.code, code::PROTOCOL as u32);
    vnc.fill(rect(0, 0, 9, 9), 0x00_1234);
    other.sees(&vnc).await;
}

/// It gets no more than a few packets, and nobody else less.
#[tokio::test]
async fn a_page_that_never_answers_is_in_nobodys_way() {
    let (home, vnc) = (Home::new(), Vnc::start(640, 480).await);
    let (pages, token) = pages();
    let far = Far::start(&home, vnc.address, Setting { pages: Some(pages), ..Setting::default() });
    let silent = Page::by(&home, far.address, &token).await;
    let mut page = Page::by(&home, far.address, &token).await;
    page.sees(&vnc).await;
    for step in 0..24_u32 {
        // Noise, which takes many messages.
        let mut state = u64::from(step) + 1;
        let noise = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state & 0xff_ffff) as u32
        });
        let pixels = noise.take(640 * 480).collect();
        vnc.tell(Draw::Put(rect(0, 0, 640, 480), pixels));
        let shown = page.viewer.datagrams().messages;
        page.until("most of it", |page| page.viewer.datagrams().messages > shown + 100).await;
    }
    page.sees(&vnc).await;
    // WB-7: what is kept for it is bounded.
    let sent: Vec<u64> = far.stats.totals().now.values().map(|(_, screen)| screen.bytes).collect();
    let [least, most] = [sent.iter().min().unwrap(), sent.iter().max().unwrap()];
    assert!(*least <= 8 << 20 && *most > 9 << 20, "{sent:?} bytes, the least for a page that reports none");
    drop(silent);
}

#[tokio::test]
async fn keys_on_a_page_come_once_whatever_becomes_of_its_sessions() {
    // WB-21: one is left with keys that nobody has said to be passed on, and typed on in between.
    let (home, vnc) = (Home::new(), Vnc::start(64, 64).await);
    let (pages, token) = pages();
    let (_, other_token) = pages.links.add(Instant::now(), false, None);
    let far = Far::start(&home, vnc.address, Setting { pages: Some(pages), ..Setting::default() });
    let key = |down, keysym| PersonInput::Key { down, keysym, keycode: None };
    let mut visit = PageInputs::new([5; 16]);
    let (mut left, mut all) = (Vec::new(), Vec::new());
    for session in 0..3_u32 {
        let mut page = Page::visiting(&home, far.address, &token, visit).await;
        page.sees(&vnc).await;
        for n in 0..8 {
            for down in [true, false] {
                page.types(key(down, 0x100 * session + n)).await;
                all.push((down, 0x100 * session + n));
            }
        }
        if session == 1 {
            vnc.until("all of them", |vnc| vnc.keys().len() >= all.len()).await;
        }
        visit = page.leave();
        let now = page.now();
        visit.does(now, key(true, 0x1000 + session));
        visit.does(now, key(false, 0x1000 + session));
        all.extend([(true, 0x1000 + session), (false, 0x1000 + session)]);
        left.push(page);
    }
    // By another link it is another visit, of which nothing is known: what was sent is not sent again.
    let stranger = Page::begin(&home, far.address, &visit.hello(other_token.reveal(), "", "")).await;
    let mut stranger = Page { visit: None, ..stranger };
    stranger.until("it may look", |page| page.welcome.is_some()).await;
    assert!(stranger.welcome.as_ref().unwrap().visit.is_some_and(|visit| !visit.resumed && visit.taken == 0));
    let mut page = Page::visiting(&home, far.address, &token, visit).await;
    page.sees(&vnc).await;
    vnc.until("all keys", |vnc| vnc.keys().len() >= all.len()).await;
    assert_eq!(vnc.keys(), all);
    for page in left {
        assert_eq!(page.ended().await.code, code::BUSY as u32);
    }
}

#[tokio::test]
async fn what_comes_in_a_datagram_before_it_comes_by_the_stream_is_done_once() {
    // WB-27: as where the packets of the stream are lost.
    let (home, vnc) = (Home::new(), Vnc::start(64, 64).await);
    let (pages, token) = pages();
    let far = Far::start(&home, vnc.address, Setting { pages: Some(pages), ..Setting::default() });
    let all: Vec<PersonInput> =
        (1..=9).map(|keysym| PersonInput::Key { down: true, keysym, keycode: None }).collect();
    let copy = |first: usize, end: usize| InputCopy::of_newest(first as u64, all[first..end].iter()).unwrap();
    let typed = |n: u32| (1..=n).map(|keysym| (true, keysym)).collect::<Vec<_>>();
    let mut page = Page::visiting(&home, far.address, &token, PageInputs::new([5; 16])).await;
    // It keeps no count of its own.
    page.visit = None;
    page.sees(&vnc).await;
    // The stream is there, with an end of a record that is still to come.
    page.input.send(Bytes::from_static(&[6])).await.unwrap();
    // Behind a gap nothing is done; twice nothing; and a datagram of both does the rest.
    for (first, end) in [(4, 6), (0, 3), (0, 3), (1, 5)] {
        page.session.send_datagram(&copy(first, end)).unwrap();
    }
    vnc.until("what was typed", |vnc| vnc.keys().len() >= 5).await;
    assert_eq!(vnc.keys(), typed(5));
    // The stream brings all of it, and more.
    let stream: Vec<u8> = all[..8].iter().flat_map(stream_bytes).collect();
    page.input.send(Bytes::from(stream).slice(1..)).await.unwrap();
    vnc.until("what the stream has brought", |vnc| vnc.keys().len() >= 8).await;
    page.session.send_datagram(&copy(6, 9)).unwrap();
    vnc.until("the last", |vnc| vnc.keys().len() >= 9).await;
    assert_eq!(vnc.keys(), typed(9));
    // DT-64: each was counted once.
    page.until("the count", |page| page.taken == 9).await;
}

#[tokio::test]
async fn what_repairs_a_small_update_is_not_lost_with_it() {
    // As a key is answered: one message, which nothing follows.
    let (home, vnc) = (Home::new(), Vnc::start(64, 64).await);
    let (pages, token) = pages();
    let far = Far::start(&home, vnc.address, Setting { pages: Some(pages), ..Setting::default() });
    let up: LinkSpec = "rate=50mbit delay=10ms".parse().unwrap();
    let down: LinkSpec = "rate=50mbit delay=10ms loss=20%".parse().unwrap();
    let relay = Relay::start(far.address, up, down, 1).unwrap();
    let mut page = Page::by(&home, relay.address(), &token).await;
    for step in 1..=100 {
        vnc.fill(rect(8, 8, 8, 8), step * 0x10_203);
        page.sees(&vnc).await;
    }
    let stats = *page.viewer.datagrams();
    // Of a hundred about twenty are lost, and the repair of four of them.
    assert!(stats.recovered >= 6, "{stats:?}");
}
