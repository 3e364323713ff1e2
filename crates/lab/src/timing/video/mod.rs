//! Players of video before a server in a process of its own, which has a part of a core: what `dash` plays in
//! virtual time, with HTTP/1.1 beside.
//!
//! *In:* the point of an experiment. *Out:* what viewers had, what the server and the load took, and what the
//! same has in virtual time before a processor that carries as much. The server is `quickset http serve`
//! under a [`quota`], the players are `quickset play` on the other cores, and both are this very command
//! ([`programs`]). Bitrates are told as those of the video, of which `scale` times fewer bytes are on the
//! wire.

mod film;
mod programs;
mod quota;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::catalogue::{self, LADDER};
use crate::experiment::{ExperimentKey, HTTP1, Params, Timed, TimingError, Value, ValueError};
use crate::play::virtually;
use crate::results::{CountedPackets, Detail, Emulation, RunMetrics, ServedShare, Timings, Viewing, measure};
use film::Film;
use programs::{Playing, ProgramFolder, ProgramsPlayed};
use quickset::Algorithm;
use quickset_base::number::{Float as _, Unsigned as _};
use quota::LEAST_SHARE;

/// Has players watch in real time.
///
/// # Errors
/// When a value does not fit, the system has no quotas for us, or a program does not run.
pub(crate) fn video(params: &Params, seed: u64) -> Timed {
    let show = VideoPoint::of(params, seed).map_err(|error| unfit(&error))?;
    show.check_tcp()?;
    let stage = ProgramFolder::new(&show.film())?;
    let part = show.part(&stage)?;
    let mut server = stage.serve(part.share, &show.server(&show.datapath))?;
    let played = stage.play(&mut server, &show.playing())?;
    drop((server, stage));
    let beside = show.virtually(params, part.capacity_mbps)?;
    Ok((metrics(&show, part, &played, beside.as_ref()), Detail::default()))
}

/// A point, read.
#[derive(Clone, Debug)]
struct VideoPoint {
    players: u64,
    rule: String,
    datapath: String,
    /// `None`: what makes plain HTTP/3 carry the published rate.
    quota: Option<f64>,
    segment: Duration,
    length: Duration,
    scale: f64,
    cc: String,
    rtt_ms: f64,
    loss: String,
    seed: u64,
}

/// What the server has of its core, and what plain HTTP/3 carries by that, in Mbit/s of video.
#[derive(Clone, Copy, Debug, PartialEq)]
struct CpuShare {
    share: f64,
    capacity_mbps: f64,
}

/// What was found out in this process, by all that it depends on: looking takes seconds.
static PARTS: Mutex<BTreeMap<String, CpuShare>> = Mutex::new(BTreeMap::new());

impl VideoPoint {
    fn of(params: &Params, seed: u64) -> Result<Self, ValueError> {
        let seconds = |key: &str| Ok(Duration::from_secs_f64(params.number(key)?));
        let show = Self {
            players: params.whole("players")?,
            rule: params.text("abr"),
            datapath: params.text("datapath"),
            quota: params.number_or_word("quota"),
            segment: seconds("segment_s")?,
            length: seconds("seconds")?,
            scale: params.number("scale")?,
            cc: params.text("cc"),
            rtt_ms: params.number("rtt_ms")?,
            loss: params.text("loss"),
            seed,
        };
        if show.quota.is_some_and(|share| !(LEAST_SHARE..=1.0).contains(&share)) {
            return Err(ValueError(format!(
                "the quota is a part of one core, of which the system gives {LEAST_SHARE} at least: write quota={LEAST_SHARE} to quota=1"
            )));
        }
        // A window that losses keep small has a rate of its own, whatever the video takes.
        if show.is_lossy() && params.number("scale")? > 1.0 {
            return Err(ValueError(
                "what a connection gets where packets are lost does not shrink with the video: write scale=1 with it"
                    .to_owned(),
            ));
        }
        Ok(show)
    }

    fn is_lossy(&self) -> bool {
        self.loss != "0"
    }

    fn is_far(&self) -> bool {
        self.is_lossy() || self.rtt_ms > 0.0
    }

    fn film(&self) -> Film {
        let bitrates = LADDER.iter().map(|bps| (bps.approx() / self.scale).round().whole::<u64>()).collect();
        Film { bitrates, segment: self.segment, length: self.length }
    }

    /// HTTP/1.1 is to have the controller that HTTP/3 has beside it, and not what the system has by itself.
    fn check_tcp(&self) -> Result<(), TimingError> {
        if self.datapath != HTTP1 {
            return Ok(());
        }
        let cc = &self.cc;
        let Some(name) = cc.parse::<Algorithm>().ok().and_then(|algorithm| algorithm.linux_name()) else {
            return Err(TimingError(format!(
                "TCP has no {cc}; write cc=cubic, bbr or newreno, or leave http1 out"
            )));
        };
        has_controller(name).map_err(|error| {
            TimingError(format!(
                "TCP has no {name} on this system ({error}); load its module (modprobe tcp_{name}), or write another controller with cc="
            ))
        })
    }

