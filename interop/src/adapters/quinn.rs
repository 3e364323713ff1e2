use super::{Peer, own};
use crate::play::Role;

pub(super) const PEER: Peer = Peer {
    name: "quinn",
    about: "quinn 0.11 with rustls; HTTP/3 by the crate h3",
    h3_only: false,
    browser: false,
    program: |_| own("quinn"),
    lacks: |case, _role: Role| (case == "v2").then_some("quinn has no version 2"),
    stalls: |_, _| None,
};
