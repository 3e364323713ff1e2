use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use quickset_base::number::{Float as _, Unsigned as _};

use super::paired::{Paired, PairedNumber};
use super::palette::{self, StyleClasses};
use super::run::{self, RunNumbers, alternative, counts_to, protected};
use super::words;
use crate::experiment::{Experiment, ExperimentKey, Overrides, Params, Value, Varied};
use crate::results::{Histogram, Row};
use crate::stats::{MeanEstimate, Samples};

/// The rows of an experiment, sorted into what is compared: spots, and at each spot the alternatives.
pub(crate) struct ReportSheet {
    pub(crate) experiment: &'static Experiment,
    pub(crate) runs: Vec<RunNumbers>,
    /// The key whose values are compared, mostly `mode`. Protection counts to the mode: `partial+rs:105/100`
    /// is one.
    pub(crate) curves: &'static str,
    pub(crate) alternatives: Vec<Value>,
    /// The colours of all that figures compare.
    palette: StyleClasses,
    /// Simulated first.
    pub(crate) worlds: Vec<String>,
    pub(crate) spots: Vec<SheetSpot>,
    /// What the experiment runs unless told.
    pub(crate) planned: Vec<Params>,
    /// By spot, alternative and world.
    cells: BTreeMap<(usize, usize, usize), SheetCell>,
}

/// Parameters that alternatives have in common.
pub(crate) struct SheetSpot {
    /// Crossed keys.
    pub(crate) context: SomeKeys,
    /// All other keys; of a design of many points without those that it fills.
    pub(crate) point: SomeKeys,
    pub(crate) context_label: String,
    pub(crate) label: String,
    /// True where nothing but crossed keys differs from the baseline.
    pub(crate) is_baseline: bool,
    /// True where it stands for a whole design.
    pub(crate) is_pooled: bool,
}

/// Some keys with their values, in the order of names.
pub(crate) type SomeKeys = Vec<(String, Value)>;

/// The runs of an alternative at a spot in a world.
#[derive(Default)]
pub(crate) struct SheetCell {
    pub(crate) runs: Vec<usize>,
    pub(crate) histograms: BTreeMap<String, Histogram>,
}

/// A number of several runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measured {
    /// The mean over runs; of percentiles that of the pooled distribution.
    pub(crate) value: f64,
    /// To either side, with 95 % confidence, from the numbers of single runs.
    pub(crate) half: Option<f64>,
    pub(crate) runs: usize,
}

impl Measured {
    /// What to tell of `half`.
    pub(crate) fn told_half(&self) -> Option<f64> {
        told_half(self.value, self.half)
    }
}

/// Half an interval around a value, but for what arithmetic alone leaves of it.
pub(crate) fn told_half(value: f64, half: Option<f64>) -> Option<f64> {
    half.filter(|half| *half > value.abs() * 1e-9)
}

impl ReportSheet {
    pub(crate) fn new(experiment: &'static Experiment, rows: Vec<Row>) -> Self {
        let curves = curves(experiment);
        let mut known = BTreeSet::new();
        let runs: Vec<RunNumbers> =
            rows.into_iter().filter(|row| known.insert(row.identity())).map(RunNumbers::new).collect();
        // The order of the table of the experiment; what is not in it follows as it came.
        let planned = experiment.points(&Overrides::default()).unwrap_or_default();
        let mut worlds: Vec<String> = Vec::new();
        let mut alternatives: Vec<Value> = Vec::new();
        let alternative = |params: &Params| alternative(curves, params);
        for run in &runs {
            if !worlds.contains(&run.row.world) {
                worlds.push(run.row.world.clone());
            }
        }
        worlds.sort_by_key(|world| world != "sim");
        let there: Vec<Value> = runs.iter().filter_map(|run| alternative(&run.row.params)).collect();
        let first = planned.iter().filter_map(alternative).filter(|value| there.contains(value));
        for value in first.chain(there.iter().cloned()) {
            if !alternatives.contains(&value) {
                alternatives.push(value);
            }
        }
        if alternatives.is_empty() {
            alternatives.push(Value::Text("all".to_owned()));
        }
        let (spots, cells) = (Vec::new(), BTreeMap::new());
        let palette = StyleClasses::default();
        let mut sheet =
            Self { experiment, runs, curves, alternatives, palette, worlds, spots, planned, cells };
        sheet.palette = StyleClasses::of(sheet.coloured());
        run::relate(&mut sheet.runs, sheet.curves, sheet.experiment);
        sheet.sort_into_cells();
        sheet
    }

