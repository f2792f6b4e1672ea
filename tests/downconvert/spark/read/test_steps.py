"""Messages inside of a message are read with their own offsets and timestamps."""

from pathlib import Path
from struct import pack
from typing import Any

import pytest

from records import Codec, MemoryRecords, Record, build, read
from records.batches.wrapper import build_wrapper
from records.codecs import compress
from records.formats import LOG_APPEND_TIME, V0, V1, TimestampType
from tests.damage import flipped
from tests.downconvert.spark.reading import expected, partition, record_of, rows


def message(magic: int, offset: int, value: bytes) -> bytes:
    kind = TimestampType.NONE if magic == V0 else TimestampType.CREATE
    return build([Record(offset, -1 if magic == V0 else 7, kind, b"k", value)], magic=magic)


def wrapped(inner: bytes, *, offset: int, attributes: int = 0, magic: int = V1) -> bytes:
    data = compress(Codec.GZIP, inner, magic=magic, compression_level="fast")
    return build_wrapper(
        data, magic=magic, offset=offset, attributes=attributes | Codec.GZIP, timestamp=99
    )


def read_permissively(path: Path, data: bytes, **options: Any) -> list[dict[str, Any]]:
    partition(path, data)
    return rows(path, mode="PERMISSIVE", includeHeaders=True, **options)


@pytest.mark.parametrize("verify_crc", [True, False])
def test_messages_of_v0_in_one_with_append_time_have_none(tmp_path: Path, verify_crc: bool) -> None:
    inner = message(V1, 0, b"a") + message(V0, 1, b"b") + message(V1, 2, b"c")
    data = wrapped(inner, offset=12, attributes=LOG_APPEND_TIME)
    found = read_permissively(tmp_path, data, verifyCrc=verify_crc)
    assert [record_of(row) for row in found] == expected(read(MemoryRecords(data)))
    assert [row["offset"] for row in found] == [10, 11, 12]
    assert [row["timestamp"] for row in found] == [99_000, -1000, 99_000]


def test_offsets_of_an_old_librdkafka_are_absolute(tmp_path: Path) -> None:
    inner = message(V1, 0, b"a") + message(V1, 1, b"b")
    found = read_permissively(tmp_path, wrapped(inner, offset=0))
    assert [row["offset"] for row in found] == [0, 1]


@pytest.mark.parametrize("attributes", [0, LOG_APPEND_TIME])
def test_damage_inside_an_entry_is_reported_after_its_good_records(
    tmp_path: Path, attributes: int
) -> None:
    second = message(V1, 1, b"b" * 50)
    inner = message(V1, 0, b"a") + flipped(second, 8 * (len(second) - 1)) + message(V1, 2, b"c")
    found = read_permissively(tmp_path, wrapped(inner, offset=12, attributes=attributes))
    assert [row["offset"] for row in found] == [10, None]
    assert (
        "checksum does not match, at byte 36 of the decompressed" in found[1]["_corrupt"]["reason"]
    )
    found = read_permissively(
        tmp_path, wrapped(inner, offset=12, attributes=attributes), verifyCrc=False
    )
    assert [row["offset"] for row in found] == [10, 11, 12]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (wrapped(b"", offset=5), "compressed message holds no messages"),
        (wrapped(message(V1, 9, b"a"), offset=5), "at a lower offset than its last"),
        (wrapped(wrapped(b"", offset=0), offset=0), "compressed message inside a compressed"),
        (
            build_wrapper(b"x", magic=V1, offset=3, attributes=Codec.ZSTD, timestamp=0),
            "codec does not exist in this message format",
        ),
        (
            build_wrapper(b"nonsense", magic=V0, offset=3, attributes=Codec.GZIP, timestamp=0),
            "gzip",
        ),
    ],
)
def test_impossible_entries_have_a_reason(tmp_path: Path, data: bytes, words: str) -> None:
    (row, good) = read_permissively(tmp_path, data + message(V1, 20, b"behind"))
    assert words in row["_corrupt"]["reason"]
    assert good["offset"] == 20


def test_bytes_after_the_last_record_of_a_batch(tmp_path: Path) -> None:
    data = bytearray(build([Record(0, 0), Record(1, 0)], magic=2, codec=Codec.GZIP))
    data[57:61] = pack(">i", 1)  # it claims one record and holds two
    found = read_permissively(tmp_path, bytes(data), verifyCrc=False)
    assert [row["offset"] for row in found] == [0, None]
    assert "bytes left after the last record" in found[1]["_corrupt"]["reason"]
