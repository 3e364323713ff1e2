//! A film that is made up.

use std::sync::OnceLock;

use quickset_base::Rng;
use quickset_rfb::Rect;

/// A picture of a film: noise like that of a photograph, which pans. In each square of 32 pixels the first 8
/// say by their grey which picture it is.
pub(crate) fn picture(n: usize, size: Rect) -> Vec<u32> {
    let pixel = |at: usize| {
        let (x, y) = (at % usize::from(size.width()), at / usize::from(size.width()));
        if x % 32 < 8 && y % 32 < 8 {
            return (n % 8 * 32 + 16) as u32 * 0x01_0101;
        }
        texture_at(x + 3 * n, y + 2 * n)
    };
    (0..size.area()).map(pixel).collect()
}

/// The first picture with colours whose details are as fine as those of its grey.
pub(crate) fn colourful(size: Rect) -> Vec<u32> {
    let pixel = |(at, grey): (usize, u32)| {
        let (x, y) = (at % usize::from(size.width()), at / usize::from(size.width()));
        // The texture at a fourth of its size.
        let detail = texture_at(4 * x + 500, 4 * y + 300).to_be_bytes().map(i32::from);
        let [_, red, green, blue] = grey.to_be_bytes().map(i32::from);
        let more = |value: i32, n: usize| (value + (detail[n] - detail[2]) / 3).clamp(0, 255) as u32;
        more(red, 1) << 16 | (green as u32) << 8 | more(blue, 3)
    };
    picture(0, size).into_iter().enumerate().map(pixel).collect()
}

fn texture_at(x: usize, y: usize) -> u32 {
    static TEXTURE: OnceLock<Vec<u32>> = OnceLock::new();
    TEXTURE.get_or_init(texture)[y % SIDE * SIDE + x % SIDE]
}

fn texture() -> Vec<u32> {
    let mut rng = Rng::new(5);
    // Octaves of noise, each weaker than the one before and twice as fine.
    let mut values = vec![[0_i32; 3]; SIDE * SIDE];
    for octave in 0..8 {
        let side = 4_usize << octave;
        let mut node = |most: i32| rng.below(2 * most as u64 + 1) as i32 - most;
        let nodes: Vec<[i32; 3]> = (0..side * side)
            .map(|_| {
                let grey = node([50, 40, 32, 25, 20, 16, 12, 9][octave]);
                [0; 3].map(|_: i32| grey + node([22, 16, 12, 9, 6, 4, 3, 0][octave]))
            })
            .collect();
        let step = SIDE / side;
        for (at, value) in values.iter_mut().enumerate() {
            let (x, y) = (at % SIDE, at / SIDE);
            let [fx, fy, s] = [x % step, y % step, step].map(|n| i32::from(n as u16));
            let node = |dx, dy| nodes[(y / step + dy) % side * side + (x / step + dx) % side];
            for (c, value) in value.iter_mut().enumerate() {
                let top = node(0, 0)[c] * (s - fx) + node(1, 0)[c] * fx;
                let bottom = node(0, 1)[c] * (s - fx) + node(1, 1)[c] * fx;
                *value += (top * (s - fy) + bottom * fy) / (s * s);
            }
        }
    }
    // The grain is grey, and the finest octave as well: the colours of a film have half its resolution.
    let texture = values.iter().map(|value| {
        let grain = rng.below(9) as i32 - 4;
        value.iter().fold(0, |pixel, v| pixel << 8 | (v + 128 + grain).clamp(0, 255) as u32)
    });
    texture.collect()
}

/// Of the texture, in pixels.
const SIDE: usize = 1024;
