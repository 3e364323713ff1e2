//! What viewers see is what the server shows; what they do arrives, in order.

use quickset_desktop::message::ScreenOrder;
use quickset_desktop::trust::DeviceRights;
use quickset_desktop::view::Credential;
use quickset_rfb::{ClientConfig, Encoding, Rect, ServerEvent};

use super::person::Person;
use super::scene::{Home, Near, Setting, join};
use super::vnc::{Order as Draw, Vnc};

fn rect(x: u16, y: u16, w: u16, h: u16) -> Rect {
    Rect::new(x, y, w, h).unwrap()
}

async fn the_same_picture_in_order(order: ScreenOrder) {
    let home = Home::new();
    let vnc = Vnc::start(320, 240).await;
    let (far, near) = join(&home, vnc.address, Setting { order, ..Setting::default() }).await;
    let mut person = Person::sit(near.address).await;
    person.sees(&vnc).await;
    for step in 0..60_u16 {
        vnc.fill(rect(step * 4, step * 2, 37, 21), u32::from(step) * 0x0001_0307);
        if step % 3 == 0 {
            vnc.tell(Draw::Copy(rect(16, 0, 280, 200), 0, 32));
        }
    }
    vnc.fill(rect(319, 239, 1, 1), 0x00ab_cdef);
    person.until("the last pixel", |p| p.screen.pixel(319, 239) == Some(0x00ab_cdef)).await;
    person.sees(&vnc).await;
    let totals = far.stats.totals();
    assert_eq!((totals.clients, totals.ever), (1, 1));
    // Keys and clicks, all of them, in order; of motion the end.
    for key in 0x61..0x7b {
        person.press(key);
        person.rfb.pointer(1, key as u16, 0).unwrap();
        person.rfb.pointer(0, key as u16, 0).unwrap();
    }
    person.until("sent", |_| true).await;
    vnc.until("all keys", |v| v.keys().len() == 52).await;
    vnc.until("the last click", |v| {
        matches!(v.events().last(), Some(ServerEvent::Pointer { buttons: 0, x: 0x7a, .. }))
    })
    .await;
    let expected: Vec<(bool, u32)> = (0x61..0x7b).flat_map(|key| [(true, key), (false, key)]).collect();
    assert_eq!(vnc.keys(), expected);
    let buttons: Vec<(u8, u16)> = vnc
        .events()
        .iter()
        .filter_map(|e| match e {
            ServerEvent::Pointer { buttons, x, .. } => Some((*buttons, *x)),
            _ => None,
        })
        .collect();
    let expected: Vec<(u8, u16)> = (0x61..0x7b).flat_map(|x| [(1, x), (0, x)]).collect();
    assert_eq!(buttons, expected);
}

#[tokio::test]
async fn the_same_picture_ordered() {
    the_same_picture_in_order(ScreenOrder::Ordered).await;
}

#[tokio::test]
async fn the_same_picture_fenced() {
    the_same_picture_in_order(ScreenOrder::Fenced).await;
}

#[tokio::test]
async fn the_same_picture_latest() {
    the_same_picture_in_order(ScreenOrder::Latest).await;
}

#[tokio::test]
async fn several_viewers_and_several_gateways_see_the_same() {
    let home = Home::new();
    let vnc = Vnc::start(100, 80).await;
    let (far, near) = join(&home, vnc.address, Setting::default()).await;
    let folder = home.client("second");
    far.authorized
        .add(folder.client_identity().unwrap().fingerprint(), &DeviceRights::default(), "second")
        .unwrap();
    let other = Near::start(&folder, far.address, Credential::None).await;
    let plain = ClientConfig { encodings: vec![Encoding::Raw], ..ClientConfig::default() };
    let mut persons = vec![
        Person::sit(near.address).await,
        Person::with(near.address, plain.clone()).await,
        Person::with(other.address, plain).await,
    ];
    for n in 0..20 {
        vnc.fill(rect(n, n, 50, 50), u32::from(n) * 99);
    }
    vnc.fill(rect(99, 79, 1, 1), 0x0012_3456);
    for person in &mut persons {
        person.until("the last pixel", |p| p.screen.pixel(99, 79) == Some(0x0012_3456)).await;
        person.sees(&vnc).await;
        person.press(0x61);
        person.until("sent", |_| true).await;
    }
    vnc.until("everybody's keys", |v| v.keys().len() == 6).await;
}

#[tokio::test]
async fn another_size_a_beep_and_texts_get_through() {
    let home = Home::new();
    let vnc = Vnc::start(64, 48).await;
    let (_far, near) = join(&home, vnc.address, Setting::default()).await;
    let mut person = Person::sit(near.address).await;
    person.sees(&vnc).await;
    for (width, height) in [(100, 90), (20, 90), (33, 17)] {
        vnc.tell(Draw::Resize(width, height));
        vnc.fill(rect(1, 1, 15, 15), 0x0077_8899);
        person.until("the size", |p| (p.screen.width(), p.screen.height()) == (width, height)).await;
        person.sees(&vnc).await;
    }
    vnc.tell(Draw::Bell);
    vnc.tell(Draw::Text("hello".into()));
    vnc.fill(rect(0, 0, 1, 1), 1);
    person.until("the beep", |p| p.bells == 1).await;
    // The viewer has the extended clipboard and asks for the text by it.
    person.rfb.clipboard(&quickset_rfb::ExtendedClipboard::Request(quickset_rfb::Formats::TEXT)).unwrap();
    person.rfb.text("to the server").unwrap();
    person.until("sent", |_| true).await;
    vnc.until("the text", |v| {
        v.events().iter().any(|e| {
            matches!(e, ServerEvent::Clipboard(quickset_rfb::ExtendedClipboard::Notify(_)))
                || matches!(e, ServerEvent::Text(text) if text == "to the server")
        })
    })
    .await;
}

/// Some VNC servers give texts that nobody has asked for, whatever they are told.
#[tokio::test]
async fn a_text_that_comes_unasked_is_the_servers_text() {
    use quickset_rfb::{ExtendedClipboard, Formats};
    let home = Home::new();
    let vnc = Vnc::start(64, 48).await;
    let (_far, near) = join(&home, vnc.address, Setting::default()).await;
    let mut person = Person::sit(near.address).await;
    person.sees(&vnc).await;
    // Until the viewer has said what it takes, texts come as they do to those that say nothing of it.
    vnc.tell(Draw::Give("first".into()));
    person
        .until("a text, or word of it", |p| {
            !p.texts.is_empty() || !matches!(p.clipboard.last(), None | Some(ExtendedClipboard::Caps(_)))
        })
        .await;
    for text in ["h世", "another"] {
        person.clipboard.clear();
        vnc.tell(Draw::Give(text.into()));
        person
            .until("word of it", |p| p.clipboard.last() == Some(&ExtendedClipboard::Notify(Formats::TEXT)))
            .await;
        person.rfb.clipboard(&ExtendedClipboard::Request(Formats::TEXT)).unwrap();
        person
            .until("the text", |p| p.clipboard.last() == Some(&ExtendedClipboard::Provide(Some(text.into()))))
            .await;
    }
}
