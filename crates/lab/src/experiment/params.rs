use std::collections::BTreeMap;
use std::fmt;

use quickset_base::number::Float as _;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::{ExperimentKey, KEYS, ValueError};

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A number; shares are fractions, sizes bytes.
    Number(f64),
    /// A word, or a model as text.
    Text(String),
}

/// The parameters of a run: key and value, in the order of names.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Params(BTreeMap<String, Value>);

impl Params {
    /// Sets a key by text.
    ///
    /// # Errors
    /// When the value does not fit the key.
    pub fn set(&mut self, key: &ExperimentKey, text: &str) -> Result<(), ValueError> {
        self.put(key, key.read(text)?);
        Ok(())
    }

    /// Sets a key.
    pub fn put(&mut self, key: &ExperimentKey, value: Value) {
        self.0.insert(key.name.to_owned(), value);
    }

    /// A value, if the key is there.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// All keys and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The number of a key.
    ///
    /// # Errors
    /// When the key is missing or holds a word.
    pub fn number(&self, key: &str) -> Result<f64, ValueError> {
        match self.get(key) {
            Some(Value::Number(n)) => Ok(*n),
            Some(Value::Text(text)) => Err(ValueError(format!("`{key}={text}` is not a number"))),
            None => Err(ValueError(format!("the key `{key}` is missing"))),
        }
    }

    /// The number of a key, or `None` where it holds its word (`unlimited`, `max`).
    pub fn number_or_word(&self, key: &str) -> Option<f64> {
        self.number(key).ok()
    }

    /// A whole number.
    ///
    /// # Errors
    /// As [`number`](Self::number).
    pub fn whole(&self, key: &str) -> Result<u64, ValueError> {
        Ok(self.number(key)?.whole::<u64>())
    }

    /// The value of a key as text, as it is written.
    pub fn text(&self, key: &str) -> String {
        self.get(key).map(Value::to_string).unwrap_or_default()
    }
}

/// The members of an object that are keys; the others, a row's measures, are somebody else's.
impl<'de> Deserialize<'de> for Params {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Params;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with the keys of an experiment")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Params, A::Error> {
                let mut params = Params::default();
                while let Some(name) = map.next_key::<String>()? {
                    if KEYS.iter().any(|key| key.name == name) {
                        params.0.insert(name, map.next_value()?);
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(params)
            }
        }
        from.deserialize_map(Members)
    }
}

/// Whole numbers without a point.
impl Serialize for Value {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(n) if n.fract() == 0.0 && n.abs() < 1e15 => to.serialize_i64(n.integer()),
            Self::Number(n) => to.serialize_f64(*n),
            Self::Text(text) => to.serialize_str(text),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(n) => write!(f, "{n}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// `key=value`, separated by spaces: two runs are the same when this, their seed and their world are.
impl fmt::Display for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (key, value)) in self.iter().enumerate() {
            write!(f, "{}{key}={value}", if i == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Row;

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let mut params = Params::default();
        for (name, value) in [("loss", "1.23%"), ("mode", "total"), ("updates", "300"), ("owd_ms", "27.61")] {
            params.set(ExperimentKey::find(name).unwrap(), value).unwrap();
        }
        let mut row = Row {
            experiment: "screen-streaming".to_owned(),
            seed: 7,
            commit: "0".to_owned(),
            world: "sim".to_owned(),
            params,
            metrics: crate::results::RunMetrics::default(),
            detail: crate::results::Detail::default(),
        };
        row.metrics.finished = true;
        row.metrics.completion_s = Some(0.1 + 0.2);
        row.metrics.times.blocking_ms =
            Some(crate::stats::Percentiles { p99: 1.0 / 3.0, ..Default::default() });
        let text = serde_json::to_string(&row).unwrap();
        assert!(text.contains("\"updates\":300,"), "{text}");
        let read: Row = serde_json::from_str(&text).unwrap();
        assert_eq!(read, row);
        assert_eq!(read.identity(), row.identity());
        assert_eq!(read.params.iter().count(), 4, "measures are not parameters");
    }
}
