//! A package for Debian: a tree of files, and `dpkg-deb` over it. Manual pages, completions and scripts would
//! have to be made before cargo-deb as well, which then is one more program to build; what Debian asks of a
//! package lintian says in any case.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use super::tree::PackageTree;
use super::{DistBuild, NEEDS, epoch, handed, release, tell_size, work};
use crate::needs;
use crate::run::{StepOutcome, on_path, output, root, run};

/// The package of the program that takes Debian's libraries.
pub(super) fn part(build: &DistBuild) -> Result<StepOutcome> {
    if !on_path("dpkg-deb") {
        return Ok(StepOutcome::Skipped(
            "there is no dpkg-deb here, which only Debian and its likes have".into(),
        ));
    }
    package(&handed(build, None)?, 1, &release()).map(|_| StepOutcome::Done)
}

/// Makes the package of what is in `handed`, as the `revision`th of this version, in the folder `to`, and
/// returns its path. One of Debian's own would be newer.
pub(super) fn package(handed: &Path, revision: u32, to: &Path) -> Result<PathBuf> {
    needs::ensure(NEEDS)?;
    fs::create_dir_all(to)?;
    let work = work();
    let debian = DebianPackage {
        tree: PackageTree::new(&work, "tree")?,
        version: format!("{}-0upstream{revision}", env!("CARGO_PKG_VERSION")),
        releaser: Releaser::of_environment()?,
    };
    if debian.releaser.is_none() {
        println!("nobody is named who answers for this package: to release it, set {NAME} and {ADDRESS}");
    }
    let program = handed.join("quickset");
    debian.tree.fill(&program, "usr/share/zsh/vendor-completions/_quickset")?;
    debian.changes()?;
    // What administrators write is theirs; the folder is the package's.
    run(Command::new("install").args(["-d", "-m", "755"]).arg(debian.tree.root.join("etc/quickset")))?;
    debian.control(&program, &work)?;
    let architecture = output(Command::new("dpkg").arg("--print-architecture"))?;
    let package = to.join(format!("quickset_{}_{}.deb", debian.version, architecture.trim()));
    // The same commit gives the same bytes.
    run(Command::new("dpkg-deb")
        .env("SOURCE_DATE_EPOCH", epoch()?)
        .args(["--root-owner-group", "-Zxz", "--build"])
        .args([&debian.tree.root, &package]))?;
    tell_size(&package)?;
    Ok(package)
}

/// What Debian asks of a package.
pub(super) fn lint(package: &Path) -> Result<()> {
    let mut lintian = Command::new("lintian");
    lintian.args(["--fail-on", "error,warning", "--display-info"]);
    if Releaser::of_environment()?.is_none() {
        // It knows that mail to nobody comes back.
        lintian.args(["--suppress-tags", "bogus-mail-host,bogus-mail-host-in-debian-changelog"]);
    }
    run(lintian.arg(package))
}

/// A tree of files, and what Debian wants to know beside it.
struct DebianPackage {
    tree: PackageTree,
    version: String,
    /// Where nobody is named, this is no release.
    releaser: Option<Releaser>,
}

/// Who answers for a package that others get, `NAME <ADDRESS>` as Debian's tools take it.
#[derive(Debug, PartialEq, Eq)]
struct Releaser(String);

impl Releaser {
    fn of_environment() -> Result<Option<Self>> {
        Self::named(|name| std::env::var(name).ok())
    }

    /// By the variables by which Debian's own tools know who makes a package. `None` when neither is set.
    ///
    /// # Errors
    /// When one of both is missing, or is not what stands in a field of a package.
    fn named(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>> {
        let (name, address) = match [NAME, ADDRESS].map(|name| variable(name).filter(|text| !text.is_empty()))
        {
            [None, None] => return Ok(None),
            [Some(name), Some(address)] => (name, address),
            _ => bail!("set both {NAME} and {ADDRESS}, or neither"),
        };
        ensure!(
            !name.contains(['<', '>', ',', '@']) && !name.contains(char::is_control),
            "{NAME} is a name alone, and not {name:?}"
        );
        let is_address =
            address.split_once('@').is_some_and(|(who, host)| !who.is_empty() && host.contains('.'));
        ensure!(
            is_address && !address.contains(['<', '>', ',', ' ']) && !address.contains(char::is_control),
            "{ADDRESS} is an address alone, and not {address:?}"
        );
        Ok(Some(Self(format!("{name} <{address}>"))))
    }
}

impl DebianPackage {
    fn changes(&self) -> Result<()> {
        let changes = self.tree.work.join("changelog.Debian");
        let date = output(Command::new("git").args(["log", "-1", "--format=%cD"]))?;
        // Debian's word for what was not released.
        let whither = if self.releaser.is_some() { "unstable" } else { "UNRELEASED" };
        let (version, maintainer) = (&self.version, self.maintainer());
        let text = format!(
            "quickset ({version}) {whither}; urgency=medium\n\n  * The version of upstream; see changelog.gz.\n\n -- {maintainer}  {date}"
        );
        fs::write(&changes, text)?;
        self.tree.packed(&changes, "usr/share/doc/quickset/changelog.Debian")
    }

