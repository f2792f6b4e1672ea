"""A broker's directory for a simulation: one topic, as producers and a broker would have left it.

To save time, only some partitions are generated, and the others are copies of these. Copies are
separate files, so each has its own pages in the page cache."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from downconvert.storage import LogDir, TopicPartition
from downconvert.storage.checkpoints.checkpoint import read_offsets, write_offsets
from downconvert.storage.disk.files import DISK
from downconvert.storage.names import RECOVERY_POINTS
from simulator.generate import generate
from simulator.workload import Workload

TOPIC: Final = "load"
ORIGINALS: Final = 4  # partitions that are generated

Progress = Callable[[int], None]


def make_topic(
    directory: Path, workload: Workload, partitions: int, progress: Progress = lambda _: None
) -> None:
    """Writes the workload, divided among the partitions, with indexes.

    `progress` is called with the bytes of keys and values generated so far."""
    originals = min(ORIGINALS, partitions)
    each = replace(workload, size=max(1, workload.size // partitions))
    for index in range(originals):
        generate(
            replace(each, seed=workload.seed + index),
            directory / f"{TOPIC}-{index}",
            lambda done, before=index * each.size: progress(before + done),  # type: ignore[misc]
        )
    with LogDir.open(directory, writable=True) as log_dir:  # writes recovery points
        for index in range(originals):
            _ = log_dir.logs[TopicPartition(TOPIC, index)]
    for index in range(originals, partitions):
        source = directory / f"{TOPIC}-{index % originals}"
        shutil.copytree(source, directory / f"{TOPIC}-{index}")
    # With a recovery point, a broker that opens the topic does not check every batch of a copy.
    points = read_offsets(directory / RECOVERY_POINTS)
    everywhere = {
        TopicPartition(TOPIC, index): points[TopicPartition(TOPIC, index % originals)]
        for index in range(partitions)
    }
    write_offsets(DISK, directory / RECOVERY_POINTS, everywhere)


def made_size(workload: Workload, partitions: int) -> int:
    """The bytes that `make_topic` generates: its progress at the end."""
    return min(ORIGINALS, partitions) * max(1, workload.size // partitions)
