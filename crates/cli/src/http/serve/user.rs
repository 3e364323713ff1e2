//! `--user`: a server that has its ports and keys gives up being root.

use std::ffi::CString;
use std::path::Path;
use std::str::FromStr;

use anyhow::Context as _;
use nix::unistd::{Gid, Group, Uid, User, geteuid, getgrouplist, setgid, setgroups, setuid};

/// Who it becomes: a user, by name or number, and perhaps a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UserName {
    user: String,
    group: Option<String>,
}

impl FromStr for UserName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (user, group) = text.split_once(':').map_or((text, None), |(user, group)| (user, Some(group)));
        if user.is_empty() || group.is_some_and(str::is_empty) {
            return Err("write NAME or NAME:GROUP, like www-data".to_owned());
        }
        Ok(Self { user: user.to_owned(), group: group.map(str::to_owned) })
    }
}

/// Somebody that this system knows.
#[derive(Debug)]
pub(super) struct Person {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

impl UserName {
    /// Looks it up, and whether that can be done at all, before anything is begun.
    ///
    /// # Errors
    /// When there is no such user or group, when it is root, and without root's rights.
    pub(super) fn person(&self) -> anyhow::Result<Person> {
        let known = || format!("{} cannot be looked up", self.user);
        let found = match self.user.parse() {
            Ok(number) => User::from_uid(Uid::from_raw(number)).with_context(known)?,
            Err(_) => User::from_name(&self.user).with_context(known)?,
        };
        let user =
            found.with_context(|| format!("there is no user {}; name another with --user", self.user))?;
        let gid = self.group.as_deref().map(group).transpose()?;
        let groups = match gid {
            Some(gid) => vec![gid],
            None => getgrouplist(&CString::new(user.name.clone())?, user.gid)
                .with_context(|| format!("the groups of {} cannot be looked up", self.user))?,
        };
        anyhow::ensure!(!user.uid.is_root(), "root stays root; name another user with --user");
        anyhow::ensure!(
            geteuid().is_root(),
            "only root can become {}; start it as root, or leave out --user",
            self.user
        );
        Ok(Person { uid: user.uid, gid: gid.unwrap_or(user.gid), groups })
    }
}

fn group(name: &str) -> anyhow::Result<Gid> {
    let known = || format!("the group {name} cannot be looked up");
    let found = match name.parse() {
        Ok(number) => Group::from_gid(Gid::from_raw(number)).with_context(known)?,
        Err(_) => Group::from_name(name).with_context(known)?,
    };
    Ok(found.with_context(|| format!("there is no group {name}; name another with --user"))?.gid)
}

impl Person {
    /// Becomes it, with all threads, and for ever.
    ///
    /// # Errors
    /// Those of the system, and when there is a way back.
    pub(super) fn become_it(&self) -> anyhow::Result<()> {
        let refused = "the system does not let it become another user";
        // In this order: each of the first two is root's alone.
        setgroups(&self.groups).context(refused)?;
        setgid(self.gid).context(refused)?;
        setuid(self.uid).context(refused)?;
        anyhow::ensure!(
            setuid(Uid::from_raw(0)).is_err() && !geteuid().is_root(),
            "it could become root again"
        );
        Ok(())
    }
}

/// Whether a folder can still be looked into.
///
/// # Errors
/// What the system says.
pub(super) fn still_reads(folder: &Path) -> anyhow::Result<()> {
    let read = folder.read_dir().map(drop);
    read.with_context(|| {
        format!("as another user it cannot read {}; let that one in", crate::say::named(folder))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_named_with_and_without_a_group() {
        let name = |user: &str, group: Option<&str>| {
            Ok(UserName { user: user.into(), group: group.map(Into::into) })
        };
        assert_eq!("www-data".parse(), name("www-data", None));
        assert_eq!("www-data:adm".parse(), name("www-data", Some("adm")));
        assert_eq!("1000:1000".parse(), name("1000", Some("1000")));
        for bad in ["", ":", "a:", ":b"] {
            assert!(bad.parse::<UserName>().unwrap_err().contains("NAME:GROUP"), "{bad}");
        }
    }

    #[test]
    fn nobody_becomes_whom_the_system_does_not_know() {
        let person =
            |text: &str| text.parse::<UserName>().unwrap().person().map(drop).unwrap_err().to_string();
        assert!(person("no-such-user").contains("there is no user no-such-user"));
        assert!(person("0:no-such-group").contains("there is no group no-such-group"));
        assert!(person("0").contains("root stays root"));
        if !geteuid().is_root() {
            assert!(person(&geteuid().to_string()).contains("only root"));
        }
    }
}
