//! Many requests at once over streams that are cut and held up anywhere: what arrives is what was sent.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use proptest::prelude::*;
use quickset_base::Rng;
use quickset_h3::{
    BodyRead, Config, ErrorCode, Event, Field, Request, Response, Transport as _, VerbRefusal,
};
use quickset_quic::{Dir, Side, StreamId};

use crate::net::{Pair, Peer, Raw, frame, headers, net};

/// A message on its way: what is yet to send, and what has come.
#[derive(Default)]
struct Message {
    content: Bytes,
    sent: usize,
    ended: bool,
    got: Vec<u8>,
    trailers: Option<Vec<Field>>,
    over: bool,
}

fn content(rng: &mut Rng) -> Bytes {
    let len = if rng.chance(0.3) { 0 } else { rng.below(3000) };
    (0..len).map(|_| rng.next() as u8).collect::<Vec<u8>>().into()
}

fn fields(rng: &mut Rng) -> Vec<Field> {
    let names = ["accept", "user-agent", "x-one", "x-two", "x-three"];
    (0..rng.below(5))
        .map(|_| {
            let name = names[rng.below(5) as usize];
            Field::new(name, "v".repeat(rng.below(6) as usize * 5 + 1))
        })
        .collect()
}

fn trailers(content: &Bytes) -> Vec<Field> {
    vec![Field::new("x-length", content.len().to_string())]
}

/// Sends a little of a message; trailers when its length is odd.
fn send(peer: &mut Peer, id: StreamId, message: &mut Message) {
    if message.ended {
        return;
    }
    let mut rest = message.content.slice(message.sent..message.content.len().min(message.sent + 700));
    if rest.is_empty() {
        let result = if message.content.len() % 2 == 1 {
            peer.h3.send_trailers(&mut peer.t, id, &trailers(&message.content))
        } else {
            peer.h3.finish(&mut peer.t, id)
        };
        result.expect("it may be");
        message.ended = true;
        return;
    }
    match peer.h3.send(&mut peer.t, id, &mut rest) {
        Ok(n) => message.sent += n,
        Err(VerbRefusal::Blocked) => {}
        Err(other) => panic!("{other:?}"),
    }
}

fn receive(peer: &mut Peer, id: StreamId, message: &mut Message, max: usize) {
    while !message.over {
        match peer.h3.read(&mut peer.t, id, max) {
            Ok(BodyRead::Data(data)) => message.got.extend_from_slice(&data),
            Ok(BodyRead::Trailers(fields)) => message.trailers = Some(fields),
            Ok(BodyRead::Finished) => message.over = true,
            Ok(BodyRead::Blocked) => return,
            Err(other) => panic!("{other:?}"),
        }
    }
}

fn check(message: &Message) {
    assert!(
        message.over && message.got == message.content,
        "{} of {}",
        message.got.len(),
        message.content.len()
    );
    let expected = (message.content.len() % 2 == 1).then(|| trailers(&message.content));
    assert_eq!(message.trailers, expected);
}

fn play(seed: u64, window: usize, chunk: u64, table: u64, max_blocked: u64) {
    let mut rng = Rng::new(seed);
    let net = net(seed);
    net.borrow_mut().window = window;
    net.borrow_mut().chunk = chunk;
    net.borrow_mut().shuffled = true;
    let mut pair = Pair::on(net, &Config { table, max_blocked, grease: Some(seed), ..Config::default() });
    let mut requests: BTreeMap<StreamId, (Request, Message, Message)> = BTreeMap::new();
    let mut known = BTreeSet::new();
    let (mut asked, mut answered) = (0, 0);
    for turn in 0.. {
        assert!(turn < 20_000, "seed {seed}: it stands still");
        if asked < 30 && rng.chance(0.3) {
            let mut request = Request::new("POST", "example.com", "/");
            request.fields = fields(&mut rng);
            let id = pair.client.h3.request(&mut pair.client.t, &request, false).expect("it may be");
            let up = Message { content: content(&mut rng), ..Message::default() };
            let down = Message { content: content(&mut rng), ..Message::default() };
            requests.insert(id, (request, up, down));
            asked += 1;
        }
        let (client, server) =
            if rng.chance(0.5) { (pair.client.turn(), Vec::new()) } else { (Vec::new(), pair.server.turn()) };
        for event in server {
            if let Event::Request { id, request, .. } = event {
                assert_eq!(request, requests[&id].0);
                let mut response = Response::new(200);
                response.fields = fields(&mut rng);
                let (asked, ..) = requests.get_mut(&id).expect("it was asked");
                asked.fields.clone_from(&response.fields);
                pair.server.h3.respond(&mut pair.server.t, id, &response, false).expect("it may be");
                known.insert(id);
                answered += 1;
            }
        }
        for event in client {
            if let Event::Response { id, response } = event {
                assert_eq!(response.fields, requests[&id].0.fields);
            }
        }
        for (&id, (_, up, down)) in &mut requests {
            if rng.chance(0.3) {
                send(&mut pair.client, id, up);
            }
            let max = 1 + rng.below(500) as usize;
            if known.contains(&id) {
                send(&mut pair.server, id, down);
                receive(&mut pair.server, id, up, max);
            }
            receive(&mut pair.client, id, down, max);
        }
        if answered == 30
            && requests.values().all(|(_, up, down)| up.over && down.over && up.ended && down.ended)
        {
            break;
        }
    }
    pair.run();
    assert_eq!(pair.net.borrow().closed, None);
    for (_, up, down) in requests.values() {
        check(up);
        check(down);
    }
    assert!(pair.client.h3.is_idle() && pair.server.h3.is_idle(), "streams are forgotten");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_arrives_is_what_was_sent(seed: u64, window in 20..2000_usize, chunk in 0..60_u64, table in prop_oneof![Just(0), 64..600_u64, Just(4096)], max_blocked in 0..8_u64) {
        play(seed, window, chunk, table, max_blocked);
    }
}

