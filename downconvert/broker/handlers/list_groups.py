"""ListGroups: all groups. Version 4 can select by state, and version 5 by type. All groups here are
of type "classic"."""

from collections.abc import Generator
from typing import Final

from downconvert.broker.exchange import Exchange
from downconvert.broker.groups.group import Group
from downconvert.broker.state import BrokerState
from downconvert.protocol.schemas import Message

CLASSIC: Final = "classic"
GROUPS_A_TURN: Final = 1_000  # some milliseconds


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    exchange.work_on(_answer(broker, exchange.request.body, now), now)


def _answer(broker: BrokerState, body: Message, now: float) -> Generator[None, None, Message]:
    """Lists some groups in each turn, because there may be a hundred thousand."""
    states = {state.lower() for state in body.states_filter}
    types = {kind.lower() for kind in body.types_filter}
    groups = []
    for number, group_id in enumerate(broker.groups.manager.ids()):
        if number and not number % GROUPS_A_TURN:
            yield
        one = broker.groups.look(group_id, now, _list)
        if (
            one is not None
            and (not states or one.group_state.lower() in states)
            and (not types or CLASSIC in types)
        ):
            groups.append(one)
    return Message(groups=groups)


def _list(group: Group) -> Message:
    return Message(
        group_id=group.id,
        protocol_type=group.protocol_type or "",
        group_state=group.state,
        group_type=CLASSIC,
    )
