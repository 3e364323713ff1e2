use std::net::SocketAddr;

use bytes::Buf as _;
use quickset_rfb::{
    Client, ClientConfig, ClientEvent, Cursor, Error, ExtendedClipboard, Framebuffer, ResizeReason,
    ResizeStatus, RfbExtension,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A viewer.
pub(crate) struct Person {
    pub(crate) socket: TcpStream,
    pub(crate) rfb: Client,
    pub(crate) screen: Framebuffer,
    pub(crate) name: String,
    pub(crate) texts: Vec<String>,
    pub(crate) clipboard: Vec<ExtendedClipboard>,
    pub(crate) bells: usize,
    /// Answers to its wishes for another size.
    pub(crate) answers: Vec<(ResizeStatus, u16, u16)>,
    pub(crate) updates: usize,
    /// The shape of the pointer.
    pub(crate) cursor: Cursor,
    continuous: bool,
}

impl Person {
    /// Connects, and asks for updates all the time.
    pub(crate) async fn sit(address: SocketAddr) -> Self {
        Self::with(address, ClientConfig::default()).await
    }

    pub(crate) async fn with(address: SocketAddr, config: ClientConfig) -> Self {
        Self::on(TcpStream::connect(address).await.unwrap(), config).await
    }

    /// The same, on a connection that is there.
    pub(crate) async fn on(socket: TcpStream, config: ClientConfig) -> Self {
        let screen = Framebuffer::new(0, 0, 64 << 20).unwrap();
        let rfb = Client::new(config);
        let (name, texts, clipboard, answers) = (String::new(), Vec::new(), Vec::new(), Vec::new());
        let (bells, updates, cursor, continuous) = (0, 0, Cursor::default(), false);
        let mut person =
            Self { socket, rfb, screen, name, texts, clipboard, bells, answers, updates, cursor, continuous };
        person.until("the handshake", |p| p.rfb.size().is_some()).await;
        person
    }

    /// Talks to the gateway until something is true.
    pub(crate) async fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let talk = async {
            let mut input = vec![0; 65536];
            loop {
                let there = holds(self);
                while !self.rfb.output().is_empty() {
                    let written = self.socket.write(self.rfb.output()).await.unwrap();
                    self.rfb.output().advance(written);
                }
                if there {
                    return;
                }
                let read = self.socket.read(&mut input).await.unwrap();
                assert_ne!(read, 0, "the gateway hangs up");
                self.feed(&input[..read]).unwrap();
            }
        };
        let done = tokio::time::timeout(crate::LIMIT, talk).await;
        let crc = self.screen.crc32();
        assert!(
            done.is_ok(),
            "in vain: {what}; the screen is {:?}, {crc:08x}, named {}",
            self.screen,
            self.name
        );
    }

    pub(crate) fn feed(&mut self, mut input: &[u8]) -> Result<(), Error> {
        let (mut all, mut next) = (false, false);
        while let Some(event) = self.rfb.receive(&mut input)? {
            match event {
                ClientEvent::Ready(init) => {
                    self.screen.resize(init.width, init.height).unwrap();
                    self.name = init.name;
                    all = true;
                }
                ClientEvent::Pixels { rect, pixels } => self.screen.put(rect, pixels).unwrap(),
                ClientEvent::Copy { rect, x, y } => self.screen.copy(rect, x, y).unwrap(),
                ClientEvent::UpdateEnd => {
                    self.updates += 1;
                    next = true;
                }
                ClientEvent::Resize(resize) => {
                    if resize.reason == ResizeReason::ThisClient {
                        self.answers.push((resize.status, resize.width, resize.height));
                    }
                    if resize.status == ResizeStatus::Done {
                        self.screen.resize(resize.width, resize.height).unwrap();
                        all = true;
                    }
                }
                ClientEvent::Supports(RfbExtension::ContinuousUpdates) => {
                    self.continuous = true;
                    all = true;
                }
                ClientEvent::Name(name) => self.name = name,
                ClientEvent::Text(text) => self.texts.push(text),
                ClientEvent::Clipboard(message) => self.clipboard.push(message),
                ClientEvent::Bell => self.bells += 1,
                ClientEvent::Cursor(cursor) => self.cursor = cursor,
                _ => {}
            }
        }
        let bounds = self.screen.bounds();
        if all && self.continuous {
            self.rfb.continuous_updates(Some(bounds)).unwrap();
        }
        if all {
            self.rfb.request(false, bounds).unwrap();
        } else if next && !self.continuous {
            self.rfb.request(true, bounds).unwrap();
        }
        Ok(())
    }

    pub(crate) fn press(&mut self, keysym: u32) {
        self.rfb.key(true, keysym).unwrap();
        self.rfb.key(false, keysym).unwrap();
    }
}
