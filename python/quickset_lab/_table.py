"""Rows as tables: pyarrow's where it is installed, else one of our own with the most needed verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Protocol

if TYPE_CHECKING:
    from . import _native


class Table(Protocol):
    """What every table has, ``pyarrow.Table`` among them: a row a run, a column a parameter or measure.

    The last column, ``histograms``, has the distributions as JSON; :func:`quickset_lab.cdf` reads it.
    """

    @property
    def column_names(self) -> List[str]:
        """The names of the columns."""

    @property
    def num_rows(self) -> int:
        """How many rows there are."""

    def to_pydict(self) -> Dict[str, List[Any]]:
        """A list for each column."""

    def to_pylist(self) -> List[Dict[str, Any]]:
        """A dictionary for each row."""

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame``."""


class Plain:
    """A table without pyarrow."""

    def __init__(self, columns: Dict[str, List[Any]], rows: int) -> None:
        self._columns = columns
        self._rows = rows

    @property
    def column_names(self) -> List[str]:
        return list(self._columns)

    @property
    def num_rows(self) -> int:
        return self._rows

    def to_pydict(self) -> Dict[str, List[Any]]:
        return {name: list(cells) for name, cells in self._columns.items()}

    def to_pylist(self) -> List[Dict[str, Any]]:
        return [{name: cells[n] for name, cells in self._columns.items()} for n in range(self._rows)]

    def to_pandas(self) -> Any:
        import pandas

        return pandas.DataFrame(self._columns)

    def __getitem__(self, name: str) -> List[Any]:
        return list(self._columns[name])

    def __len__(self) -> int:
        return self._rows

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        return iter(self.to_pylist())

    def __repr__(self) -> str:
        return f"<{self._rows} rows: {', '.join(self._columns)}>"


def make(rows: "_native.Rows") -> Table:
    """The table of rows."""
    columns = rows.columns()
    try:
        import pyarrow
    except ImportError:
        return Plain({name: cells for name, _, cells in columns}, len(rows))
    kinds = {
        "text": pyarrow.string(),
        "whole": pyarrow.int64(),
        "number": pyarrow.float64(),
        "flag": pyarrow.bool_(),
    }
    arrays = {name: pyarrow.array(cells, type=kinds[kind]) for name, kind, cells in columns}
    table: Table = pyarrow.table(arrays)
    return table
