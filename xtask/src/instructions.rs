//! Instructions that a packet takes, and a handshake, and what is small from an application to another, counted
//! by callgrind beside what they were.
//!
//! A count hardly depends on what else a machine does, so it shows what no time can: a percent. It depends on
//! the compiler, and by the vector kernels on the processor that valgrind makes believe; counts of others are
//! shown, and not judged.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::needs::{self, Needed, Sign};
use crate::run::{cargo, output, root};

/// A case of the `benches/instructions.rs` of a crate, and the function of it that is counted.
struct CountedCase {
    /// Below `crates`.
    of: &'static str,
    name: &'static str,
    function: &'static str,
}

const fn counted(of: &'static str, name: &'static str, function: &'static str) -> CountedCase {
    CountedCase { of, name, function }
}

const CASES: &[CountedCase] = &[
    counted("quic", "handshake", "*counted_handshake*"),
    counted("quic", "sent", "*counted_send*"),
    counted("quic", "received", "*counted_receive*"),
    counted("quic", "acknowledged", "*counted_settle*"),
    counted("quic", "sent-protected", "*counted_send*"),
    counted("quic", "received-protected", "*counted_receive*"),
    counted("quic", "sent-repaired", "*counted_send*"),
    counted("quic", "received-repaired", "*counted_receive*"),
    counted("net", "datagram", "*counted_play*"),
    counted("net", "datagrams", "*counted_play*"),
    counted("net", "message", "*counted_play*"),
    counted("net", "request", "*counted_play*"),
    counted("net", "request-beside-streams", "*counted_play*"),
    counted("net", "request-beside-connections", "*counted_play*"),
];

/// What costs as much whatever else there is that is idle: a case, and the same without that.
const ALIKE: &[(&str, &str)] =
    &[("request-beside-streams", "request"), ("request-beside-connections", "request")];

/// A count that is off by more is a failure, in percent.
const TOLERANCE: f64 = 2.0;

const NEEDS: &[Needed] = &[Needed {
    sign: Sign::Program("valgrind"),
    package: "valgrind",
    why: "instructions: what callgrind counts",
}];

pub(crate) fn command(args: &[String]) -> Result<()> {
    let (profile, accept) = read(args)?;
    needs::ensure(NEEDS)?;
    let build = format!("{} {profile}", compiler()?);
    let programs = [("quic", program("quic", &profile)?), ("net", program("net", &profile)?)];
    let before = std::fs::read_to_string(file()).unwrap_or_default();
    let (mut now, mut off) = (Vec::new(), Vec::new());
    println!("\n{:<28} {:>12} {:>12} {:>8}", build, "instructions", "before", "");
    for CountedCase { of, name: case, function } in CASES {
        let (_, program) = programs.iter().find(|(crate_name, _)| crate_name == of).context("a crate")?;
        let count = count(program, case, function)?;
        let known = recorded(&before, &build, case);
        let change = known.map(|known| percent(known, count));
        let shown = known.zip(change).map(|(known, change)| format!("{known:>12} {change:>+7.2}%"));
        println!("{case:<28} {count:>12} {}", shown.unwrap_or_else(|| format!("{:>12}", "none")));
        off.extend(change.filter(|change| change.abs() > TOLERANCE).map(|_| *case));
        now.push((*case, count));
    }
    for (case, like) in ALIKE {
        let of = |name| now.iter().find(|(case, _)| *case == name).map(|(_, count)| *count);
        let (with, without) = of(*case).zip(of(*like)).context("both are counted")?;
        if percent(without, with) > TOLERANCE {
            bail!("{case} takes {with}, {like} {without}: what is idle costs something");
        }
    }
    if accept {
        std::fs::write(file(), rewritten(&before, &build, &now))?;
        println!("\nwritten to {}", file().display());
        return Ok(());
    }
    if !off.is_empty() {
        bail!(
            "{}: more than {TOLERANCE} % from what they were; if that is to be so, `cargo xtask instructions --accept`, and the \
             commit says why",
            off.join(", ")
        );
    }
    if now.iter().any(|(case, _)| recorded(&before, &build, case).is_none()) {
        println!("\nnothing is recorded of this compiler and profile: shown, and not judged");
    }
    Ok(())
}

/// The profile, and whether the counts are to be written down.
fn read(args: &[String]) -> Result<(String, bool)> {
    let (mut profile, mut accept, mut args) = ("release".to_owned(), false, args.iter());
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--accept" => accept = true,
            "--profile" => args.next().context("--profile needs a name")?.clone_into(&mut profile),
            other => bail!("there is no {other}: [--profile release] [--accept]"),
        }
    }
    Ok((profile, accept))
}

/// `1.95.0 x86_64-unknown-linux-gnu`.
fn compiler() -> Result<String> {
    let text = output(Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())).arg("-vV"))?;
    let of = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let (release, host) = of("release:").zip(of("host:")).context("rustc does not say which it is")?;
    Ok(format!("{release} {host}"))
}

