//! What both gateways do with a QUIC connection: settings, records to messages and back, proofs.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use quickset::h3::webtransport::{RecvStream, SendStream, Session};
use quickset::policies::PublishedPolicy;
use quickset::{
    Algorithm, Connection, ExportError, Fec, Fingerprint, Goal, MessageReceiver, MessageSender, MtuDiscovery,
    Peer, Priority, Protection, ReceiveError, ReceivedMessage, Side, Stats, TransportConfig,
};
use tokio::sync::mpsc;

use crate::channel::DesktopChannel;
use crate::error::LinkError;
use crate::message::{RecordInbox, RecordSplitter, StreamMessage, code, stream_bytes};
use crate::sender::JpegQuality;
use crate::tcp::TcpLink;
use crate::trust::{Exported, LABEL};

/// How a connection between gateways behaves.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// The congestion controller; BBR unless told.
    pub congestion: Algorithm,
    /// The UDP payload of all datagrams, in bytes, 1200 to 65,507; larger than the path's MTU loses packets.
    /// `None`: as much as the path takes, up to what jumbo frames carry, which is found out and followed
    /// (RFC 8899).
    pub mtu: Option<u16>,
    /// How losses are repaired of what this side sends. Adaptive without a goal, as from the start, is
    /// adaptive to what each channel is: a screen, or messages. Another protection is that of the screen;
    /// control and input then are messages all the same, unless there is to be none. The server's clipboard
    /// has none: nobody waits for it as for a key.
    pub protection: Protection,
    /// Bits per second that this side sends at most to each other end, measured over any second, with all
    /// that is around it and its repair: [`TransportConfig::max_rate_bps`]. By TCP it is what is given to the
    /// system, without what that sends again. `None`: as many as the path takes.
    pub max_rate_bps: Option<u64>,
    /// Bits per second that a viewer's gateway asks the server's to send at most. `None`: as many as that
    /// wants.
    pub wished_rate_bps: Option<u64>,
    /// Between which qualities of JPEG a viewer's gateway asks the server's to send photographs and films, as
    /// far as that allows. `None`: as it likes.
    pub wished_quality: Option<JpegQuality>,
    /// Appends the secrets of connections to the file that SSLKEYLOGFILE names.
    pub key_log: bool,
    /// Where connections leave their traces; `None`: nowhere.
    #[cfg(feature = "qlog")]
    pub qlog: Option<std::sync::Arc<dyn quickset::qlog::Sinks>>,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            congestion: Algorithm::Bbr,
            mtu: None,
            protection: Protection::Adaptive(None),
            max_rate_bps: None,
            wished_rate_bps: None,
            wished_quality: None,
            key_log: false,
            #[cfg(feature = "qlog")]
            qlog: None,
        }
    }
}

impl LinkConfig {
    /// The settings of the connection.
    ///
    /// DT-3: there is no early data. It is off unless asked for, neither end asks, and so neither end's TLS
    /// offers or takes it.
    pub(crate) fn transport(&self, side: Side) -> TransportConfig {
        // The screen asks for another one.
        let protection = self.messages();
        let fec = match side {
            // What comes are small messages, now and then; and whoever has not shown a credential yet could
            // fill it.
            Side::Server => Fec::default().with_window(128).with_sessions(2).with_protection(protection),
            Side::Client => Fec::default().with_protection(protection),
        };
        let discovery = MtuDiscovery::default().with_highest(JUMBO);
        let transport = TransportConfig::default()
            .with_fec(fec)
            .with_congestion(self.congestion.clone())
            .with_max_rate_bps(self.max_rate_bps)
            .with_mtu(self.mtu.unwrap_or(LEAST_MTU))
            .with_mtu_discovery(self.mtu.is_none().then_some(discovery))
            // Control, input and clipboard, with room for a mistake; each is held by whoever has not shown a
            // credential yet.
            .with_max_bidi_streams(2)
            .with_max_uni_streams(4)
            .with_idle_timeout(Duration::from_secs(10))
            .with_keep_alive(match side {
                Side::Server => Duration::from_secs(3),
                // Whether something still comes is to be noticed soon (DT-58).
                Side::Client => Duration::from_secs(1),
            });
        #[cfg(feature = "qlog")]
        let transport = transport.with_qlog(self.qlog.clone());
        transport
    }

    /// The settings of a server's connections, which browsers may make, too.
    pub(crate) fn serving(&self, pages: bool) -> TransportConfig {
        let transport = self.transport(Side::Server);
        // HTTP/3 has three streams of its own each way, and a browser fetches a page by several requests.
        if pages { transport.with_max_bidi_streams(16).with_max_uni_streams(8) } else { transport }
    }

