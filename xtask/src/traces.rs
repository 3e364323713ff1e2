//! The traces of scenes in virtual time, held against what they were: `crates/h3/tests/traces`.

use anyhow::{Result, bail};

use crate::run::{StepOutcome, cargo, root, run};

pub(crate) fn command(args: &[String]) -> Result<()> {
    let asked = TraceCase::read(args)?;
    // The features of the workspace, with which `cargo test` builds the library, too.
    let mut test = cargo();
    test.args(["test", "--workspace", "--test", "traces", "--locked", "--", "--ignored", "--nocapture"]);
    test.env("QUICKSET_TRACES_ONLY", asked.names.join(" "));
    match asked.what {
        TraceWhat::Compare => {}
        TraceWhat::Accept => drop(test.env("QUICKSET_TRACES_ACCEPT", "1")),
        TraceWhat::Save(to) => drop(test.env("QUICKSET_TRACES_SAVE", root().join(to))),
        TraceWhat::Against(from) => drop(test.env("QUICKSET_TRACES_AGAINST", root().join(from))),
    }
    run(&mut test)
}

/// The step of `cargo xtask test`.
pub(crate) fn step() -> Result<StepOutcome> {
    command(&[]).map(|()| StepOutcome::Done)
}

#[derive(Debug, PartialEq, Eq)]
struct TraceCase {
    /// Parts of names; none: all.
    names: Vec<String>,
    what: TraceWhat,
}

#[derive(Debug, PartialEq, Eq)]
enum TraceWhat {
    /// With the hashes of the repository.
    Compare,
    Accept,
    Save(String),
    Against(String),
}

impl TraceCase {
    fn read(args: &[String]) -> Result<Self> {
        let mut asked = Self { names: Vec::new(), what: TraceWhat::Compare };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut folder = || match args.next() {
                Some(folder) => Ok(folder.clone()),
                None => bail!("{arg} needs a folder"),
            };
            let what = match arg.as_str() {
                "--accept" => TraceWhat::Accept,
                "--save" => TraceWhat::Save(folder()?),
                "--against" => TraceWhat::Against(folder()?),
                option if option.starts_with('-') => {
                    bail!("there is no {option}: [NAME…] [--accept | --save DIR | --against DIR]")
                }
                name => {
                    asked.names.push(name.to_owned());
                    continue;
                }
            };
            if asked.what != TraceWhat::Compare {
                bail!("only one of --accept, --save and --against at a time");
            }
            asked.what = what;
        }
        if asked.what == TraceWhat::Accept && !asked.names.is_empty() {
            bail!("--accept takes no names: all traces are written anew, so that the file is of one commit");
        }
        Ok(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &str) -> Result<TraceCase> {
        TraceCase::read(&words.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn names_and_one_option() {
        let all = asked("").expect("all are compared");
        assert_eq!((all.names.len(), all.what), (0, TraceWhat::Compare));
        let some = asked("loss --save old http").expect("names and a folder");
        assert_eq!(
            (some.names.join(" "), some.what),
            ("loss http".to_owned(), TraceWhat::Save("old".into()))
        );
        for wrong in ["--save", "--against", "--explain x", "--accept --save old", "loss --accept"] {
            assert!(asked(wrong).is_err(), "{wrong}");
        }
    }
}
