//! Ours.

use std::ffi::OsString;

use anyhow::Result;

use crate::play::Role;

pub(crate) fn program() -> Result<Vec<OsString>> {
    super::own("quickset")
}

/// What we lack. Such a case is played all the same: the day it passes, it says so, and its line here can go.
pub(crate) fn lacks(case: &str, role: Role) -> Option<&'static str> {
    match (case, role) {
        ("zerortt", _) => Some("early data"),
        ("v2", _) => Some("version 2"),
        ("rebind-port" | "rebind-addr", Role::Server) => Some("clients whose addresses change"),
        ("connectionmigration", Role::Server) => Some("clients that move"),
        ("connectionmigration", Role::Client) => Some("a verb to move"),
        _ => None,
    }
}
