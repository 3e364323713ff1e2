use quickset::{AckPolicy, Algorithm};
use quickset_base::number::Unsigned as _;
use quickset_sim::{LinkQueue, LossModel, pinned, units};

use super::Value;

/// A parameter of experiments.
#[derive(Debug)]
pub struct ExperimentKey {
    /// The name, as in `--set NAME=VALUE`.
    pub name: &'static str,
    /// What its values look like.
    pub kind: ValueKind,
    /// What it is.
    pub about: &'static str,
}

/// What the values of a key look like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueKind {
    /// A number in this range.
    Number(f64, f64),
    /// A whole number in this range.
    Whole(u64, u64),
    /// A number from 0.001 to a million, or this word.
    NumberOr(&'static str),
    /// A size in bytes, like `150kB`, or this word.
    SizeOr(&'static str),
    /// The path of a file, or this word. The value has a sum of its content, too; see
    /// [`quickset_sim::pinned`].
    FileOr(&'static str),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A loss model, as links have it.
    Loss,
    /// A queue, as links have it, `2bdp` for so many bandwidth-delay products, or `flec` for 1.5 of them as
    /// that paper counts.
    Queue,
    /// A congestion controller.
    Congestion,
    /// How data is protected against loss.
    Protection,
    /// How to acknowledge, or this word.
    AcksOr(&'static str),
}

/// Why a key or a value was not taken: one sentence that names the nearest valid one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ValueError(pub(crate) String);

/// All keys, in the order of reports.
pub const KEYS: &[ExperimentKey] = &[
    key(
        "profile",
        ValueKind::Word(&["ours", "as-published"]),
        "whose conventions: as-published halves the loss each way (but for lists and recordings of losses) and, where a screen is \
            streamed and pace is max, sends 20 updates a second",
    ),
    key("mode", ValueKind::Word(&["total", "partial", "latest", "plain"]), "which messages wait for which"),
    key("fec", ValueKind::Protection, "how data is protected against loss, at both ends"),
    key("scene", ValueKind::Word(crate::trace::SCENES), "the recorded screen"),
    key("flows", ValueKind::Word(crate::catalogue::FLOWS), "who shares the link"),
    key("desktops", ValueKind::Whole(1, 64), "how many desktops share the link"),
    key("rival", ValueKind::Word(crate::catalogue::RIVALS), "whose plain flow shares the link"),
    key("cross", ValueKind::Word(crate::catalogue::CROSS), "who else sends over the link, towards clients"),
    key("cross_share", ValueKind::Number(0.0, 1.0), "the share of the link's rate that they take on average"),
    key("cc", ValueKind::Congestion, "the congestion controller"),
    key(
        "ack",
        ValueKind::AcksOr(HTTP1),
        "after how many packets clients acknowledge, whether that adapts, and by batch or by datagram; http1 is TCP instead",
    ),
    key("loss", ValueKind::Loss, "what the link loses, each way"),
    key(
        "others_mbit",
        ValueKind::Number(0.0, 100_000.0),
        "packets of others that advance the losses and take nothing, each way",
    ),
    key(
        "ge_p",
        ValueKind::Number(0.0, 1.0),
        "how often a burst of losses begins: its share of packets, each way",
    ),
    key("rtt_ms", ValueKind::Number(0.0, 10_000.0), "round-trip time without queues"),
    key("owd_ms", ValueKind::Number(0.0, 5_000.0), "one-way delay without queues"),
    key("rate_mbit", ValueKind::Number(0.01, 100_000.0), "the link's rate, each way"),
    key(
        "rate_trace",
        ValueKind::FileOr(NONE),
        "a recorded rate, as mahimahi writes it, instead of rate_mbit",
    ),
    key("queue", ValueKind::Queue, "the link's queue, each way"),
    key("rwin", ValueKind::SizeOr("unlimited"), "the receive window"),
    key(
        "send_buffer",
        ValueKind::SizeOr("unlimited"),
        "bytes that a sender keeps until they are acknowledged",
    ),
    key("fec_window", ValueKind::Whole(1, 1 << 20), "symbols that a receiver keeps for decoding"),
    key("pace", ValueKind::NumberOr("max"), "updates a second"),
    key("updates", ValueKind::Whole(1, 100_000), "updates"),
    key("messages", ValueKind::Whole(1, 1_000_000), "messages, in all or for each update"),
    key("message_bytes", ValueKind::Whole(16, 1_000_000), "bytes of a message"),
    key("fence_every", ValueKind::Whole(1, 1_000_000), "messages between two fences"),
    key("deadline_ms", ValueKind::Number(1.0, 60_000.0), "when a message is too late"),
    key("api", ValueKind::Word(&["yes", "no"]), "whether the sender is told of deadlines"),
    key(
        "schedule",
        ValueKind::Word(&["edf", "fifo", "round-robin"]),
        "which message goes first: by deadline, as they come, or a stream for each in turns",
    ),
    key(
        "traffic",
        ValueKind::Word(&["video", "video+audio", "video/audio"]),
        "frames alone, with sound in the same channel, or with sound in one of its own",
    ),
    key(
        "trace",
        ValueKind::FileOr(CONFERENCE),
        "recorded frames: lines of a time in microseconds and a size",
    ),
    key("size", ValueKind::SizeOr("unlimited"), "bytes to fetch"),
    key("transfers", ValueKind::Whole(1, 100_000), "resources fetched one after the other"),
    key("priorities", ValueKind::Word(&["flat", "tree"]), "by urgency alone, or by classes with weights"),
    key("page", ValueKind::Whole(1, 1_000_000), "which page: each number has sizes of its own"),
    key("connections", ValueKind::Whole(1, 1000), "clients that fetch at once"),
    key("players", ValueKind::Whole(1, 1000), "players that watch at once"),
    key(
        "abr",
        ValueKind::Word(&["dynamic", "bola", "throughput", "l2a", "lol+"]),
        "the rule by which players choose bitrates",
    ),
    key("segment_s", ValueKind::Number(0.1, 60.0), "how long a segment of the video plays"),
    key(
        "datapath",
        ValueKind::Word(&[HTTP1, "plain", "gso", "merging", "adaptive"]),
        "what an HTTP/3 server does to send more, each with what is before it; http1 is HTTP/1.1 over TCP instead",
    ),
    key(
        "quota",
        ValueKind::NumberOr("published"),
        "the part of one core that the server gets, 0.1 to 1; published is what lets plain HTTP/3 carry 1.79 Gbit/s over the scale",
    ),
    key(
        "processor",
        ValueKind::Number(0.001, 1000.0),
        "how many times slower the server's core is than the one whose work was measured",
    ),
    key(
        "scale",
        ValueKind::Whole(1, 200),
        "how many bytes of the video one on the wire stands for, and in virtual time how many times slower the network is",
    ),
    key("gso", ValueKind::Word(&["yes", "no"]), "whether many packets are handed to the system at once"),
    key("source", ValueKind::Word(&["memory", "file"]), "where the server has from what it sends"),
    key("offered_gbit", ValueKind::NumberOr("unlimited"), "how much the server's application offers, Gbit/s"),
    key("codec", ValueKind::Word(&["rlc", "rs", "raptorq"]), "the code that is timed"),
    key("symbols", ValueKind::Whole(1, 10_000), "source symbols"),
    key("symbol_bytes", ValueKind::Whole(1, 65_000), "bytes of a symbol"),
    key("losses", ValueKind::Whole(1, 64), "how many of them are lost"),
    key("leaves", ValueKind::Whole(1, 1_000_000), "streams with something to send"),
    key("depth", ValueKind::Whole(1, 16), "steps from the connection to each of them"),
    key("seconds", ValueKind::Number(0.1, 3600.0), "how long it goes on"),
];

const fn key(name: &'static str, kind: ValueKind, about: &'static str) -> ExperimentKey {
    ExperimentKey { name, kind, about }
}

impl ExperimentKey {
    /// The key of that name.
    ///
    /// # Errors
    /// Names the nearest one that there is.
    pub fn find(name: &str) -> Result<&'static Self, ValueError> {
        KEYS.iter().find(|key| key.name == name).ok_or_else(|| {
            ValueError(format!(
                "there is no key `{name}`; {}",
                nearest(name, KEYS.iter().map(|key| key.name))
            ))
        })
    }

    /// Reads a value.
    ///
    /// # Errors
    /// Says what would be accepted.
    pub fn read(&self, text: &str) -> Result<Value, ValueError> {
        let text = text.trim();
        let wrong = |why: &str| ValueError(format!("`{}={text}` does not fit: {why}", self.name));
        match self.kind {
            ValueKind::Number(least, most) => match text.parse::<f64>() {
                // -0 is 0, as a row has it.
                Ok(n) if (least..=most).contains(&n) => Ok(Value::Number(n + 0.0)),
                _ => Err(wrong(&format!("write a number from {least} to {most}"))),
            },
            ValueKind::Whole(least, most) => match text.parse::<u64>() {
                Ok(n) if (least..=most).contains(&n) => Ok(Value::Number(n.approx())),
                _ => Err(wrong(&format!("write a whole number from {least} to {most}"))),
            },
            ValueKind::NumberOr(word) if text == word => Ok(Value::Text(text.to_owned())),
            ValueKind::NumberOr(word) => match text.parse::<f64>() {
                // Times that are sums of its reciprocal stay far from the end of time.
                Ok(n) if (1e-3..=1e6).contains(&n) => Ok(Value::Number(n)),
                _ => Err(wrong(&format!("write a number from 0.001 to 1000000, or `{word}`"))),
            },
            ValueKind::SizeOr(word) if text == word => Ok(Value::Text(text.to_owned())),
            ValueKind::SizeOr(word) => match units::size(text) {
                Ok(n) if n > 0 => Ok(Value::Number(n.approx())),
                _ => Err(wrong(&format!("write a size above 0 like 150kB, or `{word}`"))),
            },
            ValueKind::FileOr(word) if text == word => Ok(Value::Text(text.to_owned())),
            ValueKind::FileOr(word) if text.is_empty() => {
                Err(wrong(&format!("write the path of a file, or `{word}`")))
            }
            // The same path may name another recording tomorrow, and rows of both are not of one run.
            ValueKind::FileOr(_) => Ok(Value::Text(pinned(text).map_err(|error| wrong(&error.to_string()))?)),
            ValueKind::Word(words) if words.contains(&text) => Ok(Value::Text(text.to_owned())),
            ValueKind::Word(words) => Err(wrong(&nearest(text, words.iter().copied()))),
            ValueKind::Loss => match text.parse::<LossModel>() {
                Ok(LossModel::None) => Ok(Value::Number(0.0)),
                Ok(LossModel::Independent(share)) => Ok(Value::Number(share)),
                Ok(LossModel::Recorded(trace)) => {
                    let name = pinned(trace.path()).map_err(|error| wrong(&error.to_string()))?;
                    Ok(Value::Text(format!("recorded:{name}")))
                }
                Ok(loss) => Ok(Value::Text(loss.to_string())),
                Err(error) => Err(wrong(&error.to_string())),
            },
            ValueKind::Queue if text == FLEC => Ok(Value::Text(text.to_owned())),
            ValueKind::Queue => match products(text) {
                Some(n) if n > 0.0 && n <= 1e4 => Ok(Value::Text(format!("{n}{BDP}"))),
                Some(_) => Err(wrong(&format!("write a number above 0 before `{BDP}`"))),
                None => {
                    let queue: LinkQueue = text.parse().map_err(|error| {
                        wrong(&format!("{error}, or 2{BDP} for so many bandwidth-delay products, or {FLEC}"))
                    })?;
                    Ok(Value::Text(queue.to_string()))
                }
            },
            ValueKind::Congestion => {
                let algorithm: Algorithm = text.parse().map_err(|error| wrong(&format!("{error}")))?;
                Ok(Value::Text(algorithm.to_string()))
            }
            ValueKind::Protection => {
                let protection = quickset_policies::read(text).map_err(|error| wrong(&format!("{error}")))?;
                Ok(Value::Text(protection.to_string()))
            }
            ValueKind::AcksOr(word) if text == word => Ok(Value::Text(text.to_owned())),
            ValueKind::AcksOr(_) => {
                let policy: AckPolicy = text.parse().map_err(|error| wrong(&format!("{error}")))?;
                Ok(Value::Text(policy.to_string()))
            }
        }
    }
}

/// HTTP/1.1 over TLS, where the system acknowledges.
pub(crate) const HTTP1: &str = "http1";
/// The queue of the FlEC paper.
pub(crate) const FLEC: &str = "flec";

/// How many bandwidth-delay products a queue is to hold, if it is written so.
pub(crate) fn products(queue: &str) -> Option<f64> {
    queue.strip_suffix(BDP)?.trim_end().parse().ok()
}

/// No file.
pub(crate) const NONE: &str = "none";
/// The trace that comes with the laboratory.
pub(crate) const CONFERENCE: &str = "conference";
const BDP: &str = "bdp";

/// What to write instead of `given`: the nearest of `valid`, or all of them when none is near.
pub(crate) fn nearest<'a>(given: &str, valid: impl Iterator<Item = &'a str>) -> String {
    let valid: Vec<&str> = valid.collect();
    let near =
        valid.iter().max_by(|a, b| strsim::jaro_winkler(given, a).total_cmp(&strsim::jaro_winkler(given, b)));
    match near {
        Some(near) if strsim::jaro_winkler(given, near) > 0.75 => format!("did you mean `{near}`?"),
        _ => format!("there are {}", valid.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str) -> Result<Value, String> {
        ExperimentKey::find(name).unwrap().read(text).map_err(|error| error.to_string())
    }

    #[test]
    fn values_are_read_by_their_kind() {
        assert_eq!(read("loss", "0.5%"), Ok(Value::Number(0.005)));
        assert_eq!(read("loss", "none"), Ok(Value::Number(0.0)));
        assert_eq!(read("rwin", "150kB"), Ok(Value::Number(150_000.0)));
        assert_eq!(read("rwin", "unlimited"), Ok(Value::Text("unlimited".into())));
        assert_eq!(read("pace", "max"), Ok(Value::Text("max".into())));
        assert_eq!(read("queue", "flec"), Ok(Value::Text("flec".into())));
        assert_eq!(read("queue", "0.25bdp"), Ok(Value::Text("0.25bdp".into())));
        assert_eq!(read("queue", "9MB"), Ok(Value::Text("9MB".into())));
        assert_eq!(read("rate_trace", "none"), Ok(Value::Text("none".into())));
        assert_eq!(read("fec", "rs:105/100:stride=1"), Ok(Value::Text("rs:105/100".into())));
        assert_eq!(read("fec", "messages:25ms"), Ok(Value::Text("messages:25ms".into())));
        assert_eq!(read("rtt_ms", "100"), Ok(Value::Number(100.0)));
        assert_eq!(read("rtt_ms", "-0").map(|value| value.to_string()), Ok("0".into()));
        assert_eq!(read("ack", "100:fixed"), Ok(Value::Text("100:fixed:merged".into())));
        assert_eq!(read("ack", "http1"), Ok(Value::Text("http1".into())));
    }

    /// What is read of a recording by its content is a value of its own, whatever the file is called.
    #[test]
    fn recordings_are_values_by_their_content() {
        let path = std::env::temp_dir().join(format!("quickset-keys-{}", std::process::id()));
        let name = path.to_str().unwrap();
        for (key, before) in [("trace", ""), ("rate_trace", ""), ("loss", "recorded:")] {
            let text = format!("{before}{name}");
            let value = |content: &str| {
                std::fs::write(&path, content).unwrap();
                read(key, &text)
            };
            let (one, other) = (value("0\n1\n").unwrap(), value("1\n1\n").unwrap());
            assert!(one.to_string().starts_with(&format!("{text}#")) && one != other, "{one}, {other}");
            assert_eq!(value("0\n1\n"), Ok(one.clone()));
            // As a plan has it, on a machine where the file is the same, and where it is not.
            assert_eq!(read(key, &one.to_string()), Ok(one));
            assert!(read(key, &other.to_string()).unwrap_err().contains("another recording"), "{key}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(read("trace", name).unwrap_err().contains("cannot be opened"));
        // There are devices without end.
        assert!(read("trace", "/dev/zero").unwrap_err().contains("64 MiB"));
    }

    #[test]
    fn slips_name_the_nearest() {
        assert!(ExperimentKey::find("los").unwrap_err().to_string().contains("did you mean `loss`?"));
        assert!(ExperimentKey::find("zzz").unwrap_err().to_string().contains("there are profile, mode"));
        assert!(read("mode", "partical").unwrap_err().contains("did you mean `partial`?"));
        assert!(read("rtt_ms", "100ms").unwrap_err().contains("write a number from 0 to 10000"));
        assert!(read("pace", "-3").unwrap_err().contains("or `max`"));
        let bad = [
            ("updates", "0"),
            ("updates", "1.5"),
            ("size", "0"),
            ("loss", "x"),
            ("cc", "vegas"),
            ("rtt_ms", "nan"),
            ("fec", "rs:100/105"),
            ("fec_window", "0"),
            ("pace", "1e-30"),
            ("pace", "2e6"),
        ];
        for (name, text) in bad {
            assert!(read(name, text).is_err(), "{name}={text}");
        }
        assert!(read("queue", "0bdp").unwrap_err().contains("above 0"));
        assert!(read("queue", "nanbdp").is_err() && read("queue", "9 things").unwrap_err().contains("2bdp"));
        assert!(read("trace", "").unwrap_err().contains("or `conference`"));
        // What the library itself says of it.
        let own = quickset_policies::read("xor2d").unwrap_err().to_string();
        assert!(read("fec", "xor2d").unwrap_err().ends_with(&own));
    }
}
