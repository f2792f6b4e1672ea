"""Batch level: the fields of every header, as the headers themselves say them."""

from pathlib import Path
from typing import Any

import pytest

from downconvert.spark.read import batches
from records import Codec, MemoryRecords
from records.batch import BatchHeader
from records.batches.builder import build_marker
from records.batches.control import ControlRecordType
from records.formats import V2
from tests import corpus
from tests.damage import damaged
from tests.downconvert.spark.reading import MILLISECONDS_MAX, partition, rows
from tests.downconvert.storage.logs import batch


@pytest.mark.parametrize("kind", corpus.kinds())
def test_rows_are_the_headers(tmp_path: Path, kind: str) -> None:
    for name in corpus.of_kind(kind):
        data, path = corpus.segment(name), tmp_path / name
        segment = f"{partition(path, data)}/{0:020}.log"
        expected = [
            {"topic": "topic", "partition": 0, "segment": segment} | fields(header)
            for header in MemoryRecords(data).batches()
        ]
        assert rows(path, level="batch") == expected, name
        assert rows(path, level="batch", verifyCrc=True, maxPartitionBytes=700) == expected, name


@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (0, 0),
        (-1, None),  # there is none
        (-2, -2000),
        (MILLISECONDS_MAX, 1000 * MILLISECONDS_MAX),
        (MILLISECONDS_MAX + 1, None),
        (-MILLISECONDS_MAX, -1000 * MILLISECONDS_MAX),
        (-MILLISECONDS_MAX - 1, None),
        (2**63 - 1, None),
        (-(2**63), None),
    ],
)
def test_timestamps_that_spark_does_not_have_are_null(
    tmp_path: Path, magic: int, time: int, expected: int | None
) -> None:
    partition(tmp_path, batch(0, timestamp=time, magic=magic))
    (row,) = rows(tmp_path, level="batch")
    assert (row["baseTimestamp"], row["maxTimestamp"]) == (expected, expected)


def test_offsets_choose_whole_batches(tmp_path: Path) -> None:
    partition(tmp_path, batch(0, 1, 2) + batch(3, 4) + batch(5, 6) + batch(7))
    bounds = {"startingOffsets": '{"topic":{"0":4}}', "endingOffsets": '{"topic":{"0":6}}'}
    assert [row["baseOffset"] for row in rows(tmp_path, level="batch", **bounds)] == [3, 5]
    until = {"endingOffsets": '{"topic":{"0":5}}'}  # where a batch begins
    assert [row["baseOffset"] for row in rows(tmp_path, level="batch", **until)] == [0, 3]


def test_more_batches_than_are_collected_at_once_all_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "ROWS_MAX", 3)
    for count in (2, 3, 4, 6, 7):
        partition(tmp_path, b"".join(map(batch, range(count))))
        found = [row["baseOffset"] for row in rows(tmp_path, level="batch")]
        assert found == list(range(count))


def fields(header: BatchHeader) -> dict[str, Any]:
    plain = header.codec is Codec.NONE
    return {
        "position": header.position,
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "sizeInBytes": header.size,
        "magic": header.magic,
        "codec": header.codec.name.lower(),
        "timestampType": int(header.timestamp_type),
        "baseTimestamp": None if header.has_delete_horizon else time(header.base_timestamp),
        "maxTimestamp": time(header.max_timestamp),
        "recordsCount": header.records_count if header.magic == V2 else 1 if plain else None,
        "leaderEpoch": known(header.leader_epoch),
        "producerId": known(header.producer_id),
        "producerEpoch": known(header.producer_epoch),
        "baseSequence": known(header.base_sequence),
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "crc": header.crc,
    }


def time(milliseconds: int) -> int | None:
    if milliseconds == -1 or abs(milliseconds) > MILLISECONDS_MAX:
        return None
    return 1000 * milliseconds


def known(number: int) -> int | None:
    return None if number < 0 else number


@pytest.mark.parametrize("codec", [5, 7])
@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("level", ["batch", "record"])
def test_a_codec_that_there_is_not_is_damage(
    tmp_path: Path, magic: int, codec: int, level: str
) -> None:
    bad = damaged(batch(1, magic=magic), field="attributes", to=codec)
    partition(tmp_path, batch(0, magic=magic) + bad + batch(2, magic=magic))
    for verify in (True, False):
        found = rows(tmp_path, level=level, mode="PERMISSIVE", verifyCrc=verify)
        reports = [row["_corrupt"] for row in found if row["_corrupt"] is not None]
        assert [one["position"] for one in reports] == [len(batch(0, magic=magic))]
        assert found[0]["_corrupt"] is None


@pytest.mark.parametrize("verify", [False, True])
def test_batches_of_aborted_transactions_are_left_out_of_what_is_committed(
    tmp_path: Path, verify: bool
) -> None:
    fields = {"transactional": True, "producer_epoch": 0, "base_sequence": 0}
    ends = [
        build_marker(kind, offset=offset, timestamp=20, producer_id=who, producer_epoch=0)
        for offset, who, kind in ((4, 7, ControlRecordType.ABORT), (5, 8, ControlRecordType.COMMIT))
    ]
    data = batch(0) + batch(1, 2, producer_id=7, **fields) + batch(3, producer_id=8, **fields)
    partition(tmp_path, data + b"".join(ends) + batch(6))
    options = {"level": "batch", "verifyCrc": verify}
    found = [row["baseOffset"] for row in rows(tmp_path, isolation="read_committed", **options)]
    assert found == [0, 3, 5, 6]  # without the marker, too
    assert len(rows(tmp_path, **options)) == 6
