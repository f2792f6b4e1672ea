"""Functions that are written for one message and version, and compiled once.

All that a definition decides is decided while the function is written, as dataclasses write their
`__init__`. What is left takes no call for each field. Nothing that a client sends becomes code: a
definition gives the names, and they are in quotes.

Not here: what is written (decoder.py, encoder.py, error_codes.py)."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

INDENT = "    "


class Source:
    """The lines of one function, and the objects that they name."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 1
        self._objects: dict[str, Any] = {}
        self._numbers = count()

    def line(self, text: str) -> None:
        self._lines.append(INDENT * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """The lines that are added within belong to `head`, such as `if size < 0`."""
        self.line(f"{head}:")
        self._depth += 1
        yield
        self._depth -= 1

    def variable(self) -> str:
        """The name of a variable that is not in use."""
        return f"v{next(self._numbers)}"

    def constant(self, value: Any) -> str:
        """How the lines name an object: as a literal, or by a name that is not in use."""
        if value is None or type(value) in (bool, int, str):
            return repr(value)
        name = f"c{next(self._numbers)}"
        self._objects[name] = value
        return name

    def compiled(self, arguments: str) -> Any:
        """The function, with these parameters."""
        text = "\n".join([f"def function({arguments}):", *self._lines])
        namespace = dict(self._objects)
        exec(compile(text, "<message>", "exec"), namespace)
        return namespace["function"]
