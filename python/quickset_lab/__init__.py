"""The laboratory of Quickset: QUIC experiments in virtual time, from Python.

An experiment is a table of parameters; a run of it is a row of results. Equal parameters and seeds give equal rows, on
any machine and in any order, so a sweep may be spread over as many as there are.

    >>> import quickset_lab as lab
    >>> table = lab.run("screen-streaming", set={"loss": "0.5%", "mode": ["total", "partial"]}, seeds=5)
    >>> table.to_pandas().groupby("mode")["blocking_ms.p99"].mean()

Mistakes in what is given are a ``ValueError``, what the system refuses an ``OSError``; both say what to write instead.
"""

from __future__ import annotations

import json as _json
import os as _os
import tempfile as _tempfile
from decimal import Decimal as _Decimal
from operator import index as _index
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Union

from . import _native
from ._curves import Curve, cdf
from ._table import Table, make as _make

__all__ = [
    "Curve",
    "Progress",
    "Table",
    "__commit__",
    "__version__",
    "cdf",
    "experiment",
    "experiments",
    "keep",
    "merge",
    "missing",
    "plan",
    "read",
    "read_plan",
    "run",
    "run_job",
    "write_plan",
]

__version__: str = _native.VERSION
#: The commit of this build. Rows of different builds are not mixed.
__commit__: str = _native.COMMIT

Path = Union[str, "_os.PathLike[str]"]
#: The value of a key: a number, or text as on the command line (``"0.5%"``, ``"9MB"``, ``"0.1%,1%"``).
Value = Union[str, int, float]
#: Keys with one value, or with several; several keys with several values multiply.
Set = Mapping[str, Union[Value, Sequence[Value]]]


class Progress(NamedTuple):
    """How far a sweep has come."""

    #: Runs done, those that were there included.
    done: int
    #: Runs in all.
    all: int
    #: Runs that were there.
    resumed: int
    #: Seconds of the runs' own time that were played.
    played_s: float
    #: Seconds of one core that this took.
    wall_s: float


def experiments() -> List[Dict[str, Any]]:
    """All experiments, each as :func:`experiment` has it."""
    found: List[Dict[str, Any]] = _json.loads(_native.experiments())
    return found


def experiment(name: str) -> Dict[str, Any]:
    """One experiment: ``name``, ``title``, ``source``, ``about``; its ``keys`` and what they accept, the ``baseline``.

    Then what is ``varied`` and ``crossed``, how many ``points``, ``seeds`` and ``runs`` that makes, and
    ``published_numbers``, those of papers. A ``ValueError`` names the nearest experiment.
    """
    found: Dict[str, Any] = _json.loads(_native.experiment(name))
    return found


def plan(
    name: str, set: Optional[Set] = None, *, points: Optional[int] = None, seeds: Optional[int] = None
) -> List[str]:
    """The jobs of a sweep, as :func:`run` would do them: a line of JSON each, for :func:`run_job` on any machine.

    Without ``set`` an experiment has all its points. A key that is set takes just the values given; setting a key that
    the experiment varies leaves its other variations out. ``points`` is for experiments that fill a space.
    """
    points, seeds = _count("points", points), _count("seeds", seeds)
    return _native.plan(name, [(key, _text(key, value)) for key, value in (set or {}).items()], points, seeds)


def run_job(job: str, *, real: bool = False) -> str:
    """Plays one job of :func:`plan` and returns its row, a line of JSON for :func:`keep`.

    Other threads of Python run meanwhile. This is what Ray and Dask spread; docs/cluster.md has recipes.
    """
    return _native.run_job(job, real)


def run(
    name: str,
    set: Optional[Set] = None,
    *,
    points: Optional[int] = None,
    seeds: Optional[int] = None,
    jobs: Optional[int] = None,
    out: Optional[Path] = None,
    real: bool = False,
    progress: Optional[Callable[[Progress], object]] = None,
) -> Table:
    """Runs an experiment and returns a row a run.

    :param set: keys and their values; see :func:`plan`.
    :param points: points of an experiment that fills a space.
    :param seeds: runs of each point, with seeds 1 to this; the experiment's own number unless given.
    :param jobs: runs at a time; one a core unless given.
    :param out: a directory to keep rows in as they come, ``NAME.rows`` and ``NAME.csv``. The same call goes on where a
        stopped one was.
    :param real: over real sockets, TLS and the emulated link instead of virtual time.
    :param progress: called after each run; an exception of it stops the sweep.

    Ctrl-C lets the runs end that are under way and keeps their rows.
    """
    lines = plan(name, set, points=points, seeds=seeds)
    watch = None if progress is None else (lambda *told: progress(Progress(*told)))
    jobs = _count("jobs", jobs)
    if out is not None:
        return _make(_native.run(lines, out, (jobs, real), watch))
    with _tempfile.TemporaryDirectory(prefix="quickset-lab-") as folder:
        return _make(_native.run(lines, folder, (jobs, real), watch))


def read(*dirs: Path, experiment: Optional[str] = None) -> Table:
    """The rows in directories of results, shards' included: of one experiment, or of all.

    Rows that contradict each other, or come from different builds, are a ``ValueError``.
    """
    return _make(_native.read(list(dirs), experiment))


def missing(jobs: Sequence[str], out: Path, *, real: bool = False) -> List[str]:
    """Those of the jobs that a directory has no rows of: what is left of a sweep that was stopped."""
    return _native.missing(list(jobs), out, real)


def keep(rows: Sequence[str], out: Path) -> Table:
    """Joins rows of :func:`run_job` with those that a directory has, and writes journal and CSV there."""
    return _make(_native.keep(list(rows), out))


def merge(dirs: Sequence[Path], out: Path) -> Table:
    """Joins directories of results, like ``quickset lab merge``."""
    return _make(_native.merge(list(dirs), out))


def write_plan(jobs: Sequence[str], path: Path) -> None:
    """Writes jobs as a plan, for ``quickset lab run --from PLAN``."""
    _native.write_plan(list(jobs), path)


def read_plan(path: Path, shard: Optional[str] = None) -> List[str]:
    """The jobs of a plan, or of a shard of it like ``"2/8"``. It has to be of the same build."""
    return _native.read_plan(path, shard)


def _count(name: str, value: Optional[int]) -> Optional[int]:
    """How many there are to be, at least 1."""
    if value is None:
        return None
    try:
        count = _index(value)
    except TypeError:
        raise ValueError(f"`{name}` takes a whole number, not {value!r}") from None
    if not 1 <= count < 2**32:
        raise ValueError(f"`{name}` is {count}; write 1 or more, up to {2**32 - 1}")
    return count


def _text(key: str, value: Union[Value, Sequence[Value]]) -> str:
    """A value as the command line has it; several with semicolons between."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        raise ValueError(f"`{key}` takes a number or text, not {value}")
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Sequence):
        if not value:
            raise ValueError(f"`{key}` has no values")
        return ";".join(_text(key, one) for one in value)
    try:
        # Without an exponent; a number of numpy is one, too.
        return format(_Decimal(repr(float(value))), "f")
    except (TypeError, ValueError, ArithmeticError):
        raise ValueError(f"`{key}` takes numbers and text, not {value!r}") from None
