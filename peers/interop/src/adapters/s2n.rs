use anyhow::bail;

use super::{OtherStack, own};
use crate::play::PlayRole;

pub(super) const PEER: OtherStack = OtherStack {
    name: "s2n-quic",
    about: "s2n-quic 1 with rustls",
    h3_only: false,
    browser: false,
    program: |_| {
        if cfg!(feature = "s2n-quic") { own("s2n-quic") } else { bail!("built without the feature s2n-quic") }
    },
    lacks: |case, role| match (case, role) {
        ("v2", _) => Some("s2n-quic has no version 2"),
        ("http3", _) => Some("s2n-quic comes without HTTP/3"),
        ("resumption", _) => Some("s2n-quic has resumption behind an unstable feature"),
        ("zerortt", _) => Some("s2n-quic has no early data"),
        ("keyupdate", PlayRole::Client) => Some("s2n-quic begins updates by itself, after many packets"),
        ("connectionmigration", PlayRole::Client) => Some("a client of s2n-quic does not move"),
        _ => None,
    },
    stalls: |_, _| None,
};
