use std::path::PathBuf;

use anyhow::Context as _;
use quickset_lab::report::experiments::{ResultsFolder, html};
use serde_json::json;

use crate::say::{note, say};

/// Write a page of figures and tables of results: what was found, beside what was published.
///
/// The page needs nothing but itself. It has the figures, each with its numbers as CSV in a link, tables
/// with confidence intervals, beside them what was published and what the same point has without loss,
/// where that was run, and the commands that make all of it again.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, verbatim_doc_comment)]
pub(crate) struct ReportArgs {
    /// The directory of results
    #[arg(value_name = "DIR", default_value = "results")]
    dir: PathBuf,
    /// Where the page goes [default: report.html in the directory]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Open the page in a browser
    #[arg(long)]
    open: bool,
    /// Print the numbers of the tables, and which runs failed, as one JSON document; no page unless -o or
    /// --open asks for it
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ReportArgs) -> anyhow::Result<()> {
    let results = ResultsFolder::read(&args.dir)?;
    let warnings = [results.warnings.clone(), results.unfinished()].concat();
    for warning in &warnings {
        note!("quickset: {warning}");
    }
    let default = args.dir.join("report.html");
    let file = match &args.output {
        Some(file) => Some(file),
        None if args.json && !args.open => None,
        None => Some(&default),
    };
    if let Some(file) = file {
        std::fs::write(file, html(&results)).with_context(|| {
            format!("the report cannot be written to {}; choose another place with -o", file.display())
        })?;
    }
    if args.json {
        let document = json!({ "lines": results.lines(), "failed": results.failed(), "warnings": warnings });
        say!("{}", serde_json::to_string_pretty(&document)?)?;
    } else if let Some(file) = file {
        say!("The report of {} runs is in {}.", results.runs(), file.display())?;
    }
    if let Some(file) = file.filter(|_| args.open) {
        crate::demo::open(file)?;
    }
    Ok(())
}

const EXAMPLE: &str = "\
Example: run an experiment and look at it
  quickset lab run screen-streaming --seeds 5 -o out
  quickset lab report out --open";
