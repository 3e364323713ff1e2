//! Folders without an index, shown by what is in them.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;

use quickset::h3::Response;

use super::beneath::{Beneath, EntryKind, FolderEntry};
use super::{AnswerContent, FileAnswer, not_found, place, push_encoded};

/// What is in a folder, as a page of links; `names` lead to it.
pub(super) fn page(folder: &Beneath, names: &[OsString]) -> FileAnswer {
    let Ok(entries) = folder.entries() else { return not_found() };
    // What would not be found is not shown.
    let shown = |entry: FolderEntry| {
        let FolderEntry { mut name, kind } = entry;
        if name.as_encoded_bytes().starts_with(b".") || !place::is_plain(&name, false) {
            return None;
        }
        match kind.or_else(|| Some(folder.child(&name)?.kind()))? {
            EntryKind::File => Some(name),
            EntryKind::Folder => {
                name.push("/");
                Some(name)
            }
            EntryKind::Other => None,
        }
    };
    // The first ones by name, whatever order the system has them in, and no more than these in memory.
    let (mut listed, mut all) = (BTreeSet::new(), 0_usize);
    for name in entries.filter_map(shown) {
        all += 1;
        listed.insert(name);
        if listed.len() > MAX_ENTRIES {
            listed.pop_last();
        }
    }
    let title = escaped(&[OsStr::new(""), &names.join(OsStr::new("/"))].join(OsStr::new("/")));
    let mut page = format!("<!doctype html>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n<ul>\n");
    for name in &listed {
        let _ = writeln!(page, "<li><a href=\"./{}\">{}</a></li>", encoded(name), escaped(name));
    }
    page.push_str("</ul>\n");
    if all > listed.len() {
        let _ = writeln!(page, "<p>These are the first {} of {all} names.</p>", listed.len());
    }
    let response = Response::new(200)
        .with("content-type", "text/html; charset=utf-8")
        .with("content-length", page.len().to_string());
    FileAnswer { response, content: AnswerContent::Text(page.into()) }
}

/// A name as text for HTML: what is none stands as U+FFFD, and what would not be seen, or turn the direction
/// of what follows, as its escape.
fn escaped(name: &OsStr) -> String {
    name.to_string_lossy().chars().fold(String::new(), |mut out, c| {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.extend(c.escape_default()),
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
        out
    })
}

/// A name for a link: all but the unreserved characters (RFC 3986 §2.3) and the slash behind a folder.
fn encoded(name: &OsStr) -> String {
    name.as_encoded_bytes().iter().fold(String::new(), |mut out, b| {
        if b.is_ascii_alphanumeric() || b"-._~/".contains(b) {
            out.push(*b as char);
        } else {
            push_encoded(&mut out, *b);
        }
        out
    })
}

/// Names in a listing at most.
pub(super) const MAX_ENTRIES: usize = 10_000;
