"""Finds the partitions and segments below log directories, as they lie, were copied or mounted.

A path may be a broker's log directory, a partition's directory, or any directory above several of
them: a backup with a folder for each broker, say. A partition that several brokers of a cluster
have is read once; brokers of two clusters are refused.

Only names and sizes are read, unless there are copies to choose from. Which files count after a
crash is decided by downconvert/storage/layout.py.

Not here: which copy is read (replicas.py), where to cut a segment (splits.py), which offsets to
read of it (planner.py)."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from downconvert.storage.checkpoint import read_offsets
from downconvert.storage.errors import CorruptFileError
from downconvert.storage.layout import Layout, read_layout, replaced
from downconvert.storage.metadata import read_meta_properties, topic_id_text
from downconvert.storage.names import (
    LOG_STARTS,
    OFFSET_MAX,
    Kind,
    State,
    TopicPartition,
    parse_file_name,
    parse_partition,
)
from downconvert.storage.open_files import OpenFiles
from downconvert.storage.segment import Segment
from downconvert.storage.tail import next_offset_of
from records import CorruptRecordsError

from .blobs import Blob
from .data_keys import DataKeys
from .errors import MixedClustersError
from .kept import Kept
from .patterns import expanded
from .replicas import Copy, look, topic_id_of
from .segment_files import PartitionLog, SegmentFile
from .staging import last_with_records, staged
from .stored_trees import OF_BROKER, THREADS, Item, found_among, items_of, tiered
from .stores import is_stored, pinned
from .tars import COMPRESSED, TAR
from .tiers import Tier
from .union import union_of

# Levels of folders. A backup has one for each day, broker and disk.
DEPTH_MAX: Final = 12

# Names of files by which a folder has more than the logs of a broker as they were.
PACKED: Final = re.compile(
    r"[0-9]{20}\.log\.gz|.+\.tar|.+\.(tar\.(gz|bz2|xz|zst|lz4)|tgz)|[0-9]{1,20}-[\w-]{22}\.[a-z_-]+"
)

# A cleaner renames while a directory is listed.
ATTEMPTS: Final = 8


def find_partitions(
    paths: Sequence[str],
    cluster_id: str | None = None,
    keys: DataKeys | None = None,
    kept: Kept | None = None,
    takes: Callable[[TopicPartition], bool] = lambda _: True,
) -> list[PartitionLog]:
    """The partitions below the paths, by topic and number, of a cluster if one is named.

    `keys`: of encrypted tiered storage; None: those of the environment. `kept`: what was read when
    they were looked for before. `takes`: which of them are wanted, by their names; of others
    nothing is read. OSError: a path is no
    directory, tar or URI of a store. MixedClustersError: there are several clusters below them.
    CorruptFileError: a tar or a manifest."""
    kept = kept or Kept()
    found: dict[TopicPartition, list[PartitionLog]] = {}
    clusters = _Clusters(cluster_id)
    items: list[Item] = []
    mounted = [path for path in paths if not is_elsewhere(path)]
    for name, directory in _directories(mounted, clusters, items):
        if takes(name):
            found.setdefault(name, []).append(read_partition(name, directory))
    for path in paths:
        if is_stored(path):
            items += items_of(pinned(path))
        elif is_elsewhere(path):
            items.append(_item(os.path.abspath(path)))  # noqa: PTH100
    if not items:
        return [_chosen(found[name], kept) for name in sorted(found)]
    others = found_among(items, keys or DataKeys(), kept, takes)
    for log in others.logs:
        if clusters.take(log.directory, log.noted) and takes(log.topic_partition):
            found.setdefault(log.topic_partition, []).append(log)
    with ThreadPoolExecutor(THREADS) as threads:
        chosen = threads.map(lambda copies: _chosen(copies, kept), found.values())
        logs = dict(zip(found, chosen, strict=True))
    for tier, segments in others.tiers.items():
        local = logs.get(tier.topic_partition)
        _check_same_topic(tier, local)
        logs[tier.topic_partition] = tiered(tier, segments, local)
    return [logs[name] for name in sorted(logs)]


def is_elsewhere(path: str) -> bool:
    """Whether a path is no directory of this machine: a URI of a store, or a tar."""
    is_named_so = TAR.fullmatch(path) or COMPRESSED.fullmatch(path)
    return is_stored(path) or (is_named_so is not None and os.path.isfile(path))  # noqa: PTH113


def _check_same_topic(tier: Tier, local: PartitionLog | None) -> None:
    """MixedClustersError: what brokers have is of another topic of that name, or so is another
    tier."""
    if local is None:
        return
    with staged(replace(local, segments=()), ()) as directory:
        known = topic_id_of(str(directory))
    text = local.topic_id or (None if known is None else topic_id_text(known))
    if text not in (None, tier.topic_id):
        raise MixedClustersError(
            f"{local.directory} is of the topic with the id {text}, and in tiered storage there is "
            f"{tier.topic_partition.topic} with the id {tier.topic_id}: leave out what was deleted"
        )


def _item(path: str) -> Item:
    status = os.stat(path)  # noqa: PTH116
    *folder, name = path.split("/")
    return Item(tuple(folder), name, Blob(path, status.st_size, 0, status.st_mtime_ns))


def _chosen(found: Sequence[PartitionLog], kept: Kept) -> PartitionLog:
    """The log that the copies of a partition make up."""
    if len(found) == 1:
        return found[0]
    return union_of(found[0].topic_partition, [_looked_at(log, kept) for log in found])


def _looked_at(log: PartitionLog, kept: Kept) -> tuple[PartitionLog, Copy]:
    """A copy as it is now, and how far it goes."""
    if not log.is_mounted:
        return log, kept.of(log, partial(_look, log))
    for _ in range(ATTEMPTS - 1):
        try:
            return log, _look(log)
        except FileNotFoundError:  # deleted or cleaned since it was found
            log = read_partition(log.topic_partition, log.directory)
    return log, _look(log)


def _look(log: PartitionLog) -> Copy:
    """How far a copy goes."""
    with staged(log, last_with_records(log.segments), tail=True) as directory:
        bases = {file.base_offset: file.state for file in log.segments}
        if not log.is_mounted:
            bases = dict.fromkeys(last_with_records(log.segments), State.LIVE)
        segments = [Segment(directory, base, OpenFiles(), bases[base]) for base in bases]
        copy = look(str(directory), log.start_offset, segments)
    return replace(copy, directory=log.directory)


def find_directories(
    paths: Sequence[str], cluster_id: str | None = None
) -> Iterator[tuple[TopicPartition, str]]:
    """The partitions' directories that are mounted, each once, also where several paths or links
    lead to it. They are absolute: executors have working directories of their own.

    MixedClustersError: they are of several clusters, and none is named."""
    return _directories(paths, _Clusters(cluster_id), [])


def _directories(
    paths: Sequence[str], clusters: "_Clusters", items: list[Item]
) -> Iterator[tuple[TopicPartition, str]]:
    seen: set[str] = set()
    for path in expanded(paths):
        for name, directory in _below(os.path.abspath(path), DEPTH_MAX, seen, items):  # noqa: PTH100
            if clusters.take(directory, directory):
                yield name, directory


class _Clusters:
    """Which clusters the directories are of, by the `meta.properties` beside the partitions."""

    def __init__(self, wanted: str | None) -> None:
        self._wanted = wanted
        self._of: dict[str, str | None] = {}  # by broker's directory
        self._first: tuple[str, str] | None = None  # a cluster, and a directory of it

    def take(self, directory: str, noted: str) -> bool:
        """Whether a partition's directory is to be read. `noted`: what is beside it is beside this
        path of this machine."""
        broker = os.path.dirname(directory)  # noqa: PTH120
        if broker not in self._of:
            self._of[broker] = cluster_of(os.path.dirname(noted))  # noqa: PTH120
        cluster = self._of[broker]
        if self._wanted is not None:
            return cluster == self._wanted
        if cluster is None:
            return True
        if self._first is None:
            self._first = cluster, broker
        if cluster != self._first[0]:
            raise MixedClustersError(
                f"{self._first[1]} is of the cluster {self._first[0]}, and {broker} of {cluster}: "
                "name directories of one cluster only (for the data source, clusterId names it)"
            )
        return True


def cluster_of(broker: str) -> str | None:
    """The cluster that a broker's directory is of; None: not known."""
    try:
        meta = read_meta_properties(Path(broker))
    except (OSError, CorruptFileError):
        return None
    return None if meta is None else meta.cluster_id


