//! Which sections of the RFCs ask for something, and where the code and the tests answer.
//!
//! `spec/rfc/NUMBER.toml` lists the sections of one RFC that hold requirements, each with a line of ours on
//! what it asks. Code and tests answer where a comment names the section. A section that nothing here could
//! answer is in `[exceptions]` of the file, one that has code and no test is in `[untested]`, both with the
//! reason.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::spec::{CitedPlaces, short};

/// By number of the RFC and section.
pub(crate) type Sections = BTreeMap<(u32, RfcSection), CitedPlaces>;

/// `13.2.1` or `A.7`; sorts as in the table of contents.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct RfcSection(Vec<SectionPart>);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum SectionPart {
    Number(u32),
    Appendix(char),
}

impl RfcSection {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let part = |part: &str| match part.parse() {
            Ok(number) => Some(SectionPart::Number(number)),
            Err(_) => part.parse().ok().filter(char::is_ascii_uppercase).map(SectionPart::Appendix),
        };
        text.split('.').map(part).collect::<Option<_>>().map(Self)
    }
}

impl std::fmt::Display for RfcSection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts: Vec<String> = self
            .0
            .iter()
            .map(|part| match part {
                SectionPart::Number(n) => n.to_string(),
                SectionPart::Appendix(letter) => letter.to_string(),
            })
            .collect();
        f.pad(&parts.join("."))
    }
}

/// The sections a comment names: `RFC 9000 §13.2.1`; further ones may follow, until the next document.
pub(crate) fn cited(comment: &str) -> Vec<(u32, RfcSection)> {
    let mut all = Vec::new();
    for part in comment.split("RFC ").skip(1) {
        let part =
            ["draft-", "spec/"].iter().fold(part, |part, other| part.split(other).next().unwrap_or(part));
        let digits = part.chars().take_while(char::is_ascii_digit).count();
        let Ok(rfc) = part[..digits].parse() else { continue };
        for section in part[digits..].split('§').skip(1) {
            let end = section.find(|c: char| c != '.' && !c.is_ascii_alphanumeric()).unwrap_or(section.len());
            if let Some(section) = RfcSection::parse(section[..end].trim_end_matches('.')) {
                all.push((rfc, section));
            }
        }
    }
    all
}

/// The lists of `spec/rfc/`.
pub(crate) fn read(folder: &Path) -> Result<Vec<Rfc>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_some_and(|e| e == "toml") {
            let number =
                name.parse().with_context(|| format!("{} is not named by its RFC", path.display()))?;
            let rfc = Rfc::parse(number, &fs::read_to_string(&path)?);
            all.push(rfc.with_context(|| path.display().to_string())?);
        }
    }
    all.sort_by_key(|rfc| rfc.number);
    Ok(all)
}

/// What one RFC asks.
#[derive(Debug)]
pub(crate) struct Rfc {
    number: u32,
    asks: BTreeMap<RfcSection, SectionAsk>,
}

#[derive(Debug)]
struct SectionAsk {
    words: String,
    exception: Option<String>,
    untested: Option<String>,
}

impl Rfc {
    /// Lines `"4.1" = "words"` below `[sections]`, `[exceptions]` or `[untested]`; the first comes first.
    fn parse(number: u32, text: &str) -> Result<Self> {
        let mut rfc = Self { number, asks: BTreeMap::new() };
        let mut table = "";
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                table = name;
                continue;
            }
            let fields = line.strip_prefix('"').and_then(|l| l.strip_suffix('"')?.split_once("\" = \""));
            match fields.and_then(|(section, words)| Some((RfcSection::parse(section)?, words))) {
                Some((section, words)) if !words.is_empty() => rfc.enter(table, &section, words)?,
                _ => bail!("{line:?} is not of the form \"4.1\" = \"words\""),
            }
        }
        Ok(rfc)
    }

    fn enter(&mut self, table: &str, section: &RfcSection, words: &str) -> Result<()> {
        if table == "sections" {
            let ask = SectionAsk { words: words.to_owned(), exception: None, untested: None };
            if self.asks.insert(section.clone(), ask).is_some() {
                bail!("§{section} stands twice below [sections]");
            }
            return Ok(());
        }
        let Some(ask) = self.asks.get_mut(section) else {
            bail!("§{section} stands below [{table}], but not in [sections] above");
        };
        let reason = match table {
            "exceptions" => &mut ask.exception,
            "untested" => &mut ask.untested,
            _ => bail!("[{table}] is none of [sections], [exceptions] and [untested]"),
        };
        if reason.replace(words.to_owned()).is_some() {
            bail!("§{section} stands twice below [{table}]");
        }
        Ok(())
    }
}

