//! `--config FILE`: options in a file, in TOML, as if they stood on the command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, CommandFactory, FromArgMatches};
use toml::{Table, Value};

use crate::say::{named, plain};

/// The arguments of this program, with those of the file that they name as --config.
///
/// # Errors
/// When the file cannot be read, or says what is no option. What is wrong with the command line, or with the
/// values of options, ends the program as clap does.
pub(crate) fn parse<C: CommandFactory + FromArgMatches>() -> anyhow::Result<C> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let read = |path: &Path| {
        std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", named(path)))
    };
    match with_file::<C>(&words, read)? {
        Ok(command) => Ok(command),
        Err(error) => error.exit(),
    }
}

fn with_file<C: CommandFactory + FromArgMatches>(
    words: &[OsString],
    read: impl FnOnce(&Path) -> anyhow::Result<String>,
) -> anyhow::Result<Result<C, clap::Error>> {
    let command = C::command();
    let matches = match command.clone().try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(error) => return Ok(Err(error)),
    };
    let (command, own) = innermost(&command, &matches);
    let Ok(Some(path)) = own.try_get_one::<PathBuf>(CONFIG) else {
        return Ok(C::from_arg_matches(&matches));
    };
    let more = added(command, own, &read(path)?).with_context(|| named(path))?;
    let words = words.iter().cloned().chain(more.into_iter().map(OsString::from));
    Ok(C::command().try_get_matches_from(words).and_then(|matches| C::from_arg_matches(&matches)))
}

/// The subcommand that was called, and what it was given.
fn innermost<'a>(
    mut command: &'a clap::Command,
    mut matches: &'a ArgMatches,
) -> (&'a clap::Command, &'a ArgMatches) {
    while let Some((name, inner)) = matches.subcommand() {
        let Some(sub) = command.find_subcommand(name) else { break };
        (command, matches) = (sub, inner);
    }
    (command, matches)
}

/// What a file adds to a command line.
fn added(command: &clap::Command, given: &ArgMatches, text: &str) -> anyhow::Result<Vec<String>> {
    let table: Table = text.parse().map_err(|error: toml::de::Error| anyhow::anyhow!("{error}"))?;
    let mut words = Vec::new();
    for (name, value) in table {
        let option = command.get_arguments().find(|arg| {
            arg.get_long() == Some(&name) && !matches!(arg.get_id().as_str(), CONFIG | "help" | "version")
        });
        let Some(option) = option else {
            bail!("there is no option {}; `quickset {} --help` lists them", plain(&name), path_of(command));
        };
        if given.value_source(option.get_id().as_str()) == Some(ValueSource::CommandLine) {
            continue;
        }
        let is_switch = matches!(option.get_action(), ArgAction::SetTrue);
        let repeats = matches!(option.get_action(), ArgAction::Append);
        match value {
            Value::Boolean(true) if is_switch => words.push(format!("--{name}")),
            Value::Boolean(false) if is_switch => {}
            _ if is_switch => bail!("{name} is true or false"),
            Value::Array(values) if repeats => {
                for value in values {
                    words.push(format!("--{name}={}", plain_value(&name, &value)?));
                }
            }
            value => words.push(format!("--{name}={}", plain_value(&name, &value)?)),
        }
    }
    Ok(words)
}

fn plain_value(name: &str, value: &Value) -> anyhow::Result<String> {
    Ok(match value {
        Value::String(text) => {
            ensure!(!text.contains('\0'), "{name} has a character that no argument can have");
            text.clone()
        }
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(_) | Value::Datetime(_) | Value::Array(_) | Value::Table(_) => {
            bail!("{name} is a text or a number")
        }
    })
}

/// How a subcommand is called, behind the name of the program.
fn path_of(command: &clap::Command) -> String {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    name.split_once(' ').map_or(name, |(_, rest)| rest).to_owned()
}

const CONFIG: &str = "config";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(subcommand)]
        subcommand: Sub,
    }

    #[derive(Debug, clap::Subcommand)]
    enum Sub {
        Serve {
            #[arg(long)]
            config: Option<PathBuf>,
            #[arg(long, required_unless_present = "config")]
            vnc: Vec<String>,
            #[arg(long, default_value_t = 4433, value_parser = clap::value_parser!(u16).range(1..))]
            port: u16,
            #[arg(long)]
            web: bool,
            #[arg(long, requires = "web")]
            host: Option<String>,
        },
    }

    fn parsed(words: &str, file: &str) -> Result<String, String> {
        let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        let read = |path: &Path| {
            assert_eq!(path, Path::new("f.toml"));
            Ok(file.to_owned())
        };
        match with_file::<Program>(&words, read) {
            Ok(Ok(Program { subcommand: Sub::Serve { vnc, port, web, host, .. } })) => {
                Ok(format!("{vnc:?} {port} {web} {host:?}"))
            }
            Ok(Err(error)) => Err(error.to_string()),
            Err(error) => Err(format!("{error:#}")),
        }
    }

    #[test]
    fn a_file_says_what_the_command_line_does_not() {
        let file = "vnc = ['a=h:1', 'b=h:2'] # two\nport = 5\nweb = true\nhost = 'x'\n";
        let all = "p serve --config f.toml";
        assert_eq!(parsed(all, file).unwrap(), r#"["a=h:1", "b=h:2"] 5 true Some("x")"#);
        assert_eq!(
            parsed("p serve --vnc c --port 6 --config=f.toml", file).unwrap(),
            r#"["c"] 6 true Some("x")"#
        );
        assert_eq!(parsed(all, "vnc = 'h'\nweb = false").unwrap(), r#"["h"] 4433 false None"#);
        assert_eq!(parsed("p serve --vnc h", "").unwrap(), r#"["h"] 4433 false None"#);
        assert_eq!(parsed(all, "vnc = ['--web']").unwrap(), r#"["--web"] 4433 false None"#);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        let all = "p serve --config f.toml";
        for (file, told) in [
            ("vmc = 'h'", "no option vmc; `quickset"),
            ("config = 'other'", "no option config"),
            ("help = true", "no option help"),
            ("vnc = ", "line 1"),
            ("web = 'yes'", "web is true or false"),
            ("port = true", "port is a text or a number"),
            ("port = [1, 2]", "port is a text or a number"),
            ("[vnc]\na = 'h'", "vnc is a text or a number"),
            ("vnc = 'h'\nport = 0", "1..=65535"),
            ("vnc = 'h'\nhost = 'x'", "--web"),
        ] {
            let said = parsed(all, file).unwrap_err();
            assert!(said.contains(told), "{file:?}: {said}");
        }
        let said = parsed(all, "vnc = [\"a\\u0000b\"]").unwrap_err();
        assert!(said.contains("no argument can have"), "{said}");
    }
}
