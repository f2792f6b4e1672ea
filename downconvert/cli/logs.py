"""The log lines that a server's command prints: text for people, or JSON with more fields.

Not here: the messages."""

import json
import logging
import time
from collections.abc import Callable, Sequence
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Any, Final

from records.logged import LINE_MAX, shown

AUDIT: Final = "downconvert.audit"
CLUSTER: Final = "cluster"  # a field of records
FORMAT: Final = "%(asctime)s %(message)s"
INDENT: Final = "    "  # before each line of a trace


class Lines(logging.Formatter):
    """A line for each record, and more lines for a traceback. No line begins with text from a
    client or another server. If the gateway serves several clusters, the message begins with the
    cluster."""

    def __init__(self) -> None:
        super().__init__(FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is that of `logging`
        """The time, the cluster and the message."""
        cluster = getattr(record, "fields", {}).get(CLUSTER)
        if cluster is not None:
            record.message = f"[{cluster}] {record.message}"
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name is that of `logging`
        """The traceback of an exception, indented, because its text may come from clients."""
        lines = super().formatException(ei).splitlines()
        return "\n".join(f"{INDENT}{shown(line, LINE_MAX)}" for line in lines)


class JsonLines(logging.Formatter):
    """A line for each record: time (UTC), level, logger, message, and the record's `fields`."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line)


def level_of(*, verbose: bool, quiet: bool) -> int:
    """The level of printed messages. `verbose` overrides `quiet`."""
    if verbose:
        return logging.DEBUG
    return logging.WARNING if quiet else logging.INFO


def keep_audit(path: Path) -> Callable[[], None]:
    """Appends the audit to a file, as lines of JSON. Returns a function that ends this. OSError:
    the file cannot be opened."""
    handler = WatchedFileHandler(path, encoding="utf-8")
    handler.setFormatter(JsonLines())
    log = logging.getLogger(AUDIT)
    before = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False

    def end() -> None:
        log.removeHandler(handler)
        handler.close()
        log.setLevel(before[0])
        log.propagate = before[1]

    return end


def show_logs(
    names: Sequence[str], *, as_json: bool, level: int = logging.INFO
) -> Callable[[], None]:
    """Prints the lines of these loggers and their children on standard error. Returns a function
    that ends this."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if as_json else Lines())
    logs = [logging.getLogger(name) for name in names]
    before = [(log, log.level, log.propagate) for log in logs]
    for log in logs:
        log.addHandler(handler)
        log.setLevel(level)
        log.propagate = False

    def end() -> None:
        for log, was, propagated in before:
            log.removeHandler(handler)
            log.setLevel(was)
            log.propagate = propagated

    return end
