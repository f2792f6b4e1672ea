"""Where a range of shared chunks begins and ends, and how many records it counts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from downconvert import ConversionPolicy
from downconvert.broker.fetch.conversion_cache import ConversionCache
from downconvert.broker.fetch.shared_range import Asker, Ends, take
from records import BatchHeader, FileRecords
from records.budget import MemoryBudget
from tests.downconvert.storage.logs import batch

MiB = 1 << 20
POLICY = ConversionPolicy()


def test_a_client_that_begins_in_a_batch_is_counted_the_records_that_it_gets(
    tmp_path: Path,
) -> None:
    file = tmp_path / "log"
    file.write_bytes(batch(*range(9), size=100))
    records = FileRecords.open(file)
    cache = ConversionCache(MemoryBudget(MiB))
    take(cache, records, Asker(2, 1, 0, POLICY), is_tail=True)
    for offset, count in ((0, 9), (4, 5), (8, 1), (0, 9)):
        taken = take(cache, records, Asker(1, 1, offset, POLICY), is_tail=True)
        assert sum(send.stats.records_converted for send in taken.sends) == count
        taken.close()


@pytest.mark.parametrize("is_tail", [False, True])
def test_a_range_is_not_kept_for_one_client(tmp_path: Path, is_tail: bool) -> None:
    file = tmp_path / "log"
    file.write_bytes(batch(0))
    one = FileRecords.open(file)
    cache = ConversionCache(MemoryBudget(MiB))
    for _ in range(3):
        taken = take(cache, one, Asker(1, 1, 0, POLICY), is_tail=is_tail)
        assert (taken.sends, taken.ends, len(cache)) == ([], Ends.UNCACHED, 0)


def test_damage_in_a_header_is_left_to_the_conversion_without_the_cache(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"\xff" * 200)
    taken = take(
        ConversionCache(MemoryBudget(MiB)),
        FileRecords.open(file),
        Asker(1, 1, 0, POLICY),
        is_tail=True,
    )
    assert (taken.sends, taken.ends) == ([], Ends.UNCACHED)


def test_two_threads_that_ask_at_once_learn_the_same_end_of_a_chunk(tmp_path: Path) -> None:
    """Otherwise one of them would continue within the chunk, and its client get records twice."""
    file = tmp_path / "log"
    file.write_bytes(batch(0, 1) + batch(2, 3) + batch(4, 5))
    records = FileRecords.open(file)
    cache, ends = ConversionCache(MemoryBudget(MiB)), list[int | None]()
    _, mine, theirs = (take(cache, records, Asker(n, 1, 0, POLICY), is_tail=True) for n in range(3))

    class Interrupted:
        """Records. After each batch of them, the other thread asks."""

        size = records.size

        def slice(self, *_: int) -> Self:
            return self

        def batches(self) -> Iterator[BatchHeader]:
            for header in records.batches():
                yield header
                ends.append(theirs.end_offset(records))

    interrupted: Any = Interrupted()
    ends.append(mine.end_offset(interrupted))
    assert len(ends) > 1
    assert set(ends) == {6}
