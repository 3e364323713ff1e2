"""A sweep on a Dask cluster: each run is a task, rows are kept as they come, and the same command goes on.

    python dask_sweep.py screen-streaming --set loss=0.1%,1% --seeds 20 -o results
    python dask_sweep.py … --address tcp://scheduler:8786

Every worker needs this package, of the same build.
"""

import argparse

from dask.distributed import Client, LocalCluster, as_completed

import quickset_lab as lab


def sweep(client: Client, jobs: list, out: str, batch: int = 200) -> None:
    """Plays jobs on the cluster; rows go to `out` in batches."""
    # Equal jobs give equal rows, but a row that was forgotten must be played again: hence not `pure`.
    futures = client.map(lab.run_job, lab.missing(jobs, out), pure=False, retries=3)
    rows: list = []
    for future, row in as_completed(futures, with_results=True):
        future.release()
        rows.append(row)
        if len(rows) == batch:
            lab.keep(rows, out)
            rows.clear()
    if rows:
        lab.keep(rows, out)


def main() -> None:
    parser = argparse.ArgumentParser(description="A sweep on a Dask cluster.")
    parser.add_argument("name", help="the experiment")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE,…", help="run with these values")
    parser.add_argument("--points", type=int, metavar="N", help="points of a space-filling design")
    parser.add_argument("--seeds", type=int, metavar="N", help="runs of each point")
    parser.add_argument("-o", "--output", default="results", metavar="DIR", help="keep results here")
    parser.add_argument("--address", metavar="ADDR", help="the scheduler [default: a cluster on this machine]")
    parser.add_argument("--workers", type=int, metavar="N", help="processes on this machine")
    args = parser.parse_args()
    pairs = dict(word.split("=", 1) for word in args.set)
    jobs = lab.plan(args.name, pairs, points=args.points, seeds=args.seeds)
    if args.address:
        with Client(args.address) as client:
            sweep(client, jobs, args.output)
        return
    with LocalCluster(n_workers=args.workers, threads_per_worker=1, dashboard_address=None) as cluster:
        with Client(cluster) as client:
            sweep(client, jobs, args.output)
    print(f"{lab.read(args.output).num_rows} rows")


if __name__ == "__main__":
    main()
