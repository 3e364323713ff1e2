use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Buf as _;
use quickset::Race;
use quickset_rfb::{
    Client, ClientConfig, ClientEvent, ClipboardCaps, Error, ExtendedClipboard as Extended, Formats,
    PlainLogin, RfbExtension, RfbRefusal, Screen, VencryptWish, VncPassword,
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::stage::ServerScreen;
use super::vnc_error::VncError;
use super::vnc_tls::VncTrust;
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

/// A VNC server, and what to show it.
#[derive(Clone, Debug)]
pub(crate) struct VncServer {
    /// HOST:PORT.
    pub(crate) target: String,
    pub(crate) password: Option<VncPassword>,
    pub(crate) login: Option<PlainLogin>,
    pub(crate) trust: VncTrust,
}

/// The connection to the VNC server, made anew whenever it ends.
#[derive(Debug)]
pub(crate) struct Vnc {
    server: VncServer,
    commands: mpsc::Receiver<VncCommand>,
    stage: ServerScreen,
    /// How long it may take for its first word, and for the handshake.
    patience: (Duration, Duration),
}

impl Vnc {
    pub(crate) fn new(server: VncServer, commands: mpsc::Receiver<VncCommand>, stage: ServerScreen) -> Self {
        Self { server, commands, stage, patience: (GREETING, HANDSHAKE) }
    }

    /// Keeps up the connection until there is no sense in it.
    pub(crate) async fn run(mut self) -> VncError {
        let mut backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(8));
        loop {
            let mut began = None;
            let mut error = self.session(&mut began, false).await;
            if error.goes_without() {
                let target = &self.server.target;
                tracing::warn!(
                    "the VNC server {target} is not encrypted: anybody in between can read along; {error}"
                );
                error = self.session(&mut began, true).await;
            }
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

    /// Until it ends; `began` is when the handshake was over. Unencrypted if it must be, when `clear`.
    async fn session(&mut self, began: &mut Option<Instant>, clear: bool) -> VncError {
        let VncServer { target, password, login, trust } = &self.server;
        let io_error = |error| VncError::Io { target: target.clone(), error };
        let mut socket = match connect(target).await {
            Ok(socket) => socket,
            Err(error) => return io_error(error),
        };
        let address = match socket.peer_addr() {
            Ok(address) => address.ip(),
            Err(error) => return io_error(error),
        };
        let vencrypt = match trust.wish(target, address) {
            Ok(VencryptWish::First) if clear => VencryptWish::Last,
            Ok(wish) => wish,
            Err(error) => return error.into(),
        };
        let (password, login) = (password.clone(), login.clone());
        let config = ClientConfig { password, login, vencrypt, ..ClientConfig::default() };
        let mut visit = VncVisit {
            session: VncSession {
                rfb: Client::new(config),
                stage: &self.stage,
                clip: VncClipboard::default(),
                continuous: false,
                asked: None,
                tls: false,
            },
            server: &self.server,
            commands: &mut self.commands,
            patience: self.patience,
            start: Instant::now(),
            heard: false,
            began,
        };
        let Err(error) = async {
            visit.talk(&mut socket).await?;
            let shake_hands = timeout_at(visit.start + visit.patience.1, trust.shake_hands(target, socket));
            let stuck = |_| VncError::Stuck { target: target.clone() };
            let mut stream = shake_hands.await.map_err(stuck)??;
            // TLS begins once.
            let begun = visit.session.rfb.tls_started();
            begun.map_err(|_| VncError::Stuck { target: target.clone() })?;
            visit.session.tls = false;
            visit.talk(&mut stream).await?;
            Err::<std::convert::Infallible, _>(VncError::Stuck { target: target.clone() })
        }
        .await;
        error
    }
}

/// The first of the server's addresses that answers.
async fn connect(target: &str) -> io::Result<TcpStream> {
    let connect = async {
        let addresses = place::look_up(target, None).await?;
        let race = Race::new(&addresses, TcpStream::connect::<SocketAddr>);
        // Who refuses tells no less than who is silent.
        race.first(|_| 0).await.map_err(|error| error.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
    };
    let socket = timeout(CONNECT, connect).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
    local::prepare(&socket)?;
    Ok(socket)
}

/// A connection, and what goes by it.
struct VncVisit<'a> {
    session: VncSession<'a>,
    server: &'a VncServer,
    commands: &'a mut mpsc::Receiver<VncCommand>,
    patience: (Duration, Duration),
    start: Instant,
    /// It has said something.
    heard: bool,
    began: &'a mut Option<Instant>,
}

impl VncVisit<'_> {
    /// Until TLS is to begin, on this same connection.
    ///
    /// # Errors
    /// Why it is over.
    async fn talk<S: AsyncRead + AsyncWrite>(&mut self, stream: S) -> Result<(), VncError> {
        let target = self.server.target.clone();
        let io_error = |error| VncError::Io { target: target.clone(), error };
        let (mut from, mut to) = tokio::io::split(stream);
        let mut input = vec![0; 256 << 10];
        // What of the input is not taken in yet, and whether anything is.
        let (mut left, mut more) = (0..0, false);
        // What TLS has taken, and may not have sent.
        let mut held = false;
        loop {
            if more {
                let mut rest = &input[left.clone()];
                more = self.session.feed(&mut rest).map_err(|error| self.failed(error))?;
                left.start = left.end - rest.len();
                if more {
                    // Everybody else has a turn, whatever is ready here: the stage is got only while nobody
                    // is at it.
                    sleep(TURN).await;
                }
            }
            self.session.give();
            let waiting = self.session.rfb.output().len();
            if self.session.tls && !more && waiting == 0 && !held {
                return Ok(());
            }
            let settled = self.session.rfb.size().is_some();
            if settled {
                self.began.get_or_insert_with(Instant::now);
            }
            let limit = if self.heard { self.patience.1 } else { self.patience.0 };
            tokio::select! {
                () = sleep_until(self.start + limit), if !settled => {
                    let is_stuck = self.heard;
                    return Err(if is_stuck { VncError::Stuck { target } } else { VncError::Silent { target } });
                }
                read = from.read(&mut input), if !more && !self.session.tls && waiting < MOST_ANSWERS => {
                    match read.map_err(io_error)? {
                        0 => return Err(VncError::Gone { target }),
                        n => (self.heard, left, more) = (true, 0..n, true),
                    }
                }
                () = std::future::ready(()), if more => {}
                sent = async {
                    let output = self.session.rfb.output();
                    if output.is_empty() { to.flush().await.map(|()| 0) } else { to.write(output).await }
                }, if waiting > 0 || held => {
                    self.session.rfb.output().advance(sent.map_err(io_error)?);
                    held = waiting > 0;
                }
                Some(command) = self.commands.recv(), if waiting < MOST_WAITING => {
                    self.session.command(command);
                }
            }
        }
    }

    fn failed(&self, error: Error) -> VncError {
        let target = &self.server.target;
        let reason = match (&self.server.trust, self.server.trust.known(target)) {
            (VncTrust::Known(_), Ok(Some((known, path)))) => Some(format!(
                "it was before, as line {} of {} says; remove that line if it is not to be any more",
                known.line,
                path.display()
            )),
            (VncTrust::Known(_) | VncTrust::Unencrypted, _) => None,
            (VncTrust::Pinned(_), _) => Some("--vnc-pin names its key".to_owned()),
            (VncTrust::Authorities(_), _) => Some("--vnc-ca names its authority".to_owned()),
        };
        VncError::rfb(target.clone(), error, reason)
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
    /// TLS is to begin.
    tls: bool,
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
                // What came behind it, if anything, is looked at here, too: nothing may.
                ClientEvent::StartTls => self.tls = true,
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
        let session = VncSession { rfb, stage, clip, continuous: false, asked: None, tls: false };
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
            let (password, login, trust) = (None, None, VncTrust::Unencrypted);
            let server_at = VncServer { target: target.clone(), password, login, trust };
            let mut vnc = Vnc::new(server_at, incoming, ServerScreen::new(0));
            vnc.patience = (Duration::from_millis(200), Duration::from_millis(400));
            let error =
                timeout(Duration::from_secs(20), vnc.session(&mut None, false)).await.expect("it ends");
            assert!(error.to_string().contains(told) && error.to_string().contains(&target), "{error}");
            assert!(!error.is_final(), "it may be one that starts");
            timeout(Duration::from_secs(20), server).await.expect("it hangs up").unwrap();
        }
    }
    #[tokio::test]
    async fn vencrypt_that_ends_on_the_way() {
        const SUBTYPES: &[u8] = &[0, 2, 0, 1, 0, 0, 1, 4, 1];
        let to_tls = [b"RFB 003.008\n\x01\x13", SUBTYPES].concat();
        let garbage = [&to_tls[..], b"\0\0\0\0"].concat();
        let alert = &[21, 3, 3, 0, 2, 2, 70];
        // What it says, what to the first word of TLS, whether it hangs up then, and what is told.
        for (said, answer, leaves, told) in [
            (&to_tls[..14], &[][..], true, "closed the connection"),
            (&to_tls[..17], &[], true, "closed the connection"),
            (&to_tls[..21], &[], true, "closed the connection"),
            (&to_tls[..21], &[], false, "does not go on"),
            (&garbage[..], &[], true, "goes on in clear"),
            (&to_tls[..], &[], false, "does not go on"),
            (&to_tls[..], &[], true, "TLS with"),
            (&to_tls[..], b"HTTP/1.1 400 Bad Request\r\n", true, "TLS with"),
            (&to_tls[..], alert, true, "TLS 1.3"),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let target = listener.local_addr().unwrap().to_string();
            let (said, answer) = (said.to_vec(), answer.to_vec());
            let server = tokio::spawn(async move {
                let (mut socket, _) = listener.accept().await.unwrap();
                let _ = socket.write_all(&said).await;
                if said.ends_with(SUBTYPES) {
                    // Version, type, version, sub-type, and a record of a handshake.
                    let mut hello = [0; 12 + 1 + 2 + 4 + 5];
                    let _ = socket.read_exact(&mut hello).await;
                    assert_eq!(&hello[12..21], [19, 0, 2, 0, 0, 1, 4, 22, 3]);
                    let _ = socket.write_all(&answer).await;
                }
                if leaves {
                    let _ = socket.shutdown().await;
                }
                let _ = socket.read_to_end(&mut Vec::new()).await;
            });
            let (_commands, incoming) = mpsc::channel(1);
            let trust = VncTrust::Pinned(quickset::Fingerprint([7; 32]));
            let at = VncServer { target: target.clone(), password: None, login: None, trust };
            let mut vnc = Vnc::new(at, incoming, ServerScreen::new(0));
            vnc.patience = (Duration::from_millis(200), Duration::from_millis(400));
            let error =
                timeout(Duration::from_secs(20), vnc.session(&mut None, false)).await.expect("it ends");
            assert!(error.to_string().contains(told) && error.to_string().contains(&target), "{error}");
            assert!(!error.is_final(), "{error}");
            timeout(Duration::from_secs(20), server).await.expect("it hangs up").unwrap();
        }
    }
}