/// Something that may begin a stream: a request, and a response to one.
fn beginning() -> impl Strategy<Value = (Request, Vec<u8>)> {
    let requests = vec![
        Request::new("POST", "a", "/"),
        Request::new("POST", "a", "/").with("content-length", "3"),
        Request::connect("a:1"),
        Request::extended("webtransport", "a", "/"),
        Request::extended("webtransport", "a", "/"),
    ];
    let responses = vec![
        headers(&[(":status", "200")]),
        headers(&[(":status", "200")]),
        [headers(&[(":status", "103")]), headers(&[(":status", "404"), ("content-length", "3")])].concat(),
        // Ahead of the table.
        frame(1, &[2, 0, 0xd9, 0x80]),
    ];
    (prop::sample::select(requests), prop::sample::select(responses))
}

/// The request as its client writes it.
fn written(request: &Request) -> Vec<u8> {
    let text = |part: &Option<Bytes>| part.as_ref().map(|p| String::from_utf8_lossy(p).into_owned());
    let parts = [
        (":method", Some(String::from_utf8_lossy(&request.method).into_owned())),
        (":scheme", text(&request.scheme)),
        (":authority", text(&request.authority)),
        (":path", text(&request.path)),
        (":protocol", text(&request.protocol)),
        ("content-length", request.field("content-length").map(|_| "3".to_owned())),
    ];
    let lines: Vec<(&str, &str)> = parts.iter().filter_map(|(n, v)| Some((*n, v.as_deref()?))).collect();
    headers(&lines)
}

/// Something that may follow.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let good = vec![
        frame(0, b"abc"),
        frame(0, b""),
        frame(0x21, b"padding"),
        // Capsules: a datagram, the request to end, the end.
        frame(0, &[0, 1, b'y']),
        frame(0, &[0x80, 0, 0x78, 0xae, 0]),
        frame(0, &[0x68, 0x43, 5, 0, 0, 0, 1, b'!']),
        b"raw".to_vec(),
    ];
    let last = vec![
        headers(&[("x", "1")]),
        // A reference to the second entry.
        frame(1, &[3, 0, 0x80]),
        headers(&[(":status", "200")]),
    ];
    prop_oneof![3 => prop::sample::select(last), 60 => prop::sample::select(good), 1 => prop::collection::vec(any::<u8>(), 0..9)]
}

