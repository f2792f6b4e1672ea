"""The fast path of OffsetCommit answers as the handler, and stores the same."""

from functools import partial
from pathlib import Path
from random import Random

import pytest

from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from tests.damage import mutated, spliced
from tests.downconvert.broker.asking import begin, frame, response_of, value
from tests.downconvert.broker.producing import NOW

from .both_ways import BothWays, both_ways, check_logs, with_tags

VERSIONS = range(11)
FAST = range(2, 10)
METADATA = (None, "", "m" * 9, "\u00e9")


def partition(index: int = 0, metadata: str | None = "") -> Message:
    return Message(
        partition_index=index,
        committed_offset=5,
        committed_leader_epoch=3,
        committed_metadata=metadata,
    )


def commit(*topics: tuple[str, list[Message]], group: str = "g", generation: int = -1) -> Message:
    return Message(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id="",
        retention_time_ms=-1,
        topics=[Message(name=name, partitions=partitions) for name, partitions in topics],
    )


def some_request(random: Random) -> bytes:
    topics = []
    for _ in range(random.choice((0, 1, 1, 1, 2, 5))):
        name = random.choice(["t"] * 8 + ["u"] * 8 + ["none", "", "\u00e9", "n" * 127])
        partitions = [
            partition(
                random.choice((0, 0, 0, 1, 1, 2)), random.choice((None, "", "m" * 9, "\u00e9"))
            )
            for _ in range(random.choice((0, 1, 1, 1, 2)))
        ]
        for one in partitions:
            one.committed_offset = random.choice((0, 7, 2**40, -1))
            one.commit_timestamp = random.choice((-1, -1, 1000))
            if random.random() < 0.05:
                one.committed_metadata = "m" * 5000
        topics.append((name, partitions))
    group, generation = random.choice(["g"] * 9 + [""]), random.choice([-1] * 9 + [0, 3])
    body = commit(*topics, group=group, generation=generation)
    body.member_id = random.choice([""] * 9 + ["m"])
    body.retention_time_ms = random.choice((-1, -1, 0, 1000, 2**62))
    body.group_instance_id = random.choice([None] * 8 + ["i", ""])
    data = frame(ApiKey.OffsetCommit, random.choice(VERSIONS), body)
    if random.random() < 0.1:
        data = with_tags(data, random)
    return mutated(data, random) if random.random() < 0.2 else data


@pytest.mark.parametrize("seed", range(20))
def test_the_responses_and_the_offsets_are_the_same(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    with both_ways(tmp_path, "t", "u") as both:
        for _ in range(150):
            both.compare(some_request(random), NOW)
        assert both.answered
        fast, other = (broker.groups.positions() for broker in both.brokers)
        assert sorted(fast) == sorted(other)
        check_logs(tmp_path)


def join(both: BothWays, member_id: str, instance_id: str | None, now: float) -> Message:
    """A client joins the group at both brokers, which give it the same id. The response."""
    body = Message(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=1_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[Message(name="range", metadata=b"")],
    )
    exchanges = [begin(broker, ApiKey.JoinGroup, 5, body, now=now) for broker in both.brokers]
    for broker in both.brokers:  # after the time for the others to join
        broker.tick(now + 5)
    first, second = map(response_of, exchanges)
    assert first.member_id == second.member_id
    return first


@pytest.mark.parametrize("seed", range(10))
def test_members_commit_as_before(seed: int, tmp_path: Path) -> None:
    """In each state of the group, with wrong generations and ids, and once they have expired."""
    random, now = Random(seed), NOW
    with both_ways(tmp_path, "t") as both:
        member_id, generation = "", -1
        for _ in range(150):
            now += random.choice((0.0, 1.0, 12.0))
            for broker in both.brokers:
                broker.tick(now)
            instance_id = random.choice((None, None, "i"))
            identity = Message(group_id="g", generation_id=generation, member_id=member_id)
            match random.randrange(8):
                case 0:
                    response = join(both, random.choice(("", member_id)), instance_id, now)
                    now += 5
                    if not response.error_code:
                        member_id, generation = response.member_id, response.generation_id
                case 1:
                    identity.assignments = [Message(member_id=member_id, assignment=b"")]
                    both.compare(frame(ApiKey.SyncGroup, 2, identity), now)
                case 2 if random.random() < 0.3:
                    both.compare(frame(ApiKey.LeaveGroup, 0, identity), now)
                case _:
                    body = commit(("t", [partition(random.randrange(2))]), generation=generation)
                    body.generation_id_or_member_epoch += random.choice((0, 0, 0, 1, -1))
                    body.member_id = random.choice((member_id, member_id, "", "m"))
                    body.group_instance_id = instance_id
                    version = random.choice((*FAST, *VERSIONS))
                    both.compare(frame(ApiKey.OffsetCommit, version, body), now)
        both.compare(frame(ApiKey.OffsetFetch, 2, Message(group_id="g", topics=None)), now)
        metric = partial(value, both.brokers[0], "errors_total", api="OffsetCommit")
        assert sum(metric(code=code.name) > 0 for code in ErrorCode) > 1
        assert both.answered > 20
        check_logs(tmp_path)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_commit_takes_the_fast_path_in_these_versions(version: int, tmp_path: Path) -> None:
    with both_ways(tmp_path, "t", "u") as both:
        body = commit(("t", [partition(0), partition(1)]), ("u", [partition(1, None)]))
        for topic in body.topics:
            topic.topic_id = both.brokers[0].topics[topic.name].id
        data = frame(ApiKey.OffsetCommit, version, body)
        assert both.compare(data, NOW) is (version in FAST)


@pytest.mark.parametrize(
    "body",
    [
        commit(("t", [partition(0), partition(0)])),
        commit(("t", [partition(9)])),
        commit(("t", [partition(0, "m" * 4097)])),
    ],
)
def test_refused_and_repeated_ones_are_left(body: Message, tmp_path: Path) -> None:
    with both_ways(tmp_path, "t") as both:
        assert not both.compare(frame(ApiKey.OffsetCommit, 3, body), NOW)


def test_the_error_of_a_group_is_counted_for_each_partition(tmp_path: Path) -> None:
    body = commit(("t", [partition(0), partition(1)]), generation=7)
    with both_ways(tmp_path, "t") as both:
        assert both.compare(frame(ApiKey.OffsetCommit, 3, body), NOW)


@pytest.mark.parametrize("version", FAST)
def test_a_request_that_was_cut_is_refused_as_before(version: int, tmp_path: Path) -> None:
    data = frame(ApiKey.OffsetCommit, version, commit(("t", [partition(0, "m")])))
    with both_ways(tmp_path, "t") as both:
        for size in range(len(data)):
            assert not both.compare(data[:size], NOW)
        assert both.compare(data + b"more", NOW)


@pytest.mark.parametrize("version", FAST)
def test_lengths_and_counts_below_zero_are_refused_as_before(version: int, tmp_path: Path) -> None:
    body = commit(("", [partition(0, "")]), ("t", [partition(0, "m")]), group="")
    data = frame(ApiKey.OffsetCommit, version, body)
    with both_ways(tmp_path, "t") as both:
        for at in range(len(data)):
            for number in (b"\xff\xff", b"\xff\xfe", b"\xff\xff\xff\xff"):
                both.compare(spliced(data, at, number, drop=len(number)), NOW)