    fn sort_into_cells(&mut self) {
        let pooled = self.pooled();
        let mut filled: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut spots: Vec<(SomeKeys, SomeKeys)> = Vec::new();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        let name = |(context, point): &(SomeKeys, SomeKeys)| format!("{context:?} {point:?}");
        let split = |params: &Params| split(self.experiment, self.curves, pooled.as_ref(), params);
        let there: BTreeSet<String> = self.runs.iter().map(|run| name(&split(&run.row.params))).collect();
        let all = self.planned.iter().chain(self.runs.iter().map(|run| &run.row.params));
        for place in all.map(split) {
            let name = name(&place);
            if there.contains(&name) && !places.contains_key(&name) {
                places.insert(name, spots.len());
                spots.push(place);
            }
        }
        let mut cells: BTreeMap<(usize, usize, usize), SheetCell> = BTreeMap::new();
        for (n, run) in self.runs.iter().enumerate() {
            let value = alternative(self.curves, &run.row.params);
            let alternative =
                value.and_then(|value| self.alternatives.iter().position(|other| *other == value));
            let world = self.worlds.iter().position(|world| *world == run.row.world);
            let place =
                (places[&name(&split(&run.row.params))], alternative.unwrap_or(0), world.unwrap_or(0));
            if let Some(pooled) = &pooled {
                let name = name(&split(&run.row.params));
                filled.entry(name).or_default().insert(pooled.place(&run.row.params));
            }
            cells.entry(place).or_default().add(n, run);
        }
        let spots: Vec<SheetSpot> = spots
            .into_iter()
            .map(|spot| {
                let points = filled.get(&name(&spot)).map_or(0, BTreeSet::len);
                self.spot(spot.0, spot.1, pooled.as_ref().map(|pooled| (pooled, points)))
            })
            .collect();
        (self.spots, self.cells) = (spots, cells);
    }

    /// A spot; of a design that is looked at as a whole, with how many of its points were run here.
    fn spot(&self, context: SomeKeys, point: SomeKeys, pooled: Option<(&Pooled, usize)>) -> SheetSpot {
        let base = self.experiment.base();
        let differing: Vec<String> = point
            .iter()
            .filter(|(key, value)| base.get(key) != Some(value))
            .map(|(key, value)| words::setting(key, value))
            .collect();
        // A key that the design fills and that is set, like no loss, is none of the design.
        let is_pooled = pooled
            .is_some_and(|(pooled, _)| !point.iter().any(|(key, _)| pooled.keys.contains(&key.as_str())));
        let label = match (differing.is_empty(), pooled.filter(|_| is_pooled)) {
            (true, None) => "baseline".to_owned(),
            (false, None) => differing.join(", "),
            (_, Some((pooled, points))) => {
                // Of a sweep under way it is not all of them.
                let all = if points == pooled.planned { "all " } else { "" };
                let mut label = format!("{all}{points} points of the design");
                for words in &differing {
                    let _ = write!(label, ", {words}");
                }
                label
            }
        };
        let is_several = |key: &str| {
            let crossed = self.experiment.crossed.iter().find(|(name, _)| *name == key);
            key == "profile" || crossed.is_some_and(|(_, values)| values.contains([',', ';']))
        };
        let context_label = context
            .iter()
            .filter(|(key, _)| is_several(key))
            .map(|(key, value)| words::setting(key, value))
            .collect::<Vec<_>>()
            .join(", ");
        SheetSpot { context, point, context_label, label, is_baseline: differing.is_empty(), is_pooled }
    }

    /// Whether points fill a space, so many that none is looked at by itself.
    fn pooled(&self) -> Option<Pooled> {
        let Varied::Space { ranges, .. } = self.experiment.varied else { return None };
        let keys: Vec<&'static str> = ranges.iter().map(|(key, ..)| *key).collect();
        let mut pooled = Pooled { keys, planned: 0 };
        let count = |all: &mut dyn Iterator<Item = &Params>| {
            all.map(|params| pooled.place(params)).collect::<BTreeSet<_>>().len()
        };
        let points = count(&mut self.runs.iter().map(|run| &run.row.params));
        let planned = count(&mut self.planned.iter());
        pooled.planned = planned;
        (points > FEW).then_some(pooled)
    }

