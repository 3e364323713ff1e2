//! Traces of before: the hashes that lie in the repository, and whole ones that somebody saved.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::SEEDS;
use crate::journal::DATAGRAM;
use crate::mix::{Change, Mix};

/// What is known of each trace: datagrams, bytes and hashes, in words.
pub(crate) struct Hashes {
    /// In the order of playing.
    lines: Vec<(String, Line)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    datagrams: u64,
    bytes: u64,
    /// One a seed.
    hashes: Vec<u32>,
}

impl Hashes {
    pub(crate) fn play(mixes: &[Mix]) -> Self {
        let lines = mixes.iter().map(|mix| {
            let plays = SEEDS.map(|seed| mix.play(seed, Change::None, false));
            let line = Line {
                datagrams: plays.iter().map(|play| play.datagrams).sum(),
                bytes: plays.iter().map(|play| play.bytes).sum(),
                hashes: plays.iter().map(|play| play.hash).collect(),
            };
            (mix.to_string(), line)
        });
        Self { lines: lines.collect() }
    }

    pub(crate) fn read() -> Self {
        let text = std::fs::read_to_string(file()).unwrap_or_default();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Self {
            lines: lines.map(|line| parse(line).unwrap_or_else(|| panic!("not a trace: {line}"))).collect(),
        }
    }

    /// Those of these alone, in their order.
    pub(crate) fn of(&self, mixes: &[Mix]) -> Self {
        let known: BTreeMap<&str, &Line> =
            self.lines.iter().map(|(name, line)| (name.as_str(), line)).collect();
        let of = |name: String| known.get(name.as_str()).map(|line| (name.clone(), (*line).clone()));
        Self { lines: mixes.iter().filter_map(|mix| of(mix.to_string())).collect() }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(|(name, _)| name.as_str())
    }

    pub(crate) fn write(&self) {
        let mut lines: Vec<String> =
            self.lines.iter().map(|(name, line)| format!("{name:<58}{}", line.text())).collect();
        lines.sort();
        std::fs::write(file(), format!("{HEAD}{}\n", lines.join("\n")))
            .expect("the repository can be written to");
        println!("{} traces are in {}: {}", lines.len(), file().display(), self.sums());
    }

    pub(crate) fn sums(&self) -> String {
        let datagrams: u64 = self.lines.iter().map(|(_, line)| line.datagrams).sum();
        let bytes: u64 = self.lines.iter().map(|(_, line)| line.bytes).sum();
        format!("{datagrams} datagrams with {} MB", bytes / 1_000_000)
    }

    /// What differs from `before`, in words: nothing if it is the same.
    pub(crate) fn compare(&self, before: &Self) -> String {
        let old: BTreeMap<&str, &Line> =
            before.lines.iter().map(|(name, line)| (name.as_str(), line)).collect();
        let others: Vec<_> =
            self.lines.iter().filter(|(name, line)| old.get(name.as_str()) != Some(&line)).collect();
        let Some((first, line)) = others.first() else { return String::new() };
        let mut report = format!("{} of {} traces differ, {first} first", others.len(), self.lines.len());
        match old.get(first.as_str()) {
            None => report.push_str(", which the file does not have"),
            Some(old) => {
                let seeds =
                    SEEDS.iter().zip(old.hashes.iter().zip(&line.hashes)).filter(|(_, (a, b))| a != b);
                let seeds: Vec<String> = seeds.map(|(seed, _)| seed.to_string()).collect();
                let (was, is) = ((old.datagrams, old.bytes), (line.datagrams, line.bytes));
                write!(
                    report,
                    ", by seed {}: {} datagrams with {} bytes were {} with {}",
                    seeds.join(", "),
                    is.0,
                    is.1,
                    was.0,
                    was.1
                )
                .expect("a string takes everything");
            }
        }
        report.push('.');
        let names: Vec<&str> = others[1..].iter().map(|(name, _)| name.as_str()).take(10).collect();
        if !names.is_empty() {
            write!(report, "\nOthers: {}", names.join(" ")).expect("a string takes everything");
        }
        write!(
            report,
            "\nWhat differs in it: at the commit before, `cargo xtask traces {first} --save DIR`, and here \
             `cargo xtask traces {first} --against DIR`.\nIf it is to be so, `cargo xtask traces --accept`, and the commit says why."
        )
        .expect("a string takes everything");
        report
    }
}

