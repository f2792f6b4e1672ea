"""Shared code for requests of transactional producers."""

from collections.abc import Callable
from typing import Final

from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.storage import StorageError

from .admin import refusal

FENCED_VERSION: Final = 2  # the first version of these APIs with PRODUCER_FENCED


def code_of(error: ApiError | OSError | StorageError, *, knows_fenced: bool) -> ErrorCode:
    """The error for the client. PRODUCER_FENCED came with KIP-588. Older versions get another
    code."""
    code = refusal(error).code
    if code is ErrorCode.KAFKA_STORAGE_ERROR:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE  # producers retry it
    if code is ErrorCode.PRODUCER_FENCED and not knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def change(broker: BrokerState, exchange: Exchange, make: Callable[[], ErrorCode]) -> ErrorCode:
    """Changes a transaction by `make`. Returns its result, or the code for its error in the
    request's version."""
    try:
        if not broker.config.is_writable:
            reason = "this broker only reads"
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, reason)
        return make()
    except ApiError as error:
        return code_of(error, knows_fenced=exchange.request.version >= FENCED_VERSION)
