"""Reads a partition for old clients, as a fetch does."""

from random import Random
from struct import Struct

import pytest

from downconvert import ConversionPolicy
from downconvert.broker import Broker
from downconvert.broker.fetch.contribution import Contribution, ReadLimits
from downconvert.broker.fetch.conversion_cache import ConversionCache
from downconvert.broker.fetch.reading_converted import Reader, read_converted
from downconvert.broker.partition import Partition
from downconvert.serving.appending import prepare
from downconvert.serving.planning_slots import PlanningSlots
from records import build_marker
from records.batches.compressed import Decompressed
from records.batches.control import ControlRecordType
from tests.downconvert.broker.producing import NOW_MS, batch

OFFSET = Struct(">q")
MARKER = build_marker(ControlRecordType.COMMIT, offset=0, timestamp=0, producer_id=1)


def markers(count: int, start: int = 0) -> bytes:
    """So many markers on end; the offset is not under the checksum."""
    rest = MARKER[OFFSET.size :]
    return b"".join(OFFSET.pack(offset) + rest for offset in range(start, start + count))


def of(broker: Broker, topic: str = "events") -> Partition:
    return broker.topics[topic].partitions[0]


def transaction(broker: Broker, random: Random, *, ends: bool = True) -> None:
    """Appends a transaction of two records. If it ends, it is committed or aborted."""
    producer = random.randrange(10**6)
    producing = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0}
    data = batch(2, transactional=True, **producing)
    prepared = prepare(memoryview(data), broker.topics["events"].append_config, NOW_MS)
    assert prepared is not None
    of(broker).append(prepared, 0.0, NOW_MS, lambda _: None)
    if ends:
        kind = random.choice((ControlRecordType.COMMIT, ControlRecordType.ABORT))
        of(broker).append_marker(kind, (producer, 0), 0, 0.0, NOW_MS)


def converted(
    partition: Partition,
    offset: int,
    up_to: int,
    limits: ReadLimits,
    policy: ConversionPolicy,
    cache: ConversionCache | None = None,
) -> Contribution:
    """The records found in one turn."""
    reader = Reader(slots=PlanningSlots(), cache=cache)
    turns = read_converted(partition, offset, up_to, limits, magic=1, policy=policy, reader=reader)
    with pytest.raises(StopIteration) as end:
        next(turns)
    found: Contribution = end.value.value
    return found


class Counted:
    """How many bytes each turn decompresses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = 0
        self.turns: list[int] = []
        read_into = Decompressed.read_into

        def counted(decompressed: Decompressed, target: memoryview) -> int:
            count = read_into(decompressed, target)
            self.bytes += count
            return count

        monkeypatch.setattr(Decompressed, "read_into", counted)

    def end_turn(self) -> None:
        self.turns.append(self.bytes)
        self.bytes = 0