/// What is asked against what is cited.
pub(crate) struct Coverage {
    rows: Vec<(u32, RfcSection, SectionAsk, CitedPlaces)>,
}

impl Coverage {
    pub(crate) fn new(rfcs: Vec<Rfc>, cited: &Sections) -> Self {
        let mut rows = Vec::new();
        for rfc in rfcs {
            for (section, ask) in rfc.asks {
                let places = cited.get(&(rfc.number, section.clone())).cloned().unwrap_or_default();
                rows.push((rfc.number, section, ask, places));
            }
        }
        Self { rows }
    }

    pub(crate) fn is_complete(&self) -> bool {
        !self.rows.iter().any(|(_, _, ask, places)| ask.gap(places).is_some())
    }

    pub(crate) fn print(&self, missing: bool) {
        for (rfc, section, ask, places) in &self.rows {
            if missing && ask.gap(places).is_none() {
                continue;
            }
            if let (Some(SectionGap::Reason), Some(why)) =
                (ask.gap(places), ask.exception.as_ref().or(ask.untested.as_ref()))
            {
                println!("{rfc} §{section}: there is code and a test, and yet: {why}");
            }
            let (code, tests) = ask.cells(places, short);
            println!("{rfc} §{section:<9} {code:<44} {tests}");
        }
    }

    /// One line for each RFC.
    pub(crate) fn print_summary(&self) {
        let mut rfcs: BTreeMap<u32, [usize; 6]> = BTreeMap::new();
        for (rfc, _, ask, places) in &self.rows {
            let [both, no_code, no_test, untested, excepted, needless] = rfcs.entry(*rfc).or_default();
            *match (ask.gap(places), &ask.exception, &ask.untested) {
                (Some(SectionGap::Code), ..) => no_code,
                (Some(SectionGap::Test), ..) => no_test,
                (Some(SectionGap::Reason), ..) => needless,
                (None, Some(_), _) => excepted,
                (None, None, Some(_)) => untested,
                (None, None, None) => both,
            } += 1;
        }
        for (rfc, [both, no_code, no_test, untested, excepted, needless]) in rfcs {
            println!(
                "RFC {rfc}: {} sections with requirements: {both} with code and test, {no_test} without a test, \
                 {no_code} without code, {untested} untested for a reason, {excepted} excepted",
                both + no_code + no_test + untested + excepted + needless
            );
            if needless > 0 {
                println!("RFC {rfc}: {needless} with code, a test, and a reason why not");
            }
        }
    }

    /// The table as Markdown. Links are relative to the root of the repository, which `to_root` leads to.
    pub(crate) fn page(&self, to_root: &str) -> String {
        let mut page = String::from("# Where each section of the RFCs is obeyed and tested\n");
        let mut last = 0;
        for (rfc, section, ask, places) in &self.rows {
            if *rfc != last {
                last = *rfc;
                let _ =
                    write!(page, "\n## RFC {rfc}\n\n| section | what it asks | code | tests |\n|-|-|-|-|\n");
            }
            let link = |places: &[String]| links(places, to_root);
            let (code, tests) = ask.cells(places, link);
            let at = match section.0.first() {
                Some(SectionPart::Appendix(_)) => "appendix",
                _ => "section",
            };
            let _ = writeln!(
                page,
                "| [§{section}](https://www.rfc-editor.org/rfc/rfc{rfc}#{at}-{section}) | {} | {code} | {tests} |",
                ask.words
            );
        }
        page
    }
}

/// What a section lacks.
#[derive(PartialEq, Debug)]
enum SectionGap {
    Code,
    Test,
    /// None, but there is a reason for one.
    Reason,
}

impl SectionAsk {
    fn gap(&self, places: &CitedPlaces) -> Option<SectionGap> {
        let both = !places.code.is_empty() && !places.tests.is_empty();
        if both && (self.exception.is_some() || self.untested.is_some()) {
            Some(SectionGap::Reason)
        } else if self.exception.is_some() {
            None
        } else if places.code.is_empty() {
            Some(SectionGap::Code)
        } else if places.tests.is_empty() && self.untested.is_none() {
            Some(SectionGap::Test)
        } else {
            None
        }
    }

    /// Code and tests, as `show` shows places, or the reason why there are none.
    fn cells(&self, places: &CitedPlaces, show: impl Fn(&[String]) -> String) -> (String, String) {
        let cell = |places: &[String], reason: Option<String>| match reason {
            Some(reason) if places.is_empty() => reason,
            _ => show(places),
        };
        let excepted = self.exception.as_ref().map(|why| format!("excepted: {why}"));
        let untested = self.untested.as_ref().map(|why| format!("no test: {why}"));
        let none = self.exception.as_ref().map(|_| "-".to_owned());
        (cell(&places.code, excepted), cell(&places.tests, untested.or(none)))
    }
}

