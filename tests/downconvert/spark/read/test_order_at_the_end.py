"""The last batch of a log may have a wrong offset, too. Only the batches before it show that."""

from pathlib import Path
from typing import Any

import pytest

from downconvert.storage.names import Kind, file_name
from tests.downconvert.spark.reading import rows
from tests.downconvert.storage.logs import batch, indexed_segment, segment

from .test_order import wrong


@pytest.mark.parametrize("level", ["record", "batch"])
@pytest.mark.parametrize("make", [segment, indexed_segment])
@pytest.mark.parametrize("copies", [1, 2])
def test_a_wrong_offset_at_the_end_of_a_log_is_reported_with_the_right_ones(
    tmp_path: Path, level: str, make: Any, copies: int
) -> None:
    """It does not make another copy, which ends earlier, the longer one."""
    entries = [batch(*range(first, first + 10)) for first in range(40, 80, 10)]
    for number in range(copies):
        (tmp_path / f"broker-{number}").mkdir()
        directory = tmp_path / f"broker-{number}" / "orders-0"
        make(directory, 40, *entries[: 4 - number])
        if not number:
            flipped = wrong(entries[3], 6)  # 6 in place of 70
            (directory / file_name(40, Kind.LOG)).write_bytes(b"".join([*entries[:3], flipped]))
    found = rows(tmp_path, level=level, mode="PERMISSIVE")
    lost = [row["_corrupt"] for row in found if row["_corrupt"]]
    assert [(one["startOffset"], one["endOffset"]) for one in lost] == [(70, 80)]
    column = "offset" if level == "record" else "lastOffset"
    assert max(row[column] for row in found if not row["_corrupt"]) == 69


@pytest.mark.parametrize("level", ["record", "batch"])
@pytest.mark.parametrize("bit", [1, 2, 6])
@pytest.mark.parametrize("damage", [(), (1,), (1, 2), (2,)])
@pytest.mark.parametrize("size", [100, 10_000])
def test_a_wrong_offset_at_the_end_is_reported_with_the_right_ones_wherever_reading_begins(
    tmp_path: Path, level: str, bit: int, damage: tuple[int, ...], size: int
) -> None:
    """After damage or at the beginning of a task, the preceding batch alone shows the offset."""
    entries = [batch(*range(first, first + 10)) for first in range(30, 80, 10)]
    indexed_segment(tmp_path / "a-0", 30, *entries)
    entries[4] = wrong(entries[4], bit)  # 68, 66 or 6 in place of 70
    hurt = [bytes(len(one)) if at in damage else one for at, one in enumerate(entries)]
    (tmp_path / "a-0" / file_name(30, Kind.LOG)).write_bytes(b"".join(hurt))
    found = rows(tmp_path, level=level, mode="PERMISSIVE", maxPartitionBytes=size)
    lost = [row["_corrupt"] for row in found if row["_corrupt"]]
    absent = [at for one in lost for at in range(one["startOffset"], one["endOffset"])]
    places = [30 + 10 * at for at in (*damage, 4)]
    assert absent == [at for first in places for at in range(first, first + 10)]
    counted = rows(tmp_path, level="count", mode="PERMISSIVE", maxPartitionBytes=size)
    assert sum(row["records"] for row in counted) == 40 - 10 * len(damage)
