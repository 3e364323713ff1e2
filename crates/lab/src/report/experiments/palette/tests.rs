use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::catalogue;
use crate::experiment::{Overrides, Params};
use crate::play::Work;
use crate::report::experiments::ResultsFolder;
use crate::report::experiments::figures::figures;
use crate::results::{Detail, Row, RunMetrics};

/// A row of each point of an experiment, with the series of each flow.
fn planned(experiment: &'static Experiment) -> Vec<Row> {
    let points = experiment.points(&Overrides::default()).unwrap();
    let has_flows = keys(experiment).any(|key| key == "flow");
    let row = |params: Params| {
        let mut detail = Detail::default();
        let setting = has_flows.then(|| experiment.setting(&params).unwrap());
        for flow in setting.iter().flat_map(|setting| &setting.flows) {
            let names: Vec<String> = match &flow.work {
                Work::Visit(visit) => visit.resources.iter().map(|r| r.name.clone()).collect(),
                _ => vec![flow.name.clone()],
            };
            // Lists of resources that are no page have no series.
            for name in names.iter().take(12) {
                detail.series.insert(format!("goodput/{name}"), vec![(0.0, 1.0), (1.0, 2.0)]);
            }
        }
        let metrics = RunMetrics { finished: true, completion_s: Some(1.0), ..RunMetrics::default() };
        let (name, world) = (experiment.name.to_owned(), "sim".to_owned());
        Row { experiment: name, seed: 1, commit: "abc".to_owned(), world, params, metrics, detail }
    };
    points.into_iter().map(row).collect()
}

/// The colours of the style sheet: by name, in the light scheme and in the dark one.
fn colours() -> [BTreeMap<String, [f64; 3]>; 2] {
    let css = concat!(include_str!("../../page.css"), include_str!("../page.css"));
    let mut all = [BTreeMap::new(), BTreeMap::new()];
    for part in css.split(":root {").skip(1) {
        let (block, _) = part.split_once('}').unwrap();
        // The scheme of a block is the one that was named last before it.
        let before = &css[..css.find(block).unwrap()];
        let is_dark = before.rfind("dark)").is_some_and(|dark| !before[dark..].contains("}\n}"));
        for (name, value) in block.split(';').filter_map(|line| line.trim().split_once(": #")) {
            let channel =
                |n: usize| f64::from(u8::from_str_radix(&value[2 * n..2 * n + 2], 16).unwrap()) / 255.0;
            if value.len() == 6 {
                all[usize::from(is_dark)]
                    .insert(name.trim_start_matches('-').to_owned(), oklab([0, 1, 2].map(channel)));
            }
        }
    }
    all
}

/// Where a colour of sRGB lies in Oklab (CSS Color Module Level 4, §18), in which equal distances look alike.
fn oklab(rgb: [f64; 3]) -> [f64; 3] {
    let linear = rgb.map(|c| if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) });
    let through = |matrix: [[f64; 3]; 3], from: [f64; 3]| {
        matrix.map(|row| row.iter().zip(from).map(|(factor, value)| factor * value).sum::<f64>())
    };
    let cones = through(
        [
            [0.412_221_470_8, 0.536_332_536_3, 0.051_445_992_9],
            [0.211_903_498_2, 0.680_699_545_1, 0.107_396_956_6],
            [0.088_302_461_9, 0.281_718_837_6, 0.629_978_700_5],
        ],
        linear,
    );
    through(
        [
            [0.210_454_255_3, 0.793_617_785_0, -0.004_072_046_8],
            [1.977_998_495_1, -2.428_592_205_0, 0.450_593_709_9],
            [0.025_904_037_1, 0.782_771_766_2, -0.808_675_766_0],
        ],
        cones.map(f64::cbrt),
    )
}

/// The legends of a page: of each entry its class and its name.
fn legends(page: &str) -> Vec<Vec<(&str, &str)>> {
    let entry = |part: &'_ str| -> Option<(usize, usize)> { part.find("'>").zip(part.find("</span>")) };
    page.split("<p class=legend>")
        .skip(1)
        .map(|rest| rest.split("</p>").next().unwrap())
        .map(|legend| {
            let entries = legend.split("<span class='name ").skip(1);
            entries
                .filter_map(|part| entry(part).map(|(at, end)| (&part[..at], &part[at + 2..end])))
                .collect()
        })
        .collect()
}

/// On the page of every experiment, with all of its points.
#[test]
fn no_two_alternatives_of_a_page_share_a_colour() {
    let schemes = colours();
    assert!(schemes.iter().all(|scheme| scheme.len() >= COLOURS + OWN.len()), "{schemes:?}");
    for experiment in catalogue::ALL {
        let results = ResultsFolder::of_rows(planned(experiment), Vec::new()).unwrap();
        let sheet = &results.sheets[0];
        let names: BTreeSet<String> = sheet.coloured().collect();
        let mut of: BTreeMap<&str, &str> = BTreeMap::new();
        for name in &names {
            let class = sheet.hue_of(name);
            assert!(schemes[0].contains_key(class), "{}: `{name}` has no colour", experiment.name);
            let other = of.insert(class, name);
            assert_eq!(other, None, "{}: {name} has the colour of another", experiment.name);
        }
        for scheme in &schemes {
            for (a, b) in of.keys().flat_map(|a| of.keys().map(move |b| (*a, *b))).filter(|(a, b)| a < b) {
                let apart: f64 = (0..3).map(|n| (scheme[a][n] - scheme[b][n]).powi(2)).sum::<f64>().sqrt();
                // A fiftieth is what one just sees of two areas side by side.
                assert!(apart > 0.09, "{}: {} and {} look alike: {apart}", experiment.name, of[a], of[b]);
            }
        }
        // Nor does one have two, and legends have one order.
        let mut page = String::new();
        figures(&mut page, sheet);
        let mut classes: BTreeMap<&str, &str> = BTreeMap::new();
        let mut order: Vec<&str> = Vec::new();
        for legend in legends(&page) {
            for (class, name) in &legend {
                assert_eq!(*classes.entry(name).or_insert(class), *class, "{}: {name}", experiment.name);
                if !order.contains(name) {
                    order.push(name);
                }
            }
            let places: Vec<usize> = legend
                .iter()
                .map(|(_, name)| order.iter().position(|other| other == name).unwrap())
                .collect();
            assert!(places.is_sorted(), "{}: {legend:?} is not in the order {order:?}", experiment.name);
        }
    }
}

/// What is beyond the colours is told by its line, and still never the same.
#[test]
fn very_many_alternatives_are_told_apart() {
    let palette = StyleClasses::of((0..30).map(|n| n.to_string()).chain(["total".to_owned()]));
    let classes: BTreeSet<String> = (0..30).map(|n| palette.class(&n.to_string()).to_owned()).collect();
    assert_eq!(classes.len(), 30);
    assert_eq!(palette.class("total"), "total");
}
