//! A folder as a web site: from the head of a request to the head of a response and where its content lies.
//!
//! What is decided is decided by pure functions ([`place`], [`range`], [`condition`], [`types`]); this looks
//! at files and puts the fields together. It knows no transport.

#[cfg(unix)]
mod area;
mod beneath;
mod cache_rule;
mod condition;
mod files;
mod glob;
mod kept;
mod listing;
mod parts;
mod place;
mod range;
mod representation;
mod reserve;
mod root;
mod types;
mod version;

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::future::poll_fn;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use quickset::Budget;
use quickset::h3::{Field, Request, Response};

#[cfg(unix)]
use area::PutArea;
#[cfg(unix)]
pub(super) use area::{FileDraft, Most, PutRefusal};
use beneath::{Beneath, EntryKind};
pub(super) use cache_rule::CacheRule;
use condition::RequestConditions;
use files::Files;
pub(super) use files::Readable;
pub(super) use glob::Glob;
use kept::{FileShelf, KeptFile, KeptKey};
pub(super) use place::decoded;
pub(super) use representation::dated;
use representation::{Calendar, Representation};
use root::Root;
#[cfg(unix)]
use version::FileVersion;

/// A folder to be served.
#[derive(Clone, Debug)]
pub(super) struct FolderSite {
    /// Where it is; a link there may lead to another folder from one request to the next, as new versions of
    /// sites are put up.
    name: PathBuf,
    /// The folder to which it led last.
    root: Arc<Mutex<Option<Arc<Root>>>>,
    files: Arc<Files>,
    shelf: Arc<FileShelf>,
    calendar: Arc<Calendar>,
    options: SiteOptions,
    /// Where files may be put, if anywhere.
    #[cfg(unix)]
    area: Option<Arc<PutArea>>,
}

/// What is served beside files.
#[derive(Clone, Debug, Default)]
pub(super) struct SiteOptions {
    /// Folders without an index show what is in them.
    pub(super) listing: bool,
    /// The origin whose scripts may read all of it; `*` is any.
    pub(super) cors: Option<String>,
    /// What caches are told of files; the first rule that fits counts.
    pub(super) cache_rules: Vec<CacheRule>,
}

/// The answer to a request.
#[derive(Debug)]
pub(super) struct FileAnswer {
    pub(super) response: Response,
    pub(super) content: AnswerContent,
}

#[derive(Debug)]
pub(super) enum AnswerContent {
    /// What is in memory: words of ours, or bytes of a file.
    Text(Bytes),
    /// So many bytes of the file, from there on.
    File { file: Arc<Readable>, from: u64, len: u64 },
}

impl FileAnswer {
    /// There is no memory for more answers: what was asked for may be asked for again.
    pub(super) fn busy() -> Self {
        later("The server has too much to do for you at the moment. Ask again soon.\n")
    }
}

/// A file to serve: where it is below the root, what it is encoded in, and what there is to say of it.
struct FoundFile {
    way: PathBuf,
    file: Readable,
    representation: Representation,
}

impl FolderSite {
    /// The site of a folder, of which so many files are open at a time at most. What is kept of it is paid
    /// for by the budget.
    ///
    /// # Errors
    /// When there is no such folder.
    pub(super) fn new(root: &Path, open: usize, budget: Budget, options: SiteOptions) -> io::Result<Self> {
        let name = std::path::absolute(root)?;
        let root = Arc::new(Root::open(&name)?);
        Ok(Self {
            name,
            root: Arc::new(Mutex::new(Some(root))),
            files: Files::new(open, budget.clone()),
            shelf: Arc::new(FileShelf::new(budget)),
            calendar: Arc::default(),
            options,
            #[cfg(unix)]
            area: None,
        })
    }

    /// The same, into a folder of which files may be put.
    ///
    /// # Errors
    /// Those of the system, and when the folder is not below that of the site.
    #[cfg(unix)]
    pub(super) fn with_area(mut self, folder: &Path, most: Most) -> io::Result<Self> {
        self.area = Some(Arc::new(PutArea::new(&self.name, folder, most)?));
        Ok(self)
    }

