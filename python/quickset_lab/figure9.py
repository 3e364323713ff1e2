"""Redraws figure 9 of Eghbal and Lu, Future Internet 2025: ``python -m quickset_lab.figure9``.

A screen is streamed over a lossy link, in total and in partial order, with and without repair. The figure has how long
messages that have arrived wait for others, and the time between deliveries. It needs matplotlib
(``pip install 'quickset-lab[plot]'``).
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import List, Optional

from . import Table, cdf, experiment, run

_METRICS = {"blocking_ms": "blocking time", "inter_delivery_ms": "inter-delivery time"}


def play(seeds: int, updates: int, out: Optional[str] = None) -> Table:
    """The runs of the figure: each seed is another set of losses. ``out`` keeps them, as in ``quickset_lab.run``."""
    return run(
        "screen-streaming",
        set={"profile": "as-published", "fec": ["none", "rs:105/100"], "loss": "0.5%", "updates": updates},
        seeds=seeds,
        out=out,
    )


def draw(table: Table, path: str) -> None:
    """Draws both panels into the file ``path``, of the kind that its name says."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(11, 4), sharey=True, layout="constrained")
    for panel, (metric, name) in zip(panels, _METRICS.items()):
        for curve in cdf(table, metric, by=["mode", "fec"]):
            panel.step(curve.x, curve.y, where="post", label=" ".join(curve.by.values()))
        panel.set_xlabel(f"{name} in ms")
        panel.legend()
    panels[0].set_ylabel("share of messages")
    panels[1].set_xscale("symlog", linthresh=0.1)
    figure.savefig(path)
    pyplot.close(figure)


def main(arguments: Optional[List[str]] = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m quickset_lab.figure9", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("-o", "--output", default="figure9.png", metavar="FILE", help="the picture (%(default)s)")
    parser.add_argument("--seeds", type=int, default=20, metavar="N", help="runs of each curve (%(default)s)")
    parser.add_argument("--updates", type=int, default=300, metavar="N", help="updates of the screen (%(default)s)")
    parser.add_argument("--keep", metavar="DIR", help="keep the rows there; the same call goes on from them")
    given = parser.parse_args(arguments)
    try:
        table = play(given.seeds, given.updates, given.keep)
    except (OSError, ValueError) as error:
        print(f"figure9: {error}", file=sys.stderr)
        return 1
    try:
        draw(table, given.output)
    except ModuleNotFoundError as error:
        print(f"figure9: {error}; pip install 'quickset-lab[plot]' brings it", file=sys.stderr)
        return 1
    except (OSError, ValueError) as error:
        print(f"figure9: {given.output} cannot be written: {error}", file=sys.stderr)
        return 1
    for number in experiment("screen-streaming")["published_numbers"]:
        if number["figure"] == "9":
            print(number["metric"], "at", number["at"], "- published:", number["value"])
    for metric in _METRICS:
        for curve in cdf(table, metric, by=["mode", "fec"]):
            shares = ", ".join(f"p{100 * p:g} {curve.percentile(p):.1f} ms" for p in (0.8, 0.99, 0.9995))
            print(metric, *curve.by.values(), shares)
    print(f"{given.output}: drawn with {time.process_time():.1f} s of processor time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
