use std::fs;
use std::time::Duration;

use super::*;

/// A site in a folder that goes away again.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("quickset-site-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("root/sub")).unwrap();
        fs::write(path.join("secret.txt"), "secret").unwrap();
        let root = path.join("root");
        fs::write(root.join("index.html"), "<p>home").unwrap();
        fs::write(root.join("data.js"), "0123456789").unwrap();
        fs::write(root.join("data.js.gz"), "zipped").unwrap();
        fs::write(root.join("a&b.txt"), "x").unwrap();
        fs::write(root.join(".hidden"), "x").unwrap();
        fs::write(root.join("sub/one.txt"), "one").unwrap();
        Self(path)
    }

    fn site(&self, options: SiteOptions) -> FolderSite {
        FolderSite::new(&self.0.join("root"), 16, Budget::new(BUDGET), options).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Status, head and content, when the file has been at rest for a while.
fn ask(site: &FolderSite, request: &Request) -> (u16, Response, String) {
    ask_at(site, request, SystemTime::now() + Duration::from_secs(10))
}

fn ask_at(site: &FolderSite, request: &Request, now: SystemTime) -> (u16, Response, String) {
    let answer = site.answer_at(request, now);
    let is_get = request.method == "GET";
    let (status, response, out) = read(answer);
    if is_get && status != 304 {
        assert_eq!(has(&response, "content-length"), Some(out.len().to_string()));
    }
    (status, response, out)
}

fn read(FileAnswer { response, content }: FileAnswer) -> (u16, Response, String) {
    let mut out = String::new();
    match content {
        AnswerContent::Text(text) => out.push_str(std::str::from_utf8(&text).unwrap()),
        AnswerContent::File { file, mut from, len } => {
            let end = from + len;
            while from < end {
                let part = file.read(from, usize::try_from(end - from).unwrap(), end).unwrap();
                assert!(!part.is_empty(), "{out}");
                from += part.len() as u64;
                out.push_str(std::str::from_utf8(&part).unwrap());
            }
        }
    }
    response.check().unwrap();
    (response.status, response, out)
}

/// What is answered from memory; `None` where the file is to be looked for.
#[cfg(target_os = "linux")]
fn ask_at_once(site: &FolderSite, request: &Request, later: Duration) -> Option<(u16, Response, String)> {
    let (now, at) = (SystemTime::now() + Duration::from_secs(10), Instant::now() + later);
    site.answer_at_once_at(request, now, at).map(read)
}

/// Bytes, more than anything here takes.
const BUDGET: u64 = 64 << 20;

fn get(path: &'static str) -> Request {
    Request::new("GET", "localhost", path)
}

fn has(response: &Response, name: &str) -> Option<String> {
    response.field(name).map(|value| String::from_utf8(value.to_vec()).unwrap())
}

#[test]
fn files_are_served_whole_in_parts_and_not_again() {
    let place = Place::new("files");
    let site = place.site(SiteOptions::default());
    let (status, head, content) = ask(&site, &get("/"));
    assert_eq!((status, content.as_str()), (200, "<p>home"));
    assert_eq!(has(&head, "content-type").unwrap(), "text/html; charset=utf-8");

    let (status, head, content) = ask(&site, &get("/data.js?v=1"));
    assert_eq!((status, content.as_str()), (200, "0123456789"));
    let etag = has(&head, "etag").unwrap();
    assert_eq!(has(&head, "vary").unwrap(), "accept-encoding");

    let (status, head, content) = ask(&site, &get("/data.js").with("range", "bytes=2-4"));
    assert_eq!((status, content.as_str()), (206, "234"));
    assert_eq!(has(&head, "content-range").unwrap(), "bytes 2-4/10");
    let (status, head, _) = ask(&site, &get("/data.js").with("range", "bytes=10-"));
    assert_eq!((status, has(&head, "content-range").as_deref()), (416, Some("bytes */10")));

    let (status, head, content) = ask(&site, &get("/data.js").with("if-none-match", etag.clone()));
    assert_eq!((status, content.as_str(), has(&head, "etag").unwrap()), (304, "", etag.clone()));
    assert_eq!(ask(&site, &get("/data.js").with("if-match", "\"other\"")).0, 412);

    let head_request = Request::new("HEAD", "localhost", "/data.js").with("range", "bytes=0-1");
    let (status, head, content) = ask(&site, &head_request);
    assert_eq!((status, content.as_str()), (200, ""));
    assert_eq!(has(&head, "content-length").unwrap(), "10", "as of a GET");

    let (status, head, content) = ask(&site, &get("/data.js").with("accept-encoding", "gzip, br"));
    assert_eq!((status, content.as_str()), (200, "zipped"));
    assert_eq!(has(&head, "content-encoding").unwrap(), "gzip");
    assert_eq!(has(&head, "content-type").unwrap(), "text/javascript; charset=utf-8");
    assert_ne!(has(&head, "etag").unwrap(), etag, "other bytes, another tag");
}

#[test]
fn nothing_outside_the_folder_is_served() {
    let place = Place::new("outside");
    let site = place.site(SiteOptions { listing: true, ..SiteOptions::default() });
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        symlink(place.0.join("secret.txt"), place.0.join("root/link.txt")).unwrap();
        symlink(&place.0, place.0.join("root/up")).unwrap();
        symlink(place.0.join("root/sub/one.txt"), place.0.join("root/in.txt")).unwrap();
        assert_eq!(ask(&site, &get("/in.txt")).2, "one", "links within it lead where they lead");
    }
    let paths = [
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/sub/../../secret.txt",
        "/link.txt",
        "/up",
        "/up/",
        "/up/secret.txt",
        "/.hidden",
        "/nothing",
        "/data.js/",
        "/data.js/x",
    ];
    for path in paths {
        let (status, _, content) = ask(&site, &get(path));
        assert_eq!((status, content.as_str()), (404, "There is nothing here.\n"), "{path}");
    }
}

