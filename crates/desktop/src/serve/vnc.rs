use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Buf as _;
use quickset::Race;
use quickset_rfb::{
    Client, ClientConfig, ClientEvent, ClipboardCaps, Error, ExtendedClipboard as Extended, Formats,
    RfbExtension, RfbRefusal, Screen, VncPassword,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::stage::ServerScreen;
use super::vnc_error::VncError;
use crate::backoff::Backoff;
use crate::clip::ClipboardWay;
use crate::local;
use crate::message::PersonInput;
use crate::place;

/// What viewers want of the VNC server, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum VncCommand {
    /// A key or the pointer.
    Input(PersonInput),
    /// A viewer has copied a text, to be asked for.
    Offer,
    /// A viewer pastes: the server's text, please.
    Ask,
    /// A viewer's text.
    Paste(String),
    /// Another size.
    Wish { client: u64, width: u16, height: u16, screens: Vec<Screen> },
}

/// The connection to the VNC server, made anew whenever it ends.
#[derive(Debug)]
pub(crate) struct Vnc {
    target: String,
    password: Option<VncPassword>,
    commands: mpsc::Receiver<VncCommand>,
    stage: ServerScreen,
    /// How long it may take for its first word, and for the handshake.
    patience: (Duration, Duration),
}

impl Vnc {
    pub(crate) fn new(
        target: String,
        password: Option<VncPassword>,
        commands: mpsc::Receiver<VncCommand>,
        stage: ServerScreen,
    ) -> Self {
        Self { target, password, commands, stage, patience: (GREETING, HANDSHAKE) }
    }

