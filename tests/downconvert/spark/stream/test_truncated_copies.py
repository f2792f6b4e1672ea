"""A stream notices that a later leader has truncated what it read, whichever copies are left."""

import shutil
from pathlib import Path

import pytest

from downconvert.spark.errors import DataLossError
from downconvert.spark.logs.places import Json
from downconvert.storage.names import Kind, file_name
from tests.downconvert.spark.reading import packed
from tests.downconvert.storage.logs import batch, indexed_segment, segment

from .test_follow import read, stream

FORMER = [batch(0, 1, leader_epoch=0), batch(2, 3, leader_epoch=0), batch(4, 5, leader_epoch=0)]
LATER = [batch(2, leader_epoch=1), batch(3, 4, 5, leader_epoch=1), batch(6, 7, leader_epoch=1)]


def broker(path: Path, name: str, base_offset: int, *batches: bytes) -> None:
    (path / name).mkdir(parents=True, exist_ok=True)
    segment(path / name / "a-0", base_offset, *batches)


@pytest.mark.parametrize("lagging", [FORMER[:1], [FORMER[0], LATER[0]]], ids=["none", "some"])
def test_a_batch_that_only_another_copy_has_shows_it(tmp_path: Path, lagging: list[bytes]) -> None:
    """The leader has only its latest segment, and the copy with the earliest one lags behind."""
    broker(tmp_path, "b1", 0, *FORMER)
    start: Json = {"a": {"0": 0}}
    place = stream(tmp_path).latestOffset(start)
    assert place == {"a": {"0": {"offset": 6, "leaderEpoch": 0}}}
    shutil.rmtree(tmp_path / "b1")
    broker(tmp_path, "b1", 6, LATER[2])
    broker(tmp_path, "b2", 0, *lagging)
    broker(tmp_path, "b3", 2, *LATER[:2])
    with pytest.raises(DataLossError, match="a-0 was truncated at 2 after it was read up to 6"):
        stream(tmp_path).latestOffset(place)
    lenient = stream(tmp_path, failOnDataLoss=False)
    with pytest.warns(RuntimeWarning, match="truncated at 2"):
        end = lenient.latestOffset(place)
    with pytest.warns(RuntimeWarning, match="truncated at 2"):
        found = read(lenient, place, end)
    assert found == [f"a-0:{offset}" for offset in range(2, 8)]


def test_a_damaged_copy_says_nothing(tmp_path: Path) -> None:
    broker(tmp_path, "b1", 0, *FORMER)
    place = stream(tmp_path).latestOffset({"a": {"0": 0}})
    (tmp_path / "b1" / "a-0" / file_name(0, Kind.LOG)).unlink()
    broker(tmp_path, "b1", 6, LATER[2])
    broker(tmp_path, "b2", 0, FORMER[0])
    broker(tmp_path, "b3", 2, b"\1" * 100, *LATER[1:2])
    broker(tmp_path, "b4", 2, *LATER[:2])
    with pytest.raises(DataLossError, match="a-0 was truncated at 2 after it was read up to 6"):
        stream(tmp_path).latestOffset(place)


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("count", [1, 2])
def test_damage_at_the_beginning_of_the_last_segment_hides_no_end(
    tmp_path: Path, count: int, is_packed: bool
) -> None:
    """The index leads behind it, and another copy has what is damaged."""
    logs = tmp_path / "logs"
    batches = [batch(at, at + 1, leader_epoch=0) for at in range(0, 8, 2)]
    (logs / "b1").mkdir(parents=True)
    indexed_segment(logs / "b1" / "a-0", 0, *batches)
    path = logs / "b1" / "a-0" / file_name(0, Kind.LOG)
    size = sum(map(len, batches[:count]))
    path.write_bytes(bytes(size) + path.read_bytes()[size:])
    broker(logs, "b2", 0, *batches[:3])
    source = stream(packed(logs) if is_packed else logs)
    source.prepareForTriggerAvailableNow()
    start: Json = {"a": {"0": 0}}
    end = source.latestOffset(start)
    assert end == {"a": {"0": {"offset": 8, "leaderEpoch": 0}}}
    assert read(source, start, end) == [f"a-0:{at}" for at in range(8)]


@pytest.mark.filterwarnings("ignore:copies of a-0 differ")
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_stream_waits_for_records_that_replace_truncated_ones(
    tmp_path: Path, is_packed: bool
) -> None:
    """The leader's first segment is not copied yet. Another copy was truncated at offset 2."""
    logs = tmp_path / "logs"
    broker(logs, "b1", 6, LATER[2])
    (logs / "b1" / "a-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 2\n")
    broker(logs, "b2", 0, *FORMER)
    path = packed(logs) if is_packed else logs
    source, start = stream(path), {"a": {"0": 0}}
    with pytest.warns(RuntimeWarning, match="no records from offset 2 up to 6 yet"):
        place = source.latestOffset(start)
    assert read(source, start, place) == ["a-0:0", "a-0:1"]
    broker(logs, "b3", 2, *LATER[:2])
    packed(logs)
    end = source.latestOffset(place)
    assert read(source, place, end) == [f"a-0:{at}" for at in range(2, 8)]