    pub(crate) fn cell(&self, spot: usize, alternative: usize, world: usize) -> Option<&SheetCell> {
        self.cells.get(&(spot, alternative, world))
    }

    /// By spot, alternative and world.
    pub(crate) fn cells(&self) -> impl Iterator<Item = ((usize, usize, usize), &SheetCell)> {
        self.cells.iter().map(|(place, cell)| (*place, cell))
    }

    pub(crate) fn runs_of<'a>(&'a self, cell: &'a SheetCell) -> impl Iterator<Item = &'a RunNumbers> {
        cell.runs.iter().map(|n| &self.runs[*n])
    }

    /// A number of a cell; `None` where no run has it.
    pub(crate) fn measured(&self, cell: &SheetCell, path: &str) -> Option<Measured> {
        let of_runs: Vec<f64> = self.runs_of(cell).filter_map(|run| run.number(path)).collect();
        let (base, stat) = words::split(path);
        if let (true, Some(stat)) = (of_runs.is_empty(), stat) {
            return self.over_points(cell, base, stat);
        }
        let estimate = MeanEstimate::of(&of_runs)?;
        let pooled = cell.histograms.get(base).filter(|_| of_runs.len() > 1);
        let value = match (pooled, stat) {
            (_, Some("max")) => of_runs.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            (Some(histogram), Some(stat)) => {
                words::fraction(stat).map_or(estimate.mean, |p| histogram.percentile(p))
            }
            _ => estimate.mean,
        };
        Some(Measured { value, half: estimate.half, runs: estimate.count })
    }

    /// A number of the runs of a cell that came to their end, for comparisons; `None` where there are none.
    /// What broke early has few of everything.
    pub(crate) fn measured_whole(&self, cell: &SheetCell, path: &str) -> Option<Measured> {
        if !self.runs_of(cell).any(RunNumbers::is_unfinished) {
            return self.measured(cell, path);
        }
        let mut whole = SheetCell::default();
        for n in cell.runs.iter().filter(|n| !self.runs[**n].is_unfinished()) {
            whole.add(*n, &self.runs[*n]);
        }
        self.measured(&whole, path)
    }

    /// A statistic of a number over the points of a design, each point being the median of its runs.
    fn over_points(&self, cell: &SheetCell, path: &str, stat: &str) -> Option<Measured> {
        let mut points: BTreeMap<String, Samples> = BTreeMap::new();
        let mut runs = 0;
        for run in self.runs_of(cell) {
            if let Some(number) = run.number(path) {
                points.entry(run.row.params.to_string()).or_default().add(number);
                runs += 1;
            }
        }
        let medians: Samples = points.values().map(|runs| runs.percentiles().p50).collect();
        if medians.is_empty() {
            return None;
        }
        let value = match words::fraction(stat) {
            Some(p) => medians.sorted().percentile((p * 1e4).round().whole::<u32>()),
            None if stat == words::BELOW_ONE => {
                medians.sorted().values().partition_point(|ratio| *ratio < 1.0).approx()
                    / medians.len().approx()
            }
            None => return None,
        };
        Some(Measured { value, half: None, runs })
    }

    /// Compares two alternatives at a spot, run by run: those of equal parameters and seed met the same
    /// losses. Pairs with a run that did not come to its end are left out: what broke early has few of
    /// everything.
    pub(crate) fn paired(&self, spot: usize, sides: [usize; 2], world: usize, path: &str) -> Option<Paired> {
        let (pairs, left_out) = self.pairs(spot, sides, world, path);
        let paired = if self.spots[spot].is_pooled && pairs.iter().all(PairedNumber::has_ratio) {
            Paired::of_ratios(&pairs)
        } else {
            Paired::of_differences(&pairs)
        };
        paired.map(|paired| Paired { left_out, ..paired })
    }

