//! The handles of sessions of WebTransport as applications have them, over the loopback, on both sides:
//! opened, accepted, read, written, given up and dropped at any moment, also while somebody waits in them;
//! and a peer that says anything.
//!
//! Whatever both do, whoever waits is woken. Between two that keep to the protocol, what is read is what was
//! written, and what was finished arrives while nobody gives it up. Of a session that is over nothing is
//! left: another one has all the streams that the connection allows, connections say goodbye, and their
//! memory comes back.
//!
//! The first three bytes of the input are who says anything, the end, and the application protocols; then
//! come operations of three bytes, the highest bit of the second being the server's.
#![no_main]

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Mutex;
use std::task::Poll;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use quickset::bytes::Bytes as Shared;
use quickset::h3::webtransport::{RecvStream, SendStream, Session, SessionError};
use quickset::h3::{
    self, Client, Config, Content, ContentSender, ErrorCode, Priority, Request, Response, Server,
};
use quickset::quic::{Dir, Side};
use quickset::{Budget, Class, ClientConfig, Connection, DatagramOptions, Endpoint, Identity};
use quickset::{ServerConfig, TransportConfig, Trust};
use quickset_fuzz::{Bytes, held};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

fuzz_target!(|input: &[u8]| {
    static WORLD: Mutex<Option<(World, usize)>> = Mutex::new(None);
    let mut world = WORLD.lock().expect("nobody panics and goes on");
    if world.as_ref().is_none_or(|(_, runs)| *runs == RUNS) {
        let new = World::new();
        // The first ones fill pools and tables.
        (0..2).for_each(|_| new.run(&[]));
        *world = Some((new, 0));
    }
    let (world, runs) = world.as_mut().expect("it was made");
    *runs += 1;
    let before = held();
    world.run(input);
    let kept = held() - before;
    assert!(kept <= KEPT, "{kept} bytes are left");
});

/// Connections between two endpoints, before there are others: of each a server remembers the token that was
/// used, up to some thousands, in tables that double.
const RUNS: usize = 200;

/// What there is for many inputs: all connections are between these two endpoints.
struct World {
    runtime: Runtime,
    server: Endpoint,
    client: Endpoint,
    address: SocketAddr,
    config: ClientConfig,
    /// What the server's connections hold.
    budget: Budget,
}

impl World {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let inside = runtime.enter();
        let identity = Identity::self_signed(["localhost"]).expect("a key");
        let trust = Trust::pinned(identity.fingerprint());
        let budget = Budget::new(64 << 20);
        let config = ServerConfig::new(identity, &[h3::ALPN]).expect("usable");
        let config = config.with_transport(transport()).with_budget(budget.clone());
        let server = Endpoint::server(([127, 0, 0, 1], 0).into(), &config).expect("a socket");
        let client = Endpoint::client().expect("a socket");
        let config = ClientConfig::new(trust, &[h3::ALPN]).expect("usable").with_transport(transport());
        let address = server.local_addr();
        drop(inside);
        Self { runtime, server, client, address, config, budget }
    }

    fn run(&self, input: &[u8]) {
        self.runtime.block_on(async {
            let play = tokio::time::timeout(LIMIT, self.play(Bytes(input)));
            play.await.expect("somebody waits for what does not come");
        });
    }

    /// A connection, and what happens on it; returns once both endpoints have forgotten it.
    async fn play(&self, mut bytes: Bytes<'_>) {
        let (near, far) =
            tokio::join!(self.client.connect(self.address, "localhost", &self.config), self.server.accept());
        let (near, far) = (near.expect("it is there"), far.expect("it came"));
        let client = Client::new(&near, config()).expect("the only one");
        let mut server = Server::new(&far, config()).expect("the only one");
        drop((near, far));
        let [who, end] = [bytes.next(), bytes.next()];
        let liar = [None, None, Some(Side::Client), Some(Side::Server)][usize::from(who) % 4];
        let ends = begin(&client, &mut server, liar, bytes.next()).await;
        let mut play = Play::new(ends, liar.is_none(), who & 4 != 0);
        for _ in 0..OPERATIONS {
            if bytes.is_empty() {
                break;
            }
            let [op, which, arg] = [bytes.next(), bytes.next(), bytes.next()];
            play.act(op, which, arg, &mut bytes).await;
        }
        let is_honest = play.is_honest;
        if play.end(end).await && is_honest {
            all_comes_back(&client, &mut server).await;
            client.shutdown().await;
        }
        drop((client, server));
        self.client.wait_idle().await;
        self.server.wait_idle().await;
        // A handle that goes last asks the driver to look once more, which holds the connection until it has.
        let given_back = async {
            while self.budget.usage().held > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let is_given_back = tokio::time::timeout(Duration::from_secs(1), given_back).await;
        is_given_back.unwrap_or_else(|_| panic!("{} bytes of no connection", self.budget.usage().held));
    }
}

