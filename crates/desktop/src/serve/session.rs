use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quickset::{
    Connection, Deadline, MessageSender, Outcome, Outcomes, Protection, SendError, Stats, TicketId,
    TrySendError,
};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::ServeShared;
use super::census::ServeStats;
use super::door::{Admitted, HearsFrom};
use super::input::{take_input, tell_counts};
use super::page_screen::show_page;
use super::stage::ClientSeat;
use super::tcp_screen::{TCP_BUDGET, show_by_tcp};
use super::visits::VisitTurn;
use super::vnc::VncCommand;
use crate::channel::DesktopChannel;
use crate::error::LinkError;
use crate::link::{IncomingMessages, MessageOutbox, PeerLink};
use crate::message::{
    ADAPTIVE, CLIPBOARD, ClipboardMessage, FULL_COLOUR, FromClient, FromServer, InputCopy, PATCHES,
    Permissions, ScreenOrder, code,
};
use crate::sender::{JpegQuality, LinkEstimate, ScreenItem, SenderConfig};
use crate::sound::give::{NumberedFrames, give_sound};

/// A client that looks.
#[derive(Debug)]
pub(super) struct ClientSession {
    link: PeerLink,
    control: IncomingMessages<FromClient>,
    control_out: MessageOutbox,
    seat: ClientSeat,
    permissions: Permissions,
    /// The client takes the clipboard on a stream of its own.
    takes_texts: bool,
    /// What it hears.
    sound: Option<NumberedFrames>,
    /// Whether it wants to.
    hears: watch::Sender<bool>,
    commands: mpsc::Sender<VncCommand>,
    stats: ServeStats,
    protection: Protection,
    /// Bits per second that the client is sent at most, whatever it wishes.
    max_rate_bps: Option<u64>,
    /// A new screen stream is wanted.
    restart: Arc<tokio::sync::Notify>,
}

impl ClientSession {
    /// And what it does, which outlives it.
    pub(super) fn new(link: PeerLink, admitted: Admitted, shared: &ServeShared) -> (Self, VisitTurn) {
        let budget = match &link {
            PeerLink::Tcp(_) => TCP_BUDGET,
            _ => budget(&link.stats()),
        };
        // DT-56: by TCP a client reads in the order ordered, in which copies have no versions.
        let order = if link.is_tcp() { ScreenOrder::Ordered } else { shared.terms.order };
        let config = SenderConfig {
            order,
            budget,
            quality: shared.quality,
            adaptive: admitted.takes(ADAPTIVE),
            patches: admitted.takes(PATCHES),
            full_colour: admitted.takes(FULL_COLOUR),
            ..SenderConfig::default()
        };
        let hears = watch::Sender::new(admitted.hears == Some(HearsFrom::Beginning));
        let sound = shared.sound.clone().filter(|_| admitted.hears.is_some());
        let takes_texts = admitted.takes(CLIPBOARD);
        let session = Self {
            seat: admitted.desktop.stage.sit(config),
            link,
            control: admitted.control,
            control_out: admitted.control_out,
            permissions: admitted.permissions,
            takes_texts,
            sound: sound.map(|source| NumberedFrames::new(source, hears.subscribe())),
            hears,
            commands: admitted.desktop.commands,
            stats: shared.stats.clone(),
            protection: shared.protection.clone(),
            max_rate_bps: shared.max_rate_bps,
            restart: Arc::default(),
        };
        (session, admitted.turn)
    }

