//! Reading the Rust sources of the tree: which files there are, and which of their lines are tests.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// One Rust source file.
pub(crate) struct Source {
    /// From the root of the repository, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    /// All Rust files below `folder` (from the root of the repository), in order of path; none if it is not there.
    pub(crate) fn below(root: &Path, folder: &str) -> Result<Vec<Self>> {
        let mut files = Vec::new();
        collect(&root.join(folder), &mut files)?;
        files.sort();
        files
            .into_iter()
            .map(|file| {
                let text =
                    fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
                let path = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().replace('\\', "/");
                Ok(Self { path, text })
            })
            .collect()
    }

    /// True for files that hold nothing but tests, by where they lie or what they are called.
    pub(crate) fn is_test_file(&self) -> bool {
        let mut parts = self.path.split('/').rev();
        let file = parts.next().unwrap_or_default();
        file == "tests.rs"
            || file.ends_with("_tests.rs")
            || file.starts_with("test_")
            || parts.any(|dir| matches!(dir, "tests" | "benches" | "fuzz" | "fuzz_targets"))
    }

    /// For each line, whether it belongs to a test: the file is one, or the line is in an item under `#[cfg(test)]`.
    pub(crate) fn test_lines(&self) -> Vec<bool> {
        let lines: Vec<&str> = self.text.lines().collect();
        let mut marks = vec![self.is_test_file(); lines.len()];
        let mut i = 0;
        while i < lines.len() {
            if !lines[i].trim_start().starts_with("#[cfg(test)]") {
                i += 1;
                continue;
            }
            let end = item_end(&lines, i);
            marks[i..=end].fill(true);
            i = end + 1;
        }
        marks
    }
}

/// The last line of the item whose first attribute stands on line `start`. rustfmt closes an item at its own indent.
fn item_end(lines: &[&str], start: usize) -> usize {
    let indent = lines[start].len() - lines[start].trim_start().len();
    let head = (start..lines.len()).find(|&i| {
        let line = lines[i].trim();
        i > start && !line.starts_with("#[") && !line.starts_with("//")
    });
    let Some(head) = head else { return lines.len() - 1 };
    for (i, line) in lines.iter().enumerate().skip(head) {
        let trimmed = line.trim();
        let at_indent = line.len() - line.trim_start().len() == indent;
        let goes_on = trimmed.ends_with(['{', '(', '[', ',', '=']);
        if at_indent && !goes_on && (i == head || trimmed.starts_with(['}', ')', ']'])) {
            return i;
        }
    }
    lines.len() - 1
}

fn collect(folder: &Path, into: &mut Vec<PathBuf>) -> Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|n| n != "target") {
                collect(&path, into)?;
            }
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(path: &str, text: &str) -> String {
        let source = Source { path: path.into(), text: text.into() };
        source.test_lines().iter().map(|t| if *t { 't' } else { '.' }).collect()
    }

    #[test]
    fn items_under_cfg_test_are_tests() {
        let text = "fn a() {\n}\n#[cfg(test)]\nmod tests;\nfn b() {}\n#[cfg(test)]\nmod t {\n    fn x() {\n    }\n}\nfn c() {}";
        assert_eq!(marks("crates/x/src/a.rs", text), "..tt.ttttt.");
    }

    #[test]
    fn an_attribute_within_an_impl_covers_its_method_only() {
        let text = "impl A {\n    #[cfg(test)]\n    #[expect(x)]\n    fn b(\n        &self,\n    ) {\n    }\n    fn c() {}\n}";
        assert_eq!(marks("crates/x/src/a.rs", text), ".tttttt..");
    }

    #[test]
    fn test_files_are_known_by_their_place() {
        assert_eq!(marks("crates/x/tests/a.rs", "fn a() {}"), "t");
        assert_eq!(marks("crates/x/src/a/tests.rs", "fn a() {}"), "t");
        assert_eq!(marks("crates/x/src/latest.rs", "fn a() {}"), ".");
    }
}
