//! What keys, values and measures are called where people read them.

use quickset_sim::LossModel;

pub(crate) use super::measures::{Better, ReportMeasure};
use crate::experiment::{ExperimentKey, HTTP1, Value};
use crate::report::text::{number, size};

/// `blocking_ms.p99` as `blocking time, 99 %`.
pub(crate) fn metric(path: &str) -> String {
    if let Some(beside) = Beside::of(path) {
        let how = if beside.is_difference { "beyond" } else { "over" };
        return format!("{} {how} that of {}", metric(beside.metric), beside.other_in_words());
    }
    let (base, stat) = split(path);
    let label = ReportMeasure::of(base).map_or(base, |measure| measure.label);
    match stat {
        None => label.to_owned(),
        Some("mean") => format!("{label}, mean"),
        Some("max") => format!("{label}, longest"),
        Some("p50") => format!("{label}, median"),
        Some(BELOW_ONE) => format!("{label}, share of points below 1"),
        Some(GAINING) => format!("{label}, mean of points that gain"),
        Some(LOSING) => format!("{label}, mean of points that lose"),
        Some(stat) => match fraction(stat) {
            Some(p) => format!("{label}, {} %", number_of_percent(p)),
            None => format!("{label}, {stat}"),
        },
    }
}

/// A measure of a run beside that of another alternative under the same losses: `bytes_sent/plain` is how
/// much is sent for each byte of plain QUIC, `blocking_ms.p99-total` how much longer messages wait than in
/// total order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Beside<'a> {
    pub(crate) metric: &'a str,
    pub(crate) other: &'a str,
    /// The other is taken from it; else it is divided by the other.
    pub(crate) is_difference: bool,
}

impl<'a> Beside<'a> {
    pub(crate) fn of(path: &'a str) -> Option<Self> {
        // Measures have neither sign in their names; alternatives may.
        let at = path.find([OVER, LESS])?;
        let (metric, rest) = path.split_at(at);
        Some(Self { metric, other: &rest[1..], is_difference: rest.starts_with(LESS) })
    }

    fn other_in_words(self) -> String {
        plain("mode", &Value::Text(self.other.to_owned()))
    }
}

/// Whether a path is a ratio to another alternative.
pub(crate) fn is_ratio(path: &str) -> bool {
    Beside::of(path).is_some_and(|beside| !beside.is_difference)
}

pub(super) const OVER: char = '/';
pub(super) const LESS: char = '-';

/// What a ratio of one means, of a measure that is one.
pub(crate) fn unity(path: &str) -> Option<String> {
    match path {
        "dct_ratio" => Some("as plain QUIC".to_owned()),
        "dct_over_ideal" => Some("ideal".to_owned()),
        path if is_ratio(path) => Some(format!("as {}", Beside::of(path)?.other_in_words())),
        _ => None,
    }
}

/// What the parts of a figure are of.
pub(crate) const WHOLE: &str = "processor time of the server";

/// What a measure or a key is called, without its unit.
pub(crate) fn name(path: &str) -> String {
    match ReportMeasure::of(path) {
        Some(_) => metric(path),
        None if path == "ack" => "packets for an acknowledgement".to_owned(),
        None => ExperimentKey::find(path).map_or(path, |key| key.about).to_owned(),
    }
}

/// The statistic of a ratio that says how many points gain.
pub(crate) const BELOW_ONE: &str = "below_one";
/// Of a number the mean over the points that are faster than plain QUIC, and over those that are slower.
pub(crate) const GAINING: &str = "gaining";
/// See [`GAINING`].
pub(crate) const LOSING: &str = "losing";

/// A value of a measure in the unit that is shown, without it.
pub(crate) fn shown(path: &str, value: f64) -> String {
    number(value * factor(path))
}

/// A value of a measure with its unit.
pub(crate) fn with_unit(path: &str, value: f64) -> String {
    match unit(path) {
        "" => shown(path, value),
        unit => format!("{} {unit}", shown(path, value)),
    }
}