#[test]
fn folders_are_moved_to_and_shown_if_that_is_wanted() {
    let place = Place::new("folders");
    let site = place.site(SiteOptions::default());
    let (status, head, _) = ask(&site, &get("/sub?x"));
    assert_eq!((status, has(&head, "location").as_deref()), (308, Some("/sub/?x")));
    assert_eq!(ask(&site, &get("/sub/")).0, 404, "unless asked for, nothing is shown");

    let site = place.site(SiteOptions { listing: true, ..SiteOptions::default() });
    assert!(ask(&site, &get("/sub/")).2.contains("<a href=\"./one.txt\">one.txt</a>"));
    fs::remove_file(place.0.join("root/index.html")).unwrap();
    let (_, _, page) = ask(&site, &get("/"));
    assert!(page.contains("<a href=\"./a%26b.txt\">a&amp;b.txt</a>"), "{page}");
    assert!(page.contains("./sub/") && !page.contains("hidden"), "{page}");
}

/// What is left out is the last by name, whatever order the system has them in, and the page says so.
#[test]
fn a_long_listing_says_that_it_is_cut() {
    let place = Place::new("long");
    let root = place.0.join("root/sub");
    // With the file that is there: one more than are shown.
    for n in 0..listing::MAX_ENTRIES {
        fs::write(root.join(format!("a{:05}", n * 7919 % 10_000)), "").unwrap();
    }
    let site = place.site(SiteOptions { listing: true, ..SiteOptions::default() });
    let page = ask(&site, &get("/sub/")).2;
    assert!(page.contains("These are the first 10000 of 10001 names."), "{}", &page[page.len() - 100..]);
    let names: Vec<&str> =
        page.split("href=\"./").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(names, (0..10_000).map(|n| format!("a{n:05}")).collect::<Vec<_>>());
    fs::remove_file(root.join("a00000")).unwrap();
    let page = ask(&site, &get("/sub/")).2;
    assert!(page.contains("one.txt") && !page.contains("These are the first"), "all are there");
}

#[cfg(unix)]
#[test]
fn what_is_shown_is_there() {
    use std::os::unix::fs::symlink;
    let place = Place::new("shown");
    let root = place.0.join("root/sub");
    for name in ["a:b", "a\\b", "a b"] {
        fs::write(root.join(name), "x").unwrap();
    }
    symlink(place.0.join("secret.txt"), root.join("out")).unwrap();
    symlink(root.join("nothing"), root.join("dangling")).unwrap();
    symlink("one.txt", root.join("link")).unwrap();
    symlink("..", root.join("up")).unwrap();
    // What is no file is not opened, and so nothing to be found.
    let _listener = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    symlink("socket", root.join("link-to-socket")).unwrap();
    let site = place.site(SiteOptions { listing: true, ..SiteOptions::default() });
    let page = ask(&site, &get("/sub/")).2;
    let links: Vec<&str> =
        page.split("href=\"./").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(links, ["a%20b", "a%3Ab", "a%5Cb", "link", "one.txt", "up/"]);
    for link in links {
        let request = Request::new("GET", "localhost", format!("/sub/{link}"));
        assert_eq!(ask(&site, &request).0, 200, "{link}");
    }
}

