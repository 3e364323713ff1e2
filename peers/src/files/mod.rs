//! Files as a server has them on its disk: `quickset http serve` by HTTP/3 and by HTTP/1.1, and nginx by
//! HTTP/1.1, all over TLS.
//!
//! Each server is a process of its own on a core of its own, started anew for each run; all clients of a run
//! are one process on another core, or ten where they are those that people have. The client of HTTP/1.1 is
//! the same for both servers.

mod clients;
mod processes;
mod servers;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::cases::{CaseFound, PATIENCE, WARM};
use crate::compare::{Process, pins};
pub(crate) use clients::PeerFetch;
use servers::{FileServer, ServedFolder};

#[derive(Args, Debug)]
pub(crate) struct FilesOptions {
    /// The program `quickset`.
    #[arg(long, value_name = "FILE")]
    quickset: PathBuf,
    /// The program `nginx`; without, ours alone are measured.
    #[arg(long, value_name = "FILE")]
    nginx: Option<PathBuf>,
    /// The program `curl`; without, it fetches nothing.
    #[arg(long, value_name = "FILE")]
    curl: Option<PathBuf>,
    /// These cases only.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "CASE,…")]
    case: Vec<FileCase>,
    /// Runs of each server in each case.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Seconds of each run.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Let the system choose the cores, instead of one for the server and one for the clients.
    #[arg(long)]
    no_pin: bool,
    /// One JSON document on stdout.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FileCase {
    /// A file of 1 kB, a hundred clients, each on a connection of its own, one request at a time.
    FilesSmall,
    /// A file of 256 MiB, ten clients.
    FilesLarge,
    /// The same; clients of HTTP/3 acknowledge every second packet.
    FilesAck2,
    /// Every tenth.
    FilesAck10,
    /// Every hundredth.
    FilesAck100,
    /// The same file, ten processes: `quickset http get`, or curl.
    FilesProcesses,
}

/// Who serves, and by which protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FileWay {
    QuicksetH3,
    QuicksetH1,
    NginxH1,
}

impl FileCase {
    fn path(self) -> &'static str {
        match self {
            Self::FilesSmall => "/small.txt",
            _ => "/large.bin",
        }
    }

    /// Bytes of the file.
    fn size(self) -> u64 {
        match self {
            Self::FilesSmall => 1000,
            _ => 256 << 20,
        }
    }

    fn clients(self) -> usize {
        match self {
            Self::FilesSmall => 100,
            _ => 10,
        }
    }

    /// After how many packets clients acknowledge, where that is what is measured.
    fn ack(self) -> Option<u64> {
        match self {
            Self::FilesAck2 => Some(2),
            Self::FilesAck10 => Some(10),
            Self::FilesAck100 => Some(100),
            Self::FilesSmall | Self::FilesLarge | Self::FilesProcesses => None,
        }
    }

    /// Whether it says something of this way.
    fn is_of(self, way: FileWay, options: &FilesOptions) -> bool {
        let is_here = match way {
            FileWay::NginxH1 => options.nginx.is_some(),
            FileWay::QuicksetH3 | FileWay::QuicksetH1 => true,
        };
        // Of TCP the system acknowledges; nginx is there to be compared with.
        let is_other = way != FileWay::QuicksetH1 || self.ack().is_none();
        is_here && is_other && (self != Self::FilesProcesses || self.client(way, options).is_some())
    }

    /// The program that fetches, where it is a process.
    fn client(self, way: FileWay, options: &FilesOptions) -> Option<&Path> {
        match (self, way) {
            (Self::FilesProcesses, FileWay::QuicksetH3) => Some(&options.quickset),
            (Self::FilesProcesses, FileWay::QuicksetH1 | FileWay::NginxH1) => options.curl.as_deref(),
            _ => None,
        }
    }
}

fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// What one run found.
#[derive(Clone, Copy, Debug, Serialize)]
struct FileRun {
    #[serde(flatten)]
    found: CaseFound,
    server_cpu_s: f64,
}

#[derive(Debug, Serialize)]
struct FileSeries {
    way: FileWay,
    runs: Vec<FileRun>,
    failed: u32,
}

