"""The configuration of topics: which settings there are, their valid values, and where they are
kept.

Names, defaults and limits are Kafka's [TopicConfig, LogConfig]. What a topic has of its own is kept
in one small file in the log directory; what an operator says when the broker starts comes before
that.

Not here: the requests that ask for settings or change them (describe_configs.py,
alter_configs.py)."""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from threading import Lock
from typing import Final

from downconvert.storage import CorruptFileError, DiskFullError
from downconvert.storage.files import DISK, Files, read_file, replace_file
from records.formats import V0, V1, V2, Codec

from .config import BrokerConfig
from .errors import ApiError, ErrorCode

FILE_NAME: Final = "topic-configs.json"
INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
MESSAGE_FORMAT: Final = re.compile(r"([0-9]+)\.([0-9]+)([.-].*)?")


class ConfigType(IntEnum):
    """What kind of value a setting has, by Kafka's numbers."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a topic."""

    type: ConfigType
    default: str
    is_valid: Callable[[str], bool]


def _whole(minimum: int, maximum: int) -> Callable[[str], bool]:
    def is_valid(text: str) -> bool:
        return re.fullmatch(r"-?[0-9]{1,19}", text) is not None and minimum <= int(text) <= maximum

    return is_valid


def _one_of(*values: str) -> Callable[[str], bool]:
    return lambda text: text in values


def _int(default: int, minimum: int = 0) -> Setting:
    return Setting(ConfigType.INT, str(default), _whole(minimum, INT_MAX))


def _long(default: int, minimum: int = 0) -> Setting:
    return Setting(ConfigType.LONG, str(default), _whole(minimum, LONG_MAX))


def _bool(default: str) -> Setting:
    return Setting(ConfigType.BOOLEAN, default, _one_of("true", "false"))


def _string(default: str, is_valid: Callable[[str], bool]) -> Setting:
    return Setting(ConfigType.STRING, default, is_valid)


def _list(default: str, is_valid: Callable[[str], bool]) -> Setting:
    return Setting(ConfigType.LIST, default, is_valid)


def _is_ratio(text: str) -> bool:
    return re.fullmatch(r"0(\.[0-9]+)?|1(\.0+)?|\.[0-9]+", text) is not None


def _is_throttled(text: str) -> bool:
    return text in ("", "*") or re.fullmatch(r"[0-9]+:[0-9]+(,[0-9]+:[0-9]+)*", text) is not None


def _is_policy(text: str) -> bool:
    return all(part.strip() in ("delete", "compact") for part in text.split(","))


SETTINGS: Final[Mapping[str, Setting]] = {
    "cleanup.policy": _list("delete", _is_policy),
    "compression.type": _string(
        "producer", _one_of("producer", "uncompressed", "none", "gzip", "snappy", "lz4", "zstd")
    ),
    "delete.retention.ms": _long(86_400_000),
    "file.delete.delay.ms": _long(60_000),
    "flush.messages": _long(LONG_MAX, 1),
    "flush.ms": _long(LONG_MAX),
    "follower.replication.throttled.replicas": _list("", _is_throttled),
    "index.interval.bytes": _int(4096),
    "leader.replication.throttled.replicas": _list("", _is_throttled),
    "max.compaction.lag.ms": _long(LONG_MAX, 1),
    "max.message.bytes": _int(1_048_588),
    "message.downconversion.enable": _bool("true"),
    "message.format.version": _string("3.0-IV1", lambda text: bool(MESSAGE_FORMAT.fullmatch(text))),
    "message.timestamp.after.max.ms": _long(LONG_MAX),
    "message.timestamp.before.max.ms": _long(LONG_MAX),
    "message.timestamp.type": _string("CreateTime", _one_of("CreateTime", "LogAppendTime")),
    "min.cleanable.dirty.ratio": Setting(ConfigType.DOUBLE, "0.5", _is_ratio),
    "min.compaction.lag.ms": _long(0),
    "min.insync.replicas": _int(1, 1),
    "preallocate": _bool("false"),
    "retention.bytes": _long(-1, -1),
    "retention.ms": _long(604_800_000, -1),
    "segment.bytes": _int(1_073_741_824, 14),
    "segment.index.bytes": _int(10_485_760, 4),
    "segment.jitter.ms": _long(0),
    "segment.ms": _long(604_800_000, 1),
    "unclean.leader.election.enable": _bool("false"),
}


