//! Figures: what they show as data, and that data as SVG (without scripts) or as CSV.
//!
//! *In:* a [`Chart`]: axes, and [`ChartCurve`]s, each of one colour. *Out:* [`Chart::svg`] and [`csv`]. Kinds
//! are distributions, lines, dots, boxes, stacked blocks and heat maps.

use quickset_base::number::Unsigned as _;

mod csv;
mod draw;
mod scale;
#[cfg(test)]
mod tests;

pub(crate) use csv::csv;
pub(crate) use scale::Scale;

/// A figure: axes, and what lies between them.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) x_label: String,
    pub(crate) y_label: String,
    pub(crate) x: Scale,
    pub(crate) y: Scale,
    pub(crate) marks: Vec<ChartMark>,
    pub(crate) frame: ChartFrame,
    pub(crate) curves: Vec<ChartCurve>,
}

/// Something drawn in one colour.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChartCurve {
    /// Its classes for styles.
    pub(crate) class: String,
    /// What legends and tables call it.
    pub(crate) name: String,
    /// What a pointer that rests on it is told.
    pub(crate) hover: String,
    pub(crate) shape: ChartShape,
}

/// What is drawn.
#[derive(Clone, Debug)]
pub(crate) enum ChartShape {
    /// A cumulative distribution: values in rising order, each with the share of all that are at most as
    /// great.
    Steps(Vec<(f64, f64)>),
    /// Of the same the rest: the share that is greater.
    Tail(Vec<(f64, f64)>),
    /// A line from one to the next.
    Line(Vec<(f64, f64)>),
    /// A dot each.
    Dots(Vec<(f64, f64)>),
    /// A dot at each whole number along, on the lines from one of these to the next; several courses.
    Cloud(Vec<Vec<(f64, f64)>>),
    /// At a place along: the 5th, 25th, 50th, 75th and 95th percentile; boxes have this width.
    Boxes(Vec<(f64, [f64; 5])>, f64),
    /// A line from the bottom to the top.
    Upright(f64),
    /// At a place along a block from here to there, of this width: what is stacked of others lies on these.
    Blocks(Vec<(f64, [f64; 2])>, f64),
    /// Squares of a heat map.
    Cells(Vec<HeatCell>),
}

impl Default for ChartShape {
    fn default() -> Self {
        Self::Line(Vec::new())
    }
}

/// A square of a heat map: the n-th place along, and up.
#[derive(Clone, Debug)]
pub(crate) struct HeatCell {
    pub(crate) x: usize,
    pub(crate) y: usize,
    pub(crate) value: f64,
    /// How strongly it is coloured: from −1 (as what is worse) by 0 (not at all) to 1 (as what is better).
    pub(crate) tint: f64,
}

/// A dashed line through a figure at a value, and what it means.
#[derive(Clone, Debug)]
pub(crate) enum ChartMark {
    /// At a value along.
    Along(f64, String),
    /// At a value up.
    Up(f64, String),
}

/// How large a figure is, and what of it is inside its axes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ChartFrame {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    /// Smaller movements are not drawn.
    fine: f64,
}

/// Two stand beside each other.
pub(crate) const WIDE: ChartFrame =
    ChartFrame { width: 540.0, height: 360.0, left: 62.0, right: 512.0, top: 62.0, bottom: 302.0, fine: 0.1 };
/// Three stand beside each other.
pub(crate) const SMALL: ChartFrame =
    ChartFrame { width: 352.0, height: 268.0, left: 62.0, right: 330.0, top: 58.0, bottom: 214.0, fine: 0.4 };

impl ChartFrame {
    /// How wide boxes may be so that `lanes` stand beside each other in each of `places`.
    pub(crate) fn box_width(self, places: usize, lanes: usize) -> f64 {
        ((self.right - self.left) / (places.max(1) * lanes.max(1)).approx() * 0.6).clamp(1.5, 14.0)
    }
}

/// Sorted values, equal ones once, each with the share of all that are at most as great.
pub(crate) fn shares(values: &[f64]) -> Vec<(f64, f64)> {
    let n = values.len().approx();
    (0..values.len())
        .filter(|i| values.get(i + 1).is_none_or(|next| *next > values[*i]))
        .map(|i| (values[i], (i + 1).approx() / n))
        .collect()
}
