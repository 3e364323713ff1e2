use anyhow::bail;

use super::{OtherStack, own};
use crate::play::PlayRole;

pub(super) const PEER: OtherStack = OtherStack {
    name: "quiche",
    about: "quiche 0.30 with BoringSSL and its own HTTP/3",
    h3_only: false,
    browser: false,
    program: |_| {
        if cfg!(feature = "quiche") { own("quiche") } else { bail!("built without the feature quiche") }
    },
    lacks: |case, role| match (case, role) {
        ("v2", _) => Some("quiche has no version 2"),
        ("ecn", _) => Some("quiche leaves marks to the application and reports none"),
        ("keyupdate", PlayRole::Client) => Some("quiche follows updates and begins none"),
        _ => None,
    },
    stalls: |case, role| {
        let moves = role == PlayRole::Server && case.starts_with("rebind");
        moves.then_some("cloudflare/quiche issue 2452, what is lost at a move is not sent again")
    },
};
