//! A client of our own that speaks to the server's gateway as no viewer's gateway would.

use std::time::Duration;

use bytes::Bytes;
use quickset::{
    ClientConfig, Closed, Connection, Endpoint, Fingerprint, MessageReceiver, MessageSender, Trust,
};
use quickset_desktop::message::{
    ADAPTIVE, ALPN, CLIPBOARD, ClientOffer, ClipboardMessage, FromClient, FromServer, Hello, RecordInbox,
    ScreenOrder, StreamMessage as _, code,
};
use quickset_desktop::trust::{DeviceRights, OneTimeToken, Secret, SecretKind};
use quickset_desktop::view::{Credential, GatewayPassword};

use super::scene::{Far, Home, Near, Setting};
use super::vnc::{Order as Draw, Vnc};

/// A client that has said nothing yet.
pub(crate) struct Bare {
    pub(crate) connection: Connection,
    out: MessageSender,
    incoming: MessageReceiver,
    inbox: RecordInbox<FromServer>,
    _endpoint: Endpoint,
}

impl Bare {
    async fn connect(home: &Home, far: &Far, authorised: bool) -> Self {
        Self::named("bare", home, far, authorised).await
    }

    /// With the key of this name.
    pub(crate) async fn named(name: &str, home: &Home, far: &Far, authorised: bool) -> Self {
        let identity = home.client(name).client_identity().unwrap();
        if authorised {
            far.authorized.add(identity.fingerprint(), &DeviceRights::default(), name).unwrap();
        }
        let server = home.server().server_identity().unwrap().fingerprint();
        let config = ClientConfig::new(Trust::pinned(server), &[ALPN]).unwrap().with_identity(identity);
        let endpoint = Endpoint::client().unwrap();
        let connection = endpoint.connect(far.address, "localhost", &config).await.unwrap();
        let (mut out, incoming) = connection.open_messages_bi().await.unwrap();
        out.set_ordered(true);
        Self { connection, out, incoming, inbox: RecordInbox::new(), _endpoint: endpoint }
    }

    pub(crate) async fn say(&mut self, message: &FromClient) {
        for record in message.records() {
            self.out.send(record).await.unwrap();
        }
    }

    pub(crate) async fn hear(&mut self) -> Option<FromServer> {
        let next = async {
            loop {
                let record = self.incoming.next().await?.ok()?;
                if let Some(message) = self.inbox.receive(&record.payload).unwrap() {
                    return Some(message);
                }
            }
        };
        tokio::time::timeout(crate::LIMIT, next).await.expect("something comes, or the end")
    }

    /// The code with which the server closes.
    pub(crate) async fn closed(&mut self) -> u64 {
        self.closed_saying().await.0
    }

    /// The same, with its words.
    async fn closed_saying(&mut self) -> (u64, String) {
        match tokio::time::timeout(crate::LIMIT, self.connection.closed()).await.expect("it closes") {
            Closed::ByApplication { code, reason } => (code, String::from_utf8_lossy(&reason).into_owned()),
            other => panic!("{other}"),
        }
    }
}

fn hello() -> FromClient {
    FromClient::Hello(Hello::default())
}

#[tokio::test]
async fn whoever_does_not_begin_with_hello_is_sent_away() {
    // DT-1.
    let (home, vnc) = (Home::new(), Vnc::start(16, 16).await);
    let far = Far::start(&home, vnc.address, Setting::default());
    let mut bare = Bare::connect(&home, &far, true).await;
    bare.say(&FromClient::Ping(1)).await;
    assert_eq!(bare.hear().await, None, "no answer");
    assert_eq!(bare.closed().await, code::PROTOCOL);
    // Another version of it.
    let mut bare = Bare::connect(&home, &far, true).await;
    bare.out.send(Bytes::from_static(&[2, 63])).await.unwrap();
    assert_eq!(bare.closed().await, code::VERSION);
    assert_eq!(far.stats.totals().ever, 0);
}

