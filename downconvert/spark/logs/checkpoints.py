"""Reads the checkpoints of brokers: high watermarks, log start offsets, cleaner offsets, leader
epochs.

A damaged checkpoint counts as missing, with a warning. The records of a log are read without it.

Not here: what a missing checkpoint means (watermarks.py, compacted.py, replicas.py)."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from downconvert.storage.checkpoints.checkpoint import EpochEntry, read_epochs, read_offsets
from downconvert.storage.errors import CorruptFileError
from downconvert.storage.names import (
    CLEANER_POINTS,
    LEADER_EPOCHS,
    LOG_STARTS,
    OFFSET_MAX,
    TopicPartition,
)

BEYOND: Final = "an offset is out of range"


class Checkpoints:
    """The offsets in the checkpoints of one name. Each file is read once."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._noted: dict[str, Mapping[TopicPartition, int] | None] = {}  # by broker

    def beside(self, directory: str) -> Mapping[TopicPartition, int] | None:
        """The offsets that the broker of a partition's directory has noted; None: none are
        known."""
        broker = directory.rpartition("/")[0]  # os.path costs more, and there may be 30,000
        if broker not in self._noted:
            self._noted[broker] = noted_offsets(Path(broker) / self._name)
        return self._noted[broker]

    def of(self, name: TopicPartition, directory: str) -> int:
        """The offset that the broker of a partition's directory has noted; 0: none is known."""
        return (self.beside(directory) or {}).get(name, 0)


class BrokerCheckpoints:
    """The log start offsets of partitions, and the offsets up to which cleaners have cleaned."""

    def __init__(self) -> None:
        self.starts = Checkpoints(LOG_STARTS)
        self.cleaned = Checkpoints(CLEANER_POINTS)


def noted_offsets(path: Path) -> Mapping[TopicPartition, int] | None:
    """The offsets in a checkpoint; None: it is missing or damaged."""
    try:
        if not path.exists():
            return None
        if not path.stat().st_size:
            raise CorruptFileError("is empty", str(path))
        found = read_offsets(path)
        if not all(0 <= at <= OFFSET_MAX for at in found.values()):
            raise CorruptFileError(BEYOND, str(path))
        return found
    except (OSError, CorruptFileError) as error:
        _warn(error)
        return None


def leader_epochs(directory: Path) -> list[EpochEntry]:
    """The leader epochs of a partition, in order; none if the checkpoint is missing or damaged."""
    try:
        found = sorted(read_epochs(directory / LEADER_EPOCHS))
        if any(one.epoch < 0 or not 0 <= one.start_offset <= OFFSET_MAX for one in found):
            raise CorruptFileError(BEYOND, str(directory / LEADER_EPOCHS))
        return found
    except (OSError, CorruptFileError) as error:
        _warn(error)
        return []


def _warn(error: Exception) -> None:
    warnings.warn(f"{error}; this checkpoint counts as missing", RuntimeWarning, stacklevel=3)
