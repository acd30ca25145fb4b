"""Results of jobs: the files ``part-*`` of an output folder."""

from __future__ import annotations

import importlib
import os
from typing import Any, Iterator, List, Optional, Sequence, Tuple

from .errors import GivewayError


def parts(output: str) -> List[str]:
    """Paths of the parts of a complete output, in order."""
    if not os.path.exists(os.path.join(output, "_SUCCESS")):
        raise GivewayError(f"{output} has no file _SUCCESS: the job has not succeeded yet, or the output was removed")
    names = sorted(name for name in os.listdir(output) if name.startswith("part-"))
    return [os.path.join(output, name) for name in names]


def rows(output: str, encoding: str = "utf-8", errors: str = "surrogateescape") -> Iterator[Tuple[str, ...]]:
    """Lines of an output, split at tabs. Bytes that are not in this encoding become lone surrogates, which the same encoding with ``surrogateescape`` writes back."""
    for path in parts(output):
        # Only a line feed ends a line: "\r" and other line ends of Unicode may be part of the data.
        with open(path, encoding=encoding, errors=errors, newline="\n") as part:
            for line in part:
                yield tuple(line.rstrip("\n").split("\t"))


def frame(output: str, columns: Optional[Sequence[str]] = None, encoding: str = "utf-8") -> Any:
    """The rows as a DataFrame of pandas, or of polars if pandas is not installed. All columns are text; bytes that are not in this encoding become ``\ufffd``."""
    # Columns cannot hold lone surrogates.
    found = list(rows(output, encoding, "replace"))
    width = max((len(row) for row in found), default=len(columns or ()))
    names = list(columns) if columns is not None else [f"column_{number}" for number in range(width)]
    if len(names) < width:
        raise GivewayError(f"the rows have {width} columns, and {len(names)} names are given")
    return data_frame({name: [row[at] if at < len(row) else None for row in found] for at, name in enumerate(names)})


def data_frame(columns: "dict[str, list[Any]]") -> Any:
    """A DataFrame of pandas, or of polars if pandas is not installed."""
    for library in ("pandas", "polars"):
        try:
            module: Any = importlib.import_module(library)
        except ImportError:
            continue
        return module.DataFrame(columns)
    raise GivewayError("a DataFrame needs pandas or polars; install one of them")
