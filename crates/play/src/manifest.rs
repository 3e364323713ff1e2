//! Reads an MPD (ISO/IEC 23009-1) into a [`Presentation`].
//!
//! In comes text that a server sent, out go representations that know where each of their segments is. What
//! is inherited from periods and adaptation sets is looked up from the representation upwards. Numbers are 64
//! bits wide, none negative; runs of segments stay runs, so that a count costs nothing; and what is kept of a
//! manifest is at most [`ROOM`], however much of it is inherited how often.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use roxmltree::{Document, Node, ParsingOptions};

use crate::element::{
    self, AddressLevel, Addressing, AddressingMode, children, inherited, missing, number, range, shown, text,
    value,
};
use crate::error::{MAX_TEXT, ManifestError};
use crate::segments::{REST, Representation, Resource, SegmentRun, SegmentTimeline, Segments, Timing};
use crate::template::Template;
use crate::time::Timescale;
use crate::url::Url;

/// What a manifest offers to play, on demand.
#[derive(Clone, Debug)]
pub struct Presentation {
    /// One after the other; at least one.
    pub periods: Vec<Period>,
}

/// A part of a presentation with tracks of its own.
#[derive(Clone, Debug)]
pub struct Period {
    /// How long it plays.
    pub duration: Duration,
    /// Pictures and sound, in the manifest's order.
    pub tracks: Vec<MediaTrack>,
}

/// What one media is there in: an adaptation set.
#[derive(Clone, Debug)]
pub struct MediaTrack {
    /// What it is.
    pub kind: MediaKind,
    /// By their bitrate, each of another; at least one. All players of a presentation share them.
    pub representations: Vec<Arc<Representation>>,
}

/// What a track is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaKind {
    /// Pictures.
    Video,
    /// Sound.
    Audio,
}

/// Whether segments may be on other servers than the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elsewhere {
    /// A manifest that names one is an error.
    Refused,
    /// They may be anywhere.
    Allowed,
}

impl Presentation {
    /// Reads the manifest that was fetched from `url`.
    pub fn parse(text: &str, url: &Url, elsewhere: Elsewhere) -> Result<Self, ManifestError> {
        if text.len() > MAX_TEXT {
            return Err(ManifestError::TooLong(text.len()));
        }
        // Without document types there are no entities that grow.
        let options = ParsingOptions { nodes_limit: MAX_NODES, ..ParsingOptions::default() };
        let text = text.trim_start_matches('\u{feff}');
        if is_crowded(text) {
            return Err(ManifestError::Crowded);
        }
        let document = Document::parse_with_options(text, options)
            .map_err(|e| ManifestError::Xml(shown(&e.to_string())))?;
        let mpd = document.root_element();
        if mpd.tag_name().name() != "MPD" {
            return Err(ManifestError::Root(shown(mpd.tag_name().name())));
        }
        if mpd.attribute("type") == Some("dynamic") {
            return Err(ManifestError::Live);
        }
        let mut reader = ManifestReader { origin: url, elsewhere, room: ROOM, representations: 0 };
        let base = reader.base(url, mpd)?;
        let nodes: Vec<Node<'_, '_>> = children(mpd, "Period").filter(|p| !resolves_to_nothing(*p)).collect();
        let spans = spans(mpd, &nodes)?;
        let mut periods = Vec::new();
        for (node, duration) in nodes.into_iter().zip(spans) {
            if link(node).is_some() {
                return Err(ManifestError::Remote);
            }
            let period = reader.period(&base, node, duration)?;
            if !period.tracks.is_empty() {
                periods.push(period);
            }
        }
        if periods.is_empty() {
            return Err(ManifestError::Nothing);
        }
        Ok(Self { periods })
    }
}

/// Whether there are more attributes and namespaces than can be read in a time that grows with the length
/// alone: each attribute is compared with all others of its element, and each namespace is handed down to all
/// elements below.
fn is_crowded(text: &str) -> bool {
    // No attribute has a `<` in it (XML 1.0 §3.1), so that what lies between two of them is one element at
    // most.
    let attributes = |tag: &str| tag.bytes().filter(|byte| *byte == b'=').count();
    text.split('<').any(|tag| attributes(tag) > MAX_ATTRIBUTES)
        || text.matches("xmlns").count() > MAX_NAMESPACES
}

