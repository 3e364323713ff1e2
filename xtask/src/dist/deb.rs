//! A package for Debian: a tree of files, and `dpkg-deb` over it. Manual pages, completions and scripts would
//! have to be made before cargo-deb as well, which then is one more program to build; what Debian asks of a
//! package lintian says in any case.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::{NEEDS, tell_size};
use crate::needs::ensure;
use crate::run::{cargo, output, root, run};

/// Makes the package of what is in `handed`, as the `revision`th of this version, and returns its path. One
/// of Debian's own would be newer.
pub(super) fn package(handed: &Path, revision: u32) -> Result<PathBuf> {
    ensure(NEEDS)?;
    let work = root().join("target/dist");
    let tree = PackageTree {
        root: work.join("tree"),
        version: format!("{}-0upstream{revision}", env!("CARGO_PKG_VERSION")),
    };
    if tree.root.exists() {
        fs::remove_dir_all(&tree.root)?;
    }
    let program = handed.join("quickset");
    tree.file(&program, "usr/bin/quickset", "755")?;
    tree.said_by(&program, &work)?;
    tree.documents(&work)?;
    tree.units()?;
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

/// What the package will have, as it lies below `/`.
struct PackageTree {
    root: PathBuf,
    version: String,
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
        let version = &self.version;
        let text = format!(
            "quickset ({version}) unstable; urgency=medium\n\n  * The version of upstream; see changelog.gz.\n\n -- {MAINTAINER}  {date}"
        );
        fs::write(&changes, text)?;
        self.packed(&changes, &place("changelog.Debian"))
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
            "Package: quickset\nVersion: {}\nArchitecture: {}\nMaintainer: {MAINTAINER}\nInstalled-Size: {size}\n\
             Depends: {}\nRecommends: ca-certificates\nSuggests: tigervnc-standalone-server, tigervnc-viewer\n\
             Section: net\nPriority: optional\nHomepage: {}\n{DESCRIPTION}",
            self.version,
            architecture.trim(),
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

const MAINTAINER: &str = "The Quickset authors <quickset@users.noreply.github.com>";

const DESCRIPTION: &str = "\
Description: QUIC and HTTP/3 for data that is late when it is lost
 Gateways that carry any VNC server's desktop to any VNC viewer over a network
 that loses packets, a server and a client of HTTP/3, a player of DASH, an
 emulated link, and a laboratory of experiments in virtual time.
 .
 Messages are repaired from what was sent along with them, before anybody waits
 for them to be sent again, and may overtake each other between fences.
";
