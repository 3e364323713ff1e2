use super::{Confirmation, Handshake, Lifecycle, Liveness};

/// How a connection begins, lives and ends.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) handshake: Handshake,
    pub(crate) confirmation: Confirmation,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) liveness: Liveness,
}
