use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use quickset_sim::LinkSpec;

use crate::say::note;

/// Run any program behind an emulated link; on Linux, as root or not.
///
/// The program runs in a network of its own, whose only way out is the link; every protocol
/// goes through it, TCP and all. It finds the host's address in $QUICKSET_LINK_HOST (10.77.0.1,
/// or the next network that is free, and fd77::1 in $QUICKSET_LINK_HOST6): as root, servers of
/// this machine that listen there or on all addresses are reached. There is no way on to other
/// hosts, nor to a server of names. Without root the server runs inside too, see --far.
///
/// Rate, delay, jitter, queue and losses are those of one direction, and hold for each of
/// both. Options with up- (from the program to the host) or down- are for one of them, and
/// go before.
///
/// Terminal, signals and exit status of the program stay as they are; 125 is a link that
/// cannot be made, 126 and 127 a program that cannot be started. It runs as whoever runs
/// this; as root, `sudo -u NAME` in front of it changes that. Counts go to stderr in the end,
/// since stdout belongs to the program. The link goes in whatever way it ends, and both
/// programs with it; what they have left running has no network then.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, verbatim_doc_comment)]
pub(crate) struct EmulatedLinkArgs {
    #[command(flatten)]
    links: Box<Links>,
    /// Seed of losses, jitter and damage
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The largest IP packet of the program's network
    #[arg(long, value_name = "BYTES", default_value_t = 1500,
          value_parser = clap::value_parser!(u32).range(576..=65535))]
    mtu: u32,
    /// Run this shell command on the host's side, in a network of its own; needs no root
    ///
    /// The program starts as soon as this one listens, and this one is ended with the
    /// program. It finds its own address in $QUICKSET_LINK_HOST, and prints to stderr.
    #[arg(long, value_name = "SERVER")]
    far: Option<String>,
    /// Write the counts here, as one JSON document
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print nothing of our own but errors
    #[arg(short, long)]
    quiet: bool,
    /// Become COMMAND, as a child of this process
    #[arg(long, value_name = "PID", hide = true)]
    child_of: Option<u32>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(args: &EmulatedLinkArgs) -> ExitCode {
    match play(args) {
        Ok(code) => code,
        Err(error) => {
            note!("quickset: {}", crate::sentence(&error));
            ExitCode::from(NO_LINK)
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn play(_args: &EmulatedLinkArgs) -> anyhow::Result<ExitCode> {
    anyhow::bail!(
        "`link` needs Linux, for its network namespaces; in a virtual machine or a container with Linux it runs"
    )
}

#[cfg(target_os = "linux")]
use linux::play;

/// Both directions, as options: each is a word of a [`LinkSpec`], and of two with the same key the last
/// counts.
#[derive(Debug, Clone)]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there is no link without Linux"))]
struct Links {
    up: LinkSpec,
    down: LinkSpec,
}

/// The headings of options for both ways, the way up and the way down.
const HEADINGS: [&str; 3] = ["Link, each way", "Link, up", "Link, down"];

/// The options of a key: for both ways, up and down.
macro_rules! ways {
    ($key:literal) => {
        [$key, concat!("up-", $key), concat!("down-", $key)]
    };
}

/// Options that are keys of a [`LinkSpec`], their values, and what they say.
const KEYS: [([&str; 3], &str, &str); 7] = [
    (ways!("rate"), "RATE", "Bits per second, like 20mbit [default: unlimited]"),
    (ways!("delay"), "TIME", "Propagation delay, one way, like 50ms"),
    (ways!("jitter"), "JITTER", "Delay that varies, like 10ms (even) or normal:5ms,2ms"),
    (ways!("loss"), "LOSS", "What gets lost: a share, like 0.5%, or bursts, like ge:1%,30%"),
    (ways!("queue"), "QUEUE", "What waits: 9MB, 100packets or codel:5ms,100ms,9MB [default: unlimited]"),
    (ways!("corrupt"), "SHARE", "Packets that arrive with a flipped bit"),
    (ways!("duplicate"), "SHARE", "Packets that arrive twice"),
];

/// Whole links.
const LINKS: [&str; 3] = ways!("link");

impl clap::Args for Links {
    fn augment_args(command: Command) -> Command {
        let mut command = command.next_help_heading("Link, each way").arg(
            Arg::new("trace")
                .long("trace")
                .value_name("UP,DOWN")
                .value_delimiter(',')
                .num_args(1)
                .value_parser(|file: &str| word("rate", &format!("trace:{file}")))
                .help("Files with the rates over time, up and down, or one for both"),
        );
        for (way, heading) in HEADINGS.into_iter().enumerate() {
            command = command.next_help_heading(heading);
            for (names, value, help) in KEYS {
                let arg = Arg::new(names[way]).long(names[way]).value_name(value).help(help);
                command = command.arg(arg.value_parser(move |text: &str| word(names[0], text)));
            }
            let arg = Arg::new(LINKS[way]).long(LINKS[way]).value_name("WORDS").help(WORDS);
            command =
                command.arg(arg.value_parser(|text: &str| text.parse::<LinkSpec>().map(|_| text.to_owned())));
        }
        command.next_help_heading(None)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Links {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let words = |way: usize| -> Vec<&str> {
            let names = std::iter::once(LINKS[way]).chain(KEYS.iter().map(|(names, ..)| names[way]));
            let values = names.filter_map(|name| matches.get_one::<String>(name));
            values.map(String::as_str).collect()
        };
        let traces: Vec<&String> = matches.get_many("trace").unwrap_or_default().collect();
        if traces.len() > 2 {
            let message = "--trace takes two files at most, up and down\n";
            return Err(clap::Error::raw(clap::error::ErrorKind::TooManyValues, message));
        }
        let spec = |trace: Option<&&String>, way: usize| {
            let mut all = words(0);
            all.extend(trace.map(|word| word.as_str()));
            all.extend(words(way));
            let parsed = all.join(" ").parse::<LinkSpec>();
            parsed.map_err(|error| {
                clap::Error::raw(clap::error::ErrorKind::ValueValidation, format!("{error}\n"))
            })
        };
        Ok(Self { up: spec(traces.first(), 1)?, down: spec(traces.last(), 2)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

const WORDS: &str = "A whole link, like 'rate=20mbit delay=50ms'; further words are others=N, reorder=…, mtu=BYTES, \
                     overhead=BYTES, ecn=keep|erase|drop|ect1, and events like blackout=5s+300ms";

/// A word of a link, if it is one.
fn word(key: &str, value: &str) -> Result<String, String> {
    let word = format!("{key}={}", value.split_whitespace().collect::<String>());
    word.parse::<LinkSpec>().map(|_| word).map_err(|error| error.to_string())
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fmt::Write as _;
    use std::path::Path;
    use std::process::{self, ExitCode};

    use anyhow::Context as _;
    use quickset_base::number::Unsigned as _;
    use quickset_lab::tunnel::programs::{self, ProgramsEnded, Signals};
    use quickset_lab::tunnel::{Tunnel, TunnelConfig, TunnelSide};
    use quickset_sim::LinkCounts;
    use quickset_sim::units::{duration_text, size_text};
    use serde_json::json;

    use super::{EmulatedLinkArgs, Links};
    use crate::say::note;

    pub(super) fn play(args: &EmulatedLinkArgs) -> anyhow::Result<ExitCode> {
        if let Some(parent) = args.child_of {
            return Ok(become_program(parent, args));
        }
        // Before there is a second thread: for the signals, and for namespaces without root.
        let signals = Signals::take()?;
        let Links { up, down } = *args.links.clone();
        let plan = TunnelConfig { up, down, seed: args.seed, mtu: args.mtu, enclosed: args.far.is_some() };
        let tunnel = Tunnel::open(&plan)?;
        if !args.quiet {
            let (near, far) = (tunnel.address(TunnelSide::Near), tunnel.address(TunnelSide::Far));
            note!("quickset: link from {near} to the host at {far}; up {}; down {}", plan.up, plan.down);
        }
        let mut near = child(&args.command);
        let mut far = args.far.as_ref().map(|far| child(&["/bin/sh".into(), "-c".into(), far.into()]));
        let ended = programs::run(&tunnel, &signals, &mut near, far.as_mut())?;
        if !args.quiet {
            crate::say::aside(format_args!("{}", told(&tunnel, &ended)));
        }
        if let Some(file) = &args.report {
            write(file, &plan, &tunnel, &ended)?;
        }
        Ok(ExitCode::from(programs::exit_code(ended.near)))
    }

    /// A program that ends with us, by way of ourselves: only a process itself can ask for that.
    fn child(words: &[std::ffi::OsString]) -> process::Command {
        let mut command = process::Command::new("/proc/self/exe");
        command.args(["link", "--child-of", &process::id().to_string(), "--"]).args(words);
        command
    }

    fn become_program(parent: u32, args: &EmulatedLinkArgs) -> ExitCode {
        let error = programs::become_program(parent, &args.command);
        note!("quickset: {} cannot be started: {error}", args.command[0].to_string_lossy());
        ExitCode::from(if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 })
    }

    /// The counts for people.
    fn told(tunnel: &Tunnel, ended: &ProgramsEnded) -> String {
        let mut text = String::from("quickset: the link has carried\n");
        text.push_str("           packets        bytes      lost   dropped    marked     twice   damaged   peak queue\n");
        for (way, counts) in ["up", "down"].into_iter().zip(tunnel.counts()) {
            let dropped = counts.overflowed + counts.aqm + counts.oversized;
            let _ = writeln!(
                text,
                "  {way:<5}{:>11} {:>12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>12}",
                counts.sent,
                counts.sent_bytes,
                counts.lost,
                dropped,
                counts.marked,
                counts.duplicated,
                counts.corrupted,
                size_text(counts.peak_backlog),
            );
        }
        let lateness = tunnel.lateness();
        let [p50, p99] = [0.5, 0.99].map(|p| lateness.percentile(p));
        let _ = writeln!(
            text,
            "  packets left later than the link says by {} (p50), {} (p99), {} at most",
            duration_text(p50),
            duration_text(p99),
            duration_text(std::time::Duration::from_micros(lateness.max().as_micros().saturated::<u64>())),
        );
        if p99 > GOOD {
            text.push_str(
                "quickset: warning: this machine is too busy for a true link (p99 above 0.3 ms); delays were longer and \
                 less even than asked for\n",
            );
        }
        if tunnel.overruns().is_some_and(|overruns| overruns != [0; 2]) {
            text.push_str("quickset: warning: the system dropped packets before the link could take them\n");
        }
        if let Some(status) = ended.far {
            let _ = writeln!(
                text,
                "quickset: warning: the --far command had ended before the program ({status})"
            );
        }
        if !ended.was_ready {
            text.push_str("quickset: warning: the --far command listened nowhere within 10 s\n");
        }
        text
    }

    /// The counts for machines.
    fn write(file: &Path, plan: &TunnelConfig, tunnel: &Tunnel, ended: &ProgramsEnded) -> anyhow::Result<()> {
        let [up, down] = tunnel.counts();
        let forwarded = tunnel.forwarded();
        let overruns = tunnel.overruns();
        let way = |link: &quickset_sim::LinkSpec, counts: &LinkCounts, direction: usize| {
            json!({
                "link": link.to_string(),
                "packets": counts.sent,
                "bytes": counts.sent_bytes,
                "delivered": forwarded[direction],
                "lost": counts.lost,
                "dropped_full_queue": counts.overflowed,
                "dropped_by_aqm": counts.aqm,
                "dropped_oversized": counts.oversized,
                "marked": counts.marked,
                "duplicated": counts.duplicated,
                "corrupted": counts.corrupted,
                "peak_queue_bytes": counts.peak_backlog,
                "overruns": overruns.map(|overruns| overruns[direction]),
            })
        };
        let lateness = tunnel.lateness();
        let ms = |duration: std::time::Duration| duration.as_secs_f64() * 1e3;
        let report = json!({
            "host": tunnel.address(TunnelSide::Far).to_string(),
            "program": tunnel.address(TunnelSide::Near).to_string(),
            "seed": plan.seed,
            "mtu": plan.mtu,
            "up": way(&plan.up, &up, 0),
            "down": way(&plan.down, &down, 1),
            "lateness_ms": {
                "p50": ms(lateness.percentile(0.5)),
                "p99": ms(lateness.percentile(0.99)),
                "max": ms(lateness.max()),
            },
            "exit_code": programs::exit_code(ended.near),
        });
        let text = serde_json::to_string_pretty(&report)? + "\n";
        std::fs::write(file, text)
            .with_context(|| format!("the report cannot be written to {}", file.display()))
    }

    /// Later than this, at the 99th percentile, figures are those of the machine rather than of the link.
    const GOOD: std::time::Duration = std::time::Duration::from_micros(300);
}

/// As env(1), nice(1) and timeout(1) have it.
const NO_LINK: u8 = 125;

const EXAMPLES: &str = "\
Examples:
  python3 -m http.server &
  sudo quickset link --rate 20mbit --delay 50ms --loss 1% -- \\
    sh -c 'curl -o /dev/null http://$QUICKSET_LINK_HOST:8000/big'
  quickset link --delay 20ms --up-rate 1mbit --down-rate 16mbit --queue 64kB \\
    --far 'iperf3 -s -1' -- sh -c 'iperf3 -c $QUICKSET_LINK_HOST'";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: EmulatedLinkArgs,
    }

    fn links(words: &str) -> [String; 2] {
        let line = format!("link {words} -- true");
        let Links { up, down } = *Line::try_parse_from(line.split_whitespace()).unwrap().args.links;
        [up.to_string(), down.to_string()]
    }

    #[test]
    fn one_direction_goes_before_both_and_words_before_whole_links() {
        assert_eq!(links(""), ["perfect", "perfect"]);
        assert_eq!(links("--rate 1mbit --delay 5ms"), ["rate=1mbit delay=5ms"; 2]);
        assert_eq!(
            links("--rate 1mbit --down-rate 16mbit --up-loss 1%"),
            ["rate=1mbit loss=1%", "rate=16mbit"]
        );
        assert_eq!(
            links("--link duplicate=1% --up-link delay=1ms --up-delay 2ms --duplicate 2%"),
            ["delay=2ms duplicate=2%", "duplicate=2%"]
        );
    }

    #[test]
    fn what_follows_is_the_programs_own() {
        let line = ["link", "--seed", "7", "ls", "--rate", "-l", "--", "x"];
        let args = Line::try_parse_from(line).unwrap().args;
        assert_eq!(args.seed, 7);
        assert_eq!(args.command, ["ls", "--rate", "-l", "--", "x"]);
        let error = Line::try_parse_from(["link", "--typo", "ls"]).unwrap_err();
        assert!(error.to_string().contains("--typo"), "{error}");
        assert!(Line::try_parse_from(["link", "--rate", "1mbit"]).is_err(), "no program");
        let error = Line::try_parse_from(["link", "--up-delay", "5", "ls"]).unwrap_err();
        assert!(error.to_string().contains("like 50ms"), "{error}");
    }
}