type FileColumn = (&'static str, usize, fn(&FileRun) -> f64);

const SMALL: &[FileColumn] = &[
    ("per second", 0, |run| run.found.count as f64 / run.found.seconds),
    ("server CPU µs", 1, |run| run.server_cpu_s * 1e6 / run.found.count as f64),
    ("client CPU µs", 1, |run| run.found.cpu_s * 1e6 / run.found.count as f64),
    ("p99 µs", 0, |run| run.found.p99_us),
];
const LARGE: &[FileColumn] = &[
    ("Gbit/s", 2, |run| run.found.bytes as f64 * 8e-9 / run.found.seconds),
    ("server CPU s/GB", 3, |run| run.server_cpu_s / (run.found.bytes as f64 / 1e9)),
    ("client CPU s/GB", 3, |run| run.found.cpu_s / (run.found.bytes as f64 / 1e9)),
];

pub(crate) fn run(options: &FilesOptions) -> Result<()> {
    let pins = pins(options.no_pin)?;
    let folder = ServedFolder::new(&[FileCase::FilesSmall, FileCase::FilesLarge])?;
    let cases = if options.case.is_empty() { FileCase::value_variants() } else { &options.case };
    let (mut tables, mut failed) = (Vec::new(), 0);
    for &case in cases {
        let series = |way: &FileWay| FileSeries { way: *way, runs: Vec::new(), failed: 0 };
        let ways = FileWay::value_variants().iter().filter(|way| case.is_of(**way, options));
        let mut all: Vec<FileSeries> = ways.map(series).collect();
        for turn in 0..options.runs {
            for one in &mut all {
                match measure(options, &folder, case, one.way, pins) {
                    Ok(run) => one.runs.push(run),
                    // One that fails takes nothing from the others.
                    Err(error) => {
                        eprintln!(
                            "run {} of {}: {} failed: {error:#}",
                            turn + 1,
                            options.runs,
                            name(&one.way)
                        );
                        one.failed += 1;
                    }
                }
            }
        }
        failed += all.iter().map(|one| one.failed).sum::<u32>();
        if !options.json {
            print(case, &all);
        }
        tables.push((case, all));
    }
    if options.json {
        println!("{}", serde_json::to_string_pretty(&tables)?);
    }
    ensure!(failed == 0, "{failed} runs failed: the figures are those of the others");
    Ok(())
}

fn measure(
    options: &FilesOptions,
    folder: &ServedFolder,
    case: FileCase,
    way: FileWay,
    pins: Option<[usize; 2]>,
) -> Result<FileRun> {
    let core = pins.map(|pins| pins[0]);
    let server = match (way, &options.nginx) {
        (FileWay::NginxH1, Some(nginx)) => FileServer::nginx(nginx, folder, core)?,
        _ => FileServer::quickset(&options.quickset, folder, core, case.ack())?,
    };
    let (address, seconds) = (server.address.to_string(), options.seconds.to_string());
    let identity = folder.identity();
    let (way_name, case_name) = (name(&way), name(&case));
    let mut arguments = vec!["fetch", &way_name, &case_name, "--server", &address, "--identity", &identity];
    arguments.extend(["--seconds", &seconds]);
    let program = case.client(way, options).map(|program| program.display().to_string());
    if let Some(program) = &program {
        arguments.extend(["--program", program]);
    }
    // What a process has begun it ends.
    let patience = if program.is_some() { 12 * PATIENCE } else { 2 * PATIENCE };
    let limit = WARM + Duration::try_from_secs_f64(options.seconds)? + patience;
    let mut clients = Process::own(&arguments, pins.map(|pins| pins[1]), limit)?;
    clients.line()?;
    let before = server.cpu_s()?;
    let found: CaseFound = serde_json::from_str(&clients.line()?)?;
    let server_cpu_s = server.cpu_s()? - before;
    clients.end()?;
    ensure!(found.count > 0 || found.bytes > 0, "nothing came from {address}");
    Ok(FileRun { found, server_cpu_s })
}

/// Medians, and the median over turns of what each is to nginx.
fn print(case: FileCase, all: &[FileSeries]) {
    let columns = if case == FileCase::FilesSmall { SMALL } else { LARGE };
    let of = |one: &FileSeries, column: &FileColumn| -> Vec<f64> { one.runs.iter().map(column.2).collect() };
    let base = all.iter().find(|one| one.way == FileWay::NginxH1).filter(|one| one.failed == 0);
    print!("{}: {} clients, medians\n{:<13} {:>4}", name(&case), case.clients(), "server", "runs");
    for (name, ..) in columns {
        print!(" {name:>15}");
    }
    println!(" {:>13}", "over nginx");
    for one in all {
        print!("{:<13} {:>4}", name(&one.way), one.runs.len());
        for column in columns {
            print!(" {:>15.*}", column.1, median(of(one, column)));
        }
        if let Some(base) = base.filter(|_| one.failed == 0) {
            let pairs = of(one, &columns[0]).into_iter().zip(of(base, &columns[0]));
            print!(" {:>13.3}", median(pairs.map(|(ours, theirs)| ours / theirs).collect()));
        }
        println!();
    }
}

fn median(values: Vec<f64>) -> f64 {
    crate::report::median(values.into_iter())
}