/// How long each period is (§5.3.2.1): as it says, or until the next one, or until the end.
fn spans(mpd: Node<'_, '_>, periods: &[Node<'_, '_>]) -> Result<Vec<Duration>, ManifestError> {
    let total = element::duration(mpd, "mediaPresentationDuration")?;
    let mut begins = Some(Duration::ZERO);
    let mut spans = Vec::new();
    for (i, period) in periods.iter().enumerate() {
        let start = element::duration(*period, "start")?.or(begins).ok_or(ManifestError::Duration(i))?;
        let next = match periods.get(i + 1) {
            Some(next) => element::duration(*next, "start")?,
            None => total,
        };
        let own = element::duration(*period, "duration")?;
        let span = own.or_else(|| next?.checked_sub(start)).filter(|span| !span.is_zero());
        let span = span.ok_or(ManifestError::Duration(i))?;
        begins = start.checked_add(span);
        spans.push(span);
    }
    Ok(spans)
}

struct ManifestReader<'a> {
    origin: &'a Url,
    elsewhere: Elsewhere,
    /// Bytes that may still be kept.
    room: usize,
    representations: usize,
}

impl ManifestReader<'_> {
    /// The base that the elements below `node` have (§5.6): of several the first on our own server.
    fn base(&self, above: &Url, node: Node<'_, '_>) -> Result<Url, ManifestError> {
        let mut bases = children(node, "BaseURL").map(|base| above.join(base.text().unwrap_or("").trim()));
        let Some(first) = bases.next().transpose()? else { return Ok(above.clone()) };
        if self.is_ours(&first) {
            return Ok(first);
        }
        Ok(bases.filter_map(Result::ok).find(|url| self.is_ours(url)).unwrap_or(first))
    }

    fn is_ours(&self, url: &Url) -> bool {
        self.elsewhere == Elsewhere::Allowed || url.same_origin(self.origin)
    }

    fn permit(&self, url: Url) -> Result<Url, ManifestError> {
        if self.is_ours(&url) { Ok(url) } else { Err(ManifestError::Elsewhere(url.authority().to_owned())) }
    }

    /// Takes so many bytes of the room there is.
    fn keep(&mut self, bytes: usize) -> Result<(), ManifestError> {
        self.room = self.room.checked_sub(bytes).ok_or(ManifestError::TooLarge)?;
        Ok(())
    }

    fn period(
        &mut self,
        base: &Url,
        node: Node<'_, '_>,
        duration: Duration,
    ) -> Result<Period, ManifestError> {
        let base = self.base(base, node)?;
        let period = AddressLevel::new(node);
        let mut tracks = Vec::new();
        for set in children(node, "AdaptationSet") {
            let Some(kind) = kind(set).filter(|_| !is_special(set)) else { continue };
            let set_base = self.base(&base, set)?;
            let above = AddressLevel::new(set);
            let mut representations = Vec::new();
            for element in children(set, "Representation").filter(|r| !is_special(*r)) {
                // What it says nothing of it has from its set, or else from its period.
                let chain = [&AddressLevel::new(element), &above, &period];
                representations.push(Arc::new(self.representation(&set_base, chain, duration)?));
            }
            representations.sort_by_key(|r| r.bandwidth);
            representations.dedup_by_key(|r| r.bandwidth);
            if !representations.is_empty() {
                tracks.push(MediaTrack { kind, representations });
            }
        }
        Ok(Period { duration, tracks })
    }

    fn representation(
        &mut self,
        base: &Url,
        chain: [&AddressLevel<'_, '_>; 3],
        duration: Duration,
    ) -> Result<Representation, ManifestError> {
        self.representations += 1;
        if self.representations > MAX_REPRESENTATIONS {
            return Err(ManifestError::TooLarge);
        }
        let element = chain[0].node;
        let id = element.attribute("id").unwrap_or("").to_owned();
        let bandwidth = number(element, "bandwidth")?.ok_or_else(|| missing(element, "bandwidth"))?;
        if bandwidth == 0 {
            return Err(value(element, "bandwidth", "0"));
        }
        let base = self.base(base, element)?;
        self.keep(id.len() + 2 * base.target().len() + base.authority().len())?;
        // §5.3.9.1: one way of addressing; the one that stands closest.
        let way = chain.iter().find_map(|level| level.way());
        let levels = |way| chain.iter().filter_map(|level| level.addressing(way)).collect::<Vec<_>>();
        let mut representation = Representation {
            id,
            bandwidth,
            base: base.clone(),
            init: None,
            segments: Segments::Whole,
            duration,
        };
        match way {
            Some(way @ AddressingMode::Template) => self.template(&mut representation, &levels(way))?,
            Some(way @ AddressingMode::List) => self.list(&mut representation, &levels(way))?,
            Some(way @ AddressingMode::File) => self.file(&mut representation, &levels(way))?,
            None => {}
        }
        if matches!(representation.segments, Segments::Whole | Segments::Indexed { .. }) {
            representation.base = self.permit(base)?;
        }
        // To play nothing would be to say that all of it was played.
        if representation.index().is_none() && representation.is_empty() {
            return Err(missing(element, "segment"));
        }
        Ok(representation)
    }

    fn template(
        &mut self,
        to: &mut Representation,
        levels: &[&Addressing<'_, '_>],
    ) -> Result<(), ManifestError> {
        let element = levels[0].node;
        let media = text(levels, "media").ok_or_else(|| missing(element, "media"))?;
        let template = Template::read(media, &to.id, to.bandwidth)?;
        self.keep(media.len() + to.id.len())?;
        let first = inherited(levels, "startNumber")?.unwrap_or(1);
        let mut timing = self.timing(levels, to.duration)?;
        if let (Some(last), Timing::Every { count, .. }) = (inherited(levels, "endNumber")?, &mut timing) {
            let there = last.checked_add(1).and_then(|end| end.checked_sub(first)).unwrap_or(0);
            *count = (*count).min(there);
        }
        if !template.varies() && timing.is_many() {
            return Err(value(element, "media", media));
        }
        // The host is the same for all: none depends on numbers.
        self.permit(to.base.join(&template.expand(first, 0))?)?;
        to.init = match text(levels, "initialization") {
            Some(init) => {
                let init = Template::read(init, &to.id, to.bandwidth)?;
                if init.varies() {
                    return Err(value(
                        element,
                        "initialization",
                        text(levels, "initialization").unwrap_or(""),
                    ));
                }
                Some(Resource { url: self.permit(to.base.join(&init.expand(0, 0))?)?, range: None })
            }
            None => self.initialization(to, levels)?,
        };
        let first = first.saturating_add(timing.skipped());
        to.segments = Segments::Template { template, first, timing };
        Ok(())
    }

    fn list(&mut self, to: &mut Representation, levels: &[&Addressing<'_, '_>]) -> Result<(), ManifestError> {
        let holder = levels.iter().find(|level| !level.urls.is_empty());
        let mut list = Vec::new();
        for &entry in holder.into_iter().flat_map(|level| &level.urls) {
            let url = match entry.attribute("media") {
                Some(media) => to.base.join(media.trim())?,
                None => to.base.clone(),
            };
            self.keep(size_of::<Resource>() + url.target().len() + url.authority().len())?;
            list.push(Resource { url: self.permit(url)?, range: range(entry, "mediaRange")? });
        }
        let lasts =
            inherited(levels, "duration")?.is_some() || levels.iter().any(|level| level.timeline.is_some());
        let timing = if lasts || list.len() != 1 {
            self.timing(levels, to.duration)?
        } else {
            Timing::once(to.duration)
        };
        let skipped = usize::try_from(timing.skipped()).unwrap_or(usize::MAX).min(list.len());
        list.drain(..skipped);
        to.init = self.initialization(to, levels)?;
        to.segments = Segments::List { list, timing };
        Ok(())
    }

    fn file(&mut self, to: &mut Representation, levels: &[&Addressing<'_, '_>]) -> Result<(), ManifestError> {
        let index = levels.iter().find(|level| level.node.has_attribute("indexRange"));
        to.init = self.initialization(to, levels)?;
        let Some(index) = index.map(|level| range(level.node, "indexRange")).transpose()?.flatten() else {
            return Ok(());
        };
        if *index.end() - *index.start() >= MAX_INDEX {
            return Err(ManifestError::TooLarge);
        }
        // What describes the tracks is in front of the index unless something else is said.
        if to.init.is_none() && *index.start() > 0 {
            to.init =
                Some(Resource { url: self.permit(to.base.clone())?, range: Some(0..=*index.start() - 1) });
        }
        to.segments = Segments::Indexed { index, read: None };
        Ok(())
    }

    fn initialization(
        &self,
        to: &Representation,
        levels: &[&Addressing<'_, '_>],
    ) -> Result<Option<Resource>, ManifestError> {
        let Some(element) = levels.iter().find_map(|level| level.initialization) else {
            return Ok(None);
        };
        let url = match element.attribute("sourceURL") {
            Some(source) => to.base.join(source.trim())?,
            None => to.base.clone(),
        };
        Ok(Some(Resource { url: self.permit(url)?, range: range(element, "range")? }))
    }

    fn timing(&mut self, levels: &[&Addressing<'_, '_>], period: Duration) -> Result<Timing, ManifestError> {
        let element = levels[0].node;
        let scale = inherited(levels, "timescale")?.unwrap_or(1);
        let scale = Timescale::new(scale).ok_or_else(|| value(element, "timescale", "0"))?;
        let offset = inherited(levels, "presentationTimeOffset")?.unwrap_or(0);
        if let Some(line) = levels.iter().find_map(|level| level.timeline.as_deref()) {
            let end = offset.saturating_add(scale.ticks(period));
            return self.line(line, scale, offset..end).map(Timing::Line);
        }
        let ticks = inherited(levels, "duration")?.ok_or_else(|| missing(element, "duration"))?;
        if ticks == 0 {
            return Err(value(element, "duration", "0"));
        }
        let count = scale.ticks(period).div_ceil(ticks);
        if count > 1 && scale.time(ticks) < REST {
            return Err(ManifestError::Short(shown(element.tag_name().name())));
        }
        Ok(Timing::Every { scale, ticks, offset, count })
    }

    /// The runs of a period that plays from tick `offset` to `end`.
    fn line(
        &mut self,
        entries: &[Node<'_, '_>],
        scale: Timescale,
        span: Range<u64>,
    ) -> Result<SegmentTimeline, ManifestError> {
        let Range { start: offset, end } = span;
        let (mut runs, mut skipped, mut next, mut before) = (Vec::new(), 0_u64, 0_u64, 0_u64);
        let mut entries = entries.iter().copied().peekable();
        while let Some(entry) = entries.next() {
            // Whether it is kept or not: somebody has to read it, for each representation that inherits it.
            self.keep(size_of::<SegmentRun>())?;
            let start = number(entry, "t")?.unwrap_or(next);
            let ticks = number(entry, "d")?.ok_or_else(|| missing(entry, "d"))?;
            if ticks == 0 || runs.last().is_some_and(|last: &SegmentRun| start <= last.last_start()) {
                return Err(ManifestError::Timeline);
            }
            let until = match entries.peek() {
                Some(following) => number(*following, "t")?.unwrap_or(end),
                None => end,
            };
            let count = match repeats(entry)? {
                Some(more) => more.checked_add(1).ok_or(ManifestError::Timeline)?,
                // §5.3.9.6: up to the next one, or to the end of the period.
                None => until.saturating_sub(start).div_ceil(ticks).max(1),
            };
            if start >= end {
                break;
            }
            // What goes on beyond the end of the period, or ends before its beginning, is not played.
            let count = count.min((end - start).div_ceil(ticks));
            let early = (offset.saturating_sub(start) / ticks).min(count);
            next = ticks.checked_mul(count).and_then(|all| all.checked_add(start)).unwrap_or(u64::MAX);
            if runs.is_empty() {
                skipped = early.checked_add(skipped).ok_or(ManifestError::Timeline)?;
            }
            if early == count {
                continue;
            }
            let run = SegmentRun { before, start: start + early * ticks, ticks, count: count - early };
            // What is left at the end may be short.
            let is_short = |run: &SegmentRun| scale.time(run.ticks) < REST;
            if (run.count > 1 && is_short(&run)) || runs.last().is_some_and(is_short) {
                return Err(ManifestError::Short("SegmentTimeline".to_owned()));
            }
            before = before.checked_add(run.count).ok_or(ManifestError::Timeline)?;
            runs.push(run);
        }
        Ok(SegmentTimeline { scale, offset, skipped, runs })
    }
}

