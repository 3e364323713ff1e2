use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quickset::Endpoint;
use quickset_base::Time;
use quickset_rfb::Resize;
use quickset_screen::sound::{SENDS_SOUND, SoundStats};
use quickset_screen::visit::NOT_SENT;
use tokio::sync::{Notify, mpsc};
use tokio::time::{sleep, sleep_until, timeout};

use super::counted::ViewStats;
use super::desk::ViewerScreen;
use super::dial::Dialer;
use super::inputs::Act;
use super::meet::{MeetError, Meeting, Met};
use crate::backoff::Backoff;
use crate::error::LinkError;
use crate::link::{IncomingMessages, IncomingScreen, LinkConfig, MessageOutbox, PeerLink, ScreenArrival};
use crate::message::{
    ClipboardMessage, FromClient, FromServer, PersonInput, ScreenLayout, ScreenOrder, code,
};
use crate::receiver::{ReceiverConfig, ScreenReceiver};
use crate::record::{RecorderTap, ScreenRecorder};
use crate::sound::hear::{SoundSink, hear};

/// Keeps the session with the server up, and draws what it sends.
#[derive(Debug)]
pub(super) struct Uplink {
    meeting: Meeting,
    desk: Arc<ViewerScreen>,
    receiver: ScreenReceiver,
    stats: ViewStats,
    told: mpsc::Sender<ViewNews>,
    /// Where sound goes; `None`: nobody wants to hear.
    sink: Option<SoundSink>,
    /// Bits per second that the server is asked to send at most.
    /// What the server is asked for.
    wishes: Vec<FromClient>,
    /// Where what is seen is written.
    pub(super) recorder: Option<ScreenRecorder>,
    started: Instant,
}

/// What becomes of the session with the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ViewNews {
    /// There is a session.
    Connected {
        /// The server as it was named.
        server: String,
        /// The name of the desktop, in the words of the server.
        name: String,
        /// It is by TCP: UDP does not get through.
        by_tcp: bool,
        /// Columns and rows of the desktop; `None` when the server has shown none within three seconds.
        size: Option<(u16, u16)>,
    },
    /// There is one again, and what was typed before was not sent: too much time has passed, or the server
    /// does not know whether it has passed it on ([`NOT_SENT`]).
    NotSent,
    /// There is none, and another one is tried.
    Away {
        /// The server as it was named.
        server: String,
        /// Why there is none; in part the words of the server.
        error: String,
        /// After how long the next one is tried.
        wait: Duration,
    },
}

impl Uplink {
    /// Tells `told` of sessions, as far as it is taken from there.
    pub(super) fn new(
        meeting: Meeting,
        desk: Arc<ViewerScreen>,
        told: mpsc::Sender<ViewNews>,
        sink: Option<SoundSink>,
    ) -> Self {
        let receiver = ScreenReceiver::new(ReceiverConfig::default());
        Self {
            meeting,
            desk,
            receiver,
            stats: ViewStats::default(),
            told,
            sink,
            wishes: Vec::new(),
            recorder: None,
            started: Instant::now(),
        }
    }

    /// The same that asks the server for what `link` wishes.
    pub(super) fn wishing(self, link: &LinkConfig) -> Self {
        let rate = link.wished_rate_bps.map(|bps| FromClient::Rate { bps });
        let quality = link
            .wished_quality
            .map(|quality| FromClient::Quality { least: quality.least(), most: quality.most() });
        Self { wishes: rate.into_iter().chain(quality).collect(), ..self }
    }

    pub(super) fn endpoint(&self) -> Endpoint {
        self.meeting.endpoint()
    }

    pub(super) fn stats(&self) -> ViewStats {
        self.stats.clone()
    }

