//! What a person looks at: what an RFB server draws, update by update.

use quickset_base::Rng;
use quickset_rfb::{Framebuffer, Rect};

use crate::letters::{Canvas, TextFace};

/// Some updates of a screen.
pub(crate) struct Scene {
    pub(crate) name: String,
    pub(crate) size: (u16, u16),
    /// The first makes the screen as it is before anything is counted.
    pub(crate) updates: Vec<Vec<SceneDraw>>,
    /// Of what Tight takes we may take so much at most.
    pub(crate) most: f64,
}

/// One change.
pub(crate) enum SceneDraw {
    Put(Rect, Vec<u32>),
    Copy(Rect, u16, u16),
}

/// All scenes, with so many pages in those that turn them.
pub(crate) fn scenes(pages: u64) -> Vec<Scene> {
    vec![
        flips("terminal", pages, terminal),
        flips("browser", pages, browser),
        flips("dense text", pages, dense),
        scroll(20 * pages),
        typing(20 * pages),
        drag(10 * pages),
    ]
}

/// Those pictures of a folder that have the size of the first, one after the other.
pub(crate) fn pictures(folder: &std::path::Path) -> Scene {
    let pictures = read_pictures(folder);
    let size = pictures.first().expect("a picture whose name ends in .ppm").1;
    let whole = Rect::sized(size.0, size.1);
    let updates = pictures.into_iter().filter(|(_, own, _)| *own == size);
    let updates = updates.map(|(.., pixels)| vec![SceneDraw::Put(whole, pixels)]).collect();
    Scene { name: "pictures".into(), size, updates, most: PAGES }
}

/// The name, the size and the pixels of each picture of a folder (PPM with three bytes for each pixel), by
/// name.
pub(crate) fn read_pictures(folder: &std::path::Path) -> Vec<(String, (u16, u16), Vec<u32>)> {
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("a folder with pictures")
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|name| name == "ppm"))
        .collect();
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let (size, pixels) = ppm(&std::fs::read(path).unwrap());
        (path.file_stem().unwrap().to_string_lossy().into_owned(), size, pixels)
    };
    paths.iter().map(read).collect()
}

fn ppm(file: &[u8]) -> ((u16, u16), Vec<u32>) {
    let mut words = file.splitn(5, u8::is_ascii_whitespace);
    assert_eq!(words.next(), Some(&b"P6"[..]), "a PPM with three bytes for each pixel");
    let mut number = || std::str::from_utf8(words.next().unwrap()).unwrap().parse::<u16>().unwrap();
    let (width, height, most) = (number(), number(), number());
    assert_eq!(most, 255);
    let pixels = words.next().unwrap().chunks_exact(3);
    ((width, height), pixels.map(|p| u32::from_be_bytes([0, p[0], p[1], p[2]])).collect())
}

fn flips(name: &str, pages: u64, page: impl Fn(u64) -> Canvas) -> Scene {
    let updates = (0..=pages).map(|n| vec![SceneDraw::Put(PAGE, page(n).pixels)]).collect();
    Scene { name: format!("pages, {name}"), size: SIZE, updates, most: PAGES }
}

/// Coloured words on black, some lines short, some empty.
fn terminal(number: u64) -> Canvas {
    let (mut canvas, mut rng) = (Canvas::new(SIZE.0, SIZE.1, BLACK), Rng::new(number + 1));
    let face = TextFace::fixed(14);
    for y in (2..SIZE.1 - face.leading).step_by(face.leading.into()) {
        shell_line(&face, &mut rng, &mut canvas, y);
    }
    canvas
}

fn shell_line(face: &TextFace, rng: &mut Rng, canvas: &mut Canvas, y: u16) {
    let colour = [0xd0_d0d0, 0xd0_d0d0, 0x4e_9a06, 0x72_9fcf, 0xcc_0000][rng.below(5) as usize];
    let width = rng.below(u64::from(SIZE.0)) as u16;
    face.line(rng, canvas, (2, y), 100, 0x4e_9a06);
    face.line(rng, canvas, (120, y), 120 + width * 7 / 8, colour);
}

/// A heading, a column of links, and text in paragraphs.
fn browser(number: u64) -> Canvas {
    let (mut canvas, mut rng) = (Canvas::new(SIZE.0, SIZE.1, WHITE), Rng::new(number + 1));
    let (heading, text, small) =
        (TextFace::proportional(28), TextFace::proportional(15), TextFace::proportional(13));
    canvas.fill((0, 0), (220, SIZE.1), 0xf5_f5f5);
    canvas.fill((220, 0), (1, SIZE.1), 0xdd_dddd);
    for y in (20..SIZE.1 - 40).step_by(26) {
        let end = 90 + rng.below(120) as u16;
        small.line(&mut rng, &mut canvas, (20, y), end, 0x0b_5cad);
    }
    heading.line(&mut rng, &mut canvas, (250, 24), 820, 0x11_1111);
    let mut y = 80;
    while y + 2 * text.leading < SIZE.1 {
        for _ in 0..2 + rng.below(5) {
            let end = 1000 - rng.below(60) as u16;
            if y + text.leading < SIZE.1 {
                text.line(&mut rng, &mut canvas, (250, y), end, 0x22_2222);
            }
            y += text.leading;
        }
        y += text.leading / 2;
    }
    canvas
}

