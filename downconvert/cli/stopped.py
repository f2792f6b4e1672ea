"""Finds the logs of a stopped broker that a subcommand will change, by their topics.

Not here: changing them (compact.py, retention.py)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click

from downconvert.storage import Log, LogConfig, LogDir
from downconvert.storage.names import parse_partition

from .failure import CommandError, need_directory

INTERNAL = "__"  # the prefix of brokers' own topics


def topic_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the option for the topics of a log directory."""
    return click.option(
        "--topic",
        "topics",
        metavar="PATTERN",
        multiple=True,
        help="Topics: clicks, or 'logs-*'.  [required if DIR is a log directory]",
    )(command)


@contextmanager
def stopped_logs(
    directory: Path, topics: Sequence[str], config: LogConfig, *, writable: bool
) -> Iterator[Iterator[Log]]:
    """The log in a partition's directory, or the logs of some topics in a broker's directory.

    A pattern matches brokers' own topics only if it begins with their prefix. CommandError: no such
    directory, or no such topic."""
    need_directory(directory)
    if any(directory.glob("*.log")):
        path = written_partition(directory) if writable else directory.resolve()
        with Log.open(path, writable=writable, config=config) as log:
            yield iter([log])
        return
    if not topics:
        raise CommandError(
            f"{directory}: is a log directory; say which topics with --topic, such as --topic "
            "clicks or --topic '*'"
        )
    with LogDir.open(directory, writable=writable, config=config) as log_dir:
        found = [name for name in log_dir.logs if _is_meant(name.topic, topics)]
        if not found:
            raise CommandError(f"{directory}: has no topic {' or '.join(topics)}")
        yield (log_dir.logs[name] for name in found)


def written_partition(directory: Path) -> Path:
    """The full path of a partition's directory that will be written. CommandError: it is a link,
    which may lead out of the log directory, or its name is not that of a partition."""
    if directory.is_symlink():
        raise CommandError(f"{directory}: is a link: name the directory that it leads to")
    path = directory.resolve()
    if parse_partition(path.name) is None:
        raise CommandError(f"{path}: has segments, but not a partition's name, such as orders-0")
    return path


def _is_meant(topic: str, patterns: Sequence[str]) -> bool:
    return any(
        fnmatchcase(topic, pattern)
        for pattern in patterns
        if pattern.startswith(INTERNAL) or not topic.startswith(INTERNAL)
    )
