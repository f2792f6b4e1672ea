"""A segment finds what a scan of its log would find, whatever its indexes say."""

from pathlib import Path
from random import Random

import pytest

from downconvert.storage import LogConfig
from downconvert.storage.disk.open_files import OpenFiles
from downconvert.storage.indexes.offset_index import ENTRY
from downconvert.storage.names import Kind
from downconvert.storage.segments.segment import Segment
from downconvert.storage.segments.segment_writer import SegmentWriter
from records import CorruptRecordsError, FileRecords
from records.batches.builder import build
from records.formats import V0, V1, V2, Codec, TimestampType
from records.record import Record
from tests.downconvert.storage.logs import UNSYNCED, append, batch, indexed_segment, segment


@pytest.fixture
def gap(tmp_path: Path) -> Segment:
    """Batches of offsets 50-51 and 60-61, as compaction leaves them."""
    return indexed_segment(tmp_path, 40, batch(50, 51), batch(60, 61))


def first_offset(found: object) -> int | None:
    return None if found is None else next(found.batches()).base_offset  # type: ignore[attr-defined]


def test_a_read_from_before_the_first_offset_or_a_gap_starts_at_the_next_batch(
    gap: Segment,
) -> None:
    assert first_offset(gap.read(40, 300, gap.size)) == 50
    assert first_offset(gap.read(50, 300, gap.size)) == 50
    assert first_offset(gap.read(51, 300, gap.size)) == 50  # a batch is not cut
    assert first_offset(gap.read(52, 300, gap.size)) == 60
    assert first_offset(gap.read(61, 300, gap.size)) == 60


def test_a_read_after_the_last_offset_or_of_an_empty_segment_finds_nothing(
    gap: Segment, tmp_path: Path
) -> None:
    assert gap.read(62, 300, gap.size) is None
    empty = indexed_segment(tmp_path / "empty", 40)
    assert empty.read(40, 300, 0) is None


def test_a_read_has_at_most_max_bytes_but_at_least_one_batch(gap: Segment) -> None:
    one = gap.size // 2
    for max_bytes, size in ((0, one), (one - 1, one), (one + 3, one + 3), (10**9, 2 * one)):
        found = gap.read(50, max_bytes, gap.size)
        assert found is not None
        assert found.size == size
    limited = gap.read(50, 10**9, one)
    assert limited is not None
    assert limited.size == one
    assert gap.read(60, 10**9, one) is None