fn links(places: &[String], to_root: &str) -> String {
    let link = |place: &String| {
        let (file, line) = place.rsplit_once(':').unwrap_or((place, "1"));
        let folder = if file.starts_with("fuzz/") { "" } else { "crates/" };
        format!("[{place}]({to_root}{folder}{file}#L{line})")
    };
    match places {
        [] => "**missing**".into(),
        some => some.iter().map(link).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(text: &str) -> RfcSection {
        RfcSection::parse(text).expect("the text is a section")
    }

    fn places(code: &[&str], tests: &[&str]) -> CitedPlaces {
        let own = |places: &[&str]| places.iter().map(|p| (*p).to_owned()).collect();
        CitedPlaces { code: own(code), tests: own(tests) }
    }

    #[test]
    fn sections_of_a_comment_are_collected() {
        let found = cited(" RFC 9000 §13.2.1: why, and §19.3.1; RFC 9002 §A.7, RFC 8999.");
        assert_eq!(found, [(9000, section("13.2.1")), (9000, section("19.3.1")), (9002, section("A.7"))]);
        let others = "RFC 9000 §13.2; draft-ietf-quic-ack-frequency §4; RFC 9221 §5, `spec/fec.md` §10";
        assert_eq!(cited(others), [(9000, section("13.2")), (9221, section("5"))]);
    }

    #[test]
    fn sections_sort_as_in_the_table_of_contents() {
        assert!(section("2") < section("2.1") && section("2.9") < section("2.10"));
        assert!(section("22") < section("A.1"));
        assert_eq!(RfcSection::parse("4.x"), None);
    }

    #[test]
    fn a_section_needs_code_and_a_test_or_a_reason() {
        let text = "[sections]\n\"1\" = \"a\"\n\"2\" = \"b\"\n\"3\" = \"c\"\n\"4\" = \"d\"\n\"5\" = \"e\"\n\
                    \"6\" = \"f\"\n\"7\" = \"g\"\n[exceptions]\n\"4\" = \"not ours\"\n\"6\" = \"no\"\n\
                    [untested]\n\"3\" = \"chance\"\n\"7\" = \"chance\"\n";
        let rfc = Rfc::parse(9000, text).expect("the form is right");
        let cited = Sections::from([
            ((9000, section("1")), places(&["quic/src/a.rs:1"], &["quic/tests/a.rs:2"])),
            ((9000, section("2")), places(&["quic/src/a.rs:3"], &[])),
            ((9000, section("3")), places(&["quic/src/a.rs:4"], &[])),
            ((9000, section("5")), places(&[], &["quic/tests/a.rs:6"])),
            ((9000, section("6")), places(&["quic/src/a.rs:7"], &["quic/tests/a.rs:8"])),
            ((9000, section("7")), places(&["quic/src/a.rs:9"], &["quic/tests/a.rs:9"])),
            ((9114, section("4")), places(&["h3/src/a.rs:1"], &["h3/tests/a.rs:1"])),
        ]);
        let coverage = Coverage::new(vec![rfc], &cited);
        let gaps: Vec<_> = coverage.rows.iter().map(|(_, _, ask, places)| ask.gap(places)).collect();
        assert_eq!(
            gaps,
            [
                None,
                Some(SectionGap::Test),
                None,
                None,
                Some(SectionGap::Code),
                Some(SectionGap::Reason),
                Some(SectionGap::Reason)
            ]
        );
        assert!(!coverage.is_complete());
        let page = coverage.page("../");
        assert!(page.contains("| a | [quic/src/a.rs:1](../crates/quic/src/a.rs#L1) | [quic/tests/a.rs:2]("));
        assert!(page.contains("| d | excepted: not ours | - |") && page.contains("| no test: chance |"));
    }

    #[test]
    fn lists_are_held_to_their_form() {
        let parse = |text| Rfc::parse(1, text).map(|rfc| rfc.asks.len());
        assert_eq!(parse("# why\n[sections]\n\"1.2\" = \"words\"\n").ok(), Some(1));
        for bad in [
            "\"1\" = \"outside of a table\"",
            "[sections]\n\"1\" = \"\"",
            "[sections]\n1 = words",
            "[sections]\n\"1\" = \"a\"\n\"1\" = \"again\"",
            "[exceptions]\n\"1\" = \"not asked\"",
            "[sections]\n\"1\" = \"a\"\n[untestable]\n\"1\" = \"b\"",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
