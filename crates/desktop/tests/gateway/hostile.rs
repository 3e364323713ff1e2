//! A server's gateway that speaks to the viewer's gateway as none would.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use quickset::{
    ClientAuth, Connection, Endpoint, Identity, MessageReceiver, MessageSender, ServerConfig, SocketConfig,
};
use quickset_desktop::LinkConfig;
use quickset_desktop::message::{
    ALPN, FromServer, Permissions, ScreenOrder, StreamMessage as _, VisitCount, Welcome,
};
use quickset_desktop::view::{Credential, ServerTrust, ViewConfig, ViewGateway};

use super::scene::Home;

/// Where viewers' gateways connect.
struct Hostile {
    endpoint: Endpoint,
}

/// A viewer's gateway that was told to come in.
struct Guest {
    connection: Connection,
    control: MessageSender,
    screen: MessageSender,
    _incoming: MessageReceiver,
}

impl Hostile {
    fn start() -> Self {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        let config =
            ServerConfig::new(identity, &[ALPN]).unwrap().with_client_auth(ClientAuth::Mandatory).unwrap();
        let transport = quickset::TransportConfig::default().with_fec(quickset::Fec::default());
        let config = config.with_transport(transport);
        let here = "127.0.0.1:0".parse().unwrap();
        Self { endpoint: Endpoint::bind(here, &SocketConfig::default(), Some(&config)).unwrap() }
    }

    fn address(&self) -> SocketAddr {
        self.endpoint.local_addr()
    }

    async fn guest(&self, order: ScreenOrder, visit: Option<VisitCount>) -> Guest {
        self.guest_with(0, order, visit).await
    }

    /// With these features in WELCOME.
    async fn guest_with(&self, features: u64, order: ScreenOrder, visit: Option<VisitCount>) -> Guest {
        let come = async {
            let connection = self.endpoint.accept().await.unwrap();
            let (mut control, mut incoming) = connection.accept_messages_bi().await.unwrap();
            control.set_ordered(true);
            incoming.next().await.unwrap().unwrap();
            let (permissions, name) = (Permissions::ALL, "hostile".into());
            let welcome = Welcome { features, order, permissions, name, visit };
            for record in FromServer::Welcome(welcome).records() {
                control.send(record).await.unwrap();
            }
            let screen = connection.open_messages().await.unwrap();
            Guest { connection, control, screen, _incoming: incoming }
        };
        tokio::time::timeout(crate::LIMIT, come).await.expect("it comes in")
    }
}

async fn view(home: &Home, server: SocketAddr) -> ViewGateway {
    ViewGateway::start(config(home, server)).await.unwrap()
}

fn config(home: &Home, server: SocketAddr) -> ViewConfig {
    ViewConfig {
        server: server.to_string(),
        listen: "127.0.0.1:0".parse().unwrap(),
        trust: ServerTrust::Anybody,
        credential: Credential::None,
        desktop: None,
        identity: home.client("guest").client_identity().unwrap(),
        viewer_password: None,
        sound: None,
        link: LinkConfig::default(),
    }
}

#[tokio::test]
async fn a_gateway_that_asks_for_much_work_with_few_bytes_can_be_left() {
    let (home, hostile) = (Home::new(), Hostile::start());
    let view = view(&home, hostile.address()).await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    // A thread of its own, as the program has.
    let stats = view.stats();
    let viewing = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(view.run_until(stopped)).map(drop)
    });
    let mut guest = hostile.guest(ScreenOrder::Fenced, None).await;
    // 4096x4096, and four times all of it in one message, with a second less than a second apart.
    let wide = [0x50, 0x00];
    let size = [&[1, 1, 0][..], &wide, &wide].concat();
    guest.screen.send(Bytes::from(size)).await.unwrap();
    let all = [&[1, 0, 0][..], &wide, &wide, &[1, 2, 3]].concat();
    let work = Bytes::from([&[1, 2][..], &all.repeat(4)].concat());
    let sending = tokio::spawn(async move { while guest.screen.send(work.clone()).await.is_ok() {} });
    let busy = async {
        while stats.totals().screen.messages < 20 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(crate::LIMIT, busy).await.expect("it works");
    stop.send(()).unwrap();
    let ended = tokio::task::spawn_blocking(move || viewing.join().unwrap());
    tokio::time::timeout(crate::LIMIT, ended).await.expect("it can be stopped").unwrap().unwrap();
    sending.abort();
    let _ = (guest.connection, guest.control);
}

#[tokio::test]
async fn a_gateway_that_has_passed_on_more_than_was_sent_is_left() {
    // DT-63: in WELCOME, and in TAKEN.
    for (resumed, taken, later) in [(true, 1 << 61, None), (true, 1, None), (false, 0, Some(1))] {
        let (home, hostile) = (Home::new(), Hostile::start());
        let view = tokio::spawn(view(&home, hostile.address()).await.run());
        let mut guest = hostile.guest(ScreenOrder::Fenced, Some(VisitCount { resumed, taken })).await;
        if let Some(count) = later {
            for record in FromServer::Taken(count).records() {
                guest.control.send(record).await.unwrap();
            }
        }
        let error = tokio::time::timeout(crate::LIMIT, view).await.expect("it ends").unwrap();
        let words = error.to_string();
        assert!(words.contains("the number of input messages that were passed on is"), "{words}");
    }
}

/// DT-71, DT-75: what makes no sense on the sound stream is passed over, and so is its end.
#[tokio::test]
#[cfg(all(unix, feature = "sound"))]
async fn nonsense_for_sound_ends_nothing() {
    use quickset_desktop::sound::SoundCommand;
    use quickset_screen::sound::{SENDS_SOUND, SoundFrame};

    let (home, hostile) = (Home::new(), Hostile::start());
    let mut config = config(&home, hostile.address());
    config.sound = Some(SoundCommand::new("sh", ["-c", "cat > /dev/null"]));
    let view = ViewGateway::start(config).await.unwrap();
    let stats = view.stats();
    let viewing = tokio::spawn(view.run());
    let guest = hostile.guest_with(SENDS_SOUND, ScreenOrder::Fenced, None).await;
    let (_clipboard, _) = guest.connection.open_messages_bi().await.unwrap();
    let (mut sound, _) = guest.connection.open_messages_bi().await.unwrap();
    let frame = |number, time, packet: &'static [u8]| {
        SoundFrame { number, time, packet: Bytes::from_static(packet) }.record()
    };
    for record in [&b""[..], b"\x30", b"\x31\0\0\xfc", b"\0\0\0", b"\x30\0\0\x18", &[0x30; 2000]] {
        sound.send(Bytes::copy_from_slice(record)).await.unwrap();
    }
    // Frames by their first bytes, and nothing that Opus knows behind them; with odd times and numbers.
    for n in 0..200 {
        sound.send(frame(n, n * 960, b"\xff\x41\xff\xff")).await.unwrap();
        sound.send(frame((n * n) << 20, n << 40, b"\xfc\xff\xff\xff\x01")).await.unwrap();
    }
    let counted = async {
        while stats.totals().sound.unreadable < 6 || stats.totals().sound.received < 400 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(crate::LIMIT, counted).await.expect("all of them are counted");
    sound.reset(7);
    // What comes behind it is heard as ever.
    let totals = async {
        let mut guest = guest;
        guest.screen.send(Bytes::from_static(&[1, 1, 0, 16, 16])).await.unwrap();
        while stats.totals().screen.messages == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        stats.totals()
    };
    let totals = tokio::time::timeout(crate::LIMIT, totals).await.expect("the screen goes on");
    assert!(totals.connected && totals.sessions == 1);
    viewing.abort();
}
