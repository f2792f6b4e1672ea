"""Which of Kafka's operations a client may do, as answers tell it: by the client's rule.

A client without a rule may do everything, as at a broker without an authorizer."""

from downconvert.access.guard import EVERYTHING
from downconvert.access.operations import NOT_ASKED, SHOWN, Kind
from downconvert.broker.exchange import Exchange


def operations(exchange: Exchange, kind: Kind, name: str = "", *, is_asked: bool) -> int:
    """As bits; NOT_ASKED unless the client wants to know. A cluster has no name."""
    if not is_asked:
        return NOT_ASKED
    access = EVERYTHING if exchange.client.access is None else exchange.client.access
    return access.operations(kind, name) & SHOWN[kind]
