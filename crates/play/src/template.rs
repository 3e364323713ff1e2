use thiserror::Error;

use crate::url::Url;

/// The address of each segment of a representation, in one line with places for numbers (ISO/IEC 23009-1
/// §5.3.9.4.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<TemplatePart>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    /// With at least so many digits.
    Number(usize),
    Time(usize),
}

/// Why some text is no template.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TemplateError {
    /// A dollar sign without its other one.
    #[error("a $ in {0:?} is not closed")]
    Open(String),
    /// What stands between dollar signs means nothing, or nothing here.
    #[error(
        "${0}$ is not known; $RepresentationID$, $Bandwidth$, $Number$ and $Time$ are, the last three with %0…d"
    )]
    Unknown(String),
    /// As many digits no address has.
    #[error("a number of {0} digits is too wide")]
    Width(usize),
    /// Segments would be on a host each.
    #[error("the host in {0:?} depends on the segment")]
    Host(String),
    /// No address is as long as this would be.
    #[error("it makes addresses of more than {} bytes", Url::MAX)]
    TooLong,
}

impl Template {
    /// Reads `text` for a representation of this id and bandwidth.
    pub(crate) fn read(text: &str, id: &str, bandwidth: u64) -> Result<Self, TemplateError> {
        let (mut parts, mut literal, mut length) = (Vec::new(), String::new(), 0);
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            let (name, after) = after.split_once('$').ok_or_else(|| TemplateError::Open(shown(text)))?;
            literal.push_str(before);
            match TemplateName::read(name)? {
                TemplateName::Dollar => literal.push('$'),
                TemplateName::Id => literal.push_str(id),
                TemplateName::Bandwidth(width) => literal.push_str(&padded(bandwidth, width)),
                TemplateName::Number(width) => {
                    length += width.max(DIGITS);
                    parts.extend([
                        TemplatePart::Text(std::mem::take(&mut literal)),
                        TemplatePart::Number(width),
                    ]);
                }
                TemplateName::Time(width) => {
                    length += width.max(DIGITS);
                    parts.extend([
                        TemplatePart::Text(std::mem::take(&mut literal)),
                        TemplatePart::Time(width),
                    ]);
                }
            }
            length += before.len() + id.len().min(literal.len());
            if length > Url::MAX || literal.len() > Url::MAX {
                return Err(TemplateError::TooLong);
            }
            rest = after;
        }
        literal.push_str(rest);
        if length + rest.len() > Url::MAX || literal.len() > Url::MAX {
            return Err(TemplateError::TooLong);
        }
        if let Some(TemplatePart::Text(first)) = parts.first() {
            // All that is between the slashes of the host and the next one is the host.
            if first.split_once("//").is_some_and(|(_, after)| !after.contains('/')) {
                return Err(TemplateError::Host(shown(text)));
            }
        }
        parts.push(TemplatePart::Text(literal));
        Ok(Self(parts))
    }

    /// Whether the address depends on the time of the segment, or on its number.
    pub(crate) fn varies(&self) -> bool {
        self.0.len() > 1
    }

    /// The address of the segment of this number that begins at `time`.
    pub(crate) fn expand(&self, number: u64, time: u64) -> String {
        let part = |part: &TemplatePart| match part {
            TemplatePart::Text(text) => text.clone(),
            TemplatePart::Number(width) => padded(number, *width),
            TemplatePart::Time(width) => padded(time, *width),
        };
        self.0.iter().map(part).collect()
    }
}

enum TemplateName {
    Dollar,
    Id,
    Bandwidth(usize),
    Number(usize),
    Time(usize),
}

impl TemplateName {
    fn read(text: &str) -> Result<Self, TemplateError> {
        let unknown = || TemplateError::Unknown(shown(text));
        let (name, format) = text.split_once('%').map_or((text, None), |(name, format)| (name, Some(format)));
        let width = match format {
            None => 1,
            // %0[width]d and nothing else.
            Some(format) => {
                let digits =
                    format.strip_prefix('0').and_then(|f| f.strip_suffix('d')).ok_or_else(unknown)?;
                if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                    return Err(unknown());
                }
                digits.parse().unwrap_or(usize::MAX)
            }
        };
        if width > WIDEST {
            return Err(TemplateError::Width(width));
        }
        match (name, format) {
            ("", None) => Ok(Self::Dollar),
            ("RepresentationID", None) => Ok(Self::Id),
            ("Bandwidth", _) => Ok(Self::Bandwidth(width)),
            ("Number", _) => Ok(Self::Number(width)),
            ("Time", _) => Ok(Self::Time(width)),
            _ => Err(unknown()),
        }
    }
}

fn padded(number: u64, width: usize) -> String {
    format!("{number:0width$}")
}

fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Digits of the largest number.
const DIGITS: usize = 20;
const WIDEST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(text: &str, number: u64, time: u64) -> Result<String, TemplateError> {
        Template::read(text, "v1", 5_000_000).map(|template| template.expand(number, time))
    }

    #[test]
    fn each_name_is_filled_in() {
        for (text, expected) in [
            ("a.mp4", "a.mp4"),
            ("$RepresentationID$/$Number$.m4s", "v1/7.m4s"),
            ("$Number%05d$", "00007"),
            ("$Number%01d$", "7"),
            ("$Bandwidth$/$Time$", "5000000/180000"),
            ("$Bandwidth%09d$-$Time%010d$.m4s", "005000000-0000180000.m4s"),
            ("$$$Number$$$", "$7$"),
            ("$Number$$Time$", "7180000"),
        ] {
            assert_eq!(expand(text, 7, 180_000).as_deref(), Ok(expected), "{text}");
        }
        assert_eq!(expand("$Number%03d$", u64::MAX, 0).as_deref(), Ok("18446744073709551615"));
    }

    #[test]
    fn what_means_nothing_is_an_error() {
        for text in [
            "$Number",
            "a$",
            "$number$",
            "$SubNumber$",
            "$Number%d$",
            "$Number%5d$",
            "$Number%0xd$",
            "$Time%05x$",
            "$RepresentationID%05d$",
        ] {
            let error = expand(text, 1, 1).expect_err(text);
            assert!(matches!(error, TemplateError::Open(_) | TemplateError::Unknown(_)), "{text}: {error}");
        }
        assert_eq!(expand("$Number%0999999999999999999999d$", 1, 1), Err(TemplateError::Width(usize::MAX)));
        assert_eq!(expand("$Number%065d$", 1, 1), Err(TemplateError::Width(65)));
    }

    #[test]
    fn an_address_has_a_bound_and_one_host() {
        let id = "i".repeat(3000);
        let read = |text: &str| Template::read(text, &id, 1);
        assert!(read("$RepresentationID$$RepresentationID$").is_ok());
        assert_eq!(read(&"$RepresentationID$".repeat(3)), Err(TemplateError::TooLong));
        assert_eq!(read(&"$RepresentationID$$Number$".repeat(3)), Err(TemplateError::TooLong));
        assert_eq!(read(&"$Number%064d$".repeat(500)), Err(TemplateError::TooLong));
        for text in ["https://h$Number$/a", "//h$Time$", "https://$Number$"] {
            assert!(matches!(read(text), Err(TemplateError::Host(_))), "{text}");
        }
        assert!(read("https://h/$Number$").is_ok() && read("$Number$//a").is_ok());
    }
}
