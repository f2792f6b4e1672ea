"""The texts of `downconvert serve`'s options: addresses, recoding rules, topics' settings.

Not here: using them (serve.py)."""

from collections.abc import Iterable
from typing import Final

from downconvert import ConversionPolicy
from downconvert.broker.topic_settings import check
from downconvert.protocol.errors import ApiError
from downconvert.serving.conversions import RecodeRule

from .values import Callback, parsed

PORT_MAX: Final = 65_535


def parse_address(text: str | None) -> tuple[str, int] | None:
    """Reads `host:port`. An IPv6 address may have brackets. ValueError."""
    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > PORT_MAX:
        raise ValueError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:9092")
    return host.removeprefix("[").removesuffix("]"), int(port)


def parse_rule(text: str) -> RecodeRule:
    """Reads `lz4=gzip:magic0`, optionally with `topic=PATTERN` and `client=PATTERN`. ValueError."""
    patterns: dict[str, str] = {}
    recode: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals or not value:
            raise ValueError(f"{part!r} is not CODEC=CODEC, such as lz4=gzip or lz4=gzip:magic0")
        if name in ("topic", "client"):
            patterns[name] = value
        else:
            instead, colon, magic = value.partition(":")
            recode[f"{name}{colon}{magic}"] = instead
    if not recode:
        raise ValueError(f"{text!r} names no codec: add one, such as lz4=gzip")
    ConversionPolicy(recode=recode)  # ValueError: no such codec
    return RecodeRule(recode, **patterns)


def parse_topic_config(text: str) -> tuple[str, str, str]:
    """Reads `topic:key=value`. ValueError: the text has another form, or the setting or its value
    is invalid."""
    topic, colon, setting = text.partition(":")
    key, equals, value = setting.partition("=")
    if not (topic and colon and key and equals):
        raise ValueError(f"{text!r} is not TOPIC:KEY=VALUE")
    key, value = key.strip(), value.strip()
    try:
        check({key: value})
    except ApiError as error:
        raise ValueError(error.message) from None
    return topic, key, value


def grouped(settings: Iterable[tuple[str, str, str]]) -> dict[str, dict[str, str]]:
    """Groups settings by topic."""
    topics: dict[str, dict[str, str]] = {}
    for topic, key, value in settings:
        topics.setdefault(topic, {})[key] = value
    return topics


ADDRESS: Final[Callback] = parsed(parse_address)
RECODE: Final[Callback] = parsed(parse_rule)
TOPIC_CONFIG: Final[Callback] = parsed(parse_topic_config)
