use core::fmt::Write as _;

use bytes::Bytes;
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
        let item = |key: &str| match parameters.get(key) {
            Some(ListEntry::Item(item)) => Some(&item.bare_item),
            _ => None,
        };
        let urgency =
            item("u").and_then(sfv::BareItem::as_integer).and_then(|u| u8::try_from(i64::from(u)).ok());
        let urgency = urgency.filter(|u| *u <= 7).unwrap_or(DEFAULT);
        let incremental = item("i").and_then(sfv::BareItem::as_boolean).unwrap_or(false);
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
