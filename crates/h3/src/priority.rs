mod said;
#[cfg(test)]
mod tests;

use core::fmt::Write as _;

use bytes::Bytes;
use quickset_quic::{self as quic, Class, Weight};
use sfv::{
    BareItem, Decimal, Dictionary, FieldType as _, InnerList, Item, Key, ListEntry, Parameters, Parser,
};

pub(crate) use self::said::SaidPriority;
pub use self::said::Tolerance;

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

    /// Reads the value of a Priority field. `None` when it is no dictionary; parameters that are unknown, out
    /// of range or of another type are ignored one by one (RFC 9218 §4).
    pub fn parse(value: &[u8]) -> Option<Self> {
        let parameters = Parser::new(value).parse().ok()?;
        let scheduled = SaidPriority::read(&parameters).priority();
        Some(Self { urgency: scheduled.urgency, incremental: scheduled.incremental, parameters })
    }

    /// Reads all Priority fields of a message as one (RFC 9110 §5.3); what is not there or malformed is as by
    /// default.
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

    /// What the parameters `exp_b` (packets) and `exp_d` (milliseconds) ask for: whole numbers that are not
    /// negative, or ignored one by one. `None` without the first: the second says nothing alone.
    pub fn tolerance(&self) -> Option<Tolerance> {
        SaidPriority::of(self).tolerance()
    }

    /// The weight among its siblings (`exp_w`), a number above 0; 1 unless said otherwise.
    pub fn weight(&self) -> Weight {
        SaidPriority::of(self).weight()
    }

    /// The same with another weight, to the thousandth.
    #[must_use]
    pub fn with_weight(mut self, weight: impl Into<Weight>) -> Self {
        self.parameters.insert(key("exp_w"), ListEntry::Item(Item::new(decimal(weight.into()))));
        self
    }

    /// The classes that it hangs under (`exp_p`), from the first below the connection to its parent: the
    /// other way round than on the wire. None without them, or when one of them cannot be read: it is below
    /// the connection itself then.
    pub fn classes(&self) -> Vec<Class> {
        SaidPriority::of(self).classes().to_vec()
    }

    /// The same under the last of these classes; with none, below the connection itself.
    ///
    /// ```
    /// use quickset_h3::{Class, Priority};
    ///
    /// let page = Class::new("page", 3.0).urgency(1);
    /// let image = Priority::new(4, true).with_weight(2.0).with_classes(&[page, Class::new("images", 1.0)])?;
    /// assert_eq!(image.value(), r#"u=4, i, exp_w=2.0, exp_p=("images";i "page";u=1;i;exp_w=3.0)"#);
    /// # Ok::<_, quickset_h3::UnspeakableClass>(())
    /// ```
    ///
    /// # Errors
    /// When there are more than [`MOST_PARENTS`](Self::MOST_PARENTS), or the name of one cannot be written.
    pub fn with_classes(mut self, path: &[Class]) -> Result<Self, UnspeakableClass> {
        if path.len() > Self::MOST_PARENTS {
            return Err(UnspeakableClass::TooDeep);
        }
        let parents: Result<Vec<Item>, _> = path.iter().rev().map(parent).collect();
        self.parameters.insert(key("exp_p"), ListEntry::InnerList(InnerList::new(parents?)));
        Ok(self)
    }

    /// The parameters among `u`, `i` and `exp_…` that are there and ignored, because they cannot be read.
    pub fn misread(&self) -> impl Iterator<Item = &str> {
        let entries = self.parameters.iter();
        entries
            .filter(|(key, value)| said::is_known(key.as_str(), value) == Some(false))
            .map(|(key, _)| key.as_str())
    }

    /// What this says, and where it says nothing, what `other` says (RFC 9218 §8): each parameter by itself,
    /// `exp_p` as a whole. Urgency and incremental count as said when they are not as by default, or stand
    /// among the parameters.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        let scheduled = SaidPriority::of(self).or(&SaidPriority::of(other)).priority();
        let mut parameters = other.parameters.clone();
        for (key, value) in &self.parameters {
            if said::is_known(key.as_str(), value) != Some(false) {
                parameters.insert(key.clone(), value.clone());
            }
        }
        Self { urgency: scheduled.urgency, incremental: scheduled.incremental, parameters }
    }

    /// Parents that are obeyed at most, one below the other; of more, none is.
    pub const MOST_PARENTS: usize = 16;
    /// Bytes of the name of a parent at most.
    pub const LONGEST_NAME: usize = 64;

    /// The value of a Priority field: urgency and incremental, where they are not as by default or were said
    /// so, and the other parameters.
    pub fn value(&self) -> Bytes {
        let said = SaidPriority::of(self);
        let mut text = String::new();
        if said.says_urgency() {
            let _ = write!(text, "u={}", self.urgency.min(7));
        }
        if let Some(incremental) = said.incremental() {
            text.push_str(if text.is_empty() { "" } else { ", " });
            text.push_str(if incremental { "i" } else { "i=?0" });
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

/// Why classes cannot be written as `exp_p`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnspeakableClass {
    /// More than [`Priority::MOST_PARENTS`], one below the other.
    #[error("more than {} classes, one below the other", Priority::MOST_PARENTS)]
    TooDeep,
    /// A name that is empty, longer than [`Priority::LONGEST_NAME`], or holds anything but printable
    /// ASCII.
    #[error("a name of a class is 1 to {} characters of ASCII", Priority::LONGEST_NAME)]
    Name,
}

fn parent(class: &Class) -> Result<Item, UnspeakableClass> {
    let name =
        said::is_name(&class.name).then(|| sfv::String::from_string(class.name.clone()).ok()).flatten();
    let mut parameters = Parameters::new();
    let quic::Priority { urgency, incremental, weight, .. } = class.priority;
    if urgency != DEFAULT {
        parameters.insert(key("u"), BareItem::Integer(urgency.min(7).into()));
    }
    if incremental {
        parameters.insert(key("i"), BareItem::Boolean(true));
    }
    if weight != Weight::default() {
        parameters.insert(key("exp_w"), decimal(weight));
    }
    Ok(Item::with_params(BareItem::String(name.ok_or(UnspeakableClass::Name)?), parameters))
}

fn decimal(weight: Weight) -> BareItem {
    BareItem::Decimal(Decimal::try_from(weight.get()).expect("at most 100"))
}

fn key(name: &str) -> Key {
    Key::from_string(name.to_owned()).expect("lower case letters and underscores")
}

/// RFC 9218 §4.1.
const DEFAULT: u8 = 3;
