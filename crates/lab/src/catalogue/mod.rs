//! The experiments, a table each.

mod bulk;
mod congestion;
mod dash;
mod dash_real;
mod harm;
mod http;
mod light;
mod link;
mod many;
mod messages;
mod recorded;
mod screen;
mod sound;
#[cfg(test)]
mod tests;
mod timed;
mod udt;
mod window;

use crate::experiment::{Experiment, ValueError};
pub use congestion::{CROSS, FLOWS};
#[cfg(target_os = "linux")]
pub(crate) use dash::LADDER;
pub use harm::RIVALS;

/// All experiments, in the order of reports.
pub const ALL: &[&Experiment] = &[
    &screen::STREAMING,
    &screen::INTERACTIVE,
    &screen::SMALL,
    &screen::BURSTS,
    &udt::FENCE_UDT,
    &recorded::SCREEN_TRACES,
    &bulk::BULK,
    &window::RWIN_LOW,
    &window::RWIN_HIGH,
    &window::RWIN_SCATTER,
    &window::RWIN_DESIGN,
    &window::RWIN_BURSTY,
    &messages::MESSAGES,
    &messages::MESSAGES_DESIGN,
    &sound::SOUND,
    &http::BULK,
    &http::STREAM,
    &http::PAGE,
    &http::PAGE_REAL,
    &congestion::CONGESTION,
    &harm::NO_HARM,
    &many::SCREENS_MANY,
    &light::THROUGHPUT_POOR,
    &light::WINDOW,
    &light::THROUGHPUT,
    &light::PROFILE,
    &dash::DASH,
    &dash::DASH_POOR,
    &dash_real::DASH_REAL,
    &timed::CODEC,
    &timed::PERF_FEC,
    &timed::SCHED_SCALE,
    &timed::DATAPATH,
];

/// The experiment of that name.
///
/// # Errors
/// Names the nearest one that there is.
pub fn find(name: &str) -> Result<&'static Experiment, ValueError> {
    ALL.iter().find(|experiment| experiment.name == name).copied().ok_or_else(|| {
        let near = crate::experiment::nearest(name, ALL.iter().map(|experiment| experiment.name));
        ValueError(format!("there is no experiment `{name}`; {near}"))
    })
}
