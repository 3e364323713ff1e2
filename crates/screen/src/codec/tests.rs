use proptest::prelude::*;
use quickset_base::Rng;
use quickset_rfb::{Framebuffer, Rect};

use super::jpeg::JpegForm;
use super::*;
use crate::message::FieldReader;

/// Draws pixels with about `colours` different ones, or with 0 of them noise.
fn screen(width: u16, height: u16, colours: u64, rng: &mut Rng) -> Framebuffer {
    let mut fb = Framebuffer::new(width, height, 1 << 26).unwrap();
    let palette: Vec<u32> = (0..colours).map(|_| rng.next() as u32 & 0xff_ffff).collect();
    let pixels: Vec<u32> = (0..fb.bounds().area())
        .map(|_| match colours {
            0 => rng.next() as u32,
            n => palette[rng.below(n) as usize],
        })
        .collect();
    fb.put(fb.bounds(), &pixels).unwrap();
    fb
}

/// A smooth picture with some texture, as of a film.
fn picture(width: u16, height: u16, rng: &mut Rng) -> Framebuffer {
    let mut fb = Framebuffer::new(width, height, 1 << 26).unwrap();
    let [fx, fy] = [(); 2].map(|()| 0.01 + rng.unit() * 0.05);
    let mut pixels = Vec::new();
    for y in 0..height {
        for x in 0..width {
            let wave = |shift: f64| {
                let v = (f64::from(x) * fx + shift).sin() + (f64::from(y) * fy + shift).cos();
                (127.5 + v * 55.0 + rng_noise(x, y)) as u32
            };
            pixels.push(wave(0.0) << 16 | wave(1.0) << 8 | wave(2.0));
        }
    }
    fb.put(fb.bounds(), &pixels).unwrap();
    fb
}

fn rng_noise(x: u16, y: u16) -> f64 {
    f64::from((u32::from(x) * 7919 + u32::from(y) * 104_729) % 9) - 4.0
}

fn read(item: &[u8]) -> (ItemKind, Rect, CodedPixels<'_>) {
    let mut f = FieldReader::new(item, "an item");
    let kind = ItemKind::ALL[f.u8().unwrap() as usize];
    let rect = f.rect().unwrap();
    let coded = CodedPixels::read(kind, rect, &mut f).unwrap();
    assert!(f.is_empty());
    (kind, rect, coded)
}

/// An item of all of a rectangle.
fn item_of(fb: &Framebuffer, rect: Rect, loss: PixelLoss, adaptive: bool) -> (ItemKind, Vec<u8>) {
    let (mut item, endless) = (Vec::new(), PieceRoom { wanted: 1 << 20, most: 1 << 20, step: 16 });
    let found = RectangleEncoder::new(80, adaptive).encode(fb, rect, loss, endless, &mut item).unwrap();
    let (kind, done) = found.expect("there is room");
    assert_eq!(done, rect);
    (kind, item)
}

/// Encodes a rectangle and decodes it again.
fn through(fb: &Framebuffer, rect: Rect, loss: PixelLoss) -> (ItemKind, usize, Vec<u32>) {
    let (kind, item) = item_of(fb, rect, loss, false);
    let (read_kind, read_rect, coded) = read(&item);
    assert_eq!((read_kind, read_rect), (kind, rect));
    (kind, item.len(), RectangleDecoder::new().decode(rect, coded).unwrap().to_vec())
}

fn pixels(fb: &Framebuffer, rect: Rect) -> Vec<u32> {
    let mut all = Vec::new();
    fb.read(rect, &mut all).unwrap();
    all
}

/// Peak signal to noise, in decibels.
fn psnr(a: &[u32], b: &[u32]) -> f64 {
    let squares = a.iter().zip(b).flat_map(|(a, b)| {
        let (a, b) = (a.to_be_bytes(), b.to_be_bytes());
        (1..4).map(move |i| f64::from(a[i].abs_diff(b[i])).powi(2))
    });
    10.0 * (255.0 * 255.0 / (squares.sum::<f64>() / (3 * a.len()) as f64)).log10()
}

