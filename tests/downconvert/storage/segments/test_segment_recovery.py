"""The good part of a segment after a crash, and its rebuilt indexes."""

from pathlib import Path
from random import Random

import pytest

from downconvert.storage import LogConfig, OffsetOverflowError
from downconvert.storage.disk.faulty_disk import FaultyDisk
from downconvert.storage.disk.files import WritableFile
from downconvert.storage.disk.open_files import OpenFiles
from downconvert.storage.indexes.offset_index import RELATIVE_MAX
from downconvert.storage.indexes.transaction_index import AbortedTransaction
from downconvert.storage.names import Kind
from downconvert.storage.segments.segment import Segment
from downconvert.storage.segments.segment_recovery import check_segment, rebuild_segment
from records.formats import Codec
from tests.downconvert.storage.logs import (
    UNSYNCED,
    UnsyncedDisk,
    UnsyncedFile,
    batch,
    indexed_segment,
    segment,
)

BATCHES = [batch(n, n + 1, size=200) for n in range(0, 100, 2)]
CONFIG = LogConfig(index_interval_bytes=500)


def rebuild(made: Segment) -> None:
    rebuild_segment(made, check_segment(made), CONFIG, UNSYNCED, lambda *_: None)


def files(made: Segment) -> dict[Kind, bytes]:
    kinds = (Kind.LOG, Kind.OFFSET_INDEX, Kind.TIME_INDEX)
    return {kind: made.path(kind).read_bytes() for kind in kinds}


def test_an_undamaged_segment_is_good_completely(tmp_path: Path) -> None:
    report = check_segment(segment(tmp_path, 0, *BATCHES))
    assert (report.batches, report.next_offset, report.bytes_cut) == (50, 100, 0)
    assert report.damage is None


@pytest.mark.parametrize("seed", range(10))
def test_a_segment_is_cut_before_the_first_damaged_batch(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    data = bytearray(b"".join(BATCHES))
    one, damaged = len(BATCHES[0]), random.randrange(50)
    # Anywhere but in the offset and the leader epoch, which no checksum covers.
    at = damaged * one + random.choice((*range(8, 12), *range(16, one)))
    data[at] ^= 1 << random.randrange(8)
    made = segment(tmp_path, 0, bytes(data))
    report = check_segment(made)
    assert (report.good_size, report.next_offset) == (damaged * one, 2 * damaged)
    rebuild(made)
    assert made.path().read_bytes() == data[: damaged * one]


@pytest.mark.parametrize("left", [1, 11, 17, 18, 60, 100])
def test_a_torn_batch_is_cut_off_and_is_not_damage(tmp_path: Path, left: int) -> None:
    made = segment(tmp_path, 0, *BATCHES[:3], BATCHES[3][:left])
    report = check_segment(made)
    assert (report.next_offset, report.bytes_cut, report.damage) == (6, left, None)


def test_zeros_at_the_end_are_cut_off(tmp_path: Path) -> None:
    made = segment(tmp_path, 0, *BATCHES, bytes(10_000))
    assert check_segment(made).bytes_cut == 10_000
    rebuild(made)
    assert made.size == len(BATCHES) * len(BATCHES[0])


def test_rebuilt_indexes_equal_written_ones(tmp_path: Path) -> None:
    made = indexed_segment(tmp_path, 0, *BATCHES, interval=500)
    expected = files(made)
    for kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX):
        made.path(kind).write_bytes(b"\x05" * 1000)
    rebuild(made)
    assert files(made) == expected
    made.path(Kind.OFFSET_INDEX).unlink()
    rebuild(made)
    assert files(made) == expected


@pytest.mark.parametrize("offset", [39, 40 + 2**31])
def test_valid_batches_of_another_segment_are_not_cut_off(tmp_path: Path, offset: int) -> None:
    made = segment(tmp_path, 40, batch(40), batch(offset, codec=Codec.GZIP))
    before = made.path().read_bytes()
    with pytest.raises(OffsetOverflowError, match=str(offset)):
        rebuild(made)
    assert made.path().read_bytes() == before


def test_the_last_offset_that_fits_a_segment_is_good(tmp_path: Path) -> None:
    last = 40 + RELATIVE_MAX
    made = segment(tmp_path, 40, batch(40), batch(last))
    report = check_segment(made)
    assert (report.bytes_cut, report.next_offset) == (0, last + 1)
    rebuild(made)
    assert check_segment(made) == report


def test_a_rebuilt_index_finds_batches_although_offsets_decrease(tmp_path: Path) -> None:
    """Checksums do not cover offsets. Kafka does not compare them either."""
    made = segment(tmp_path, 0, *BATCHES[20:], *BATCHES[:20])
    rebuild(made)
    assert made.size == len(BATCHES) * len(BATCHES[0])
    found = made.find(98, made.size)
    assert found is not None
    assert found[1].last_offset == 99


@pytest.mark.parametrize("torn", [b"", b"torn"])
def test_recovery_syncs_the_good_part_before_it_reports_it(tmp_path: Path, torn: bytes) -> None:
    """The read bytes may be in memory only, and the machine may die right after."""
    for seed in range(20):
        place, left = tmp_path / f"{seed}", tmp_path / f"{seed}-left"
        indexed_segment(place, 0)
        disk = FaultyDisk(place, random=Random(seed))
        made = Segment(place, 0, OpenFiles())
        file = disk.open(made.path())
        for number, data in enumerate((*BATCHES, torn)):
            file.write_at(data, number * len(BATCHES[0]))  # and nobody syncs it
        file.close()
        report = check_segment(made)
        rebuild_segment(made, report, CONFIG, disk, lambda *_: None)
        assert report.next_offset == 100
        left.mkdir()
        disk.survivors(left)
        assert (left / made.path().name).read_bytes() == b"".join(BATCHES)


def test_two_markers_at_one_offset_are_one_entry_of_the_index(tmp_path: Path) -> None:
    """Offsets are not compared with one another, so a damaged log may have that."""
    made = segment(tmp_path, 0, batch(3), batch(3), batch(4))
    entries = (AbortedTransaction(7, 0, offset, 5) for offset in (3, 3, 4))
    rebuild_segment(made, check_segment(made), CONFIG, UNSYNCED, lambda *_: next(entries))
    assert [entry.last_offset for entry in made.aborted()] == [3, 4]


def test_rebuilt_files_are_synced_before_recovery_goes_on(tmp_path: Path) -> None:
    """The log's bytes too, which may have been read from memory alone."""
    synced: set[str] = set()

    class Noting(UnsyncedDisk):
        def open(self, path: Path) -> WritableFile:
            class File(UnsyncedFile):
                def sync(self) -> None:
                    synced.add(path.suffix)

            return File(path)

    made = segment(tmp_path, 0, *BATCHES)
    entries = iter([AbortedTransaction(7, 0, 1, 2)])
    files = Noting()
    rebuild_segment(made, check_segment(made), CONFIG, files, lambda *_: next(entries, None))
    assert synced == {".log", ".index", ".timeindex", ".txnindex"}
