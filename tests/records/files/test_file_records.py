"""Records in a file: ranges of it that share a descriptor."""

import os
from pathlib import Path

import pytest

from records import ClosedRecordsError, FileRecords
from records.batches.builder import build
from records.formats import V2, TimestampType
from records.record import Record

DATA = bytes(range(256)) * 8


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(DATA)
    return path


def content(records: FileRecords) -> bytes:
    target = bytearray(records.size)
    assert records.read_into(memoryview(target), 0) == records.size
    return bytes(target)


def test_a_read_returns_the_bytes_at_its_position(path: Path) -> None:
    target = bytearray(10)
    with FileRecords.open(path) as records:
        assert records.read_into(memoryview(target), 300) == 10
    assert target == DATA[300:310]


def test_a_read_is_short_only_at_the_end(path: Path) -> None:
    target = bytearray(10)
    with FileRecords.open(path) as records:
        assert records.read_into(memoryview(target), len(DATA) - 4) == 4
        assert records.read_into(memoryview(target), len(DATA)) == 0
        assert records.read_into(memoryview(target), len(DATA) + 1) == 0
        assert records.slice(10, 5).read_into(memoryview(target), 6) == 0
    assert target[:4] == DATA[-4:]


def test_a_read_at_a_negative_position_is_refused(path: Path) -> None:
    with FileRecords.open(path) as records, pytest.raises(ValueError, match="negative position"):
        records.slice(100, 10).read_into(memoryview(bytearray(4)), -1)


@pytest.mark.parametrize(
    ("position", "size", "expected"),
    [
        (0, len(DATA), DATA),
        (100, 50, DATA[100:150]),
        (100, len(DATA), DATA[100:]),
        (100, 2**63, DATA[100:]),
        (len(DATA), 0, b""),
        (len(DATA), 10, b""),
    ],
)
def test_a_slice_is_cut_off_at_the_end(
    path: Path, position: int, size: int, expected: bytes
) -> None:
    with FileRecords.open(path) as records:
        part = records.slice(position, size)
        assert (part.size, part.origin) == (len(expected), position)
        assert content(part) == expected


@pytest.mark.parametrize(("position", "size"), [(-1, 0), (0, -1), (len(DATA) + 1, 0)])
def test_a_slice_outside_of_the_records_is_refused(path: Path, position: int, size: int) -> None:
    with FileRecords.open(path) as records, pytest.raises(ValueError, match="slice"):
        records.slice(position, size)


def test_a_slice_of_a_slice_counts_from_the_slice(path: Path) -> None:
    with FileRecords.open(path) as records:
        part = records.slice(1000, 100).slice(50, 100)
        assert (part.size, part.origin) == (50, 1050)
        assert content(part) == DATA[1050:1100]


def test_a_slice_never_reads_beyond_its_end(path: Path) -> None:
    target = bytearray(100)
    with FileRecords.open(path) as records:
        assert records.slice(10, 20).read_into(memoryview(target), 15) == 5
    assert bytes(target[5:]) == bytes(95)


def test_a_file_that_shrank_gives_a_short_read(path: Path) -> None:
    target = bytearray(len(DATA))
    with FileRecords.open(path) as records:
        os.truncate(path, 100)
        assert records.size == len(DATA)
        assert records.read_into(memoryview(target), 0) == 100
        assert records.read_into(memoryview(target), 500) == 0


def test_short_reads_of_the_system_are_joined(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preadv = os.preadv  # gives no more than 2 GiB at once

    def at_most_100(file: int, targets: tuple[memoryview], position: int) -> int:
        return preadv(file, (targets[0][:100],), position)

    monkeypatch.setattr(os, "preadv", at_most_100)
    with FileRecords.open(path) as records:
        assert content(records.slice(5, 950)) == DATA[5:955]


def test_after_close_no_slice_reads_another_file(path: Path) -> None:
    records = FileRecords.open(path)
    part = records.slice(0, 10)
    records.close()
    with path.open("rb"), pytest.raises(ValueError, match="closed"):
        part.read_into(memoryview(bytearray(1)), 0)


def test_a_file_that_another_holder_closed_is_closed(path: Path) -> None:
    records = FileRecords.open(path)
    records.file.close()
    with pytest.raises(ClosedRecordsError, match=path.name):
        records.fileno()
    with pytest.raises(ClosedRecordsError, match=path.name):
        records.slice(0, 10).read_into(memoryview(bytearray(1)), 0)


def test_a_file_that_cannot_be_opened_is_pythons_own_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FileRecords.open(tmp_path / "missing.log")
    with pytest.raises(IsADirectoryError):
        FileRecords.open(tmp_path)


def test_a_pipe_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="is not a regular file"):
        FileRecords.open(pipe)


def test_its_name_is_the_path_of_its_file(path: Path) -> None:
    with FileRecords.open(path) as records:
        assert records.slice(1, 2).name == str(path)
        assert records.fileno() == records.slice(1, 2).fileno()
        assert "2 bytes at 1" in repr(records.slice(1, 2))


def test_a_file_is_never_mapped_because_a_truncated_mapping_kills_the_process(path: Path) -> None:
    with FileRecords.open(path) as records:
        assert records.view is None
        assert records.slice(1, 2).view is None


def test_an_empty_file_has_no_records(tmp_path: Path) -> None:
    path = tmp_path / "empty.log"
    path.touch()
    with FileRecords.open(path) as records:
        assert records.size == 0
        assert not list(records.batches())


def test_a_first_header_that_was_just_read_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"".join(build(numbered(n, n + 2), magic=V2) for n in (0, 2)))
    with FileRecords.open(path) as records:
        headers = list(records.batches())
        known = FileRecords(records.file, 0, records.size, first=headers[0])
        assert list(known.batches()) == headers
        assert list(known.slice(0, headers[0].size).batches()) == headers[:1]
        assert not list(known.slice(0, headers[0].size - 1).batches())  # the batch is not whole
        second = known.slice(headers[0].size, headers[1].size)
        assert [header.base_offset for header in second.batches()] == [2]
        monkeypatch.setattr(FileRecords, "read_into", None)  # nothing may be read
        assert next(known.batches()) == headers[0]


def numbered(start: int, end: int) -> list[Record]:
    return [Record(n, 0, TimestampType.CREATE, None, b"") for n in range(start, end)]
