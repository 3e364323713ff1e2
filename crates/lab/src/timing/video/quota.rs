//! A part of a processor: a control group whose processes get so much time of each period together
//! (cgroups(7)), and no more however idle the machine is.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::scratch::ScratchFile;

/// A group, which is there while this is; what runs in it at its end is killed.
#[derive(Debug)]
pub(super) struct Quota(ScratchFile);

/// Why there is none: one sentence with the next step.
#[derive(Debug, thiserror::Error)]
pub(super) enum QuotaError {
    /// The system has no such groups, or not for us.
    #[error(
        "no group of processes can be given a part of a processor here: the system has the controller `cpu` neither below \
         /sys/fs/cgroup/cpu nor for the groups above this process (cgroup.subtree_control); run it where it is there, \
         such as on the machine itself and not in a container"
    )]
    Missing,
    /// It does not let us.
    #[error(
        "the group of processes {0} cannot be given a part of a processor: {1}; run it as root, and in a container with the \
         right to change /sys/fs/cgroup (docker run --privileged)"
    )]
    Refused(PathBuf, io::Error),
}

/// Where groups may be made, and how they are told.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CgroupPlace {
    parent: PathBuf,
    version: CgroupVersion,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CgroupVersion {
    One,
    Two,
}

impl Quota {
    /// A group that gets this part of a core's time.
    ///
    /// # Errors
    /// See [`QuotaError`].
    pub(super) fn new(share: f64) -> Result<Self, QuotaError> {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let place = CgroupPlace::find(Path::new("/sys/fs/cgroup"), &groups).ok_or(QuotaError::Missing)?;
        let refused = |error| QuotaError::Refused(place.parent.clone(), error);
        let group = ScratchFile::group(&place.parent).map_err(refused)?;
        for (name, value) in place.version.settings(share) {
            fs::write(group.path().join(name), value).map_err(refused)?;
        }
        Ok(Self(group))
    }

    /// Takes a process into the group, with all that it will start.
    ///
    /// # Errors
    /// See [`QuotaError`].
    pub(super) fn take(&self, process: u32) -> Result<(), QuotaError> {
        let path = self.0.path();
        let taken = fs::write(path.join("cgroup.procs"), process.to_string());
        taken.map_err(|error| QuotaError::Refused(path.to_owned(), error))
    }
}

impl CgroupVersion {
    /// Files of a group and what to write to them, in this order: a period that is long comes before what it
    /// holds.
    fn settings(self, share: f64) -> Vec<(&'static str, String)> {
        let quota_us = (share * f64::from(PERIOD_US)).round();
        match self {
            Self::One => {
                vec![("cpu.cfs_period_us", PERIOD_US.to_string()), ("cpu.cfs_quota_us", quota_us.to_string())]
            }
            Self::Two => vec![("cpu.max", format!("{quota_us} {PERIOD_US}"))],
        }
    }
}

impl CgroupPlace {
    /// Looks for one below `root`, where cgroups are mounted, for a process that is in `groups`: lines of
    /// ID:CONTROLLERS:PATH, of version 2 without controllers.
    fn find(root: &Path, groups: &str) -> Option<Self> {
        let lines = groups.lines().filter_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            Some((fields.next()?, fields.next()?))
        });
        let mut lines: Vec<(&str, &str)> = lines.collect();
        // Where both are there, processors are where version 1 has them.
        lines.sort_by_key(|(controllers, _)| controllers.is_empty());
        lines.into_iter().find_map(|(controllers, path)| {
            if controllers.is_empty() {
                return Self::second(&[root, &root.join("unified")], path);
            }
            controllers.split(',').any(|name| name == "cpu").then(|| Self::first(root, controllers, path))?
        })
    }

    /// Below our own group, or below all groups where that cannot be seen, as in a container.
    fn first(root: &Path, controllers: &str, path: &str) -> Option<Self> {
        let mounts = [root.join("cpu"), root.join(controllers)];
        let groups = mounts.iter().flat_map(|mount| [within(mount, path), mount.clone()]);
        let has_quota = |group: &PathBuf| group.join("cpu.cfs_quota_us").exists();
        groups.into_iter().find(has_quota).map(|parent| Self { parent, version: CgroupVersion::One })
    }

    /// A group with processes gives none to groups below it, so that it is the nearest one above us that may.
    fn second(mounts: &[&Path], path: &str) -> Option<Self> {
        let has_processor = |group: &&Path| {
            let passed_on = fs::read_to_string(group.join("cgroup.subtree_control")).unwrap_or_default();
            passed_on.split_whitespace().any(|name| name == "cpu")
        };
        mounts.iter().find_map(|mount| {
            let own = within(mount, path);
            let parent = own.ancestors().take_while(|group| group.starts_with(mount)).find(has_processor)?;
            Some(Self { parent: parent.to_owned(), version: CgroupVersion::Two })
        })
    }
}

