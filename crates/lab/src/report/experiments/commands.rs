//! The commands that make the same rows again, found by asking the experiment what they would run.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::sheet::Sheet;
use super::words::for_set;
use crate::experiment::{Experiment, Key, Overrides, Params, Value, Varied};

/// The commands that give all rows of a sheet, a line each; the second is true when they give other points too.
pub(crate) fn repeat(sheet: &Sheet) -> (Vec<String>, bool) {
    let (mut commands, mut exact) = (Vec::new(), true);
    for world in &sheet.worlds {
        let rows = || sheet.runs.iter().filter(|run| run.row.world == *world).map(|run| &run.row);
        let mut points: Vec<Params> = Vec::new();
        let mut known = BTreeSet::new();
        for row in rows() {
            if known.insert(row.params.to_string()) {
                points.push(row.params.clone());
            }
        }
        let seeds = rows().map(|row| row.seed).max().unwrap_or(1);
        let (words, all) = cover(sheet, points);
        exact &= all;
        for mut words in words {
            words.insert(0, format!("quickset lab run {}", sheet.experiment.name));
            words.push(format!("--seeds {seeds}"));
            words.extend((world == "real").then(|| "--real".to_owned()));
            commands.push(words.join(" "));
        }
    }
    (commands, exact)
}

/// The command that adds the points without loss which `sheet` lacks; `None` when it lacks none.
pub(crate) fn lossless(sheet: &Sheet) -> Vec<String> {
    if !sheet.experiment.has("loss") {
        return Vec::new();
    }
    let mut commands: Vec<String> = Vec::new();
    let base = sheet.experiment.base();
    let lacking = (0..sheet.spots.len()).filter(|spot| sheet.lossless(*spot).is_none());
    // What one key varies is one command: several --set multiply.
    let mut by_keys: Vec<(Vec<String>, Vec<Vec<String>>)> = Vec::new();
    for spot in lacking.map(|spot| &sheet.spots[spot]) {
        let differing =
            || spot.point.iter().filter(|(key, value)| key != "loss" && base.get(key) != Some(value));
        let keys: Vec<String> = differing().map(|(key, _)| key.clone()).collect();
        let values: Vec<String> = differing().map(|(key, value)| set_text(key, value)).collect();
        match by_keys.iter_mut().find(|(other, _)| *other == keys) {
            Some((_, all)) if !all.contains(&values) => all.push(values),
            Some(_) => {}
            None => by_keys.push((keys, vec![values])),
        }
    }
    for (keys, all) in by_keys {
        let mut command = format!("quickset lab run {} --set loss=0", sheet.experiment.name);
        for (n, key) in keys.iter().enumerate() {
            let mut values: Vec<String> = Vec::new();
            for value in all.iter().map(|values| &values[n]) {
                if !values.contains(value) {
                    values.push(value.clone());
                }
            }
            let _ = write!(command, " --set {key}={}", joined(&values));
        }
        let seeds = sheet.runs.iter().map(|run| run.row.seed).max().unwrap_or(1);
        if seeds != u64::from(sheet.experiment.seeds) {
            let _ = write!(command, " --seeds {seeds}");
        }
        commands.push(command);
    }
    commands.truncate(MOST);
    commands
}

/// Words of `lab run` whose points are these; false when they may be more.
fn cover(sheet: &Sheet, points: Vec<Params>) -> (Vec<Vec<String>>, bool) {
    let plan = Plan { experiment: sheet.experiment, planned: &sheet.planned };
    let names = |points: &[Params]| points.iter().map(Params::to_string).collect::<BTreeSet<_>>();
    let (all, here) = (names(plan.planned), names(&points));
    let (commands, exact) = plan.cover(points);
    // A sweep that is under way: of many commands none is what somebody typed.
    if commands.len() > FEW && here.is_subset(&all) {
        return (vec![Vec::new()], false);
    }
    (commands, exact)
}

/// An experiment, and what it runs unless told.
#[derive(Clone, Copy)]
struct Plan<'a> {
    experiment: &'static Experiment,
    planned: &'a [Params],
}