def read_partition(name: TopicPartition, directory: str) -> PartitionLog:
    """The segments that make up a partition's log now."""
    for _ in range(ATTEMPTS):
        try:
            return _read_partition(name, directory)
        except FileNotFoundError:
            if not os.path.isdir(directory):  # noqa: PTH112
                raise
    return _read_partition(name, directory)


def _read_partition(name: TopicPartition, directory: str) -> PartitionLog:
    layout = read_layout(Path(directory))
    gone = set(replaced(layout, _swap_end(layout, directory))) if layout.swaps else set()
    bases = [base for base, state in layout.logs.items() if state is State.SWAP or base not in gone]
    segments = [
        SegmentFile(
            directory,
            base,
            layout.logs[base],
            Segment(Path(directory), base, OpenFiles(), layout.logs[base]).path().stat().st_size,
            following,
        )
        for base, following in zip(bases, [*bases[1:], OFFSET_MAX], strict=True)
    ]
    start = max(_start_offset(name, directory), segments[0].base_offset if segments else 0)
    return PartitionLog(name, directory, start, tuple(segments))


def _swap_end(layout: Layout, directory: str) -> int:
    """The offset after the segments that a cleaner was about to swap in."""
    swaps = [base for base, state in layout.logs.items() if state is State.SWAP]
    ends = [0]
    for base in swaps:
        try:
            ends.append(next_offset_of(Segment(Path(directory), base, OpenFiles(), State.SWAP)))
        except CorruptRecordsError:
            continue
    return max(ends)


