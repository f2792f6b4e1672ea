"""Two threads at one coordinator: no step of one comes between the steps of the other."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from downconvert.broker.groups.coordinator import Groups
from downconvert.broker.groups.group import Group
from downconvert.broker.groups.member import MemberIdentity
from downconvert.broker.internal_topic import partition_of
from downconvert.broker.topics import OFFSETS_TOPIC
from downconvert.internal_topics.group_records import Committed
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import Message
from tests.downconvert.broker.offset_logs import commit, fetch
from tests.downconvert.broker.writable import writable_broker

from .test_group import joining

SECONDS = 60.0
MOMENT = 0.02  # seconds: a step that waits for nobody ends before that
NOW = 2000.0
AT = ("t", 0)


def ignore(*_: object) -> None:
    """Takes a response, and writes nothing."""


ANYONE = MemberIdentity("", -1)
STEPS: dict[str, Callable[[Groups], object]] = {
    "join": lambda groups: groups.join("g", joining(), NOW, ignore),
    "sync": lambda groups: groups.sync("g", MemberIdentity("m", 1), {}, NOW, ignore),
    "heartbeat": lambda groups: groups.heartbeat("g", MemberIdentity("m", 1), NOW),
    "leave": lambda groups: groups.leave("g", [("m", None)], NOW),
    "committed": lambda groups: groups.committed("g", NOW),
    "commit": lambda groups: groups.commit("g", ANYONE, {AT: Committed(9, commit_time=5)}, NOW),
    "end_transaction": lambda groups: groups.end_transaction(0, 3, lambda: None, committed=True),
    "delete_offsets": lambda groups: groups.delete_offsets("g", [AT], NOW),
    "forget_topics": lambda groups: groups.forget_topics({"t"}, NOW),
    "forget_dead_groups": lambda groups: groups.forget_dead_groups(NOW),
    "offsets_partitions_added": lambda groups: groups.offsets_partitions_added(1),
    "ids": lambda groups: groups.manager.ids(),
    "positions": lambda groups: groups.positions(),
    "look": lambda groups: groups.look("g", NOW, lambda _: Message()),
    "delete": lambda groups: groups.delete("g", NOW),
    "expire": lambda groups: groups.manager.expire(NOW),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_step_waits_while_another_thread_looks_at_the_group(tmp_path: Path, step: str) -> None:
    """Nothing of it is done before."""
    with writable_broker(tmp_path, "t") as broker, ThreadPoolExecutor(2) as threads:
        assert commit(broker, 5) == 0
        is_looking, may_end = threading.Event(), threading.Event()

        def offsets() -> dict[tuple[str, int], Committed]:
            return dict(broker.groups.committed("g", 1000.0)[0])

        def show(_group: Group) -> Message:
            before = offsets()
            is_looking.set()
            assert may_end.wait(SECONDS)
            assert offsets() == before != {}
            return Message()

        looking = threads.submit(broker.groups.look, "g", 1000.0, show)
        assert is_looking.wait(SECONDS)
        other = threads.submit(STEPS[step], broker.groups)
        try:
            with pytest.raises(TimeoutError):
                other.result(MOMENT)
            assert not looking.done()
        finally:
            may_end.set()
        looking.result(SECONDS)
        other.result(SECONDS)


def test_members_are_answered_when_no_lock_is_held(tmp_path: Path) -> None:
    """So a response may ask the coordinator again, from another thread, and wait for it."""
    with (
        writable_broker(tmp_path, "t", group_initial_rebalance_delay_ms=0) as broker,
        ThreadPoolExecutor(1) as threads,
    ):
        groups = broker.groups
        found: list[Any] = []

        def answered(*response: object) -> None:
            found.append((response, threads.submit(groups.manager.ids).result(SECONDS)))

        groups.join("g", joining(), 1000.0, answered)
        broker.tick(1000.0)
        (((joined,), ids),) = found
        assert (joined.code, ids) == (0, ["g"])
        identity = MemberIdentity(joined.member_id, joined.generation)
        groups.sync("g", identity, {joined.member_id: b"a"}, 1000.0, answered)
        assert [ids for _, ids in found] == [["g"]] * 2


def test_commits_of_two_threads_are_all_kept(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t", partitions=4) as broker, ThreadPoolExecutor(4) as threads:

        def commit_all(index: int) -> set[int]:
            return {commit(broker, offset, "g", ("t", index)) for offset in range(1, 40)}

        assert set().union(*threads.map(commit_all, range(4))) == {0}
        assert [fetch(broker, "g", ("t", index)) for index in range(4)] == [(39, 0)] * 4
    with writable_broker(tmp_path) as broker:
        assert [fetch(broker, "g", ("t", index)) for index in range(4)] == [(39, 0)] * 4


def test_offsets_of_a_transaction_count_if_the_topic_gets_more_partitions_meanwhile(
    tmp_path: Path,
) -> None:
    """Their transaction's marker is written where they are."""
    with writable_broker(tmp_path, "t") as broker:
        assert broker.groups.ensure_partition("g", NOW) == (ErrorCode.NONE, 0)
        changes: list[int] = []

        def check(_batch: object) -> None:
            """Called as the offsets are appended, while another thread changes the topic."""
            broker.topics.add_partitions(OFFSETS_TOPIC, range(1, 50))
            changes.append(broker.groups.topic.partition_of("g"))

        offsets = {AT: Committed(9, commit_time=5)}
        code = broker.groups.commit("g", ANYONE, offsets, NOW, producer=(3, 0), check=check)
        assert (code, changes) == (ErrorCode.NONE, [partition_of("g", 50)])
        assert changes != [0]
        broker.groups.end_transaction(0, 3, lambda: None, committed=True)
        assert broker.groups.committed("g", NOW) == (offsets, set())
