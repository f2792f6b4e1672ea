"""FindCoordinator: which broker keeps a group's members and offsets, or coordinates a transactional
id's transactions. Here there is one, this one.

Clients as old as 0.9 ask even where their partitions are assigned by hand, and read nothing before
they have an answer."""

from typing import Final

from downconvert.broker.errors import ErrorCode
from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.broker.wire.schemas import Message

GROUP: Final = 0  # key types
TRANSACTION: Final = 1
NOBODY: Final = -1
BATCHED: Final = 4  # the first version that asks for several keys


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    body, version = exchange.request.body, exchange.request.version
    if version < BATCHED:
        exchange.reply(_coordinator(broker, exchange, body.key, now))
        return
    found = [_coordinator(broker, exchange, key, now) for key in body.coordinator_keys]
    exchange.reply(Message(coordinators=found))


def _coordinator(broker: BrokerState, exchange: Exchange, key: str, now: float) -> Message:
    client, kind = exchange.client, exchange.request.body.key_type
    if kind == GROUP and broker.groups.is_elsewhere(key):
        code, said = ErrorCode.COORDINATOR_NOT_AVAILABLE, "its offsets are not kept here"
    elif kind == GROUP or (kind == TRANSACTION and broker.transactions.refusal() is None):
        if kind == GROUP and broker.config.is_writable:
            # As Kafka: clients see the topic before anything is committed. Where it cannot be made,
            # the log says why, and commits are told.
            broker.groups.ensure_partition(key, now)
        node_id = broker.config.node_id
        return Message(key=key, node_id=node_id, host=client.host, port=client.port)
    elif kind == TRANSACTION:
        # An error that producers do not retry.
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        said = broker.transactions.refusal() or ""
    else:
        code, said = ErrorCode.INVALID_REQUEST, f"there is no coordinator of type {kind}"
    return Message(key=key, node_id=NOBODY, host="", port=-1, error_code=code, error_message=said)
