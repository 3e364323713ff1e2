//! As many threads as the system gives: tokio panics when it does not get those that it was told to start.

use std::io;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, Result};

/// How many threads a runtime may start, if that is fewer than one for each core.
///
/// # Errors
/// When there is not a single one.
pub(crate) fn fewer() -> Result<Option<usize>> {
    let wanted = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let count = counted(wanted, waiting)?;
    Ok((count < wanted).then_some(count))
}

/// A thread that ends when the other end is gone.
fn waiting(wait: Receiver<()>) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().spawn(move || {
        let _ = wait.recv();
    })
}

/// Starts threads that wait for one another, and ends them again. A limit may be reached later all the same;
/// most often it is one of processes (`ulimit -u`, a control group) or of memory, which is there all along.
fn counted(
    wanted: usize,
    mut start: impl FnMut(Receiver<()>) -> io::Result<JoinHandle<()>>,
) -> Result<usize> {
    let mut started = Vec::with_capacity(wanted);
    let mut refused = None;
    while started.len() < wanted && refused.is_none() {
        let (release, wait) = channel();
        match start(wait) {
            Ok(thread) => started.push((release, thread)),
            Err(error) => refused = Some(error),
        }
    }
    let count = started.len();
    let (releases, threads): (Vec<_>, Vec<_>) = started.into_iter().unzip();
    drop(releases);
    // They do nothing that could fail.
    for thread in threads {
        let _ = thread.join();
    }
    match refused {
        Some(error) if count == 0 => Err(error).context(
            "the system gives this process no thread; raise its limit of processes (`ulimit -u`, TasksMax of systemd) or of memory",
        ),
        Some(error) => {
            tracing::warn!(%error, "the system gives this process {count} of {wanted} threads; fewer cores work for it");
            Ok(count)
        }
        None => Ok(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(most: usize, wanted: usize) -> Result<usize> {
        let mut left = most;
        counted(wanted, |wait| {
            left = left.checked_sub(1).ok_or(io::ErrorKind::WouldBlock)?;
            waiting(wait)
        })
    }

    #[test]
    fn as_many_work_as_there_are_and_none_is_an_error() {
        assert_eq!([9, 4, 3, 1].map(|most| given(most, 4).unwrap()), [4, 4, 3, 1]);
        let none = format!("{:#}", given(0, 4).unwrap_err());
        assert!(none.contains("no thread") && none.contains("ulimit -u"), "{none}");
        assert_eq!(fewer().unwrap(), None);
    }
}
