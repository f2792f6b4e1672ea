"""Generates functions for one message and version, compiled once.

All decisions that depend on the definition are made during generation, as dataclasses do for
`__init__`. So the generated code needs no call for each field. Nothing that a client sends becomes
code: names come from the definitions.

Not here: the generated functions (decoder.py, encoder.py, error_codes.py, plain_values.py)."""

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
        """Lines added in this context are the block of `head`, such as `if size < 0`."""
        self.line(f"{head}:")
        self._depth += 1
        yield
        self._depth -= 1

    def variable(self) -> str:
        """The name of an unused variable."""
        return f"v{next(self._numbers)}"

    def constant(self, value: Any) -> str:
        """The source text for an object: a literal, or a new name."""
        if value is None or type(value) in (bool, int, str):
            return repr(value)
        name = f"c{next(self._numbers)}"
        self._objects[name] = value
        return name

    def compiled(self, arguments: str) -> Any:
        """The compiled function with these parameters."""
        text = "\n".join([f"def function({arguments}):", *self._lines])
        namespace = dict(self._objects)
        exec(compile(text, "<message>", "exec"), namespace)
        return namespace["function"]
