use std::path::{Path, PathBuf};

use anyhow::bail;
use quickset_lab::plan::{Shard, SweepPlan};
use quickset_lab::run::RunJob;

use super::{COMMIT, Which};
use crate::say::note;

/// Write the list of runs, to share them between processes or machines.
///
/// Each machine does its share with `lab run --from PLAN --shard I/N`; `lab merge` joins what they
/// have. All of them need the same build. docs/cluster.md has recipes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, verbatim_doc_comment)]
pub(crate) struct PlanArgs {
    /// The experiments
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    which: Which,
    /// Write the plan here
    #[arg(short, long, value_name = "PLAN")]
    output: PathBuf,
}

pub(super) fn run(args: &PlanArgs) -> anyhow::Result<()> {
    let mut jobs = Vec::new();
    for name in &args.names {
        jobs.extend(args.which.jobs(name)?);
    }
    let plan = SweepPlan { commit: COMMIT.to_owned(), jobs };
    plan.write(&args.output)?;
    note!("{}: {} runs", args.output.display(), plan.jobs.len());
    Ok(())
}

/// The runs of a plan, or of a shard of it, by experiment.
pub(super) fn sweeps(path: &Path, shard: Option<Shard>) -> anyhow::Result<Vec<Vec<RunJob>>> {
    let plan = SweepPlan::read(path, COMMIT)?;
    let jobs = match shard {
        Some(shard) => plan.share(shard),
        None => plan.jobs,
    };
    if jobs.is_empty() {
        match shard {
            // An array of jobs may be larger than its plan; that is no failure.
            Some(_) => note!("{} has fewer runs than there are shards; nothing to do", path.display()),
            None => bail!("{} has no runs", path.display()),
        }
    }
    Ok(SweepPlan::sweeps(jobs))
}

const EXAMPLE: &str = "\
Example: two processes in one directory, then the whole
  quickset lab plan screen-streaming --seeds 20 -o sweep.plan
  quickset lab run --from sweep.plan --shard 1/2 -o out &
  quickset lab run --from sweep.plan --shard 2/2 -o out; wait
  quickset lab merge out -o results";