impl Line {
    fn text(&self) -> String {
        let hashes: Vec<String> = self.hashes.iter().map(|hash| format!("{hash:08x}")).collect();
        format!("{:>7} {:>9}  {}", self.datagrams, self.bytes, hashes.join(" "))
    }
}

fn parse(line: &str) -> Option<(String, Line)> {
    let mut words = line.split_whitespace();
    let name = words.next()?.to_owned();
    let (datagrams, bytes) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let hashes: Option<Vec<u32>> = words.map(|word| u32::from_str_radix(word, 16).ok()).collect();
    Some((name, Line { datagrams, bytes, hashes: hashes? }))
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces/hashes.txt")
}

const HEAD: &str = "\
# The traces of `cargo xtask traces`, which writes this file with --accept (CONTRIBUTING.md): scene, protection, controller and
# variation; datagrams and bytes of all seeds; and a hash of each seed's trace.
";

/// Whole traces of a mix, one a seed, line by line.
pub(crate) struct Saved(Vec<Vec<String>>);

impl Saved {
    pub(crate) fn play(mix: &Mix, change: Change) -> Self {
        Self(SEEDS.map(|seed| mix.play(seed, change, true).lines).to_vec())
    }

    pub(crate) fn write(&self, folder: &Path, mix: &Mix) {
        std::fs::create_dir_all(folder).expect("the folder can be made");
        let seeds =
            SEEDS.iter().zip(&self.0).map(|(seed, lines)| format!("{SEED}{seed}\n{}\n", lines.join("\n")));
        std::fs::write(path(folder, mix), seeds.collect::<String>()).expect("the folder can be written to");
    }

    pub(crate) fn read(folder: &Path, mix: &Mix) -> Self {
        let path = path(folder, mix);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|why| {
            panic!("{}: {why}; `cargo xtask traces {mix} --save DIR` writes it", path.display())
        });
        let mut seeds: Vec<Vec<String>> = Vec::new();
        for line in text.lines() {
            match seeds.last_mut() {
                _ if line.starts_with(SEED) => seeds.push(Vec::new()),
                Some(lines) => lines.push(line.to_owned()),
                None => panic!("{} is no trace", path.display()),
            }
        }
        Self(seeds)
    }

    /// The first thing that is other in `now`, and what precedes it in both.
    pub(crate) fn difference(&self, now: &Self) -> Option<String> {
        let seeds = SEEDS.iter().zip(self.0.iter().zip(&now.0));
        let (seed, (before, now)) = seeds.into_iter().find(|(_, (before, now))| before != now)?;
        let at = before.iter().zip(now).take_while(|(before, now)| before == now).count();
        let datagrams = |lines: &[String]| lines.iter().filter(|line| line.starts_with(DATAGRAM)).count();
        let line = |lines: &[String]| lines.get(at).map_or("nothing more", String::as_str).to_owned();
        let (was, is) = (line(before), line(now));
        let what = if was.starts_with(DATAGRAM) || is.starts_with(DATAGRAM) {
            format!("datagram {} of {}", datagrams(&before[..at]) + 1, datagrams(before))
        } else {
            format!("what the applications saw behind datagram {}", datagrams(&before[..at]))
        };
        let mut shown = vec![format!("Seed {seed}, {what}:")];
        shown.extend(before[at.saturating_sub(SHARED)..at].iter().map(|line| format!("          {line}")));
        shown.extend([format!("  before: {was}"), format!("  now:    {is}")]);
        Some(shown.join("\n"))
    }
}

fn path(folder: &Path, mix: &Mix) -> PathBuf {
    folder.join(format!("{}.txt", mix.to_string().replace('/', "-")))
}

const SEED: &str = "seed ";
/// Lines that are shown before those that differ.
const SHARED: usize = 3;
