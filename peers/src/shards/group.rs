//! A part of a core's time for a process with all its threads: a group of cgroups(7), which is made below the
//! controller `cpu` of version 1 or 2, and goes with the value.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// A group that is there while this is.
pub(super) struct CoreShare(PathBuf);

impl CoreShare {
    /// One that gets this part of a core's time.
    pub(super) fn new(share: f64) -> Result<Self> {
        let Some((parent, files)) = place(Path::new("/sys/fs/cgroup"), share) else {
            bail!(
                "no group can be given a part of a core here: there is no controller `cpu` below /sys/fs/cgroup"
            )
        };
        clear(&parent);
        let group = Self(parent.join(format!("{PREFIX}{}", std::process::id())));
        fs::create_dir(&group.0)
            .with_context(|| format!("no group can be made below {} (are you root?)", parent.display()))?;
        for (name, value) in files {
            fs::write(group.0.join(name), value)
                .with_context(|| format!("{name} of {} cannot be set", group.0.display()))?;
        }
        Ok(group)
    }

    /// Takes a process with its threads.
    pub(super) fn take(&self, process: u32) -> Result<()> {
        fs::write(self.0.join("cgroup.procs"), process.to_string())
            .with_context(|| format!("process {process} cannot join {}", self.0.display()))
    }
}

impl Drop for CoreShare {
    fn drop(&mut self) {
        // What ran in it has ended, but the system may not know that yet.
        let since = Instant::now();
        while fs::remove_dir(&self.0).is_err() && self.0.exists() && since.elapsed() < Duration::from_secs(2)
        {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Where groups can be made, and what is written to make one of this part. Version 1 first, which has the
/// processors where both are.
fn place(root: &Path, share: f64) -> Option<(PathBuf, Vec<(&'static str, String)>)> {
    let quota = (share * f64::from(PERIOD_US)).round();
    let first = ["cpu", "cpu,cpuacct"].map(|name| root.join(name));
    if let Some(parent) = first.into_iter().find(|parent| parent.join("cpu.cfs_quota_us").exists()) {
        let files = [("cpu.cfs_period_us", PERIOD_US.to_string()), ("cpu.cfs_quota_us", quota.to_string())];
        return Some((parent, files.into()));
    }
    let has_cpu = |parent: &PathBuf| {
        let passed = fs::read_to_string(parent.join("cgroup.subtree_control")).unwrap_or_default();
        passed.split_whitespace().any(|name| name == "cpu")
    };
    let parent = [root.to_owned(), root.join("unified")].into_iter().find(has_cpu)?;
    Some((parent, vec![("cpu.max", format!("{quota} {PERIOD_US}"))]))
}

/// Removes the groups of those who were killed before they could.
fn clear(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if maker.is_some_and(|maker| !Path::new(&format!("/proc/{maker}")).exists()) {
            // One in which something runs stays.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

const PREFIX: &str = "quickset-shards-";

/// Short beside what clients wait for.
const PERIOD_US: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// cpu.cfs_quota_us is microseconds of each period, and cpu.max both (kernel documentation, sched-bwc and
    /// cgroup-v2).
    #[test]
    fn both_versions_are_told_so_much_of_each_period() {
        let root = tempfile::tempdir().expect("a folder");
        assert_eq!(place(root.path(), 0.3), None);
        fs::write(root.path().join("cgroup.subtree_control"), "memory cpu\n").expect("a file");
        let second = (root.path().to_owned(), vec![("cpu.max", "3000 10000".to_owned())]);
        assert_eq!(place(root.path(), 0.3), Some(second));
        let first = root.path().join("cpu,cpuacct");
        fs::create_dir(&first).expect("a folder");
        fs::write(first.join("cpu.cfs_quota_us"), "-1").expect("a file");
        let files = vec![("cpu.cfs_period_us", "10000".to_owned()), ("cpu.cfs_quota_us", "6000".to_owned())];
        assert_eq!(place(root.path(), 0.6), Some((first, files)));
    }

    #[test]
    fn groups_of_the_dead_go_and_others_stay() {
        let root = tempfile::tempdir().expect("a folder");
        let own = format!("{PREFIX}{}", std::process::id());
        // Linux gives no process this number: pid_max is 2^22 at most (proc_sys_kernel(5)).
        let dead = format!("{PREFIX}{}", (1 << 22) + 1);
        for name in [&own, &dead, "another"] {
            fs::create_dir(root.path().join(name)).expect("a folder");
        }
        clear(root.path());
        let left = |name: &str| root.path().join(name).exists();
        assert!(left(&own) && !left(&dead) && left("another"));
    }
}
