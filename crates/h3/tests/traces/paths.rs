//! What paths do to packets: losses, marks, moves, sizes.

use std::net::SocketAddr;

use quickset_base::Duration;
use quickset_quic::{Dir, Migration, MtuDiscovery};
use quickset_sim::{Cpu, LinkSpec, LinkWay, address};

use crate::mix::{FEW, PROTECTIONS, Scene, Script};
use crate::play::Play;

const LINK: &str = "rate=10mbit delay=20ms queue=60kB";

/// An upload that all protections meet.
const fn loss(name: &'static str, link: &'static str) -> Scene {
    Scene { name, link, protections: PROTECTIONS, setup: |_| {}, script: Script::Quic(upload) }
}

const fn scene(name: &'static str, script: fn(&mut Play)) -> Scene {
    Scene { name, link: LINK, protections: FEW, setup: |_| {}, script: Script::Quic(script) }
}

pub(crate) const SCENES: &[Scene] = &[
    loss("clean", LINK),
    loss("loss", "rate=10mbit delay=20ms queue=60kB loss=2%"),
    loss("burst-loss", "rate=10mbit delay=20ms queue=60kB loss=ge:1%,30%"),
    loss("reordering", "rate=10mbit delay=20ms queue=60kB jitter=uniform:15ms reorder=yes loss=1%"),
    loss("overflow", "rate=4mbit delay=30ms queue=12kB"),
    loss("ecn-marks", "rate=6mbit delay=20ms queue=codel-ecn:2ms,30ms,9MB"),
    Scene { protections: FEW, ..loss("damage", "rate=10mbit delay=20ms queue=60kB duplicate=5% corrupt=1%") },
    Scene { protections: FEW, ..loss("marks-erased", "rate=10mbit delay=20ms queue=60kB ecn=erase") },
    Scene { protections: FEW, ..loss("marks-dropped", "rate=10mbit delay=20ms queue=60kB ecn=drop") },
    Scene { protections: FEW, ..loss("blackout", "rate=10mbit delay=20ms queue=60kB blackout=200ms+900ms") },
    // Long enough for all that a controller does in turn.
    Scene {
        script: Script::Quic(|play| {
            play.connected();
            play.download(1_500_000);
            play.answered(1);
        }),
        ..loss("long", "rate=20mbit delay=50ms queue=250kB loss=0.3%")
    },
    scene("rebinding", |play| {
        begin(play);
        play.pair.world.rebind(address(1), port(9999));
        play.pass(150);
        play.pair.world.rebind(port(9999), address(77));
        end(play);
    }),
    Scene {
        link: "rate=10mbit delay=20ms queue=60kB loss=3%",
        ..scene("rebinding-lossy", |play| {
            begin(play);
            play.pair.world.rebind(address(1), port(9999));
            end(play);
        })
    },
    scene("network-change", |play| {
        begin(play);
        let spec: LinkSpec = "rate=20mbit delay=10ms queue=60kB".parse().expect("a link");
        let world = &mut play.pair.world;
        let (up, down) = (world.add_link(spec.clone()), world.add_link(spec));
        let ways = [
            LinkWay { from: address(5), to: address(2), links: vec![up] },
            LinkWay { from: address(2), to: address(5), links: vec![down] },
        ];
        world.change_interface(address(1), address(5), &ways);
        let now = world.now();
        play.client().rebound(now);
        end(play);
    }),
    scene("migration", |play| {
        begin(play);
        migrate(play, LINK);
        end(play);
    }),
    scene("migration-into-a-hole", |play| {
        begin(play);
        migrate(play, "loss=100%");
        end(play);
    }),
    Scene { setup: prefer, ..scene("preferred-address", |play| preferred(play, LINK)) },
    Scene { setup: prefer, ..scene("preferred-address-unreachable", |play| preferred(play, "loss=100%")) },
    Scene {
        setup: search,
        link: "rate=10mbit delay=20ms queue=60kB mtu=1400",
        ..scene("mtu-search", |play| {
            upload(play);
            play.pass(3000);
        })
    },
    Scene {
        setup: search,
        link: "rate=10mbit delay=20ms queue=60kB mtu=1472 at=400ms:mtu=1280",
        ..scene("mtu-black-hole", |play| {
            play.connected();
            play.upload(Dir::Uni, 700_000);
            play.delivered(1);
            play.pass(3000);
        })
    },
    Scene {
        setup: |s| {
            search(s);
            *s = s.clone().transport(|t| t.mtu = 1472);
        },
        link: "rate=10mbit delay=20ms queue=60kB mtu=1250",
        ..scene("mtu-too-large", upload)
    },
    // For which acknowledgements are what takes its time: it asks for fewer.
    Scene {
        link: "rate=500mbit delay=5ms queue=4MB",
        ..scene("slow-sender", |play| {
            let client = play.pair.client;
            play.pair.world.cpu(client, SLOW);
            play.connected();
            play.upload(Dir::Uni, 1_500_000);
            play.delivered(1);
        })
    },
    scene("key-update", |play| {
        play.connected();
        for n in 0..6 {
            play.upload(Dir::Uni, 40_000);
            play.download(20_000);
            play.pass(40);
            let now = play.pair.world.now();
            let side = if n % 2 == 0 { play.client() } else { play.server() };
            side.update_keys(now);
        }
        play.delivered(6);
    }),
];

fn upload(play: &mut Play) {
    play.connected();
    play.upload(Dir::Uni, 150_000);
    play.pass(20);
    play.upload(Dir::Uni, 30_000);
    play.delivered(2);
}

/// Some way into a transfer each way.
fn begin(play: &mut Play) {
    play.connected();
    play.pass(200);
    play.upload(Dir::Uni, 400_000);
    play.download(400_000);
    play.pass(150);
}

/// Its end, and whatever waits for moves to be over.
fn end(play: &mut Play) {
    play.delivered(1);
    play.answered(1);
    play.pass(3000);
}

fn migrate(play: &mut Play, up: &str) {
    let client = play.pair.client;
    play.pair.world.add_address(client, address(6));
    let (up, down) = (up.parse().expect("a link"), LINK.parse().expect("a link"));
    play.pair.world.join(address(6), address(2), up, down);
    let now = play.pair.world.now();
    play.client().migrate(now, Some(address(6).ip())).expect("it may move");
}

fn prefer(setup: &mut crate::common::Setup) {
    let SocketAddr::V4(other) = address(3) else { unreachable!("the simulator's addresses are of IPv4") };
    setup.server.migration = Migration::default().with_preferred_v4(Some(other));
}

fn preferred(play: &mut Play, link: &str) {
    let server = play.pair.server;
    play.pair.world.add_address(server, address(3));
    let spec: LinkSpec = link.parse().expect("a link");
    play.pair.world.join(address(1), address(3), spec.clone(), spec);
    play.connected();
    play.upload(Dir::Uni, 200_000);
    play.delivered(1);
    play.pass(3000);
}

fn search(setup: &mut crate::common::Setup) {
    *setup = setup.clone().transport(|t| {
        t.mtu_discovery = Some(MtuDiscovery::default().with_interval(Duration::from_secs(2)));
    });
}

/// Each acknowledgement is as dear as three packets that are sent.
const SLOW: Cpu = Cpu {
    receive_batch_ns: 2_000,
    receive_datagram_ns: 15_000,
    send_batch_ns: 5_000,
    send_datagram_ns: 5_000,
    byte_ps: 0,
    buffer: 4_000_000,
    batch: 64,
    turn: u32::MAX,
};

/// Another port of the client's host.
fn port(port: u16) -> SocketAddr {
    SocketAddr::new(address(1).ip(), port)
}
