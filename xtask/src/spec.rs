//! Where each requirement of `spec/` is obeyed and where it is tested.
//!
//! A requirement is a list item of a file in `spec/` that starts with its number in bold and says MUST or
//! SHOULD: `* **FS-12** … MUST …`. Code obeys it where a comment names it (`// FS-12: why`), a test tests it
//! where a comment in the test names it. What cannot be cited so is in `spec/exceptions.toml` with its
//! reason. Citations of sections of RFCs are collected the same way and held against the lists of `spec/rfc/`
//! (see `rfc`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::rfc::{self, Coverage, Sections};
use crate::run::root;
use crate::source::Source;

pub(crate) fn command(args: &[String]) -> Result<()> {
    let (missing, page) = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => (false, None),
        ["--missing"] => (true, None),
        ["--page", file] => (true, Some(file)),
        _ => bail!("usage: cargo xtask spec [--missing | --page FILE.md]"),
    };
    let (required, exceptions) = read_spec(&root().join("spec"))?;
    let loose = loose(&root().join("spec"))?;
    let mut citations = Citations::default();
    for folder in ["crates", "fuzz", "peers"] {
        for source in Source::below(&root(), folder)? {
            citations.read(&source);
        }
    }
    let report = SpecReport::new(required, exceptions, &citations);
    let coverage = Coverage::new(rfc::read(&root().join("spec/rfc"))?, &citations.sections);
    if let Some(file) = page {
        if Path::new(file).is_absolute() {
            bail!("{file} is not a path from the root of the repository, which its links are relative to");
        }
        let depth = Path::new(file).components().count().saturating_sub(1);
        fs::write(file, coverage.page(&"../".repeat(depth)))
            .with_context(|| format!("cannot write {file}"))?;
    }
    report.print(missing);
    coverage.print(missing);
    coverage.print_summary();
    println!("{}", report.summary());
    for line in &loose {
        println!("{line}");
    }
    if !loose.is_empty() {
        bail!("requirements without a number, of which nobody knows whether they are obeyed");
    }
    if !report.is_complete() || !coverage.is_complete() {
        bail!(
            "requirements lack code or a test, or have a reason too much; `cargo xtask spec --missing` lists them"
        );
    }
    Ok(())
}

/// The ids of all requirements, and those that are excepted with their reasons.
fn read_spec(folder: &Path) -> Result<(BTreeSet<RequirementId>, BTreeMap<RequirementId, String>)> {
    let mut required = BTreeSet::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "md") {
            for id in requirements(&fs::read_to_string(&path)?).0 {
                if !required.insert(id.clone()) {
                    bail!("{id} is defined twice, the second time in {}", path.display());
                }
            }
        }
    }
    let list = folder.join("exceptions.toml");
    let exceptions = if list.is_file() { exceptions(&fs::read_to_string(&list)?)? } else { BTreeMap::new() };
    Ok((required, exceptions))
}

/// `FS-12`; sorts by number.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct RequirementId(String, u32);

impl std::fmt::Display for RequirementId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("{}-{}", self.0, self.1))
    }
}

impl RequirementId {
    /// All ids in a text: two or three capital letters, a hyphen, digits, and nothing alphanumeric around.
    fn all_in(text: &str) -> Vec<Self> {
        let bytes = text.as_bytes();
        let mut ids = Vec::new();
        for (hyphen, _) in text.match_indices('-') {
            let letters = bytes[..hyphen].iter().rev().take_while(|b| b.is_ascii_uppercase()).count();
            let start = hyphen - letters;
            let lone = start == 0 || !(bytes[start - 1].is_ascii_alphanumeric() || bytes[start - 1] == b'-');
            let digits = bytes[hyphen + 1..].iter().take_while(|b| b.is_ascii_digit()).count();
            let end = hyphen + 1 + digits;
            let ends = bytes.get(end).is_none_or(|b| !b.is_ascii_alphanumeric());
            if lone && ends && (2..=3).contains(&letters) {
                if let Ok(n) = text[hyphen + 1..end].parse() {
                    ids.push(Self(text[start..hyphen].to_owned(), n));
                }
            }
        }
        ids
    }
}

/// What is demanded outside of numbered items, by place.
fn loose(folder: &Path) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "md") {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let lines = requirements(&fs::read_to_string(&path)?).1;
            all.extend(
                lines.into_iter().map(|line| format!("spec/{name}:{line}: a requirement without a number")),
            );
        }
    }
    all.sort();
    Ok(all)
}

/// The requirements of one specification, and the lines that demand something outside of them. A list item
/// goes on until the next one, or a blank line.
fn requirements(text: &str) -> (Vec<RequirementId>, Vec<usize>) {
    let mut found: Vec<(RequirementId, bool)> = Vec::new();
    let (mut inside, mut introduction, mut loose) = (false, false, Vec::new());
    for (i, line) in text.lines().enumerate() {
        let item = line.trim_start().strip_prefix("* ").or_else(|| line.trim_start().strip_prefix("- "));
        if line.trim().is_empty() {
            (inside, introduction) = (false, false);
        } else if let Some(bold) = item.map(|i| i.strip_prefix("**").and_then(|b| b.split_once("**"))) {
            inside = false;
            if let Some(id) = bold.and_then(|(id, _)| RequirementId::all_in(id).pop()) {
                found.push((id, false));
                inside = true;
            }
        }
        // The sentence that says what the words mean; it may take two lines.
        introduction |= line.contains("MUST, MUST NOT, SHOULD");
        let demands = ["MUST", "SHOULD", "SHALL"].iter().any(|word| line.contains(word));
        match (inside, found.last_mut()) {
            (true, Some((_, must))) => *must |= demands,
            _ if demands && !introduction => loose.push(i + 1),
            _ => {}
        }
    }
    (found.into_iter().filter(|(_, must)| *must).map(|(id, _)| id).collect(), loose)
}