/// Whatever the system lets a file be called, it is served, listed, and found beside the plain one.
#[cfg(target_os = "linux")]
#[test]
fn files_are_served_by_any_name() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let place = Place::new("names");
    let root = place.0.join("root/sub");
    fs::remove_file(root.join("one.txt")).unwrap();
    let mut names: Vec<Vec<u8>> = (1..=255).filter(|b| !b"/.".contains(b)).map(|b| vec![b]).collect();
    names.extend(
        [&b"a\nb\r\n\tc"[..], b"%41%2e%2E", b"%", b"%zz", b"a?b#c", b"\"q\"'<&>", b"\xff\xfe.html"]
            .map(Vec::from),
    );
    names.extend(
        [&b"back\\..\\slash"[..], b"c:name", b"\x1b[2J", "\u{202e}gpj.exe".as_bytes(), b" ", b"~"]
            .map(Vec::from),
    );
    // As long as names are, and so that only one of two fits beside it.
    names.extend([vec![b'n'; 255], vec![0xc3; 252]]);
    for name in &names {
        fs::write(root.join(OsStr::from_bytes(name)), name).unwrap();
    }
    names.sort();
    names.dedup();
    let site = place.site(SiteOptions { listing: true, ..SiteOptions::default() });
    let page = ask(&site, &get("/sub/")).2;
    assert!(page.bytes().all(|b| b == b'\n' || b >= b' '), "it does not act");
    let links: Vec<&str> =
        page.split("href=\"./").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(links.len(), names.len());
    for (link, name) in links.iter().zip(&names) {
        let path = format!("/sub/{link}");
        let FileAnswer { response, content } = site.answer(&Request::new("GET", "localhost", path.clone()));
        let content = match content {
            AnswerContent::File { file, from, len } => file.read(from, len as usize, from + len).unwrap(),
            AnswerContent::Text(content) => content,
        };
        assert_eq!((response.status, &content[..]), (200, &**name), "{link}");
        let html = name.ends_with(b".html");
        assert_eq!(has(&response, "content-type").unwrap().starts_with("text/html"), html, "{link}");
        let mut beside = name.clone();
        beside.extend(b".gz");
        if fs::write(root.join(OsStr::from_bytes(&beside)), "zipped").is_ok() {
            let request = Request::new("GET", "localhost", path).with("accept-encoding", "gzip");
            assert_eq!(ask(&site, &request).2, "zipped", "{link}");
            fs::remove_file(root.join(OsStr::from_bytes(&beside))).unwrap();
        }
    }
    // Folders have such names, too, and the way there is a URI.
    let folder = OsStr::from_bytes(b"\xff\n|");
    fs::create_dir(root.join(folder)).unwrap();
    fs::write(root.join(folder).join("index.html"), "<p>there").unwrap();
    for path in [&b"/sub/%FF%0a%7c"[..], b"/sub/\xff%0A|"] {
        let (status, head, _) = ask(&site, &Request::new("GET", "localhost", path));
        let to = has(&head, "location").unwrap();
        assert_eq!(status, 308);
        assert!(to.bytes().all(|b| b.is_ascii_graphic() && b != b'|'), "{to}");
        assert_eq!(ask(&site, &Request::new("GET", "localhost", to)).2, "<p>there");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_place_deeper_than_paths_may_be_long_is_served() {
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
    let place = Place::new("deep");
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = openat(CWD, place.0.join("root"), flags, Mode::empty()).unwrap();
    let name = "d".repeat(200);
    for _ in 0..30 {
        mkdirat(&at, &name, Mode::RWXU).unwrap();
        at = openat(&at, &name, flags, Mode::empty()).unwrap();
    }
    for (file, content) in [("file.txt", "plain"), ("file.txt.gz", "zipped")] {
        let file = openat(&at, file, OFlags::CREATE | OFlags::WRONLY, Mode::RWXU).unwrap();
        std::io::Write::write_all(&mut fs::File::from(file), content.as_bytes()).unwrap();
    }
    drop(at);
    let site = place.site(SiteOptions { listing: true, ..SiteOptions::default() });
    let folder = format!("/{name}").repeat(30);
    let ask = |path: String, coding: &'static str| {
        ask(&site, &Request::new("GET", "localhost", path).with("accept-encoding", coding))
    };
    let (_, head, content) = ask(format!("{folder}/file.txt"), "identity");
    assert_eq!((content.as_str(), has(&head, "vary").as_deref()), ("plain", Some("accept-encoding")));
    assert_eq!(ask(format!("{folder}/file.txt"), "gzip").2, "zipped");
    assert_eq!(ask(folder.clone(), "gzip").0, 308);
    assert!(ask(format!("{folder}/"), "gzip").2.contains("\"./file.txt.gz\""));
    assert_eq!(ask(format!("{folder}/nothing"), "gzip").0, 404);
    assert!(std::process::Command::new("rm").arg("-rf").arg(&place.0).status().unwrap().success());
}

