use std::fs;
use std::io::Read as _;

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

    fn site(&self, options: Options) -> Site {
        Site::new(&self.0.join("root"), options).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Status, head and content.
fn ask(site: &Site, request: &Request) -> (u16, Response, String) {
    let Answer { response, content } = site.answer(request);
    let mut out = String::new();
    match content {
        Content::Text(text) => out.push_str(std::str::from_utf8(&text).unwrap()),
        Content::File(file, n) => drop(file.take(n).read_to_string(&mut out).unwrap()),
    }
    response.check().unwrap();
    if request.method == "GET" && response.status != 304 {
        assert_eq!(has(&response, "content-length"), Some(out.len().to_string()));
    }
    (response.status, response, out)
}

fn get(path: &'static str) -> Request {
    Request::new("GET", "localhost", path)
}

fn has(response: &Response, name: &str) -> Option<String> {
    response.field(name).map(|value| String::from_utf8(value.to_vec()).unwrap())
}

#[test]
fn files_are_served_whole_in_parts_and_not_again() {
    let place = Place::new("files");
    let site = place.site(Options::default());
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
    let site = place.site(Options { listing: true, ..Options::default() });
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
    let site = place.site(Options::default());
    let (status, head, _) = ask(&site, &get("/sub?x"));
    assert_eq!((status, has(&head, "location").as_deref()), (308, Some("/sub/")));
    assert_eq!(ask(&site, &get("/sub/")).0, 404, "unless asked for, nothing is shown");

    let site = place.site(Options { listing: true, ..Options::default() });
    assert!(ask(&site, &get("/sub/")).2.contains("<a href=\"./one.txt\">one.txt</a>"));
    fs::remove_file(place.0.join("root/index.html")).unwrap();
    let (_, _, page) = ask(&site, &get("/"));
    assert!(page.contains("<a href=\"./a%26b.txt\">a&amp;b.txt</a>"), "{page}");
    assert!(page.contains("./sub/") && !page.contains("hidden"), "{page}");
}

#[test]
fn other_methods_and_other_origins() {
    let place = Place::new("methods");
    let site = place.site(Options { cors: Some("https://a.example".to_owned()), ..Options::default() });
    let (status, head, _) = ask(&site, &Request::new("POST", "localhost", "/"));
    assert_eq!((status, has(&head, "allow").as_deref()), (405, Some("GET, HEAD, OPTIONS")));
    let (status, head, content) = ask(&site, &Request::new("OPTIONS", "localhost", "/"));
    assert_eq!((status, content.as_str()), (204, ""));
    assert_eq!(has(&head, "access-control-allow-methods").as_deref(), Some("GET, HEAD, OPTIONS"));
    let (_, head, _) = ask(&site, &get("/"));
    assert_eq!(has(&head, "access-control-allow-origin").as_deref(), Some("https://a.example"));
    let open = place.site(Options::default());
    assert_eq!(has(&ask(&open, &get("/")).1, "access-control-allow-origin"), None);
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
