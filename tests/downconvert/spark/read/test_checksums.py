"""Checksums of entries of all sizes, wherever the window is."""

from pathlib import Path

import pytest

from downconvert.spark.read.checksums import HEAD, WINDOW_SIZE, Checksums, sound_until
from records import Codec, CorruptRecordsError, FileRecords
from records.formats import MAGIC_AT
from tests.downconvert.storage.logs import batch

ENTRIES = [
    batch(0, 1),
    batch(2, magic=1),
    batch(3, magic=0),
    batch(4, size=2 * WINDOW_SIZE),
    *(batch(offset, size=WINDOW_SIZE // 3) for offset in range(5, 12)),
]


@pytest.mark.parametrize("wrong", [None, *range(len(ENTRIES))])
def test_wrong_checksums_are_found_and_right_ones_are_not(
    tmp_path: Path, wrong: int | None
) -> None:
    data = [bytearray(entry) for entry in ENTRIES]
    if wrong is not None:
        data[wrong][-2] ^= 1
    (tmp_path / "log").write_bytes(b"".join(data))
    found = []
    with FileRecords.open(tmp_path / "log") as records:
        checksums = Checksums(records)
        for number, header in enumerate(records.batches()):
            try:
                checksums.verify(header)
            except CorruptRecordsError as error:
                found.append((number, error.position))
    at = sum(map(len, ENTRIES[:wrong]))
    assert found == ([] if wrong is None else [(wrong, at)])


SMALL = [batch(0, 1), batch(2, magic=1), batch(3, magic=0), batch(4, 5)]
BEFORE, END = 5, sum(map(len, SMALL))


def ends() -> list[int]:
    """Where the entries end, and the next one begins."""
    return [sum(map(len, SMALL[: count + 1])) for count in range(len(SMALL) - 1)]


def test_whole_entries_are_sound_up_to_the_last_one_that_is_in_view() -> None:
    """Only the head of the next entry shows whether its offsets are higher."""
    view = memoryview(b"?" * BEFORE + b"".join(SMALL) + b"?" * 9)
    for end in range(END + 1):
        expected = max((one for one in ends() if one + HEAD.size <= end), default=0)
        assert sound_until(view, BEFORE, BEFORE + end) == BEFORE + expected, end


@pytest.mark.parametrize(
    ("first", "following", "is_sound"),
    [
        (batch(0, 1, 2), batch(3), True),
        (batch(0, 1, 2), batch(2), False),
        (batch(0, 1, 2), batch(1, 2, 3), False),
        (batch(0, 1, 2), batch(0), False),
        (batch(0, 2, codec=Codec.GZIP), batch(2), False),
        (batch(0, 2, codec=Codec.GZIP), batch(3), True),
        (batch(2, magic=1), batch(3), True),
        (batch(2, magic=1), batch(2, magic=1), False),
    ],
)
def test_an_entry_ends_before_the_next_one_begins(
    first: bytes, following: bytes, is_sound: bool
) -> None:
    found = sound_until(memoryview(first + following), 0, len(first + following))
    assert found == (len(first) if is_sound else 0)


@pytest.mark.parametrize("number", range(len(SMALL)))
@pytest.mark.parametrize("at", [11, MAGIC_AT, 25, -1])  # of the size, the magic, and what is summed
def test_entries_are_sound_up_to_the_first_damaged_one(number: int, at: int) -> None:
    data = [bytearray(entry) for entry in SMALL]
    data[number][at] ^= 8
    view = memoryview(b"".join(data))
    assert sound_until(view, 0, END) == sum(map(len, SMALL[:number]))
