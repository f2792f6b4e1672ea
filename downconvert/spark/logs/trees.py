"""Finds the partitions and segments below log directories, mounted or copied.

A path may be a broker's log directory, a partition's directory, or any directory above several of
them, for example a backup with a folder per broker. A partition that several brokers of a cluster
have is read once. Brokers of two clusters are refused.

Only names and sizes are read, unless there are copies to choose from. downconvert/storage/layout.py
decides which files are valid after a crash.

Not here: choosing a copy (copies.py), cutting a segment (splits.py), choosing the offsets to read
(planner.py)."""

import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from downconvert.spark.errors import MixedClustersError
from downconvert.spark.stores.blobs import Blob
from downconvert.spark.stores.data_keys import DataKeys
from downconvert.spark.stores.object_cache import ObjectCache
from downconvert.spark.stores.patterns import expanded
from downconvert.spark.stores.stores import is_stored, pinned
from downconvert.spark.stores.tars import COMPRESSED, TAR
from downconvert.storage.checkpoints.metadata import read_meta_properties, topic_id_text
from downconvert.storage.disk.open_files import OpenFiles
from downconvert.storage.errors import CorruptFileError
from downconvert.storage.layout import Layout, read_layout, replaced
from downconvert.storage.names import (
    OFFSET_MAX,
    Kind,
    State,
    TopicPartition,
    file_name,
    parse_partition,
)
from downconvert.storage.segments.segment import Segment
from downconvert.storage.segments.tail import next_offset_of
from records import CorruptRecordsError

from .checkpoints import BrokerCheckpoints
from .compacted import COMPACTED, with_cleaned
from .copies import ATTEMPTS, chosen
from .overlaps import with_ends
from .replicas import topic_id_of
from .segment_files import PartitionLog, SegmentFile
from .staging import staged
from .stored_trees import OF_BROKER, Item, found_among, is_log, items_of
from .tiered_logs import tiered
from .tiers import Tier

LOGS: Final = (".log", ".log.swap")

# Levels of folders. A backup has one for each day, broker and disk.
DEPTH_MAX: Final = 12

# File names that show that a folder holds more than plain logs of a broker.
PACKED: Final = re.compile(
    r"[0-9]{20}\.log\.gz|.+\.tar|.+\.(tar\.(gz|bz2|xz|zst|lz4)|tgz)|[0-9]{1,20}-[\w-]{22}\.[a-z_-]+"
)


def find_partitions(
    paths: Sequence[str],
    cluster_id: str | None = None,
    keys: DataKeys | None = None,
    cache: ObjectCache | None = None,
    takes: Callable[[TopicPartition], bool] = lambda _: True,
    is_compacted: Callable[[str], bool] = lambda _: False,
) -> list[PartitionLog]:
    """The partitions below the paths, by topic and number. If a cluster is named, only its
    partitions.

    `keys`: for encrypted tiered storage; None: the environment's keys. `cache`: the cache of
    earlier searches. `takes`: selects partitions by name. The files of others are not read.
    `is_compacted`: whether a topic is known to be compacted, whatever its files show.

    OSError: a path is no directory, tar or URI of a store. MixedClustersError: there are several
    clusters below them. CorruptFileError: a tar or a manifest is damaged."""
    cache = cache or ObjectCache()
    checkpoints = BrokerCheckpoints()
    found: dict[TopicPartition, list[PartitionLog]] = {}
    clusters = _Clusters(cluster_id)
    items: list[Item] = []
    mounted = [path for path in paths if not is_elsewhere(path)]
    for name, directory in _directories(mounted, clusters, items):
        if takes(name):
            with suppress(FileNotFoundError):  # it was deleted since it was found
                log = read_partition(name, directory, checkpoints)
                found.setdefault(name, []).append(log)
    for path in paths:
        if is_stored(path):
            items += items_of(pinned(path))
        elif is_elsewhere(path):
            items.append(_item(os.path.abspath(path)))  # noqa: PTH100

    def takes_log(name: TopicPartition, directory: str, noted: str) -> bool:
        return clusters.take(directory, noted) and takes(name)

    others = found_among(items, keys or DataKeys(), cache, takes, takes_log, checkpoints)
    for log in others.logs:
        found.setdefault(log.topic_partition, []).append(log)
    logs = chosen(found, cache, _read_again)
    for tier, segments in with_ends(others.tiers, cache).items():
        local = logs.get(tier.topic_partition)
        _check_same_topic(tier, local)
        logs[tier.topic_partition] = tiered(tier, segments, local)
    return [
        with_cleaned(logs[name], OFFSET_MAX)
        if name.topic in COMPACTED or is_compacted(name.topic)
        else logs[name]
        for name in sorted(logs)
    ]


def is_elsewhere(path: str) -> bool:
    """Whether a path is not a directory of this machine: a URI of a store, or a tar."""
    is_named_so = TAR.fullmatch(path) or COMPRESSED.fullmatch(path)
    return is_stored(path) or (is_named_so is not None and os.path.isfile(path))  # noqa: PTH113


