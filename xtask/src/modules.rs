//! Which modules of a crate name which, and the circles among them.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::Source;

/// The modules of a crate, and which of the others each names by `crate::…`.
pub(crate) struct Modules(BTreeMap<String, BTreeSet<String>>);

impl Modules {
    /// Of sources below `folder`, `crates/quic/src`. Tests are exempt.
    pub(crate) fn of(sources: &[Source], folder: &str) -> Self {
        let mut named: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for source in sources.iter().filter(|source| !source.is_test_file()) {
            let Some(path) = source.path.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')) else {
                continue;
            };
            let module = path.split('/').next().unwrap_or(path).trim_end_matches(".rs");
            if module == "lib" {
                continue;
            }
            let named = named.entry(module.to_owned()).or_default();
            let lines = source.text.lines().zip(source.test_lines()).filter(|(_, is_test)| !is_test);
            for (line, _) in lines.filter(|(line, _)| !line.trim_start().starts_with("//")) {
                named.extend(names(line).map(str::to_owned));
            }
        }
        let known: BTreeSet<String> = named.keys().cloned().collect();
        for (module, named) in &mut named {
            named.retain(|other| other != module && known.contains(other));
        }
        Self(named)
    }

    pub(crate) fn table(&self) -> impl Iterator<Item = (&str, Vec<&str>)> {
        self.0.iter().map(|(module, named)| (module.as_str(), named.iter().map(String::as_str).collect()))
    }

    /// Sets of modules each of which leads to all the others, the largest first.
    pub(crate) fn circles(&self) -> Vec<BTreeSet<&str>> {
        let reach: BTreeMap<&str, BTreeSet<&str>> =
            self.0.keys().map(|module| (module.as_str(), self.reach(module))).collect();
        let mut circles: Vec<BTreeSet<&str>> = Vec::new();
        for (module, reached) in &reach {
            if reached.contains(module) && !circles.iter().any(|circle| circle.contains(module)) {
                circles.push(reached.iter().copied().filter(|other| reach[other].contains(module)).collect());
            }
        }
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        circles
    }

    fn reach<'a>(&'a self, from: &'a str) -> BTreeSet<&'a str> {
        let (mut reached, mut todo) = (BTreeSet::new(), vec![from]);
        while let Some(module) = todo.pop() {
            todo.extend(self.0[module].iter().map(String::as_str).filter(|other| reached.insert(*other)));
        }
        reached
    }
}

/// What a line names by `crate::`, and by `crate::{` on one line. What the crate's root shows under a name of
/// its own is no module.
fn names(line: &str) -> impl Iterator<Item = &str> {
    line.split("crate::").skip(1).flat_map(|rest| {
        let list = rest.strip_prefix('{').unwrap_or(rest);
        let count = if list.len() < rest.len() { usize::MAX } else { 1 };
        list.split(", ")
            .take(count)
            .map(|name| name.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or(""))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: format!("crates/x/src/{path}"), text: text.to_owned() }
    }

    #[test]
    fn circles_are_found_and_chains_are_none() {
        let sources = [
            source("lib.rs", "mod a;\npub use a::A;\n"),
            source("a/mod.rs", "use crate::b::B;\n"),
            source("a/inner.rs", "fn f(c: crate::c::C) {}\n"),
            source("b.rs", "use crate::{a::A, d};\n// crate::e is a word\nuse crate::Shown;\n"),
            source("c.rs", "use crate::d::D;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n"),
            source("d.rs", ""),
            source("e/tests.rs", "use crate::d::D;\n"),
        ];
        let modules = Modules::of(&sources, "crates/x/src");
        let table: Vec<_> = modules.table().collect();
        assert_eq!(table, [("a", vec!["b", "c"]), ("b", vec!["a", "d"]), ("c", vec!["d"]), ("d", vec![])]);
        assert_eq!(modules.circles(), [BTreeSet::from(["a", "b"])]);
    }
}
