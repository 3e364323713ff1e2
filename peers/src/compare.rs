//! The stacks in turns, and the figures side by side.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde::Serialize;

use crate::os;
use crate::stack::{Done, Listening, MTU, WINDOW};

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Runs of each stack.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Bytes of each run.
    #[arg(long, default_value = "2GB", value_parser = quickset_sim::units::size)]
    bytes: u64,
    /// Let the system choose the cores, instead of one for the server and one for the client.
    #[arg(long)]
    no_pin: bool,
    /// One JSON document on stdout.
    #[arg(long)]
    json: bool,
}

/// The names of the stacks as the subcommands have them: ours last, its ratio is to the first.
const STACKS: [&str; 2] = ["quinn", "quickset"];

/// One transfer.
#[derive(Clone, Copy, Debug, Serialize)]
struct Run {
    bits_per_second: f64,
    cpu_s_per_gb_client: f64,
    cpu_s_per_gb_server: f64,
    packets: u64,
    lost: u64,
}

#[derive(Debug, Serialize)]
struct Report {
    bytes: u64,
    mtu: u16,
    window: u32,
    pinned: bool,
    /// In the order of `stacks`, run by run.
    stacks: [&'static str; STACKS.len()],
    runs: [Vec<Run>; STACKS.len()],
    medians: [Run; STACKS.len()],
    /// Throughput, ours over theirs.
    ratio_of_medians: f64,
    median_of_ratios: f64,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let cores = os::cores()?;
    let pins = match (options.no_pin, cores.as_slice()) {
        (true, _) => None,
        (false, [first, .., last]) => Some([*first, *last]),
        (false, _) => {
            eprintln!("there is only one core: server and client share it");
            None
        }
    };
    let mut runs: [Vec<Run>; STACKS.len()] = Default::default();
    for i in 0..options.runs {
        for (stack, runs) in STACKS.iter().zip(&mut runs) {
            let run =
                measure(stack, options.bytes, pins).with_context(|| format!("{stack}, run {}", i + 1))?;
            eprintln!("run {} of {}: {stack:<9} {run}", i + 1, options.runs);
            runs.push(run);
        }
    }
    let report = Report::new(options.bytes, pins.is_some(), runs);
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{report}");
    }
    Ok(())
}

/// One transfer between two fresh processes.
fn measure(stack: &str, bytes: u64, pins: Option<[usize; 2]>) -> Result<Run> {
    let mut server = Process::start(&format!("{stack}-server"), &[], pins.map(|p| p[0]))?;
    let listening = server.line()?;
    // It is read as it is: a word between the two processes.
    let _: Listening = serde_json::from_str(&listening).context("the server's first line")?;
    let bytes = bytes.to_string();
    let arguments = ["--server", listening.trim_end(), "--bytes", &bytes];
    let mut client = Process::start(&format!("{stack}-client"), &arguments, pins.map(|p| p[1]))?;
    let received: Done = serde_json::from_str(&client.line()?).context("the client's last line")?;
    let sent: Done = serde_json::from_str(&server.line()?).context("the server's last line")?;
    client.end()?;
    server.end()?;
    let gigabytes = received.bytes as f64 / 1e9;
    Ok(Run {
        bits_per_second: received.bytes as f64 * 8.0 / received.seconds,
        cpu_s_per_gb_client: received.cpu_s / gigabytes,
        cpu_s_per_gb_server: sent.cpu_s / gigabytes,
        packets: sent.datagrams,
        lost: sent.lost,
    })
}

