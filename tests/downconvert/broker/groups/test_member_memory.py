"""The members of all groups together take bounded memory, and what has gone makes room again.

Not here: the limits of one group (test_joining.py)."""

import gc
import logging
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from random import Random
from uuid import NAMESPACE_OID

import pytest

from downconvert.broker import Broker
from downconvert.broker.groups.member import MEMBER_SIZE, names_size
from downconvert.broker.groups.member_memory import MemberMemory
from downconvert.broker.groups.pending_members import PENDING_SIZE
from downconvert.broker.operating.gauges import StateCollector
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from records.units import format_size
from tests.downconvert.broker.asking import ask, begin
from tests.downconvert.broker.writable import writable_broker

FULL, NO_ROOM = ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.UNKNOWN_SERVER_ERROR
NAME = "range"
CLIENT = "test", "/127.0.0.1"
FIXED = MEMBER_SIZE + names_size(f"test-{NAMESPACE_OID}", *CLIENT)  # of each dynamic member
STATIC = MEMBER_SIZE + names_size(f"one-{NAMESPACE_OID}", "one", *CLIENT)
GROUP = names_size("g")
PENDING = PENDING_SIZE + names_size(f"test-{NAMESPACE_OID}")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with writable_broker(tmp_path, group_initial_rebalance_delay_ms=0) as one:
        yield one


def memory(broker: Broker) -> MemberMemory:
    return broker.groups.manager.limits.memory


def limit(broker: Broker, size: int) -> None:
    memory(broker).size_max = size


def join(
    broker: Broker,
    group: str,
    size: int,
    member_id: str = "",
    instance: str = "",
    version: int = 3,
) -> Message:
    """A member whose protocol takes so many bytes."""
    body = joining_body(group, size, member_id, instance)
    return ask(broker, ApiKey.JoinGroup, 5 if instance else version, body)


def joining_body(group: str, size: int, member_id: str = "", instance: str = "") -> Message:
    return Message(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        group_instance_id=instance or None,
        protocol_type="consumer",
        protocols=[Message(name=NAME, metadata=bytes(size - len(NAME)))],
    )


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
    limit(broker, 2 * (FIXED + GROUP) + 1000)
    first = join(broker, "g", 600)
    assert first.error_code == ErrorCode.NONE
    assert join(broker, "h", 600).error_code == FULL
    assert join(broker, "h", 400).error_code == ErrorCode.NONE
    assert memory(broker).size == memory(broker).size_max
    leave(broker, "g", first)
    assert memory(broker).size == FIXED + 2 * GROUP + 400
    assert join(broker, "i", 600 - GROUP).error_code == ErrorCode.NONE


def test_members_that_are_there_join_again_in_a_full_broker(broker: Broker) -> None:
    limit(broker, FIXED + STATIC + 2 * GROUP + 1000)
    dynamic, static = join(broker, "g", 600), join(broker, "h", 400, instance="one")
    assert memory(broker).size == memory(broker).size_max
    again = join(broker, "g", 600, dynamic.member_id)
    assert (again.error_code, again.member_id) == (ErrorCode.NONE, dynamic.member_id)
    restarted = join(broker, "h", 400, instance="one")
    assert (restarted.error_code, restarted.member_id != static.member_id) == (0, True)
    assert memory(broker).size == memory(broker).size_max
    assert join(broker, "h", 401, restarted.member_id, "one").error_code == FULL


def test_assignments_count_too_and_one_without_room_is_refused(broker: Broker) -> None:
    limit(broker, FIXED + GROUP + 1000)
    joined = join(broker, "g", 600)
    assert sync(broker, "g", joined, 401) == NO_ROOM
    assert memory(broker).size == FIXED + GROUP + 600
    joined = join(broker, "g", 600, joined.member_id)
    assert sync(broker, "g", joined, 400) == ErrorCode.NONE
    assert memory(broker).size == memory(broker).size_max
    assert sync(broker, "g", joined, 1) == ErrorCode.NONE  # the generation has its assignments
    leave(broker, "g", joined)
    assert memory(broker).size == GROUP


