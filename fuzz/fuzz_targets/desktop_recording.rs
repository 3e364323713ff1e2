//! Recordings: whatever the file, it plays to somewhere, the same from everywhere, and holds no more than it
//! may. The first byte of the input says whether the sums of records are mended, as no mutation ever does; two are
//! where to begin; then comes the file.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use quickset_base::Time;
use quickset_desktop::recording::RecordingPlayer;
use quickset_rfb::{Framebuffer, crc32};

const MAX_BYTES: usize = 1 << 16;

fuzz_target!(|input: &[u8]| {
    let Some((&[flags, high, low], file)) = input.split_first_chunk() else { return };
    let mut file = file.to_vec();
    if flags & 1 == 0 {
        mend(&mut file);
    }
    let Ok(mut player) = RecordingPlayer::open(Cursor::new(&file[..]), MAX_BYTES) else { return };
    let first = player.position();
    let mut shown = Framebuffer::new(0, 0, MAX_BYTES).expect("nothing fits everywhere");
    follow(&mut player, &mut shown);
    player.advance(Time::MAX).expect("bytes can be read");
    follow(&mut player, &mut shown);
    let (end, last) = (player.position(), player.screen().clone());
    assert_eq!(player.next_time().expect("bytes can be read"), None);
    let facts = player.facts().clone();
    assert!(facts.unplayable <= facts.bytes && facts.bytes == file.len() as u64);
    // From here on nothing new is found out: the same time shows the same.
    let middle = Time::from_nanos(end.as_nanos() / 65536 * u64::from(u16::from_be_bytes([high, low])));
    player.seek(middle).expect("bytes can be read");
    follow(&mut player, &mut shown);
    let between = (player.position(), player.screen().clone());
    player.seek(Time::ZERO).expect("bytes can be read");
    assert_eq!(player.position(), first.min(end));
    player.advance(middle).expect("bytes can be read");
    follow(&mut player, &mut shown);
    assert_eq!((player.position().max(first), player.screen()), (between.0.max(first), &between.1));
    player.seek(Time::MAX).expect("bytes can be read");
    follow(&mut player, &mut shown);
    assert_eq!((player.position(), player.screen(), player.facts()), (end, &last, &facts));
});

/// A viewer that is told no more than the changes sees the screen all the same.
fn follow(player: &mut RecordingPlayer<Cursor<&[u8]>>, shown: &mut Framebuffer) {
    let changes = player.changes();
    let screen = player.screen();
    assert!(screen.bounds().area() * 4 <= MAX_BYTES);
    if changes.resized {
        shown.resize(screen.width(), screen.height()).expect("the limit is the same");
    }
    for &rect in changes.damage.area().rects() {
        shown.take(rect, screen).expect("what has changed is inside the screen");
    }
    assert_eq!(shown, screen);
}

/// Gives each record the sum that it should have.
fn mend(file: &mut [u8]) {
    let mut at = 9;
    while let Some(head) = file.get(at..at + 13) {
        let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let Some(end) = (at + 13).checked_add(length).filter(|end| end + 4 <= file.len()) else { return };
        let sum = crc32(&file[at..end]);
        file[end..end + 4].copy_from_slice(&sum.to_be_bytes());
        at = end + 4;
    }
}
