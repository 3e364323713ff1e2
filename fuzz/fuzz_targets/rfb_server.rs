//! A viewer's bytes: the same events however they are cut, and what was read comes back from our client's
//! encoding. The lowest bit of the first byte of the input leaves out the handshake, the next asks for a
//! password, the others are the size of the pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quickset_base::Rng;
use quickset_rfb::{
    Client, ClientConfig, ClientEvent, Framebuffer, Limits, Rect, RfbRefusal, Security, Server, ServerConfig,
    ServerEvent, VncPassword,
};

fuzz_target!(|input: &[u8]| {
    let Some((&control, bytes)) = input.split_first() else { return };
    let bytes = if control & 1 == 0 { [GREETING, bytes].concat() } else { bytes.to_vec() };
    let security =
        if control & 3 == 3 { Security::VncAuth(VncPassword::new(b"fuzz")) } else { Security::None };
    let whole = hear(&mut server(security.clone()), &bytes, bytes.len());
    let pieces = hear(&mut server(security), &bytes, 1 + usize::from(control >> 2));
    assert_eq!(whole, pieces);
    replayed(whole.0);
});

fn server(security: Security) -> Server {
    let config = ServerConfig {
        security,
        name: "fuzz".to_owned(),
        width: 64,
        height: 48,
        is_local: true,
        limits: LIMITS,
    };
    Server::new(config, &mut Rng::new(1))
}

/// Events, the error, and what is sent, with an update for each request.
fn hear(server: &mut Server, bytes: &[u8], piece: usize) -> (Vec<ServerEvent>, Option<String>, Vec<u8>) {
    let mut screen = Framebuffer::new(64, 48, LIMITS.framebuffer_bytes).expect("small");
    screen.fill(Rect::between(8, 8, 40, 30), 0x0012_80fe).expect("inside");
    let (mut events, mut updates) = (Vec::new(), 0);
    for mut piece in bytes.chunks(piece.max(1)) {
        loop {
            match server.receive(&mut piece) {
                Ok(Some(event)) => {
                    if let ServerEvent::Request { rect, .. } = event {
                        assert!(rect.is_empty() || screen.bounds().contains(rect));
                        // Two are enough: a request of ten bytes may ask for all pixels.
                        updates += 1;
                        if updates <= 2 {
                            update(server, &screen, rect);
                        }
                    }
                    events.push(event);
                }
                Ok(None) => break,
                Err(error) => return (events, Some(error.to_string()), server.output().to_vec()),
            }
        }
        assert!(piece.is_empty());
    }
    (events, None, server.output().to_vec())
}

fn update(server: &mut Server, screen: &Framebuffer, rect: Rect) {
    let listed = server.features().copy_rect;
    let mut update = server.update().expect("ready");
    let copied = update.copy(Rect::sized(8, 8), 4, 4);
    assert_eq!(copied, if listed { Ok(()) } else { Err(RfbRefusal::NotSupported) });
    let drawn = update.pixels(rect, screen);
    assert!(drawn.is_ok() || rect.is_empty());
}

/// Each event that is a command of ours gives the same event again.
fn replayed(events: Vec<ServerEvent>) {
    let mut server = server(Security::None);
    let mut client = Client::new(ClientConfig::default());
    // The handshake; then a request, so that QEMU keys and SetDesktopSize are announced.
    let mut rounds = 0;
    while rounds < 6 {
        let bytes = server.output().split();
        let mut input = &bytes[..];
        while let Some(event) = client.receive(&mut input).expect("our server's bytes") {
            assert!(!matches!(event, ClientEvent::TextDropped { .. }));
        }
        let bytes = client.output().split();
        let mut input = &bytes[..];
        while server.receive(&mut input).expect("our client's bytes").is_some() {}
        rounds += 1;
    }
    for event in events {
        let said = match &event {
            ServerEvent::Request { incremental, rect } => client.request(*incremental, *rect),
            ServerEvent::ContinuousUpdates(Some(rect)) => client.continuous_updates(Some(*rect)),
            ServerEvent::Key { down, keysym, keycode: None } => client.key(*down, *keysym),
            ServerEvent::Pointer { buttons, x, y } => client.pointer(*buttons, *x, *y),
            ServerEvent::Text(text) if !text.contains('\r') => client.text(text),
            ServerEvent::Clipboard(message) if !format!("{message:?}").contains("\\r") => {
                client.clipboard(message)
            }
            _ => continue,
        };
        said.expect("announced");
        let bytes = client.output().split();
        assert_eq!(server.receive(&mut &bytes[..]), Ok(Some(event)));
    }
}

const LIMITS: Limits = Limits { framebuffer_bytes: 1 << 20, text_bytes: 1000 };

/// Version 3.8, None, shared.
const GREETING: &[u8] = b"RFB 003.008\n\x01\x01";
