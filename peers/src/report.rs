//! The figures side by side: medians, and ours over theirs.

use std::fmt::{self, Display, Formatter, Write as _};

use quickset_stacks::{FIXED_MTU, FIXED_WINDOW};
use serde::Serialize;

use crate::cases::BenchCase;
use crate::columns::{ReportColumn, Run};
use crate::picture::{self, PictureMark, PictureRow};
use crate::{PeerGroup, PeersStack};

/// The runs of one stack in one case.
#[derive(Debug, Serialize)]
pub(crate) struct ReportSeries {
    pub(crate) stack: PeersStack,
    pub(crate) runs: Vec<Run>,
    pub(crate) failed: u32,
    /// Why there are no figures, or not all.
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    mtu: u16,
    window: u32,
    pinned: bool,
    group: PeerGroup,
    seconds: f64,
    cores: usize,
    /// Tasks that ran or wanted to when it began: what else the machine did.
    load: Option<f64>,
    processor: String,
    left_out: Vec<(PeersStack, String)>,
    cases: Vec<Table>,
}

#[derive(Debug, Serialize)]
struct Table {
    case: BenchCase,
    group: PeerGroup,
    /// It is another than that of most.
    #[serde(skip)]
    is_other: bool,
    stacks: Vec<ReportRow>,
}

#[derive(Debug, Serialize)]
struct ReportRow {
    #[serde(flatten)]
    series: ReportSeries,
    /// Of each column.
    medians: Vec<f64>,
    /// Below and above which a quarter of the runs are each.
    quartiles: Vec<[f64; 2]>,
    /// Ours over theirs, of the first column: medians, and the median over pairs of runs.
    ratio: Option<[f64; 2]>,
    /// Of each pair of runs.
    #[serde(skip)]
    pairs: Vec<f64>,
}

impl ReportSeries {
    pub(crate) fn new(stack: PeersStack, case: BenchCase) -> Self {
        Self { stack, runs: Vec::new(), failed: 0, reason: case.unfit(stack).map(str::to_owned) }
    }

    /// A run came to nothing.
    pub(crate) fn fail(&mut self, error: &anyhow::Error) {
        self.failed += 1;
        self.reason.get_or_insert_with(|| format!("{error:#}"));
    }

    fn column(&self, column: &ReportColumn) -> Vec<f64> {
        self.runs.iter().map(column.2).collect()
    }
}

impl Report {
    pub(crate) fn new(pinned: bool, seconds: f64, group: PeerGroup) -> Self {
        let load = std::fs::read_to_string("/proc/loadavg").ok();
        Self {
            mtu: FIXED_MTU,
            window: FIXED_WINDOW,
            pinned,
            group,
            seconds,
            cores: crate::os::cores().map_or(0, |cores| cores.len()),
            load: load.and_then(|line| line.split(' ').next()?.parse().ok()),
            processor: crate::os::processor(),
            left_out: Vec::new(),
            cases: Vec::new(),
        }
    }

    pub(crate) fn leave_out(&mut self, stack: PeersStack, why: String) {
        self.left_out.push((stack, why));
    }

    /// Runs that came to nothing.
    pub(crate) fn failed(&self) -> u32 {
        self.cases.iter().flat_map(|table| &table.stacks).map(|row| row.series.failed).sum()
    }

    pub(crate) fn add(&mut self, case: BenchCase, group: PeerGroup, series: Vec<ReportSeries>) {
        let first = &case.columns()[0];
        let whole = |one: &&ReportSeries| one.failed == 0;
        let own = case.own();
        let ours = series.iter().find(|one| one.stack == own).filter(whole);
        let ours = ours.map(|one| one.column(first));
        let rows = series.into_iter().map(|series| {
            let theirs = series.column(first);
            // A pair is of one turn: with a run that failed on either side, the turns no longer match.
            let ours = ours
                .as_ref()
                .filter(|ours| !ours.is_empty() && ours.len() == theirs.len() && series.failed == 0);
            let pairs: Vec<f64> = ours
                .map(|ours| ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect())
                .unwrap_or_default();
            let ratio = ours.map(|ours| {
                let medians = median(ours.iter().copied()) / median(theirs.iter().copied());
                [medians, median(pairs.iter().copied())]
            });
            let medians =
                case.columns().iter().map(|column| median(series.column(column).into_iter())).collect();
            let quartiles = case.columns().iter().map(|column| quartiles(series.column(column))).collect();
            ReportRow { series, medians, quartiles, ratio, pairs }
        });
        let is_other = group != self.group;
        self.cases.push(Table { case, group, is_other, stacks: rows.collect() });
    }
}

