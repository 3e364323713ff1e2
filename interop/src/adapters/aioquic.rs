use super::{Peer, script};
use crate::play::Role;

pub(super) const PEER: Peer = Peer {
    name: "aioquic",
    about: "aioquic 1.7, in Python, with its own HTTP/3",
    h3_only: false,
    browser: false,
    program: |place| script(place, "aioquic_peer.py", "aioquic"),
    lacks: |case, role| match (case, role) {
        ("ecn", _) => Some("aioquic has no marks"),
        ("hello-again", Role::Client) => Some("aioquic sends a share of each group that it knows"),
        ("hello-again", Role::Server) => Some("aioquic sends no HelloRetryRequest"),
        _ => None,
    },
    stalls: |_, _| None,
};