    /// Has what is kept in memory given up when connections need it or nobody asks for it any more, for as
    /// long as this is polled.
    pub(super) async fn tend(&self) {
        let (mut shelf, mut files) = (pin!(self.shelf.tend()), pin!(self.files.tend()));
        // Neither ends.
        poll_fn(|cx| {
            let _ = shelf.as_mut().poll(cx);
            files.as_mut().poll(cx)
        })
        .await;
    }

    /// The answer to a request, if the file is one that was asked for a moment ago, and the same still. Waits
    /// for nothing.
    pub(super) fn answer_at_once(&self, request: &Request) -> Option<FileAnswer> {
        self.answer_at_once_at(request, SystemTime::now(), Instant::now())
    }

    fn answer_at_once_at(&self, request: &Request, now: SystemTime, at: Instant) -> Option<FileAnswer> {
        let is_head = request.method == "HEAD";
        if !(is_head || request.method == "GET") || malformed(request).is_some() {
            return None;
        }
        let kept = self.shelf.get(&KeptKey::of(request)?, now, at)?;
        let asked = AskedFields::of(request);
        let mut answer = kept.answer(&asked.conditions(is_head));
        if is_head {
            answer.content = AnswerContent::Text(Bytes::new());
        }
        Some(self.dressed(answer, request, now))
    }

    /// The answer to a request. Reads the file system: not for a thread that others wait for.
    pub(super) fn answer(&self, request: &Request) -> FileAnswer {
        self.answer_at(request, SystemTime::now())
    }

    fn answer_at(&self, request: &Request, now: SystemTime) -> FileAnswer {
        let is_head = request.method == "HEAD";
        let mut answer = match (&request.method[..], malformed(request)) {
            (_, Some(why)) => text(Response::new(400), why),
            (b"GET" | b"HEAD", _) => self.get(request, is_head, now),
            (b"OPTIONS", _) => bare(Response::new(204).with("allow", self.methods(request))),
            _ => text(Response::new(405).with("allow", self.methods(request)), "This site is to be read.\n"),
        };
        if is_head {
            answer.content = AnswerContent::Text(Bytes::new());
        }
        self.dressed(answer, request, now)
    }

    /// With what all answers say.
    fn dressed(&self, answer: FileAnswer, request: &Request, now: SystemTime) -> FileAnswer {
        let mut response = answer
            .response
            .with("date", self.calendar.date(now))
            .with("server", "quickset")
            .with("x-content-type-options", "nosniff");
        if let Some(origin) = &self.options.cors {
            response = cors(response, origin, request);
        }
        FileAnswer { response, content: answer.content }
    }