impl Report {
    /// Ours beside the others, case by case.
    pub(crate) fn picture(&self) -> String {
        let rows: Vec<PictureRow> = self.cases.iter().map(Table::picture_row).collect();
        picture::svg(&rows)
    }

    /// The tables in Markdown, for people who have no such machine, below a picture in a file of this name.
    pub(crate) fn page(&self, picture: &str) -> String {
        let mut page = PAGE.to_owned();
        let _ = write!(
            page,
            "\n![How many times better Quickset is than each other stack, case by case]({picture})\n"
        );
        let _ = write!(
            page,
            "\nMedians of runs of {} s in turns on one machine ({}, {} cores), datagrams of {} bytes, AES-128-GCM, keys by {}.\n",
            self.seconds,
            self.processor,
            self.cores,
            self.mtu,
            self.group.name()
        );
        for (stack, why) in &self.left_out {
            let _ = writeln!(page, "\nWithout {}: {why}", stack.name());
        }
        for table in &self.cases {
            let Table { case, stacks, .. } = table;
            let columns = case.columns();
            let names: Vec<&str> = columns.iter().map(|(name, ..)| *name).collect();
            let runs = stacks.iter().map(|row| row.series.runs.len()).max().unwrap_or(0);
            let _ = write!(
                page,
                "\n## {}\n\n| {runs} runs each | {} | quartiles of the first |\n|---|{}\n",
                capital(&table.title()),
                names.join(" | "),
                "--:|".repeat(names.len() + 1)
            );
            for row in stacks {
                let figures = row.medians.iter().zip(columns);
                let cells = figures.map(|(median, (_, digits, _))| cell(*median, *digits));
                let name = match row.series.stack {
                    own if own == case.own() => format!("**{}**", own.name()),
                    other => other.name(),
                };
                let failed = match row.series.failed {
                    0 => String::new(),
                    n => format!(" ({n} failed)"),
                };
                let cells = cells.collect::<Vec<_>>().join(" | ");
                let _ = writeln!(page, "| {name}{failed} | {cells} | {} |", row.spread(columns[0].1));
            }
            for row in stacks {
                for note in row.series.notes() {
                    let _ = writeln!(page, "\n{note}");
                }
            }
        }
        page
    }
}

impl ReportSeries {
    /// What stands below a table.
    fn notes(&self) -> impl Iterator<Item = String> + '_ {
        self.reason.iter().map(|reason| format!("{}: {reason}.", self.stack.name()))
    }
}

impl ReportRow {
    /// The quartiles of the first figure, or a stroke.
    fn spread(&self, digits: usize) -> String {
        let [low, high] = self.quartiles[0].map(|quartile| cell(quartile, digits));
        if self.series.runs.is_empty() { low } else { format!("{low} to {high}") }
    }
}

/// A figure, or a stroke where there is none.
pub(crate) fn cell(figure: f64, digits: usize) -> String {
    if figure.is_finite() { format!("{figure:.digits$}") } else { "-".to_owned() }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

const PAGE: &str = "\
# Performance

Quickset beside other stacks over loopback, in one run: `cargo xtask bench-peers --page docs/performance.md`
(`--runs`, `--seconds`). What each stack is, how
it is set up and what each case does stands in [peers/README.md](../peers/README.md). Both sides have one thread on a core of
its own. Machines differ; what should agree is who is ahead, and by what factor. [Results](results.md) are about what arrives in
time over links that lose packets.
";

pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// A quarter of the values is below the first, and a quarter above the second, by linear interpolation.
pub(crate) fn quartiles(mut values: Vec<f64>) -> [f64; 2] {
    values.sort_by(f64::total_cmp);
    [0.25, 0.75].map(|of| {
        let at = of * values.len().saturating_sub(1) as f64;
        let [below, above] = [at.floor(), at.ceil()].map(|at| values.get(at as usize).copied());
        below.zip(above).map_or(f64::NAN, |(below, above)| below + (above - below) * at.fract())
    })
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let pinned = if self.pinned { "a core for each process" } else { "cores as the system chooses" };
        writeln!(
            f,
            "runs of {} s in turns, datagrams of {} bytes, windows of {} MiB, AES-128-GCM, {}, {pinned}, of {}",
            self.seconds,
            self.mtu,
            self.window >> 20,
            self.group.name(),
            self.cores,
        )?;
        if let Some(load) = self.load.filter(|load| *load > 0.5) {
            writeln!(f, "the machine was not idle: a load of {load} when it began")?;
        }
        for (stack, why) in &self.left_out {
            writeln!(f, "without {}: {why}", stack.name())?;
        }
        self.cases.iter().try_for_each(|table| write!(f, "\n{table}"))
    }
}

