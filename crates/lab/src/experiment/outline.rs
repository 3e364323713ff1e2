use quickset_base::number::Unsigned as _;
use quickset_sim::Rate;
use serde::Serialize;

use super::{Experiment, ExperimentKey, Overrides, Params, ReportFigure, ValueError, ValueKind, Varied};
use crate::play::{Setting, Work};

/// An experiment as data for listings: what can be set, what is varied, how many runs that makes.
#[derive(Clone, Debug, Serialize)]
pub struct Outline {
    /// The name on the command line.
    pub name: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Paper and figures.
    pub source: &'static str,
    /// What is done and why.
    pub about: &'static str,
    /// Every key that it has.
    pub keys: Vec<OutlineKey>,
    /// Keys of which each value is combined with every point.
    pub crossed: Vec<Values>,
    /// What is varied one by one, or filled evenly with points.
    pub varied: Vec<Values>,
    /// Points of a space-filling design, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub design_points: Option<u32>,
    /// Points, crossed values included.
    pub points: usize,
    /// Runs of each point.
    pub seeds: u32,
    /// Points times seeds.
    pub runs: usize,
    /// About how long all of that takes on one core, in virtual time or where this machine is timed, in
    /// seconds.
    pub estimated_s: f64,
    /// True where runs are timings of this machine.
    pub is_timed: bool,
    /// The figures of a report.
    pub figures: Vec<String>,
    /// How many published numbers stand beside ours.
    pub published: usize,
}

/// A key of an experiment.
#[derive(Clone, Debug, Serialize)]
pub struct OutlineKey {
    /// Its name.
    pub name: &'static str,
    /// Its value in the baseline.
    pub baseline: &'static str,
    /// What can be written.
    pub accepts: String,
    /// What it is.
    pub about: &'static str,
}

/// The values of a key.
#[derive(Clone, Debug, Serialize)]
pub struct Values {
    /// The key.
    pub key: &'static str,
    /// Its values, or the range that is filled.
    pub values: String,
}

