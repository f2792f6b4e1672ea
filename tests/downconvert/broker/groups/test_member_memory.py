"""The members of all groups together take bounded memory, and what has gone makes room again.

Not here: the limits of one group (test_joining.py)."""

import logging
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from downconvert.broker import Broker
from downconvert.broker.groups.member_memory import MemberMemory
from downconvert.broker.operating.gauges import StateCollector
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask
from tests.downconvert.broker.writable import writable_broker

MAX = 1000
FULL, NO_ROOM = ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.UNKNOWN_SERVER_ERROR
NAME = "range"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with writable_broker(
        tmp_path, groups_memory_max_bytes=MAX, group_initial_rebalance_delay_ms=0
    ) as one:
        yield one


def join(broker: Broker, group: str, size: int, member_id: str = "", instance: str = "") -> Message:
    """A member whose protocol takes so many bytes."""
    body = Message(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        group_instance_id=instance or None,
        protocol_type="consumer",
        protocols=[Message(name=NAME, metadata=bytes(size - len(NAME)))],
    )
    return ask(broker, ApiKey.JoinGroup, 3 + 2 * bool(instance), body)


def sync(broker: Broker, group: str, joined: Message, size: int) -> int:
    assigned = [Message(member_id=joined.member_id, assignment=bytes(size))]
    body = Message(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=assigned,
    )
    code: int = ask(broker, ApiKey.SyncGroup, 1, body).error_code
    return code


def leave(broker: Broker, group: str, joined: Message) -> None:
    body = Message(group_id=group, member_id=joined.member_id)
    assert not ask(broker, ApiKey.LeaveGroup, 0, body).error_code


def test_a_member_that_finds_no_room_in_the_sum_is_refused(broker: Broker) -> None:
    first = join(broker, "g", 600)
    assert first.error_code == ErrorCode.NONE
    assert join(broker, "h", 401).error_code == FULL
    assert join(broker, "h", 400).error_code == ErrorCode.NONE
    assert broker.groups.manager.limits.memory.size == MAX
    leave(broker, "g", first)
    assert broker.groups.manager.limits.memory.size == 400
    assert join(broker, "i", 600).error_code == ErrorCode.NONE


def test_members_that_are_there_join_again_in_a_full_broker(broker: Broker) -> None:
    dynamic, static = join(broker, "g", 600), join(broker, "h", 400, instance="one")
    again = join(broker, "g", 600, dynamic.member_id)
    assert (again.error_code, again.member_id) == (ErrorCode.NONE, dynamic.member_id)
    restarted = join(broker, "h", 400, instance="one")
    assert (restarted.error_code, restarted.member_id != static.member_id) == (0, True)
    assert join(broker, "h", 401, restarted.member_id, "one").error_code == FULL


def test_assignments_count_too_and_one_without_room_is_refused(broker: Broker) -> None:
    joined = join(broker, "g", 600)
    assert sync(broker, "g", joined, 401) == NO_ROOM
    assert broker.groups.manager.limits.memory.size == 600
    joined = join(broker, "g", 600, joined.member_id)
    assert sync(broker, "g", joined, 400) == ErrorCode.NONE
    assert broker.groups.manager.limits.memory.size == MAX
    assert sync(broker, "g", joined, 1) == ErrorCode.NONE  # the generation has its assignments
    leave(broker, "g", joined)
    assert broker.groups.manager.limits.memory.size == 0


def test_the_counted_memory_is_the_sum_of_all_members(broker: Broker) -> None:
    random = Random(5)
    there: dict[str, tuple[Message, int]] = {}
    for _ in range(300):
        group, size = random.choice("abcdef"), random.randrange(6, 300)
        if group in there and random.random() < 0.3:
            leave(broker, group, there.pop(group)[0])
            continue
        joined = join(broker, group, size, there[group][0].member_id if group in there else "")
        if joined.error_code:
            there.pop(group, None)  # as with the limits of a group, it is no member any more
            continue
        there[group] = joined, size
        assigned = random.randrange(100)
        if not sync(broker, group, joined, assigned):
            there[group] = joined, size + assigned
        else:
            leave(broker, group, there.pop(group)[0])
        assert (
            broker.groups.manager.limits.memory.size
            == sum(size for _, size in there.values())
            <= MAX
        )


def test_a_restart_counts_the_stored_members(tmp_path: Path) -> None:
    for _ in range(2):
        with writable_broker(tmp_path, group_initial_rebalance_delay_ms=0) as broker:
            body = Message(groups=["g"])
            if not ask(broker, ApiKey.DescribeGroups, 0, body).groups[0].members:
                assert sync(broker, "g", join(broker, "g", 600), 50) == ErrorCode.NONE
            assert broker.groups.manager.limits.memory.size == 650


def test_operators_see_how_much_it_is_and_a_refusal_once(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        joined = join(broker, "g", 600)
        for _ in range(3):
            assert join(broker, "h", 500).error_code == FULL
    (line,) = [one for one in caplog.messages if "groups_memory_max_bytes" in one]
    assert line.startswith("the members of all groups take 600 B")
    found = {
        sample.name: sample.value
        for metric in StateCollector(broker).collect()
        for sample in metric.samples
    }
    assert found["downconvert_broker_group_members_bytes"] == 600
    assert found["downconvert_broker_group_members_max_bytes"] == MAX
    assert joined.error_code == ErrorCode.NONE


def test_a_refusal_is_logged_again_after_there_was_room(
    caplog: pytest.LogCaptureFixture,
) -> None:
    memory = MemberMemory(100)
    for size, more, has_room, lines in (
        *((60, 40, True, 0), (60, 41, False, 1), (60, 41, False, 1), (60, 1, True, 1)),
        *((60, 41, False, 1), (50, 1, True, 1), (60, 41, False, 2), (200, 0, True, 2)),
    ):
        memory.size = size
        assert memory.has_room(more) is has_room
        assert len(caplog.messages) == lines
