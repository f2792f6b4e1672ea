"""The bytes of a segment in another format: what is counted, what is copied, and what ends it."""

from pathlib import Path
from typing import Any

import pytest

from downconvert import ConversionPolicy
from downconvert.spark.jobs.convert.rewrite import COPY_SIZE, Rewritten, Settings, rewrite
from downconvert.storage import AbortedTransaction
from downconvert.storage.names import OFFSET_MAX
from records import (
    Codec,
    ControlRecordType,
    CorruptRecordsError,
    FileRecords,
    RecordTooLargeError,
    build_marker,
    read_batch,
)
from records.formats import V0, V2
from tests.downconvert.storage.logs import batch

ABORT, COMMIT = ControlRecordType.ABORT, ControlRecordType.COMMIT
ABORTED = AbortedTransaction(7, 2, 8, 9)
BEFORE = 5  # bytes of the file that belong to something else


def transactional(*offsets: int, producer_id: int) -> bytes:
    return batch(*offsets, producer_id=producer_id, producer_epoch=0, transactional=True)


def marker(kind: ControlRecordType, offset: int, producer_id: int) -> bytes:
    return build_marker(kind, offset=offset, timestamp=0, producer_id=producer_id)


MIXED = (
    batch(0, 1),
    transactional(2, 3, producer_id=7),
    transactional(4, producer_id=8),
    transactional(5, 6, 7, producer_id=7),
    marker(ABORT, 8, 7),
    transactional(9, producer_id=7),
    marker(COMMIT, 10, 8),
    marker(COMMIT, 11, 7),
)


def records_of(path: Path, data: bytes) -> FileRecords:
    path.write_bytes(b"?" * BEFORE + data)
    return FileRecords.open(path).slice(BEFORE, len(data))


def rewritten(
    path: Path,
    data: bytes,
    to_magic: int,
    aborted: tuple[AbortedTransaction, ...] = (),
    **more: Any,
) -> tuple[Rewritten, bytes]:
    out = bytearray()
    settings = Settings(to_magic=to_magic, **more)
    source = records_of(path / "log", data)
    found = rewrite(source, out.extend, settings, list(aborted), 0, OFFSET_MAX)
    return found, bytes(out)


def offsets_in(path: Path, data: bytes) -> list[int]:
    (path / "out").write_bytes(data)
    with FileRecords.open(path / "out") as found:
        return [one.offset for header in found.batches() for one in read_batch(found, header)]


@pytest.mark.parametrize(
    ("isolation", "expected"),
    [
        ("read_uncommitted", [0, 1, 2, 3, 4, 5, 6, 7, 9]),
        ("read_committed", [0, 1, 4, 9]),
    ],
)
def test_records_that_are_left_out_are_counted_as_read(
    tmp_path: Path, isolation: str, expected: list[int]
) -> None:
    found, out = rewritten(tmp_path, b"".join(MIXED), 1, (ABORTED,), isolation=isolation)
    assert offsets_in(tmp_path, out) == expected
    assert (found.batches, found.control_batches, found.aborted_batches) == (8, 3, 2)
    assert found.records_converted == len(expected)
    assert not found.is_copy


def test_v2_keeps_aborted_records(tmp_path: Path) -> None:
    data = b"".join(MIXED)
    found, out = rewritten(tmp_path, data, V2, (ABORTED,), isolation="read_committed")
    assert out == data
    assert found == Rewritten(8, 0, 3, 2, is_copy=True)


@pytest.mark.parametrize("is_old_first", [True, False])
def test_runs_of_old_batches_are_upgraded_and_others_copied(
    tmp_path: Path, is_old_first: bool
) -> None:
    new, last = batch(10, 11, codec=Codec.GZIP) + batch(12), batch(30)
    old = batch(0, magic=0) + batch(1, 2, codec=Codec.GZIP, magic=1)
    later = batch(20, magic=1)
    parts = [old, new, later, last] if is_old_first else [new, later, last]
    found, out = rewritten(tmp_path, b"".join(parts), V2)
    assert new in out
    assert out.endswith(last)
    whole = [0, 1, 2] if is_old_first else []
    assert offsets_in(tmp_path, out) == [*whole, 10, 11, 12, 20, 30]
    assert found.batches == (6 if is_old_first else 4)
    assert found.records_converted == len(whole) + 1
    assert not found.is_copy
    with FileRecords.open(tmp_path / "out") as made:
        assert {header.magic for header in made.batches()} == {V2}