impl Experiment {
    /// See [`Outline`].
    ///
    /// # Errors
    /// When the table has a slip.
    pub fn outline(&self) -> Result<Outline, ValueError> {
        let points = self.points(&Overrides::default())?;
        let (mut seconds, mut last) = (0.0, None);
        for point in &points {
            // Protections of a point stand together, and what they add is little.
            let others = || point.iter().filter(|(key, _)| *key != "fec");
            let each = match last {
                Some((before, each))
                    if others().eq(Params::iter(before).filter(|(key, _)| *key != "fec")) =>
                {
                    each
                }
                _ if self.is_timed() => {
                    point.number("seconds").map_or(SECONDS_A_TIMING, |seconds| seconds + AROUND_PLAYERS)
                }
                _ => packets(&self.setting(point)?) * SECONDS_A_PACKET,
            };
            (seconds, last) = (seconds + each, Some((point, each)));
        }
        let keys = self.baseline.iter().map(|(name, baseline)| {
            let key = ExperimentKey::find(name)?;
            Ok(OutlineKey { name: key.name, baseline, accepts: key.kind.accepts(), about: key.about })
        });
        let values = |(key, values): &(&'static str, &str)| Values { key, values: (*values).to_owned() };
        let (varied, design_points) = match self.varied {
            Varied::OneByOne(keys) => (keys.iter().map(values).collect(), None),
            Varied::Space { points, ranges } => {
                let range = |(key, least, most): &(&'static str, f64, f64)| Values {
                    key,
                    values: format!("{least} to {most}"),
                };
                (ranges.iter().map(range).collect(), Some(points))
            }
        };
        Ok(Outline {
            name: self.name,
            title: self.title,
            source: self.source,
            about: self.about,
            keys: keys.collect::<Result<_, ValueError>>()?,
            crossed: self.crossed.iter().map(values).collect(),
            varied,
            design_points,
            points: points.len(),
            seeds: self.seeds,
            runs: points.len() * self.seeds as usize,
            estimated_s: seconds * f64::from(self.seeds),
            is_timed: self.is_timed(),
            figures: self.figures.iter().map(ReportFigure::words).collect(),
            published: self.published.len(),
        })
    }
}

impl ReportFigure {
    fn words(&self) -> String {
        match self {
            Self::Distribution { metric, curves, .. } => format!("distribution of {metric}, by {curves}"),
            Self::Runs { metric, curves } => format!("distribution of {metric} over runs, by {curves}"),
            Self::Scatter { x, y, colours } => format!("{y} over {x}, by {colours}"),
            Self::Boxes { metric, over, colours } => format!("{metric} over {over}, by {colours}"),
            Self::Lines { metric, over, curves } => format!("median of {metric} over {over}, by {curves}"),
            Self::Heat { metric, x, y, panels } => format!("map of {metric} over {x} and {y}, by {panels}"),
            Self::Parts { metrics, over } => format!("{} over {over}, stacked", metrics.join(", ")),
            Self::Series { series, curves } => format!("course of {series}, by {curves}"),
        }
    }
}

impl ValueKind {
    /// What can be written.
    pub fn accepts(&self) -> String {
        match self {
            Self::Number(least, most) => format!("{least} to {most}"),
            Self::Whole(least, most) => format!("a whole number, {least} to {most}"),
            Self::NumberOr(word) => format!("a number from 0.001 to 1000000, or {word}"),
            Self::SizeOr(word) => format!("a size like 150kB, or {word}"),
            Self::FileOr(word) => format!("the path of a file, or {word}"),
            Self::Word(words) => words.join(", "),
            Self::Loss => "a share like 0.5%, or a model like ge:0.5%,25%".to_owned(),
            Self::Queue => "a size like 9MB, another queue of links, or flec".to_owned(),
            Self::Congestion => quickset_quic::Algorithm::FORMS.to_owned(),
            Self::Protection => quickset_policies::FORMS.to_owned(),
            Self::AcksOr(word) => format!(
                "a number of packets, adaptive or fixed, merged or single, like 100:fixed:merged, or {word} where that is timed"
            ),
        }
    }
}

/// About how many packets a run carries towards clients.
fn packets(setting: &Setting) -> f64 {
    let mut bytes = 0.0;
    let mut is_endless = false;
    for flow in &setting.flows {
        match &flow.work {
            Work::Bytes(Some(size)) => bytes += size.approx(),
            // All such flows together fill the link.
            Work::Bytes(None) => is_endless = true,
            Work::Messages(messages) => {
                let pieces = messages.groups.iter().flat_map(|group| &group.messages);
                // A small message is a packet too.
                bytes += pieces.map(|piece| f64::from(piece.bytes).max(PACKET / 4.0)).sum::<f64>();
            }
            // A request has packets of its own.
            Work::Visit(visit) => {
                bytes += visit
                    .resources
                    .iter()
                    .map(|resource| resource.bytes.approx() + 2.0 * PACKET)
                    .sum::<f64>();
            }
            // At most.
            Work::Watch(watch) => {
                let top = watch.ladder.iter().max().copied().unwrap_or_default().approx();
                bytes += top / 8.0 * watch.length.as_secs_f64() / watch.scale.approx();
            }
        }
    }
    if is_endless {
        let bps = match &setting.down.rate {
            Rate::Constant(bps) => bps.approx(),
            _ => 1e7,
        };
        bytes += bps / 8.0 * setting.limit.as_secs_f64();
    }
    // Handshake, requests, and a run's own beginning and end.
    bytes / PACKET + 200.0
}

const PACKET: f64 = 1400.0;
/// Measured: four to eight microseconds, with everything that a packet brings about.
const SECONDS_A_PACKET: f64 = 5.5e-6;

/// A code, or a gigabyte over loopback.
const SECONDS_A_TIMING: f64 = 2.0;
/// Before players in real time begin and behind their end, and as long as the same takes in virtual time.
const AROUND_PLAYERS: f64 = 8.0;

#[cfg(test)]
mod tests {
    use crate::catalogue;

    #[test]
    fn every_experiment_has_an_outline() {
        for experiment in catalogue::ALL {
            let outline = experiment.outline().unwrap();
            assert_eq!(outline.keys.len(), experiment.baseline.len());
            assert!(outline.runs >= outline.points && outline.points > 0, "{}", outline.name);
            assert!(outline.estimated_s > 0.0 && outline.estimated_s.is_finite(), "{}", outline.name);
        }
    }

    #[test]
    fn the_screen_is_counted_and_timed() {
        let outline = catalogue::find("screen-streaming").unwrap().outline().unwrap();
        // The baseline and eight variations, in two profiles, two modes and five protections.
        assert_eq!(outline.points, 9 * 2 * 2 * 5);
        // 30,000 messages a run, at some microseconds each.
        let each = outline.estimated_s / outline.runs as f64;
        assert!((0.05..0.5).contains(&each), "{each}");
    }
}
