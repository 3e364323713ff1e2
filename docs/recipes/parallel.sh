#!/usr/bin/env bash
# A sweep over the cores of one machine, or over several machines that share a file system, with GNU parallel.
#
#   parallel.sh DIR NAME… [--set KEY=VALUE,…] [--points N] [--seeds N]
#
# SHARDS=16          how many shares (one a core)
# HOSTS=hosts.txt    machines, a line each, as `parallel --sshloginfile` has them; DIR must be the same on all
# QUICKSET=…         the command, the same build everywhere
#
# The same command goes on where a stopped one was. DIR has the whole at the end, DIR/shards the shares.
set -euo pipefail

dir=$(realpath -m "${1:?a directory for results}")
shift
quickset=${QUICKSET:-quickset}
shards=${SHARDS:-$(nproc)}
hosts=()
if [[ -n ${HOSTS:-} ]]; then
    hosts=(--sshloginfile "$HOSTS")
fi

mkdir -p "$dir/shards"
"$quickset" lab plan "$@" -o "$dir/sweep.plan"
seq "$shards" | parallel "${hosts[@]}" --halt soon,fail=1 \
    "$quickset" lab run --from "$dir/sweep.plan" --shard "{}/$shards" --jobs 1 -o "$dir/shards"
"$quickset" lab merge "$dir/shards" -o "$dir"
