use proptest::prelude::*;

use super::tile::{MAX_MESSAGE, ScreenTile};
use super::*;

const UPDATES: u32 = 12;

fn updates(seed: u64) -> (Desktop, Vec<DesktopUpdate>) {
    let mut desktop = Desktop::new(seed);
    let mut all: Vec<DesktopUpdate> = (0..UPDATES).map(|_| desktop.update()).collect();
    loop {
        let rest = desktop.settle();
        if rest.messages.is_empty() {
            return (desktop, all);
        }
        all.push(rest);
    }
}

#[test]
fn the_receiver_ends_with_the_picture_of_the_desktop() {
    let (desktop, updates) = updates(1);
    let mut picture = Picture::new();
    for (header, message) in updates.iter().flat_map(|update| &update.messages) {
        assert_eq!(picture.draw(message).unwrap(), *header);
    }
    assert!(picture.pixels() == desktop.pixels());
}

#[test]
fn the_newest_of_each_cell_makes_the_picture_in_any_order_and_without_what_is_outdated() {
    let (desktop, updates) = updates(2);
    let mut messages: Vec<_> = updates.iter().flat_map(|update| &update.messages).collect();
    let mut rng = quickset_base::Rng::new(3);
    for i in (1..messages.len()).rev() {
        messages.swap(i, rng.below(i as u64 + 1) as usize);
    }
    let mut picture = Picture::new();
    for (_, message) in &messages {
        picture.draw_newest(message).unwrap();
    }
    assert!(picture.pixels() == desktop.pixels());
}

#[test]
fn updates_have_about_a_hundred_messages_of_disjoint_cells_that_fit_a_packet() {
    let (_, updates) = updates(3);
    for update in &updates[..UPDATES as usize] {
        assert_eq!(update.messages.len(), MESSAGES, "update {}", update.number);
        let mut covered = vec![false; COLUMNS * ROWS];
        for (header, message) in &update.messages {
            assert!(message.len() <= MAX_MESSAGE);
            let [x, y, w, h] = [header.x, header.y, header.w, header.h].map(|n| usize::from(n) / CELL);
            for cell in (y..y + h).flat_map(|row| (x..x + w).map(move |column| row * COLUMNS + column)) {
                assert!(!std::mem::replace(&mut covered[cell], true), "a cell is sent twice in an update");
            }
        }
    }
}

#[test]
fn equal_seeds_give_equal_updates_and_others_do_not() {
    let (one, other) = (Desktop::new(5).update(), Desktop::new(6).update());
    assert_eq!(one, Desktop::new(5).update());
    assert_ne!(one, other);
}

prop_compose! {
    fn tiles()(w in 1..5u16, h in 1..4u16, x in 0..70u16, y in 0..40u16, colours in 1..40u8, seed: u64) -> ScreenTile {
        let mut rng = quickset_base::Rng::new(seed);
        let cell = CELL as u16;
        let header = TileHeader { epoch: 0, update: seed as u32, x: x * cell, y: y * cell, w: w * cell, h: h * cell };
        let area = usize::from(header.w) * usize::from(header.h);
        // Long runs and short ones.
        let mut colour = 0;
        let pixels = (0..area).map(|_| {
            if rng.chance(0.3) {
                colour = rng.below(u64::from(colours)) as u8 * 5;
            }
            colour
        });
        ScreenTile { header, pixels: pixels.collect() }
    }
}

proptest! {
    #[test]
    fn tiles_come_out_as_they_went_in(tile in tiles()) {
        prop_assert_eq!(ScreenTile::decode(&tile.encode()), Ok(tile));
    }

    #[test]
    fn damage_is_an_error_or_a_tile_on_the_screen(
        tile in tiles(), cut in any::<prop::sample::Index>(), flip in any::<prop::sample::Index>(), bits in 1..=255u8
    ) {
        let mut message = tile.encode();
        let at = flip.index(message.len());
        message[at] ^= bits;
        message.truncate(cut.index(message.len()) + 1);
        let mut picture = Picture::new();
        let _ = picture.draw_newest(&message);
    }
}

#[test]
fn what_is_wrong_with_a_message_is_told() {
    let header = TileHeader { epoch: 0, update: 0, x: 0, y: 0, w: 16, h: 16 };
    let good = ScreenTile { header, pixels: vec![7; 256] }.encode();
    assert_eq!(good.len(), 15);
    let with = |at: usize, byte: u8| {
        let mut bad = good.clone();
        bad[at] = byte;
        ScreenTile::decode(&bad)
    };
    assert_eq!(ScreenTile::decode(&good[..14]), Err(TileError::Short));
    assert_eq!(with(13, 4), Err(TileError::Codec));
    assert_eq!(with(10, 8), Err(TileError::Rectangle), "half a cell");
    assert_eq!(with(10, 0), Err(TileError::Rectangle), "empty");
    assert_eq!(with(5, 0xff), Err(TileError::Rectangle), "off the screen");
    // Runs that are longer than the rectangle.
    let mut runs = good[..13].to_vec();
    runs.extend_from_slice(&[1, 1, 9]);
    runs.extend_from_slice(&[0xf0; 17]);
    assert_eq!(ScreenTile::decode(&runs), Err(TileError::Long));
}
