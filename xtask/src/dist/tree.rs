//! The files of a package for a system, as they lie below `/`, of which packages of several kinds are made.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::emptied;
use crate::run::{cargo, output, run};

/// A folder that stands for `/`, and one for what is made on the way.
pub(super) struct PackageTree {
    pub(super) root: PathBuf,
    pub(super) work: PathBuf,
}

impl PackageTree {
    /// An empty one, `name` below `work`.
    pub(super) fn new(work: &Path, name: &str) -> Result<Self> {
        let tree = Self { root: work.join(name), work: work.to_owned() };
        emptied(&tree.root)?;
        Ok(tree)
    }

    /// What all packages have: the program, what it says of itself, documents, and units of systemd.
    /// Completions of zsh lie elsewhere on each system.
    pub(super) fn fill(&self, program: &Path, zsh: &str) -> Result<()> {
        self.file(program, "usr/bin/quickset", "755")?;
        self.said_by(program, zsh, "usr/share")?;
        self.documents()?;
        self.units()
    }

    pub(super) fn file(&self, from: &Path, to: &str, mode: &str) -> Result<()> {
        run(Command::new("install").args(["-D", "-m", mode]).arg(from).arg(self.root.join(to)))
    }

    /// The same, packed so that it is the same each time.
    pub(super) fn packed(&self, from: &Path, to: &str) -> Result<()> {
        self.file(from, to, "644")?;
        run(Command::new("gzip").args(["-9", "--no-name", "--force"]).arg(self.root.join(to)))
    }

    /// Pages of the manual and completions, which the program knows itself, below the folder `share`.
    pub(super) fn said_by(&self, program: &Path, zsh: &str, share: &str) -> Result<()> {
        let pages = self.work.join("man");
        if pages.exists() {
            fs::remove_dir_all(&pages)?;
        }
        run(Command::new(program).arg("manual").arg(&pages))?;
        for page in fs::read_dir(&pages)? {
            let page = page?.path();
            let name = page.file_name().and_then(|name| name.to_str()).context("a page has a name")?;
            self.packed(&page, &format!("{share}/man/man1/{name}"))?;
        }
        for (shell, place) in [
            ("bash", format!("{share}/bash-completion/completions/quickset").as_str()),
            ("zsh", zsh),
            ("fish", &format!("{share}/fish/vendor_completions.d/quickset.fish")),
        ] {
            let file = self.work.join(shell);
            fs::write(&file, output(Command::new(program).args(["completions", shell]))?)?;
            self.file(&file, place, "644")?;
        }
        Ok(())
    }

    pub(super) fn documents(&self) -> Result<()> {
        let place = |name: &str| format!("usr/share/doc/quickset/{name}");
        self.file(Path::new("packaging/copyright"), &place("copyright"), "644")?;
        self.packed(Path::new("CHANGELOG.md"), &place("changelog"))?;
        self.packed(Path::new("README.md"), &place("README.md"))?;
        for example in ["site.conf", "desktop.conf"] {
            let to = place(&format!("examples/{example}"));
            self.file(&Path::new("packaging").join(example), &to, "644")?;
        }
        let crates = self.work.join("crates");
        let tree = ["tree", "--locked", "--package", "quickset-cli", "--edges", "normal", "--prefix", "none"];
        let tree = output(cargo().args(tree).args(["--no-dedupe", "--format", "{p} {l}"]))?;
        let mut list: Vec<&str> = tree.lines().filter(|line| !line.contains(" (/")).collect();
        list.sort_unstable();
        list.dedup();
        fs::write(&crates, list.join("\n") + "\n")?;
        self.packed(&crates, &place("crates"))
    }

    fn units(&self) -> Result<()> {
        for (unit, place) in [("quickset@.service", "system"), ("quickset-desktop.service", "user")] {
            let to = format!("usr/lib/systemd/{place}/{unit}");
            self.file(&Path::new("packaging").join(unit), &to, "644")?;
        }
        Ok(())
    }

    /// The files, as paths from the root, in order.
    pub(super) fn files(&self) -> Result<Vec<String>> {
        files_below(&self.root)
    }
}

/// What lies in a folder and is no folder, as paths from it, in order.
pub(super) fn files_below(folder: &Path) -> Result<Vec<String>> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).with_context(|| format!("{} cannot be read", next.display()))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else {
                let path = entry.path();
                let name = path.strip_prefix(folder)?.to_str().context("the name of a file is UTF-8")?;
                found.push(name.to_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::root;

    #[test]
    fn the_files_of_a_folder_are_told_in_order() {
        let crates = files_below(&root().join("packaging")).expect("it is there");
        assert!(crates.contains(&"quickset@.service".to_owned()));
        assert!(crates.is_sorted());
        let sources = files_below(&root().join("xtask")).expect("it is there");
        assert!(sources.contains(&"src/dist/tree.rs".to_owned()), "{sources:?}");
    }
}
