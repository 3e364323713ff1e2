//! `cargo xtask pages`: what the pages of the documentation say of files and of tests is so.
//!
//! * A link to a file of this repository leads to one.
//! * A reference with a title, `[k1]: ../crates/a.rs "name"`, leads to a test of that name.
//! * In docs/compare.md a cell that says yes, partly or no has its source.
//! * A block of code behind `<!-- crates/a.rs -->` is that file; `--write` makes it so.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::run::{on_path, root};

pub(crate) fn command(args: &[String]) -> Result<()> {
    match args {
        [] => {}
        [write] if write == "--write" => {
            for page in pages(&root())? {
                let filled = filled(&page.text, &root())?;
                if filled != page.text {
                    println!("{} has the code of today now", page.path);
                    fs::write(root().join(&page.path), filled)?;
                }
            }
        }
        _ => bail!("usage: cargo xtask pages [--write]"),
    }
    check(&root())?;
    parse_python(&root())
}

/// Fails with all that is wrong with the pages below `root`.
fn check(root: &Path) -> Result<()> {
    let mut faults = Vec::new();
    for page in pages(root)? {
        let references = references(&page.text);
        faults.extend(page.broken_links(root, &references));
        faults.extend(page.missing_tests(root, &references));
        if filled(&page.text, root)? != page.text {
            let remedy = "run `cargo xtask pages --write`";
            faults.push(format!("{}: a block of code is not the file that it names; {remedy}", page.path));
        }
        if page.path == COMPARISON {
            faults.extend(page.cells_without_source(&references));
        }
    }
    if !faults.is_empty() {
        bail!("the pages say what is not so:\n{}", faults.join("\n"));
    }
    Ok(())
}

const COMPARISON: &str = "docs/compare.md";

/// Of a program in Python that a page has, at least the syntax is right. Without Python nobody can say.
fn parse_python(root: &Path) -> Result<()> {
    if !on_path("python3") {
        println!("without python3: the programs in Python were not looked at");
        return Ok(());
    }
    for page in pages(root)? {
        for block in blocks(&page.text).into_iter().filter(|block| is_python(Path::new(block.path))) {
            let parse = ["-c", "import ast, sys; ast.parse(sys.stdin.read())"];
            let mut python = Command::new("python3").args(parse).stdin(Stdio::piped()).spawn()?;
            let code = fs::read_to_string(root.join(block.path))?;
            python.stdin.take().context("it was piped")?.write_all(code.as_bytes())?;
            if !python.wait()?.success() {
                bail!("{} is not Python", block.path);
            }
        }
    }
    Ok(())
}

fn is_python(file: &Path) -> bool {
    file.extension().is_some_and(|e| e == "py")
}

/// One page of the documentation.
struct DocPage {
    /// From the root of the repository, with `/`.
    path: String,
    text: String,
}

/// A definition of a link: `[key]: target "title"`.
struct LinkDefinition<'a> {
    line: usize,
    target: &'a str,
    /// The name of a test.
    title: Option<&'a str>,
}

type LinkDefinitions<'a> = BTreeMap<&'a str, LinkDefinition<'a>>;

/// A block of code that names the file that it is of.
struct CodeBlock<'a> {
    path: &'a str,
    /// Where the code is in the text, in bytes.
    code: std::ops::Range<usize>,
}

/// Those of the root, and all below docs.
fn pages(root: &Path) -> Result<Vec<DocPage>> {
    let mut paths = Vec::new();
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                paths.push(path);
            }
        }
    }
    for entry in fs::read_dir(root)? {
        paths.push(entry?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|e| e == "md"));
    paths.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let path = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        Ok(DocPage { path, text })
    };
    paths.into_iter().map(read).collect()
}

impl DocPage {
    /// What a link of this page leads to; `None` for what is not of this repository, or on the page.
    fn target(&self, root: &Path, link: &str) -> Option<PathBuf> {
        let file = link.split('#').next().unwrap_or_default();
        let is_elsewhere = file.contains("://") || file.starts_with("mailto:");
        let folder = Path::new(&self.path).parent().unwrap_or(Path::new(""));
        (!file.is_empty() && !is_elsewhere).then(|| root.join(folder).join(file))
    }

    fn broken_links(&self, root: &Path, references: &LinkDefinitions<'_>) -> Vec<String> {
        let inline = prose(&self.text).flat_map(|(line, text)| links(text).map(move |link| (line, link)));
        let defined = references.values().map(|reference| (reference.line, reference.target));
        inline
            .chain(defined)
            .filter(|(_, link)| self.target(root, link).is_some_and(|file| !file.exists()))
            .map(|(line, link)| format!("{}:{line}: there is no {link}", self.path))
            .collect()
    }

