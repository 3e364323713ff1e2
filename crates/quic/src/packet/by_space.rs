use quickset_wire::Space;

/// Something of each packet number space. That of Initial and Handshake packets goes when they have ended for
/// good, since most of a connection's life is spent without them.
#[derive(Debug)]
pub(crate) struct BySpace<T> {
    pub(crate) data: T,
    handshake: Option<Box<[T; 2]>>,
}

impl<T> BySpace<T> {
    pub(crate) fn new(make: impl FnMut(Space) -> T) -> Self {
        let [initial, handshake, data] = Space::ALL.map(make);
        Self { data, handshake: Some(Box::new([initial, handshake])) }
    }

    /// Of a space; `None` when it has gone.
    #[inline]
    pub(crate) fn get(&self, space: Space) -> Option<&T> {
        match space {
            Space::Data => Some(&self.data),
            Space::Initial | Space::Handshake => self.handshake.as_deref()?.get(space.index()),
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, space: Space) -> Option<&mut T> {
        match space {
            Space::Data => Some(&mut self.data),
            Space::Initial | Space::Handshake => self.handshake.as_deref_mut()?.get_mut(space.index()),
        }
    }

    /// Those that are there, in the order of their spaces.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let handshake = self.handshake.as_deref().map_or(&[][..], |both| &both[..]);
        handshake.iter().chain([&self.data])
    }

    /// The same, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.handshake.as_deref_mut().into_iter().flatten().chain([&mut self.data])
    }

    /// Initial and Handshake packets have ended.
    pub(crate) fn end_handshake(&mut self) {
        self.handshake = None;
    }
}
