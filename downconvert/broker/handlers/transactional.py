"""What requests of transactional producers have in common."""

from downconvert.broker.errors import ApiError, ErrorCode
from downconvert.broker.state import BrokerState
from downconvert.storage import StorageError

from .admin import refusal


def code_of(error: ApiError | OSError | StorageError, *, knows_fenced: bool) -> ErrorCode:
    """The error that a client is told; PRODUCER_FENCED came with KIP-588, and has another name for
    who does not know it."""
    code = refusal(error).code
    if code is ErrorCode.KAFKA_STORAGE_ERROR:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE  # which producers try again
    if code is ErrorCode.PRODUCER_FENCED and not knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def check_coordinates(broker: BrokerState) -> None:
    """ApiError: there are no transactions here."""
    if not broker.config.is_writable:
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "this broker only reads")
