//! What connections carry: streams of bytes and of messages, and datagrams.

use bytes::Bytes;
use quickset_base::Duration;
use quickset_quic::{DatagramOptions, Dir, Priority, StreamId, Ticket, WhenFull};

use crate::common::Setup;
use crate::mix::{FEW, PROTECTIONS, SOME, Scene, Script};
use crate::play::Play;

const LOSSY: &str = "rate=10mbit delay=20ms queue=60kB loss=1%";

const fn scene(name: &'static str, protections: &'static [&'static str], script: fn(&mut Play)) -> Scene {
    Scene { name, link: LOSSY, protections, setup: |_| {}, script: Script::Quic(script) }
}

pub(crate) const SCENES: &[Scene] = &[
    scene("many-streams", SOME, |play| {
        play.connected();
        for n in 0..60 {
            play.upload(Dir::Uni, 500 + 97 * n);
            play.download(3000 - 41 * n);
        }
        play.delivered(60);
        play.answered(60);
    }),
    Scene {
        setup: |s| *s = s.clone().transport(|t| t.max_bidi_streams = 3),
        ..scene("requests", SOME, |play| {
            play.connected();
            play.pair.server_mut().echo = true;
            for n in 1..=30 {
                while play.client().streams().open(Dir::Bi).map(|id| send(play, id, 900)).is_none() {
                    play.pass(10);
                }
                play.pass(7 * (n % 3));
            }
            play.delivered(30);
        })
    },
    Scene {
        setup: narrow,
        ..scene("flow-control", PROTECTIONS, |play| {
            play.connected();
            play.upload(Dir::Uni, 90_000);
            play.upload(Dir::Bi, 60_000);
            play.download(60_000);
            play.delivered(2);
        })
    },
    Scene {
        setup: narrow,
        ..scene("nobody-reads", FEW, |play| {
            play.connected();
            play.pair.server_mut().lazy = true;
            play.upload(Dir::Uni, 90_000);
            play.pass(1500);
            play.pair.server_mut().lazy = false;
            play.upload(Dir::Uni, 1000);
            play.pass(1500);
        })
    },
    scene("resets", SOME, |play| {
        play.connected();
        let ids: Vec<StreamId> = (0..8).map(|n| play.upload(Dir::Bi, 20_000 + 5000 * n)).collect();
        play.pass(60);
        play.client().send_stream(ids[0]).reset(11).expect("it is open");
        play.client().send_stream(ids[1]).reset_at(12, 7000).expect("the peer takes it");
        play.client().recv_stream(ids[2]).stop(13).expect("it is open");
        play.server().recv_stream(ids[3]).stop(14).expect("it is open");
        play.server().send_stream(ids[4]).reset(15).expect("it is open");
        play.pass(40);
        play.client().send_stream(ids[5]).reset(16).expect("it is open");
        play.client().recv_stream(ids[5]).stop(17).expect("it is open");
        play.delivered(4);
        play.pass(500);
    }),
    scene("priorities", SOME, |play| {
        play.connected();
        for n in 0..9u8 {
            let id = play.client().streams().open(Dir::Uni).expect("it may be opened");
            let priority = match n % 3 {
                0 => Priority::default().urgency(n / 3 + 2),
                1 => Priority { incremental: true, ..Priority::default() },
                _ => Priority::weighted(f64::from(n)),
            };
            play.client().send_stream(id).set_priority(priority).expect("it is open");
            send(play, id, 25_000);
        }
        play.pass(60);
        let urgent = play.client().streams().open(Dir::Uni).expect("it may be opened");
        play.client().send_stream(urgent).set_urgency(0).expect("it is open");
        send(play, urgent, 5000);
        play.delivered(10);
    }),
    Scene {
        setup: |s| *s = s.clone().transport(|t| t.fec = None),
        ..scene("no-fec", &["none"], |play| {
            play.connected();
            play.upload(Dir::Uni, 150_000);
            play.download(150_000);
            play.delivered(1);
            play.answered(1);
        })
    },
    scene("bursts", PROTECTIONS, |play| {
        play.connected();
        let id = play.client().streams().open(Dir::Uni).expect("it may be opened");
        for _ in 0..12 {
            let mut data = play.content(9000);
            play.client().send_stream(id).write(&mut data).expect("there is room");
            play.client().send_stream(id).flush().expect("it is open");
            play.pass(45);
        }
        play.client().send_stream(id).finish().expect("it is open");
        play.delivered(1);
    }),
    scene("fences", PROTECTIONS, |play| messages(play, Order::Fences)),
    scene("ordered-messages", SOME, |play| messages(play, Order::Total)),
    scene("latest", SOME, |play| messages(play, Order::Latest)),
    Scene {
        link: "rate=3mbit delay=30ms queue=40kB loss=2%",
        ..scene("deadlines", PROTECTIONS, |play| messages(play, Order::Deadlines))
    },
    Scene {
        link: "rate=3mbit delay=30ms queue=40kB loss=2%",
        ..scene("first-come", FEW, |play| messages(play, Order::FirstCome))
    },
    Scene {
        setup: |s| s.server.fenced_streams = None,
        ..scene("fences-not-offered", FEW, |play| messages(play, Order::Fences))
    },
    scene("large-messages", SOME, |play| {
        play.connected();
        let id = play.client().streams().open_messages(Dir::Uni).expect("it may be opened");
        for n in 0..6 {
            let (now, data) = (play.pair.world.now(), play.content(4000 + 9000 * (n % 3)));
            play.client().messages(id).send(now, data, None).expect("there is room");
            play.client().messages(id).fence().expect("it is open");
            play.pass(60);
        }
        play.client().send_stream(id).finish().expect("it is open");
        play.pass(1000);
    }),
    scene("datagrams", PROTECTIONS, |play| {
        play.connected();
        protect_datagrams(play);
        for n in 0..60 {
            let now = play.pair.world.now();
            let how = DatagramOptions {
                deadline: (n % 3 == 0).then(|| now + Duration::from_millis(40)),
                report: true,
                ..DatagramOptions::default()
            };
            play.datagram(100 + 15 * n, &how);
            if n % 5 == 4 {
                play.client().datagrams().flush();
                play.pass(20);
            }
        }
        play.pass(1000);
    }),
    Scene {
        link: "rate=2mbit delay=30ms queue=20kB loss=1%",
        setup: |s| *s = s.clone().transport(|t| (t.datagrams.send_count, t.datagrams.receive_count) = (6, 6)),
        ..scene("datagrams-beside-a-stream", SOME, |play| {
            play.connected();
            protect_datagrams(play);
            play.upload(Dir::Uni, 150_000);
            for _ in 0..60 {
                let how = DatagramOptions {
                    when_full: WhenFull::DropOldest,
                    report: true,
                    ..DatagramOptions::default()
                };
                play.datagram(700, &how);
                play.datagram(300, &how);
                play.datagram(400, &DatagramOptions::default());
                play.pass(8);
            }
            play.delivered(1);
        })
    },
    scene("everything-at-once", PROTECTIONS, |play| {
        play.connected();
        play.pair.server_mut().echo = true;
        let screen = play.client().streams().open_messages(Dir::Uni).expect("it may be opened");
        play.upload(Dir::Uni, 120_000);
        play.download(80_000);
        for n in 0..20 {
            let now = play.pair.world.now();
            let data = play.content(1000 + 100 * n);
            play.client().messages(screen).send(now, data, None).expect("there is room");
            play.client().messages(screen).fence().expect("it is open");
            play.upload(Dir::Bi, 400);
            play.datagram(300, &DatagramOptions::default());
            play.pass(15);
        }
        play.client().send_stream(screen).finish().expect("it is open");
        play.delivered(21);
    }),
];

fn narrow(setup: &mut Setup) {
    *setup = setup.clone().transport(|t| {
        (t.stream_window, t.max_stream_window, t.max_connection_window) = (8000, 12_000, 20_000);
        t.send_buffer = 16_000;
    });
}

fn send(play: &mut Play, id: StreamId, len: usize) {
    let (key, data) = (play.pair.key, play.content(len));
    play.pair.client_mut().send_on(key, id, data);
}

fn protect_datagrams(play: &mut Play) {
    let protection = play.setup.client.fec.as_ref().expect("it is offered").protection.clone();
    play.client().datagrams().set_protection(&protection);
}

/// How messages wait for one another.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Fences,
    Total,
    Latest,
    Deadlines,
    FirstCome,
}

