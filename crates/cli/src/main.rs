//! The command `quickset`. Each subcommand is a file: its arguments, what it does, what it prints.
//!
//! Exit codes: 0 success, 1 failure, 2 usage. What a machine reads is on stdout, everything else on stderr.

#![deny(unsafe_code)]
// A reader who goes away, or a full disk below a log, must not end a server: `say!` and `note!`.
#![warn(clippy::print_stdout, clippy::print_stderr)]
#![cfg_attr(
    test,
    expect(clippy::cast_possible_truncation, reason = "numbers in tests are small, or cut on purpose")
)]

mod cert;
mod config;
mod demo;
mod descriptors;
mod desktop;
mod http;
mod interrupts;
mod lab;
mod link;
mod manual;
mod memory;
mod metrics;
mod page;
mod perf;
mod play;
mod qlog;
mod say;
mod secret;
mod threads;
mod trust;
mod values;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use say::note;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::format;

/// It gives memory back to the system ten seconds after it was freed, wherever it lay, if it is told to
/// ([`memory::return_what_is_free`]).
#[cfg(unix)]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Threads keep little of what they freed for themselves: what one that has nothing to do any more kept held
/// on to half as much as a server had at first. Without any, each of thirty small allocations for an answer
/// by HTTP/3 takes a lock.
///
/// What was freed last is taken again, however much of it lies together: unless told, jemalloc splits nothing
/// that is 64 times as large as what is wanted, and a client of HTTP/2 that holds 2 MB at a time took 90 MB
/// of the system until some of it had decayed.
#[cfg(unix)]
#[expect(unsafe_code, reason = "the allocator looks for a name; nobody else has it")]
// SAFETY: it is a pointer to characters that end with a zero, as jemalloc's variable is (jemalloc(3),
// "TUNING").
#[unsafe(export_name = "_rjem_malloc_conf")]
static ALLOCATOR_OPTIONS: &[u8; 71] =
    b"tcache_max:1024,tcache_nslots_small_max:32,lg_extent_max_active_fit:30\0";

/// QUIC for data that is late when it is lost.
#[derive(Debug, Parser)]
#[command(name = "quickset", version, arg_required_else_help = true, after_help = AFTER)]
struct Command {
    #[command(subcommand)]
    subcommand: Subcommands,
}

#[derive(Debug, Subcommand)]
enum Subcommands {
    Demo(demo::DemoArgs),
    Desktop(desktop::DesktopArgs),
    Http(Box<http::HttpArgs>),
    Lab(lab::LabArgs),
    Link(link::EmulatedLinkArgs),
    Perf(perf::PerfArgs),
    Play(play::PlayArgs),
    Cert(cert::CertArgs),
    Completions(manual::CompletionsArgs),
    #[command(hide = true)]
    Manual(manual::ManualArgs),
}

fn main() -> ExitCode {
    log();
    let command: Command = match config::parse() {
        Ok(command) => command,
        Err(error) => {
            note!("quickset: {}", sentence(&error));
            return ExitCode::from(USAGE);
        }
    };
    let done = match command.subcommand {
        Subcommands::Demo(args) => demo::run(&args),
        Subcommands::Desktop(args) => desktop::run(&args),
        Subcommands::Http(args) => http::run(*args),
        Subcommands::Lab(args) => lab::run(args),
        // Its exit status is another program's.
        Subcommands::Link(args) => return link::run(&args),
        Subcommands::Perf(args) => perf::run(args),
        Subcommands::Play(args) => play::run(&args),
        Subcommands::Cert(args) => cert::run(&args),
        Subcommands::Completions(args) => manual::completions(&args),
        Subcommands::Manual(args) => manual::pages(&args),
    };
    let code = match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note!("quickset: {}", sentence(&error));
            ExitCode::FAILURE
        }
    };
    say::flush();
    code
}

/// Logs go to stderr, and unless RUST_LOG asks for them there are none but warnings.
fn log() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    let colours = std::io::stderr().is_terminal();
    // Some of the words may be a peer's.
    let fields =
        format::debug_fn(|line, field, value| match (field.name(), say::plain(&format!("{value:?}"))) {
            ("message", words) => write!(line, "{words}"),
            (name, words) => write!(line, "{name}={words}"),
        });
    tracing_subscriber::fmt()
        .fmt_fields(fields.delimited(" "))
        .with_env_filter(filter)
        .with_writer(|| say::LogWriter)
        .with_ansi(colours)
        // By `eprintln!`, to where it has just failed.
        .log_internal_errors(false)
        .init();
}

/// What went wrong and why, without the reasons that an error's own words contain already. Some of the words
/// may be a peer's.
fn sentence(error: &anyhow::Error) -> String {
    let told =
        error.chain().map(ToString::to_string).fold(String::new(), |told, reason| match told.as_str() {
            "" => reason,
            told if told.contains(&reason) => told.to_owned(),
            told => format!("{told}: {reason}"),
        });
    told.lines().map(say::plain).collect::<Vec<_>>().join("\n")
}

/// Runs a future on all cores that the system has threads for.
fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(fewer) = threads::fewer()? {
        builder.worker_threads(fewer);
    }
    builder.enable_all().build()?.block_on(future)
}

/// The exit code of clap.
const USAGE: u8 = 2;

const AFTER: &str = "\
Example: see what fences do for a screen on a lossy link (about a minute, nothing else needed)
  quickset demo --open

Logs go to stderr, as much as RUST_LOG says, like RUST_LOG=debug. With SSLKEYLOGFILE=FILE the
secrets of connections are appended to that file, for Wireshark; --qlog DIR needs none.";

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Command::command().debug_assert();
    }

    #[test]
    fn errors_are_one_sentence() {
        let cause = std::io::Error::other("no such file");
        let error = anyhow::Error::new(cause).context("a.pem cannot be read");
        assert_eq!(sentence(&error), "a.pem cannot be read: no such file");
        let error = error.context("the server does not start: a.pem cannot be read");
        assert_eq!(sentence(&error), "the server does not start: a.pem cannot be read: no such file");
    }

    #[test]
    fn every_subcommand_has_an_example_in_its_help() {
        fn check(command: &mut clap::Command) {
            let help = command.render_long_help().to_string();
            assert!(help.contains("Example"), "{} has no example:\n{help}", command.get_name());
            command.get_subcommands_mut().filter(|sub| sub.get_name() != "help").for_each(check);
        }
        check(&mut Command::command());
    }
}
