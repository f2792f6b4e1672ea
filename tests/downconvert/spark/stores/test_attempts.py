"""A directory may change during the search: a broker renames that of a deleted topic."""

from collections.abc import Callable
from pathlib import Path

import pytest

from downconvert.spark.errors import SegmentChangedError
from downconvert.spark.jobs.jobs import JobError, chosen
from downconvert.spark.stores.attempts import ATTEMPTS, attempted
from tests.downconvert.spark.reading import delete_when_seen, partition, rows
from tests.downconvert.storage.logs import batch


def read_records(path: Path) -> set[str]:
    return {row["topic"] for row in rows(path)}


def read_splits(path: Path) -> set[str]:
    return {row["topic"] for row in rows(path, level="split")}


def choose(path: Path) -> set[str]:
    return {log.topic_partition.topic for log in chosen([str(path)], ())}


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two topics. The first is deleted when the search has seen its name."""
    for name in ("a-0", "b-0"):
        partition(tmp_path, batch(0, 1), name)
    delete_when_seen(tmp_path / "a-0", monkeypatch)
    return tmp_path


@pytest.mark.parametrize("read", [read_records, read_splits, choose])
def test_a_topic_that_is_deleted_during_the_search_is_left_out(
    logs: Path, read: Callable[[Path], set[str]]
) -> None:
    assert read(logs) == {"b"}


def test_a_topic_that_existed_only_at_first_is_not_listed(logs: Path) -> None:
    with pytest.raises(ValueError, match=r"no such topic or partition .* topics there are b"):
        rows(logs, topics="a")


def test_a_job_knows_no_topic_that_was_there_only_at_first(logs: Path) -> None:
    with pytest.raises(JobError, match="no topic is called a; there is b"):
        chosen([str(logs)], ["a"])


@pytest.mark.parametrize("gone", [FileNotFoundError("a"), SegmentChangedError("a")])
def test_a_search_ends_if_something_is_gone_each_time(gone: Exception) -> None:
    finals = []

    def search(is_final: bool) -> None:
        finals.append(is_final)
        raise gone

    with pytest.raises(type(gone)):
        attempted(search)
    assert finals == [False] * (ATTEMPTS - 1) + [True]
