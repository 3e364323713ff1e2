//! What the processes of one run say to each other: lines of JSON.

use std::io::{BufRead as _, Write as _};
use std::time::Instant;

use anyhow::Result;
use quickset_stacks::StackCounts;
use serde::{Deserialize, Serialize};

use crate::os::{ProcessUsage, taken};
use crate::tally::{Received, TALLY};

/// Prints one line for the process that waits for it.
pub(crate) fn say(line: &impl Serialize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, line)?;
    out.write_all(b"\n")?;
    out.flush()?;
    Ok(())
}

/// What a server says when it is asked.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(crate) struct ServerWord {
    /// Since it began.
    pub(crate) seconds: f64,
    #[serde(flatten)]
    pub(crate) usage: ProcessUsage,
    #[serde(flatten)]
    pub(crate) got: Received,
    pub(crate) counts: Option<StackCounts>,
}

/// Answers each line on stdin with what this process has taken, and ends it with stdin.
pub(crate) fn answer_on_stdin() {
    let begun = Instant::now();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let word = ServerWord {
                seconds: begun.elapsed().as_secs_f64(),
                usage: taken(),
                got: TALLY.received(),
                counts: TALLY.counts(),
            };
            if line.is_err() || say(&word).is_err() {
                break;
            }
        }
        std::process::exit(0);
    });
}
