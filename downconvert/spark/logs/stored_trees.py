"""Finds the partitions among files that are not in mounted directories: objects in a store, members
of a tar, gzipped segments, tiered storage.

Reads names and sizes, brokers' checkpoints, and the manifests of Aiven's tiered storage.

Not here: mounted directories, and which copy is read (trees.py), stores (stores.py)."""

import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import quote, unquote, urlsplit

from downconvert.spark.stores.blobs import SMALL_SIZE_MAX, Blob
from downconvert.spark.stores.data_keys import DataKeys
from downconvert.spark.stores.file_systems import joined
from downconvert.spark.stores.object_cache import ObjectCache
from downconvert.spark.stores.parallel import in_parallel
from downconvert.spark.stores.patterns import alternatives
from downconvert.spark.stores.stores import Stored, listed, present, shown
from downconvert.spark.stores.tars import COMPRESSED, TAR, members
from downconvert.storage.errors import CorruptFileError
from downconvert.storage.names import (
    CLEANER_POINTS,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_STARTS,
    META_PROPERTIES,
    OFFSET_MAX,
    PARTITION_METADATA,
    SEGMENT_KINDS,
    FileName,
    Kind,
    State,
    TopicPartition,
    parse_file_name,
    parse_partition,
)

from .checkpoints import BrokerCheckpoints
from .segment_files import PartitionLog, SegmentFile
from .tiers import Remote, Tier, is_of_tier, remotes, tier_of

GZ: Final = ".gz"
OF_BROKER: Final = {META_PROPERTIES, LOG_STARTS, HIGH_WATERMARKS, CLEANER_POINTS}
OF_PARTITION: Final = {LEADER_EPOCHS, PARTITION_METADATA}
MAGIC: Final = re.compile(r"[*?\[{]")

Folder: TypeAlias = tuple[str, ...]


class Item(NamedTuple):
    """A file: its folder from the root on, its name, and its bytes."""

    folder: Folder
    name: str
    blob: Blob


class Found(NamedTuple):
    """The partitions that were found: logs as a broker keeps them, and segments in tiers."""

    logs: list[PartitionLog]
    tiers: dict[Tier, list[Remote]]


def items_of(uri: str) -> list[Item]:
    """The objects below a URI, which may be a pattern, or the members of a tar. If it names a
    partition's folder, the broker's files beside that are included.

    FileNotFoundError: there are none. StoreError."""
    found: dict[str, Item] = {}
    brokers: set[str] = set()
    for alternative in alternatives(uri.replace("[^", "[!")):
        base, pattern = _fixed(alternative)
        depth = len(shown(alternative).rstrip("/").split("/"))
        with nullcontext() if alternative == uri else suppress(FileNotFoundError):
            for one in listed(base):
                if _matches(one.uri, base, pattern):
                    found[one.uri] = item = _item(one)
                    if len(item.folder) == depth and parse_partition(item.folder[-1]) is not None:
                        brokers.add(_broker_above(one.uri))
    if not found:
        raise FileNotFoundError(2, "no object matches that", shown(uri))
    for broker in filter(None, brokers):
        found |= {one.uri: _item(one) for one in present(broker, sorted(OF_BROKER))}
    return list(found.values())


def _broker_above(uri: str) -> str:
    """The URI of the folder above a file's folder; empty: there is none."""
    parts = urlsplit(uri)
    above, *names = parts.path.rsplit("/", 2)
    return joined(parts._replace(path=above)) if len(names) == 2 else ""


def _fixed(uri: str) -> tuple[str, list[str]]:
    """Splits a URI into the part without patterns, and the names and patterns after it."""
    parts = urlsplit(uri)
    names = unquote(parts.path).split("/")
    fixed = next((at for at, name in enumerate(names) if MAGIC.search(name)), len(names))
    base = joined(parts._replace(path="/".join(map(quote, names[:fixed]))))
    return base, names[fixed:]


def _matches(uri: str, base: str, pattern: Sequence[str]) -> bool:
    rest = shown(uri)[len(shown(base)) :].strip("/").split("/")
    return len(rest) >= len(pattern) and all(map(fnmatchcase, rest, pattern))


def _item(found: Stored) -> Item:
    *folder, name = shown(found.uri).split("/")
    return Item(tuple(folder), name, Blob(found.uri, found.size, 0, found.modified))


def unpacked(items: Iterable[Item]) -> Iterator[Item]:
    """Replaces tars by their members. CorruptFileError: a tar is damaged, or compressed as a
    whole."""
    for item in items:
        if COMPRESSED.fullmatch(item.name):
            raise CorruptFileError(
                "is a tar that was compressed as a whole: unpack it, or tar gzipped segments",
                item.blob.name,
            )
        if TAR.fullmatch(item.name):
            top = (*item.folder, item.name)
            for parts, blob in members(item.blob):
                yield Item((*top, *parts[:-1]), parts[-1], blob)
        else:
            yield item


