//! What a person does while sessions end, break and go on by another way: all of it comes once, in order.

use std::time::Duration;

use quickset::MessageSender;
use quickset_desktop::message::{
    FromClient, FromServer, Hello, Permissions, PersonInput, StreamMessage as _, VisitCount, VisitId, code,
};
use quickset_desktop::trust::DeviceRights;
use quickset_desktop::view::{Credential, ViewNews};

use super::firewall::Firewall;
use super::person::Person;
use super::scene::{Far, Home, LIMIT, Near, Setting};
use super::vnc::Vnc;
use super::wire::Bare;

const SHIFT: u32 = 0xffe1;
const VISIT: VisitId = VisitId([0xab; 16]);

/// Both gateways with a firewall in between, and somebody before them.
struct Walled {
    _home: Home,
    vnc: Vnc,
    _far: Far,
    firewall: Firewall,
    near: Near,
    person: Person,
    pressed: Vec<(bool, u32)>,
}

impl Walled {
    async fn start() -> Self {
        let (home, vnc) = (Home::new(), Vnc::start(64, 64).await);
        let folder = home.client("client");
        let key = folder.client_identity().unwrap().fingerprint();
        home.server().authorized().unwrap().add(key, &DeviceRights::default(), "test").unwrap();
        let far = Far::start(&home, vnc.address, Setting::default());
        let firewall = Firewall::start(far.address, true).await;
        let mut near = Near::start(&folder, firewall.address, Credential::None).await;
        let mut person = Person::sit(near.address).await;
        person.sees(&vnc).await;
        near.met(&far).await;
        Self { _home: home, vnc, _far: far, firewall, near, person, pressed: Vec::new() }
    }

    async fn key(&mut self, down: bool, keysym: u32) {
        self.person.rfb.key(down, keysym).unwrap();
        self.pressed.push((down, keysym));
        self.person.until("sent", |_| true).await;
    }

    async fn press(&mut self, keysym: u32) {
        self.key(true, keysym).await;
        self.key(false, keysym).await;
    }

    /// Presses keys, each another, until it holds.
    async fn press_until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let limit = tokio::time::Instant::now() + LIMIT;
        while !holds(self) {
            assert!(tokio::time::Instant::now() < limit, "in vain: {what}");
            let next = 0x100 + u32::try_from(self.pressed.len()).unwrap();
            self.press(next).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn all_came_once(&self) {
        let all = self.pressed.len();
        self.vnc.until("all keys", |vnc| vnc.keys().len() >= all).await;
        assert_eq!(self.vnc.keys(), self.pressed);
    }
}

#[tokio::test]
async fn keys_that_are_typed_while_a_session_goes_on_by_another_way_come_once_and_in_order() {
    // DT-61, DT-62, DT-63: nothing gets through; nothing to the server; or the server reads it all, and is
    // not heard.
    for ways in [[false, false], [false, true], [true, false]] {
        let mut walled = Walled::start().await;
        walled.press(0x61).await;
        walled.firewall.set_ways(ways);
        walled.press_until("TCP", |walled| walled.near.stats.totals().by_tcp).await;
        walled.press(0x62).await;
        walled.all_came_once().await;
        walled.firewall.set_open(true);
        walled.press_until("QUIC", |walled| !walled.near.stats.totals().by_tcp).await;
        walled.press(0x63).await;
        walled.all_came_once().await;
        while let Ok(news) = walled.near.news.try_recv() {
            assert_ne!(news, ViewNews::NotSent, "{ways:?}");
        }
    }
}

#[tokio::test]
async fn what_is_held_stays_down_while_a_session_goes_on_by_another_way() {
    // DT-61, DT-66: one letter before, one in between, one behind; neither is Shift let go nor pressed again.
    let mut walled = Walled::start().await;
    walled.key(true, SHIFT).await;
    walled.press(0x41).await;
    walled.all_came_once().await;
    walled.firewall.set_open(false);
    walled.press(0x42).await;
    walled.press_until("TCP", |walled| walled.near.stats.totals().by_tcp).await;
    walled.press(0x43).await;
    walled.all_came_once().await;
    walled.firewall.set_open(true);
    walled.press_until("QUIC", |walled| !walled.near.stats.totals().by_tcp).await;
    walled.press(0x44).await;
    walled.key(false, SHIFT).await;
    walled.all_came_once().await;
}

/// A client of our own, and its stream of input.
struct Visiting {
    bare: Bare,
    input: MessageSender,
    begun: Option<VisitCount>,
}

impl Visiting {
    async fn begin(home: &Home, far: &Far, name: &str, visit: VisitId) -> Self {
        let mut bare = Bare::named(name, home, far, true).await;
        bare.say(&FromClient::Hello(Hello { visit: Some(visit), ..Hello::default() })).await;
        let Some(FromServer::Welcome(welcome)) = bare.hear().await else { panic!("the first is WELCOME") };
        let mut input = bare.connection.open_messages().await.unwrap();
        input.set_ordered(true);
        Self { bare, input, begun: welcome.visit }
    }

    async fn does(&mut self, input: &PersonInput) {
        for record in input.records() {
            self.input.send(record).await.unwrap();
        }
    }

