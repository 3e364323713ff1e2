//! This command itself as other processes: a server that has a part of one core, and players that have the
//! other cores.
//!
//! None of them outlives who started it. What they say goes to files of a folder that goes with the run.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;
use serde_json::Value as Json;

use super::film::Film;
use super::quota::Quota;
use crate::experiment::TimingError;
use crate::perf::{processor_time_of, processor_time_of_children};
use crate::scratch::ScratchFile;

/// Where programs run: a folder with the film, and cores.
#[derive(Debug)]
pub(super) struct ProgramFolder {
    home: ScratchFile,
    command: PathBuf,
    server: CpuSet,
    players: CpuSet,
    /// How many cores players have.
    cores: usize,
    all: CpuSet,
}

/// `quickset http serve` under a quota.
#[derive(Debug)]
pub(super) struct ServeProgram {
    program: RunningProgram,
    port: u16,
    pin: String,
    /// Behind the program: what runs in a group is killed with it.
    _quota: Quota,
}

/// How `quickset play` is to play.
#[derive(Clone, Debug)]
pub(super) struct Playing {
    pub(super) manifest: &'static str,
    /// Options.
    pub(super) words: Vec<String>,
    /// Options of the link in front of the players, if there is one.
    pub(super) link: Option<Vec<String>>,
    /// Behind so long players are interrupted, and what they have seen by then counts.
    pub(super) limit: Duration,
    /// The same when the server has worked for so long, if that is enough.
    pub(super) work: Option<Duration>,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct ProgramsPlayed {
    pub(super) results: PlayResults,
    /// Whether players were interrupted.
    pub(super) was_cut: bool,
    /// What the players and the link in front of them took of their cores, of which there are so many.
    pub(super) load: Duration,
    pub(super) cores: usize,
    /// What the server took of its part.
    pub(super) server: Duration,
    /// How late the link was, 99th percentile, and what the system dropped around it.
    pub(super) link: Option<(f64, u64)>,
}

/// What `quickset play --json` prints, as far as it is of use.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct PlayResults {
    pub(super) players: Vec<PlayerSeen>,
    pub(super) sum: PlayersSum,
}

/// What one player has seen.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct PlayerSeen {
    pub(super) rebuffering_s: f64,
    pub(super) stalls: u32,
    pub(super) startup_s: Option<f64>,
    pub(super) switches: u64,
    pub(super) error: Option<String>,
}

/// What all have.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct PlayersSum {
    pub(super) average_bitrate_mbps: f64,
    pub(super) bytes: u64,
    pub(super) played_s: f64,
    pub(super) seconds: f64,
}

impl ProgramFolder {
    /// With the film to be served. The server's core is the first that this process may use.
    ///
    /// # Errors
    /// When there is one core alone, or no room for the film.
    pub(super) fn new(film: &Film) -> Result<Self, TimingError> {
        let system =
            |error: nix::Error| TimingError(format!("the system does not tell of its cores: {error}"));
        let all = sched_getaffinity(Pid::from_raw(0)).map_err(system)?;
        let (mut server, mut players, mut cores) = (CpuSet::new(), CpuSet::new(), 0);
        for core in (0..CpuSet::count()).filter(|core| all.is_set(*core).unwrap_or(false)) {
            let set = if cores == 0 { &mut server } else { &mut players };
            set.set(core).map_err(system)?;
            cores += 1;
        }
        if cores < 2 {
            return Err(TimingError(
                "players may use one core alone, which is the server's, and would take from it what is measured; run it \
                 where there are two (taskset, or the CPUs of the container)"
                    .to_owned(),
            ));
        }
        let no_room = |error: io::Error| {
            TimingError(format!(
                "the film cannot be written to {}: {error}; name a folder with room for it in TMPDIR",
                std::env::temp_dir().display()
            ))
        };
        let home = ScratchFile::folder().map_err(no_room)?;
        let site = home.path().join(SITE);
        fs::create_dir(&site).and_then(|()| film.write(&site)).map_err(no_room)?;
        let command = std::env::current_exe()
            .map_err(|error| TimingError(format!("this program does not find itself: {error}")))?;
        Ok(Self { home, command, server, players, cores: cores - 1, all })
    }

