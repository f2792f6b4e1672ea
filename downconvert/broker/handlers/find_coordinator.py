"""FindCoordinator: the coordinator of a group or of a transactional id. It is always this broker.

Clients of 0.9 ask even if their partitions are assigned manually, and do not read before the
response."""

from collections.abc import Iterable
from typing import Final

from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import Message

GROUP: Final = 0  # key types
TRANSACTION: Final = 1
NO_NODE: Final = -1
BATCHED: Final = 4  # the first version that asks for several keys


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    body, version = exchange.request.body, exchange.request.version
    keys = [body.key] if version < BATCHED else body.coordinator_keys
    if body.key_type == GROUP and broker.config.is_writable:
        _make_partitions(broker, keys, now)
    refusal = broker.transactions.refusal() if body.key_type == TRANSACTION else None
    found = [_coordinator(broker, exchange, key, refusal) for key in keys]
    exchange.reply(found[0] if version < BATCHED else Message(coordinators=found))


def _make_partitions(broker: BrokerState, group_ids: Iterable[str], now: float) -> None:
    """Creates `__consumer_offsets` before the first commit, as Kafka does. If that fails, the log
    gives the reason once for all of these groups, and commits get an error."""
    for group_id in group_ids:
        if broker.groups.topic.is_led_elsewhere(group_id):
            continue
        code, _ = broker.groups.ensure_partition(group_id, now)
        if code not in (ErrorCode.NONE, ErrorCode.INVALID_GROUP_ID):
            return


def _coordinator(broker: BrokerState, exchange: Exchange, key: str, refusal: str | None) -> Message:
    """`refusal`: why this broker coordinates no transactions."""
    client, kind = exchange.client, exchange.request.body.key_type
    if kind == GROUP and broker.groups.topic.is_led_elsewhere(key):
        code, reason = ErrorCode.COORDINATOR_NOT_AVAILABLE, "its offsets are not kept here"
    elif kind == GROUP or (kind == TRANSACTION and refusal is None):
        node_id = broker.config.node_id
        return Message(key=key, node_id=node_id, host=client.host, port=client.port)
    elif kind == TRANSACTION:
        # An error that producers do not retry.
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        reason = refusal or ""
    else:
        code, reason = ErrorCode.INVALID_REQUEST, f"there is no coordinator of type {kind}"
    return Message(
        key=key, node_id=NO_NODE, host="", port=-1, error_code=code, error_message=reason
    )