    /// Keeps up the connection until there is no sense in it.
    pub(crate) async fn run(mut self) -> VncError {
        let mut backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(8));
        loop {
            let mut began = None;
            let error = self.session(&mut began).await;
            backoff.worked(began.map(|began: Instant| began.elapsed()).unwrap_or_default());
            self.stage.lost(error.lasting());
            if error.is_final() {
                return error;
            }
            let wait = backoff.next();
            tracing::warn!(%error, ?wait, "trying again");
            // What viewers do meanwhile is for nobody, and wishes want an answer.
            let drain = async {
                while let Some(command) = self.commands.recv().await {
                    if let VncCommand::Wish { client, .. } = command {
                        self.stage.prohibited(client);
                    }
                }
            };
            let _ = timeout(wait, drain).await;
            // All senders are gone only when the gateway ends; then this task does, too.
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Until it ends; `began` is when the handshake was over.
    async fn session(&mut self, began: &mut Option<Instant>) -> VncError {
        let target = self.target.clone();
        let io_error = |error| VncError::Io { target: target.clone(), error };
        let connect = async {
            let addresses = place::look_up(&target, None).await?;
            let race = Race::new(&addresses, TcpStream::connect::<SocketAddr>);
            // Who refuses tells no less than who is silent.
            race.first(|_| 0).await.map_err(|error| error.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
        };
        let mut socket = match timeout(CONNECT, connect).await {
            Ok(Ok(socket)) => socket,
            Ok(Err(error)) => return io_error(error),
            Err(_) => return io_error(io::ErrorKind::TimedOut.into()),
        };
        if let Err(error) = local::prepare(&socket) {
            return io_error(error);
        }
        let config = ClientConfig { password: self.password.clone(), ..ClientConfig::default() };
        let mut session = VncSession {
            rfb: Client::new(config),
            stage: &self.stage,
            clip: VncClipboard::default(),
            continuous: false,
            asked: None,
        };
        let (mut from, mut to) = socket.split();
        let mut input = vec![0; 256 << 10];
        let (start, mut heard) = (Instant::now(), false);
        // What of the input is not taken in yet, and whether anything is.
        let (mut left, mut more) = (0..0, false);
        loop {
            if more {
                let mut rest = &input[left.clone()];
                more = match session.feed(&mut rest) {
                    Ok(more) => more,
                    Err(error) => return VncError::rfb(target, error),
                };
                left.start = left.end - rest.len();
                if more {
                    // Everybody else has a turn, whatever is ready here: the stage is got only while nobody
                    // is at it.
                    sleep(TURN).await;
                }
            }
            session.give();
            let waiting = session.rfb.output().len();
            if session.rfb.size().is_some() {
                began.get_or_insert_with(Instant::now);
            }
            let limit = if heard { self.patience.1 } else { self.patience.0 };
            tokio::select! {
                () = sleep_until(start + limit), if session.rfb.size().is_none() => {
                    return if heard { VncError::Stuck { target } } else { VncError::Silent { target } };
                }
                read = from.read(&mut input), if !more && waiting < MOST_ANSWERS => match read {
                    Ok(0) => return VncError::Gone { target },
                    Ok(n) => (heard, left, more) = (true, 0..n, true),
                    Err(error) => return io_error(error),
                },
                () = std::future::ready(()), if more => {}
                written = async { to.write(session.rfb.output()).await }, if waiting > 0 => match written {
                    Ok(n) => session.rfb.output().advance(n),
                    Err(error) => return io_error(error),
                },
                Some(command) = self.commands.recv(), if waiting < MOST_WAITING => session.command(command),
            }
        }
    }
}

/// A connection with its state.
struct VncSession<'a> {
    rfb: Client,
    stage: &'a ServerScreen,
    clip: VncClipboard,
    continuous: bool,
    /// The size for which updates were asked.
    asked: Option<(u16, u16)>,
}

/// The clipboards, as the VNC server sees them.
#[derive(Debug, Default)]
struct VncClipboard {
    /// A viewer's text, if it has come.
    theirs: Option<String>,
    /// The VNC server waits for it.
    wanted: bool,
    /// It has asked for the text that is here, and not been given it.
    due: bool,
    /// The VNC server has a text to be requested.
    offered: bool,
    /// It was asked for it so many times, and has not answered.
    requests: u32,
    /// What it has said of its extended clipboard.
    caps: Option<ClipboardCaps>,
}

impl VncSession<'_> {
    /// Takes in what has come, for a moment: 16 bytes are enough for another size of the screen or a copy of
    /// all of it, and a read has thousands of them. True when there is more.
    fn feed(&mut self, input: &mut &[u8]) -> Result<bool, Error> {
        let until = Instant::now() + MOMENT;
        while Instant::now() < until {
            let Some(event) = self.rfb.receive(input)? else { return Ok(false) };
            match event {
                ClientEvent::Pixels { rect, pixels } => self.stage.pixels(rect, pixels),
                ClientEvent::Copy { rect, x, y } => self.stage.copy(rect, x, y),
                ClientEvent::Ready(init) => {
                    let (width, height) = (init.width, init.height);
                    if !self.stage.begin(width, height, &init.name) {
                        return Err(Error::FramebufferSize { width, height });
                    }
                    self.ask_all();
                }
                ClientEvent::UpdateEnd => {
                    self.stage.update_end();
                    if !self.continuous {
                        let (width, height) = self.rfb.size().unwrap_or_default();
                        refused(self.rfb.request(true, quickset_rfb::Rect::sized(width, height)));
                    }
                }
                ClientEvent::Cursor(cursor) => self.stage.cursor(cursor),
                ClientEvent::Resize(resize) => {
                    let (width, height) = (resize.width, resize.height);
                    if !self.stage.resize(resize) {
                        return Err(Error::FramebufferSize { width, height });
                    }
                    if self.asked != self.rfb.size() {
                        self.ask_all();
                    }
                }
                ClientEvent::Name(name) => self.stage.name(&name),
                ClientEvent::Leds(leds) => self.stage.leds(leds),
                ClientEvent::Bell => self.stage.bell(),
                ClientEvent::Text(text) => self.stage.text(&text),
                ClientEvent::Clipboard(message) => self.on_clipboard(message),
                ClientEvent::TextDropped { bytes } => {
                    tracing::warn!(bytes, "the VNC server's text is too long");
                }
                ClientEvent::TextBroken { bytes } => {
                    tracing::warn!(bytes, "the VNC server's text cannot be unpacked");
                }
                ClientEvent::Supports(RfbExtension::ContinuousUpdates) => self.ask_all(),
                ClientEvent::ContinuousUpdatesEnded => self.continuous = false,
                ClientEvent::Fence(_) | ClientEvent::Supports(_) | ClientEvent::Colours { .. } => {}
            }
        }
        Ok(true)
    }

    /// Asks for the whole screen, and for all that changes from then on.
    fn ask_all(&mut self) {
        let Some((width, height)) = self.rfb.size() else { return };
        let all = quickset_rfb::Rect::sized(width, height);
        self.asked = Some((width, height));
        if self.rfb.supports(RfbExtension::ContinuousUpdates) {
            refused(self.rfb.continuous_updates(Some(all)));
            self.continuous = true;
        }
        refused(self.rfb.request(false, all));
    }

