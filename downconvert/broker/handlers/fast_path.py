"""Fast paths: requests that clients send often are read and answered as plain values.

A fast path answers the common requests of an API, with the same bytes and effects as the API's
handler. The handler answers all others: those of another form, errors, and what takes several
turns. `Broker.handle` decides which of the two answers.

Not here: reading and writing plain values (protocol/plain_values.py)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.protocol.plain_values import Read


@dataclass(frozen=True, slots=True)
class FastPath:
    """The fast path of an API.

    reader: the function that reads the requests of a version.
    answer: answers a request with these values, at a time in seconds of the broker's clock. False:
    nothing has changed, and the handler must answer."""

    versions: range
    reader: Callable[[int], Read]
    answer: Callable[[BrokerState, Exchange, tuple[Any, ...], float], bool]
