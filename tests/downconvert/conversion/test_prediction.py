"""What is predicted of batches is the same one by one, and many at once."""

import random
import struct
from pathlib import Path

import pytest

from downconvert import ConversionPolicy, LazyDownConvertRecords
from downconvert.conversion.prediction import ALIKE_MAX, PredictedEntries
from records import (
    Codec,
    ControlRecordType,
    FileRecords,
    MemoryRecords,
    Record,
    build,
    build_empty,
    build_marker,
)
from records.backend import NAME, NATIVE
from records.errors import RecordsError
from records.formats import ATTRIBUTES_AT_BATCH, MAGIC_AT, TimestampType

from .channels import sent

COUNT_AT = 57  # of a batch's records
LAST_DELTA_AT = 23
# The reference takes its time.
CHUNK_SIZES = (4096, 16 * 1024, 1 << 20) if NAME == NATIVE else (16 * 1024,)


def batch(offset: int, codec: Codec = Codec.LZ4, *, size: int = 300, **options: object) -> bytes:
    dice = random.Random(offset)
    records = [
        Record(offset=offset + n, timestamp=n, value=dice.randbytes(size // 2).ljust(size, b"-"))
        for n in range(20)
    ]
    return build(records, magic=2, codec=codec, **options)  # type: ignore[arg-type]


def patched(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


# What stands among batches that are alike, and has to be decided or converted by itself.
AMONG = {
    "nothing": b"",
    "another codec": batch(500, Codec.GZIP),
    "plain records": batch(500, Codec.NONE),
    "a transaction": batch(
        500, transactional=True, producer_id=7, producer_epoch=0, base_sequence=0
    ),
    "a marker": build_marker(
        ControlRecordType.ABORT, offset=500, timestamp=0, producer_id=7, producer_epoch=0
    ),
    "no records any more": build_empty(base_offset=500, last_offset=519),
    "the time of the log": batch(500, timestamp_type=TimestampType.LOG_APPEND, append_time=5),
    "a batch that says it has none": patched(batch(500), COUNT_AT, struct.pack(">i", 0)),
    "a negative last offset": patched(batch(500), LAST_DELTA_AT, struct.pack(">i", -5)),
    "a codec that is none": patched(batch(500), ATTRIBUTES_AT_BATCH, b"\0\x07"),
    "another format": patched(batch(500), MAGIC_AT, b"\5"),
    "a size below a header's": patched(batch(500), 8, struct.pack(">i", 20)),
    "a size beyond the end": patched(batch(500), 8, struct.pack(">i", 1 << 30)),
}


def promised(log: bytes, policy: ConversionPolicy, first_offset: int) -> tuple[object, ...]:
    try:
        lazy = LazyDownConvertRecords(MemoryRecords(log), 1, first_offset, policy)
        damage = lazy.damage
        return lazy.size, lazy.is_whole, str(damage), len(sent(lazy.to_send()))
    except RecordsError as error:
        return type(error), str(error)


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("first_offset", [0, 45, 510])
@pytest.mark.parametrize("among", AMONG)
def test_a_promise_is_the_same_however_many_batches_are_looked_at_at_once(
    among: str, first_offset: int, isolation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = b"".join(batch(20 * n) for n in range(20))
    after = b"".join(batch(600 + 20 * n) for n in range(20))
    log = before + AMONG[among] + after + after[:100]
    policies = [
        ConversionPolicy(isolation=isolation, chunk_size=size)  # type: ignore[arg-type]
        for size in CHUNK_SIZES
    ]
    at_once = [promised(log, policy, first_offset) for policy in policies]
    monkeypatch.setattr(PredictedEntries, "_alike_after", lambda *_: (0, 0))
    one_by_one = [promised(log, policy, first_offset) for policy in policies]
    assert at_once == one_by_one
    assert len(set(at_once)) == 1


def test_what_is_predicted_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the first batch of a run, and a window where it goes on."""
    read = [0]

    def counted(records: FileRecords, target: memoryview, position: int) -> int:
        count = read_into(records, target, position)
        read[0] += count
        return count

    read_into = FileRecords.read_into
    monkeypatch.setattr(FileRecords, "read_into", counted)
    (tmp_path / "log").write_bytes(batch(0, size=10_000) * 100)
    with FileRecords.open(tmp_path / "log") as log:
        lazy = LazyDownConvertRecords(log, 1)
        assert lazy.size > log.size // 2
        assert read[0] < log.size // 20


def test_many_batches_are_predicted_in_steps(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(batch(0, size=2) * (2 * ALIKE_MAX + 10))
    with FileRecords.open(tmp_path / "log") as log:
        assert len(list(LazyDownConvertRecords.in_steps(log, 1))) >= 2
