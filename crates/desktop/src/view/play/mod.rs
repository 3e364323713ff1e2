//! A recording, shown to viewers as a desktop is.
//!
//! *In:* the file; keys of viewers, by which they stop and turn. *Out:* the desk. Parts: `clock` says which
//! time of the recording is now, `playback` draws it. Nothing is played while nobody watches.

mod clock;
mod playback;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use quickset_base::Time;
use quickset_rfb::{Limits, Security, VncPassword};
use quickset_screen::recording::{RecordingError, RecordingPlayer};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use self::clock::PlayClock;
use self::playback::{PlayOrder, Playback};
use super::desk::ViewerScreen;
use super::inputs::Act;
use super::{ViewError, listen, take_viewers};
use crate::message::{Permissions, PersonInput, ScreenOrder, Welcome};

/// What is to be played, and to whom.
#[derive(Clone, Debug)]
pub struct ReplayConfig {
    /// The recording.
    pub file: PathBuf,
    /// Where viewers connect; see [`ViewConfig::listen`](super::ViewConfig::listen).
    pub listen: SocketAddr,
    /// What viewers must know, if anything.
    pub viewer_password: Option<VncPassword>,
    /// How many times as fast as it was, 1/16 to 64.
    pub speed: f64,
    /// Where to begin.
    pub from: Duration,
}

/// Plays a recording to viewers.
#[derive(Debug)]
pub struct ReplayGateway {
    listener: TcpListener,
    address: SocketAddr,
    security: Security,
    desk: Arc<ViewerScreen>,
    playback: Playback<File>,
    file: PathBuf,
}

/// Why a recording is not played.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It cannot be opened, or is none.
    #[error("cannot play {}: {error}", file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// Why not.
        error: RecordingError,
    },
    /// No viewers can come.
    #[error(transparent)]
    View(#[from] ViewError),
}

impl ReplayGateway {
    /// Opens the recording and listens for viewers.
    ///
    /// # Errors
    /// When there is nothing to play, and when viewers cannot connect.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers and I/O.
    pub async fn start(config: ReplayConfig) -> Result<Self, ReplayError> {
        let ReplayConfig { file, viewer_password, speed, from, .. } = config;
        let (listener, address) = listen(config.listen, viewer_password.is_some()).await?;
        let limit = Limits::default().framebuffer_bytes;
        let desk = Arc::new(ViewerScreen::new(limit));
        let player = (|| {
            let mut player = RecordingPlayer::open(File::open(&file)?, limit)?;
            player.seek(Time::ZERO + from)?;
            Ok::<_, RecordingError>(player)
        })();
        let player = player.map_err(|error| ReplayError::File { file: file.clone(), error })?;
        let clock = PlayClock::new(player.position(), speed);
        let security = viewer_password.map_or(Security::None, Security::VncAuth);
        Ok(Self { listener, address, security, desk, playback: Playback::new(player, clock), file })
    }

    /// Where viewers connect.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Plays until `stop` is ready.
    ///
    /// # Errors
    /// When the file cannot be read any more.
    pub async fn run_until<T>(self, stop: impl Future<Output = T>) -> Result<T, ReplayError> {
        let Self { listener, security, desk, playback, file, .. } = self;
        let (orders, ordered) = mpsc::channel();
        let (tell, ended) = oneshot::channel();
        let (shown, error_in) = (desk.clone(), file.clone());
        let thread = std::thread::Builder::new().name("player".to_owned());
        let started = thread.spawn(move || {
            let _ = tell.send(play(playback, &shown, &ordered));
        });
        let failed = |error: std::io::Error| ReplayError::File { file: file.clone(), error: error.into() };
        started.map_err(failed)?;
        tokio::select! {
            // It ends only when the file cannot be read.
            Ok(Err(error)) = ended => Err(ReplayError::File { file: error_in, error: error.into() }),
            never = take_viewers(listener, desk.clone(), security) => match never {},
            never = hear(&desk, orders) => match never {},
            stopped = stop => Ok(stopped),
        }
    }
}

/// Keys that viewers press are orders.
async fn hear(desk: &ViewerScreen, orders: mpsc::Sender<PlayOrder>) -> Infallible {
    let permissions = Permissions { input: true, clipboard: false, wish: false };
    let (order, name) = (ScreenOrder::Ordered, String::new());
    let begun = desk.inputs.begin(&Welcome { features: 0, order, permissions, name, visit: None });
    debug_assert_eq!(begun, Ok(false), "nothing was done before");
    loop {
        if let Act::Input(PersonInput::Key { down: true, keysym, .. }) = desk.inputs.next().await {
            if let Some(order) = PlayOrder::of(keysym) {
                // Without the thread there is nobody to obey.
                let _ = orders.send(order);
            }
        }
    }
}

/// Plays until nobody can give an order any more.
fn play(
    mut playback: Playback<File>,
    desk: &ViewerScreen,
    orders: &mpsc::Receiver<PlayOrder>,
) -> std::io::Result<()> {
    let started = Instant::now();
    let now = || Time::ZERO + started.elapsed();
    loop {
        playback.watched(now(), desk.has_viewers());
        let next = playback.turn(now(), desk)?;
        let wait = next.since(now()).min(LOOK);
        match orders.recv_timeout(wait) {
            Ok(order) => playback.obey(now(), order)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

/// How often it is looked whether somebody watches.
const LOOK: Duration = Duration::from_millis(100);
