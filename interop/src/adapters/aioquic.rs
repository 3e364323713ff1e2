use super::{Peer, script};

pub(super) const PEER: Peer = Peer {
    name: "aioquic",
    about: "aioquic 1.7, in Python, with its own HTTP/3",
    h3_only: false,
    browser: false,
    program: |place| script(place, "aioquic_peer.py", "aioquic"),
    lacks: |case, _role| (case == "ecn").then_some("aioquic has no marks"),
    stalls: |_, _| None,
};