    /// Options of the server. Who comes over a link comes from another network.
    fn server(&self, datapath: &str) -> Vec<String> {
        let listen = if self.is_far() { "0.0.0.0:0" } else { "127.0.0.1:0" };
        let mut words = strings(&["--listen", listen, "--cc", &self.cc]);
        if let Some(acks) = acks(datapath) {
            words.extend(strings(&["--ack", acks]));
        }
        if datapath == "plain" {
            words.push("--no-gso".to_owned());
        }
        words
    }

    fn playing(&self) -> Playing {
        let (players, segment) = (self.players.to_string(), format!("{}s", self.segment.as_secs_f64()));
        // Players of other runs choose otherwise where a rule leaves it to chance.
        let seed = (self.seed * 1000).to_string();
        let mut words =
            strings(&["--players", &players, "--abr", &self.rule, "--stagger", &segment, "--seed", &seed]);
        words.extend(version(&self.datapath));
        let link = self.is_far().then(|| {
            let (delay, seed) = (format!("{}ms", self.rtt_ms / 2.0), self.seed.to_string());
            strings(&["--delay", &delay, "--loss", &self.loss, "--seed", &seed])
        });
        // As in virtual time: who stands still for longer than all of it plays has seen enough.
        let limit = self.length * 3 + self.segment + PATIENCE;
        Playing { manifest: film::MANIFEST, words, link, limit, work: None }
    }

    /// Finds the part of the core that the server has, and what it carries by that.
    fn part(&self, stage: &ProgramFolder) -> Result<CpuShare, TimingError> {
        let mut parts = PARTS.lock().unwrap_or_else(PoisonError::into_inner);
        let key = format!("{:?} {} {:?} {} {}", self.quota, self.scale, self.segment, self.cc, self.is_far());
        if let Some(part) = parts.get(&key) {
            return Ok(*part);
        }
        let part = if let Some(share) = self.quota {
            CpuShare { share, capacity_mbps: self.carried(share, self.cost(stage, share)?) }
        } else {
            let first = self.published(self.cost(stage, FIRST_SHARE)?)?;
            // What a byte takes depends on how long the server works at a time.
            let share = self.published(self.cost(stage, first)?)?;
            CpuShare { share, capacity_mbps: PLAIN_MBPS }
        };
        parts.insert(key, part);
        Ok(part)
    }

    /// The part by which plain HTTP/3 carries what was published, if a byte takes so many seconds.
    fn published(&self, cost: f64) -> Result<f64, TimingError> {
        let share = PLAIN_MBPS / self.scale * 1e6 / 8.0 * cost;
        if (LEAST_SHARE..=1.0).contains(&share) {
            return Ok(share);
        }
        let whole = self.carried(1.0, cost) / self.scale;
        let [least, most] = [share * self.scale, share * self.scale / LEAST_SHARE];
        let way = match (least.ceil(), most.floor()) {
            (_, most) if most < 1.0 => format!("write quota={LEAST_SHARE}, which carries more"),
            (least, most) if least > most || share > 1.0 => format!("write scale={least}"),
            (_, most) => format!("write scale={most}"),
        };
        Err(TimingError(format!(
            "plain HTTP/3 carries {whole:.0} Mbit/s on a whole core of this machine, and {PLAIN_MBPS} over the scale would be \
             {share:.3} of it, where {LEAST_SHARE} to 1 can be given: {way}"
        )))
    }

    /// In Mbit/s of video.
    fn carried(&self, share: f64, cost: f64) -> f64 {
        share / cost * 8e-6 * self.scale
    }

    /// The seconds that a byte of plain HTTP/3 takes of the server's core, when many are asked for.
    fn cost(&self, stage: &ProgramFolder, share: f64) -> Result<f64, TimingError> {
        let near = Self { rtt_ms: 0.0, loss: "0".to_owned(), ..self.clone() };
        let mut server = stage.serve(share, &near.server("plain"))?;
        let mut words = strings(&["--players", BULK_PLAYERS, "--stagger", "0s", "--buffer", "3600"]);
        words.extend(version("plain"));
        // However long the players need to begin: what counts is what the server has done.
        let work = Some(BULK.mul_f64(share));
        let playing = Playing { manifest: film::BULK, words, link: None, limit: PATIENCE, work };
        let played = stage.play(&mut server, &playing)?;
        let bytes = played.results.sum.bytes;
        if bytes == 0 || played.server.is_zero() {
            return Err(TimingError(format!(
                "nothing came of the server within {} s with {share} of a core; write a greater quota or scale",
                PATIENCE.as_secs()
            )));
        }
        Ok(played.server.as_secs_f64() / bytes.approx())
    }

    /// What viewers have in virtual time, before a processor that carries as much; there is no TCP there.
    fn virtually(&self, params: &Params, capacity_mbps: f64) -> Result<Option<Viewing>, TimingError> {
        if self.datapath == HTTP1 {
            return Ok(None);
        }
        let (experiment, point) = self.beside(params, capacity_mbps).map_err(|error| unfit(&error))?;
        let setting = catalogue::find(experiment)
            .and_then(|found| found.setting(&point))
            .map_err(|error| unfit(&error))?;
        let seen = virtually(&setting, self.seed)
            .map_err(|error| TimingError(format!("{experiment} with {point}: {error}")))?;
        Ok(Some(measure(&setting, &seen).0.viewing))
    }

