//! A server of HTTP/3 made by hand: real QUIC and TLS, and above that whatever a test wants said.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use quickset::{Connection, Endpoint, Identity, SendStream, ServerConfig};
use tokio::sync::oneshot;

use crate::wire::{SETTINGS, frame};

/// What is said on a stream, in order.
#[derive(Clone, Debug)]
pub(crate) enum Say {
    Bytes(Vec<u8>),
    /// These again and again, for as long as the other side takes them.
    Forever(Vec<u8>),
    Wait(Duration),
    /// The stream is over.
    End,
    /// It is given up, with a code.
    Reset(u64),
    /// The connection is over, with a code.
    Close(u64),
}

/// What a server says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    /// To the first request, the second and so on; the last of them to all that follow.
    pub(crate) answers: Vec<Vec<Say>>,
    /// On its control stream, behind its settings.
    pub(crate) control: Vec<Say>,
}

/// A server that runs until it is dropped.
pub(crate) struct Hostile {
    pub(crate) address: SocketAddr,
    pub(crate) pin: String,
    requests: Arc<AtomicUsize>,
    _stop: oneshot::Sender<()>,
}

impl Hostile {
    pub(crate) fn new(script: Script) -> Self {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        let pin = identity.fingerprint().to_string();
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = requests.clone();
        let (tell, told) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let config = ServerConfig::new(identity, &["h3"]).unwrap();
                let endpoint = Endpoint::server(([127, 0, 0, 1], 0).into(), &config).unwrap();
                tell.send(endpoint.local_addr()).unwrap();
                let script = Arc::new(script);
                let serving = async {
                    while let Some(connection) = endpoint.accept().await {
                        tokio::spawn(serve(connection, script.clone(), counted.clone()));
                    }
                };
                tokio::select! {
                    () = serving => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address: told.recv().unwrap(), pin, requests, _stop: stop }
    }

    /// How often something was asked for.
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

async fn serve(connection: Connection, script: Arc<Script>, requests: Arc<AtomicUsize>) {
    let Ok(mut control) = connection.open_uni().await else { return };
    let said = [Say::Bytes([&[0], &frame(SETTINGS, &[])[..]].concat())];
    let (peer, all) = (connection.clone(), [&said[..], &script.control].concat());
    tokio::spawn(async move {
        say(&peer, &mut control, &all).await;
        // Its end would be one of the connection.
        peer.closed().await;
        drop(control);
    });
    while let Ok((mut out, mut asked)) = connection.accept_bi().await {
        let n = requests.fetch_add(1, Ordering::Relaxed);
        let answer = script.answers.get(n).or(script.answers.last()).cloned().unwrap_or_default();
        let peer = connection.clone();
        tokio::spawn(async move {
            let _ = asked.read_to_end(1 << 20).await;
            say(&peer, &mut out, &answer).await;
            peer.closed().await;
            drop(out);
        });
    }
}

async fn say(connection: &Connection, stream: &mut SendStream, all: &[Say]) {
    for what in all {
        let done = match what {
            Say::Bytes(bytes) => stream.write_all(bytes).await.is_ok(),
            Say::Forever(bytes) => {
                while stream.write_all(bytes).await.is_ok() {}
                false
            }
            Say::Wait(time) => {
                tokio::time::sleep(*time).await;
                true
            }
            Say::End => stream.finish().is_ok(),
            Say::Reset(code) => {
                stream.reset(*code);
                true
            }
            Say::Close(code) => {
                connection.close(*code, b"the server has had enough");
                false
            }
        };
        if !done {
            return;
        }
    }
}