@pytest.mark.parametrize("version", [3, 4])
def test_a_member_without_metadata_counts_as_much_as_it_takes(broker: Broker, version: int) -> None:
    """In a group that waits for its first member. From version 4 on, they are member ids."""
    assert join(broker, "g", len(NAME)).error_code == ErrorCode.NONE
    tracemalloc.start()
    before, counted = tracemalloc.get_traced_memory()[0], memory(broker).size
    for _ in range(200):
        joining = begin(broker, ApiKey.JoinGroup, version, joining_body("g", len(NAME)))
        broker.finished(joining)  # its client has gone
    del joining
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert 0.2 < taken / (memory(broker).size - counted) < 1


def test_ids_of_members_that_have_not_joined_count_until_they_expire(broker: Broker) -> None:
    given = [join(broker, "g", 100, version=4) for _ in range(3)]
    assert {one.error_code for one in given} == {ErrorCode.MEMBER_ID_REQUIRED}
    assert memory(broker).size == 3 * PENDING + GROUP
    assert join(broker, "g", 100, given[0].member_id, version=4).error_code == ErrorCode.NONE
    assert memory(broker).size == 2 * PENDING + FIXED + 100 + GROUP
    leave(broker, "g", given[1])
    assert memory(broker).size == PENDING + FIXED + 100 + GROUP
    broker.tick(10.0)  # the session timeout; the member has expired too
    assert memory(broker).size == GROUP


def test_a_new_member_id_needs_room_for_its_member(broker: Broker) -> None:
    limit(broker, FIXED + GROUP + 99)
    refused = join(broker, "g", 300, version=4)
    assert (refused.error_code, refused.member_id) == (FULL, "")
    assert memory(broker).size == 0, "there is no such group"


def test_long_names_of_clients_and_groups_count(broker: Broker) -> None:
    limit(broker, 110_000)
    for version, code in (0, ErrorCode.NONE), (4, ErrorCode.MEMBER_ID_REQUIRED):
        assert join(broker, "n" * 30_000, 10, version=version).error_code == code
        assert memory(broker).size > 30_000
    assert join(broker, "\N{GRINNING FACE}" * 8000, 10).error_code == ErrorCode.NONE
    assert memory(broker).size > 60_000, "it takes four bytes a character"
    assert join(broker, "o" * 32_000, 20_000).error_code == FULL


def test_the_counted_memory_is_the_sum_of_all_members(broker: Broker) -> None:
    limit(broker, 3 * FIXED + 1000)
    random, groups = Random(5), set[str]()
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
        members = sum(FIXED + size for _, size in there.values())
        groups |= there.keys()  # they stay until they are found to be unused
        assert memory(broker).size == members + GROUP * len(groups) <= memory(broker).size_max


def test_a_restart_counts_the_stored_members(tmp_path: Path) -> None:
    for _ in range(2):
        with writable_broker(tmp_path, group_initial_rebalance_delay_ms=0) as broker:
            body = Message(groups=["g"])
            if not ask(broker, ApiKey.DescribeGroups, 0, body).groups[0].members:
                assert sync(broker, "g", join(broker, "g", 600), 50) == ErrorCode.NONE
            assert memory(broker).size == FIXED + GROUP + 650


def test_operators_see_how_much_it_is_and_a_refusal_once(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    limit(broker, FIXED + 2 * GROUP + 1000)
    with caplog.at_level(logging.WARNING):
        joined = join(broker, "g", 600)
        for _ in range(3):
            assert join(broker, "h", 500).error_code == FULL
    (line,) = [one for one in caplog.messages if "groups_memory_max_bytes" in one]
    assert line.startswith(f"the members of all groups take {format_size(FIXED + 2 * GROUP + 600)}")
    found = {
        sample.name: sample.value
        for metric in StateCollector(broker).collect()
        for sample in metric.samples
    }
    assert found["downconvert_broker_group_members_bytes"] == FIXED + GROUP + 600
    assert found["downconvert_broker_group_members_max_bytes"] == memory(broker).size_max
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
