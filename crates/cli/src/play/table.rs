//! What players saw: as a table while they play and at the end, and as JSON.

use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use quickset_base::number::Unsigned as _;
use quickset_play::Player;
use serde::Serialize;

use crate::say::plain;

/// All players, each with a row that it writes.
#[derive(Debug)]
pub(super) struct Board(Mutex<Vec<PlayerRow>>);

/// What a player is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PlayerStatus {
    Waiting,
    Playing,
    Done,
    /// It cannot go on.
    Failed,
}

/// What a viewer of one player saw. A Mbit is a million bits.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PlayerRow {
    /// Counted from 1.
    player: usize,
    pub(super) state: PlayerStatus,
    /// AB: the mean over what was played, by the bitrates of the manifest.
    average_bitrate_mbps: f64,
    /// RT: how long it stood still after the first picture.
    rebuffering_s: f64,
    stalls: u32,
    /// From its start to the first picture, connecting included.
    startup_s: Option<f64>,
    switches: u64,
    segments: u64,
    /// Of content, that of initialisation and indices included.
    bytes: u64,
    played_s: f64,
    buffer_s: f64,
    /// Fetches that failed, of which most may have been made again.
    failed_fetches: u64,
    /// Why it cannot go on.
    pub(super) error: Option<String>,
}

impl PlayerRow {
    fn waiting(place: usize) -> Self {
        Self {
            player: place + 1,
            state: PlayerStatus::Waiting,
            average_bitrate_mbps: 0.0,
            rebuffering_s: 0.0,
            stalls: 0,
            startup_s: None,
            switches: 0,
            segments: 0,
            bytes: 0,
            played_s: 0.0,
            buffer_s: 0.0,
            failed_fetches: 0,
            error: None,
        }
    }

    pub(super) fn of(place: usize, state: PlayerStatus, player: &Player, failed_fetches: u64) -> Self {
        let report = player.report();
        Self {
            state,
            average_bitrate_mbps: rounded(report.average_bitrate() / 1e6),
            rebuffering_s: seconds(report.stalled),
            stalls: report.stalls,
            startup_s: report.startup.map(seconds),
            switches: report.switches,
            segments: report.segments,
            bytes: report.bytes,
            played_s: seconds(report.played),
            buffer_s: seconds(player.buffer().0),
            failed_fetches,
            ..Self::waiting(place)
        }
    }
}

impl Board {
    pub(super) fn new(players: usize) -> Self {
        Self(Mutex::new((0..players).map(PlayerRow::waiting).collect()))
    }

    pub(super) fn set(&self, row: PlayerRow) {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = row.player - 1;
        rows[place] = row;
    }

