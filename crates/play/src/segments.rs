use std::ops::RangeInclusive;
use std::time::Duration;

use crate::index::{Index, IndexError};
use crate::template::Template;
use crate::time::Timescale;
use crate::url::{Url, UrlError};

/// Something to fetch: a file, or some bytes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Its address.
    pub url: Url,
    /// The first byte and the last one; all of it if there is none.
    pub range: Option<RangeInclusive<u64>>,
}

/// A segment of a representation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaSegment {
    /// What to fetch.
    pub resource: Resource,
    /// When it begins, from the beginning of its period.
    pub start: Duration,
    /// How long it plays; the last one to the end of the period.
    pub duration: Duration,
}

/// One bitrate of a track, and where its segments are.
#[derive(Clone, Debug)]
pub struct Representation {
    pub(crate) id: String,
    pub(crate) bandwidth: u64,
    pub(crate) base: Url,
    pub(crate) init: Option<Resource>,
    pub(crate) segments: Segments,
    /// Of the period.
    pub(crate) duration: Duration,
}

#[derive(Clone, Debug)]
pub(crate) enum Segments {
    /// Addressed by number or time.
    Template { template: Template, first: u64, timing: Timing },
    /// Addressed one by one.
    List { list: Vec<Resource>, timing: Timing },
    /// One file with an index in it.
    Indexed { index: RangeInclusive<u64>, read: Option<Index> },
    /// One file that is one segment.
    Whole,
}

/// When segments begin and end.
#[derive(Clone, Debug)]
pub(crate) enum Timing {
    /// All as long.
    Every {
        scale: Timescale,
        ticks: u64,
        offset: u64,
        count: u64,
    },
    Line(SegmentTimeline),
}

/// Runs of segments that are as long, in order; no run is empty.
#[derive(Clone, Debug)]
pub(crate) struct SegmentTimeline {
    pub(crate) scale: Timescale,
    /// The tick at which the period begins.
    pub(crate) offset: u64,
    /// How many segments end before that.
    pub(crate) skipped: u64,
    pub(crate) runs: Vec<SegmentRun>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentRun {
    /// How many segments are before.
    pub(crate) before: u64,
    /// Ticks.
    pub(crate) start: u64,
    pub(crate) ticks: u64,
    pub(crate) count: u64,
}

impl SegmentRun {
    /// When the last of them begins.
    pub(crate) fn last_start(&self) -> u64 {
        self.start.saturating_add((self.count - 1).saturating_mul(self.ticks))
    }
}

impl Representation {
    /// What the manifest calls it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its bitrate in bit/s.
    pub fn bandwidth(&self) -> u64 {
        self.bandwidth
    }

    /// What to fetch before the first segment, if anything.
    pub fn init(&self) -> Option<&Resource> {
        self.init.as_ref()
    }

    /// What to fetch before segments are known, until [`read_index`](Self::read_index) has had it.
    pub fn index(&self) -> Option<Resource> {
        match &self.segments {
            Segments::Indexed { index, read: None } => {
                Some(Resource { url: self.base.clone(), range: Some(index.clone()) })
            }
            _ => None,
        }
    }

    /// Takes in what [`index`](Self::index) asked for. Nothing changes where nothing was asked for.
    pub fn read_index(&mut self, bytes: &[u8]) -> Result<(), IndexError> {
        if let Segments::Indexed { index, read } = &mut self.segments {
            *read = Some(Index::read(bytes, *index.start())?);
        }
        Ok(())
    }

    /// How many segments it has; none as long as its index is not there.
    pub fn len(&self) -> u64 {
        match &self.segments {
            Segments::Template { timing, .. } => timing.len(),
            Segments::List { list, timing } => timing.len().min(list.len() as u64),
            Segments::Indexed { read, .. } => read.as_ref().map_or(0, Index::len),
            Segments::Whole => 1,
        }
    }

    /// Whether it has no segment, as long as its index is not there.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of the segment that plays at `time` of its period. A rest of less than a millisecond is
    /// left to the next one: representations of different timescales do not end at the same nanosecond.
    pub fn at(&self, time: Duration) -> Option<u64> {
        let after = time.saturating_add(REST);
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.times(middle) {
                Some((_, _, end)) if end <= after => low = middle + 1,
                _ => high = middle,
            }
        }
        (low < self.len()).then_some(low)
    }

    /// Segment `n`, counted from 0. None beyond the last one. An error is an address of which the manifest's
    /// template makes something that is none.
    pub fn segment(&self, n: u64) -> Result<Option<MediaSegment>, UrlError> {
        let Some((tick, start, end)) = self.times(n) else { return Ok(None) };
        let mut resource = Resource { url: self.base.clone(), range: None };
        match &self.segments {
            Segments::Template { template, first, .. } => {
                resource.url = self.base.join(&template.expand(first.saturating_add(n), tick))?;
            }
            Segments::List { list, .. } => resource = list[usize::try_from(n).unwrap_or(usize::MAX)].clone(),
            Segments::Indexed { read, .. } => resource.range = read.as_ref().and_then(|index| index.range(n)),
            Segments::Whole => {}
        }
        Ok(Some(MediaSegment { resource, start, duration: end.saturating_sub(start) }))
    }

    /// What `$Time$` means, when the segment begins and when it ends.
    fn times(&self, n: u64) -> Option<(u64, Duration, Duration)> {
        if n >= self.len() {
            return None;
        }
        let (tick, start, end) = match &self.segments {
            Segments::Template { timing, .. } | Segments::List { timing, .. } => timing.segment(n),
            Segments::Indexed { read, .. } => {
                let (start, end) = read.as_ref()?.times(n)?;
                (0, start, end)
            }
            Segments::Whole => (0, Duration::ZERO, self.duration),
        };
        Some((tick, start, end.min(self.duration)))
    }
}

/// Segments that are shorter play nothing that is to be seen.
pub(crate) const REST: Duration = Duration::from_millis(1);

impl Timing {
    fn len(&self) -> u64 {
        match self {
            Self::Every { count, .. } => *count,
            Self::Line(line) => line.runs.last().map_or(0, |run| run.before.saturating_add(run.count)),
        }
    }

    /// The tick that `$Time$` means, and from the beginning of the period when it begins and ends. `n` is
    /// below the length.
    fn segment(&self, n: u64) -> (u64, Duration, Duration) {
        let (scale, offset, tick, ticks) = match self {
            Self::Every { scale, ticks, offset, .. } => {
                (*scale, *offset, offset.saturating_add(n.saturating_mul(*ticks)), *ticks)
            }
            Self::Line(line) => {
                let run = line.runs[line.runs.partition_point(|run| run.before <= n) - 1];
                let tick = run.start.saturating_add((n - run.before).saturating_mul(run.ticks));
                (line.scale, line.offset, tick, run.ticks)
            }
        };
        let since = |tick: u64| scale.time(tick.saturating_sub(offset));
        (tick, since(tick), since(tick.saturating_add(ticks)))
    }
}