def _start_offset(name: TopicPartition, directory: str) -> int:
    """The log start offset that the broker has noted; 0: not known."""
    try:
        return read_offsets(Path(directory).parent / LOG_STARTS).get(name, 0)
    except (OSError, CorruptFileError):
        return 0


def _below(
    path: str, depth: int, seen: set[str], items: list[Item]
) -> Iterator[tuple[TopicPartition, str]]:
    """The partitions' directories; adds what is packed or of tiered storage to `items`."""
    real = os.path.realpath(path)
    if real in seen:
        return
    seen.add(real)
    folders, files = [], []
    with os.scandir(path) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir():
                folders.append(entry.path)
            elif entry.is_file():
                files.append(entry.name)
    name = parse_partition(os.path.basename(path))  # noqa: PTH119
    has_logs = any(map(_is_log, files))
    if any(PACKED.fullmatch(file) for file in files):
        items += (_item(os.path.join(path, file)) for file in files)  # noqa: PTH118
        if name is None or any(file.endswith(".log.gz") for file in files):
            items += _beside(path)
            has_logs = False
    if name is not None and has_logs:
        yield name, path
    elif depth:
        for folder in folders:
            yield from _below(folder, depth - 1, seen, items)


def _is_log(file: str) -> bool:
    """Whether a file is a segment's log, that counts or is about to."""
    found = parse_file_name(file)
    return found is not None and found.kind is Kind.LOG and found.state in (State.LIVE, State.SWAP)


def _beside(path: str) -> Iterator[Item]:
    """What a broker has noted beside a partition's directory."""
    above = os.path.dirname(path)  # noqa: PTH120
    for name in sorted(OF_BROKER):
        file = os.path.join(above, name)  # noqa: PTH118
        if os.path.isfile(file):  # noqa: PTH113
            yield _item(file)
