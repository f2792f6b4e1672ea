"""JoinGroup: a client becomes a member, or a member joins the next generation.

From version 4 on, a new member first gets an id, and joins with it. So a client that disconnects
while it waits, and then joins again, does not become two members. Not here: when it is answered
(group.py)."""

from typing import Final

from downconvert.broker.exchange import Exchange
from downconvert.broker.groups.member import Join, Joined
from downconvert.broker.state import BrokerState
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import Message

WITH_TIMEOUT: Final = 1  # the first version with a rebalance timeout
WITH_KNOWN_ID: Final = 4
WITH_NULL_PROTOCOL: Final = 7
WITH_SKIPPED_ASSIGNMENT: Final = 9
INSTANCE_ID_MAX: Final = 32_767 - 37  # bytes: a member id made of it is a text in a response
PROTOCOLS_MAX: Final = 100


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    body, header = exchange.request.body, exchange.request.header

    def reply(joined: Joined) -> None:
        exchange.reply(_response(joined, header.version))

    def post(joined: Joined) -> None:
        """Called by the thread that completed the generation."""
        exchange.post(lambda _: reply(joined))

    if _is_too_large(body):
        reply(Joined(member_id="", code=ErrorCode.INVALID_REQUEST))
        return
    session = body.session_timeout_ms / 1000
    rebalance = body.rebalance_timeout_ms / 1000 if header.version >= WITH_TIMEOUT else session
    protocols: dict[str, bytes] = {}
    for protocol in body.protocols:  # the first one of each name counts
        protocols.setdefault(protocol.name, bytes(protocol.metadata))
    join = Join(
        protocol_type=body.protocol_type,
        protocols=tuple(protocols.items()),
        session_timeout=session,
        rebalance_timeout=max(rebalance, 0.0),
        member_id=body.member_id,
        instance_id=body.group_instance_id,
        client_id=header.client_id or "",
        client_host=f"/{exchange.client.address}",
        needs_known_id=header.version >= WITH_KNOWN_ID,
        may_skip_assignment=header.version >= WITH_SKIPPED_ASSIGNMENT,
    )
    broker.groups.join(body.group_id, join, now, post)
    exchange.release_request()


def _is_too_large(body: Message) -> bool:
    """Whether a member would take more memory than a consumer does."""
    return (
        len(body.protocols) > PROTOCOLS_MAX
        or len((body.group_instance_id or "").encode()) > INSTANCE_ID_MAX
    )


def _response(joined: Joined, version: int) -> Message:
    no_protocol = None if version >= WITH_NULL_PROTOCOL else ""  # a protocol without a name, too
    return Message(
        error_code=joined.code,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol or no_protocol,
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            Message(member_id=member_id, group_instance_id=instance_id, metadata=metadata)
            for member_id, instance_id, metadata in joined.members
        ],
    )
