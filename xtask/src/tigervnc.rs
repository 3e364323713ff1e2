//! `cargo xtask tigervnc`: both desktop gateways beside TigerVNC alone, over the same links in the same run.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::needs::{Needed, ensure};
use crate::run::{cargo, output, root, run};
use crate::viewers::program;

/// Runs the test of crates/desktop/tests/tigervnc with the command as it is shipped, or another one.
pub(crate) fn command(args: &[String]) -> Result<()> {
    let plan = TigerPlan::read(args)?;
    // What programs print is for people, and no part of a JSON document.
    let both = |command: &mut Command| if plan.json { output(command).map(drop) } else { run(command) };
    let binary = match &plan.binary {
        Some(binary) => {
            binary.canonicalize().with_context(|| format!("{} is not there", binary.display()))?
        }
        None => root().join("target/release/quickset"),
    };
    ensure(NEEDS)?;
    if plan.binary.is_none() {
        both(cargo().args(["build", "--locked", "--release", "-p", "quickset-cli"]))?;
    }
    let rows = root().join("target/tigervnc.json");
    let mut test = cargo();
    test.args(["test", "--locked", "--release", "-p", "quickset-desktop", "--test", "tigervnc", "--"])
        .args(["--ignored", "--nocapture", "--exact", "gateways_beside_tigervnc"])
        .env("QUICKSET_TIGERVNC_BINARY", binary)
        .env("QUICKSET_TIGERVNC_JSON", &rows);
    for (name, value) in &plan.settings {
        test.env(format!("QUICKSET_TIGERVNC_{name}"), value);
    }
    both(&mut test)?;
    if plan.json {
        print!("{}", std::fs::read_to_string(&rows)?);
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
struct TigerPlan {
    /// Of the test, each a name and a value.
    settings: Vec<(&'static str, String)>,
    binary: Option<PathBuf>,
    /// Standard output is one JSON document.
    json: bool,
}

impl TigerPlan {
    fn read(args: &[String]) -> Result<Self> {
        let mut plan = Self { settings: Vec::new(), binary: None, json: false };
        let (mut losses, mut counts) = (Vec::new(), [("FLIPS", "60".to_owned()), ("RUNS", "3".to_owned())]);
        let mut words = args.iter();
        while let Some(flag) = words.next() {
            if flag == "--json" {
                plan.json = true;
                continue;
            }
            let value = words.next().with_context(|| format!("{flag} needs a value"))?;
            let is_number = |most: u32| value.parse().is_ok_and(|number: u32| (1..=most).contains(&number));
            match flag.as_str() {
                "--flips" if is_number(10_000) => counts[0].1.clone_from(value),
                "--flips" => bail!("--flips: write a number, 1 to 10000"),
                "--runs" if is_number(100) => counts[1].1.clone_from(value),
                "--runs" => bail!("--runs: write a number, 1 to 100"),
                "--only" => match value.split(',').find(|part| !PARTS.contains(part)) {
                    Some(part) => bail!("--only: {part:?} is none of {}", PARTS.join(", ")),
                    None => plan.settings.push(("PARTS", value.clone())),
                },
                "--link" => plan.settings.push(("LINK", value.clone())),
                "--thin" => plan.settings.push(("THIN", value.clone())),
                "--loss" if !value.is_empty() && !value.contains(char::is_whitespace) => {
                    losses.push(value.clone());
                }
                "--tcp" => plan.settings.push(("TCP", value.clone())),
                "--quality" if value == "auto" || matches!(value.as_bytes(), [b'0'..=b'9']) => {
                    plan.settings.push(("QUALITY", value.clone()));
                }
                "--quality" => bail!("--quality: write a number, 0 to 9, or auto"),
                "--binary" => plan.binary = Some(value.into()),
                _ => bail!(
                    "write tigervnc [--only pages,films,lines] [--flips N] [--runs N] [--link WORDS] \
                     [--thin WORDS] [--loss SHARE]… [--tcp cubic,bbr] [--quality 0-9|auto] [--binary FILE] \
                     [--json], and not {flag} {value}"
                ),
            }
        }
        if !losses.is_empty() {
            plan.settings.push(("LOSS", losses.join(" ")));
        }
        plan.settings.extend(counts);
        Ok(plan)
    }
}

const PARTS: &[&str] = &["pages", "films", "lines"];

const NEEDS: &[Needed] = &[
    program("Xtigervnc", "tigervnc-standalone-server", "tigervnc: an X server that is a VNC server"),
    program("xtigervncviewer", "tigervnc-viewer", "tigervnc: its viewer"),
    program("Xvfb", "xvfb", "tigervnc: the screens that viewers draw on"),
    program("xwininfo", "x11-utils", "tigervnc: where a viewer has its window"),
    program("ip", "iproute2", "tigervnc: TCP with one congestion control or another"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<TigerPlan> {
        TigerPlan::read(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn slips_are_errors() {
        for slip in [
            &["--flips"][..],
            &["--flips", "0"],
            &["--runs", "many"],
            &["--only", "pages,keys"],
            &["--loss", "1% 2%"],
            &["--quality", "10"],
            &["--quality", "good"],
            &["fast", "1"],
        ] {
            assert!(read(slip).is_err(), "{slip:?}");
        }
    }

    #[test]
    fn a_plan_has_what_is_told_and_the_usual_counts() {
        let plan =
            read(&["--loss", "none", "--loss", "2%", "--only", "films", "--runs", "5", "--quality", "auto"]);
        let settings =
            [("PARTS", "films"), ("QUALITY", "auto"), ("LOSS", "none 2%"), ("FLIPS", "60"), ("RUNS", "5")];
        let settings = settings.map(|(name, value)| (name, value.to_owned())).to_vec();
        assert_eq!(plan.expect("it is right"), TigerPlan { settings, binary: None, json: false });
    }
}