    /// Serves the client until something ends.
    pub(super) async fn run(self, turn: &mut VisitTurn) -> LinkError {
        let Self {
            link,
            mut control,
            mut control_out,
            seat,
            permissions,
            takes_texts,
            sound,
            hears,
            commands,
            stats,
            protection,
            max_rate_bps,
            restart,
        } = self;
        let _entry = stats.enter(&link, &seat);
        let (replies, to_reply) = mpsc::channel(REPLIES);
        // An old client hears of the clipboard with everything else.
        let (old_replies, counts) = (replies.clone(), replies.clone());
        let (copies, copied) = mpsc::channel(COPIES);
        let told = turn.told();
        // A page has no stream for it.
        let (of_page, sound) = match &link {
            PeerLink::Page(_) => (sound, None),
            _ => (None, sound),
        };
        let texts = async {
            if takes_texts {
                give_aside(&link, &seat, permissions, sound).await
            } else {
                pass_texts(&seat, permissions, old_replies).await
            }
        };
        let listen = listen(
            &mut control,
            &seat,
            permissions,
            ControlAnswers {
                link: &link,
                max_rate_bps,
                commands: &commands,
                replies,
                restart: &restart,
                hears: &hears,
            },
        );
        tokio::select! {
            error = tell(&mut control_out, &seat, to_reply) => error,
            error = texts => error,
            error = take_input(&link, &seat, permissions, turn, copied) => error,
            error = tell_counts(told, counts) => error,
            error = listen => error,
            error = show(&link, &seat, &restart, protection, of_page, &copies) => error,
        }
    }
}

/// Where a client's control messages lead to.
struct ControlAnswers<'a> {
    link: &'a PeerLink,
    max_rate_bps: Option<u64>,
    commands: &'a mpsc::Sender<VncCommand>,
    replies: mpsc::Sender<FromServer>,
    restart: &'a tokio::sync::Notify,
    hears: &'a watch::Sender<bool>,
}

/// Control messages of the client.
async fn listen(
    control: &mut IncomingMessages<FromClient>,
    seat: &ClientSeat,
    permissions: Permissions,
    to: ControlAnswers<'_>,
) -> LinkError {
    loop {
        let message = match control.next().await {
            Ok(message) => message,
            Err(error) => return error,
        };
        match message {
            FromClient::Refresh(refresh) if refresh.restart => {
                tracing::info!("the client asks for a new screen stream");
                to.restart.notify_one();
            }
            FromClient::Refresh(refresh) => {
                seat.sender().refresh(&refresh);
                seat.drawn.notify_one();
            }
            FromClient::Unable { item } => {
                seat.sender().unable(item);
                seat.drawn.notify_one();
            }
            FromClient::Wish { width, height, screens } => {
                // DT-8.
                if permissions.wish {
                    let wish = VncCommand::Wish { client: seat.id(), width, height, screens };
                    if to.commands.send(wish).await.is_err() {
                        return LinkError::Ended;
                    }
                }
            }
            FromClient::Rate { bps } => {
                // DT-78: with less than that not even the answers to pings would get through.
                let wish = (bps > 0).then_some(bps.max(LEAST_RATE));
                let most = wish.into_iter().chain(to.max_rate_bps).min();
                tracing::info!(?most, "the client wishes to be sent no more bits per second");
                to.link.set_max_rate_bps(most);
            }
            FromClient::Quality { least, most } => {
                // DT-84: what is no pair is no wish.
                let wish = JpegQuality::new(least, most);
                tracing::info!(?wish, "the client wishes for pictures of this quality");
                seat.sender().wish_quality(wish);
            }
            FromClient::Ping(n) => {
                // DT-13. Whoever asks faster than it listens waits.
                if to.replies.send(FromServer::Pong(n)).await.is_err() {
                    return LinkError::Ended;
                }
            }
            // DT-76.
            FromClient::Hear(wanted) => {
                to.hears.send_replace(wanted);
            }
            FromClient::Hello(_) | FromClient::Proof(_) | FromClient::Pong(_) => {}
        }
    }
}

/// DT-46: the clipboard on a stream of its own, so that a long text holds up neither the pointer nor marks.
///
/// DT-68: and behind it sound, if there is any for this client.
async fn give_aside(
    link: &PeerLink,
    seat: &ClientSeat,
    permissions: Permissions,
    sound: Option<NumberedFrames>,
) -> LinkError {
    let out = match link.open_clipboard().await {
        Ok(out) => out,
        Err(error) => return error,
    };
    let Some(sound) = sound else { return give_texts(out, seat, permissions).await };
    tokio::select! {
        error = give_texts(out, seat, permissions) => error,
        error = give_sound(link, sound) => error,
    }
}

