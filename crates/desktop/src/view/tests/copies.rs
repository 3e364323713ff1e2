//! What the desktop has copied is copied by viewers that know how to.

use quickset_base::Rng;

use super::*;

/// Everything that a screen needs and nothing else, with copies and without.
const COPIES: &[Encoding] = &[Encoding::CopyRect, Encoding::Raw, Encoding::ExtendedDesktopSize];
const NO_COPIES: &[Encoding] = &[Encoding::Raw, Encoding::ExtendedDesktopSize];

fn ask(person: &mut Person) {
    person.request(true);
    person.talk();
}

#[test]
fn a_line_that_scrolls_costs_a_line() {
    let desk = desk(64, 48);
    desk.draw(&noise(64, 48), &Damage::from(rect(0, 0, 64, 48)));
    let (mut person, mut other) = (Person::with(&desk, COPIES), Person::with(&desk, NO_COPIES));
    for person in [&mut person, &mut other] {
        person.request(false);
        person.talk();
        (person.pixels, person.copies) = (0, 0);
    }
    for colour in 0..3 {
        scroll(&desk, rect(0, 0, 64, 40), 0, 8);
        paint(&desk, rect(0, 40, 64, 8), colour);
        ask(&mut person);
        ask(&mut other);
        assert_eq!(person.screen, desk.lock().screen);
        assert_eq!(other.screen, desk.lock().screen);
    }
    assert_eq!((person.copies, person.pixels), (3, 3 * 64 * 8));
    assert_eq!((other.copies, other.pixels), (0, 3 * 64 * 48));
    // Who does not ask for a while is told of all of it at once.
    for colour in 0..3 {
        scroll(&desk, rect(0, 0, 64, 40), 0, 8);
        paint(&desk, rect(0, 40, 64, 8), colour);
    }
    person.pixels = 0;
    ask(&mut person);
    assert_eq!(person.screen, desk.lock().screen);
    assert_eq!(person.pixels, 3 * 64 * 8);
}

/// A random piece of a side, from one pixel to the whole.
fn span(rng: &mut Rng, side: u16) -> (u16, u16) {
    let (a, b) = (rng.below(u64::from(side)) as u16, rng.below(u64::from(side)) as u16);
    (a.min(b), a.max(b) + 1)
}

fn somewhere(rng: &mut Rng, bounds: Rect) -> Rect {
    let ((left, right), (top, bottom)) = (span(rng, bounds.width()), span(rng, bounds.height()));
    Rect::between(left, top, right, bottom)
}

/// Whatever is painted over the picture, asked for in parts, resized or copied: a viewer that copies sees
/// what one sees that does not.
#[test]
fn copies_and_pixels_make_the_same_picture() {
    let mut copied = 0;
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let desk = desk(80, 60);
        desk.draw(&noise(80, 60), &Damage::from(rect(0, 0, 80, 60)));
        desk.set_cursor(cross(0x0011_2200));
        desk.begin_overlay();
        let mut people = [Person::with(&desk, COPIES), Person::with(&desk, NO_COPIES)];
        let seat = desk.sit();
        for step in 0..120_u32 {
            let bounds = desk.lock().screen.bounds();
            match rng.below(12) {
                0..5 => {
                    let to = somewhere(&mut rng, bounds);
                    let x = rng.below(u64::from(bounds.width() - to.width()) + 1) as u16;
                    let y = rng.below(u64::from(bounds.height() - to.height()) + 1) as u16;
                    scroll(&desk, to, x, y);
                }
                5..7 => paint(&desk, somewhere(&mut rng, bounds), step),
                7..9 => {
                    let (x, y) = (rng.below(90) as u16, rng.below(70) as u16);
                    seat.act(Act::Input(PersonInput::Pointer { buttons: 0, x, y }));
                }
                9 => desk.set_overlay(&["wide".repeat(rng.below(2) as usize), "x".into()]),
                10 => seat.toggle_overlay(),
                _ if rng.chance(0.2) => {
                    let (width, height) = (40 + rng.below(60) as u16, 40 + rng.below(60) as u16);
                    desk.resize(width, height).unwrap();
                }
                _ => {}
            }
            if rng.chance(0.2) {
                let part = somewhere(&mut rng, bounds);
                people[0].rfb.request(true, part).unwrap();
                people[0].talk();
            }
            if rng.chance(0.3) {
                // Once for what has changed, and again by the size that it may have told of.
                for person in &mut people {
                    ask(person);
                    ask(person);
                }
                assert_eq!(people[0].screen, people[1].screen, "seed {seed}, step {step}");
            }
        }
        copied += people[0].copies;
        assert_eq!(people[1].copies, 0);
    }
    assert!(copied > 500, "only {copied} copies were made");
}