impl Timing {
    /// One segment that plays all of the period.
    fn once(period: Duration) -> Self {
        let nanos = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        let scale = Timescale::new(1_000_000_000).expect("it is not 0");
        Self::Every { scale, ticks: nanos, offset: 0, count: 1 }
    }

    /// Segments before the beginning of the period.
    fn skipped(&self) -> u64 {
        match self {
            Self::Every { .. } => 0,
            Self::Line(line) => line.skipped,
        }
    }

    fn is_many(&self) -> bool {
        match self {
            Self::Every { count, .. } => *count > 1,
            Self::Line(line) => line.runs.last().is_some_and(|run| run.before + run.count > 1),
        }
    }
}

/// What a set is, by what it says or by what its first representation is; none for texts, thumbnails and the
/// like.
fn kind(set: Node<'_, '_>) -> Option<MediaKind> {
    let first = children(set, "Representation").next();
    let said = |name: &str| set.attribute(name).or_else(|| first.and_then(|r| r.attribute(name)));
    let by = |text: &str| match text.split('/').next() {
        Some("video") => Some(MediaKind::Video),
        Some("audio") => Some(MediaKind::Audio),
        _ => None,
    };
    if let Some(text) = said("contentType").or_else(|| said("mimeType")) {
        return by(text);
    }
    let codec = said("codecs")?.split(['.', ',']).next()?.trim();
    if VIDEO.contains(&codec) {
        Some(MediaKind::Video)
    } else {
        AUDIO.contains(&codec).then_some(MediaKind::Audio)
    }
}

