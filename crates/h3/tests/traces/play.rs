//! A scene of QUIC under way: a client and a server in virtual time, what a script has them do, and what they
//! see.

use std::sync::Arc;

use bytes::Bytes;
use quickset_base::{AddressPair, Duration};
use quickset_quic::null::{NullClient, NullServer};
use quickset_quic::{
    ClientConfig, Connection, ConnectionKey, DatagramEvent, DatagramOptions, Dir, Event, ServerConfig,
    StreamEvent, StreamId,
};
use quickset_sim::{NodeId, Trace, World, address};

use crate::common::{ALPN, Pair, Peer, Setup, pattern};
use crate::journal::{self, Journal, Played, Sum};
use crate::mix::Change;

/// The machines of a scene, and what was seen of them so far.
pub(crate) struct Play {
    pub(crate) pair: Pair,
    pub(crate) setup: Setup,
    change: Change,
    client: ClientConfig,
    server: ServerConfig,
    journal: Journal,
    /// How many events of each node are in the journal.
    seen: [usize; 2],
}

impl Play {
    /// The client's hello is on its way. Both sides keep tickets, and so may resume.
    pub(crate) fn new(setup: Setup, coalesce: Duration, change: Change, keep: bool) -> Self {
        let tls = NullServer::new(ALPN).with_certificate(setup.certificate).with_early_data();
        let server = ServerConfig { crypto: Arc::new(tls), ..setup.server_config() };
        let tls = NullClient::new(ALPN).with_hello(setup.hello).with_tickets();
        let client = ClientConfig { crypto: Arc::new(tls), ..setup.client_config() };
        let mut pair = setup.pair_of(&client, server.clone());
        pair.world.trace(if keep { Trace::with_payloads() } else { Trace::full() });
        for node in [pair.client, pair.server] {
            pair.world.coalesce(node, coalesce);
        }
        Self { pair, setup, change, client, server, journal: Journal::new(keep), seen: [0; 2] }
    }

    /// The client's connection.
    pub(crate) fn client(&mut self) -> &mut Connection {
        let key = self.pair.key;
        self.pair.client_mut().connection(key)
    }

    /// The server's, the last if there are several.
    pub(crate) fn server(&mut self) -> &mut Connection {
        let key = self.pair.server().node.keys().last().expect("the server has a connection");
        self.pair.server_mut().connection(key)
    }

    pub(crate) fn server_key(&self) -> ConnectionKey {
        self.pair.server().node.keys().last().expect("the server has a connection")
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, ms: u64) {
        self.run(Duration::from_millis(ms), |_| false);
    }

    /// Until both have heard that they are connected.
    pub(crate) fn connected(&mut self) {
        let key = self.pair.key;
        self.run(PATIENCE, |play| {
            let of_server = play.server.node.keys().last();
            play.client.connected.contains(&key)
                && of_server.is_some_and(|k| play.server.connected.contains(&k))
        });
    }

    /// Until all that the client has sent, streams of messages excepted, was delivered; or nothing more comes
    /// of it.
    pub(crate) fn delivered(&mut self, streams: usize) {
        self.run(PATIENCE, |play| play.client.delivered.len() >= streams || !play.client.closed.is_empty());
    }

    /// Until the server has delivered this many.
    pub(crate) fn answered(&mut self, streams: usize) {
        self.run(PATIENCE, |play| play.server.delivered.len() >= streams || !play.client.closed.is_empty());
    }

    /// Until both have forgotten all connections.
    pub(crate) fn over(&mut self) {
        self.run(PATIENCE, |play| play.client.node.keys().chain(play.server.node.keys()).next().is_none());
    }

