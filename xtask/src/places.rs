//! What compilers are told, so that what they make does not depend on the folders of this machine: two builds
//! of one commit give the same bytes, wherever the sources and the tools lie.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::run::{output, root};

/// Folders of this machine, each with the name that it has in what is built.
pub(crate) struct PlaceNames(Vec<(String, String)>);

impl PlaceNames {
    /// Of the repository, cargo's registry, the toolchain and the standard library.
    ///
    /// # Errors
    /// When there is no rustc that says where it is.
    pub(crate) fn of_this_machine() -> Result<Self> {
        let home = std::env::var("CARGO_HOME").unwrap_or_else(|_| {
            std::env::var("HOME").map(|home| format!("{home}/.cargo")).unwrap_or_default()
        });
        let rust = output(Command::new("rustc").args(["--print", "sysroot"]))?;
        let about = output(Command::new("rustc").arg("-vV"))?;
        let commit = about.lines().find_map(|line| line.strip_prefix("commit-hash: ")).unwrap_or("unknown");
        // Where the sources of the standard library are not there, the compiler calls them so; the last one
        // that fits counts.
        let library = (format!("{}/lib/rustlib/src/rust", rust.trim()), format!("/rustc/{commit}"));
        Ok(Self(vec![
            (root().display().to_string(), "/src".to_owned()),
            (home, "/cargo".to_owned()),
            (rust.trim().to_owned(), "/rust".to_owned()),
            library,
        ]))
    }

    /// The same, where cargo writes into a folder outside of the repository.
    pub(crate) fn with_target(mut self, target: &Path) -> Self {
        if target.is_absolute() && !target.starts_with(root()) {
            // Before the others: one of them may be a part of it.
            self.0.push((target.display().to_string(), "/src/target".to_owned()));
        }
        self
    }

    /// For rustc.
    pub(crate) fn of_rust(&self) -> String {
        self.words("--remap-path-prefix")
    }

    /// For the compilers of C and C++ that build scripts call.
    pub(crate) fn of_c(&self) -> String {
        self.words("-ffile-prefix-map")
    }

    fn words(&self, option: &str) -> String {
        let words = self.0.iter().filter(|(place, _)| !place.is_empty());
        words.map(|(place, name)| format!("{option}={place}={name}")).collect::<Vec<_>>().join(" ")
    }
}

/// Where cargo writes what it builds.
pub(crate) fn target_folder() -> PathBuf {
    PathBuf::from(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_compilers_get_the_same_names() {
        let names =
            PlaceNames(vec![("/home/ann/quickset".into(), "/src".into()), (String::new(), "/x".into())]);
        assert_eq!(names.of_rust(), "--remap-path-prefix=/home/ann/quickset=/src");
        assert_eq!(names.of_c(), "-ffile-prefix-map=/home/ann/quickset=/src");
    }

    #[test]
    fn a_target_elsewhere_has_the_name_that_it_has_within() {
        let names = PlaceNames(Vec::new()).with_target(Path::new("/var/builds"));
        assert_eq!(names.of_rust(), "--remap-path-prefix=/var/builds=/src/target");
        let within = root().join("target");
        assert_eq!(PlaceNames(Vec::new()).with_target(&within).of_rust(), "");
        assert_eq!(PlaceNames(Vec::new()).with_target(Path::new("target")).of_rust(), "");
    }
}