impl Table {
    fn picture_row(&self) -> PictureRow {
        let better = |times: f64| if self.case.less_is_better() { 1.0 / times } else { times };
        let others =
            self.stacks.iter().filter(|row| row.series.stack != self.case.own() && !row.pairs.is_empty());
        let marks = others.map(|row| {
            let pairs: Vec<f64> = row.pairs.iter().copied().map(better).collect();
            PictureMark {
                stack: row.series.stack,
                times: median(pairs.iter().copied()),
                quartiles: quartiles(pairs),
            }
        });
        PictureRow { title: capital(&self.title()), marks: marks.collect() }
    }

    fn title(&self) -> String {
        let by = if self.is_other { format!(", keys by {}", self.group.name()) } else { String::new() };
        format!("{}{by}", self.case.title())
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let columns = self.case.columns();
        writeln!(f, "{}: medians", self.title())?;
        write!(f, "{:<15} {:>4}", "stack", "runs")?;
        columns.iter().try_for_each(|(name, ..)| write!(f, " {name:>15}"))?;
        writeln!(f, " {:>20} {:>13} {:>13}", "quartiles of first", "ours/theirs", "by pairs")?;
        for row in &self.stacks {
            write!(f, "{:<15} {:>4}", row.series.stack.name(), row.series.runs.len())?;
            for (median, (_, digits, _)) in row.medians.iter().zip(columns) {
                write!(f, " {:>15}", cell(*median, *digits))?;
            }
            write!(f, " {:>20}", row.spread(columns[0].1))?;
            if let Some(ratio) = row.ratio {
                let [medians, pairs] = ratio.map(|ratio| cell(ratio, 3));
                write!(f, " {medians:>13} {pairs:>13}")?;
            }
            writeln!(
                f,
                "{}",
                if row.series.failed > 0 { format!("  {} failed", row.series.failed) } else { String::new() }
            )?;
        }
        let mut notes = self.stacks.iter().flat_map(|row| row.series.notes());
        notes.try_for_each(|note| writeln!(f, "  {note}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::CaseFound;

    fn series(stack: PeersStack, gbit: &[f64]) -> ReportSeries {
        let run = |gbit: &f64| Run {
            // Over two seconds.
            found: CaseFound {
                seconds: 2.0,
                cpu_s: 1.0,
                bytes: (gbit * 2.5e8) as u64,
                ..CaseFound::default()
            },
            server_cpu_s: 2.0,
            ..Run::default()
        };
        ReportSeries { stack, runs: gbit.iter().map(run).collect(), failed: 0, reason: None }
    }

    #[test]
    fn quartiles_are_between_runs() {
        // The definition of type 7 of Hyndman and Fan (1996), as numpy has it.
        let [low, high] = quartiles(vec![4.0, 1.0, 3.0, 2.0]);
        assert!((low - 1.75).abs() < 1e-12 && (high - 3.25).abs() < 1e-12, "{low} {high}");
        let [low, high] = quartiles(vec![5.0]);
        assert!((low - 5.0).abs() < 1e-12 && (high - 5.0).abs() < 1e-12, "{low} {high}");
        assert!(quartiles(Vec::new())[0].is_nan());
    }

    #[test]
    fn what_is_not_measured_has_a_reason() {
        let mut report = Report::new(true, 2.0, PeerGroup::X25519);
        let case = BenchCase::Messages100;
        let mut broken = ReportSeries::new(PeersStack::Quinn, case);
        broken.fail(&anyhow::anyhow!("it broke"));
        report.add(case, PeerGroup::X25519, vec![ReportSeries::new(PeersStack::TcpTls, case), broken]);
        let (text, page) = (report.to_string(), report.page("p.svg"));
        for told in ["tcp-tls: it has no messages, and one stream.", "quinn: it broke."] {
            assert!(text.contains(told) && page.contains(told), "{text}{page}");
        }
        assert!(page.contains("| tcp-tls | - | - |"), "{page}");
        assert_eq!(report.failed(), 1, "what is not measured is no failure");
    }

    #[test]
    fn medians_are_in_the_middle() {
        assert!((median([3.0, 1.0, 2.0].into_iter()) - 2.0).abs() < 1e-12);
        assert!((median([4.0, 1.0, 2.0, 3.0].into_iter()) - 2.5).abs() < 1e-12);
        assert!(median(std::iter::empty()).is_nan());
    }

    #[test]
    fn both_ratios_are_ours_over_theirs() {
        let mut report = Report::new(true, 2.0, PeerGroup::X25519);
        let ours = series(PeersStack::Quickset, &[15.0, 16.0, 12.0]);
        report.add(
            BenchCase::Bulk,
            PeerGroup::X25519,
            vec![ours, series(PeersStack::Quinn, &[10.0, 8.0, 12.0]), series(PeersStack::TcpTls, &[1.0])],
        );
        let rows = &report.cases[0].stacks;
        let [medians, pairs] = rows[1].ratio.unwrap();
        assert!((medians - 1.5).abs() < 1e-6);
        // 1.5, 2, 1
        assert!((pairs - 1.5).abs() < 1e-6);
        assert_eq!(rows[2].ratio, None, "runs of different turns are no pairs");
        assert!((rows[1].medians[0] - 10.0).abs() < 1e-6, "Gbit/s");
        assert!((rows[1].medians[2] - 0.8).abs() < 1e-6, "2 s of CPU for 2.5 GB");
        assert!(report.to_string().contains("quinn"));
        let page = report.page("p.svg");
        assert!(page.contains("| **quickset** | 15.00 | 0.267 | 0.533 | 13.50 to 15.50 |"), "{page}");
    }

    #[test]
    fn the_picture_says_how_many_times_better_ours_is() {
        let mut report = Report::new(true, 2.0, PeerGroup::X25519);
        let ours = series(PeersStack::Quickset, &[15.0, 16.0, 12.0]);
        report.add(
            BenchCase::Bulk,
            PeerGroup::X25519,
            vec![ours, series(PeersStack::Quinn, &[10.0, 8.0, 12.0])],
        );
        let [row] = &report.cases[..] else { panic!("one case") };
        // Pairs of 1.5, 2, 1.
        let mark = PictureMark { stack: PeersStack::Quinn, times: 1.5, quartiles: [1.25, 1.75] };
        let [drawn] = row.picture_row().marks[..] else {
            panic!("ours is what the others are compared with")
        };
        assert!((drawn.times - mark.times).abs() < 1e-6, "{drawn:?}");
        assert!(drawn.quartiles.iter().zip(mark.quartiles).all(|(is, must)| (is - must).abs() < 1e-6));
        // Half the microseconds are twice as good.
        let waited = |stack, p50_us: f64| {
            let run = Run { found: CaseFound { p50_us, ..CaseFound::default() }, ..Run::default() };
            ReportSeries { stack, runs: vec![run], failed: 0, reason: None }
        };
        let both = vec![waited(PeersStack::Quickset, 30.0), waited(PeersStack::Quinn, 60.0)];
        report.add(BenchCase::Latency1, PeerGroup::X25519, both);
        let [drawn] = report.cases[1].picture_row().marks[..] else { panic!("one other") };
        assert!((drawn.times - 2.0).abs() < 1e-9, "{drawn:?}");
    }

    #[test]
    fn tables_of_another_group_say_so() {
        let mut report = Report::new(true, 2.0, PeerGroup::X25519);
        for group in [PeerGroup::X25519, PeerGroup::X25519MlKem768] {
            report.add(BenchCase::Handshakes, group, vec![series(PeersStack::Quickset, &[10.0])]);
        }
        let page = report.page("p.svg");
        let titles: Vec<&str> = page.lines().filter(|line| line.starts_with("## ")).collect();
        let [first, second] = titles[..] else { panic!("{page}") };
        assert_eq!(second, format!("{first}, keys by X25519MLKEM768"));
    }

    #[test]
    fn runs_that_failed_are_told() {
        let mut report = Report::new(true, 2.0, PeerGroup::X25519);
        let broken = |stack, gbit: &[f64]| ReportSeries { failed: 1, ..series(stack, gbit) };
        report.add(
            BenchCase::Bulk,
            PeerGroup::X25519,
            vec![broken(PeersStack::Quickset, &[15.0]), broken(PeersStack::Quinn, &[10.0])],
        );
        assert_eq!(report.failed(), 2);
        assert_eq!(report.cases[0].stacks[1].ratio, None, "they may have failed in different turns");
        assert!(report.page("p.svg").contains("| quinn (1 failed) | 10.00 |"), "{}", report.page("p.svg"));
    }
}