    fn run(&mut self, time: Duration, goal: impl Fn(&View<'_>) -> bool) {
        let Self { pair: Pair { world, client, server, .. }, journal, seen, .. } = self;
        let (nodes, limit) = ([*client, *server], world.now() + time);
        world
            .run_until(limit, |world| {
                for (side, node) in nodes.into_iter().enumerate() {
                    seen[side] += look(world, node, seen[side], journal);
                }
                goal(&View { client: world.node(nodes[0]), server: world.node(nodes[1]) })
            })
            .expect("all machines sleep now and then");
    }

    /// Bytes to send, each `len` the same ones.
    pub(crate) fn content(&self, len: usize) -> Bytes {
        let mut bytes = pattern(len);
        if let (Change::Byte, Some(byte)) = (self.change, bytes.get_mut(len / 2)) {
            *byte ^= 1;
        }
        bytes.into()
    }

    /// The client sends so much on a stream of its own.
    pub(crate) fn upload(&mut self, dir: Dir, len: usize) -> StreamId {
        let (key, data) = (self.pair.key, self.content(len));
        self.pair.client_mut().send(key, dir, data)
    }

    /// The server does.
    pub(crate) fn download(&mut self, len: usize) -> StreamId {
        let (key, data) = (self.server_key(), self.content(len));
        self.pair.server_mut().send(key, Dir::Uni, data)
    }

    /// The client sends a datagram. What does not fit is not sent.
    pub(crate) fn datagram(&mut self, len: usize, how: &DatagramOptions) {
        let (now, data) = (self.pair.world.now(), self.content(len));
        if self.client().datagrams().send(now, data, how).is_err() {
            self.journal.note(now, format_args!("client: the datagram is refused"));
        }
    }

    /// The client begins another connection, which is the one that verbs are for then.
    pub(crate) fn connect(&mut self) {
        let (now, client) = (self.pair.world.now(), self.client.clone());
        let key = self.pair.client_mut().node.connect(now, &client, AddressPair::to(address(2)), "server");
        self.pair.key = key.expect("a connection begins");
    }

    /// The client closes its connection, and all forget it.
    pub(crate) fn close(&mut self) {
        let now = self.pair.world.now();
        self.client().close(now, 7, b"bye");
        self.over();
        self.pair.client_mut().closed.clear();
    }

    /// The server forgets its connections and tickets, and has its keys.
    pub(crate) fn restart(&mut self) {
        self.replace(2 * self.setup.seed + 2);
    }

    /// In the place of the server is another, with keys from this number.
    pub(crate) fn replace(&mut self, keys: u64) {
        let crypto = Arc::new(NullServer::new(ALPN).with_early_data());
        let config = ServerConfig { crypto, ..self.server.clone() };
        *self.pair.server_mut() = Peer::new(keys, Some(config));
        self.seen[1] = 0;
    }

    /// Lets what is under way arrive, and ends.
    pub(crate) fn finish(mut self) -> Played {
        self.pass(200);
        let Self { pair: Pair { world, client, server, .. }, journal, .. } = &mut self;
        let now = world.now();
        for node in [*client, *server] {
            let name = world.name(node).to_owned();
            for ((_, id), data) in &world.node(node).received {
                journal.note(
                    now,
                    format_args!("{name}: of stream {} {} bytes {:x}", id.0, data.len(), Sum::of(data)),
                );
            }
            let keys: Vec<_> = world.node(node).node.keys().collect();
            for key in keys {
                if let Some(connection) = world.node_mut(node).node.connection(key) {
                    journal.note(now, format_args!("{name}: {}", journal::stats(&connection.stats())));
                }
            }
        }
        let trace = self.pair.world.take_trace().expect("it was begun");
        Played::new(&trace, self.journal)
    }
}

/// Both ends, for goals.
struct View<'a> {
    client: &'a Peer,
    server: &'a Peer,
}

/// Notes the news of a node, and takes what they are about. Returns how many events there were.
fn look(world: &mut World<Peer>, node: NodeId, seen: usize, journal: &mut Journal) -> usize {
    let news = world.node(node).events[seen..].to_vec();
    if news.is_empty() {
        return 0;
    }
    let (now, name) = (world.now(), world.name(node).to_owned());
    let bytes: usize = world.node(node).received.values().map(Vec::len).sum();
    let key = world.node(node).node.keys().last();
    for event in &news {
        journal.note(now, format_args!("{name}: {}, {bytes} bytes read", journal::event(event)));
        let Some(connection) = key.and_then(|key| world.node_mut(node).node.connection(key)) else {
            continue;
        };
        match event {
            Event::Stream(StreamEvent::Message(id)) => loop {
                match connection.messages(*id).recv(now) {
                    Ok(Some(m)) => journal.note(
                        now,
                        format_args!(
                            "{name}: message of {} bytes {:x}, segment {}, complete {} released {}",
                            m.payload.len(),
                            Sum::of(&m.payload),
                            m.segment,
                            m.completed,
                            m.released
                        ),
                    ),
                    Ok(None) => break,
                    Err(_) => break journal.note(now, format_args!("{name}: no more messages")),
                }
            },
            Event::Stream(StreamEvent::Outcome(id)) => {
                while let Some((_, outcome)) = connection.messages(*id).next_outcome() {
                    journal.note(now, format_args!("{name}: message {}", journal::outcome(outcome)));
                }
            }
            Event::Datagram(DatagramEvent::Received) => {
                while let Some(data) = connection.datagrams().recv() {
                    journal.note(
                        now,
                        format_args!("{name}: datagram of {} bytes {:x}", data.len(), Sum::of(&data)),
                    );
                }
            }
            Event::Datagram(DatagramEvent::Outcome) => {
                while let Some((_, outcome)) = connection.datagrams().next_outcome() {
                    journal.note(now, format_args!("{name}: datagram {}", journal::fate(outcome)));
                }
            }
            _ => {}
        }
    }
    news.len()
}

/// More than any scene takes.
const PATIENCE: Duration = Duration::from_secs(60);