/// The folder of a group. Of one that lies outside of what we see of groups there is none but the mount
/// itself.
fn within(mount: &Path, path: &str) -> PathBuf {
    if path.split('/').any(|part| part == "..") {
        return mount.to_owned();
    }
    mount.join(path.trim_start_matches('/'))
}

/// Short beside what players wait for, and with room for parts of it: the system gives a group a millisecond
/// at least.
pub(super) const PERIOD_US: u32 = 10_000;
/// Of one core, by that.
pub(super) const LEAST_SHARE: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    /// Folders with files, below a root that goes again.
    fn tree(files: &[(&str, &str)]) -> ScratchFile {
        let root = ScratchFile::folder().unwrap();
        for (name, content) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        root
    }

    fn found(files: &[(&str, &str)], groups: &str) -> Option<(String, CgroupVersion)> {
        let root = tree(files);
        let place = CgroupPlace::find(root.path(), groups)?;
        let parent = place.parent.strip_prefix(root.path()).unwrap();
        Some((parent.to_str().unwrap().to_owned(), place.version))
    }

    #[test]
    fn the_first_version_has_groups_below_our_own() {
        let groups = "5:cpuset:/x\n4:cpu,cpuacct:/a/b\n0::/c\n";
        let (own, root) =
            (("cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1"), ("cpu,cpuacct/cpu.cfs_quota_us", "-1"));
        let unified = ("unified/c/cgroup.subtree_control", "cpu");
        let first = |path: &str| Some((path.to_owned(), CgroupVersion::One));
        assert_eq!(found(&[own, root, unified], groups), first("cpu,cpuacct/a/b"));
        // In a container whose own group is what is mounted.
        assert_eq!(found(&[root], groups), first("cpu,cpuacct"));
        assert_eq!(found(&[("cpu/cpu.cfs_quota_us", "-1")], "1:cpu:/\n"), first("cpu"));
        // `cpuset` is no `cpu`.
        assert_eq!(found(&[own], "5:cpuset:/a/b\n"), None);
    }

    #[test]
    fn the_second_version_has_groups_below_the_nearest_that_passes_processors_on() {
        let groups = "0::/user.slice/session.scope\n";
        let files = [
            ("cgroup.subtree_control", "cpuset cpu io"),
            ("user.slice/cgroup.subtree_control", "cpu memory"),
            ("user.slice/session.scope/cgroup.subtree_control", ""),
        ];
        let second = |path: &str| Some((path.to_owned(), CgroupVersion::Two));
        assert_eq!(found(&files, groups), second("user.slice"));
        assert_eq!(found(&files[..1], groups), second(""));
        assert_eq!(found(&files, "0::/../other\n"), second(""));
        // `cpuset` alone is not enough, and nobody looks above what is mounted.
        assert_eq!(found(&[("cgroup.subtree_control", "cpuset memory")], groups), None);
        assert_eq!(found(&[], ""), None);
    }

    /// cpu.cfs_quota_us is microseconds of each period, and cpu.max both (kernel documentation, sched-bwc and
    /// cgroup-v2).
    #[test]
    fn a_share_is_so_much_of_each_period() {
        let one = CgroupVersion::One.settings(0.25);
        assert_eq!(one, [("cpu.cfs_period_us", "10000".to_owned()), ("cpu.cfs_quota_us", "2500".to_owned())]);
        assert_eq!(CgroupVersion::Two.settings(0.123_45), [("cpu.max", "1235 10000".to_owned())]);
    }
}
