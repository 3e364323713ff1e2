//! Networks in which UDP does not get through, always or for a while.

use std::time::{Duration, Instant};

use quickset::pki_types::ServerName;
use quickset::{ClientConfig, Trust};
use quickset_desktop::message::{
    CLIPBOARD, FromClient, Hello, PersonInput, ScreenOrder, StreamMessage, code,
};
use quickset_desktop::trust::{DeviceRights, GatewayFolder, OneTimeToken};
use quickset_desktop::view::{Credential, MeetError, ViewError};
use quickset_rfb::{ExtendedClipboard, Formats};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::firewall::Firewall;
use super::person::Person;
use super::scene::{Far, Home, LIMIT, Near, Setting, join};
use super::vnc::{Order as Draw, Vnc};

/// A client whose key the server knows.
fn known_client(home: &Home) -> GatewayFolder {
    let folder = home.client("client");
    let key = folder.client_identity().unwrap().fingerprint();
    home.server().authorized().unwrap().add(key, &DeviceRights::default(), "test").unwrap();
    folder
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(LIMIT, wait).await.is_ok(), "in vain: {what}");
}

fn rect(x: u16, y: u16, w: u16, h: u16) -> quickset_rfb::Rect {
    quickset_rfb::Rect::new(x, y, w, h).unwrap()
}

/// A picture that no codec makes small.
fn noise(vnc: &Vnc, seed: u32, width: u16, height: u16) {
    let pixels = (0..u32::from(width) * u32::from(height))
        .map(|n| (n ^ seed << 20).wrapping_mul(0x9e37_79b1))
        .map(|n| (n ^ n >> 15).wrapping_mul(0x85eb_ca6b) & 0xff_ffff);
    vnc.tell(Draw::Put(rect(0, 0, width, height), pixels.collect()));
}

/// DT-56, DT-58.
#[tokio::test]
async fn a_desktop_is_there_soon_where_udp_never_gets_through() {
    let (home, vnc) = (Home::new(), Vnc::start(320, 200).await);
    noise(&vnc, 1, 320, 200);
    let folder = known_client(&home);
    let far = Far::start(&home, vnc.address, Setting::default());
    let firewall = Firewall::start(far.address, false).await;
    let begun = Instant::now();
    let mut near = Near::start(&folder, firewall.address, Credential::None).await;
    let mut person = Person::sit(near.address).await;
    person.sees(&vnc).await;
    let first = begun.elapsed();
    // 250 ms until TCP is tried, and three round trips of no length; the rest is for a busy machine.
    assert!(first < Duration::from_secs(4), "the first picture came after {first:?}");
    near.met(&far).await;
    assert!(near.stats.totals().by_tcp);
    let seen = far.stats.totals();
    assert_eq!((seen.clients, seen.by_tcp, seen.ever, seen.ever_by_tcp), (1, 1, 1, 1));
    assert!(person.name.contains("UDP does not get through"), "{}", person.name);
    // All of it works: pictures, keys, texts, another size.
    for seed in 2..8 {
        noise(&vnc, seed, 320, 200);
        vnc.fill(rect(10, 10, 30, 30), seed);
        vnc.tell(Draw::Copy(rect(0, 0, 100, 100), 50, 60));
        person.sees(&vnc).await;
    }
    for key in 0x61..0x7b {
        person.press(key);
    }
    person.until("sent", |_| true).await;
    vnc.until("26 keys, down and up", |vnc| vnc.keys().len() == 52).await;
    let down: Vec<u32> = vnc.keys().iter().filter(|key| key.0).map(|key| key.1).collect();
    assert_eq!(down, (0x61..0x7b).collect::<Vec<u32>>());
    vnc.tell(Draw::Text("copied there".into()));
    person.until("word of a text", |person| !person.clipboard.is_empty()).await;
    person.rfb.clipboard(&ExtendedClipboard::Request(Formats::TEXT)).unwrap();
    let text = ExtendedClipboard::Provide(Some("copied there".into()));
    person.until("the text", |person| person.clipboard.contains(&text)).await;
    vnc.tell(Draw::Resize(200, 320));
    person.sees(&vnc).await;
}