    /// The numbers of runs that came to their end on both sides, and how many pairs did not.
    pub(crate) fn pairs(
        &self,
        spot: usize,
        sides: [usize; 2],
        world: usize,
        path: &str,
    ) -> (Vec<PairedNumber>, usize) {
        let by_name = |side: usize| -> BTreeMap<String, &RunNumbers> {
            let cell = self.cell(spot, side, world);
            let runs = cell.into_iter().flat_map(|cell| self.runs_of(cell));
            runs.map(|run| (run.twin(self.curves), run)).collect()
        };
        let [references, challengers] = sides.map(by_name);
        let twins = references.iter().filter_map(|(name, run)| Some((*run, *challengers.get(name)?)));
        let (whole, broken): (Vec<_>, Vec<_>) =
            twins.partition(|(a, b)| !a.is_unfinished() && !b.is_unfinished());
        let numbers = whole.iter().filter_map(|(a, b)| {
            let twin = a.twin(self.curves);
            let point = twin.split_once(' ').map_or("", |(_seed, point)| point).to_owned();
            Some(PairedNumber { point, reference: a.number(path)?, challenger: b.number(path)? })
        });
        (numbers.collect(), broken.len())
    }

    /// Whether an alternative has just so many runs at a spot.
    pub(crate) fn is_all_of(&self, spot: usize, side: usize, world: usize, runs: usize) -> bool {
        self.cell(spot, side, world).is_some_and(|cell| cell.runs.len() == runs)
    }

    /// The spots of each context, in order.
    pub(crate) fn contexts(&self) -> Vec<(&str, Vec<usize>)> {
        let mut contexts: Vec<(&str, Vec<usize>)> = Vec::new();
        for (n, spot) in self.spots.iter().enumerate() {
            match contexts.iter_mut().find(|(label, _)| *label == spot.context_label) {
                Some((_, spots)) => spots.push(n),
                None => contexts.push((&spot.context_label, vec![n])),
            }
        }
        contexts
    }

    /// The spot that differs from this one in that nothing is lost.
    pub(crate) fn lossless(&self, spot: usize) -> Option<usize> {
        let here = &self.spots[spot];
        self.spots.iter().position(|other| {
            other.context == here.context
                && has_no_loss(&other.point)
                && without_loss(&other.point) == without_loss(&here.point)
        })
    }

    /// Of a spot that is as a paper has it, the one by our own conventions.
    pub(crate) fn in_full(&self, spot: usize) -> Option<usize> {
        let here = &self.spots[spot];
        let profile = |spot: &SheetSpot| {
            spot.context.iter().find(|(key, _)| key == "profile").map(|(_, value)| value.to_string())
        };
        let others = |spot: &SheetSpot| -> SomeKeys {
            spot.context.iter().filter(|(key, _)| key != "profile").cloned().collect()
        };
        if profile(here).as_deref() != Some("as-published") {
            return None;
        }
        self.spots.iter().position(|other| {
            profile(other).as_deref() == Some("ours")
                && others(other) == others(here)
                && other.point == here.point
        })
    }