async fn give_texts(mut out: MessageOutbox, seat: &ClientSeat, permissions: Permissions) -> LinkError {
    loop {
        for text in next_texts(seat, permissions).await {
            if let Err(error) = out.send(&text).await {
                return error;
            }
        }
    }
}

/// To a client that knows of no such stream, with everything else.
async fn pass_texts(seat: &ClientSeat, permissions: Permissions, to: mpsc::Sender<FromServer>) -> LinkError {
    loop {
        for text in next_texts(seat, permissions).await {
            if to.send(FromServer::Clipboard(text)).await.is_err() {
                return LinkError::Ended;
            }
        }
    }
}

/// News of the clipboard, as far as that is allowed (DT-8).
async fn next_texts(seat: &ClientSeat, permissions: Permissions) -> Vec<ClipboardMessage> {
    loop {
        let texts = seat.texts();
        if permissions.clipboard && !texts.is_empty() {
            return texts;
        }
        seat.copied.notified().await;
    }
}

/// Control messages for the client.
async fn tell(
    out: &mut MessageOutbox,
    seat: &ClientSeat,
    mut replies: mpsc::Receiver<FromServer>,
) -> LinkError {
    loop {
        let (mut messages, now) = (seat.news(), seat.now());
        let (mark, due) = {
            let mut sender = seat.sender();
            (sender.control(now), sender.next_deadline())
        };
        messages.extend(mark);
        while let Ok(reply) = replies.try_recv() {
            messages.push(reply);
        }
        for message in &messages {
            if let Err(error) = out.send(message).await {
                return error;
            }
        }
        if !messages.is_empty() {
            continue;
        }
        // The screen stream polls at the same deadline, and its messages make marks due.
        let wait = due.map_or(LONG, |due| due.since(now).max(TICK));
        tokio::select! {
            () = seat.told.notified() => {}
            Some(reply) = replies.recv() => {
                if let Err(error) = out.send(&reply).await {
                    return error;
                }
            }
            () = sleep(wait) => {}
        }
    }
}

/// Shows the screen by what the peer understands.
async fn show(
    link: &PeerLink,
    seat: &ClientSeat,
    restart: &tokio::sync::Notify,
    protection: Protection,
    sound: Option<NumberedFrames>,
    copies: &mpsc::Sender<InputCopy>,
) -> LinkError {
    match link {
        PeerLink::Gateway(connection) => show_gateway(connection, seat, restart, protection).await,
        PeerLink::Tcp(link) => show_by_tcp(link, seat, restart).await,
        PeerLink::Page(session) => show_page(session, seat, restart, sound, copies).await,
    }
}

/// Shows the screen on a fenced stream: encodes what has changed whenever the connection has room.
async fn show_gateway(
    connection: &Connection,
    seat: &ClientSeat,
    restart: &tokio::sync::Notify,
    protection: Protection,
) -> LinkError {
    loop {
        let mut stream = match connection.open_messages().await {
            Ok(stream) => stream.with(protection.clone()),
            Err(closed) => return LinkError::Closed(closed),
        };
        stream.set_priority(DesktopChannel::Screen.priority());
        let outcomes = stream.outcomes();
        let mut screen =
            ScreenStream { connection, seat, stream, outcomes, flying: Flying::default(), rests: false };
        tokio::select! {
            error = screen.run() => return error,
            // DT-4. Nothing of the new epoch may go to the old stream, and no outcome of the old one to the
            // sender.
            () = restart.notified() => screen.stream.reset(code::RESTART),
        }
        drop(screen);
        seat.sender().restart();
    }
}

/// One screen stream.
struct ScreenStream<'a> {
    connection: &'a Connection,
    seat: &'a ClientSeat,
    stream: MessageSender,
    outcomes: Outcomes,
    flying: Flying,
    /// At the last look the client had all there is.
    rests: bool,
}

