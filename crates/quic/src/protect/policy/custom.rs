use std::fmt;
use std::sync::Arc;

use quickset_wire::Schemes;

use super::ReliabilityPolicy;

/// A policy that the core does not know: of an application's own, or of the crate `quickset-policies`.
///
/// ```
/// use quickset_quic::policy::*;
///
/// /// Two repair symbols over the window behind each boundary, on paths that lose anything at all.
/// #[derive(Debug, Default)]
/// struct Twice {
///     answered: u64,
/// }
///
/// impl ReliabilityPolicy for Twice {
///     fn protect(&mut self, view: &CodingView<'_>, _: Carried) -> Option<LaneConfig> {
///         (view.loss.rate > 0.0).then_some(LaneConfig::RLC)
///     }
///
///     fn fec_pattern(&mut self, view: &CodingView<'_>) -> Pattern {
///         let new = view.demand.boundaries != self.answered && view.lanes[0].unprotected > 0;
///         self.answered = view.demand.boundaries;
///         if new { Pattern::Repair { lane: 0, n: 2 } } else { Pattern::No }
///     }
///
///     fn delay_sensitivity(&self, view: &CodingView<'_>) -> f64 {
///         -view.loss.rate
///     }
/// }
///
/// let schemes = Schemes::default().with(Scheme::Rlc);
/// let twice = CustomPolicy::new(schemes, || Box::new(Twice::default())).with_text("twice");
/// let protection = Protection::Custom(twice);
/// assert!(protection.policy().is_some());
/// assert_eq!(protection.to_string(), "twice");
/// ```
#[derive(Clone)]
pub struct CustomPolicy {
    schemes: Schemes,
    make: Arc<MakePolicy>,
    text: Option<Arc<str>>,
    even: bool,
}

type MakePolicy = dyn Fn() -> Box<dyn ReliabilityPolicy> + Send + Sync;

impl CustomPolicy {
    /// `make` builds the policy of one channel; its lanes use no other codes than those of `schemes`. It has
    /// no text, and messages are split as the packets have room for them.
    pub fn new(
        schemes: Schemes,
        make: impl Fn() -> Box<dyn ReliabilityPolicy> + Send + Sync + 'static,
    ) -> Self {
        Self { schemes, make: Arc::new(make), text: None, even: false }
    }

    /// The protection is written as `text`, and equal to each other that is: so the text names the policy and
    /// all of its parameters.
    #[must_use]
    pub fn with_text(self, text: impl Into<Arc<str>>) -> Self {
        Self { text: Some(text.into()), ..self }
    }

    /// Whether the packets of a message are of one size, for repair over few of them
    /// ([`splits_evenly`](super::Protection::splits_evenly)).
    #[must_use]
    pub fn with_even_messages(self, even: bool) -> Self {
        Self { even, ..self }
    }

    /// What it is written as, if that was said.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    pub(super) fn schemes(&self) -> Schemes {
        self.schemes
    }

    pub(super) fn splits_evenly(&self) -> bool {
        self.even
    }

    pub(super) fn policy(&self) -> Box<dyn ReliabilityPolicy> {
        (self.make)()
    }
}

/// Those of one text are equal, and without a text clones of one.
impl PartialEq for CustomPolicy {
    fn eq(&self, other: &Self) -> bool {
        match (&self.text, &other.text) {
            (None, None) => self.even == other.even && Arc::ptr_eq(&self.make, &other.make),
            (text, others) => text == others,
        }
    }
}

impl fmt::Debug for CustomPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => write!(f, "Custom({text})"),
            None => write!(f, "Custom({:p})", Arc::as_ptr(&self.make).cast::<()>()),
        }
    }
}
