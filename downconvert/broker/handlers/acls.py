"""DescribeAcls, CreateAcls, DeleteAcls: the responses of a broker without an authorizer.

Here, permissions are in a file (access/), which clients cannot see or change. Tools send these
requests nevertheless, and accept the error. Without a response they would assume a lost
connection."""

from typing import Final

from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import Message

_REFUSAL: Final = {
    "error_code": ErrorCode.SECURITY_DISABLED,
    "error_message": "No Authorizer is configured on the broker",
}


def describe(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
    exchange.reply(Message(**_REFUSAL, resources=[]))


def create(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
    asked = exchange.request.body.creations
    exchange.reply(Message(results=[Message(**_REFUSAL) for _ in asked]))


def delete(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
    asked = exchange.request.body.filters
    refused = [Message(**_REFUSAL, matching_acls=[]) for _ in asked]
    exchange.reply(Message(filter_results=refused))
