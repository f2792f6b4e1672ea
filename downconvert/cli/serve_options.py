"""Parses the options of `downconvert serve` for topics.

Not here: other options (server_options.py), using the values (serve.py)."""

from collections.abc import Iterable
from typing import Final

from downconvert.broker.topic_settings import check
from downconvert.protocol.errors import ApiError

from .values import Callback, parsed


def parse_topic_config(text: str) -> tuple[str, str, str]:
    """Parses `topic:key=value`. ValueError: the text has another form, or the setting or its value
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


TOPIC_CONFIG: Final[Callback] = parsed(parse_topic_config)
