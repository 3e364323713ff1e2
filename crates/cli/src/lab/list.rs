use std::fmt::Write as _;

use quickset_base::number::Unsigned as _;
use quickset_lab::catalogue;
use quickset_lab::experiment::{Outline, Values};

use crate::say::{self, say};

/// List the experiments, or show one with its keys and figures.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct ListArgs {
    /// Show this one
    name: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ListArgs) -> anyhow::Result<()> {
    if let Some(name) = &args.name {
        let outline = catalogue::find(name)?.outline()?;
        if args.json {
            say!("{}", serde_json::to_string_pretty(&outline)?)?;
        } else {
            say::text(format_args!("{}", one(&outline)))?;
        }
        return Ok(());
    }
    let outlines =
        catalogue::ALL.iter().map(|experiment| experiment.outline()).collect::<Result<Vec<_>, _>>()?;
    if args.json {
        say!("{}", serde_json::to_string_pretty(&outlines)?)
    } else {
        say::text(format_args!("{}", all(&outlines)))
    }
}

fn all(outlines: &[Outline]) -> String {
    let width = outlines.iter().map(|outline| outline.name.len()).max().unwrap_or(0).max(4);
    let mut text =
        format!("{:<width$} {:>6} {:>8}  what it shows, and where it is from\n", "name", "runs", "time");
    for outline in outlines {
        let first = format!("{:<width$} {:>6} {:>8}  ", outline.name, outline.runs, time(outline));
        text += &paragraph(&first, outline.title);
        text += &paragraph(&" ".repeat(first.chars().count()), outline.source);
    }
    let cores = super::cores();
    let _ = writeln!(
        text,
        "\nTime is a guess, by the number of packets, of what all runs take on {cores} cores like those of a laptop."
    );
    text += "`quickset lab list NAME` shows what can be set, `quickset lab run NAME` runs it.\n";
    text
}

fn one(outline: &Outline) -> String {
    let mut text = format!("{}\n", outline.name);
    text += &paragraph("  ", outline.title);
    text += &paragraph("  ", outline.source);
    text.push('\n');
    text += &paragraph("  ", outline.about);
    text += "\nKeys for --set, with the baseline's values:\n";
    let name = outline.keys.iter().map(|key| key.name.len()).max().unwrap_or(0);
    let baseline = outline.keys.iter().map(|key| key.baseline.len()).max().unwrap_or(0);
    for key in &outline.keys {
        let first = format!("  {:<name$}  {:<baseline$}  ", key.name, key.baseline);
        text += &paragraph(&first, &format!("{}: {}", key.about, key.accepts));
    }
    match outline.design_points {
        Some(points) => {
            let _ = writeln!(
                text,
                "\nVaried, {points} points that fill this space evenly (--points N for others):"
            );
        }
        None => text += "\nVaried, one at a time from the baseline:\n",
    }
    text += &values(&outline.varied);
    if !outline.crossed.is_empty() {
        text += "\nCrossed, each with every point:\n";
        text += &values(&outline.crossed);
    }
    let how = if outline.is_timed { "timed one by one" } else { "in virtual time" };
    let _ = writeln!(
        text,
        "\n{} points, {} seeds each: {} runs, about {} on {} cores, {how}.",
        outline.points,
        outline.seeds,
        outline.runs,
        time(outline),
        super::cores()
    );
    text += "\nFigures of the report:\n";
    for figure in &outline.figures {
        text += &paragraph("  ", figure);
    }
    if outline.published > 0 {
        let _ = writeln!(text, "  and {} published numbers beside ours", outline.published);
    }
    text += "\nExamples:\n";
    let _ = writeln!(text, "  quickset lab run {} --seeds 2 -o out", outline.name);
    if let Some((key, value)) = example(outline) {
        let _ = writeln!(text, "  quickset lab run {} --set {key}={value} -o out", outline.name);
    }
    text += "  quickset lab report out --open\n";
    text
}

fn values(values: &[Values]) -> String {
    let width = values.iter().map(|values| values.key.len()).max().unwrap_or(0);
    values.iter().map(|values| paragraph(&format!("  {:<width$}  ", values.key), &values.values)).collect()
}

/// A key that is varied with values for it: the first that it has, or the lower end of a range.
fn example(outline: &Outline) -> Option<(&str, String)> {
    let varied = outline.varied.first()?;
    let value = if outline.design_points.is_some() {
        varied.values.split(' ').next().unwrap_or_default().to_owned()
    } else {
        // The first two say how it is written.
        let separator = if varied.values.contains(';') { ";" } else { "," };
        varied.values.split(separator).take(2).collect::<Vec<_>>().join(separator)
    };
    let is_several = value.contains(';');
    Some((varied.key, if is_several { format!("'{value}'") } else { value }))
}

/// How long all runs take, on all cores unless they take turns.
fn time(outline: &Outline) -> String {
    let at_a_time = if outline.is_timed { 1 } else { super::cores() };
    let seconds = outline.estimated_s / at_a_time.approx();
    match seconds {
        s if s < 1.5 => "1 s".to_owned(),
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// Text in lines of at most [`WIDTH`] columns, broken behind words and behind commas; those after the first
/// begin under the text of the first.
fn paragraph(first: &str, text: &str) -> String {
    let indent = first.chars().count();
    let mut all = String::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    let pieces = text.split_whitespace().flat_map(|word| {
        word.split_inclusive(',')
            .enumerate()
            .map(|(i, piece)| if i == 0 { (" ", piece) } else { ("", piece) })
    });
    for (space, piece) in pieces {
        if !is_empty && line.chars().count() + space.len() + piece.chars().count() > WIDTH {
            all += line.trim_end();
            all.push('\n');
            line = " ".repeat(indent);
            is_empty = true;
        }
        if !is_empty {
            line += space;
        }
        line += piece;
        is_empty = false;
    }
    all += line.trim_end();
    all.push('\n');
    all
}

/// Wider lines are hard to read.
const WIDTH: usize = 100;

const EXAMPLE: &str = "\
Example: what can be set in an experiment
  quickset lab list screen-streaming";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_no_wider_than_a_hundred_columns() {
        let outlines: Vec<Outline> = catalogue::ALL.iter().map(|e| e.outline().unwrap()).collect();
        let mut texts: Vec<String> = outlines.iter().map(one).collect();
        texts.push(all(&outlines));
        for line in texts.iter().flat_map(|text| text.lines()) {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
        for outline in &outlines {
            assert!(texts[texts.len() - 1].contains(outline.name));
        }
        assert_eq!(paragraph("a  ", "b c"), "a  b c\n");
        let (long, list) = ("x".repeat(60), "y".repeat(60));
        assert_eq!(paragraph("a ", &format!("{long},{list} z")), format!("a {long},\n  {list} z\n"));
    }
}
