"""The settings that a topic may have: names, defaults, valid values, and their text form.

The settings are those of Kafka 3.9.1 [TopicConfig, LogConfig, ConfigDef]. Settings without an
effect here are also stored and shown, because topics copied from Kafka have them, and so do the
files of tools that describe whole clusters.

Not here: where a topic's own settings are stored (topic_configs.py), the requests that read or
change them (describe_configs.py, alter_configs.py)."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from typing import Final, TypeAlias

from downconvert.protocol.errors import ApiError, ErrorCode
from records.formats import V0, V1, V2

from .config import BrokerConfig

INT_MAX: Final = 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
SCIENTIFIC_BELOW: Final = 1e-3  # Java writes smaller doubles in scientific notation
SPACES: Final = "".join(map(chr, range(0x21)))  # the characters that Java's trim removes
THROTTLED: Final = re.compile(r"([0-9]+:[0-9]+)?")

BEFORE_MAX: Final = "message.timestamp.before.max.ms"
AFTER_MAX: Final = "message.timestamp.after.max.ms"
DIFFERENCE_MAX: Final = "message.timestamp.difference.max.ms"
MIN_LAG, MAX_LAG = "min.compaction.lag.ms", "max.compaction.lag.ms"

# The releases that `message.format.version` accepts, each with its last internal version
# [MetadataVersion]. From 0.10.0 on, each internal version up to the last also has a name.
_LAST: Final = (
    "0.8.0 0.8.1 0.8.2 0.9.0 0.10.0-IV1 0.10.1-IV2 0.10.2-IV0 0.11.0-IV2 1.0-IV0 1.1-IV0 2.0-IV1 "
    "2.1-IV2 2.2-IV1 2.3-IV1 2.4-IV1 2.5-IV0 2.6-IV0 2.7-IV2 2.8-IV1 3.0-IV1 3.1-IV0 3.2-IV0 "
    "3.3-IV3 3.4-IV0 3.5-IV2 3.6-IV2 3.7-IV4 3.8-IV0 3.9-IV0"
)
RELEASES: Final = {
    name: int(last or -1) for name, _, last in (one.partition("-IV") for one in _LAST.split())
}
UNRELEASED: Final = ("4.0-IV0", "4.0-IV1")  # 3.9.1 accepts only their full names

Parse: TypeAlias = Callable[[str], str]


class ConfigType(IntEnum):
    """The type of a setting's value, by Kafka's numbers."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a topic.

    parse: returns a value in Kafka's form; ValueError: it is invalid. synonym: the broker setting
    with the default, if Kafka names one. in_synonym: the default in the unit of the synonym."""

    type: ConfigType
    default: str
    parse: Parse
    synonym: str = ""
    in_synonym: str = ""


def _whole(minimum: int, maximum: int) -> Parse:
    def parse(text: str) -> str:
        text = text.strip(SPACES)
        if not re.fullmatch(r"[+-]?\d{1,1000}", text) or not minimum <= int(text) <= maximum:
            raise ValueError(f"not a number between {minimum} and {maximum}")
        return str(int(text))

    return parse


def _level(minimum: int, maximum: int, also: int) -> Parse:
    parse_whole = _whole(min(minimum, also), maximum)

    def parse(text: str) -> str:
        parsed = parse_whole(text)
        if not minimum <= int(parsed) and int(parsed) != also:
            raise ValueError(f"not between {minimum} and {maximum}, nor {also}")
        return parsed

    return parse


def _one_of(*values: str) -> Parse:
    def parse(text: str) -> str:
        text = text.strip(SPACES)
        if text not in values:
            raise ValueError(f"none of {', '.join(values)}")
        return text

    return parse


def _boolean(text: str) -> str:
    text = text.strip(SPACES).lower()
    if text not in ("true", "false"):
        raise ValueError("neither true nor false")
    return text


def _ratio(text: str) -> str:
    text = text.strip(SPACES)
    decimal = re.fullmatch(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFdD]?", text, re.ASCII)
    if decimal is None or not 0 <= (value := float(decimal[1])) <= 1:
        raise ValueError("not between 0 and 1")
    if 0 < value < SCIENTIFIC_BELOW:
        digits, power = f"{Decimal(repr(value)):E}".split("E")
        return f"{digits if '.' in digits else f'{digits}.0'}E{int(power)}"
    return repr(value)


def _items(text: str) -> list[str]:
    text = text.strip(SPACES)
    return re.split(r"[ \t\n\v\f\r]*,[ \t\n\v\f\r]*", text) if text else []


def _policy(text: str) -> str:
    items = _items(text)
    if not set(items) <= {"delete", "compact"}:
        raise ValueError("may name delete and compact")
    return ",".join(items)


def _throttled(text: str) -> str:
    items = _items(text)
    if "".join(items).strip() != "*" and not all(THROTTLED.fullmatch(one) for one in items):
        raise ValueError("neither * nor PARTITION:BROKER, separated by commas")
    return ",".join(items)


def _version(text: str) -> str:
    text = text.strip(SPACES)
    size = 3 if text.startswith("0.") else 2
    name, _, internal = ".".join(text.split(".")[:size]).partition("-IV")
    is_known = name in RELEASES and "-IV" not in text
    if "-IV" in text and re.fullmatch(r"0|[1-9]\d?", internal, re.ASCII):
        is_known = int(internal) <= RELEASES.get(name, -1) or f"{name}-IV{internal}" in UNRELEASED
    if not is_known or text.endswith("."):
        raise ValueError(f"Version {text[:100]} is not a valid version")
    return text


def _int(default: int, minimum: int, synonym: str = "") -> Setting:
    return Setting(ConfigType.INT, str(default), _whole(minimum, INT_MAX), synonym)


def _long(default: int, minimum: int, synonym: str = "") -> Setting:
    return Setting(ConfigType.LONG, str(default), _whole(minimum, LONG_MAX), synonym)


def _bool(default: str, synonym: str = "") -> Setting:
    return Setting(ConfigType.BOOLEAN, default, _boolean, synonym)


def _string(default: str, parse: Parse, synonym: str) -> Setting:
    return Setting(ConfigType.STRING, default, parse, synonym)


def _list(default: str, parse: Parse, synonym: str = "") -> Setting:
    return Setting(ConfigType.LIST, default, parse, synonym)


def _codec(default: int, parse: Parse, name: str) -> Setting:
    return Setting(ConfigType.INT, str(default), parse, name)


SETTINGS: Final[Mapping[str, Setting]] = {
    "cleanup.policy": _list("delete", _policy, "log.cleanup.policy"),
    "compression.gzip.level": _codec(-1, _level(1, 9, -1), "compression.gzip.level"),
    "compression.lz4.level": _codec(9, _whole(1, 17), "compression.lz4.level"),
    "compression.type": _string(
        "producer",
        _one_of("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        "compression.type",
    ),
    "compression.zstd.level": _codec(3, _whole(-131_072, 22), "compression.zstd.level"),
    "delete.retention.ms": _long(86_400_000, 0, "log.cleaner.delete.retention.ms"),
    "file.delete.delay.ms": _long(60_000, 0, "log.segment.delete.delay.ms"),
    "flush.messages": _long(LONG_MAX, 1, "log.flush.interval.messages"),
    "flush.ms": _long(LONG_MAX, 0),
    "follower.replication.throttled.replicas": _list("", _throttled),
    "index.interval.bytes": _int(4096, 0, "log.index.interval.bytes"),
    "leader.replication.throttled.replicas": _list("", _throttled),
    "local.retention.bytes": _long(-2, -2, "log.local.retention.bytes"),
    "local.retention.ms": _long(-2, -2, "log.local.retention.ms"),
    MAX_LAG: _long(LONG_MAX, 1, "log.cleaner.max.compaction.lag.ms"),
    "max.message.bytes": _int(1_048_588, 0, "message.max.bytes"),
    "message.downconversion.enable": _bool("true", "log.message.downconversion.enable"),
    "message.format.version": _string("3.0-IV1", _version, "log.message.format.version"),
    AFTER_MAX: _long(LONG_MAX, 0, "log.message.timestamp.after.max.ms"),
    BEFORE_MAX: _long(LONG_MAX, 0, "log.message.timestamp.before.max.ms"),
    DIFFERENCE_MAX: _long(LONG_MAX, 0, "log.message.timestamp.difference.max.ms"),
    "message.timestamp.type": _string(
        "CreateTime", _one_of("CreateTime", "LogAppendTime"), "log.message.timestamp.type"
    ),
    "min.cleanable.dirty.ratio": Setting(
        ConfigType.DOUBLE, "0.5", _ratio, "log.cleaner.min.cleanable.ratio"
    ),
    MIN_LAG: _long(0, 0, "log.cleaner.min.compaction.lag.ms"),
    "min.insync.replicas": _int(1, 1, "min.insync.replicas"),
    "preallocate": _bool("false", "log.preallocate"),
    "remote.log.copy.disable": _bool("false"),
    "remote.log.delete.on.disable": _bool("false"),
    "remote.storage.enable": Setting(ConfigType.BOOLEAN, "false", _boolean),
    "retention.bytes": _long(-1, LONG_MIN, "log.retention.bytes"),
    "retention.ms": Setting(
        ConfigType.LONG, "604800000", _whole(-1, LONG_MAX), "log.retention.hours", "168"
    ),
    "segment.bytes": _int(1_073_741_824, 14, "log.segment.bytes"),
    "segment.index.bytes": _int(10_485_760, 4, "log.index.size.max.bytes"),
    "segment.jitter.ms": _long(0, 0),
    "segment.ms": _long(604_800_000, 1),
    "unclean.leader.election.enable": _bool("false", "unclean.leader.election.enable"),
}


def is_valid(name: str, value: str) -> bool:
    """Whether a known setting may have this value."""
    try:
        SETTINGS[name].parse(value)
    except ValueError:
        return False
    return True


def parse(config: Mapping[str, str | None]) -> dict[str, str]:
    """The settings, each in Kafka's form. ApiError: one is unknown or has an invalid value."""
    parsed = {}
    for name, value in config.items():
        setting = SETTINGS.get(name)
        if setting is None:
            raise _invalid(f"Unknown topic config name: {name[:100]}")
        if value is None:
            raise _invalid(f"Null value not supported for: {name}")
        try:
            parsed[name] = setting.parse(value)
        except ValueError as error:
            raise _invalid(
                f"Invalid value {value[:100]} for configuration {name}: {error}"
            ) from None
    return parsed


def check(config: Mapping[str, str | None]) -> dict[str, str]:
    """As `parse`, for all of a topic's own settings. ApiError also if settings contradict each
    other."""
    parsed = parse(config)
    lags = [int(parsed.get(name, SETTINGS[name].default)) for name in (MIN_LAG, MAX_LAG)]
    if lags[0] > lags[1]:
        raise _invalid(
            f"conflict topic config setting {MIN_LAG} ({lags[0]}) > {MAX_LAG} ({lags[1]})"
        )
    if parsed.get("remote.storage.enable") == "true":
        raise _invalid("Tiered Storage functionality is disabled in the broker.")
    return parsed


def default_of(name: str, config: BrokerConfig) -> str:
    """The value of a setting in topics that do not set it."""
    if name == "max.message.bytes":
        return str(config.message_max_bytes)
    if name == "min.insync.replicas":
        return str(config.min_insync_replicas)
    return SETTINGS[name].default


def magic_of(version: str) -> int:
    """The message format that brokers of a release write."""
    number = tuple(int(part) for part in re.findall(r"[0-9]+", version)[:2])
    if number < (0, 10):
        return V0
    return V1 if number < (0, 11) else V2


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_CONFIG, message)
