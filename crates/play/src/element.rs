//! Elements of a manifest, with what representations look up in them.
//!
//! What a representation does not say is said by its set or its period, and a thousand of them may ask. So
//! the children that matter are found once for each element, in one pass: what it costs to read a manifest
//! grows with its length alone.

use std::ops::RangeInclusive;
use std::time::Duration;

use roxmltree::Node;

use crate::error::ManifestError;
use crate::time;

/// A period, a set or a representation, and how segments are addressed there.
pub(crate) struct AddressLevel<'a, 'd> {
    pub(crate) node: Node<'a, 'd>,
    template: Option<Addressing<'a, 'd>>,
    list: Option<Addressing<'a, 'd>>,
    file: Option<Addressing<'a, 'd>>,
}

/// A way of addressing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressingMode {
    Template,
    List,
    File,
}

/// A SegmentTemplate, SegmentList or SegmentBase.
pub(crate) struct Addressing<'a, 'd> {
    pub(crate) node: Node<'a, 'd>,
    /// The entries of its SegmentTimeline, if it has one.
    pub(crate) timeline: Option<Vec<Node<'a, 'd>>>,
    pub(crate) initialization: Option<Node<'a, 'd>>,
    pub(crate) urls: Vec<Node<'a, 'd>>,
}

impl<'a, 'd> AddressLevel<'a, 'd> {
    pub(crate) fn new(node: Node<'a, 'd>) -> Self {
        let mut level = Self { node, template: None, list: None, file: None };
        for child in elements(node) {
            let place = match child.tag_name().name() {
                "SegmentTemplate" => &mut level.template,
                "SegmentList" => &mut level.list,
                "SegmentBase" => &mut level.file,
                _ => continue,
            };
            place.get_or_insert_with(|| Addressing::new(child));
        }
        level
    }

    /// The way that is said here. §5.3.9.1: there is one.
    pub(crate) fn way(&self) -> Option<AddressingMode> {
        [AddressingMode::Template, AddressingMode::List, AddressingMode::File]
            .into_iter()
            .find(|way| self.addressing(*way).is_some())
    }

    pub(crate) fn addressing(&self, way: AddressingMode) -> Option<&Addressing<'a, 'd>> {
        match way {
            AddressingMode::Template => self.template.as_ref(),
            AddressingMode::List => self.list.as_ref(),
            AddressingMode::File => self.file.as_ref(),
        }
    }
}

impl<'a, 'd> Addressing<'a, 'd> {
    fn new(node: Node<'a, 'd>) -> Self {
        let mut addressing = Self { node, timeline: None, initialization: None, urls: Vec::new() };
        for child in elements(node) {
            match child.tag_name().name() {
                "SegmentTimeline" if addressing.timeline.is_none() => {
                    addressing.timeline = Some(children(child, "S").collect());
                }
                "Initialization" => drop(addressing.initialization.get_or_insert(child)),
                "SegmentURL" => addressing.urls.push(child),
                _ => {}
            }
        }
        addressing
    }
}

pub(crate) fn children<'a, 'd>(node: Node<'a, 'd>, name: &str) -> impl Iterator<Item = Node<'a, 'd>> {
    elements(node).filter(move |child| child.tag_name().name() == name)
}

/// All elements right below one. Nobody looks for them elsewhere: so tests can count what is looked at.
fn elements<'a, 'd>(node: Node<'a, 'd>) -> impl Iterator<Item = Node<'a, 'd>> {
    #[cfg(test)]
    let looked_at = |node: &Node<'_, '_>| {
        tests::LOOKS.set(tests::LOOKS.get() + 1);
        node.is_element()
    };
    #[cfg(not(test))]
    let looked_at = Node::is_element;
    node.children().filter(looked_at)
}

/// An attribute of the closest that has it.
pub(crate) fn text<'a>(levels: &[&Addressing<'a, '_>], name: &str) -> Option<&'a str> {
    levels.iter().find_map(|level| level.node.attribute(name)).map(str::trim)
}

/// A number of the closest that says one.
pub(crate) fn inherited(
    levels: &[&Addressing<'_, '_>],
    name: &'static str,
) -> Result<Option<u64>, ManifestError> {
    let level = levels.iter().find(|level| level.node.has_attribute(name));
    level.map_or(Ok(None), |level| number(level.node, name))
}

/// Of 64 bits, and not negative.
pub(crate) fn number(node: Node<'_, '_>, name: &'static str) -> Result<Option<u64>, ManifestError> {
    let Some(text) = node.attribute(name) else { return Ok(None) };
    let digits = text.trim();
    // `parse` would take a plus sign.
    let parsed = if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse().ok() } else { None };
    parsed.map(Some).ok_or_else(|| value(node, name, text))
}

pub(crate) fn duration(node: Node<'_, '_>, name: &'static str) -> Result<Option<Duration>, ManifestError> {
    let Some(text) = node.attribute(name) else { return Ok(None) };
    time::duration(text).map(Some).ok_or_else(|| value(node, name, text))
}

