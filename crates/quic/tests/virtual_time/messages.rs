//! Fenced streams between two connections, in virtual time.

use crate::common::Setup;
use bytes::Bytes;
use quickset_base::Duration;
use quickset_policies::read;
use quickset_quic::{Algorithm, Dir, Event, Fec, Message, Outcome, StreamEvent, StreamId};

const LOSSY: &str = "rate=100mbit delay=50ms queue=9MB loss=1%";

/// What the server got, in order.
fn collect(pair: &mut crate::common::Pair, id: StreamId) -> Vec<Message> {
    let (key, now) = (pair.server_key(), pair.world.now());
    let connection = pair.server_mut().connection(key);
    std::iter::from_fn(|| connection.messages(id).recv(now).ok().flatten()).collect()
}

fn numbered(update: u32, n: u32, len: usize) -> Bytes {
    let mut bytes = vec![0; len.max(8)];
    bytes[..4].copy_from_slice(&update.to_be_bytes());
    bytes[4..8].copy_from_slice(&n.to_be_bytes());
    bytes.into()
}

fn number(message: &Message) -> (u32, u32) {
    let field = |at| u32::from_be_bytes(message.payload[at..at + 4].try_into().expect("four bytes"));
    (field(0), field(4))
}

/// Runs a stream of 40 updates of 100 messages, 10 updates a second, and returns what the server took.
fn screen(setup: &Setup, ordered: bool, fences: bool) -> Vec<Message> {
    let mut pair = setup.connected();
    let key = pair.key;
    let id = pair.client_mut().connection(key).streams().open_messages(Dir::Uni).expect("a stream");
    pair.client_mut().connection(key).messages(id).set_ordered(ordered).expect("a message stream");
    let mut got = Vec::new();
    for update in 0..40 {
        let now = pair.world.now();
        let connection = pair.client_mut().connection(key);
        for n in 0..100 {
            connection.messages(id).send(now, numbered(update, n, 1100), None).expect("room");
        }
        if fences {
            connection.messages(id).fence().expect("a message stream");
        }
        for _ in 0..20 {
            pair.pass(Duration::from_millis(5));
            got.extend(collect(&mut pair, id));
        }
    }
    for _ in 0..200 {
        pair.pass(Duration::from_millis(10));
        got.extend(collect(&mut pair, id));
    }
    assert_eq!(got.len(), 4000, "seed {}", setup.seed);
    got
}

fn setup(seed: u64) -> Setup {
    Setup::new(seed, LOSSY).transport(|t| {
        t.mtu = 1472;
        t.congestion = Algorithm::Bbr;
    })
}

/// Equal messages that nearly fill a packet travel in packets of their own length, in batches as long as
/// those of full packets: only the first batch, when nobody knows yet that they are equal, is padded. Those
/// of before go with others that fill packets.
#[test]
fn equal_messages_are_not_padded() {
    const COUNT: u32 = 1000;
    let sent = |protection: &str, of: fn(u32) -> usize| {
        let setup = Setup::new(1, "rate=100mbit delay=10ms queue=9MB").transport(|t| {
            t.mtu = 1472;
            t.fec = read(protection).ok().map(|protection| Fec::default().with_protection(protection));
        });
        let mut pair = setup.connected();
        let (key, now) = (pair.key, pair.world.now());
        let before = pair.client_mut().connection(key).stats();
        let id = pair.client_mut().connection(key).streams().open_messages(Dir::Uni).expect("a stream");
        for n in 0..COUNT {
            pair.client_mut()
                .connection(key)
                .messages(id)
                .send(now, numbered(0, n, of(n)), None)
                .expect("room");
        }
        pair.pass(Duration::from_millis(500));
        assert_eq!(collect(&mut pair, id).len(), COUNT as usize);
        let after = pair.client_mut().connection(key).stats();
        let data: usize = (0..COUNT).map(of).sum();
        let packets = after.sent_packets - before.sent_packets;
        (packets, (after.sent_bytes - before.sent_bytes - data as u64) as f64 / packets as f64)
    };
    for protection in ["none", "fixed:100000"] {
        // Header, tag, frame and record: 36 bytes, and 12 of a symbol.
        let (packets, around) = sent(protection, |_| 1400);
        assert!(packets < u64::from(COUNT) + 30, "{protection}: {packets} packets");
        assert!(around < 52.0, "{protection}: {around} bytes around each");
        // Of others that do not fit in what the first left no more are cut than before.
        let (packets, _) = sent(protection, |n| if n % 3 == 0 { 1400 } else { 1410 });
        assert!(packets < u64::from(COUNT) + 30, "{protection}: {packets} packets");
    }
}

