//! Recorded traffic: what real applications sent when.

/// The recorded screens: see `data/README.md`.
pub const SCENES: &[&str] = &["typing", "scroll", "fastscroll", "page", "video_soft"];