#[tokio::test]
async fn nothing_is_said_before_the_welcome_and_strangers_hear_nothing() {
    // DT-2.
    let (home, vnc) = (Home::new(), Vnc::start(16, 16).await);
    let far = Far::start(&home, vnc.address, Setting { order: ScreenOrder::Latest, ..Setting::default() });
    let mut stranger = Bare::connect(&home, &far, false).await;
    stranger.say(&hello()).await;
    assert_eq!(stranger.hear().await, None);
    assert_eq!(stranger.closed().await, code::DENIED);
    assert!(stranger.connection.accept_messages().await.is_err(), "no screen");
    let mut bare = Bare::connect(&home, &far, true).await;
    let early = tokio::time::timeout(Duration::from_millis(200), bare.connection.accept_messages()).await;
    assert!(early.is_err(), "no screen before it was let in");
    bare.say(&hello()).await;
    let Some(FromServer::Welcome(welcome)) = bare.hear().await else { panic!("the first is WELCOME") };
    assert_eq!(welcome.order, ScreenOrder::Latest);
    assert!(bare.connection.accept_messages().await.is_ok(), "the screen");
}

/// Strangers that say nothing, more than there are places for, come before and stay.
#[tokio::test]
async fn silent_strangers_are_in_nobodys_way() {
    let (home, vnc) = (Home::new(), Vnc::start(16, 16).await);
    let far = Far::start(&home, vnc.address, Setting::default());
    let mut strangers = Vec::new();
    for _ in 0..20 {
        strangers.push(Bare::connect(&home, &far, false).await);
    }
    assert_eq!(strangers[0].closed().await, code::BUSY, "an address has a few places at the door");
    let token = Credential::Token(far.token.clone().expect("nobody is authorised"));
    let mut first = Near::start(&home.client("first"), far.address, token).await;
    first.met(&far).await;
    let key = home.client("second").client_identity().unwrap().fingerprint();
    far.authorized.add(key, &DeviceRights::default(), "second").unwrap();
    for _ in 0..20 {
        strangers.push(Bare::connect(&home, &far, false).await);
    }
    let mut second = Near::start(&home.client("second"), far.address, Credential::None).await;
    second.met(&far).await;
    // Its patience ends for the last of them, too.
    let last = strangers.last_mut().unwrap();
    assert_eq!(last.closed().await, code::PROTOCOL);
    assert_eq!(far.stats.totals().clients, 2);
}

/// More viewers than there is room for, all with one key: the newest of them looks, and so does whoever has
/// another.
#[tokio::test]
async fn viewers_make_room_for_newer_ones_of_their_key_and_for_other_keys() {
    let (home, vnc) = (Home::new(), Vnc::start(16, 16).await);
    let far = Far::start(&home, vnc.address, Setting::default());
    let mut viewers = Vec::new();
    for n in 0..17 {
        let mut viewer = Bare::connect(&home, &far, true).await;
        viewer.say(&hello()).await;
        assert!(matches!(viewer.hear().await, Some(FromServer::Welcome(_))), "{n}");
        viewers.push(viewer);
    }
    assert_eq!(viewers[0].closed().await, code::BUSY);
    let folder = home.client("other");
    far.authorized
        .add(folder.client_identity().unwrap().fingerprint(), &DeviceRights::default(), "other")
        .unwrap();
    let mut other = Near::start(&folder, far.address, Credential::None).await;
    other.met(&far).await;
    assert_eq!(viewers[1].closed().await, code::BUSY);
    assert!(viewers[2].connection.close_reason().is_none());
}

