//! The numbers of CONTRIBUTING.md that clippy does not check. It checks the length of functions
//! (`too_many_lines`), arguments (`too_many_arguments`) and nesting (`excessive_nesting`). rustfmt breaks
//! lines of code, and leaves comments as they are.

use anyhow::{Result, bail};
use proc_macro2::Span;
use syn::visit::{self, Visit};

use crate::figures::Figures;
use crate::run::root;
use crate::source::Source;

/// Lines of code of a file, without tests, comments and what is empty: nobody shall save on comments.
const FILE_LINES: usize = 510;
/// Columns of a comment, as of code.
const COLUMNS: usize = 110;
/// Fields of a struct.
const STRUCT_FIELDS: usize = 20;
/// Arguments of a function that it may change, `&mut self` among them.
const MUT_ARGUMENTS: usize = 3;

/// A comment that starts so, in front of the first item or right above one, allows more and says why.
const EXCEPTION: &str = "// sizes: ";

pub(crate) fn command(_args: &[String]) -> Result<()> {
    let mut sources = Source::below(&root(), "crates")?;
    let (mut breaches, mut files, mut longest) = (0, 0, 0);
    for source in &sources {
        for line in wide_comments(&source.text) {
            breaches += 1;
            println!("{}:{line}: a comment of more than {COLUMNS} columns", source.path);
        }
    }
    sources.retain(|s| s.path.split('/').nth(2) == Some("src"));
    sources.extend(Source::below(&root(), "xtask/src")?);
    for source in sources.iter().filter(|s| !s.is_test_file()) {
        files += 1;
        longest = longest.max(plain_lines(source));
        for finding in check(source) {
            let place = format!("{}:{}", source.path, finding.line);
            if let Some(reason) = finding.excused {
                println!("{place}: {} (allowed: {reason})", finding.what);
            } else {
                breaches += 1;
                println!("{place}: {}", finding.what);
            }
        }
    }
    let figures = Figures::of(sources.iter().filter(|source| !source.is_test_file()));
    for breach in figures.breaches() {
        breaches += 1;
        println!("{breach}");
    }
    if breaches > 0 {
        bail!(
            "{breaches} sizes above the limits; cut by ownership of state, or say why with `{EXCEPTION}<reason>`"
        );
    }
    println!("{files} files, the longest has {longest} lines of code without tests");
    for line in figures.lines() {
        println!("{line}");
    }
    Ok(())
}

struct SizeFinding {
    line: usize,
    what: String,
    /// The reason given in the source, if there is one.
    excused: Option<String>,
}

fn check(source: &Source) -> Vec<SizeFinding> {
    let tests = source.test_lines();
    let lines: Vec<&str> = source.text.lines().collect();
    let mut items = Items::default();
    match syn::parse_file(&source.text) {
        Ok(file) => items.visit_file(&file),
        Err(error) => {
            let (line, what) = (error.span().start().line, format!("cannot be parsed: {error}"));
            return vec![SizeFinding { line, what, excused: None }];
        }
    }
    items.found.retain(|f| !tests.get(f.line - 1).copied().unwrap_or(false));
    for finding in &mut items.found {
        finding.excused = reason_above(&lines, finding.line);
    }
    let length = plain_lines(source);
    if length > FILE_LINES {
        let what = format!("{length} lines of code without tests, the limit is {FILE_LINES}");
        items.found.push(SizeFinding { line: 1, what, excused: reason_at_top(&lines) });
    }
    items.found
}

/// The lines of code outside of tests.
fn plain_lines(source: &Source) -> usize {
    let is_code = |line: &str| !line.trim().is_empty() && !line.trim().starts_with("//");
    let lines = source.text.lines().zip(source.test_lines());
    lines.filter(|(line, is_test)| !is_test && is_code(line)).count()
}

/// Lines, counted from 1, of comments that could be broken earlier: no tables, no examples of code.
fn wide_comments(text: &str) -> Vec<usize> {
    let mut in_example = false;
    let mut wide = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some(words) = line.trim_start().strip_prefix("//") else {
            in_example = false;
            continue;
        };
        let words = words.trim_start_matches(['/', '!']).trim_start();
        if words.starts_with("```") {
            in_example = !in_example;
        }
        if line.chars().count() > COLUMNS && !in_example && !words.starts_with('|') && words.contains(' ') {
            wide.push(number);
        }
    }
    wide
}

fn reason(line: &str) -> Option<String> {
    line.trim().strip_prefix(EXCEPTION).map(str::to_owned)
}

/// In the comments and attributes right above the line (which counts from 1).
fn reason_above(lines: &[&str], line: usize) -> Option<String> {
    let above = lines[..line - 1].iter().rev();
    above.take_while(|l| l.trim().starts_with("//") || l.trim().starts_with("#[")).find_map(|l| reason(l))
}

