"""Requests that are read and answered without messages, because clients send little else.

The response has the same bytes as that of the API's handler, which answers all other requests:
unusual versions and fields, errors, and what takes several turns."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.protocol.requests import RequestHeader


@dataclass(frozen=True, slots=True)
class Usual:
    """The usual requests of an API.

    read: the fields of a request, from its frame; None: it is not a usual one, or is malformed.
    answer: answers a request with these fields, at a time in seconds of the broker's clock. False:
    nothing has changed, and the handler must answer."""

    read: Callable[[RequestHeader, memoryview], Any]
    answer: Callable[[BrokerState, Exchange, Any, float], bool]