#[test]
fn fences_hold_back_less_than_total_order_and_nothing_crosses_them() {
    for seed in quickset_sim::seeds(0..5) {
        let blocked = |messages: &[Message]| {
            let late = messages.iter().filter(|m| m.blocked() > Duration::from_millis(1)).count();
            late as f64 / messages.len() as f64
        };
        let total = screen(&setup(seed), true, false);
        let order: Vec<_> = total.iter().map(number).collect();
        assert!(order.is_sorted(), "seed {seed}: total order");

        let fenced = screen(&setup(seed), false, true);
        let updates: Vec<_> = fenced.iter().map(|m| number(m).0).collect();
        assert!(updates.is_sorted(), "seed {seed}: a message crossed a fence");
        let inside: Vec<_> = fenced.iter().map(number).collect();
        assert!(!inside.is_sorted(), "seed {seed}: with losses something overtakes");

        let free = screen(&setup(seed), false, false);
        assert!(free.iter().all(|m| m.blocked().is_zero()), "seed {seed}: without fences nothing waits");
        assert!(
            blocked(&fenced) < blocked(&total),
            "seed {seed}: fenced {} total {}",
            blocked(&fenced),
            blocked(&total)
        );
    }
}

#[test]
fn without_the_extension_messages_arrive_in_order_by_plain_streams() {
    for (client, server) in [(None, Some(65_536)), (Some(65_536), None), (None, None)] {
        let mut setup = setup(3);
        setup.client.fenced_streams = client;
        setup.server.fenced_streams = server;
        let mut pair = setup.connected();
        let key = pair.key;
        assert!(!pair.client_mut().connection(key).has_fenced_streams());
        let id = pair.client_mut().connection(key).streams().open_messages(Dir::Uni).expect("a stream");
        let now = pair.world.now();
        for n in 0..300 {
            let connection = pair.client_mut().connection(key);
            connection.messages(id).send(now, numbered(0, n, 1000), None).expect("room");
            if n % 50 == 49 {
                connection.messages(id).fence().expect("a message stream");
            }
        }
        // The application protocol says that the stream holds messages.
        let server_key = pair.server_key();
        pair.world.node_mut(pair.server).lazy = true;
        pair.until("opened", |p| p.server().events.contains(&Event::Stream(StreamEvent::Opened(Dir::Uni))));
        pair.server_mut().connection(server_key).messages(id).begin().expect("nothing was read");
        let mut got = Vec::new();
        for _ in 0..300 {
            pair.pass(Duration::from_millis(10));
            got.extend(collect(&mut pair, id));
        }
        let order: Vec<_> = got.iter().map(|m| number(m).1).collect();
        assert_eq!(order, (0..300).collect::<Vec<_>>(), "{client:?} {server:?}");
    }
}

/// FS-5: a peer that found one of our frames in a packet of the handshake would close the connection (FS-6),
/// and with losses the packets of all levels are under way together.
#[test]
fn messages_sent_before_the_handshake_is_through_go_in_1_rtt_packets() {
    let mut early = 0;
    for seed in quickset_sim::seeds(0..40) {
        let setup =
            Setup { certificate: 3000, ..Setup::new(seed, "rate=100mbit delay=20ms jitter=10ms loss=20%") }
                .transport(|t| t.handshake_timeout = Duration::from_secs(60));
        let mut pair = setup.pair();
        let mut sent = [None; 2];
        for _ in 0..20_000 {
            pair.pass(Duration::from_millis(1));
            let now = pair.world.now();
            let server = pair.server_mut().node.keys().next();
            let keys = [Some(pair.key), server];
            for side in 0..2 {
                let Some(key) = keys[side].filter(|_| sent[side].is_none()) else { continue };
                let peer = if side == 0 { pair.client_mut() } else { pair.server_mut() };
                let connection = peer.connection(key);
                let established = connection.is_established();
                let Some(id) = connection.streams().open_messages(Dir::Uni) else { continue };
                connection.messages(id).send(now, numbered(0, seed as u32, 3000), None).expect("room");
                early += usize::from(!established);
                sent[side] = Some(id);
            }
            let told = |peer: &crate::common::Peer| {
                peer.events.iter().any(|e| matches!(e, Event::Stream(StreamEvent::Outcome(_))))
            };
            if told(pair.client()) && told(pair.server()) {
                break;
            }
        }
        assert!(pair.client().closed.is_empty() && pair.server().closed.is_empty(), "seed {seed}");
        let keys = [pair.key, pair.server_key()];
        for side in 0..2 {
            let peer = if side == 0 { pair.client_mut() } else { pair.server_mut() };
            let outcome =
                peer.connection(keys[side]).messages(sent[side].expect("a stream was opened")).next_outcome();
            assert_eq!(outcome.map(|o| o.1), Some(Outcome::Delivered), "seed {seed}, side {side}");
        }
    }
    assert!(early > 10, "{early} messages before the handshake was through: too few to mean anything");
}

