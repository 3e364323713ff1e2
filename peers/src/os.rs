//! What is asked of the system: CPU time and memory, and on which core to run.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::CpuSet;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// CPU time of this process so far, user and system.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// CPU time of another process so far, with its threads that have ended.
pub(crate) fn cpu_s_of(process: u32) -> Result<f64> {
    // proc_pid_stat(5): the 14th and 15th field are user and system time.
    cpu_s_in(&format!("/proc/{process}/stat"), 14)
}

/// CPU time of the processes that this one has started, and that have ended.
pub(crate) fn cpu_s_of_children() -> Result<f64> {
    // The same of those.
    cpu_s_in("/proc/self/stat", 16)
}

/// The sum of two times, of which the first is this field.
fn cpu_s_in(file: &str, field: usize) -> Result<f64> {
    let stat = std::fs::read_to_string(file).context("the process has ended")?;
    // The second field is a name in parentheses, of any characters.
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields.split_whitespace());
    let ticks: Option<u64> =
        fields.and_then(|fields| fields.skip(field - 3).take(2).map(|ticks| ticks.parse::<u64>().ok()).sum());
    Ok(ticks.context("/proc has other fields")? as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// What a process has taken so far.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(crate) struct ProcessUsage {
    pub(crate) cpu_s: f64,
    /// Bytes of memory that are not swapped out.
    pub(crate) resident: u64,
}

/// This process.
pub(crate) fn taken() -> ProcessUsage {
    ProcessUsage { cpu_s: cpu_time().as_secs_f64(), resident: resident().unwrap_or(0) }
}

fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? << 10)
}

/// Datagrams that the system has dropped so far because a socket's buffer was full.
pub(crate) fn full_sockets() -> Option<u64> {
    let table = std::fs::read_to_string("/proc/net/snmp").ok()?;
    let mut lines = table.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let at = lines.next()?.split(' ').position(|name| name == "RcvbufErrors")?;
    lines.next()?.split(' ').nth(at)?.parse().ok()
}

/// Lets this process open as many files as it ever may.
pub(crate) fn allow_files() {
    let limit = getrlimit(Resource::Nofile);
    // With fewer, a stack with a socket for each connection fails, and says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// What the system calls the processor.
pub(crate) fn processor() -> String {
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = about.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| "a processor without a name".to_owned(), |(_, name)| name.trim().to_owned())
}

/// The cores that this process may use.
pub(crate) fn cores() -> Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None).context("cannot ask which cores there are")?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// Keeps the calling thread, and those that it starts from now on, on one core.
pub(crate) fn pin(core: usize) -> Result<()> {
    if core >= CpuSet::MAX_CPU {
        bail!("there is no core {core}");
    }
    let mut set = CpuSet::new();
    set.set(core);
    rustix::thread::sched_setaffinity(None, &set).with_context(|| format!("cannot run on core {core} only"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_passes_with_work() {
        let before = cpu_time();
        let mut x = 1_u64;
        for i in 0..20_000_000 {
            x = std::hint::black_box(x.wrapping_mul(i | 1));
        }
        assert!(cpu_time() > before);
        let [own, other] = [cpu_time().as_secs_f64(), cpu_s_of(std::process::id()).expect("it runs")];
        assert!((own - other).abs() < 0.5, "{own} {other}");
        let before = cpu_s_of_children().expect("it runs");
        let work = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        assert!(std::process::Command::new("sh").args(["-c", work]).status().expect("a shell").success());
        assert!(cpu_s_of_children().expect("it runs") > before);
        assert!(!cores().unwrap().is_empty());
        assert!(full_sockets().is_some(), "Linux counts them");
    }

    #[test]
    fn memory_grows_with_what_is_held() {
        let before = taken().resident;
        let held = std::hint::black_box(vec![1_u8; 64 << 20]);
        let grown = taken().resident - before;
        assert!((60 << 20..80 << 20).contains(&grown), "{grown} for {}", held.len());
    }
}