#[test]
fn each_kind_is_chosen_where_it_belongs() {
    let mut rng = Rng::new(1);
    let of = |colours, side: u16, loss, rng: &mut Rng| {
        let fb = screen(64, 64, colours, rng);
        through(&fb, Rect::new(0, 0, side, side).unwrap(), loss).0
    };
    assert_eq!(of(1, 64, PixelLoss::Allowed, &mut rng), ItemKind::Solid);
    assert_eq!(of(2, 8, PixelLoss::Allowed, &mut rng), ItemKind::Palette);
    // Random bits cannot be squeezed.
    assert_eq!(of(2, 64, PixelLoss::Allowed, &mut rng), ItemKind::Palette);
    assert_eq!(of(20, 64, PixelLoss::Allowed, &mut rng), ItemKind::PaletteZstd);
    assert_eq!(of(0, 64, PixelLoss::Allowed, &mut rng), ItemKind::Jpeg);
    assert_eq!(of(0, 64, PixelLoss::None, &mut rng), ItemKind::Rgb);
    let fb = picture(64, 64, &mut rng);
    let rect = fb.bounds();
    assert_eq!(through(&fb, rect, PixelLoss::None).0, ItemKind::RgbZstd);
    // DT-24.
    let thin = Rect::new(0, 0, 64, 7).unwrap();
    assert_eq!(through(&fb, thin, PixelLoss::Allowed).0, ItemKind::RgbZstd);
}

#[test]
fn few_colours_are_adaptive_for_whoever_takes_that() {
    // DT-77. Of few pixels bits are shorter, of one colour that is all, and noise of three hundred colours is
    // no text, nor is what is to be without loss with more than 256.
    let mut rng = Rng::new(6);
    let lossless = PixelLoss::None;
    let cases = [
        (1, 64, lossless, ItemKind::Solid),
        (2, 2, lossless, ItemKind::Palette),
        (20, 64, lossless, ItemKind::Adaptive),
        (200, 64, lossless, ItemKind::Adaptive),
        (256, 64, lossless, ItemKind::Adaptive),
        (300, 64, PixelLoss::Allowed, ItemKind::Jpeg),
    ];
    for (colours, side, loss, expected) in cases {
        let fb = screen(side, side, colours, &mut rng);
        let (kind, item) = item_of(&fb, fb.bounds(), loss, true);
        assert_eq!(kind, expected, "{colours} colours");
        let (_, rect, coded) = read(&item);
        let back = RectangleDecoder::new().decode(rect, coded).unwrap().to_vec();
        assert!(kind == ItemKind::Jpeg || back == pixels(&fb, rect));
        let (old, _) = item_of(&fb, fb.bounds(), loss, false);
        assert_ne!(old, ItemKind::Adaptive, "{colours} colours");
    }
}

#[test]
fn a_piece_ends_where_there_is_no_more_room_or_too_many_colours() {
    let mut rng = Rng::new(7);
    // 20 colours at random are 4.3 bits each: of 64 columns 37 rows and not 64 are 1300 bytes.
    let fb = screen(64, 64, 20, &mut rng);
    let mut encoder = RectangleEncoder::new(80, true);
    for (top, step, least, most) in [(0, 16, 32, 32), (5, 16, 27, 27), (0, 4, 32, 36), (2, 4, 30, 38)] {
        let rect = Rect::between(0, top, 64, 64);
        let (mut item, room) = (Vec::new(), PieceRoom { wanted: 1300, most: 1350, step });
        let found = encoder.encode(&fb, rect, PixelLoss::None, room, &mut item).unwrap();
        let (kind, done) = found.expect("a part fits");
        assert_eq!((kind, done.left(), done.top(), done.width()), (ItemKind::Adaptive, 0, top, 64));
        assert!((least..=most).contains(&done.height()) && done.bottom() % step == 0, "{done}");
        assert!(item.len() <= 1300);
        let (_, rect, coded) = read(&item);
        assert_eq!(RectangleDecoder::new().decode(rect, coded).unwrap(), pixels(&fb, done));
    }
    // Sixteen rows do not fit.
    let (mut item, room) = (Vec::new(), PieceRoom { wanted: 300, most: 400, step: 16 });
    assert_eq!(encoder.encode(&fb, fb.bounds(), PixelLoss::None, room, &mut item).unwrap(), None);
    // Each row has eight colours of its own: 32 rows have 256.
    let mut fb = Framebuffer::new(64, 64, 1 << 26).unwrap();
    let stripes: Vec<u32> = (0..64 * 64).map(|at| ((at / 64) << 8) | (at % 8)).collect();
    fb.put(fb.bounds(), &stripes).unwrap();
    let endless = PieceRoom { wanted: 1 << 20, most: 1 << 20, step: 16 };
    let found = encoder.encode(&fb, fb.bounds(), PixelLoss::Allowed, endless, &mut Vec::new()).unwrap();
    assert_eq!(found, Some((ItemKind::Adaptive, Rect::sized(64, 32))));
}