def check(config: Mapping[str, str | None]) -> dict[str, str]:
    """The settings, if each is one and has a value that it may have. ApiError otherwise."""
    checked = {}
    for name, value in config.items():
        setting = SETTINGS.get(name)
        if setting is None:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name[:100]}")
        if value is None:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Null value not supported for: {name}")
        value = value.strip()
        if not setting.is_valid(value):
            said = f"Invalid value {value[:100]} for configuration {name}"
            raise ApiError(ErrorCode.INVALID_CONFIG, said)
        checked[name] = value
    return checked


def default_of(name: str, config: BrokerConfig) -> str:
    """The value of a setting in topics that do not set it."""
    if name == "max.message.bytes":
        return str(config.message_max_bytes)
    if name == "min.insync.replicas":
        return str(config.min_insync_replicas)
    return SETTINGS[name].default


@dataclass(frozen=True, slots=True)
class AppendConfig:
    """How records are validated and appended. Sizes in bytes, times in milliseconds."""

    magic: int
    codec: Codec | None  # None: the producer's
    is_compacted: bool
    is_append_time: bool
    message_size_max: int
    before_max: int  # how much older than the clock timestamps may be
    after_max: int
    min_insync_replicas: int

    @classmethod
    def of(cls, own: Mapping[str, str], config: BrokerConfig) -> "AppendConfig":
        """`own`: what the topic has of its own."""

        def value(name: str) -> str:
            return own[name] if name in own else default_of(name, config)

        compression = value("compression.type")
        codecs = {codec.name.lower(): codec for codec in Codec} | {"uncompressed": Codec.NONE}
        return cls(
            magic=_magic(value("message.format.version")),
            codec=codecs.get(compression),
            is_compacted="compact" in value("cleanup.policy"),
            is_append_time=value("message.timestamp.type") == "LogAppendTime",
            message_size_max=int(value("max.message.bytes")),
            before_max=int(value("message.timestamp.before.max.ms")),
            after_max=int(value("message.timestamp.after.max.ms")),
            min_insync_replicas=int(value("min.insync.replicas")),
        )


def _magic(version: str) -> int:
    """The format that brokers of this version write."""
    found = MESSAGE_FORMAT.fullmatch(version)
    number = (int(found[1]), int(found[2])) if found is not None else (3, 0)
    if number < (0, 10):
        return V0
    return V1 if number < (0, 11) else V2


class TopicConfigs:
    """The settings of topics that differ from the defaults, kept over restarts."""

    def __init__(self, log_dir: Path, config: BrokerConfig, files: Files = DISK) -> None:
        """CorruptFileError: the file has been changed, and cannot be read."""
        self._path = log_dir / FILE_NAME
        self._files = files
        self._is_behind = False  # the disk was full, and the file still names a topic that is gone
        self._given = config.topics
        self._lock = Lock()
        self._kept = _read(self._path)

    def of(self, topic: str) -> dict[str, str]:
        return {**self._kept.get(topic, {}), **self._given.get(topic, {})}

    def kept(self, topic: str) -> dict[str, str]:
        """What clients have set; without what the operator says at the start."""
        return dict(self._kept.get(topic, {}))

    def replace(self, topic: str, own: Mapping[str, str]) -> None:
        """Writes this: all that is set for the topic from now on; if empty, nothing is."""
        with self._lock:
            kept = {name: config for name, config in self._kept.items() if name != topic}
            if own:
                kept[topic] = dict(own)
            if kept != self._kept or self._is_behind:
                self._write(kept)

    def forget(self, topic: str) -> None:
        """Nothing of a topic that is gone. A full disk is no error: the file is written with the
        next change, which comes before a topic of that name."""
        with self._lock:
            if topic in self._kept:
                self._kept = {name: own for name, own in self._kept.items() if name != topic}
                self._is_behind = True
                with suppress(DiskFullError):
                    self._write(self._kept)

    def _write(self, kept: dict[str, dict[str, str]]) -> None:
        text = json.dumps({"version": 1, "topics": kept}, indent=1, sort_keys=True)
        replace_file(self._files, self._path, text.encode())
        self._kept, self._is_behind = kept, False


def _read(path: Path) -> dict[str, dict[str, str]]:
    """CorruptFileError: it is not what was written."""
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
            check(config)
        except (ApiError, AttributeError) as error:
            raise _corrupt(f"topic {topic[:249]}: {error}", path) from error
    return topics


def _corrupt(reason: str, path: Path) -> CorruptFileError:
    # It is not read as an empty one: topics would be compacted or deleted by other rules.
    return CorruptFileError(
        f"{reason}; mend it, or move it away: then topics have the default settings", str(path)
    )
