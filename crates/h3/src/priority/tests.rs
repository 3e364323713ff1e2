use quickset_base::Duration;
use quickset_quic::{Class, Protection, Weight};
use sfv::ListEntry;

use super::*;
use crate::Field;

fn parsed(value: &str) -> (u8, bool) {
    let priority = Priority::parse(value.as_bytes()).unwrap();
    (priority.urgency, priority.incremental)
}

/// RFC 9218 §4.1, §4.2, §5.
#[test]
fn urgency_and_incremental_are_read() {
    assert_eq!(parsed(""), (3, false));
    assert_eq!(parsed("u=5, i"), (5, true));
    assert_eq!(parsed("i=?0, u=0"), (0, false));
    assert_eq!(parsed("u=1, u=2"), (2, false), "RFC 9651: the last one counts");
}

/// RFC 9218 §4: ignored, one by one.
#[test]
fn what_is_unknown_or_out_of_range_is_ignored() {
    assert_eq!(parsed("u=8, i"), (3, true));
    assert_eq!(parsed("u=-1, i"), (3, true));
    assert_eq!(parsed("u=1.5, i=1"), (3, false));
    assert_eq!(parsed("u=\"1\", i"), (3, true));
    assert_eq!(parsed("u=(1 2), i"), (3, true));
    assert_eq!(parsed("u=2;x=1, foo=bar, i;y"), (2, true));
    assert_eq!(parsed("u=300"), (3, false), "not 44");
}

#[test]
fn what_is_no_dictionary_is_none() {
    assert_eq!(Priority::parse(b"u=1,"), None);
    assert_eq!(Priority::parse(b"U=1"), None);
    assert_eq!(Priority::parse(b"\xff"), None);
}

#[test]
fn several_fields_are_one() {
    let of = |values: &[&'static str]| {
        let fields: Vec<Field> = values.iter().map(|v| Field::new("priority", *v)).collect();
        let priority = Priority::of(&fields);
        (priority.urgency, priority.incremental)
    };
    assert_eq!(of(&[]), (3, false));
    assert_eq!(of(&["u=1"]), (1, false));
    assert_eq!(of(&["u=1", "i", "u=4"]), (4, true));
    assert_eq!(of(&["u=1", "("]), (3, false));
}

/// RFC 9218 §5.
#[test]
fn tolerances_are_read_one_by_one() {
    let tolerance = |value: &str| Priority::parse(value.as_bytes()).unwrap().tolerance();
    let of = |burst, ms: Option<u64>| Some(Tolerance { burst, delay: ms.map(Duration::from_millis) });
    assert_eq!(tolerance("u=1, exp_b=3, exp_d=80"), of(3, Some(80)));
    assert_eq!(tolerance("exp_b=5"), of(5, None));
    assert_eq!(tolerance("exp_b=0, exp_d=0"), of(0, Some(0)));
    for malformed in ["-1", "2.5", "\"25\"", "(25)", "?1", "tok"] {
        assert_eq!(tolerance(&format!("exp_b=3, exp_d={malformed}")), of(3, None), "{malformed}");
        assert_eq!(tolerance(&format!("exp_b={malformed}, exp_d=25, u=1")), None, "{malformed}");
        assert_eq!(parsed(&format!("exp_b={malformed}, u=1, i")), (1, true), "{malformed}");
    }
    assert_eq!(tolerance("exp_d=25"), None);
    assert_eq!(tolerance("exp_b=999999999999999"), of(u32::MAX, None));
    assert_eq!(tolerance("exp_p=(\"a\";exp_b=3)"), None, "those of parents say nothing");
}

#[test]
fn tolerances_are_policies_within_bounds() {
    let protection =
        |value: &str| Priority::parse(value.as_bytes()).unwrap().tolerance().unwrap().protection(16);
    let repair = |text| quickset_policies::read(text).unwrap();
    assert_eq!(protection("exp_b=3"), repair("tum:3"));
    assert_eq!(protection("exp_b=2, exp_d=25"), repair("tum:2:25ms"));
    assert_eq!(protection("exp_b=2, exp_d=0"), repair("tum:2:5ms"));
    assert_eq!(protection("exp_b=0, exp_d=25"), Protection::None);
    assert_eq!(protection("exp_b=17"), repair("tum:16"));
}

#[test]
fn further_parameters_are_kept_and_sent() {
    let value = r#"u=1, i, exp_b=3, exp_d=80, exp_w=0.5, exp_p=("ivp";u=3;i;exp_w=0.4 "img";u=1)"#;
    let priority = Priority::parse(value.as_bytes()).unwrap();
    assert!(
        matches!(priority.parameters.get("exp_p"), Some(ListEntry::InnerList(list)) if list.items.len() == 2)
    );
    assert_eq!(priority.value(), value);
    assert_eq!(Priority::new(5, true).value(), "u=5, i");
    assert_eq!(Priority::default().value(), "");
}

fn weight(value: &str) -> Weight {
    Priority::parse(value.as_bytes()).unwrap().weight()
}

