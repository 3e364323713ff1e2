//! The viewer's gateway: a VNC server on this machine to unmodified viewers, a client of the far gateway.
//!
//! *In:* local TCP connections of viewers; the link. *Out:* updates for viewers, their input for the link.
//! Parts: `meet` connects and makes sure of the server, `uplink` keeps the session up and draws, `desk` holds
//! what viewers are shown and what each has not been told, `viewer` serves one of them, `telling` is what it
//! is told at one time, encoded while the desk is others', `owner` says which are let in, `pointer` paints
//! the pointer for those that do not, `overlay` the words in a corner, which are `figures`, `inputs` is what
//! they do, `nearness` whether pixels are packed for them. `play` is a recording in place of a link.
//!
//! Invariants: the last picture stays when the link is down, and what is typed then is kept for ten seconds,
//! and sent once; a viewer that does not read costs an area, not a queue; a batch of 1.5 ms becomes one
//! update.

mod counted;
mod desk;
mod dial;
mod figures;
mod inputs;
mod meet;
mod nearness;
mod overlay;
mod owner;
mod play;
mod pointer;
mod telling;
#[cfg(test)]
mod tests;
mod uplink;
mod viewer;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quickset::Identity;
use quickset_rfb::{Limits, Security, VncPassword};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};

pub use counted::{ViewStats, ViewTotals};
pub use meet::{Credential, GatewayPassword, MeetError, ServerTrust};
pub use play::{ReplayConfig, ReplayError, ReplayGateway};
pub use quickset_screen::visit::NOT_SENT;
pub use uplink::ViewNews;

use crate::link::LinkConfig;
use crate::message::code;
use crate::record::ScreenRecorder;
use crate::sound::SoundCommand;
use crate::sound::hear::SoundPlayer;
use crate::trust::DesktopLabel;
use desk::ViewerScreen;
use meet::Meeting;
use uplink::Uplink;
use viewer::LocalViewer;

/// What a viewer's gateway is to do.
#[derive(Clone, Debug)]
pub struct ViewConfig {
    /// The far gateway, HOST:PORT.
    pub server: String,
    /// Where viewers connect. Of those on this machine, without a password, the user's own and root's are let
    /// in, and on systems where it cannot be found out whose they are there has to be one. Those of other
    /// machines are let in by nothing but their address, so it should be one of the loopback.
    pub listen: SocketAddr,
    /// Whom to believe to be the server.
    pub trust: ServerTrust,
    /// What to show besides the key.
    pub credential: Credential,
    /// The one of the server's desktops to see; `None`: the first that we may.
    pub desktop: Option<DesktopLabel>,
    /// Our key.
    pub identity: Identity,
    /// What viewers must know, if anything.
    pub viewer_password: Option<VncPassword>,
    /// What plays the sound of the desktop, where the server offers it; `None`: it is not asked for.
    pub sound: Option<SoundCommand>,
    /// The connection.
    pub link: LinkConfig,
}

/// A viewer's gateway that takes viewers.
#[derive(Debug)]
pub struct ViewGateway {
    listener: TcpListener,
    address: SocketAddr,
    desk: Arc<ViewerScreen>,
    uplink: Uplink,
    news: Option<mpsc::Receiver<ViewNews>>,
    security: Security,
    player: Option<SoundPlayer>,
}

/// Why a viewer's gateway has ended, or did not begin.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// Viewers cannot connect.
    #[error("cannot listen on {address}: {error}; choose another port with --listen")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        error: io::Error,
    },
    /// Here it cannot be found out whose viewers are.
    #[error(
        "on this system it cannot be found out which user a viewer belongs to: choose a password for viewers with --viewer-password-file"
    )]
    NoPassword,
    /// No UDP socket.
    #[error("cannot open a UDP socket: {0}")]
    Socket(io::Error),
    /// There will be no session with the server.
    #[error(transparent)]
    Meet(#[from] MeetError),
}

impl ViewGateway {
    /// Begins to listen for viewers.
    ///
    /// # Errors
    /// When a socket cannot be bound, and without a password for viewers where that has to be one.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers and I/O.
    pub async fn start(config: ViewConfig) -> Result<Self, ViewError> {
        let (listener, address) = listen(config.listen, config.viewer_password.is_some()).await?;
        let desk = Arc::new(ViewerScreen::new(Limits::default().framebuffer_bytes));
        let link = config.link.clone();
        let meeting = Meeting::new(
            config.server,
            config.trust,
            config.credential,
            config.desktop,
            config.identity,
            config.link,
        )
        .map_err(ViewError::Socket)?;
        let (told, news) = mpsc::channel(NEWS);
        let (sink, player) = config.sound.map(SoundPlayer::new).unzip();
        let meeting = if sink.is_some() { meeting.with_sound() } else { meeting };
        let uplink = Uplink::new(meeting, desk.clone(), told, sink).wishing(&link);
        let security = config.viewer_password.map_or(Security::None, Security::VncAuth);
        Ok(Self { listener, address, desk, uplink, news: Some(news), security, player })
    }

