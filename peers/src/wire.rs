//! What the processes of one run say to each other: lines of JSON.

use std::io::{BufRead as _, Write as _};

use anyhow::Result;
use serde::Serialize;

use crate::os::taken;

/// Prints one line for the process that waits for it.
pub(crate) fn say(line: &impl Serialize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, line)?;
    out.write_all(b"\n")?;
    out.flush()?;
    Ok(())
}

/// Answers each line on stdin with what this process has taken, and ends it with stdin.
pub(crate) fn answer_on_stdin() {
    std::thread::spawn(|| {
        for line in std::io::stdin().lock().lines() {
            if line.is_err() || say(&taken()).is_err() {
                break;
            }
        }
        std::process::exit(0);
    });
}