    /// Meets the server again and again, until there is no sense in it.
    pub(super) async fn run(mut self) -> MeetError {
        let mut backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(8));
        let mut left: Option<PeerLink> = None;
        loop {
            let met = self.meeting.meet().await;
            // DT-58. Not before: what is held down goes over to the next session while there is this one.
            if let Some(left) = left.take() {
                left.close(code::DONE, b"the session goes on by another way");
            }
            let error = match met {
                Ok(met) => {
                    let (link, met_at) = (met.link.clone(), Instant::now());
                    let end = self.session(met).await;
                    backoff.worked(met_at.elapsed());
                    self.desk.inputs.end();
                    match end {
                        SessionEnd::Over(error) => {
                            link.fail(&error);
                            error.into()
                        }
                        SessionEnd::Moved(other) => {
                            // DT-58: viewers keep what they see until the next picture.
                            left = Some(link);
                            self.meeting.go_on_by(other);
                            continue;
                        }
                    }
                }
                Err(error) => error,
            };
            if error.is_final() {
                self.desk.set_away(&error.to_string(), false);
                if self.desk.has_viewers() {
                    // They read in the title why it is over.
                    sleep(LAST_WORDS).await;
                }
                return error;
            }
            self.desk.set_away(&error.to_string(), true);
            let wait = backoff.next().max(error.wait());
            tracing::info!(server = self.meeting.server(), %error, ?wait, "no session; trying again");
            let server = self.meeting.server().to_owned();
            self.tell(ViewNews::Away { server, error: error.to_string(), wait });
            sleep(wait).await;
        }
    }

    /// Nobody who listens is waited for.
    fn tell(&self, news: ViewNews) {
        let _ = self.told.try_send(news);
    }

    async fn session(&mut self, met: Met) -> SessionEnd {
        let Met { link, mut control, mut control_out, welcome } = met;
        let by_tcp = matches!(link, PeerLink::Tcp(_));
        // DT-56.
        let order = if by_tcp { ScreenOrder::Ordered } else { welcome.order };
        self.receiver.reconnected(order);
        let tap = self.recorder.as_ref().map(|recorder| RecorderTap::new(recorder, order));
        if let Some(tap) = &tap {
            tap.name(&welcome.name);
        }
        self.desk.set_name(&titled(&welcome.name, by_tcp));
        let opened = timeout(Duration::from_secs(10), link.open_input()).await;
        let mut input_out = match opened.unwrap_or(Err(LinkError::Silent)) {
            Ok(out) => out,
            Err(error) => return SessionEnd::Over(error),
        };
        let _live = self.stats.begin(&link);
        self.desk.set_may_wish(welcome.permissions.wish);
        let missed = match self.desk.inputs.begin(&welcome) {
            Ok(missed) => missed,
            Err(fault) => return SessionEnd::Over(fault.into()),
        };
        if missed {
            self.tell(ViewNews::NotSent);
        }
        tracing::info!(server = self.meeting.server(), order = %welcome.order, by_tcp, "a session");
        let (to_server, outgoing) = mpsc::channel(OUTGOING);
        for wish in &self.wishes {
            // DT-78, DT-84. There is room: they are the first.
            let _ = to_server.try_send(wish.clone());
        }
        let (desk, dialer) = (self.desk.clone(), self.meeting.dialer());
        let tell_by = Some(tokio::time::Instant::now() + FIRST_PICTURE);
        let recorder = self.recorder.clone();
        let (texts_here, sink, stats) = (Notify::new(), self.sink.clone(), self.stats.clone());
        // DT-67.
        let sink = sink.filter(|_| welcome.features & SENDS_SOUND != 0);
        let sound = async {
            match &sink {
                Some(sink) => {
                    let tell = |sound: &SoundStats, delay| {
                        let totals = &mut stats.lock().totals;
                        (totals.sound, totals.sound_delay) = (*sound, delay);
                    };
                    hear(&link, &texts_here, sink, tell).await
                }
                None => std::future::pending().await,
            }
        };
        let mut drawing = Drawing {
            uplink: self,
            link: &link,
            to_server: to_server.clone(),
            tell_by,
            texts_here: &texts_here,
            tap,
        };
        tokio::select! {
            error = pass_input(&desk, &mut input_out, to_server, recorder.as_ref()) => SessionEnd::Over(error),
            error = pass_control(&mut control_out, outgoing) => SessionEnd::Over(error),
            error = drawing.run(&mut control) => SessionEnd::Over(error),
            never = show_notice(&desk, missed) => match never {},
            never = sound => match never {},
            other = another_way(&dialer, &link) => SessionEnd::Moved(other),
        }
    }
}

