"""Both comparisons notice a record that has changed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from downconvert import convert
from downconvert.spark.jobs.convert.verification import (
    COPY_SIZE,
    VerificationError,
    compare,
    is_copy,
)
from downconvert.storage import AbortedTransaction
from records import Codec, FileRecords, Record, build
from records.formats import V2
from tests.downconvert.storage.logs import batch

LARGE = 10**9
HELD = {"records": LARGE, "stream": 1000}


def opened(path: Path, *batches: bytes) -> FileRecords:
    path.write_bytes(b"".join(batches))
    return FileRecords.open(path)


@pytest.mark.parametrize("how", HELD)
@pytest.mark.parametrize("to_magic", [0, 1])
def test_records_are_equal_in_all_formats(tmp_path: Path, how: str, to_magic: int) -> None:
    source = opened(tmp_path / "a", batch(0, 1, 5, size=100_000, codec=Codec.ZSTD))
    target = opened(
        tmp_path / "b",
        batch(0, size=100_000, magic=to_magic),
        batch(1, 5, size=100_000, magic=to_magic, codec=Codec.GZIP),
    )
    found, count = compare(source, target, to_magic, [], HELD[how])
    assert (found, count) == (how, 3 if how == "records" else -1)


@pytest.mark.parametrize("how", HELD)
@pytest.mark.parametrize(
    "change",
    [
        lambda offset: batch(offset, size=99_999, magic=1),
        lambda offset: batch(offset + 1, size=100_000, magic=1),
        lambda offset: batch(offset, size=100_000, magic=1, timestamp=7),
        lambda _: b"",
        lambda offset: batch(offset, size=100_000, magic=1) * 2,
    ],
)
def test_a_target_that_differs_is_noticed(
    tmp_path: Path, how: str, change: Callable[[int], bytes]
) -> None:
    first = batch(0, size=100_000, magic=1)
    source = opened(tmp_path / "a", first, batch(1, size=100_000))
    target = opened(tmp_path / "b", first, change(1))
    with pytest.raises(VerificationError):
        compare(source, target, 1, [], HELD[how])


@pytest.mark.parametrize("how", HELD)
def test_aborted_records_are_not_missed(tmp_path: Path, how: str) -> None:
    options = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    source = opened(tmp_path / "a", batch(0, size=100_000), batch(1, 2, **options))
    target = opened(tmp_path / "b", batch(0, size=100_000, magic=1))
    aborted = [AbortedTransaction(7, 1, 3, 3)]
    assert compare(source, target, 1, aborted, HELD[how])[0] == how
    with pytest.raises(VerificationError):
        compare(source, target, 1, [], HELD[how])


def test_copies_are_compared_to_their_last_byte(tmp_path: Path) -> None:
    data = batch(0, size=3_000_000)
    source = opened(tmp_path / "a", data)
    assert is_copy(source, opened(tmp_path / "b", data))
    assert not is_copy(source, opened(tmp_path / "c", data[:-1] + b"?"))
    assert not is_copy(source, opened(tmp_path / "d", data[:-1]))
    assert not is_copy(source, opened(tmp_path / "e", data + b"?"))


@pytest.mark.parametrize("sizes", [(10, 100_000), (100_000, 10)])
@pytest.mark.parametrize("aborted", [[], [AbortedTransaction(7, 2, 3, 3)]])
def test_a_record_that_is_too_large_to_hold_is_not_held_on_either_side(
    tmp_path: Path, sizes: tuple[int, int], aborted: list[AbortedTransaction]
) -> None:
    lost = [batch(2, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)]
    batches = [batch(0, magic=1), batch(1, size=sizes[0], magic=1), *(lost if aborted else [])]
    source = opened(tmp_path / "a", *batches)
    target = opened(tmp_path / "b", batch(0, magic=1), batch(1, size=sizes[1], magic=1))
    with pytest.raises(VerificationError, match="does not say what"):  # of the streams
        compare(source, target, 1, aborted, HELD["stream"])
    with pytest.raises(VerificationError, match="the record at offset 1 is not as it was"):
        compare(source, target, 1, aborted, HELD["records"])


def test_a_file_longer_than_a_source_of_whole_pieces_is_not_its_copy(tmp_path: Path) -> None:
    source = opened(tmp_path / "a", b"x" * (2 * COPY_SIZE))
    assert is_copy(source, opened(tmp_path / "b", b"x" * (2 * COPY_SIZE)))
    assert not is_copy(source, opened(tmp_path / "c", b"x" * (2 * COPY_SIZE + 1)))


@pytest.mark.parametrize("to_magic", [0, 1])
def test_fields_that_old_formats_lack_are_not_missed(tmp_path: Path, to_magic: int) -> None:
    """Sequences and headers, each without the other."""
    headers = Record(2, 20, value=b"2", headers=(("h", b"x"),))
    sequences = batch(0, 1, producer_id=5, producer_epoch=0, base_sequence=40)
    source = opened(tmp_path / "a", sequences, build([headers], magic=V2), batch(3))
    target = b"".join(convert(source, to_magic))
    assert compare(source, opened(tmp_path / "b", target), to_magic, [], LARGE) == ("records", 4)
