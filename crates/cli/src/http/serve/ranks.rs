//! `--priorities FILE`: how answers by HTTP/3 are sent, by rules on their paths and content types.

#[cfg(test)]
mod tests;

use std::path::Path;

use anyhow::Context as _;
use quickset::h3::{Priority, Request, Response, UnspeakableClass};
use quickset::{Class, Priority as Rank};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::super::site::{Glob, decoded};

/// What the rules make of an answer; the first that fits counts.
#[derive(Debug, Default)]
pub(super) struct Ranks {
    rules: Vec<Ranked>,
}

#[derive(Debug)]
struct Ranked {
    path: Option<Glob>,
    kind: Option<Glob>,
    priority: Priority,
    unless_asked: bool,
}

/// What a server says of an answer.
#[derive(Debug, PartialEq)]
pub(super) enum RankVerdict<'a> {
    /// Before what the client says.
    Own(&'a Priority),
    /// Behind it.
    Usual(&'a Priority),
}

impl Ranks {
    pub(super) fn read(file: &Path) -> anyhow::Result<Self> {
        let shown = file.display();
        let text = std::fs::read_to_string(file).with_context(|| format!("{shown} cannot be read"))?;
        Self::parse(&text).map_err(|error| anyhow::anyhow!("{shown}, {error}"))
    }

    /// The rules of a text, or what is wrong with it and where.
    fn parse(text: &str) -> Result<Self, String> {
        let File { rule } = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start.min(text.len()));
            let number = text.get(..at).unwrap_or_default().split('\n').skip(1).count();
            let line = text.lines().nth(number).unwrap_or_default().trim();
            format!("line {}, `{line}`: {}", number + 1, error.message())
        })?;
        Ok(Self { rules: rule.into_iter().map(RankRule::ranked).collect() })
    }

    /// What is said of this answer, if anything.
    pub(super) fn of(&self, request: &Request, response: &Response) -> Option<RankVerdict<'_>> {
        // Most servers have no rules.
        if self.rules.is_empty() {
            return None;
        }
        let target = request.path.as_deref().unwrap_or_default();
        // Names need not be text, and all else of the pattern is to fit them nonetheless.
        let path = target.split(|b| *b == b'?').next().and_then(decoded);
        let path = path.as_deref().map(String::from_utf8_lossy);
        let kind =
            response.field("content-type").map(|kind| String::from_utf8_lossy(kind).to_ascii_lowercase());
        let kind = kind.as_deref().and_then(|kind| kind.split(';').next()).map(str::trim);
        let fits = |glob: &Option<Glob>, text: Option<&str>| match (glob, text) {
            (None, _) => true,
            (Some(glob), Some(text)) => glob.fits(text),
            (Some(_), None) => false,
        };
        let rule =
            self.rules.iter().find(|rule| fits(&rule.path, path.as_deref()) && fits(&rule.kind, kind))?;
        let verdict = if rule.unless_asked { RankVerdict::Usual } else { RankVerdict::Own };
        Some(verdict(&rule.priority))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<RankRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RankRule {
    #[serde(default, deserialize_with = "of_path")]
    path: Option<Glob>,
    #[serde(default, rename = "type", deserialize_with = "of_kind")]
    kind: Option<Glob>,
    u: Option<Urgency>,
    i: Option<bool>,
    exp_w: Option<RankWeight>,
    exp_b: Option<u32>,
    exp_d: Option<u32>,
    parents: Option<Parents>,
    #[serde(default)]
    unless_asked: bool,
}

/// A class, as a table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parent {
    name: String,
    u: Option<Urgency>,
    #[serde(default)]
    i: bool,
    exp_w: Option<RankWeight>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "i64")]
struct Urgency(u8);

#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "toml::Value")]
struct RankWeight(f64);

/// Nearest first, as in the field.
#[derive(Deserialize)]
#[serde(try_from = "Vec<Parent>")]
struct Parents(Vec<Class>);

/// A pattern that some path fits: with another the rule would be there in vain, and nobody would hear of it.
fn of_path<'de, D: Deserializer<'de>>(pattern: D) -> Result<Option<Glob>, D::Error> {
    let glob = Glob::from(&*String::deserialize(pattern)?);
    let fault = "no path fits, since all begin with a slash; write it like /img/** or **.css";
    if glob.takes_paths() { Ok(Some(glob)) } else { Err(D::Error::custom(fault)) }
}

/// A pattern that some content type fits. Types are compared without regard to case (RFC 9110 §8.3.1).
fn of_kind<'de, D: Deserializer<'de>>(pattern: D) -> Result<Option<Glob>, D::Error> {
    let pattern = String::deserialize(pattern)?.to_ascii_lowercase();
    let fault =
        "no type fits, since all have a slash and here parameters do not count; write it like image/*";
    let fits = (pattern.contains('/') || pattern.contains("**")) && !pattern.contains(';');
    if fits { Ok(Some(Glob::from(&*pattern))) } else { Err(D::Error::custom(fault)) }
}

impl RankRule {
    fn ranked(self) -> Ranked {
        let mut said = Vec::new();
        said.extend(self.u.map(|Urgency(u)| format!("u={u}")));
        said.extend(self.i.map(|i| if i { "i".to_owned() } else { "i=?0".to_owned() }));
        said.extend(self.exp_b.map(|burst| format!("exp_b={burst}")));
        said.extend(self.exp_d.map(|delay| format!("exp_d={delay}")));
        let mut priority = Priority::parse(said.join(", ").as_bytes()).expect("it is a dictionary");
        if let Some(RankWeight(weight)) = self.exp_w {
            priority = priority.with_weight(weight);
        }
        if let Some(Parents(path)) = self.parents {
            priority = priority.with_classes(&path).expect("they were tried");
        }
        Ranked { path: self.path, kind: self.kind, priority, unless_asked: self.unless_asked }
    }
}

impl TryFrom<i64> for Urgency {
    type Error = String;

    fn try_from(u: i64) -> Result<Self, String> {
        u8::try_from(u)
            .ok()
            .filter(|u| *u <= 7)
            .map(Self)
            .ok_or_else(|| format!("u is 0 (most urgent) to 7, not {u}"))
    }
}

impl TryFrom<toml::Value> for RankWeight {
    type Error = String;

    fn try_from(value: toml::Value) -> Result<Self, String> {
        let whole = || i32::try_from(value.as_integer()?).ok().map(f64::from);
        let number = value.as_float().or_else(whole);
        let fits = number.filter(|weight| (0.01..=100.0).contains(weight));
        fits.map(Self).ok_or_else(|| "exp_w is a number from 0.01 to 100".to_owned())
    }
}

impl TryFrom<Vec<Parent>> for Parents {
    type Error = UnspeakableClass;

    fn try_from(parents: Vec<Parent>) -> Result<Self, UnspeakableClass> {
        let class = |parent: Parent| {
            let weight = parent.exp_w.map_or(1.0, |RankWeight(weight)| weight);
            let urgency = parent.u.map_or(3, |Urgency(u)| u);
            let priority = Rank { incremental: parent.i, ..Rank::weighted(weight).urgency(urgency) };
            Class { name: parent.name, priority }
        };
        let path: Vec<Class> = parents.into_iter().rev().map(class).collect();
        Priority::default().with_classes(&path)?;
        Ok(Self(path))
    }
}