#[test]
fn a_palette_is_packed_as_specified() {
    // spec/desktop.md §14: chequered, 4x2, black and white.
    let mut fb = Framebuffer::new(4, 2, 1 << 20).unwrap();
    let (b, w) = (0, 0xff_ffff);
    fb.put(fb.bounds(), &[b, w, b, w, w, b, w, b]).unwrap();
    let (_, item) = item_of(&fb, fb.bounds(), PixelLoss::Allowed, false);
    assert_eq!(item, [0x02, 0, 0, 4, 2, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0b0101_1010]);
}

#[test]
fn lossless_kinds_are_exact() {
    let mut rng = Rng::new(2);
    for colours in [1, 2, 3, 4, 5, 16, 17, 95, 96, 97, 200, 0] {
        let fb = screen(70, 50, colours, &mut rng);
        for rect in [(0, 0, 70, 50), (3, 5, 1, 1), (7, 0, 1, 50), (0, 9, 70, 1), (13, 11, 37, 29)] {
            let rect = Rect::new(rect.0, rect.1, rect.2, rect.3).unwrap();
            let (_, len, back) = through(&fb, rect, PixelLoss::None);
            assert_eq!(back, pixels(&fb, rect), "{colours} colours, {rect}");
            assert!(len <= 3 * rect.area() + 11, "never longer than as it is: {len}, {rect}");
        }
    }
}

#[test]
fn jpeg_is_close_in_every_size() {
    // DT-26 makes up for what is lost; until then it should look right.
    let mut rng = Rng::new(3);
    let fb = picture(320, 240, &mut rng);
    for (width, height) in (8..50).map(|n| (n, 57 - n)).chain([(8, 8), (256, 256 - 16), (320, 8), (9, 240)]) {
        let rect = Rect::new(0, 0, width, height).unwrap();
        let (kind, _, back) = through(&fb, rect, PixelLoss::Allowed);
        let quality = psnr(&back, &pixels(&fb, rect));
        assert!(kind != ItemKind::Jpeg || quality > 30.0, "{rect}: {quality:.1} dB");
    }
}

/// A picture whose colours have details as fine as `period` pixels.
fn colourful(period: f64) -> Framebuffer {
    let (side, mut fb) = (128_u16, Framebuffer::new(128, 128, 1 << 26).unwrap());
    let pixel = |at: u16| {
        let (x, y) = (at % side, at / side);
        let grey =
            128.0 + 40.0 * (f64::from(x) / 9.0).sin() + 20.0 * (f64::from(y) / 4.0).cos() + rng_noise(x, y);
        let angle = (f64::from(x) + f64::from(y) * 0.6) * core::f64::consts::TAU / period;
        let part = |shift: f64| (grey + 15.0 * (angle + shift).sin()) as u32;
        part(0.0) << 16 | part(2.1) << 8 | part(4.2)
    };
    let pixels: Vec<u32> = (0..side * side).map(pixel).collect();
    fb.put(fb.bounds(), &pixels).unwrap();
    fb
}

#[test]
fn colours_have_the_resolution_that_makes_the_smaller_error() {
    // DT-82, DT-83.
    let of = |fb: &Framebuffer, full_colour: bool| {
        let (mut item, endless) = (Vec::new(), PieceRoom { wanted: 1 << 20, most: 1 << 20, step: 16 });
        let mut encoder = RectangleEncoder::new(85, false).with_full_colour(full_colour);
        encoder.encode(fb, fb.bounds(), PixelLoss::Allowed, endless, &mut item).unwrap();
        let (_, rect, coded) = read(&item);
        let CodedPixels::Jpeg { form, scan } = coded else { panic!("no JPEG: {coded:?}") };
        let seen = RectangleDecoder::new().decode(rect, coded).unwrap().to_vec();
        (form.is_full(), scan.len(), psnr(&seen, &pixels(fb, rect)))
    };
    for (period, full) in [(400.0, false), (5.0, true)] {
        let fb = colourful(period);
        assert!(!of(&fb, false).0, "not for a client that does not take it");
        let (is_full, bytes, ours) = of(&fb, true);
        assert_eq!(is_full, full, "{period}");
        // The other way with at most as many bytes, and 2 % more for the step from one quality to the next.
        let other = |quality: u8| {
            let form = JpegForm::read(quality | if full { 0 } else { 128 }).unwrap();
            let mut scanner = encode::Scanner::default();
            let (form, scan) = scanner.scan(&fb, fb.bounds(), form, false).unwrap();
            let seen = RectangleDecoder::new()
                .decode(fb.bounds(), CodedPixels::Jpeg { form, scan })
                .unwrap()
                .to_vec();
            (scan.len() <= bytes * 102 / 100).then(|| psnr(&seen, &pixels(&fb, fb.bounds())))
        };
        let best = (1..=100).filter_map(other).fold(0.0, f64::max);
        assert!(ours > best - 0.05, "{period}: {ours:.2} dB, and {best:.2} dB the other way");
        // Not much more bytes than without, whatever the detail: what is known of the link still holds.
        let (_, halved, _) = of(&fb, false);
        assert!(bytes * 2 < halved * 3 && bytes * 5 > halved * 4, "{period}: {bytes} for {halved}");
    }
}

