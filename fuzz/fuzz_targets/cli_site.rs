//! A request to the site of a folder, as `http serve` answers it: what comes is a file below the root and
//! just those of its bytes that the head says; 200, 206, 304, 412 and 416 are those of RFC 9110 §13.2.2, read
//! here from its grammar.
//!
//! The lowest bit of the first byte of the input lists folders, the next two are for scripts of others. Then
//! lines follow: method and path, and fields. In their values 1 stands for the entity tag of what is asked
//! for, 2 for its date.
#![no_main]

#[path = "../../crates/cli/src/http/site/mod.rs"]
#[expect(
    dead_code,
    unused_imports,
    reason = "the server reads files in other ways, too, and answers when it is busy"
)]
#[expect(clippy::disallowed_methods, reason = "a site lives in real time")]
mod site;

use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use libfuzzer_sys::fuzz_target;
use quickset::Budget;
use quickset::h3::{Field, Request, Response};
use quickset_fuzz::conditions::{self, Representation};
use quickset_fuzz::tree::{self, Tree};
use site::{AnswerContent, FileAnswer, FolderSite, SiteOptions};

fuzz_target!(|input: &[u8]| {
    static TREE: OnceLock<Tree> = OnceLock::new();
    let tree = TREE.get_or_init(|| Tree::new().expect("a folder below target/"));
    let Some((&flags, text)) = input.split_first() else { return };
    let cors = [None, Some("*"), Some("https://other.example"), None][usize::from(flags >> 1 & 3)];
    let options =
        SiteOptions { listing: flags & 1 == 1, cors: cors.map(str::to_owned), ..SiteOptions::default() };
    let site = FolderSite::new(&tree.root, 2, Budget::new(BUDGET), options).expect("the folder is there");
    let Some(asked) = request(&site, text) else { return };
    let got = Got::from(site.answer(&asked));
    got.is_well_formed(&asked);
    // It may be in memory now.
    if let Some(again) = site.answer_at_once(&asked) {
        got.is_the_same(&Got::from(again));
    }
    if asked.method == "GET" || asked.method == "HEAD" {
        judge(&site, tree, &asked, &got);
    } else {
        assert!([204, 405].contains(&got.head.status) && got.content.is_empty() | (got.head.status == 405));
    }
});

/// What was asked, as far as it gets through HTTP.
fn request(site: &FolderSite, text: &[u8]) -> Option<Request> {
    let mut lines = text.split(|b| *b == b'\n');
    let (method, path) = halves(lines.next()?, b" ")?;
    let mut request = Request::new(method.to_vec(), "site.example", path.to_vec());
    // Others are nothing to a site, and may be no fields at all.
    let lines: Vec<_> = lines.filter_map(|line| halves(line, b": ")).take(12).collect();
    let codings = lines.iter().filter(|(name, _)| *name == b"accept-encoding");
    let fields = codings.map(|(name, value)| Field::new(name.to_vec(), value.to_vec())).collect();
    let known = Got::from(site.answer(&Request { method: "HEAD".into(), fields, ..request.clone() })).head;
    for (name, value) in lines {
        let mut said = Vec::new();
        for &byte in value {
            match byte {
                1 => said.extend_from_slice(known.field("etag").map_or(b"", |tag| tag)),
                2 => said.extend_from_slice(known.field("last-modified").map_or(b"", |date| date)),
                _ => said.push(byte),
            }
        }
        request = request.with(name.to_vec(), said);
    }
    request.check().is_ok().then_some(request)
}

fn halves<'a>(line: &'a [u8], between: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = line.windows(between.len()).position(|window| window == between)?;
    Some((&line[..at], &line[at + between.len()..]))
}

/// An answer, read whole.
struct Got {
    head: Response,
    content: Vec<u8>,
}

impl From<FileAnswer> for Got {
    fn from(answer: FileAnswer) -> Self {
        let content = match answer.content {
            AnswerContent::Text(text) => text.to_vec(),
            AnswerContent::File { file, from, len } => {
                let len = usize::try_from(len).expect("files are small");
                let mut content = Vec::with_capacity(len);
                // No more of it is read at a time than others may want, too.
                while content.len() < len {
                    let (at, end) = (from + content.len() as u64, from + len as u64);
                    let read = file.read(at, len - content.len(), end);
                    let part = read.expect("it is open");
                    assert!(!part.is_empty(), "the file has not changed");
                    content.extend_from_slice(&part);
                }
                content
            }
        };
        Self { head: answer.response, content }
    }
}

impl Got {
    fn is_well_formed(&self, asked: &Request) {
        self.head.check().expect("what was asked was, too");
        let has_content = asked.method != "HEAD" && !matches!(self.head.status, 204 | 304);
        assert!(has_content || self.content.is_empty());
        if has_content {
            assert_eq!(self.field("content-length"), Some(self.content.len().to_string()));
        }
    }

