//! `quickset desktop invite`, `devices` and `--config`, as a person uses them beside a server that runs.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Files of a server and of viewers, gone after the test.
struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("quickset-invite-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn quickset(&self, whose: &str, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quickset"));
        command.args(words).env("XDG_DATA_HOME", self.0.join(whose)).stdin(Stdio::null());
        command
    }

    /// What a command of the server's user says, and whether it does what it should.
    fn asks(&self, words: &[&str]) -> (bool, String, String) {
        let Output { status, stdout, stderr } = self.quickset("server", words).output().unwrap();
        (status.success(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        #[cfg(unix)]
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        path.display().to_string()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A command that goes on, and what it prints.
struct Running {
    child: Child,
    output: PathBuf,
}

impl Running {
    fn start(home: &Home, whose: &str, words: &[&str]) -> Self {
        let output = home.0.join(format!("{whose}.out"));
        let file = std::fs::File::create(&output).unwrap();
        let both = file.try_clone().unwrap();
        let child = home.quickset(whose, words).stdout(file).stderr(both).spawn().unwrap();
        Self { child, output }
    }

    /// The rest of the line that begins so.
    fn says(&mut self, begin: &str) -> String {
        waits_for(begin, || {
            let text = std::fs::read_to_string(&self.output).unwrap();
            assert!(self.child.try_wait().unwrap().is_none(), "it has ended: {text}");
            let whole = text.rsplit_once('\n').map(|(whole, _)| whole.to_owned()).unwrap_or_default();
            whole.lines().find_map(|line| Some(line.strip_prefix(begin)?.to_owned()))
        })
    }

    /// What it had said when it ended.
    fn ends(&mut self) -> String {
        waits_for("the end", || self.child.try_wait().unwrap());
        std::fs::read_to_string(&self.output).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn waits_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let limit = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < limit, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn field<'a>(text: &'a str, begin: &str) -> &'a str {
    text.lines().find_map(|line| line.strip_prefix(begin)).unwrap_or_else(|| panic!("no {begin} in {text}"))
}

#[test]
fn a_device_is_invited_while_the_server_runs_and_sent_away() {
    let home = Home::new("runs");
    // The VNC servers need not be there.
    let config = "vnc = ['work=127.0.0.1:9', 'play=127.0.0.1:9']\nlisten = '127.0.0.1:0'\nweb = true\nweb-page = '127.0.0.1:0'\n";
    let config = home.file("desktop.toml", config);
    let mut serve = Running::start(&home, "server", &["desktop", "serve", "--config", &config]);
    let place = serve.says("listening on ");
    let (address, pin) = place.split_once(' ').unwrap();
    let links = serve.says("open ");
    assert!(links.contains("&desktop=work&token="), "{links}");

    let (done, said, aside) = home.asks(&[
        "desktop",
        "invite",
        "--desktop",
        "play",
        "--view-only",
        "--for",
        "1h",
        "--note",
        "a guest",
    ]);
    assert!(done, "{aside}");
    let (token, link) = (field(&said, "token "), field(&said, "open "));
    let begin = links.split("desktop=").next().unwrap();
    assert_eq!(link, format!("{begin}desktop=play&token={token}"));
    assert!(aside.contains(&format!("quickset desktop view {address}")), "{aside}");
    let (_, listed, _) = home.asks(&["desktop", "devices"]);
    let id = &token[..5];
    assert!(listed.starts_with(&format!("{id} invited, open until 2")), "{listed}");
    assert!(
        listed.contains("; view-only desktop=play until=2") && listed.ends_with("; a guest\n"),
        "{listed}"
    );
    let (done, _, aside) = home.asks(&["desktop", "invite", "--desktop", "third"]);
    assert!(!done && aside.contains("no desktop third: work, play"), "{aside}");

    // It comes in by the token, and is listed by its key.
    let file = home.file("token", token);
    let view = ["desktop", "view", address, "--listen", "127.0.0.1:0", "--pin", pin, "--token-file", &file];
    let mut view = Running::start(&home, "guest", &view);
    view.says("connected to ");
    let (_, listed, _) = home.asks(&["desktop", "devices"]);
    assert!(
        listed.starts_with("sha256:") && listed.contains(" key; view-only desktop=play until="),
        "{listed}"
    );
    let key = listed.split(' ').next().unwrap();
    let (done, _, aside) = home.asks(&["desktop", "devices", "remove", &key[..12], "none"]);
    assert!(!done && aside.contains("no device is called none"), "{aside}");
    assert_eq!(home.asks(&["desktop", "devices"]).1, listed, "all or none");
    let (done, said, _) = home.asks(&["desktop", "devices", "remove", &key[..12]]);
    assert!(done && said == format!("removed {key}\n"), "{said}");
    let end = view.ends();
    assert!(end.contains("does not know this key"), "{end}");
    assert!(home.asks(&["desktop", "devices"]).1.is_empty());
}

#[test]
fn an_invitation_waits_for_a_server_and_can_be_taken_back() {
    let home = Home::new("before");
    let (done, said, aside) = home.asks(&["desktop", "invite"]);
    assert!(done && aside.contains("no server runs now"), "{aside}");
    let token = field(&said, "token ");
    assert!(!said.contains("open "), "{said}");
    // Without another client it begins with a token of its own, beside the invitation.
    let mut serve = Running::start(
        &home,
        "server",
        &["desktop", "serve", "--vnc", "127.0.0.1:9", "--listen", "127.0.0.1:0"],
    );
    let place = serve.says("listening on ");
    let (address, pin) = place.split_once(' ').unwrap();
    assert_ne!(serve.says("token "), token);
    let (done, _, _) = home.asks(&["desktop", "devices", "remove", &token[..5]]);
    assert!(done);
    let file = home.file("token", token);
    let view = ["desktop", "view", address, "--listen", "127.0.0.1:0", "--pin", pin, "--token-file", &file];
    let end = Running::start(&home, "late", &view).ends();
    assert!(
        end.contains("may be somebody else's, or the token was used already") || end.contains("wrong"),
        "{end}"
    );
    let mut again = Running::start(
        &home,
        "other",
        &["desktop", "serve", "--vnc", "127.0.0.1:9", "--listen", "127.0.0.1:0"],
    );
    again.says("listening on ");
    drop(serve);
    let (_, _, aside) = home.asks(&["desktop", "invite"]);
    assert!(aside.contains("no server runs now"), "that of somebody else is none of ours: {aside}");
}

#[test]
fn what_is_wrong_is_said_in_a_sentence() {
    let home = Home::new("wrong");
    let file = |text: &str| home.file("bad.toml", text);
    for (words, told) in [
        (&["desktop", "invite", "--for", "soon"][..], "10min, 2h or 30days"),
        (&["desktop", "invite", "--for", "0s"], "1s to 3650days"),
        (&["desktop", "invite", "--desktop", "a b"], "letters, digits"),
        (&["desktop", "invite", "--service", "../x"], "quickset@desktop"),
        (&["desktop", "invite", "--service", "none-such"], "start the service quickset@none-such first"),
        (&["desktop", "devices", "remove"], "<DEVICE>"),
        (&["desktop", "serve", "--config", &file("vmc = 1")], "bad.toml: there is no option vmc"),
        (&["desktop", "serve", "--config", "/no/such.toml"], "/no/such.toml cannot be read"),
        (&["desktop", "serve"], "--vnc"),
        (&["desktop", "serve", "--vnc", "a=h", "--vnc", "g"], "each needs a name: write --vnc NAME=g:5900"),
    ] {
        let (done, said, aside) = home.asks(words);
        assert!(!done && aside.contains(told), "{words:?}: {said}{aside}");
    }
    assert!(!Path::new("/var/lib/quickset/none-such").exists());
}

/// A service that somebody has broken into lays links to files of others where root is to write.
#[test]
#[cfg(target_os = "linux")]
fn root_does_for_a_service_what_its_user_may_and_no_more() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};

    const NOBODY: u32 = 65534;
    let name = format!("quickset-test-{}", std::process::id());
    let state = Home(Path::new("/var/lib/quickset").join(&name));
    let folder = state.0.join("quickset");
    if std::fs::create_dir_all(&folder).is_err() || chown(&folder, Some(NOBODY), Some(NOBODY)).is_err() {
        println!("SKIPPED: it takes root");
        return;
    }
    chown(&state.0, Some(NOBODY), Some(NOBODY)).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    let home = Home::new("service");
    let invite = ["desktop", "invite", "--service", &name];
    let (done, said, aside) = home.asks(&invite);
    assert!(done && field(&said, "token ").len() == 29, "{aside}");
    let file = folder.join("invitations");
    assert_eq!(std::fs::metadata(&file).unwrap().uid(), NOBODY, "the service reads it");
    let secret = PathBuf::from(home.file("secret", "of root\n"));
    for link in ["invitations", "invitations.lock"] {
        let link = folder.join(link);
        std::fs::remove_file(&link).unwrap();
        symlink(&secret, &link).unwrap();
        let (done, _, aside) = home.asks(&invite);
        assert!(!done && aside.contains("Permission denied"), "{aside}");
        std::fs::remove_file(&link).unwrap();
        home.asks(&invite);
    }
    assert_eq!(std::fs::metadata(&secret).unwrap().uid(), 0);
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "of root\n");
}
