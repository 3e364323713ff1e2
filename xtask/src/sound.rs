//! `cargo xtask sound`: sound between both desktop gateways across a link that loses packets: what comes in
//! time, and for how many more bytes.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::needs::{Needed, ensure, is_root};
use crate::run::{StepOutcome, cargo, root, run};
use crate::viewers::program;

/// Runs the test of crates/desktop/tests/sound with the command as it is shipped, or another one.
pub(crate) fn command(args: &[String]) -> Result<()> {
    let plan = SoundPlan::read(args)?;
    if let Some(missing) = missing() {
        bail!("{missing}");
    }
    ensure(NEEDS)?;
    let binary = if let Some(binary) = &plan.binary {
        binary.canonicalize().with_context(|| format!("{} is not there", binary.display()))?
    } else {
        run(cargo().args(["build", "--locked", "--release", "-p", "quickset-cli"]))?;
        root().join("target/release/quickset")
    };
    plan.run(&binary)
}

/// The step of `cargo xtask test`: a quarter of a minute, which is held to what does not depend on how busy
/// the machine is.
pub(crate) fn step() -> Result<StepOutcome> {
    if let Some(missing) = missing() {
        return Ok(StepOutcome::Skipped(missing));
    }
    if let Some(need) = NEEDS.iter().find(|need| !need.sign.is_there()) {
        return Ok(StepOutcome::Skipped(format!("there is no {} ({})", need.sign.name(), need.package)));
    }
    run(cargo().args(["build", "--locked", "-p", "quickset-cli"]))?;
    let plan = SoundPlan { seconds: 15, is_strict: false, ..SoundPlan::default() };
    plan.run(&root().join("target/debug/quickset")).map(|()| StepOutcome::Done)
}

#[derive(Debug, PartialEq, Eq)]
struct SoundPlan {
    seconds: u32,
    /// As `quickset link` takes it; `None`: that of the test.
    loss: Option<String>,
    binary: Option<PathBuf>,
    /// The machine is free enough to be held to 99.8 % in time.
    is_strict: bool,
}

impl Default for SoundPlan {
    fn default() -> Self {
        Self { seconds: 600, loss: None, binary: None, is_strict: true }
    }
}

impl SoundPlan {
    fn read(args: &[String]) -> Result<Self> {
        let mut plan = Self::default();
        let mut words = args.iter();
        while let Some(flag) = words.next() {
            if flag == "--tell" {
                plan.is_strict = false;
                continue;
            }
            let value = words.next().with_context(|| format!("{flag} needs a value"))?;
            match flag.as_str() {
                "--minutes" => match value.parse::<u32>() {
                    Ok(minutes) if (1..=60).contains(&minutes) => plan.seconds = minutes * 60,
                    _ => bail!("--minutes: write a number, 1 to 60"),
                },
                "--loss" if !value.is_empty() && !value.contains(char::is_whitespace) => {
                    plan.loss = Some(value.clone());
                    plan.is_strict = false;
                }
                "--binary" => plan.binary = Some(value.into()),
                _ => bail!(
                    "write sound [--minutes 10] [--loss 1%] [--tell] [--binary FILE], and not {flag} {value}"
                ),
            }
        }
        Ok(plan)
    }

    fn run(&self, binary: &Path) -> Result<()> {
        let mut test = cargo();
        test.args(["test", "--locked", "-p", "quickset-desktop", "--test", "sound", "--"])
            .args(["--ignored", "--nocapture", "--test-threads=1"])
            .env("QUICKSET_SOUND_BINARY", binary)
            .env("QUICKSET_SOUND_SECONDS", self.seconds.to_string());
        if let Some(loss) = &self.loss {
            test.env("QUICKSET_SOUND_LOSS", loss);
        }
        if !self.is_strict {
            return run(&mut test);
        }
        run(test.env("QUICKSET_SOUND_STRICT", "1"))?;
        // Whether it comes with the picture.
        run(cargo()
            .args(["test", "--locked", "-p", "quickset-desktop", "--test", "e2e", "--"])
            .args(["--ignored", "--nocapture", "--exact", LIPS])
            .env("QUICKSET_BIN", binary)
            .env("QUICKSET_SOUND_STRICT", "1"))
    }
}

/// What this machine has not, or we may not.
fn missing() -> Option<String> {
    let reason = "it needs Linux and root, for links that carry TCP, too";
    (!cfg!(target_os = "linux") || !is_root()).then(|| reason.into())
}

/// The test by its name.
const LIPS: &str = "lips::sound_and_picture_come_together_to_a_viewer";

const NEEDS: &[Needed] = &[
    program("Xtigervnc", "tigervnc-standalone-server", "sound: an X server that is a VNC server"),
    program("pulseaudio", "pulseaudio", "sound: a sound server"),
    program("parec", "pulseaudio-utils", "sound: what records and plays"),
    program("nft", "nftables", "sound: a firewall that drops UDP"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<SoundPlan> {
        SoundPlan::read(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn slips_are_errors() {
        for slip in [
            &["--minutes"][..],
            &["--minutes", "0"],
            &["--minutes", "long"],
            &["--loss", "1% 2%"],
            &["--loss"],
            &["loud", "1"],
        ] {
            assert!(read(slip).is_err(), "{slip:?}");
        }
    }

    #[test]
    fn ten_minutes_are_held_to_the_figures_unless_told() {
        let usual = read(&[]).expect("nothing need be said");
        assert_eq!((usual.seconds, usual.is_strict), (600, true));
        let plan = read(&["--minutes", "2", "--loss", "ge:1%,30%", "--binary", "a"]).expect("it is right");
        let loss = Some("ge:1%,30%".into());
        assert_eq!(plan, SoundPlan { seconds: 120, loss, binary: Some("a".into()), is_strict: false });
        assert!(!read(&["--tell"]).expect("it is right").is_strict);
    }
}
