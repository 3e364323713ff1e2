//! How much a viewer is sent, where it is to be less than the path takes.

use std::time::{Duration, Instant};

use quickset_base::Rng;
use quickset_base::number::Unsigned as _;
use quickset_desktop::serve::ServeStats;
use quickset_desktop::trust::{DeviceRights, GatewayFolder};

use super::person::Person;
use super::scene::{Far, Home, LIMIT, Near, Setting};
use super::vnc::{Order, Vnc};

/// Bits per second: of the server, and of a viewer that wants less.
const MOST: u64 = 3_000_000;
const LESS: u64 = 600_000;

fn known_client(home: &Home, name: &str) -> GatewayFolder {
    let folder = home.client(name);
    let key = folder.client_identity().unwrap().fingerprint();
    home.server().authorized().unwrap().add(key, &DeviceRights::default(), name).unwrap();
    folder
}

/// What a client was sent, and between which moments that was looked at.
type Looks = Vec<(Instant, u64, Instant)>;

fn look(stats: &ServeStats, looks: &mut [Looks; 2]) {
    let before = Instant::now();
    let now = stats.totals().now;
    let after = Instant::now();
    for (looks, (connection, _)) in looks.iter_mut().zip(now.values()) {
        looks.push((before, connection.sent_bytes, after));
    }
}

/// The most bytes per second of any second or a little more.
fn fastest(looks: &Looks) -> f64 {
    let second = Duration::from_secs(1);
    let rates = looks.iter().enumerate().filter_map(|(i, first)| {
        let last = looks[i..].iter().find(|last| last.0.duration_since(first.2) >= second)?;
        Some((last.1 - first.1).approx() / last.2.duration_since(first.0).as_secs_f64())
    });
    rates.fold(0.0, f64::max)
}

#[tokio::test]
async fn each_viewer_is_sent_as_much_as_it_may() {
    let home = Home::new();
    let vnc = Vnc::start(320, 240).await;
    let (desk, phone) = (known_client(&home, "desk"), known_client(&home, "phone"));
    let far = Far::start(&home, vnc.address, Setting { max_rate_bps: Some(MOST), ..Setting::default() });
    let mut near = Near::start(&desk, far.address, quickset_desktop::view::Credential::None).await;
    near.met(&far).await;
    let mut thin = Near::wishing(&phone, far.address, Some(LESS)).await;
    let both = async {
        while far.stats.totals().clients < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LIMIT, both).await.expect("both look");
    thin.met(&far).await;
    let (mut person, mut other) = (Person::sit(near.address).await, Person::sit(thin.address).await);
    // Noise, which nothing packs: a picture of it is more than both may be sent in a tenth of a second.
    let (mut rng, mut looks) = (Rng::new(7), [Looks::new(), Looks::new()]);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(4) {
        let rect = quickset_rfb::Rect::sized(320, 240);
        vnc.tell(Order::Put(rect, (0..320 * 240).map(|_| rng.below(1 << 24) as u32).collect()));
        for _ in 0..10 {
            look(&far.stats, &mut looks);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    // The first second has the beginning of the wish in it.
    let late = |looks: &Looks| {
        looks.iter().copied().filter(|look| look.0 > begin + Duration::from_secs(1)).collect::<Looks>()
    };
    let rates = [fastest(&looks[0]), fastest(&late(&looks[1]))];
    assert!(rates[0] <= (MOST / 8).approx(), "{rates:?}");
    assert!(rates[1] <= (LESS / 8).approx(), "{rates:?}");
    // DT-78: a wish is kept. That one is not held up by the other, and has what the other does not.
    assert!(rates[0] > (LESS / 8).approx() && rates[1] > 0.0, "{rates:?}");
    // At rest both have the same, whatever it took.
    vnc.fill(quickset_rfb::Rect::sized(320, 240), 0x00c0_ffee);
    person.sees(&vnc).await;
    other.sees(&vnc).await;
}
