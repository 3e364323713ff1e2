use std::fs::{self, File};
use std::io;

use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{Gid, Uid};

use super::TunnelError;

/// A network namespace, which lives as long as this or a process in it.
#[derive(Debug)]
pub(crate) struct Namespace(File);

impl Namespace {
    /// That of the calling thread.
    pub(crate) fn current() -> Result<Self, TunnelError> {
        let file = File::open("/proc/thread-self/ns/net");
        file.map(Self).map_err(|source| TunnelError::System { what: "/proc has no namespaces", source })
    }

    /// A new one, in which the calling thread is from now on, with what it starts.
    pub(crate) fn fresh() -> Result<Self, TunnelError> {
        unshare(CloneFlags::CLONE_NEWNET).map_err(namespaces)?;
        Self::current()
    }

    /// A new one for a user who may not make any: by way of a user namespace, in which they may. It can only
    /// be entered by a process of one thread, and not left.
    pub(crate) fn fresh_of_user() -> Result<Self, TunnelError> {
        let (user, group) = (Uid::effective(), Gid::effective());
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET).map_err(namespaces)?;
        // Everybody stays who they are (user_namespaces(7)); the capabilities are ours whatever our number
        // is, and end with the next program that is executed.
        fs::write("/proc/self/setgroups", "deny")
            .and_then(|()| fs::write("/proc/self/uid_map", format!("{user} {user} 1")))
            .and_then(|()| fs::write("/proc/self/gid_map", format!("{group} {group} 1")))
            .map_err(|source| TunnelError::Namespaces { source, hint: hint() })?;
        Self::current()
    }

    /// Moves the calling thread into it.
    pub(crate) fn enter(&self) -> io::Result<()> {
        setns(&self.0, CloneFlags::CLONE_NEWNET).map_err(io::Error::from)
    }
}

fn namespaces(error: nix::Error) -> TunnelError {
    TunnelError::Namespaces { source: error.into(), hint: hint() }
}

/// What would help, as far as this system shows it.
fn hint() -> String {
    let settings = [
        ("kernel.unprivileged_userns_clone", "0", "1"),
        ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
        ("user.max_user_namespaces", "0", "10000"),
        ("user.max_net_namespaces", "0", "10000"),
    ];
    let bar = settings.iter().find(|(name, bad, _)| {
        let file = format!("/proc/sys/{}", name.replace('.', "/"));
        fs::read_to_string(file).is_ok_and(|value| value.trim() == *bad)
    });
    match bar {
        Some((name, _, good)) => format!("as root, `sysctl -w {name}={good}` allows them"),
        None => {
            "inside a container, start it with the capability SYS_ADMIN (docker: --privileged)".to_owned()
        }
    }
}
