"""Verifying indexes: good ones have no problems, and every problem of a bad one is reported."""

from pathlib import Path
from struct import Struct

import pytest

from downconvert.storage.names import Kind, parse_file_name
from downconvert.storage.verify import verify_indexes
from records import Codec, ControlRecordType, build_marker

from . import brokers
from .logs import batch, indexed_segment

OFFSET_ENTRY, TIME_ENTRY = Struct(">ii"), Struct(">qi")
ONE = len(batch(0, 1))


def problems(path: Path, base_offset: int = 0) -> list[str]:
    return [problem.reason for problem in verify_indexes(path, base_offset)]


@pytest.mark.parametrize("directory", brokers.directories())
def test_indexes_of_brokers_of_all_versions_fit_their_logs(real: Path, directory: str) -> None:
    """Though what their entries mean has changed."""
    checked = 0
    for path in (real / directory).rglob("*.log"):
        name = parse_file_name(path.name)
        assert name is not None
        assert problems(path.parent, name.offset) == []
        checked += 1
    assert checked > 3


@pytest.fixture
def path(tmp_path: Path) -> Path:
    indexed_segment(tmp_path, 0, *(batch(n, n + 1) for n in range(0, 20, 2)), interval=0)
    assert problems(tmp_path) == []
    return tmp_path


def set_entry(path: Path, kind: Kind, slot: int, entry: bytes) -> None:
    file = next(path.glob(f"*{kind}"))
    data = bytearray(file.read_bytes())
    data[slot * len(entry) : (slot + 1) * len(entry)] = entry
    file.write_bytes(data)


@pytest.mark.parametrize(
    ("slot", "offset", "position", "reason"),
    [
        (2, 7, 3 * ONE + 1, "no batch begins there"),
        (2, 7, 10**6, "no batch begins there"),
        (2, 6, 4 * ONE, "the batch there begins with offset 8"),
        (2, 3, 3 * ONE, "does not rise"),
        (2, 7, ONE, "does not rise"),
        (0, -1, ONE, "the batch there begins with offset 2"),
        (2, 7, 2 * ONE, None),  # the position of the entry before
        (2, 8, 3 * ONE, None),  # in the batch after that; below the next entry
        (8, 100, 9 * ONE, None),  # a lookup through it misses nothing
    ],
)
def test_a_misleading_offset_entry_is_reported(
    path: Path, slot: int, offset: int, position: int, reason: str | None
) -> None:
    set_entry(path, Kind.OFFSET_INDEX, slot, OFFSET_ENTRY.pack(offset, position))
    found = problems(path)
    if reason is None:
        assert found == []
    else:
        assert found[0].startswith(f"entry {slot} (offset {offset}, position {position})")
        assert reason in found[0]


@pytest.mark.parametrize(
    ("slot", "timestamp", "offset", "reason"),
    [
        (2, 69, 9, "a record before it has timestamp 70"),
        (2, 71, 7, "the batch there has 70 at most"),
        (2, 50, 7, "does not rise"),
        (1, 90, 5, "the batch there has 50 at most"),
        (2, 70, 3, "does not rise"),
        (0, 10, -1, "does not rise"),
        (8, 190, 20, "the log ends before that offset"),
    ],
)
def test_a_misleading_time_entry_is_reported(
    path: Path, slot: int, timestamp: int, offset: int, reason: str
) -> None:
    set_entry(path, Kind.TIME_INDEX, slot, TIME_ENTRY.pack(timestamp, offset))
    assert reason in problems(path)[0]


def test_indexes_of_another_size_or_order_are_reported(path: Path) -> None:
    file = next(path.glob("*.index"))
    file.write_bytes(file.read_bytes() + b"\1")
    assert problems(path) == ["its size is not a multiple of 8"]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ((0, 5, 0, 3, 4), "no marker of that producer"),
        ((0, 5, 9, 3, 4), "goes backwards"),
        ((1, 5, 0, 3, 4), "version 1 is not known"),
    ],
)
def test_an_entry_without_a_transaction_is_reported(
    path: Path, entry: tuple[int, ...], reason: str
) -> None:
    (path / "00000000000000000000.txnindex").write_bytes(Struct(">hqqqq").pack(*entry))
    assert reason in problems(path)[0]


def test_a_log_without_indexes_has_no_problems(path: Path) -> None:
    for kind in ("*.index", "*.timeindex"):
        next(path.glob(kind)).unlink()
    assert problems(path) == []


