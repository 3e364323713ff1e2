//! Files that are written to, replaced, cut or removed while they are sent, and while the server keeps them
//! in memory: whoever asks has one version of a file from its beginning to its end, or hears that it is none.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use quickset::{ClientConfig, Endpoint, TransportConfig, Trust, h3};
use tokio::net::TcpSocket;
use tokio_rustls::TlsConnector;

use super::served::Served;

/// More than lies in buffers on the way to a client that takes nothing.
const LEN: usize = 12 << 20;

/// How long it may take until something is so.
const LIMIT: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
    Three,
}

/// An answer of which little has come.
struct Answer {
    status: u16,
    etag: String,
    is_dated: bool,
    length: Option<usize>,
    body: Body,
    /// What it comes by ends with it.
    _open: (tokio::task::JoinSet<()>, Option<(Endpoint, h3::Client)>),
}

enum Body {
    Tcp(Incoming),
    Quic(h3::Content),
}

impl Answer {
    /// What a server says to this request, on a connection of its own.
    async fn to(served: &Served, version: Version, path: &str, fields: &[(&'static str, &str)]) -> Self {
        let trust = Trust::pinned(served.pin.parse().unwrap());
        // Little is on its way.
        let window = 64 << 10;
        let transport = TransportConfig::default()
            .with_stream_window(window)
            .with_max_stream_window(window)
            .with_max_connection_window(2 * window);
        let config = ClientConfig::new(trust, &[h3::ALPN]).unwrap().with_transport(transport);
        if version == Version::Three {
            let endpoint = Endpoint::client().unwrap();
            let address = served.address.parse().unwrap();
            let connection = endpoint.connect(address, "localhost", &config).await.unwrap();
            let client = h3::Client::new(&connection, h3::Config::default()).unwrap();
            let mut request = h3::Request::new("GET", served.address.clone(), path.to_owned());
            for (name, value) in fields {
                request = request.with(*name, (*value).to_owned());
            }
            let (response, content) = client.fetch(&request).await.unwrap();
            let field = |name| response.field(name).map(|value| String::from_utf8_lossy(value).into_owned());
            return Self {
                status: response.status,
                etag: field("etag").unwrap_or_default(),
                is_dated: field("last-modified").is_some(),
                length: field("content-length").and_then(|length| length.parse().ok()),
                body: Body::Quic(content),
                _open: (tokio::task::JoinSet::new(), Some((endpoint, client))),
            };
        }
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(64 << 10).unwrap();
        let socket = socket.connect(served.address.parse().unwrap()).await.unwrap();
        let alpn = if version == Version::One { "http/1.1" } else { "h2" };
        let name = "localhost".try_into().unwrap();
        let stream = TlsConnector::from(config.tls(&[alpn])).connect(name, socket).await.unwrap();
        let stream = TokioIo::new(stream);
        let mut tasks = tokio::task::JoinSet::new();
        let uri = if version == Version::One {
            path.to_owned()
        } else {
            format!("https://{}{path}", served.address)
        };
        let mut request = hyper::Request::get(uri).header("host", &served.address);
        if version == Version::Two {
            request.headers_mut().unwrap().clear();
        }
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let request = request.body(String::new()).unwrap();
        let answer = if version == Version::One {
            let (mut sender, connection) = http1::handshake(stream).await.unwrap();
            tasks.spawn(async move { drop(connection.await) });
            sender.send_request(request).await.unwrap()
        } else {
            let builder = http2::Builder::new(TokioExecutor::new());
            let (mut sender, connection) = builder.handshake(stream).await.unwrap();
            tasks.spawn(async move {
                drop(connection.await);
            });
            let answer = sender.send_request(request).await.unwrap();
            // With its last sender a connection takes no more requests.
            tasks.spawn(async move {
                std::future::pending::<()>().await;
                drop(sender);
            });
            answer
        };
        let field = |name| answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        Self {
            status: answer.status().as_u16(),
            etag: field("etag").unwrap_or_default(),
            is_dated: field("last-modified").is_some(),
            length: field("content-length").and_then(|length| length.parse().ok()),
            body: Body::Tcp(answer.into_body()),
            _open: (tasks, None),
        }
    }

    /// More of it; `None` at its end, and no words where it broke off.
    async fn next(&mut self) -> Result<Option<Bytes>, ()> {
        match &mut self.body {
            Body::Quic(content) => content.next().await.map_err(drop),
            Body::Tcp(body) => loop {
                let frame = std::future::poll_fn(|cx| std::pin::Pin::new(&mut *body).poll_frame(cx)).await;
                match frame.transpose().map_err(drop)? {
                    None => return Ok(None),
                    Some(frame) => match frame.into_data() {
                        Ok(data) if !data.is_empty() => return Ok(Some(data)),
                        _ => {}
                    },
                }
            },
        }
    }

    /// The rest; an error where it broke off, or is not as long as was said.
    async fn rest(mut self) -> Result<Vec<u8>, ()> {
        let mut all = Vec::new();
        while let Some(data) = self.next().await? {
            all.extend_from_slice(&data);
        }
        Ok(all)
    }
}

/// What happens to a file of so many bytes, all of them this one.
type Happening = fn(&Path, usize);

const NEW: u8 = b'b';
const OLD: u8 = b'a';

fn written(path: &Path, len: usize) {
    fs::write(path, vec![NEW; len]).unwrap();
}

fn replaced(path: &Path, len: usize) {
    let beside = path.with_extension("beside");
    fs::write(&beside, vec![NEW; len]).unwrap();
    fs::rename(beside, path).unwrap();
}

/// As `cp -p` and `rsync --inplace -t` do, where all files are dated alike.
fn dated(path: &Path, modified: SystemTime) {
    File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
}

/// With what its name has then; `None` where it has nothing.
const HAPPENINGS: [(&str, Happening, Option<u8>); 11] = [
    ("written", written, Some(NEW)),
    ("written-longer", |path, len| written(path, len + 1000), Some(NEW)),
    ("written-shorter", |path, len| written(path, len - 1), Some(NEW)),
    (
        "written-and-dated-back",
        |path, len| {
            let modified = path.metadata().unwrap().modified().unwrap();
            written(path, len);
            dated(path, modified);
        },
        Some(NEW),
    ),
    (
        "written-in-times-to-come",
        |path, len| {
            written(path, len);
            dated(path, SystemTime::now() + Duration::from_secs(86_400));
        },
        Some(NEW),
    ),
    (
        "its-end-written",
        |path, len| {
            use std::os::unix::fs::FileExt as _;
            let file = File::options().write(true).open(path).unwrap();
            file.write_all_at(&vec![NEW; len / 2], (len - len / 2) as u64).unwrap();
        },
        None,
    ),
    ("replaced", replaced, Some(NEW)),
    (
        "replaced-by-one-of-the-same-time",
        |path, len| {
            let modified = path.metadata().unwrap().modified().unwrap();
            replaced(path, len);
            dated(path, modified);
        },
        Some(NEW),
    ),
    ("emptied", |path, _| written(path, 0), Some(NEW)),
    ("removed", |path, _| fs::remove_file(path).unwrap(), None),
    (
        "a-folder",
        |path, _| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        },
        None,
    ),
];

/// Until another change has another time: what is written before looks the same to the system.
fn tick(path: &Path) {
    let changed = |path: &Path| path.metadata().unwrap().modified().unwrap();
    let probe = path.with_extension("probe");
    let (before, began) = (changed(path), Instant::now());
    while fs::write(&probe, "").is_ok() && changed(&probe) <= before {
        assert!(began.elapsed() < LIMIT, "the clock stands still");
    }
    fs::remove_file(probe).unwrap();
}

/// What comes is one version. Where the bytes themselves are others it breaks off, and where the name has
/// another file it goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_changes_while_it_is_sent_comes_as_one_version_or_breaks_off() {
    let served = Served::new("changes", &[]);
    for version in [Version::One, Version::Two, Version::Three] {
        for (name, happening, _) in HAPPENINGS {
            let path = served.folder.join("site").join(name);
            fs::write(&path, vec![OLD; LEN]).unwrap();
            tick(&path);
            let mut answer = Answer::to(&served, version, &format!("/{name}"), &[]).await;
            assert_eq!((answer.status, answer.length), (200, Some(LEN)), "{name} by {version:?}");
            let first = answer.next().await.unwrap().unwrap();
            happening(&path, LEN);
            let rest = answer.rest().await;
            let same_bytes = name.starts_with("replaced") || ["removed", "a-folder"].contains(&name);
            match &rest {
                Ok(rest) => {
                    assert_eq!(first.len() + rest.len(), LEN, "{name} by {version:?}");
                    let is_one = first.iter().chain(rest).all(|byte| *byte == OLD);
                    assert!(is_one, "{name} by {version:?}: two versions in one");
                }
                Err(()) => {
                    assert!(!same_bytes, "{name} by {version:?}: it is open, and to be read to its end");
                }
            }
            assert!(same_bytes || rest.is_err(), "{name} by {version:?}: the buffers hold all of it");
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
        }
    }
}

