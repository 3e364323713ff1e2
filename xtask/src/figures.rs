//! Figures of the whole tree that no single file has: methods of a type, tuples as parameters, names that
//! several types have.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};

use crate::source::Source;

/// What was counted, tests left out. Nothing of it is limited yet.
#[derive(Default)]
pub(crate) struct Figures {
    /// By crate and type: methods of its own, not those of traits.
    methods: BTreeMap<(String, String), usize>,
    /// Functions with a tuple among their parameters.
    tuples: usize,
    /// Structs, enums, unions, traits and type aliases, by name.
    names: BTreeMap<String, usize>,
}

impl Figures {
    pub(crate) fn of<'a>(sources: impl Iterator<Item = &'a Source>) -> Self {
        let mut figures = Self::default();
        for source in sources {
            let Ok(file) = syn::parse_file(&source.text) else { continue };
            // `crates/quic/src/…` is of `quic`, `xtask/src/…` of `xtask`.
            let of = source.path.trim_start_matches("crates/").split('/').next().unwrap_or_default();
            let tests = source.test_lines();
            Counting { figures: &mut figures, of, tests: &tests }.visit_file(&file);
        }
        figures
    }

    /// One line a figure.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut most: Vec<_> = self.methods.iter().collect();
        most.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let most = most.iter().take(5).map(|((of, name), count)| format!("{of}::{name} {count}"));
        let mut often: Vec<_> = self.names.iter().filter(|(_, count)| **count > 1).collect();
        often.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let shared = often.len();
        let often = often.iter().take(5).map(|(name, count)| format!("{name} {count}"));
        vec![
            format!("most methods: {}", most.collect::<Vec<_>>().join(", ")),
            format!("functions with a tuple as a parameter: {}", self.tuples),
            format!(
                "names of types: {}, of which {shared} are of several ({:.0} %), most: {}",
                self.names.len(),
                100.0 * shared as f64 / self.names.len().max(1) as f64,
                often.collect::<Vec<_>>().join(", ")
            ),
        ]
    }
}

struct Counting<'a> {
    figures: &'a mut Figures,
    of: &'a str,
    tests: &'a [bool],
}

impl Counting<'_> {
    fn is_test(&self, at: proc_macro2::Span) -> bool {
        self.tests.get(at.start().line - 1).copied().unwrap_or(false)
    }

    fn name(&mut self, name: &syn::Ident) {
        if !self.is_test(name.span()) {
            *self.figures.names.entry(name.to_string()).or_default() += 1;
        }
    }
}

impl<'ast> Visit<'ast> for Counting<'_> {
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let (None, syn::Type::Path(path)) = (&item.trait_, &*item.self_ty) {
            let methods = item.items.iter().filter(|item| matches!(item, syn::ImplItem::Fn(_))).count();
            let name = path.path.segments.last().map(|segment| &segment.ident);
            if let Some(name) = name.filter(|name| !self.is_test(name.span())) {
                *self.figures.methods.entry((self.of.to_owned(), name.to_string())).or_default() += methods;
            }
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        let is_tuple = |argument: &syn::FnArg| match argument {
            syn::FnArg::Typed(typed) => {
                matches!(&*typed.ty, syn::Type::Tuple(tuple) if !tuple.elems.is_empty())
            }
            syn::FnArg::Receiver(_) => false,
        };
        if signature.inputs.iter().any(is_tuple) && !self.is_test(signature.fn_token.span) {
            self.figures.tuples += 1;
        }
        visit::visit_signature(self, signature);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.name(&item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.name(&item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_union(&mut self, item: &'ast syn::ItemUnion) {
        self.name(&item.ident);
        visit::visit_item_union(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.name(&item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.name(&item.ident);
        visit::visit_item_type(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_tuples_and_names_are_counted_without_tests() {
        let one = "pub struct Path;\nimpl Path { fn a(&self) {} fn b(at: (u8, u8), _: ()) {} }\nimpl Clone for Path { fn clone(&self) -> Self { Path } }\n";
        let other = "enum Path {}\nimpl super::Path { fn c(&self) {} }\ntype Only = u8;\nfn f(_: &(u8, u8)) {}\n\
                     #[cfg(test)]\nmod tests {\n    struct Only;\n    fn g(_: (u8, u8)) {}\n}\n";
        let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
        let sources = [source("crates/x/src/one.rs", one), source("crates/x/src/other.rs", other)];
        let lines = Figures::of(sources.iter()).lines();
        assert_eq!(lines[0], "most methods: x::Path 3");
        assert_eq!(lines[1], "functions with a tuple as a parameter: 1");
        assert_eq!(lines[2], "names of types: 2, of which 1 are of several (50 %), most: Path 2");
    }
}
