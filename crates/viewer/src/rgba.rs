//! Pixels as a canvas takes them: red, green, blue, alpha, a byte each.

use quickset_rfb::Cursor;

/// Rows of pixels, each of them opaque.
pub(crate) fn opaque<'a>(rows: impl Iterator<Item = &'a [u32]>, out: &mut Vec<u8>) {
    out.clear();
    for row in rows {
        out.extend(row.iter().flat_map(|&colour| pixel(colour, 0xff)));
    }
}

/// A cursor, which its mask makes opaque; nothing of it when it has fewer pixels than it says.
pub(crate) fn masked(cursor: &Cursor) -> Vec<u8> {
    let (width, stride) = (usize::from(cursor.width), usize::from(cursor.width).div_ceil(8));
    let rows = (0..usize::from(cursor.height)).flat_map(|row| (0..width).map(move |column| (row, column)));
    let pixels = rows.map(|(row, column)| {
        let colour = cursor.pixels.get(row * width + column)?;
        let bits = cursor.mask.get(row * stride + column / 8)?;
        let alpha = if bits & (0x80 >> (column % 8)) == 0 { 0 } else { 0xff };
        Some(pixel(*colour, alpha))
    });
    pixels.collect::<Option<Vec<_>>>().unwrap_or_default().concat()
}

/// From 0x00RRGGBB.
fn pixel(colour: u32, alpha: u8) -> [u8; 4] {
    let [_, red, green, blue] = colour.to_be_bytes();
    [red, green, blue, alpha]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_canvas_has_red_first_and_all_of_it_opaque() {
        let mut out = vec![9; 3];
        opaque([&[0x0011_2233, 0xff00_00ff][..], &[0, 0x00ff_ffff]].into_iter(), &mut out);
        let expected = [0x11, 0x22, 0x33, 255, 0, 0, 255, 255, 0, 0, 0, 255, 255, 255, 255, 255];
        assert_eq!(out, expected);
    }

    #[test]
    fn a_cursor_is_seen_where_its_mask_has_a_one() {
        // Nine columns, so that a row of the mask has two bytes.
        let pixels = (0..18).collect();
        let mask = vec![0x80, 0x80, 0x01, 0x00];
        let cursor = Cursor { width: 9, height: 2, hot_x: 0, hot_y: 0, pixels, mask };
        let seen: Vec<u8> = masked(&cursor).chunks(4).filter(|p| p[3] == 255).map(|p| p[2]).collect();
        assert_eq!(seen, [0, 8, 16]);
        assert_eq!(masked(&cursor).len(), 18 * 4);
        let cut = Cursor { mask: vec![0xff], ..cursor };
        assert_eq!(masked(&cut), Vec::<u8>::new());
    }
}
