//! How many bytes what a person does takes, beside what Tight takes for the same pixels: pages of text that
//! are turned, a terminal that scrolls, typing, a window that is dragged. `cargo xtask bytes` prints the
//! table; as a test it says whether what is aimed at is reached, and whether the pixels are right at rest.
//!
//! Nothing is sent anywhere, and no time is measured: equal sources give equal figures. QUICKSET_BYTES says
//! how many pages are turned, …_SCENE which scenes, by a part of their names, …_PICTURES a folder with
//! pictures of real screens (PPM), and …_PHOTOGRAPHS one with photographs.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "numbers in tests are small, or cut on purpose"
)]

mod film;
mod letters;
mod ours;
mod photographs;
mod scenes;
mod tight;

use quickset_screen::message::ScreenOrder;

use ours::{OurCost, OurEnds, blank, draw, kinds};
use scenes::Scene;
use tight::TightModel;

/// What a scene took, without its first update.
struct SceneCost {
    updates: usize,
    /// When each update was sent, and at rest beyond that.
    ours: [OurCost; 2],
    /// As it is, in pieces, and in pieces that can be read without any other.
    tight: [usize; 3],
    kinds: String,
}

impl SceneCost {
    fn of(scene: &Scene, order: ScreenOrder, adaptive: bool) -> Self {
        let mut ends = OurEnds::new(order, adaptive, scene.size);
        let mut models = [TightModel::new(), TightModel::in_pieces(false), TightModel::in_pieces(true)];
        let mut screen = blank(scene.size);
        let (mut ours, mut tight) = ([OurCost::default(); 2], [0; 3]);
        for (n, update) in scene.updates.iter().enumerate() {
            ends.is_counted = n > 0;
            let (changed, copies) = draw(&mut screen, update);
            let now = [ends.update(update), ends.rest()];
            assert!(ends.shown().pixels() == screen.pixels(), "{}, update {n}: other pixels", scene.name);
            let others = models.each_mut().map(|model| model.update(&screen, &changed, copies));
            if n > 0 {
                ours.iter_mut().zip(now).for_each(|(sum, cost)| sum.add(cost));
                tight.iter_mut().zip(others).for_each(|(sum, bytes)| *sum += bytes);
            }
        }
        Self { updates: scene.updates.len() - 1, ours, tight, kinds: kinds(ends.stats()) }
    }

    /// What we take, lossless refresh included, beside Tight.
    fn share(&self) -> f64 {
        (self.ours[0].bytes + self.ours[1].bytes) as f64 / self.tight[0] as f64
    }

    fn line(&self, name: &str) -> String {
        let each = |bytes: usize| bytes / self.updates;
        let [now, rest] = self.ours;
        let messages = now.messages as f64 / self.updates as f64;
        format!(
            "{name:<18} {:>7} {messages:>8.1} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6.2}   {}",
            self.updates,
            each(now.bytes),
            each(rest.bytes),
            each(self.tight[0]),
            each(self.tight[1]),
            each(self.tight[2]),
            self.share(),
            self.kinds
        )
    }
}

/// The goals are in the scenes.
#[test]
fn text_takes_no_more_bytes_than_it_may() {
    let pages = std::env::var("QUICKSET_BYTES").map_or(2, |pages| pages.parse().unwrap());
    let mut all = scenes::scenes(pages);
    if let Ok(folder) = std::env::var("QUICKSET_BYTES_PICTURES") {
        all.push(scenes::pictures(folder.as_ref()));
    }
    if let Ok(name) = std::env::var("QUICKSET_BYTES_SCENE") {
        all.retain(|scene| scene.name.contains(&name));
    }
    let order = if std::env::var("QUICKSET_BYTES_ORDER").is_ok_and(|order| order == "latest") {
        ScreenOrder::Latest
    } else {
        ScreenOrder::Fenced
    };
    let adaptive = std::env::var_os("QUICKSET_BYTES_OLD").is_none();
    println!(
        "bytes of an update     updates messages      ours   at rest     tight    pieces   no past  share"
    );
    let mut over = Vec::new();
    for scene in all {
        let cost = SceneCost::of(&scene, order, adaptive);
        println!("{}", cost.line(&scene.name));
        // What is aimed at is aimed at with clients as they are now.
        if adaptive && cost.share() > scene.most {
            over.push(format!("{}: {:.2} of Tight, and {} at most", scene.name, cost.share(), scene.most));
        }
    }
    assert!(over.is_empty(), "{over:?}");
}

/// In the order latest, which has cells: what changes a part of some does not take all of them.
#[test]
fn small_changes_take_no_more_in_the_order_latest() {
    for scene in scenes::scenes(1).into_iter().filter(|scene| !scene.name.starts_with("pages")) {
        let cost = SceneCost::of(&scene, ScreenOrder::Latest, true);
        println!("{}", cost.line(&scene.name));
        assert!(cost.share() <= scene.most, "{}: {:.2} of Tight", scene.name, cost.share());
    }
}
