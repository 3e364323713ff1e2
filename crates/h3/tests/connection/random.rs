//! Many requests at once over streams that are cut and held up anywhere: what arrives is what was sent.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use proptest::prelude::*;
use quickset_base::Rng;
use quickset_h3::{Body, Config, Event, Field, Refusal, Request, Response};
use quickset_quic::StreamId;

use crate::net::{Pair, Peer, net};

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
        Err(Refusal::Blocked) => {}
        Err(other) => panic!("{other:?}"),
    }
}

fn receive(peer: &mut Peer, id: StreamId, message: &mut Message, max: usize) {
    while !message.over {
        match peer.h3.read(&mut peer.t, id, max) {
            Ok(Body::Data(data)) => message.got.extend_from_slice(&data),
            Ok(Body::Trailers(fields)) => message.trailers = Some(fields),
            Ok(Body::Finished) => message.over = true,
            Ok(Body::Blocked) => return,
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

    /// Whatever a peer writes, ours answers or closes, and does not panic.
    #[test]
    fn any_bytes_of_a_peer(streams in prop::collection::vec((any::<bool>(), prop::collection::vec(prop_oneof![any::<u8>(), 0..10_u8], 0..40)), 0..12), client: bool, webtransport: bool) {
        let side = if client { quickset_quic::Side::Client } else { quickset_quic::Side::Server };
        let config = Config { webtransport: u64::from(webtransport), ..Config::default() };
        let mut raw = crate::net::Raw::with(side, config, &[]);
        if client {
            let _ = raw.ours.h3.request(&mut raw.ours.t, &Request::new("GET", "example.com", "/"), true);
            let _ = quickset_h3::Transport::write(&mut raw.t, StreamId(0), &mut Bytes::from(streams.iter().flat_map(|(_, bytes)| bytes.clone()).collect::<Vec<u8>>()));
            raw.ours.turn();
        }
        for (uni, bytes) in &streams {
            let id = if *uni { raw.uni(bytes) } else { raw.bi(bytes).0 };
            let _ = raw.ours.h3.read(&mut raw.ours.t, id, 10);
            let _ = raw.ours.h3.respond(&mut raw.ours.t, id, &Response::new(200), false);
            raw.finish(id);
            let _ = raw.ours.h3.read(&mut raw.ours.t, id, 10);
        }
    }
}
