//! Arguments with units.

use std::time::Duration;

use quickset::{
    AckPolicy, AckPolicyError, Algorithm, AlgorithmError, Protection, ProtectionError, TransportConfig,
};
use quickset_sim::units;

/// A duration above zero, like `50ms`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    match units::duration(text) {
        Ok(Duration::ZERO) => Err("it must be above zero, like 50ms".to_owned()),
        other => other.map_err(|error| error.to_string()),
    }
}

/// A transport whose peer may be silent for so long; for the first answer it has no more time than usual.
pub(crate) fn patient(transport: TransportConfig, silence: Duration) -> TransportConfig {
    let handshake_timeout = transport.handshake_timeout.min(silence);
    TransportConfig { idle_timeout: Some(silence), handshake_timeout, ..transport }
}

/// A number of bytes, like `1GB`.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    units::size(text).map_err(|error| error.to_string())
}

/// Seconds, up to an hour: a number, with decimals or without.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is not a number of seconds, like 16".to_owned())?;
    if (0.1..=3600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("write 0.1 to 3600 seconds".to_owned())
    }
}

/// A congestion controller: `bbr`, `cubic`, `newreno` or `fixed:RATE`.
pub(crate) fn congestion(text: &str) -> Result<Algorithm, String> {
    text.parse().map_err(|error: AlgorithmError| error.to_string())
}

/// How to acknowledge: `2:adaptive:merged`.
pub(crate) fn acks(text: &str) -> Result<AckPolicy, String> {
    text.parse().map_err(|error: AckPolicyError| error.to_string())
}

/// A protection against loss: `none`, `adaptive`, `rs:105/100`.
pub(crate) fn protection(text: &str) -> Result<Protection, String> {
    text.parse().map_err(|error: ProtectionError| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_with_their_units() {
        assert_eq!(duration("50ms"), Ok(Duration::from_millis(50)));
        assert!(duration("0").is_err());
        assert_eq!(size("1GB"), Ok(1_000_000_000));
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        for bad in ["0", "-1", "nan", "inf", "4000", "1s"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
        assert_eq!(congestion("fixed:80mbit"), Ok(Algorithm::Fixed(80_000_000)));
        assert_eq!(congestion("newreno"), Ok(Algorithm::NewReno));
        assert_eq!(protection("adaptive"), Ok(Protection::Adaptive(None)));
        assert_eq!(acks("10:fixed"), Ok(AckPolicy { every: 10, adaptive: false, merging: true }));
        assert!(acks("10:often").unwrap_err().contains("adaptive or fixed"));
        assert!(protection("auto").unwrap_err().contains("adaptive[:bulk|screen|messages]"));
        assert!(congestion("vegas").unwrap_err().contains("bbr, cubic, newreno"));
    }
}
