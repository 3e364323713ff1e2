use quickset_base::number::Unsigned as _;

/// The colour of a palette index as red, green, blue.
pub fn rgb(index: u8) -> [u8; 3] {
    match index {
        0..SKY => INTERFACE[usize::from(index) % INTERFACE.len()],
        SKY..FILM => blend(&WALLPAPER, index - SKY, FILM - SKY - 1),
        FILM..GREY => blend(&SUNSET, index - FILM, GREY - FILM - 1),
        GREY.. => [((u16::from(index - GREY) * 255) / u16::from(u8::MAX - GREY)).saturated::<u8>(); 3],
    }
}

/// Between stops that are evenly spaced, `at` of `last`.
fn blend(stops: &[[u8; 3]], at: u8, last: u8) -> [u8; 3] {
    let position = usize::from(at) * (stops.len() - 1) * 256 / usize::from(last);
    let (stop, part) = ((position / 256).min(stops.len() - 2), position);
    let part = part - stop * 256;
    std::array::from_fn(|i| {
        let (from, to) = (usize::from(stops[stop][i]), usize::from(stops[stop + 1][i]));
        ((from * (256 - part) + to * part) / 256).saturated::<u8>()
    })
}

/// Where the shades of the wallpaper begin.
pub(crate) const SKY: u8 = 16;
/// Where the shades of the video begin.
pub(crate) const FILM: u8 = 80;
/// Where the greys begin.
pub(crate) const GREY: u8 = 208;
/// Shades of the wallpaper.
pub(crate) const SKY_SHADES: usize = (FILM - SKY) as usize;
/// Shades of the video.
pub(crate) const FILM_SHADES: usize = (GREY - FILM) as usize;

pub(crate) const BLACK: u8 = 0;
pub(crate) const WHITE: u8 = 1;
pub(crate) const PAPER: u8 = 2;
pub(crate) const INK: u8 = 3;
pub(crate) const TITLE: u8 = 4;
pub(crate) const TITLE_TEXT: u8 = 5;
pub(crate) const TERMINAL: u8 = 6;
pub(crate) const GREEN: u8 = 7;
pub(crate) const AMBER: u8 = 8;
pub(crate) const RED: u8 = 9;
pub(crate) const BLUE: u8 = 10;
pub(crate) const PANEL: u8 = 11;
pub(crate) const EDGE: u8 = 12;
pub(crate) const MUTED: u8 = 13;
pub(crate) const LEAF: u8 = 14;
pub(crate) const SHADE: u8 = 15;

const INTERFACE: [[u8; 3]; 16] = [
    [0, 0, 0],
    [255, 255, 255],
    [250, 249, 246],
    [45, 48, 56],
    [52, 58, 70],
    [226, 230, 236],
    [24, 27, 34],
    [126, 211, 133],
    [236, 190, 92],
    [226, 98, 92],
    [108, 166, 236],
    [33, 37, 46],
    [20, 22, 28],
    [139, 147, 160],
    [92, 170, 110],
    [214, 216, 220],
];
const WALLPAPER: [[u8; 3]; 4] = [[22, 54, 66], [30, 92, 94], [68, 134, 110], [152, 182, 132]];
const SUNSET: [[u8; 3]; 6] =
    [[14, 18, 44], [58, 40, 92], [142, 62, 102], [222, 104, 84], [248, 176, 98], [255, 240, 196]];
