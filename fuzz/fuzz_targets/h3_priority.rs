//! Priorities: what is read stays what it is through its own text, in a field, in fields, and in a
//! PRIORITY_UPDATE.
//!
//! The first byte of the input says whether the rest is a value, or numbers of which one is made.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use quickset_base::Duration;
use quickset_h3::frame::{Frame, FrameReader, Settings, StreamItem, StreamPlace};
use quickset_h3::{Field, Priority, Tolerance, Weight};
use quickset_policies::PublishedPolicy;
use quickset_quic::{Protection, Side};

fuzz_target!(|input: &[u8]| {
    match input.split_first() {
        Some((0, value)) => any(value),
        Some((_, numbers)) => made(numbers),
        None => {}
    }
});

fn any(value: &[u8]) {
    let parts: Vec<&[u8]> = value.split(|b| *b == b'\n').collect();
    let fields: Vec<Field> = parts.iter().map(|p| Field::new("priority", p.to_vec())).collect();
    let joined = parts.join(&b","[..]);
    let Some(priority) = Priority::parse(&joined) else {
        assert_eq!(Priority::of(&fields), Priority::default());
        return;
    };
    assert_eq!(Priority::of(&fields), priority, "several fields are one");
    assert!(priority.urgency <= 7);
    let again = read(&priority.value());
    assert_eq!((again.urgency, again.incremental), (priority.urgency, priority.incremental));
    assert_eq!(again.tolerance(), priority.tolerance());
    assert_eq!(again.value(), priority.value());
    placed(&priority, &again);
    let others = |p: &Priority| p.parameters.keys().filter(|k| !["u", "i"].contains(&k.as_str())).count();
    assert_eq!(others(&again), others(&priority));
    if let Some(tolerance) = priority.tolerance() {
        bounded(tolerance);
    }
    updated(&priority.value());
}

/// A value of which is known what it says.
fn made(numbers: &[u8]) {
    let Some((&[urgency, flags, b0, b1, d0, d1], _)) = numbers.split_first_chunk() else { return };
    let (burst, delay) = (u16::from_be_bytes([b0, b1]), u16::from_be_bytes([d0, d1]));
    let incremental = ["", ", i", ", i=?0", ", i=1"][usize::from(flags & 3)];
    let burst_text = ["", ", exp_b=", ", exp_b=-", ", exp_b=1."][usize::from(flags >> 2 & 3)];
    let delay_text = ["", ", exp_d=", ", exp_d=-1", ", exp_d=(1) , x="][usize::from(flags >> 4 & 3)];
    let number = |text: &str, n: u16| if text.is_empty() { String::new() } else { format!("{text}{n}") };
    // A decimal has three digits behind the point at most.
    let burst_text = number(burst_text, if flags >> 2 & 3 == 3 { burst % 1000 } else { burst });
    let text = format!("u={urgency}{incremental}{burst_text}{}", number(delay_text, delay));
    let priority = Priority::parse(text.as_bytes()).expect("a dictionary");
    assert_eq!(priority.urgency, if urgency <= 7 { urgency } else { 3 }, "{text}");
    assert_eq!(priority.incremental, flags & 3 == 1, "{text}");
    // Minus nothing is nothing.
    let has_burst = flags >> 2 & 3 == 1 || (flags >> 2 & 3 == 2 && burst == 0);
    let delay = (flags >> 4 & 3 == 1).then(|| Duration::from_millis(delay.into()));
    let expected = has_burst.then_some(Tolerance { burst: burst.into(), delay });
    assert_eq!(priority.tolerance(), expected, "{text}");
    assert_eq!(read(&priority.value()).tolerance(), expected, "{text}");
    updated(text.as_bytes());
}

/// Where it is: nowhere that is too deep or has a name too long, and at the same place when it is said again.
fn placed(priority: &Priority, again: &Priority) {
    let classes = priority.classes();
    assert!(classes.len() <= Priority::MOST_PARENTS);
    for class in &classes {
        assert!((1..=Priority::LONGEST_NAME).contains(&class.name.len()));
        assert!(class.priority.urgency <= 7 && !class.priority.critical);
        assert!((Weight::MIN..=Weight::MAX).contains(&class.priority.weight));
    }
    assert!((Weight::MIN..=Weight::MAX).contains(&priority.weight()));
    assert_eq!((again.weight(), again.classes()), (priority.weight(), classes.clone()));
    let made = Priority::new(priority.urgency, priority.incremental);
    let made = made.with_weight(priority.weight()).with_classes(&classes).expect("it was read");
    assert_eq!(read(&made.value()).classes(), classes);
    // To the thousandth, and a dictionary has no more.
    assert_eq!(read(&made.value()).weight(), priority.weight());
    assert_eq!(made.misread().count(), 0);
    // Who says nothing changes nothing; who says all has the last word.
    for merged in [Priority::default().or(priority), priority.or(&Priority::default()), priority.or(priority)]
    {
        assert_eq!((merged.urgency, merged.incremental), (priority.urgency, priority.incremental));
        assert_eq!((merged.weight(), merged.classes()), (priority.weight(), classes.clone()));
        assert_eq!(merged.tolerance(), priority.tolerance());
    }
    let other =
        Priority::parse(b"u=3, i=?0, exp_w=7, exp_p=(\"x\"), exp_b=1, exp_d=9").expect("a dictionary");
    assert_eq!(read(&other.or(priority).value()).classes(), other.classes());
    assert_eq!(other.or(priority).weight(), other.weight());
    assert_eq!(other.or(priority).tolerance(), other.tolerance());
}

fn read(value: &[u8]) -> Priority {
    Priority::parse(value).unwrap_or_else(|| panic!("ours: {}", value.escape_ascii()))
}

/// No more is done for a client than we want to do.
fn bounded(tolerance: Tolerance) {
    let protection = tolerance.protection(8);
    match PublishedPolicy::of(&protection) {
        None => assert_eq!((protection, tolerance.burst), (Protection::None, 0)),
        Some(PublishedPolicy::TumBulk(burst)) => assert!((1..=8).contains(&burst)),
        Some(PublishedPolicy::TumIncremental(burst, delay)) => {
            assert!((1..=8).contains(&burst) && delay >= Tolerance::LEAST_DELAY);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(tolerance.protection(0), Protection::None);
}

fn updated(value: &[u8]) {
    let frames =
        [Frame::Settings(Settings::default()), Frame::PriorityUpdate(8, Bytes::copy_from_slice(value))];
    let mut stream = Vec::new();
    frames.iter().for_each(|frame| frame.encode(&mut stream));
    let mut reader = FrameReader::new(StreamPlace::Control, Side::Server, 0, false);
    let mut input = Bytes::from(stream);
    assert_eq!(reader.next(&mut input, 1), Ok(Some(StreamItem::Frame(frames[0].clone()))));
    // With the stream's id, 1024 bytes.
    if value.len() <= 1023 {
        assert_eq!(reader.next(&mut input, 1), Ok(Some(StreamItem::Frame(frames[1].clone()))));
    } else {
        assert!(reader.next(&mut input, 1).is_err());
    }
}
