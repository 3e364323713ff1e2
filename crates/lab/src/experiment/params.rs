use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Key, ValueError};

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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Params(BTreeMap<String, Value>);

impl Params {
    /// Sets a key by text.
    ///
    /// # Errors
    /// When the value does not fit the key.
    pub fn set(&mut self, key: &Key, text: &str) -> Result<(), ValueError> {
        self.put(key, key.read(text)?);
        Ok(())
    }

    /// Sets a key.
    pub fn put(&mut self, key: &Key, value: Value) {
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
        Ok(self.number(key)? as u64)
    }

    /// The value of a key as text, as it is written.
    pub fn text(&self, key: &str) -> String {
        self.get(key).map(Value::to_string).unwrap_or_default()
    }
}

/// Whole numbers without a point.
impl Serialize for Value {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(n) if n.fract() == 0.0 && n.abs() < 1e15 => to.serialize_i64(*n as i64),
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
