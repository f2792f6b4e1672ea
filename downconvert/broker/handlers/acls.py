"""DescribeAcls, CreateAcls, DeleteAcls: the responses of a broker without an authorizer.

Here, permissions are in a file (access/), which clients cannot see or change. Tools send these
requests nevertheless, and accept the error. Without a response they would assume a lost
connection. As in Kafka, a request with a number that means "unknown" ends the connection
[DescribeAclsRequest, CreateAclsRequest, DeleteAclsRequest]."""

from collections.abc import Iterable
from typing import Final

from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.protocol.errors import BadRequestError, ErrorCode
from downconvert.protocol.schemas import Message

UNKNOWN: Final = 0  # as a type of resource or pattern, as an operation or a permission
_REFUSAL: Final = {
    "error_code": ErrorCode.SECURITY_DISABLED,
    "error_message": "No Authorizer is configured on the broker",
}


def describe(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
    _check_filters([exchange.request.body])
    exchange.reply(Message(**_REFUSAL, resources=[]))


def create(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
    asked = exchange.request.body.creations
    for one in asked:
        _check(one.resource_type, one.resource_pattern_type, one.operation, one.permission_type)
    exchange.reply(Message(results=[Message(**_REFUSAL) for _ in asked]))


def delete(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
    asked = exchange.request.body.filters
    _check_filters(asked)
    refused = [Message(**_REFUSAL, matching_acls=[]) for _ in asked]
    exchange.reply(Message(filter_results=refused))


def _check_filters(filters: Iterable[Message]) -> None:
    for one in filters:
        numbers = one.resource_type_filter, one.pattern_type_filter
        _check(*numbers, one.operation, one.permission_type)


def _check(*numbers: int) -> None:
    """Raises BadRequestError if one of the numbers means "unknown"."""
    if UNKNOWN in numbers:
        raise BadRequestError("an ACL with an unknown type, operation or permission")
