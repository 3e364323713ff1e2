//! `cargo xtask dist rpm`: a package for Fedora, openSUSE and their likes, of the program that needs no library:
//! each of them has its own libraries. cargo-generate-rpm makes it, since rpmbuild is no program of Debian's
//! developers; Debian's rpm then says what is in it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::alone::{DistTrial, built};
use super::tree::{PackageTree, files_below};
use super::{DistBuild, emptied, epoch, release, tell_size, work};
use crate::needs::{self, Needed};
use crate::run::{StepOutcome, output, run};
use crate::tools::cargo_with;
use crate::viewers::program;

pub(super) fn part(build: &DistBuild) -> Result<StepOutcome> {
    let handed = match built(build)? {
        Ok(handed) => handed,
        Err(missing) => return Ok(StepOutcome::Skipped(missing)),
    };
    needs::ensure(NEEDS)?;
    let work = work().join("rpm");
    let tree = PackageTree::new(&work, "tree")?;
    tree.fill(&handed.join("quickset"), "usr/share/zsh/site-functions/_quickset")?;
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        tree.file(Path::new(licence), &format!("usr/share/licenses/quickset/{licence}"), "644")?;
    }
    let files = tree.files()?;
    let settings = work.join("settings.toml");
    fs::write(&settings, rpm_settings(&tree.root, &files)?)?;
    let package = release().join(format!("quickset-{}-{RELEASE}.x86_64.rpm", env!("CARGO_PKG_VERSION")));
    run(cargo_with("cargo-generate-rpm", GENERATOR)?
        // It takes the time of the files from here, too.
        .env("SOURCE_DATE_EPOCH", epoch()?)
        .args(["generate-rpm", "--package", "crates/cli", "--arch", "x86_64", "--auto-req", "disabled"])
        .args(["--payload-compress", "zstd", "--metadata-overwrite"])
        .arg(&settings)
        .arg("--output")
        .arg(&package))?;
    tell_size(&package)?;
    holds(&package, &files)?;
    let bare = work.join("root");
    unpack(&package, &bare)?;
    ensure!(files_below(&bare)? == files, "what is unpacked is not what was packed");
    for file in &files {
        let [packed, unpacked] = [&tree.root, &bare].map(|root| fs::read(root.join(file)));
        ensure!(packed? == unpacked?, "{file} is not unpacked as it was packed");
    }
    DistTrial { root: &bare, program: "/usr/bin/quickset", user: 0, home: "/" }.run()?;
    Ok(StepOutcome::Done)
}

/// What rpm says of the package: its files, their owners and modes, its sums, what it needs, and that it could
/// be installed on a system that has a shell.
fn holds(package: &Path, files: &[String]) -> Result<()> {
    let query = |words: &[&str]| output(Command::new("rpm").args(["--query"]).args(words).arg(package));
    let listed: BTreeSet<String> = query(&["--list"])?.lines().map(str::to_owned).collect();
    let packed: BTreeSet<String> = files.iter().map(|file| format!("/{file}")).collect();
    ensure!(listed == packed, "rpm lists {:?}", listed.symmetric_difference(&packed).collect::<Vec<_>>());
    let modes =
        query(&["--queryformat", "[%{FILEMODES:perms} %{FILEUSERNAME} %{FILEGROUPNAME} %{FILENAMES}\\n]"])?;
    for line in modes.lines() {
        let expected = if line.ends_with(" /usr/bin/quickset") { "-rwxr-xr-x" } else { "-rw-r--r--" };
        ensure!(
            line.starts_with(&format!("{expected} root root /")),
            "a file of another mode or owner: {line}"
        );
    }
    let needed = query(&["--requires"])?;
    // rpm's own promises of what it can read, and the shell of the scripts.
    let others = needed.lines().filter(|need| !need.starts_with("rpmlib(") && *need != "/bin/sh");
    let others: Vec<&str> = others.collect();
    ensure!(others.is_empty(), "the program needs nothing, and the package asks for {others:?}");
    run(Command::new("rpm").args(["--checksig", "--nosignature"]).arg(package))?;
    // A database of its own, which knows no package; the shell is the only thing that it would miss.
    let database = work().join("rpm/database");
    emptied(&database)?;
    let install = ["--install", "--test", "--nosignature", "--ignoreos", "--dbpath"];
    let said = Command::new("rpm").args(install).arg(&database).arg(package).output()?;
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    let missing = said.lines().filter(|line| line.contains("is needed by"));
    let missing: Vec<&str> = missing.map(str::trim).collect();
    ensure!(
        missing.iter().all(|line| line.starts_with("/bin/sh ")) && !said.contains("conflict"),
        "rpm --install --test says: {said}"
    );
    Ok(())
}

