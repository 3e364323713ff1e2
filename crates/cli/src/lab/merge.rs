use std::path::PathBuf;

use quickset_lab::results::merge;

use crate::say::note;

/// Join results of shards, or of several machines.
///
/// A run that is there several times counts once; what the output directory has already stays. Rows
/// of different builds are not mixed, and rows that contradict each other are an error.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, verbatim_doc_comment)]
pub(crate) struct MergeArgs {
    /// Directories of results
    #[arg(required = true, value_name = "DIR")]
    from: Vec<PathBuf>,
    /// Keep the whole here
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

pub(super) fn run(args: &MergeArgs) -> anyhow::Result<()> {
    for sheet in merge(&args.from, &args.output)? {
        note!("{}: {} runs", sheet.experiment, sheet.rows.len());
    }
    Ok(())
}

const EXAMPLE: &str = "\
Example: the shares of two machines
  quickset lab merge node1/out node2/out -o results";