/// DT-65: viewers read for a while that something was not sent.
async fn show_notice(desk: &ViewerScreen, missed: bool) -> Infallible {
    if missed {
        desk.set_notice(Some(NOT_SENT));
        sleep(NOTICE).await;
        desk.set_notice(None);
    }
    std::future::pending().await
}

/// What ends a session.
enum SessionEnd {
    Over(LinkError),
    /// There is a better connection for the next one.
    Moved(PeerLink),
}

/// DT-58: a better connection than the one that there is, as soon as there is one.
async fn another_way(dialer: &Dialer, link: &PeerLink) -> PeerLink {
    match link {
        PeerLink::Tcp(_) => dialer.back_by_quic().await,
        PeerLink::Gateway(connection) => dialer.instead_of(connection).await,
        PeerLink::Page(_) => std::future::pending().await,
    }
}

/// The desktop's name as viewers show it: whoever waits longer than usual reads why.
fn titled(name: &str, by_tcp: bool) -> String {
    if by_tcp { format!("{name} (by TCP: UDP does not get through)") } else { name.to_owned() }
}

/// What viewers do goes to the server, in order.
async fn pass_input(
    desk: &ViewerScreen,
    out: &mut MessageOutbox,
    to_server: mpsc::Sender<FromClient>,
    recorder: Option<&ScreenRecorder>,
) -> LinkError {
    loop {
        let sent = match desk.inputs.next().await {
            Act::Input(input) => {
                // RC-10: of what somebody does, where they point to and nothing else.
                if let (Some(recorder), PersonInput::Pointer { x, y, .. }) = (recorder, &input) {
                    recorder.pointer(*x, *y);
                }
                out.send(&input).await
            }
            Act::Wish { width, height, screens } => {
                let wish = FromClient::Wish { width, height, screens };
                to_server.send(wish).await.map_err(|_| LinkError::Ended)
            }
        };
        if let Err(error) = sent {
            return error;
        }
    }
}

async fn pass_control(out: &mut MessageOutbox, mut messages: mpsc::Receiver<FromClient>) -> LinkError {
    while let Some(message) = messages.recv().await {
        if let Err(error) = out.send(&message).await {
            return error;
        }
    }
    LinkError::Ended
}

/// One session's screen.
struct Drawing<'a> {
    uplink: &'a mut Uplink,
    link: &'a PeerLink,
    to_server: mpsc::Sender<FromClient>,
    /// It is told that there is a session with the first picture, or then; `None`: it was told.
    tell_by: Option<tokio::time::Instant>,
    /// Is told of the clipboard's stream: the next is that of sound (DT-68).
    texts_here: &'a Notify,
    tap: Option<RecorderTap>,
}

/// What happens in a session.
enum UplinkEvent {
    Control(Result<FromServer, LinkError>),
    Stream(IncomingScreen),
    Text(Result<ClipboardMessage, LinkError>),
    TextStream(IncomingMessages<ClipboardMessage>),
    Message(ScreenArrival),
    /// The batch is to be shown.
    Show,
    /// There is no picture yet.
    Late,
    /// Something may be due.
    Time,
    Closed(LinkError),
}

