use super::{OtherStack, script};
use crate::play::PlayRole;

pub(super) const PEER: OtherStack = OtherStack {
    name: "curl",
    about: "libcurl with ngtcp2 and nghttp3, by curl_cffi",
    h3_only: true,
    browser: false,
    program: |place| script(place, "curl_peer.py", "curl_cffi, aioquic"),
    lacks: |case, role| match (case, role) {
        (_, PlayRole::Server) => Some("curl is a client"),
        ("keyupdate" | "connectionmigration", _) => Some("nobody can tell curl to"),
        ("resumption" | "zerortt", _) => Some("curl_cffi keeps no tickets across connections"),
        ("v2", _) => Some("curl begins with version 1 and stays there"),
        ("ecn", _) => Some("curl sends no marks"),
        _ => None,
    },
    stalls: |_, _| None,
};