def test_a_repeated_read_needs_no_search_in_the_file(
    gap: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = gap.read(51, 300, gap.size)
    size = gap.size
    with monkeypatch.context() as patched:
        patched.setattr(FileRecords, "read_into", lambda *_: pytest.fail("it reads again"))
        again = gap.read(51, 300, size)
    assert before is not None
    assert again is not None
    assert (again.origin, again.size, again.first) == (before.origin, before.size, before.first)
    for offset in range(50, 62):  # more than are remembered
        expected = 50 if offset < 52 else 60
        assert first_offset(gap.read(offset, 300, size)) == expected
        assert first_offset(gap.read(offset, 300, size)) == expected


def test_the_batch_after_a_known_one_is_found_without_a_search(
    gap: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a consumer reads that gets batch after batch."""
    assert first_offset(gap.read(50, 0, gap.size)) == 50
    searched = []
    find = Segment.find
    monkeypatch.setattr(Segment, "find", lambda *args: searched.append(args[1]) or find(*args))
    after = gap.read(52, 0, gap.size)
    assert after is not None
    assert after.first == next(after.batches())
    assert after.first.base_offset == 60
    assert searched == []
    assert gap.read(62, 0, gap.size) is None
    assert gap.read(52, 300, gap.size // 2) is None
    assert searched == [62, 52]


@pytest.mark.parametrize("seed", range(20))
def test_reads_in_any_order_equal_those_of_a_new_reader(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    made = indexed_segment(tmp_path, 0, *BATCHES, interval=200)
    offset = 0
    for _ in range(200):
        found = made.read(offset, random.choice((0, 500)), made.size)
        new = Segment(tmp_path, 0, OpenFiles())
        expected = new.read(offset, found.size if found else 0, made.size)
        new.release()
        assert (found is None) == (expected is None)
        if found is None or expected is None or random.random() < 0.1:
            offset = random.randrange(600)
            continue
        assert (found.origin, found.size, found.first) == (
            expected.origin,
            expected.size,
            expected.first,
        )
        assert found.first is not None
        offset = random.choice((found.first.last_offset + 1, offset + 1))


def test_a_batch_below_the_one_before_it_is_searched_for(tmp_path: Path) -> None:
    """In a damaged log, offsets may fall. A reader then begins where any other does."""
    made = segment(tmp_path, 0, batch(5, 6), batch(2, 9), batch(10))
    assert first_offset(made.read(5, 0, made.size)) == 5
    new = Segment(tmp_path, 0, OpenFiles())
    assert first_offset(made.read(7, 0, made.size)) == first_offset(new.read(7, 0, made.size))


def test_remembered_batches_are_dropped_with_the_file(gap: Segment) -> None:
    assert first_offset(gap.read(51, 300, gap.size)) == 50
    assert gap.read(51, 300, 10) is None  # the batch is not whole up to there
    gap.release()
    gap.path().write_bytes(batch(51, 52))  # as after a cut
    assert first_offset(gap.read(51, 300, gap.size)) == 51


def test_a_time_leads_to_the_first_record_that_is_not_older(tmp_path: Path) -> None:
    made = indexed_segment(tmp_path, 40, *(batch(n, n + 1) for n in range(40, 50, 2)))
    for time, offset in ((420, 42), (421, 43), (430, 43), (431, 44), (401, 41), (399, 40)):
        found = made.find_timestamp(time, 40, made.size)
        assert found is not None
        assert found.offset == offset
    assert made.find_timestamp(491, 40, made.size) is None
    later = made.find_timestamp(420, 45, made.size)
    assert later is not None
    assert later.offset == 45


def test_a_segment_without_indexes_is_scanned(tmp_path: Path) -> None:
    """Brokers before 0.10.1 wrote no time index; any index may have been lost."""
    made = segment(tmp_path, 0, *(batch(n) for n in range(20)))
    assert first_offset(made.read(13, 1, made.size)) == 13
    found = made.find_timestamp(131, 0, made.size)
    assert found is not None
    assert found.offset == 14
    assert made.max_timestamp() is None


BATCHES = [
    batch(
        n,
        n + 1,
        magic=(V2, V1, V0)[n % 3],
        codec=(Codec.NONE, Codec.GZIP)[n % 2],
        timestamp=None if n % 3 < 2 else -1,
    )
    for n in range(0, 600, 2)
]


@pytest.mark.parametrize("seed", range(60))
def test_indexes_with_any_content_mislead_no_reader(tmp_path: Path, seed: int) -> None:
    """Those of a crash: old entries, zeros, entries of another log, bytes of any kind."""
    random = Random(seed)
    made = indexed_segment(tmp_path, 0, *BATCHES, interval=200)
    path = made.path(Kind.OFFSET_INDEX)
    data = bytearray(path.read_bytes())
    for _ in range(random.choice((1, 5, 200))):
        at = random.randrange(0, len(data), 8)
        data[at : at + 8] = random.choice(
            (
                random.randbytes(8),
                bytes(8),
                ENTRY.pack(random.randrange(600), random.randrange(made.size + 100)),
                ENTRY.pack(random.randrange(2**31), random.randrange(2**31)),
            )
        )
    made.release()
    path.write_bytes(data)
    for offset in random.sample(range(600), 60):
        found = made.find(offset, made.size)
        assert found is not None
        position, header = found
        records = made.slice(position, position + header.size)
        first = header.last_offset - 1 if header.magic < V2 else header.base_offset
        assert first <= offset <= header.last_offset
        assert next(records.batches()).last_offset == header.last_offset


def test_an_index_with_a_torn_entry_is_read(gap: Segment) -> None:
    gap.release()
    path = gap.path(Kind.OFFSET_INDEX)
    path.write_bytes(path.read_bytes() + b"\x01\x02\x03")
    assert first_offset(gap.read(60, 1, gap.size)) == 60


def test_damage_before_the_searched_offset_is_an_error(tmp_path: Path) -> None:
    data = bytearray(batch(0) + batch(1) + batch(2))
    data[len(data) // 3 + 8 : len(data) // 3 + 12] = bytes(4)  # a size of 0
    made = segment(tmp_path, 0, bytes(data))
    assert first_offset(made.read(0, 1, made.size)) == 0
    with pytest.raises(CorruptRecordsError, match="smaller than a message header, at byte"):
        made.read(2, 1, made.size)


def test_a_read_range_stays_valid_when_the_segment_is_released_or_deleted(gap: Segment) -> None:
    found = gap.read(60, 10**6, gap.size)
    assert found is not None
    data = bytearray(found.size)
    gap.release()
    gap.path().unlink()
    assert found.read_into(memoryview(data), 0) == found.size
    assert bytes(data) == batch(60, 61)


def test_files_are_opened_again_when_they_are_needed(tmp_path: Path) -> None:
    open_files = OpenFiles(2)
    segments = [
        Segment(tmp_path, indexed_segment(tmp_path, base, batch(base)).base_offset, open_files)
        for base in range(5)
    ]
    for _ in range(3):
        for made in segments:
            assert first_offset(made.read(made.base_offset, 1, made.size)) == made.base_offset
    opened = [one.resolve() for one in Path("/proc/self/fd").iterdir()]
    logs = {made.path() for made in segments}
    assert sum(path in logs for path in opened) == 2


def test_a_log_that_a_cleaner_replaced_is_read_with_its_own_index(tmp_path: Path) -> None:
    """The old log has been opened; then log and index are replaced."""
    old = indexed_segment(tmp_path, 0, *(batch(n, size=300) for n in range(50)), interval=600)
    new = indexed_segment(tmp_path / "new", 0, *(batch(n) for n in range(0, 50, 5)), interval=100)
    assert first_offset(old.slice(0, old.size)) == 0  # opens the log only
    for kind in (Kind.LOG, Kind.OFFSET_INDEX, Kind.TIME_INDEX):
        new.path(kind).replace(old.path(kind))
    for offset in range(46):
        found = old.find(offset, old.size)
        assert found is not None
        assert found[1].base_offset == -(-offset // 5) * 5


def test_a_trimmed_or_shortened_index_is_opened_again(tmp_path: Path) -> None:
    made = indexed_segment(tmp_path, 0, *(batch(n, size=300) for n in range(3000)), interval=0)
    assert first_offset(made.read(2999, 1, made.size)) == 2999
    with made.path(Kind.OFFSET_INDEX).open("r+b") as file:
        file.truncate(16)
    assert first_offset(made.read(2999, 1, made.size)) == 2999


def test_a_value_that_looks_like_an_older_log_is_not_read_as_one(tmp_path: Path) -> None:
    """An entry of a damaged index leads into it."""
    inner = batch(0) + batch(1) + batch(2)
    time = TimestampType.CREATE
    outer = build([Record(100, 0, time, None, inner)], magic=V2)
    made = indexed_segment(tmp_path, 100, outer, batch(101), batch(102))
    made.release()
    made.path(Kind.OFFSET_INDEX).write_bytes(ENTRY.pack(1, outer.index(inner)))
    for offset in (101, 102):
        assert first_offset(made.read(offset, 1, made.size)) == offset


def test_a_reader_uses_new_index_entries_when_the_log_has_grown(tmp_path: Path) -> None:
    """Else it would search more and more of the log at each read."""
    config = LogConfig(index_interval_bytes=1000)
    writer = SegmentWriter(segment(tmp_path, 0), 0, 0, config, UNSYNCED)
    append(writer, batch(0))
    reader = Segment(tmp_path, 0, OpenFiles())
    assert first_offset(reader.read(0, 1, reader.size)) == 0
    for offset in range(1, 60):
        append(writer, batch(offset, size=40_000))
    assert reader.slice_from(59, reader.size).origin > reader.size - 3 * 40_000
    writer.close()