/// What numbers of a measure or a key are multiplied with in figures.
pub(crate) fn factor(path: &str) -> f64 {
    match path {
        "loss" | "ge_p" | "cross_share" => 100.0,
        "rwin" | "send_buffer" => 1e-3,
        path if is_ratio(path) => 1.0,
        path => ReportMeasure::of(path).map_or(1.0, |measure| measure.factor),
    }
}

/// The unit of a measure; empty for counts and ratios.
pub(crate) fn unit(path: &str) -> &'static str {
    ReportMeasure::of(path).filter(|_| !is_ratio(path)).map_or("", |measure| measure.unit)
}

/// The label of an axis: a measure or a key, with the unit.
pub(crate) fn axis(path: &str) -> String {
    let name = name(path);
    match (unit(path), path) {
        ("", "rtt_ms" | "owd_ms" | "deadline_ms") => format!("{name}, ms"),
        ("", "rate_mbit") => format!("{name}, Mbit/s"),
        ("", "loss" | "ge_p" | "cross_share") => format!("{name}, %"),
        ("", "rwin" | "send_buffer") => format!("{name}, kB"),
        ("", _) => name,
        (unit, _) => format!("{name}, {unit}"),
    }
}

/// Where something was published: `figure 9`, or as the paper calls it.
pub(crate) fn cited(figure: &str) -> String {
    if figure.starts_with(|c: char| c.is_ascii_digit()) {
        let is_several = figure.contains([',', ' ']);
        format!("{} {figure}", if is_several { "figures" } else { "figure" })
    } else {
        figure.to_owned()
    }
}

/// What a fold says: how many more there are of what.
pub(crate) fn more(count: usize, what: &str) -> String {
    format!("{count} more {what}{}", if count == 1 { "" } else { "s" })
}

/// A path and the statistic behind its dot.
pub(crate) fn split(path: &str) -> (&str, Option<&str>) {
    path.split_once('.').map_or((path, None), |(base, stat)| (base, Some(stat)))
}

/// `p9995` as 0.9995.
pub(crate) fn fraction(stat: &str) -> Option<f64> {
    let digits = stat.strip_prefix('p').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    format!("0.{digits}").parse().ok()
}

