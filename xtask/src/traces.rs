//! The traces of scenes in virtual time, held against what they were: `crates/h3/tests/traces`.

use anyhow::{Result, bail};

use crate::run::{Outcome, cargo, root, run};

pub(crate) fn command(args: &[String]) -> Result<()> {
    let asked = Asked::read(args)?;
    // The features of the workspace, with which `cargo test` builds the library, too.
    let mut test = cargo();
    test.args(["test", "--workspace", "--test", "traces", "--locked", "--", "--ignored", "--nocapture"]);
    test.env("QUICKSET_TRACES_ONLY", asked.names.join(" "));
    match asked.what {
        What::Compare => {}
        What::Accept => drop(test.env("QUICKSET_TRACES_ACCEPT", "1")),
        What::Save(to) => drop(test.env("QUICKSET_TRACES_SAVE", root().join(to))),
        What::Against(from) => drop(test.env("QUICKSET_TRACES_AGAINST", root().join(from))),
    }
    run(&mut test)
}

/// The step of `cargo xtask test`.
pub(crate) fn step() -> Result<Outcome> {
    command(&[]).map(|()| Outcome::Done)
}

#[derive(Debug, PartialEq, Eq)]
struct Asked {
    /// Parts of names; none: all.
    names: Vec<String>,
    what: What,
}

#[derive(Debug, PartialEq, Eq)]
enum What {
    /// With the hashes of the repository.
    Compare,
    Accept,
    Save(String),
    Against(String),
}

impl Asked {
    fn read(args: &[String]) -> Result<Self> {
        let mut asked = Self { names: Vec::new(), what: What::Compare };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut folder = || match args.next() {
                Some(folder) => Ok(folder.clone()),
                None => bail!("{arg} needs a folder"),
            };
            let what = match arg.as_str() {
                "--accept" => What::Accept,
                "--save" => What::Save(folder()?),
                "--against" => What::Against(folder()?),
                option if option.starts_with('-') => {
                    bail!("there is no {option}: [NAME…] [--accept | --save DIR | --against DIR]")
                }
                name => {
                    asked.names.push(name.to_owned());
                    continue;
                }
            };
            if asked.what != What::Compare {
                bail!("only one of --accept, --save and --against at a time");
            }
            asked.what = what;
        }
        if asked.what == What::Accept && !asked.names.is_empty() {
            bail!("--accept takes no names: all traces are written anew, so that the file is of one commit");
        }
        Ok(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &str) -> Result<Asked> {
        Asked::read(&words.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn names_and_one_option() {
        let all = asked("").expect("all are compared");
        assert_eq!((all.names.len(), all.what), (0, What::Compare));
        let some = asked("loss --save old http").expect("names and a folder");
        assert_eq!((some.names.join(" "), some.what), ("loss http".to_owned(), What::Save("old".into())));
        for wrong in ["--save", "--against", "--explain x", "--accept --save old", "loss --accept"] {
            assert!(asked(wrong).is_err(), "{wrong}");
        }
    }
}
