//! Every peer, every case, both ways round: one cell each, in processes of their own with our relay between
//! them.

pub(crate) mod cases;
mod cell;
mod page;
mod program;
pub(crate) mod report;
mod signals;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use serde::Serialize;

use self::cases::MatrixCase;
use self::cell::MatrixCell;
use crate::adapters::{Folders, OtherStack, quickset};
use crate::play::PlayRole;

/// What is wanted of a run.
pub(crate) struct MatrixWanted {
    /// The program that plays our part.
    pub(crate) ours: Vec<OsString>,
    pub(crate) quick: bool,
    pub(crate) seed: u64,
    pub(crate) cases: Vec<&'static MatrixCase>,
    pub(crate) peers: Vec<&'static OtherStack>,
    /// Peers that are not there, and why.
    pub(crate) missing: Vec<(String, String)>,
    pub(crate) place: Folders,
    /// Where logs of failures go.
    pub(crate) logs: PathBuf,
}

/// How a cell came out.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub(crate) enum CellOutcome {
    Pass {
        seconds: f64,
        /// What was measured.
        figure: Option<String>,
        /// It was expected to fail.
        surprise: bool,
    },
    Fail {
        why: String,
        /// It was not over in its time.
        stalled: bool,
        /// The folder of its logs.
        logs: Option<PathBuf>,
    },
    PeerLacks {
        why: String,
    },
    WeLack {
        why: String,
    },
    /// There is no such peer on this machine.
    Absent {
        why: String,
    },
    /// There is no such network.
    NoNetwork {
        why: String,
    },
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct MatrixRow {
    pub(crate) peer: String,
    pub(crate) case: String,
    /// The part that ours played.
    pub(crate) ours: &'static str,
    #[serde(flatten)]
    pub(crate) outcome: CellOutcome,
}

/// Plays all that is wanted, and says what comes out as it goes.
pub(crate) fn play(wanted: &MatrixWanted) -> Result<Vec<MatrixRow>> {
    let mut rows = Vec::new();
    for peer in &wanted.peers {
        let program = match wanted.missing.iter().find(|(name, _)| name == peer.name) {
            Some((_, why)) => Err(why.clone()),
            None => (peer.program)(&wanted.place).map_err(|error| format!("{error:#}")),
        };
        println!("\n{}: {}", peer.name, peer.about);
        if let Err(why) = &program {
            println!("  not here: {why}");
        }
        for case in &wanted.cases {
            for role in [PlayRole::Server, PlayRole::Client] {
                let start = Instant::now();
                let outcome = match &program {
                    Err(why) => CellOutcome::Absent { why: why.clone() },
                    Ok(program) => one(wanted, peer, case, role, program)?,
                };
                let ours = if role == PlayRole::Server { "server" } else { "client" };
                if !matches!(outcome, CellOutcome::Absent { .. }) {
                    let seconds = start.elapsed().as_secs_f64();
                    println!("  {:<24} our {ours} {seconds:>6.1} s  {}", case.name, report::words(&outcome));
                }
                rows.push(MatrixRow { peer: peer.name.into(), case: case.name.into(), ours, outcome });
            }
        }
    }
    Ok(rows)
}

fn one(
    wanted: &MatrixWanted,
    peer: &OtherStack,
    case: &'static MatrixCase,
    ours: PlayRole,
    program: &[OsString],
) -> Result<CellOutcome> {
    let theirs = if ours == PlayRole::Server { PlayRole::Client } else { PlayRole::Server };
    if let Some(why) = (peer.lacks)(case.name, theirs) {
        return Ok(CellOutcome::PeerLacks { why: why.into() });
    }
    if case.page && !peer.browser {
        return Ok(CellOutcome::PeerLacks { why: "it loads no pages".into() });
    }
    if case.name == "ipv6" {
        if let Err(why) = std::net::UdpSocket::bind((std::net::Ipv6Addr::LOCALHOST, 0)) {
            return Ok(CellOutcome::NoNetwork { why: format!("this machine has no IPv6: {why}") });
        }
    }
    let cell = MatrixCell {
        case,
        peer: peer.name,
        ours,
        h3: peer.h3_only || case.name == "http3",
        quick: wanted.quick,
        seed: wanted.seed,
        our_program: wanted.ours.clone(),
        peer_program: program.to_vec(),
        logs: wanted.logs.clone(),
    };
    let outcome = in_turns((peer.stalls)(case.name, theirs), || cell.play())?;
    Ok(match (outcome, quickset::lacks(case.name, ours)) {
        (CellOutcome::Fail { .. }, Some(why)) => CellOutcome::WeLack { why: why.into() },
        (CellOutcome::Pass { seconds, figure, .. }, lacked) => {
            CellOutcome::Pass { seconds, figure, surprise: lacked.is_some() }
        }
        (other, _) => other,
    })
}

/// Plays once, and where a known `fault` of the peer's may be why it stood still, again.
fn in_turns(fault: Option<&str>, mut play: impl FnMut() -> Result<CellOutcome>) -> Result<CellOutcome> {
    let mut outcome = play()?;
    let Some(fault) = fault else { return Ok(outcome) };
    for turn in 2..=TURNS {
        if !matches!(outcome, CellOutcome::Fail { stalled: true, .. }) {
            break;
        }
        outcome = play()?;
        if let CellOutcome::Pass { figure, .. } = &mut outcome {
            *figure = Some(format!("in turn {turn} ({fault})"));
        }
    }
    Ok(outcome)
}

/// How often a cell is played in which a known fault of the peer's may strike.
const TURNS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(stalled: bool) -> CellOutcome {
        CellOutcome::Fail { why: "why".into(), stalled, logs: None }
    }

    fn pass() -> CellOutcome {
        CellOutcome::Pass { seconds: 1.0, figure: None, surprise: false }
    }

    /// What comes of these, one a turn, and how many turns that took.
    fn played(fault: Option<&str>, mut turns: Vec<CellOutcome>) -> (String, usize) {
        let count = turns.len();
        let outcome = in_turns(fault, || Ok(turns.remove(0))).expect("no turn is an error");
        (report::words(&outcome), count - turns.len())
    }

    #[test]
    fn a_known_fault_is_given_three_turns_and_said() {
        let known = Some("issue 1");
        assert_eq!(played(known, vec![fail(true), pass(), pass()]), ("pass, in turn 2 (issue 1)".into(), 2));
        assert_eq!(played(known, vec![pass(), pass()]), ("pass".into(), 1));
        assert_eq!(played(known, vec![fail(true), fail(true), fail(true), pass()]), ("FAIL: why".into(), 3));
        assert_eq!(
            played(known, vec![fail(false), pass()]),
            ("FAIL: why".into(), 1),
            "it did not stand still"
        );
        assert_eq!(played(known, vec![fail(true), fail(false), pass()]), ("FAIL: why".into(), 2));
        assert_eq!(played(None, vec![fail(true), pass()]), ("FAIL: why".into(), 1), "no fault is known");
    }
}
