//! The project's own commands, run as `cargo xtask COMMAND` from anywhere in the tree.
//!
//! A command is one line in [`COMMANDS`], a step of `cargo xtask test` one line in `STEPS` of its module.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "numbers in tests are small, or cut on purpose"
    )
)]

mod abr;
mod again;
mod arrows;
mod bare;
mod beside;
mod browser;
mod bytes;
mod c;
mod dashjs;
mod deny;
mod disk;
mod dist;
mod e2e;
mod endure;
mod features;
mod figures;
mod flips;
mod flood;
mod fuzz;
mod instructions;
mod languages;
mod modules;
mod msrv;
mod mutate;
mod needs;
mod pages;
mod picture;
mod places;
mod platforms;
mod players;
mod python;
mod results;
mod rfc;
mod run;
mod semver;
mod sizes;
mod sound;
mod source;
mod spec;
mod test;
mod tigervnc;
mod tools;
mod traces;
mod viewers;
mod watch;
mod web;

use anyhow::{Result, bail};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    std::process::exit(match dispatch(&args) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            1
        }
    });
}

fn dispatch(args: &[String]) -> Result<()> {
    let Some(name) = args.first() else {
        print_help();
        bail!("which command?");
    };
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        print_help();
        return Ok(());
    }
    let Some(command) = COMMANDS.iter().find(|c| c.name == name) else {
        print_help();
        bail!("there is no command {name:?}");
    };
    if args.iter().any(|a| matches!(a.as_str(), "--help" | "-h")) {
        println!("cargo xtask {} {}\n    {}", command.name, command.arguments, command.about);
        return Ok(());
    }
    std::env::set_current_dir(run::root())?;
    (command.run)(&args[1..])
}

fn print_help() {
    println!("cargo xtask COMMAND\n");
    for c in COMMANDS {
        println!("  {:<34} {}", format!("{} {}", c.name, c.arguments), c.about);
    }
}

struct XtaskCommand {
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<()>,
}

