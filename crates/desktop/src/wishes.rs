use std::collections::VecDeque;

/// Wishes for another size that are not answered yet, in order. Every one has to be: some viewers wait for
/// it.
#[derive(Debug, Default)]
pub(crate) struct SizeWishes {
    /// Whose, and for which size.
    under_way: VecDeque<(u64, (u16, u16))>,
}

impl SizeWishes {
    /// `who` has a wish, which is being told.
    pub(crate) fn add(&mut self, who: u64, size: (u16, u16)) {
        // One that answers nothing is not to be remembered for.
        if self.under_way.len() == MOST {
            self.under_way.pop_front();
        }
        self.under_way.push_back((who, size));
    }

    /// There is an answer; `granted` is the size if it is a yes. Says whose it is.
    ///
    /// It is for the first wish, unless a later one is the first for this size: some answer only the last of
    /// several in quick succession, and then it is for those before it too.
    pub(crate) fn answered(&mut self, granted: Option<(u16, u16)>) -> Vec<u64> {
        let later = granted.and_then(|size| self.under_way.iter().position(|(_, wished)| *wished == size));
        let count = (later.unwrap_or(0) + 1).min(self.under_way.len());
        self.under_way.drain(..count).map(|(who, _)| who).collect()
    }

    /// There will be no more answers. Says who waits for one, as often as it does.
    pub(crate) fn give_up(&mut self) -> Vec<u64> {
        self.under_way.drain(..).map(|(who, _)| who).collect()
    }
}

/// Wishes that are remembered.
const MOST: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_is_for_the_first_that_waits() {
        let mut wishes = SizeWishes::default();
        for (who, size) in [(1, (10, 10)), (2, (20, 20)), (1, (10, 10))] {
            wishes.add(who, size);
        }
        assert_eq!(wishes.answered(None), [1]);
        assert_eq!(wishes.answered(Some((20, 20))), [2]);
        assert_eq!(wishes.answered(Some((11, 10))), [1], "granted about as it was wished");
        assert!(wishes.answered(Some((10, 10))).is_empty(), "nobody asked");
    }

    #[test]
    fn one_answer_to_several_is_for_all_up_to_it() {
        let mut wishes = SizeWishes::default();
        for (who, side) in [(1, 10), (2, 20), (1, 30), (3, 40)] {
            wishes.add(who, (side, side));
        }
        assert_eq!(wishes.answered(Some((30, 30))), [1, 2, 1]);
        assert_eq!(wishes.give_up(), [3]);
        for who in 0..10_000 {
            wishes.add(who, (1, 1));
        }
        assert_eq!(wishes.give_up().len(), MOST);
    }
}
