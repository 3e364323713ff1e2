/// What says nothing on a stream, against what is said there (RFC 9114 §10.5): frames and capsules that are
/// unknown, and DATA without payload.
///
/// The peer may send such things to be ignored (RFC 9114 §7.2.8, RFC 9297 §3.2), as signs of life and as
/// padding too, and on a control stream little else may ever come. Time goes by the byte for everything but
/// the smallest of them, which bring two bytes for what they cost: those are what is counted, and payload of
/// any kind makes up for them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Idle {
    /// As if of bytes that did not come.
    owed: u64,
}

impl Idle {
    /// Something that says nothing. False when it is too much.
    pub(crate) fn count(&mut self) -> bool {
        self.owed += PRICE;
        self.owed <= MOST * PRICE
    }

    /// Something that is said a few times in the life of a connection, and has no effect when it is said
    /// again. False when it is too much.
    pub(crate) fn count_rare(&mut self) -> bool {
        self.owed += RARE * PRICE;
        self.owed <= MOST * PRICE
    }

    /// Makes up for one of those that are rare.
    pub(crate) fn pay_rare(&mut self) {
        self.owed = self.owed.saturating_sub(RARE * PRICE);
    }

    /// Payload came, to whatever end.
    pub(crate) fn pay(&mut self, bytes: usize) {
        self.owed = self.owed.saturating_sub(bytes as u64);
    }
}

/// Bytes of payload that make up for one.
const PRICE: u64 = 64;

/// As how many the rare ones count: a thousand of them are too much.
const RARE: u64 = 256;

/// How many are nothing yet: one a minute for half a year, and half a megabyte from who sends them at once.
const MOST: u64 = 1 << 18;
