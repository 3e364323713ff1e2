use proptest::prelude::*;

use super::*;

/// A code of all rows, or of as many as there is room for.
fn encode(width: usize, pixels: &[u32], room: Option<CodeRoom>) -> (Vec<u8>, usize) {
    let mut colours: Vec<u32> = Vec::new();
    let mut index = |pixel: &u32| {
        let place = colours.iter().position(|colour| colour == pixel).unwrap_or_else(|| {
            colours.push(*pixel);
            colours.len() - 1
        });
        u8::try_from(place).unwrap()
    };
    let indices: Vec<u8> = pixels.iter().map(&mut index).collect();
    let rows = pixels.len() / width;
    let endless = CodeRoom { wanted: 1 << 20, most: 1 << 20, first: rows, step: 1, rows };
    let mut code = vec![9; 5];
    let done = PixelModel::new().encode(width, room.unwrap_or(endless), &indices, &colours, &mut code);
    (code, done)
}

fn decode(width: usize, height: usize, code: &[u8]) -> Option<Vec<u32>> {
    let mut pixels = vec![7; width * height];
    PixelModel::new().decode(width, code, &mut pixels).map(|()| pixels)
}

/// Letters of a few pixels, in rows, in shades between two colours.
fn text(width: usize, height: usize, shades: u32, seed: u64) -> Vec<u32> {
    let mut rng = quickset_base::Rng::new(seed);
    let letters: Vec<Vec<u32>> =
        (0..12).map(|_| (0..80).map(|_| rng.below(3 * u64::from(shades)) as u32).collect()).collect();
    let line: Vec<usize> =
        (0..width.div_ceil(8) * height.div_ceil(12)).map(|_| rng.below(12) as usize).collect();
    (0..width * height)
        .map(|at| {
            let (x, y) = (at % width, at / width);
            let letter = &letters[line[y / 12 * width.div_ceil(8) + x / 8]];
            let shade = letter.get(y % 12 * 8 + x % 8).copied().filter(|&shade| shade < shades).unwrap_or(0);
            0xff_ffff - shade * (0xff_ffff / shades / 0x01_0101) * 0x01_0101
        })
        .collect()
}

#[test]
fn a_code_is_what_the_specification_says() {
    // spec/desktop.md §15, which a decoder in another language, written after §6, reads as these pixels.
    let (b, w) = (0, 0xff_ffff);
    let (code, rows) = encode(4, &[b, w, b, w, w, b, w, b], None);
    assert_eq!(rows, 2);
    assert_eq!(code, EXAMPLE);
    assert_eq!(decode(4, 2, &EXAMPLE), Some(vec![b, w, b, w, w, b, w, b]));
}

#[test]
fn a_code_of_another_length_is_refused() {
    // DT-79.
    let pixels = text(64, 48, 20, 3);
    let (code, _) = encode(64, &pixels, None);
    for cut in 0..code.len() {
        assert_eq!(decode(64, 48, &code[..cut]), None, "{cut} of {}", code.len());
    }
    for more in [&[0][..], &[7], &[0; 200]] {
        assert_eq!(decode(64, 48, &[&code[..], more].concat()), None);
    }
    assert_eq!(decode(64, 40, &code), None);
    assert_eq!(decode(64, 56, &code), None);
}

#[test]
fn letters_that_come_again_cost_little() {
    // Twelve letters, 512 times; and the same pixels in disorder.
    let pixels = text(256, 192, 4, 1);
    let (mut mixed, mut rng) = (pixels.clone(), quickset_base::Rng::new(2));
    (1..mixed.len()).for_each(|n| mixed.swap(n, rng.below(n as u64 + 1) as usize));
    let [(code, _), (disorder, _)] = [&pixels, &mixed].map(|pixels| encode(256, pixels, None));
    assert!(code.len() * 5 < disorder.len() * 4, "{} for {}", code.len(), disorder.len());
    assert_eq!(decode(256, 192, &code), Some(pixels));
    // One colour is next to nothing, whatever the size.
    let (code, _) = encode(512, &vec![0x12_3456; 512 * 100], None);
    assert!(code.len() < 12, "{}", code.len());
}

#[test]
fn a_model_keeps_nothing_of_other_rectangles() {
    // More than it can tell apart, so that it begins anew among them.
    let (mut used, mut rng) = (PixelModel::new(), quickset_base::Rng::new(4));
    for n in 0..600 {
        let pixels = text(24, 12, 1 + n % 9, rng.next());
        let (code, _) = encode(24, &pixels, None);
        let mut found = vec![7; pixels.len()];
        assert_eq!(used.decode(24, &code, &mut found), Some(()), "{n}");
        assert_eq!(found, pixels, "{n}");
    }
}

#[test]
fn a_colour_more_than_there_are_numbers_is_refused() {
    // DT-79.
    let mut model = PixelModel::new();
    for colour in 0..256 {
        assert_eq!(model.colours.index(colour * 0x0001_0203), u8::try_from(colour).ok());
    }
    assert_eq!(model.colours.index(255 * 0x0001_0203), Some(255));
    assert_eq!(model.colours.index(0x00ff_fff0), None);
}

proptest! {
    #[test]
    fn pixels_come_back(
        seed: u64, width in 1usize..80, height in 1usize..60, shades in 1u32..80, noise in 0u64..4,
    ) {
        let mut rng = quickset_base::Rng::new(seed);
        let mut pixels = text(width, height, shades, seed);
        for pixel in &mut pixels {
            if noise > 0 && rng.below(40) < noise {
                *pixel = (rng.next() as u32 & 0x3f) * 0x04_0201;
            }
        }
        let (code, rows) = encode(width, &pixels, None);
        prop_assert_eq!(rows, height);
        prop_assert_eq!(decode(width, height, &code), Some(pixels));
    }

    #[test]
    fn a_code_ends_where_there_is_no_more_room(
        seed: u64, width in 16usize..200, height in 20usize..120, wanted in 20usize..600, more in 0usize..400,
        first in 1usize..17,
    ) {
        let pixels = text(width, height, 30, seed);
        let (whole, _) = encode(width, &pixels, None);
        let room = CodeRoom { wanted, most: wanted + more, first, step: 16, rows: height };
        let (code, rows) = encode(width, &pixels, Some(room));
        if rows == 0 {
            // Not even its first part fits.
            let (least, _) = encode(width, &pixels[..width * first.min(height)], None);
            prop_assert!(least.len() > wanted + more);
            return Ok(());
        }
        prop_assert!(code.len() <= wanted + more);
        prop_assert!(rows == height || (rows - first) % 16 == 0, "{}", rows);
        // What it has is what the first rows have by themselves.
        let (alone, _) = encode(width, &pixels[..width * rows], None);
        prop_assert_eq!(&code, &alone);
        prop_assert_eq!(decode(width, rows, &code), Some(pixels[..width * rows].to_vec()));
        if whole.len() <= wanted {
            prop_assert_eq!(rows, height);
        }
    }

    #[test]
    fn whatever_comes_is_pixels_or_refused(
        code in prop::collection::vec(any::<u8>(), 0..300), width in 1usize..300, height in 1usize..200,
    ) {
        let _ = decode(width, height, &code);
    }
}

const EXAMPLE: [u8; 5] = [0xff, 0x79, 0xc0, 0x83, 0xb0];
