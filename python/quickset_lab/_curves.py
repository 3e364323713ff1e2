"""Distributions pooled over seeds."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union, cast

from . import _native
from ._table import Table, make

_Rows = Sequence[Mapping[str, Any]]
Source = Union[str, "os.PathLike[str]", Table, _Rows]


class Curve(NamedTuple):
    """A cumulative distribution: the share ``y[i]`` of all ``times`` is at most ``x[i]`` milliseconds."""

    #: What tells the curve from others, like ``{"mode": "partial"}``.
    by: Dict[str, Any]
    #: Rising times in milliseconds, good to 0.8 %; an array of numpy's where it is installed.
    x: Any
    #: Shares from above 0 to 1.
    y: Any
    #: How many times there are.
    times: int
    #: How many runs they come from.
    runs: int

    def percentile(self, p: float) -> float:
        """The time in milliseconds that the share ``p`` (0 to 1) does not exceed."""
        if not 0 <= p <= 1:
            raise ValueError(f"a share is from 0 to 1, not {p}")
        return next((float(x) for x, y in zip(self.x, self.y) if y >= p), float(self.x[-1]))


def cdf(
    source: Source,
    metric: str,
    by: Sequence[str] = ("mode",),
    *,
    at: Optional[Mapping[str, Any]] = None,
    experiment: Optional[str] = None,
) -> List[Curve]:
    """The distributions of a metric (``"blocking_ms"``, ``"inter_delivery_ms"``, …), pooled over seeds.

    :param source: a directory of results, a table of :func:`quickset_lab.run` or :func:`quickset_lab.read` (or of a
        Parquet file), or its rows as dictionaries.
    :param by: columns; each combination of their values is a curve.
    :param at: only rows with these values, like ``{"loss": 0.005}``.
    :param experiment: only rows of this one.

    Runs that differ in a parameter which neither ``by`` nor ``at`` names are not pooled: that is a ``ValueError``.
    """
    rows = [row for row in _rows(source, experiment) if _fits(row, at or {})]
    if not rows:
        raise ValueError("there are no such rows")
    _check(rows, by, at or {})
    groups: Dict[Tuple[Any, ...], List[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    return [_curve(dict(zip(by, values)), group, metric) for values, group in groups.items()]


def _curve(by: Dict[str, Any], rows: List[Mapping[str, Any]], metric: str) -> Curve:
    x, y, times = _native.cdf([row["histograms"] for row in rows], metric)
    try:
        import numpy
    except ImportError:
        return Curve(by, x, y, times, len(rows))
    return Curve(by, numpy.array(x), numpy.array(y), times, len(rows))


def _rows(source: Source, experiment: Optional[str]) -> Sequence[Mapping[str, Any]]:
    if isinstance(source, (str, os.PathLike)):
        return make(_native.read([source], experiment)).to_pylist()
    rows: _Rows = cast(Table, source).to_pylist() if hasattr(source, "to_pylist") else source
    return [row for row in rows if experiment in (None, row.get("experiment"))]


def _fits(row: Mapping[str, Any], at: Mapping[str, Any]) -> bool:
    for name, value in at.items():
        if name not in row:
            raise ValueError(f"there is no column `{name}`")
        if row[name] != value:
            return False
    return True


def _check(rows: Sequence[Mapping[str, Any]], by: Sequence[str], at: Mapping[str, Any]) -> None:
    """Points may not be pooled by oversight."""
    for name in by:
        if any(name not in row for row in rows):
            raise ValueError(f"there is no column `{name}`")
    for name in ["experiment", "world", *_native.keys()]:
        if name in by or name in at:
            continue
        values = sorted({str(row.get(name)) for row in rows})
        if len(values) > 1:
            raise ValueError(
                f"the runs differ in `{name}` ({', '.join(values)}): name it in by, or choose one with at"
            )