    fn on_clipboard(&mut self, message: Extended) {
        match message {
            Extended::Notify(formats) => {
                (self.clip.offered, self.clip.requests) = (formats.text(), 0);
                if formats.text() {
                    self.clip.theirs = None;
                    self.stage.offer();
                }
            }
            Extended::Provide(text) => match self.clip.requests.checked_sub(1) {
                Some(left) => {
                    self.clip.requests = left;
                    self.stage.text_given(&text.unwrap_or_default());
                }
                // Unasked, whatever we said of that: what it means is that there is a new one.
                None => {
                    if let Some(text) = text {
                        (self.clip.offered, self.clip.theirs) = (false, None);
                        self.stage.text(&text);
                    }
                }
            },
            Extended::Request(_) => match &self.clip.theirs {
                // Twelve bytes ask for a megabyte: `give` answers as many as come before it as one.
                Some(_) => self.clip.due = true,
                // Whoever pastes there must not wait for ever.
                None if !self.stage.ask() => {
                    refused(self.rfb.clipboard(&Extended::Provide(Some(String::new()))));
                }
                None => self.clip.wanted = true,
            },
            Extended::Caps(caps) => self.clip.caps = Some(caps),
            Extended::Peek => {}
        }
    }

    /// Gives the VNC server the text that it has asked for, once it has taken all that was said before.
    fn give(&mut self) {
        if self.clip.due && self.rfb.output().is_empty() {
            self.clip.due = false;
            if let Some(text) = &self.clip.theirs {
                refused(self.rfb.clipboard(&Extended::Provide(Some(text.clone()))));
            }
        }
    }

    fn command(&mut self, command: VncCommand) {
        let extended = self.rfb.supports(RfbExtension::Clipboard);
        let way = if extended { ClipboardWay::of(self.clip.caps.as_ref()) } else { ClipboardWay::Plain };
        match command {
            VncCommand::Input(PersonInput::Key { down, keysym, keycode }) => {
                let coded = keycode.filter(|_| self.rfb.supports(RfbExtension::QemuKeys));
                refused(match coded {
                    Some(code) => self.rfb.key_code(down, keysym, code),
                    None => self.rfb.key(down, keysym),
                });
            }
            VncCommand::Input(PersonInput::Pointer { buttons, x, y }) => {
                refused(self.rfb.pointer(buttons, x, y));
            }
            // They have commands of their own, or are a key by then.
            VncCommand::Input(PersonInput::Clipboard(_) | PersonInput::Held { .. }) => {}
            VncCommand::Offer => {
                self.clip.theirs = None;
                if way.wants_text() {
                    // It cannot ask, and gets every text.
                    self.clip.wanted = true;
                    self.stage.ask();
                } else {
                    refused(self.rfb.clipboard(&Extended::Notify(Formats::TEXT)));
                }
            }
            VncCommand::Ask => {
                if self.clip.offered {
                    self.clip.requests += 1;
                    refused(self.rfb.clipboard(&Extended::Request(Formats::TEXT)));
                }
            }
            VncCommand::Paste(text) => {
                let wanted = std::mem::take(&mut self.clip.wanted);
                refused(match way {
                    ClipboardWay::Asked if !wanted => self.rfb.clipboard(&Extended::Notify(Formats::TEXT)),
                    ClipboardWay::Asked => self.rfb.clipboard(&Extended::Provide(Some(text.clone()))),
                    ClipboardWay::Given { .. } | ClipboardWay::Plain => self.rfb.text(&text),
                });
                // Behind the other, for a server that takes what it says it takes.
                if way.gives(&text) {
                    refused(self.rfb.clipboard(&Extended::Provide(Some(text.clone()))));
                }
                self.clip.theirs = Some(text);
            }
            VncCommand::Wish { client, width, height, mut screens } => {
                if screens.is_empty() {
                    screens = self.stage.one_screen(width, height);
                }
                match self.rfb.set_desktop_size(width, height, &screens) {
                    Ok(()) => self.stage.wished(client, (width, height)),
                    Err(_) => self.stage.prohibited(client),
                }
            }
        }
    }
}

/// What the VNC server cannot be told is left out.
fn refused(result: Result<(), RfbRefusal>) {
    if let Err(refusal) = result {
        tracing::debug!(%refusal, "the VNC server is not told");
    }
}