    /// What protects messages that are each waited for: input and control.
    pub(crate) fn messages(&self) -> Protection {
        match &self.protection {
            Protection::None => Protection::None,
            _ => Protection::Adaptive(Some(Goal::Messages)),
        }
    }

    /// What protects sound. Adaptive repair takes up to 55 % more bytes of it than none, for losses that
    /// FlEC's placement brings back for 30 % (`quickset lab run sound`). It goes on where nothing is lost.
    pub(crate) fn sound(&self) -> Protection {
        match &self.protection {
            Protection::None => Protection::None,
            _ => PublishedPolicy::Messages(None).into(),
        }
    }

    /// What protects the screen.
    pub(crate) fn screen(&self) -> Protection {
        match &self.protection {
            Protection::Adaptive(None) => Protection::Adaptive(Some(Goal::Screen)),
            other => other.clone(),
        }
    }
}

/// What every path takes (RFC 9000 §14).
const LEAST_MTU: u16 = 1200;
/// What frames of 9000 bytes carry over IPv4; over IPv6 the search ends 20 bytes below.
const JUMBO: u16 = 8972;

/// The other end of a connection between gateways, or of a session of a page.
#[derive(Clone, Debug)]
pub(crate) enum PeerLink {
    /// A gateway's connection, with fenced streams.
    Gateway(Connection),
    /// A gateway, where UDP does not get through.
    Tcp(TcpLink),
    /// A page's session of WebTransport.
    Page(Session),
}

/// Messages of one kind, to the peer, in order.
#[derive(Debug)]
pub(crate) struct MessageOutbox {
    stream: OutgoingRecords,
}

#[derive(Debug)]
enum OutgoingRecords {
    Fenced(MessageSender),
    Tcp(TcpLink, mpsc::Sender<Bytes>),
    Stream(SendStream),
}

/// Messages of one kind, from the peer.
#[derive(Debug)]
pub(crate) struct IncomingMessages<M> {
    stream: IncomingRecords,
    inbox: RecordInbox<M>,
}

#[derive(Debug)]
enum IncomingRecords {
    Fenced(MessageReceiver),
    Tcp(TcpLink, mpsc::Receiver<Bytes>),
    Stream(StreamRecords),
}

/// The screen, from the server.
#[derive(Debug)]
pub(crate) enum IncomingScreen {
    Fenced(MessageReceiver),
    Tcp(TcpLink, mpsc::Receiver<Bytes>),
}

/// What comes of it.
#[derive(Debug)]
pub(crate) enum ScreenArrival {
    Message {
        payload: Bytes,
        /// A fence held it back.
        was_held: bool,
    },
    /// There will be another stream.
    Over,
    Failed(LinkError),
}

/// Records on a stream of bytes: each behind its length (`spec/web.md` §8).
#[derive(Debug)]
struct StreamRecords {
    stream: RecvStream,
    splitter: RecordSplitter,
}

impl PeerLink {
    /// What the connection counts; by TCP the system does, and all is zero.
    pub(crate) fn stats(&self) -> Stats {
        match self {
            Self::Gateway(connection) => connection.stats(),
            Self::Page(session) => session.connection().stats(),
            Self::Tcp(_) => Stats::default(),
        }
    }

    /// Sends no more than so many bits per second from now on: [`LinkConfig::max_rate_bps`].
    pub(crate) fn set_max_rate_bps(&self, most: Option<u64>) {
        match self {
            Self::Gateway(connection) => connection.set_max_rate_bps(most),
            Self::Page(session) => session.connection().set_max_rate_bps(most),
            Self::Tcp(link) => link.set_max_rate_bps(most),
        }
    }

    /// UDP does not get through.
    pub(crate) fn is_tcp(&self) -> bool {
        matches!(self, Self::Tcp(_))
    }

    pub(crate) fn remote_address(&self) -> SocketAddr {
        match self {
            Self::Gateway(connection) => connection.remote_address(),
            Self::Page(session) => session.connection().remote_address(),
            Self::Tcp(link) => link.facts().remote,
        }
    }

    /// The key that the other gateway has proved.
    pub(crate) fn key(&self) -> Option<Fingerprint> {
        match self {
            Self::Gateway(connection) => Peer::of(connection).fingerprint(),
            Self::Tcp(link) => link.facts().peer,
            Self::Page(_) => None,
        }
    }

    /// Key material that only the two ends of this connection have.
    ///
    /// # Errors
    /// When the connection is over, and its keys are gone: why it is.
    pub(crate) fn exported(&self) -> Result<Exported, LinkError> {
        match self {
            Self::Gateway(connection) => exported(connection),
            Self::Tcp(link) => Ok(link.facts().exported),
            Self::Page(session) => exported(session.connection()),
        }
    }