/// DT-56: where the server's order is `latest`, copies have versions, and by TCP nobody reads any.
#[tokio::test]
async fn by_tcp_a_desktop_whose_order_is_latest_is_read_as_it_comes() {
    let (home, vnc) = (Home::new(), Vnc::start(320, 200).await);
    noise(&vnc, 1, 320, 200);
    let folder = known_client(&home);
    let setting = Setting { order: ScreenOrder::Latest, ..Setting::default() };
    let far = Far::start(&home, vnc.address, setting);
    let firewall = Firewall::start(far.address, false).await;
    let mut near = Near::start(&folder, firewall.address, Credential::None).await;
    let mut person = Person::sit(near.address).await;
    person.sees(&vnc).await;
    near.met(&far).await;
    assert!(near.stats.totals().by_tcp);
    for seed in 2..6 {
        vnc.fill(rect(13, 11, 7, 14), seed);
        vnc.tell(Draw::Copy(rect(3, 5, 100, 100), 50, 60));
        person.sees(&vnc).await;
    }
    assert_eq!(far.stats.totals().ever, 1, "it is the same session");
}

/// DT-58: what is shown stays, and comes back on QUIC.
#[tokio::test]
async fn a_session_moves_to_tcp_and_back_while_viewers_stay() {
    let (home, vnc) = (Home::new(), Vnc::start(320, 200).await);
    noise(&vnc, 1, 320, 200);
    let folder = known_client(&home);
    let far = Far::start(&home, vnc.address, Setting::default());
    let firewall = Firewall::start(far.address, true).await;
    let mut near = Near::start(&folder, firewall.address, Credential::None).await;
    let mut person = Person::sit(near.address).await;
    person.sees(&vnc).await;
    near.met(&far).await;
    assert!(!near.stats.totals().by_tcp);
    let seen = far.stats.totals();
    assert_eq!((seen.by_tcp, seen.ever - seen.ever_by_tcp), (0, 1), "the one that is there is by QUIC");
    firewall.set_open(false);
    noise(&vnc, 2, 320, 200);
    let begun = Instant::now();
    person.sees(&vnc).await;
    let again = begun.elapsed();
    // A second until the next acknowledgement is due, and half of one until it is missed; then a handshake.
    assert!(again < Duration::from_secs(5), "the picture came back after {again:?}");
    assert!(near.stats.totals().by_tcp);
    // The server lets go of the other one in its own time.
    firewall.set_open(true);
    until("QUIC again", || !near.stats.totals().by_tcp).await;
    noise(&vnc, 3, 320, 200);
    person.sees(&vnc).await;
    assert_eq!(near.stats.totals().sessions, 3);
    assert!(!person.name.contains("UDP"), "{}", person.name);
}

/// A path that is fine is left alone, also when nothing happens on it.
#[tokio::test]
async fn a_session_at_rest_stays_where_it_is() {
    let (home, vnc) = (Home::new(), Vnc::start(64, 64).await);
    let (far, mut near) = join(&home, vnc.address, Setting::default()).await;
    near.met(&far).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    let totals = near.stats.totals();
    assert!(totals.connected && !totals.by_tcp && totals.sessions == 1, "{totals:?}");
}

#[tokio::test]
async fn a_credential_counts_by_tcp_as_by_quic() {
    let (home, vnc) = (Home::new(), Vnc::start(64, 64).await);
    let far = Far::start(&home, vnc.address, Setting::default());
    let firewall = Firewall::start(far.address, false).await;
    let wrong = Credential::Token(OneTimeToken::random());
    let mut guesser = Near::start(&home.client("guesser"), firewall.address, wrong).await;
    let refused = guesser.end().await;
    assert!(matches!(refused, ViewError::Meet(MeetError::Denied(_))), "{refused}");
    let token = Credential::Token(far.token.clone().unwrap());
    let near = Near::start(&home.client("first"), firewall.address, token).await;
    Person::sit(near.address).await.sees(&vnc).await;
}