/// What a peer, and our application, may do.
#[derive(Clone, Debug)]
enum Step {
    /// A request, by whoever is the client, and the beginning of an answer, if the peer is the server.
    Request(Request, Vec<u8>),
    /// A stream of the peer's.
    Open(Vec<u8>, bool),
    /// An entry for the table.
    Entry,
    Priority(u8),
    Write(usize, Vec<u8>),
    Finish(usize),
    Reset(usize),
    Stop(usize),
    Datagram(Vec<u8>),
    Respond(usize, u16, bool),
    Read(usize),
    Send(usize),
    Cancel(usize),
    Session(usize, bool),
    Close(usize),
    GoAway(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let n = || 0..6_usize;
    let uni = prop::sample::select(vec![vec![0x40, 0x54, 0, b'x'], vec![0x40, 0x54], vec![0x21], vec![]]);
    let bi = prop::sample::select(vec![vec![0x40, 0x41, 0, b'x'], vec![0x40, 0x41, 4], vec![0x40]]);
    prop_oneof![
        6 => beginning().prop_map(|(request, answer)| Step::Request(request, answer)),
        1 => uni.prop_map(|bytes| Step::Open(bytes, true)),
        2 => bi.prop_map(|bytes| Step::Open(bytes, false)),
        1 => Just(Step::Entry),
        1 => (0..4_u8).prop_map(Step::Priority),
        12 => (n(), fragment()).prop_map(|(n, bytes)| Step::Write(n, bytes)),
        1 => n().prop_map(Step::Finish),
        1 => n().prop_map(Step::Reset),
        1 => n().prop_map(Step::Stop),
        1 => prop::collection::vec(0..5_u8, 1..4).prop_map(Step::Datagram),
        6 => (n(), prop::sample::select(vec![100, 200, 200, 304, 404]), any::<bool>()).prop_map(|(n, status, end)| Step::Respond(n, status, end)),
        4 => n().prop_map(Step::Read),
        2 => n().prop_map(Step::Send),
        1 => n().prop_map(Step::Cancel),
        2 => (n(), any::<bool>()).prop_map(|(n, uni)| Step::Session(n, uni)),
        1 => n().prop_map(Step::Close),
        1 => any::<bool>().prop_map(Step::GoAway),
    ]
}

fn act(raw: &mut Raw, ids: &mut Vec<StreamId>, step: &Step) {
    // The streams of late, and now and then one that is not there.
    let id = |n: &usize| ids.iter().rev().nth(*n).copied().unwrap_or(StreamId(*n as u64 * 4));
    let client = raw.ours.t.side.is_client();
    let (h3, t) = (&mut raw.ours.h3, &mut raw.ours.t);
    match step {
        Step::Request(request, answer) => {
            let id = if client { h3.request(t, request, false).ok() } else { raw.t.open(Dir::Bi) };
            let bytes = if client { answer.clone() } else { written(request) };
            if let Some(id) = id {
                ids.push(id);
                let _ = raw.t.write(id, &mut Bytes::from(bytes));
            }
        }
        Step::Open(_, false) if client && !raw.net.borrow().takes_datagrams => {}
        Step::Open(bytes, uni) => {
            if let Some(id) = raw.t.open(if *uni { Dir::Uni } else { Dir::Bi }) {
                ids.push(id);
                let _ = raw.t.write(id, &mut Bytes::copy_from_slice(bytes));
            }
        }
        Step::Entry => drop(raw.t.write(raw.encoder, &mut Bytes::from_static(&[0xc0, 1, b'a']))),
        Step::Priority(_) if client => {}
        Step::Priority(id) => {
            let bytes = vec![0x80, 0x0f, 7, 0, 4, id * 4, b'u', b'=', b'1'];
            let _ = raw.t.write(raw.control, &mut Bytes::from(bytes));
        }
        Step::Write(n, bytes) => drop(raw.t.write(id(n), &mut Bytes::copy_from_slice(bytes))),
        Step::Finish(n) => drop(raw.t.finish(id(n))),
        Step::Reset(n) => raw.t.reset(id(n), 0x10c),
        Step::Stop(n) => raw.t.stop(id(n), 0x10c),
        Step::Datagram(bytes) => raw.t.send_datagram(bytes.clone().into()),
        Step::Respond(n, status, end) => drop(h3.respond(t, id(n), &Response::new(*status), *end)),
        Step::Read(n) => {
            let _ = h3.read(t, id(n), 7);
            let _ = h3.session_read(t, id(n), 7);
        }
        Step::Send(n) => {
            let _ = h3.send(t, id(n), &mut Bytes::from("data"));
            let _ = h3.session_write(t, id(n), &mut Bytes::from("data"));
            let _ = h3.send_datagram(t, id(n), b"x");
        }
        Step::Cancel(n) => {
            h3.session_stop(t, id(n), 1);
            h3.cancel(t, id(n), ErrorCode::H3_REQUEST_CANCELLED);
        }
        Step::Session(n, uni) => {
            let dir = if *uni { Dir::Uni } else { Dir::Bi };
            ids.extend(h3.open_session_stream(t, id(n), dir));
        }
        Step::Close(n) => {
            let _ = h3.close_session(t, id(n), 1, "over");
            let _ = h3.finish(t, id(n));
            h3.stop(t, id(n), ErrorCode::H3_NO_ERROR);
        }
        Step::GoAway(soon) => h3.go_away(t, *soon),
    }
    raw.ours.turn();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// Whatever a peer says, and whatever the application asks for, ours answers, refuses or closes, and does
    /// not panic.
    #[test]
    fn anything_may_be_said(steps in prop::collection::vec(step(), 0..60), client: bool, webtransport: bool) {
        let side = if client { Side::Client } else { Side::Server };
        let config = Config { webtransport: u64::from(webtransport), ..Config::default() };
        let settings = [8, 1, 0x33, 1, 0xc0, 0, 0, 0, 0xc6, 0x71, 0x70, 0x6a, 1];
        let mut raw = Raw::with(side, config, &settings);
        raw.net.borrow_mut().takes_datagrams = webtransport;
        let mut ids = Vec::new();
        raw.encoder = raw.uni(&[2, 0x3f, 0xe1, 0x1f]);
        for step in &steps {
            act(&mut raw, &mut ids, step);
        }
    }
}
