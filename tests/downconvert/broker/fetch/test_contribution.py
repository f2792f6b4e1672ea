"""One partition adds records to a response, as many as fit in it."""

from pathlib import Path

import pytest

from downconvert.broker.fetch.contribution import ReadLimits, nothing
from records import FileRecords
from tests.downconvert.storage.logs import batch

ONE = batch(0)


@pytest.fixture
def records(tmp_path: Path) -> FileRecords:
    path = tmp_path / "0.log"
    path.write_bytes(ONE)
    return FileRecords.open(path)


def test_absent_records_are_empty_and_not_null() -> None:
    found = nothing(17)
    assert found == (b"", 0, 17, None)
    assert isinstance(found.records, bytes)


@pytest.mark.parametrize("is_hard", [True, False])
@pytest.mark.parametrize(
    ("room", "first", "fits"),
    [
        (len(ONE), False, True),
        (len(ONE) + 1, False, True),
        (len(ONE) - 1, False, False),
        (0, False, False),
        (len(ONE) - 1, True, True),
        (0, True, True),
    ],
)
def test_records_fit_if_there_is_room_or_they_are_the_first(
    records: FileRecords, room: int, first: bool, fits: bool, is_hard: bool
) -> None:
    limits = ReadLimits(room, first, is_hard)
    assert limits.fit(records) is fits
    assert not limits.fit(records.slice(0, 0))


def test_only_a_hard_limit_counts_the_bytes_that_are_sent() -> None:
    assert ReadLimits(7, first=False, left=9).room == 9
    assert ReadLimits(7, first=True, left=9).room == 9
    assert ReadLimits(7, first=True, is_hard=True, left=5).room == 5
    assert ReadLimits(7, first=False, is_hard=True).room == 7
    assert ReadLimits(7, first=True, is_hard=True).room == 7
    assert ReadLimits(0, first=True, is_hard=True).room == 0