/// One that speaks TLS with the server, and no more than it is told.
struct Raw(TlsStream<TcpStream>);

impl Raw {
    async fn connect(home: &Home, far: &Far, name: &str) -> Self {
        let identity = home.client(name).client_identity().unwrap();
        far.authorized.add(identity.fingerprint(), &DeviceRights::default(), name).unwrap();
        let server = home.server().server_identity().unwrap().fingerprint();
        let config = ClientConfig::new(Trust::pinned(server), &["x"]).unwrap().with_identity(identity);
        let tls = TlsConnector::from(config.tls(&["quickset-desktop-tcp/1"]));
        let socket = TcpStream::connect(far.address).await.unwrap();
        Self(tls.connect(ServerName::try_from("localhost").unwrap(), socket).await.unwrap())
    }

    async fn frame(&mut self, kind: u8, record: &[u8]) {
        let length = u32::try_from(record.len()).unwrap().to_be_bytes();
        let frame = [&[kind, length[1], length[2], length[3]], record].concat();
        self.0.write_all(&frame).await.unwrap();
        self.0.flush().await.unwrap();
    }

    /// Comes in.
    async fn hello(&mut self) {
        let hello = FromClient::Hello(Hello { features: CLIPBOARD, ..Hello::default() });
        for record in hello.records() {
            self.frame(0, &record).await;
        }
    }

    /// Reads nothing from here on, and says that it is there until it cannot: how long that takes is for the
    /// machine to say, and who is silent for ten seconds is dropped for that alone.
    fn reads_nothing(self) -> tokio::task::JoinHandle<()> {
        tokio::spawn(async move {
            // Dropped together, the two halves close the socket; until then what comes waits in it.
            let (_unread, mut writes) = tokio::io::split(self.0);
            while writes.write_all(&[254, 0, 0, 0]).await.is_ok() && writes.flush().await.is_ok() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        })
    }

    /// The code of the end, behind whatever else comes.
    async fn end(mut self) -> Option<u8> {
        let read = async {
            loop {
                let mut head = [0; 4];
                self.0.read_exact(&mut head).await.ok()?;
                let [kind, a, b, c] = head;
                let mut record = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
                self.0.read_exact(&mut record).await.ok()?;
                if kind == 255 {
                    return record.first().copied();
                }
            }
        };
        tokio::time::timeout(LIMIT, read).await.expect("it ends")
    }
}

/// DT-56, DT-57.
#[tokio::test]
async fn nonsense_by_tcp_ends_its_own_connection_alone() {
    let (home, vnc) = (Home::new(), Vnc::start(64, 64).await);
    let folder = known_client(&home);
    let far = Far::start(&home, vnc.address, Setting::default());
    let firewall = Firewall::start(far.address, false).await;
    let near = Near::start(&folder, firewall.address, Credential::None).await;
    let mut person = Person::sit(near.address).await;
    person.sees(&vnc).await;
    // Before and behind the greeting: a kind that is none, one that a server sends, one that is too long
    // before it is there, and words of an end without a code.
    for is_in in [false, true] {
        for (kind, length) in [(9, 1_u32), (2, 1), (0, 65_537), (0, (1 << 24) - 1), (255, 0)] {
            let mut raw = Raw::connect(&home, &far, "raw").await;
            if is_in {
                raw.hello().await;
            }
            let [_, a, b, c] = length.to_be_bytes();
            raw.0.write_all(&[kind, a, b, c]).await.unwrap();
            if length == 1 {
                raw.0.write_all(&[0]).await.unwrap();
            }
            raw.0.flush().await.unwrap();
            assert_eq!(raw.end().await, Some(code::PROTOCOL as u8), "{kind} {length} {is_in}");
        }
    }
    // A message that cannot be read, and input that is none.
    let mut raw = Raw::connect(&home, &far, "raw").await;
    raw.frame(0, &[2, 63]).await;
    assert_eq!(raw.end().await, Some(code::VERSION as u8));
    let mut raw = Raw::connect(&home, &far, "raw").await;
    raw.hello().await;
    raw.frame(1, &[0x21]).await;
    assert_eq!(raw.end().await, Some(code::PROTOCOL as u8));
    // Neither TLS nor anything; and silence.
    let mut plain = TcpStream::connect(far.address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(TcpStream::connect(far.address).await.unwrap());
    }
    let mut raw = Raw::connect(&home, &far, "raw").await;
    raw.hello().await;
    let down = PersonInput::Key { down: true, keysym: 0x78, keycode: None };
    for record in down.records() {
        raw.frame(1, &record).await;
    }
    vnc.until("a key of who came behind them", |vnc| vnc.keys() == [(true, 0x78)]).await;
    // DT-9.
    drop(raw);
    vnc.until("it is let go", |vnc| vnc.keys() == [(true, 0x78), (false, 0x78)]).await;
    vnc.fill(rect(0, 0, 10, 10), 0x1234);
    person.sees(&vnc).await;
}

