//! What a value says: those of its parameters that are known and in order.

use quickset_base::Duration;
use quickset_policies::PublishedPolicy;
use quickset_quic::{self as quic, Class, Protection, Weight};
use sfv::{BareItem, Dictionary, InnerList, ListEntry, Parameters};

use super::{DEFAULT, Priority};

/// Each parameter, if it is there; what is malformed or out of range is not (RFC 9218 §4).
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SaidPriority {
    urgency: Option<u8>,
    incremental: Option<bool>,
    weight: Option<Weight>,
    /// From the first below the connection to the nearest.
    classes: Option<Vec<Class>>,
    burst: Option<u32>,
    delay: Option<Duration>,
}

impl SaidPriority {
    /// The two that a priority has beside its parameters count as they are there.
    pub(crate) fn of(priority: &Priority) -> Self {
        let read = Self::read(&priority.parameters);
        let (urgency, incremental) = (priority.urgency.min(7), priority.incremental);
        Self {
            urgency: (read.urgency.is_some() || urgency != DEFAULT).then_some(urgency),
            incremental: (read.incremental.is_some() || incremental).then_some(incremental),
            ..read
        }
    }

    /// HP-13: said by a client to a server. What hangs under a class is found by the whole way to it, so that
    /// one step tells the client's classes from the server's own.
    pub(crate) fn by_client(mut self) -> Self {
        if let Some(first) = self.classes.as_mut().and_then(|classes| classes.first_mut()) {
            first.name.insert(0, BY_CLIENT);
        }
        self
    }

    pub(super) fn read(parameters: &Dictionary) -> Self {
        Self {
            urgency: urgency(item(parameters, "u")),
            incremental: item(parameters, "i").and_then(BareItem::as_boolean),
            weight: weight(item(parameters, "exp_w")),
            classes: match parameters.get("exp_p") {
                Some(ListEntry::InnerList(parents)) => classes(parents),
                _ => None,
            },
            // Sixteen digits do not fit; what is that many is as good as without end.
            burst: whole(item(parameters, "exp_b")).map(|n: u64| n.try_into().unwrap_or(u32::MAX)),
            delay: whole(item(parameters, "exp_d")).map(Duration::from_millis),
        }
    }

    /// What this says, and of what it says nothing, the other (RFC 9218 §8).
    pub(crate) fn or(self, other: &Self) -> Self {
        Self {
            urgency: self.urgency.or(other.urgency),
            incremental: self.incremental.or(other.incremental),
            weight: self.weight.or(other.weight),
            classes: self.classes.or_else(|| other.classes.clone()),
            burst: self.burst.or(other.burst),
            delay: self.delay.or(other.delay),
        }
    }

    pub(crate) fn urgency(&self) -> u8 {
        self.urgency.unwrap_or(DEFAULT)
    }

    pub(crate) fn says_urgency(&self) -> bool {
        self.urgency.is_some()
    }

    pub(crate) fn incremental(&self) -> Option<bool> {
        self.incremental
    }

    pub(crate) fn weight(&self) -> Weight {
        self.weight.unwrap_or_default()
    }

    /// What it is among its siblings.
    pub(crate) fn priority(&self) -> quic::Priority {
        quic::Priority {
            urgency: self.urgency(),
            critical: false,
            incremental: self.incremental.unwrap_or(false),
            weight: self.weight(),
        }
    }

    pub(crate) fn classes(&self) -> &[Class] {
        self.classes.as_deref().unwrap_or_default()
    }

    pub(crate) fn tolerance(&self) -> Option<Tolerance> {
        self.burst.map(|burst| Tolerance { burst, delay: self.delay })
    }
}

/// Which losses of a response the client wants to be repaired, and not sent again (TUM 2025).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tolerance {
    /// Burst loss tolerance: how many packets may be lost in a row. 0 wants no repair, whatever the server
    /// would do.
    pub burst: u32,
    /// Repair delay tolerance: repair may come so long behind what it is for. Without, it comes behind the
    /// end of what there is to send.
    pub delay: Option<Duration>,
}

