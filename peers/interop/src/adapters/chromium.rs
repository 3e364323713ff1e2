use anyhow::bail;

use super::{OtherStack, on_path, own};
use crate::play::PlayRole;

pub(super) const PEER: OtherStack = OtherStack {
    name: "chromium",
    about: "Debian's Chromium, headless",
    h3_only: true,
    browser: true,
    program: |_| if on_path("chromium") { own("chromium") } else { bail!("there is no chromium") },
    lacks: |case, role| match (case, role) {
        (_, PlayRole::Server) => Some("Chromium is a client"),
        (
            "handshake"
            | "hello-two-datagrams"
            | "hello-first-lost"
            | "hello-second-lost"
            | "hello-retry"
            | "hello-retry-first-lost"
            | "hello-retry-second-lost"
            | "hello-again"
            | "transfer"
            | "longrtt"
            | "chacha20"
            | "retry"
            | "http3"
            | "transferloss"
            | "transfercorruption"
            | "amplificationlimit"
            | "rebind-port"
            | "rebind-addr"
            | "ipv6"
            | "priorities",
            _,
        ) => None,
        _ => Some("nobody can tell Chromium to"),
    },
    stalls: |_, _| None,
};