    /// The keys that a design fills which is looked at as a whole.
    pub(crate) fn filled(&self) -> Vec<&'static str> {
        self.pooled().map(|pooled| pooled.keys).unwrap_or_default()
    }

    /// The least and the greatest number of runs that alternatives at spots have, where they differ.
    pub(crate) fn unequal(&self) -> Option<(usize, usize)> {
        let runs = || self.cells.values().map(|cell| cell.runs.len());
        runs().min().zip(runs().max()).filter(|(least, most)| least != most)
    }

    /// The alternative that all others are measured by: what an ordinary transport does. Where streams carry
    /// what does not wait for each other (a baseline in mode `plain`), that is one for each, and else total
    /// order; where neither is compared, what the baseline does.
    pub(crate) fn reference(&self) -> Option<usize> {
        let named = |name: &str| self.alternatives.iter().position(|value| value.to_string() == name);
        match self.curves {
            "mode" if self.experiment.base().text("mode") == "plain" => named("plain"),
            "mode" => {
                let base = self.experiment.base().text("mode");
                named("total").or_else(|| named("plain")).or_else(|| named(&base))
            }
            "fec" => named("none"),
            _ => None,
        }
    }

    pub(crate) fn alternative(&self, n: usize) -> String {
        self.alternatives.get(n).map_or_else(String::new, |value| words::plain(self.curves, value))
    }

    /// All that has a colour, in the order of legends: the alternatives, then what else figures tell apart.
    pub(crate) fn coloured(&self) -> impl Iterator<Item = String> {
        let of_key = |key: &str| -> Vec<String> {
            if key == "flow" {
                return self.flow_names();
            }
            self.values(key).iter().map(Value::to_string).collect()
        };
        let keys = std::iter::once(self.curves).chain(palette::keys(self.experiment)).flat_map(of_key);
        keys.chain(palette::parts(self.experiment))
    }

    /// The names of flows that have series, each once: resources as they are asked for, others as they come.
    fn flow_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let resources = self.runs.iter().flat_map(|run| &run.row.metrics.loads.resources);
        let series = self.runs.iter().flat_map(|run| run.row.detail.series.keys());
        let flows = series.filter_map(|series| Some(series.split_once('/')?.1));
        for name in resources.map(|load| load.name.as_str()).chain(flows) {
            if !names.iter().any(|other| other == name) {
                names.push(name.to_owned());
            }
        }
        names
    }

    /// The class for styles of an alternative.
    pub(crate) fn hue(&self, n: usize) -> &str {
        self.alternatives.get(n).map_or("", |value| self.hue_of(&value.to_string()))
    }

    /// The class for styles of a value of a key or of a flow, the same in all figures.
    pub(crate) fn hue_of(&self, name: &str) -> &str {
        self.palette.class(name)
    }

    /// The place in legends of what has this class.
    pub(crate) fn place_of_hue(&self, class: &str) -> usize {
        self.palette.place(class)
    }

    /// The value of a key in a run; of the key that is compared, with what counts to it.
    pub(crate) fn value(&self, run: &RunNumbers, key: &str) -> Option<Value> {
        if key == self.curves { alternative(key, &run.row.params) } else { run.row.params.get(key).cloned() }
    }

    /// Whether these parameters are of an alternative.
    pub(crate) fn is_alternative(&self, which: &Value, params: &Params) -> bool {
        alternative(self.curves, params).is_none_or(|value| value == *which)
    }

    /// Whether repair may be sent in an alternative.
    pub(crate) fn is_protected(&self, n: usize) -> bool {
        let is = |value: &Value| {
            protected(value).is_some() || (self.curves == "fec" && value.to_string() != "none")
        };
        self.alternatives.get(n).is_some_and(is)
    }

    /// Whether alternatives differ in this key.
    pub(crate) fn is_compared(&self, key: &str) -> bool {
        counts_to(self.curves, key)
    }

    /// The values that a key has in rows: those of the alternatives as they stand, others in the order of the
    /// experiment's table, numbers rising.
    pub(crate) fn values(&self, key: &str) -> Vec<Value> {
        if key == self.curves {
            return self.alternatives.clone();
        }
        let there: Vec<&Value> = self.runs.iter().filter_map(|run| run.row.params.get(key)).collect();
        let first =
            self.planned.iter().filter_map(|point| point.get(key)).filter(|value| there.contains(value));
        let mut values: Vec<Value> = Vec::new();
        for value in first.chain(there.iter().copied()) {
            if !values.contains(value) {
                values.push(value.clone());
            }
        }
        let number = |value: &Value| match value {
            Value::Number(n) => *n,
            Value::Text(_) => f64::INFINITY,
        };
        values.sort_by(|a, b| number(a).total_cmp(&number(b)));
        values
    }

    /// The values of crossed keys of a run in words, without those of some keys.
    pub(crate) fn context_without(&self, run: &RunNumbers, keys: &[&str]) -> String {
        let crossed = self.experiment.crossed.iter().filter(|(key, values)| {
            let is_told = keys.iter().any(|told| counts_to(told, key));
            !is_told && (*key == "profile" || values.contains([',', ';']))
        });
        let words = crossed.filter_map(|(key, _)| Some(words::setting(key, run.row.params.get(key)?)));
        words.collect::<Vec<_>>().join(", ")
    }

    /// The runs in which nothing but crossed keys, and these, differs from the baseline. Where a key was set
    /// so that there are none, the baseline has the values that most runs have: what is varied one by one is
    /// not to be mixed.
    pub(crate) fn baseline_but_for(&self, keys: &[&str]) -> Vec<&RunNumbers> {
        let crossed = |key: &str| self.experiment.crossed.iter().any(|(name, _)| *name == key);
        let all = self.experiment.baseline.iter().map(|(key, _)| *key);
        let others: Vec<&str> = all.filter(|key| !keys.contains(key) && !crossed(key)).collect();
        let as_in = |base: &Params| -> Vec<&RunNumbers> {
            let is_base =
                |run: &&RunNumbers| others.iter().all(|key| run.row.params.get(key) == base.get(key));
            self.runs.iter().filter(is_base).collect()
        };
        let mut base = self.experiment.base();
        let runs = as_in(&base);
        if !runs.is_empty() {
            return runs;
        }
        for key in others.iter().filter_map(|key| ExperimentKey::find(key).ok()) {
            if let Some(value) = self.commonest(key.name) {
                base.put(key, value);
            }
        }
        as_in(&base)
    }

    /// The value of a key that most runs have; of several the first.
    fn commonest(&self, key: &str) -> Option<Value> {
        let mut counts: Vec<(&Value, usize)> = Vec::new();
        for value in self.runs.iter().filter_map(|run| run.row.params.get(key)) {
            match counts.iter_mut().find(|(other, _)| *other == value) {
                Some((_, count)) => *count += 1,
                None => counts.push((value, 1)),
            }
        }
        let most = counts.iter().map(|(_, count)| *count).max()?;
        counts.into_iter().find(|(_, count)| *count == most).map(|(value, _)| value.clone())
    }

    /// True for a run of a design, and not beside it.
    pub(crate) fn is_of_design(&self, run: &RunNumbers) -> bool {
        match self.experiment.varied {
            Varied::Space { ranges, .. } => {
                let has_loss = ranges.iter().any(|(key, ..)| *key == "loss");
                !(has_loss && run.row.params.get("loss") == Some(&Value::Number(0.0)))
            }
            Varied::OneByOne(_) => false,
        }
    }
}

