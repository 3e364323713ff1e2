//! The report of experiments: the rows of a results directory as a page.
//!
//! *In:* [`ResultsFolder`]. *Out:* HTML: for each experiment what was done and found, its figures, and its
//! numbers beside the published ones and those without loss; then how it was measured, and the commands that
//! do it again. The same numbers as data are [`ResultsFolder::lines`].
//!
//! Rows are sorted into *spots* (points that alternatives have in common) and at each spot the *alternatives*
//! that are compared, mostly modes. Percentiles are those of the histograms of all seeds together; intervals
//! come from the numbers of single runs, by Student's t.

mod commands;
mod failed;
mod figures;
mod finding;
mod input;
mod measures;
mod paired;
mod palette;
mod pooled;
mod run;
mod sheet;
mod table;
mod words;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::text::{escaped, number};
pub use failed::Failed;
use finding::{Tone, findings, world_words};
pub use input::{ReportError, ResultsFolder};
use sheet::ReportSheet;
pub use table::{Number, Printed, TableLine};

impl ResultsFolder {
    /// The numbers of the tables.
    pub fn lines(&self) -> Vec<TableLine> {
        self.sheets.iter().flat_map(table::lines).collect()
    }

    /// Runs that did not come to their end, by place and reason.
    pub fn failed(&self) -> Vec<Failed> {
        self.sheets.iter().flat_map(failed::failed).collect()
    }

    /// A sentence for each experiment that has such runs.
    pub fn unfinished(&self) -> Vec<String> {
        let sentence = |sheet: &ReportSheet| {
            let counted = failed::sentence(sheet)?;
            Some(format!("{}: {counted}; comparisons leave them out.", sheet.experiment.name))
        };
        self.sheets.iter().filter_map(sentence).collect()
    }

    /// How many runs there are.
    pub fn runs(&self) -> usize {
        self.sheets.iter().map(|sheet| sheet.runs.len()).sum()
    }
}

/// The page.
pub fn html(results: &ResultsFolder) -> String {
    let mut page = String::with_capacity(1 << 20);
    page.push_str(HEAD);
    opening(&mut page, results);
    let lines: Vec<Vec<TableLine>> = results.sheets.iter().map(table::lines).collect();
    for (sheet, lines) in results.sheets.iter().zip(&lines) {
        section(&mut page, sheet, lines, results.sheets.len() > 1);
    }
    method(&mut page, results, &lines);
    page.push_str("</main></body></html>\n");
    page
}

fn opening(page: &mut String, results: &ResultsFolder) {
    let title = match results.sheets.as_slice() {
        [sheet] => sheet.experiment.title.to_owned(),
        sheets => format!("{} experiments", sheets.len()),
    };
    let runs = results.runs();
    let worlds: BTreeSet<&str> =
        results.sheets.iter().flat_map(|sheet| &sheet.worlds).map(|world| world_words(world)).collect();
    let _ = write!(
        page,
        "<header><p class=kicker>Quickset · laboratory</p><h1>{}</h1><p class=lead>{runs} {}, {}. Every sentence that \
         compares and every number on this page is computed from them; the commands that make them again stand \
         below.</p>",
        escaped(&title),
        if runs == 1 { "run" } else { "runs" },
        escaped(&worlds.into_iter().collect::<Vec<_>>().join(" and "))
    );
    for warning in &results.warnings {
        let _ = write!(page, "<p class=warning>{}</p>", escaped(warning));
    }
    if results.sheets.len() > 1 {
        page.push_str("<ul class=contents>");
        for ReportSheet { experiment, .. } in &results.sheets {
            let _ = write!(
                page,
                "<li><a href='#{name}'>{}</a> <code>{name}</code>",
                escaped(experiment.title),
                name = escaped(experiment.name)
            );
        }
        page.push_str("</ul>");
    }
    page.push_str("</header>");
}