    /// The experiment in virtual time, and its point that is the same.
    fn beside(&self, params: &Params, capacity_mbps: f64) -> Result<(&'static str, Params), ValueError> {
        let name = if self.is_far() { "dash-poor" } else { "dash" };
        let mut point = catalogue::find(name)?.base();
        let network: &[&str] = if self.is_far() { &["rtt_ms", "loss"] } else { &[] };
        for key in ["players", "abr", "datapath", "segment_s", "seconds", "cc"].iter().chain(network) {
            if let Some(value) = params.get(key) {
                point.put(ExperimentKey::find(key)?, value.clone());
            }
        }
        let processor = point.number("processor")? * PLAIN_MBPS / capacity_mbps;
        point.put(ExperimentKey::find("processor")?, Value::Number(processor));
        Ok((name, point))
    }
}

fn metrics(
    show: &VideoPoint,
    part: CpuShare,
    played: &ProgramsPlayed,
    beside: Option<&Viewing>,
) -> RunMetrics {
    let ProgramsPlayed { results, was_cut, load, cores, server, link } = played;
    let (players, sum) = (&results.players, &results.sum);
    let mean =
        |values: &[f64]| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len().approx());
    let of = |value: fn(&programs::PlayerSeen) -> f64| mean(&players.iter().map(value).collect::<Vec<_>>());
    let startups: Vec<f64> = players.iter().filter_map(|player| player.startup_s).collect();
    let over =
        |time: &Duration, cores: f64| (sum.seconds > 0.0).then(|| time.as_secs_f64() / (sum.seconds * cores));
    let viewing = Viewing {
        average_bitrate_mbps: (sum.played_s > 0.0).then_some(sum.average_bitrate_mbps * show.scale),
        rebuffering_s: of(|player| player.rebuffering_s),
        stalls: of(|player| f64::from(player.stalls)),
        startup_s: mean(&startups),
        switches: of(|player| player.switches.approx()),
        processor_share: over(server, part.share),
    };
    let virtual_mbps = beside.and_then(|viewing| viewing.average_bitrate_mbps);
    let served = ServedShare {
        server_share: Some(part.share),
        capacity_mbps: Some(part.capacity_mbps),
        server_s_per_gb: (sum.bytes > 0).then(|| server.as_secs_f64() / (sum.bytes.approx() * 1e-9)),
        load_share: over(load, cores.approx()),
        average_bitrate_virtual_mbps: virtual_mbps,
        average_bitrate_over_virtual: viewing
            .average_bitrate_mbps
            .zip(virtual_mbps)
            .map(|(real, virtual_mbps)| real / virtual_mbps),
        rebuffering_virtual_s: beside.and_then(|viewing| viewing.rebuffering_s),
    };
    let failed = players.iter().filter_map(|player| player.error.as_ref()).collect::<Vec<_>>();
    let broken = match failed.as_slice() {
        [] if *was_cut => Some(format!("players were still at it after {:.0} s", sum.seconds)),
        [] => None,
        [first, ..] => {
            Some(format!("{} of {} players could not play to the end: {first}", failed.len(), players.len()))
        }
    };
    RunMetrics {
        finished: broken.is_none(),
        broken,
        counted: CountedPackets { bytes_useful: sum.bytes, ..CountedPackets::default() },
        emulation: Emulation {
            lateness_p99_ms: link.map(|(lateness, _)| lateness),
            overruns: link.map(|(_, overruns)| overruns),
        },
        viewing,
        timings: Timings { served, ..Timings::default() },
        ..RunMetrics::default()
    }
}

/// Tries a congestion controller on a socket of TCP.
#[cfg(target_os = "linux")]
fn has_controller(name: &str) -> std::io::Result<()> {
    use socket2::{Domain, Socket, Type};
    Socket::new(Domain::IPV4, Type::STREAM, None)?.set_tcp_congestion(name.as_bytes())
}

#[cfg(not(target_os = "linux"))]
fn has_controller(_name: &str) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// How players and server acknowledge, as `--ack` has it; nothing is to be said where the system does.
fn acks(datapath: &str) -> Option<&'static str> {
    match datapath {
        "plain" | "gso" => Some("2:fixed:single"),
        "merging" => Some("2:fixed:merged"),
        "adaptive" => Some("2:adaptive:merged"),
        _ => None,
    }
}

/// Options of players.
fn version(datapath: &str) -> Vec<String> {
    match acks(datapath) {
        Some(acks) => strings(&["--http", "3", "--ack", acks]),
        None => strings(&["--http", "1"]),
    }
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn unfit(error: &ValueError) -> TimingError {
    TimingError(error.to_string())
}

/// What plain HTTP/3 carries, as published, and in `dash` unless told otherwise.
const PLAIN_MBPS: f64 = 1790.0;
/// A first guess.
const FIRST_SHARE: f64 = 0.25;
/// As in the published download; for so long, if the server has all of its part.
const BULK_PLAYERS: &str = "10";
const BULK: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
