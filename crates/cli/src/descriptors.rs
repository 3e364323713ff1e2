//! Descriptors of the system: each socket and each open file is one.

/// Systems give programs few of them unless they ask for all that they may have. Asks for those, and returns
/// how many there are now; without, it goes on with what there was.
pub(crate) fn take_all() -> usize {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let most = getrlimit(Resource::Nofile).maximum;
        let _ = setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most });
        let now = getrlimit(Resource::Nofile).current;
        now.map_or(usize::MAX, |now| usize::try_from(now).unwrap_or(usize::MAX))
    }
    #[cfg(not(unix))]
    usize::MAX
}
