//! The arrows of the architecture: which crate may depend on which. Dev-dependencies are exempt.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::modules::Modules;
use crate::run::{cargo, output, root};
use crate::source::Source;

/// A crate below `net` reads no clock, opens no socket, draws no entropy and never sleeps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CrateWorld {
    /// Time and randomness are arguments; the lints of the root `clippy.toml` hold.
    Virtual,
    /// The real one; the crate's own `clippy.toml` keeps the limits and drops the prohibitions.
    Real,
}
use CrateWorld::{Real, Virtual};

/// Crate, its world, and what it may depend on among our crates and [`GUARDED`].
/// The same table, in words, is in ARCHITECTURE.md.
const ARROWS: &[(&str, CrateWorld, &[&str])] = &[
    ("quickset-base", Virtual, &[]),
    ("quickset-wire", Virtual, &["quickset-base"]),
    ("quickset-fec", Virtual, &[]),
    ("quickset-sched", Virtual, &[]),
    ("quickset-abr", Virtual, &["quickset-base"]),
    ("quickset-play", Virtual, &["quickset-abr"]),
    ("quickset-quic", Virtual, &["quickset-base", "quickset-wire", "quickset-fec", "quickset-sched"]),
    ("quickset-tls", Virtual, &["quickset-base", "quickset-quic", "rustls"]),
    ("quickset-policies", Virtual, &["quickset-base", "quickset-quic"]),
    ("quickset-h3", Virtual, &["quickset-base", "quickset-wire", "quickset-quic", "quickset-policies"]),
    ("quickset-sim", Virtual, &["quickset-base"]),
    ("quickset-web", Virtual, &["quickset-base", "quickset-wire", "quickset-fec"]),
    ("quickset-rfb", Virtual, &["quickset-base"]),
    ("quickset-screen", Virtual, &["quickset-base", "quickset-rfb"]),
    ("quickset-viewer", Virtual, &["quickset-base", "quickset-rfb", "quickset-screen", "quickset-web"]),
    ("quickset-net", Real, &["quickset-base", "quickset-quic", "tokio", "quinn-udp"]),
    // The face names types of quic (streams, errors) and of rustls (trust), and tokio's traits of readers and
    // writers.
    (
        "quickset",
        Real,
        &[
            "quickset-net",
            "quickset-tls",
            "quickset-h3",
            "quickset-policies",
            "quickset-quic",
            "rustls",
            "tokio",
        ],
    ),
    // A thread of its own drives each endpoint.
    ("quickset-ffi", Real, &["quickset", "tokio"]),
    // The gateway's far sides are TCP sockets of its own.
    (
        "quickset-desktop",
        Real,
        &["quickset-base", "quickset-rfb", "quickset-screen", "quickset-web", "quickset", "tokio"],
    ),
    ("quickset-lab", Real, EVERYTHING),
    ("quickset-cli", Real, EVERYTHING),
    ("xtask", Real, &[]),
];

/// Crates of others whose place is part of the architecture.
const GUARDED: &[&str] = &["rustls", "tokio", "quinn-udp"];

/// Stands for every crate of the table.
const EVERYTHING: &[&str] = &["*"];

pub(crate) fn command(_args: &[String]) -> Result<()> {
    let packages = packages()?;
    let mut findings = check(&packages);
    findings.extend(check_worlds(&root()));
    let core = Modules::of(&Source::below(&root(), CORE)?, CORE);
    findings.extend(check_modules(&core));
    for circle in core.circles() {
        let members: Vec<&str> = circle.into_iter().collect();
        findings.push(format!("{CORE} has a circle of {}", members.join(", ")));
    }
    findings.extend(check_circles()?);
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} breaches of the architecture; the table is in xtask/src/arrows.rs", findings.len());
    }
    let arrows: usize = packages.iter().map(|p| p.depends_on.len()).sum();
    println!("{} crates, {arrows} guarded arrows, all in the table", packages.len());
    println!("{} modules of {CORE}, with no circle and no arrow that is not in their table", MODULES.len());
    Ok(())
}

/// Modules of the other crates that name one another in a circle, beyond those that are known.
fn check_circles() -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for entry in std::fs::read_dir(root().join("crates"))? {
        let folder = format!("crates/{}/src", entry?.file_name().to_string_lossy());
        if folder == CORE {
            continue;
        }
        for circle in Modules::of(&Source::below(&root(), &folder)?, &folder).circles() {
            let known = CIRCLES.iter().find(|(of, _)| *of == folder).map_or(&[][..], |(_, members)| members);
            if !circle.iter().all(|member| known.contains(member)) {
                let members: Vec<&str> = circle.into_iter().collect();
                findings.push(format!("{folder} has a circle of {}", members.join(", ")));
            }
        }
    }
    Ok(findings)
}

/// Circles that are there still.
const CIRCLES: &[(&str, &[&str])] = &[
    ("crates/lab/src", &["catalogue", "experiment", "plan", "results", "run", "timing"]),
    ("crates/sim/src", &["network", "pcap", "timeline", "trace", "world"]),
];