const CONNECT: Duration = Duration::from_secs(5);
/// The version comes first and takes no thought.
const GREETING: Duration = Duration::from_secs(10);
/// Somebody may be asked whether we may come in.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// How long what it says is taken in before others have their turn.
const MOMENT: Duration = Duration::from_millis(5);
const TURN: Duration = Duration::from_millis(1);
/// Bytes that may wait for a VNC server that does not read, before what viewers do waits.
const MOST_WAITING: usize = 1 << 20;
/// Before it is not read from, either: more than that and the longest text. Some servers do not read while
/// they write, and each would wait for the other; but one that never reads must not be answered for ever.
const MOST_ANSWERS: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use quickset_base::Rng;
    use quickset_rfb::{
        Limits, Resize, ResizeReason, ResizeStatus, Security, Server, ServerConfig, ServerEvent,
    };
    use tokio::net::TcpListener;

    use super::*;

    /// Both say what they have to say, until neither does; how many texts the server was given.
    fn talk(session: &mut VncSession<'_>, server: &mut Server) -> usize {
        let mut given = 0;
        loop {
            let heard = server.output().split();
            let mut heard = &heard[..];
            while session.feed(&mut heard).unwrap() {}
            session.give();
            let said = session.rfb.output().split();
            if said.is_empty() {
                return given;
            }
            let mut said = &said[..];
            while let Some(event) = server.receive(&mut said).unwrap() {
                given += usize::from(matches!(event, ServerEvent::Clipboard(Extended::Provide(Some(_)))));
            }
        }
    }

    /// A connection, and the VNC server at its other end.
    fn join(stage: &ServerScreen) -> (VncSession<'_>, Server) {
        let (security, name, limits) = (Security::None, "test".into(), Limits::default());
        let config = ServerConfig { security, name, width: 8, height: 8, is_local: true, limits };
        let (rfb, clip) = (Client::new(ClientConfig::default()), VncClipboard::default());
        let session = VncSession { rfb, stage, clip, continuous: false, asked: None };
        (session, Server::new(config, &mut Rng::new(1)))
    }

    #[test]
    fn others_have_their_turn_whatever_a_few_bytes_ask_for() {
        let stage = ServerScreen::new(1 << 27);
        let (mut session, mut server) = join(&stage);
        talk(&mut session, &mut server);
        for n in 0..60 {
            let (width, height) = (4000 + n % 2, 4000);
            let (reason, status, screens) = (ResizeReason::Server, ResizeStatus::Done, Vec::new());
            let resize = Resize { width, height, reason, status, screens };
            server.update().unwrap().resize(&resize).unwrap();
        }
        let said = server.output().split();
        let (mut rest, mut turns) = (&said[..], 1);
        while session.feed(&mut rest).unwrap() {
            turns += 1;
        }
        // Each takes longer than a moment: 64 MB are copied.
        assert!(turns > 10, "{turns}");
        assert_eq!((rest.len(), session.rfb.size()), (0, Some((4001, 4000))));
    }

    #[test]
    fn however_often_it_is_asked_for_a_text_is_given_once() {
        let stage = ServerScreen::new(1 << 10);
        let (mut session, mut server) = join(&stage);
        talk(&mut session, &mut server);
        session.command(VncCommand::Paste("a text".into()));
        assert_eq!(talk(&mut session, &mut server), 0, "nobody pastes yet");
        for _ in 0..2 {
            for _ in 0..100 {
                server.clipboard(&Extended::Request(Formats::TEXT)).unwrap();
            }
            assert_eq!(talk(&mut session, &mut server), 1);
        }
    }

    #[tokio::test]
    async fn a_port_that_says_nothing_is_left() {
        // What it says, and what is said of it.
        for (said, told) in
            [("", "does not greet; is it"), ("RFB", "handshake"), ("RFB 003.008\n", "handshake")]
        {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let target = listener.local_addr().unwrap().to_string();
            let server = tokio::spawn(async move {
                let (mut socket, _) = listener.accept().await.unwrap();
                socket.write_all(said.as_bytes()).await.unwrap();
                let mut heard = Vec::new();
                let _ = socket.read_to_end(&mut heard).await;
            });
            let (_commands, incoming) = mpsc::channel(1);
            let mut vnc = Vnc::new(target.clone(), None, incoming, ServerScreen::new(0));
            vnc.patience = (Duration::from_millis(200), Duration::from_millis(400));
            let error = timeout(Duration::from_secs(20), vnc.session(&mut None)).await.expect("it ends");
            assert!(error.to_string().contains(told) && error.to_string().contains(&target), "{error}");
            assert!(!error.is_final(), "it may be one that starts");
            timeout(Duration::from_secs(20), server).await.expect("it hangs up").unwrap();
        }
    }
}