    /// What may be asked of the place that a request is about.
    fn methods(&self, request: &Request) -> &'static str {
        #[cfg(unix)]
        if self.area_of(request).is_some() {
            return "GET, HEAD, OPTIONS, PUT";
        }
        let _ = request;
        METHODS
    }

    fn get(&self, request: &Request, is_head: bool, now: SystemTime) -> FileAnswer {
        let path = request.path.as_deref().unwrap_or_default();
        let Some(names) = place::place(path) else { return not_found() };
        let is_folder = names.last().is_some_and(|name| name.is_empty());
        let plain = names.iter().filter(|name| !name.is_empty());
        let way: PathBuf = plain.collect();
        // What is put stands for itself: it is not what something else is encoded.
        let accepted = (!self.is_in_area(&names)).then(|| field(request, "accept-encoding"));
        let accepted = accepted.map(|value| value.map(|value| types::accepted(&value)).unwrap_or_default());
        let file = if is_folder { way.join("index.html") } else { way.clone() };
        let found =
            self.root().and_then(|root| Ok((self.find(&root, &file, accepted.as_deref(), now)?, root)));
        let (found, root) = match found {
            Ok(found) => found,
            Err(error) if is_passing(&error) => return out_of_reach(&self.name.join(file), &error),
            Err(_) => return not_found(),
        };
        let Some(found) = found else {
            return match Beneath::find(&root, &way).filter(|place| place.kind() == EntryKind::Folder) {
                Some(_) if !is_folder => moved(path),
                Some(folder) if self.options.listing => listing::page(&folder, &names),
                _ => not_found(),
            };
        };
        let asked = AskedFields::of(request);
        let asked = asked.conditions(is_head);
        match self.keep(request, &found, now) {
            Some(kept) => kept.answer(&asked),
            None => found.representation.answer(&asked, |from, len| AnswerContent::File {
                file: Arc::new(found.file),
                from,
                len,
            }),
        }
    }

    /// The folder, once for a request, which is then about one folder, whatever becomes of links meanwhile.
    ///
    /// # Errors
    /// Those of the system.
    fn root(&self) -> io::Result<Arc<Root>> {
        let known = self.root.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(root) = known.filter(|root| root.is_current()) {
            return Ok(root);
        }
        let found = Root::open(&self.name).map(Arc::new);
        // What is gone is not held either.
        *self.root.lock().unwrap_or_else(PoisonError::into_inner) = found.as_ref().ok().cloned();
        found
    }

    /// Keeps a small file for those who ask for it next.
    fn keep(&self, request: &Request, found: &FoundFile, now: SystemTime) -> Option<Arc<KeptFile>> {
        let (key, version) = (KeptKey::of(request)?, found.file.version());
        // While it may still change and look the same, it is read each time.
        let is_small = version.len() <= kept::LARGEST;
        if !is_small || !version.is_settled(now) || !found.file.is_near() {
            return None;
        }
        let since = Instant::now();
        let content = found.file.whole(kept::LARGEST).ok()??;
        let kept = Arc::new(KeptFile {
            place: self.name.join(&found.way),
            version,
            representation: found.representation.clone(),
            content,
            since,
            is_renewed: AtomicBool::new(false),
        });
        self.shelf.put(&key, kept.clone());
        Some(kept)
    }

    /// The file, or what lies encoded beside it if the client takes that; with `None` nothing is looked for
    /// there.
    ///
    /// # Errors
    /// When that cannot be told now.
    fn find(
        &self,
        root: &Arc<Root>,
        way: &Path,
        accepted: Option<&[types::Coding]>,
        now: SystemTime,
    ) -> io::Result<Option<FoundFile>> {
        let Some(plain) = self.open(root, way, now)? else { return Ok(None) };
        let media = types::media_type(way);
        let beside = |coding: &types::Coding| {
            let mut name = way.as_os_str().to_owned();
            name.push(coding.suffix);
            PathBuf::from(name)
        };
        let open = |coding| {
            let way = beside(coding);
            Some((self.open(root, &way, now).ok().flatten()?, way, coding))
        };
        let is_there = |coding| root.has_file(&beside(coding)).unwrap_or_else(|_| open(coding).is_some());
        let coded = accepted.and_then(|accepted| accepted.iter().find_map(open));
        let varies = coded.is_some() || accepted.is_some() && types::CODINGS.iter().any(is_there);
        let (file, found, coding) = match coded {
            Some((opened, way, coding)) => (opened, way, Some(coding.name)),
            None => (plain, way.to_owned(), None),
        };
        let selected = file.version().select(coding, now);
        let mut representation = Representation::new(selected, coding, media, varies);
        // By its own name, however it is encoded, and if it was asked for as a folder.
        if let Some(value) = cache_rule::value(&self.options.cache_rules, way) {
            representation.add_cache_control(value);
        }
        Ok(Some(FoundFile { way: found, file, representation }))
    }

    /// The file, if it is there.
    ///
    /// # Errors
    /// When that cannot be told now.
    fn open(&self, root: &Arc<Root>, way: &Path, now: SystemTime) -> io::Result<Option<Readable>> {
        let Some(place) = Beneath::find(root, way) else { return Ok(None) };
        // Pipes and devices are not opened: that alone can wait for ever.
        if place.kind() != EntryKind::File {
            return Ok(None);
        }
        match self.files.open(place, now) {
            Ok((file, metadata)) => Ok(metadata.is_file().then_some(file)),
            Err(error) if is_passing(&error) => Err(error),
            Err(_) => Ok(None),
        }
    }
}

