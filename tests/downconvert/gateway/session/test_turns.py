"""Work that takes more than one turn."""

from collections.abc import Generator
from io import BytesIO
from random import Random

import pytest

from downconvert import AbortedTransaction, ConversionPolicy
from downconvert.conversion import made
from downconvert.gateway.session.exchanges import TURN_SIZE, Turn
from downconvert.gateway.session.turns import PLANS_MAX, WORK_A_TURN, Converted, Parts, in_turns
from records import (
    Codec,
    ControlRecordType,
    MemoryRecords,
    Record,
    RecordsError,
    build,
    build_marker,
    read,
)

TURNS = 5
SEED = 4_117
LOGS = 60  # of each format


def log(random: Random) -> bytes:
    """A few batches of any codec; some are damaged, the last may be torn."""
    batches, offset = bytearray(), 0
    for _ in range(random.randrange(1, 5)):
        records = []
        for _ in range(random.randrange(1, 30)):
            offset += random.choice([1, 1, 1, 2, 50])
            value = random.choice([b"x", random.randbytes(10)]) * random.randrange(60)
            records.append(Record(offset=offset, timestamp=7, key=b"k", value=value))
        codec = random.choice([Codec.NONE, Codec.NONE, *Codec])
        batches += build(records, magic=2, codec=codec)
    if random.random() < 0.3:
        batches[random.randrange(len(batches))] ^= 1 << random.randrange(8)
    size = len(batches)
    return bytes(batches[: random.choice([size, size, random.randrange(size)])])


def converted(data: bytes, magic: int, offset: int, limit: int | None) -> tuple[bytes, bool] | str:
    """The bytes, and whether they are all; or what is wrong."""
    found, channel = Converted(), BytesIO()
    parts = Parts(MemoryRecords(data), offset)
    policy = ConversionPolicy()
    try:
        for _ in found.convert(parts, magic, offset, policy, [], limit):
            pass
    except RecordsError as error:
        return str(error)
    for send in found.sends:
        while not send.completed:
            send.write_to(channel)
    return channel.getvalue(), found.is_whole


@pytest.mark.parametrize("magic", [0, 1])
def test_a_range_becomes_the_same_where_it_is_held_and_where_it_is_made_again(
    magic: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(SEED + magic)
    for number in range(LOGS):
        data, offset = log(random), random.randrange(60)
        limit = random.choice([None, None, 100, 1000])
        held = converted(data, magic, offset, limit)
        with monkeypatch.context() as patch:
            patch.setattr(made.budget, "left", 0)
            assert held == converted(data, magic, offset, limit), f"log {number}"


@pytest.mark.parametrize("budget", [0, 1 << 20])
def test_under_a_hard_limit_the_first_committed_message_is_whole(
    budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The aborted message before it is smaller than the limit."""
    monkeypatch.setattr(made.budget, "left", budget)
    of_7 = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    aborted = build([Record(0, 7, value=b"aborted")], magic=2, **of_7)  # type: ignore[arg-type]
    end = build_marker(ControlRecordType.ABORT, offset=1, timestamp=7, producer_id=7)
    records = [Record(2 + n, 7, value=bytes(1000)) for n in range(10)]
    data = aborted + end + build(records, magic=2)
    found, channel = Converted(), BytesIO()
    policy = ConversionPolicy(isolation="read_committed")
    parts = Parts(MemoryRecords(data), 0)
    for _ in found.convert(parts, 1, 0, policy, [AbortedTransaction(7, 0)], limit=500):
        pass
    (send,) = found.sends
    while not send.completed:
        send.write_to(channel)
    assert [each.offset for each in read(MemoryRecords(channel.getvalue()))] == [2]


def planned(under_way: set[int], number: int) -> Generator[Turn, None, int]:
    def steps() -> Generator[int, None, int]:
        under_way.add(number)
        try:
            for _ in range(2 * TURNS):
                yield WORK_A_TURN // 2
            return number
        finally:
            under_way.discard(number)

    return in_turns(steps())


def test_a_batch_larger_than_a_turn_is_a_part_and_none_is_empty() -> None:
    value = bytes(TURN_SIZE)
    data = b"".join(
        build([Record(offset=offset, timestamp=7, value=value)], magic=2) for offset in range(3)
    )
    parts = Parts(MemoryRecords(data), 0).cut()
    assert [part.size for part in parts] == [len(data) // 3] * 3


def test_each_turn_does_a_turns_work() -> None:
    under_way: set[int] = set()
    turns = planned(under_way, 7)
    for _ in range(1 + TURNS):  # the first is waited for before anything is done
        next(turns)
    with pytest.raises(StopIteration) as end:
        next(turns)
    assert (end.value.value, under_way) == (7, set())


def test_few_plans_are_suspended_at_a_time_and_all_finish() -> None:
    under_way: set[int] = set()
    waiting = [planned(under_way, number) for number in range(3 * PLANS_MAX)]
    found = set()
    while waiting:
        for turns in tuple(waiting):
            try:
                next(turns)
            except StopIteration as end:
                found.add(end.value)
                waiting.remove(turns)
            assert len(under_way) <= PLANS_MAX
    assert found == set(range(3 * PLANS_MAX))


def test_a_client_that_has_gone_makes_room_for_others() -> None:
    under_way: set[int] = set()
    for number in range(3 * PLANS_MAX):
        turns = planned(under_way, number)
        next(turns)
        next(turns)
        assert under_way == {number}
        turns.close()
        assert not under_way
