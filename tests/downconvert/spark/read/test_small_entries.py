"""Entries that are smaller than a header of v2, or than any, at the end of a segment."""

from pathlib import Path
from typing import Any

import pytest

from records import Codec
from records.formats import BATCH_HEADER_SIZE, V0, V1
from tests.downconvert.spark.reading import partition, rows
from tests.downconvert.storage.logs import batch

LEVELS = ("record", "batch")


def reports(path: Path, **options: Any) -> list[dict[str, Any]]:
    found = rows(path, mode="PERMISSIVE", **options)
    return [row["_corrupt"] for row in found if row["_corrupt"] is not None]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("magic", [V0, V1])
@pytest.mark.parametrize("is_followed", [False, True])
def test_a_damaged_small_message_at_the_end_is_named(
    tmp_path: Path, magic: int, level: str, is_followed: bool
) -> None:
    good = [batch(at, magic=magic, size=3) for at in range(3)]
    assert len(good[2]) < BATCH_HEADER_SIZE
    partition(tmp_path, good[0] + good[1] + good[2][:-1] + b"?")
    if is_followed:
        partition(tmp_path, batch(3, magic=magic), base_offset=3)
    (found,) = reports(tmp_path, level=level)
    assert (found["startOffset"], found["endOffset"], found["state"]) == (2, 3, "damaged")
    assert f"reading goes on at byte {3 * len(good[0])}" in found["reason"]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("magic", [V0, V1])
def test_small_messages_behind_damage_are_read(tmp_path: Path, magic: int, level: str) -> None:
    good = [batch(at, magic=magic, size=3) for at in range(4)]
    partition(tmp_path, good[0] + good[1][:-1] + b"?" + good[2] + good[3])
    (found,) = reports(tmp_path, level=level)
    assert (found["startOffset"], found["endOffset"]) == (1, 2)
    name = "offset" if level == "record" else "baseOffset"
    assert [row[name] for row in rows(tmp_path, level=level, mode="DROPMALFORMED")] == [0, 2, 3]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("left", [1, 11, 12, 16, 17, 18, 60])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_rest_of_an_entry_before_the_next_segment_is_torn(
    tmp_path: Path, left: int, level: str, codec: Codec
) -> None:
    whole, torn = batch(0, 1, codec=codec), batch(2, 3, size=70, codec=codec)
    partition(tmp_path, whole + torn[:left])
    partition(tmp_path, batch(4), base_offset=4)
    (found,) = reports(tmp_path, level=level)
    place = found["position"], found["startOffset"], found["endOffset"], found["state"]
    assert place == (len(whole), 2, 4, "torn")
    assert rows(tmp_path, level=level, mode="DROPMALFORMED", endingOffsets='{"topic":{"0":2}}')
