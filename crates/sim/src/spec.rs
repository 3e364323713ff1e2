use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use quickset_base::Time;

use crate::course::{LinkCourse, LinkSettings};
use crate::events::LinkEvent;
use crate::jitter::Jitter;
use crate::loss::LossModel;
use crate::marks::EcnAction;
use crate::queue::LinkQueue;
use crate::rate::Rate;
use crate::reorder::Reorder;
use crate::server::Transmitter;
use crate::units::{self, UnitError};

/// One direction of a link, as data. The default is perfect: no delay, no limit, no loss.
///
/// As text it is what differs from the default, separated by spaces:
/// `rate=100mbit delay=50ms queue=9MB loss=0.5% jitter=normal:5ms,2ms reorder=yes blackout=5s+300ms`.
/// Events may be several. Paths of recordings are read as they are, and so hold no space (nor a comma in
/// `at=` and `handover=`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkSpec {
    /// How fast it sends.
    pub rate: Rate,
    /// Propagation delay, one way.
    pub delay: Duration,
    /// What waits for the transmitter, and what is dropped.
    pub queue: LinkQueue,
    /// What gets lost on the way.
    pub loss: LossModel,
    /// Packets of others per second that advance the loss process but take no capacity (a bursty medium
    /// goes on in pauses of ours). With any, losses depend on the times of sending too.
    pub others_pps: u32,
    /// Delay that differs from packet to packet.
    pub jitter: Jitter,
    /// Whether packets may overtake one another.
    pub reorder: Reorder,
    /// Probability that a packet arrives with a flipped bit (as when checksums are off).
    pub corrupt: f64,
    /// Probability that a packet arrives twice.
    pub duplicate: f64,
    /// The largest packet in bytes, overhead included; larger ones are dropped without notice.
    pub mtu: Option<u32>,
    /// Bytes of headers that each packet has besides what is given to the link: 28 for UDP over IPv4,
    /// 48 over IPv6. They count for rate, queue and MTU.
    pub overhead: u32,
    /// What becomes of ECN marks on the way in.
    pub ecn: EcnAction,
    /// What is going to happen to it.
    pub events: Vec<LinkEvent>,
}

impl LinkSpec {
    pub(crate) fn course(&self) -> LinkCourse {
        let mtu = self.mtu.map_or(u64::MAX, u64::from);
        LinkCourse::new(LinkSettings { rate: self.rate.clone(), delay: self.delay, mtu }, &self.events)
    }

    /// How long a packet of `size` bytes takes on an idle link without jitter: serialization and
    /// propagation, rounded up to nanoseconds. Where these differ from time to time: at the beginning.
    pub fn latency(&self, size: usize) -> Duration {
        let course = self.course();
        let leaves =
            Transmitter::default().serve(&course, Time::ZERO, size as u64 + u64::from(self.overhead));
        leaves.since(Time::ZERO).saturating_add(course.at(leaves).delay)
    }
}

impl FromStr for LinkSpec {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let mut spec = Self::default();
        for word in text.split_whitespace().filter(|word| *word != PERFECT) {
            let (key, value) = word.split_once('=').ok_or_else(|| link_error(word, "it has no `=`"))?;
            let whole = |value: &str| {
                value.parse().map_err(|_| link_error(word, "its value is not a whole number of 32 bits"))
            };
            match key {
                "rate" => spec.rate = value.parse()?,
                "delay" => spec.delay = units::duration(value)?,
                "queue" => spec.queue = value.parse()?,
                "loss" => spec.loss = value.parse()?,
                "others" => spec.others_pps = whole(value)?,
                "jitter" => spec.jitter = value.parse()?,
                "reorder" => spec.reorder = value.parse()?,
                "corrupt" => spec.corrupt = units::lone_share(value)?,
                "duplicate" => spec.duplicate = units::lone_share(value)?,
                "mtu" => spec.mtu = Some(whole(value)?),
                "overhead" => spec.overhead = whole(value)?,
                "ecn" => spec.ecn = value.parse()?,
                _ => match LinkEvent::parse(key, value) {
                    Some(event) => spec.events.push(event?),
                    None => return Err(link_error(word, "its key is not known")),
                },
            }
        }
        Ok(spec)
    }
}

impl fmt::Display for LinkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let perfect = Self::default();
        let mut space = "";
        let mut word = |differs: bool, key: &str, value: &dyn fmt::Display| {
            if !differs {
                return Ok(());
            }
            write!(f, "{space}{key}={value}")?;
            space = " ";
            Ok(())
        };
        word(self.rate != perfect.rate, "rate", &self.rate)?;
        word(self.delay != perfect.delay, "delay", &units::duration_text(self.delay))?;
        word(self.queue != perfect.queue, "queue", &self.queue)?;
        word(self.loss != perfect.loss, "loss", &self.loss)?;
        word(self.others_pps != 0, "others", &self.others_pps)?;
        word(self.jitter != perfect.jitter, "jitter", &self.jitter)?;
        word(self.reorder != perfect.reorder, "reorder", &self.reorder)?;
        word(self.corrupt > 0.0, "corrupt", &units::share_text(self.corrupt))?;
        word(self.duplicate > 0.0, "duplicate", &units::share_text(self.duplicate))?;
        word(self.mtu.is_some(), "mtu", &self.mtu.unwrap_or_default())?;
        word(self.overhead != 0, "overhead", &self.overhead)?;
        word(self.ecn != perfect.ecn, "ecn", &self.ecn)?;
        for event in &self.events {
            write!(f, "{space}{event}")?;
            space = " ";
        }
        if space.is_empty() { f.write_str(PERFECT) } else { Ok(()) }
    }
}

fn link_error(word: &str, why: &str) -> UnitError {
    let accepted = "key=value with rate, delay, queue, loss, others, jitter, reorder, corrupt, duplicate, mtu, \
                    overhead, ecn, blackout, outage, handover or at, like rate=100mbit";
    UnitError::new(word, "a property of a link", why, accepted)
}

const PERFECT: &str = "perfect";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        let all = "rate=100mbit delay=50ms queue=9MB loss=ge:0.5%,25%,95%,0.5% others=833 jitter=normal:5ms,2ms \
                   reorder=yes corrupt=0.1% duplicate=1% mtu=1500 overhead=28 ecn=erase blackout=5s+300ms at=1s:mtu=1280 blackout=1s+1ms,every=2s";
        for text in ["perfect", "rate=1.5mbit", "delay=200us loss=list:0,2-4", all] {
            assert_eq!(text.parse::<LinkSpec>().unwrap().to_string(), text);
        }
        assert_eq!("".parse(), Ok(LinkSpec::default()));
    }

    #[test]
    fn slips_are_explained() {
        let says = |text: &str| text.parse::<LinkSpec>().unwrap_err().to_string();
        assert!(says("rate").contains("`rate` is not a property of a link: it has no `=`"));
        assert!(says("speed=1mbit").contains("key is not known"));
        assert!(says("reorder=maybe").contains("neither yes nor no"));
        assert!(says("mtu=-1").contains("whole number"));
        assert!(says("delay=5").contains("unit is missing"));
    }

    #[test]
    fn latency_is_serialization_and_propagation() {
        let spec: LinkSpec = "rate=100mbit delay=50ms overhead=28".parse().unwrap();
        // 1472 + 28 bytes are 12,000 bits: 120 us at 100 Mbit/s.
        assert_eq!(spec.latency(1472), Duration::from_micros(50_120));
    }
}