/// Who asks for what is kept in memory, whole or in parts, has what is there now, whatever its date says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_changes_while_it_is_kept_comes_as_it_is_now() {
    // What is kept as a whole, and what is in parts.
    const LENGTHS: [usize; 2] = [1000, 200_000];
    let served = Served::new("kept", &[]);
    let site = served.folder.join("site");
    let (began, mut to_be_dated) = (Instant::now(), Vec::new());
    for version in [Version::One, Version::Two, Version::Three] {
        for ((name, happening, now), len) in HAPPENINGS.iter().flat_map(|h| LENGTHS.map(|len| (*h, len))) {
            let file = format!("{name}-{len}-{version:?}");
            fs::write(site.join(&file), vec![OLD; len]).unwrap();
            to_be_dated.push((version, file, happening, now, len));
        }
    }
    for (version, file, happening, now, len) in to_be_dated {
        let (path, target) = (site.join(&file), format!("/{file}"));
        // Nothing is kept before its second is over, and it has a date then; until the clock of the file
        // system has ticked, each answer has a tag of its own.
        let mut before = String::new();
        let etag = loop {
            let answer = Answer::to(&served, version, &target, &[]).await;
            let (etag, is_dated) = (answer.etag.clone(), answer.is_dated);
            assert!(answer.rest().await.is_ok_and(|all| all == vec![OLD; len]), "{file}");
            if is_dated && etag == before {
                break etag;
            }
            before = etag;
            assert!(began.elapsed() < LIMIT, "{file} has no date");
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        let again = Answer::to(&served, version, &target, &[("if-none-match", &etag)]).await;
        assert_eq!(again.status, 304, "{file}");
        happening(&path, len);
        let range = [("range", "bytes=0-499"), ("if-range", &etag[..])];
        for fields in [&[][..], &[("if-none-match", &etag[..])], &range] {
            let answer = Answer::to(&served, version, &target, fields).await;
            let Some(now) = now else {
                let is_half = file.starts_with("its-end") && answer.status == 200;
                assert!(is_half || [404, 308].contains(&answer.status), "{file}: {}", answer.status);
                continue;
            };
            assert_eq!(answer.status, 200, "{file} with {fields:?}");
            assert_ne!(answer.etag, etag, "{file}");
            let there = path.metadata().unwrap().len();
            let all = answer.rest().await.unwrap();
            assert_eq!(all.len() as u64, there, "{file} with {fields:?}");
            assert!(all.iter().all(|byte| *byte == now), "{file} with {fields:?}: what it was");
        }
    }
}
