use super::*;

fn id(text: &str) -> RequirementId {
    RequirementId::all_in(text).pop().expect("the text holds an id")
}

#[test]
fn ids_stand_alone() {
    assert_eq!(RequirementId::all_in("FS-1, FS-22: see (FEC-3)."), [id("FS-1"), id("FS-22"), id("FEC-3")]);
    assert!(RequirementId::all_in("SHAKE-8 aFS-1 aFEC-1 FS-1a FS- S-1 X-FS-1 1FEC-2").is_empty());
    assert!(id("FS-9") < id("FS-10"));
}

#[test]
fn requirements_are_list_items_with_must() {
    let text = "* **FS-1** A MUST be.\n* **FS-2** A thing\n  MUST NOT be.\n* **FS-3** is explained.\n\nMUST\n\
                * other MUST\n**FS-4** MUST\n- **FS-5** MUST\n";
    let (numbered, loose) = requirements(text);
    assert_eq!(numbered, [id("FS-1"), id("FS-2"), id("FS-5")]);
    assert_eq!(loose, [6, 7, 8], "what has no number cannot be cited");
    let introduction = "MUST, MUST NOT, SHOULD\nand MAY are words; SHOULD too.\n\nA peer MUST\n  SHALL\n";
    assert_eq!(requirements(introduction).1, [4, 5]);
}

#[test]
fn a_requirement_needs_code_and_a_test() {
    let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
    let mut citations = Citations::default();
    citations.read(&source(
        "crates/x/src/a.rs",
        "// FS-1, FS-2\nconst S: &str = \"FS-3\";\n#[cfg(test)]\nmod t {\n// FS-1\n}\n// FS-9",
    ));
    let required = [id("FS-1"), id("FS-2"), id("FS-3"), id("FS-4")].into();
    let excepted = [(id("FS-4"), "not ours".to_owned())].into();
    let report = SpecReport::new(required, excepted, &citations);
    let gaps: Vec<&RequirementId> =
        report.rows.iter().filter(|r| SpecReport::is_gap(r)).map(|r| &r.0).collect();
    assert_eq!(gaps, [&id("FS-2"), &id("FS-3")]);
    assert_eq!(report.strangers, [(id("FS-9"), vec!["x/src/a.rs:7".to_owned()])]);
    assert_eq!(
        report.summary(),
        "4 requirements: 1 without code, 2 without a test, 1 excepted, 1 unknown ids"
    );
}

#[test]
fn what_is_there_is_no_exception_and_a_bench_is_no_test() {
    let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
    let mut citations = Citations::default();
    citations.read(&source("crates/x/src/a.rs", "// FS-1, FS-2"));
    citations.read(&source("crates/x/tests/a.rs", "// FS-1"));
    citations.read(&source("crates/x/benches/a.rs", "// FS-2"));
    let excepted = [(id("FS-1"), "not ours".to_owned())].into();
    let report = SpecReport::new([id("FS-1"), id("FS-2")].into(), excepted, &citations);
    let gaps: Vec<&RequirementId> =
        report.rows.iter().filter(|r| SpecReport::is_gap(r)).map(|r| &r.0).collect();
    assert_eq!(gaps, [&id("FS-1"), &id("FS-2")]);
}

#[test]
fn exceptions_need_reasons() {
    let parsed =
        exceptions("# why\n[exceptions]\nFS-3 = \"advice to senders\"\n").expect("the form is right");
    assert_eq!(parsed, [(id("FS-3"), "advice to senders".to_owned())].into());
    assert!(exceptions("FS-3 = \"\"").is_err());
    assert!(exceptions("FS-3").is_err());
}

#[test]
fn our_own_specification_can_be_read() {
    let (required, _) = read_spec(&root().join("spec")).expect("spec/ is well formed");
    for (prefix, least) in [("FS", 73), ("FEC", 63), ("DT", 50), ("HP", 14)] {
        let numbers: Vec<u32> = required.iter().filter(|id| id.0 == prefix).map(|id| id.1).collect();
        assert_eq!(numbers, (1..=numbers.len() as u32).collect::<Vec<_>>(), "numbers have no gaps");
        assert!(numbers.len() >= least, "numbers are never taken away");
    }
}

/// RFC 9000 §16.
fn varint(n: u64) -> Vec<u8> {
    match n {
        0..=0x3f => vec![n as u8],
        0x40..=0x3fff => (n as u16 | 0x4000).to_be_bytes().to_vec(),
        0x4000..=0x3fff_ffff => (n as u32 | 0x8000_0000).to_be_bytes().to_vec(),
        _ => (n | 0xc000_0000_0000_0000).to_be_bytes().to_vec(),
    }
}

fn hex(fields: &[u64]) -> String {
    let bytes: Vec<String> = fields.iter().flat_map(|n| varint(*n)).map(|b| format!("{b:02x}")).collect();
    bytes.join(" ")
}

/// The headers in the worked example of the specification are what its own columns say.
#[test]
fn examples_of_fenced_streams_are_right() {
    let text = fs::read_to_string(root().join("spec/fenced-streams.md")).expect("the file is there");
    let mut rows = 0;
    for line in text.lines().filter(|l| l.contains("| `7f 5")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let number = |i: usize| cells[i].parse::<u64>().expect("the column holds a number");
        let kind = u64::from_str_radix(cells[3].trim_start_matches("0x"), 16).expect("a type");
        let header = hex(&[kind, 0, number(4), number(5), number(6)]);
        assert_eq!(cells[2], format!("`{header}`"), "{line}");
        let header_len = (header.len() as u64 + 1) / 3;
        assert!(header_len + number(6) <= 1200 - 11 - 16, "{line} does not fit its packet");
        rows += 1;
    }
    assert_eq!(rows, 8);
    for example in [
        hex(&[0x0071_53f1, 4, 65536]),
        hex(&[0x3f50, 0, 3468, 3468, 600]),
        hex(&[0x3f50, 0, 4068, 4068, 564]),
        hex(&[0x3f58, 0, 2304, 5002]),
        hex(&[0x3f51, 0, 8458, 1152, 0]),
        hex(&[0x3f56, 0, 0, 0, 7]),
        hex(&[0x3f52, 0, 2, 0, 3]),
        hex(&[0x3f50, 2, 0, 0, 0]),
        hex(&[0x1c, 0x0071_53f1, 0x3f54, 0]),
    ] {
        assert!(text.contains(&format!("    {example}")), "{example} is not in the examples");
    }
}
