/// An XWD file, version 7: a sky above and noise below, so that every codec has something to do.
pub(crate) fn picture(width: u32, height: u32) -> Vec<u8> {
    let header = [
        108,
        7,
        2,
        24,
        width,
        height,
        0,
        1,
        32,
        1,
        32,
        32,
        width * 4,
        4,
        0xff_0000,
        0xff00,
        0xff,
        8,
        256,
        0,
        width,
        height,
        0,
        0,
        0,
    ];
    let mut file: Vec<u8> = header.iter().flat_map(|n: &u32| n.to_be_bytes()).collect();
    // The title.
    file.extend(b"photo\0\0\0");
    let mut noise = 1_u32;
    for y in 0..height {
        for x in 0..width {
            noise ^= noise << 13;
            noise ^= noise >> 17;
            noise ^= noise << 5;
            let sky = (x * 255 / width) << 16 | (y * 255 / height) << 8 | u32::midpoint(x, y);
            let pixel = if y < height / 2 { sky } else { noise & 0xff_ffff };
            file.extend(pixel.to_be_bytes());
        }
    }
    file
}