/// What modules of the core name beyond the table, and what of the table is not so.
fn check_modules(modules: &Modules) -> Vec<String> {
    let mut findings = Vec::new();
    for (module, named) in modules.table() {
        let Some((_, allowed)) = MODULES.iter().find(|(name, _)| *name == module) else {
            findings.push(format!("{CORE}/{module} is not in the table of modules"));
            continue;
        };
        let forbidden = named.iter().filter(|name| !allowed.contains(name));
        findings.extend(forbidden.map(|name| format!("{CORE}/{module} must not name {name}")));
        let unused = allowed.iter().filter(|name| !named.contains(name));
        findings
            .extend(unused.map(|name| format!("{CORE}/{module} does not name {name}, as the table says")));
    }
    findings
}

const CORE: &str = "crates/quic/src";

/// Module of the core, and which others it names. What names `conn` is a part of the connection, or made of
/// whole ones: of what a connection owns (`link`, `life`, `traffic`, `protect` with its `guard`) nothing
/// does.
const MODULES: &[(&str, &[&str])] = &[
    ("ack", &["error", "packet", "stats"]),
    ("budget", &["places"]),
    ("cc", &[]),
    ("cids", &["ack", "packet"]),
    ("common", &["cids", "config", "event", "packet", "path", "qlog", "recovery", "stats"]),
    ("config", &["ack", "budget", "cc", "datagram", "early", "path", "protect", "sinks", "streams"]),
    (
        "conn",
        &[
            "ack",
            "budget",
            "cc",
            "cids",
            "common",
            "config",
            "datagram",
            "early",
            "error",
            "event",
            "keys",
            "life",
            "link",
            "packet",
            "path",
            "protect",
            "qlog",
            "received",
            "recovery",
            "refusal",
            "stats",
            "streams",
            "traffic",
            "validation",
            "work",
        ],
    ),
    ("datagram", &["error", "packet", "protect", "stats"]),
    ("early", &[]),
    (
        "endpoint",
        &[
            "budget",
            "cids",
            "config",
            "conn",
            "datagram",
            "event",
            "keys",
            "life",
            "packet",
            "places",
            "protect",
            "streams",
            "validation",
        ],
    ),
    ("error", &["refusal"]),
    ("event", &["datagram", "error", "streams"]),
    ("guard", &["common", "link", "packet", "protect", "streams", "traffic"]),
    ("keys", &["early", "packet"]),
    ("life", &["cids", "early", "error", "keys", "packet"]),
    (
        "link",
        &[
            "ack", "cc", "cids", "common", "config", "error", "event", "keys", "packet", "path", "protect",
            "qlog", "received", "recovery", "refusal",
        ],
    ),
    ("node", &["conn", "endpoint", "event", "refusal"]),
    ("packet", &[]),
    ("path", &["cc", "packet", "protect", "recovery", "stats"]),
    ("places", &[]),
    ("protect", &["cc", "error", "packet", "stats", "work"]),
    ("qlog", &["cc", "cids", "error", "keys", "life", "packet", "path", "recovery", "sinks", "stats"]),
    ("received", &["keys"]),
    ("recovery", &["ack", "cc", "error", "packet"]),
    ("refusal", &[]),
    ("rx", &["conn", "error", "event", "keys", "packet", "qlog", "received"]),
    ("setters", &[]),
    ("sinks", &[]),
    ("stats", &["error"]),
    ("streams", &["packet", "protect"]),
    ("traffic", &["config", "datagram", "event", "packet", "protect", "streams"]),
    ("tx", &["cc", "conn", "guard", "life", "packet", "protect", "recovery", "traffic"]),
    ("validation", &["keys"]),
    ("work", &[]),
];

struct Package {
    name: String,
    /// Our crates and guarded ones; no dev-dependencies.
    depends_on: BTreeSet<String>,
}

fn packages() -> Result<Vec<Package>> {
    let text = output(cargo().current_dir(root()).args(["metadata", "--no-deps", "--format-version", "1"]))?;
    parse(&serde_json::from_str(&text)?)
}

fn parse(metadata: &Value) -> Result<Vec<Package>> {
    let list = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let name = |v: &Value| v["name"].as_str().unwrap_or_default().to_owned();
    let ours: BTreeSet<String> = list.iter().map(name).collect();
    let guarded = |n: &String| ours.contains(n) || GUARDED.contains(&n.as_str());
    Ok(list
        .iter()
        .map(|p| Package {
            name: name(p),
            depends_on: p["dependencies"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|d| d["kind"].as_str() != Some("dev"))
                .map(name)
                .filter(guarded)
                .collect(),
        })
        .collect())
}

