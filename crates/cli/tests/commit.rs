//! What rows say of the build: two states of the code never have the same name.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "../commit.rs"]
mod commit;

/// A repository that goes away again.
struct Repository(PathBuf);

impl Repository {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("quickset-commit-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("crates/one/src")).unwrap();
        fs::create_dir_all(path.join("docs")).unwrap();
        let new = Self(path);
        new.write("Cargo.toml", "[workspace]");
        new.write("crates/one/src/lib.rs", "// as it was");
        new.write("docs/page.md", "words");
        new.git(&["init", "-q"]);
        new.commit();
        new
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.0.join(path), text).unwrap();
    }

    fn git(&self, words: &[&str]) {
        // Whatever the user's own settings are.
        let own = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
        let status = Command::new("git").arg("-C").arg(&self.0).args(own).args(words).status();
        assert!(status.unwrap().success(), "{words:?}");
    }

    fn commit(&self) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", "a state"]);
    }

    fn name(&self) -> String {
        commit::name(&self.0)
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn each_state_of_the_code_has_a_name_of_its_own() {
    let repository = Repository::new();
    let clean = repository.name();
    assert!(clean.len() == 12 && clean.bytes().all(|byte| byte.is_ascii_hexdigit()), "{clean}");

    repository.write("crates/one/src/lib.rs", "// one thing");
    let one = repository.name();
    repository.write("crates/one/src/lib.rs", "// another");
    let other = repository.name();
    for name in [&one, &other] {
        assert!(name.strip_prefix(&clean).is_some_and(|rest| rest.starts_with('+')), "{name}");
    }
    assert_ne!(one, other);
    repository.write("crates/one/src/lib.rs", "// one thing");
    assert_eq!(repository.name(), one, "the same code");
    repository.write("crates/one/src/lib.rs", "// as it was");
    assert_eq!(repository.name(), clean);

    // A file that git does not know yet, and one that moves.
    repository.write("crates/one/src/new.rs", "// as it was");
    let new = repository.name();
    fs::rename(repository.0.join("crates/one/src/new.rs"), repository.0.join("crates/one/src/old.rs"))
        .unwrap();
    let names = [&clean, &one, &other, &new, &repository.name()].map(String::clone);
    assert_eq!(std::collections::BTreeSet::from(names.clone()).len(), names.len(), "{names:?}");
    repository.commit();
    assert_eq!(repository.name().len(), 12);

    // Words change no row.
    repository.write("docs/page.md", "other words");
    assert_eq!(repository.name().len(), 12);
}

#[test]
fn the_build_looks_again_when_code_or_commit_change() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if !root.join(".git").exists() {
        eprintln!("SKIPPED: these sources lie in no repository");
        return;
    }
    let watched = commit::watched(&root);
    for path in ["Cargo.lock", "crates/quic/src", "crates/lab/data"] {
        assert!(watched.contains(&root.join(path)), "{path}: {watched:?}");
    }
    assert!(watched.iter().any(|path| path.ends_with("logs/HEAD")), "{watched:?}");
}