/// The files of the package, below an empty folder.
fn unpack(package: &Path, to: &Path) -> Result<()> {
    emptied(to)?;
    let archive = work().join("rpm/payload.cpio");
    // How it ends says nothing: it compares what it wrote with a size that the generator does not note in the
    // package. What was written is compared with what was packed, file by file.
    Command::new("rpm2cpio").arg(package).stdout(File::create(&archive)?).status().context("rpm2cpio")?;
    run(Command::new("cpio")
        .current_dir(to)
        .args(["--extract", "--make-directories", "--no-absolute-filenames", "--quiet"])
        .stdin(File::open(&archive)?))
}

/// What cargo-generate-rpm reads beside the table in the crate's manifest: files that are known only here.
fn rpm_settings(root: &Path, files: &[String]) -> Result<String> {
    let quoted = |text: &str| serde_json::to_string(text).context("a text can be quoted");
    let mut settings = format!(
        "release = \"{RELEASE}\"\npre_uninstall_script = {}\npost_uninstall_script = {}\n",
        quoted(PRE_UNINSTALL)?,
        quoted(POST_UNINSTALL)?,
    );
    for file in files {
        let mode = if file.starts_with("usr/bin/") { "755" } else { "644" };
        let is_doc = file.starts_with("usr/share/doc/") || file.starts_with("usr/share/man/");
        let source = root.join(file);
        let source = source.to_str().context("a path of the package is UTF-8")?;
        writeln!(
            settings,
            "[[assets]]\nsource = {}\ndest = {}\nmode = \"{mode}\"\ndoc = {is_doc}",
            quoted(source)?,
            quoted(&format!("/{file}"))?,
        )?;
    }
    // Who has no authorities to believe can still believe fingerprints.
    settings += "[recommends]\nca-certificates = \"*\"\n";
    Ok(settings)
}

/// As systemd's macros have it for units that nobody asked to be enabled: 0 packages of the name are left when
/// it is removed, 1 when it is replaced.
const PRE_UNINSTALL: &str = "\
if [ \"$1\" -eq 0 ] && [ -d /run/systemd/system ]; then
    systemctl stop 'quickset@*.service' || :
fi
";
const POST_UNINSTALL: &str = "\
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || :
    if [ \"$1\" -ge 1 ]; then
        systemctl try-restart 'quickset@*.service' || :
    fi
fi
";

/// Of this version, the first package.
const RELEASE: &str = "1";
/// The one that it was tried with: what it reads has changed between versions.
const GENERATOR: &str = "=0.21.1";

const NEEDS: &[Needed] = &[
    program("rpm", "rpm", "dist: what is in a package of RPM"),
    program("rpm2cpio", "rpm2cpio", "dist: the files of a package of RPM"),
    program("cpio", "cpio", "dist: the files of a package of RPM"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_name_each_file_with_its_place_and_mode() {
        let files = ["usr/bin/quickset".to_owned(), "usr/share/doc/quickset/a \"b\"".to_owned()];
        let settings = rpm_settings(Path::new("/t"), &files).unwrap();
        let program =
            "source = \"/t/usr/bin/quickset\"\ndest = \"/usr/bin/quickset\"\nmode = \"755\"\ndoc = false\n";
        assert!(settings.contains(program), "{settings}");
        assert!(
            settings.contains("dest = \"/usr/share/doc/quickset/a \\\"b\\\"\"\nmode = \"644\"\ndoc = true\n")
        );
    }
}
