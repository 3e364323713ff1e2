//! The commands that make the same rows again, found by asking the experiment what they would run.

use std::collections::BTreeSet;

use super::sheet::ReportSheet;
use super::words::for_set;
use crate::experiment::{Experiment, ExperimentKey, Overrides, Params, Value, Varied};

/// The commands that give all rows of a sheet, a line each; the second is true when they give other points
/// too.
pub(crate) fn repeat(sheet: &ReportSheet) -> (Vec<String>, bool) {
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

/// The commands that add the points without loss which alternatives of `sheet` lack; none when they lack
/// none.
pub(crate) fn lossless(sheet: &ReportSheet) -> Vec<String> {
    if !sheet.experiment.has("loss") {
        return Vec::new();
    }
    let filled = sheet.filled();
    let plan = ReportPlan { filled: &filled, ..ReportPlan::of(sheet) };
    let base = sheet.experiment.base();
    // What one key varies is one command: several --set multiply.
    let mut by_keys: Vec<(Vec<String>, Vec<Params>)> = Vec::new();
    for point in lacking(sheet, &filled) {
        let differing = point
            .iter()
            .filter(|(key, value)| *key != "loss" && !plan.is_crossed(key) && base.get(key) != Some(*value));
        let keys: Vec<String> = differing.map(|(key, _)| key.to_owned()).collect();
        match by_keys.iter_mut().find(|(other, _)| *other == keys) {
            Some((_, points)) => points.push(point),
            None => by_keys.push((keys, vec![point])),
        }
    }
    let mut commands: Vec<String> = Vec::new();
    let seeds = sheet.runs.iter().map(|run| run.row.seed).max().unwrap_or(1);
    for mut words in by_keys.into_iter().flat_map(|(_, points)| plan.cover(points).0) {
        words.insert(0, format!("quickset lab run {}", sheet.experiment.name));
        words.extend((seeds != u64::from(sheet.experiment.seeds)).then(|| format!("--seeds {seeds}")));
        words.extend(sheet.worlds.iter().all(|world| world == "real").then(|| "--real".to_owned()));
        commands.push(words.join(" "));
    }
    commands.truncate(MOST);
    commands
}

/// Points without loss at which alternatives were not run that were run with it. Of a design that is looked
/// at as a whole what it fills is as in the baseline.
fn lacking(sheet: &ReportSheet, filled: &[&str]) -> Vec<Params> {
    let Ok(loss) = ExperimentKey::find("loss") else { return Vec::new() };
    let (mut known, mut points) = (BTreeSet::new(), Vec::new());
    for ((spot, alternative, _), cell) in sheet.cells() {
        let is_there = |zero| (0..sheet.worlds.len()).any(|n| sheet.cell(zero, alternative, n).is_some());
        if sheet.lossless(spot).is_some_and(is_there) {
            continue;
        }
        for run in sheet.runs_of(cell) {
            let mut point = run.row.params.clone();
            as_baseline(&mut point, sheet.experiment, filled);
            point.put(loss, Value::Number(0.0));
            if known.insert(point.to_string()) {
                points.push(point);
            }
        }
    }
    points
}

/// Words of `lab run` whose points are these; false when they may be more.
fn cover(sheet: &ReportSheet, points: Vec<Params>) -> (Vec<Vec<String>>, bool) {
    let plan = ReportPlan::of(sheet);
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
struct ReportPlan<'a> {
    experiment: &'static Experiment,
    planned: &'a [Params],
    /// Keys of a design that is looked at as a whole: each of its points counts as the baseline's.
    filled: &'a [&'static str],
}

impl<'a> ReportPlan<'a> {
    fn of(sheet: &'a ReportSheet) -> Self {
        Self { experiment: sheet.experiment, planned: &sheet.planned, filled: &[] }
    }

    fn is_crossed(self, key: &str) -> bool {
        self.experiment.crossed.iter().any(|(name, _)| *name == key)
    }

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
        let points = if words.set.is_empty() && words.points.is_none() {
            self.planned.to_vec()
        } else {
            self.experiment.points(&Overrides { set: words.set.clone(), points: words.points }).ok()?
        };
        if self.filled.is_empty() {
            return Some(points);
        }
        let (mut known, mut folded) = (BTreeSet::new(), Vec::new());
        for mut point in points {
            as_baseline(&mut point, self.experiment, self.filled);
            if known.insert(point.to_string()) {
                folded.push(point);
            }
        }
        Some(folded)
    }

    /// From the shortest: everything; everything with what is the same in all points; all products; each by
    /// itself.
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
            let others = |point: &Params| {
                let others = point.iter().filter(|(key, _)| !self.is_crossed(key));
                others.map(|(key, value)| (key.to_owned(), value.clone())).collect::<Vec<_>>()
            };
            let same = |a: &Params, b: &Params| others(a) == others(b);
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
        let set =
            self.set.iter().map(|(key, values)| format!("--set {}", quoted(&format!("{key}={values}"))));
        set.chain(self.points.map(|n| format!("--points {n}"))).collect()
    }
}

/// A word for a shell of POSIX, quoted where it would read more into it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-+=.,:/%@".contains(c);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// Sets the keys that a design fills to the baseline's values; all but the loss, of which none is a point of
/// its own.
fn as_baseline(point: &mut Params, experiment: &Experiment, filled: &[&str]) {
    let base = experiment.base();
    for name in filled.iter().filter(|name| **name != "loss") {
        if let (Ok(key), Some(value)) = (ExperimentKey::find(name), base.get(name)) {
            point.put(key, value.clone());
        }
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
    ExperimentKey::find(key).map_or_else(|_| value.to_string(), |key| for_set(key, value))
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