/// As sites are put up: the new one beside the old one, and then the link is turned.
#[cfg(unix)]
#[test]
fn a_link_to_the_root_may_be_turned() {
    let place = Place::new("turned");
    let current = place.0.join("current");
    let turn = |to: &str| {
        fs::create_dir_all(place.0.join(to)).unwrap();
        fs::write(place.0.join(to).join("a.txt"), to).unwrap();
        let _ = fs::remove_file(&current);
        std::os::unix::fs::symlink(to, &current).unwrap();
    };
    turn("one");
    let site = FolderSite::new(&current, 16, Budget::new(BUDGET), SiteOptions::default()).unwrap();
    assert_eq!(ask(&site, &get("/a.txt")).2, "one");
    turn("two");
    assert_eq!(ask(&site, &get("/a.txt")).2, "two");
    fs::remove_file(&current).unwrap();
    assert_eq!(ask(&site, &get("/a.txt")).0, 404);
    turn("three");
    assert_eq!(ask(&site, &get("/a.txt")).2, "three");
}

/// RFC 9110 §5.6.7, §8.8.2.1: dates are of the years 1970 to 9999, and none is in the future.
#[test]
fn files_may_be_of_any_time() {
    let place = Place::new("times");
    let site = place.site(SiteOptions::default());
    let now = SystemTime::now();
    let seconds = Duration::from_secs;
    let of = |time: SystemTime| {
        let file = std::fs::File::options().write(true).open(place.0.join("root/data.js")).unwrap();
        file.set_modified(time).unwrap();
        let (status, head, content) = ask(&site, &get("/data.js"));
        assert_eq!((status, content.as_str()), (200, "0123456789"), "{time:?}");
        (has(&head, "last-modified"), has(&head, "etag").unwrap())
    };
    let (before, tag) = of(SystemTime::UNIX_EPOCH - seconds(86_400));
    let (earlier, other) = of(SystemTime::UNIX_EPOCH - seconds(86_401));
    assert_eq!((before, earlier), (None, None));
    assert_ne!(tag, other);
    assert_eq!(of(SystemTime::UNIX_EPOCH).0, None, "that is no time");
    assert_eq!(
        of(SystemTime::UNIX_EPOCH + seconds(86_400)).0.as_deref(),
        Some("Fri, 02 Jan 1970 00:00:00 GMT")
    );
    let said = httpdate::parse_http_date(&of(now + seconds(1_000_000)).0.unwrap()).unwrap();
    assert!(said + seconds(1) >= now && said <= SystemTime::now(), "{said:?}");
    // The year 10,000. Not all file systems know it.
    let file = std::fs::File::options().write(true).open(place.0.join("root/data.js")).unwrap();
    if file.set_modified(SystemTime::UNIX_EPOCH + seconds(253_402_300_800)).is_ok() {
        assert_eq!(ask(&site, &get("/data.js")).0, 200);
    }
}

/// As packages are put up whose files all have the same time: the new one is as long as the old one, and as
/// old.
#[cfg(unix)]
#[test]
fn a_file_of_the_same_time_and_length_is_another_one() {
    let place = Place::new("packaged");
    let root = place.0.join("root");
    for time in [0, 1, 315_532_800, 1_700_000_000].map(|s| SystemTime::UNIX_EPOCH + Duration::from_secs(s)) {
        let site = place.site(SiteOptions::default());
        for (name, content) in [("app", "one"), ("new", "two")] {
            fs::write(root.join(name), content).unwrap();
            fs::File::options().write(true).open(root.join(name)).unwrap().set_modified(time).unwrap();
        }
        let (_, head, content) = ask(&site, &get("/app"));
        assert_eq!(content, "one");
        let tag = has(&head, "etag").unwrap();
        assert_eq!(ask(&site, &get("/app").with("if-none-match", tag.clone())).0, 304);
        let date = has(&head, "last-modified").unwrap_or_else(|| dated(time));
        fs::rename(root.join("new"), root.join("app")).unwrap();
        let fresh = |name: &'static str, value: &str| {
            let (status, _, content) = ask(&site, &get("/app").with(name, value.to_owned()));
            assert_eq!((status, content.as_str()), (200, "two"), "{name}: {value}");
        };
        fresh("if-none-match", &tag);
        fresh("if-modified-since", &date);
        let (status, _, content) =
            ask(&site, &get("/app").with("range", "bytes=0-1").with("if-range", date.clone()));
        assert_eq!((status, content.as_str()), (200, "two"), "{date}");
    }
}

/// RFC 9110 §8.8.2.2: twice within one second, and within one tick of the clock.
#[cfg(unix)]
#[test]
fn a_file_that_was_just_written_has_no_validator_that_fits_the_next() {
    let place = Place::new("twice");
    let (site, file) = (place.site(SiteOptions::default()), place.0.join("root/data.js"));
    fs::write(&file, "aaaaaaaaaa").unwrap();
    let (written, get) = (file.metadata().unwrap().modified().unwrap(), get("/data.js"));
    let (_, head, _) = ask_at(&site, &get, written);
    assert_eq!(has(&head, "last-modified"), None, "this second is not over");
    let tag = has(&head, "etag").unwrap();
    let later = written + Duration::from_secs(10);
    let (status, _, _) = ask_at(&site, &get.clone().with("if-none-match", tag), later);
    assert_eq!(status, 200, "what was written within the tick has no other time");
    let (_, head, _) = ask_at(&site, &get, later);
    let ranged =
        get.clone().with("range", "bytes=1-2").with("if-range", has(&head, "last-modified").unwrap());
    assert_eq!(ask_at(&site, &ranged, later).2, "aa");
}

