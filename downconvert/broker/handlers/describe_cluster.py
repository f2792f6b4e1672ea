"""DescribeCluster: the brokers, at the address that the client connected to."""

from typing import Final

from downconvert.access.operations import Kind
from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import Message

from .authorized import operations

BROKERS: Final = 1  # what a client may ask for; 2: controllers


def handle(broker: BrokerState, exchange: Exchange, _now: float) -> None:
    body, client, config = exchange.request.body, exchange.client, broker.config
    if body.endpoint_type != BROKERS:
        exchange.reply(
            Message(
                error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                error_message="controllers are not reached here",
                endpoint_type=BROKERS,
                cluster_id=config.cluster_id,
            )
        )
        return
    node = Message(broker_id=config.node_id, host=client.host, port=client.port)
    exchange.reply(
        Message(
            endpoint_type=BROKERS,
            cluster_id=config.cluster_id,
            controller_id=config.node_id,
            brokers=[node],
            cluster_authorized_operations=operations(
                exchange, Kind.CLUSTER, is_asked=body.include_cluster_authorized_operations
            ),
        )
    )
