//! How much memory the connections of a server may hold together.

use std::path::{Path, PathBuf};

use quickset::Budget;

use crate::metrics::{MetricKind, MetricsPage};
use crate::values;

/// A bound for all that clients can make a server hold.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct MemoryArgs {
    /// Memory that all connections together may hold, like 256M; shared fairly by client. Unless told, an
    /// eighth of what this process may use
    #[arg(long, value_name = "SIZE", value_parser = values::memory)]
    memory: Option<u64>,
}

impl MemoryArgs {
    /// The budget of a server, which is as small as before when what its clients made it hold is gone.
    pub(crate) fn budget(self) -> Budget {
        return_what_is_free();
        Budget::new(
            self.memory.unwrap_or_else(|| usable(Path::new("/")).map_or(UNKNOWN, |bytes| bytes / PART)),
        )
    }
}

/// Memory that was freed goes back to the system in the background. Not from the start: who makes a namespace
/// of users must have one thread alone.
pub(crate) fn return_what_is_free() {
    #[cfg(unix)]
    if let Err(error) = tikv_jemalloc_ctl::background_thread::write(true) {
        tracing::debug!(%error, "free memory stays until it is needed again");
    }
}

/// Adds what is held, and how often more was wanted than there is.
pub(crate) fn tell(budget: &Budget, page: &mut MetricsPage) {
    let usage = budget.usage();
    page.value(
        "quickset_memory_budget_bytes",
        MetricKind::Gauge,
        "What connections may hold together.",
        usage.size,
    );
    page.value("quickset_memory_held_bytes", MetricKind::Gauge, "What connections hold.", usage.held);
    page.value("quickset_memory_peak_bytes", MetricKind::Gauge, "What connections held at most.", usage.peak);
    let help = "How often a connection was refused memory.";
    page.value("quickset_memory_refusals_total", MetricKind::Counter, help, usage.refusals);
    let help = "Connections that were ended since others needed their memory.";
    page.value("quickset_memory_recalls_total", MetricKind::Counter, help, usage.recalls);
}

/// What a process may use by the files of Linux below `root`: the memory of the machine, and the limits of
/// the control groups that it is in, of both versions. `None` where there are no such files.
fn usable(root: &Path) -> Option<u64> {
    let read = |path: PathBuf| std::fs::read_to_string(root.join(path)).ok();
    let machine = read("proc/meminfo".into()).and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    });
    let groups = read("proc/self/cgroup".into()).unwrap_or_default();
    let limits = groups.lines().filter_map(|line| {
        // ID:CONTROLLERS:PATH; of version 2 there is one line, without controllers (cgroups(7)).
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let (mount, files): (_, &[&str]) = match controllers {
            "" => ("sys/fs/cgroup", &["memory.max", "memory.high"]),
            controllers if controllers.split(',').any(|name| name == "memory") => {
                ("sys/fs/cgroup/memory", &["memory.limit_in_bytes"])
            }
            _ => return None,
        };
        // The limits of all groups above hold, too. In a container the path may be that of the host, and the
        // files those of its own group.
        let path = Path::new(path.trim_start_matches('/'));
        let limits = path.ancestors().flat_map(|group| {
            files.iter().filter_map(move |file| read(Path::new(mount).join(group).join(file)))
        });
        limits.filter_map(|text| text.trim().parse::<u64>().ok()).min()
    });
    machine.into_iter().chain(limits).min()
}

/// An eighth, of what the process may use.
const PART: u64 = 8;

/// Where it cannot be told what that is: what a small machine can spare.
const UNKNOWN: u64 = 512 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn usable_with(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        usable(root.path())
    }

    const MACHINE: (&str, &str) = ("proc/meminfo", "MemTotal:       16000 kB\nMemFree:        100 kB\n");

    #[test]
    fn the_smallest_limit_counts() {
        assert_eq!(usable_with(&[]), None);
        assert_eq!(usable_with(&[MACHINE]), Some(16_000 << 10));
        let group = ("proc/self/cgroup", "0::/system.slice/site.service\n");
        let none = ("sys/fs/cgroup/system.slice/site.service/memory.max", "max\n");
        assert_eq!(usable_with(&[MACHINE, group, none]), Some(16_000 << 10));
        let above = ("sys/fs/cgroup/system.slice/memory.max", "4096000\n");
        assert_eq!(usable_with(&[MACHINE, group, none, above]), Some(4_096_000));
        let soft = ("sys/fs/cgroup/system.slice/site.service/memory.high", "2048000\n");
        assert_eq!(usable_with(&[MACHINE, group, none, above, soft]), Some(2_048_000));
    }

    #[test]
    fn version_1_and_containers_have_theirs_elsewhere() {
        let groups = ("proc/self/cgroup", "12:cpu,cpuacct:/a\n4:memory:/docker/0123\n1:name=systemd:/b\n");
        // What is no limit is a number that no machine has.
        let none = ("sys/fs/cgroup/memory/docker/0123/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(usable_with(&[MACHINE, groups, none]), Some(16_000 << 10));
        // Seen from inside, the path of the host is not there.
        let inside = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "8192000\n");
        assert_eq!(usable_with(&[MACHINE, groups, inside]), Some(8_192_000));
        let inside = ("sys/fs/cgroup/memory.max", "1024000\n");
        assert_eq!(usable_with(&[MACHINE, ("proc/self/cgroup", "0::/\n"), inside]), Some(1_024_000));
        for strange in ["", "::\n", "0:\n", "x"] {
            assert_eq!(usable_with(&[MACHINE, ("proc/self/cgroup", strange)]), Some(16_000 << 10));
        }
    }
}
