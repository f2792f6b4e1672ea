"""The examples in docstrings run, and give what they say; the API pages show them."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for name in ("records", "downconvert", "simulator")
    for path in sorted((ROOT / name).rglob("*.py"))
    if "\n>>> " in path.read_text() or "    >>> " in path.read_text()
]


def test_modules_that_are_used_first_have_examples() -> None:
    assert set(MODULES) >= {
        "records.batches.builder",
        "records.batches.reader",
        "downconvert.broker",
        "downconvert.conversion.eager",
        "downconvert.conversion.lazy",
        "downconvert.gateway",
        "downconvert.storage",
    }


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_its_examples_give_what_they_say(name: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert tried
    assert not failed
