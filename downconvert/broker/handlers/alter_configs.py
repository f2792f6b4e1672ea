"""AlterConfigs and IncrementalAlterConfigs: the settings of topics.

The older request says all that a topic shall have of its own, the newer one (KIP-339) what changes.
What an operator gave a topic when the broker started stays. A broker's settings are not changed
while it runs."""

from collections.abc import Callable
from enum import IntEnum

from downconvert.broker.errors import ApiError, ErrorCode
from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.broker.topic_configs import SETTINGS, ConfigType, check, default_of
from downconvert.broker.wire.schemas import Message
from downconvert.storage import StorageError

from .admin import changeable, check_writable, refusal
from .describe_configs import ResourceType


class Operation(IntEnum):
    """What is done to a setting, by Kafka's numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2  # to a list
    SUBTRACT = 3


def handle(broker: BrokerState, exchange: Exchange, _now: float) -> None:
    def replaced(_own: dict[str, str], configs: list[Message]) -> dict[str, str]:
        return check({one.name: one.value for one in configs})

    _alter(broker, exchange, replaced)


def handle_incremental(broker: BrokerState, exchange: Exchange, _now: float) -> None:
    def changed(own: dict[str, str], configs: list[Message]) -> dict[str, str]:
        for config in configs:
            _change(broker, own, config)
        return check(own)

    _alter(broker, exchange, changed)


def _alter(
    broker: BrokerState,
    exchange: Exchange,
    altered: Callable[[dict[str, str], list[Message]], dict[str, str]],
) -> None:
    body = exchange.request.body
    answers = []
    for asked in body.resources:
        answer = Message(
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
            error_message=None,
        )
        try:
            check_writable(broker, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            if asked.resource_type != ResourceType.TOPIC:
                raise ApiError(ErrorCode.INVALID_REQUEST, "only topics' settings can be altered")
            with broker.topics.lock:
                topic = changeable(broker, asked.resource_name)
                own = altered(broker.topics.configs.kept(topic.name), asked.configs)
                if not body.validate_only:
                    broker.topics.configure(topic.name, own)
        except (ApiError, OSError, StorageError) as error:
            refused = refusal(error)
            answer.error_code, answer.error_message = refused.code, refused.message
        answers.append(answer)
    exchange.reply(Message(responses=answers))


def _change(broker: BrokerState, own: dict[str, str], config: Message) -> None:
    name, value = config.name, config.value
    setting = SETTINGS.get(name)
    if setting is None:
        check({name: value})  # says what is wrong
        return
    match config.config_operation:
        case Operation.DELETE:
            own.pop(name, None)
        case Operation.SET:
            own |= check({name: value})
        case Operation.APPEND | Operation.SUBTRACT as operation:
            if setting.type is not ConfigType.LIST or value is None:
                raise ApiError(ErrorCode.INVALID_CONFIG, f"{name} is no list")
            before = own.get(name, default_of(name, broker.config))
            items = [item for item in before.split(",") if item]
            given = value.split(",")
            if operation == Operation.APPEND:
                items += [item for item in given if item not in items]
            else:
                items = [item for item in items if item not in given]
            own[name] = ",".join(items)
        case other:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"operation {other} is not known")
