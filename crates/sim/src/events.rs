use core::fmt;
use core::time::Duration;

use crate::rate::Rate;
use crate::units::{self, UnitError};

/// What is going to happen to a link, known beforehand: packets that wait are served exactly as it says.
///
/// Times are those of the link. What is set by several events at one time is as the last of them says.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkEvent {
    /// Nothing leaves in the gap; what waits goes on waiting, and what arrives is for the queue to take or
    /// drop. As text `blackout=5s+300ms` or `blackout=5s+300ms,every=10s`.
    Blackout(LinkGap),
    /// What leaves in the gap is lost: the transmitter sends on, into nothing. As text `outage=5s+300ms`.
    Outage(LinkGap),
    /// An outage, and at its end another link: `handover=10s+80ms:delay=70ms,rate=20mbit`. (Where what
    /// waits shall not be lost, it is a blackout and a change.) Packets keep their order, unless
    /// [`reorder`](crate::LinkSpec::reorder) is permitted: those of the old link may arrive later.
    Handover(LinkGap, Change),
    /// From then on some properties are others: `at=10s:rate=2mbit,delay=70ms,mtu=1280`.
    At(Duration, Change),
}

/// A time in which a link does not work, and perhaps one in each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkGap {
    /// When it begins.
    pub at: Duration,
    /// How long it is; above zero.
    pub length: Duration,
    /// Begins again so long after each beginning, for ever; longer than `length`, or the gap never ends.
    pub every: Option<Duration>,
}

/// Properties that change; those that are `None` stay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// The rate; a packet that is being sent goes on at the new one.
    pub rate: Option<Rate>,
    /// The delay, of packets that leave from then on.
    pub delay: Option<Duration>,
    /// The MTU, for packets that arrive from then on.
    pub mtu: Option<u32>,
}

impl LinkEvent {
    /// The event of the property `key` with this value; `None` if the key is none of an event.
    pub(crate) fn parse(key: &str, value: &str) -> Option<Result<Self, UnitError>> {
        let gap = || LinkGap::parse(key, value);
        match key {
            "blackout" => Some(gap().map(Self::Blackout)),
            "outage" => Some(gap().map(Self::Outage)),
            "handover" => Some(handover(value)),
            "at" => Some(at(value)),
            _ => None,
        }
    }

    fn key(&self) -> &'static str {
        match self {
            Self::Blackout(_) => "blackout",
            Self::Outage(_) => "outage",
            Self::Handover(..) => "handover",
            Self::At(..) => "at",
        }
    }
}

/// As in the text of a link: `key=value`.
impl fmt::Display for LinkEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=", self.key())?;
        match self {
            Self::Blackout(gap) | Self::Outage(gap) => write!(f, "{gap}"),
            Self::Handover(gap, change) => write!(f, "{gap}:{change}"),
            Self::At(at, change) => write!(f, "{}:{change}", units::duration_text(*at)),
        }
    }
}

impl LinkGap {
    fn parse(key: &str, value: &str) -> Result<Self, UnitError> {
        let fails = |why: &str| {
            let accepted =
                format!("{key}=TIME+LENGTH or {key}=TIME+LENGTH,every=PERIOD, like {key}=5s+300ms");
            UnitError::new(value, "a gap", why, &accepted)
        };
        let (once, every) = match value.split_once(",every=") {
            Some((once, every)) => (once, Some(units::duration(every)?)),
            None => (value, None),
        };
        let (at, length) = once.split_once('+').ok_or_else(|| fails("it has no `+`"))?;
        let gap = Self { at: units::duration(at)?, length: units::duration(length)?, every };
        if gap.length.is_zero() {
            return Err(fails("its length is zero"));
        }
        if every.is_some_and(|every| every <= gap.length) {
            return Err(fails("its period is no longer than its length, so that it would never end"));
        }
        Ok(gap)
    }
}

impl fmt::Display for LinkGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", units::duration_text(self.at), units::duration_text(self.length))?;
        self.every.map_or(Ok(()), |every| write!(f, ",every={}", units::duration_text(every)))
    }
}

impl Change {
    fn parse(text: &str) -> Result<Self, UnitError> {
        let fails = |part: &str, why: &str| {
            let accepted = "rate=, delay= or mtu=, separated by commas, like rate=2mbit,delay=70ms";
            UnitError::new(part, "a change of a link", why, accepted)
        };
        let mut change = Self::default();
        for part in text.split(',') {
            let (key, value) = part.split_once('=').ok_or_else(|| fails(part, "it has no `=`"))?;
            match key {
                "rate" => change.rate = Some(value.parse()?),
                "delay" => change.delay = Some(units::duration(value)?),
                "mtu" => {
                    let mtu =
                        value.parse().map_err(|_| fails(part, "its value is no whole number of 32 bits"))?;
                    change.mtu = Some(mtu);
                }
                _ => return Err(fails(part, "its key is not one that can change")),
            }
        }
        Ok(change)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.rate.as_ref().map(|rate| format!("rate={rate}"));
        let delay = self.delay.map(|delay| format!("delay={}", units::duration_text(delay)));
        let mtu = self.mtu.map(|mtu| format!("mtu={mtu}"));
        f.write_str(&[rate, delay, mtu].into_iter().flatten().collect::<Vec<_>>().join(","))
    }
}

fn handover(value: &str) -> Result<LinkEvent, UnitError> {
    let (gap, change) = split(value, "handover=10s+80ms:delay=70ms,rate=20mbit")?;
    let gap = LinkGap::parse("handover", gap)?;
    if gap.every.is_some() {
        let accepted = "handover=TIME+LENGTH:CHANGES for each, like handover=10s+80ms:delay=70ms";
        return Err(UnitError::new(value, "a handover", "it cannot repeat", accepted));
    }
    Ok(LinkEvent::Handover(gap, Change::parse(change)?))
}

fn at(value: &str) -> Result<LinkEvent, UnitError> {
    let (at, change) = split(value, "at=10s:rate=2mbit")?;
    Ok(LinkEvent::At(units::duration(at)?, Change::parse(change)?))
}

fn split<'a>(value: &'a str, accepted: &str) -> Result<(&'a str, &'a str), UnitError> {
    value
        .split_once(':')
        .ok_or_else(|| UnitError::new(value, "a time with changes", "it has no `:`", accepted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(word: &str) -> Result<LinkEvent, UnitError> {
        let (key, value) = word.split_once('=').expect("a key");
        LinkEvent::parse(key, value).expect("an event")
    }

    #[test]
    fn text_round_trips() {
        for text in [
            "blackout=5s+300ms",
            "blackout=5s+300ms,every=10s",
            "outage=0ns+1ns",
            "handover=10s+80ms:rate=20mbit,delay=70ms",
            "at=20s:mtu=1280",
            "at=1.5s:rate=unlimited,delay=0ns,mtu=1280",
        ] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn slips_are_explained() {
        let says = |text: &str| parse(text).unwrap_err().to_string();
        assert!(says("blackout=5s").contains("it has no `+`"));
        assert!(says("blackout=5s+0").contains("its length is zero"));
        assert!(says("outage=5s+2s,every=2s").contains("never end"));
        assert!(says("outage=5+2s").contains("unit is missing"));
        assert!(says("handover=5s+2s").contains("it has no `:`"));
        assert!(says("handover=5s+2s,every=10s:delay=1ms").contains("cannot repeat"));
        assert!(says("at=5s:").contains("it has no `=`"));
        assert!(says("at=5s:loss=1%").contains("not one that can change"));
        assert!(says("at=5s:mtu=many").contains("no whole number"));
    }
}
