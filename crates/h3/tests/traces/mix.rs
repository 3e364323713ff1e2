//! Which scenes are played with what: a table of each, and a choice that does not change when a table grows.

use std::fmt;

use quickset_base::Duration;
use quickset_quic::{Fec, MtuDiscovery, TransportConfig};

use crate::common::Setup;
use crate::journal::{Played, Sum};
use crate::play::Play;
use crate::web::Web;

/// Something that two machines do.
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    /// Both ways.
    pub(crate) link: &'static str,
    /// What protects it against loss, each in a trace of its own.
    pub(crate) protections: &'static [&'static str],
    /// What it configures besides.
    pub(crate) setup: fn(&mut Setup),
    pub(crate) script: Script,
}

#[derive(Clone, Copy)]
pub(crate) enum Script {
    Quic(fn(&mut Play)),
    Http(fn(&mut Web)),
}

/// Every kind of protection, and those of which there are two kinds of settings with both.
pub(crate) const PROTECTIONS: &[&str] = &[
    "none",
    "sr",
    "adaptive",
    "adaptive:bulk",
    "adaptive:screen",
    "adaptive:messages",
    "fixed:10",
    "ac-rlnc",
    "bulk",
    "buffer",
    "messages",
    "messages:25ms",
    "rs:105/100",
    "rs:12/10:stride=4",
    "ldpc:110/100",
    "xor:10",
    "xor2d:4x8",
    "tum:3",
    "tum:3:80ms",
];

/// For what hardly depends on them.
pub(crate) const FEW: &[&str] = &["none", "adaptive", "fixed:10"];

/// Where streams are many and each has protection of its own.
pub(crate) const SOME: &[&str] =
    &["none", "adaptive", "adaptive:bulk", "rs:105/100", "ac-rlnc", "tum:3:80ms"];

pub(crate) const CONTROLLERS: &[&str] = &["newreno", "cubic", "bbr", "fixed:8mbit"];

/// What else two endpoints may differ in.
pub(crate) struct Variation {
    pub(crate) name: &'static str,
    transport: fn(&mut TransportConfig),
    /// Datagrams are handed over in batches of this long.
    coalesce: Duration,
}

const fn variation(name: &'static str, transport: fn(&mut TransportConfig)) -> Variation {
    Variation { name, transport, coalesce: Duration::ZERO }
}

pub(crate) const VARIATIONS: &[Variation] = &[
    variation("default", |_| {}),
    variation("mtu-1472", |t| t.mtu = 1472),
    variation("mtu-discovery", |t| t.mtu_discovery = Some(MtuDiscovery::default())),
    variation("no-gso", |t| t.gso = false),
    variation("no-ecn", |t| t.ecn = false),
    variation("single-acks", |t| (t.acks.merging, t.acks.adaptive) = (false, false)),
    variation("rare-acks", |t| (t.acks.every, t.acks.adaptive) = (10, false)),
    Variation { coalesce: Duration::from_millis(2), ..variation("coalescing", |_| {}) },
    Variation {
        coalesce: Duration::from_millis(2),
        ..variation("coalescing-mtu-1472", |t| (t.mtu, t.acks.merging) = (1472, false))
    },
];

/// A scene with all that it is played with. It has one trace for each seed.
#[derive(Clone, Copy)]
pub(crate) struct Mix {
    pub(crate) scene: &'static Scene,
    pub(crate) protection: &'static str,
    pub(crate) controller: &'static str,
    pub(crate) variation: &'static Variation,
}

/// What a play does other than it should, for those who test whether that is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    None,
    /// One bit of what is sent.
    Byte,
    /// A nanosecond of the way.
    Delay,
}

impl Mix {
    /// The mixes of a scene: its protections, each with a controller and a variation that the names choose by
    /// chance; or with two, where it has them all.
    pub(crate) fn of(scene: &'static Scene) -> impl Iterator<Item = Self> {
        let times = if scene.protections == PROTECTIONS { 2 } else { 1 };
        scene.protections.iter().flat_map(move |protection| {
            (0..times).map(move |time| {
                let sum = Sum::of(format!("{} {protection}", scene.name).as_bytes());
                let controller = CONTROLLERS[((sum >> 16) as usize + 2 * time) % CONTROLLERS.len()];
                let variation = &VARIATIONS[((sum >> 32) as usize + 4 * time) % VARIATIONS.len()];
                Self { scene, protection, controller, variation }
            })
        })
    }

    pub(crate) fn play(&self, seed: u64, change: Change, keep: bool) -> Played {
        let _named = Named(self, seed);
        let mut setup = Setup::new(seed, self.scene.link).transport(|t| {
            let protection = quickset_policies::read(self.protection).expect("a protection");
            t.fec = Some(Fec::default().with_protection(protection));
            t.congestion = self.controller.parse().expect("a controller");
            (self.variation.transport)(t);
        });
        (self.scene.setup)(&mut setup);
        if change == Change::Delay {
            setup.link.delay += Duration::from_nanos(1);
        }
        match self.scene.script {
            Script::Quic(script) => {
                let mut play = Play::new(setup, self.variation.coalesce, change, keep);
                script(&mut play);
                play.finish()
            }
            Script::Http(script) => {
                let mut web = Web::new(&setup, self.variation.coalesce, change, keep);
                script(&mut web);
                web.finish()
            }
        }
    }
}

/// Says which play it was that panicked.
struct Named<'a>(&'a Mix, u64);

impl Drop for Named<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("This was {}, seed {}.", self.0, self.1);
        }
    }
}

/// `loss,fixed:10,bbr,no-gso`.
impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{},{}", self.scene.name, self.protection, self.controller, self.variation.name)
    }
}
