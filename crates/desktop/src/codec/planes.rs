//! Pixels as three planes of prediction errors: small numbers where a picture is smooth.

use quickset_rfb::{Framebuffer, Outside, Rect};

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

/// Reads what [`split`] has written for a rectangle of `width`; three times its area. The planes are worked
/// on in place.
pub(super) fn join(planes: &mut [u8], width: usize, out: &mut Vec<u32>) {
    let area = planes.len() / 3;
    for plane in planes.chunks_exact_mut(area) {
        let mut above: &[u8] = &[];
        for row in plane.chunks_exact_mut(width) {
            let (mut a, mut c) = (0, 0);
            for (x, value) in row.iter_mut().enumerate() {
                let b = above.get(x).copied().unwrap_or(0);
                *value = value.wrapping_add(predict(a, b, c));
                (a, c) = (*value, b);
            }
            above = row;
        }
    }
    let (green, rest) = planes.split_at(area);
    let (red, blue) = rest.split_at(area);
    out.extend(
        green
            .iter()
            .zip(red)
            .zip(blue)
            .map(|((&g, &r), &b)| u32::from_be_bytes([0, r.wrapping_add(g), g, b.wrapping_add(g)])),
    );
}

fn components(pixel: u32) -> [u8; 3] {
    let [_, r, g, b] = pixel.to_be_bytes();
    [g, r.wrapping_sub(g), b.wrapping_sub(g)]
}

/// The middle one of a, b and a + b - c: an edge is followed, a slope goes on.
fn predict(a: u8, b: u8, c: u8) -> u8 {
    let (low, high) = (a.min(b), a.max(b));
    if c >= high {
        low
    } else if c <= low {
        high
    } else {
        // Between low and high, since c is.
        low + (high - c)
    }
}
