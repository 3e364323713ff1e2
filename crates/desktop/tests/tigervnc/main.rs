//! Both gateways beside TigerVNC alone, in the same run and over links of the same kind: pages that turn, a
//! film, and a terminal that scrolls. `cargo xtask tigervnc` runs it.
//!
//! Each way has a desktop of Xtigervnc of its own behind a link of its own, and TigerVNC's viewer in front of
//! it: the viewer of the gateways is beside the one that views, the other viewer speaks TCP over the link.
//! Both viewers have the same options. What they show is looked at in the memory of the screens that they
//! draw on, once a millisecond. The ways take turns: while one is measured, the others have nothing to do.
//!
//! QUICKSET_TIGERVNC_FLIPS and …_RUNS say how many, …_PARTS which parts (with commas), …_LINK and …_THIN over
//! which links, …_LOSS what they lose (with blanks), …_TCP by which congestion control TigerVNC's server
//! sends (with commas), …_QUALITY which quality viewers ask for, …_BINARY which command; …_JSON names a file
//! for all rows.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "numbers in tests are small, or cut on purpose"
)]

#[expect(dead_code, reason = "desktops are started on the far side of a link here")]
#[path = "../browser/desktop.rs"]
mod desktop;
#[expect(dead_code, reason = "bytes are those that the link carried here")]
#[path = "../flips/film.rs"]
mod film;
mod glass;
mod lane;
#[path = "../flips/pages.rs"]
mod pages;
mod parts;
#[expect(dead_code, reason = "a program that is started and ends is all of it that is needed")]
#[path = "../e2e/programs.rs"]
mod programs;
mod table;

use std::path::{Path, PathBuf};
use std::time::Duration;

use quickset_sim::{LinkSpec, LossModel};

use film::Reel;
use lane::{Lane, Way};
use pages::Book;
use parts::Part;
use table::Table;

/// How long a page, or another condition, may take.
const LIMIT: Duration = Duration::from_secs(60);

/// What is to be measured, from the environment.
struct Plan {
    /// The command that serves and views.
    binary: PathBuf,
    parts: Vec<Part>,
    ways: Vec<Way>,
    /// The links, each way, but for what they lose: of pages and lines, and of films.
    link: String,
    thin: String,
    losses: Vec<LossModel>,
    /// Pages; there are ten times as many pictures and lines.
    flips: usize,
    runs: usize,
    /// What viewers ask for, 0 to 9; `None`: what they choose by themselves.
    quality: Option<u8>,
}

#[test]
#[ignore = "minutes in real time: cargo xtask tigervnc"]
fn gateways_beside_tigervnc() {
    let plan = Plan::read();
    println!("beside {}", lane::version());
    let (book, mut reel) = (Book::new(), None);
    let mut tables = Vec::new();
    for &part in &plan.parts {
        let mut table = Table::new(part);
        for loss in &plan.losses {
            let base = if part == Part::Films { &plan.thin } else { &plan.link };
            let link: LinkSpec = format!("{base} loss={loss}").parse().unwrap();
            for run in 0..plan.runs {
                let mut lanes: Vec<Lane> =
                    plan.ways.iter().map(|way| Lane::open(way, &link, &plan)).collect();
                let rows = match part {
                    Part::Pages => parts::pages(&mut lanes, &book, plan.flips),
                    Part::Films => {
                        let reel = reel.get_or_insert_with(|| Reel::new(2));
                        lanes.iter_mut().map(|lane| parts::film(lane, reel, 10 * plan.flips)).collect()
                    }
                    Part::Lines => {
                        lanes.iter_mut().map(|lane| parts::lines(lane, &book, 10 * plan.flips)).collect()
                    }
                };
                for (way, figures) in plan.ways.iter().zip(rows) {
                    eprintln!("{} run {}: {}", part.name(), run + 1, table.line(way, loss, &figures));
                    table.add(way, loss, figures);
                }
            }
        }
        println!("\n{}", table.text(plan.runs, &plan.told(part)));
        tables.push(table);
    }
    if let Some(file) = std::env::var_os("QUICKSET_TIGERVNC_JSON") {
        let rows: Vec<String> = tables.iter().flat_map(Table::json).collect();
        std::fs::write(file, format!("[{}]\n", rows.join(","))).unwrap();
    }
}

impl Plan {
    fn read() -> Self {
        let word = |name: &str, usual: &str| {
            std::env::var(format!("QUICKSET_TIGERVNC_{name}")).unwrap_or_else(|_| usual.into())
        };
        let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/debug/quickset");
        let tcp = word("TCP", "cubic,bbr");
        let known = lane::congestion_controls();
        let mut ways = vec![Way::Gateways];
        for name in tcp.split(',') {
            if known.iter().any(|known| known == name) {
                ways.push(Way::TigerVnc(name.to_owned()));
            } else {
                println!(
                    "without TCP with {name}, which this kernel has not loaded: `modprobe tcp_{name}` may load it"
                );
            }
        }
        Self {
            binary: word("BINARY", &built.to_string_lossy()).into(),
            parts: word("PARTS", "pages,films,lines").split(',').map(Part::read).collect(),
            ways,
            link: word("LINK", LINK),
            thin: word("THIN", THIN),
            losses: word("LOSS", "none 1%").split(' ').map(|one| one.parse().unwrap()).collect(),
            flips: word("FLIPS", "20").parse().unwrap(),
            runs: word("RUNS", "1").parse().unwrap(),
            quality: word("QUALITY", "8").parse().ok(),
        }
    }

    /// What a part was measured with.
    fn told(&self, part: Part) -> String {
        let link = if part == Part::Films { &self.thin } else { &self.link };
        let quality = self
            .quality
            .map_or_else(|| "what viewers choose".to_owned(), |level| format!("Tight, quality {level}"));
        format!("{} over {link}; {quality}", part.about())
    }
}

/// Packets are as large as most paths take.
const LINK: &str = "rate=100mbit delay=50ms queue=1MB mtu=1500";
/// A link on which a film is not as good as it could be.
const THIN: &str = "rate=5mbit delay=30ms queue=64kB mtu=1500";
