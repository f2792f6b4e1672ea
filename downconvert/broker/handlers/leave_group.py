"""LeaveGroup: removes members. The others join again without waiting for a timeout.

Up to version 2 there is one member, and its error is the response's."""

from typing import Final

from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.protocol.schemas import Message

BATCHED: Final = 3  # the first version in which several members leave


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    body, version = exchange.request.body, exchange.request.version
    if version < BATCHED:
        leaving: list[tuple[str, str | None]] = [(body.member_id, None)]
    else:
        leaving = [(one.member_id, one.group_instance_id) for one in body.members]
    code, codes = broker.groups.leave(body.group_id, leaving, now)
    if version < BATCHED:
        exchange.reply(Message(error_code=code or codes[0]))
        return
    members = [
        Message(member_id=member_id, group_instance_id=instance_id, error_code=member_code)
        for (member_id, instance_id), member_code in zip(leaving, codes, strict=False)
    ]
    exchange.reply(Message(error_code=code, members=members))
