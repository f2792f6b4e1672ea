"""Checksums of entries of all sizes, wherever the window is."""

from pathlib import Path

import pytest

from downconvert.spark.read.checksums import WINDOW_SIZE, Checksums
from records import CorruptRecordsError, FileRecords
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