    pub(super) fn rows(&self) -> Vec<PlayerRow> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What all of them saw, and what that took.
#[derive(Debug, Serialize)]
pub(super) struct TableSum {
    players: usize,
    done: usize,
    failed: usize,
    /// AB over all that was played.
    average_bitrate_mbps: f64,
    /// RT of all together.
    rebuffering_s: f64,
    stalls: u64,
    /// The mean of those that began to play, and the longest.
    startup_mean_s: Option<f64>,
    startup_max_s: Option<f64>,
    switches: u64,
    segments: u64,
    bytes: u64,
    played_s: f64,
    failed_fetches: u64,
    /// From the start of the first to the end of the last.
    seconds: f64,
    /// Of content, over this time.
    throughput_mbps: f64,
    /// Processor time of this process; null where the system does not tell.
    cpu_s: Option<f64>,
}

impl TableSum {
    pub(super) fn of(rows: &[PlayerRow], time: Duration, cpu: Option<Duration>) -> Self {
        let count = |state| rows.iter().filter(|row| row.state == state).count();
        let total = |field: fn(&PlayerRow) -> f64| rows.iter().map(field).sum::<f64>();
        let played = total(|row| row.played_s);
        let bits = total(|row| row.average_bitrate_mbps * row.played_s);
        let startups: Vec<f64> = rows.iter().filter_map(|row| row.startup_s).collect();
        let bytes = rows.iter().map(|row| row.bytes).sum::<u64>();
        Self {
            players: rows.len(),
            done: count(PlayerStatus::Done),
            failed: count(PlayerStatus::Failed),
            average_bitrate_mbps: rounded(share(bits, played)),
            rebuffering_s: rounded(total(|row| row.rebuffering_s)),
            stalls: rows.iter().map(|row| u64::from(row.stalls)).sum(),
            startup_mean_s: (!startups.is_empty())
                .then(|| rounded(startups.iter().sum::<f64>() / startups.len().approx())),
            startup_max_s: startups.iter().copied().reduce(f64::max),
            switches: rows.iter().map(|row| row.switches).sum(),
            segments: rows.iter().map(|row| row.segments).sum(),
            bytes,
            played_s: rounded(played),
            failed_fetches: rows.iter().map(|row| row.failed_fetches).sum(),
            seconds: seconds(time),
            throughput_mbps: rounded(share(bytes.approx() * 8e-6, time.as_secs_f64())),
            cpu_s: cpu.map(seconds),
        }
    }
}

/// The rows of a table, the first `most` of them, and below them the sum. What failed is told elsewhere, in
/// whole sentences.
pub(super) fn table(rows: &[PlayerRow], sum: &TableSum, most: usize) -> String {
    let mut text = format!(
        "{:>7} {:>9} {:>10} {:>7} {:>12} {:>9} {:>9} {:>10} {:>9} {:>9}  state\n",
        "player",
        "Mbit/s",
        "startup s",
        "stalls",
        "rebuffer s",
        "switches",
        "segments",
        "MB",
        "played s",
        "buffer s"
    );
    for row in rows.iter().take(most) {
        let state = match row.state {
            PlayerStatus::Waiting => "waiting",
            PlayerStatus::Playing => "playing",
            PlayerStatus::Done => "done",
            PlayerStatus::Failed => "FAILED",
        };
        let _ = writeln!(
            text,
            "{:>7} {:>9.3} {:>10} {:>7} {:>12.3} {:>9} {:>9} {:>10.3} {:>9.1} {:>9.1}  {state}",
            row.player,
            row.average_bitrate_mbps,
            optional(row.startup_s),
            row.stalls,
            row.rebuffering_s,
            row.switches,
            row.segments,
            row.bytes.approx() / 1e6,
            row.played_s,
            row.buffer_s,
        );
    }
    if rows.len() > most {
        let _ = writeln!(text, "{:>7} {} more", "…", rows.len() - most);
    }
    let _ = writeln!(
        text,
        "{:>7} {:>9.3} {:>10} {:>7} {:>12.3} {:>9} {:>9} {:>10.3} {:>9.1} {:>9}  {} done, {} failed",
        "all",
        sum.average_bitrate_mbps,
        optional(sum.startup_mean_s),
        sum.stalls,
        sum.rebuffering_s,
        sum.switches,
        sum.segments,
        sum.bytes.approx() / 1e6,
        sum.played_s,
        "",
        sum.done,
        sum.failed,
    );
    let cpu = sum.cpu_s.map_or("not known here".to_owned(), |cpu| format!("{cpu:.2} s"));
    let _ = writeln!(
        text,
        "{:.1} s, {:.1} Mbit/s over the network, processor time {cpu}, {} fetches failed",
        sum.seconds, sum.throughput_mbps, sum.failed_fetches
    );
    text
}

/// Why players could not go on, each reason once, with how many it is of.
pub(super) fn reasons(rows: &[PlayerRow]) -> Vec<String> {
    let mut reasons: Vec<(String, usize, usize)> = Vec::new();
    for row in rows {
        let Some(error) = &row.error else { continue };
        match reasons.iter_mut().find(|(reason, ..)| reason == error) {
            Some((_, _, more)) => *more += 1,
            None => reasons.push((error.clone(), row.player, 0)),
        }
    }
    let told = reasons.into_iter().map(|(reason, player, more)| {
        let others = if more == 0 { String::new() } else { format!(" and {more} more") };
        // Some of the words may be the server's.
        format!("player {player}{others}: {}", plain(&reason))
    });
    told.collect()
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"))
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn seconds(time: Duration) -> f64 {
    rounded(time.as_secs_f64())
}

/// To a millionth.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<PlayerRow> {
        let long = PlayerRow {
            state: PlayerStatus::Done,
            average_bitrate_mbps: 4.0,
            startup_s: Some(0.25),
            rebuffering_s: 1.5,
            stalls: 2,
            bytes: 15_000_000,
            segments: 8,
            switches: 3,
            played_s: 30.0,
            ..PlayerRow::waiting(0)
        };
        let short = PlayerRow {
            state: PlayerStatus::Failed,
            average_bitrate_mbps: 1.0,
            startup_s: Some(0.75),
            bytes: 1_250_000,
            played_s: 10.0,
            failed_fetches: 4,
            error: Some("it is gone".to_owned()),
            ..PlayerRow::waiting(1)
        };
        let same = PlayerRow {
            error: Some("it is gone".to_owned()),
            state: PlayerStatus::Failed,
            ..PlayerRow::waiting(2)
        };
        let other = PlayerRow {
            error: Some("\u{1b}[2J".to_owned()),
            state: PlayerStatus::Failed,
            ..PlayerRow::waiting(3)
        };
        vec![long, short, same, other, PlayerRow::waiting(4)]
    }

