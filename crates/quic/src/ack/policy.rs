use std::fmt;
use std::str::FromStr;

/// How acknowledgements act, and how often the peer is asked for them (draft-ietf-quic-ack-frequency). A peer
/// that takes no requests acknowledges as RFC 9000 says.
///
/// It is written in words with colons in between, in any order, and what is not said is as by default: `2`, a
/// number, for [`every`](Self::every), `adaptive` or `fixed`, `merged` or `single`. `100:fixed` asks for
/// every hundredth packet throughout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AckPolicy {
    /// Whether a batch of received datagrams acts as one: one acknowledgement answers it, and what it
    /// acknowledges is processed once. Otherwise each datagram is answered before the next is read, which
    /// takes more packets and more work at the same time.
    pub merging: bool,
    /// How many of our packets the peer acknowledges at once at the start, at least 1. With 2 the peer is not
    /// asked, since RFC 9000 has it do so anyway.
    pub every: u64,
    /// Whether we ask for fewer acknowledgements while so many arrive at a time that they must be what keeps
    /// the processor busy, and for more again when they do not. Otherwise `every` holds throughout.
    pub adaptive: bool,
}

setters! { AckPolicy {
    with_merging: merging: bool,
    with_every: every: u64,
    with_adaptive: adaptive: bool,
} }

impl Default for AckPolicy {
    fn default() -> Self {
        Self { merging: true, every: 2, adaptive: true }
    }
}

impl fmt::Display for AckPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let adaptive = if self.adaptive { "adaptive" } else { "fixed" };
        let merged = if self.merging { "merged" } else { "single" };
        write!(f, "{}:{adaptive}:{merged}", self.every)
    }
}

impl FromStr for AckPolicy {
    type Err = AckPolicyError;

    fn from_str(text: &str) -> Result<Self, AckPolicyError> {
        let mut policy = Self::default();
        for word in text.split(':') {
            match word {
                "adaptive" => policy.adaptive = true,
                "fixed" => policy.adaptive = false,
                "merged" => policy.merging = true,
                "single" => policy.merging = false,
                number => match number.parse() {
                    Ok(every) if (1..=MOST).contains(&every) => policy.every = every,
                    _ => return Err(AckPolicyError(word.to_owned())),
                },
            }
        }
        Ok(policy)
    }
}

/// Why a text is no way to acknowledge.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is none of its words; write a number of packets, adaptive or fixed, merged or single, like 100:fixed:merged"
)]
pub struct AckPolicyError(String);

/// More packets than any window has.
const MOST: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_read_back() {
        let policy = |merging, every, adaptive| Ok(AckPolicy { merging, every, adaptive });
        for (text, value, written) in [
            ("2", policy(true, 2, true), "2:adaptive:merged"),
            ("100:fixed", policy(true, 100, false), "100:fixed:merged"),
            ("single:fixed", policy(false, 2, false), "2:fixed:single"),
            ("merged:10:adaptive", policy(true, 10, true), "10:adaptive:merged"),
            ("fixed", policy(true, 2, false), "2:fixed:merged"),
        ] {
            assert_eq!(text.parse(), value, "{text}");
            assert_eq!(value.map(|value| value.to_string()), Ok(written.to_owned()));
            assert_eq!(written.parse(), text.parse::<AckPolicy>());
        }
        for bad in ["", "0", "-1", "2,fixed", "every:2", "1048577", "Adaptive", "2:"] {
            assert!(
                bad.parse::<AckPolicy>().unwrap_err().to_string().contains("like 100:fixed:merged"),
                "{bad}"
            );
        }
    }
}