/// Whoever has lost its place is gone, even if it reads nothing and goes on to say that it is there.
#[tokio::test]
async fn who_reads_nothing_by_tcp_goes_when_it_has_to() {
    let (home, vnc) = (Home::new(), Vnc::start(640, 480).await);
    let far = Far::start(&home, vnc.address, Setting { max_viewers: 1, ..Setting::default() });
    let mut raw = Raw::connect(&home, &far, "raw").await;
    raw.hello().await;
    until("it is in", || far.stats.totals().clients == 1).await;
    let ends = raw.reads_nothing();
    // More than the system keeps for it: until the gateway is held up in the middle of a message.
    let held_up = async {
        let (mut before, mut seed) = (u64::MAX, 0);
        loop {
            noise(&vnc, seed, 640, 480);
            vnc.until("it is drawn", |vnc| vnc.picture().is_some()).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
            let sent = far.stats.totals().now.values().map(|(_, screen)| screen.bytes).sum();
            if sent == before && seed > 12 {
                return;
            }
            (before, seed) = (sent, seed + 1);
        }
    };
    tokio::time::timeout(Duration::from_secs(60), held_up).await.expect("its buffers are full");
    let mut next = Raw::connect(&home, &far, "raw").await;
    next.hello().await;
    // It stays until its words had their second, and no longer, though it is heard.
    tokio::time::timeout(LIMIT, ends).await.expect("its connection is closed").unwrap();
}

/// What is kept for whoever reads nothing is what the system takes, and a few records.
#[tokio::test]
async fn who_reads_nothing_by_tcp_is_in_nobodys_way() {
    let (home, vnc) = (Home::new(), Vnc::start(640, 480).await);
    let folder = known_client(&home);
    let far = Far::start(&home, vnc.address, Setting::default());
    let mut raw = Raw::connect(&home, &far, "raw").await;
    raw.hello().await;
    until("it is in", || far.stats.totals().clients == 1).await;
    let unread = raw.reads_nothing();
    let firewall = Firewall::start(far.address, false).await;
    let near = Near::start(&folder, firewall.address, Credential::None).await;
    let mut person = Person::sit(near.address).await;
    for seed in 0..16 {
        noise(&vnc, seed, 640, 480);
        person.sees(&vnc).await;
    }
    let sent: Vec<u64> = far.stats.totals().now.values().map(|(_, screen)| screen.bytes).collect();
    let [least, most] = [sent.iter().min().unwrap(), sent.iter().max().unwrap()];
    // Both ends' buffers of the system, at their largest, are 10 MiB on Linux.
    assert!(*least < 10 << 20 && *most > 12 << 20, "{sent:?} bytes, the least for one that reads nothing");
    assert!(!unread.is_finished(), "it is there to the end");
    unread.abort();
}
