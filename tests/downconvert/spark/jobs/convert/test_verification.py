"""Both comparisons notice a record that has changed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from downconvert.spark.jobs.convert.verification import VerificationError, compare, is_copy
from downconvert.storage import AbortedTransaction
from records import Codec, FileRecords
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
def test_a_record_that_is_too_large_to_hold_is_not_held_on_either_side(
    tmp_path: Path, sizes: tuple[int, int]
) -> None:
    source = opened(tmp_path / "a", batch(0, magic=1), batch(1, size=sizes[0], magic=1))
    target = opened(tmp_path / "b", batch(0, magic=1), batch(1, size=sizes[1], magic=1))
    with pytest.raises(VerificationError, match="does not say what"):  # of the streams
        compare(source, target, 1, [], HELD["stream"])
    with pytest.raises(VerificationError, match="the record at offset 1 is not as it was"):
        compare(source, target, 1, [], HELD["records"])