#[test]
fn ranges_of_nothing_are_nothing() {
    let place = Place::new("nothing");
    fs::write(place.0.join("root/empty"), "").unwrap();
    let site = place.site(SiteOptions::default());
    for range in ["bytes=-5", "bytes=0-", "bytes=0-0", "bytes=7-"] {
        let (status, head, content) = ask(&site, &get("/empty").with("range", range));
        assert_eq!((status, content.as_str(), has(&head, "content-range")), (200, "", None), "{range}");
    }
}

/// The same of the clock of this machine, which may be set to any time while it serves.
#[test]
fn the_clock_may_be_at_any_time() {
    let at = |days: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(86_400 * days);
    assert_eq!(dated(SystemTime::UNIX_EPOCH - Duration::from_secs(1)), "Thu, 01 Jan 1970 00:00:00 GMT");
    assert_eq!(dated(at(1)), "Fri, 02 Jan 1970 00:00:00 GMT");
    assert_eq!(dated(at(2_932_896) + Duration::from_secs(86_400)), "Fri, 31 Dec 9999 23:59:59 GMT");
    assert_eq!(dated(at(5_000_000)), "Fri, 31 Dec 9999 23:59:59 GMT");
}

#[test]
fn lines_of_a_field_are_one_list() {
    let place = Place::new("lines");
    let site = place.site(SiteOptions::default());
    let etag = has(&ask(&site, &get("/data.js")).1, "etag").unwrap();
    let with = |name: &'static str, lines: [&str; 2]| {
        let [first, second] = lines.map(ToOwned::to_owned);
        ask(&site, &get("/data.js").with(name, first).with(name, second))
    };
    assert_eq!(with("if-none-match", ["\"x\"", &etag]).0, 304);
    assert_eq!(with("if-match", ["\"x\"", &etag]).0, 200);
    assert_eq!(with("if-match", ["\"x\"", "\"y\""]).0, 412);
    assert_eq!(with("accept-encoding", ["deflate", "gzip"]).2, "zipped");
    assert_eq!(with("range", ["bytes=0-1", "bytes=4-5"]).2, "0123456789", "several are the whole");
    let request = get("/data.js").with("if-match", &b"\"\xff\""[..]);
    assert_eq!(ask(&site, &request).0, 412, "what is no text is a tag that nothing has");
}

#[test]
fn other_methods_and_other_origins() {
    let place = Place::new("methods");
    let site =
        place.site(SiteOptions { cors: Some("https://a.example".to_owned()), ..SiteOptions::default() });
    let (status, head, _) = ask(&site, &Request::new("POST", "localhost", "/"));
    assert_eq!((status, has(&head, "allow").as_deref()), (405, Some("GET, HEAD, OPTIONS")));
    let (status, head, content) = ask(&site, &Request::new("OPTIONS", "localhost", "/"));
    assert_eq!((status, content.as_str()), (204, ""));
    assert_eq!(has(&head, "access-control-allow-methods").as_deref(), Some("GET, HEAD, OPTIONS"));
    let (_, head, _) = ask(&site, &get("/"));
    assert_eq!(has(&head, "access-control-allow-origin").as_deref(), Some("https://a.example"));
    // Resource Timing: without it players of other origins see no sizes, times and protocols.
    assert_eq!(has(&head, "timing-allow-origin").as_deref(), Some("https://a.example"));
    let readable = has(&head, "access-control-expose-headers").unwrap();
    for name in ["accept-ranges", "content-range", "date", "etag"] {
        assert!(readable.split(", ").any(|readable| readable == name), "{name}");
    }
    // RFC 9110 §13.1: scripts ask by all conditions that there are.
    let (_, head, _) = ask(&site, &Request::new("OPTIONS", "localhost", "/"));
    let allowed = has(&head, "access-control-allow-headers").unwrap();
    // CTA-5004: and players tell more in fields of their own.
    let told = ["cmcd-object", "cmcd-request", "cmcd-session", "cmcd-status"];
    for name in CONDITIONS.into_iter().chain(told) {
        assert!(allowed.split(", ").any(|allowed| allowed == name), "{name}");
    }
    let open = place.site(SiteOptions::default());
    for name in ["access-control-allow-origin", "timing-allow-origin"] {
        assert_eq!(has(&ask(&open, &get("/")).1, name), None);
    }
}

#[test]
fn what_the_system_lacks_is_not_what_the_site_lacks() {
    use rustix::io::Errno;
    let is_passing = |error: Errno| is_passing(&error.into());
    assert!([Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::IO].into_iter().all(is_passing));
    assert!(![Errno::NOENT, Errno::ACCESS, Errno::NOTDIR, Errno::LOOP].into_iter().any(is_passing));
    let answer = out_of_reach(Path::new("a.txt"), &Errno::MFILE.into());
    assert_eq!(answer.response.status, 503);
}

