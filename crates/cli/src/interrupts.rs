//! Whoever wants this to stop: Ctrl-C, and where there is one the signal to terminate.

use std::io;
use std::pin::pin;
use std::time::Duration;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
#[cfg(windows)]
use tokio::signal::windows::{CtrlC, ctrl_c};

/// Hears every wish to stop from the moment on that this is made.
///
/// A program has one for as long as it wants to hear. The system does nothing by itself any more once
/// somebody has listened, so that a wish between two listeners would be lost.
pub(crate) struct Interrupts {
    #[cfg(unix)]
    signals: [Signal; 2],
    #[cfg(windows)]
    ctrl_c: CtrlC,
}

impl Interrupts {
    /// Fails where the system does not take a handler, within a runtime.
    pub(crate) fn new() -> io::Result<Self> {
        #[cfg(unix)]
        let this = Self { signals: [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?] };
        #[cfg(windows)]
        let this = Self { ctrl_c: ctrl_c()? };
        Ok(this)
    }

    /// Waits for the next wish that has not been told yet; several that came meanwhile are one.
    pub(crate) async fn next(&mut self) {
        #[cfg(unix)]
        {
            let [interrupt, terminate] = &mut self.signals;
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        }
        #[cfg(windows)]
        self.ctrl_c.recv().await;
    }

    /// Returns what comes of a future, and whether somebody wanted this to stop meanwhile. `told` is called
    /// each time that somebody does.
    pub(crate) async fn during<F: Future>(&mut self, future: F, mut told: impl FnMut()) -> (F::Output, bool) {
        let mut future = pin!(future);
        let mut was_interrupted = false;
        loop {
            tokio::select! {
                output = &mut future => return (output, was_interrupted),
                () = self.next() => {
                    was_interrupted = true;
                    told();
                }
            }
        }
    }

    /// From now on there is nothing left to do but to say what came of it, for which perhaps nobody is there:
    /// a pipe that is full takes what is written to it when somebody reads. Whoever wants this to stop ends
    /// the program; who did so before, in a moment.
    pub(crate) fn end_the_program(mut self, was_interrupted: bool) {
        let patience = if was_interrupted { MOMENT } else { Duration::MAX };
        tokio::spawn(async move {
            let _ = tokio::time::timeout(patience, self.next()).await;
            std::process::exit(INTERRUPTED);
        });
    }
}

/// Long enough for whoever reads at all.
const MOMENT: Duration = Duration::from_secs(1);

/// The exit code with which a shell reports a program that was interrupted.
pub(crate) const INTERRUPTED: i32 = 130;

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// What comes while nobody waits is told to who waits next, and once.
    #[tokio::test]
    async fn a_wish_between_two_waits_is_heard() {
        let mut interrupts = Interrupts::new().unwrap();
        let come = |name: &str| {
            let pid = std::process::id().to_string();
            assert!(std::process::Command::new("kill").args([name, &pid]).status().unwrap().success());
        };
        for name in ["-INT", "-TERM", "-INT"] {
            come(name);
            let limit = Duration::from_secs(20);
            tokio::time::timeout(limit, interrupts.next()).await.unwrap_or_else(|_| panic!("{name}"));
        }
        let (output, was_interrupted) = interrupts.during(async { 7 }, || {}).await;
        assert_eq!((output, was_interrupted), (7, false));
        let mut times = 0;
        let (told, hears) = tokio::sync::oneshot::channel();
        let mut told = Some(told);
        come("-TERM");
        let future = async { hears.await.unwrap() };
        let ((), was_interrupted) = interrupts
            .during(future, || {
                times += 1;
                told.take().unwrap().send(()).unwrap();
            })
            .await;
        assert_eq!((times, was_interrupted), (1, true));
    }
}
