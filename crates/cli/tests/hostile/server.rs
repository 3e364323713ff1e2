//! A server of HTTP/3 made by hand: real QUIC and TLS, and above that whatever a test wants said. `two` is
//! its sibling.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use quickset::{Connection, Endpoint, Identity, SendStream, ServerConfig, TransportConfig};
use tokio::sync::oneshot;

use crate::wire::{self, SETTINGS, frame};

/// What is said on a stream, in order.
#[derive(Clone, Debug)]
pub(crate) enum Say {
    /// As the version of HTTP writes them: a status with fields, content, and fields behind that.
    Head(u16, Vec<(&'static str, String)>),
    Data(Vec<u8>),
    Trailers(Vec<(&'static str, String)>),
    Bytes(Vec<u8>),
    /// This again and again, for as long as the other side takes it.
    Forever(Box<Say>),
    Wait(Duration),
    /// The stream is over.
    End,
    /// It is given up, with a code.
    Reset(u64),
    /// The connection is over, with a code.
    Close(u64),
    /// Nothing more comes, and nobody says so: of HTTP/2 the socket is closed, of HTTP/3 all is silent.
    Leave,
}

impl Say {
    pub(crate) fn head(status: u16, fields: &[(&'static str, &str)]) -> Self {
        Self::Head(status, fields.iter().map(|(name, value)| (*name, (*value).to_owned())).collect())
    }

    pub(crate) fn data(content: &[u8]) -> Self {
        Self::Data(content.to_vec())
    }

    pub(crate) fn forever(self) -> Self {
        Self::Forever(Box::new(self))
    }

    pub(crate) fn bytes_forever(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes).forever()
    }
}

/// What a server says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    /// To the first request, the second and so on; the last of them to all that follow.
    pub(crate) answers: Vec<Vec<Say>>,
    /// For the connection, on a control stream where there is one, behind its settings.
    pub(crate) control: Vec<Say>,
    /// So many connections hear nothing of that.
    pub(crate) spared: usize,
    /// What QUIC allows.
    pub(crate) transport: TransportConfig,
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
                let config = config.with_transport(script.transport.clone());
                let endpoint = Endpoint::server(([127, 0, 0, 1], 0).into(), &config).unwrap();
                tell.send(endpoint.local_addr()).unwrap();
                let script = Arc::new(script);
                let serving = accept(&endpoint, &script, &counted);
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

async fn accept(endpoint: &Endpoint, script: &Arc<Script>, requests: &Arc<AtomicUsize>) {
    for n in 0.. {
        let Some(connection) = endpoint.accept().await else { return };
        let control = if n < script.spared { Vec::new() } else { script.control.clone() };
        tokio::spawn(serve(connection, script.clone(), control, requests.clone()));
    }
}

async fn serve(connection: Connection, script: Arc<Script>, control: Vec<Say>, requests: Arc<AtomicUsize>) {
    let Ok(mut stream) = connection.open_uni().await else { return };
    let said = [Say::Bytes([&[0], &frame(SETTINGS, &[])[..]].concat())];
    let (peer, all) = (connection.clone(), [&said[..], &control].concat());
    tokio::spawn(async move {
        say(&peer, &mut stream, &all).await;
        // Its end would be one of the connection.
        peer.closed().await;
        drop(stream);
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
            Say::Head(..) | Say::Data(_) | Say::Trailers(_) | Say::Bytes(_) => {
                stream.write_all(&bytes(what)).await.is_ok()
            }
            Say::Forever(what) => {
                let bytes = bytes(what);
                while stream.write_all(&bytes).await.is_ok() {}
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
            Say::Leave => false,
        };
        if !done {
            return;
        }
    }
}

fn bytes(what: &Say) -> Vec<u8> {
    match what {
        Say::Head(status, fields) => {
            let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
            wire::head(*status, &fields)
        }
        Say::Data(content) => wire::data(content),
        Say::Trailers(fields) => {
            wire::fields(&fields.iter().map(|(name, value)| (*name, value.as_str())).collect::<Vec<_>>())
        }
        Say::Bytes(bytes) => bytes.clone(),
        other => panic!("{other:?} is not said by bytes"),
    }
}