/// RFC 9110 §15.3.7, §15.4.5: parts, and what is not sent again, have it as the whole has.
#[test]
fn caches_are_told_of_files_by_the_first_rule_that_fits() {
    let place = Place::new("cache-rules");
    let rules =
        ["/index.html=no-cache", "/sub/*=no-store", "**.js=max-age=31536000, immutable", "/s**=private"];
    let cache_rules = rules.map(|rule| rule.parse().unwrap()).into();
    let site = place.site(SiteOptions { listing: true, cache_rules, ..SiteOptions::default() });
    let etag = has(&ask(&site, &get("/data.js")).1, "etag").unwrap();
    let long = Some("max-age=31536000, immutable");
    for (request, status, said) in [
        (get("/data.js?v=1"), 200, long),
        (get("/data.js").with("accept-encoding", "gzip"), 200, long),
        (get("/data.js").with("range", "bytes=2-4"), 206, long),
        (get("/data.js").with("if-none-match", etag), 304, long),
        (Request::new("HEAD", "localhost", "/data.js"), 200, long),
        (get("/data.js").with("range", "bytes=20-"), 416, None),
        (get("/data.js").with("if-match", "\"other\""), 412, None),
        (get("/data.js.gz"), 200, None),
        (get("/"), 200, Some("no-cache")),
        (get("/sub/one.txt"), 200, Some("no-store")),
        (get("/sub"), 308, None),
        (get("/sub/"), 200, None),
        (get("/sub/nothing.js"), 404, None),
        (Request::new("OPTIONS", "localhost", "/data.js"), 204, None),
        (Request::new("POST", "localhost", "/data.js"), 405, None),
    ] {
        let (got, head, _) = ask(&site, &request);
        assert_eq!((got, has(&head, "cache-control").as_deref()), (status, said), "{request:?}");
        #[cfg(target_os = "linux")]
        if let Some((got, head, _)) = ask_at_once(&site, &request, Duration::ZERO) {
            assert_eq!((got, has(&head, "cache-control").as_deref()), (status, said), "{request:?}");
        }
    }
    #[cfg(target_os = "linux")]
    assert!(ask_at_once(&site, &get("/data.js"), Duration::ZERO).is_some(), "it was kept");
    assert_eq!(has(&ask(&place.site(SiteOptions::default()), &get("/")).1, "cache-control"), None);
}

/// RFC 9110 §8.8.1: what is answered from memory is what would be read.
#[cfg(target_os = "linux")]
#[test]
fn what_was_asked_for_a_moment_ago_is_answered_from_memory() {
    let place = Place::new("memory");
    let site = place.site(SiteOptions::default());
    let etag = has(&ask(&site, &get("/data.js")).1, "etag").unwrap();
    let requests = [
        get("/data.js"),
        get("/data.js?v=2"),
        get("/data.js").with("accept-encoding", "gzip"),
        get("/data.js").with("range", "bytes=2-4"),
        get("/data.js").with("range", "bytes=20-"),
        get("/data.js").with("if-none-match", etag),
        get("/data.js").with("if-match", "\"other\""),
        Request::new("HEAD", "localhost", "/data.js"),
        get("/"),
    ];
    for request in requests {
        let (status, head, content) = ask(&site, &request);
        let (again, head_again, content_again) = ask_at_once(&site, &request, Duration::ZERO).unwrap();
        assert_eq!((again, &content_again), (status, &content), "{request:?}");
        let without_date = |mut head: Response| {
            head.fields.retain(|field| field.name != "date");
            head.fields
        };
        assert_eq!(without_date(head_again), without_date(head), "{request:?}");
    }
    let missed = |request: Request| ask_at_once(&site, &request, Duration::ZERO).is_none();
    assert!(missed(get("/nothing")) && missed(get("/sub/one.txt")), "nobody has asked for that");
    assert!(missed(get("/data.js").with("accept-encoding", "br")));
    assert!(missed(Request::new("POST", "localhost", "/data.js")));
    let host = Request { authority: None, ..get("/data.js") };
    assert!(missed(host), "it is no request");
}

