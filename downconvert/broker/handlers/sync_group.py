"""SyncGroup: the leader sends all assignments, and each member gets its own.

Not here: when it is answered (group.py)."""

from typing import Final

from downconvert.broker.exchange import Exchange
from downconvert.broker.groups.member import MemberIdentity, Synced
from downconvert.broker.state import BrokerState
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import Message

WITH_PROTOCOL: Final = 5  # the first version that names, and must name, its protocol


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    body, version = exchange.request.body, exchange.request.version

    def reply(synced: Synced) -> None:
        exchange.reply(
            Message(
                error_code=synced.code,
                protocol_type=synced.protocol_type,
                protocol_name=synced.protocol,
                assignment=synced.assignment,
            )
        )

    def post(synced: Synced) -> None:
        """Called by the thread that completed the generation."""
        exchange.post(lambda _: reply(synced))

    if version >= WITH_PROTOCOL and (body.protocol_type is None or body.protocol_name is None):
        reply(Synced(code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        return
    broker.groups.sync(
        body.group_id,
        MemberIdentity(body.member_id, body.generation_id, body.group_instance_id),
        {one.member_id: bytes(one.assignment) for one in body.assignments},
        now,
        post,
        protocol_type=body.protocol_type,
        protocol=body.protocol_name,
    )
    exchange.release_request()
