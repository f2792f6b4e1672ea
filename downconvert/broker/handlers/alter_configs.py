"""AlterConfigs and IncrementalAlterConfigs: the settings of topics.

AlterConfigs lists all of a topic's own settings, IncrementalAlterConfigs (KIP-339) only the
changes. Topic settings from the operator, set at the broker's start, stay. A broker's own settings
cannot be changed while it runs."""

from collections import Counter
from collections.abc import Callable, Generator
from enum import IntEnum

from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.broker.topic_settings import SETTINGS, ConfigType, check, default_of
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.protocol.schemas import Message
from downconvert.storage import StorageError

from .admin import check_name, check_writable, refusal, topic_of
from .describe_configs import ResourceType


class Operation(IntEnum):
    """The change to a setting, by Kafka's numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2  # to a list
    SUBTRACT = 3


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    def replaced(_own: dict[str, str], configs: list[Message]) -> dict[str, str]:
        return {one.name: one.value for one in configs}

    exchange.work_on(_alter(broker, exchange.request.body, replaced), now)


def handle_incremental(broker: BrokerState, exchange: Exchange, now: float) -> None:
    def changed(own: dict[str, str], configs: list[Message]) -> dict[str, str]:
        for config in configs:
            _change(broker, own, config)
        return own

    exchange.work_on(_alter(broker, exchange.request.body, changed), now)


def _alter(
    broker: BrokerState,
    body: Message,
    altered: Callable[[dict[str, str], list[Message]], dict[str, str]],
) -> Generator[None, None, Message]:
    """Alters one resource in each turn, because each change is written and synced."""
    responses: list[Message] = []
    counts = Counter((one.resource_type, one.resource_name) for one in body.resources)
    for asked in body.resources:
        if responses:
            yield
        response = Message(
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
            error_message=None,
        )
        try:
            check_writable(broker, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            if counts[asked.resource_type, asked.resource_name] > 1:
                reason = "Each resource must appear at most once."
                raise ApiError(ErrorCode.INVALID_REQUEST, reason)
            if asked.resource_type != ResourceType.TOPIC:
                raise ApiError(ErrorCode.INVALID_REQUEST, "only topics' settings can be altered")
            _check_each(asked.configs)
            with broker.topics.lock:
                # In Kafka's order: errors in the request come first.
                own = altered(broker.topics.configs.kept(asked.resource_name), asked.configs)
                if not asked.resource_name:
                    reason = "Default topic resources are not allowed."
                    raise ApiError(ErrorCode.INVALID_REQUEST, reason)
                check_name(asked.resource_name)
                own = check(own)
                topic = topic_of(broker, asked.resource_name)
                if not body.validate_only:
                    broker.topics.configure(topic.name, own)
        except (ApiError, OSError, StorageError) as error:
            refused = refusal(error)
            response.error_code, response.error_message = refused.code, refused.message
        responses.append(response)
    return Message(responses=responses)


def _check_each(configs: list[Message]) -> None:
    """Raises ApiError if a setting occurs twice, or has no value."""
    if len({one.name for one in configs}) < len(configs):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    for one in configs:
        deletes = getattr(one, "config_operation", Operation.SET) == Operation.DELETE
        if one.value is None and not deletes:
            reason = f"Null value not supported for : {one.name[:100]}"
            raise ApiError(ErrorCode.INVALID_REQUEST, reason)


def _change(broker: BrokerState, own: dict[str, str], config: Message) -> None:
    name, value = config.name, config.value
    match config.config_operation:
        case Operation.DELETE:  # also of unknown settings, for tools that clean up
            own.pop(name, None)
        case Operation.SET:
            own[name] = value
        case Operation.APPEND | Operation.SUBTRACT:
            operation = Operation(config.config_operation)
            setting = SETTINGS.get(name)
            if setting is None or setting.type is not ConfigType.LIST:
                reason = f"Can't {operation.name} to key {name[:100]} because its type is not LIST."
                raise ApiError(ErrorCode.INVALID_CONFIG, reason)
            before = own.get(name, default_of(name, broker.config))
            items = [item for item in before.split(",") if item]
            if operation == Operation.APPEND:
                there = set(items)
                items += [item for item in dict.fromkeys(_split(value)) if item not in there]
            else:
                items = _without(items, _split(value))
            own[name] = ",".join(items)
        case other:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"operation {other} is not known")


def _without(items: list[str], taken: list[str]) -> list[str]:
    """The items, without the first one for each that is taken."""
    counts, left = Counter(taken), []
    for item in items:
        if counts[item]:
            counts[item] -= 1
        else:
            left.append(item)
    return left


def _split(value: str) -> list[str]:
    """Splits as Java does: drops empty items at the end."""
    return value.rstrip(",").split(",") if value.rstrip(",") or not value else []
