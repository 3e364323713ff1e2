//! `cargo xtask flips`: page flips over both desktop gateways and a link that loses packets, timed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::run::{cargo, output, root, run};

/// Runs the test of crates/desktop/tests/flips with the command as it is shipped, or another one to compare
/// with.
pub(crate) fn command(args: &[String]) -> Result<()> {
    let plan = FlipsPlan::read(args)?;
    let binary = if let Some(binary) = &plan.binary {
        binary.canonicalize().with_context(|| format!("{} is not there", binary.display()))?
    } else {
        plan.run(cargo().args(["build", "--locked", "--release", "-p", "quickset-cli"]))?;
        root().join("target/release/quickset")
    };
    plan.measure(&binary)
}

#[derive(Debug, PartialEq, Eq)]
struct FlipsPlan {
    flips: u32,
    /// The words of a link, as `quickset link` takes them; `None`: that of the test.
    link: Option<String>,
    /// As `quickset link` takes them.
    losses: Vec<String>,
    orders: String,
    binary: Option<PathBuf>,
    /// The test, by its name: page flips, or as many lines or pictures as there would be flips.
    test: &'static str,
    /// Standard output is one JSON document.
    json: bool,
}

impl FlipsPlan {
    fn read(args: &[String]) -> Result<Self> {
        let mut plan = Self {
            flips: 500,
            link: None,
            losses: Vec::new(),
            orders: "fenced,latest".into(),
            binary: None,
            test: FLIPS,
            json: false,
        };
        let mut words = args.iter();
        while let Some(flag) = words.next() {
            match flag.as_str() {
                "--json" => plan.json = true,
                "--scroll" => plan.test = SCROLL,
                "--video" => plan.test = VIDEO,
                _ => plan.value(flag, words.next())?,
            }
        }
        if plan.test != FLIPS && plan.json {
            bail!("--scroll and --video print their rows for people, and have no --json");
        }
        if plan.test == VIDEO {
            plan.link.get_or_insert_with(|| THIN.into());
        }
        if plan.losses.is_empty() {
            plan.losses = vec!["none".into(), "1%".into()];
        }
        Ok(plan)
    }

    /// A flag that has a value.
    fn value(&mut self, flag: &str, value: Option<&String>) -> Result<()> {
        let Some(value) = value else { bail!("{flag} needs a value") };
        match flag {
            "--flips" => match value.parse() {
                Ok(flips) if (1..=10_000).contains(&flips) => self.flips = flips,
                _ => bail!("--flips: write a number, 1 to 10000"),
            },
            "--link" => self.link = Some(value.clone()),
            "--loss" if !value.is_empty() && !value.contains(char::is_whitespace) => {
                self.losses.push(value.clone());
            }
            "--order" => {
                if let Some(order) = value.split(',').find(|order| !ORDERS.contains(order)) {
                    bail!("--order: {order:?} is none of {}", ORDERS.join(", "));
                }
                self.orders.clone_from(value);
            }
            "--binary" => self.binary = Some(value.into()),
            _ => bail!(
                "write flips [--flips N] [--scroll | --video] [--link WORDS] [--loss SHARE]… [--order ORDER,…] [--binary FILE] [--json], and not {flag} {value}"
            ),
        }
        Ok(())
    }

    fn measure(&self, binary: &Path) -> Result<()> {
        let rows = root().join("target/flips.json");
        let mut test = cargo();
        test.args(["test", "--locked", "--release", "-p", "quickset-desktop", "--test", "flips", "--"])
            .args(["--ignored", "--nocapture", "--exact", self.test])
            .env("QUICKSET_FLIPS_BINARY", binary)
            .env("QUICKSET_FLIPS", self.flips.to_string())
            .env("QUICKSET_FLIPS_LOSS", self.losses.join(" "))
            .env("QUICKSET_FLIPS_ORDER", &self.orders)
            .env("QUICKSET_FLIPS_JSON", &rows);
        if let Some(link) = &self.link {
            test.env("QUICKSET_FLIPS_LINK", link);
        }
        self.run(&mut test)?;
        if self.json {
            print!("{}", std::fs::read_to_string(&rows)?);
        }
        Ok(())
    }

    /// What programs print is for people, and no part of a JSON document.
    fn run(&self, command: &mut Command) -> Result<()> {
        if self.json { output(command).map(drop) } else { run(command) }
    }
}

const FLIPS: &str = "pages_are_there_soon";
const SCROLL: &str = "lines_come_one_after_the_other";
const VIDEO: &str = "films_are_seen_soon";
/// A link on which a film is not as good as it could be.
const THIN: &str = "rate=5mbit delay=30ms queue=64kB mtu=1500";
const ORDERS: &[&str] = &["ordered", "fenced", "latest"];

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<FlipsPlan> {
        FlipsPlan::read(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn slips_are_errors() {
        for slip in [
            &["--flips"][..],
            &["--flips", "0"],
            &["--flips", "many"],
            &["--order", "fenced,newest"],
            &["--loss", "1% 2%"],
            &["fast", "1"],
            &["--scroll", "--json"],
            &["--video", "--json"],
        ] {
            assert!(read(slip).is_err(), "{slip:?}");
        }
    }

    #[test]
    fn a_plan_has_two_losses_and_orders_unless_told() {
        let usual = read(&[]).expect("nothing need be said");
        assert_eq!((usual.losses, usual.orders), (vec!["none".into(), "1%".into()], "fenced,latest".into()));
        let plan = read(&["--json", "--loss", "ge:1%,30%", "--order", "latest", "--flips", "7"]);
        let (losses, orders) = (vec!["ge:1%,30%".to_owned()], "latest".to_owned());
        assert_eq!(
            plan.expect("it is right"),
            FlipsPlan { flips: 7, link: None, losses, orders, binary: None, test: FLIPS, json: true }
        );
    }
}