/// Little of everything, so that much has to wait, and soon over.
fn transport() -> TransportConfig {
    TransportConfig::fixed_mtu(1200)
        .with_max_bidi_streams(STREAMS + 1)
        .with_max_uni_streams(STREAMS + CRITICAL)
        .with_stream_window(4 << 10)
        .with_max_stream_window(8 << 10)
        .with_max_connection_window(16 << 10)
        .with_send_buffer(4 << 10)
        .with_connection_send_buffer(16 << 10)
        .with_max_ack_delay(Duration::from_millis(1))
}

fn config() -> Config {
    Config { webtransport: 1, datagrams: true, ..Config::default() }
}

fn request() -> Request {
    Request::extended("webtransport", "localhost", "/")
}

/// A side of a session: as applications have it, or its exchange, on which one may say anything.
#[expect(clippy::large_enum_variant, reason = "there are two of them")]
enum End {
    Session(Session),
    Raw(Connection, Option<ContentSender>, Option<Content>),
}

/// A session, of which `liar` has the exchange.
async fn begin(client: &Client, server: &mut Server, liar: Option<Side>, protocols: u8) -> [End; 2] {
    let names: &[&str] = [&[][..], &["chat/1"], &["chat/2", "chat/1"]][usize::from(protocols) % 3];
    let request = request().offering(names).expect("names");
    let mut response = Response::new(200);
    let chosen = names.get(usize::from(protocols >> 4) % 4).copied();
    if let Some(chosen) = chosen {
        response = response.choosing(chosen).expect("a name");
    }
    let ask = async {
        if liar != Some(Side::Client) {
            let session = client.session(&request).await.expect("it was accepted");
            assert_eq!(session.protocol(), chosen);
            return End::Session(session);
        }
        client.settings().await.expect("they came");
        let (sender, answer) = client.request(&request).await.expect("it may");
        let (_, content) = answer.response().await.expect("it was accepted");
        End::Raw(client.connection().clone(), Some(sender), Some(content))
    };
    let answer = async {
        let call = server.accept().await.expect("a request");
        assert!(call.is_session() && call.request.protocols() == names);
        if liar != Some(Side::Server) {
            let session = call.into_session(&response).expect("it is one");
            assert_eq!(session.protocol(), chosen);
            return End::Session(session);
        }
        let sender = call.reply.respond(&response).expect("it is there");
        End::Raw(server.connection().clone(), Some(sender), Some(call.content))
    };
    let (near, far) = tokio::join!(ask, answer);
    [near, far]
}

/// Of a session and of another one behind it on the same connection nothing is left: all streams can be open
/// at once, and all that is written on them arrives.
async fn all_comes_back(client: &Client, server: &mut Server) {
    let request = request();
    let ask = async {
        loop {
            match client.session(&request).await {
                // Until the end of the other has come back.
                Err(SessionError::Http(h3::HttpError::Refused(h3::VerbRefusal::TooManySessions))) => {
                    client.connection().round_trip().await;
                }
                session => return session.expect("it was accepted"),
            }
        }
    };
    let answer = async {
        let call = server.accept().await.expect("a request");
        call.into_session(&Response::new(200)).expect("it is one")
    };
    let (near, far) = tokio::join!(ask, answer);
    for (a, b) in [(&near, &far), (&far, &near)] {
        let mut open = Vec::new();
        for n in 0..STREAMS {
            let tag = u32::try_from(n).expect("few");
            let uni = a.open_uni().await.expect("there is a session");
            // The client's request is one of the streams in both directions.
            let (bi, back) = a.open_bi().await.expect("there is a session");
            open.push((tag, uni, bi, back));
        }
        let write = async {
            for (tag, uni, bi, back) in open {
                for mut send in [uni, bi] {
                    send.send(said(tag, 0, 900)).await.expect("nobody gives up");
                    send.finish().expect("nobody gives up");
                }
                drop(back);
            }
        };
        let read = async {
            for _ in 0..STREAMS {
                let uni = b.accept_uni().await.expect("there is a session");
                let (send, bi) = b.accept_bi().await.expect("there is a session");
                drop(send);
                for mut recv in [uni, bi] {
                    let all = recv.read_to_end(1000).await.expect("nobody gives up");
                    let tag = u32::from_le_bytes(all[..4].try_into().expect("four"));
                    assert!(all == said(tag, 0, 900));
                }
            }
        };
        tokio::join!(write, read);
    }
}

