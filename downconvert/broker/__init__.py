"""The fetch path: requests in, sends out; the server, replicas, groups."""

from .broker import Broker
from .config import BrokerConfig
from .errors import ApiError, BadRequestError, BrokerError, ErrorCode
from .exchange import Client, Exchange
from .owner import Owner

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
