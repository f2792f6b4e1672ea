"""A plan says what is read by which task, and what is left out, and why."""

from pathlib import Path

import pytest

from tests.downconvert.spark.reading import rows
from tests.downconvert.storage.logs import batch, indexed_segment


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    indexed_segment(tmp_path / "t-0", 0, batch(*range(10)))
    indexed_segment(tmp_path / "t-0", 10, batch(*range(10, 15)))
    return tmp_path


def test_a_row_for_each_split(directory: Path) -> None:
    found = rows(directory, level="split")
    assert [(row["task"], row["startOffset"], row["pruned"]) for row in found] == [
        (0, 0, None),
        (0, 10, None),
    ]
    assert sum(row["bytes"] for row in found) == len(batch(*range(10)) + batch(*range(10, 15)))


def test_splits_that_are_left_out_have_a_reason(directory: Path) -> None:
    first, last = rows(directory, level="split", startingOffsets='{"t":{"0":10}}')
    assert (first["startOffset"], first["task"]) == (10, 0)
    assert (last["endOffset"], last["task"]) == (10, None)
    assert last["pruned"] == "ends before offset 10, where reading begins"
    found = rows(directory, level="split", endingOffsets='{"t":{"0":5}}')
    assert found[1]["pruned"] == "begins at or after offset 5, where reading ends"
    found = rows(directory, level="split", endingOffsets='{"t":{"0":10}}')
    assert found[1]["pruned"] == "begins at or after offset 10, where reading ends"


def test_chosen_columns_are_all_that_is_read(directory: Path) -> None:
    found = rows(directory, columns="offset, topic")
    assert list(found[0]) == ["offset", "topic"]
    with pytest.raises(ValueError, match="columns: no ofset"):
        rows(directory, columns="ofset")
    with pytest.raises(ValueError, match="counts records without"):
        rows(directory, columns="")