/// Messages whose fate is not known yet.
#[derive(Default)]
struct Flying {
    /// What the sender calls a message, and its bytes.
    messages: BTreeMap<TicketId, (u64, usize)>,
    tickets: BTreeMap<u64, TicketId>,
    bytes: usize,
}

impl ScreenStream<'_> {
    async fn run(&mut self) -> LinkError {
        loop {
            let low = match self.fill() {
                Ok(low) => low,
                Err(error) => return error,
            };
            self.look_for_rest();
            let (due, now) = (self.seat.sender().next_deadline(), self.seat.now());
            let wait = due.map_or(LONG, |due| due.since(now).max(TICK));
            tokio::select! {
                () = self.seat.drawn.notified() => {}
                outcome = self.outcomes.next() => {
                    let Some((ticket, outcome)) = outcome else { return self.ended() };
                    self.land(ticket, outcome);
                    while let Some((ticket, outcome)) = self.outcomes.try_next() {
                        self.land(ticket, outcome);
                    }
                }
                drained = drained(&mut self.stream, low) => if let Err(error) = drained {
                    return error.into();
                },
                () = sleep(wait) => {}
            }
            while let Some(id) = self.seat.sender().superseded() {
                if let Some(ticket) = self.flying.tickets.get(&id) {
                    self.stream.supersede(*ticket);
                }
            }
        }
    }

    /// Hands over messages while there is room. When there is more to come: how little has to be unsent
    /// before it is time to look again.
    fn fill(&mut self) -> Result<Option<u64>, LinkError> {
        let stats = self.connection.stats();
        {
            let mut sender = self.seat.sender();
            sender.set_budget(budget(&stats));
            sender.set_link(estimate(&stats));
        }
        let pace = Pace::of(&stats).for_messages_of(self.seat.sender().budget());
        let Pace { queue, rtt } = pace;
        let mut unsent = usize::try_from(self.stream.unsent()).unwrap_or(usize::MAX);
        let patience = (rtt * 9 / 10).max(LEAST_PATIENCE);
        let budget = self.seat.sender().budget();
        let mut sent = false;
        let low = loop {
            let left = queue.saturating_sub(unsent);
            if left < budget {
                break Some(pace.low(budget) as u64);
            }
            if self.flying.bytes >= MOST_FLYING {
                // Outcomes make room.
                break None;
            }
            let now = self.seat.now();
            let outgoing = self.seat.sender().poll(now, left);
            let (id, payload, keep) = match outgoing {
                None => break None,
                Some(ScreenItem::Fence) => {
                    self.stream.fence();
                    continue;
                }
                Some(ScreenItem::Flush) => {
                    self.stream.flush();
                    continue;
                }
                Some(ScreenItem::Message { id, payload, keep }) => (id, payload, keep),
            };
            // One that may get lost is of no use a round trip later: by then it is encoded anew.
            let deadline = (!keep).then_some(Deadline::After(patience));
            let bytes = payload.len();
            match self.stream.try_send(payload, deadline) {
                Ok(ticket) => self.flying.add(id, ticket.id(), bytes),
                // There was room by our account, far below the stream's own.
                Err(TrySendError::Full(_)) => self.seat.sender().outcome(id, false),
                Err(TrySendError::Failed(SendError::Stopped(_))) => return Err(LinkError::Ended),
                Err(TrySendError::Failed(error)) => return Err(error.into()),
            }
            unsent = unsent.saturating_add(bytes);
            sent = true;
        };
        if sent {
            // Marks follow what is sent.
            self.seat.told.notify_one();
        }
        Ok(low)
    }

    /// DT-36: that the screen has come to rest is to be told, and what it came to rest by may be nothing that
    /// was sent: the fate of the last message, or that what has rested is without loss already.
    fn look_for_rest(&mut self) {
        let rests = self.seat.sender().is_at_rest();
        if rests && !self.rests {
            self.seat.told.notify_one();
        }
        self.rests = rests;
    }

    fn land(&mut self, ticket: TicketId, outcome: Outcome) {
        if let Some(id) = self.flying.landed(ticket) {
            self.seat.sender().outcome(id, outcome.is_delivered());
        }
    }

    /// There will be no more outcomes.
    fn ended(&self) -> LinkError {
        self.connection.close_reason().map_or(LinkError::Ended, LinkError::Closed)
    }
}

