"""The fetch path: requests in, sends out; the server, replicas, groups."""

from broker.broker import Broker
from broker.config import BrokerConfig
from broker.errors import ApiError, BadRequestError, BrokerError, ErrorCode
from broker.exchange import Client, Exchange
from broker.owner import Owner

__all__ = [
    "ApiError",
    "BadRequestError",
    "Broker",
    "BrokerConfig",
    "BrokerError",
    "Client",
    "ErrorCode",
    "Exchange",
    "Owner",
]