/// A role of this program in a process of its own; killed if dropped before its end.
struct Process {
    role: String,
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(role: &str, arguments: &[&str], core: Option<usize>) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(role).args(arguments).stdout(Stdio::piped());
        if let Some(core) = core {
            command.args(["--core", &core.to_string()]);
        }
        let mut child = command.spawn().with_context(|| format!("cannot start {role}"))?;
        let output = BufReader::new(child.stdout.take().expect("it was asked for"));
        Ok(Self { role: role.to_owned(), child, output })
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            let status = self.child.wait()?;
            bail!("{} ended without a word ({status})", self.role);
        }
        Ok(line)
    }

    fn end(mut self) -> Result<()> {
        let status = self.child.wait()?;
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

impl Report {
    fn new(bytes: u64, pinned: bool, runs: [Vec<Run>; STACKS.len()]) -> Self {
        let medians = runs.each_ref().map(|runs| Run {
            bits_per_second: median(runs.iter().map(|r| r.bits_per_second)),
            cpu_s_per_gb_client: median(runs.iter().map(|r| r.cpu_s_per_gb_client)),
            cpu_s_per_gb_server: median(runs.iter().map(|r| r.cpu_s_per_gb_server)),
            packets: median(runs.iter().map(|r| r.packets as f64)).round() as u64,
            lost: median(runs.iter().map(|r| r.lost as f64)).round() as u64,
        });
        let [theirs, ours] = &runs;
        let pairs =
            theirs.iter().zip(ours).map(|(theirs, ours)| ours.bits_per_second / theirs.bits_per_second);
        Self {
            bytes,
            mtu: MTU,
            window: WINDOW,
            pinned,
            stacks: STACKS,
            ratio_of_medians: medians[1].bits_per_second / medians[0].bits_per_second,
            median_of_ratios: median(pairs),
            medians,
            runs,
        }
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:>6.2} Gbit/s, CPU s/GB: client {:.3}, server {:.3}, lost {}",
            self.bits_per_second / 1e9,
            self.cpu_s_per_gb_client,
            self.cpu_s_per_gb_server,
            self.lost,
        )
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pinned = if self.pinned { "a core for each process" } else { "cores as the system chooses" };
        writeln!(
            f,
            "{:.2} GB, datagrams of {} bytes, windows of {} MiB, {pinned}",
            self.bytes as f64 / 1e9,
            self.mtu,
            self.window >> 20,
        )?;
        writeln!(
            f,
            "{:<8} {:<9} {:>8} {:>16} {:>16} {:>7}",
            "run", "stack", "Gbit/s", "client CPU s/GB", "server CPU s/GB", "lost"
        )?;
        let mut row = |label: &str, stack: &str, run: &Run| {
            writeln!(
                f,
                "{label:<8} {stack:<9} {:>8.2} {:>16.3} {:>16.3} {:>7}",
                run.bits_per_second / 1e9,
                run.cpu_s_per_gb_client,
                run.cpu_s_per_gb_server,
                run.lost,
            )
        };
        for i in 0..self.runs[0].len() {
            for (stack, runs) in self.stacks.iter().zip(&self.runs) {
                row(&(i + 1).to_string(), stack, &runs[i])?;
            }
        }
        for (stack, median) in self.stacks.iter().zip(&self.medians) {
            row("median", stack, median)?;
        }
        let [theirs, ours] = self.stacks;
        writeln!(
            f,
            "{ours}/{theirs}: {:.3} (ratio of medians), {:.3} (median of pairwise ratios)",
            self.ratio_of_medians, self.median_of_ratios
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(gbit: f64) -> Run {
        Run {
            bits_per_second: gbit * 1e9,
            cpu_s_per_gb_client: 1.0,
            cpu_s_per_gb_server: 2.0,
            packets: 10,
            lost: 0,
        }
    }

    #[test]
    fn medians_are_in_the_middle() {
        assert!((median([3.0, 1.0, 2.0].into_iter()) - 2.0).abs() < 1e-12);
        assert!((median([4.0, 1.0, 2.0, 3.0].into_iter()) - 2.5).abs() < 1e-12);
    }

    #[test]
    fn both_ratios_are_ours_over_theirs() {
        let report = Report::new(
            1,
            true,
            [vec![run(10.0), run(8.0), run(12.0)], vec![run(15.0), run(16.0), run(12.0)]],
        );
        assert!((report.ratio_of_medians - 1.5).abs() < 1e-9);
        // 1.5, 2, 1
        assert!((report.median_of_ratios - 1.5).abs() < 1e-9);
        assert!(report.to_string().contains("quickset/quinn: 1.500"));
    }
}