/// How much may wait to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Bytes: what leaves within a few milliseconds at the present rate. What waits for longer would be old
    /// when it leaves.
    pub(super) queue: usize,
    /// At least a tick.
    pub(super) rtt: Duration,
}

impl Pace {
    pub(super) fn of(stats: &Stats) -> Self {
        let in_flight = usize::try_from(stats.in_flight).unwrap_or(usize::MAX);
        let rtt = stats.rtt.max(TICK);
        let in_time =
            |time: Duration| in_flight.saturating_mul(time.as_micros() as usize) / rtt.as_micros() as usize;
        Self { queue: LEAST_ROOM.saturating_add(in_time(QUEUE)), rtt }
    }

    /// Two messages as long as this always fit.
    fn for_messages_of(self, budget: usize) -> Self {
        let least = (budget * 2).saturating_sub(LEAST_ROOM);
        Self { queue: self.queue.saturating_add(least), ..self }
    }

    /// How much of a full queue still waits when it is time to look again: with half of it gone there is time
    /// enough to encode the next half. A message of `budget` bytes has room then.
    pub(super) fn low(self, budget: usize) -> usize {
        self.queue.saturating_sub(budget).min(self.queue / 2)
    }
}

/// What QUIC knows of the path: the bandwidth that its controller has estimated, as far as its window allows,
/// or the window alone.
pub(super) fn estimate(stats: &Stats) -> LinkEstimate {
    let rtt = u64::try_from(stats.rtt.max(TICK).as_micros()).unwrap_or(u64::MAX);
    let window = stats.window.saturating_mul(1_000_000) / rtt;
    let rate = stats.bandwidth.map_or(window, |bandwidth| bandwidth.min(window));
    LinkEstimate { rate: Some(rate).filter(|&rate| rate > 0), min_rtt: stats.min_rtt }
}

/// The longest screen message that fits a packet, of the size that the path takes now.
fn budget(stats: &quickset::Stats) -> usize {
    stats.mtu.current.saturating_sub(PACKET_OVERHEAD)
}

/// Waits until there is room again, if there was none.
async fn drained(stream: &mut MessageSender, low: Option<u64>) -> Result<(), SendError> {
    match low {
        Some(low) => stream.drained_to(low).await,
        None => std::future::pending().await,
    }
}

impl Flying {
    fn add(&mut self, id: u64, ticket: TicketId, bytes: usize) {
        self.bytes += bytes;
        self.messages.insert(ticket, (id, bytes));
        self.tickets.insert(id, ticket);
    }

    fn landed(&mut self, ticket: TicketId) -> Option<u64> {
        let (id, bytes) = self.messages.remove(&ticket)?;
        self.tickets.remove(&id);
        self.bytes -= bytes;
        Some(id)
    }
}

/// Bits per second: less is never wished for in earnest.
const LEAST_RATE: u64 = 100_000;
/// Answers under way to one client.
const REPLIES: usize = 16;
/// Datagrams with input messages that wait for the desktop.
const COPIES: usize = 16;
/// When nothing is due.
pub(super) const LONG: Duration = Duration::from_secs(3600);
/// The resolution of timers.
pub(super) const TICK: Duration = Duration::from_millis(1);
/// What a packet has besides a screen message: headers of packet and frame, and the seal.
const PACKET_OVERHEAD: usize = 50;
/// Bytes that may wait to be sent, however slow the path: a burst of a dozen packets, and the longest
/// message.
const LEAST_ROOM: usize = 16 << 10;
/// How long they may wait at the present rate.
const QUEUE: Duration = Duration::from_millis(8);
/// Bytes of messages whose fate is not known, about at most: less than the stream's send buffer.
const MOST_FLYING: usize = 4 << 20;
/// For scheduling and pacing on a short path.
const LEAST_PATIENCE: Duration = Duration::from_millis(25);
