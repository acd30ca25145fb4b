"""Python functions as mapper and reducer: their source becomes a streaming program.

The program has nothing but the source of the function and of those it is given in ``uses``, so a function imports what it needs in its body.
"""

from __future__ import annotations

import ast
import inspect
import os
import sys
import textwrap
from typing import Any, Callable, Iterable

from .errors import GivewayError

# Reads lines, calls the mapper with each, prints what it yields.
_MAP = """
def _print(found):
    for one in found or ():
        fields = one if isinstance(one, (tuple, list)) else (one,)
        _out.write("\\t".join(str(field) for field in fields) + "\\n")

import sys as _sys
_in, _out = _sys.stdin, _sys.stdout
_in.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\\n")
_out.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\\n")
"""

_MAP_MAIN = """
for _line in _in:
    _print({name}(_line[:-1] if _line.endswith("\\n") else _line))
"""

# Lines with the same key follow each other.
_REDUCE_MAIN = """
import itertools as _itertools
_pairs = ((_line[:-1] if _line.endswith("\\n") else _line).partition("\\t") for _line in _in)
for _key, _group in _itertools.groupby(_pairs, key=lambda _pair: _pair[0]):
    _print({name}(_key, (_pair[2] for _pair in _group)))
"""


class SourceError(GivewayError):
    """The source of a function cannot be used on its own."""


def _source(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", repr(function))
    if name == "<lambda>" or not inspect.isfunction(function):
        raise SourceError(f"{name}: only functions defined with `def` can be sent to a cluster")
    if function.__code__.co_freevars:
        free = ", ".join(function.__code__.co_freevars)
        raise SourceError(f"{name} uses {free} of an enclosing function; define it at the top level, or pass values as text in it")
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError) as error:
        raise SourceError(f"the source of {name} cannot be found; define it in a file or a notebook cell") from error
    tree = ast.parse(source)
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef):
        raise SourceError(f"{name}: only plain functions can be sent to a cluster")
    if definition.decorator_list:
        raise SourceError(f"{name} is decorated; only plain functions can be sent to a cluster")
    return source


def program(function: Callable[..., Any], uses: Iterable[Callable[..., Any]], is_reducer: bool) -> str:
    """The text of a streaming program that calls a function."""
    sources = [_source(one) for one in [*uses, function]]
    main = (_REDUCE_MAIN if is_reducer else _MAP_MAIN).format(name=function.__name__)
    # Annotations are not evaluated: what they name is not there.
    return "from __future__ import annotations\n" + "\n".join(sources) + _MAP + main


def write_program(folder: str, name: str, text: str) -> str:
    """Writes a program to a folder; returns the command that runs it."""
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return f"{_quoted(sys.executable or 'python3')} {_quoted(path)}"


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"