impl Tolerance {
    /// The least delay that is obeyed.
    pub const LEAST_DELAY: Duration = Duration::from_millis(5);

    /// What does it, with a burst of `most` at most, and behind [`LEAST_DELAY`](Self::LEAST_DELAY) at least:
    /// a repair symbol costs a sender as much as all that it covers, and a peer that asked for some behind
    /// each packet would have us do little else.
    pub fn protection(self, most: u32) -> Protection {
        match (self.burst.min(most), self.delay) {
            (0, _) => Protection::None,
            (burst, None) => PublishedPolicy::TumBulk(burst).into(),
            (burst, Some(delay)) => {
                PublishedPolicy::TumIncremental(burst, delay.max(Self::LEAST_DELAY)).into()
            }
        }
    }
}

// HP-3: from the nearest on. HP-7, HP-12: all of them, or none.
fn classes(parents: &InnerList) -> Option<Vec<Class>> {
    if parents.items.len() > Priority::MOST_PARENTS {
        return None;
    }
    parents.items.iter().rev().map(|parent| class(&parent.bare_item, &parent.params)).collect()
}

fn class(name: &BareItem, parameters: &Parameters) -> Option<Class> {
    let name = name.as_string()?.as_str();
    // HP-5: those of parents are ignored one by one, too.
    let priority = quic::Priority {
        urgency: urgency(parameters.get("u")).unwrap_or(DEFAULT),
        critical: false,
        incremental: parameters.get("i").and_then(BareItem::as_boolean).unwrap_or(false),
        weight: weight(parameters.get("exp_w")).unwrap_or_default(),
    };
    is_name(name).then(|| Class { name: name.to_owned(), priority })
}

/// Whether a parameter can be read; `None` when it is none of those that are known here.
pub(super) fn is_known(key: &str, value: &ListEntry) -> Option<bool> {
    let item = match value {
        ListEntry::Item(item) => Some(&item.bare_item),
        ListEntry::InnerList(_) => None,
    };
    Some(match (key, value) {
        ("u", _) => urgency(item).is_some(),
        ("i", _) => item.and_then(BareItem::as_boolean).is_some(),
        ("exp_w", _) => weight(item).is_some(),
        ("exp_b" | "exp_d", _) => whole::<u64>(item).is_some(),
        ("exp_p", ListEntry::InnerList(parents)) => classes(parents).is_some(),
        ("exp_p", ListEntry::Item(_)) => false,
        _ => return None,
    })
}

/// In front of the name of a class that a client named: nothing that a [`Priority`] can say begins so.
const BY_CLIENT: char = '\u{1}';

/// What can name a class on the wire: an sf-string (RFC 9651 §3.3.3) that is neither empty nor long.
pub(super) fn is_name(name: &str) -> bool {
    (1..=Priority::LONGEST_NAME).contains(&name.len()) && name.bytes().all(|b| matches!(b, b' '..=b'~'))
}

/// RFC 9218 §4.1: 0 to 7.
fn urgency(item: Option<&BareItem>) -> Option<u8> {
    whole(item).filter(|u| *u <= 7)
}

// HP-4: a number above 0; `Weight` keeps it within its bounds.
fn weight(item: Option<&BareItem>) -> Option<Weight> {
    let item = item?;
    // All that 32 bits do not hold weighs the most there is.
    let whole = item.as_integer().map(|n| u32::try_from(i64::from(n).max(0)).unwrap_or(u32::MAX).into());
    let number = whole.or_else(|| item.as_decimal().map(f64::from))?;
    (number > 0.0).then(|| Weight::new(number))
}

/// A parameter that is no list.
fn item<'a>(parameters: &'a Dictionary, key: &str) -> Option<&'a BareItem> {
    match parameters.get(key) {
        Some(ListEntry::Item(item)) => Some(&item.bare_item),
        _ => None,
    }
}

/// An integer that fits.
fn whole<N: TryFrom<i64>>(item: Option<&BareItem>) -> Option<N> {
    item?.as_integer().and_then(|n| N::try_from(i64::from(n)).ok())
}
