"""A sweep on a Ray cluster: each run is a task, rows are kept as they come, and the same command goes on.

    python ray_sweep.py screen-streaming --set loss=0.1%,1% --seeds 20 -o results
    python ray_sweep.py … --address auto      # a cluster that `ray start` made

Every node needs this package, of the same build.
"""

import argparse

import ray

import quickset_lab as lab


def sweep(jobs: list, out: str, batch: int = 200) -> None:
    """Plays jobs on the cluster; rows go to `out` in batches."""
    play = ray.remote(max_retries=3)(lab.run_job)
    waiting = [play.remote(job) for job in lab.missing(jobs, out)]
    while waiting:
        done, waiting = ray.wait(waiting, num_returns=min(batch, len(waiting)), timeout=60)
        if done:
            table = lab.keep(ray.get(done), out)
            print(f"{table.num_rows} rows, {len(waiting)} to come", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="A sweep on a Ray cluster.")
    parser.add_argument("name", help="the experiment")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE,…", help="run with these values")
    parser.add_argument("--points", type=int, metavar="N", help="points of a space-filling design")
    parser.add_argument("--seeds", type=int, metavar="N", help="runs of each point")
    parser.add_argument("-o", "--output", default="results", metavar="DIR", help="keep results here")
    parser.add_argument("--address", metavar="ADDR", help="the cluster [default: one on this machine]")
    parser.add_argument("--workers", type=int, metavar="N", help="runs at a time on this machine")
    args = parser.parse_args()
    pairs = dict(word.split("=", 1) for word in args.set)
    jobs = lab.plan(args.name, pairs, points=args.points, seeds=args.seeds)
    where = {"address": args.address} if args.address else {"num_cpus": args.workers}
    ray.init(**where, include_dashboard=False, log_to_driver=False)
    try:
        sweep(jobs, args.output)
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main()