    fn missing_tests(&self, root: &Path, references: &LinkDefinitions<'_>) -> Vec<String> {
        let mut faults = Vec::new();
        for (key, reference) in references {
            let (Some(name), Some(file)) = (reference.title, self.target(root, reference.target)) else {
                continue;
            };
            let source = fs::read_to_string(&file).unwrap_or_default();
            if !has_test(&source, name, is_python(&file)) {
                let (path, line, target) = (&self.path, reference.line, reference.target);
                faults.push(format!("{path}:{line}: {key}: {target} has no test `{name}`"));
            }
        }
        faults
    }

    /// Of the tables whose second column is ours: what others have leads elsewhere, what we have to a test.
    fn cells_without_source(&self, references: &LinkDefinitions<'_>) -> Vec<String> {
        let (mut faults, mut width) = (Vec::new(), None);
        for (line, text) in prose(&self.text) {
            let mut fault = |what: &str| faults.push(format!("{}:{line}: {what}", self.path));
            let Some(row) = text.strip_prefix('|').and_then(|rest| rest.strip_suffix('|')) else {
                width = None;
                continue;
            };
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let Some(columns) = width else {
                width = (cells.get(1) == Some(&"Quickset")).then_some(cells.len());
                continue;
            };
            if cells.iter().all(|cell| cell.chars().all(|c| c == '-')) {
                continue;
            }
            if cells.len() != columns {
                fault("a row has as many cells as its table has columns");
                continue;
            }
            for (column, cell) in cells.iter().enumerate().skip(1) {
                let is_ours = column == 1;
                if *cell == if is_ours { "no" } else { "–" } {
                    continue;
                }
                let source = said(cell).and_then(|key| references.get(key));
                let is_sourced = source.is_some_and(|reference| {
                    if is_ours { reference.title.is_some() } else { reference.target.starts_with("https://") }
                });
                if !is_sourced {
                    let what = if is_ours { "a test" } else { "a source" };
                    fault(&format!("`{cell}` in column {} leads to no {what}", column + 1));
                }
            }
        }
        let used = |key: &str| prose(&self.text).any(|(_, text)| text.contains(&format!("][{key}]")));
        for (key, reference) in references.iter().filter(|(key, _)| !used(key)) {
            faults.push(format!("{}:{}: nothing leads to {key}", self.path, reference.line));
        }
        faults
    }
}

/// The key of `[yes][key]`, `[partly][key]` or `[no][key]`.
fn said(cell: &str) -> Option<&str> {
    let (word, key) = cell.strip_prefix('[')?.split_once("][")?;
    matches!(word, "yes" | "partly" | "no").then_some(key.strip_suffix(']')?)
}

/// Lines with their numbers, without those of blocks of code.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(n, line)| {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((n + 1, line))
    })
}

/// The targets of `[text](target)`.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0))
}

fn references(text: &str) -> LinkDefinitions<'_> {
    let mut found = BTreeMap::new();
    for (line, text) in prose(text) {
        let Some((key, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once("]: ")) else {
            continue;
        };
        let (target, title) = match rest.split_once(' ') {
            Some((target, title)) => (target, Some(title.trim_matches('"'))),
            None => (rest, None),
        };
        found.insert(key, LinkDefinition { line, target, title });
    }
    found
}

/// Whether the source has a test of that name: in Rust a function below an attribute that says so.
fn has_test(source: &str, name: &str, is_python: bool) -> bool {
    let (function, lines) = (format!("fn {name}("), source.lines().collect::<Vec<_>>());
    if is_python {
        return name.starts_with("test") && lines.iter().any(|l| l.starts_with(&format!("def {name}(")));
    }
    lines.iter().enumerate().filter(|(_, line)| line.contains(&function)).any(|(n, _)| {
        let above = lines[..n].iter().rev().map(|line| line.trim_start());
        let mut attributes = above.take_while(|line| line.starts_with("#[") || line.starts_with("//"));
        attributes.any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
    })
}