    /// Starts a server that has this part of its core, and waits until it listens.
    ///
    /// # Errors
    /// When it does not, or there are no quotas here.
    pub(super) fn serve(&self, share: f64, words: &[String]) -> Result<ServeProgram, TimingError> {
        let quota = Quota::new(share).map_err(|error| TimingError(error.to_string()))?;
        let mut arguments: Vec<OsString> = ["http", "serve"].map(OsString::from).to_vec();
        arguments.extend(words.iter().map(OsString::from));
        arguments.push(self.home.path().join(SITE).into());
        let mut program = self.start(SERVER, &arguments, &self.server)?;
        quota.take(program.id()).map_err(|error| TimingError(error.to_string()))?;
        let until = Instant::now() + START;
        loop {
            let ended = program.ended()?;
            if let Some((port, pin)) = listening(&program.output()) {
                return Ok(ServeProgram { program, port, pin, _quota: quota });
            }
            if ended.is_some() || Instant::now() > until {
                let why = match ended {
                    Some(status) => format!("it ended ({status}){}", program.words().unwrap_or_default()),
                    None => format!("it does not listen within {} s", START.as_secs()),
                };
                return Err(TimingError(format!(
                    "the server did not start: {why}; `quickset http serve` alone shows whether it does otherwise, and a \
                     greater quota starts it sooner"
                )));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Has players play, until all are at the end or the limit is there.
    ///
    /// # Errors
    /// When the server ends, or the players say nothing.
    pub(super) fn play(
        &self,
        server: &mut ServeProgram,
        playing: &Playing,
    ) -> Result<ProgramsPlayed, TimingError> {
        let arguments = self.players(server, playing);
        let (served, waited) = (server.processor_time()?, waited_for()?);
        let mut program = self.start(PLAYERS, &arguments, &self.players)?;
        let until = Instant::now() + playing.limit;
        let is_enough = |server: &ServeProgram| {
            let worked = server.processor_time()?.saturating_sub(served);
            Ok(Instant::now() > until || playing.work.is_some_and(|enough| worked >= enough))
        };
        let mut ended = attend(&mut program, server, is_enough)?;
        let was_cut = ended.is_none();
        if was_cut {
            program.interrupt();
            let until = Instant::now() + PARTING;
            ended = attend(&mut program, server, |_| Ok(Instant::now() > until))?;
        }
        let Some(status) = ended else {
            return Err(TimingError(format!(
                "the players do not end{}; run it again on a machine that does less besides",
                program.words().unwrap_or_default()
            )));
        };
        let results = serde_json::from_str(&program.output()).map_err(|_| {
            let why = program
                .words()
                .unwrap_or_else(|| "; run it again, on a machine that does less besides".to_owned());
            TimingError(format!("the players did not play ({status}){why}"))
        })?;
        Ok(ProgramsPlayed {
            results,
            was_cut,
            load: waited_for()?.saturating_sub(waited),
            cores: self.cores,
            server: server.processor_time()?.saturating_sub(served),
            link: self.link(),
        })
    }

    /// The words for `quickset play`, behind those of `quickset link` if there is a link. Its program finds
    /// out where the server is.
    fn players(&self, server: &ServeProgram, playing: &Playing) -> Vec<OsString> {
        let url = |host: &str| format!("https://{host}:{}/{}", server.port, playing.manifest);
        let options =
            ["--pin", &server.pin, "--json"].into_iter().chain(playing.words.iter().map(String::as_str));
        let options = options.map(OsString::from);
        let Some(link) = &playing.link else {
            let words: [OsString; 2] = ["play".into(), url("127.0.0.1").into()];
            return words.into_iter().chain(options).collect();
        };
        let mut words: Vec<OsString> = vec!["link".into(), "--quiet".into(), "--report".into()];
        words.push(self.home.path().join(LINK).into());
        words.extend(link.iter().map(OsString::from));
        let script = format!(r#"exec "$0" play "{}" "$@""#, url("$QUICKSET_LINK_HOST"));
        words.extend(["--", "sh", "-c", &script].map(OsString::from));
        words.push(self.command.clone().into());
        words.extend(options);
        words
    }

    /// Starts this command with these words, on these cores. Its interrupt is not that of the terminal.
    fn start(&self, name: &str, words: &[OsString], cores: &CpuSet) -> Result<RunningProgram, TimingError> {
        let failed =
            |error: &dyn std::fmt::Display| TimingError(format!("`quickset` cannot be started: {error}"));
        let [out, log] = ["out", "log"].map(|kind| self.home.path().join(format!("{name}.{kind}")));
        let mut command = Command::new(&self.command);
        let ourselves = std::process::id().to_string();
        command.args(["link", "--child-of", &ourselves, "--"]).arg(&self.command).args(words);
        command.stdin(Stdio::null()).process_group(0);
        command.stdout(File::create(&out).map_err(|error| failed(&error))?);
        command.stderr(File::create(&log).map_err(|error| failed(&error))?);
        // A child has the cores of the thread that starts it.
        let this = Pid::from_raw(0);
        sched_setaffinity(this, cores).map_err(|error| failed(&error))?;
        let child = command.spawn();
        sched_setaffinity(this, &self.all).map_err(|error| failed(&error))?;
        Ok(RunningProgram { child: child.map_err(|error| failed(&error))?, out, log })
    }

    /// What the link says of itself.
    fn link(&self) -> Option<(f64, u64)> {
        let text = fs::read_to_string(self.home.path().join(LINK)).ok()?;
        let report: Json = serde_json::from_str(&text).ok()?;
        let overruns = ["up", "down"].iter().filter_map(|way| report[way]["overruns"].as_u64()).sum();
        Some((report["lateness_ms"]["p99"].as_f64()?, overruns))
    }
}

impl ServeProgram {
    /// What it has taken of its core so far.
    fn processor_time(&self) -> Result<Duration, TimingError> {
        processor_time_of(self.program.id()).ok_or_else(untold)
    }
}

/// A process, which is killed when this is dropped.
#[derive(Debug)]
struct RunningProgram {
    child: Child,
    /// What it prints, and what it says of itself.
    out: PathBuf,
    log: PathBuf,
}

impl RunningProgram {
    fn id(&self) -> u32 {
        self.child.id()
    }

    fn ended(&mut self) -> Result<Option<ExitStatus>, TimingError> {
        self.child.try_wait().map_err(|error| TimingError(format!("a process is lost: {error}")))
    }

    fn interrupt(&self) {
        // Nobody has waited for it, so that its number is its own.
        if let Ok(id) = i32::try_from(self.id()) {
            let _ = kill(Pid::from_raw(id), Signal::SIGINT);
        }
    }

    fn output(&self) -> String {
        fs::read_to_string(&self.out).unwrap_or_default()
    }

    /// The first line that it said, which is why the others follow.
    fn words(&self) -> Option<String> {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let line = log.lines().find(|line| !line.trim().is_empty())?;
        Some(format!(": {}", line.trim_start_matches("quickset: ")))
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until the players end, or it is over; the server goes on meanwhile.
fn attend(
    players: &mut RunningProgram,
    server: &mut ServeProgram,
    is_over: impl Fn(&ServeProgram) -> Result<bool, TimingError>,
) -> Result<Option<ExitStatus>, TimingError> {
    loop {
        if let Some(status) = players.ended()? {
            return Ok(Some(status));
        }
        if let Some(status) = server.program.ended()? {
            return Err(TimingError(format!(
                "the server ended while players watched ({status}){}; the system's log says whether it was ended from \
                 outside, and the same command goes on from here",
                server.program.words().unwrap_or_default()
            )));
        }
        if is_over(server)? {
            return Ok(None);
        }
        std::thread::sleep(LOOK);
    }
}

/// Port and pin of a server, from the line that it prints.
fn listening(output: &str) -> Option<(u16, String)> {
    let (line, _) = output.split_once('\n')?;
    let (address, pin) = line.strip_prefix("listening on ")?.split_once(' ')?;
    let (_, port) = address.rsplit_once(':')?;
    Some((port.parse().ok()?, pin.to_owned()))
}

/// What processes that were waited for have taken.
fn waited_for() -> Result<Duration, TimingError> {
    processor_time_of_children().ok_or_else(untold)
}

fn untold() -> TimingError {
    TimingError(
        "the system does not tell what processes take; it is read in /proc, which has to be there".to_owned(),
    )
}

/// Names of files.
const SITE: &str = "site";
const SERVER: &str = "server";
const PLAYERS: &str = "players";
const LINK: &str = "link.json";

/// How long a server may take until it listens, and players until they are gone.
const START: Duration = Duration::from_secs(20);
const PARTING: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_says_where_it_listens() {
        let line = "listening on 0.0.0.0:4433 sha256:ab12\n";
        assert_eq!(listening(line), Some((4433, "sha256:ab12".to_owned())));
        assert_eq!(listening("listening on [::]:1 sha256:c\nmore"), Some((1, "sha256:c".to_owned())));
        for wrong in ["listening on 0.0.0.0:44", "", "\n", "error: x y\n", "listening on 0.0.0.0:99999 s\n"] {
            assert_eq!(listening(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_a_child_took_is_known_when_it_was_waited_for() {
        let before = waited_for().unwrap();
        let spin = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        assert!(Command::new("sh").args(["-c", spin]).status().unwrap().success());
        assert!(waited_for().unwrap() > before);
    }
}
