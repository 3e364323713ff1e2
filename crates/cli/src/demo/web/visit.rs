//! A page that looks at the demonstration, by a WebSocket (RFC 6455).
//!
//! *It gets:* first a text of JSON with what there is ([`greeting`]). Then, several times a second, such a
//! text with how the modes do. And binary messages, the frames: of each mode whose picture has changed its
//! number (one byte), how many cells follow (two bytes, the greater first), and the cells as
//! [`LiveWatch::changes`] has them.
//!
//! *It sends:* the text `drawn` for each frame that it has drawn, and `loss L` when the links are to lose L.
//! Anything else ends the session.
//!
//! A frame is what has changed since the one before it, and none is made while [`MOST_UNDRAWN`] have not been
//! drawn. So a page that is slow, or reads nothing, loses frames and not pixels, sees what is there now and
//! not what once was, and costs the memory of a frame.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use quickset_base::number::Unsigned as _;
use quickset_lab::demo::{DemoConfig, DemoMode, LiveFigures, LiveWatch};
use quickset_lab::screen::{CELL, HEIGHT, SeenCells, WIDTH, rgb};
use quickset_sim::LossModel;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Error, Message};

use super::LivePage;

/// What each page is told first.
pub(super) fn greeting(plan: &DemoConfig, pace: u32, watch: &LiveWatch, losses: &[LossModel]) -> Value {
    let title = |mode| match mode {
        DemoMode::Total => "Total order",
        DemoMode::Partial => "Partial order",
        DemoMode::Repaired => "Partial order, repaired",
        DemoMode::Latest => "Latest",
    };
    let modes: Vec<_> = watch.modes().map(|mode| json!({ "name": mode, "title": title(mode) })).collect();
    json!({
        "width": WIDTH,
        "height": HEIGHT,
        "cell": CELL,
        "palette": (0..=u8::MAX).map(rgb).collect::<Vec<_>>(),
        "modes": modes,
        "pace": pace,
        "span_s": LiveFigures::SPAN.as_secs_f64(),
        "link": {
            "rate": plan.rate.to_string(),
            "rtt_ms": plan.rtt.as_secs_f64() * 1e3,
            "queue": plan.queue.to_string(),
            "congestion": plan.congestion.to_string(),
            "fec": plan.protection.to_string(),
        },
        "losses": losses.iter().map(LossModel::to_string).collect::<Vec<_>>(),
    })
}

/// What a page wants.
enum PageWish {
    /// It has drawn a frame.
    Drawn,
    /// The links are to lose this.
    Lose(LossModel),
    /// To know that we are there, which is answered already.
    Nothing,
    /// To leave.
    Leave,
    /// Nothing that a page of ours would want.
    Nonsense,
}

/// A page, and what it has seen.
struct LookingPage<'a> {
    page: &'a LivePage,
    seen: Vec<SeenCells>,
    /// Frames that were sent and not drawn yet.
    undrawn: usize,
    /// When a frame was drawn last, or sent while there were none to draw.
    moved: Instant,
}

/// Shows a page how the modes do until it leaves, or the demonstration ends.
pub(super) async fn visit<S>(stream: S, page: &LivePage)
where
    S: AsyncRead + AsyncWrite + Send + Unpin,
{
    let config = WebSocketConfig::default()
        .max_message_size(Some(MOST_WISH))
        .max_frame_size(Some(MOST_WISH))
        // What is written leaves at once, and waits for the socket.
        .write_buffer_size(0)
        .max_write_buffer_size(MOST_UNSENT);
    let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
    if let Err(error) = LookingPage::new(page).look(socket).await {
        tracing::debug!(%error, "a page has left");
    }
}

impl<'a> LookingPage<'a> {
    fn new(page: &'a LivePage) -> Self {
        let seen = page.watch.modes().map(|_| SeenCells::new()).collect();
        Self { page, seen, undrawn: 0, moved: Instant::now() }
    }

