//! `cargo xtask bytes`: what text on a desktop takes, beside what Tight takes for the same pixels.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use crate::run::{cargo, run};

/// Runs the test of crates/screen/tests/bytes, which prints the table.
pub(crate) fn command(args: &[String]) -> Result<()> {
    let plan = BytesPlan::read(args)?;
    let mut test = cargo();
    test.args(["test", "--locked", "--release", "-p", "quickset-screen", "--test", "bytes"])
        .args(["--", "--nocapture"])
        .env("QUICKSET_BYTES", plan.pages.to_string());
    if let Some(folder) = &plan.pictures {
        let folder = folder.canonicalize().with_context(|| format!("{} is not there", folder.display()))?;
        test.env("QUICKSET_BYTES_PICTURES", folder);
    }
    if plan.latest {
        test.env("QUICKSET_BYTES_ORDER", "latest");
    }
    if plan.old {
        test.env("QUICKSET_BYTES_OLD", "1");
    }
    run(&mut test)
}

#[derive(Debug, PartialEq, Eq)]
struct BytesPlan {
    pages: u32,
    /// Screens of others, as PPM.
    pictures: Option<PathBuf>,
    /// In the order latest, and for a client that takes no adaptive codes.
    latest: bool,
    old: bool,
}

impl BytesPlan {
    fn read(args: &[String]) -> Result<Self> {
        let mut plan = Self { pages: 10, pictures: None, latest: false, old: false };
        let mut words = args.iter();
        while let Some(flag) = words.next() {
            match (flag.as_str(), words.as_slice().first()) {
                ("--old", _) => plan.old = true,
                ("--order", Some(order)) if ["fenced", "latest"].contains(&order.as_str()) => {
                    plan.latest = order == "latest";
                    words.next();
                }
                ("--pages", Some(pages)) => {
                    plan.pages = pages.parse().context("--pages: write a number, 1 to 1000")?;
                    if !(1..=1000).contains(&plan.pages) {
                        bail!("--pages: write a number, 1 to 1000");
                    }
                    words.next();
                }
                ("--pictures", Some(folder)) => {
                    plan.pictures = Some(folder.into());
                    words.next();
                }
                (flag, _) => bail!(
                    "write bytes [--pages N] [--pictures FOLDER] [--order fenced|latest] [--old], and not {flag}"
                ),
            }
        }
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<BytesPlan> {
        BytesPlan::read(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_plan_is_what_is_written_and_slips_are_errors() {
        let usual = BytesPlan { pages: 10, pictures: None, latest: false, old: false };
        assert_eq!(read(&[]).expect("nothing need be said"), usual);
        let plan = read(&["--pages", "3", "--old", "--order", "latest", "--pictures", "some"]);
        let expected = BytesPlan { pages: 3, pictures: Some("some".into()), latest: true, old: true };
        assert_eq!(plan.expect("it is right"), expected);
        for slip in
            [&["--pages"][..], &["--pages", "0"], &["--pages", "many"], &["--order", "newest"], &["x"]]
        {
            assert!(read(slip).is_err(), "{slip:?}");
        }
    }
}
