"""The broker: requests in, sends out. Also the server, replicas, groups and transactions.

>>> from tempfile import mkdtemp
>>> from downconvert.broker.server import Server
>>> from downconvert.storage import LogDir
>>> with LogDir.open(mkdtemp(), writable=True) as logs:
...     broker = Broker(logs, BrokerConfig(is_writable=True))
...     with Server(broker, ("127.0.0.1", 0)) as server:
...         host, port = server.address  # where clients connect
>>> host
'127.0.0.1'"""

from downconvert.protocol.errors import ApiError, BadRequestError, BrokerError, ErrorCode

from .broker import Broker
from .config import BrokerConfig
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
