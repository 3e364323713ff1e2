//! Pixels as three planes of prediction errors: small numbers where a picture is smooth.

use quickset_rfb::{Framebuffer, Outside, Rect};

use super::super::predict;

/// Appends the planes of `rect`: green, red minus green, blue minus green.
pub(super) fn split(screen: &Framebuffer, rect: Rect, out: &mut Vec<u8>) -> Result<(), Outside> {
    let (width, area, start) = (rect.width() as usize, rect.area(), out.len());
    out.resize(start + 3 * area, 0);
    let mut above: Option<&[u32]> = None;
    for (y, row) in screen.rows(rect)?.enumerate() {
        // Left and above left of the pixel; nothing is left of the first.
        let (mut a, mut c) = ([0; 3], [0; 3]);
        for (x, &pixel) in row.iter().enumerate() {
            let here = components(pixel);
            let b = above.map_or([0; 3], |row| components(row[x]));
            for plane in 0..3 {
                let at = start + plane * area + y * width + x;
                out[at] = here[plane].wrapping_sub(predict(a[plane], b[plane], c[plane]));
            }
            (a, c) = (here, b);
        }
        above = Some(row);
    }
    Ok(())
}

fn components(pixel: u32) -> [u8; 3] {
    let [_, r, g, b] = pixel.to_be_bytes();
    [g, r.wrapping_sub(g), b.wrapping_sub(g)]
}
