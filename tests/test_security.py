"""SECURITY.md: each promise and each limit names a test, and each test that is named is there."""

import ast
import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
TEXT: Final = (ROOT / "SECURITY.md").read_text()
NAMED: Final = re.compile(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`")
ROWS: Final = [
    line
    for line in TEXT.splitlines()
    if line.startswith("|") and not line.startswith(("|---", "| promise", "| limit"))
]


def names_in(path: Path) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


@pytest.mark.parametrize("row", ROWS)
def test_each_promise_and_limit_names_tests_that_are_there(row: str) -> None:
    named = NAMED.findall(row)
    assert named
    assert row.count("tests/") == len(named)
    for path, test in named:
        found = names_in(ROOT / path)
        assert test in found if test else found


def test_nothing_is_promised_or_limited_but_in_a_row() -> None:
    chapters = TEXT.partition("## Promises")[2].partition("## Reporting")[0]
    assert not any(line.startswith(("*", "-")) for line in chapters.splitlines())


def test_unsafe_code_stands_where_it_is_said_to() -> None:
    output = re.findall(r"`native/src/([\w./]+)`", TEXT)
    using = {
        str(path.relative_to(ROOT / "native" / "src"))
        for path in (ROOT / "native" / "src").rglob("*.rs")
        if re.search(r"\bunsafe\s*(\{|impl|fn)", path.read_text())
    }
    assert using
    assert {one for one in using if not one.startswith(tuple(output))} == set()
    assert all(any(one.startswith(place) for one in using) for place in output)
