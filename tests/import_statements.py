"""Reads the imports of files from their text."""

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

Statement = ast.Import | ast.ImportFrom


@cache
def import_statements(path: Path) -> tuple[Statement, ...]:
    """All of a file, wherever in it they stand."""
    return tuple(_within(ast.parse(path.read_text()).body))


def _within(statements: Sequence[ast.AST]) -> Iterator[Statement]:
    """Only statements hold statements: no expression is looked through."""
    for statement in statements:
        if isinstance(statement, Statement):
            yield statement
        else:
            for field in ("body", "orelse", "finalbody", "handlers", "cases"):
                inner = getattr(statement, field, ())
                if isinstance(inner, list):  # a lambda has a body too, and a conditional expression
                    yield from _within(inner)