    /// Ends what is left of it, with the code for what was wrong.
    pub(crate) fn fail(&self, error: &LinkError) {
        if let Some((code, words)) = error.farewell() {
            self.close(code, words.as_bytes());
        }
    }

    /// Ends it, with a code of `spec/desktop.md` §11 and words for a person.
    pub(crate) fn close(&self, code: u64, reason: &[u8]) {
        match self {
            Self::Gateway(connection) => connection.close(code, reason),
            Self::Tcp(link) => link.close(code, reason),
            Self::Page(session) => {
                session.close(u32::try_from(code).unwrap_or(u32::MAX), &String::from_utf8_lossy(reason));
            }
        }
    }

    /// The client's first stream in both directions, at the server.
    pub(crate) async fn accept_control<M: StreamMessage>(
        &self,
    ) -> Result<(MessageOutbox, IncomingMessages<M>), LinkError> {
        let channel = DesktopChannel::Control;
        match self {
            Self::Gateway(connection) => {
                let (out, incoming) = connection.accept_messages_bi().await.map_err(LinkError::Closed)?;
                Ok((MessageOutbox::new(out, channel.priority()), IncomingMessages::new(incoming)))
            }
            Self::Tcp(link) => {
                Ok((MessageOutbox::by_tcp(link, channel), IncomingMessages::by_tcp(link, channel)?))
            }
            Self::Page(session) => {
                let (out, incoming) = session.accept_bi().await?;
                Ok((MessageOutbox::of_page(out, channel), IncomingMessages::of_page(incoming)))
            }
        }
    }

    /// The same at the client, who opens it.
    pub(crate) async fn open_control<M: StreamMessage>(
        &self,
    ) -> Result<(MessageOutbox, IncomingMessages<M>), LinkError> {
        match self {
            Self::Gateway(connection) => {
                let (out, incoming) = connection.open_messages_bi().await.map_err(LinkError::Closed)?;
                let out = MessageOutbox::new(out, DesktopChannel::Control.priority());
                Ok((out, IncomingMessages::new(incoming)))
            }
            Self::Tcp(_) => self.accept_control().await,
            Self::Page(_) => Err(LinkError::Ended),
        }
    }

    /// The client's first stream in one direction, at the server.
    pub(crate) async fn accept_input<M: StreamMessage>(&self) -> Result<IncomingMessages<M>, LinkError> {
        match self {
            Self::Gateway(connection) => {
                let stream = connection.accept_messages().await.map_err(LinkError::Closed)?;
                Ok(IncomingMessages::new(stream))
            }
            Self::Tcp(link) => IncomingMessages::by_tcp(link, DesktopChannel::Input),
            Self::Page(session) => Ok(IncomingMessages::of_page(session.accept_uni().await?)),
        }
    }

    /// The same at the client, who opens it.
    pub(crate) async fn open_input(&self) -> Result<MessageOutbox, LinkError> {
        let channel = DesktopChannel::Input;
        match self {
            Self::Gateway(connection) => {
                let stream = connection.open_messages().await.map_err(LinkError::Closed)?;
                Ok(MessageOutbox::new(stream, channel.priority()))
            }
            Self::Tcp(link) => Ok(MessageOutbox::by_tcp(link, channel)),
            Self::Page(_) => Err(LinkError::Ended),
        }
    }

    /// The server's stream of the clipboard.
    pub(crate) async fn open_clipboard(&self) -> Result<MessageOutbox, LinkError> {
        let channel = DesktopChannel::Clipboard;
        match self {
            Self::Gateway(connection) => {
                // What the client says of its own comes with the keys.
                let (stream, _) = connection.open_messages_bi().await.map_err(LinkError::Closed)?;
                Ok(MessageOutbox::new(stream.with(Protection::None), channel.priority()))
            }
            Self::Tcp(link) => Ok(MessageOutbox::by_tcp(link, channel)),
            Self::Page(session) => Ok(MessageOutbox::of_page(session.open_uni().await?, channel)),
        }
    }

    /// The server's next screen stream, at the client: what was not read of the one before is forgotten
    /// (DT-4). By TCP there is one.
    pub(crate) async fn accept_screen(&self) -> Result<IncomingScreen, LinkError> {
        match self {
            Self::Gateway(connection) => {
                let stream = connection.accept_messages().await.map_err(LinkError::Closed)?;
                Ok(IncomingScreen::Fenced(stream))
            }
            Self::Tcp(link) => match link.receiver(DesktopChannel::Screen) {
                Some(lane) => Ok(IncomingScreen::Tcp(link.clone(), lane)),
                None => Err(link.closed().await),
            },
            Self::Page(_) => Err(LinkError::Ended),
        }
    }