    async fn key(&mut self, down: bool, keysym: u32) {
        self.does(&PersonInput::Key { down, keysym, keycode: None }).await;
    }

    async fn is_told(&mut self, count: u64) {
        while self.bare.hear().await.expect("the connection stays") != FromServer::Taken(count) {}
    }
}

fn counted(resumed: bool, taken: u64) -> VisitCount {
    VisitCount { resumed, taken }
}

#[tokio::test]
async fn a_visit_is_counted_and_goes_on_in_one_session_at_a_time() {
    let (home, vnc) = (Home::new(), Vnc::start(16, 16).await);
    let far = Far::start(&home, vnc.address, Setting { max_viewers: 3, ..Setting::default() });
    // DT-61: of the same key, and not of the visit. It stays, though all places are taken.
    let other = Visiting::begin(&home, &far, "a", VisitId([1; 16])).await;
    let looks = Visiting::begin(&home, &far, "b", VisitId([2; 16])).await;
    let mut first = Visiting::begin(&home, &far, "a", VISIT).await;
    assert_eq!(first.begun, Some(counted(false, 0)));
    // DT-62: a kind that nobody knows is counted, and what is held is not.
    first.key(true, 0x61).await;
    first.input.send(bytes::Bytes::from_static(&[0x77, 1])).await.unwrap();
    first.does(&PersonInput::Held { keysym: SHIFT, keycode: None }).await;
    first.key(true, 0x62).await;
    // DT-64.
    first.is_told(3).await;
    let before = [(true, 0x61), (true, SHIFT), (true, 0x62)];
    assert_eq!(vnc.keys(), before);
    let mut second = Visiting::begin(&home, &far, "a", VISIT).await;
    assert_eq!(second.begun, Some(counted(true, 3)));
    assert_eq!(first.bare.closed().await, code::BUSY);
    // DT-66: what is down is pressed no second time.
    second.does(&PersonInput::Held { keysym: SHIFT, keycode: None }).await;
    second.key(false, 0x62).await;
    vnc.until("a key", |vnc| vnc.keys().len() == 4).await;
    assert_eq!(vnc.keys()[3], (false, 0x62));
    second.bare.connection.close(code::DONE, b"");
    // DT-9: and again behind it.
    vnc.until("all let go", |vnc| vnc.keys().len() == 6).await;
    assert_eq!(vnc.keys()[4..], [(false, 0x61), (false, SHIFT)]);
    let mut third = Visiting::begin(&home, &far, "a", VISIT).await;
    assert_eq!(third.begun, Some(counted(true, 4)));
    third.does(&PersonInput::Held { keysym: SHIFT, keycode: None }).await;
    third.key(true, 0x41).await;
    vnc.until("both", |vnc| vnc.keys().len() == 8).await;
    assert_eq!(vnc.keys()[6..], [(true, SHIFT), (true, 0x41)]);
    for viewer in [other, looks] {
        assert!(viewer.bare.connection.close_reason().is_none());
    }
}

#[tokio::test]
async fn nobody_goes_on_with_the_visit_of_another_or_floods_it_away() {
    // DT-61: whoever has seen the name of a visit, and has another key.
    let (home, vnc) = (Home::new(), Vnc::start(16, 16).await);
    let far = Far::start(&home, vnc.address, Setting::default());
    let mut person = Visiting::begin(&home, &far, "person", VISIT).await;
    person.key(true, 0x61).await;
    person.is_told(1).await;
    let mut thief = Visiting::begin(&home, &far, "thief", VISIT).await;
    assert_eq!(thief.begun, Some(counted(false, 0)));
    thief.key(true, 0x62).await;
    thief.is_told(1).await;
    assert!(person.bare.connection.close_reason().is_none());
    person.key(false, 0x61).await;
    person.is_told(2).await;
    person.bare.connection.close(code::DONE, b"");
    // DT-64: many visits, as fast as they come.
    for n in 0..40 {
        let visit = Visiting::begin(&home, &far, "thief", VisitId([n; 16])).await;
        assert_eq!(visit.begun, Some(counted(false, 0)));
        visit.bare.connection.close(code::DONE, b"");
    }
    assert_eq!(Visiting::begin(&home, &far, "person", VISIT).await.begun, Some(counted(true, 2)));
}

#[tokio::test]
async fn who_may_only_look_has_no_visit() {
    // DT-65.
    let (home, vnc) = (Home::new(), Vnc::start(16, 16).await);
    let permissions = Permissions { input: false, clipboard: false, wish: false };
    let far = Far::start(&home, vnc.address, Setting { permissions, ..Setting::default() });
    let mut looks = Visiting::begin(&home, &far, "looks", VISIT).await;
    assert_eq!(looks.begun, None);
    // DT-8.
    looks.key(true, 0x61).await;
    looks.does(&PersonInput::Held { keysym: SHIFT, keycode: None }).await;
    looks.bare.say(&FromClient::Ping(1)).await;
    while looks.bare.hear().await.expect("the connection stays") != FromServer::Pong(1) {}
    assert_eq!(vnc.keys(), []);
}
