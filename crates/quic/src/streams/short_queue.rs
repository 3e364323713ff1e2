use std::collections::VecDeque;
use std::ops::Index;

/// A queue of which most never have more than one element: that needs no allocation.
#[derive(Debug)]
pub(super) struct ShortQueue<T> {
    /// The front, unless it is that of `rest`.
    first: Option<T>,
    rest: VecDeque<T>,
}

impl<T> Default for ShortQueue<T> {
    fn default() -> Self {
        Self { first: None, rest: VecDeque::new() }
    }
}

impl<T> ShortQueue<T> {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none() && self.rest.is_empty()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    #[inline]
    pub(super) fn push_back(&mut self, one: T) {
        if self.is_empty() {
            self.first = Some(one);
        } else {
            self.rest.push_back(one);
        }
    }

    #[inline]
    pub(super) fn pop_front(&mut self) -> Option<T> {
        self.first.take().or_else(|| self.rest.pop_front())
    }

    #[inline]
    pub(super) fn pop_back(&mut self) -> Option<T> {
        self.rest.pop_back().or_else(|| self.first.take())
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<&T> {
        match &self.first {
            None => self.rest.get(at),
            Some(first) if at == 0 => Some(first),
            Some(_) => self.rest.get(at - 1),
        }
    }

    #[inline]
    pub(super) fn front(&self) -> Option<&T> {
        self.first.as_ref().or_else(|| self.rest.front())
    }

    #[inline]
    pub(super) fn front_mut(&mut self) -> Option<&mut T> {
        self.first.as_mut().or_else(|| self.rest.front_mut())
    }

    #[inline]
    pub(super) fn back(&self) -> Option<&T> {
        self.rest.back().or(self.first.as_ref())
    }

    #[inline]
    pub(super) fn back_mut(&mut self) -> Option<&mut T> {
        self.rest.back_mut().or(self.first.as_mut())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(&self.rest)
    }

    /// The place of the first element for which `is_before` no longer holds, as it does for all before it.
    pub(super) fn partition_point(&self, mut is_before: impl FnMut(&T) -> bool) -> usize {
        match &self.first {
            Some(first) if !is_before(first) => 0,
            first => usize::from(first.is_some()) + self.rest.partition_point(is_before),
        }
    }
}

impl<T> Index<usize> for ShortQueue<T> {
    type Output = T;

    #[inline]
    fn index(&self, at: usize) -> &T {
        self.get(at).expect("a place of the queue")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_queue(steps in proptest::collection::vec(0..4u8, 0..60)) {
            let (mut short, mut model) = (ShortQueue::default(), VecDeque::new());
            for (n, step) in steps.into_iter().enumerate() {
                match step {
                    0 | 1 => {
                        short.push_back(n);
                        model.push_back(n);
                    }
                    2 => prop_assert_eq!(short.pop_front(), model.pop_front()),
                    _ => prop_assert_eq!(short.pop_back(), model.pop_back()),
                }
                prop_assert_eq!((short.len(), short.is_empty()), (model.len(), model.is_empty()));
                prop_assert_eq!((short.front(), short.back()), (model.front(), model.back()));
                prop_assert_eq!(short.front_mut().copied(), model.front().copied());
                prop_assert_eq!(short.back_mut().copied(), model.back().copied());
                prop_assert!(short.iter().eq(&model));
                for at in 0..=model.len() {
                    prop_assert_eq!(short.get(at), model.get(at));
                }
                for bound in 0..=n + 1 {
                    let point = short.partition_point(|one| *one < bound);
                    prop_assert_eq!(point, model.partition_point(|one| *one < bound));
                }
            }
        }
    }
}
