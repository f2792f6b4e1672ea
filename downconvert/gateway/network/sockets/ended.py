"""Errors that end connections, each with its `End`.

Not here: which side closed a connection (connection.py)."""

from typing import Protocol

from downconvert.gateway.config import Limits
from downconvert.gateway.figures import End
from downconvert.gateway.session.exchanges import HangUp
from downconvert.gateway.topology import Address
from downconvert.protocol.errors import BadRequestError


class ConnectionEndedError(Exception):
    """The other side closed the connection, or the connection broke. `peer`: the other side's name,
    for messages."""

    def __init__(self, peer: str) -> None:
        super().__init__(f"{peer} closed the connection")
        self.peer = peer


class StalledError(TimeoutError):
    """The other side has neither sent nor taken a byte for too long. `peer`: its name."""

    def __init__(self, peer: str, seconds: float | None) -> None:
        super().__init__(f"{peer} has neither sent nor taken a byte in {seconds:g} s")
        self.peer = peer


class UnreachableError(Exception):
    """No broker of the cluster could be reached, or none accepted the gateway."""


class SilentBrokerError(UnreachableError):
    """A broker that was reached does not answer a request. `reason`: without the broker's
    address."""

    def __init__(self, address: Address, seconds: float) -> None:
        super().__init__(f"broker {address} has not answered in {seconds:g} s")
        self.address = address
        self.reason = f"it has not answered in {seconds:g} s"


class Failing(Protocol):
    """A transfer that may have failed in a callback."""

    failure: Exception | None


def taken_failure(transfer: Failing) -> Exception:
    """Returns the failure of a transfer, to be raised. The transfer forgets it, because the
    traceback will refer to the transfer."""
    failure, transfer.failure = transfer.failure, None
    assert failure is not None
    return failure


class RefusedLoginError(BadRequestError):
    """A client did not prove its identity, or no rule matches it."""


class ExpiredSessionError(BadRequestError):
    """A client's login has expired, and it did not log in again."""


class OverLimitError(BadRequestError):
    """A client has more connections than its rule allows, or makes them too fast."""


def hang_up(ends: HangUp) -> BadRequestError:
    """The error to raise when a session ends its connection."""
    if ends.has_expired:
        return ExpiredSessionError(ends.reason)
    if ends.is_over_limit:
        return OverLimitError(ends.reason)
    return RefusedLoginError(ends.reason) if ends.is_login else BadRequestError(ends.reason)


def end_of(error: BaseException) -> End | None:
    """The `End` of an error. None: the error has none of its own."""
    match error:
        case UnreachableError():
            return End.CLUSTER
        case RefusedLoginError():
            return End.LOGIN
        case ExpiredSessionError():
            return End.EXPIRED
        case OverLimitError():
            return End.LIMIT
        case BadRequestError():
            return End.REQUEST
        case TimeoutError():
            return End.TIMEOUT
    return None


def silence_of_client(limits: Limits, *, is_idle: bool) -> str:
    """The reason as text for logs. `is_idle`: no request had begun to arrive."""
    if is_idle:
        return f"nothing for {limits.idle_timeout:g} s"
    return f"no whole request within {limits.receive_timeout:g} s"
