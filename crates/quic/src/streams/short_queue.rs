use std::collections::VecDeque;
use std::ops::Index;

/// A queue of which most never have more than one element: that needs no allocation.
#[derive(Debug)]
pub(super) enum ShortQueue<T> {
    /// There never were two.
    One(Option<T>),
    Many(VecDeque<T>),
}

impl<T> Default for ShortQueue<T> {
    fn default() -> Self {
        Self::One(None)
    }
}

impl<T> ShortQueue<T> {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::One(one) => one.is_none(),
            Self::Many(many) => many.is_empty(),
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            Self::One(one) => usize::from(one.is_some()),
            Self::Many(many) => many.len(),
        }
    }

    #[inline]
    pub(super) fn push_back(&mut self, another: T) {
        match self {
            Self::Many(many) => many.push_back(another),
            Self::One(one) if one.is_none() => *one = Some(another),
            Self::One(one) => *self = Self::Many(one.take().into_iter().chain([another]).collect()),
        }
    }

    #[inline]
    pub(super) fn pop_front(&mut self) -> Option<T> {
        match self {
            Self::One(one) => one.take(),
            Self::Many(many) => many.pop_front(),
        }
    }

    #[inline]
    pub(super) fn pop_back(&mut self) -> Option<T> {
        match self {
            Self::One(one) => one.take(),
            Self::Many(many) => many.pop_back(),
        }
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<&T> {
        match self {
            Self::One(one) => one.as_ref().filter(|_| at == 0),
            Self::Many(many) => many.get(at),
        }
    }

    #[inline]
    pub(super) fn front(&self) -> Option<&T> {
        match self {
            Self::One(one) => one.as_ref(),
            Self::Many(many) => many.front(),
        }
    }

    #[inline]
    pub(super) fn front_mut(&mut self) -> Option<&mut T> {
        match self {
            Self::One(one) => one.as_mut(),
            Self::Many(many) => many.front_mut(),
        }
    }

    #[inline]
    pub(super) fn back(&self) -> Option<&T> {
        match self {
            Self::One(one) => one.as_ref(),
            Self::Many(many) => many.back(),
        }
    }

    #[inline]
    pub(super) fn back_mut(&mut self) -> Option<&mut T> {
        match self {
            Self::One(one) => one.as_mut(),
            Self::Many(many) => many.back_mut(),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        let (one, many) = match self {
            Self::One(one) => (one.as_ref(), None),
            Self::Many(many) => (None, Some(many)),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// The place of the first element for which `is_before` no longer holds, as it does for all before it.
    pub(super) fn partition_point(&self, is_before: impl FnMut(&T) -> bool) -> usize {
        match self {
            Self::One(one) => usize::from(one.as_ref().is_some_and(is_before)),
            Self::Many(many) => many.partition_point(is_before),
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
