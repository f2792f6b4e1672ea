"""Where a range of shared chunks begins and ends, and how many records it counts."""

from pathlib import Path

from downconvert import ConversionPolicy
from downconvert.broker.fetch.conversion_cache import ConversionCache
from downconvert.broker.fetch.shared_range import Asker, Ends, take
from downconvert.serving.buffered_send import MemoryBudget
from records import FileRecords
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
    for offset, count in ((0, 9), (4, 5), (8, 1), (0, 9)):
        taken = take(cache, records, Asker(1, 1, offset, POLICY), is_tail=True)
        assert sum(send.stats.records_converted for send in taken.sends) == count
        taken.close()


def test_a_range_that_does_not_end_with_the_log_is_not_kept_for_one_client(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(batch(0))
    one = FileRecords.open(file)
    cache = ConversionCache(MemoryBudget(MiB))
    taken = take(cache, one, Asker(1, 1, 0, POLICY), is_tail=False)
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