/// What a stream carries from there on: its number first, then what tells streams and places apart.
fn said(tag: u32, from: usize, len: usize) -> Shared {
    let byte = |at: usize| match tag.to_le_bytes().get(at) {
        Some(byte) => *byte,
        None => (at ^ at >> 8) as u8 ^ (tag as u8).wrapping_mul(29),
    };
    (from..from + len).map(byte).collect()
}

/// A half of a stream, by the number that it carries.
#[derive(Debug)]
struct Half {
    writer: Side,
    /// At most so much was written.
    most: usize,
    /// It is known how much.
    is_exact: bool,
    finished: bool,
    /// Somebody gave it up.
    given_up: bool,
    arrived: bool,
}

struct Sending {
    tag: u32,
    handle: SendStream,
}

struct Receiving {
    handle: RecvStream,
    /// What was read of the number.
    head: Vec<u8>,
    tag: Option<u32>,
    at: usize,
}

/// What somebody waited for, and got.
enum Done {
    Sent(Sending, Result<(), SessionError>),
    All(Receiving, Result<Vec<u8>, SessionError>),
    Opened(Result<(SendStream, Option<RecvStream>), SessionError>),
    Accepted(Result<(Option<SendStream>, RecvStream), SessionError>),
    Other,
}

/// What goes with somebody who waits.
#[derive(Clone, Copy)]
enum Holds {
    Sending(u32),
    Receiving(Option<u32>),
    Opening,
    Nothing,
}

/// A side, and its handles.
struct Holder {
    side: Side,
    end: Option<End>,
    sending: Vec<Sending>,
    receiving: Vec<Receiving>,
    waiting: Vec<(Holds, JoinHandle<Done>)>,
    /// Streams to it of which it gave up the rest, and does not know which they were.
    lost: usize,
    /// Datagrams that it sent.
    datagrams: Vec<Vec<u8>>,
}

struct Play {
    holders: [Holder; 2],
    halves: Vec<Half>,
    /// Both keep to the protocol.
    is_honest: bool,
    /// Those with a session may say other things beside it, too.
    may_lie: bool,
    /// Somebody ended the session.
    is_over: bool,
}

impl Play {
    fn new(ends: [End; 2], is_honest: bool, may_lie: bool) -> Self {
        let mut sides = [Side::Client, Side::Server].into_iter();
        let holders = ends.map(|end| Holder {
            side: sides.next().expect("two"),
            end: Some(end),
            sending: Vec::new(),
            receiving: Vec::new(),
            waiting: Vec::new(),
            lost: 0,
            datagrams: Vec::new(),
        });
        Self { holders, halves: Vec::new(), is_honest, may_lie, is_over: false }
    }