    /// The same, and what is seen is recorded from now on, whether somebody watches or not. Where the
    /// recording fails the gateway goes on: [`ScreenRecorder::failed`] says so.
    #[must_use]
    pub fn with_recorder(mut self, recorder: ScreenRecorder) -> Self {
        self.uplink.recorder = Some(recorder);
        self
    }

    /// The same, and viewers see how the connection is in a box in the upper right corner of the picture. The
    /// keys Control, Alt, Shift and O together hide it and show it again, and do not go to the server.
    #[must_use]
    pub fn with_overlay(self) -> Self {
        self.desk.begin_overlay();
        self
    }

    /// Where viewers connect.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// What becomes of the session with the server, from the start on; the first time this is called. What is
    /// not taken is forgotten beyond the first few.
    pub fn news(&mut self) -> Option<mpsc::Receiver<ViewNews>> {
        self.news.take()
    }

    /// What is counted, now and later.
    pub fn stats(&self) -> ViewStats {
        self.uplink.stats()
    }

    /// Serves viewers, and keeps the session with the server up, until there will never be one; and says why.
    pub async fn run(self) -> ViewError {
        let Err(error) = Box::pin(self.run_until(std::future::pending::<Infallible>())).await;
        error
    }

    /// The same, until `stop` is ready: then the server is told that the session is over.
    ///
    /// # Errors
    /// Why it ended before.
    pub async fn run_until<T>(self, stop: impl Future<Output = T>) -> Result<T, ViewError> {
        let Self { listener, desk, uplink, security, player, .. } = self;
        let ends = uplink.endpoint();
        let (shown, stats) = (desk.clone(), uplink.stats());
        let result = tokio::select! {
            error = uplink.run() => Err(error.into()),
            never = take_viewers(listener, desk, security) => match never {},
            never = play_sound(player) => match never {},
            never = figures::show(&shown, &stats) => match never {},
            stopped = stop => Ok(stopped),
        };
        ends.close(code::DONE, b"the viewer's gateway was stopped");
        // The server hears of it, or has had the time to.
        let _ = tokio::time::timeout(Duration::from_secs(1), ends.wait_idle()).await;
        result
    }
}

/// Listens for viewers, who have a password or not.
async fn listen(at: SocketAddr, password: bool) -> Result<(TcpListener, SocketAddr), ViewError> {
    if !password && !owner::is_known() {
        return Err(ViewError::NoPassword);
    }
    let failed = |error| ViewError::Listen { address: at, error };
    let listener = TcpListener::bind(at).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// Keeps what plays sound, if anything does.
async fn play_sound(player: Option<SoundPlayer>) -> Infallible {
    match player {
        Some(player) => player.run().await,
        None => std::future::pending().await,
    }
}

/// Serves each viewer in a task of its own; when this is dropped, they end.
async fn take_viewers(listener: TcpListener, desk: Arc<ViewerScreen>, security: Security) -> Infallible {
    let mut viewers = tokio::task::JoinSet::new();
    let places = Arc::new(Semaphore::new(MOST_VIEWERS));
    loop {
        if places.available_permits() == 0 {
            tracing::warn!(MOST_VIEWERS, "all places are taken; the next viewer waits until one leaves");
        }
        let place = places.clone().acquire_owned().await.expect("it is never closed");
        let socket = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((socket, from)) => {
                    tracing::info!(%from, "a viewer");
                    socket
                }
                Err(error) => {
                    // Out of descriptors, most likely: others will leave.
                    tracing::warn!(%error, "cannot take a viewer");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
            Some(_) = viewers.join_next() => continue,
        };
        let (desk, security) = (desk.clone(), security.clone());
        viewers.spawn(async move {
            if let Err(error) = LocalViewer::serve(socket, desk, security).await {
                tracing::info!(%error, "a viewer is gone");
            }
            drop(place);
        });
    }
}

/// News that wait for somebody.
const NEWS: usize = 64;
/// Viewers at a time.
const MOST_VIEWERS: usize = 32;
