//! A server that gives up being root. Without root there is nothing to give up: skipped then.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::Command;

use crate::served::{Served, signal, text};
use crate::tcp;

#[test]
fn a_server_gives_up_being_root_with_all_its_threads() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        eprintln!("SKIPPED: not root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let words = ["cert", "new", "localhost", "-o", folder.path().to_str().unwrap()];
    assert!(Command::new(env!("CARGO_BIN_EXE_quickset")).args(words).status().unwrap().success());
    let [cert, key] =
        ["cert.pem", "key.pem"].map(|file| folder.path().join(file).to_str().unwrap().to_owned());
    let nobody = text(&Command::new("id").args(["-u", "nobody"]).output().unwrap().stdout).trim().to_owned();
    let mut served = Served::new(
        "user",
        &[
            "--user",
            "nobody:daemon",
            "--cert",
            &cert,
            "--key",
            &key,
            "--endpoint-key",
            folder.path().join("endpoint").to_str().unwrap(),
        ],
    );
    let daemon = text(&Command::new("id").args(["-g", "daemon"]).output().unwrap().stdout).trim().to_owned();
    let mut threads = 0;
    for thread in fs::read_dir(format!("/proc/{}/task", served.server.id())).unwrap() {
        let status = fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
        let line = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(line("Uid:"), vec![nobody.clone(); 4]);
        assert_eq!(line("Gid:"), vec![daemon.clone(); 4]);
        assert_eq!(line("Groups:"), std::slice::from_ref(&daemon));
        assert_eq!(line("CapEff:"), ["0000000000000000"]);
        threads += 1;
    }
    assert!(threads > 2, "there are some");
    // It serves what it may read still, by both.
    fs::write(served.folder.join("site/secret"), "secret").unwrap();
    fs::set_permissions(served.folder.join("site/secret"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(text(&served.get(&["/small.txt"], &[]).stdout), "small");
    tcp::fetch_small(&served);
    assert!(text(&served.get(&["/secret"], &[]).stderr).contains("status 404"));
    // What it says of the key that it cannot read again: at once, and when it is asked to.
    let mut log = BufReader::new(served.server.stderr.take().unwrap());
    let mut line = || {
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        line
    };
    let said = line();
    assert!(
        said.contains("will not be read on SIGHUP") && said.contains("Permission denied (os error 13)"),
        "{said}"
    );
    signal(&served.server, "-HUP");
    let said = line();
    assert!(said.contains("the old certificate stays") && said.contains("key.pem"), "{said}");
    assert_eq!(text(&served.get(&["/small.txt"], &[]).stdout), "small");
}

#[test]
fn users_that_are_none_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (user, hint) in
        [("no-such-user", "there is no user"), ("root", "root stays root"), (":x", "NAME:GROUP")]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_quickset"))
            .args([
                "http",
                "serve",
                folder.path().to_str().unwrap(),
                "--listen",
                "127.0.0.1:0",
                "--user",
                user,
            ])
            .output()
            .unwrap();
        let said = text(&output.stderr);
        assert!(
            !output.status.success() && output.stdout.is_empty() && said.contains(hint),
            "{user}: {said}"
        );
    }
}