/// Those whom a password lets in take no place from those whose key is authorised, and the other way round.
#[tokio::test]
async fn each_kind_of_viewers_has_places_of_its_own() {
    let (home, vnc) = (Home::new(), Vnc::start(16, 16).await);
    let setting = Setting { password: Some("correct horse"), max_viewers: 1, ..Setting::default() };
    let far = Far::start(&home, vnc.address, setting);
    let password = Credential::Password(GatewayPassword("correct horse".into()));
    let mut by_password = Near::start(&home.client("guest"), far.address, password).await;
    by_password.met(&far).await;
    let mut viewer = Bare::connect(&home, &far, true).await;
    viewer.say(&hello()).await;
    assert!(matches!(viewer.hear().await, Some(FromServer::Welcome(_))), "beside the other");
    let mut late = Bare::named("late", &home, &far, true).await;
    late.say(&hello()).await;
    assert_eq!(late.closed().await, code::BUSY, "all of its kind are taken");
    assert_eq!(far.stats.totals().clients, 2);
    assert!(viewer.connection.close_reason().is_none() && by_password.stats.totals().connected);
}

/// Tries a wrong secret, and hears the code and the words of the server.
async fn guess(home: &Home, far: &Far) -> (u64, String) {
    let mut bare = Bare::connect(home, far, false).await;
    let (_, share) = Secret::token(&OneTimeToken::random(), Fingerprint([0; 32])).ask();
    let offer = Some(ClientOffer::Share { of: SecretKind::Password, share });
    bare.say(&FromClient::Hello(Hello { offer, ..Hello::default() })).await;
    // Whoever has to wait is not answered.
    if let Some(FromServer::Share { .. }) = bare.hear().await {
        bare.say(&FromClient::Proof(Some([7; 32]))).await;
    }
    bare.closed_saying().await
}

/// A client of before shows a MAC of the password: it is told what to do, and it is no guess.
#[tokio::test]
async fn a_client_that_is_too_old_is_told_so() {
    let (home, vnc) = (Home::new(), Vnc::start(16, 16).await);
    let far = Far::start(&home, vnc.address, Setting { password: Some("right"), ..Setting::default() });
    for _ in 0..10 {
        let mut bare = Bare::connect(&home, &far, false).await;
        // DT-54: HELLO, version 1, no features, and a proof of 32 bytes.
        bare.out.send(Bytes::from([&[2, 1, 0, 32][..], &[7; 32]].concat())).await.unwrap();
        let (code, said) = bare.closed_saying().await;
        assert!(code == code::DENIED && said.contains("SPAKE2"), "{code}: {said}");
    }
}

#[tokio::test]
async fn an_exchange_that_nobody_knows_is_another_version() {
    let (home, vnc) = (Home::new(), Vnc::start(16, 16).await);
    let far = Far::start(&home, vnc.address, Setting { password: Some("right"), ..Setting::default() });
    // DT-54: exchange 2, about a password.
    let offer = [&[2, 1, 2, 0, 2, 1][..], &[7; 33]].concat();
    let mut bare = Bare::connect(&home, &far, false).await;
    bare.out.send(Bytes::from(offer)).await.unwrap();
    assert_eq!(bare.closed().await, code::VERSION);
}

