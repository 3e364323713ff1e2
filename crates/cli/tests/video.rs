//! `quickset lab run dash-real` as its users meet it: a server that has a part of a core, and players. Quotas
//! take root and the controller `cpu` of control groups; where there are none these tests say so and check
//! nothing.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use quickset_lab::catalogue;
use quickset_lab::experiment::ReportFigure;
use serde_json::Value;

const QUICKSET: &str = env!("CARGO_BIN_EXE_quickset");

/// A folder for results, and one for whatever a run makes besides.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("quickset-video-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("tmp")).unwrap();
        Self(path)
    }

    /// `lab run dash-real` of three players, with these values besides.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(QUICKSET);
        command.args(["lab", "run", "dash-real", "-o"]).arg(self.0.join("out"));
        for word in ["players=3", "abr=dynamic", "scale=100"].iter().chain(words) {
            command.args(["--set", word]);
        }
        command.env("TMPDIR", self.0.join("tmp")).stdin(Stdio::null());
        command
    }

    /// What is left of it.
    fn left(&self) -> usize {
        fs::read_dir(self.0.join("tmp")).unwrap().count()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// True when the system has nothing of what it takes, which it says.
fn skipped(said: &str) -> bool {
    let missing = ["a part of a processor", "players may use one core alone"];
    let is_missing = missing.iter().any(|words| said.contains(words));
    if is_missing {
        eprintln!("SKIPPED: {said}");
    }
    is_missing
}

/// The groups of this process's runs, at whatever place.
fn groups(process: u32) -> Vec<PathBuf> {
    fn look(folder: &Path, prefix: &str, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(prefix) {
                found.push(entry.path());
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                look(&entry.path(), prefix, found);
            }
        }
    }
    let mut found = Vec::new();
    look(Path::new("/sys/fs/cgroup"), &format!("quickset-lab-{process}-"), &mut found);
    found
}

/// Three players of three seconds, by each version of HTTP.
#[test]
fn players_watch_a_server_that_has_a_part_of_a_core() {
    let folder = Folder::new("watch");
    let words = ["quota=0.5", "datapath=http1,adaptive", "seconds=3", "segment_s=0.5"];
    let mut child =
        folder.command(&words).arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let process = child.id();
    let output = output(&mut child);
    if skipped(&text(&output.stderr)) {
        return;
    }
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(rows.len(), 2, "{rows:?}");
    for row in &rows {
        let number = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name} of {row}"));
        assert_eq!((&row["finished"], &row["world"]), (&true.into(), &"machine".into()), "{row}");
        assert!((1.0..=50.0).contains(&number("average_bitrate_mbps")), "{row}");
        // Of 1 Mbit/s a hundredth, for 3 s, by three players.
        assert!(number("bytes_useful") >= 3.0 * 3.0 * 1250.0, "{row}");
        assert_eq!(row["server_share"], 0.5);
        // It has no more than its part, but for what a last period lets through.
        assert!((0.0..1.1).contains(&number("processor_share")), "{row}");
        assert!((0.0..=1.0).contains(&number("load_share")) && number("capacity_mbps") > 0.0, "{row}");
        let has_model = row["datapath"] == "adaptive";
        assert_eq!(row["average_bitrate_virtual_mbps"].is_number(), has_model, "{row}");
        assert_eq!(row["average_bitrate_over_virtual"].is_number(), has_model, "{row}");
        let shown = catalogue::find("dash-real").unwrap().figures.iter().flat_map(ReportFigure::metrics);
        for metric in shown.filter(|metric| has_model || !metric.contains("virtual")) {
            assert!(row[metric].is_number(), "no {metric} in {row}");
        }
    }
    assert_eq!((folder.left(), groups(process)), (0, Vec::new()), "what a run leaves");
}

/// Whoever does not want to wait leaves nothing either: neither programs, nor files, nor groups.
#[test]
fn nothing_is_left_of_a_run_that_is_stopped_at_once() {
    let folder = Folder::new("stop");
    let mut command = folder.command(&["quota=0.5", "datapath=http1"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let process = child.id();
    let interrupt = || {
        let status = Command::new("sh").args(["-c", &format!("kill -s INT {process}")]).status().unwrap();
        assert!(status.success());
    };
    let served = |groups: &[PathBuf]| -> String {
        groups
            .iter()
            .map(|group| fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default())
            .collect()
    };
    let began = Instant::now();
    let mut server = String::new();
    while server.is_empty() {
        server = served(&groups(process));
        if child.try_wait().unwrap().is_some() {
            let said = text(&output(&mut child).stderr);
            assert!(skipped(&said), "{said}");
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "no server runs in a group");
        std::thread::sleep(Duration::from_millis(5));
    }
    // The first is heard before there is a second.
    interrupt();
    std::thread::sleep(Duration::from_millis(300));
    interrupt();
    let output = output(&mut child);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert_eq!((folder.left(), groups(process)), (0, Vec::new()), "{}", text(&output.stderr));
    for id in server.lines() {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        assert!(!stat.contains("(quickset)") || stat.contains(") Z "), "{stat}");
    }
}

#[test]
fn what_cannot_be_run_is_told_with_the_next_step() {
    let folder = Folder::new("refused");
    let said = |output: Output| {
        assert!(!output.status.success());
        text(&output.stderr)
    };
    let quota = said(folder.command(&["quota=0.01", "datapath=plain"]).output().unwrap());
    assert!(quota.contains("write quota=0.1 to quota=1"), "{quota}");
    let dash = ["lab", "run", "dash", "--set", "datapath=http1", "-o"];
    let output = Command::new(QUICKSET).args(dash).arg(folder.0.join("dash")).output().unwrap();
    assert!(said(output).contains("`quickset lab run dash-real` has HTTP/1.1"));
    // Where there are no control groups.
    let script = r#"mount -t tmpfs none /sys/fs/cgroup && exec "$0" "$@""#;
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, QUICKSET, "lab", "run", "dash-real", "-o"]);
    command.arg(folder.0.join("none")).args(["--set", "datapath=http1", "--set", "quota=0.5"]);
    let Ok(output) = command.output() else { return };
    let none = said(output);
    let is_root = text(&Command::new("id").arg("-u").output().unwrap().stdout) == "0\n";
    if is_root && !none.contains("one core alone") {
        assert!(none.contains("no group of processes can be given a part of a processor here"), "{none}");
        assert!(none.contains("run it where it is there"), "{none}");
    }
    assert_eq!(folder.left(), 0);
}

fn output(child: &mut Child) -> Output {
    use std::io::Read as _;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    if let Some(out) = &mut child.stdout {
        out.read_to_end(&mut stdout).unwrap();
    }
    if let Some(err) = &mut child.stderr {
        err.read_to_end(&mut stderr).unwrap();
    }
    Output { status: child.wait().unwrap(), stdout, stderr }
}
