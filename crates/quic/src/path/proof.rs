/// What an address has proved, and what it may be sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AddressProof {
    /// It answered, or is our own choice: it may be sent anything.
    proven: bool,
    /// Packets of 1200 bytes are known to get there and back.
    validated: bool,
    received: u64,
    sent: u64,
}

impl AddressProof {
    /// Of an address that we chose to send to: nobody made us.
    pub(crate) fn chosen() -> Self {
        Self { proven: true, ..Self::default() }
    }

    /// It answered a challenge; `full`: one in a datagram of 1200 bytes.
    pub(crate) fn prove(&mut self, full: bool) {
        self.proven = true;
        self.validated |= full;
    }

    /// Whether the path is validated: RFC 9000 §8.2.1, its size included.
    #[inline]
    pub(crate) fn is_validated(&self) -> bool {
        self.validated
    }

    /// A datagram came from there.
    #[inline]
    pub(crate) fn on_received(&mut self, bytes: usize) {
        self.received += bytes as u64;
    }

    /// A datagram was sent there.
    #[inline]
    pub(crate) fn on_sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
    }

    /// So many bytes did not leave after all.
    pub(crate) fn on_refused(&mut self, bytes: u64) {
        self.sent = self.sent.saturating_sub(bytes);
    }

    /// Bytes that may be sent there (RFC 9000 §8.1, §9.3).
    #[inline]
    pub(crate) fn budget(&self) -> usize {
        if self.proven {
            return usize::MAX;
        }
        usize::try_from((3 * self.received).saturating_sub(self.sent)).unwrap_or(usize::MAX)
    }

    pub(crate) fn check(&self) {
        debug_assert!(self.proven || self.sent <= 3 * self.received, "amplification limit broken: {self:?}");
    }
}
