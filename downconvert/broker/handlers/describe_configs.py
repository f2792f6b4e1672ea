"""DescribeConfigs: the settings of topics, and the broker settings that clients read."""

from collections.abc import Mapping
from enum import IntEnum
from typing import TypeAlias

from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.broker.topic_settings import SETTINGS, ConfigType, Setting, default_of
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.protocol.schemas import Message

from .admin import check_name, topic_of

# The settings in a response, by name and by the topic's own value (None: it has no own value).
Made: TypeAlias = dict[tuple[str, str | None], Message]


class ResourceType(IntEnum):
    """The kind of a resource with settings, by Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    CLIENT_METRICS = 16


class Source(IntEnum):
    """The origin of a setting, by Kafka's numbers."""

    TOPIC = 1
    BROKER = 4
    DEFAULT = 5


def handle(broker: BrokerState, exchange: Exchange, _now: float) -> None:
    body = exchange.request.body
    known: dict[tuple[int, str], list[Message]] = {}
    made: Made = {}
    asked_once = {
        (one.resource_type, one.resource_name, tuple(one.configuration_keys or ())): one
        for one in body.resources
    }
    results = []
    for (kind, name, keys), asked in asked_once.items():
        response = Message(resource_type=kind, resource_name=name)
        try:
            if (kind, name) not in known:
                known[kind, name] = _configs(broker, asked, made)
            configs = known[kind, name]
            if keys:
                configs = [one for one in configs if one.name in keys]
            if not body.include_synonyms:
                for one in configs:
                    one.synonyms = []
            response.configs = configs
        except ApiError as error:
            response.error_code, response.error_message = error.code, error.message
            response.configs = []
        results.append(response)
    exchange.reply(Message(results=results))


def topic_configs(broker: BrokerState, own: Mapping[str, str], made: Made) -> list[Message]:
    """All settings of a topic. `own`: the topic's own settings. `made`: settings that this response
    already has. They are reused, because there may be thousands of topics."""
    configs = []
    for name, setting in SETTINGS.items():
        key = name, own.get(name)
        if key not in made:
            made[key] = _topic_config(broker, name, setting, own.get(name))
        configs.append(made[key])
    return configs


def _topic_config(broker: BrokerState, name: str, setting: Setting, own: str | None) -> Message:
    """A setting of a topic. `own`: the topic's own value; None: it has none."""
    default = default_of(name, broker.config)
    from_broker = default != setting.default
    source = Source.BROKER if from_broker else Source.DEFAULT
    synonyms = []
    if setting.synonym:
        called = default if from_broker else setting.in_synonym or default
        synonyms.append(Message(name=setting.synonym, value=called, source=source))
    if own is not None:
        source = Source.TOPIC
        synonyms.insert(0, Message(name=name, value=own, source=source))
    value = default if own is None else own
    return _config(name, value, source, setting.type, synonyms, read_only=False)


def _configs(broker: BrokerState, asked: Message, made: Made) -> list[Message]:
    match asked.resource_type:
        case ResourceType.TOPIC:
            check_name(asked.resource_name)
            return topic_configs(broker, topic_of(broker, asked.resource_name).config, made)
        case ResourceType.BROKER if asked.resource_name == str(broker.config.node_id):
            return _broker_configs(broker)
        case ResourceType.BROKER if not asked.resource_name:
            return []  # cluster-wide broker settings cannot be set here
        case ResourceType.BROKER:
            reason = f"this is broker {broker.config.node_id}, not {asked.resource_name[:100]!r}"
            raise ApiError(ErrorCode.INVALID_REQUEST, reason)
        case ResourceType.CLIENT_METRICS if asked.resource_name:
            return []  # there are no such resources
        case other:
            reason = f"resources of type {other} have no settings here"
            raise ApiError(ErrorCode.INVALID_REQUEST, reason)


def _broker_configs(broker: BrokerState) -> list[Message]:
    config = broker.config
    values: dict[str, int | bool | str] = {
        "auto.create.topics.enable": config.auto_create_topics,
        "broker.id": config.node_id,
        "default.replication.factor": 1,
        "fetch.max.bytes": config.fetch_max_bytes,
        "group.initial.rebalance.delay.ms": config.group_initial_rebalance_delay_ms,
        "group.max.session.timeout.ms": config.group_max_session_timeout_ms,
        "group.min.session.timeout.ms": config.group_min_session_timeout_ms,
        "log.dirs": str(broker.topics.log_dir.path),
        "message.max.bytes": config.message_max_bytes,
        "min.insync.replicas": config.min_insync_replicas,
        "num.partitions": config.num_partitions,
        "offsets.retention.check.interval.ms": config.offsets_retention_check_interval_ms,
        "offsets.retention.minutes": config.offsets_retention_minutes,
        "offsets.topic.num.partitions": broker.groups.topic.count,
        "replica.lag.time.max.ms": config.replica_lag_time_max_ms,
        "socket.request.max.bytes": config.socket_request_max_bytes,
        "transaction.max.timeout.ms": config.transaction_max_timeout_ms,
        "transaction.state.log.num.partitions": broker.transactions.partitions_count,
        "transactional.id.expiration.ms": config.transactional_id_expiration_ms,
    }
    configs = []
    for name, value in values.items():
        kind = ConfigType.STRING
        if isinstance(value, bool):
            kind = ConfigType.BOOLEAN
        elif isinstance(value, int):
            kind = ConfigType.INT
        text = str(value).lower() if isinstance(value, bool) else str(value)
        synonyms = [Message(name=name, value=text, source=Source.BROKER)]
        configs.append(_config(name, text, Source.BROKER, kind, synonyms, read_only=True))
    return configs


def _config(
    name: str,
    value: str,
    source: Source,
    kind: ConfigType,
    synonyms: list[Message],
    *,
    read_only: bool,
) -> Message:
    return Message(
        name=name,
        value=value,
        read_only=read_only,
        is_default=source is Source.DEFAULT,  # version 0
        config_source=source,
        is_sensitive=False,
        synonyms=synonyms,
        config_type=kind,
        documentation=None,
    )
