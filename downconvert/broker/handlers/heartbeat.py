"""Heartbeat: keeps a member alive, and tells it whether to join again."""

from downconvert.broker.exchange import Exchange
from downconvert.broker.groups.member import MemberIdentity
from downconvert.broker.state import BrokerState
from downconvert.protocol.schemas import Message


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    body = exchange.request.body
    identity = MemberIdentity(body.member_id, body.generation_id, body.group_instance_id)
    code = broker.groups.heartbeat(body.group_id, identity, now)
    exchange.reply(Message(error_code=code))
