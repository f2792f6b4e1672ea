"""Responses joined of shared chunks and of what follows them, or of several segments."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from downconvert import ConversionPolicy
from downconvert.broker import Broker
from downconvert.broker.fetch.contribution import (
    Contribution,
    ReadLimits,
)
from downconvert.broker.fetch.conversion_cache import ConversionCache
from downconvert.broker.fetch.reading_converted import Reader, read_converted
from downconvert.broker.partition import Partition
from downconvert.serving.planning_slots import PlanningSlots
from downconvert.storage import CorruptFileError
from records import (
    Codec,
    FileRecords,
    MemoryRecords,
    Record,
    build,
    read,
)
from records.budget import MemoryBudget
from tests.downconvert.broker.fetching import (
    broker_of,
)
from tests.downconvert.storage.logs import batch

from .reading import MARKER, converted, markers, of

LIMITS = ReadLimits(max_bytes=1000, first=True)
TENS = [batch(*range(n, n + 10)) for n in range(0, 200, 10)]  # they grow when they are converted


def shared_reading(
    broker: Broker, cache: ConversionCache, client: int, limits: ReadLimits
) -> Contribution:
    """The records that a client gets from the topic's beginning on, in one turn."""
    reader = Reader(slots=PlanningSlots(), client=client, cache=cache)
    policy = ConversionPolicy()
    turns = read_converted(of(broker), 0, 200, limits, magic=1, policy=policy, reader=reader)
    with pytest.raises(StopIteration) as end:
        next(turns)
    found: Contribution = end.value.value
    return found


def offsets_of(found: Contribution) -> list[int]:
    """The offsets in the whole messages that are sent."""
    assert not isinstance(found.records, bytes)
    response = BytesIO()
    while not found.records.completed:
        found.records.write_to(response)
    return [record.offset for record in read(MemoryRecords(response.getvalue()))]


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Broker, Any]]:
    """A broker, and a cache with the first three batches of its topic."""
    size = 3 * len(TENS[0]) + 1
    for module in ("reading_converted", "shared_range"):
        monkeypatch.setattr(f"downconvert.broker.fetch.{module}.CHUNK_SIZE", size)
    with broker_of(tmp_path, {"events": {0: TENS}}) as broker:
        cache = ConversionCache(MemoryBudget(2**24))
        for client in (1, 2):
            shared_reading(broker, cache, client, ReadLimits(size, first=True))
        assert len(cache) == 1
        yield broker, cache


def test_records_after_shared_chunks_are_sent_with_them(begun: tuple[Broker, Any]) -> None:
    limits = ReadLimits(12 * len(TENS[0]), first=True)
    found = shared_reading(*begun, 3, limits)
    assert offsets_of(found) == list(range(120))
    assert (found.source_size, found.scanned_end_offset) == (limits.max_bytes, 200)


def test_a_hard_limit_holds_for_shared_chunks_and_what_follows_them_together(
    begun: tuple[Broker, Any],
) -> None:
    limits = ReadLimits(12 * len(TENS[0]), first=True, is_hard=True)
    found = shared_reading(*begun, 3, limits)
    assert found.records.size == limits.max_bytes
    assert 30 < len(offsets_of(found)) < 120


def test_a_chunk_for_the_next_fetch_is_not_scanned(begun: tuple[Broker, Any]) -> None:
    found = shared_reading(*begun, 3, ReadLimits(6 * len(TENS[0]), first=True))
    assert offsets_of(found) == list(range(30))
    assert (found.source_size, found.scanned_end_offset) == (3 * len(TENS[0]), 30)


def test_records_that_do_not_fit_after_markers_stay_to_be_scanned(tmp_path: Path) -> None:
    """Otherwise a fetch would wait, although its records are there."""
    segments = {0: [markers(3)], 3: [batch(3, size=500)]}
    limits = ReadLimits(len(MARKER), first=False)
    with broker_of(tmp_path, {"events": segments}) as broker:
        found = converted(of(broker), 0, 4, limits, ConversionPolicy())
    assert (found.records, found.source_size, found.scanned_end_offset) == (b"", 0, 3)


def test_offsets_that_fall_where_there_is_nothing_are_passed(tmp_path: Path) -> None:
    segment = [batch(0), markers(1, 5), markers(1, 2), batch(9)]
    with broker_of(tmp_path, {"events": {0: segment}}) as broker:
        for offset in (1, 3, 5):
            found = converted(of(broker), offset, 10, ReadLimits(10, True), ConversionPolicy())
            assert offsets_of(found) == [9]


def test_nothing_is_joined_with_a_response_that_a_hard_limit_cuts(tmp_path: Path) -> None:
    first = TENS[0]
    segments = {0: [first], 10: [TENS[1]], 20: [TENS[2]]}
    limits = ReadLimits(len(first) + 5, first=True, is_hard=True)
    with broker_of(tmp_path, {"events": segments}) as broker:
        found = converted(of(broker), 0, 30, limits, ConversionPolicy())
        assert found.records.size == limits.max_bytes
        assert found.source_size == len(first)


def test_joined_segments_end_at_a_hard_limit(tmp_path: Path) -> None:
    """The first one fits, of the second one a part."""
    alone = build([Record(0, 1, value=b"x" * 500)], magic=2)
    segments = {0: [alone], 1: [batch(*range(1, 30))], 30: [batch(30)], 31: [batch(31)]}
    joined = len(alone) + len(batch(*range(1, 30)))
    limits = ReadLimits(joined + 2 * len(batch(30)), first=True, is_hard=True)
    with broker_of(tmp_path, {"events": segments}) as broker:
        found = converted(of(broker), 0, 32, limits, ConversionPolicy())
        assert found.records.size == limits.max_bytes
        assert found.source_size == joined


def test_batches_before_a_damaged_segment_are_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next fetch begins with the damage, and reports it."""
    with broker_of(tmp_path, {"events": {0: [TENS[0]], 10: [TENS[1]]}}) as broker:
        partition = of(broker)
        read_log = Partition.read

        def damaged(this: Partition, offset: int, *rest: int) -> FileRecords:
            if offset >= 10:
                raise CorruptFileError("an index", Path("index"))
            return read_log(this, offset, *rest)

        monkeypatch.setattr(Partition, "read", damaged)
        found = converted(partition, 0, 20, LIMITS, ConversionPolicy())
        assert offsets_of(found) == list(range(10))
        assert found.source_size == len(TENS[0])


def test_a_first_message_that_becomes_large_is_whole_after_a_marker(tmp_path: Path) -> None:
    large = build([Record(1, 1, value=bytes(60_000))], magic=2, codec=Codec.GZIP)
    policy = ConversionPolicy(recode={"gzip": "none"})
    limits = ReadLimits(len(MARKER) + len(large), first=True, is_hard=True)
    with broker_of(tmp_path, {"events": {0: [MARKER, large]}}) as broker:
        found = converted(of(broker), 0, 2, limits, policy)
        assert offsets_of(found) == [1]
