"""A segment and a log as they were found say where their files are."""

from dataclasses import replace
from pathlib import Path

import pytest

from downconvert.spark.logs.segment_files import PartitionLog, SegmentFile
from downconvert.spark.stores.blobs import Blob
from downconvert.storage import TopicPartition
from downconvert.storage.names import Kind, State, file_name
from tests.downconvert.storage.logs import batch, segment

NAME = TopicPartition("t", 3)
LOG, INDEX = Blob("/tar", 10, 512), Blob("s3://bucket/t-3/7.index?region=x", 4)
GZIPPED = Blob("/tar", 10, 512, is_gzipped=True)


def stored(*blobs: tuple[Kind, Blob]) -> SegmentFile:
    return SegmentFile("elsewhere", 7, State.LIVE, 10, 20, blobs)


def test_a_blob_is_the_file_of_its_kind() -> None:
    found = stored((Kind.OFFSET_INDEX, INDEX), (Kind.LOG, LOG))
    assert found.blob(Kind.LOG) is found.blob_of_log is LOG
    assert found.blob(Kind.OFFSET_INDEX) is INDEX
    assert found.blob(Kind.TIME_INDEX) is None
    assert found.path == "/tar"
    assert stored((Kind.LOG, INDEX)).path == "s3://bucket/t-3/7.index"


@pytest.mark.parametrize(
    ("blobs", "expected"),
    [
        ((), False),
        (((Kind.LOG, LOG),), False),
        (((Kind.LOG, GZIPPED),), True),
        (((Kind.LOG, LOG), (Kind.OFFSET_INDEX, GZIPPED)), False),
        (((Kind.OFFSET_INDEX, GZIPPED),), False),
    ],
)
def test_a_segment_is_gzipped_if_its_log_is(
    blobs: tuple[tuple[Kind, Blob], ...], expected: bool
) -> None:
    assert stored(*blobs).is_gzipped is expected


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (stored((Kind.LOG, LOG)), True),
        (stored((Kind.LOG, LOG), (Kind.OFFSET_INDEX, INDEX)), True),
        (replace(stored((Kind.LOG, LOG)), next_offset=9, is_clipped=True), True),
        (stored((Kind.LOG, Blob("/tar", 10, 1024))), False),  # of another leader, in tiered storage
        (stored(), False),
        (replace(stored((Kind.LOG, LOG)), base_offset=8), False),
        (replace(stored((Kind.LOG, LOG)), directory="here"), False),
    ],
)
def test_a_file_is_the_same_if_its_place_and_its_log_are(
    other: SegmentFile, expected: bool
) -> None:
    assert stored((Kind.LOG, LOG)).is_same_file(other) is expected
    assert other.is_same_file(stored((Kind.LOG, LOG))) is expected


@pytest.mark.parametrize("state", [State.LIVE, State.SWAP])
def test_a_mounted_segment_is_opened_by_its_name_and_state(tmp_path: Path, state: State) -> None:
    segment(tmp_path / "t-3", 7, batch(7, 8))
    path = tmp_path / "t-3" / file_name(7, Kind.LOG, state)
    (tmp_path / "t-3" / file_name(7, Kind.LOG)).rename(path)
    found = SegmentFile(str(tmp_path / "t-3"), 7, state, path.stat().st_size, 9)
    assert found.path == str(path)
    opened = found.open()
    assert opened.size == path.stat().st_size
    opened.release()


@pytest.mark.parametrize(
    ("broker", "is_mounted", "noted"),
    [(None, True, "/logs/t-3"), ("/tmp/b1", False, "/tmp/b1/t-3"), ("", False, "/t-3")],
)
def test_checkpoints_are_beside_the_log_or_in_the_copy_of_its_brokers(
    broker: str | None, is_mounted: bool, noted: str
) -> None:
    log = PartitionLog(NAME, "/logs/t-3", 0, (), broker=broker)
    assert (log.is_mounted, log.noted) == (is_mounted, noted)