fn section(page: &mut String, sheet: &ReportSheet, lines: &[TableLine], is_one_of_many: bool) {
    let experiment = sheet.experiment;
    let _ = write!(page, "<section id='{}'>", escaped(experiment.name));
    if is_one_of_many {
        let _ = write!(page, "<h2>{}</h2>", escaped(experiment.title));
    }
    let _ = write!(
        page,
        "<p class=source><code>{}</code> {}</p><p>{}</p>",
        escaped(experiment.name),
        escaped(experiment.source),
        escaped(experiment.about)
    );
    let _ = write!(page, "<p class=base>Baseline: {}.</p>", escaped(&baseline(sheet)));
    alternatives(page, sheet);
    failed::warning(page, sheet);
    let findings = findings(sheet);
    if !findings.is_empty() {
        page.push_str("<h3>What was found</h3>");
        let told = |page: &mut String, findings: &[finding::ComputedFinding]| {
            page.push_str("<ul class=findings>");
            for finding in findings {
                // Numbers stay with their units.
                let html = finding.html.replace(" %", "&nbsp;%").replace(" ms", "&nbsp;ms");
                let _ = write!(page, "<li class={}>{html}", finding.tone.class());
            }
            page.push_str("</ul>");
        };
        let cut = if findings.len() <= FINDINGS + 1 { findings.len() } else { FINDINGS };
        told(page, &findings[..cut]);
        if cut < findings.len() {
            let more = words::more(findings.len() - cut, "finding");
            let _ = write!(page, "<details><summary>{more}</summary>");
            told(page, &findings[cut..]);
            page.push_str("</details>");
        }
        if findings.iter().all(|finding| finding.tone == Tone::Even) {
            page.push_str("<p>More seeds (<code>--seeds</code>) make intervals narrower.</p>");
        }
    }
    claims(page, sheet);
    pooled::table(page, sheet);
    notes(page, sheet);
    figures::figures(page, sheet);
    page.push_str("<h3>The numbers</h3>");
    table::tables(page, sheet, lines);
    without_loss(page, sheet);
    again(page, sheet);
    page.push_str("</section>");
}

/// What was published in words, and apart from it what nothing here can be held against.
fn claims(page: &mut String, sheet: &ReportSheet) {
    let experiment = sheet.experiment;
    for (title, claims) in [
        ("What was published", experiment.claims),
        ("What was published, and is not measured here", experiment.unmeasured),
    ] {
        if claims.is_empty() {
            continue;
        }
        let _ = write!(page, "<h3>{title}</h3><ul class=claims>");
        for (figure, told) in claims {
            let _ = write!(page, "<li><small>{}</small> {}", escaped(&words::cited(figure)), escaped(told));
        }
        page.push_str("</ul>");
    }
}

/// Where and why our numbers are others, or what is to be known of those that have none beside them.
fn notes(page: &mut String, sheet: &ReportSheet) {
    let experiment = sheet.experiment;
    if experiment.notes.is_empty() {
        return;
    }
    let is_our_own = experiment.published.is_empty() && experiment.claims.is_empty();
    let title =
        if is_our_own { "What else is known" } else { "Beside what was published: what differs, and why" };
    let _ = write!(page, "<h3>{title}</h3><ul class=claims>");
    for note in experiment.notes {
        let _ = write!(page, "<li>{}", escaped(note));
    }
    page.push_str("</ul>");
}

/// The keys of the baseline in words, but for those that are compared.
fn baseline(sheet: &ReportSheet) -> String {
    let base = sheet.experiment.base();
    let told = sheet.experiment.baseline.iter().map(|(key, _)| *key).filter(|key| {
        // What is not there need not be told.
        *key != sheet.curves
            && base.text(key) != "none"
            && !sheet.experiment.crossed.iter().any(|(crossed, _)| crossed == key)
    });
    let words = told.filter_map(|key| Some(words::setting(key, base.get(key)?)));
    words.collect::<Vec<_>>().join(", ")
}

/// What is compared, in a sentence each.
fn alternatives(page: &mut String, sheet: &ReportSheet) {
    let told = |n: usize| words::alternative(sheet.curves, &sheet.alternatives[n].to_string());
    let told: Vec<(usize, String)> =
        (0..sheet.alternatives.len()).filter_map(|n| Some((n, told(n)?))).collect();
    if told.is_empty() {
        return;
    }
    page.push_str("<ul class=modes>");
    for (n, words) in told {
        let _ = write!(
            page,
            "<li class='{}'><i></i>{}: {}.",
            sheet.hue(n),
            finding::named(sheet, n),
            escaped(&words)
        );
    }
    page.push_str("</ul>");
}

/// Where the column of no loss is empty, how to fill it.
fn without_loss(page: &mut String, sheet: &ReportSheet) {
    let commands = commands::lossless(sheet);
    if commands.is_empty() {
        return;
    }
    page.push_str(
        "<details><summary>Where “no loss” is empty the same point was not run without loss; these runs add it</summary><pre>",
    );
    page.push_str(&escaped(&commands.join("\n")));
    page.push_str("</pre></details>");
}