#[test]
fn a_deadline_abandons_what_comes_too_late_and_says_so() {
    // 2 Mbit/s and twice as much to send: half of it cannot make 200 ms.
    let mut pair = Setup::new(9, "rate=2mbit delay=30ms queue=30kB loss=1%").connected();
    let key = pair.key;
    let id = pair.client_mut().connection(key).streams().open_messages(Dir::Uni).expect("a stream");
    let mut tickets = Vec::new();
    let mut sent_at = Vec::new();
    let mut got = Vec::new();
    for n in 0..500u32 {
        let now = pair.world.now();
        let deadline = Some(now + Duration::from_millis(200));
        let connection = pair.client_mut().connection(key);
        tickets.push(connection.messages(id).send(now, numbered(0, n, 2000), deadline).expect("room"));
        sent_at.push(now);
        pair.pass(Duration::from_millis(4));
        got.extend(collect(&mut pair, id));
    }
    for _ in 0..500 {
        pair.pass(Duration::from_millis(10));
        got.extend(collect(&mut pair, id));
    }
    let connection = pair.client_mut().connection(key);
    let outcomes: std::collections::BTreeMap<_, _> =
        std::iter::from_fn(|| connection.messages(id).next_outcome()).collect();
    assert_eq!(outcomes.len(), 500, "each message has its outcome");
    let abandoned = outcomes.values().filter(|o| !o.is_delivered()).count();
    assert!(abandoned > 150 && abandoned < 400, "{abandoned} of 500 abandoned");
    // What is said to be delivered was; what was abandoned may have been ("not known to have arrived").
    let arrived: std::collections::BTreeSet<u32> = got.iter().map(|m| number(m).1).collect();
    for (n, ticket) in (0..).zip(&tickets) {
        if outcomes[ticket].is_delivered() {
            assert!(arrived.contains(&n), "message {n} is said to be delivered");
        }
    }
    // What cannot be in time is not begun, or each message would be a little late: as they come, 18 are in
    // time.
    let deadline = Duration::from_millis(200);
    let in_time = got.iter().filter(|m| m.completed - sent_at[number(m).1 as usize] <= deadline).count();
    assert!(in_time * 2 > got.len(), "{in_time} of {} were in time", got.len());
    let late =
        got.iter().filter(|m| m.completed - sent_at[number(m).1 as usize] > Duration::from_millis(260));
    assert!(late.count() * 20 < got.len(), "what cannot be sent to its end in time is given up");
}

/// The peer may stop the half that we would send on before we know that the stream holds messages.
#[test]
fn messages_are_read_from_a_stream_whose_other_half_was_stopped() {
    let mut pair = setup(4).connected();
    let (key, server_key) = (pair.key, pair.server_key());
    pair.server_mut().lazy = true;
    let now = pair.world.now();
    let connection = pair.client_mut().connection(key);
    let id = connection.streams().open_messages(Dir::Bi).expect("a stream");
    connection.recv_stream(id).stop(5).expect("it is open");
    connection.messages(id).send(now, numbered(0, 7, 100), None).expect("room");
    pair.pass(Duration::from_millis(500));
    pair.server_mut().connection(server_key).messages(id).begin().expect("nothing was written to it");
    let got = collect(&mut pair, id);
    assert_eq!(got.iter().map(number).collect::<Vec<_>>(), [(0, 7)]);
}