    /// But for when it is said.
    fn is_the_same(&self, other: &Self) {
        let said = |got: &Self| {
            let fields = got.head.fields.iter().filter(|field| field.name != "date");
            fields.cloned().collect::<Vec<_>>()
        };
        assert_eq!((self.head.status, said(self)), (other.head.status, said(other)));
        assert!(self.content == other.content);
    }

    fn field(&self, name: &str) -> Option<String> {
        let mut values = self.head.fields.iter().filter(|field| field.name == name);
        let value = values.next()?;
        assert!(values.next().is_none(), "{name} twice");
        Some(String::from_utf8_lossy(&value.value).into_owned())
    }

    /// Where a status is one of a representation.
    fn is_of_a_file(&self) -> bool {
        self.field("etag").is_some() || matches!(self.head.status, 412 | 416)
    }
}

/// Answers to GET and HEAD.
fn judge(site: &FolderSite, tree: &Tree, asked: &Request, got: &Got) {
    let path = asked.path.as_deref().unwrap_or_default();
    let Some(names) = tree::names(path) else { return assert_eq!(got.head.status, 404, "for no path") };
    if names.len() > LINKS {
        return;
    }
    let Some(file) = tree.file(&names) else {
        return not_of_a_file(site, tree, asked, &names, got);
    };
    let whole = site.answer(&Request { method: "HEAD".into(), fields: codings(asked), ..asked.clone() });
    let whole = Got::from(whole);
    let coding = whole.field("content-encoding");
    let content = match coding.as_deref() {
        None => &file.content,
        Some(coding) => {
            let listed = |name: &[u8]| {
                codings(asked).iter().any(|field| contains(&field.value.to_ascii_lowercase(), name))
            };
            assert!(listed(coding.as_bytes()) || listed(b"*"), "{coding} was not asked for");
            file.coded.get(coding).expect("it lies beside the file")
        }
    };
    let representation = Representation {
        etag: whole.field("etag").expect("all files have some").into_bytes(),
        dates: file.dates,
        len: content.len() as u64,
    };
    if matches!(got.head.status, 200 | 206 | 304) {
        assert_eq!(got.field("etag"), whole.field("etag"));
    }
    if matches!(got.head.status, 200 | 206) {
        assert_eq!(got.field("content-encoding"), coding);
    }
    let expected = conditions::expected(asked, &representation);
    assert!(expected.contains(&got.head.status), "{} where {expected:?} may be", got.head.status);
    match got.head.status {
        200 if asked.method == "GET" => assert!(got.content == *content),
        200 => assert_eq!(got.field("content-length"), Some(content.len().to_string())),
        206 => assert_part(got, content),
        416 => assert_eq!(got.field("content-range"), Some(format!("bytes */{}", content.len()))),
        _ => {}
    }
    let future =
        got.field("last-modified").map(|date| httpdate::parse_http_date(&date).expect("it is a date"));
    #[expect(clippy::disallowed_methods, reason = "a site lives in real time")]
    let now = SystemTime::now() + Duration::from_secs(1);
    assert!(future.is_none_or(|date| date <= now), "RFC 9110 §8.8.2.1");
}

/// Just what the head says (RFC 9110 §14.4).
fn assert_part(got: &Got, content: &[u8]) {
    let range = got.field("content-range").expect("it is a part");
    let (first, rest) =
        range.strip_prefix("bytes ").and_then(|range| range.split_once('-')).expect("of bytes");
    let (last, whole) = rest.split_once('/').expect("of so many");
    let [first, last, whole] = [first, last, whole].map(|number| number.parse::<usize>().expect("a number"));
    assert!(whole == content.len() && first <= last);
    assert_eq!(got.content, &content[first..=last]);
}

/// There is no file for everybody at this place.
fn not_of_a_file(site: &FolderSite, tree: &Tree, asked: &Request, names: &[Vec<u8>], got: &Got) {
    assert!(!got.is_of_a_file(), "{} where no file is", got.head.status);
    match got.head.status {
        404 => {}
        308 => {
            let to = got.field("location").expect("it is elsewhere").into_bytes();
            assert!(to.starts_with(b"/") && !to.starts_with(b"//"), "another host");
            let again = site.answer(&Request { path: Some(to.into()), ..asked.clone() });
            assert_ne!(again.response.status, 308);
        }
        200 => {
            assert!(tree.is_folder(names), "a listing of no folder");
            let page = String::from_utf8_lossy(&got.content);
            for link in page.split("href=\"./").skip(1).filter_map(|rest| rest.split('"').next()) {
                let path = asked.path.as_deref().unwrap_or_default();
                let path = path.split(|b| *b == b'?').next().unwrap_or_default();
                let target = Request::new("GET", "site.example", [path, link.as_bytes()].concat());
                assert_eq!(site.answer(&target).response.status, 200, "{link} is listed");
            }
        }
        status => panic!("{status} where no file is"),
    }
}

fn codings(asked: &Request) -> Vec<Field> {
    asked.fields.iter().filter(|field| field.name == "accept-encoding").cloned().collect()
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

/// Bytes that a site may keep.
const BUDGET: u64 = 16 << 20;

/// So many links in a row the system follows.
const LINKS: usize = 40;