/// Updates of ten messages, one each 33 ms.
fn messages(play: &mut Play, order: Order) {
    play.connected();
    let id = play.client().streams().open_messages(Dir::Uni).expect("it may be opened");
    play.client().messages(id).set_ordered(order == Order::Total).expect("nothing was sent");
    play.client().messages(id).set_first_come(order == Order::FirstCome).expect("nothing was sent");
    let mut before: Vec<Ticket> = Vec::new();
    for update in 0..12 {
        let now = play.pair.world.now();
        let deadline = matches!(order, Order::Deadlines | Order::FirstCome);
        let next = now + Duration::from_millis(33);
        play.client().messages(id).next_send_at(Some(next)).expect("it is open");
        let mut tickets = Vec::new();
        for n in 0..10 {
            let data: Bytes = play.content(if n == 0 { 3000 } else { 700 + 60 * n });
            let deadline = deadline.then(|| now + Duration::from_millis(if n % 2 == 0 { 90 } else { 150 }));
            // What there is no room for is not sent.
            tickets.extend(play.client().messages(id).send(now, data, deadline));
        }
        if order == Order::Fences {
            play.client().messages(id).fence().expect("it is open");
        }
        if order == Order::Latest && update % 3 != 0 {
            for ticket in before.drain(..) {
                play.client().messages(id).supersede(ticket);
            }
        }
        before = tickets;
        play.pass(33);
    }
    play.client().send_stream(id).finish().expect("it is open");
    play.pass(1000);
}