#[cfg(unix)]
impl FolderSite {
    /// The area that a request is about, and the names on the way there.
    fn area_of(&self, request: &Request) -> Option<(&Arc<PutArea>, Vec<OsString>)> {
        let names = place::place(request.path.as_deref()?)?;
        self.area.as_ref().filter(|area| area.has(&names)).map(|area| (area, names))
    }

    fn is_in_area(&self, names: &[OsString]) -> bool {
        self.area.as_ref().is_some_and(|area| area.has(names))
    }

    /// Whether a request wants to put a file where that may be.
    pub(super) fn takes(&self, request: &Request) -> bool {
        request.method == "PUT" && self.area_of(request).is_some()
    }

    /// Begins to take the file of such a request, or says why not. For a thread that nobody waits for.
    pub(super) fn begin(&self, request: &Request) -> Result<FileDraft, PutRefusal> {
        if let Some(why) = malformed(request) {
            return Err(PutRefusal::new(400, why));
        }
        let Some((area, names)) = self.area_of(request) else { return Err(PutRefusal::new(404, NOTHING)) };
        let root = self.root().map_err(|error| {
            if is_passing(&error) { PutRefusal::new(503, UNREADABLE) } else { PutRefusal::new(404, NOTHING) }
        })?;
        area.begin(&root, &names, request)
    }

    /// The answer to such a request, when it is through.
    pub(super) fn put(&self, request: &Request, end: PutEnd) -> FileAnswer {
        let now = SystemTime::now();
        let answer = match end {
            PutEnd::Refused(refusal) => refusal.answer(),
            PutEnd::Slow => text(Response::new(408), "The content comes too slowly.\n"),
            PutEnd::Broken => text(Response::new(400), "The content broke off.\n"),
            PutEnd::Busy => FileAnswer::busy(),
            PutEnd::Done { is_new, file } => {
                let response = Response::new(if is_new { 201 } else { 204 });
                let version = file.metadata().map(|metadata| FileVersion::of(&metadata));
                // RFC 9110 §9.3.4: it is kept as it came.
                bare(match version {
                    Ok(version) if version.rests(now) => {
                        response.with("etag", version.select(None, now).etag)
                    }
                    _ => response,
                })
            }
        };
        let mut answer = self.dressed(answer, request, now);
        if answer.response.status == 201 {
            answer.response = answer.response.with("content-length", "0");
        }
        answer
    }
}

#[cfg(not(unix))]
impl FolderSite {
    fn is_in_area(&self, _: &[OsString]) -> bool {
        false
    }
}

/// How it ended that a file was put.
#[cfg(unix)]
#[derive(Debug)]
pub(super) enum PutEnd {
    Refused(PutRefusal),
    /// Too little of it came in its time.
    Slow,
    /// The client has ended it.
    Broken,
    /// There is no memory for it.
    Busy,
    /// It is there. Whether there was none before, and the file.
    Done {
        is_new: bool,
        file: std::fs::File,
    },
}

/// Why it is no request, if it is none.
fn malformed(request: &Request) -> Option<&'static str> {
    // RFC 9112 §3.2, RFC 9114 §4.3.1.
    if request.authority.is_none() && request.field("host").is_none() {
        return Some("The request names no host, several, or none that can be.\n");
    }
    // RFC 9113 §8.2.1: only by HTTP/2, of which the library lets it pass.
    let is_odd = request.fields.iter().any(is_padded);
    is_odd.then_some("A field of the request has white space around its value.\n")
}

/// The value of a field, of all its lines (RFC 9110 §5.3: they are one list). What is no text fits nothing,
/// and is not passed over.
fn field<'a>(request: &'a Request, name: &str) -> Option<Cow<'a, str>> {
    let mut lines = request.fields.iter().filter(|field| field.name == name);
    let first = String::from_utf8_lossy(&lines.next()?.value);
    Some(lines.fold(first, |all, line| all + ", " + String::from_utf8_lossy(&line.value)))
}

fn is_padded(field: &Field) -> bool {
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    is_space(field.value.first()) || is_space(field.value.last())
}

/// The fields of a request that [`RequestConditions`] are of.
struct AskedFields<'a>([Option<Cow<'a, str>>; 6]);

impl<'a> AskedFields<'a> {
    fn of(request: &'a Request) -> Self {
        Self(CONDITIONS.map(|name| field(request, name)))
    }

