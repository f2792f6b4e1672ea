"""The entries of a log's small files: indexes, snapshots, checkpoints, metadata.

Not here: batches and records (records), comparing an index with its log (verify.py), printing
(cli)."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from .checkpoints.checkpoint import read_epochs, read_offsets
from .checkpoints.metadata import read_meta_properties, read_topic_id, topic_id_text
from .indexes.offset_index import OffsetIndex
from .indexes.time_index import TimeIndex
from .indexes.transaction_index import read_transactions
from .names import (
    CLEANER_POINTS,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_STARTS,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    Kind,
    parse_file_name,
)
from .producers.producer_state import read_snapshot

Entry: TypeAlias = Mapping[str, int | str]  # by the names in the output of Kafka's dump tool


def can_dump(path: Path) -> bool:
    """Whether this module can read a file of this name."""
    return _reader(path) is not None


def dump_entries(path: Path) -> Iterator[Entry]:
    """The entries of a file. StorageError: the content does not fit the file's name. OSError: the
    file is missing."""
    read = _reader(path)
    if read is None:
        raise ValueError(f"{path.name} is not the name of an index, a snapshot or a checkpoint")
    with path.open("rb"):  # some readers return nothing for a missing file
        yield from read(path)


def _reader(path: Path) -> Callable[[Path], Iterator[Entry]] | None:
    name = parse_file_name(path.name)
    return BY_NAME.get(path.name) if name is None else BY_KIND.get(name.kind)


def _offset_index(path: Path) -> Iterator[Entry]:
    index = OffsetIndex.open(path, _base_offset(path))
    for slot in range(len(index)):
        offset, position = index.entry(slot)
        yield {"offset": offset, "position": position}
    index.close()


def _time_index(path: Path) -> Iterator[Entry]:
    index = TimeIndex.open(path, _base_offset(path))
    for slot in range(len(index)):
        timestamp, offset = index.entry(slot)
        yield {"timestamp": timestamp, "offset": offset}
    index.close()


def _transaction_index(path: Path) -> Iterator[Entry]:
    for entry in read_transactions(path, _base_offset(path)):
        yield {
            "producerId": entry.producer_id,
            "firstOffset": entry.first_offset,
            "lastOffset": entry.last_offset,
            "lastStableOffset": entry.last_stable_offset,
        }


def _snapshot(path: Path) -> Iterator[Entry]:
    for state in read_snapshot(path).producers.values():
        yield {
            "producerId": state.producer_id,
            "producerEpoch": state.epoch,
            "coordinatorEpoch": state.coordinator_epoch,
            "currentTxnFirstOffset": state.transaction_start,
            "lastTimestamp": state.timestamp,
            "lastSequence": state.last_sequence,
            "lastOffset": state.last_offset,
            "offsetDelta": state.offset_delta,
        }


def _offsets(path: Path) -> Iterator[Entry]:
    for partition, offset in read_offsets(path).items():
        yield {"topic": partition.topic, "partition": partition.partition, "offset": offset}


def _epochs(path: Path) -> Iterator[Entry]:
    for entry in read_epochs(path):
        yield {"epoch": entry.epoch, "startOffset": entry.start_offset}


def _partition_metadata(path: Path) -> Iterator[Entry]:
    topic_id = read_topic_id(path.parent)
    if topic_id is not None:
        yield {"topicId": topic_id_text(topic_id)}


def _meta_properties(path: Path) -> Iterator[Entry]:
    meta = read_meta_properties(path.parent)
    if meta is not None:
        fields = {
            "version": meta.version,
            "nodeId": meta.node_id,
            "clusterId": meta.cluster_id,
            "directoryId": meta.directory_id,
            **meta.others,
        }
        yield {name: value for name, value in fields.items() if value is not None}


def _base_offset(path: Path) -> int:
    name = parse_file_name(path.name)
    assert name is not None
    return name.offset


BY_KIND: Final[Mapping[Kind, Callable[[Path], Iterator[Entry]]]] = {
    Kind.OFFSET_INDEX: _offset_index,
    Kind.TIME_INDEX: _time_index,
    Kind.TRANSACTION_INDEX: _transaction_index,
    Kind.SNAPSHOT: _snapshot,
}
BY_NAME: Final[Mapping[str, Callable[[Path], Iterator[Entry]]]] = {
    RECOVERY_POINTS: _offsets,
    HIGH_WATERMARKS: _offsets,
    LOG_STARTS: _offsets,
    CLEANER_POINTS: _offsets,
    LEADER_EPOCHS: _epochs,
    PARTITION_METADATA: _partition_metadata,
    META_PROPERTIES: _meta_properties,
}