/// A design that is looked at as a whole.
struct Pooled {
    /// What it fills.
    keys: Vec<&'static str>,
    /// How many points it has.
    planned: usize,
}

impl Pooled {
    /// Which of its points these parameters are of.
    fn place(&self, params: &Params) -> String {
        self.keys.iter().map(|key| params.text(key)).collect::<Vec<_>>().join(" ")
    }
}

impl SheetCell {
    fn add(&mut self, n: usize, run: &RunNumbers) {
        self.runs.push(n);
        for (metric, histogram) in &run.row.detail.histograms {
            self.histograms.entry(metric.clone()).or_default().join(histogram);
        }
    }
}

impl SheetSpot {
    /// Where it is, in words.
    pub(crate) fn words(&self) -> String {
        let words = [self.context_label.as_str(), self.label.as_str()];
        words.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(", ")
    }
}

fn split(
    experiment: &Experiment,
    curves: &str,
    pooled: Option<&Pooled>,
    params: &Params,
) -> (SomeKeys, SomeKeys) {
    let (mut context, mut point) = (SomeKeys::new(), SomeKeys::new());
    for (key, value) in params.iter().filter(|(key, _)| !counts_to(curves, key)) {
        let is_filled = pooled.is_some_and(|pooled| pooled.keys.contains(&key));
        let part = (key.to_owned(), value.clone());
        if experiment.crossed.iter().any(|(name, _)| *name == key) {
            context.push(part);
        } else if !is_filled || (key == "loss" && *value == Value::Number(0.0)) {
            point.push(part);
        }
    }
    (context, point)
}

fn has_no_loss(point: &SomeKeys) -> bool {
    point.iter().any(|(key, value)| key == "loss" && *value == Value::Number(0.0))
}

fn without_loss(point: &SomeKeys) -> Vec<&(String, Value)> {
    point.iter().filter(|(key, _)| key != "loss").collect()
}

/// The key that most figures compare.
fn curves(experiment: &Experiment) -> &'static str {
    palette::keys(experiment).find(|key| experiment.has(key)).unwrap_or("mode")
}

/// Points of a design that are looked at one by one.
const FEW: usize = 12;
