//! What the processes of one run say to each other: lines of JSON.

use std::io::{BufRead as _, Write as _};
use std::time::Instant;

use anyhow::Result;
use quickset_stacks::StackCounts;
use serde::{Deserialize, Serialize};

use crate::os::{ProcessUsage, taken};
use crate::tally::{ArrivedSoFar, TALLY};

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
    pub(crate) got: ArrivedSoFar,
    pub(crate) counts: Option<StackCounts>,
}

/// Answers each line on stdin with what this process has taken and got, and ends it with stdin.
pub(crate) fn answer_on_stdin() {
    answer_each(|seconds, usage| ServerWord {
        seconds,
        usage,
        got: TALLY.received(),
        counts: TALLY.counts(),
    });
}

/// The same with what is made of the time since now, and of what this process has taken.
pub(crate) fn answer_each<T: Serialize>(word: impl Fn(f64, ProcessUsage) -> T + Send + 'static) {
    let begun = Instant::now();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            if line.is_err() || say(&word(begun.elapsed().as_secs_f64(), taken())).is_err() {
                break;
            }
        }
        std::process::exit(0);
    });
}