#[test]
fn the_tables_are_those_of_the_annex() {
    // A file of an encoder that uses the tables of Annex K: ours says the same of them, segment by segment.
    let mut rng = Rng::new(4);
    let fb = picture(48, 32, &mut rng);
    for quality in [1, 25, 49, 50, 80, 100] {
        let mut scanner = encode::Scanner::default();
        scanner.scan(&fb, fb.bounds(), JpegForm::halved(quality), false).unwrap();
        let mut ours = Vec::new();
        tables::headers(48, 32, JpegForm::halved(quality), &mut ours);
        let tables = |file: &[u8]| {
            let (mut found, mut at) = (std::collections::BTreeMap::new(), 2);
            while file.get(at) == Some(&0xff) && file[at + 1] != 0xda {
                let end = at + 2 + usize::from(u16::from_be_bytes([file[at + 2], file[at + 3]]));
                let marker = file[at + 1];
                // One segment may hold several tables.
                let mut body = &file[at + 4..end];
                while matches!(marker, 0xdb | 0xc4) && !body.is_empty() {
                    let size = match marker {
                        0xdb => 65,
                        _ => 17 + body[1..17].iter().map(|&n| usize::from(n)).sum::<usize>(),
                    };
                    found.insert((marker, body[0]), body[1..size].to_vec());
                    body = &body[size..];
                }
                at = end;
            }
            found
        };
        assert_eq!(tables(scanner.file()).len(), 6);
        assert_eq!(tables(&ours), tables(scanner.file()), "quality {quality}");
    }
}

#[test]
fn hostile_bodies_are_refused() {
    let read = |kind, rect: (u16, u16), body: &[u8]| {
        let rect = Rect::sized(rect.0, rect.1);
        let mut f = FieldReader::new(body, "an item");
        let coded = CodedPixels::read(kind, rect, &mut f).ok()?;
        RectangleDecoder::new().decode(rect, coded).ok().map(<[u32]>::to_vec)
    };
    // DT-16.
    assert!(read(ItemKind::Rgb, (257, 256), &vec![0; 3 * 257 * 256]).is_none());
    assert!(read(ItemKind::Rgb, (256, 256), &vec![0; 3 * 256 * 256]).is_some());
    // DT-22: an index beyond the colours, too many colours, too few.
    let three = [2, 0, 0, 0, 1, 1, 1, 2, 2, 2];
    assert!(read(ItemKind::Palette, (2, 1), &[&three[..], &[0b1000_0000]].concat()).is_some());
    assert!(read(ItemKind::Palette, (2, 1), &[&three[..], &[0b1100_0000]].concat()).is_none());
    assert!(read(ItemKind::Palette, (1, 1), &[vec![96], vec![0; 300]].concat()).is_none());
    assert!(read(ItemKind::Palette, (1, 1), &[0; 4]).is_none());
    assert!(read(ItemKind::Jpeg, (8, 8), &[0, 1, 0]).is_none());
    assert!(read(ItemKind::Jpeg, (8, 8), &[101, 1, 0]).is_none());
    assert!(read(ItemKind::Jpeg, (8, 8), &[128, 1, 0]).is_none());
    assert!(read(ItemKind::Jpeg, (8, 8), &[128 + 101, 1, 0]).is_none());
    // DT-24.
    assert!(read(ItemKind::Jpeg, (7, 8), &[80, 1, 0]).is_none());
    // A length beyond what is there.
    assert!(read(ItemKind::RgbZstd, (8, 8), &[0xff; 8]).is_none());
}

