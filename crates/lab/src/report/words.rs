use std::fmt::Write as _;

use crate::demo::{Mode, Row};

/// What the numbers of a pace say, in sentences.
pub(crate) fn verdict(rows: &[&Row], rtt_ms: f64) -> String {
    let of = |mode| rows.iter().find(|row| row.mode == mode);
    let (Some(total), Some(partial), Some(latest)) = (of(Mode::Total), of(Mode::Partial), of(Mode::Latest))
    else {
        return String::new();
    };
    let mut text = format!(
        "Held back by others although they had arrived: {} of the messages in total order, {} with a fence after each \
         update, {} without fences. ",
        percent(total.blocked_share),
        percent(partial.blocked_share),
        percent(latest.blocked_share)
    );
    let (a, b) = (&total.blocking_ms, &partial.blocking_ms);
    let _ = write!(
        text,
        "Four in five waited at most {} ms in total and {} ms in partial order, ninety-nine in a hundred at most {} and \
         {} ms. ",
        number(a.p80),
        number(b.p80),
        number(a.p99),
        number(b.p99)
    );
    let period_ms = 1000.0 / f64::from(total.updates_per_s);
    if period_ms < rtt_ms * 0.75 {
        let _ = write!(
            text,
            "Updates come every {} ms and a lost packet takes a round trip of {} ms to be noticed and sent again: an \
             incomplete update holds several behind it in either order, and so the two come close. A fast stream is \
             helped by what fills the hole sooner, which is forward erasure correction, or by what need not wait, as \
             in the mode latest.",
            number(period_ms),
            number(rtt_ms)
        );
    } else {
        text.push_str(
            "The next update comes about when a lost packet has been sent again, or later, so a fence has little to \
             hold; total order holds what follows within the same update as well.",
        );
    }
    text
}

/// A number with as many places as matter.
pub(crate) fn number(value: f64) -> String {
    let places = match value.abs() {
        x if x >= 100.0 => 0,
        x if x >= 10.0 => 1,
        x if x >= 0.1 => 2,
        _ => 3,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_places_that_matter() {
        let all = [0.0, 0.004, 0.25, 3.456, 36.64, 104.2, 1000.0];
        assert_eq!(all.map(number), ["0", "0.004", "0.25", "3.46", "36.6", "104", "1000"]);
        assert_eq!([0.4371, 0.0].map(percent), ["43.7 %", "0 %"]);
    }

    #[test]
    fn quantities_and_markup() {
        assert_eq!(
            ["100mbit", "9MB", "0.5%", "ge:1%,25%", "unlimited"].map(size),
            ["100 Mbit/s", "9 MB", "0.5 %", "ge:1%,25%", "unlimited"]
        );
        assert_eq!(escaped("<a & 'b'>"), "&lt;a &amp; &#39;b&#39;&gt;");
    }
}
