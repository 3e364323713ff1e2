//! What is asked of the system: CPU time, and on which core to run.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::thread::CpuSet;
use rustix::time::{ClockId, clock_gettime};

/// CPU time of this process so far, user and system.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
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
        assert!(!cores().unwrap().is_empty());
    }
}