const VIDEO: [&str; 10] = ["avc1", "avc3", "hvc1", "hev1", "dvh1", "dvhe", "vvc1", "av01", "vp09", "vp8"];
const AUDIO: [&str; 7] = ["mp4a", "ac-3", "ec-3", "ac-4", "opus", "Opus", "fLaC"];

/// Pictures for jumping and for previews, which are not played (DASH-IF IOP §3.2.9, §6.2.6).
fn is_special(node: Node<'_, '_>) -> bool {
    children(node, "EssentialProperty")
        .filter_map(|p| p.attribute("schemeIdUri"))
        .any(|scheme| scheme.contains("trickmode") || scheme.contains("thumbnail_tile"))
}

fn link<'a>(node: Node<'a, '_>) -> Option<&'a str> {
    node.attribute(("http://www.w3.org/1999/xlink", "href"))
}

/// §5.5.3: this link means that there is nothing.
fn resolves_to_nothing(node: Node<'_, '_>) -> bool {
    link(node) == Some("urn:mpeg:dash:resolve-to-zero:2013")
}

/// How many more there are; none for -1, up to what comes next.
fn repeats(node: Node<'_, '_>) -> Result<Option<u64>, ManifestError> {
    if node.attribute("r").is_some_and(|r| r.trim() == "-1") {
        return Ok(None);
    }
    number(node, "r").map(|more| Some(more.unwrap_or(0)))
}

const MAX_NODES: u32 = 500_000;
/// Of one element.
const MAX_ATTRIBUTES: usize = 256;
const MAX_NAMESPACES: usize = 2000;
const MAX_REPRESENTATIONS: usize = 1000;
/// Bytes that all representations may take together.
const ROOM: usize = 64 << 20;
/// Bytes of an index: a day in segments of a second takes one.
const MAX_INDEX: u64 = 1 << 20;

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