    /// Who played longer weighs more, and who did not begin has no start.
    #[test]
    fn the_sum_is_over_what_was_played() {
        let sum = TableSum::of(&rows(), Duration::from_secs(40), Some(Duration::from_millis(1230)));
        assert_eq!((sum.players, sum.done, sum.failed), (5, 1, 3));
        assert!((sum.average_bitrate_mbps - (4.0 * 30.0 + 1.0 * 10.0) / 40.0).abs() < 1e-9);
        assert_eq!((sum.startup_mean_s, sum.startup_max_s), (Some(0.5), Some(0.75)));
        assert_eq!((sum.rebuffering_s, sum.stalls, sum.switches, sum.failed_fetches), (1.5, 2, 3, 4));
        assert_eq!(sum.bytes, 16_250_000);
        assert!((sum.throughput_mbps - 3.25).abs() < 1e-9);
        assert_eq!(sum.cpu_s, Some(1.23));
        let none = TableSum::of(&[], Duration::ZERO, None);
        assert_eq!((none.average_bitrate_mbps, none.throughput_mbps, none.startup_mean_s), (0.0, 0.0, None));
    }

    #[test]
    fn a_table_has_a_row_a_player_below_its_columns() {
        let sum = TableSum::of(&rows(), Duration::from_secs(40), None);
        let text = table(&rows(), &sum, 2);
        let lines: Vec<&str> = text.lines().collect();
        let words = |line: usize| lines[line].split_whitespace().collect::<Vec<_>>();
        assert_eq!(
            words(1),
            ["1", "4.000", "0.250", "2", "1.500", "3", "8", "15.000", "30.0", "0.0", "done"]
        );
        assert_eq!(lines[3].trim(), "… 3 more");
        assert_eq!(words(4)[..3], ["all", "3.250", "0.500"]);
        assert!(lines[4].ends_with("1 done, 3 failed"));
        // A column ends where its name does.
        for name in ["Mbit/s", "startup s", "MB", "buffer s"] {
            let end = lines[0].find(name).unwrap() + name.len();
            assert!(lines[1].is_char_boundary(end) && !lines[1][..end].ends_with(' '), "{name}\n{text}");
            assert!(lines[1][end..].starts_with(' '), "{name}\n{text}");
        }
        assert!(table(&rows(), &sum, 9).contains("waiting"));
    }

    #[test]
    fn a_reason_is_told_once_and_does_not_act() {
        assert_eq!(reasons(&rows()), ["player 2 and 1 more: it is gone", "player 4: \\u{1b}[2J"]);
    }

    #[test]
    fn json_has_the_names_that_are_promised() {
        let row = serde_json::to_value(&rows()[1]).unwrap();
        assert_eq!(row["player"], 2);
        assert_eq!((&row["state"], &row["error"]), (&"failed".into(), &"it is gone".into()));
        let sum = serde_json::to_value(TableSum::of(&rows(), Duration::from_secs(40), None)).unwrap();
        for name in ["average_bitrate_mbps", "rebuffering_s", "startup_mean_s", "switches", "bytes", "cpu_s"]
        {
            assert!(sum.get(name).is_some(), "{name}");
        }
    }
}