impl Plan<'_> {
    fn cover(self, points: Vec<Params>) -> (Vec<Vec<String>>, bool) {
        let mut left = points;
        let mut commands = Vec::new();
        while !left.is_empty() && commands.len() < MOST {
            let Some((words, taken)) = self.candidates(&left).into_iter().find_map(|words| {
                let points = self.run_by(&words)?;
                let names: BTreeSet<String> = left.iter().map(Params::to_string).collect();
                let all = points.iter().all(|point| names.contains(&point.to_string()));
                (all && !points.is_empty()).then_some((words, points))
            }) else {
                break;
            };
            let taken: BTreeSet<String> = taken.iter().map(Params::to_string).collect();
            left.retain(|point| !taken.contains(&point.to_string()));
            commands.push(words.texts());
        }
        if !left.is_empty() {
            commands.push(self.product(&left).texts());
        }
        (commands, left.is_empty())
    }

    /// What these words run.
    fn run_by(self, words: &Words) -> Option<Vec<Params>> {
        if words.set.is_empty() && words.points.is_none() {
            return Some(self.planned.to_vec());
        }
        self.experiment.points(&Overrides { set: words.set.clone(), points: words.points }).ok()
    }

    /// From the shortest: everything; everything with what is the same in all points; all products; each by itself.
    fn candidates(self, points: &[Params]) -> Vec<Words> {
        let mut all = vec![Words::default()];
        let designs = match self.experiment.varied {
            Varied::Space { ranges, .. } => {
                let keys: Vec<&str> = ranges.iter().map(|(key, ..)| *key).collect();
                let places: BTreeSet<String> = points
                    .iter()
                    .map(|point| keys.iter().map(|key| point.text(key)).collect::<Vec<_>>().join(" "))
                    .collect();
                vec![u32::try_from(places.len()).ok()]
            }
            Varied::OneByOne(_) => vec![],
        };
        let constant = self.constant(points);
        for points in std::iter::once(None).chain(designs) {
            all.push(Words { set: Vec::new(), points });
            all.push(Words { set: constant.clone(), points });
        }
        all.push(self.product(points));
        if let Some(first) = points.first() {
            // Those that differ from the first in crossed keys alone.
            let crossed = |key: &str| self.experiment.crossed.iter().any(|(name, _)| *name == key);
            let same = |a: &Params, b: &Params| {
                a.iter().filter(|(key, _)| !crossed(key)).eq(b.iter().filter(|(key, _)| !crossed(key)))
            };
            let near: Vec<Params> = points.iter().filter(|point| same(point, first)).cloned().collect();
            all.push(self.product(&near));
            all.push(self.product(std::slice::from_ref(first)));
        }
        all
    }

    /// Keys that have the same values in all points, others than the experiment gives them.
    fn constant(self, points: &[Params]) -> Vec<(String, String)> {
        let varied: Vec<&str> = match self.experiment.varied {
            Varied::OneByOne(keys) => keys.iter().map(|(key, _)| *key).collect(),
            Varied::Space { ranges, .. } => ranges.iter().map(|(key, ..)| *key).collect(),
        };
        let mut set = self.product(points).set;
        set.retain(|(key, _)| !varied.contains(&key.as_str()) || values(points, key).len() == 1);
        set.retain(|(key, _)| {
            !varied.contains(&key.as_str()) || self.experiment.base().get(key) != points[0].get(key)
        });
        set
    }

    /// Every key with all its values.
    fn product(self, points: &[Params]) -> Words {
        let base = self.experiment.base();
        let mut set = Vec::new();
        for (key, _) in self.experiment.baseline {
            let values = values(points, key);
            let usual: Vec<Value> = match self.experiment.crossed.iter().find(|(name, _)| name == key) {
                Some(_) => self::values(self.planned, key),
                None => base.get(key).cloned().into_iter().collect(),
            };
            let same = values.len() == usual.len() && values.iter().all(|value| usual.contains(value));
            if !same && !values.is_empty() {
                let texts: Vec<String> = values.iter().map(|value| set_text(key, value)).collect();
                set.push(((*key).to_owned(), joined(&texts)));
            }
        }
        // The baseline alone: one varied key that is set leaves the other variations out.
        if let Varied::OneByOne(keys) = self.experiment.varied {
            let is_varied = |name: &str| keys.iter().any(|(key, _)| *key == name);
            if let (false, Some((key, _))) = (set.iter().any(|(key, _)| is_varied(key)), keys.first()) {
                let values = values(points, key);
                set.extend(values.first().map(|value| ((*key).to_owned(), set_text(key, value))));
            }
        }
        Words { set, points: None }
    }
}

/// What `lab run` is told.
#[derive(Clone, Default)]
struct Words {
    set: Vec<(String, String)>,
    points: Option<u32>,
}

impl Words {
    fn texts(&self) -> Vec<String> {
        let set = self.set.iter().map(|(key, values)| {
            let quoted = values.contains(';');
            if quoted { format!("--set '{key}={values}'") } else { format!("--set {key}={values}") }
        });
        set.chain(self.points.map(|n| format!("--points {n}"))).collect()
    }
}

/// The different values of a key, in the order of points.
fn values(points: &[Params], key: &str) -> Vec<Value> {
    let mut values: Vec<Value> = Vec::new();
    for value in points.iter().filter_map(|point| point.get(key)) {
        if !values.contains(value) {
            values.push(value.clone());
        }
    }
    values
}

fn set_text(key: &str, value: &Value) -> String {
    Key::find(key).map_or_else(|_| value.to_string(), |key| for_set(key, value))
}

/// Values that hold commas themselves are told apart by semicolons.
fn joined(values: &[String]) -> String {
    let separator =
        if values.len() > 1 && values.iter().any(|value| value.contains(',')) { ";" } else { "," };
    values.join(separator)
}

/// So many commands somebody may have typed.
const FEW: usize = 3;
/// More commands than this help nobody.
const MOST: usize = 12;