/// Video and speech in one channel, on a link that just carries both, so that what waits does so at the
/// sender: of each, how many there were and how many came in time. 20 kB every 80 ms that are of use for 250
/// ms, and 160 bytes every 20 ms that are of use for 75: what a pacer lets out at once is 40 ms of the link.
fn conference(seed: u64, first_come: bool) -> [[u32; 2]; 2] {
    // 2.06 Mbit/s of payload; a frame of video takes 66 ms.
    let setup = Setup::new(seed, "rate=2.5mbit delay=20ms queue=60kB");
    let mut pair = setup.transport(|t| t.congestion = Algorithm::Fixed(2_300_000)).connected();
    let key = pair.key;
    let connection = pair.client_mut().connection(key);
    let id = connection.streams().open_messages(Dir::Uni).expect("a stream");
    connection.messages(id).set_first_come(first_come).expect("nothing was sent on it");
    let mut due = std::collections::BTreeMap::new();
    let mut seen = [[0; 2]; 2];
    let mut got = Vec::new();
    for n in 0..500u32 {
        let now = pair.world.now();
        // The round trips are known after the first seconds.
        let mut send = |pair: &mut crate::common::Pair, kind: u32, len, ms| {
            let deadline = now + Duration::from_millis(ms);
            let connection = pair.client_mut().connection(key);
            connection.messages(id).send(now, numbered(kind, n, len), Some(deadline)).expect("room");
            due.insert((kind, n), deadline);
            seen[kind as usize][0] += u32::from(n >= 100);
        };
        if n % 4 == 0 {
            send(&mut pair, 0, 20_000, 250);
        }
        send(&mut pair, 1, 160, 75);
        for _ in 0..4 {
            pair.pass(Duration::from_millis(5));
            got.extend(collect(&mut pair, id));
        }
    }
    pair.pass(Duration::from_millis(500));
    got.extend(collect(&mut pair, id));
    for message in &got {
        let (kind, n) = number(message);
        seen[kind as usize][1] += u32::from(n >= 100 && message.completed <= due[&(kind, n)]);
    }
    let connection = pair.client_mut().connection(key);
    let stats = connection.stream(id).message_stats().expect("the stream is open");
    assert_eq!((stats.queued, stats.queued_bytes), (625, 125 * 20_000 + 500 * 160), "seed {seed}");
    assert_eq!(stats.on_time + stats.late + stats.dropped + stats.abandoned, 625, "seed {seed}: {stats:?}");
    assert_eq!(stats.sent, stats.on_time + stats.late + stats.abandoned, "seed {seed}: {stats:?}");
    assert_eq!(stats.arrived_bytes, got.iter().map(|m| m.payload.len() as u64).sum::<u64>(), "seed {seed}");
    seen
}

/// FS-69.
#[test]
fn speech_does_not_wait_for_video() {
    for seed in quickset_sim::seeds(0..3) {
        let [video, audio] = conference(seed, false);
        assert_eq!((audio, video), ([400, 400], [100, 100]), "seed {seed}: all of it in time");
        let [_, audio] = conference(seed, true);
        assert!(audio[1] < 350, "seed {seed}: {audio:?}: as they come, speech waits behind a frame");
    }
}

/// What frames behind holes cost is paid for by packets: nobody whose messages are small, many and lost now
/// and then, on as many streams as are taken at a time, comes near to that.
#[test]
fn who_means_no_harm_is_never_paced() {
    for seed in quickset_sim::seeds(0..2) {
        let setup = Setup::new(seed, "rate=50mbit delay=40ms queue=1MB loss=ge:3%,30%");
        let mut pair = setup.transport(|t| t.congestion = Algorithm::Bbr).connected();
        let (key, server_key) = (pair.key, pair.server_key());
        let client = pair.client_mut();
        let streams: Vec<StreamId> = (0..32)
            .map(|_| client.connection(key).streams().open_messages(Dir::Uni).expect("a stream"))
            .collect();
        let (mut sent, mut got) = (0, 0);
        for turn in 0..1500 {
            let now = pair.world.now();
            for (n, id) in streams.iter().enumerate() {
                let connection = pair.client_mut().connection(key);
                // Nobody sends more than there is room for.
                sent +=
                    u32::from(connection.messages(*id).send(now, numbered(turn, 0, 20 + n), None).is_ok());
                if turn % 3 == 0 {
                    connection.messages(*id).fence().expect("a message stream");
                }
            }
            pair.pass(Duration::from_millis(5));
            got += streams.iter().map(|id| collect(&mut pair, *id).len() as u32).sum::<u32>();
        }
        let end = pair.world.now() + Duration::from_secs(60);
        while got < sent && pair.world.now() < end {
            pair.pass(Duration::from_millis(100));
            got += streams.iter().map(|id| collect(&mut pair, *id).len() as u32).sum::<u32>();
        }
        assert!(sent > 10_000 && got == sent, "seed {seed}: {got} of {sent}");
        let stats = pair.server_mut().connection(server_key).stats();
        assert_eq!(stats.unpaid_packets, 0, "seed {seed}: of {}", stats.received_packets);
    }
}
