//! The desktop far away: what is on it, and what reaches it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use quickset_base::number::within_u16;
use quickset_rfb::{Cursor, ExtendedClipboard, Formats, Framebuffer, Rect};

use super::LIMIT;
use super::gateways::Folder;
use super::person::Person;
use super::photo::picture;
use super::programs::{Display, Program};

pub(crate) const WIDTH: u16 = 640;
pub(crate) const HEIGHT: u16 = 480;
/// Over the terminal, whose pointer differs from that of the empty desktop.
pub(crate) const TERMINAL: (u16, u16) = (150, 400);
/// Over the window that takes keys.
pub(crate) const XEV: (u16, u16) = (560, 80);

/// Text, a photograph, and a window that tells what comes.
pub(crate) struct Windows {
    xev: Program,
    _others: [Program; 2],
}

impl Windows {
    pub(crate) async fn open(display: &Display, folder: &Folder) -> Self {
        let photo = folder.0.join("photo.xwd");
        std::fs::write(&photo, picture(240, 160)).unwrap();
        let photo = photo.to_str().unwrap();
        let photo = display.run("xwud", &["-in", photo, "-geometry", "240x160+20+20", "-noclick"]);
        let text = "seq 1000 1200; sleep 600";
        let look = ["-geometry", "70x18+10+220", "-xrm", "XTerm*cursorBlink: false"];
        let xterm = display.run("xterm", &[&look[..], &["-e", "sh", "-c", text]].concat());
        let xev = ["-oL", "xev", "-geometry", "120x120+500+20", "-event", "keyboard"];
        let xev = display.run("stdbuf", &xev);
        for title in ["xwud", "xterm", "Event Tester"] {
            display.window(title).await;
        }
        Self { xev, _others: [photo, xterm] }
    }

    /// The symbols of the keys that went down, in order.
    pub(crate) fn typed(&self) -> Vec<u32> {
        let lines = self.xev.lines();
        let down = lines.windows(3).filter(|w| w[0].starts_with("KeyPress"));
        let symbol = |w: &[String]| w[2].split("keysym 0x").nth(1)?.split(',').next().map(str::to_owned);
        down.filter_map(|w| u32::from_str_radix(&symbol(w)?, 16).ok()).collect()
    }
}

/// Where the programs of a display keep what is copied.
#[derive(Clone, Copy)]
pub(crate) enum Clip<'a> {
    Clipboard(&'a Display),
    /// The first cut buffer, which programs from before the clipboard have. It holds Latin-1 (ICCCM §3.1).
    CutBuffer(&'a Display),
}

impl Clip<'_> {
    /// Puts `text` there for as long as the program is.
    pub(crate) fn copy(self, folder: &Folder, text: &str) -> Program {
        let file = folder.0.join("copied");
        let (display, selection) = self.place();
        match self {
            Self::Clipboard(_) => std::fs::write(&file, text).unwrap(),
            Self::CutBuffer(_) => {
                let bytes: Vec<u8> = text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
                std::fs::write(&file, bytes).unwrap();
            }
        }
        display.run("xclip", &["-quiet", "-selection", selection, "-i", file.to_str().unwrap()])
    }

    /// What is there. Whoever owns it may never answer.
    pub(crate) fn paste(self) -> String {
        let (display, selection) = self.place();
        let bytes = display.ask_bytes("timeout", &["3", "xclip", "-selection", selection, "-o"]);
        match self {
            Self::Clipboard(_) => String::from_utf8_lossy(&bytes).into_owned(),
            Self::CutBuffer(_) => bytes.into_iter().map(char::from).collect(),
        }
    }

    /// And as xclip names it.
    fn place(&self) -> (&Display, &'static str) {
        match self {
            Self::Clipboard(display) => (display, "clipboard"),
            Self::CutBuffer(display) => (display, "buffer-cut"),
        }
    }
}

/// Waits until `wrong` finds nothing any more, and takes in what comes for `people` meanwhile.
pub(crate) async fn settled(
    people: &mut [&mut Person],
    mut wrong: impl FnMut(&mut [&mut Person]) -> Option<String>,
) -> Result<(), String> {
    let end = Instant::now() + LIMIT;
    loop {
        for person in people.iter_mut() {
            person.look(Duration::from_millis(100)).await;
        }
        let Some(found) = wrong(people) else { return Ok(()) };
        if Instant::now() >= end {
            return Err(found);
        }
    }
}

