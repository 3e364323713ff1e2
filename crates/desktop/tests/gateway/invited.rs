//! Several desktops, devices that are invited to them, and what is taken back while they look.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use quickset_desktop::VncPassword;
use quickset_desktop::message::code;
use quickset_desktop::serve::{DesktopConfig, PageConfig};
use quickset_desktop::trust::{DesktopLabel, DeviceRights, OneTimeToken, PageLinks};
use quickset_desktop::view::{Credential, MeetError, ServerTrust, ViewError, ViewNews};
use quickset_rfb::Security;
use quickset_viewer::PageViewer;

use super::page::{Page, pages};
use super::person::Person;
use super::scene::{Far, Home, Near, Setting, ViewWish};
use super::vnc::Vnc;
use crate::LIMIT;

fn named(name: &str) -> DesktopLabel {
    name.parse().unwrap()
}

/// A server with the desktops `work`, which shows `work`, and `play`.
fn far_with(home: &Home, work: &Vnc, play: &Vnc, pages: Option<PageConfig>) -> Far {
    let others =
        vec![DesktopConfig { name: Some(named("play")), ..DesktopConfig::at(play.address.to_string()) }];
    Far::start(home, work.address, Setting { name: Some(named("work")), others, pages, ..Setting::default() })
}

fn invite(home: &Home, rights: DeviceRights) -> OneTimeToken {
    let server = home.server().server_identity().unwrap().fingerprint();
    let invitations = home.server().invitations().unwrap();
    invitations.add(SystemTime::now(), server, rights, "").unwrap().1
}

/// A viewer's gateway that wants to see this one.
async fn looking(home: &Home, far: &Far, who: &str, token: Option<OneTimeToken>, at: Option<&str>) -> Near {
    let folder = home.client(who);
    let wish = ViewWish {
        credential: token.map_or(Credential::None, Credential::Token),
        trust: ServerTrust::Known(folder.known_servers().unwrap()),
        desktop: at.map(named),
        sound: None,
    };
    Near::looking(&folder, far.address, wish).await
}

async fn refused(near: &mut Near) -> String {
    match near.end().await {
        ViewError::Meet(MeetError::Denied(words)) => words,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_device_sees_what_it_is_invited_to_until_that_is_taken_back() {
    // DT-59, DT-60.
    let (home, work, play) = (Home::new(), Vnc::start(64, 48).await, Vnc::start(32, 32).await);
    let far = far_with(&home, &work, &play, None);
    let rights = DeviceRights { view_only: true, desktop: Some(named("play")), until: None };
    let token = invite(&home, rights);
    // Whoever wants another one is told so, and has its key authorised all the same.
    let mut wrong = looking(&home, &far, "guest", Some(token), Some("work")).await;
    assert_eq!(refused(&mut wrong).await, "no desktop work for this device, which may see play");
    let mut near = looking(&home, &far, "guest", None, None).await;
    let mut guest = Person::sit(near.address).await;
    guest.sees(&play).await;
    guest.press(0x61);
    guest.until("sent", |_| true).await;
    let owner_token = invite(&home, DeviceRights::default());
    let owner = looking(&home, &far, "owner", Some(owner_token), Some("play")).await;
    let mut person = Person::sit(owner.address).await;
    person.sees(&play).await;
    person.press(0x62);
    person.until("sent", |_| true).await;
    play.until("a key", |vnc| vnc.keys().len() == 2).await;
    assert_eq!(play.keys(), [(true, 0x62), (false, 0x62)], "whoever may only look presses nothing");
    let first = looking(&home, &far, "owner", None, None).await;
    Person::sit(first.address).await.sees(&work).await;
    let mut none = looking(&home, &far, "owner", None, Some("other")).await;
    assert_eq!(refused(&mut none).await, "no desktop other for this device, which may see work, play");
    // Taken back, it ends; whoever else looks goes on.
    let key = home.client("guest").client_identity().unwrap().fingerprint();
    assert!(home.server().authorized().unwrap().remove(key).unwrap());
    assert!(refused(&mut near).await.contains("does not know this key"));
    person.press(0x63);
    person.until("sent", |_| true).await;
    play.until("another key", |vnc| vnc.keys().len() == 4).await;
}

#[tokio::test]
async fn what_is_for_a_time_ends_with_it() {
    let (home, work, play) = (Home::new(), Vnc::start(64, 48).await, Vnc::start(32, 32).await);
    let far = far_with(&home, &work, &play, None);
    let until = SystemTime::now() + Duration::from_secs(3);
    let token = invite(&home, DeviceRights { until: Some(until), ..DeviceRights::default() });
    let mut near = looking(&home, &far, "guest", Some(token), None).await;
    Person::sit(near.address).await.sees(&work).await;
    assert!(refused(&mut near).await.contains("does not know this key"));
    // Files have whole seconds.
    assert!(SystemTime::now() + Duration::from_secs(1) >= until);
}

#[tokio::test]
async fn a_page_is_of_one_browser_until_its_link_is_taken_back() {
    // WB-20.
    let (home, work, play) = (Home::new(), Vnc::start(64, 48).await, Vnc::start(32, 32).await);
    let (config, _) = pages();
    let links = Arc::new(PageLinks::new().with_invitations(home.server().invitations().unwrap()));
    let far = far_with(&home, &work, &play, Some(PageConfig { links, ..config }));
    let token = invite(&home, DeviceRights::default());
    let open = async |desktop, device| {
        Page::begin(&home, far.address, &PageViewer::hello(token.reveal(), desktop, device)).await
    };
    let mut page = open("play", "phone").await;
    page.sees(&play).await;
    let mut other_tab = open("", "phone").await;
    other_tab.sees(&work).await;
    let thief = open("", "somebody").await.ended().await;
    assert_eq!(thief.code, code::DENIED as u32);
    assert!(thief.reason.contains("on another device"), "{}", thief.reason);
    let lost = open("third", "phone").await.ended().await;
    assert!(lost.code == code::DENIED as u32 && lost.reason.contains("work, play"), "{}", lost.reason);
    assert!(home.server().invitations().unwrap().remove(SystemTime::now(), token.id()).unwrap());
    for page in [page, other_tab] {
        let ended = page.ended().await;
        assert_eq!(ended.code, code::DENIED as u32);
        assert!(ended.reason.contains("was taken back"), "{}", ended.reason);
    }
}

#[tokio::test]
async fn a_desktop_that_is_gone_leaves_the_others_alone() {
    // DT-60.
    let (home, work) = (Home::new(), Vnc::start(64, 48).await);
    let locked = Security::VncAuth(VncPassword::new(b"right"));
    let play = Vnc::start_on("127.0.0.1:0".parse().unwrap(), 32, 32, locked).await;
    let far = far_with(&home, &work, &play, None);
    let near = looking(&home, &far, "a", Some(invite(&home, DeviceRights::default())), Some("work")).await;
    let mut person = Person::sit(near.address).await;
    person.sees(&work).await;
    let mut other = looking(&home, &far, "a", None, Some("play")).await;
    let told = async {
        loop {
            if let Some(ViewNews::Away { error, .. }) = other.news.recv().await {
                return error;
            }
        }
    };
    let words = tokio::time::timeout(LIMIT, told).await.expect("it is told");
    assert!(words.contains("wants a password"), "{words}");
    person.press(0x61);
    person.until("sent", |_| true).await;
    work.until("a key", |vnc| vnc.keys().len() == 2).await;
}
