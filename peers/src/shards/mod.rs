//! Our server on several cores: whether two shards do twice what one does, and what it costs that datagrams
//! come to the wrong one, by clients that move, by a flood of forged ids, or all the time.
//!
//! Cores are parts of cores, by a group of processes that gets so much time and no more: else a machine of
//! two cores would have none left for the clients.

mod calls;
mod group;
mod server;
mod table;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};
use quickset_stacks::StackIdentity;
use serde::Serialize;

pub(crate) use self::calls::ShardCall;
use self::calls::{ForgedWord, MovesFound, PacedFound};
use self::group::CoreShare;
pub(crate) use self::server::ShardServe;
use self::server::ShardWord;
use self::table::{ShardTable, ShardWay};
use crate::cases::{CaseFound, PATIENCE, WARM};
use crate::compare::Process;
use crate::os;

#[derive(Args, Debug)]
pub(crate) struct ShardsOptions {
    /// These parts only.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART,…")]
    part: Vec<ShardPart>,
    /// Runs of each side of a comparison, in turns.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Seconds of each run.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Clients that move.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    clients: u32,
    /// Forged ids a second.
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: u32,
    /// One JSON document on stdout.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
enum ShardPart {
    /// Bytes on a hundred connections: two shards with 60 % of a core against one with 30 %.
    Bytes,
    /// Answers of 1 kB, one at a time on each of a hundred connections: the same.
    Requests,
    /// Handshakes, eight at a time: the same.
    Handshakes,
    /// Clients that change their address once.
    Moves,
    /// Forged ids, beside clients that take half of what the server can do.
    Flood,
    /// Answers of 1 kB, while the system knows which shard a datagram is for, and while it does not.
    Steering,
}

/// How the server is set up.
#[derive(Clone, Copy, Debug)]
struct ShardSetting {
    cores: usize,
    /// Of a core's time, for all together; all that there is without.
    share: Option<f64>,
    /// The system goes by addresses, as where it takes no program, and shards hand over.
    is_unsteered: bool,
}

/// The same, with forged ids.
struct ForgedSetting {
    server: ShardSetting,
    /// A second.
    rate: u32,
}

/// Two shards, which all parts but for the first three compare with themselves.
const TWO: ShardSetting = ShardSetting { cores: 2, share: None, is_unsteered: false };

const LIMITED: ShardSetting = ShardSetting { share: Some(0.6), ..TWO };

pub(crate) fn run(options: &ShardsOptions) -> Result<()> {
    let parts = if options.part.is_empty() { ShardPart::value_variants() } else { &options.part };
    let mut tables = Vec::new();
    for &part in parts {
        tables.push(match part {
            ShardPart::Bytes => scale(options, "bytes on a hundred connections", "bulk100"),
            ShardPart::Requests => scale(options, "answers of 1 kB on a hundred connections", "http100x1"),
            ShardPart::Handshakes => scale(options, "handshakes, eight at a time", "handshakes"),
            ShardPart::Moves => moves(options),
            ShardPart::Flood => flood(options),
            ShardPart::Steering => steering(options),
        });
    }
    if options.json {
        println!("{}", serde_json::to_string_pretty(&tables)?);
    } else {
        for table in &tables {
            println!("{table}");
        }
    }
    let failed: u32 = tables.iter().map(ShardTable::failed).sum();
    ensure!(failed == 0, "{failed} runs failed: the figures are those of the others");
    Ok(())
}

/// Two shards with twice the time of one.
fn scale(options: &ShardsOptions, what: &str, case: &str) -> ShardTable {
    let name = if case == "bulk100" { "Gbit/s" } else { "per second" };
    let title = format!("{what}: two shards with 60 % of a core together, one with 30 %");
    let mut table = ShardTable::new(title, &[(name, 2), ("server CPU %", 1), ("p50 µs", 0), ("p99 µs", 0)]);
    let one = ShardSetting { cores: 1, share: Some(0.3), is_unsteered: false };
    let ways = [ShardWay::new("two shards", LIMITED), ShardWay::new("one", one)];
    table.alternate(options.runs, &ways, |setting| {
        let run = closed(setting, case, options.seconds)?;
        let rate = if case == "bulk100" {
            run.found.bytes as f64 * 8e-9 / run.found.seconds
        } else {
            run.found.count as f64 / run.found.seconds
        };
        Ok(vec![rate, run.cpu_percent(), run.found.p50_us, run.found.p99_us])
    });
    table
}

/// What it costs to hand over.
fn steering(options: &ShardsOptions) -> ShardTable {
    let title = "answers of 1 kB on a hundred connections: the system steers, or shards hand over".to_owned();
    let columns =
        [("per second", 0), ("server CPU µs", 2), ("handed over each", 3), ("lost then", 0), ("p99 µs", 0)];
    let mut table = ShardTable::new(title, &columns);
    table.alternate(options.runs, &steered_or_not(TWO), |setting| {
        let run = closed(setting, "http100x1", options.seconds)?;
        let count = run.found.count as f64;
        Ok(vec![
            count / run.found.seconds,
            (run.after.usage.cpu_s - run.before.usage.cpu_s) * 1e6 / count,
            (run.after.handed_over - run.before.handed_over) as f64 / count,
            run.after.handed_over_lost as f64,
            run.found.p99_us,
        ])
    });
    table
}

fn steered_or_not(setting: ShardSetting) -> [ShardWay<ShardSetting>; 2] {
    let unsteered = ShardSetting { is_unsteered: true, ..setting };
    [ShardWay::new("steered", setting), ShardWay::new("by addresses", unsteered)]
}

/// One run of a case of ours, whose clients ask again as soon as they are answered.
struct ClosedRun {
    found: CaseFound,
    before: ShardWord,
    after: ShardWord,
}

impl ClosedRun {
    fn cpu_percent(&self) -> f64 {
        let seconds = self.after.seconds - self.before.seconds;
        (self.after.usage.cpu_s - self.before.usage.cpu_s) * 100.0 / seconds
    }
}

fn closed(setting: &ShardSetting, case: &str, seconds: f64) -> Result<ClosedRun> {
    let mut server = ShardRoom::open(setting)?;
    let time = seconds.to_string();
    let mut client =
        server.client(&["measure", "quickset", case, "--group", "x25519", "--seconds", &time])?;
    client.line()?;
    let before = server.ask()?;
    let found = serde_json::from_str(&client.line()?).context("the client's last line")?;
    let after = server.ask()?;
    client.end()?;
    server.close()?;
    Ok(ClosedRun { found, before, after })
}

/// Clients that come, move, and ask again.
fn moves(options: &ShardsOptions) -> ShardTable {
    let title = format!("{} clients that change their address once", options.clients);
    let columns = [("answered", 0), ("lost", 0), ("handed over", 0), ("lost then", 0), ("server CPU µs", 1)];
    let mut table = ShardTable::new(title, &columns);
    let clients = options.clients.to_string();
    // Each run is a population: there is nothing to repeat that chance would change.
    table.alternate(1, &steered_or_not(TWO), |setting| {
        let mut server = ShardRoom::open(setting)?;
        let mut client = server.client(&["shard-call", "moves", "--clients", &clients])?;
        client.line()?;
        let before = server.ask()?;
        let found: MovesFound = serde_json::from_str(&client.line()?).context("what became of them")?;
        let after = server.ask()?;
        client.end()?;
        server.close()?;
        Ok(vec![
            f64::from(found.answered),
            f64::from(found.lost),
            (after.handed_over - before.handed_over) as f64,
            after.handed_over_lost as f64,
            (after.usage.cpu_s - before.usage.cpu_s) * 1e6 / f64::from(options.clients),
        ])
    });
    table
}

/// Forged ids beside clients that ask at a steady rate.
fn flood(options: &ShardsOptions) -> ShardTable {
    let title = format!(
        "{} forged ids a second, beside clients that take half of what 60 % of a core can do",
        options.rate
    );
    let columns = [
        ("answered/s", 0),
        ("lost %", 3),
        ("p50 µs", 0),
        ("p99 µs", 0),
        ("server CPU %", 1),
        ("handed over/s", 0),
        ("lost then/s", 0),
        ("system dropped", 0),
        ("forged/s", 0),
    ];
    let mut table = ShardTable::new(title, &columns);
    let full = match closed(&LIMITED, "http100x1", options.seconds) {
        Ok(run) => run.found.count as f64 / run.found.seconds,
        Err(error) => {
            table.fail(&error);
            return table;
        }
    };
    let asked = (full / 2.0).max(1.0);
    table.note(format!("clients ask {asked:.0} times a second"));
    let ways: Vec<ShardWay<ForgedSetting>> = steered_or_not(LIMITED)
        .into_iter()
        .flat_map(|way| {
            [("quiet", 0), ("flood", options.rate)].map(|(what, rate)| {
                ShardWay::new(&format!("{}, {what}", way.name), ForgedSetting { server: way.setting, rate })
            })
        })
        .collect();
    let (asked, time) = (asked.to_string(), options.seconds.to_string());
    table.alternate(options.runs, &ways, |ForgedSetting { server, rate }| {
        let mut server = ShardRoom::open(server)?;
        let mut forger = match rate {
            0 => None,
            rate => Some(server.client(&["shard-call", "forge", "--rate", &rate.to_string()])?),
        };
        let dropped = os::full_sockets();
        let mut client = server.client(&["shard-call", "paced", "--rate", &asked, "--seconds", &time])?;
        client.line()?;
        let before = server.ask()?;
        let first = forged(forger.as_mut())?;
        let found: PacedFound = serde_json::from_str(&client.line()?).context("what the clients found")?;
        let after = server.ask()?;
        let last = forged(forger.as_mut())?;
        let dropped = os::full_sockets().zip(dropped).map(|(after, before)| after - before);
        client.end()?;
        if let Some(forger) = forger {
            forger.end()?;
        }
        server.close()?;
        let seconds = after.seconds - before.seconds;
        Ok(vec![
            found.answered as f64 / found.seconds,
            found.lost as f64 * 100.0 / (found.answered + found.lost).max(1) as f64,
            found.p50_us,
            found.p99_us,
            (after.usage.cpu_s - before.usage.cpu_s) * 100.0 / seconds,
            (after.handed_over - before.handed_over) as f64 / seconds,
            (after.handed_over_lost - before.handed_over_lost) as f64 / seconds,
            dropped.map_or(f64::NAN, |dropped| dropped as f64),
            (last.forged - first.forged) as f64 / (last.seconds - first.seconds),
        ])
    });
    table
}

fn forged(forger: Option<&mut Process>) -> Result<ForgedWord> {
    forger.map_or_else(|| Ok(ForgedWord::default()), Process::ask)
}

/// A server in a process of its own, with what it needs; the group goes behind the process.
struct ShardRoom {
    process: Process,
    address: String,
    home: tempfile::TempDir,
    _share: Option<CoreShare>,
}

impl ShardRoom {
    fn open(setting: &ShardSetting) -> Result<Self> {
        let share = setting.share.map(CoreShare::new).transpose()?;
        let home = tempfile::tempdir()?;
        StackIdentity::create(home.path(), &[])?;
        let cores = setting.cores.to_string();
        let folder = home.path().to_str().context("the folder for temporary files has no name in UTF-8")?;
        let mut arguments = vec!["shard-serve", "--identity", folder, "--cores", &cores];
        if setting.is_unsteered {
            arguments.push("--unsteered");
        }
        let mut process = Process::own(&arguments, None, 6 * PATIENCE)?;
        let address: SocketAddr =
            serde_json::from_str(&process.line()?).context("the server's first line")?;
        if let Some(share) = &share {
            share.take(process.id())?;
        }
        Ok(Self { process, address: address.to_string(), home, _share: share })
    }

    /// A process of clients.
    fn client(&self, arguments: &[&str]) -> Result<Process> {
        let folder = self.home.path().to_str().context("the folder has no name in UTF-8")?;
        let own = [arguments, &["--identity", folder, "--server", &self.address]].concat();
        Process::own(&own, None, 12 * PATIENCE)
    }

    fn ask(&mut self) -> Result<ShardWord> {
        self.process.ask()
    }

    fn close(self) -> Result<()> {
        self.process.end()
    }
}

/// Requests of a client that asks steadily are given up after so long.
const GIVEN_UP: Duration = Duration::from_secs(1);

/// Before clocks start.
const WARMING: Duration = WARM;