/// `first-last`, both of them.
pub(crate) fn range(
    node: Node<'_, '_>,
    name: &'static str,
) -> Result<Option<RangeInclusive<u64>>, ManifestError> {
    let Some(text) = node.attribute(name) else { return Ok(None) };
    let read =
        |text: &str| if text.bytes().all(|b| b.is_ascii_digit()) { text.parse::<u64>().ok() } else { None };
    let bounds = text.trim().split_once('-').and_then(|(first, last)| Some((read(first)?, read(last)?)));
    let bounds = bounds.filter(|(first, last)| first <= last);
    bounds.map(|(first, last)| Some(first..=last)).ok_or_else(|| value(node, name, text))
}

pub(crate) fn missing(node: Node<'_, '_>, attribute: &'static str) -> ManifestError {
    ManifestError::Missing { element: shown(node.tag_name().name()), attribute }
}

pub(crate) fn value(node: Node<'_, '_>, attribute: &str, value: &str) -> ManifestError {
    let element = shown(node.tag_name().name());
    ManifestError::Value { element, attribute: attribute.to_owned(), value: shown(value) }
}

/// As much of it as a message has room for.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use crate::{Elsewhere, Presentation, Url};

    thread_local! {
        /// How many children were looked at.
        pub(super) static LOOKS: Cell<u64> = const { Cell::new(0) };
    }

    /// A manifest that is twice as long takes twice as many looks, whatever there is more of; and they are
    /// few for each element.
    #[test]
    fn a_manifest_is_read_in_a_time_that_grows_with_its_length() {
        let url = Url::parse("https://a.example/a.mpd").unwrap();
        let template = r#"<SegmentTemplate media="$Number$" duration="1"/>"#;
        let entries =
            |n: usize| (0..n).map(|k| format!(r#"<S t="{k}" d="1"/>"#)).collect::<Vec<_>>().concat();
        let representations = |n: usize, content: &str| {
            (1..=n)
                .map(|k| format!(r#"<Representation bandwidth="{k}">{content}</Representation>"#))
                .collect::<Vec<_>>()
                .concat()
        };
        let set = |content: &str| format!(r#"<AdaptationSet contentType="video">{content}</AdaptationSet>"#);
        let period = |content: &str| format!(r#"<Period duration="PT9000S">{content}</Period>"#);
        type Shape<'a> = (&'a str, &'a dyn Fn(usize) -> String);
        let shapes: [Shape<'_>; 8] = [
            // What stands above is looked through for each that is below: this is what must not be.
            ("a set of much else", &|n| {
                period(&set(&(template.to_owned() + &"<Label/>".repeat(20 * n) + &representations(n, ""))))
            }),
            ("a period of much else", &|n| {
                period(&(template.to_owned() + &"<Label/>".repeat(20 * n) + &set(&representations(n, ""))))
            }),
            ("a period of many sets", &|n| {
                period(
                    &(template.to_owned()
                        + &"<Label/>".repeat(20 * n)
                        + &set(&representations(1, "")).repeat(n)),
                )
            }),
            ("many periods", &|n| period(&(template.to_owned() + &set(&representations(1, "")))).repeat(n)),
            ("a long line for one", &|n| {
                let line = format!("<SegmentTimeline>{}</SegmentTimeline>", entries(20 * n));
                let template = format!(r#"<SegmentTemplate media="$Time$">{line}</SegmentTemplate>"#);
                period(&set(&(template + &representations(1, ""))))
            }),
            ("a long list for one", &|n| {
                let list = r#"<SegmentURL media="a"/>"#.repeat(20 * n);
                period(&set(
                    &(format!(r#"<SegmentList duration="1">{list}</SegmentList>"#) + &representations(1, ""))
                ))
            }),
            ("much in a template for many", &|n| {
                let template = format!(
                    r#"<SegmentTemplate media="$Number$" duration="1">{}</SegmentTemplate>"#,
                    "<Label/>".repeat(20 * n)
                );
                period(&set(&(template + &representations(n, ""))))
            }),
            ("much in each of many", &|n| {
                period(&set(&(template.to_owned() + &representations(n, &"<Label/>".repeat(20)))))
            }),
        ];
        for (name, shape) in shapes {
            let looks = |n: usize| {
                let text = format!("<MPD>{}</MPD>", shape(n));
                LOOKS.set(0);
                let read = Presentation::parse(&text, &url, Elsewhere::Refused);
                assert!(read.is_ok(), "{name}: {read:?}");
                (LOOKS.get(), text.matches('<').count() as u64)
            };
            let ((once, elements), (twice, _)) = (looks(200), looks(400));
            assert!(twice <= 2 * once + 100, "{name}: {once} looks, and {twice} at twice the length");
            assert!(once <= 6 * elements, "{name}: {once} looks for {elements} elements");
        }
    }
}
