//! The stacks in turns, each run between two fresh processes.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Args, ValueEnum as _};
use quickset_stacks::StackIdentity;
use serde::de::DeserializeOwned;

use crate::cases::{self, BenchCase, BenchWork, CaseFound, SentInAll};
use crate::columns::Run;
use crate::os;
use crate::report::{Report, ReportSeries};
use crate::tally::ArrivedSoFar;
use crate::wire::ServerWord;
use crate::{PeerGroup, PeersStack};

#[derive(Args, Debug)]
pub(crate) struct CompareOptions {
    /// These stacks only.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "STACK,…")]
    only: Vec<PeersStack>,
    /// These cases only.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "CASE,…")]
    case: Vec<BenchCase>,
    /// Runs of each stack in each case.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Seconds of each run.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// The group by which all of them exchange keys; of several the first, and handshakes are measured with
    /// each.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "GROUP,…", default_values_t = PeerGroup::value_variants().to_vec())]
    group: Vec<PeerGroup>,
    /// Let the system choose the cores, instead of one for the server and one for the client.
    #[arg(long)]
    no_pin: bool,
    /// One JSON document on stdout.
    #[arg(long)]
    json: bool,
    /// Write the tables as a page in Markdown, too, and a picture of them beside it.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// A stack that could not be built, and why, for the report.
    #[arg(long, value_name = "STACK=REASON", hide = true)]
    missing: Vec<String>,
}

impl CompareOptions {
    /// Those that a case is measured with.
    fn groups(&self, case: BenchCase) -> impl Iterator<Item = PeerGroup> + use<> {
        let all = if case.work() == BenchWork::Handshakes { self.group.len() } else { 1 };
        self.group.clone().into_iter().take(all)
    }
}

pub(crate) fn run(options: &CompareOptions) -> Result<()> {
    let pins = pins(options.no_pin)?;
    let mut report = Report::new(pins.is_some(), options.seconds, options.group[0]);
    let wanted = if options.only.is_empty() { PeersStack::value_variants() } else { &options.only };
    let (stacks, without): (Vec<PeersStack>, Vec<PeersStack>) =
        wanted.iter().partition(|stack| stack.of_stacks().is_built());
    for &stack in &without {
        report.leave_out(stack, reason(stack, &options.missing));
    }
    let cases = if options.case.is_empty() { BenchCase::value_variants() } else { &options.case };
    for (case, group) in cases.iter().flat_map(|case| options.groups(*case).map(|group| (*case, group))) {
        let mut series: Vec<ReportSeries> = stacks
            .iter()
            .filter(|stack| stack.is_http() == case.is_http())
            .map(|&stack| ReportSeries::new(stack, case))
            .collect();
        if series.is_empty() {
            continue;
        }
        for i in 0..options.runs {
            for one in series.iter_mut().filter(|one| case.unfit(one.stack).is_none()) {
                let number = format!("run {} of {}", i + 1, options.runs);
                match measure(one.stack, case, group, options.seconds, pins) {
                    Ok(run) => {
                        eprintln!("{number}: {}", run.line(case, one.stack));
                        one.runs.push(run);
                    }
                    // One stack that fails takes nothing from the others.
                    Err(error) => {
                        eprintln!("{number}: {} failed: {error:#}", one.stack.name());
                        one.fail(&error);
                    }
                }
            }
        }
        report.add(case, group, series);
    }
    if let Some(page) = &options.page {
        let picture = page.with_extension("svg");
        let name = picture.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for (file, text) in [(page, report.page(&name)), (&picture, report.picture())] {
            std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
        }
    }
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{report}");
    }
    let failed = report.failed();
    ensure!(failed == 0, "{failed} runs failed: the figures are those of the others");
    // What nobody named may be missing; of what somebody did, nothing was measured.
    let missed: Vec<String> = without.iter().filter(|_| !options.only.is_empty()).map(|s| s.name()).collect();
    ensure!(missed.is_empty(), "not here, though asked for: {}", missed.join(", "));
    Ok(())
}

fn reason(stack: PeersStack, missing: &[String]) -> String {
    let name = stack.name();
    let told = missing.iter().find_map(|one| {
        // Both kinds of s2n-quic are one crate.
        let (of, why) = one.split_once('=')?;
        name.starts_with(of).then(|| why.to_owned())
    });
    told.unwrap_or_else(|| "this program was built without it".to_owned())
}

/// The cores of server and client.
pub(crate) fn pins(none: bool) -> Result<Option<[usize; 2]>> {
    Ok(match (none, os::cores()?.as_slice()) {
        (true, _) => None,
        (false, [first, .., last]) => Some([*first, *last]),
        (false, _) => {
            eprintln!("there is only one core: server and client share it");
            None
        }
    })
}

