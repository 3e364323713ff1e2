//! Messages as long as the path's packets, whatever these are.

use quickset_base::Rng;
use quickset_rfb::Rect;

use super::person::Person;
use super::scene::{Far, Home, Setting, join_over};
use super::vnc::Vnc;

/// The size of datagrams to the one client there is, and of the longest message so far.
fn sizes(far: &Far) -> (usize, usize) {
    let now = far.stats.totals().now;
    let (connection, screen) = now.values().next().unwrap();
    (connection.mtu.current, screen.longest)
}

/// A thousand squares, each an item of some ten bytes, and the colour of the last.
fn squares(vnc: &Vnc, rng: &mut Rng) -> u32 {
    let mut colour = 0;
    for (x, y) in (0..30).flat_map(|y| (0..40).map(move |x| (x * 8, y * 8))) {
        colour = rng.below(1 << 24) as u32;
        vnc.fill(Rect::new(x, y, 4, 4).unwrap(), colour);
    }
    colour
}

#[tokio::test]
async fn messages_fill_the_packets_that_the_path_takes() {
    // A link's MTU has IP and UDP in it, 28 bytes.
    for (mtu, payload) in [(1280, 1252), (1400, 1372), (1500, 1472), (9000, 8972)] {
        let home = Home::new();
        let vnc = Vnc::start(320, 240).await;
        let link = format!("rate=100mbit delay=2ms queue=1MB overhead=28 mtu={mtu}");
        let (far, near, _relay) = join_over(&home, vnc.address, &link, Setting::default()).await;
        let mut person = Person::sit(near.address).await;
        person.sees(&vnc).await;
        let mut rng = Rng::new(u64::from(mtu as u32));
        // Until the search has ended, within a few bytes of what there is.
        let end = tokio::time::Instant::now() + super::LIMIT;
        while sizes(&far).0 + 40 < payload {
            assert!(tokio::time::Instant::now() < end, "{} of {payload}", sizes(&far).0);
            let last = squares(&vnc, &mut rng);
            person.until("the picture", |p| p.screen.pixel(312, 232) == Some(last)).await;
        }
        // Squares that come while others are on their way make a message of their own: not each is full.
        let end = tokio::time::Instant::now() + super::LIMIT;
        let is_full = |(datagram, longest): (usize, usize)| longest * 10 >= datagram * 9;
        while !is_full(sizes(&far)) {
            assert!(tokio::time::Instant::now() < end, "{:?}", sizes(&far));
            let last = squares(&vnc, &mut rng);
            person.until("the picture", |p| p.screen.pixel(312, 232) == Some(last)).await;
        }
        person.sees(&vnc).await;
        let (datagram, longest) = sizes(&far);
        assert!(datagram <= payload && longest < datagram, "{longest} of {datagram}");
    }
}

#[tokio::test]
async fn a_path_that_takes_less_than_before_gets_less() {
    let home = Home::new();
    let vnc = Vnc::start(320, 240).await;
    let link = "rate=100mbit delay=2ms queue=1MB overhead=28 mtu=9000 at=3s:mtu=1280";
    let (far, near, _relay) = join_over(&home, vnc.address, link, Setting::default()).await;
    let mut person = Person::sit(near.address).await;
    person.sees(&vnc).await;
    let mut rng = Rng::new(4);
    let end = tokio::time::Instant::now() + super::LIMIT;
    let mut largest = 0;
    while !(largest > 4000 && sizes(&far).0 <= 1252) {
        assert!(tokio::time::Instant::now() < end, "{largest}, {}", sizes(&far).0);
        let last = squares(&vnc, &mut rng);
        person.until("the picture", |p| p.screen.pixel(312, 232) == Some(last)).await;
        largest = largest.max(sizes(&far).0);
    }
    person.sees(&vnc).await;
    assert_eq!(near.stats.totals().sessions, 1, "and the session goes on");
}
