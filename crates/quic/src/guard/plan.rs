use crate::protect::Alike;

/// What one call of `transmit` knows of the packets of its batch.
#[derive(Debug, Default)]
pub(crate) struct BatchPlan {
    /// What a packet has for a repair symbol with its header, where data is protected.
    pub(crate) room: usize,
    /// The last symbol, if others may be like it.
    pub(crate) alike: Option<Alike>,
    /// The next packet is the first of the batch, and says how long the others are.
    pub(crate) leads: bool,
    /// The last packet was the first of the batch and has a symbol, and the batch has room for all that
    /// follow.
    pub(crate) closing: bool,
    /// The last packet was for repair, or a repeat.
    pub(crate) repaired: bool,
    /// The last packet was the first of the batch and holds a message, and those behind it are expected to be
    /// as long.
    pub(crate) even: bool,
}