fn measure(
    stack: PeersStack,
    case: BenchCase,
    group: PeerGroup,
    seconds: f64,
    pins: Option<[usize; 2]>,
) -> Result<Run> {
    let (name, group) = (stack.name(), group.name());
    // Each says itself when nothing moves any more, unless it does not even come to that.
    let limit = cases::patience(case, Duration::try_from_secs_f64(seconds)?) + Duration::from_secs(10);
    let home = tempfile::tempdir()?;
    StackIdentity::create(home.path(), &[])?;
    let identity = home.path().to_str().context("the folder for temporary files has no name in UTF-8")?;
    let kind = case.to_possible_value().context("a case without a name")?;
    let common = [name.as_str(), kind.get_name(), "--identity", identity, "--group", group];
    let [server_core, client_core] = case.cores(pins)?;
    let mut server = Process::own(&[&["serve"], &common[..]].concat(), server_core, limit)?;
    let address: SocketAddr = serde_json::from_str(&server.line()?).context("the server's first line")?;
    let start: ServerWord = server.ask()?;
    let (address, time) = (address.to_string(), seconds.to_string());
    let own = ["--server", &address, "--seconds", &time];
    let dropped = os::full_sockets();
    let mut client = Process::own(&[&["measure"], &common[..], &own].concat(), client_core, limit)?;
    client.line()?;
    let before: ServerWord = server.ask()?;
    let found: CaseFound = serde_json::from_str(&client.line()?).context("the client's last line")?;
    let after: ServerWord = server.ask()?;
    let (mut last, mut all) = (after, SentInAll::default());
    if case.is_sent() {
        all = serde_json::from_str(&client.line()?).context("what the client sent")?;
        last = arrived(&mut server, case, &all.sent)?;
    }
    let dropped = os::full_sockets().zip(dropped).map(|(after, before)| after - before);
    client.end()?;
    server.end()?;
    let grown = |since: &ServerWord| after.usage.resident.saturating_sub(since.usage.resident);
    Ok(Run {
        found,
        server_seconds: after.seconds - before.seconds,
        server_cpu_s: after.usage.cpu_s - before.usage.cpu_s,
        server_bytes: grown(&before),
        server_held: grown(&start),
        got: after.got.since(&before.got),
        sent_in_all: all,
        server_in_all: last,
        full_sockets: dropped,
    })
}

impl BenchCase {
    /// Where server and client run.
    fn cores(self, pins: Option<[usize; 2]>) -> Result<[Option<usize>; 2]> {
        if self == Self::BulkOneCore {
            let first = os::cores()?.first().copied();
            return Ok([first, first]);
        }
        Ok([pins.map(|p| p[0]), pins.map(|p| p[1])])
    }
}

/// Waits until all has arrived that was sent, and nothing else; of datagrams, until no more do.
fn arrived(server: &mut Process, case: BenchCase, sent: &ArrivedSoFar) -> Result<ServerWord> {
    let is_lossy = matches!(case.work(), BenchWork::Datagrams(_));
    let (since, mut last): (_, ServerWord) = (Instant::now(), server.ask()?);
    while last.got != *sent && since.elapsed() < cases::PATIENCE {
        std::thread::sleep(Duration::from_millis(100));
        let next: ServerWord = server.ask()?;
        if is_lossy && next.got == last.got {
            break;
        }
        last = next;
    }
    let ArrivedSoFar { received_bytes, received } = last.got;
    let is_right = if is_lossy { received <= sent.received } else { last.got == *sent };
    ensure!(
        is_right,
        "{received} came with {received_bytes} bytes, of {} that were sent with {}",
        sent.received,
        sent.received_bytes
    );
    Ok(last)
}

/// A role of this program in a process of its own; killed if dropped before its end.
pub(crate) struct Process {
    role: String,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<std::io::Result<String>>,
    /// How long it may say nothing, and how long its end may take.
    limit: Duration,
}

impl Process {
    pub(crate) fn own(arguments: &[&str], core: Option<usize>, limit: Duration) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        // Errors are a part of what is measured, as when a connection ends, and their backtraces are not.
        command.args(arguments).env_remove("RUST_BACKTRACE").env_remove("RUST_LIB_BACKTRACE");
        if let Some(core) = core {
            command.args(["--core", &core.to_string()]);
        }
        Self::start(command, arguments[..2].join(" "), limit)
    }

    fn start(mut command: Command, role: String, limit: Duration) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {role}"))?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("it was asked for"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines() {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { role, child, input, lines, limit })
    }

    pub(crate) fn line(&mut self) -> Result<String> {
        match self.lines.recv_timeout(self.limit) {
            Ok(line) => Ok(line?),
            Err(RecvTimeoutError::Timeout) => bail!("{} said nothing for {:?}", self.role, self.limit),
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.wait()?;
                bail!("{} ended without a word ({status})", self.role);
            }
        }
    }

    fn wait(&mut self) -> Result<std::process::ExitStatus> {
        let since = Instant::now();
        while since.elapsed() < self.limit {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        bail!("{} does not end", self.role)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What a server has taken so far, and what else it says of itself.
    pub(crate) fn ask<T: DeserializeOwned>(&mut self) -> Result<T> {
        self.input.as_mut().context("its stdin is closed")?.write_all(b"\n")?;
        serde_json::from_str(&self.line()?).with_context(|| format!("what {} has taken", self.role))
    }

    pub(crate) fn end(mut self) -> Result<()> {
        self.input = None;
        let status = self.wait()?;
        if !status.success() {
            bail!("{} failed ({status})", self.role);
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::start(command, "a shell".to_owned(), limit).expect("there is a shell")
    }

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn a_stack_that_hangs_is_given_up() {
        let error = shell("exec sleep 1000", Duration::from_millis(50)).line().expect_err("it says nothing");
        assert!(error.to_string().contains("said nothing"), "{error}");
        let mut deaf = shell("echo 1; exec sleep 1000", LONG);
        assert_eq!(deaf.line().expect("a line"), "1");
        deaf.limit = Duration::from_millis(50);
        let error = deaf.end().expect_err("it does not go");
        assert!(error.to_string().contains("does not end"), "{error}");
    }

    #[test]
    fn a_stack_that_breaks_is_told() {
        let error = shell("exit 3", LONG).line().expect_err("it says nothing").to_string();
        assert!(error.contains("ended without a word") && error.contains('3'), "{error}");
        // What came before counts for nothing.
        let mut broken = shell("echo 1; cat; exit 3", LONG);
        broken.line().expect("a line");
        assert!(broken.end().is_err());
        let mut well = shell("echo 1; cat", LONG);
        well.line().expect("a line");
        well.end().expect("it ends with its input");
    }
}