    fn maintainer(&self) -> &str {
        self.releaser.as_ref().map_or(NOBODY, |releaser| &releaser.0)
    }

    /// What dpkg reads: of what the package is, what it needs, what is done with it, and its sums.
    fn control(&self, program: &Path, work: &Path) -> Result<()> {
        for script in ["postinst", "prerm", "postrm"] {
            self.tree.file(&Path::new("packaging").join(script), &format!("DEBIAN/{script}"), "755")?;
        }
        let sums = "find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum > DEBIAN/md5sums";
        run(Command::new("sh").current_dir(&self.tree.root).args(["-c", sums]))?;
        let size =
            output(Command::new("du").args(["-sk", "--apparent-size"]).arg(self.tree.root.join("usr")))?;
        let size = size.split_whitespace().next().context("du says a number")?;
        let architecture = output(Command::new("dpkg").arg("--print-architecture"))?;
        let control = format!(
            "Package: quickset\nVersion: {}\nArchitecture: {}\nMaintainer: {}\nInstalled-Size: {size}\n\
             Depends: {}\nRecommends: ca-certificates\nSuggests: pulseaudio-utils, tigervnc-standalone-server, tigervnc-viewer\n\
             Section: net\nPriority: optional\nHomepage: {}\n{DESCRIPTION}",
            self.version,
            architecture.trim(),
            self.maintainer(),
            libraries(program, work)?,
            env!("CARGO_PKG_REPOSITORY"),
        );
        Ok(fs::write(self.tree.root.join("DEBIAN/control"), control)?)
    }
}

/// On which packages the program depends, and on which versions, by the symbols that it takes of them.
fn libraries(program: &Path, work: &Path) -> Result<String> {
    // It wants to stand in a source package.
    fs::create_dir_all(work.join("debian"))?;
    fs::write(work.join("debian/control"), "Source: quickset\n\nPackage: quickset\nArchitecture: any\n")?;
    let program = root().join(program);
    let said = output(Command::new("dpkg-shlibdeps").current_dir(work).arg("-O").arg(program))?;
    let depends = said.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
    Ok(depends.context("dpkg-shlibdeps says on what the program depends")?.to_owned())
}

/// Debian's variables for the name and the address of who makes a package (dch(1)).
const NAME: &str = "DEBFULLNAME";
const ADDRESS: &str = "DEBEMAIL";
/// For a package that its builder alone installs. Mail to `.invalid` reaches nobody, now or later (RFC 2606
/// §2).
const NOBODY: &str = "Quickset built by its user <nobody@quickset.invalid>";

const DESCRIPTION: &str = "\
Description: QUIC and HTTP/3 for data that is late when it is lost
 Gateways that carry any VNC server's desktop to any VNC viewer over a network
 that loses packets, a server and a client of HTTP/3, a player of DASH, an
 emulated link, and a laboratory of experiments in virtual time.
 .
 Messages are repaired from what was sent along with them, before anybody waits
 for them to be sent again, and may overtake each other between fences.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_releases_is_named_whole_or_not_at_all() {
        let named = |name: Option<&str>, address: Option<&str>| {
            Releaser::named(|variable| {
                let value = if variable == NAME { name } else { address };
                value.map(str::to_owned)
            })
        };
        assert_eq!(named(None, None).unwrap(), None);
        assert_eq!(named(Some(""), Some("")).unwrap(), None);
        let field = named(Some("Ann O'Nym"), Some("ann@example.org")).unwrap().unwrap().0;
        assert_eq!(field, "Ann O'Nym <ann@example.org>");
        for (name, address) in [
            (Some("Ann"), None),
            (None, Some("ann@example.org")),
            (Some("Ann <ann@example.org>"), Some("ann@example.org")),
            (Some("Ann"), Some("Ann <ann@example.org>")),
            (Some("Ann"), Some("ann")),
            (Some("Ann"), Some("ann@localhost")),
            (Some("Ann\nDepends: evil"), Some("ann@example.org")),
            (Some("Ann"), Some("ann@example.org\nDepends: evil")),
        ] {
            assert!(named(name, address).is_err(), "{name:?} {address:?}");
        }
    }

    #[test]
    fn the_copyright_says_where_the_source_is() {
        let file = std::fs::read_to_string(root().join("packaging/copyright")).unwrap();
        let source = format!("Source: {}", env!("CARGO_PKG_REPOSITORY"));
        assert!(file.lines().any(|line| line == source), "{source} is not in {file}");
    }
}
