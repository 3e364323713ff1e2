use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use crate::units::{self, UnitError};

/// Whether packets may overtake one another.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Reorder {
    /// They keep their order: jitter delays those behind as well.
    #[default]
    No,
    /// Whenever jitter, or a shorter delay, has it so.
    Yes,
    /// This share of the packets arrives later by so much, and is overtaken; the others keep their order.
    Share(f64, Duration),
}

/// Reads `yes`, `no`, or `1%,5ms`: a share, and by how much it is late.
impl FromStr for Reorder {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        match (text.trim(), text.split_once(',')) {
            ("yes", _) => Ok(Self::Yes),
            ("no", _) => Ok(Self::No),
            (_, Some((share, late))) => Ok(Self::Share(units::lone_share(share)?, units::duration(late)?)),
            _ => {
                let accepted = "yes, no, or a share and by how much it is late, like 1%,5ms";
                Err(UnitError::new(text, "a way to reorder", "it is neither yes nor no", accepted))
            }
        }
    }
}

impl fmt::Display for Reorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::No => f.write_str("no"),
            Self::Yes => f.write_str("yes"),
            Self::Share(share, late) => {
                write!(f, "{},{}", units::share_text(*share), units::duration_text(*late))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        for text in ["no", "yes", "1%,5ms"] {
            assert_eq!(text.parse::<Reorder>().unwrap().to_string(), text);
        }
        assert!("maybe".parse::<Reorder>().unwrap_err().to_string().contains("neither yes nor no"));
        assert!("1%,5".parse::<Reorder>().unwrap_err().to_string().contains("unit is missing"));
    }
}
