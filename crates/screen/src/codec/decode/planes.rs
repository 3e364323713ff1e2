//! Planes of prediction errors to pixels.

use super::super::predict;

/// Reads the planes of a rectangle of `width`; three times its area. The planes are worked
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
