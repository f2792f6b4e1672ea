"""Files that are gone when a task comes to them."""

from pathlib import Path

import pytest

from downconvert.spark.errors import DataLossError
from downconvert.spark.read.reader import Task
from tests.downconvert.spark.reading import packed, partition, reader
from tests.downconvert.storage.logs import batch


def test_a_file_that_is_not_in_a_directory_is_lost_and_not_on_another_machine(
    tmp_path: Path,
) -> None:
    partition(tmp_path / "logs", batch(0))
    tar = packed(tmp_path / "logs")
    source = reader(tar)
    (task,) = source.partitions()
    tar.unlink()
    assert isinstance(task, Task)
    with pytest.raises(DataLossError, match="was deleted after the query was planned"):
        list(source.read(task))