fn check(packages: &[Package]) -> Vec<String> {
    let mut findings = Vec::new();
    for p in packages {
        let Some((_, _, allowed)) = ARROWS.iter().find(|(name, ..)| *name == p.name) else {
            findings.push(format!("{} is not in the table", p.name));
            continue;
        };
        let forbidden =
            p.depends_on.iter().filter(|d| *allowed != EVERYTHING && !allowed.contains(&d.as_str()));
        findings.extend(forbidden.map(|d| format!("{} must not depend on {d}", p.name)));
    }
    let gone = ARROWS.iter().filter(|(name, ..)| !packages.iter().any(|p| p.name == *name));
    findings.extend(gone.map(|(name, ..)| format!("{name} is in the table but not in the workspace")));
    findings
}

/// Clippy takes the nearest `clippy.toml` above a crate. The root's forbids clocks, sockets, entropy and
/// sleep; a crate of the real world has its own with the same limits, any other has none.
fn check_worlds(root: &Path) -> Vec<String> {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let roots = read(&root.join("clippy.toml")).unwrap_or_default();
    let mut findings = Vec::new();
    for (name, world, _) in ARROWS {
        let folder = match *name {
            "xtask" => root.join("xtask"),
            "quickset" => root.join("crates/quickset"),
            other => root.join("crates").join(other.trim_start_matches("quickset-")),
        };
        match (world, read(&folder.join("clippy.toml"))) {
            (Virtual, None) => {}
            (Virtual, Some(_)) => findings.push(format!("{name} must not have a clippy.toml of its own")),
            (Real, None) => {
                findings.push(format!("{name} needs a clippy.toml with the limits of the root's"));
            }
            (Real, Some(own)) if limits(&own) == limits(&roots) => {}
            (Real, Some(_)) => {
                findings.push(format!("the limits in {name}'s clippy.toml are not the root's"));
            }
        }
    }
    findings
}

/// The one-line settings that are not prohibitions.
fn limits(text: &str) -> BTreeSet<&str> {
    let lines = text.lines().map(str::trim);
    lines.filter(|l| l.contains("-threshold = ") || l.starts_with("allow-")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, depends_on: &[&str]) -> Package {
        Package { name: name.into(), depends_on: depends_on.iter().map(|d| (*d).to_owned()).collect() }
    }

    #[test]
    fn the_workspace_follows_the_table() {
        let findings = check(&packages().expect("cargo metadata works"));
        assert!(findings.is_empty(), "{findings:#?}");
    }

    #[test]
    fn clocks_are_forbidden_below_net() {
        let findings = check_worlds(&root());
        assert!(findings.is_empty(), "{findings:#?}");
    }

    #[test]
    fn the_core_follows_its_table() {
        let core = Modules::of(&Source::below(&root(), CORE).expect("it is there"), CORE);
        let findings = check_modules(&core);
        assert!(findings.is_empty(), "{findings:#?}");
    }

    #[test]
    fn there_are_no_other_circles() {
        let findings = check_circles().expect("sources can be read");
        assert!(findings.is_empty(), "{findings:#?}");
    }

    #[test]
    fn a_module_that_names_another_is_found() {
        let source =
            |path: &str, text: &str| Source { path: format!("{CORE}/{path}"), text: text.to_owned() };
        let sources = [
            source("packet/mod.rs", "use crate::conn::Connection;\n"),
            source("conn/mod.rs", "use crate::packet::Token;\n"),
            source("new.rs", ""),
        ];
        let found = check_modules(&Modules::of(&sources, CORE));
        assert!(found.contains(&format!("{CORE}/packet must not name conn")), "{found:?}");
        assert!(found.contains(&format!("{CORE}/new is not in the table of modules")), "{found:?}");
        assert!(found.contains(&format!("{CORE}/conn does not name cids, as the table says")), "{found:?}");
        assert!(!found.iter().any(|f| f.contains("name packet")), "{found:?}");
    }

    #[test]
    fn a_wrong_arrow_and_a_stranger_are_found() {
        let found = check(&[package("quickset-quic", &["tokio", "quickset-wire"]), package("new", &[])]);
        assert!(found.contains(&"quickset-quic must not depend on tokio".to_owned()), "{found:?}");
        assert!(found.contains(&"new is not in the table".to_owned()), "{found:?}");
        assert!(!found.iter().any(|f| f.contains("quickset-wire") && f.contains("must not")), "{found:?}");
        assert!(
            check(&[package("quickset-lab", &["tokio", "quickset-sim"])]).iter().all(|f| !f.contains("must"))
        );
    }

    #[test]
    fn only_dev_dependencies_are_exempt() {
        let metadata = serde_json::json!({ "packages": [
            { "name": "quickset-sim", "dependencies": [
                { "name": "quickset-quic", "kind": "dev" },
                { "name": "tokio", "kind": null },
                { "name": "rustls", "kind": "build" },
                { "name": "bytes", "kind": null } ] },
            { "name": "quickset-quic", "dependencies": [] } ] });
        let packages = parse(&metadata).expect("it has packages");
        assert_eq!(packages[0].depends_on, ["rustls", "tokio"].map(str::to_owned).into());
    }
}