    /// The server's stream of the clipboard, at the client.
    pub(crate) async fn accept_clipboard<M: StreamMessage>(&self) -> Result<IncomingMessages<M>, LinkError> {
        match self {
            Self::Gateway(connection) => {
                // What we have to say of the clipboard goes with the keys.
                let (_, stream) = connection.accept_messages_bi().await.map_err(LinkError::Closed)?;
                Ok(IncomingMessages::new(stream))
            }
            Self::Tcp(link) => IncomingMessages::by_tcp(link, DesktopChannel::Clipboard),
            Self::Page(_) => Err(LinkError::Ended),
        }
    }
}

impl IncomingScreen {
    /// The next message. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> ScreenArrival {
        match self {
            Self::Fenced(stream) => ScreenArrival::of(stream.next().await),
            Self::Tcp(link, lane) => match lane.recv().await {
                Some(payload) => ScreenArrival::Message { payload, was_held: false },
                None => ScreenArrival::Failed(link.closed().await),
            },
        }
    }

    /// The next message if it is there.
    pub(crate) fn try_next(&mut self) -> Option<ScreenArrival> {
        match self {
            Self::Fenced(stream) => stream.try_next().map(ScreenArrival::of),
            Self::Tcp(_, lane) => {
                let payload = lane.try_recv().ok()?;
                Some(ScreenArrival::Message { payload, was_held: false })
            }
        }
    }
}

impl ScreenArrival {
    fn of(message: Option<Result<ReceivedMessage, ReceiveError>>) -> Self {
        match message {
            Some(Ok(message)) => {
                let was_held = !message.blocked().is_zero();
                Self::Message { payload: message.payload, was_held }
            }
            None | Some(Err(ReceiveError::Reset(code::RESTART))) => Self::Over,
            Some(Err(error)) => Self::Failed(error.into()),
        }
    }
}

impl MessageOutbox {
    /// A stream of messages that stay in order.
    pub(crate) fn new(mut stream: MessageSender, priority: Priority) -> Self {
        stream.set_ordered(true);
        stream.set_priority(priority);
        Self { stream: OutgoingRecords::Fenced(stream) }
    }

    fn by_tcp(link: &TcpLink, channel: DesktopChannel) -> Self {
        Self { stream: OutgoingRecords::Tcp(link.clone(), link.sender(channel)) }
    }

    fn of_page(stream: SendStream, channel: DesktopChannel) -> Self {
        // One that is over says so when something is sent.
        let _ = stream.set_priority(&channel.page_priority());
        Self { stream: OutgoingRecords::Stream(stream) }
    }

    /// Sends a message; waits while the peer does not read.
    pub(crate) async fn send(&mut self, message: &impl StreamMessage) -> Result<(), LinkError> {
        match &mut self.stream {
            OutgoingRecords::Fenced(stream) => {
                for record in message.records() {
                    stream.send(record).await?;
                }
            }
            OutgoingRecords::Tcp(link, lane) => {
                for record in message.records() {
                    if lane.send(record).await.is_err() {
                        return Err(link.closed().await);
                    }
                }
            }
            OutgoingRecords::Stream(stream) => stream.send(stream_bytes(message).into()).await?,
        }
        Ok(())
    }
}

impl<M: StreamMessage> IncomingMessages<M> {
    pub(crate) fn new(stream: MessageReceiver) -> Self {
        Self { stream: IncomingRecords::Fenced(stream), inbox: RecordInbox::new() }
    }

    /// # Errors
    /// When somebody has them already.
    pub(crate) fn by_tcp(link: &TcpLink, channel: DesktopChannel) -> Result<Self, LinkError> {
        let lane = link.receiver(channel).ok_or(LinkError::Ended)?;
        Ok(Self { stream: IncomingRecords::Tcp(link.clone(), lane), inbox: RecordInbox::new() })
    }

    fn of_page(stream: RecvStream) -> Self {
        let stream = StreamRecords { stream, splitter: RecordSplitter::default() };
        Self { stream: IncomingRecords::Stream(stream), inbox: RecordInbox::new() }
    }

