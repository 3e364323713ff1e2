//! The report as a picture: of every case, how many times better ours is than each other stack.

use std::fmt::Write as _;

use crate::PeersStack;

/// A line of the picture.
pub(crate) struct PictureRow {
    /// The case.
    pub(crate) title: String,
    pub(crate) marks: Vec<PictureMark>,
}

/// Ours beside one other stack; above 1 ours is ahead, whether more or less is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PictureMark {
    pub(crate) stack: PeersStack,
    /// The median over pairs of runs.
    pub(crate) times: f64,
    /// A quarter of the pairs is below the first, and a quarter above the second.
    pub(crate) quartiles: [f64; 2],
}

/// Draws the rows as SVG, on a ground of its own, so that it can be read on light and dark pages.
pub(crate) fn svg(rows: &[PictureRow]) -> String {
    let bottom = TOP + ROW * rows.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-{MARGIN} 0 {whole} {height}\" font-family=\"sans-serif\" \
         font-size=\"13\" fill=\"#222\">\n<title>How many times better Quickset is than other stacks</title>\n\
         <rect x=\"-{MARGIN}\" width=\"{whole}\" height=\"{height}\" fill=\"#fff\"/>\n",
        whole = MARGIN + WIDTH,
        height = bottom + 40.0
    );
    legend(&mut svg, rows);
    for (times, label) in TICKS {
        let x = x_of(times);
        let stroke = if label == "1" { "#222" } else { "#ddd" };
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{y}\" y2=\"{bottom}\" stroke=\"{stroke}\"/>\
             <text x=\"{x:.1}\" y=\"{below}\" text-anchor=\"middle\">{label}</text>",
            y = TOP - 6.0,
            below = bottom + 18.0,
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" font-size=\"11\">left of 1 the other stack is ahead; \
         bars are the middle half of the pairs of runs</text>",
        WIDTH - 16.0,
        bottom + 34.0
    );
    for (row, at) in rows.iter().zip(0_u32..) {
        let y = TOP + ROW * (f64::from(at) + 0.5);
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 10.0,
            y + 4.0,
            row.title
        );
        for mark in &row.marks {
            draw(&mut svg, mark, y);
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// The stacks that are there, each in its colour.
fn legend(svg: &mut String, rows: &[PictureRow]) {
    let is_there = |stack| rows.iter().flat_map(|row| &row.marks).any(|mark| mark.stack == stack);
    let mut x = LEFT;
    for (stack, colour) in COLOURS.iter().filter(|(stack, _)| is_there(*stack)) {
        let name = stack.name();
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"24\" r=\"5\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"28\">{name}</text>",
            x + 9.0
        );
        x += 34.0 + 7.2 * name.len() as f64;
    }
}

fn draw(svg: &mut String, mark: &PictureMark, y: f64) {
    let colour = COLOURS.iter().find(|(stack, _)| *stack == mark.stack).map_or("#222", |(_, colour)| colour);
    let [low, high] = mark.quartiles.map(x_of);
    let x = x_of(mark.times);
    let _ = writeln!(
        svg,
        "<line x1=\"{low:.1}\" x2=\"{high:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"{colour}\" stroke-width=\"2\" \
         opacity=\"0.5\"/><circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"{colour}\"><title>{}: {:.2}</title></circle>",
        mark.stack.name(),
        mark.times
    );
}

/// Logarithmic: twice as good and half as good are as far from 1. What is beyond stands at the edge.
fn x_of(times: f64) -> f64 {
    let [least, most] = [LEAST, MOST].map(f64::ln);
    let at = ((times.clamp(LEAST, MOST).ln() - least) / (most - least)).clamp(0.0, 1.0);
    LEFT + at * (WIDTH - 24.0 - LEFT)
}

/// Of which the longest titles need some more, to the left.
const WIDTH: f64 = 900.0;
const MARGIN: f64 = 60.0;
const LEFT: f64 = 430.0;
const TOP: f64 = 52.0;
const ROW: f64 = 22.0;
const LEAST: f64 = 0.4;
const MOST: f64 = 5.0;
const TICKS: [(f64, &str); 6] =
    [(0.5, "0.5"), (0.75, "0.75"), (1.0, "1"), (1.5, "1.5"), (2.0, "2"), (4.0, "4 times")];
/// Okabe and Ito's colours, which people tell apart who see few.
const COLOURS: [(PeersStack, &str); 6] = [
    (PeersStack::Quinn, "#0072b2"),
    (PeersStack::Quiche, "#e69f00"),
    (PeersStack::S2nQuic, "#56b4e9"),
    (PeersStack::S2nQuicTuned, "#009e73"),
    (PeersStack::TcpTls, "#999999"),
    (PeersStack::QuinnH3, "#0072b2"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_and_half_are_as_far_from_one_and_what_is_beyond_is_at_the_edge() {
        let [half, one, two] = [0.5, 1.0, 2.0].map(x_of);
        assert!((two - one - (one - half)).abs() < 1e-9, "{half} {one} {two}");
        assert!((x_of(100.0) - (WIDTH - 24.0)).abs() < 1e-9 && (x_of(0.0) - LEFT).abs() < 1e-9);
    }

    #[test]
    fn stacks_that_are_not_there_are_not_named() {
        let mark = PictureMark { stack: PeersStack::Quinn, times: 1.5, quartiles: [1.25, 2.0] };
        let drawn = svg(&[PictureRow { title: "bytes".to_owned(), marks: vec![mark] }]);
        assert!(drawn.contains(">quinn<") && !drawn.contains("quiche"), "{drawn}");
        assert!(drawn.contains("<title>quinn: 1.50</title>"), "{drawn}");
    }
}
