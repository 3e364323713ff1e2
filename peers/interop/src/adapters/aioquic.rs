use super::{OtherStack, script};
use crate::play::PlayRole;

pub(super) const PEER: OtherStack = OtherStack {
    name: "aioquic",
    about: "aioquic 1.7, in Python, with its own HTTP/3",
    h3_only: false,
    browser: false,
    program: |place| script(place, "aioquic_peer.py", "aioquic"),
    lacks: |case, role| match (case, role) {
        ("ecn", _) => Some("aioquic has no marks"),
        ("hello-again", PlayRole::Client) => Some("aioquic sends a share of each group that it knows"),
        ("hello-again", PlayRole::Server) => Some("aioquic sends no HelloRetryRequest"),
        _ => None,
    },
    stalls: |_, _| None,
};