    /// The next message of a kind that is known. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Result<M, LinkError> {
        loop {
            let record = match &mut self.stream {
                IncomingRecords::Fenced(stream) => stream.next().await.ok_or(LinkError::Ended)??.payload,
                IncomingRecords::Tcp(link, lane) => match lane.recv().await {
                    Some(record) => record,
                    None => return Err(link.closed().await),
                },
                IncomingRecords::Stream(stream) => stream.next().await?,
            };
            if let Some(message) = self.inbox.receive(&record)? {
                return Ok(message);
            }
        }
    }

    /// How many messages there were before the last, since the last call, of kinds that are not known, or
    /// that were passed over.
    pub(crate) fn take_unread(&mut self) -> u64 {
        self.inbox.take_unread()
    }
}

impl StreamRecords {
    /// The next record. Dropping the future loses nothing.
    async fn next(&mut self) -> Result<Bytes, LinkError> {
        loop {
            if let Some(record) = self.splitter.next_record()? {
                return Ok(record);
            }
            let more = self.stream.next().await?.ok_or(LinkError::Ended)?;
            self.splitter.feed(&more);
        }
    }
}

/// Key material that only the two ends of this connection have.
///
/// # Errors
/// When the connection is over, and its keys are gone: why it is.
fn exported(connection: &Connection) -> Result<Exported, LinkError> {
    let mut out = [0; 32];
    match connection.export_keying_material(LABEL, b"", &mut out) {
        Ok(()) => Ok(out),
        Err(ExportError) => Err(connection.close_reason().map_or(LinkError::Ended, LinkError::Closed)),
    }
}

#[cfg(test)]
mod tests {
    use quickset::{ClientConfig, Endpoint, Identity, ServerConfig, Trust};

    use super::*;
    use crate::message::{ALPN, code};

    /// A gateway that is told to come again must not take it for one that has no key.
    #[tokio::test]
    async fn a_connection_that_is_over_says_why_and_not_that_it_has_no_key() {
        let config = ServerConfig::new(Identity::self_signed(["localhost"]).unwrap(), &[ALPN]).unwrap();
        let server = Endpoint::server(([127, 0, 0, 1], 0).into(), &config).unwrap();
        let client = Endpoint::client().unwrap();
        let config = ClientConfig::new(Trust::insecure(), &[ALPN]).unwrap();
        let (here, there) =
            tokio::join!(client.connect(server.local_addr(), "localhost", &config), server.accept());
        let (here, there) = (here.unwrap(), there.unwrap());
        assert_eq!(exported(&here).unwrap(), exported(&there).unwrap());
        there.close(code::BUSY, b"no place");
        here.closed().await;
        for end in [&here, &there] {
            let error = exported(end).unwrap_err();
            assert!(matches!(error, LinkError::Closed(_)), "{error}");
        }
    }

    #[test]
    fn each_channel_has_the_protection_that_fits_it() {
        // What is asked for, what the screen has, what control and input have, and what sound has.
        for (asked, screen, rest, sound) in [
            ("adaptive", "adaptive:screen", "adaptive:messages", "messages"),
            ("rs:110/100", "rs:110/100", "adaptive:messages", "messages"),
            ("none", "none", "none", "none"),
        ] {
            let protection = asked.parse().unwrap();
            let link = LinkConfig { protection, ..LinkConfig::default() };
            assert_eq!(link.screen().to_string(), screen);
            assert_eq!(link.sound().to_string(), sound);
            for side in [Side::Client, Side::Server] {
                let fec = link.transport(side).fec.unwrap();
                assert_eq!(fec.protection.to_string(), rest, "{asked}");
            }
        }
    }

    #[test]
    fn what_a_person_waits_for_goes_first() {
        // DT-47.
        let [input, control, screen, clipboard] = [
            DesktopChannel::Input,
            DesktopChannel::Control,
            DesktopChannel::Screen,
            DesktopChannel::Clipboard,
        ]
        .map(DesktopChannel::priority);
        assert!(input.urgency < control.urgency && control.urgency < screen.urgency);
        assert_eq!(clipboard.urgency, screen.urgency, "a text is never starved");
        assert!(screen.incremental && clipboard.incremental, "they share");
        assert!(screen.weight.get() >= 8.0 * clipboard.weight.get(), "and it takes little of the screen's");
    }

    /// DT-3: a replayed key press is a key press.
    #[test]
    fn nothing_is_sent_or_taken_early() {
        for side in [Side::Client, Side::Server] {
            assert!(LinkConfig::default().transport(side).early_data.is_none());
        }
    }

    #[test]
    fn strangers_make_the_server_keep_little() {
        let fec = LinkConfig::default().transport(Side::Server).fec.unwrap();
        // What decoding may cost, `spec/fec.md`: an eighth more than the symbols.
        assert!(fec.sessions * fec.window * fec.symbol * 9 / 8 < 1 << 20, "{fec:?}");
    }
}