/// Lines `FS-12 = "reason"`; comments and a table header may stand between.
fn exceptions(text: &str) -> Result<BTreeMap<RequirementId, String>> {
    let mut all = BTreeMap::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with(['#', '[']) {
            continue;
        }
        let (id, reason) = line.split_once('=').unwrap_or_default();
        let reason = reason.trim().strip_prefix('"').and_then(|r| r.strip_suffix('"')).unwrap_or_default();
        match (RequirementId::all_in(id).pop(), reason.is_empty()) {
            (Some(id), false) => all.insert(id, reason.to_owned()),
            _ => bail!("spec/exceptions.toml: {line:?} is not of the form FS-12 = \"reason\""),
        };
    }
    Ok(all)
}

/// Where something is named: in code, and in tests.
#[derive(Default, Clone)]
pub(crate) struct CitedPlaces {
    pub(crate) code: Vec<String>,
    pub(crate) tests: Vec<String>,
}

impl CitedPlaces {
    fn add(&mut self, test: bool, place: String) {
        if test { self.tests.push(place) } else { self.code.push(place) }
    }
}

/// What the comments of the sources name.
#[derive(Default)]
struct Citations {
    ids: BTreeMap<RequirementId, CitedPlaces>,
    sections: Sections,
}

impl Citations {
    fn read(&mut self, source: &Source) {
        // A bench asserts nothing, and obeys nothing either.
        if source.path.split('/').any(|folder| folder == "benches") {
            return;
        }
        let tests = source.test_lines();
        for (i, line) in source.text.lines().enumerate() {
            let comment = line.split_once("//").map_or("", |(_, comment)| comment);
            let place = || format!("{}:{}", source.path.trim_start_matches("crates/"), i + 1);
            for id in RequirementId::all_in(comment) {
                self.ids.entry(id).or_default().add(tests[i], place());
            }
            // What others do in the programs beside us is neither our code nor a test of it.
            if source.path.starts_with("peers/") {
                continue;
            }
            // The words of an assertion name sections as well as comments do.
            for section in rfc::cited(if tests[i] { line } else { comment }) {
                self.sections.entry(section).or_default().add(tests[i], place());
            }
        }
    }
}

/// The requirements against what was cited.
struct SpecReport {
    rows: Vec<(RequirementId, CitedPlaces, Option<String>)>,
    /// Cited or excepted under a prefix that has a specification, but not defined there.
    strangers: Vec<(RequirementId, Vec<String>)>,
}

impl SpecReport {
    fn new(
        required: BTreeSet<RequirementId>,
        mut excepted: BTreeMap<RequirementId, String>,
        citations: &Citations,
    ) -> Self {
        let prefixes: BTreeSet<String> = required.iter().map(|id| id.0.clone()).collect();
        let mut strangers: Vec<(RequirementId, Vec<String>)> = citations
            .ids
            .iter()
            .filter(|(id, _)| prefixes.contains(&id.0) && !required.contains(id))
            .map(|(id, p)| (id.clone(), [p.code.clone(), p.tests.clone()].concat()))
            .collect();
        let rows = required
            .into_iter()
            .map(|id| {
                let places = citations.ids.get(&id).cloned().unwrap_or_default();
                let reason = excepted.remove(&id);
                (id, places, reason)
            })
            .collect();
        strangers.extend(excepted.into_keys().map(|id| (id, vec!["spec/exceptions.toml".into()])));
        Self { rows, strangers }
    }

    /// It lacks code or a test without a reason, or has a reason for what it does not lack.
    fn is_gap(row: &(RequirementId, CitedPlaces, Option<String>)) -> bool {
        row.2.is_none() == (row.1.code.is_empty() || row.1.tests.is_empty())
    }

    fn is_complete(&self) -> bool {
        self.strangers.is_empty() && !self.rows.iter().any(Self::is_gap)
    }

    fn print(&self, missing: bool) {
        println!("{:<8} {:<44} tests", "id", "code");
        for row in self.rows.iter().filter(|row| !missing || Self::is_gap(row)) {
            let (id, places, reason) = row;
            match reason {
                Some(_) if Self::is_gap(row) => println!("{id:<8} excepted, but it has code and a test"),
                Some(reason) => println!("{id:<8} excepted: {reason}"),
                None => println!("{id:<8} {:<44} {}", short(&places.code), short(&places.tests)),
            }
        }
        for (id, places) in &self.strangers {
            println!("{id:<8} is not defined in spec/, but named in {}", places.join(", "));
        }
    }

    fn summary(&self) -> String {
        let count =
            |f: fn(&CitedPlaces) -> bool| self.rows.iter().filter(|(_, p, r)| r.is_none() && f(p)).count();
        format!(
            "{} requirements: {} without code, {} without a test, {} excepted, {} unknown ids",
            self.rows.len(),
            count(|p| p.code.is_empty()),
            count(|p| p.tests.is_empty()),
            self.rows.iter().filter(|r| r.2.is_some()).count(),
            self.strangers.len()
        )
    }
}

/// The first place and how many more.
pub(crate) fn short(places: &[String]) -> String {
    match places {
        [] => "MISSING".into(),
        [one] => one.clone(),
        [one, rest @ ..] => format!("{one} +{}", rest.len()),
    }
}

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
