"""A partition of two replicas, one of them here, for tests of its steps."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from downconvert.broker.partition import Partition
from downconvert.broker.replication.replica import Leadership
from downconvert.storage import Log, TopicPartition
from downconvert.storage.disk.files import DISK, Files

OWN: Final = 1
OTHER: Final = 2


def decision(version: int, leader: int | None, epoch: int | None = None) -> Leadership:
    """The controller's, with both replicas in sync. The epoch is by default the version."""
    both = frozenset({OWN, OTHER})
    return Leadership(
        leader=leader,
        leader_epoch=version if epoch is None else epoch,
        replicas=(OWN, OTHER),
        isr=both,
        alive=both,
        version=version,
    )


@contextmanager
def partition_of(path: Path, leader: int, files: Files = DISK) -> Iterator[Partition]:
    """The partition without records, led by one of the two in epoch 1."""
    directory = path / "t-0"
    directory.mkdir()
    with Log.open(directory, writable=True, files=files) as log:
        partition = Partition(TopicPartition("t", 0), log, OWN, set())
        partition.assign(decision(1, leader), 0.0)
        yield partition
