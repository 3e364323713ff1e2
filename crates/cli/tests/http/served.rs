//! A server for tests.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// A served folder that goes away again, and its server with it.
pub(crate) struct Served {
    pub(crate) folder: PathBuf,
    pub(crate) server: Child,
    pub(crate) address: String,
    pub(crate) pin: String,
}

impl Served {
    pub(crate) fn new(name: &str, words: &[&str]) -> Self {
        Self::bound(name, "127.0.0.1:0", words)
    }

    pub(crate) fn bound(name: &str, listen: &str, words: &[&str]) -> Self {
        Self::logging(name, listen, words, Stdio::piped())
    }

    /// One whose log goes there.
    pub(crate) fn logging(name: &str, listen: &str, words: &[&str], log: Stdio) -> Self {
        let folder = std::env::temp_dir().join(format!("quickset-http-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("site/sub")).unwrap();
        fs::create_dir_all(folder.join("got")).unwrap();
        fs::write(folder.join("site/large.bin"), large()).unwrap();
        fs::write(folder.join("site/small.txt"), "small").unwrap();
        let mut server = Command::new(env!("CARGO_BIN_EXE_quickset"))
            .args(["http", "serve"])
            .arg(folder.join("site"))
            .args(["--listen", listen])
            .args(words)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut said = line.trim().strip_prefix("listening on ").unwrap().split(' ');
        let (address, pin) = (said.next().unwrap().to_owned(), said.next().unwrap().to_owned());
        Self { folder, server, address, pin }
    }

    /// Fetches these paths.
    pub(crate) fn get(&self, paths: &[&str], words: &[&str]) -> Output {
        let urls: Vec<String> = paths.iter().map(|path| format!("https://{}{path}", self.address)).collect();
        self.get_urls(&urls.iter().map(String::as_str).collect::<Vec<_>>(), words)
    }

    /// Fetches these URLs, which lead here some other way.
    pub(crate) fn get_urls(&self, urls: &[&str], words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_quickset"))
            .args(["http", "get", "--pin", &self.pin])
            .args(urls)
            .args(words)
            .output()
            .unwrap()
    }

    /// Tells it to stop, waits until it has, and returns what it wrote to stderr.
    pub(crate) fn stop(&mut self) -> String {
        signal(&self.server, "-TERM");
        assert!(self.server.wait().unwrap().success());
        let mut log = String::new();
        self.server.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        log
    }

    pub(crate) fn got(&self, name: &str) -> PathBuf {
        self.folder.join("got").join(name)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

pub(crate) fn signal(server: &Child, which: &str) {
    assert!(Command::new("kill").args([which, &server.id().to_string()]).status().unwrap().success());
}

pub(crate) fn large() -> Vec<u8> {
    (0..3_000_000u32).map(|i| (i % 249) as u8).collect()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