def _check_same_topic(tier: Tier, local: PartitionLog | None) -> None:
    """MixedClustersError: the brokers' log, or another tier, belongs to another topic of that
    name."""
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


def _read_again(log: PartitionLog) -> PartitionLog:
    return read_partition(log.topic_partition, log.directory)


def _directories(
    paths: Sequence[str], clusters: "_Clusters", items: list[Item]
) -> Iterator[tuple[TopicPartition, str]]:
    """The mounted partition directories, each once, even if several paths or links lead to it. The
    paths are absolute, because executors have other working directories. `items` gets the files of
    tars, of tiered storage and beside gzipped segments.

    MixedClustersError: they are of several clusters, and none is named."""
    seen: set[tuple[int, int]] = set()
    for path in expanded(paths):
        for name, directory in _below(os.path.abspath(path), DEPTH_MAX, seen, items):  # noqa: PTH100
            if clusters.take(directory, directory):
                yield name, directory


class _Clusters:
    """The clusters of the directories, by the `meta.properties` beside the partitions."""

    def __init__(self, wanted: str | None) -> None:
        self._wanted = wanted
        self._of: dict[str, str | None] = {}  # by broker's directory
        self._first: tuple[str, str] | None = None  # a cluster, and a directory of it

    def take(self, directory: str, noted: str) -> bool:
        """Whether to read a partition's directory. `noted`: a path of this machine. The broker's
        files are beside it."""
        broker = directory.rpartition("/")[0]
        if broker not in self._of:
            self._of[broker] = cluster_of(noted.rpartition("/")[0])
            if self._wanted is not None and self._of[broker] is None:
                warnings.warn(
                    f"{broker} has no file that names its cluster: it is left out, because "
                    f"clusterId is {self._wanted}",
                    RuntimeWarning,
                    stacklevel=3,
                )
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
    """The cluster of a broker's directory; None: not known. Warns if the file that names it is
    damaged."""
    try:
        meta = read_meta_properties(Path(broker))
    except CorruptFileError as error:
        what = f"{error}; the cluster of this directory counts as unknown"
        warnings.warn(what, RuntimeWarning, stacklevel=2)
        return None
    except OSError:
        return None
    return None if meta is None else meta.cluster_id


def read_partition(
    name: TopicPartition, directory: str, checkpoints: BrokerCheckpoints | None = None
) -> PartitionLog:
    """The segments of a partition's log as they are now. `checkpoints`: those that were read
    before. FileNotFoundError: there is no such directory."""
    checkpoints = checkpoints or BrokerCheckpoints()
    for _ in range(ATTEMPTS):
        try:
            return _read_partition(name, directory, checkpoints)
        except FileNotFoundError:
            if not os.path.isdir(directory):  # noqa: PTH112
                raise
    return _read_partition(name, directory, checkpoints)


def _read_partition(
    name: TopicPartition, directory: str, checkpoints: BrokerCheckpoints
) -> PartitionLog:
    layout = read_layout(Path(directory))
    gone = set(replaced(layout, _swap_end(layout, directory))) if layout.swaps else set()
    bases = [base for base, state in layout.logs.items() if state is State.SWAP or base not in gone]
    cleaned = checkpoints.cleaned.of(name, directory)
    segments = []
    for base, following in pairwise([*bases, OFFSET_MAX]):
        state = layout.logs[base]
        # strings: making a Path costs more than a stat
        found = os.stat(f"{directory}/{file_name(base, Kind.LOG, state)}")  # noqa: PTH116
        size, inode = found.st_size, found.st_ino
        segments.append(
            SegmentFile(directory, base, state, size, following, inode=inode, cleaned=cleaned)
        )
    start = max(checkpoints.starts.of(name, directory), segments[0].base_offset if segments else 0)
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


def _below(
    path: str, depth: int, seen: set[tuple[int, int]], items: list[Item]
) -> Iterator[tuple[TopicPartition, str]]:
    """Yields the partitions' directories. Adds packed and tiered files to `items`."""
    status = os.stat(path)  # noqa: PTH116 - also where a link leads
    if (status.st_dev, status.st_ino) in seen:
        return
    seen.add((status.st_dev, status.st_ino))
    folders, files = [], []
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_file():
                files.append(entry.name)
            elif entry.is_dir():
                folders.append(entry.path)
    name = parse_partition(path.rpartition("/")[2])
    has_logs = any(file.endswith(LOGS) and is_log(file) for file in files)
    if any(map(PACKED.fullmatch, files)):
        items += (_item(os.path.join(path, file)) for file in sorted(files))  # noqa: PTH118
        if name is None or any(file.endswith(".log.gz") for file in files):
            items += _beside(path)
            has_logs = False
    if name is not None and has_logs:
        yield name, path
    elif depth:
        for folder in sorted(folders):
            yield from _below(folder, depth - 1, seen, items)


def _beside(path: str) -> Iterator[Item]:
    """The broker's files beside a partition's directory."""
    above = os.path.dirname(path)  # noqa: PTH120
    for name in sorted(OF_BROKER):
        file = os.path.join(above, name)  # noqa: PTH118
        if os.path.isfile(file):  # noqa: PTH113
            yield _item(file)
