"""ListGroups: all groups. Version 4 can select by state, and version 5 by type. All groups here are
of the type that Kafka calls classic since it has others."""

from typing import Final

from downconvert.broker.exchange import Exchange
from downconvert.broker.groups.group import Group
from downconvert.broker.state import BrokerState
from downconvert.protocol.schemas import Message

CLASSIC: Final = "classic"


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    body = exchange.request.body
    states = {state.lower() for state in body.states_filter}
    types = {kind.lower() for kind in body.types_filter}
    listed = [broker.groups.look(group_id, now, _list) for group_id in broker.groups.ids()]
    groups = [
        one
        for one in listed
        if one is not None
        and (not states or one.group_state.lower() in states)
        and (not types or CLASSIC in types)
    ]
    exchange.reply(Message(groups=groups))


def _list(group: Group) -> Message:
    return Message(
        group_id=group.id,
        protocol_type=group.protocol_type or "",
        group_state=group.state,
        group_type=CLASSIC,
    )