/// Each change of the file is seen by the next who asks, whatever it is that changes.
#[cfg(target_os = "linux")]
#[test]
fn what_has_changed_is_not_answered_from_memory() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    type Change = fn(&Path);
    let changes: [(&str, Change); 9] = [
        ("written", |root| fs::write(root.join("v/app.js"), "21").unwrap()),
        ("shorter", |root| fs::write(root.join("v/app.js"), "").unwrap()),
        ("longer", |root| fs::write(root.join("v/app.js"), "123").unwrap()),
        ("removed", |root| fs::remove_file(root.join("v/app.js")).unwrap()),
        ("closed", |root| {
            fs::set_permissions(root.join("v/app.js"), fs::Permissions::from_mode(0o600)).unwrap();
        }),
        ("replaced", |root| {
            fs::write(root.join("new"), "21").unwrap();
            fs::rename(root.join("new"), root.join("v/app.js")).unwrap();
        }),
        ("turned", |root| {
            fs::create_dir(root.join("w")).unwrap();
            fs::write(root.join("w/app.js"), "21").unwrap();
            fs::rename(root.join("v"), root.join("old")).unwrap();
            symlink("w", root.join("v")).unwrap();
        }),
        ("a file", |root| {
            fs::rename(root.join("v"), root.join("old")).unwrap();
            fs::write(root.join("v"), "21").unwrap();
        }),
        ("a folder", |root| {
            fs::remove_file(root.join("v/app.js")).unwrap();
            fs::create_dir(root.join("v/app.js")).unwrap();
        }),
    ];
    for (what, change) in changes {
        let place = Place::new("changed");
        let root = place.0.join("root");
        fs::create_dir(root.join("v")).unwrap();
        fs::write(root.join("v/app.js"), "12").unwrap();
        let site = place.site(SiteOptions::default());
        let request = get("/v/app.js");
        assert_eq!(ask(&site, &request).2, "12");
        // As one that has been at rest: what is written from now on has another time.
        let time = |path: &Path| path.metadata().unwrap().modified().unwrap();
        let (probe, written) = (place.0.join("probe"), time(&root.join("v/app.js")));
        while fs::write(&probe, "").is_ok() && time(&probe) <= written {}
        assert_eq!(ask_at_once(&site, &request, Duration::ZERO).unwrap().2, "12");
        change(&root);
        assert!(ask_at_once(&site, &request, Duration::ZERO).is_none(), "{what}");
        let (status, _, content) = ask(&site, &request);
        if let Some((again, _, content_again)) = ask_at_once(&site, &request, Duration::ZERO) {
            assert_eq!((again, content_again), (status, content), "{what}");
        }
    }
}

/// Each is seen at once, the way back among them.
#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_is_a_file_for_a_while_is_seen_as_what_it_is() {
    let place = Place::new("and-back");
    let root = place.0.join("root");
    let site = place.site(SiteOptions::default());
    let answers = |path: &'static str| {
        let (status, _, content) = ask(&site, &get(path));
        if let Some((again, _, content_again)) = ask_at_once(&site, &get(path), Duration::ZERO) {
            assert_eq!((again, &content_again), (status, &content), "{path}");
        }
        (status, content)
    };
    for _ in 0..3 {
        assert_eq!((answers("/sub").0, answers("/sub/one.txt")), (308, (200, "one".to_owned())));
        fs::rename(root.join("sub"), place.0.join("aside")).unwrap();
        fs::write(root.join("sub"), "file").unwrap();
        assert!(ask_at_once(&site, &get("/sub/one.txt"), Duration::ZERO).is_none());
        assert_eq!((answers("/sub"), answers("/sub/one.txt").0), ((200, "file".to_owned()), 404));
        fs::remove_file(root.join("sub")).unwrap();
        fs::rename(place.0.join("aside"), root.join("sub")).unwrap();
        assert!(ask_at_once(&site, &get("/sub"), Duration::ZERO).is_none());
    }
}

/// Who puts a file is served that file, however lately the one before was asked for.
#[cfg(target_os = "linux")]
#[test]
fn what_is_put_over_a_file_in_memory_is_seen_at_once() {
    let place = Place::new("put-over");
    let sub = place.0.join("root/sub");
    let site = place.site(SiteOptions::default()).with_area(&sub, Most { file: 100, all: 1 << 20 }).unwrap();
    let request = get("/sub/one.txt");
    for content in ["two", "six", "ten"] {
        let before = ask(&site, &request).2;
        assert_eq!(ask_at_once(&site, &request, Duration::ZERO).unwrap().2, before);
        let put = Request::new("PUT", "localhost", "/sub/one.txt");
        let Ok(mut draft) = site.begin(&put) else { panic!("{content} is not taken") };
        assert!(draft.write(content.as_bytes()).is_ok() && draft.commit().is_ok());
        assert!(ask_at_once(&site, &request, Duration::ZERO).is_none());
        assert_eq!(ask(&site, &request).2, content);
    }
}

