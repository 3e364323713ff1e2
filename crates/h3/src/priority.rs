use core::fmt::Write as _;

use bytes::Bytes;
use quickset_base::Duration;
use quickset_quic::Protection;
use sfv::{Dictionary, FieldType as _, Key, ListEntry, Parser};

/// How a response is to be scheduled (RFC 9218 §4).
#[derive(Clone, Debug, PartialEq)]
pub struct Priority {
    /// How urgent it is, 0 (most) to 7; 3 unless said otherwise.
    pub urgency: u8,
    /// It is of use in parts, so that responses of the same urgency may share the way.
    pub incremental: bool,
    /// All parameters as they were parsed, `u` and `i` among them if they were there.
    pub parameters: Dictionary,
}

impl Priority {
    /// A priority without further parameters; urgencies above 7 count as 7.
    pub fn new(urgency: u8, incremental: bool) -> Self {
        Self { urgency: urgency.min(7), incremental, parameters: Dictionary::default() }
    }

    /// Reads the value of a Priority field. `None` when it is no dictionary; parameters that are unknown, out of range or of
    /// another type are ignored one by one (RFC 9218 §4).
    pub fn parse(value: &[u8]) -> Option<Self> {
        let parameters: Dictionary = Parser::new(value).parse().ok()?;
        let urgency = whole(&parameters, "u").filter(|u| *u <= 7).unwrap_or(DEFAULT);
        let incremental = item(&parameters, "i").and_then(sfv::BareItem::as_boolean).unwrap_or(false);
        Some(Self { urgency, incremental, parameters })
    }

    /// Reads all Priority fields of a message as one (RFC 9110 §5.3); what is not there or malformed is as by default.
    pub fn of(fields: &[crate::Field]) -> Self {
        let mut values = fields.iter().filter(|f| f.name == "priority").map(|f| &f.value);
        match (values.next(), values.next()) {
            (None, _) => Self::default(),
            (Some(one), None) => Self::parse(one).unwrap_or_default(),
            (Some(first), Some(second)) => {
                let joined: Vec<&[u8]> = [first, second].into_iter().chain(values).map(|v| &v[..]).collect();
                Self::parse(&joined.join(&b","[..])).unwrap_or_default()
            }
        }
    }

    /// What the parameters `exp_b` (packets) and `exp_d` (milliseconds) ask for: whole numbers that are not negative, or ignored
    /// one by one. `None` without the first: the second says nothing alone.
    pub fn tolerance(&self) -> Option<Tolerance> {
        // Sixteen digits do not fit; what is that many is as good as without end.
        let burst = whole::<u64>(&self.parameters, "exp_b")?.try_into().unwrap_or(u32::MAX);
        let delay = whole(&self.parameters, "exp_d").map(Duration::from_millis);
        Some(Tolerance { burst, delay })
    }

    /// The value of a Priority field: urgency and incremental, where they are not as by default, and the other parameters.
    pub fn value(&self) -> Bytes {
        let mut text = String::new();
        if self.urgency != DEFAULT {
            let _ = write!(text, "u={}", self.urgency);
        }
        if self.incremental {
            text.push_str(if text.is_empty() { "i" } else { ", i" });
        }
        let is_other = |key: &Key| !matches!(key.as_str(), "u" | "i");
        let others: Dictionary = self
            .parameters
            .iter()
            .filter(|(k, _)| is_other(k))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        if let Some(others) = others.serialize() {
            text.push_str(if text.is_empty() { "" } else { ", " });
            text.push_str(&others);
        }
        text.into()
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::new(DEFAULT, false)
    }
}

/// Which losses of a response the client wants to be repaired, and not sent again (TUM 2025).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tolerance {
    /// Burst loss tolerance: how many packets may be lost in a row. 0 wants no repair, whatever the server would do.
    pub burst: u32,
    /// Repair delay tolerance: repair may come so long behind what it is for. Without, it comes behind the end of what there is
    /// to send.
    pub delay: Option<Duration>,
}

impl Tolerance {
    /// The least delay that is obeyed.
    pub const LEAST_DELAY: Duration = Duration::from_millis(5);

    /// What does it, with a burst of `most` at most, and behind [`LEAST_DELAY`](Self::LEAST_DELAY) at least: a repair symbol costs
    /// a sender as much as all that it covers, and a peer that asked for some behind each packet would have us do little else.
    pub fn protection(self, most: u32) -> Protection {
        match (self.burst.min(most), self.delay) {
            (0, _) => Protection::None,
            (burst, None) => Protection::TumBulk(burst),
            (burst, Some(delay)) => Protection::TumIncremental(burst, delay.max(Self::LEAST_DELAY)),
        }
    }
}

/// A parameter that is no list.
fn item<'a>(parameters: &'a Dictionary, key: &str) -> Option<&'a sfv::BareItem> {
    match parameters.get(key) {
        Some(ListEntry::Item(item)) => Some(&item.bare_item),
        _ => None,
    }
}

