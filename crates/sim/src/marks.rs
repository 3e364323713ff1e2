use core::fmt;
use core::str::FromStr;

use quickset_base::Ecn;

use crate::units::UnitError;

/// What a link, or a box at its head, does to the ECN field of the packets that it is given.
///
/// As text `keep`, `erase`, `drop` and `ect1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnAction {
    /// It leaves them alone.
    #[default]
    Keep,
    /// It clears them (bleaching).
    Erase,
    /// It drops packets that have one; they count as lost.
    Drop,
    /// It makes ECT(1) of ECT(0).
    Ect1,
}

impl EcnAction {
    /// The mark that a packet with this one has behind it; `None`: it is dropped.
    pub(crate) fn pass(self, mark: Ecn) -> Option<Ecn> {
        match (self, mark) {
            (Self::Keep, _) => Some(mark),
            (_, Ecn::NotEct) | (Self::Erase, _) => Some(Ecn::NotEct),
            (Self::Drop, _) => None,
            (Self::Ect1, Ecn::Ect0) => Some(Ecn::Ect1),
            (Self::Ect1, _) => Some(mark),
        }
    }
}

impl fmt::Display for EcnAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keep => "keep",
            Self::Erase => "erase",
            Self::Drop => "drop",
            Self::Ect1 => "ect1",
        })
    }
}

impl FromStr for EcnAction {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        match text {
            "keep" => Ok(Self::Keep),
            "erase" => Ok(Self::Erase),
            "drop" => Ok(Self::Drop),
            "ect1" => Ok(Self::Ect1),
            _ => Err(UnitError::new(
                text,
                "a treatment of ECN marks",
                "it is not known",
                "keep, erase, drop or ect1",
            )),
        }
    }
}
