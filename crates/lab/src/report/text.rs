//! Numbers and text for readers and for HTML.

use std::fmt::Write as _;

use quickset_base::number::Float as _;

/// A number with as many places as matter.
pub(crate) fn number(value: f64) -> String {
    let places = match value.abs() {
        x if x >= 100.0 => 0,
        x if x >= 10.0 => 1,
        x if x >= 0.1 => 2,
        // Three digits, however small: what is there is not nothing.
        x if x > 0.0 => (2.0 - x.log10().floor()).min(f64::from(MOST_PLACES)).whole::<usize>(),
        _ => 0,
    };
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A share as a percentage.
pub(crate) fn percent(share: f64) -> String {
    if share > 0.0 { format!("{:.1} %", share * 100.0) } else { "0 %".to_owned() }
}

/// A quantity of the link, `100mbit` or `9MB`, as it is printed.
pub(crate) fn size(text: &str) -> String {
    for (unit, printed) in
        [("kbit", " kbit/s"), ("mbit", " Mbit/s"), ("gbit", " Gbit/s"), ("tbit", " Tbit/s")]
    {
        if let Some(number) = text.strip_suffix(unit) {
            return format!("{number}{printed}");
        }
    }
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    match text.split_at(digits) {
        ("", _) | (_, "") => text.to_owned(),
        (number, unit) => format!("{number} {unit}"),
    }
}

/// Text for between tags and for attributes.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('\'', "&#39;")
        .replace('"', "&quot;")
}

/// Text as the data of a link that has it in itself (RFC 2397, RFC 3986 §2.1).
pub(crate) fn in_link(text: &str) -> String {
    let mut link = String::with_capacity(text.len() + text.len() / 4);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~,:/+".contains(&byte) {
            link.push(char::from(byte));
        } else {
            let _ = write!(link, "%{byte:02X}");
        }
    }
    link
}

/// RFC 4648 §4.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let at = |i: usize| u32::from(group.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for i in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * i) & 63) as usize];
            text.push(if i <= group.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

/// A line of an axis that has one every `step`: with the places that tell it from the next.
pub(crate) fn on_axis(value: f64, step: f64) -> String {
    let is_whole = |places: &u8| {
        let scaled = step * 10f64.powi(i32::from(*places));
        (scaled - scaled.round()).abs() < 1e-6 * scaled
    };
    let places = usize::from((0..MOST_PLACES).find(is_whole).unwrap_or_default());
    format!("{value:.places$}")
}

/// What is smaller than a picosecond in seconds is noise of arithmetic.
const MOST_PLACES: u8 = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_places_that_matter() {
        let all = [0.0, 0.004, 0.25, 3.456, 36.64, 104.2, 1000.0];
        assert_eq!(all.map(number), ["0", "0.004", "0.25", "3.46", "36.6", "104", "1000"]);
        // 400 ns in milliseconds are not nothing, and 1.5 µs not 2.
        let small = [0.000_4, 0.001_5, -0.012_34, 0.099_96, f64::NAN];
        assert_eq!(small.map(number), ["0.0004", "0.0015", "-0.0123", "0.1", "NaN"]);
        assert_eq!([0.4371, 0.0].map(percent), ["43.7 %", "0 %"]);
    }

    #[test]
    fn lines_of_an_axis_are_told_apart() {
        for (step, lines) in [
            (2.5, ["0.0", "2.5", "5.0", "7.5"]),
            (0.025, ["0.000", "0.025", "0.050", "0.075"]),
            (0.000_2, ["0.0000", "0.0002", "0.0004", "0.0006"]),
            (20.0, ["0", "20", "40", "60"]),
        ] {
            assert_eq!([0.0, 1.0, 2.0, 3.0].map(|n| on_axis(n * step, step)), lines);
        }
    }

    #[test]
    fn quantities_and_markup() {
        assert_eq!(
            ["100mbit", "9MB", "0.5%", "ge:1%,25%", "unlimited"].map(size),
            ["100 Mbit/s", "9 MB", "0.5 %", "ge:1%,25%", "unlimited"]
        );
        assert_eq!(escaped("<a & 'b'>"), "&lt;a &amp; &#39;b&#39;&gt;");
    }

    #[test]
    fn links_hold_nothing_that_ends_them() {
        assert_eq!(in_link("a,1.5\n'%\" é<"), "a,1.5%0A%27%25%22%20%C3%A9%3C");
    }

    #[test]
    fn base64_has_the_values_of_its_rfc() {
        // RFC 4648 §10.
        let pairs = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
        ];
        for (plain, coded) in pairs {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
}