    fn conditions(&self, is_head: bool) -> RequestConditions<'_> {
        let [if_match, if_none_match, if_modified_since, if_unmodified_since, if_range, range] =
            self.0.each_ref().map(|value| value.as_deref());
        RequestConditions {
            is_head,
            if_match,
            if_none_match,
            if_modified_since,
            if_unmodified_since,
            if_range,
            range,
        }
    }
}

fn bare(response: Response) -> FileAnswer {
    FileAnswer { response, content: AnswerContent::Text(Bytes::new()) }
}

fn text(response: Response, text: &str) -> FileAnswer {
    let response = response
        .with("content-type", "text/plain; charset=utf-8")
        .with("content-length", text.len().to_string());
    FileAnswer { response, content: AnswerContent::Text(Bytes::copy_from_slice(text.as_bytes())) }
}

fn not_found() -> FileAnswer {
    text(Response::new(404), NOTHING)
}

/// The file may be there, and be read later: to say that it is gone would make caches forget it.
fn out_of_reach(file: &Path, error: &io::Error) -> FileAnswer {
    tracing::warn!(file = %file.display(), %error, "a file cannot be opened");
    later(UNREADABLE)
}

/// What cannot be answered now.
fn later(why: &str) -> FileAnswer {
    text(Response::new(503).with("retry-after", "5"), why)
}

/// The system lacks something that it may have again, and says nothing of the file.
fn is_passing(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let error = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(error, Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO | Errno::AGAIN))
}

/// A folder is asked for by the name of a file.
fn moved(path: &[u8]) -> FileAnswer {
    // What is asked of the page there goes along.
    let (path, query) = path.split_at(path.iter().position(|b| *b == b'?').unwrap_or(path.len()));
    // It has no empty name, so that it cannot be taken for another host. RFC 9110 §10.2.2: it is a URI, of
    // which what was asked for may have been none.
    let to = [path, b"/", query].concat().iter().fold(String::new(), |mut to, b| {
        match b {
            b'"' | b'#' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' => push_encoded(&mut to, *b),
            b if b.is_ascii_graphic() => to.push(*b as char),
            b => push_encoded(&mut to, *b),
        }
        to
    });
    text(Response::new(308).with("location", to), "It is a folder.\n")
}

/// The CORS protocol of the Fetch standard, and that of Resource Timing: everything here is to be read, and
/// nothing is done.
fn cors(response: Response, origin: &str, request: &Request) -> Response {
    let mut response = response
        .with("access-control-allow-origin", origin.to_owned())
        .with("access-control-expose-headers", READ_BY_SCRIPTS)
        // Players find their bitrates by how long what they asked for took, which is hidden from others
        // otherwise.
        .with("timing-allow-origin", origin.to_owned());
    if origin != "*" {
        response = response.with("vary", "origin");
    }
    if request.method == "OPTIONS" {
        response = response
            .with("access-control-allow-methods", METHODS)
            .with("access-control-allow-headers", ASKED_BY_SCRIPTS)
            .with("access-control-max-age", "86400");
    }
    response
}

fn push_encoded(out: &mut String, byte: u8) {
    let _ = write!(out, "%{byte:02X}");
}

const NOTHING: &str = "There is nothing here.\n";

const UNREADABLE: &str = "The server cannot read it at the moment. Ask again soon.\n";

const METHODS: &str = "GET, HEAD, OPTIONS";

/// The fields that [`RequestConditions`] are of.
const CONDITIONS: [&str; 6] =
    ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range", "range"];

/// What scripts of other origins may ask by. Players say more of what they ask for in the last four
/// (CTA-5004).
const ASKED_BY_SCRIPTS: &str = "if-match, if-none-match, if-modified-since, if-unmodified-since, if-range, range, priority, \
    cmcd-object, cmcd-request, cmcd-session, cmcd-status";

/// What they may read beside what all may; players set their clocks by the date (UTCTiming in ISO/IEC
/// 23009-1).
const READ_BY_SCRIPTS: &str = "accept-ranges, content-encoding, content-range, date, etag";

#[cfg(test)]
mod tests;
