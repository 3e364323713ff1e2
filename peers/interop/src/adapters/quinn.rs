use super::{OtherStack, own};
use crate::play::PlayRole;

pub(super) const PEER: OtherStack = OtherStack {
    name: "quinn",
    about: "quinn 0.11 with rustls; HTTP/3 by the crate h3",
    h3_only: false,
    browser: false,
    program: |_| own("quinn"),
    lacks: |case, _role: PlayRole| (case == "v2").then_some("quinn has no version 2"),
    stalls: |_, _| None,
};