/// Where `outer` shows all of `inner`, pixel by pixel.
pub(crate) fn place(inner: &Framebuffer, outer: &Framebuffer) -> Option<(u16, u16)> {
    let (width, height) = (usize::from(inner.width()), usize::from(inner.height()));
    let (wide, high) = (usize::from(outer.width()), usize::from(outer.height()));
    let row = |x: usize, y: usize, n: usize| {
        let from = (y + n) * wide + x;
        outer.pixels()[from..from + width] == inner.pixels()[n * width..(n + 1) * width]
    };
    let all =
        (0..=high.checked_sub(height)?).flat_map(|y| (0..=wide.saturating_sub(width)).map(move |x| (x, y)));
    // A row of the photograph first: rows of the empty desktop are found in many places.
    let mut found = all.filter(|&(x, y)| row(x, y, height / 6) && (0..height).all(|n| row(x, y, n)));
    found.next().map(|(x, y)| (within_u16(x as u64), within_u16(y as u64)))
}

/// By where they are from the pixel that points: programs pad shapes as they like.
pub(crate) type Shape = BTreeMap<(i64, i64), u32>;

/// The opaque pixels of a pointer.
pub(crate) fn shape(cursor: &Cursor) -> Shape {
    let mut shape = Shape::new();
    let (width, stride) = (usize::from(cursor.width), usize::from(cursor.width).div_ceil(8));
    for (n, &pixel) in cursor.pixels.iter().enumerate() {
        let (x, y) = (n % width, n / width);
        if cursor.mask[y * stride + x / 8] & 0x80 >> (x % 8) != 0 {
            let from = |at: usize, hot: u16| i64::try_from(at).unwrap() - i64::from(hot);
            let place = (from(x, cursor.hot_x), from(y, cursor.hot_y));
            shape.insert(place, pixel);
        }
    }
    shape
}

/// The shape of the pointer of a VNC server at a place. TigerVNC's has none for a viewer that did not move it
/// there.
pub(crate) async fn shape_at(far: &mut Person, (x, y): (u16, u16)) -> Result<Shape, String> {
    far.rfb.pointer(0, x - 5, y).unwrap();
    far.rfb.pointer(0, x, y).unwrap();
    // Long enough for the shape of where it was.
    far.look(Duration::from_millis(500)).await;
    let none = || Some("the server shows no pointer".to_owned());
    let mut far = [far];
    settled(&mut far, |far| shape(&far[0].cursor).is_empty().then(none).flatten()).await?;
    Ok(shape(&far[0].cursor))
}

/// What is wrong with the shape here.
pub(crate) fn differ_in_shape(there: &Shape, here: &Shape) -> Option<String> {
    let wrong = there.iter().filter(|&(at, pixel)| here.get(at) != Some(pixel)).count();
    (there != here)
        .then(|| format!("{wrong} of the pointer's {} pixels differ, here are {}", there.len(), here.len()))
}

/// Asks for the text that the server's side has told of by the extended clipboard.
pub(crate) fn answer(person: &mut Person) {
    let told = |message: &ExtendedClipboard| matches!(message, ExtendedClipboard::Notify(_));
    if person.clipboard.iter().any(told) {
        person.clipboard.retain(|message| !told(message));
        person.rfb.clipboard(&ExtendedClipboard::Request(Formats::TEXT)).unwrap();
    }
}

/// All texts that came, in either way of the protocol.
pub(crate) fn heard(person: &Person) -> Vec<String> {
    let given = person.clipboard.iter().filter_map(|message| match message {
        ExtendedClipboard::Provide(text) => text.clone(),
        _ => None,
    });
    person.texts.iter().cloned().chain(given).collect()
}

#[test]
fn one_bit_of_one_pixel_is_a_difference() {
    let mut inner = Framebuffer::new(30, 24, 1 << 20).unwrap();
    let pixels: Vec<u32> = (0..30 * 24).collect();
    inner.put(inner.bounds(), &pixels).unwrap();
    let mut outer = Framebuffer::new(40, 40, 1 << 20).unwrap();
    outer.put(Rect::new(5, 7, 30, 24).unwrap(), &pixels).unwrap();
    assert_eq!(place(&inner, &outer), Some((5, 7)));
    for (x, y) in [(5, 7), (34, 30), (20, 20)] {
        let right = outer.pixel(x, y).unwrap();
        outer.fill(Rect::new(x, y, 1, 1).unwrap(), right ^ 1).unwrap();
        assert_eq!(place(&inner, &outer), None);
        outer.fill(Rect::new(x, y, 1, 1).unwrap(), right).unwrap();
    }
}

#[test]
fn padding_is_no_difference_of_shapes() {
    let bare = Cursor { width: 1, height: 1, hot_x: 0, hot_y: 0, pixels: vec![7], mask: vec![0x80] };
    let padded =
        Cursor { width: 2, height: 2, hot_x: 1, hot_y: 1, pixels: vec![1, 2, 3, 7], mask: vec![0, 0x40] };
    assert_eq!(differ_in_shape(&shape(&bare), &shape(&padded)), None);
    let other = Cursor { hot_x: 0, ..padded };
    assert!(differ_in_shape(&shape(&bare), &shape(&other)).is_some());
}