const COMMANDS: &[XtaskCommand] = &[
    XtaskCommand {
        name: "test",
        arguments: "[STEP…]",
        about: "install what the tests need, then run all steps, or only those named",
        run: test::command,
    },
    XtaskCommand {
        name: "bare",
        arguments: "[STEP…]",
        about: "the same in a minimal Debian 12 below target/, which has Rust and nothing else (root, an hour, 12 GB)",
        run: bare::command,
    },
    XtaskCommand {
        name: "dist",
        arguments: "[--profile NAME | --binary FILE] [PART… | all | program | check [deb | c | wheel]… | twice [PART…]]",
        about: "what is handed out: a Debian package (unless told), RPM, image, wheels, npm…; or try the Debian package, the C interface and the wheel in a minimal Debian; or build twice and compare",
        run: dist::command,
    },
    XtaskCommand {
        name: "c",
        arguments: "[--prefix FOLDER]",
        about: "build the C interface and install it: header, libraries, a file for pkg-config (/usr/local unless told)",
        run: c::command,
    },
    XtaskCommand {
        name: "watch",
        arguments: "[valgrind] [threads] [miri]",
        about: "the C interface under valgrind's memcheck, ThreadSanitizer and Miri (the latter two with nightly Rust): each has to be silent",
        run: watch::command,
    },
    XtaskCommand {
        name: "lint",
        arguments: "",
        about: "rustfmt and clippy, warnings are errors",
        run: test::lint,
    },
    XtaskCommand {
        name: "results",
        arguments: "",
        about: "run what docs/results.md is about, and write that page",
        run: results::command,
    },
    XtaskCommand {
        name: "picture",
        arguments: "[lab|demo] [--binary FILE]",
        about: "run a little of the laboratory, and the demo, and draw docs/lab.png and docs/demo.png from their pages with Chromium",
        run: picture::command,
    },
    XtaskCommand {
        name: "package",
        arguments: "",
        about: "what a registry would get, built from nothing but that (some minutes)",
        run: test::packaged,
    },
    XtaskCommand {
        name: "arrows",
        arguments: "",
        about: "which crate may depend on which (ARCHITECTURE.md)",
        run: arrows::command,
    },
    XtaskCommand {
        name: "sizes",
        arguments: "",
        about: "lengths of files, structs and argument lists (CONTRIBUTING.md)",
        run: sizes::command,
    },
    XtaskCommand {
        name: "pages",
        arguments: "[--write]",
        about: "links, tests and programs of the documentation are there; --write: take programs into the pages",
        run: pages::command,
    },
    XtaskCommand {
        name: "spec",
        arguments: "[--missing | --page FILE.md]",
        about: "where each requirement of spec/ and of the RFCs is obeyed and where it is tested",
        run: spec::command,
    },
    XtaskCommand {
        name: "web",
        arguments: "[--check]",
        about: "the page of `desktop serve --web`, built into the repository, or whether it is what its sources give",
        run: web::command,
    },
    XtaskCommand {
        name: "semver",
        arguments: "[--renew]",
        about: "what breaks programs that were built against the baseline, or make this commit the baseline",
        run: semver::command,
    },
    XtaskCommand {
        name: "traces",
        arguments: "[NAME…] [--accept | --save DIR | --against DIR]",
        about: "scenes in virtual time, each datagram and event: whether they are what they were, or which differs first and where",
        run: traces::command,
    },
    XtaskCommand {
        name: "instructions",
        arguments: "[--profile release] [--accept]",
        about: "instructions of a packet sent, received, acknowledged, protected, of a handshake, a datagram, a message and a request, beside what they were (valgrind)",
        run: instructions::command,
    },
    XtaskCommand {
        name: "fuzz",
        arguments: "[TARGET] [--seconds N | --minimise]",
        about: "run one fuzz target, or all, for N seconds each (60), or make their corpora anew",
        run: fuzz::command,
    },
    XtaskCommand {
        name: "silence",
        arguments: "[--runs 20000]",
        about: "outages, rebindings and losses in virtual time: no connection dies, all go on when their path is back",
        run: endure::silence,
    },
    XtaskCommand {
        name: "chaos",
        arguments: "[--runs 5]",
        about: "1 GB each way over sockets, through a path that is away for 10 s in every 15 s, loses 5 % and has a NAT that forgets",
        run: endure::chaos,
    },
    XtaskCommand {
        name: "platforms",
        arguments: "[TARGET…]",
        about: "what builds and works on other systems and processors: 64-bit ARM, Windows, macOS, WebAssembly, most significant byte first",
        run: platforms::command,
    },
    XtaskCommand {
        name: "interop",
        arguments: "[--quick] [--peer NAME] [--case NAME]",
        about: "our stack with others, both ways round, over links that lose and corrupt: a matrix",
        run: beside::interop,
    },
    XtaskCommand {
        name: "bench-peers",
        arguments: "[--only STACK,…] [--case CASE,…] [--runs 5] [--seconds 2] [--group x25519] [--page FILE] [--json] | fec | files | shards",
        about: "throughput, messages, datagrams, handshakes, latencies and memory beside other stacks, over loopback; or erasure codes beside others, `http serve` beside nginx, or our server on several cores",
        run: beside::bench_peers,
    },
    XtaskCommand {
        name: "e2e",
        arguments: "[--seconds 10] [--only WORD]",
        about: "the desktop gateways between TigerVNC's programs, Chromium and Firefox, over paths that lose and behind a firewall, and `players --seconds 20` by HTTP/3; or the tests with a word in their names",
        run: e2e::command,
    },
    XtaskCommand {
        name: "players",
        arguments: "[--seconds 60]",
        about: "dash.js in four tabs of Chromium before `http serve`, over a path that loses 0.5 %, by HTTP/3 and HTTP/1.1: a table each",
        run: players::command,
    },
    XtaskCommand {
        name: "viewers",
        arguments: "[ROW…]",
        about: "the desktop gateways with viewers and servers of others (noVNC, TigerVNC, gtk-vnc, x11vnc, QEMU…): a table",
        run: viewers::command,
    },
    XtaskCommand {
        name: "flips",
        arguments: "[--flips 500] [--scroll | --video] [--link WORDS] [--loss none] [--loss 1%] [--order fenced,latest] [--binary FILE] [--json]",
        about: "page flips over both desktop gateways, with losses: how long until a viewer has all of a page (12 min); or a terminal that scrolls: how evenly its lines come; or a film over 5 Mbit/s: how late its pictures and keys beside it come, and how good they are",
        run: flips::command,
    },
    XtaskCommand {
        name: "tigervnc",
        arguments: "[--only pages,films,lines] [--flips 60] [--runs 3] [--link WORDS] [--thin WORDS] [--loss none] [--loss 1%] [--tcp cubic,bbr] [--quality 8|auto] [--binary FILE] [--json]",
        about: "both desktop gateways beside TigerVNC alone, over the same links in the same run: pages, a film, a terminal that scrolls; times, bytes and the work of processors in tables (root, 40 min)",
        run: tigervnc::command,
    },
    XtaskCommand {
        name: "bytes",
        arguments: "[--pages 10] [--pictures FOLDER] [--order fenced] [--old] [--instructions]",
        about: "bytes of pages of text that are turned, of scrolling, typing and dragging, beside Tight: a table; also of pictures of screens (PPM), or for a client that takes no adaptive codes; or the instructions that it takes to encode and decode them",
        run: bytes::command,
    },
    XtaskCommand {
        name: "browser",
        arguments: "[--flips 500] [--keys 500] [--link OPTIONS] [--loss 1%] [--json]",
        about: "a desktop in Chromium over a path that loses, beside both gateways and noVNC with websockify: how long a page and a key take (root, 12 min)",
        run: browser::command,
    },
    XtaskCommand {
        name: "sound",
        arguments: "[--minutes 10] [--loss 1%] [--tell] [--binary FILE]",
        about: "sound over both desktop gateways and a link of 50 ms that loses 1 %: which frames come in time, by QUIC, without repair and by TCP, and for how many bytes; at least 99.8 % of what comes without losses, and sound within 60 ms of the picture, unless told to tell only (root)",
        run: sound::command,
    },
    XtaskCommand {
        name: "flood",
        arguments: "[--rate 50000] [--tries 20] [--ms 150] [--binary FILE]",
        about: "servers under so many first packets a second: how many newcomers get in in time (two cores, nothing beside it)",
        run: flood::command,
    },
    XtaskCommand {
        name: "siege",
        arguments: "",
        about: "http serve with 200 clients that ask for a hundred large files each and take nothing: memory, descriptors, an honest client",
        run: endure::siege,
    },
    XtaskCommand {
        name: "abr",
        arguments: "",
        about: "the rules of quickset-abr beside dash.js, which npm has: tables (docs/abr.md)",
        run: abr::command,
    },
    XtaskCommand {
        name: "python",
        arguments: "[lab] [quic] | bench [--runs N] [--seconds S]",
        about: "the Python packages: built, installed below target/, tested; or beside aioquic",
        run: python::command,
    },
    XtaskCommand {
        name: "languages",
        arguments: "[--only WORD]",
        about: "programs in C, Python and Rust with each other, over a path that loses; HTTP/3 from Python with aioquic, `quickset http` and Chromium",
        run: languages::command,
    },
    XtaskCommand {
        name: "cluster",
        arguments: "",
        about: "the recipes of docs/cluster.md: GNU parallel, Slurm, Ray and Dask give what one process gives",
        run: python::cluster,
    },
    XtaskCommand {
        name: "msrv",
        arguments: "",
        about: "check the workspace with the oldest supported compiler",
        run: msrv::command,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_commands_are_errors() {
        assert!(dispatch(&["no-such-command".into()]).is_err());
        assert!(dispatch(&[]).is_err());
        assert!(dispatch(&["fuzz".into(), "--help".into()]).is_ok());
    }
}
