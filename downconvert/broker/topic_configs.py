"""The configuration of topics: where it is stored, and how it affects appending.

The own settings of all topics are stored in one small file in the log directory. Settings from the
operator, given at the broker's start, have precedence.

Not here: the settings that exist (topic_settings.py), the requests that read or change them
(describe_configs.py, alter_configs.py)."""

import json
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Final

from downconvert.protocol.errors import ApiError
from downconvert.serving.append_config import AppendConfig
from downconvert.storage import CorruptFileError, DiskFullError
from downconvert.storage.disk.files import DISK, Files, read_file, replace_file
from records.formats import V2, Codec

from .config import BrokerConfig
from .topic_settings import (
    AFTER_MAX,
    BEFORE_MAX,
    DIFFERENCE_MAX,
    LONG_MAX,
    SETTINGS,
    default_of,
    is_valid,
    magic_of,
    parse,
)

FILE_NAME: Final = "topic-configs.json"
START: Final = '{"version": 1, "topics": {\n'  # of the file; a line for each topic follows
CONFIGS_MAX: Final = 1_000  # parsed configurations that are cached
LEVELS: Final = {
    Codec.GZIP: "compression.gzip.level",
    Codec.LZ4: "compression.lz4.level",
    Codec.ZSTD: "compression.zstd.level",
}


def append_config(own: Mapping[str, str], config: BrokerConfig) -> AppendConfig:
    """How records are appended to a topic with these settings of its own."""
    return _append_config(tuple(own.items()), config.message_max_bytes, config.min_insync_replicas)


@lru_cache(maxsize=CONFIGS_MAX)
def _append_config(
    own_settings: tuple[tuple[str, str], ...], message_max_bytes: int, min_insync_replicas: int
) -> AppendConfig:
    own = dict(own_settings)
    config = BrokerConfig(
        message_max_bytes=message_max_bytes, min_insync_replicas=min_insync_replicas
    )

    def value(name: str) -> str:
        return own[name] if name in own else default_of(name, config)

    codecs = {codec.name.lower(): codec for codec in Codec} | {"uncompressed": Codec.NONE}
    codec = codecs.get(value("compression.type"))
    level = "" if codec is None else own.get(LEVELS.get(codec, ""), "")
    both = value(DIFFERENCE_MAX)  # the older name of both limits
    return AppendConfig(
        magic=magic_of(value("message.format.version")),
        codec=codec,
        level=int(level) if level else "kafka",
        is_compacted="compact" in value("cleanup.policy"),
        is_append_time=value("message.timestamp.type") == "LogAppendTime",
        message_size_max=int(value("max.message.bytes")),
        before_max=_given(value(BEFORE_MAX), both),
        after_max=_given(value(AFTER_MAX), both),
        min_insync_replicas=int(value("min.insync.replicas")),
    )


def _given(limit: str, both: str) -> int:
    """A limit. If it has its default, the older setting for both limits counts."""
    return int(both) if int(limit) == LONG_MAX else int(limit)


class TopicConfigs:
    """The settings of topics that differ from the defaults, kept over restarts."""

    def __init__(self, log_dir: Path, config: BrokerConfig, files: Files = DISK) -> None:
        """CorruptFileError: the file has been changed, and cannot be read."""
        self._path = log_dir / FILE_NAME
        self._files = files
        self._is_behind = False  # the disk was full, so the file still has a deleted topic
        self._given = config.topics
        self._lock = Lock()
        # The lines of the file, by topic. A change encodes one of them, however many there are.
        self._lines = {topic: _line(topic, own) for topic, own in _read(self._path).items()}

    def of(self, topic: str) -> dict[str, str]:
        return {**self.kept(topic), **self._given.get(topic, {})}

    def kept(self, topic: str) -> dict[str, str]:
        """The settings from clients, without the operator's."""
        line = self._lines.get(topic)
        own: dict[str, str] = {} if line is None else json.loads(f"{{{line}}}")[topic]
        return own

    def replace(self, topic: str, own: Mapping[str, str]) -> None:
        """Stores the topic's settings in place of the earlier ones, which may leave it with
        none."""
        line = _line(topic, own) if own else None
        with self._lock:
            if line == self._lines.get(topic) and not self._is_behind:
                return
            lines = {**self._lines, topic: line or ""}
            if line is None:
                del lines[topic]
            self._write(lines)

    def forget(self, topic: str) -> None:
        """Removes a deleted topic's settings. A full disk is no error, because the next change
        writes the file, and creating a topic of that name is such a change."""
        with self._lock:
            if topic in self._lines:
                self._lines = {name: line for name, line in self._lines.items() if name != topic}
                self._is_behind = True
                with suppress(DiskFullError):
                    self._write(self._lines)

    def _write(self, lines: dict[str, str]) -> None:
        text = START + ",\n".join(lines.values()) + "\n}}\n"
        replace_file(self._files, self._path, text.encode())
        self._lines, self._is_behind = lines, False


def _line(topic: str, own: Mapping[str, str]) -> str:
    return f"{json.dumps(topic)}: {json.dumps(own, sort_keys=True)}"


def _read(path: Path) -> dict[str, dict[str, str]]:
    """Reads the file. CorruptFileError: this module cannot have written it."""
    try:
        found = json.loads(read_file(path))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise _corrupt(str(error), path) from error
    topics = found.get("topics") if isinstance(found, dict) else None
    if not isinstance(topics, dict) or found.get("version") != 1:
        raise _corrupt("holds no topics' configurations", path)
    for topic, config in topics.items():
        try:
            topics[topic] = parse({name: _renewed(name, config[name]) for name in config})
        except (ApiError, AttributeError, TypeError) as error:
            raise _corrupt(f"topic {topic[:249]}: {error}", path) from error
    return topics


def _renewed(name: str, value: str) -> str:
    """The current form of a value that earlier versions of this broker accepted."""
    if (name, value) == ("compression.type", "none"):
        return "uncompressed"
    if name == "message.format.version" and not is_valid(name, value) and magic_of(value) == V2:
        return SETTINGS[name].default
    return value


def _corrupt(reason: str, path: Path) -> CorruptFileError:
    # If the file counted as empty, topics would be compacted or deleted by other rules.
    return CorruptFileError(
        f"{reason}; mend it, or move it away: then topics have the default settings", str(path)
    )
