//! Reading the Rust sources of the tree: which files there are, and which of their lines are tests.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use syn::Item;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// One Rust source file.
pub(crate) struct Source {
    /// From the root of the repository, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    /// All Rust files below `folder` (from the root of the repository), in order of path; none if it is not
    /// there.
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

    /// For each line, whether it belongs to a test: the file is one, or the line is in something under
    /// `#[cfg(test)]`. Of a file that cannot be parsed no line is known to be one.
    pub(crate) fn test_lines(&self) -> Vec<bool> {
        let mut marks = vec![self.is_test_file(); self.text.lines().count()];
        if let Ok(file) = syn::parse_file(&self.text) {
            let mut tests = Tests::default();
            tests.visit_file(&file);
            for (first, last) in tests.found {
                marks[first - 1..last].fill(true);
            }
        }
        marks
    }
}

/// Collects what stands under `#[cfg(test)]`: its first line, that of the attribute, and its last.
#[derive(Default)]
struct Tests {
    found: Vec<(usize, usize)>,
}

impl Tests {
    fn look(&mut self, attributes: &[syn::Attribute], whole: &impl Spanned) {
        if let Some(first) = attributes.iter().find(|a| is_cfg_test(a)) {
            self.found.push((first.span().start().line, whole.span().end().line));
        }
    }
}

impl<'ast> Visit<'ast> for Tests {
    fn visit_item(&mut self, item: &'ast Item) {
        self.look(attributes(item), item);
        visit::visit_item(self, item);
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        match item {
            syn::ImplItem::Const(i) => self.look(&i.attrs, i),
            syn::ImplItem::Fn(i) => self.look(&i.attrs, i),
            syn::ImplItem::Type(i) => self.look(&i.attrs, i),
            _ => {}
        }
        visit::visit_impl_item(self, item);
    }

    fn visit_trait_item(&mut self, item: &'ast syn::TraitItem) {
        match item {
            syn::TraitItem::Const(i) => self.look(&i.attrs, i),
            syn::TraitItem::Fn(i) => self.look(&i.attrs, i),
            _ => {}
        }
        visit::visit_trait_item(self, item);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        self.look(&field.attrs, field);
        visit::visit_field(self, field);
    }

    fn visit_field_value(&mut self, field: &'ast syn::FieldValue) {
        self.look(&field.attrs, field);
        visit::visit_field_value(self, field);
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.look(&variant.attrs, variant);
        visit::visit_variant(self, variant);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        self.look(&arm.attrs, arm);
        visit::visit_arm(self, arm);
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        self.look(&local.attrs, local);
        visit::visit_local(self, local);
    }

    fn visit_expr_block(&mut self, block: &'ast syn::ExprBlock) {
        self.look(&block.attrs, block);
        visit::visit_expr_block(self, block);
    }
}

fn attributes(item: &Item) -> &[syn::Attribute] {
    match item {
        Item::Const(i) => &i.attrs,
        Item::Enum(i) => &i.attrs,
        Item::ExternCrate(i) => &i.attrs,
        Item::Fn(i) => &i.attrs,
        Item::ForeignMod(i) => &i.attrs,
        Item::Impl(i) => &i.attrs,
        Item::Macro(i) => &i.attrs,
        Item::Mod(i) => &i.attrs,
        Item::Static(i) => &i.attrs,
        Item::Struct(i) => &i.attrs,
        Item::Trait(i) => &i.attrs,
        Item::TraitAlias(i) => &i.attrs,
        Item::Type(i) => &i.attrs,
        Item::Union(i) => &i.attrs,
        Item::Use(i) => &i.attrs,
        _ => &[],
    }
}

/// `test`, alone or with more that has to hold; `any(test, …)` and `not(test)` are code.
fn is_cfg_test(attribute: &syn::Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else { return false };
    let words = list.tokens.to_string();
    attribute.path().is_ident("cfg") && (words == "test" || words.replace(' ', "").starts_with("all(test,"))
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
    fn what_looks_like_an_end_is_none() {
        let raw = "#[cfg(test)]\nmod t {\n    const A: &str = r#\"{\n}\n\"#;\n    // FS-1\n}\nfn b() {}";
        assert_eq!(marks("crates/x/src/a.rs", raw), "ttttttt.");
        let bounds = "#[cfg(test)]\nfn a<T>()\nwhere\n    T: Copy,\n{\n    // FS-1\n}\nfn b() {}";
        assert_eq!(marks("crates/x/src/a.rs", bounds), "ttttttt.");
        let more = "#[cfg(all(test, unix))]\nfn a() {\n}\n#[cfg(not(test))]\nfn b() {}\n#[cfg(any(test, x))]\nfn c() {}";
        assert_eq!(marks("crates/x/src/a.rs", more), "ttt....");
        // An attribute that is quoted is none.
        assert_eq!(marks("crates/x/src/a.rs", "const A: &str = \"\n#[cfg(test)]\n\";\nfn b() {}"), "....");
    }

    #[test]
    fn test_files_are_known_by_their_place() {
        assert_eq!(marks("crates/x/tests/a.rs", "fn a() {}"), "t");
        assert_eq!(marks("crates/x/src/a/tests.rs", "fn a() {}"), "t");
        assert_eq!(marks("crates/x/src/latest.rs", "fn a() {}"), ".");
    }
}