/// In the comments that open the file.
fn reason_at_top(lines: &[&str]) -> Option<String> {
    lines.iter().take_while(|l| l.trim().is_empty() || l.starts_with("//")).find_map(|l| reason(l))
}

/// Collects what is too large; `excused` is filled in later.
#[derive(Default)]
struct Items {
    found: Vec<SizeFinding>,
}

impl Items {
    fn add(&mut self, at: Span, what: String) {
        self.found.push(SizeFinding { line: at.start().line, what, excused: None });
    }
}

impl<'ast> Visit<'ast> for Items {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        if item.fields.len() > STRUCT_FIELDS {
            let what = format!(
                "struct {} has {} fields, the limit is {STRUCT_FIELDS}",
                item.ident,
                item.fields.len()
            );
            self.add(item.struct_token.span, what);
        }
        visit::visit_item_struct(self, item);
    }

    fn visit_signature(&mut self, sig: &'ast syn::Signature) {
        let changed = sig.inputs.iter().filter(|arg| is_mut_reference(arg)).count();
        if changed > MUT_ARGUMENTS {
            let what =
                format!("fn {} has {changed} `&mut` arguments, the limit is {MUT_ARGUMENTS}", sig.ident);
            self.add(sig.fn_token.span, what);
        }
        visit::visit_signature(self, sig);
    }
}

fn is_mut_reference(arg: &syn::FnArg) -> bool {
    match arg {
        syn::FnArg::Receiver(r) => matches!(r.kind, syn::ReceiverKind::Reference(_, _, Some(_))),
        syn::FnArg::Typed(t) => matches!(&*t.ty, syn::Type::Reference(r) if r.mutability.is_some()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    fn found(text: &str) -> Vec<(usize, String, Option<String>)> {
        let source = Source { path: "crates/x/src/x.rs".into(), text: text.into() };
        check(&source).into_iter().map(|f| (f.line, f.what, f.excused)).collect()
    }

    fn wide_struct(fields: usize) -> String {
        let mut text = "struct Wide {\n".to_owned();
        for i in 0..fields {
            writeln!(text, "    f{i}: u8,").expect("a string takes everything");
        }
        text + "}\n"
    }

    #[test]
    fn the_tree_keeps_its_sizes_here() {
        for source in Source::below(&root(), "xtask/src").expect("our own sources are there") {
            assert!(check(&source).is_empty(), "{}", source.path);
        }
    }

    #[test]
    fn fields_are_counted_and_excused() {
        assert!(found(&wide_struct(20)).is_empty());
        assert_eq!(found(&wide_struct(21))[0].1, "struct Wide has 21 fields, the limit is 20");
        let excused =
            format!("/// Doc.\n// sizes: one number per frame type\n#[derive(Debug)]\n{}", wide_struct(21));
        assert_eq!(found(&excused)[0].2.as_deref(), Some("one number per frame type"));
        assert!(found(&format!("#[cfg(test)]\nmod t {{\n{}}}\n", wide_struct(21))).is_empty());
    }

    #[test]
    fn changed_arguments_are_counted_with_self() {
        assert!(found("impl X { fn f(&mut self, a: &mut u8, b: &mut u8, c: &u8) {} }").is_empty());
        let four = found("trait X {\n    fn f(&mut self, a: &mut u8, b: &mut u8, c: &mut u8);\n}");
        assert_eq!((four[0].0, four.len()), (2, 1));
    }

    #[test]
    fn files_are_measured_without_their_tests() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    const A: u8 = 1;\n".repeat(700));
        let code = |lines: usize| "/// Why.\nconst B: u8 = 1;\n\n".repeat(lines);
        assert!(found(&(code(FILE_LINES) + &tests)).is_empty());
        let long = found(&(code(FILE_LINES + 1) + &tests));
        assert_eq!(long[0].1, "511 lines of code without tests, the limit is 510");
        let excused = found(&("//! Doc.\n// sizes: a table\n\n".to_owned() + &code(FILE_LINES + 1)));
        assert_eq!(excused[0].2.as_deref(), Some("a table"));
    }

    #[test]
    fn comments_are_no_wider_than_code() {
        let [fits, wide] = [COLUMNS, COLUMNS + 1]
            .map(|columns| format!("    /// {}", "x ".repeat(60))[..columns].to_owned());
        assert_eq!((wide_comments(&fits), wide_comments(&wide)), (vec![], vec![1]));
        let free = format!(
            "/// | {0} |\n/// ```\n/// let {0}\n/// ```\n//! https://{1}\nconst A: &str = \"{0}\";",
            "x ".repeat(60),
            "x".repeat(120)
        );
        assert!(wide_comments(&free).is_empty());
        assert_eq!(wide_comments(&format!("{free}\n// {}", "x ".repeat(60))), vec![7]);
    }
}
