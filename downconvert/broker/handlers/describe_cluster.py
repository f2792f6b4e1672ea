"""DescribeCluster: the brokers, at the address that the client connected to."""

from downconvert.access.operations import Kind
from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import Message

from .authorized import operations

BROKERS, CONTROLLERS = 1, 2  # what a client may ask for


def handle(broker: BrokerState, exchange: Exchange, _now: float) -> None:
    body, client, config = exchange.request.body, exchange.client, broker.config
    if body.endpoint_type != BROKERS:
        code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        if body.endpoint_type == CONTROLLERS:
            code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        exchange.reply(
            Message(
                error_code=code,
                error_message="only brokers are reached here",
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