    async fn act(&mut self, op: u8, which: u8, arg: u8, bytes: &mut Bytes<'_>) {
        let side = usize::from(which >> 7);
        let n = usize::from(which & 0x7f);
        self.collect().await;
        if (self.may_lie && op >= 0xe0) || matches!(&self.holders[side].end, Some(End::Raw(..))) {
            return self.lie(side, op, arg, bytes).await;
        }
        match op % 16 {
            0 => self.open(side, if arg & 1 == 0 { Dir::Uni } else { Dir::Bi }, arg & 2 == 0).await,
            1 => self.accept(side, if arg & 1 == 0 { Dir::Uni } else { Dir::Bi }, arg & 2 == 0).await,
            2 | 3 => self.write(side, n, arg).await,
            4 => self.send(side, n, usize::from(arg) * usize::from(arg), which & 1 == 0).await,
            5 | 6 => self.read(side, n, arg).await,
            7 => self.read_all(side, n, usize::from(arg) * 300),
            8 => self.finish(side, n, arg).await,
            9 => self.give_up_sending(side, n, arg),
            10 => self.give_up_receiving(side, n, arg),
            11 => self.datagram(side, usize::from(arg) * 6),
            12 => self.hear_datagram(side).await,
            13 => self.of_session(side, n, arg).await,
            14 => self.abort(side, n),
            _ if arg < 200 => pause(arg % 16).await,
            _ => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }

    fn session(&self, side: usize) -> Option<Session> {
        match &self.holders[side].end {
            Some(End::Session(session)) => Some(session.clone()),
            _ => None,
        }
    }

    /// Somebody waits for it.
    fn spawn(&mut self, side: usize, holds: Holds, task: impl Future<Output = Done> + Send + 'static) {
        self.holders[side].waiting.push((holds, tokio::spawn(task)));
    }

    async fn open(&mut self, side: usize, dir: Dir, now: bool) {
        let Some(session) = self.session(side) else { return };
        let open = async move {
            match dir {
                Dir::Uni => session.open_uni().await.map(|send| (send, None)),
                Dir::Bi => session.open_bi().await.map(|(send, recv)| (send, Some(recv))),
            }
        };
        if !now {
            self.spawn(side, Holds::Opening, async { Done::Opened(open.await) });
        } else if let Some(opened) = once(open).await {
            self.done(side, Done::Opened(opened));
        }
    }

    async fn accept(&mut self, side: usize, dir: Dir, now: bool) {
        let Some(session) = self.session(side) else { return };
        let accept = async move {
            match dir {
                Dir::Uni => session.accept_uni().await.map(|recv| (None, recv)),
                Dir::Bi => session.accept_bi().await.map(|(send, recv)| (Some(send), recv)),
            }
        };
        if !now {
            self.spawn(side, Holds::Nothing, async { Done::Accepted(accept.await) });
        } else if let Some(accepted) = once(accept).await {
            self.done(side, Done::Accepted(accepted));
        }
    }

    /// What somebody waited for is there.
    fn done(&mut self, side: usize, done: Done) {
        match done {
            Done::Sent(sending, result) => {
                self.half(sending.tag).is_exact |= result.is_ok();
                if let Err(error) = result {
                    self.failed(side, sending.tag, &error);
                }
                self.holders[side].sending.push(sending);
            }
            Done::All(mut receiving, Ok(all)) => {
                self.hears(side, &mut receiving, &all);
                self.ends(side, &receiving);
            }
            Done::All(receiving, Err(error)) => {
                self.broke_off(side, &receiving, &error);
                self.gives_up(side, receiving);
            }
            Done::Opened(Ok((send, recv))) => {
                self.begins(side, send);
                self.holders[side].receiving.extend(recv.map(Receiving::new));
            }
            Done::Accepted(Ok((send, recv))) => {
                send.into_iter().for_each(|send| self.begins(side, send));
                self.holders[side].receiving.push(Receiving::new(recv));
            }
            Done::Opened(Err(error)) | Done::Accepted(Err(error)) => {
                assert!(self.is_over || !self.is_honest, "{error}");
            }
            Done::Other => {}
        }
    }

    fn half(&mut self, tag: u32) -> &mut Half {
        &mut self.halves[tag as usize]
    }

    fn begins(&mut self, side: usize, handle: SendStream) {
        let tag = u32::try_from(self.halves.len()).expect("few");
        let writer = self.holders[side].side;
        let [finished, given_up, arrived] = [false; 3];
        self.halves.push(Half { writer, most: 0, is_exact: true, finished, given_up, arrived });
        self.holders[side].sending.push(Sending { tag, handle });
    }

    fn take_sending(&mut self, side: usize, n: usize) -> Option<Sending> {
        let all = &mut self.holders[side].sending;
        Some(all.swap_remove(n.checked_rem(all.len())?))
    }

    fn take_receiving(&mut self, side: usize, n: usize) -> Option<Receiving> {
        let all = &mut self.holders[side].receiving;
        Some(all.swap_remove(n.checked_rem(all.len())?))
    }

    /// As a writer of tokio's, which tells how much it took.
    async fn write(&mut self, side: usize, n: usize, arg: u8) {
        let Some(mut sending) = self.take_sending(side, n) else { return };
        let half = self.half(sending.tag);
        if half.is_exact {
            let from = half.most;
            let data = said(sending.tag, from, usize::from(arg) * 20);
            let handle = &mut sending.handle;
            match once(poll_fn(|cx| Pin::new(&mut *handle).poll_write(cx, &data))).await {
                Some(Ok(n)) => {
                    assert!(n <= data.len() && (n > 0 || data.is_empty()), "{n} of {}", data.len());
                    self.half(sending.tag).most += n;
                }
                Some(Err(error)) => {
                    let error = error.get_ref().and_then(|error| error.downcast_ref());
                    self.failed(side, sending.tag, &error.cloned().unwrap_or(SessionError::Gone));
                }
                None => {}
            }
        }
        self.holders[side].sending.push(sending);
    }

    /// All of it, or what goes at once: nobody knows how much, then.
    async fn send(&mut self, side: usize, n: usize, len: usize, now: bool) {
        let Some(mut sending) = self.take_sending(side, n) else { return };
        let half = self.half(sending.tag);
        let was_exact = std::mem::replace(&mut half.is_exact, false);
        if !was_exact {
            return self.holders[side].sending.push(sending);
        }
        let data = said(sending.tag, half.most, len);
        half.most += len;
        if !now {
            return self.spawn(side, Holds::Sending(sending.tag), async move {
                let result = sending.handle.send(data).await;
                Done::Sent(sending, result)
            });
        }
        let sent = once(sending.handle.send(data)).await;
        match sent {
            Some(result) => self.done(side, Done::Sent(sending, result)),
            None => self.holders[side].sending.push(sending),
        }
    }

    /// The peer has to have given it up.
    fn failed(&mut self, side: usize, tag: u32, error: &SessionError) {
        let lost = self.holders[1 - side].lost > 0;
        let half = self.half(tag);
        let given_up = std::mem::replace(&mut half.given_up, true);
        let is_said = given_up || half.finished || lost || self.is_over || !self.is_honest;
        assert!(is_said, "{error} of {:?}", self.halves[tag as usize]);
    }

    async fn read(&mut self, side: usize, n: usize, arg: u8) {
        let Some(mut receiving) = self.take_receiving(side, n) else { return };
        let handle = &mut receiving.handle;
        let read = if arg & 1 == 0 {
            once(handle.next()).await
        } else {
            // Into no room, too, which says nothing.
            let mut room = vec![0; usize::from(arg >> 1) * 16];
            let mut buffer = ReadBuf::new(&mut room);
            let read = once(poll_fn(|cx| Pin::new(&mut *handle).poll_read(cx, &mut buffer))).await;
            let read = read.map(|read| read.map(|()| Shared::copy_from_slice(buffer.filled())));
            if arg == 1 {
                return self.holders[side].receiving.push(receiving);
            }
            read.map(|read| match read {
                Ok(data) => Ok(Some(data).filter(|data| !data.is_empty())),
                Err(error) => {
                    let error = error.get_ref().and_then(|error| error.downcast_ref());
                    Err(error.cloned().unwrap_or(SessionError::Gone))
                }
            })
        };
        match read {
            Some(Ok(Some(data))) => {
                assert!(!data.is_empty());
                self.hears(side, &mut receiving, &data);
            }
            Some(Ok(None)) => return self.ends(side, &receiving),
            Some(Err(error)) => {
                self.broke_off(side, &receiving, &error);
                return self.gives_up(side, receiving);
            }
            None => {}
        }
        self.holders[side].receiving.push(receiving);
    }

    fn read_all(&mut self, side: usize, n: usize, limit: usize) {
        let Some(mut receiving) = self.take_receiving(side, n) else { return };
        self.spawn(side, Holds::Receiving(receiving.tag), async move {
            let all = receiving.handle.read_to_end(limit).await;
            Done::All(receiving, all)
        });
    }

    /// It is what was written.
    fn hears(&mut self, side: usize, receiving: &mut Receiving, data: &[u8]) {
        let at = receiving.at;
        receiving.at += data.len();
        if !self.is_honest {
            return;
        }
        let missing = 4 - receiving.head.len();
        receiving.head.extend(data.iter().take(missing));
        let Ok(head) = <[u8; 4]>::try_from(&receiving.head[..]) else { return };
        let tag = u32::from_le_bytes(head);
        receiving.tag = Some(tag);
        let half = &self.halves[tag as usize];
        assert!(half.writer != self.holders[side].side && !half.arrived, "{half:?}");
        assert!(at + data.len() <= half.most, "more than was written: {half:?}");
        assert!(said(tag, at, data.len()) == data, "something else: {half:?}");
    }

    /// It is complete.
    fn ends(&mut self, side: usize, receiving: &Receiving) {
        if let Some(tag) = receiving.tag {
            let half = self.half(tag);
            assert!(half.finished && !half.arrived, "{half:?}");
            assert!(!half.is_exact || receiving.at == half.most, "{} of {half:?}", receiving.at);
            half.arrived = true;
        } else if self.is_honest {
            assert!(receiving.at < 4, "{side}");
        }
    }

    /// Somebody has to have given it up, or it is longer than was wanted.
    fn broke_off(&mut self, side: usize, receiving: &Receiving, error: &SessionError) {
        let is_long = matches!(error, SessionError::Http(h3::HttpError::TooLong(_)));
        let given_up = receiving.tag.is_none_or(|tag| self.half(tag).given_up);
        assert!(is_long || given_up || self.is_over || !self.is_honest, "{error} at {side}");
    }

    /// Its reader wants no more of it.
    fn gives_up(&mut self, side: usize, receiving: Receiving) {
        match receiving.tag {
            Some(tag) => self.half(tag).given_up = true,
            None => self.holders[side].lost += 1,
        }
    }

    async fn finish(&mut self, side: usize, n: usize, arg: u8) {
        let Some(mut sending) = self.take_sending(side, n) else { return };
        let tag = sending.tag;
        let finished = if arg & 1 == 0 {
            sending.handle.finish().err()
        } else {
            let handle = &mut sending.handle;
            let shut = once(poll_fn(|cx| Pin::new(&mut *handle).poll_shutdown(cx))).await;
            let again = once(poll_fn(|cx| Pin::new(&mut *handle).poll_write(cx, b"behind"))).await;
            assert!(matches!(again, Some(Err(_))), "written behind the end");
            match shut.expect("it does not wait") {
                Ok(()) => None,
                Err(error) => {
                    let error = error.get_ref().and_then(|error| error.downcast_ref());
                    Some(error.cloned().unwrap_or(SessionError::Gone))
                }
            }
        };
        if let Some(error) = finished {
            return self.failed(side, tag, &error);
        }
        self.half(tag).finished = true;
    }

    fn give_up_sending(&mut self, side: usize, n: usize, arg: u8) {
        let Some(sending) = self.take_sending(side, n) else { return };
        self.half(sending.tag).given_up = true;
        if arg != 0 {
            sending.handle.reset(u32::from(arg) << 24 | 77);
        }
    }

    fn give_up_receiving(&mut self, side: usize, n: usize, arg: u8) {
        let Some(receiving) = self.take_receiving(side, n) else { return };
        let Receiving { handle, head, tag, at } = receiving;
        match tag {
            Some(tag) => self.half(tag).given_up = true,
            None => self.holders[side].lost += 1,
        }
        drop((head, at));
        if arg != 0 {
            handle.stop(u32::from(arg) << 24 | 77);
        }
    }

    fn datagram(&mut self, side: usize, len: usize) {
        let Some(session) = self.session(side) else { return };
        let payload: Vec<u8> = (0..len).map(|at| (at ^ len) as u8).collect();
        match session.send_datagram(&payload) {
            Ok(()) => self.holders[side].datagrams.push(payload),
            Err(SessionError::TooLarge(max)) => assert!(len > max, "{len} of {max}"),
            Err(error) => assert!(self.is_over || !self.is_honest, "{error}"),
        }
    }

    async fn hear_datagram(&mut self, side: usize) {
        let Some(session) = self.session(side) else { return };
        match once(session.next_datagram()).await {
            Some(Ok(payload)) if self.is_honest => {
                let sent = &mut self.holders[1 - side].datagrams;
                let at = sent.iter().position(|sent| *sent == payload).expect("somebody sent it");
                sent.swap_remove(at);
            }
            Some(Err(error)) => assert!(self.is_over || !self.is_honest, "{error}"),
            _ => {}
        }
    }

    async fn of_session(&mut self, side: usize, n: usize, arg: u8) {
        let Some(session) = self.session(side) else { return };
        match arg % 8 {
            0 => {
                self.is_over = true;
                session.close(u32::from(arg) << 24 | 1, &reason(arg));
            }
            1 => {
                self.is_over |= session.connection().close_reason().is_some();
                let drained = session.drain();
                assert!(drained.is_ok() || self.is_over || !self.is_honest, "{drained:?}");
            }
            2 => drop(once(session.draining()).await),
            3 => self.spawn(side, Holds::Nothing, async move {
                drop(session.closed().await);
                Done::Other
            }),
            4 => {
                // Streams and those who wait hold it still.
                self.is_over = true;
                self.holders[side].end = None;
            }
            5 => self.spawn(side, Holds::Nothing, async move {
                drop(session.draining().await);
                Done::Other
            }),
            _ => {
                let all = &self.holders[side].sending;
                let Some(at) = n.checked_rem(all.len()) else { return };
                let classes: Vec<Class> =
                    ["a", "b"].iter().take(n % 3).map(|name| Class::new(*name, f64::from(arg))).collect();
                let priority = Priority::new(arg >> 3 & 7, arg & 1 == 0);
                let Ok(priority) = priority.with_classes(&classes) else { return };
                let (tag, set) = (all[at].tag, all[at].handle.set_priority(&priority));
                if let Err(error) = set {
                    self.failed(side, tag, &error);
                }
            }
        }
    }

    /// Whoever waits is dropped, with what they hold.
    fn abort(&mut self, side: usize, n: usize) {
        let all = &mut self.holders[side].waiting;
        let Some(at) = n.checked_rem(all.len()) else { return };
        // What is there is not lost.
        if all[at].1.is_finished() {
            return;
        }
        let (holds, task) = all.swap_remove(at);
        task.abort();
        match holds {
            Holds::Sending(tag) | Holds::Receiving(Some(tag)) => self.half(tag).given_up = true,
            Holds::Receiving(None) => self.holders[side].lost += 1,
            Holds::Opening | Holds::Nothing => {}
        }
    }

    /// What is no session's, or no protocol's.
    async fn lie(&mut self, side: usize, op: u8, arg: u8, bytes: &mut Bytes<'_>) {
        self.is_honest = false;
        let Some(end) = &mut self.holders[side].end else { return };
        let connection = match end {
            End::Session(session) => session.connection().clone(),
            End::Raw(connection, ..) => connection.clone(),
        };
        let mut said = Vec::new();
        // Where a session may be, or none.
        let session = [0, 4, 8, 1, 0x40][usize::from(arg) % 5];
        match op % 8 {
            0 | 1 => {
                said.extend([0x80, 0, 0x28, bytes.of(&[0x43, 0x42, 0x41, 0xae])]);
                said.push(bytes.next());
            }
            2 => said.extend([0x40, 0x54, session]),
            3 => said.extend([0x40, 0x41, session]),
            5 => said.push(session),
            _ => {}
        }
        said.extend(bytes.take(usize::from(arg)));
        match (op % 8, end) {
            (2, _) | (3, _) => {
                let opened = if op % 8 == 2 {
                    once(connection.open_uni()).await.and_then(Result::ok)
                } else {
                    once(connection.open_bi()).await.and_then(Result::ok).map(|(send, _)| send)
                };
                let Some(mut send) = opened else { return };
                drop(once(send.write_all(&said)).await);
                match op >> 3 & 3 {
                    0 => drop(send.finish()),
                    1 => send.reset(u64::from(arg) << 24),
                    2 => self.spawn(side, Holds::Nothing, async move {
                        drop(send.stopped().await);
                        Done::Other
                    }),
                    _ => {}
                }
            }
            (5, _) => drop(connection.try_send_datagram(said.into(), &DatagramOptions::default())),
            (6, End::Raw(_, Some(sender), _)) => drop(sender.send_datagram(&said)),
            (7, End::Raw(_, sender, content)) => match arg % 8 {
                0 => drop(sender.take().map(ContentSender::finish)),
                1 => {
                    sender.take().into_iter().for_each(|sender| sender.cancel(ErrorCode(u64::from(op) << 3)))
                }
                2 => *content = None,
                _ => {
                    if let Some(content) = content {
                        drop(once(content.next()).await);
                    }
                }
            },
            (_, End::Raw(_, Some(sender), _)) => drop(once(sender.send(said.into())).await),
            _ => {}
        }
        pause(0).await;
    }

    /// Whoever waited, and has it.
    async fn collect(&mut self) {
        for side in [0, 1] {
            let all = std::mem::take(&mut self.holders[side].waiting);
            for (holds, task) in all {
                if task.is_finished() {
                    let done = task.await.expect("it was not aborted");
                    self.done(side, done);
                } else {
                    self.holders[side].waiting.push((holds, task));
                }
            }
        }
    }

    /// All that is finished arrives, now that everybody reads.
    async fn all_arrives(&mut self) {
        for round in 0.. {
            self.collect().await;
            for side in [0, 1] {
                for dir in Dir::ALL {
                    self.accept(side, dir, true).await;
                }
                while !self.holders[side].sending.is_empty() {
                    self.finish(side, 0, 0).await;
                }
                while !self.holders[side].receiving.is_empty() {
                    self.read_all(side, 0, usize::MAX);
                }
            }
            if self.is_all_there() {
                return;
            }
            if round % 8 == 7 { tokio::time::sleep(Duration::from_millis(1)).await } else { pause(1).await }
        }
    }

    fn is_all_there(&self) -> bool {
        let waits = |holds: &Holds| matches!(holds, Holds::Sending(_) | Holds::Opening);
        [0, 1].into_iter().all(|side| {
            let Holder { side: writer, waiting, .. } = &self.holders[side];
            let missing = self.halves.iter().filter(|half| {
                // One that is shorter than its number was not known when it came.
                let counts = half.writer == *writer && half.finished && half.is_exact && half.most >= 4;
                counts && !half.given_up && !half.arrived
            });
            missing.count() <= self.holders[1 - side].lost && !waiting.iter().any(|(holds, _)| waits(holds))
        })
    }

    /// The session ends, by whom the input says, and whoever waits hears of it. Whether the connection goes
    /// on.
    async fn end(mut self, end: u8) -> bool {
        if self.is_honest && !self.is_over && end & 1 == 0 {
            self.all_arrives().await;
        }
        let goes_on = end & 0x80 == 0;
        let sessions = [self.session(0), self.session(1)];
        let how = usize::from(end >> 1) % 4;
        if !goes_on {
            sessions.iter().flatten().for_each(|session| session.connection().close(u64::from(end), b"over"));
        } else if let Some(Some(session)) = sessions.get(how) {
            session.close(u32::from(end), &reason(end));
            if let (true, false, Some(other)) = (self.is_honest, self.is_over, &sessions[1 - how]) {
                let ending = other.closed().await.expect("there is a connection");
                let said: String = reason(end).chars().take(512).collect();
                assert_eq!((ending.code, ending.reason), (end.into(), said));
            }
        }
        // Who waits on the other side may have been dropped by it, and waits for what nobody says any more.
        let is_told = sessions.iter().all(Option::is_some) && how < 2 && self.is_honest;
        drop(sessions);
        for holder in self.holders {
            for (_, task) in holder.waiting {
                if !is_told {
                    task.abort();
                }
                drop(task.await);
            }
        }
        goes_on
    }
}

impl Receiving {
    fn new(handle: RecvStream) -> Self {
        Self { handle, head: Vec::new(), tag: None, at: 0 }
    }
}

/// Polls it once, and drops it.
async fn once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(tokio::task::unconstrained(future));
    poll_fn(|cx| {
        Poll::Ready(match future.as_mut().poll(cx) {
            Poll::Ready(found) => Some(found),
            Poll::Pending => None,
        })
    })
    .await
}

/// Others go on.
async fn pause(turns: u8) {
    for _ in 0..=turns {
        tokio::task::yield_now().await;
    }
}

/// It is cut where no letter is.
fn reason(arg: u8) -> String {
    "é".repeat(usize::from(arg) * 4)
}

/// Of one input.
const OPERATIONS: usize = 200;

/// Streams of a session in each direction, at a time.
const STREAMS: u64 = 8;

/// Those that HTTP/3 has by itself.
const CRITICAL: u64 = 3;

/// Nothing takes nearly as long.
const LIMIT: Duration = Duration::from_secs(8);

/// What the endpoints keep of a connection that is no more: tickets, and estimates.
const KEPT: isize = 4 << 10;
