"""A stream that ends once it has read everything: a segment that comes meanwhile fills a gap."""

from pathlib import Path

import pytest

from downconvert.spark.errors import DataLossError
from downconvert.spark.logs.places import Json
from tests.downconvert.spark.reading import partition
from tests.downconvert.storage.logs import batch

from .test_follow import read, stream


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """`a` has a gap from 2 up to 5, and `b` has none."""
    partition(tmp_path, batch(0, 1), "a-0")
    partition(tmp_path, batch(5), "a-0", 5)
    partition(tmp_path, batch(0, 1, 2), "b-3")
    return tmp_path


START: Json = {"a": {"0": 2}, "b": {"3": 0}}
BEFORE: Json = {"a": {"0": 2}, "b": {"3": 3}}
END: Json = {"a": {"0": 6}, "b": {"3": 3}}


def test_a_gap_that_was_filled_meanwhile_is_no_loss(logs: Path) -> None:
    source = stream(logs)
    source.prepareForTriggerAvailableNow()
    assert source.latestOffset(START) == BEFORE
    partition(logs, batch(2, 3, 4), "a-0", 2)
    assert source.latestOffset(BEFORE) == END
    assert read(source, BEFORE, END) == ["a-0:2", "a-0:3", "a-0:4", "a-0:5"]
    assert source.latestOffset(END) == END


def test_a_gap_that_stays_ends_the_stream_once_all_else_was_read(logs: Path) -> None:
    source = stream(logs)
    source.prepareForTriggerAvailableNow()
    assert source.latestOffset(START) == BEFORE
    words = "a-0 has no records from offset 2 up to 5, .* run the query again"
    for _ in range(2):
        with pytest.raises(DataLossError, match=words):
            source.latestOffset(BEFORE)