// HP-4
#[test]
fn weights_are_numbers_above_nothing_within_bounds() {
    for (value, expected) in [
        ("u=1", 1.0),
        ("exp_w=2", 2.0),
        ("exp_w=0.5", 0.5),
        ("exp_w=0.001", 0.01),
        ("exp_w=100", 100.0),
        ("exp_w=100.001", 100.0),
        ("exp_w=999999999999999", 100.0),
        ("exp_w=999999999999.999", 100.0),
    ] {
        assert_eq!(weight(value), Weight::new(expected), "{value}");
    }
    // RFC 9651 has no way to write what is no number; a token is one that looks like it.
    for malformed in
        ["0", "0.0", "-1", "-0.5", "-0", "\"2\"", "(2)", "?1", "NaN", "inf", ":Mg==:", "@2", "2;x, exp_w=a"]
    {
        let value = format!("exp_w={malformed}, u=2, i");
        assert_eq!(weight(&value), Weight::default(), "{value}");
        assert_eq!(parsed(&value), (2, true), "{value}");
    }
}

fn classes(value: &str) -> Vec<Class> {
    Priority::parse(value.as_bytes()).expect(value).classes()
}

fn step(name: &str, urgency: u8, incremental: bool, weight: f64) -> Class {
    let priority = quic::Priority { urgency, critical: false, incremental, weight: Weight::new(weight) };
    Class { name: name.to_owned(), priority }
}

// HP-3, HP-5, HP-6
#[test]
fn parents_are_read_from_the_nearest_on() {
    let value = r#"u=3, i, exp_w=0.5, exp_p=("ivp";u=2;i;exp_w=0.4 "img";u=1)"#;
    assert_eq!(classes(value), [step("img", 1, false, 1.0), step("ivp", 2, true, 0.4)]);
    assert_eq!(classes(r#"exp_p=("a" "a")"#), [step("a", 3, false, 1.0), step("a", 3, false, 1.0)]);
    assert_eq!(classes(r#"exp_p=(" \"\\~")"#), [step(" \"\\~", 3, false, 1.0)]);
    assert_eq!(classes("exp_p=()"), []);
    assert_eq!(classes("u=1"), []);
    let wrong = r#"exp_p=("a";u=8;i=1;exp_w=0;exp_b=3;foo "b";u=-1;i;exp_w=1000);exp_w=5"#;
    assert_eq!(classes(wrong), [step("b", 3, true, 100.0), step("a", 3, false, 1.0)], "one by one");
}

// HP-7, HP-12
#[test]
fn parents_of_which_one_cannot_be_read_are_none() {
    let long = format!("(\"{}\")", "x".repeat(65));
    for malformed in [
        "\"a\"",
        "a",
        "1",
        "(a)",
        "(1)",
        "(\"\")",
        "(\"a\" b)",
        "(\"a\" \"\")",
        "(?1)",
        "(%\"a\")",
        "(:YQ==:)",
        &long,
    ] {
        let value = format!("exp_p={malformed}, u=1, i, exp_w=3");
        assert_eq!(classes(&value), [], "{value}");
        assert_eq!((parsed(&value), weight(&value)), ((1, true), Weight::new(3.0)), "{value}");
    }
    assert_eq!(classes("exp_p"), [], "a boolean");
    assert_eq!(classes(&format!("exp_p=(\"{}\")", "x".repeat(64))).len(), 1);
    for (depth, known) in [(16, 16), (17, 0), (1000, 0)] {
        assert_eq!(classes(&format!("exp_p=({})", vec!["\"a\""; depth].join(" "))).len(), known);
    }
}

#[test]
fn what_is_made_is_read() {
    let path = [step("page \"1\"", 0, true, 4.0), step("images", 7, false, 0.05)];
    let made = Priority::new(2, true).with_weight(0.25).with_classes(&path).unwrap();
    let read = Priority::parse(&made.value()).unwrap();
    assert_eq!((parsed(std::str::from_utf8(&made.value()).unwrap()), read.weight().get()), ((2, true), 0.25));
    assert_eq!(read.classes(), path);
    assert_eq!(read.value(), made.value());
    let bare = made.with_classes(&[]).unwrap();
    assert_eq!(Priority::parse(&bare.value()).unwrap().classes(), []);
    for name in ["", "é", "\t", &"x".repeat(65)] {
        assert_eq!(
            bare.clone().with_classes(&[Class::new(name, 1.0)]),
            Err(UnspeakableClass::Name),
            "{name}"
        );
    }
    let deep = vec![Class::new("a", 1.0); 17];
    assert_eq!(bare.with_classes(&deep), Err(UnspeakableClass::TooDeep));
}

/// RFC 9218 §8: what one does not say, the other may.
#[test]
fn two_opinions_are_merged_by_parameter() {
    let merged = |one: &str, other: &str| {
        let [one, other] = [one, other].map(|value| Priority::parse(value.as_bytes()).unwrap());
        one.or(&other).value()
    };
    assert_eq!(merged("u=1", "u=5, i"), "u=1, i");
    assert_eq!(merged("u=3", "u=5"), "u=3", "it was said");
    assert_eq!(merged("u=9, i=?0", "u=5, i"), "u=5, i=?0", "what is out of range is not");
    assert_eq!(merged("exp_w=0, exp_b=2", "exp_w=2, exp_b=1, exp_d=20"), "exp_w=2, exp_b=2, exp_d=20");
    assert_eq!(merged("", "exp_p=(\"a\"), x=1"), "exp_p=(\"a\"), x=1");
    assert_eq!(merged("exp_p=(\"b\"), x=2", "exp_p=(\"a\"), x=1"), "exp_p=(\"b\"), x=2");
    assert_eq!(merged("exp_p=(b)", "exp_p=(\"a\")"), "exp_p=(\"a\")");
}