/// As sites are put up, and as a folder goes and comes again.
#[cfg(target_os = "linux")]
#[test]
fn a_root_that_is_turned_is_seen_at_once() {
    let place = Place::new("turned-at-once");
    let current = place.0.join("current");
    for to in ["one", "two"] {
        fs::create_dir(place.0.join(to)).unwrap();
        fs::write(place.0.join(to).join("a.txt"), to).unwrap();
    }
    let turn = |to: &str| {
        let _ = fs::remove_file(&current);
        std::os::unix::fs::symlink(to, &current).unwrap();
    };
    turn("one");
    let site = FolderSite::new(&current, 16, Budget::new(BUDGET), SiteOptions::default()).unwrap();
    let at_once = || ask_at_once(&site, &get("/a.txt"), Duration::ZERO).map(|(_, _, content)| content);
    assert_eq!(ask(&site, &get("/a.txt")).2, "one");
    assert_eq!(at_once().as_deref(), Some("one"));
    turn("two");
    assert_eq!(at_once(), None);
    turn("one");
    assert_eq!(at_once().as_deref(), Some("one"), "it is that file again");
    fs::remove_file(&current).unwrap();
    assert_eq!(at_once(), None);
}

/// The look tells which file is there, not whether its folder was moved out of the site.
#[cfg(target_os = "linux")]
#[test]
fn a_way_that_leads_out_is_left_within_two_seconds() {
    let place = Place::new("led-out");
    let root = place.0.join("root");
    let site = place.site(SiteOptions::default());
    let request = get("/sub/one.txt");
    assert_eq!(ask(&site, &request).2, "one");
    fs::rename(root.join("sub"), place.0.join("sub")).unwrap();
    std::os::unix::fs::symlink(place.0.join("sub"), root.join("sub")).unwrap();
    let at_once = |later| ask_at_once(&site, &request, later).is_some();
    assert!(
        at_once(Duration::ZERO) && !at_once(kept::FRESH) && at_once(kept::FRESH),
        "one looks, the others go on"
    );
    assert!(!at_once(2 * kept::FRESH));
    assert_eq!(ask(&site, &request).0, 404);
}

/// Dates and tags are those of the clock as it is.
#[cfg(target_os = "linux")]
#[test]
fn a_clock_that_is_set_back_makes_nothing_up() {
    let place = Place::new("set-back");
    let site = place.site(SiteOptions::default());
    assert_eq!(ask(&site, &get("/data.js")).0, 200);
    let written = place.0.join("root/data.js").metadata().unwrap().modified().unwrap();
    let at_once = |now: SystemTime| site.answer_at_once_at(&get("/data.js"), now, Instant::now()).is_some();
    let seconds = Duration::from_secs;
    assert!(at_once(written + seconds(10)) && at_once(written + seconds(1_000_000)));
    assert!(!at_once(written) && !at_once(written - seconds(1_000_000)));
    // Nor is anything kept that may still be mistaken.
    let other = place.site(SiteOptions::default());
    ask_at(&other, &get("/data.js"), written);
    assert!(ask_at_once(&other, &get("/data.js"), Duration::ZERO).is_none());
}

/// What is kept is a small part of the memory for all, and is given up for those that need it.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_is_kept_is_bounded_and_given_back() {
    let place = Place::new("kept");
    let root = place.0.join("root");
    for n in 0..100 {
        fs::write(root.join(n.to_string()), vec![b'x'; 10_000]).unwrap();
    }
    fs::write(root.join("large"), vec![b'x'; 1 << 20]).unwrap();
    let budget = Budget::new(4 << 20);
    let site = FolderSite::new(&root, 16, budget.clone(), SiteOptions::default()).unwrap();
    let request = |n: usize| Request::new("GET", "localhost", format!("/{n}"));
    for n in 0..100 {
        assert_eq!(ask(&site, &request(n)).0, 200);
    }
    let kept = (0..100).filter(|n| ask_at_once(&site, &request(*n), Duration::ZERO).is_some()).count();
    assert!((15..=26).contains(&kept), "{kept} of 10 kB in 256 KiB");
    assert!((150_000..=256 << 10).contains(&budget.usage().held), "{:?}", budget.usage());
    let large = site.answer_at(&get("/large"), SystemTime::now() + Duration::from_secs(10));
    assert!(matches!(large.content, AnswerContent::File { .. }), "{large:?}");
    assert!(ask_at_once(&site, &get("/large"), Duration::ZERO).is_none());
    // The same path written in many ways is many.
    for n in 0..1000 {
        let path = format!("/1?{n}");
        ask(&site, &Request::new("GET", "localhost", path).with("accept-encoding", format!("x{n}")));
    }
    assert!(budget.usage().held <= 256 << 10, "{:?}", budget.usage());
    // Many come, of which each needs a little.
    let mut clients: Vec<_> = (0..250).map(|n| budget.account(Some([192, 0, 2, n].into()))).collect();
    let held = |clients: &[quickset::Account]| clients.iter().map(quickset::Account::held).sum::<u64>();
    while held(&clients) < 15 << 18 && clients.iter_mut().all(|client| client.take(4 << 10)) {}
    let mut tend = pin!(site.tend());
    let _ = tend.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    assert_eq!((budget.usage().held, budget.usage().recalls), (held(&clients), 1));
}