fn number_of_percent(p: f64) -> String {
    let text = format!("{:.3}", p * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A key with a value, in words that stand alone: `1 % loss`, `20 ms round trip`.
pub(crate) fn setting(key: &str, value: &Value) -> String {
    let text = plain(key, value);
    match (key, value) {
        ("loss", Value::Number(share)) if *share == 0.0 => "no loss".to_owned(),
        ("loss", Value::Number(_)) => format!("{text} loss"),
        ("loss", Value::Text(model)) => bursts(model).map_or_else(
            || format!("loss {text}"),
            |(share, length)| format!("{} % loss in bursts of {}", number(share * 100.0), number(length)),
        ),
        ("rtt_ms", _) => format!("{text} round trip"),
        ("owd_ms", _) => format!("{text} one way"),
        ("rate_mbit" | "cc" | "mode" | "scene" | "flows" | "size", _) => text,
        ("fec", Value::Text(name)) if name == "none" => "without repair".to_owned(),
        ("fec", _) => format!("repair by {text}"),
        ("fec_window", _) => format!("{text} symbols kept"),
        ("profile", Value::Text(whose)) => match whose.as_str() {
            "as-published" => "as the paper has it".to_owned(),
            "ours" => "our own conventions".to_owned(),
            other => format!("profile {other}"),
        },
        ("queue", Value::Text(queue)) if queue == "flec" => {
            "queue of 1.5 bandwidth-delay products as FlEC counts".to_owned()
        }
        ("queue", _) => format!("queue of {text}"),
        ("api", Value::Text(told)) => match told.as_str() {
            "yes" => "deadlines told to the sender".to_owned(),
            _ => "deadlines not told to the sender".to_owned(),
        },
        ("rival", Value::Text(who)) if who == "none" => "alone".to_owned(),
        ("rival", Value::Text(who)) => format!("beside a plain {} flow", who.to_uppercase()),
        ("cross", Value::Text(kind)) if kind == "none" => "no cross traffic".to_owned(),
        ("cross", _) => format!("{text} cross traffic"),
        ("cross_share", _) => format!("cross traffic of {text} of the link"),
        ("others_mbit", _) => format!("losses driven by {text} Mbit/s of others"),
        ("rwin", Value::Text(_)) => format!("{text} window"),
        ("rwin", _) => format!("window of {text}"),
        ("send_buffer", _) => format!("send buffer of {text}"),
        ("pace", Value::Text(_)) => "at full pace".to_owned(),
        ("pace", _) => format!("{text} updates a second"),
        ("fence_every", _) => format!("a fence every {text}"),
        ("deadline_ms", _) => format!("deadline {text}"),
        ("message_bytes", _) => format!("messages of {text}"),
        ("desktops", Value::Number(1.0)) => "1 desktop".to_owned(),
        ("players", Value::Number(1.0)) => "1 player".to_owned(),
        ("abr", _) => format!("bitrates by {text}"),
        ("segment_s", _) => format!("segments of {text}"),
        ("processor", _) => format!("a core {text} times slower"),
        ("scale", _) => format!("a network {text} times slower"),
        ("desktops" | "players" | "updates" | "messages" | "seconds", _) => format!("{text} {key}"),
        _ => format!("{} {text}", key.replace('_', " ")),
    }
}

/// What an alternative does, for somebody who has not heard of it: a mode, a protection, or both.
pub(crate) fn alternative(key: &str, name: &str) -> Option<String> {
    match (key, name.split_once('+')) {
        ("mode", Some((order, repair))) => Some(format!("as {order}, and {}", protection(repair)?)),
        ("mode", None) => mode(name).map(str::to_owned),
        ("fec", _) if name == "none" => Some("plain QUIC: what is lost is sent again".to_owned()),
        ("fec", _) => protection(name),
        ("ack", _) => acknowledging(name),
        ("priorities", _) => Some(
            match name {
                "flat" => "what is most urgent first, and what is as urgent side by side (RFC 9218)",
                "tree" => {
                    "classes with weights, one within another: what is in a class shares what the class gets"
                }
                _ => return None,
            }
            .to_owned(),
        ),
        ("datapath", _) => Some(
            match name {
                HTTP1 => "HTTP/1.1 over TLS and TCP, of which the system does what a datapath is",
                "plain" => "each datagram by itself, both ways; every second packet is acknowledged",
                "gso" => "many datagrams are sent at once, as many as an acknowledgement lets go",
                "merging" => "the same, and what is received at once is acted on as one",
                "adaptive" => {
                    "the same, and fewer acknowledgements are asked for while they keep the processor busy"
                }
                _ => return None,
            }
            .to_owned(),
        ),
        ("codec", _) => Some(
            match name {
                "rlc" => "random linear combinations over one window of all symbols",
                "rs" => "Reed-Solomon over blocks of 100 symbols, with five repair symbols each",
                "raptorq" => "RaptorQ (RFC 6330) over one block of all symbols",
                _ => return None,
            }
            .to_owned(),
        ),
        _ => None,
    }
}

/// When clients acknowledge, by its name in the library.
fn acknowledging(name: &str) -> Option<String> {
    if name == HTTP1 {
        return Some(
            "no QUIC: HTTP/1.1 over TLS and TCP, which the system acknowledges and cuts into packets"
                .to_owned(),
        );
    }
    let mut parts = name.split(':');
    let (packets, rule, by) = (parts.next()?, parts.next()?, parts.next()?);
    let when = match rule {
        "adaptive" => {
            format!("acknowledged after {packets} packets, or after more where the server asks for it")
        }
        _ => format!("acknowledged after every {packets} packets throughout"),
    };
    let how =
        if by == "merged" { "what is read at once is acted on as one" } else { "each datagram by itself" };
    Some(format!("{when}; {how}"))
}

/// The same where there is little room: after how many packets, and what is not as RFC 9000 has it.
fn acknowledging_in_short(name: &str) -> Option<String> {
    if name == plain("ack", &Value::Text(HTTP1.to_owned())) {
        return Some("HTTP/1.1".to_owned());
    }
    let (packets, rest) = name.split_once(':')?;
    let words: Vec<&str> = rest.split(':').filter(|word| !["fixed", "single"].contains(word)).collect();
    let word = words.iter().find(|word| **word == "adaptive").or(words.first());
    Some(word.map_or(packets.to_owned(), |word| format!("{packets} {word}")))
}

/// What a protection sends, by its name in the library.
fn protection(name: &str) -> Option<String> {
    let (family, parameters) = name.split_once(':').unwrap_or((name, ""));
    let ratio = |code: &str| {
        let (ratio, stride) = parameters.split_once(":stride=").unwrap_or((parameters, ""));
        let (n, k) = ratio.split_once('/')?;
        let repairs = n.parse::<u64>().ok()?.checked_sub(k.parse().ok()?)?;
        let parts =
            if stride.is_empty() { String::new() } else { format!(", interleaved in {stride} parts") };
        Some(format!("{repairs} repair symbols for each {k} behind each fence or flush ({code}{parts})"))
    };
    Some(match family {
        "rs" => ratio("Reed–Solomon")?,
        "ldpc" => ratio("LDPC-Staircase")?,
        "xor" => format!("{parameters} interleaved sums behind each fence or flush"),
        "xor2d" => format!("the sums of rows and columns of {}", parameters.replace('x', " × ")),
        "adaptive" => "as much repair as the measured losses ask for".to_owned(),
        "sr" => "selective repeat: nothing but resends, by the same machinery".to_owned(),
        "fixed" => format!("a repair symbol after each {parameters}"),
        "ac-rlnc" => "repair for the expected losses once a round trip (AC-RLNC)".to_owned(),
        "bulk" => "repair for the last flight (FlEC)".to_owned(),
        "buffer" => "repair where a small receive window holds the sender back (FlEC)".to_owned(),
        "messages" if parameters.is_empty() => {
            "repair as late as deadlines allow (FlEC), by the measured jitter".to_owned()
        }
        "messages" => format!("repair as late as deadlines allow (FlEC), {} before that", size(parameters)),
        "tum" => {
            let (burst, delay) = parameters.split_once(':').unwrap_or((parameters, ""));
            let symbols =
                if burst == "1" { "1 repair symbol".to_owned() } else { format!("{burst} repair symbols") };
            match delay {
                "" => format!("{symbols} behind each flush and end (TUM)"),
                delay => format!("{symbols} {} behind the first packet that none covers (TUM)", size(delay)),
            }
        }
        _ => return None,
    })
}

/// What a mode does.
fn mode(name: &str) -> Option<&'static str> {
    match name {
        "total" => Some("every message waits for all before it, as on a TCP connection or one QUIC stream"),
        "partial" => Some(
            "messages between two fences are let go in whatever order they arrive; nothing crosses a fence before all \
             in front of it is there",
        ),
        "latest" => Some("no message waits, and what newer ones have made outdated is not sent again"),
        "plain" => Some("no message waits for another, as if each had a QUIC stream to itself"),
        _ => None,
    }
}

/// A value with its unit. With all of its digits: two points that differ are never called the same.
pub(crate) fn plain(key: &str, value: &Value) -> String {
    match (key, value) {
        ("loss" | "ge_p" | "cross_share", Value::Number(share)) => format!("{} %", shifted(*share, 2)),
        ("rtt_ms" | "owd_ms" | "deadline_ms", Value::Number(ms)) => format!("{ms} ms"),
        ("segment_s", Value::Number(seconds)) => format!("{seconds} s"),
        ("rate_mbit", Value::Number(rate)) if *rate >= 1000.0 => format!("{} Gbit/s", shifted(*rate, -3)),
        ("rate_mbit", Value::Number(rate)) => format!("{rate} Mbit/s"),
        ("size" | "rwin" | "send_buffer" | "message_bytes", Value::Number(bytes)) => in_bytes(*bytes),
        ("mode", Value::Text(name)) => name.replace('+', " + "),
        ("queue", Value::Text(text)) if text.ends_with("bdp") => text.replace("bdp", " BDP"),
        ("cc", Value::Text(name)) if name.chars().all(|c| c.is_ascii_lowercase()) => {
            if name == "newreno" {
                "NewReno".to_owned()
            } else {
                name.to_uppercase()
            }
        }
        ("queue", Value::Text(text)) => size(text),
        ("ack", Value::Text(name)) if name == HTTP1 => "HTTP/1.1 over TLS".to_owned(),
        (_, Value::Number(n)) => n.to_string(),
        (_, Value::Text(text)) => text.clone(),
    }
}

/// A value for an axis that has the unit.
pub(crate) fn bare(key: &str, value: &Value) -> String {
    match (key, value) {
        ("rtt_ms" | "owd_ms" | "deadline_ms" | "rate_mbit", Value::Number(n)) => n.to_string(),
        ("rwin" | "send_buffer", Value::Number(n)) => shifted(*n, -3),
        ("loss" | "ge_p" | "cross_share", Value::Number(n)) => shifted(*n, 2),
        _ => plain(key, value),
    }
}

/// The same where there is little room: of losses in bursts, how long these are on average.
pub(crate) fn on_axis(key: &str, value: &Value) -> String {
    match (key, value) {
        ("loss", Value::Text(model)) => {
            bursts(model).map(|(_, length)| format!("bursts of {}", number(length)))
        }
        ("ack", Value::Text(name)) => acknowledging_in_short(name),
        _ => None,
    }
    .unwrap_or_else(|| bare(key, value))
}

/// Of losses by a chain of two states: the share of packets lost in the long run, and how many packets a
/// burst has on average.
fn bursts(model: &str) -> Option<(f64, f64)> {
    let Ok(LossModel::GilbertElliott(chain)) = model.parse() else { return None };
    let in_bad = chain.to_bad / (chain.to_bad + chain.to_good);
    let has_mean = chain.to_good > 0.0 && chain.longest.is_none();
    has_mean.then(|| (in_bad * chain.bad + (1.0 - in_bad) * chain.good, 1.0 / chain.to_good))
}

/// A number between values, for the same axis: three digits will do.
pub(crate) fn about(key: &str, middle: f64) -> String {
    bare(key, &Value::Number(format!("{middle:.2e}").parse().unwrap_or(middle)))
}

fn in_bytes(bytes: f64) -> String {
    match bytes {
        x if x >= 1e9 => format!("{} GB", shifted(x, -9)),
        x if x >= 1e6 => format!("{} MB", shifted(x, -6)),
        x if x >= 1e4 => format!("{} kB", shifted(x, -3)),
        x => format!("{x} B"),
    }
}

/// A number times this power of ten, in decimal, where nothing is rounded.
fn shifted(value: f64, by: i32) -> String {
    let text = value.to_string();
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    let digits = format!("{whole}{part}");
    let Ok(all) = digits.trim_start_matches('-').parse::<u128>() else { return text };
    let places = i32::try_from(part.len()).unwrap_or(i32::MAX).saturating_sub(by);
    let sign = if value < 0.0 { "-" } else { "" };
    if all == 0 || places <= 0 {
        let zeros = if all == 0 { 0 } else { places.unsigned_abs() as usize };
        return format!("{sign}{all}{}", "0".repeat(zeros));
    }
    let places = usize::try_from(places).unwrap_or_default();
    let padded = format!("{all:0>width$}", width = places + 1);
    let (whole, part) = padded.split_at(padded.len() - places);
    let part = part.trim_end_matches('0');
    if part.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{part}") }
}

/// A value as `--set` takes it: read again it is the same.
pub(crate) fn for_set(key: &ExperimentKey, value: &Value) -> String {
    let Value::Number(n) = value else { return value.to_string() };
    let percent = format!("{}%", number_of_percent(*n));
    let tries = match key.name {
        "loss" => vec![percent],
        // 150kB, but 12345.
        "size" | "rwin" => vec![n.to_string(), in_bytes(*n).replace(' ', "")],
        _ => Vec::new(),
    };
    let same = |text: &String| key.read(text).as_ref() == Ok(value);
    tries.into_iter().filter(same).min_by_key(String::len).unwrap_or_else(|| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_for_set_are_read_as_themselves() {
        for (name, text, written) in [
            ("loss", "0.5%", "0.5%"),
            ("loss", "0", "0%"),
            ("loss", "0.012345678", "0.012345678"),
            ("loss", "ge:0.5%,25%", "ge:0.5%,25%"),
            ("rwin", "150kB", "150kB"),
            ("rwin", "12345B", "12345"),
            ("rwin", "unlimited", "unlimited"),
            ("rtt_ms", "27.61", "27.61"),
            ("cc", "cubic", "cubic"),
        ] {
            let key = ExperimentKey::find(name).unwrap();
            let value = key.read(text).unwrap();
            let again = for_set(key, &value);
            assert_eq!(key.read(&again).unwrap(), value, "{name}={text}: {again}");
            if name != "loss" || !text.starts_with("ge") {
                assert_eq!(again, written);
            }
        }
    }

    /// Rounded, both were "100 ms round trip", and the table had two lines of one point that contradict each
    /// other.
    #[test]
    fn acknowledgements_are_told() {
        let told = |name: &str| alternative("ack", name).unwrap();
        assert!(told("10:fixed:single").contains("every 10 packets throughout; each datagram by itself"));
        assert!(told("2:adaptive:merged").contains("after 2 packets, or after more"));
        assert!(told("http1").contains("over TLS and TCP"));
    }

    #[test]
    fn bursts_have_their_length_on_an_axis() {
        let on_axis = |text: &str| on_axis("loss", &Value::Text(text.into()));
        assert_eq!(on_axis("ge:0.0628%,12.5%,100%,0%"), "bursts of 8");
        // One packet in 200 in all; and TUM's: a burst of four loses 95 %, and what is between bursts 0.5 %.
        let words = |model: &str| setting("loss", &Value::Text(model.to_owned()));
        assert_eq!(words("ge:0.0628%,12.5%,100%,0%"), "0.5 % loss in bursts of 8");
        assert_eq!(words("ge:0.5%,25%,95%,0.5%"), "2.35 % loss in bursts of 4");
        assert_eq!(on_axis("burst:5,100"), "burst:5,100");
        assert_eq!(super::on_axis("loss", &Value::Number(0.005)), "0.5");
    }

    #[test]
    fn values_that_differ_have_names_that_differ() {
        for (key, one, two, told) in [
            ("rtt_ms", 100.2, 100.4, ["100.2 ms round trip", "100.4 ms round trip"]),
            ("rate_mbit", 123.4, 123.2, ["123.4 Mbit/s", "123.2 Mbit/s"]),
            ("rate_mbit", 1234.0, 1230.0, ["1.234 Gbit/s", "1.23 Gbit/s"]),
            ("loss", 0.000_001, 0.000_002, ["0.0001 % loss", "0.0002 % loss"]),
            ("loss", 0.012_345_67, 0.012_35, ["1.234567 % loss", "1.235 % loss"]),
            ("rwin", 150_400.0, 150_000.0, ["window of 150.4 kB", "window of 150 kB"]),
            ("size", 1_234_567.0, 1_230_000.0, ["1.234567 MB", "1.23 MB"]),
        ] {
            assert_eq!([one, two].map(|value| setting(key, &Value::Number(value))), told);
        }
        // 0.07 * 100 is not 7 in floating point.
        assert_eq!(
            [0.07, 0.29, 1e-7, 0.0, 1.0].map(|share| shifted(share, 2)),
            ["7", "29", "0.00001", "0", "100"]
        );
        // Of an axis in kB.
        assert_eq!(about("rwin", 1_234_567.0), "1230");
    }

    #[test]
    fn names_are_words() {
        assert_eq!(metric("blocking_ms.p9995"), "blocking time, 99.95 %");
        assert_eq!(metric("over_rtt"), "pauses over a round trip");
        assert_eq!(metric("unheard_of.p50"), "unheard_of, median");
        assert_eq!(with_unit("goodput_bps", 12.5e6), "12.5 Mbit/s");
        assert_eq!(setting("loss", &Value::Number(0.001)), "0.1 % loss");
        assert_eq!(setting("cc", &Value::Text("cubic".into())), "CUBIC");
        assert_eq!(setting("rate_mbit", &Value::Number(1000.0)), "1 Gbit/s");
        assert_eq!(fraction("p999"), Some(0.999));
        assert_eq!(fraction("pax"), None);
    }
}
