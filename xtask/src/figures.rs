//! What no single file shows: names that several types have, methods of a type, tuples as parameters.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};

use crate::source::Source;

/// Names that several types may have. Whoever looks for any other name finds one type.
const SHARED_NAMES: [(&str, &str); 22] = [
    ("Client", "the client's end of a protocol, of which the crate is"),
    ("ClientConfig", "what is set of that end"),
    ("Connection", "a connection of QUIC without I/O, with a driver, and one of HTTP/3"),
    ("DatagramError", "without I/O, and of the driver, which adds that the connection is over"),
    ("DatagramOptions", "without I/O, and of the driver, which knows the clock"),
    ("Decoder", "of each erasure code, and of QPACK: the module says of what"),
    ("Encoder", "as above"),
    ("Endpoint", "without I/O, with a driver, and with TLS"),
    ("Error", "of a crate or a module, which are named with it"),
    ("Event", "of QUIC, and of HTTP/3 upon it"),
    ("Frame", "of QUIC, and of HTTP/3"),
    ("Priority", "of a class among its siblings, and of an answer (RFC 9218)"),
    ("Qlog", "with the feature of that name, and without"),
    ("ReadError", "without I/O, and of the driver, which adds that the connection is over"),
    ("RecvStream", "without I/O, with a driver, and of WebTransport"),
    ("Representation", "of a video (DASH), and of a file (RFC 9110 §3.2)"),
    ("SendError", "as ReadError"),
    ("SendStream", "as RecvStream"),
    ("Server", "as Client"),
    ("ServerConfig", "as ClientConfig"),
    ("TokioWatch", "where sockets are descriptors, and where they are not"),
    ("WriteError", "as ReadError"),
];

/// Functions that may take a tuple, by file and name: it stands for one thing there.
const WITH_TUPLES: [(&str, &str); 14] = [
    ("budget::enter", "what the map has for the account"),
    ("demand::announce", "an entry of the set"),
    ("fences::later", "two of the same kind, of which one comes back"),
    ("held::join", "a key of the map"),
    ("measures::measure", "a unit with its factor, which are constants"),
    ("metrics::values", "the lines above the values, as the format has them"),
    ("mod::take_symbol", "a symbol's name: its session and number"),
    ("pointer::area", "a place on the screen"),
    ("sent::take_symbol", "a symbol's name: its session and number"),
    ("sizing::best", "a block, which is the key of the table of answers"),
    ("sizing::fails", "a block, which is the key of the table of answers"),
    ("stage::wished", "a size of the screen"),
    ("timers::is_due", "an entry of the set, as it was popped"),
    ("wishes::add", "a size of the screen"),
];

/// What was counted, tests left out.
#[derive(Default)]
pub(crate) struct Figures {
    /// By crate and type: methods of its own, not those of traits.
    methods: BTreeMap<(String, String), usize>,
    /// Functions with a tuple among their parameters: the name, and where.
    tuples: Vec<(String, String)>,
    /// Where structs, enums, unions, traits and type aliases are, by name.
    names: BTreeMap<String, Vec<String>>,
}

impl Figures {
    pub(crate) fn of<'a>(sources: impl Iterator<Item = &'a Source>) -> Self {
        let mut figures = Self::default();
        for source in sources {
            let Ok(file) = syn::parse_file(&source.text) else { continue };
            // `crates/quic/src/…` is of `quic`, `xtask/src/…` of `xtask`.
            let of = source.path.trim_start_matches("crates/").split('/').next().unwrap_or_default();
            let tests = source.test_lines();
            Counting { figures: &mut figures, of, path: &source.path, tests: &tests }.visit_file(&file);
        }
        figures
    }

    /// One line a figure.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut most: Vec<_> = self.methods.iter().collect();
        most.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let most = most.iter().take(5).map(|((of, name), count)| format!("{of}::{name} {count}"));
        let shared = self.names.values().filter(|places| places.len() > 1).count();
        vec![
            format!("most methods: {}", most.collect::<Vec<_>>().join(", ")),
            format!("functions with a tuple as a parameter: {}", self.tuples.len()),
            format!(
                "names of types: {}, of which {shared} are of several ({:.1} %)",
                self.names.len(),
                percent(shared, self.names.len()),
            ),
        ]
    }

    /// A sentence for each name that several types have without a reason, and for each reason that nobody
    /// needs any more.
    pub(crate) fn breaches(&self) -> Vec<String> {
        let excused = |name: &str| SHARED_NAMES.iter().any(|(shared, _)| *shared == name);
        let shared = self.names.iter().filter(|(name, places)| places.len() > 1 && !excused(name));
        let found = shared.map(|(name, places)| {
            format!(
                "{name} is the name of {} types, in {}: rename all but one",
                places.len(),
                places.join(", ")
            )
        });
        let is_shared = |name: &str| self.names.get(name).is_some_and(|places| places.len() > 1);
        let idle = SHARED_NAMES.iter().filter(|(name, _)| !is_shared(name));
        let idle =
            idle.map(|(name, _)| format!("{name} is not shared any more: take it out of SHARED_NAMES"));
        let is_known = |name: &str| WITH_TUPLES.iter().any(|(known, _)| *known == name);
        let tuples = self.tuples.iter().filter(|(name, _)| !is_known(name)).map(|(name, place)| {
            format!("{name} takes a tuple ({place}): make it parameters, or a type with names")
        });
        let has = |name: &str| self.tuples.iter().any(|(found, _)| found == name);
        let past = WITH_TUPLES.iter().filter(|(name, _)| !has(name));
        let past =
            past.map(|(name, _)| format!("no {name} takes a tuple any more: take it out of WITH_TUPLES"));
        found.chain(idle).chain(tuples).chain(past).collect()
    }
}

struct Counting<'a> {
    figures: &'a mut Figures,
    of: &'a str,
    path: &'a str,
    tests: &'a [bool],
}

impl Counting<'_> {
    fn is_test(&self, at: proc_macro2::Span) -> bool {
        self.tests.get(at.start().line - 1).copied().unwrap_or(false)
    }

    fn name(&mut self, name: &syn::Ident) {
        if !self.is_test(name.span()) {
            let place = format!("{}:{}", self.path, name.span().start().line);
            self.figures.names.entry(name.to_string()).or_default().push(place);
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
            let place = format!("{}:{}", self.path, signature.ident.span().start().line);
            let file = self.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
            self.figures.tuples.push((format!("{file}::{}", signature.ident), place));
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

/// So many of `all`, in percent.
#[expect(clippy::cast_precision_loss, reason = "nobody writes 2^53 types")]
fn percent(of: usize, all: usize) -> f64 {
    100.0 * of as f64 / all.max(1) as f64
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
        let figures = Figures::of(sources.iter());
        let lines = figures.lines();
        assert_eq!(lines[0], "most methods: x::Path 3");
        assert_eq!(lines[1], "functions with a tuple as a parameter: 1");
        assert_eq!(lines[2], "names of types: 2, of which 1 are of several (50.0 %)");
        let breaches = figures.breaches();
        assert_eq!(
            breaches[0],
            "Path is the name of 2 types, in crates/x/src/one.rs:1, crates/x/src/other.rs:1: rename all but one"
        );
        let tuple = "one::b takes a tuple (crates/x/src/one.rs:2): make it parameters, or a type with names"
            .to_owned();
        assert!(breaches.contains(&tuple), "{breaches:?}");
        let reasons = SHARED_NAMES.len() + WITH_TUPLES.len();
        assert_eq!(breaches.len(), 2 + reasons, "no reason is needed here: {breaches:?}");
    }
}
