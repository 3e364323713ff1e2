#!/usr/bin/env bash
#SBATCH --job-name=quickset
#SBATCH --array=1-16
#SBATCH --cpus-per-task=4
#SBATCH --mem-per-cpu=1G
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%A_%a.log
# A share of a sweep for each task of a Slurm array. On the head node:
#
#   quickset lab plan screen-streaming --seeds 100 -o sweep.plan
#   id=$(PLAN=sweep.plan OUT=shards sbatch --parsable slurm.sh)
#   sbatch --dependency="afterok:$id" --wrap "quickset lab merge shards -o results"
#
# A task that is requeued goes on where it was. Submit tasks that failed once more with the same --array=1-16: those
# that are done end at once. SHARDS says how many shares there are when only some of them are submitted
# (SHARDS=16 sbatch --array=3,7 …).
set -euo pipefail

quickset=${QUICKSET:-quickset}
shards=${SHARDS:-${SLURM_ARRAY_TASK_COUNT:?run me as an array of Slurm}}

exec "$quickset" lab run --from "${PLAN:?a plan of quickset lab plan}" \
    --shard "${SLURM_ARRAY_TASK_ID:?}/$shards" \
    --jobs "${SLURM_CPUS_PER_TASK:-1}" \
    -o "${OUT:?a directory that all nodes share}"