@pytest.mark.parametrize("to_magic", [0, 1, 2])
@pytest.mark.parametrize("size", [1, 11, 12, 20, 60])
def test_bytes_after_the_last_batch_are_damage(tmp_path: Path, to_magic: int, size: int) -> None:
    whole = batch(0, magic=1) + batch(1, 2)
    with pytest.raises(CorruptRecordsError) as caught:
        rewritten(tmp_path, whole + batch(3)[:size], to_magic)
    assert caught.value.position == BEFORE + len(whole)


@pytest.mark.parametrize("to_magic", [0, 1, 2])
def test_bytes_without_a_whole_batch_are_damage(tmp_path: Path, to_magic: int) -> None:
    with pytest.raises(CorruptRecordsError, match="what follows is not a whole batch") as caught:
        rewritten(tmp_path, batch(0)[:20], to_magic)
    assert caught.value.position == BEFORE


def test_an_old_record_is_upgraded_up_to_the_size_that_is_asked_for(tmp_path: Path) -> None:
    data = batch(0, magic=1) + batch(1, size=200_000, magic=1)
    assert rewritten(tmp_path, data, 2, record_size_max=201_000)[0].records_converted == 2
    with pytest.raises(RecordTooLargeError):
        rewritten(tmp_path, data, 2, record_size_max=100_000)


@pytest.mark.parametrize("to_magic", [0, 1])
def test_nothing_is_written_in_an_old_format_before_all_was_verified(
    tmp_path: Path, to_magic: int
) -> None:
    good, bad = b"".join(map(batch, range(200))), bytearray(batch(200, size=50))
    bad[-9] ^= 1
    out: list[bytes | memoryview] = []
    source = records_of(tmp_path / "log", good + bytes(bad))
    with pytest.raises(CorruptRecordsError, match="checksum"):
        rewrite(source, out.append, Settings(to_magic=to_magic), [], 0, OFFSET_MAX)
    assert out == []


def test_a_copy_of_a_file_that_is_cut_meanwhile_says_where(tmp_path: Path) -> None:
    old = batch(0, magic=V0)
    large = batch(1, size=COPY_SIZE) + batch(2, size=COPY_SIZE)
    source = records_of(tmp_path / "log", old + large)
    sizes: list[int] = []

    def write(data: bytes | memoryview) -> None:
        sizes.append(len(data))
        if len(sizes) == 2:  # the first piece of what is copied
            with (tmp_path / "log").open("r+b") as file:
                file.truncate(BEFORE + len(old) + COPY_SIZE)

    with pytest.raises(CorruptRecordsError) as caught:
        rewrite(source, write, Settings(to_magic=V2), [], 0, OFFSET_MAX)
    assert sizes[1:] == [COPY_SIZE]
    assert caught.value.position == BEFORE + len(old) + COPY_SIZE


BASE = ConversionPolicy(recode={"zstd": "gzip"}, wrapper_size_max=2**20)


@pytest.mark.parametrize(
    "other",
    [
        Settings(to_magic=0, policy=BASE),
        Settings(to_magic=2, policy=BASE),
        Settings(to_magic=1, policy=BASE, isolation="read_committed"),
        Settings(to_magic=1, policy=ConversionPolicy(recode={}, wrapper_size_max=2**20)),
        Settings(
            to_magic=1,
            policy=ConversionPolicy(recode={"zstd": "snappy"}, wrapper_size_max=2**20),
        ),
        Settings(
            to_magic=1,
            policy=ConversionPolicy(recode={"zstd": "gzip"}, wrapper_size_max=2**21),
        ),
        Settings(
            to_magic=1,
            policy=ConversionPolicy(
                recode={"zstd": "gzip"}, wrapper_size_max=2**20, split_at_gaps=False
            ),
        ),
        Settings(
            to_magic=1,
            policy=ConversionPolicy(
                recode={"zstd": "gzip"}, wrapper_size_max=2**20, compression_level="kafka"
            ),
        ),
    ],
    ids=str,
)
def test_settings_that_make_other_bytes_have_another_text(other: Settings) -> None:
    assert str(other) != str(Settings(to_magic=1, policy=BASE))


def test_settings_that_make_the_same_bytes_have_the_same_text() -> None:
    assert str(Settings(to_magic=2, policy=BASE, isolation="read_committed")) == "v2"
    recode = {"zstd": "gzip", "lz4:magic0": "gzip"}
    texts = {
        str(Settings(to_magic=1, policy=ConversionPolicy(recode=dict(order))))
        for order in (recode.items(), reversed(recode.items()))
    }
    assert len(texts) == 1


@pytest.mark.parametrize("magic", [-1, 3])
def test_there_is_no_other_format(magic: int) -> None:
    with pytest.raises(ValueError, match=f"to_magic must be 0, 1 or 2, not {magic}"):
        Settings(to_magic=magic)