def found_among(
    items: Iterable[Item],
    keys: DataKeys,
    cache: ObjectCache,
    takes: Callable[[TopicPartition], bool],
    takes_log: Callable[[TopicPartition, str, str], bool],
    checkpoints: BrokerCheckpoints,
) -> Found:
    """The partitions among items.

    `cache`: the cache of earlier searches. `takes`: selects partitions in tiers by name. The
    manifests of other partitions are not read. `takes_log`: selects brokers' logs by name,
    directory, and a path of this machine, beside which the broker's files are. Other logs may be in
    any state.

    CorruptFileError, FileNotFoundError, StoreError."""
    folders: dict[Folder, dict[str, Blob]] = {}
    for item in unpacked(items):
        folders.setdefault(item.folder, {})[item.name] = item.blob
    logs, tiers = [], []
    brokers: dict[Folder, str] = {}
    for folder in sorted(folders):
        files = folders[folder]
        tier = tier_of(folder)
        if tier is not None and any(map(is_of_tier, files)):
            if takes(tier.topic_partition):
                tiers.append((tier, "/".join(folder), files))
            continue
        name = parse_partition(folder[-1]) if folder else None
        if name is None or not any(map(_is_log, files)):
            continue
        above = folder[:-1]
        if above not in brokers:
            brokers[above] = broker_of(folders.get(above, {}))
        directory, noted = "/".join(folder), f"{brokers[above]}/{name}"
        if takes_log(name, directory, noted):
            logs.append(_log(name, directory, files, noted, checkpoints))
    read = in_parallel(lambda one: remotes(one[1], one[2], keys, cache), tiers)
    grouped: dict[Tier, list[Remote]] = {}
    for (tier, _, _), segments in zip(tiers, read, strict=True):
        grouped.setdefault(tier, []).extend(segments)
    return Found(logs, grouped)


def _is_log(name: str) -> bool:
    return is_log(name.removesuffix(GZ))


def is_log(name: str) -> bool:
    """Whether a file is a segment's log, either valid or about to be."""
    found = parse_file_name(name)
    return found is not None and found.kind is Kind.LOG and found.state in (State.LIVE, State.SWAP)


def _log(
    name: TopicPartition,
    directory: str,
    files: Mapping[str, Blob],
    noted: str,
    checkpoints: BrokerCheckpoints,
) -> PartitionLog:
    """The segments of a partition's log. `noted`: a path of this machine. The broker's checkpoints
    are beside it. CorruptFileError: the log was copied while a cleaner was replacing segments. The
    valid ones can only be found in a mounted directory."""
    grouped: dict[int, dict[Kind, Blob]] = {}
    sides: list[tuple[str, Blob]] = []
    for file, blob in sorted(files.items()):  # a plain file before its gzipped copy
        plain = file.removesuffix(GZ)
        if plain != file:
            blob = replace(blob, is_gzipped=True)
        found = parse_file_name(plain)
        if plain in OF_PARTITION or _is_snapshot(found):
            sides.append((plain, blob))
        elif found is not None and found.state is State.SWAP and found.kind is Kind.LOG:
            raise CorruptFileError(
                "was copied while a broker cleaned it: copy it to a directory", blob.name
            )
        elif found is not None and found.state is State.LIVE and found.kind in SEGMENT_KINDS:
            grouped.setdefault(found.offset, {}).setdefault(found.kind, blob)
    bases = sorted(base for base, blobs in grouped.items() if Kind.LOG in blobs)
    cleaned = checkpoints.cleaned.of(name, noted)
    segments = tuple(
        SegmentFile(
            directory,
            base,
            State.LIVE,
            grouped[base][Kind.LOG].size,
            following,
            tuple(grouped[base].items()),
            cleaned=cleaned,
        )
        for base, following in pairwise([*bases, OFFSET_MAX])
    )
    start = max(checkpoints.starts.of(name, noted), segments[0].base_offset if segments else 0)
    broker = str(Path(noted).parent)
    return PartitionLog(name, directory, start, segments, broker, tuple(sides))


def _is_snapshot(found: FileName | None) -> bool:
    return found is not None and found.kind is Kind.SNAPSHOT and found.state is State.LIVE


def broker_of(files: Mapping[str, Blob]) -> str:
    """Copies a broker's checkpoints, which cover all its partitions, to a directory of this
    machine."""
    small = {name: blob for name, blob in files.items() if blob.size < SMALL_SIZE_MAX}
    noted = {name: small[name] for name in OF_BROKER & small.keys()}
    digest = sha256(repr(sorted(noted.items(), key=lambda pair: pair[0])).encode()).hexdigest()
    directory = Path(_scratch().name) / digest
    if not directory.exists():
        # The directory appears only when it is complete: without the checkpoints there would be no
        # high watermark.
        part = Path(tempfile.mkdtemp(dir=_scratch().name))
        try:
            for name, blob in noted.items():
                blob.save_current(part / name)
            part.rename(directory)
        except OSError:
            if not directory.exists():  # another thread may have made it
                raise
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return str(directory)


def forget(broker: str) -> None:
    """Removes the copies of a broker's checkpoints after these have changed."""
    if Path(broker).parent == Path(_scratch().name):
        shutil.rmtree(broker, ignore_errors=True)


@cache
def _scratch() -> "tempfile.TemporaryDirectory[str]":
    """The scratch directory, removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="kafka-segments-")
