//! What packets of the peer may have us do.

/// Work that packets pay for. Each earns some, which is saved up to a limit; what takes more than there is
/// goes into debt, so that in the long run no packet costs more than it earns.
#[derive(Debug)]
pub(crate) struct WorkAllowance {
    left: i64,
    each: i64,
    most: i64,
}

impl WorkAllowance {
    /// As much as is ever saved; a packet earns `each`.
    pub(crate) fn new(each: u64, most: u64) -> Self {
        let most = signed(most);
        Self { left: most, each: signed(each), most }
    }

    /// The same, of which there is no more than this to begin with.
    pub(crate) fn beginning(self, left: u64) -> Self {
        Self { left: signed(left).min(self.most), ..self }
    }

    /// From now on no more is saved.
    pub(crate) fn set_most(&mut self, most: u64) {
        self.most = signed(most);
    }

    /// A packet came.
    #[inline]
    pub(crate) fn earn(&mut self) {
        self.left = self.left.saturating_add(self.each).min(self.most);
    }

    pub(crate) fn pay(&mut self, work: u64) {
        self.left = self.left.saturating_sub(signed(work));
    }

    #[inline]
    pub(crate) fn is_spent(&self) -> bool {
        self.left <= 0
    }

    /// What there is.
    pub(crate) fn left(&self) -> usize {
        usize::try_from(self.left).unwrap_or(0)
    }
}

fn signed(work: u64) -> i64 {
    i64::try_from(work).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_at_first_may_be_less_than_is_saved() {
        let mut allowance = WorkAllowance::new(10, 25).beginning(5);
        for left in [5, 15, 25, 25] {
            assert_eq!(allowance.left(), left);
            allowance.earn();
        }
        assert_eq!(WorkAllowance::new(10, 25).beginning(30).left(), 25);
    }

    #[test]
    fn what_is_owed_is_earned_before_anything_is_spent() {
        let mut allowance = WorkAllowance::new(10, 25);
        assert_eq!((allowance.left(), allowance.is_spent()), (25, false));
        allowance.earn();
        assert_eq!(allowance.left(), 25, "no more is saved");
        allowance.pay(50);
        for _ in 0..2 {
            assert_eq!((allowance.left(), allowance.is_spent()), (0, true));
            allowance.earn();
        }
        allowance.earn();
        assert_eq!((allowance.left(), allowance.is_spent()), (5, false));
        allowance.pay(u64::MAX);
        allowance.pay(u64::MAX);
        allowance.earn();
        assert!(allowance.is_spent());
    }
}
