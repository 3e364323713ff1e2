//! `desktop view`.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use quickset::{ClientAuth, Connection, Endpoint, Fec, Identity, ServerConfig, TransportConfig};
use quickset_desktop::message::{
    ALPN, FromServer, Permissions, ScreenOrder, StreamMessage as _, Welcome, code,
};
use tokio::sync::oneshot;

use crate::run::{Ended, folder, run};

/// What it may hold: windows of a connection, and a small screen.
const MEMORY: u64 = 72 << 20;

/// The same where a server is faster than whoever reads: the window of a connection is full then (48 MiB),
/// which takes up to three times as much memory in parts of packets.
const FULL: u64 = MEMORY + 3 * (48 << 20);

/// How long each is watched.
const WATCHED: Duration = Duration::from_secs(4);

/// What a server does with a client.
#[derive(Clone, Debug)]
enum Deed {
    /// Closes the connection as soon as it is there, with a code and these words.
    Close(u64, &'static str),
    /// Says nothing to the HELLO.
    Silence,
    /// Says this in answer to the HELLO, as one record.
    Answer(Vec<u8>),
    /// Lets it in, and goes away.
    Leave,
    /// Lets it in, and says this on the control stream, once or without end.
    Control(Vec<Bytes>, bool),
    /// Lets it in, and says this on the screen stream, one record each, the last one without end.
    Screen(Vec<Vec<u8>>),
}

/// A server that runs until it is dropped.
struct Hostile {
    address: SocketAddr,
    clients: Arc<AtomicUsize>,
    _stop: oneshot::Sender<()>,
}

impl Hostile {
    fn new(deed: Deed) -> Self {
        let clients = Arc::new(AtomicUsize::new(0));
        let counted = clients.clone();
        let (tell, told) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let identity = Identity::self_signed(["localhost"]).unwrap();
                let transport = TransportConfig::default().with_fec(Fec::default());
                let config = ServerConfig::new(identity, &[ALPN]).unwrap().with_transport(transport);
                let config = config.with_client_auth(ClientAuth::Mandatory).unwrap();
                let endpoint = Endpoint::server(([127, 0, 0, 1], 0).into(), &config).unwrap();
                tell.send(endpoint.local_addr()).unwrap();
                let serving = async {
                    while let Some(connection) = endpoint.accept().await {
                        counted.fetch_add(1, Ordering::Relaxed);
                        tokio::spawn(serve(connection, deed.clone()));
                    }
                };
                tokio::select! {
                    () = serving => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address: told.recv().unwrap(), clients, _stop: stop }
    }
}

/// Until the client is gone, or has what it comes for.
async fn serve(connection: Connection, deed: Deed) -> Option<()> {
    if let Deed::Close(code, words) = deed {
        connection.close(code, words.as_bytes());
        return None;
    }
    let (mut control, mut incoming) = connection.accept_messages_bi().await.ok()?;
    control.set_ordered(true);
    incoming.next().await?.ok()?;
    match &deed {
        Deed::Silence => {
            connection.closed().await;
            return None;
        }
        Deed::Answer(record) => {
            control.send(Bytes::from(record.clone())).await.ok()?;
            connection.closed().await;
            return None;
        }
        _ => {}
    }
    let (permissions, name) = (Permissions::ALL, "hostile".into());
    let welcome = Welcome { features: 0, order: ScreenOrder::Fenced, permissions, name, visit: None };
    for record in FromServer::Welcome(welcome).records() {
        control.send(record).await.ok()?;
    }
    match deed {
        Deed::Leave => connection.close(code::GONE, b"the server has left"),
        Deed::Control(records, forever) => {
            let times = if forever { usize::MAX } else { records.len() };
            for record in records.iter().cloned().cycle().take(times) {
                control.send(record).await.ok()?;
            }
        }
        Deed::Screen(records) => {
            let mut screen = connection.open_messages().await.ok()?;
            for record in &records {
                screen.send(Bytes::from(record.clone())).await.ok()?;
            }
            while let Some(last) = records.last() {
                screen.send(Bytes::from(last.clone())).await.ok()?;
            }
        }
        _ => {}
    }
    connection.closed().await;
    None
}

fn view(server: &Hostile) -> Ended {
    let home = folder();
    let mut command = Command::new(env!("CARGO_BIN_EXE_quickset"));
    command.args(["desktop", "view", &server.address.to_string(), "--listen", "127.0.0.1:0", "--insecure"]);
    run(command.env("XDG_DATA_HOME", home.path()), WATCHED)
}

/// SIZE: epoch and item 1, the kind, and two sides (`spec/desktop.md` §5).
fn size(sides: &[u8]) -> Vec<u8> {
    [&[1, 1, 0][..], sides].concat()
}

/// What a server says that makes no sense ends the command, which says so.
#[test]
fn what_is_no_screen_ends_with_a_sentence() {
    let side = |n: u32| (n | 0x8000_0000).to_be_bytes();
    let large = size(&[side(65_535), side(65_535)].concat());
    // SOLID in an epoch whose screen has no pixels, and beyond one of 16x16.
    let solid = |sides: &[u8]| [&[1, 2, 1][..], sides, &[1, 2, 3]].concat();
    let cases: [(&str, Deed, &str); 9] = [
        ("no screen is so large", Deed::Screen(vec![large]), "65535x65535"),
        ("beyond 16 bits", Deed::Screen(vec![size(&[side(1 << 20), side(1)].concat())]), "1048576x1"),
        ("on a screen of nothing", Deed::Screen(vec![size(&[0, 0]), solid(&[0, 0, 1, 1])]), "rectangle"),
        ("beyond the screen", Deed::Screen(vec![size(&[16, 16]), solid(&[8, 8, 16, 1])]), "rectangle"),
        ("of no kind", Deed::Screen(vec![size(&[16, 16]), vec![1, 2, 63]]), "kind"),
        ("cut", Deed::Screen(vec![vec![1]]), "message"),
        ("no message", Deed::Control(vec![Bytes::from_static(&[0x07, 0x05])], false), "message"),
        ("no answer", Deed::Answer(vec![0x03, 0x05]), "speak"),
        ("denied", Deed::Close(code::DENIED, "come \u{1b}[2J in \u{202e}never"), "never"),
    ];
    let mut slips = Vec::new();
    for (name, deed, sentence) in cases {
        let slip = view(&Hostile::new(deed)).slip(sentence, MEMORY);
        slips.extend(slip.map(|slip| format!("{name}: {slip}")));
    }
    assert!(slips.is_empty(), "{slips:#?}");
}

/// Whoever may be better tomorrow is asked again, less and less often.
#[test]
fn a_server_that_hangs_up_is_not_asked_without_end() {
    let cases = [
        ("at once", Deed::Close(code::BUSY, "no place")),
        ("behind the door", Deed::Leave),
        ("later", Deed::Close(code::LATER, "try again in 0 s")),
        ("at odds", Deed::Close(4_000_000, "nonsense")),
    ];
    for (name, deed) in cases {
        let server = Hostile::new(deed);
        let ended = view(&server);
        let clients = server.clients.load(Ordering::Relaxed);
        assert!(ended.code.is_none(), "{name}: {ended:?}");
        // 0.25, 0.5, 1 and 2 s apart, each shorter by a quarter at most.
        assert!((2..=6).contains(&clients), "{name}: {clients} in {WATCHED:?}");
        assert!(ended.peak < MEMORY, "{name}: {ended:?}");
    }
}

/// What a server says without end is taken as it comes, or the session ends; no more is held of it the longer
/// it takes.
#[test]
fn what_has_no_end_is_not_held() {
    let said = |message: FromServer| Deed::Control(message.records(), true);
    let cases = [
        ("silence", Deed::Silence),
        ("bells", said(FromServer::Bell)),
        ("names", said(FromServer::Name("x".repeat(4096)))),
        ("a name too long", said(FromServer::Name("x".repeat(1 << 20)))),
        ("sizes", Deed::Screen(vec![size(&[16, 16]), vec![9, 9, 0, 16, 16]])),
        ("stale", Deed::Screen(vec![size(&[16, 16]), [&[0, 2][..], &[1; 1000]].concat()])),
    ];
    for (name, deed) in cases {
        let ended = view(&Hostile::new(deed));
        assert!(ended.code.is_none_or(|code| code == 1), "{name}: {ended:?}");
        assert!(ended.peak < FULL, "{name}: {ended:?}");
    }
}
