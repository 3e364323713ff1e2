//! One player in front of one server, by the clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use quickset_play::{Action, PlayError, Player, Resource};

use super::fetch::{ContentKeep, Fetched, Fetcher};
use super::table::{Board, PlayerRow, PlayerStatus};

/// A player, and who fetches for it.
pub(super) struct PlayViewer {
    /// Its place on the board.
    pub(super) place: usize,
    pub(super) player: Player,
    pub(super) fetcher: Fetcher,
    /// What its times are since.
    pub(super) began: Instant,
    pub(super) board: Arc<Board>,
    /// Why the last fetch failed, and how many did.
    pub(super) failure: Option<String>,
    pub(super) failures: u64,
}

impl PlayViewer {
    /// Plays from `start` on to the end, and tells the board how it goes. What fetched for it is left to be
    /// closed.
    pub(super) async fn play(mut self, start: Duration) -> Fetcher {
        tokio::time::sleep_until((self.began + start).into()).await;
        loop {
            match self.player.poll(self.began.elapsed()) {
                Action::Fetch { resource, read } => {
                    self.fetch(&resource, read).await;
                    // Whoever fetches all the time never sleeps.
                    self.tell(PlayerStatus::Playing, None);
                }
                Action::Sleep(until) => {
                    self.tell(PlayerStatus::Playing, None);
                    let left = until.map_or(TICK, |until| until.saturating_sub(self.began.elapsed()));
                    tokio::time::sleep(left.min(TICK)).await;
                }
                Action::Done => {
                    self.tell(PlayerStatus::Done, None);
                    break;
                }
                Action::Failed(error) => {
                    let why = match (&error, &self.failure) {
                        (PlayError::Fetch(_), Some(failure)) => format!("{error}: {failure}"),
                        _ => error.to_string(),
                    };
                    self.tell(PlayerStatus::Failed, Some(why));
                    break;
                }
            }
        }
        self.fetcher
    }

    async fn fetch(&mut self, resource: &Resource, read: bool) {
        // A player reads no more than it asked for.
        let asked =
            resource.range.as_ref().map_or(0, |range| (range.end() - range.start()).saturating_add(1));
        let keep = if read {
            ContentKeep::UpTo(usize::try_from(asked).unwrap_or(usize::MAX))
        } else {
            ContentKeep::Nothing
        };
        let Self { place, player, fetcher, began, board, failures, .. } = self;
        let mut fetch = std::pin::pin!(fetcher.fetch(resource, keep));
        let fetched = loop {
            tokio::select! {
                fetched = &mut fetch => break fetched,
                // What is in the buffer is played meanwhile.
                () = tokio::time::sleep(TICK) => {
                    player.poll(began.elapsed());
                    board.set(PlayerRow::of(*place, PlayerStatus::Playing, player, *failures));
                }
            }
        };
        match fetched {
            Ok(Fetched { bytes, first_byte, content, .. }) => {
                player.first_byte(first_byte.saturating_duration_since(*began));
                player.arrived(began.elapsed(), bytes, &content);
            }
            Err(error) => {
                player.failed(began.elapsed());
                self.failures += 1;
                self.failure = Some(format!("{error:#}"));
            }
        }
    }

    fn tell(&self, state: PlayerStatus, error: Option<String>) {
        let mut row = PlayerRow::of(self.place, state, &self.player, self.failures);
        row.error = error;
        self.board.set(row);
    }
}

/// How often a player says how it goes.
const TICK: Duration = Duration::from_millis(250);
