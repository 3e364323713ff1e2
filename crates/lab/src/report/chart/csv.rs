use quickset_base::number::{Float as _, Unsigned as _};

use super::{Chart, ChartCurve, ChartShape, Scale};

/// What charts show, each by its name, as CSV (RFC 4180): a line for each point of each curve, after a line
/// of column names.
pub(crate) fn csv(charts: &[(String, &Chart)]) -> String {
    let Some((_, first)) = charts.first() else { return String::new() };
    let mut lines = csv::Writer::from_writer(Vec::new());
    let is_boxes = |curve: &&ChartCurve| matches!(curve.shape, ChartShape::Boxes(..));
    let mut header = vec!["panel", "of", first.x_label.as_str()];
    if first.curves.iter().any(|curve| is_boxes(&curve)) {
        header.extend(["5 %", "25 %", "median", "75 %", "95 %"]);
    } else if first.curves.iter().any(|curve| matches!(curve.shape, ChartShape::Cells(_))) {
        header.extend([first.y_label.as_str(), "value"]);
    } else {
        header.push(&first.y_label);
    }
    // Into memory, where nothing fails.
    let _ = lines.write_record(&header);
    for (name, chart) in charts {
        for curve in &chart.curves {
            for numbers in chart.numbers(curve) {
                let told = [name.clone(), curve.name.clone()];
                let cells = told.into_iter().chain(numbers);
                let all = cells.chain(std::iter::repeat(String::new()));
                let _ = lines.write_record(all.take(header.len()));
            }
        }
    }
    lines.into_inner().ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}

impl Chart {
    /// The points of a curve, each as the cells of a line.
    fn numbers(&self, curve: &ChartCurve) -> Vec<Vec<String>> {
        let pair = |(x, y): &(f64, f64)| vec![short(*x), short(*y)];
        let rest = |(x, y): &(f64, f64)| vec![short(*x), short(1.0 - y)];
        match &curve.shape {
            ChartShape::Steps(points) => thinned(points).iter().map(pair).collect(),
            ChartShape::Tail(points) => thinned(points).iter().map(rest).collect(),
            ChartShape::Line(points) | ChartShape::Dots(points) => points.iter().map(pair).collect(),
            ChartShape::Cloud(courses) => courses.iter().flatten().map(pair).collect(),
            ChartShape::Boxes(boxes, _) => boxes
                .iter()
                .map(|(at, five)| {
                    let numbers = five.iter().map(|value| short(*value));
                    std::iter::once(name(&self.x, *at)).chain(numbers).collect()
                })
                .collect(),
            ChartShape::Blocks(blocks, _) => {
                blocks.iter().map(|(at, [from, to])| vec![name(&self.x, *at), short(to - from)]).collect()
            }
            ChartShape::Upright(x) => vec![vec![short(*x)]],
            ChartShape::Cells(cells) => cells
                .iter()
                .map(|cell| {
                    let [x, y] = [(&self.x, cell.x), (&self.y, cell.y)]
                        .map(|(scale, place)| name(scale, place.approx() + 0.5));
                    vec![x, y, short(cell.value)]
                })
                .collect(),
        }
    }
}

/// The name of the place at a value, or the value.
fn name(scale: &Scale, at: f64) -> String {
    match scale {
        Scale::Places(names) => names.get(at.whole::<usize>()).cloned().unwrap_or_default(),
        _ => short(at),
    }
}

/// Of the steps of a distribution those that a reader would miss: one for each quarter of a per cent, and
/// towards the end one for each tenth of what is left.
fn thinned(steps: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut last = 0.0;
    let is_kept = |(n, (_, share)): &(usize, &(f64, f64))| {
        let is_far = share - last >= 0.0025 || 1.0 - share <= (1.0 - last) * 0.9;
        let is_kept = *n == 0 || n + 1 == steps.len() || is_far;
        if is_kept {
            last = *share;
        }
        is_kept
    };
    steps.iter().enumerate().filter(is_kept).map(|(_, step)| *step).collect()
}

/// A number with six digits, which is more than figures show.
fn short(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let places = (5.0 - value.abs().log10().floor()).clamp(0.0, 15.0).whole::<usize>();
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}
