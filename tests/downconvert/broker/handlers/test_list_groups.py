"""ListGroups: all groups, or those of some states and types, in turns if there are many."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.broker import Broker
from downconvert.broker.handlers.list_groups import GROUPS_A_TURN
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask, begin, response_of
from tests.downconvert.broker.fetching import broker_of
from tests.downconvert.storage.logs import batch


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with broker_of(tmp_path, {"t": {0: [batch(0)]}}) as made:
        yield made


def commit(broker: Broker, group_id: str) -> None:
    """By a consumer that assigns its partitions itself: the group is there, and empty."""
    one = Message(partition_index=0, committed_offset=0, committed_metadata="")
    body = Message(group_id=group_id, topics=[Message(name="t", partitions=[one])])
    body.generation_id_or_member_epoch, body.member_id = -1, ""
    (topic,) = ask(broker, ApiKey.OffsetCommit, 2, body).topics
    assert topic.partitions[0].error_code == 0


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        ([], [], ["a", "b"]),
        (["eMPTY", "Dead"], [], ["a", "b"]),
        (["Stable"], [], []),
        ([], ["CLASSIC", "share"], ["a", "b"]),
        ([], ["consumer"], []),
        (["Empty"], ["consumer"], []),
    ],
)
def test_groups_are_selected_by_state_and_by_type(
    broker: Broker, states: list[str], types: list[str], found: list[str]
) -> None:
    for group_id in ("b", "a"):
        commit(broker, group_id)
    listed = ask(
        broker, ApiKey.ListGroups, 5, Message(states_filter=states, types_filter=types)
    ).groups
    assert [one.group_id for one in listed] == found
    assert {(one.group_state, one.group_type) for one in listed} <= {("Empty", "classic")}


@pytest.mark.parametrize(("count", "turns"), [(0, 1), (1000, 1), (1001, 2), (2500, 3)])
def test_other_clients_are_served_while_many_groups_are_listed(
    broker: Broker, count: int, turns: int
) -> None:
    assert GROUPS_A_TURN == 1000
    for number in range(count):
        commit(broker, f"g{number:04}")
    exchange, done = begin(broker, ApiKey.ListGroups, 2, Message()), 1
    while not exchange.is_done:
        commit(broker, "z")  # another client
        broker.tick(0.0)
        done += 1
    listed = [one.group_id for one in response_of(exchange).groups]
    assert listed == [f"g{number:04}" for number in range(count)]
    assert done == turns