fn again(page: &mut String, sheet: &ReportSheet) {
    let commits: BTreeSet<&str> = sheet.runs.iter().map(|run| run.row.commit.as_str()).collect();
    let seeds: BTreeSet<u64> = sheet.runs.iter().map(|run| run.row.seed).collect();
    let (first, last) = (seeds.first().copied().unwrap_or(0), seeds.last().copied().unwrap_or(0));
    let (commands, exact) = commands::repeat(sheet);
    let _ = write!(
        page,
        "<h3>How to get this again</h3><p>{} runs, {} at commit {}{}.{}</p><pre>{}</pre>",
        sheet.runs.len(),
        if first == last {
            format!("seed {first},")
        } else {
            format!("{} seeds, {first} to {last},", seeds.len())
        },
        commits
            .iter()
            .map(|commit| format!("<code>{}</code>", escaped(commit)))
            .collect::<Vec<_>>()
            .join(", "),
        if commits.len() > 1 {
            " – <strong>rows of several commits, which need not be comparable</strong>"
        } else {
            ""
        },
        if exact { "" } else { " These commands give points as well that are not here." },
        escaped(&commands.join("\n"))
    );
    let unequal = sheet.unequal();
    if let Some((least, most)) = unequal {
        let _ = write!(page, "<p>Points have {least} to {most} runs each.</p>");
    }
    for (world, text) in accuracy(sheet) {
        let _ = write!(page, "<p>Of the runs {}: {text}.</p>", escaped(world_words(&world)));
    }
}

/// How well the emulated link of the real world kept its times.
fn accuracy(sheet: &ReportSheet) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for world in sheet.worlds.iter().filter(|world| *world != "sim") {
        let of = |path: &str| -> Vec<f64> {
            let runs = sheet.runs.iter().filter(|run| run.row.world == *world);
            runs.filter_map(|run| run.number(path)).collect()
        };
        let (late, overruns) = (of("lateness_p99_ms"), of("overruns"));
        if late.is_empty() {
            continue;
        }
        let worst = late.iter().copied().fold(0.0, f64::max);
        let lost: f64 = overruns.iter().sum();
        let text = format!(
            "the emulated link sent 99 % of its packets at most {} ms late in the worst run, and the system dropped {} \
             packets that no model decided",
            number(worst),
            number(lost)
        );
        all.push((world.clone(), text));
    }
    all
}

fn method(page: &mut String, results: &ResultsFolder, lines: &[Vec<TableLine>]) {
    page.push_str("<section class=method><h2>What was measured, and how</h2><dl>");
    let mut told = BTreeSet::new();
    for path in lines.iter().flatten().map(|line| &line.metric) {
        let Some(measure) = words::ReportMeasure::of(path) else { continue };
        if told.insert(measure.path) {
            let _ = write!(page, "<dt>{}<dd>{}.", escaped(measure.label), escaped(measure.about));
        }
    }
    page.push_str(
        "<dt>Percentiles<dd>of all runs of a point together; below them, and for everything else, the mean over runs. \
         “80 %” is what four in five do not exceed.\
         <dt>±<dd>half the width of the 95 % confidence interval by Student’s t over the runs’ own numbers. Of a \
         single run there is none.\
         <dt>Less, more<dd>from runs compared one by one: a seed decides for each packet by its number whether the link \
         loses it, so alternatives with the same seed meet the same losses. An interval that holds zero is no \
         difference shown, nor is less than 0.1 %. Pairs with a run that did not come to its end are left out, and counted. Over a design of many points it is the geometric mean of ratios, and the interval is that of the points, each with \
         the mean of its seeds: seeds of one point are not points.\
         <dt>No loss<dd>the same point with nothing lost: what an alternative costs where it cannot help.\
         <dt>Published<dd>numbers from papers, of other machines, stacks and links; what should agree is which is better, \
         by what factor, and where curves bend.",
    );
    if results.sheets.iter().any(|sheet| sheet.worlds.iter().any(|world| world == "sim")) {
        page.push_str(
            "<dt>Simulated<dd>in virtual time and without cryptography: the same protocol code, and equal seeds give equal \
             rows, byte for byte.",
        );
    }
    if results.sheets.iter().any(|sheet| sheet.experiment.is_timed()) {
        page.push_str(
            "<dt>Timed on one machine<dd>the work itself, whatever else the machine did meanwhile: of no two runs the same.",
        );
    }
    if results.sheets.iter().any(|sheet| sheet.worlds.iter().any(|world| world == "real")) {
        page.push_str(
            "<dt>Over real sockets<dd>UDP on the loopback interface with TLS, in real time, through a relay that holds, \
             delays and loses packets by the same model. Curves of these runs are dashed.",
        );
    }
    page.push_str("</dl></section>");
}

const HEAD: &str = concat!(
    "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width'>\
     <title>Quickset: results of experiments</title><style>",
    include_str!("../page.css"),
    include_str!("page.css"),
    "</style></head><body><main>"
);

/// Findings that are not folded away.
const FINDINGS: usize = 8;

#[cfg(test)]
mod tests;
