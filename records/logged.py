"""The lines of all logs. Text from clients and brokers stays within its line.

Clients choose their ids and the names of topics, and brokers the text of their errors. Such text
may have line breaks, which would begin another line, and control codes for a terminal. So each
message is escaped as a whole, and its length limited, before it becomes a record of `logging`.

Not here: the messages, and where the lines go (the commands)."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

TEXT_MAX: Final = 256  # characters of one text in a line
LINE_MAX: Final = 4096  # characters of a message


def shown(text: str, length_max: int = TEXT_MAX) -> str:
    """A text as part of a line: without control characters, and at most `length_max` characters
    long."""
    if len(text) > length_max:
        text = text[: length_max - 1] + "…"
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else _escaped(one) for one in text)


class _Thread(threading.local):
    """The fields of each record that the running thread logs."""

    fields: Mapping[str, Any] = MappingProxyType({})


THREAD: Final = _Thread()


@contextmanager
def log_fields(**fields: Any) -> Iterator[None]:
    """Adds these fields to each record that this thread logs meanwhile."""
    former = THREAD.fields
    THREAD.fields = {**former, **fields}
    try:
        yield
    finally:
        THREAD.fields = former


def with_log_fields(target: Callable[[], None]) -> Callable[[], None]:
    """The target of a new thread. Its records have the fields of the thread that calls this."""
    fields = THREAD.fields

    def run() -> None:
        THREAD.fields = fields
        target()

    return run


class EscapedLog(logging.LoggerAdapter[logging.Logger]):
    """A logger that escapes its messages, and shortens their `fields`, which JSON escapes."""

    def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
        """As `logging.Logger.log`."""
        if not self.isEnabledFor(level):
            return
        fields = {**THREAD.fields, **kwargs.get("extra", {}).get("fields", {})}
        if fields:
            kwargs["extra"] = {"fields": _cut(fields)}
        message = str(msg) % tuple(_bounded(one) for one in args) if args else str(msg)
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
        self.logger.log(level, "%s", shown(message, LINE_MAX), **kwargs)


def log_of(name: str) -> EscapedLog:
    """The log of a module."""
    return EscapedLog(logging.getLogger(name), {})


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")


def _bounded(argument: object) -> object:
    """An argument of a message, with long text shortened."""
    if isinstance(argument, (int, float)):
        return argument
    text = argument if isinstance(argument, str) else str(argument)
    return text if len(text) <= LINE_MAX // 4 else text[: LINE_MAX // 4] + "…"


def _cut(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value[:LINE_MAX] if isinstance(value, str) else value
        for name, value in fields.items()
    }
