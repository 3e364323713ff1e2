//! A VNC server's bytes: the same events however they are cut, pixels inside the framebuffer, and what the
//! client says is understood by our server. The lowest bit of the first byte of the input leaves out the
//! handshake, the others are the size of the pieces; the highest has the client begin with TLS, of which then
//! comes what is inside.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quickset_base::Rng;
use quickset_rfb::{
    Client, ClientConfig, ClientEvent, Framebuffer, Limits, PlainLogin, ResizeStatus, Security, Server,
    ServerConfig, ServerEvent, VencryptWish,
};

fuzz_target!(|input: &[u8]| {
    let Some((&control, bytes)) = input.split_first() else { return };
    let bytes = if control & 1 == 0 { [GREETING, bytes].concat() } else { bytes.to_vec() };
    let encrypts = control & 0x80 != 0;
    let whole = Heard::of(&bytes, bytes.len(), encrypts);
    let pieces = Heard::of(&bytes, 1 + usize::from(control >> 1), encrypts);
    assert_eq!(whole.events, pieces.events);
    assert_eq!(whole.screen, pieces.screen);
    assert_eq!(whole.said, pieces.said);
    // Our server has no TLS.
    if !encrypts {
        understood(&whole);
    }
});

/// What came of the bytes.
struct Heard {
    events: Vec<String>,
    screen: Framebuffer,
    /// What was said back.
    said: Vec<u8>,
    /// The events that should come of that at our server.
    echoes: Vec<ServerEvent>,
}

impl Heard {
    fn of(bytes: &[u8], piece: usize, encrypts: bool) -> Self {
        let vencrypt = if encrypts { VencryptWish::Last } else { VencryptWish::Never };
        let login = Some(PlainLogin::new("user", "password"));
        let config = ClientConfig { limits: LIMITS, vencrypt, login, ..ClientConfig::default() };
        let mut client = Client::new(config);
        let screen = Framebuffer::new(0, 0, LIMITS.framebuffer_bytes).expect("nothing");
        let mut heard = Self { events: Vec::new(), screen, said: Vec::new(), echoes: Vec::new() };
        for mut piece in bytes.chunks(piece.max(1)) {
            loop {
                let echo = match client.receive(&mut piece) {
                    Ok(Some(ClientEvent::StartTls)) => {
                        client.tls_started().expect("it was asked for");
                        continue;
                    }
                    Ok(Some(event)) => heard.hear(event),
                    Ok(None) => break,
                    Err(error) => {
                        heard.events.push(error.to_string());
                        heard.said.extend(client.output().split());
                        return heard;
                    }
                };
                if let Some(echo) = echo {
                    match &echo {
                        ServerEvent::Text(text) => client.text(text),
                        ServerEvent::Clipboard(message) => client.clipboard(message),
                        _ => continue,
                    }
                    .is_ok()
                    .then(|| heard.echoes.push(echo));
                }
            }
            assert!(piece.is_empty());
        }
        heard.said.extend(client.output().split());
        heard
    }

    /// What to send back.
    fn hear(&mut self, event: ClientEvent<'_>) -> Option<ServerEvent> {
        match event {
            // Which rows come together depends on the pieces.
            ClientEvent::Pixels { rect, pixels } => {
                assert!(!rect.is_empty());
                self.screen.put(rect, pixels).expect("inside");
                return None;
            }
            ClientEvent::Copy { rect, x, y } => self.screen.copy(rect, x, y).expect("inside"),
            ClientEvent::Ready(ref init) => self.screen.resize(init.width, init.height).expect("allowed"),
            ClientEvent::Resize(ref resize) if resize.status == ResizeStatus::Done => {
                self.screen.resize(resize.width, resize.height).expect("allowed");
            }
            ClientEvent::Cursor(ref cursor) => assert!(cursor.is_consistent()),
            _ => {}
        }
        self.events.push(format!("{event:?}"));
        match event {
            ClientEvent::Text(text) if !text.contains('\r') => Some(ServerEvent::Text(text)),
            ClientEvent::Clipboard(message) if !format!("{message:?}").contains("\\r") => {
                Some(ServerEvent::Clipboard(message))
            }
            _ => None,
        }
    }
}

/// Our server takes all that our client says, and hears its own texts again.
fn understood(heard: &Heard) {
    let limits = Limits { text_bytes: 2 * LIMITS.text_bytes, ..LIMITS };
    let config = ServerConfig {
        security: Security::None,
        name: String::new(),
        width: 64,
        height: 48,
        is_local: true,
        limits,
    };
    let mut server = Server::new(config, &mut Rng::new(1));
    let mut input = &heard.said[..];
    let mut echoes = Vec::new();
    while let Some(event) = server.receive(&mut input).expect("our client's bytes") {
        // Capabilities are also sent unasked.
        if matches!(event, ServerEvent::Text(_) | ServerEvent::Clipboard(_)) {
            echoes.push(event);
        }
    }
    let mut echoes = echoes.iter();
    assert!(heard.echoes.iter().all(|wanted| echoes.any(|echo| echo == wanted)));
}

const LIMITS: Limits = Limits { framebuffer_bytes: 1 << 20, text_bytes: 1000 };

/// Version 3.8, None, OK, 64x48 in XRGB, no name.
const GREETING: &[u8] = b"RFB 003.008\n\x01\x01\0\0\0\0\0\x40\0\x30\
    \x20\x18\0\x01\0\xff\0\xff\0\xff\x10\x08\0\0\0\0\0\0\0\0";
