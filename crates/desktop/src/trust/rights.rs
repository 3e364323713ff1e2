use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::time::SystemTime;

/// What a device may do that has an authorised key or an invitation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceRights {
    /// It may look, and nothing else.
    pub view_only: bool,
    /// The desktop that it may see; `None`: each.
    pub desktop: Option<DesktopLabel>,
    /// When all that ends; `None`: when somebody takes it back.
    pub until: Option<SystemTime>,
}

/// How one of several desktops of a server is called: letters, digits, `.`, `_` and `-`, at most 64 of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DesktopLabel(String);

/// What was given does not name a desktop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name of a desktop has 1 to 64 letters, digits, dots, underscores or hyphens")]
pub struct ParseLabelError;

impl DeviceRights {
    /// Whether they have ended by then.
    pub fn are_over(&self, now: SystemTime) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// Reads the words that stand for rights off the beginning of a line; what is left is for people.
    ///
    /// # Errors
    /// The word that begins like a right and is none: who wrote it wanted to take something away.
    pub(super) fn read(line: &str) -> Result<(Self, &str), String> {
        let (mut rights, mut rest) = (Self::default(), line.trim());
        loop {
            let (word, behind) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            let wrong = |what: &str| format!("`{word}`: {what}");
            if word == VIEW_ONLY {
                rights.view_only = true;
            } else if let Some(name) = word.strip_prefix(DESKTOP) {
                rights.desktop =
                    Some(name.parse().map_err(|error: ParseLabelError| wrong(&error.to_string()))?);
            } else if let Some(time) = word.strip_prefix(UNTIL) {
                rights.until = Some(read_time(time).ok_or_else(|| wrong(NO_TIME))?);
            } else {
                return Ok((rights, rest));
            }
            rest = behind.trim_start();
        }
    }
}

/// As lines of files have them, each with a blank behind it.
impl fmt::Display for DeviceRights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.view_only {
            write!(f, "{VIEW_ONLY} ")?;
        }
        if let Some(name) = &self.desktop {
            write!(f, "{DESKTOP}{name} ")?;
        }
        if let Some(until) = self.until {
            write!(f, "{UNTIL}{} ", time_text(until))?;
        }
        Ok(())
    }
}

/// A time to the second, as RFC 3339 writes it, in UTC.
pub fn time_text(time: SystemTime) -> String {
    let mut text = String::new();
    // Of years beyond 9999 there is no text; nothing lasts that long.
    match write!(text, "{}", humantime::format_rfc3339_seconds(time)) {
        Ok(()) => text,
        Err(_) => "9999-12-31T23:59:59Z".into(),
    }
}

pub(super) fn read_time(text: &str) -> Option<SystemTime> {
    humantime::parse_rfc3339(text).ok()
}

/// What is left of a text that people wrote once nothing in it can be taken for something of the file.
pub(super) fn comment(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() && *c != '#').take(100).collect()
}

impl DesktopLabel {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for DesktopLabel {
    type Err = ParseLabelError;

    fn from_str(text: &str) -> Result<Self, ParseLabelError> {
        let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if (1..=LONGEST_NAME).contains(&text.len()) && text.chars().all(is_fine) {
            Ok(Self(text.to_owned()))
        } else {
            Err(ParseLabelError)
        }
    }
}

impl fmt::Display for DesktopLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const VIEW_ONLY: &str = "view-only";
const DESKTOP: &str = "desktop=";
const UNTIL: &str = "until=";
const NO_TIME: &str = "a time is written like until=2027-01-31T18:00:00Z";
const LONGEST_NAME: usize = 64;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn rights_are_read_as_they_are_written() {
        // The seconds of 2027-01-31T18:00:00Z, by `date --utc --date=... +%s`.
        let until = SystemTime::UNIX_EPOCH + Duration::from_secs(1_801_418_400);
        let all =
            DeviceRights { view_only: true, desktop: Some("work".parse().unwrap()), until: Some(until) };
        let line = "view-only desktop=work until=2027-01-31T18:00:00Z ";
        assert_eq!(all.to_string(), line);
        assert_eq!(DeviceRights::read(&format!("{line} a  phone")), Ok((all.clone(), "a  phone")));
        assert_eq!(DeviceRights::read(line), Ok((all.clone(), "")));
        let none = DeviceRights::default();
        assert_eq!((none.to_string().as_str(), DeviceRights::read("")), ("", Ok((none.clone(), ""))));
        // Words of people are theirs.
        assert_eq!(DeviceRights::read("a view-only until=x"), Ok((none, "a view-only until=x")));
        assert!(all.are_over(until) && !all.are_over(until - Duration::from_secs(1)));
    }

    #[test]
    fn a_right_that_cannot_be_read_gives_none() {
        for wrong in ["until=tomorrow", "view-only until=", "desktop=a/b phone", "desktop="] {
            assert!(DeviceRights::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_are_words() {
        for good in ["a", "Work-2.old_one", &"x".repeat(64)] {
            assert_eq!(good.parse::<DesktopLabel>().unwrap().as_str(), good);
        }
        for bad in ["", "two words", "ä", "a=b", "a/b", &"x".repeat(65)] {
            assert_eq!(bad.parse::<DesktopLabel>(), Err(ParseLabelError), "{bad}");
        }
    }
}
