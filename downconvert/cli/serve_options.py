"""The options of `downconvert serve` as settings of its broker and its server.

Not here: the options (serve.py), those that a gateway has, too (server_options.py), the files with
users and rules (serve_guard.py)."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from downconvert.broker import BrokerConfig
from downconvert.broker.topic_settings import check
from downconvert.protocol.errors import ApiError
from downconvert.serving.conversions import DEFAULT_RULES
from downconvert.serving.limits import Limits

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


def broker_config_of(options: Mapping[str, Any]) -> BrokerConfig:
    """The broker's settings."""
    return BrokerConfig(
        is_writable=options["writable"],
        recode_rules=(*options["recode"], *DEFAULT_RULES),
        topics=grouped(options["topic_configs"]),
        offsets_topic_num_partitions=options["offsets_partitions"],
        offsets_retention_minutes=options["offsets_retention"],
        group_initial_rebalance_delay_ms=round(options["rebalance_delay"] * 1000),
        auto_create_topics=options["auto_create_topics"],
        num_partitions=options["default_partitions"],
        cleans_up=options["cleanup"],
        log_retention_check_interval_ms=int(options["cleanup_interval"] * 1000),
        log_cleaner_io_max_bytes_per_second=max(1, options["cleaner_rate"]),
    )


def limits_of(options: Mapping[str, Any]) -> Limits:
    """The server's limits."""
    return Limits(
        connections=options["max_connections"],
        connections_per_address=options["max_connections_per_address"],
        idle=options["idle_timeout"],
    )


TOPIC_CONFIG: Final[Callback] = parsed(parse_topic_config)
