//! The commands of a page make its runs again.

use super::*;

/// The rows of `sheet` and those of its commands for the column without loss: then nothing is missing, and
/// nothing was run that nobody asked for.
fn filled(experiment: &'static Experiment, sets: &[&str]) -> Vec<String> {
    let of = |set: &&str| row_of(experiment, set, 1, &[1.0], 1.0);
    let rows: Vec<Row> = sets.iter().map(of).collect();
    let added = commands::lossless(&ReportSheet::new(experiment, rows.clone()));
    let points: Vec<Params> = added.iter().flat_map(|command| points_of(experiment, command)).collect();
    let more = points.iter().map(|point| Row { params: point.clone(), ..rows[0].clone() });
    let whole = ReportSheet::new(experiment, rows.iter().cloned().chain(more).collect());
    assert_eq!(commands::lossless(&whole), Vec::<String>::new(), "{added:?}");
    let without_loss = |row: &Row| {
        let mut params = row.params.clone();
        params.set(ExperimentKey::find("loss").unwrap(), "0").unwrap();
        params.to_string()
    };
    let names: BTreeSet<String> = points.iter().map(Params::to_string).collect();
    let wanted: BTreeSet<String> = rows.iter().map(without_loss).collect();
    let is_design = matches!(experiment.varied, Varied::Space { .. });
    assert!(is_design || names.is_subset(&wanted), "{added:?}");
    assert!(added.iter().all(|command| command.contains("loss=0%")), "{added:?}");
    added
}

#[test]
fn the_commands_for_no_loss_are_of_what_was_compared() {
    let product = |keys: &[&[&str]]| -> Vec<String> {
        keys.iter().fold(vec![String::new()], |all, values| {
            all.iter().flat_map(|set| values.iter().map(move |value| format!("{set} {value}"))).collect()
        })
    };
    let filled = |experiment, sets: &[String]| {
        filled(experiment, &sets.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let modes: &[&str] = &["mode=latest", "mode=plain"];
    let repair: &[&str] = &["fec=none", "fec=xor2d:20x40"];
    let sweep = product(&[&["profile=ours", "profile=as-published"], modes, repair, &["loss=1%"]]);
    let added = filled(streaming(), &sweep);
    let words = "--set mode=latest,plain --set fec=none,xor2d:20x40 --set loss=0% --seeds 1";
    assert_eq!(added, [format!("quickset lab run screen-streaming {words}")]);
    // Where some of the alternatives are there, the others are missing.
    let there = product(&[&["profile=ours"], modes, &["fec=none"], &["loss=0"]]);
    let both =
        product(&[&["profile=ours"], modes, repair, &["loss=1%", "loss=2% rtt_ms=20", "loss=2% rtt_ms=60"]]);
    let added = filled(streaming(), &[there, both].concat());
    assert_eq!(added.len(), 2, "{added:?}");
    assert!(added[1].contains("--set rtt_ms=20,60"), "{added:?}");
    // A design is run as a whole.
    let design = SPACE.points(&Overrides::default()).unwrap();
    let set = |point: &Params| {
        point.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    };
    let design: Vec<String> =
        design.iter().filter(|point| point.text("mode") == "partial").map(set).collect();
    assert_eq!(filled(&SPACE, &design), ["quickset lab run space --set mode=partial --set loss=0%"]);
    assert!(filled(&SPACE, &design[..3])[0].contains("rtt_ms="));
}

#[test]
fn a_shell_reads_the_commands_as_they_are_meant() {
    let folder = Folder::new("shell");
    let messages = catalogue::find("messages").unwrap();
    let odd = folder.0.join("a b/it's $HOME `x` \"y\" #1 & (2) *~.csv");
    std::fs::create_dir_all(odd.parent().unwrap()).unwrap();
    std::fs::write(&odd, "?1,500\n").unwrap();
    let mut row = row_of(messages, "loss=1%", 1, &[1.0], 1.0);
    row.params.set(ExperimentKey::find("trace").unwrap(), odd.to_str().unwrap()).unwrap();
    let bursts = |loss: &str| Row { params: params(messages, loss), ..row.clone() };
    let rows = vec![row.clone(), bursts("loss=ge:0.5%,25%"), bursts("loss=ge:1%,25%")];
    let sheet = ReportSheet::new(messages, rows.clone());
    let mut points = BTreeSet::new();
    for command in commands::repeat(&sheet).0 {
        let out = std::process::Command::new("sh")
            .current_dir(&folder.0)
            .args(["-c", &command.replacen("quickset", "printf '%s\\n'", 1)])
            .output()
            .unwrap();
        let words = String::from_utf8(out.stdout).unwrap();
        let words: Vec<&str> = words.lines().collect();
        let sets = words.windows(2).filter(|pair| pair[0] == "--set").map(|pair| pair[1].to_owned());
        let overrides = Overrides::parse(&sets.collect::<Vec<_>>()).unwrap();
        points.extend(messages.points(&overrides).unwrap().iter().map(Params::to_string));
    }
    assert_eq!(points, rows.iter().map(|row| row.params.to_string()).collect());
}

#[test]
fn the_commands_give_the_same_points() {
    let default = streaming().points(&Overrides::default()).unwrap();
    let of = |sets: &[&str]| -> Vec<Params> { sets.iter().map(|set| params(streaming(), set)).collect() };
    let some: Vec<Params> = default.iter().filter(|point| point.text("mode") == "partial").cloned().collect();
    let mixed = [
        default.clone(),
        of(&[
            "profile=ours mode=total loss=2%",
            "profile=ours mode=partial loss=2%",
            "rtt_ms=20 mode=latest cc=cubic",
        ]),
    ]
    .concat();
    let bursts = of(&["mode=total loss=ge:0.5%,25%", "mode=total loss=ge:1%,25%"]);
    let cases: [(Vec<Params>, Option<&str>); 6] = [
        (default, Some("quickset lab run screen-streaming --seeds 1")),
        (some, Some("quickset lab run screen-streaming --set mode=partial --seeds 1")),
        (of(&["mode=partial profile=ours"]), None),
        (of(&["mode=partial profile=ours loss=1%", "mode=total profile=ours loss=1%"]), None),
        (mixed, None),
        (bursts, None),
    ];
    for (points, expected) in cases {
        let rows = points.iter().map(|point| Row { params: point.clone(), ..row("", 1, &[1.0], 1.0) });
        let sheet = ReportSheet::new(streaming(), rows.collect());
        let (told, is_exact) = commands::repeat(&sheet);
        assert!(is_exact, "{told:?}");
        if let Some(expected) = expected {
            assert_eq!(told, [expected]);
        }
        let again: Vec<Params> = told.iter().flat_map(|command| points_of(streaming(), command)).collect();
        let names = |points: &[Params]| points.iter().map(Params::to_string).collect::<BTreeSet<_>>();
        assert_eq!(names(&again), names(&points), "{told:?}");
    }
}

/// What a command would run.
fn points_of(experiment: &Experiment, command: &str) -> Vec<Params> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let sets: Vec<String> = words
        .windows(2)
        .filter(|pair| pair[0] == "--set")
        .map(|pair| pair[1].trim_matches('\'').to_owned())
        .collect();
    experiment.points(&Overrides::parse(&sets).unwrap()).unwrap()
}
