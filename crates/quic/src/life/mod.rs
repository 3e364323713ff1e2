//! How a connection begins, lives and ends: the handshake, timeouts, farewells.

mod confirmation;
mod handshake;
mod lifecycle;
mod liveness;

pub(crate) use confirmation::Confirmation;
pub(crate) use handshake::{HandshakeRole, HandshakeState, SideState};
pub(crate) use lifecycle::{CloseFrame, Expired, Lifecycle};
pub(crate) use liveness::{Liveness, Silence};

/// Owned by the connection.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) handshake: HandshakeState,
    pub(crate) confirmation: Confirmation,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) liveness: Liveness,
}