impl Drawing<'_> {
    async fn run(&mut self, control: &mut IncomingMessages<FromServer>) -> LinkError {
        let mut stream: Option<IncomingScreen> = None;
        let mut texts: Option<IncomingMessages<ClipboardMessage>> = None;
        // When the batch that has begun becomes an update.
        let mut show_at: Option<tokio::time::Instant> = None;
        loop {
            let wait = self.wait();
            let event = tokio::select! {
                message = control.next() => UplinkEvent::Control(message),
                opened = self.link.accept_screen() => match opened {
                    Ok(stream) => UplinkEvent::Stream(stream),
                    Err(error) => UplinkEvent::Closed(error),
                },
                opened = self.link.accept_clipboard(), if texts.is_none() => match opened {
                    Ok(stream) => UplinkEvent::TextStream(stream),
                    Err(error) => UplinkEvent::Closed(error),
                },
                message = next_of(&mut stream) => UplinkEvent::Message(message),
                text = next_text(&mut texts) => UplinkEvent::Text(text),
                () = until(show_at) => UplinkEvent::Show,
                () = until(self.tell_by) => UplinkEvent::Late,
                () = sleep(wait) => UplinkEvent::Time,
            };
            let begun = Instant::now();
            let done = match event {
                UplinkEvent::Control(Ok(message)) => self.on_control(message).await,
                UplinkEvent::Control(Err(error))
                | UplinkEvent::Closed(error)
                | UplinkEvent::Message(ScreenArrival::Failed(error)) => Err(error),
                UplinkEvent::Stream(new) => {
                    // DT-4: what was not read of the old one is forgotten.
                    stream = Some(new);
                    Ok(())
                }
                UplinkEvent::TextStream(new) => {
                    texts = Some(new);
                    self.texts_here.notify_one();
                    Ok(())
                }
                UplinkEvent::Text(text) => text.map(|text| self.on_text(&text)),
                UplinkEvent::Message(ScreenArrival::Message { payload, was_held }) => {
                    show_at.get_or_insert_with(|| tokio::time::Instant::now() + BATCH);
                    self.draw(&payload, was_held, stream.as_mut())
                }
                UplinkEvent::Message(ScreenArrival::Over) => {
                    stream = None;
                    Ok(())
                }
                UplinkEvent::Show => {
                    show_at = None;
                    self.show()
                }
                UplinkEvent::Late => {
                    self.tell_once(None);
                    Ok(())
                }
                UplinkEvent::Time => Ok(()),
            };
            let done = match done {
                Ok(()) => self.report().await,
                error => error,
            };
            if let Err(error) = done {
                // What has come is shown, whatever comes next.
                let _ = self.show();
                return error;
            }
            if begun.elapsed() > MOMENT {
                // Everybody else has a turn, whatever is ready here: whoever stops this, and viewers.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Draws a message, and those that are there already, for a moment: twenty bytes are enough for another
    /// size of the screen, or to paint all of it.
    fn draw(
        &mut self,
        first: &[u8],
        was_held: bool,
        stream: Option<&mut IncomingScreen>,
    ) -> Result<(), LinkError> {
        let mut held = u64::from(was_held);
        self.take(first)?;
        if let Some(stream) = stream {
            let until = Instant::now() + MOMENT;
            for _ in 0..AT_ONCE {
                if Instant::now() > until {
                    break;
                }
                match stream.try_next() {
                    Some(ScreenArrival::Message { payload, was_held }) => {
                        held += u64::from(was_held);
                        self.take(&payload)?;
                    }
                    // The next look at the stream finds its end.
                    None | Some(ScreenArrival::Over) => break,
                    Some(ScreenArrival::Failed(error)) => return Err(error),
                }
            }
        }
        let mut counted = self.uplink.stats.lock();
        counted.totals.held += held;
        counted.totals.screen = *self.uplink.receiver.stats();
        Ok(())
    }

    /// Draws one message.
    fn take(&mut self, message: &[u8]) -> Result<(), LinkError> {
        let receiver = &mut self.uplink.receiver;
        let stale = receiver.stats().stale;
        receiver.receive(message)?;
        if let Some(tap) = self.tap.as_mut().filter(|_| receiver.stats().stale == stale) {
            tap.message(message);
        }
        Ok(())
    }

    /// A batch becomes an update for viewers.
    fn show(&mut self) -> Result<(), LinkError> {
        let Uplink { receiver, desk, stats, .. } = &mut *self.uplink;
        let changes = receiver.changes();
        let mut size = None;
        let screen = receiver.screen();
        if changes.resized {
            let (width, height) = (screen.width(), screen.height());
            let too_large =
                |_| crate::message::MessageFault::TooLarge { width: width.into(), height: height.into() };
            desk.resize(width, height).map_err(too_large)?;
            size = Some((width, height));
        }
        if !changes.damage.is_empty() {
            desk.draw(screen, &changes.damage);
            stats.lock().totals.batches += 1;
        }
        if let Some(tap) = &mut self.tap {
            tap.show(screen, &changes);
        }
        if size.is_some() {
            self.tell_once(size);
        }
        Ok(())
    }

    fn tell_once(&mut self, size: Option<(u16, u16)>) {
        if self.tell_by.take().is_some() {
            let (server, name) = (self.uplink.meeting.server().to_owned(), self.uplink.desk.server_name());
            let by_tcp = self.is_by_tcp();
            self.uplink.tell(ViewNews::Connected { server, name, by_tcp, size });
        }
    }

    async fn on_control(&mut self, message: FromServer) -> Result<(), LinkError> {
        let desk = &self.uplink.desk;
        match message {
            FromServer::Share { .. } | FromServer::Welcome(_) | FromServer::Pong(_) => {}
            FromServer::Mark(mark) => {
                let now = self.now();
                self.uplink.receiver.mark(now, mark);
            }
            FromServer::Layout(ScreenLayout { reason, status, width, height, screens }) => {
                desk.set_layout(&Resize { width, height, reason, status, screens });
            }
            FromServer::Cursor(cursor) => {
                if let Some(tap) = &self.tap {
                    tap.cursor(&cursor);
                }
                desk.set_cursor(cursor);
            }
            FromServer::Name(name) => {
                if let Some(tap) = &self.tap {
                    tap.name(&name);
                }
                desk.set_name(&titled(&name, self.is_by_tcp()));
            }
            FromServer::Leds(leds) => desk.set_leds(leds),
            FromServer::Bell => desk.bell(),
            // Of a server that does not know DT-46.
            FromServer::Clipboard(text) => self.on_text(&text),
            FromServer::Taken(count) => desk.inputs.taken(count)?,
            FromServer::Ping(n) => {
                self.to_server.send(FromClient::Pong(n)).await.map_err(|_| LinkError::Ended)?;
            }
        }
        Ok(())
    }

    fn on_text(&self, clipboard: &ClipboardMessage) {
        let desk = &self.uplink.desk;
        match clipboard {
            ClipboardMessage::Offer => desk.text_offered(),
            ClipboardMessage::Ask => desk.text_asked(),
            ClipboardMessage::Paste(text) => desk.text_came(text),
        }
    }

    /// Tells the server what is missing.
    async fn report(&mut self) -> Result<(), LinkError> {
        while let Some(message) = self.uplink.receiver.control(self.now()) {
            self.to_server.send(message).await.map_err(|_| LinkError::Ended)?;
            // It may be a refresh, which is counted.
            self.uplink.stats.lock().totals.screen = *self.uplink.receiver.stats();
        }
        Ok(())
    }

    fn is_by_tcp(&self) -> bool {
        matches!(self.link, PeerLink::Tcp(_))
    }

    fn wait(&self) -> Duration {
        let due = self.uplink.receiver.next_deadline();
        due.map_or(LONG, |due| due.since(self.now()).max(Duration::from_millis(1)))
    }

    fn now(&self) -> Time {
        Time::ZERO + self.uplink.started.elapsed()
    }
}

/// The next message of the stream; without one, never.
async fn next_of(stream: &mut Option<IncomingScreen>) -> ScreenArrival {
    match stream {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}

/// The next of the server's clipboard; without its stream, never.
async fn next_text(
    texts: &mut Option<IncomingMessages<ClipboardMessage>>,
) -> Result<ClipboardMessage, LinkError> {
    match texts {
        Some(texts) => texts.next().await,
        None => std::future::pending().await,
    }
}

async fn until(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// How long a session is not told of, for want of a picture.
const FIRST_PICTURE: Duration = Duration::from_secs(3);
/// How long viewers read that something was not sent.
const NOTICE: Duration = Duration::from_secs(10);
/// How long viewers may take to read why there will be no session.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// How long what arrives is gathered for one update: it costs a viewer 45 µs, a rectangle in it 15 µs.
const BATCH: Duration = Duration::from_micros(1500);
/// Messages drawn before anything else has its turn.
const AT_ONCE: usize = 64;
/// How long what the server says is taken in before others have their turn.
const MOMENT: Duration = Duration::from_millis(5);
/// When nothing is due.
const LONG: Duration = Duration::from_secs(3600);
/// Control messages under way.
const OUTGOING: usize = 64;
