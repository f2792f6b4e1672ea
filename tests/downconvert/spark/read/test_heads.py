"""Headers collected by the thousand: copies that stop within one, and large batches."""

from pathlib import Path

import pytest

from records.formats import ATTRIBUTES_AT_BATCH, BATCH_HEADER_SIZE, MAGIC_AT
from tests.downconvert.spark.reading import partition, rows
from tests.downconvert.storage.logs import batch

ATTRIBUTES_AT = (
    MAGIC_AT + 1
)  # of messages before v2; in a v2 batch, a byte of its checksum is there


def found(path: Path, **options: object) -> list[tuple[int, int | None]]:
    """The base offsets, and the positions of reported damage."""
    return [
        (row["baseOffset"], None if row["_corrupt"] is None else row["_corrupt"]["position"])
        for row in rows(path, level="batch", mode="PERMISSIVE", **options)
    ]


def like_a_codec_that_there_is_not() -> bytes:
    """A v2 batch with a byte that says codec 5 to 7, where older formats have their attributes."""
    return next(
        one
        for one in (batch(0, timestamp=time) for time in range(100))
        if one[ATTRIBUTES_AT] & 7 > 4
    )


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_copy_may_stop_at_each_byte_of_a_header(tmp_path: Path, magic: int, verify: bool) -> None:
    first, last = like_a_codec_that_there_is_not(), batch(1, magic=magic)
    for kept in range(min(len(last), BATCH_HEADER_SIZE + 1)):
        partition(tmp_path, first + last[:kept])
        assert found(tmp_path, verifyCrc=verify) == [(0, None)], kept


@pytest.mark.parametrize("verify", [False, True])
def test_a_copy_may_stop_within_a_header_after_a_message_of_an_older_format(
    tmp_path: Path, verify: bool
) -> None:
    """Where the codec of the batch would be, the message has a timestamp."""
    message = batch(0, magic=1, timestamp=7 << 24)
    assert message[ATTRIBUTES_AT_BATCH + 1] & 7 == 7
    for kept in range(BATCH_HEADER_SIZE):
        partition(tmp_path, message + batch(1)[:kept])
        assert found(tmp_path, verifyCrc=verify) == [(0, None)], kept


@pytest.mark.parametrize("verify", [False, True])
def test_a_batch_that_is_larger_than_a_window_is_checked_as_a_whole(
    tmp_path: Path, verify: bool
) -> None:
    large = batch(1, size=3_000_000)
    changed = bytearray(large)
    changed[-5] ^= 1
    position = len(batch(0))
    partition(tmp_path, batch(0) + large + batch(2))
    assert found(tmp_path, verifyCrc=verify) == [(0, None), (1, None), (2, None)]
    partition(tmp_path, batch(0) + changed + batch(2))
    damage = position if verify else None
    assert [one for _, one in found(tmp_path, verifyCrc=verify)] == [None, damage, None]
