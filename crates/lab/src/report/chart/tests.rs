use super::*;

fn chart(x: Scale, y: Scale) -> Chart {
    Chart {
        title: "t".into(),
        x_label: "x".into(),
        y_label: "y".into(),
        x,
        y,
        marks: Vec::new(),
        frame: WIDE,
        curves: Vec::new(),
    }
}

#[test]
fn curves_rise_to_the_share_of_each_value() {
    let steps = shares(&[0.0, 0.0, 0.0, 5.0]);
    assert_eq!(steps, [(0.0, 0.75), (5.0, 1.0)]);
    let chart = chart(Scale::Linear { to: 10.0, step: 5.0 }, Scale::Share);
    // Up to three quarters at the left edge, then to the middle and up, then out.
    let ChartFrame { left, right, top, bottom, .. } = WIDE;
    let height = bottom - top;
    let (quarter, middle) = (bottom - height * 0.75, f64::midpoint(left, right));
    let expected = format!("M{left:.1} {bottom:.1}V{quarter:.1}H{middle:.1}V{top:.1}H{right:.1}");
    assert_eq!(chart.steps(0.0, steps.iter().copied()), expected);
}

#[test]
fn tails_fall_by_powers_of_ten() {
    let chart = chart(Scale::Linear { to: 10.0, step: 5.0 }, Scale::SmallShare { from: 0.001 });
    assert_eq!(
        chart.y.ticks().iter().map(|tick| tick.1.as_str()).collect::<Vec<_>>(),
        ["0.1 %", "1 %", "10 %", "100 %"]
    );
    // One in ten is longer than five: a third of the way down; none is longer than ten.
    let ChartFrame { left, right, top, bottom, .. } = WIDE;
    let (third, middle) = (top + (bottom - top) / 3.0, f64::midpoint(left, right));
    let path = chart.steps(1.0, [(5.0, 0.1), (10.0, 0.0)].into_iter());
    assert_eq!(path, format!("M{left:.1} {top:.1}H{middle:.1}V{third:.1}H{right:.1}V{bottom:.1}"));
    // None is longer than five: nothing goes on to ten, at the height of one in a thousand.
    let path = chart.steps(1.0, [(5.0, 0.0)].into_iter());
    assert_eq!(path, format!("M{left:.1} {top:.1}H{middle:.1}V{bottom:.1}"));
    let path = chart.steps(1.0, [(5.0, 0.1)].into_iter());
    assert_eq!(path, format!("M{left:.1} {top:.1}H{middle:.1}V{third:.1}H{right:.1}"));
}

#[test]
fn titles_stay_within_their_figures() {
    let svg = |title: &str| {
        Chart { title: title.into(), frame: SMALL, ..chart(Scale::Share, Scale::Share) }.svg(false)
    };
    assert_eq!(svg("window of 150 kB, without repair").matches("class=title").count(), 1);
    // Two lines, and, where that is not enough, close together.
    let long = svg("window of 150 kB, repair by adaptive:bulk");
    assert!(
        long.contains(">window of 150 kB,</text>") && long.contains(">repair by adaptive:bulk</text>"),
        "{long}"
    );
    assert!(!long.contains("textLength"));
    assert!(svg(&"a word and another ".repeat(6)).contains("textLength=312 "));
}

#[test]
fn dots_and_boxes_lie_where_their_values_are() {
    let chart = chart(Scale::Places(vec!["a".into(), "b".into()]), Scale::Linear { to: 100.0, step: 50.0 });
    let ChartFrame { left, right, top, bottom, .. } = WIDE;
    let (x, middle) = (left + (right - left) * 0.25, f64::midpoint(top, bottom));
    assert_eq!(chart.dots(&[(0.5, 50.0)]), format!("M{x:.1} {middle:.1}h0"));
    let drawn = chart.boxes(&[(0.5, [0.0, 25.0, 50.0, 75.0, 100.0])], 9.0);
    assert!(drawn.starts_with(&format!("M{x:.1} {bottom:.1}V")), "{drawn}");
    assert!(drawn.contains(&format!("V{top:.1}")), "{drawn}");
    assert!(drawn.ends_with(&format!("M{:.1} {middle:.1}h9.0", x - 4.5)), "{drawn}");
}

/// Thirty thousand dots of a few hundred places are a few hundred lines.
#[test]
fn a_cloud_is_as_large_as_what_is_seen_of_it() {
    let chart = chart(Scale::Linear { to: 456.0, step: 50.0 }, Scale::Linear { to: 240.0, step: 50.0 });
    let ChartFrame { left, bottom, .. } = WIDE;
    // A unit each way: from 1 at 0 up to 3 at 2 there is a dot in the middle; a thousand courses of it are no
    // more.
    let courses = vec![vec![(0.0, 1.0), (2.0, 3.0)]; 1000];
    let dot = |x: f64, y: f64| format!("M{} {}v0", left + x, bottom - y);
    assert_eq!(chart.cloud(&courses), [dot(0.0, 1.0), dot(1.0, 2.0), dot(2.0, 3.0)].concat());
    // Above each other they are one line.
    let courses = [1.0, 2.0, 3.0, 7.0].map(|y| vec![(5.0, y)]);
    let expected = format!("M{} {}v0M{0} {}v2", left + 5.0, bottom - 7.0, bottom - 3.0);
    assert_eq!(chart.cloud(&courses), expected);
}

/// The numbers of a figure are those that it was drawn from.
#[test]
fn a_figure_is_a_table_too() {
    let curve = |shape| ChartCurve { name: "a, b".into(), shape, ..ChartCurve::default() };
    let of = |x: Scale, shape| {
        csv(&[("t".into(), &Chart { curves: vec![curve(shape)], ..chart(x, Scale::Share) })])
    };
    assert_eq!(of(Scale::Share, ChartShape::Line(vec![(1.0, 0.1)])), "panel,of,x,y\nt,\"a, b\",1,0.1\n");
    assert_eq!(of(Scale::Share, ChartShape::Tail(vec![(1.0, 0.75)])), "panel,of,x,y\nt,\"a, b\",1,0.25\n");
    let places = || Scale::Places(vec!["p".into(), "q".into()]);
    assert_eq!(
        of(places(), ChartShape::Boxes(vec![(1.3, [1.0, 2.0, 3.0, 4.0, 5.5])], 9.0)),
        "panel,of,x,5 %,25 %,median,75 %,95 %\nt,\"a, b\",q,1,2,3,4,5.5\n"
    );
    let cells = vec![HeatCell { x: 1, y: 0, value: 1.25, tint: 0.5 }];
    let chart =
        Chart { y: places(), curves: vec![curve(ChartShape::Cells(cells))], ..chart(places(), Scale::Share) };
    assert_eq!(csv(&[("t".into(), &chart)]), "panel,of,x,y,value\nt,\"a, b\",q,p,1.25\n");
}