/// Small letters without paragraphs.
fn dense(number: u64) -> Canvas {
    let (mut canvas, mut rng) = (Canvas::new(SIZE.0, SIZE.1, WHITE), Rng::new(number + 1));
    let face = TextFace::fixed(12);
    for y in (4..SIZE.1 - face.leading).step_by(face.leading.into()) {
        face.line(&mut rng, &mut canvas, (8, y), SIZE.0, BLACK);
    }
    canvas
}

/// A terminal that scrolls by a line at a time.
fn scroll(lines: u64) -> Scene {
    let (face, mut rng) = (TextFace::fixed(14), Rng::new(3));
    let bottom = Rect::new(0, SIZE.1 - face.leading, SIZE.0, face.leading).unwrap();
    let mut updates = vec![vec![SceneDraw::Put(PAGE, terminal(0).pixels)]];
    for _ in 0..lines {
        let mut canvas = Canvas::new(bottom.width(), bottom.height(), BLACK);
        shell_line(&face, &mut rng, &mut canvas, 2);
        let rest = Rect::sized(SIZE.0, bottom.top());
        updates.push(vec![SceneDraw::Copy(rest, 0, face.leading), SceneDraw::Put(bottom, canvas.pixels)]);
    }
    Scene { name: "scrolling".into(), size: SIZE, updates, most: OTHERS }
}

/// Letters behind each other, and the cursor before and behind each.
fn typing(letters: u64) -> Scene {
    let (face, mut rng) = (TextFace::fixed(14), Rng::new(4));
    let (width, height) = (7, face.leading);
    let mut updates = vec![vec![SceneDraw::Put(PAGE, terminal(0).pixels)]];
    for n in 0..letters {
        let (column, row) = ((n % 120) as u16, (n / 120) as u16);
        let at = Rect::new(8 + column * width, 200 + row * height, 2 * width, height).unwrap();
        let mut canvas = Canvas::new(at.width(), at.height(), BLACK);
        let letter = rng.below(70) as usize;
        face.put(letter, &mut canvas, (0, 2), 0xd0_d0d0);
        canvas.fill((width, 0), (width, height), 0xd0_d0d0);
        updates.push(vec![SceneDraw::Put(at, canvas.pixels)]);
    }
    Scene { name: "typing".into(), size: SIZE, updates, most: OTHERS }
}

/// A window with text over a page: where it was, the page is seen again.
fn drag(steps: u64) -> Scene {
    let page = browser(0);
    let mut below = Framebuffer::new(SIZE.0, SIZE.1, 1 << 26).unwrap();
    below.put(PAGE, &page.pixels).unwrap();
    let mut at = Rect::new(40, 60, 420, 300).unwrap();
    let mut window = Canvas::new(at.width(), at.height(), BLACK);
    window.fill((0, 0), (at.width(), 24), 0x35_84e4);
    let (face, mut rng) = (TextFace::fixed(14), Rng::new(5));
    for y in (28..at.height() - face.leading).step_by(face.leading.into()) {
        face.line(&mut rng, &mut window, (4, y), at.width() - 10, 0xd0_d0d0);
    }
    let mut updates = vec![vec![SceneDraw::Put(PAGE, page.pixels), SceneDraw::Put(at, window.pixels)]];
    for step in 0..steps {
        let (dx, dy) = (6 + (step % 3) as u16, (step % 5) as u16);
        let Some(to) = at.moved_to(at.left() + dx, at.top() + dy).filter(|to| PAGE.contains(*to)) else {
            break;
        };
        let mut update = vec![SceneDraw::Copy(to, at.left(), at.top())];
        let left = Rect::between(at.left(), at.top(), to.left(), at.bottom());
        let above = Rect::between(to.left(), at.top(), at.right(), to.top());
        for seen in [left, above].into_iter().filter(|seen| !seen.is_empty()) {
            let mut pixels = Vec::new();
            below.read(seen, &mut pixels).unwrap();
            update.push(SceneDraw::Put(seen, pixels));
        }
        updates.push(update);
        at = to;
    }
    Scene { name: "dragging".into(), size: SIZE, updates, most: OTHERS }
}

const SIZE: (u16, u16) = (1024, 768);
const PAGE: Rect = Rect::sized(SIZE.0, SIZE.1);
const BLACK: u32 = 0;
const WHITE: u32 = 0xff_ffff;
/// What is aimed at.
const PAGES: f64 = 1.2;
const OTHERS: f64 = 1.0;
