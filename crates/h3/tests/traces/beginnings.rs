//! Handshakes, and the ends of connections.

use quickset_base::{AddressPair, Duration};
use quickset_quic::{Dir, EarlyData, RetryPolicy, Version};
use quickset_sim::address;

use crate::mix::{FEW, Scene, Script};
use crate::play::Play;

const LINK: &str = "rate=10mbit delay=20ms queue=100kB";

const fn scene(name: &'static str, script: fn(&mut Play)) -> Scene {
    Scene { name, link: LINK, protections: FEW, setup: |_| {}, script: Script::Quic(script) }
}

pub(crate) const SCENES: &[Scene] = &[
    scene("handshake", exchange),
    Scene { setup: |s| s.retry = RetryPolicy::Always, ..scene("retry", exchange) },
    Scene { setup: |s| s.hello = 1600, ..scene("hello-in-two", exchange) },
    Scene {
        setup: |s| (s.hello, s.retry) = (1600, RetryPolicy::Always),
        link: "rate=10mbit delay=20ms queue=100kB loss=10%",
        ..scene("hello-in-two-lossy-retry", exchange)
    },
    Scene { setup: |s| s.certificate = 12_000, ..scene("amplification-limit", exchange) },
    Scene {
        link: "rate=10mbit delay=20ms queue=100kB loss=list:0-1",
        ..scene("first-flights-lost", exchange)
    },
    Scene {
        setup: |s| s.down = "rate=10mbit delay=20ms queue=100kB loss=list:0-3,5".parse().ok(),
        ..scene("server-flight-lost", exchange)
    },
    Scene { link: "rate=10mbit delay=20ms queue=100kB loss=25%", ..scene("handshake-lossy", exchange) },
    Scene { link: "delay=700ms", ..scene("handshake-far", exchange) },
    Scene {
        setup: |s| {
            (s.client.versions, s.server.versions) = (vec![Version::V1, Version::V2], vec![Version::V2]);
        },
        ..scene("version-negotiation", exchange)
    },
    Scene {
        setup: |s| {
            s.client.versions = vec![Version::V2, Version::V1];
            s.client.first_version = Some(Version::V1);
        },
        ..scene("compatible-version", exchange)
    },
    Scene {
        setup: |s| (s.client.versions, s.server.versions) = (vec![Version::V2], vec![Version::V1]),
        ..scene("no-common-version", |play| {
            play.over();
            play.pass(1000);
        })
    },
    scene("resumption", |play| {
        exchange(play);
        play.close();
        play.connect();
        exchange(play);
    }),
    Scene { setup: early, ..scene("early-data", early_data) },
    Scene {
        setup: early,
        link: "rate=10mbit delay=20ms queue=100kB loss=10%",
        ..scene("early-data-lossy", early_data)
    },
    Scene {
        setup: |s| {
            early(s);
            s.retry = RetryPolicy::Always;
        },
        ..scene("early-data-retry", early_data)
    },
    Scene {
        setup: early,
        ..scene("early-data-rejected", |play| {
            exchange(play);
            play.close();
            play.restart();
            play.connect();
            play.upload(Dir::Bi, 5000);
            play.upload(Dir::Uni, 3000);
            play.delivered(4);
        })
    },
    Scene {
        setup: |s| s.max_connections = 1,
        ..scene("refused", |play| {
            play.connected();
            let first = play.pair.key;
            play.connect();
            play.pass(1000);
            play.pair.key = first;
            play.upload(Dir::Uni, 5000);
            play.delivered(1);
        })
    },
    Scene { link: "loss=100%", ..scene("handshake-timeout", Play::over) },
    Scene {
        setup: |s| {
            s.client.idle_timeout = Some(Duration::from_secs(3));
            s.server.idle_timeout = Some(Duration::from_secs(5));
        },
        ..scene("idle-timeout", |play| {
            exchange(play);
            play.over();
        })
    },
    Scene {
        setup: |s| {
            s.client.keep_alive = Some(Duration::from_secs(1));
            s.client.idle_timeout = Some(Duration::from_secs(3));
        },
        ..scene("keep-alive", |play| {
            exchange(play);
            play.pass(10_000);
        })
    },
    scene("close", |play| {
        play.connected();
        play.upload(Dir::Bi, 200_000);
        play.pass(100);
        play.close();
    }),
    scene("close-by-server", |play| {
        play.connected();
        play.download(100_000);
        play.pass(60);
        let now = play.pair.world.now();
        play.server().close(now, 3, b"enough");
        play.over();
    }),
    scene("close-before-handshake", |play| {
        play.pass(30);
        play.close();
    }),
    scene("stateless-reset", |play| {
        exchange(play);
        play.pass(100);
        play.restart();
        play.upload(Dir::Uni, 3000);
        play.over();
    }),
    scene("crashed-server", |play| {
        exchange(play);
        play.replace(99);
        play.upload(Dir::Uni, 3000);
        play.over();
    }),
    scene("several-connections", |play| {
        for _ in 0..3 {
            play.connect();
        }
        play.pass(200);
        play.upload(Dir::Bi, 40_000);
        let (now, config) = (play.pair.world.now(), play.setup.client_config());
        let other = play.pair.client_mut().node.connect(now, &config, AddressPair::to(address(2)), "other");
        let other = other.expect("a connection begins");
        play.delivered(1);
        play.pair.client_mut().send(other, Dir::Uni, vec![1; 10_000]);
        play.delivered(2);
    }),
];

fn early(setup: &mut crate::common::Setup) {
    *setup = setup.clone().transport(|t| t.early_data = Some(EarlyData::default()));
}

/// A request and its answer, and something that nobody answers.
fn exchange(play: &mut Play) {
    play.connected();
    play.pair.server_mut().echo = true;
    let before = play.pair.client().delivered.len();
    play.upload(Dir::Bi, 3000);
    play.upload(Dir::Uni, 2000);
    play.delivered(before + 2);
}

fn early_data(play: &mut Play) {
    exchange(play);
    play.pass(100);
    play.close();
    play.connect();
    play.upload(Dir::Bi, 5000);
    play.upload(Dir::Uni, 3000);
    play.delivered(4);
}