/// A parameter that is an integer, and fits.
fn whole<N: TryFrom<i64>>(parameters: &Dictionary, key: &str) -> Option<N> {
    item(parameters, key)?.as_integer().and_then(|n| N::try_from(i64::from(n)).ok())
}

/// RFC 9218 §4.1.
const DEFAULT: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Field;

    fn parsed(value: &str) -> (u8, bool) {
        let priority = Priority::parse(value.as_bytes()).unwrap();
        (priority.urgency, priority.incremental)
    }

    /// RFC 9218 §4.1, §4.2, §5.
    #[test]
    fn urgency_and_incremental_are_read() {
        assert_eq!(parsed(""), (3, false));
        assert_eq!(parsed("u=5, i"), (5, true));
        assert_eq!(parsed("i=?0, u=0"), (0, false));
        assert_eq!(parsed("u=1, u=2"), (2, false), "RFC 9651: the last one counts");
    }

    /// RFC 9218 §4: ignored, one by one.
    #[test]
    fn what_is_unknown_or_out_of_range_is_ignored() {
        assert_eq!(parsed("u=8, i"), (3, true));
        assert_eq!(parsed("u=-1, i"), (3, true));
        assert_eq!(parsed("u=1.5, i=1"), (3, false));
        assert_eq!(parsed("u=\"1\", i"), (3, true));
        assert_eq!(parsed("u=(1 2), i"), (3, true));
        assert_eq!(parsed("u=2;x=1, foo=bar, i;y"), (2, true));
        assert_eq!(parsed("u=300"), (3, false), "not 44");
    }

    #[test]
    fn what_is_no_dictionary_is_none() {
        assert_eq!(Priority::parse(b"u=1,"), None);
        assert_eq!(Priority::parse(b"U=1"), None);
        assert_eq!(Priority::parse(b"\xff"), None);
    }

    #[test]
    fn several_fields_are_one() {
        let of = |values: &[&'static str]| {
            let fields: Vec<Field> = values.iter().map(|v| Field::new("priority", *v)).collect();
            let priority = Priority::of(&fields);
            (priority.urgency, priority.incremental)
        };
        assert_eq!(of(&[]), (3, false));
        assert_eq!(of(&["u=1"]), (1, false));
        assert_eq!(of(&["u=1", "i", "u=4"]), (4, true));
        assert_eq!(of(&["u=1", "("]), (3, false));
    }

    /// RFC 9218 §5.
    #[test]
    fn tolerances_are_read_one_by_one() {
        let tolerance = |value: &str| Priority::parse(value.as_bytes()).unwrap().tolerance();
        let of = |burst, ms: Option<u64>| Some(Tolerance { burst, delay: ms.map(Duration::from_millis) });
        assert_eq!(tolerance("u=1, exp_b=3, exp_d=80"), of(3, Some(80)));
        assert_eq!(tolerance("exp_b=5"), of(5, None));
        assert_eq!(tolerance("exp_b=0, exp_d=0"), of(0, Some(0)));
        for malformed in ["-1", "2.5", "\"25\"", "(25)", "?1", "tok"] {
            assert_eq!(tolerance(&format!("exp_b=3, exp_d={malformed}")), of(3, None), "{malformed}");
            assert_eq!(tolerance(&format!("exp_b={malformed}, exp_d=25, u=1")), None, "{malformed}");
            assert_eq!(parsed(&format!("exp_b={malformed}, u=1, i")), (1, true), "{malformed}");
        }
        assert_eq!(tolerance("exp_d=25"), None);
        assert_eq!(tolerance("exp_b=999999999999999"), of(u32::MAX, None));
        assert_eq!(tolerance("exp_p=(\"a\";exp_b=3)"), None, "those of parents say nothing");
    }

    #[test]
    fn tolerances_are_policies_within_bounds() {
        let protection =
            |value: &str| Priority::parse(value.as_bytes()).unwrap().tolerance().unwrap().protection(16);
        assert_eq!(protection("exp_b=3"), Protection::TumBulk(3));
        assert_eq!(protection("exp_b=2, exp_d=25"), Protection::TumIncremental(2, Duration::from_millis(25)));
        assert_eq!(protection("exp_b=2, exp_d=0"), Protection::TumIncremental(2, Duration::from_millis(5)));
        assert_eq!(protection("exp_b=0, exp_d=25"), Protection::None);
        assert_eq!(protection("exp_b=17"), Protection::TumBulk(16));
    }

    #[test]
    fn further_parameters_are_kept_and_sent() {
        let value = r#"u=1, i, exp_b=3, exp_d=80, exp_w=0.5, exp_p=("ivp";u=3;i;exp_w=0.4 "img";u=1)"#;
        let priority = Priority::parse(value.as_bytes()).unwrap();
        assert!(
            matches!(priority.parameters.get("exp_p"), Some(ListEntry::InnerList(list)) if list.items.len() == 2)
        );
        assert_eq!(priority.value(), value);
        assert_eq!(Priority::new(5, true).value(), "u=5, i");
        assert_eq!(Priority::default().value(), "");
    }
}