    async fn look<S>(mut self, mut socket: WebSocketStream<S>) -> Result<(), Error>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin,
    {
        let mut ended = self.page.ended.clone();
        let mut frames = tokio::time::interval(BETWEEN_FRAMES);
        let mut figures = tokio::time::interval(BETWEEN_FIGURES);
        for ticks in [&mut frames, &mut figures] {
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        send(&mut socket, Message::text(self.page.greeting.as_str())).await?;
        loop {
            let draws = self.undrawn < MOST_UNDRAWN;
            tokio::select! {
                message = socket.next() => match self.wish(message) {
                    PageWish::Drawn => (self.undrawn, self.moved) = (self.undrawn - 1, Instant::now()),
                    PageWish::Lose(loss) => self.page.watch.set_loss(loss),
                    PageWish::Nothing => {}
                    PageWish::Leave => return Ok(()),
                    PageWish::Nonsense => return close(socket, CloseCode::Policy, "not understood").await,
                },
                _ = frames.tick(), if draws => if let Some(frame) = self.frame() {
                    send(&mut socket, Message::Binary(frame)).await?;
                },
                _ = figures.tick(), if draws => {
                    send(&mut socket, Message::text(self.figures().to_string())).await?;
                }
                () = tokio::time::sleep_until(self.moved + PATIENCE), if !draws => {
                    return close(socket, CloseCode::Policy, "nothing was drawn for long").await;
                }
                () = super::over(&mut ended) => return close(socket, CloseCode::Away, "ended").await,
            }
        }
    }

    /// What has changed; nothing where nothing has.
    fn frame(&mut self) -> Option<Bytes> {
        let mut frame = Vec::new();
        for (mode, seen) in self.seen.iter_mut().enumerate() {
            let head = frame.len();
            frame.extend_from_slice(&[mode.saturated::<u8>(), 0, 0]);
            let cells = self.page.watch.changes(mode, seen, &mut frame);
            if cells == 0 {
                frame.truncate(head);
            } else {
                frame[head + 1..head + 3].copy_from_slice(&cells.saturated::<u16>().to_be_bytes());
            }
        }
        if frame.is_empty() {
            return None;
        }
        if self.undrawn == 0 {
            self.moved = Instant::now();
        }
        self.undrawn += 1;
        Some(frame.into())
    }

    fn figures(&self) -> Value {
        let watch = &self.page.watch;
        json!({ "loss": watch.loss().to_string(), "waits": watch.is_waiting(), "modes": watch.figures() })
    }

    fn wish(&self, message: Option<Result<Message, Error>>) -> PageWish {
        let text = match message {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => return PageWish::Nothing,
            Some(Ok(Message::Close(_))) | None => return PageWish::Leave,
            Some(Ok(_) | Err(_)) => return PageWish::Nonsense,
        };
        if text.as_str() == "drawn" && self.undrawn > 0 {
            return PageWish::Drawn;
        }
        let named = |loss: &&LossModel| text.strip_prefix("loss ") == Some(loss.to_string().as_str());
        self.page.losses.iter().find(named).cloned().map_or(PageWish::Nonsense, PageWish::Lose)
    }
}

/// Sends a message, as long as it is taken in time.
async fn send<S>(socket: &mut WebSocketStream<S>, message: Message) -> Result<(), Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin,
{
    let late = |_| Error::Io(std::io::ErrorKind::TimedOut.into());
    tokio::time::timeout(PATIENCE, socket.send(message)).await.map_err(late)?
}

/// Says why this is the end.
async fn close<S>(mut socket: WebSocketStream<S>, code: CloseCode, why: &'static str) -> Result<(), Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin,
{
    let frame = CloseFrame { code, reason: why.into() };
    let farewell = async {
        socket.close(Some(frame)).await?;
        // What it had sent is read, or the end would overtake the reason.
        while let Some(Ok(_)) = socket.next().await {}
        Ok(())
    };
    tokio::time::timeout(FAREWELL, farewell).await.unwrap_or(Ok(()))
}

/// 30 frames a second at most.
const BETWEEN_FRAMES: Duration = Duration::from_micros(33_334);
/// Figures are for reading.
const BETWEEN_FIGURES: Duration = Duration::from_millis(250);
/// Frames on their way to a page: one that it draws, and one that it gets meanwhile.
const MOST_UNDRAWN: usize = 2;
/// How long a page may draw nothing, or take nothing.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long it may take to leave.
const FAREWELL: Duration = Duration::from_millis(500);
/// The longest message of a page, in bytes.
const MOST_WISH: usize = 1 << 10;
/// What waits for the socket, in bytes: a frame that has all of four pictures, 3.7 MB.
const MOST_UNSENT: usize = 8 << 20;
