"""Going from header to header, by the rules of Kafka's file stream."""

from collections.abc import Callable
from pathlib import Path

import pytest

from records import CorruptRecordsError, FileRecords, MemoryRecords, Records
from records.files.source import TRUNCATED, WINDOW_SIZE
from records.formats import V0, V1
from tests.records.examples import GAPS, TWO_RECORDS, batch, damaged, message, record

Opened = Callable[[bytes], Records]

# Entries of all formats, small and larger than a window, so that heads lie across its ends.
LOG = [
    message(V0, 0),
    GAPS,
    message(V1, 20, None, bytes(3 * WINDOW_SIZE)),
    TWO_RECORDS[V0, "lz4"],
    TWO_RECORDS[V1, "lz4"],
    batch(record(0, None, bytes(WINDOW_SIZE - 200))),
    *[message(V0, 0, None, bytes(n)) for n in range(100)],
]


@pytest.fixture(params=["file", "memory", "slice of a file", "slice of memory"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    """The same bytes, wherever they lie."""

    def opened(data: bytes) -> Records:
        if "slice" in request.param:
            return within(b"before" + data + GAPS).slice(6, len(data))
        return within(data)

    def within(data: bytes) -> Records:
        if "memory" in request.param:
            return MemoryRecords(data)
        path = tmp_path / "00000000000000000000.log"
        path.write_bytes(data)
        return FileRecords.open(path)

    return opened


def test_headers_come_in_order_with_the_positions_of_their_entries(opened: Opened) -> None:
    headers = list(opened(b"".join(LOG)).batches())
    assert [header.size for header in headers] == [len(entry) for entry in LOG]
    positions = [sum(map(len, LOG[:n])) for n in range(len(LOG))]
    assert [header.position for header in headers] == positions


def test_a_tail_too_short_for_a_magic_is_ignored_whatever_it_holds(opened: Opened) -> None:
    for size in range(18):
        assert len(list(opened(GAPS + bytes(size)).batches())) == 1


def test_eighteen_zero_bytes_are_an_entry_that_is_too_small(opened: Opened) -> None:
    records = opened(GAPS + bytes(18))
    with pytest.raises(CorruptRecordsError, match="entry is smaller") as caught:
        list(records.batches())
    assert caught.value.position == records.origin + len(GAPS)


@pytest.mark.parametrize("entry", [GAPS, message(V0, 0), message(V1, 0)])
def test_an_entry_cut_short_ends_the_batches_without_an_error(entry: bytes, opened: Opened) -> None:
    for size in range(len(entry)):
        assert len(list(opened(GAPS + entry[:size]).batches())) == 1


@pytest.mark.parametrize("size", [18, 40, 60])
def test_an_entry_cut_short_of_an_unknown_format_is_damage(size: int, opened: Opened) -> None:
    unknown = damaged(GAPS, magic=9)
    assert size < len(unknown)
    records = opened(GAPS + unknown[:size])
    with pytest.raises(CorruptRecordsError, match="unknown magic") as caught:
        list(records.batches())
    assert caught.value.position == records.origin + len(GAPS)


def test_a_batch_smaller_than_its_header_is_torn_before_it_is_damaged(opened: Opened) -> None:
    small = damaged(GAPS, size=48)
    with pytest.raises(CorruptRecordsError, match="batch is smaller than its header"):
        list(opened(small[:60]).batches())
    assert list(opened(small[:59]).batches()) == []


def test_good_data_before_damage_is_returned(opened: Opened) -> None:
    records = opened(GAPS + GAPS + damaged(GAPS, magic=9, checksum="wrong"))
    found = records.batches()
    assert [next(found).position, next(found).position] == [0, len(GAPS)]
    with pytest.raises(CorruptRecordsError, match="unknown magic") as caught:
        next(found)
    assert caught.value.position == records.origin + 2 * len(GAPS)


def test_a_claimed_size_of_two_gigabytes_is_a_torn_entry(opened: Opened) -> None:
    assert list(opened(damaged(GAPS, size=2**31 - 1)).batches()) == []


def test_an_empty_source_has_no_batches(opened: Opened) -> None:
    assert list(opened(b"").batches()) == []


class Watched(MemoryRecords):
    """Notes the size of each read."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.reads: list[int] = []

    def read_into(self, target: memoryview, position: int) -> int:
        self.reads.append(len(target))
        return super().read_into(target, position)


def test_bodies_are_not_read() -> None:
    large = message(V1, 0, None, bytes(1_000_000))
    watched = Watched(large * 10)
    assert len(list(watched.batches())) == 10
    assert sum(watched.reads) <= 10 * WINDOW_SIZE


def test_one_read_serves_many_small_batches() -> None:
    watched = Watched(GAPS * 1000)
    assert len(list(watched.batches())) == 1000
    assert len(watched.reads) <= 1000 * len(GAPS) // (WINDOW_SIZE - 61 - len(GAPS)) + 1


def test_a_file_keeps_the_size_that_it_had_when_it_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(GAPS * 2)
    with FileRecords.open(path) as records:
        found = records.batches()
        next(found)
        with path.open("ab") as log:
            log.write(GAPS * 100)
        assert len(list(found)) == 1


def test_a_file_that_shrinks_during_a_read_is_reported_as_truncated(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(GAPS * 1000)
    with FileRecords.open(path) as records:
        found = records.batches()
        next(found)
        with path.open("r+b") as log:
            log.truncate(500 * len(GAPS) + 10)
        with pytest.raises(CorruptRecordsError, match=TRUNCATED) as caught:
            list(found)
    assert caught.value.position == 500 * len(GAPS)
