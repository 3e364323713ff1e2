use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::str::FromStr;

use tokio::process::Command;

/// A program that writes what it records to its standard output, or plays what it reads from its standard
/// input: samples of 16 bits with a sign, the lower byte first, of two channels in turns, 48,000 a second of
/// each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoundCommand {
    program: PathBuf,
    arguments: Vec<OsString>,
}

/// There is no program in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write a program, and its arguments behind it with blanks between them")]
pub struct ParseCommandError;

impl SoundCommand {
    /// This program with these arguments, which no shell reads.
    pub fn new<A: Into<OsString>>(
        program: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        Self { program: program.into(), arguments: arguments.into_iter().map(Into::into).collect() }
    }

    /// What records all that PulseAudio or PipeWire play, by the former's `parec`.
    pub fn recorder() -> Self {
        Self::new("parec", FORMAT.iter().chain(&["--device=@DEFAULT_MONITOR@", "--latency-msec=20"]))
    }

    /// What plays by one of the two.
    pub fn player() -> Self {
        Self::new("pacat", FORMAT.iter().chain(&["--playback", "--latency-msec=40"]))
    }

    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).kill_on_drop(true);
        // What somebody types to end us is not for it: it ends with us.
        #[cfg(unix)]
        command.process_group(0);
        command
    }

    /// For a person: why it cannot be run, and what to do.
    pub(super) fn cannot_run(&self, error: &std::io::Error) -> String {
        let program = self.program.display();
        if error.kind() != std::io::ErrorKind::NotFound {
            return format!("`{program}` cannot be run: {error}");
        }
        let advice = match self.program.to_str() {
            Some("parec") => "install it (Debian: pulseaudio-utils), or name another with --sound-source",
            Some("pacat") => "install it (Debian: pulseaudio-utils), or name another with --sound-sink",
            _ => "its name may be wrong",
        };
        format!("there is no program `{program}`: {advice}")
    }

    /// For a person: that it has ended, and what it said last.
    pub(super) fn has_ended(&self, status: Option<ExitStatus>, words: &str) -> String {
        let program = self.program.display();
        let how = status.map_or_else(String::new, |status| format!(" ({status})"));
        let said = if words.is_empty() { String::new() } else { format!(" and said \"{words}\"") };
        format!("`{program}` has ended{how}{said}: is there a sound server? `pactl info` says")
    }
}

impl FromStr for SoundCommand {
    type Err = ParseCommandError;

    /// A program and its arguments, with blanks between them; none of them may have one.
    fn from_str(text: &str) -> Result<Self, ParseCommandError> {
        let mut words = text.split_whitespace();
        let program = words.next().ok_or(ParseCommandError)?;
        Ok(Self::new(program, words))
    }
}

impl fmt::Display for SoundCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.program.display())?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {}", Path::new(argument).display()))
    }
}

const FORMAT: &[&str] =
    &["--format=s16le", "--rate=48000", "--channels=2", "--client-name=quickset", "--raw"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_words() {
        let command: SoundCommand = " arecord  -f cd ".parse().unwrap();
        assert_eq!(command, SoundCommand::new("arecord", ["-f", "cd"]));
        assert_eq!(command.to_string(), "arecord -f cd");
        assert_eq!(" ".parse::<SoundCommand>(), Err(ParseCommandError));
    }

    #[test]
    fn a_program_that_is_missing_is_told_with_what_to_do() {
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        let said = SoundCommand::recorder().cannot_run(&missing);
        assert!(
            said.contains("`parec`") && said.contains("install") && said.contains("--sound-source"),
            "{said}"
        );
        let said = SoundCommand::player().cannot_run(&missing);
        assert!(said.contains("`pacat`") && said.contains("--sound-sink"), "{said}");
    }
}