def test_the_first_batch_may_be_the_youngest(tmp_path: Path) -> None:
    """The entry then has the offset of the segment itself, when it is a batch of one record."""
    made = (batch(n, timestamp=100 - n) for n in range(7, 20))
    indexed_segment(tmp_path, 7, *made, interval=0)
    assert problems(tmp_path, 7) == []


def rewrite_times(path: Path, *entries: tuple[int, int]) -> None:
    (path / "00000000000000000000.timeindex").write_bytes(
        b"".join(TIME_ENTRY.pack(*entry) for entry in entries)
    )


def test_time_entries_may_share_an_offset_and_skip_older_batches(tmp_path: Path) -> None:
    made = [batch(n, timestamp=time) for n, time in enumerate((50, 90, 70, 80, 90, 95))]
    indexed_segment(tmp_path, 0, *made, interval=0)
    rewrite_times(tmp_path, (50, 0), (90, 1), (95, 5))
    assert problems(tmp_path) == []
    rewrite_times(tmp_path, (60, 1), (90, 1), (95, 5))
    assert problems(tmp_path) == []
    rewrite_times(tmp_path, (80, 3), (95, 5))
    assert problems(tmp_path) == [
        "entry 0 (timestamp 80, offset 3): a record before it has timestamp 90"
    ]
    rewrite_times(tmp_path, (90, 4), (95, 5))  # as old as one before it: a lookup finds that later
    assert problems(tmp_path) == []


def test_messages_without_timestamps_fit_any_time_entry(tmp_path: Path) -> None:
    """Their broker may have known when they were appended."""
    made = [batch(n, magic=magic) for n, magic in enumerate((0, 0, 1))]
    indexed_segment(tmp_path, 0, *made, interval=0)
    rewrite_times(tmp_path, (500, 1))
    assert problems(tmp_path) == []
    rewrite_times(tmp_path, (500, 2))
    assert problems(tmp_path) == [
        "entry 0 (timestamp 500, offset 2): the batch there has 20 at most"
    ]


def test_an_old_message_may_be_found_by_an_offset_within_its_append(tmp_path: Path) -> None:
    """Only the last offset of a compressed message of v1 is known."""
    made = [batch(*range(n, n + 3), magic=1, codec=Codec.GZIP) for n in (0, 3)]
    indexed_segment(tmp_path, 0, *made, interval=0)
    index = tmp_path / "00000000000000000000.index"
    for offset, expected in ((3, 0), (5, 0), (2, 1)):
        index.write_bytes(OFFSET_ENTRY.pack(offset, len(made[0])))
        assert len(problems(tmp_path)) == expected


def test_an_entry_before_its_batch_misleads_also_where_offsets_are_missing(tmp_path: Path) -> None:
    """A lookup of that offset would begin after it, if it came back from another replica."""
    made = [batch(0, 1), batch(5, 6)]
    indexed_segment(tmp_path, 0, *made, interval=10**6)
    index = tmp_path / "00000000000000000000.index"
    for offset, count in ((4, 1), (5, 0), (6, 0)):
        index.write_bytes(OFFSET_ENTRY.pack(offset, len(made[0])))
        assert len(problems(tmp_path)) == count


def test_offsets_that_fall_in_the_log_count_up_to_the_highest(tmp_path: Path) -> None:
    """The highest offset of all batches before an entry counts, not that of the last one."""
    made = [batch(0), batch(9), batch(4), batch(7, 12)]
    indexed_segment(tmp_path, 0, *made, interval=10**6)
    index = tmp_path / "00000000000000000000.index"
    index.write_bytes(OFFSET_ENTRY.pack(8, sum(map(len, made[:3]))))
    assert problems(tmp_path)
    index.write_bytes(OFFSET_ENTRY.pack(12, sum(map(len, made[:3]))))
    assert problems(tmp_path) == []


def test_a_transaction_has_a_marker_of_its_own_producer(tmp_path: Path) -> None:
    kind = ControlRecordType.ABORT
    made = [
        batch(0, transactional=True, producer_id=5, producer_epoch=0, base_sequence=0),
        build_marker(kind, offset=1, timestamp=0, producer_id=5, producer_epoch=0),
    ]
    other = tmp_path / "other"
    indexed_segment(other, 0, *made)
    for producer, first, count in ((5, 0, 0), (6, 0, 1), (5, 1, 0), (5, 2, 1)):
        entry = Struct(">hqqqq").pack(0, producer, first, 1, 2)
        (other / "00000000000000000000.txnindex").write_bytes(entry)
        assert len(problems(other)) == count
