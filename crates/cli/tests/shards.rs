//! `quickset lab plan`, `run --from`, `merge`: several processes in one directory do what one does alone.

use std::path::Path;
use std::process::{Command, Stdio};

#[cfg(unix)]
use quickset_lab::results::Journal;

/// The command in a directory.
fn quickset(dir: &Path, words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quickset"));
    command.current_dir(dir).args(words.split_whitespace()).stderr(Stdio::null());
    command
}

#[test]
fn processes_that_share_a_directory_give_the_table_of_one() {
    let dir = std::env::temp_dir().join(format!("quickset-processes-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let sweep =
        "screen-streaming --set updates=2 --set messages=20 --set loss=5%,1% --set fec=none --seeds 2";
    assert!(quickset(&dir, &format!("lab run {sweep} -o alone")).status().unwrap().success());
    assert!(quickset(&dir, &format!("lab plan {sweep} -o sweep.plan")).status().unwrap().success());
    let start = |n: u32| {
        quickset(&dir, &format!("lab run --from sweep.plan --shard {n}/3 -o shards")).spawn().unwrap()
    };
    for mut process in [start(1), start(2), start(3)] {
        assert!(process.wait().unwrap().success());
    }
    assert!(quickset(&dir, "lab merge shards -o whole").status().unwrap().success());
    let table =
        |folder: &str| std::fs::read_to_string(dir.join(folder).join("screen-streaming.csv")).unwrap();
    // A header, two profiles, two modes, two losses, two seeds.
    assert_eq!(table("alone").lines().count(), 1 + 16);
    assert_eq!(table("whole"), table("alone"));
    std::fs::remove_dir_all(&dir).unwrap();
}

#[cfg(unix)]
#[test]
fn a_journal_that_another_run_writes_is_left_alone() {
    let dir = std::env::temp_dir().join(format!("quickset-two-runs-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let journal = dir.join("out/screen-streaming.rows");
    let sweep = "lab run screen-streaming --set updates=2 --set messages=20 --set loss=1% --seeds 1 -o out";
    let other = Journal::open(&journal, "screen-streaming", "abc", false).unwrap();
    let before = std::fs::read(&journal).unwrap();
    for words in [sweep.to_owned(), format!("{sweep} --fresh")] {
        let refused = quickset(&dir, &words).stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains("another run writes to") && said.contains("-o"), "{said}");
        assert_eq!(std::fs::read(&journal).unwrap(), before);
    }
    drop(other);
    assert!(quickset(&dir, &format!("{sweep} --fresh")).status().unwrap().success());
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn tables_have_what_all_commands_together_did() {
    let dir = std::env::temp_dir().join(format!("quickset-tables-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let sweep = "lab run screen-streaming --set updates=1 --set messages=5 --set mode=partial --set profile=ours \
         --set fec=none --seeds 2 -o out";
    let column = |n: usize| -> Vec<String> {
        let table = std::fs::read_to_string(dir.join("out/screen-streaming.csv")).unwrap();
        table.lines().skip(1).map(|line| line.split(',').nth(n).unwrap().to_owned()).collect()
    };
    for loss in ["1%", "0"] {
        assert!(quickset(&dir, &format!("{sweep} --set loss={loss}")).status().unwrap().success());
    }
    // Experiment, world, seed.
    assert_eq!(
        (column(1), column(2)),
        (vec!["sim".to_owned(); 4], ["1", "2", "1", "2"].map(str::to_owned).into())
    );
    let real = quickset(&dir, &format!("{sweep} --set loss=0 --real --json")).output().unwrap();
    // What is printed is of the command alone.
    assert_eq!(String::from_utf8(real.stdout).unwrap().matches("\"seed\"").count(), 2);
    assert_eq!(column(1), ["real", "real", "sim", "sim", "sim", "sim"]);
    let rows = std::fs::read_to_string(dir.join("out/screen-streaming.rows")).unwrap();
    assert_eq!(rows.lines().count(), 1 + 6);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn slips_with_plans_are_usage_errors() {
    let dir = std::env::temp_dir();
    for words in [
        "lab run",
        "lab run screen-streaming --shard 1/2",
        "lab run screen-streaming --from sweep.plan",
        "lab run --from sweep.plan --seeds 2",
        "lab run --from sweep.plan --shard 3/2",
        "lab plan screen-streaming",
        "lab merge -o out",
    ] {
        assert_eq!(quickset(&dir, words).status().unwrap().code(), Some(2), "{words}");
    }
}