#[test]
fn frames_that_expand_to_anything_else_are_refused() {
    // DT-21: a frame of 16 MiB of zeros is 500 bytes; a rectangle of 64 pixels wants 192.
    let mut squeezer = encode::Squeezer::new();
    let bomb = squeezer.squeeze(&vec![0; 1 << 24]).to_vec();
    assert!(bomb.len() < 2000);
    let mut expander = decode::Expander::new();
    assert!(expander.expand(&bomb, 192).is_none());
    let short = squeezer.squeeze(&[1; 191]).to_vec();
    assert!(expander.expand(&short, 192).is_none());
    assert_eq!(expander.expand(&short, 191).map(|c| c.to_vec()), Some(vec![1; 191]));
}

#[test]
fn short_repetitions_are_written_and_long_ones_named() {
    // Words that come again, two random bytes behind each; and the same bytes in disorder, without any word.
    for (length, named) in [(5, false), (6, false), (12, true)] {
        let mut rng = Rng::new(5);
        let mut some = |n: usize| (0..n).map(|_| rng.next() as u8).collect::<Vec<u8>>();
        let words: Vec<Vec<u8>> = (0..50).map(|_| some(length)).collect();
        let content: Vec<u8> = (0..400).flat_map(|n| [&words[n % 50][..], &some(2)].concat()).collect();
        let mut mixed = content.clone();
        (1..mixed.len()).for_each(|n| mixed.swap(n, rng.below(n as u64 + 1) as usize));
        let mut squeezer = encode::Squeezer::new();
        let [words, letters] = [&content, &mixed].map(|content| squeezer.squeeze(content).to_vec());
        assert_eq!(
            words.len() * 10 < letters.len() * 9,
            named,
            "{length}: {}, {}",
            words.len(),
            letters.len()
        );
        let found = decode::Expander::new().expand(&words, content.len()).map(|found| found.to_vec());
        assert_eq!(found, Some(content));
    }
}

#[test]
fn markers_inside_a_scan_are_refused() {
    // DT-23: dimensions of 65535 x 65535 in a second header, tables, a restart, an end.
    let rect = Rect::sized(16, 16);
    let (mut decoder, huge) =
        (RectangleDecoder::new(), [0xff, 0xc0, 0, 11, 8, 0xff, 0xff, 0xff, 0xff, 1, 1, 0x11, 0]);
    for scan in
        [&huge[..], &[0xff, 0xc4, 0, 2], &[1, 2, 0xff, 0xd0, 3], &[0xff, 0xd9], &[7, 0xff], &[0xff, 0xff, 0]]
    {
        assert!(
            decoder.decode(rect, CodedPixels::Jpeg { form: JpegForm::halved(80), scan }).is_err(),
            "{scan:02x?}"
        );
    }
}

proptest! {
    #[test]
    fn mutated_items_are_decoded_or_refused(
        seed: u64, lossless: bool, colours in prop::sample::select(vec![0u64, 2, 40, 300]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut rng = Rng::new(seed);
        let fb = screen(40, 30, colours, &mut rng);
        let loss = if lossless { PixelLoss::None } else { PixelLoss::Allowed };
        let (mut item, room) = (Vec::new(), PieceRoom { wanted: 1 << 20, most: 1 << 20, step: 4 });
        RectangleEncoder::new(80, seed % 2 == 0).encode(&fb, fb.bounds(), loss, room, &mut item).unwrap();
        for (at, byte) in changes {
            let at = at.index(item.len());
            item[at] = byte;
        }
        let mut f = FieldReader::new(&item, "an item");
        let kind = ItemKind::ALL[f.u8().unwrap() as usize % ItemKind::ALL.len()];
        if let Ok(rect) = f.rect() {
            let rect = Rect::sized(4096, 4096).intersection(rect);
            if let Ok(coded) = CodedPixels::read(kind, rect, &mut f) {
                if let Ok(pixels) = RectangleDecoder::new().decode(rect, coded) {
                    prop_assert_eq!(pixels.len(), rect.area());
                }
            }
        }
    }

    #[test]
    fn random_scans_are_decoded_or_refused(scan in prop::collection::vec(any::<u8>(), 0..400), w in 8u16..80, h in 8u16..80) {
        let scan: Vec<u8> = scan.into_iter().flat_map(|b| if b == 0xff { vec![b, 0] } else { vec![b] }).collect();
        let rect = Rect::sized(w, h);
        let mut decoder = RectangleDecoder::new();
        let form = JpegForm::halved(80);
        if let Ok(pixels) = decoder.decode(rect, CodedPixels::Jpeg { form, scan: &scan }) {
            prop_assert_eq!(pixels.len(), rect.area());
        }
    }
}