#[tokio::test]
async fn whoever_has_to_wait_waits_and_comes_in() {
    // DT-50.
    let (home, vnc) = (Home::new(), Vnc::start(16, 16).await);
    let far = Far::start(&home, vnc.address, Setting { password: Some("right"), ..Setting::default() });
    // Until the address has to wait for longer than a password takes to be stretched.
    let limit = tokio::time::Instant::now() + crate::LIMIT;
    let said = loop {
        assert!(tokio::time::Instant::now() < limit);
        let (code, said) = guess(&home, &far).await;
        let wait = said.strip_suffix(" s").and_then(|said| said.rsplit_once(" in ")?.1.parse::<u32>().ok());
        // Wrong is wrong, and final.
        assert_eq!(code, if wait.is_some() { code::LATER } else { code::DENIED }, "{said}");
        match wait {
            Some(3..) => break said,
            Some(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            None => {}
        }
    };
    assert!(said.contains("too many"), "{said}");
    let password = Credential::Password(GatewayPassword("right".into()));
    let mut near = Near::start(&home.client("a"), far.address, password.clone()).await;
    near.met(&far).await;
    // Nothing is held against the address any more: three more are free.
    for _ in 0..3 {
        assert_eq!(guess(&home, &far).await.0, code::DENIED);
    }
}

#[tokio::test]
async fn a_server_that_cannot_judge_is_asked_again() {
    // DT-50.
    let (home, vnc) = (Home::new(), Vnc::start(16, 16).await);
    let folder = home.client("a");
    let key = folder.client_identity().unwrap().fingerprint();
    home.server().authorized().unwrap().add(key, &DeviceRights::default(), "a").unwrap();
    let far = Far::start(&home, vnc.address, Setting::default());
    let right = std::fs::read(far.authorized.path()).unwrap();
    std::fs::write(far.authorized.path(), [0xff, 0xfe]).unwrap();
    let mut bare = Bare::connect(&home, &far, false).await;
    bare.say(&hello()).await;
    assert_eq!(bare.closed().await, code::LATER);
    let mut near = Near::start(&folder, far.address, Credential::None).await;
    let end = tokio::time::timeout(Duration::from_secs(1), near.end()).await;
    assert!(end.is_err(), "it has ended: {}", end.unwrap());
    std::fs::write(far.authorized.path(), right).unwrap();
    near.met(&far).await;
}

#[tokio::test]
async fn a_ping_is_answered_with_its_number() {
    // DT-13.
    let (home, vnc) = (Home::new(), Vnc::start(16, 16).await);
    let far = Far::start(&home, vnc.address, Setting::default());
    let mut bare = Bare::connect(&home, &far, true).await;
    bare.say(&hello()).await;
    for n in [7, u64::MAX] {
        bare.say(&FromClient::Ping(n)).await;
        loop {
            if let FromServer::Pong(answer) = bare.hear().await.expect("the connection stays") {
                assert_eq!(answer, n);
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_screen_that_has_come_to_rest_is_told_with_its_sum() {
    // DT-36: in the order latest that is known only when the client has answered.
    let (home, vnc) = (Home::new(), Vnc::start(64, 48).await);
    let far = Far::start(&home, vnc.address, Setting { order: ScreenOrder::Latest, ..Setting::default() });
    let mut bare = Bare::connect(&home, &far, true).await;
    bare.say(&hello()).await;
    let mut screen = bare.connection.accept_messages().await.unwrap();
    let read = tokio::spawn(async move { while let Some(Ok(_)) = screen.next().await {} });
    for n in 0..3 {
        let rect = quickset_rfb::Rect::sized(64, 48);
        vnc.fill(rect, 0x0010_2030 + n);
        vnc.until("it is drawn", |v| v.picture().is_some()).await;
        let sum = vnc.picture().unwrap();
        loop {
            match bare.hear().await.expect("the connection stays") {
                FromServer::Mark(mark) if mark.sum == Some(sum) => break,
                _ => {}
            }
        }
        // Whoever was told of the last long ago is told of the next at once: before it has arrived.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    read.abort();
}

#[tokio::test]
async fn a_restart_brings_another_screen_stream_and_ends_the_old_one() {
    // DT-4, DT-40.
    let (home, vnc) = (Home::new(), Vnc::start(16, 16).await);
    let far = Far::start(&home, vnc.address, Setting::default());
    let mut bare = Bare::connect(&home, &far, true).await;
    bare.say(&hello()).await;
    let mut first = bare.connection.accept_messages().await.unwrap();
    let epoch = |message: &quickset::ReceivedMessage| message.payload[0];
    assert_eq!(epoch(&first.next().await.unwrap().unwrap()), 1);
    let rect = quickset_rfb::Rect::EMPTY;
    bare.say(&FromClient::Refresh(quickset_desktop::message::Refresh { restart: true, rect })).await;
    let mut second =
        tokio::time::timeout(crate::LIMIT, bare.connection.accept_messages()).await.unwrap().unwrap();
    assert_eq!(epoch(&second.next().await.unwrap().unwrap()), 2);
    let end = async {
        loop {
            match first.next().await {
                Some(Ok(message)) => {
                    assert_eq!(epoch(&message), 1, "nothing of the new epoch is on the old stream");
                }
                Some(Err(error)) => return error,
                None => panic!("it was reset, not finished"),
            }
        }
    };
    let error = tokio::time::timeout(crate::LIMIT, end).await.unwrap();
    assert_eq!(error, quickset::ReceiveError::Reset(code::RESTART));
}

#[tokio::test]
async fn the_clipboard_has_a_stream_of_its_own_for_whoever_takes_it() {
    // DT-46: and comes with everything else for the others.
    let (home, vnc) = (Home::new(), Vnc::start(16, 16).await);
    let far = Far::start(&home, vnc.address, Setting::default());
    let mut old = Bare::connect(&home, &far, true).await;
    old.say(&hello()).await;
    assert!(matches!(old.hear().await, Some(FromServer::Welcome(_))));
    let mut new = Bare::connect(&home, &far, true).await;
    new.say(&FromClient::Hello(Hello { features: CLIPBOARD | 1 << 40, ..Hello::default() })).await;
    assert!(matches!(new.hear().await, Some(FromServer::Welcome(_))));
    let text = "a long text ".repeat(20_000);
    vnc.tell(Draw::Text(text.clone()));
    let (_, mut texts) =
        tokio::time::timeout(crate::LIMIT, new.connection.accept_messages_bi()).await.unwrap().unwrap();
    let mut inbox = RecordInbox::<ClipboardMessage>::new();
    let came = async {
        loop {
            let record = texts.next().await.unwrap().unwrap();
            if let Some(message) = inbox.receive(&record.payload).unwrap() {
                return message;
            }
        }
    };
    let came = tokio::time::timeout(crate::LIMIT, came).await.expect("the text");
    assert_eq!(came, ClipboardMessage::Paste(text.clone()));
    loop {
        if let FromServer::Clipboard(came) = old.hear().await.expect("the connection stays") {
            break assert_eq!(came, ClipboardMessage::Paste(text));
        }
    }
    // Nothing of it was said to the new one on the control stream, which goes on.
    new.say(&FromClient::Ping(3)).await;
    loop {
        match new.hear().await.expect("the connection stays") {
            FromServer::Pong(3) => break,
            other => assert!(!matches!(other, FromServer::Clipboard(_))),
        }
    }
}

#[tokio::test]
async fn adaptive_codes_are_for_whoever_takes_them() {
    // DT-42, DT-77: to a client of before go pixels as they always did.
    let (home, vnc) = (Home::new(), Vnc::start(64, 64).await);
    let far = Far::start(&home, vnc.address, Setting::default());
    let whole = quickset_rfb::Rect::sized(64, 64);
    vnc.tell(Draw::Put(whole, (0..64 * 64).map(|at| (at * at / 7 % 20) * 0x0c_0907).collect()));
    for (features, kind) in [(0, 3), (CLIPBOARD, 3), (ADAPTIVE, 8), (ADAPTIVE | CLIPBOARD, 8)] {
        let mut bare = Bare::connect(&home, &far, true).await;
        bare.say(&FromClient::Hello(Hello { features, ..Hello::default() })).await;
        let Some(FromServer::Welcome(_)) = bare.hear().await else { panic!("WELCOME comes first") };
        let mut screen = bare.connection.accept_messages().await.unwrap();
        // Epoch, number and kind have a byte each.
        let seen = async {
            loop {
                let message = screen.next().await.unwrap().unwrap();
                if ![0, 1].contains(&message.payload[2]) {
                    return message.payload[2];
                }
            }
        };
        let seen = tokio::time::timeout(crate::LIMIT, seen).await.expect("pixels of many colours");
        assert_eq!(seen, kind, "{features}");
    }
}