/// Builds what is counted. With its symbols, by which callgrind knows functions.
fn program(of: &str, profile: &str) -> Result<PathBuf> {
    let text = output(
        cargo()
            .current_dir(root())
            .args(["build", "--package", &format!("quickset-{of}"), "--bench", "instructions", "--locked"])
            .args(["--profile", profile, "--message-format", "json-render-diagnostics"]),
    )?;
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let built = messages.filter(|message| message["target"]["name"] == "instructions");
    let mut program = built.filter_map(|message| message["executable"].as_str().map(PathBuf::from));
    program.next().context("cargo built no program to count")
}

/// Instructions of each thing that the case does.
fn count(program: &Path, case: &str, function: &str) -> Result<u64> {
    let out = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(format!("--toggle-collect={function}"))
        .arg(program)
        .arg(case)
        .stdin(Stdio::null())
        .output()
        .context("cannot start valgrind")?;
    let (said, told) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    if !out.status.success() {
        bail!("{case} under valgrind failed ({}):\n{told}", out.status);
    }
    let times = said.lines().find_map(|line| line.strip_prefix(case)?.trim().parse::<u64>().ok());
    let times = times.filter(|times| *times > 0).with_context(|| format!("{case} did nothing"))?;
    let collected =
        told.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse::<u64>().ok());
    match collected {
        None | Some(0) => bail!("callgrind saw no {function} in {case}:\n{told}"),
        Some(collected) => Ok(collected / times),
    }
}

#[expect(clippy::cast_precision_loss, reason = "valgrind takes weeks for 2^53 instructions")]
fn percent(before: u64, now: u64) -> f64 {
    (now as f64 / before as f64 - 1.0) * 100.0
}

fn file() -> PathBuf {
    root().join("crates/quic/benches/instructions.txt")
}

/// The lines of a build: what it is, and the case and count behind it.
fn recorded(text: &str, build: &str, case: &str) -> Option<u64> {
    let of_build =
        |line: &str| line.strip_prefix(build)?.trim_start().strip_prefix(case)?.trim().parse().ok();
    text.lines().find_map(of_build)
}

/// The file with these counts in place of those of the same build.
fn rewritten(before: &str, build: &str, now: &[(&str, u64)]) -> String {
    let others = before.lines().filter(|line| !line.starts_with('#') && !line.starts_with(build));
    let mut lines: Vec<String> = others.map(str::to_owned).collect();
    lines.extend(now.iter().map(|(case, count)| format!("{build} {case:<28} {count:>8}")));
    lines.sort();
    let mut text = HEAD.to_owned();
    for line in lines {
        writeln!(text, "{line}").expect("a string takes everything");
    }
    text
}

const HEAD: &str = "\
# Instructions of a packet, or of a handshake of both sides, or of a datagram, message or request from an application to
# another with all that both sides do, as `cargo xtask instructions` counts them, which writes this file with --accept:
# compiler, target, profile, case.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_of_a_build_and_a_case() {
        let first = rewritten("", "1.95.0 x86 release", &[("sent", 900), ("sent-protected", 1200)]);
        let both = rewritten(&first, "1.96.0 x86 release", &[("sent", 800)]);
        assert_eq!(recorded(&both, "1.95.0 x86 release", "sent"), Some(900));
        assert_eq!(recorded(&both, "1.95.0 x86 release", "sent-protected"), Some(1200));
        assert_eq!(recorded(&both, "1.96.0 x86 release", "sent"), Some(800));
        assert_eq!(recorded(&both, "1.96.0 x86 release", "sent-protected"), None);
        assert_eq!(recorded(&both, "1.96.0 x86 dev", "sent"), None);
        let again = rewritten(&both, "1.95.0 x86 release", &[("sent", 910)]);
        assert_eq!(recorded(&again, "1.95.0 x86 release", "sent"), Some(910));
        assert_eq!(
            recorded(&again, "1.95.0 x86 release", "sent-protected"),
            None,
            "all of a build are written at once"
        );
        assert_eq!(again.lines().filter(|line| line.starts_with('#')).count(), 3);
    }

    #[test]
    fn every_case_of_the_program_is_counted() {
        for of in ["quic", "net"] {
            let file = root().join(format!("crates/{of}/benches/instructions.rs"));
            let text = std::fs::read_to_string(file).expect("it is there");
            let (_, list) = text.split_once("const CASES").expect("a list of cases");
            let (list, _) = list.split_once("];").expect("its end");
            let of_crate = || CASES.iter().filter(|case| case.of == of);
            for CountedCase { name, function, .. } in of_crate() {
                assert!(list.contains(&format!("(\"{name}\", ")), "{name} is not played");
                let function = function.trim_matches('*');
                let is_there = ["(", "<"].iter().any(|next| text.contains(&format!("fn {function}{next}")));
                assert!(is_there, "{function} is not there");
            }
            assert_eq!(list.matches("(\"").count(), of_crate().count());
        }
    }
}
