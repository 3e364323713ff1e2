//! A package for Debian: a tree of files, and `dpkg-deb` over it. Manual pages, completions and scripts would
//! have to be made before cargo-deb as well, which then is one more program to build; what Debian asks of a
//! package lintian says in any case.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use super::{NEEDS, tell_size};
use crate::needs;
use crate::run::{cargo, output, root, run};

/// Makes the package of what is in `handed`, as the `revision`th of this version, and returns its path. One
/// of Debian's own would be newer.
pub(super) fn package(handed: &Path, revision: u32) -> Result<PathBuf> {
    needs::ensure(NEEDS)?;
    let work = root().join("target/dist");
    let tree = PackageTree {
        root: work.join("tree"),
        version: format!("{}-0upstream{revision}", env!("CARGO_PKG_VERSION")),
        releaser: Releaser::of_environment()?,
    };
    if tree.releaser.is_none() {
        println!("nobody is named who answers for this package: to release it, set {NAME} and {ADDRESS}");
    }
    if tree.root.exists() {
        fs::remove_dir_all(&tree.root)?;
    }
    let program = handed.join("quickset");
    tree.file(&program, "usr/bin/quickset", "755")?;
    tree.said_by(&program, &work)?;
    tree.documents(&work)?;
    tree.units()?;
    // What administrators write is theirs; the folder is the package's.
    run(Command::new("install").args(["-d", "-m", "755"]).arg(tree.root.join("etc/quickset")))?;
    tree.control(&program, &work)?;
    let architecture = output(Command::new("dpkg").arg("--print-architecture"))?;
    let package = work.join(format!("quickset_{}_{}.deb", tree.version, architecture.trim()));
    // The same commit gives the same bytes.
    let commit = output(Command::new("git").args(["log", "-1", "--format=%ct"]))?;
    run(Command::new("dpkg-deb")
        .env("SOURCE_DATE_EPOCH", commit.trim())
        .args(["--root-owner-group", "-Zxz", "--build"])
        .args([&tree.root, &package]))?;
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

/// What the package will have, as it lies below `/`.
struct PackageTree {
    root: PathBuf,
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

impl PackageTree {
    fn file(&self, from: &Path, to: &str, mode: &str) -> Result<()> {
        run(Command::new("install").args(["-D", "-m", mode]).arg(from).arg(self.root.join(to)))
    }

    /// The same, packed so that it is the same each time.
    fn packed(&self, from: &Path, to: &str) -> Result<()> {
        self.file(from, to, "644")?;
        run(Command::new("gzip").args(["-9", "--no-name", "--force"]).arg(self.root.join(to)))
    }

    /// Pages of the manual and completions, which the program knows itself.
    fn said_by(&self, program: &Path, work: &Path) -> Result<()> {
        let pages = work.join("man");
        if pages.exists() {
            fs::remove_dir_all(&pages)?;
        }
        run(Command::new(program).arg("manual").arg(&pages))?;
        for page in fs::read_dir(&pages)? {
            let page = page?.path();
            let name = page.file_name().and_then(|name| name.to_str()).context("a page has a name")?;
            self.packed(&page, &format!("usr/share/man/man1/{name}"))?;
        }
        for (shell, place) in [
            ("bash", "usr/share/bash-completion/completions/quickset"),
            ("zsh", "usr/share/zsh/vendor-completions/_quickset"),
            ("fish", "usr/share/fish/vendor_completions.d/quickset.fish"),
        ] {
            let file = work.join(shell);
            fs::write(&file, output(Command::new(program).args(["completions", shell]))?)?;
            self.file(&file, place, "644")?;
        }
        Ok(())
    }

    fn documents(&self, work: &Path) -> Result<()> {
        let place = |name: &str| format!("usr/share/doc/quickset/{name}");
        self.file(Path::new("packaging/copyright"), &place("copyright"), "644")?;
        self.packed(Path::new("CHANGELOG.md"), &place("changelog"))?;
        self.packed(Path::new("README.md"), &place("README.md"))?;
        for example in ["site.conf", "desktop.conf"] {
            let to = place(&format!("examples/{example}"));
            self.file(&Path::new("packaging").join(example), &to, "644")?;
        }
        let (crates, changes) = (work.join("crates"), work.join("changelog.Debian"));
        let tree = ["tree", "--locked", "--package", "quickset-cli", "--edges", "normal", "--prefix", "none"];
        let tree = output(cargo().args(tree).args(["--no-dedupe", "--format", "{p} {l}"]))?;
        let mut list: Vec<&str> = tree.lines().filter(|line| !line.contains(" (/")).collect();
        list.sort_unstable();
        list.dedup();
        fs::write(&crates, list.join("\n") + "\n")?;
        self.packed(&crates, &place("crates"))?;
        let date = output(Command::new("git").args(["log", "-1", "--format=%cD"]))?;
        // Debian's word for what was not released.
        let whither = if self.releaser.is_some() { "unstable" } else { "UNRELEASED" };
        let (version, maintainer) = (&self.version, self.maintainer());
        let text = format!(
            "quickset ({version}) {whither}; urgency=medium\n\n  * The version of upstream; see changelog.gz.\n\n -- {maintainer}  {date}"
        );
        fs::write(&changes, text)?;
        self.packed(&changes, &place("changelog.Debian"))
    }

    fn maintainer(&self) -> &str {
        self.releaser.as_ref().map_or(NOBODY, |releaser| &releaser.0)
    }

    fn units(&self) -> Result<()> {
        for (unit, place) in [("quickset@.service", "system"), ("quickset-desktop.service", "user")] {
            let to = format!("usr/lib/systemd/{place}/{unit}");
            self.file(&Path::new("packaging").join(unit), &to, "644")?;
        }
        Ok(())
    }

    /// What dpkg reads: of what the package is, what it needs, what is done with it, and its sums.
    fn control(&self, program: &Path, work: &Path) -> Result<()> {
        for script in ["postinst", "prerm", "postrm"] {
            self.file(&Path::new("packaging").join(script), &format!("DEBIAN/{script}"), "755")?;
        }
        let sums = "find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum > DEBIAN/md5sums";
        run(Command::new("sh").current_dir(&self.root).args(["-c", sums]))?;
        let size = output(Command::new("du").args(["-sk", "--apparent-size"]).arg(self.root.join("usr")))?;
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
        Ok(fs::write(self.root.join("DEBIAN/control"), control)?)
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
