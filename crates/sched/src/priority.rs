use crate::number::whole;

/// What a class is among its siblings.
///
/// The default is that of RFC 9218 §4: urgency 3, not incremental, and weight 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// 0 is the most urgent, 7 the least; greater numbers count as 7. As long as a class of a better urgency
    /// is backlogged, none of its siblings of a worse one sends (RFC 9218 §4.1).
    pub urgency: u8,
    /// Whether it goes before all urgencies: for the little that everything else waits for.
    pub critical: bool,
    /// Whether it is of use in parts. Siblings of one urgency that are not go one after the other, in the
    /// order in which they were made, and before those that are (RFC 9218 §4.2).
    pub incremental: bool,
    /// Its share among the incremental siblings of its urgency.
    pub weight: Weight,
}

impl Priority {
    /// An incremental class of urgency 3 and this weight.
    pub fn weighted(weight: f64) -> Self {
        Self { incremental: true, weight: Weight::new(weight), ..Self::default() }
    }

    /// The same with another urgency.
    #[must_use]
    pub const fn urgency(self, urgency: u8) -> Self {
        Self { urgency, ..self }
    }

    /// The same before all urgencies.
    #[must_use]
    pub const fn critical(self) -> Self {
        Self { critical: true, ..self }
    }

    /// The urgency as it counts.
    pub(crate) const fn effective(self) -> u8 {
        if self.urgency < 7 { self.urgency } else { 7 }
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self { urgency: 3, critical: false, incremental: false, weight: Weight::default() }
    }
}

/// A weight relative to siblings, from 0.01 to 100 in steps of a millionth.
///
/// It is a whole number inside, so that sums over siblings that come and go stay exact, and none is ever
/// zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight(u32);

impl Weight {
    /// The least there is, 0.01.
    pub const MIN: Self = Self(10_000);
    /// The greatest there is, 100.
    pub const MAX: Self = Self(100_000_000);

    /// Any number will do: what is less than 0.01 (0, negative, minus infinity) counts as 0.01, what is more
    /// than 100 as 100, and what is no number as 1, the default.
    pub fn new(weight: f64) -> Self {
        if weight.is_nan() {
            return Self::default();
        }
        // To the nearest; `core` has no rounding.
        let millionths = whole(weight.clamp(0.01, 100.0) * f64::from(UNIT) + 0.5);
        Self(u32::try_from(millionths).unwrap_or(Self::MAX.0))
    }

    /// As a decimal.
    pub fn get(self) -> f64 {
        f64::from(self.0) / f64::from(UNIT)
    }

    pub(crate) const fn millionths(self) -> u32 {
        self.0
    }

    pub(crate) const fn from_millionths(millionths: u32) -> Self {
        Self(millionths)
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self(UNIT)
    }
}

impl From<f64> for Weight {
    fn from(weight: f64) -> Self {
        Self::new(weight)
    }
}

const UNIT: u32 = 1_000_000;
