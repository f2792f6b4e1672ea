"""The operations that a client's rule allows, for responses.

A client without a rule may do everything, as at a broker without an authorizer."""

from downconvert.access.guard import EVERYTHING
from downconvert.access.operations import NOT_ASKED, SHOWN, Kind
from downconvert.broker.exchange import Exchange


def operations(exchange: Exchange, kind: Kind, name: str = "", *, is_asked: bool) -> int:
    """The operations as bits. NOT_ASKED if not `is_asked`. A cluster has no name."""
    if not is_asked:
        return NOT_ASKED
    access = EVERYTHING if exchange.client.access is None else exchange.client.access
    return access.operations(kind, name) & SHOWN[kind]
