"""DescribeGroups: the state of groups, and their members."""

from typing import Final

from downconvert.access.operations import Kind
from downconvert.broker.exchange import Exchange
from downconvert.broker.groups.group import Group
from downconvert.broker.groups.rebalance import State
from downconvert.broker.state import BrokerState
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import Message

from .authorized import operations

WITH_NOT_FOUND: Final = 6  # the first version in which a missing group is an error


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    body, version = exchange.request.body, exchange.request.version
    found = {name: broker.groups.look(name, now, _describe) for name in body.groups}
    groups = [
        _absent(group_id, version) if group is None else group for group_id, group in found.items()
    ]
    for group in groups:
        if group.__dict__.get("error_code", ErrorCode.NONE) == ErrorCode.NONE:
            group.authorized_operations = operations(
                exchange, Kind.GROUP, group.group_id, is_asked=body.include_authorized_operations
            )
    exchange.reply(Message(groups=groups))


def _absent(group_id: str, version: int) -> Message:
    if version < WITH_NOT_FOUND:
        return Message(group_id=group_id, group_state=State.DEAD)
    return Message(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {group_id} not found.",
        group_id=group_id,
        group_state=State.DEAD,
    )


def _describe(group: Group) -> Message:
    """Protocols and assignments are only shown for a stable group, because they change in other
    states."""
    is_stable = group.state is State.STABLE
    return Message(
        group_id=group.id,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if is_stable else "",
        members=[
            Message(
                member_id=member.id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(group.protocol) if is_stable else b"",
                member_assignment=member.assignment if is_stable else b"",
            )
            for member in group.members.values()
        ],
    )
