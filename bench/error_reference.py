"""Which errors are there? docs/errors.md, from the classes and their docstrings.

    python -m bench.error_reference

A test compares the file with the output of this."""

import inspect
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import records.errors
from downconvert.protocol.errors import ErrorCode
from downconvert.spark import errors as spark
from downconvert.storage import errors as storage

PAGE: Final = Path(__file__).parents[1] / "docs" / "errors.md"
HEAD: Final = """# Errors

This page is written from the code (`python -m bench.error_reference`).

## Errors of the library

All of these but `TaskFailedError` derive from `records.RecordsError`. A wrong argument is a
`ValueError`, and a missing file is an `OSError`, as everywhere in Python.
[Embedding](embedding.md#errors) says what a broker answers to each.
"""
CODES: Final = """
## Error codes of the servers

The error codes of Kafka's protocol that `downconvert serve` answers. The gateway adds none: it
answers with the cluster's codes, and with authorization errors of its own rules.
"""
EXITS: Final = """
## Exit codes of the command

0 done, 1 a check failed, 2 bad input or a wrong option, 130 interrupted by Ctrl-C, 141 nobody reads
the output any more.
"""
KINDS: Final[dict[str, types.ModuleType]] = {
    "Reading and converting records: `records`": records.errors,
    "The log on disk: `downconvert.storage`": storage,
    "Spark": spark,
}


def reference() -> str:
    """The whole page."""
    lines = [HEAD]
    for title, module in KINDS.items():
        lines += ["", f"### {title}", "", "| error | what it says |", "|---|---|", *_of(module)]
    lines += [CODES, "| code | name |", "|---|---|"]
    lines += [f"| {code.value} | {code.name} |" for code in ErrorCode]
    return "\n".join([*lines, EXITS.rstrip()]).replace("\n\n\n", "\n\n") + "\n"


def _of(module: types.ModuleType) -> Iterator[str]:
    for name, error in vars(module).items():
        is_own = inspect.isclass(error) and error.__module__ == module.__name__
        if is_own and issubclass(error, Exception):
            yield f"| `{name}` | {' '.join((error.__doc__ or '').split())} |"


if __name__ == "__main__":
    PAGE.write_text(reference())
    print(PAGE)
