//! What targets of connections share.

pub mod conditions;
#[path = "../../crates/h3/tests/attacks/memory.rs"]
#[expect(dead_code, reason = "the attacks count allocations, too")]
mod memory;
pub mod peer;
pub mod said;
pub mod tree;
pub mod victim;

/// What an input still has to say. Behind its end come zeros, so that a short one means something.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    #[expect(clippy::should_implement_trait, reason = "an iterator ends; this goes on with zeros")]
    pub fn next(&mut self) -> u8 {
        let Some((&byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        byte
    }

    /// One of these.
    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::from(self.next()) % all.len()]
    }

    /// The next `n`, or as many as there are.
    pub fn take(&mut self, n: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Bytes that this thread has allocated and not freed.
pub fn held() -> isize {
    memory::held()
}
