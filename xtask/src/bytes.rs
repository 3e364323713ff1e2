//! `cargo xtask bytes`: what text on a desktop takes, beside what Tight takes for the same pixels.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::needs::{self, Needed, Sign};
use crate::run::{cargo, output, root, run};

const NEEDS: &[Needed] = &[Needed {
    sign: Sign::Program("valgrind"),
    package: "valgrind",
    why: "bytes --instructions: what callgrind counts",
}];

/// As crates/screen/tests/bytes names them.
const SCENES: &[&str] =
    &["pages, terminal", "pages, browser", "pages, dense text", "scrolling", "typing", "dragging"];

/// Runs the test of crates/screen/tests/bytes, which prints the table.
pub(crate) fn command(args: &[String]) -> Result<()> {
    let plan = BytesPlan::read(args)?;
    if plan.instructions {
        return count_all(&plan);
    }
    let mut test = cargo();
    test.args(["test", "--locked", "--release", "-p", "quickset-screen", "--test", "bytes"])
        .args(["--", "--nocapture"]);
    run(plan.tell(&mut test)?)
}

/// Counts what it takes to encode and to decode an update of each scene, and prints it.
fn count_all(plan: &BytesPlan) -> Result<()> {
    needs::ensure(NEEDS)?;
    let text = output(
        cargo()
            .current_dir(root())
            .args(["test", "--locked", "--release", "-p", "quickset-screen", "--test", "bytes", "--no-run"])
            .args(["--message-format", "json-render-diagnostics"]),
    )?;
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut built = messages.filter(|message| message["target"]["name"] == "bytes");
    let program = built.find_map(|message| message["executable"].as_str().map(PathBuf::from));
    let program = program.context("cargo built no test to count")?;
    println!("{:<18} {:>12} {:>12}", "instructions", "to encode", "to decode");
    let scenes = SCENES.iter().chain(plan.pictures.as_ref().map(|_| &"pictures"));
    for scene in scenes {
        let [encode, decode] = ["*counted_encode*", "*counted_decode*"].map(|function| {
            let counted = plan.count(&program, scene, function);
            counted.with_context(|| format!("{scene}: cannot count {function}"))
        });
        println!("{scene:<18} {:>12} {:>12}", encode?, decode?);
    }
    Ok(())
}

#[derive(Debug, Default, PartialEq, Eq)]
struct BytesPlan {
    pages: u32,
    /// Screens of others, as PPM.
    pictures: Option<PathBuf>,
    /// Photographs, as PPM.
    photographs: Option<PathBuf>,
    /// In the order latest, and for a client that takes no adaptive codes.
    latest: bool,
    old: bool,
    /// Counts instructions, and not bytes.
    instructions: bool,
}

impl BytesPlan {
    /// Tells the test what is planned.
    fn tell<'a>(&self, test: &'a mut Command) -> Result<&'a mut Command> {
        test.env("QUICKSET_BYTES", self.pages.to_string());
        for (name, folder) in [("PICTURES", &self.pictures), ("PHOTOGRAPHS", &self.photographs)] {
            let Some(folder) = folder else { continue };
            let folder =
                folder.canonicalize().with_context(|| format!("{} is not there", folder.display()))?;
            test.env(format!("QUICKSET_BYTES_{name}"), folder);
        }
        if self.latest {
            test.env("QUICKSET_BYTES_ORDER", "latest");
        }
        if self.old {
            test.env("QUICKSET_BYTES_OLD", "1");
        }
        Ok(test)
    }

    /// Instructions of a function for each update of a scene.
    fn count(&self, program: &Path, scene: &str, function: &str) -> Result<u64> {
        let mut valgrind = Command::new("valgrind");
        valgrind
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(format!("--toggle-collect={function}"))
            .arg(program)
            .arg("--nocapture")
            .env("QUICKSET_BYTES_SCENE", scene);
        let out = self.tell(&mut valgrind)?.output().context("cannot start valgrind")?;
        let (said, told) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        if !out.status.success() {
            bail!("it failed under valgrind ({}):\n{said}\n{told}", out.status);
        }
        let updates = said.lines().find_map(|line| line.strip_prefix(scene)?.split_whitespace().next());
        let updates = updates.and_then(|updates| updates.parse::<u64>().ok()).filter(|updates| *updates > 0);
        let collected =
            told.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse::<u64>().ok());
        let (updates, collected) = updates.zip(collected).context("it does not say how much was done")?;
        Ok(collected / updates)
    }

    fn read(args: &[String]) -> Result<Self> {
        let mut plan = Self { pages: 10, ..Self::default() };
        let mut words = args.iter();
        while let Some(flag) = words.next() {
            match (flag.as_str(), words.as_slice().first()) {
                ("--old", _) => plan.old = true,
                ("--instructions", _) => plan.instructions = true,
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
                ("--photographs", Some(folder)) => {
                    plan.photographs = Some(folder.into());
                    words.next();
                }
                (flag, _) => bail!(
                    "write bytes [--pages N] [--pictures FOLDER] [--photographs FOLDER] [--order fenced|latest] \
                     [--old] [--instructions], and not {flag}"
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
        let usual = BytesPlan { pages: 10, ..BytesPlan::default() };
        assert_eq!(read(&[]).expect("nothing need be said"), usual);
        let words = "--pages 3 --old --order latest --pictures some --photographs more --instructions";
        let plan = read(&words.split(' ').collect::<Vec<_>>());
        let (pictures, photographs) = (Some("some".into()), Some("more".into()));
        let expected =
            BytesPlan { pages: 3, pictures, photographs, latest: true, old: true, instructions: true };
        assert_eq!(plan.expect("it is right"), expected);
        for slip in
            [&["--pages"][..], &["--pages", "0"], &["--pages", "many"], &["--order", "newest"], &["x"]]
        {
            assert!(read(slip).is_err(), "{slip:?}");
        }
    }
}