fn blocks(text: &str) -> Vec<CodeBlock<'_>> {
    let (mut found, mut from) = (Vec::new(), 0);
    while let Some(start) = text[from..].find("<!-- ").map(|at| from + at) {
        from = start + "<!-- ".len();
        let Some((path, rest)) = text[from..].split_once(" -->\n```") else { break };
        // Another comment, in front of no code.
        if path.contains('\n') {
            continue;
        }
        let Some(first) = rest.find('\n') else { break };
        let begin = text.len() - rest.len() + first + 1;
        let Some(len) = text[begin..].find("\n```\n").map(|at| at + 1) else { break };
        found.push(CodeBlock { path, code: begin..begin + len });
        from = begin + len;
    }
    found
}

/// The page with each block as the file that it names.
fn filled(text: &str, root: &Path) -> Result<String> {
    let (mut page, mut done) = (String::new(), 0);
    for block in blocks(text) {
        let code = fs::read_to_string(root.join(block.path))
            .with_context(|| format!("a page shows {}, which cannot be read", block.path))?;
        page.push_str(&text[done..block.code.start]);
        page.push_str(&code);
        done = block.code.end;
    }
    page.push_str(&text[done..]);
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(text: &str) -> Vec<String> {
        let page = DocPage { path: COMPARISON.into(), text: text.into() };
        page.cells_without_source(&references(&page.text))
    }

    #[test]
    fn pages_say_what_is_so() {
        check(&root()).expect("no fault");
    }

    #[test]
    fn the_comparison_and_its_tests_are_found() {
        let pages = pages(&root()).expect("they can be read");
        let page = pages.iter().find(|page| page.path == COMPARISON).expect("it is there");
        let tests =
            references(&page.text).into_values().filter(|reference| reference.title.is_some()).count();
        let blocks: usize = pages.iter().map(|page| blocks(&page.text).len()).sum();
        assert!(tests > 30 && blocks >= 6, "{tests} tests, {blocks} blocks");
    }

    #[test]
    fn a_test_is_a_function_that_says_so() {
        let source = "#[test]\n#[cfg(unix)]\nfn a() {}\nfn b() {}\n    #[tokio::test(start_paused = true)]\n    \
                      // Why.\n    async fn c() {}\n#[inline]\nfn d() {}";
        let is = |name| has_test(source, name, false);
        assert!(is("a") && is("c"));
        assert!(!is("b") && !is("d") && !is("e"));
        assert!(has_test("def test_a(x):", "test_a", true));
        assert!(!has_test("def a():\n    def test_b(): pass", "a", true));
    }

    #[test]
    fn cells_need_what_they_rest_on() {
        let head = "| | Quickset | quinn |\n|---|---|---|\n";
        let ends = "\n[k1]: ../a.rs \"name\"\n[q1]: https://example.org/a#L1\n";
        let faults = |row: &str| comparison(&format!("{head}{row}\n{ends}")).len();
        assert_eq!(faults("| a | [yes][k1] | [no][q1] |"), 0);
        // One for each key that nothing leads to.
        assert_eq!(faults("| a | no | – |"), 2);
        assert_eq!(faults("| a | [partly][q1] | [yes][k1] |"), 2);
        assert_eq!(faults("| a | [yes][k1] | yes, [surely][q1] |"), 1);
        assert_eq!(faults("| a | [yes][k1] | [yes][q2] |"), 2);
        assert_eq!(faults("| a | [yes][k1] [no][q1] |"), 1);
        // Another table says what it likes.
        assert_eq!(comparison("| what | is |\n|---|---|\n| a | b |"), Vec::<String>::new());
    }

    #[test]
    fn links_are_found_outside_of_code() {
        let page = DocPage {
            path: "docs/a.md".into(),
            text: "[a](b.md) and [c](../xtask/src/pages.rs#L1) [d](https://e.f)\n```\n[x](y)\n```\n[k]: nowhere.rs\n"
                .into(),
        };
        let faults = page.broken_links(&root(), &references(&page.text));
        assert_eq!(faults, ["docs/a.md:1: there is no b.md", "docs/a.md:5: there is no nowhere.rs"]);
    }

    #[test]
    fn blocks_become_the_files_that_they_name() {
        let root = root();
        let text = "<!-- a remark -->\n\n<!-- rustfmt.toml -->\n```toml\nold\n```\nend\n";
        let filled = filled(text, &root).expect("it can be read");
        let file = fs::read_to_string(root.join("rustfmt.toml")).expect("it is there");
        assert_eq!(filled, format!("<!-- a remark -->\n\n<!-- rustfmt.toml -->\n```toml\n{file}```\nend\n"));
        assert_eq!(blocks("<!-- a.rs -->\nno code\n").len(), 0);
    }
}
