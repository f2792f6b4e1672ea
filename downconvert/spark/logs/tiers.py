"""Segments that brokers have copied to tiered storage (KIP-405).

Two layouts are known:

* Aiven's plugin: `<prefix><topic>-<topic id>/<partition>/<offset>-<segment id>` with `.log`,
  `.indexes` (all of them in one) and `.rsm-manifest`. The manifest is written last. It says how the
  log was cut, compressed and encrypted, and where the indexes are.
* Kafka's own LocalTieredStorage: `<topic>-<partition>-<topic id>/<offset>-<segment id>` with a
  suffix for each file, unchanged.

Facts: ObjectKeyFactory, SegmentManifestV1 and ChunkSizesBinaryCodec of
Aiven-Open/tiered-storage-for-apache-kafka; RemoteLogSegmentFileset and
RemoteTopicPartitionDirectory of Kafka's tests.

Not here: reading chunks (chunks.py), where objects are found (stored_trees.py), segments that
overlap (overlaps.py), tiers and local segments together (tiered_logs.py)."""

import base64
import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import zstandard

from downconvert.spark.stores.blobs import LOG_SIZE_MAX, Blob
from downconvert.spark.stores.chunks import CHUNK_SIZE_MAX, SEAL_SIZE, Chunks, Key
from downconvert.spark.stores.data_keys import DataKeys, KeyFileError
from downconvert.spark.stores.object_cache import ObjectCache
from downconvert.storage.errors import CorruptFileError
from downconvert.storage.names import OFFSET_MAX, Kind, State, TopicPartition

from .segment_files import SegmentFile

ID: Final = r"[a-zA-Z0-9_-]{22}"
TOPIC: Final = r"[a-zA-Z0-9._-]{1,249}"
FILE: Final = re.compile(rf"([0-9]{{1,20}})-({ID})\.([a-z_-]+)")
# Aiven names the topic in the folder above the partition's, Kafka in the partition's own folder.
OF_AIVEN: Final = re.compile(rf"(?:.*?)({TOPIC})-({ID})")
OF_KAFKA: Final = re.compile(rf"({TOPIC})-([0-9]{{1,10}})-({ID})")
MANIFEST: Final = "rsm-manifest"
MANIFEST_SIZE_MAX: Final = 16 * 1024 * 1024
CHUNKS_MAX: Final = 1 << 20
SIZES_MAX: Final = 4 * CHUNKS_MAX + 16  # bytes of the encoded chunk sizes
DAMAGE: Final = (RecursionError, struct.error, zstandard.ZstdError)
SUFFIXES: Final = {
    "log": Kind.LOG,
    "index": Kind.OFFSET_INDEX,
    "timeindex": Kind.TIME_INDEX,
    "txnindex": Kind.TRANSACTION_INDEX,
}
PARTS: Final = {
    "offset": Kind.OFFSET_INDEX,
    "timestamp": Kind.TIME_INDEX,
    "transaction": Kind.TRANSACTION_INDEX,
}


class Tier(NamedTuple):
    """A partition in tiered storage: its name, and the id of its topic."""

    topic_partition: TopicPartition
    topic_id: str


@dataclass(frozen=True, slots=True)
class Remote:
    """A segment in tiered storage. `end_offset`: after its last record; None: not known.
    `is_damaged`: damage follows that record, and may hide others."""

    file: SegmentFile
    end_offset: int | None
    is_damaged: bool = False


def tier_of(folder: Sequence[str]) -> Tier | None:
    """The partition whose segments are in a folder; None: the folder is not part of tiered
    storage."""
    if not folder:
        return None
    found = OF_KAFKA.fullmatch(folder[-1])
    if found is not None:
        return Tier(TopicPartition(found[1], int(found[2])), found[3])
    if len(folder) > 1 and re.fullmatch(r"[0-9]{1,10}", folder[-1]):
        found = OF_AIVEN.fullmatch(folder[-2])
        if found is not None:
            return Tier(TopicPartition(found[1], int(folder[-1])), found[2])
    return None


def is_of_tier(name: str) -> bool:
    """Whether a file belongs to a segment in tiered storage."""
    return FILE.fullmatch(name) is not None


def remotes(
    directory: str, files: Mapping[str, Blob], keys: DataKeys, cache: ObjectCache
) -> list[Remote]:
    """The segments among a folder's files. CorruptFileError: a manifest is malformed."""
    grouped: dict[tuple[int, str], dict[str, Blob]] = {}
    for name, blob in files.items():
        found = FILE.fullmatch(name)
        if found is not None and int(found[1]) <= OFFSET_MAX:
            grouped.setdefault((int(found[1]), found[2]), {})[found[3]] = blob
    read = []
    for (base_offset, _), parts in sorted(grouped.items()):
        if "log" not in parts:
            continue
        if MANIFEST in parts:
            make = partial(_of_aiven, directory, base_offset, parts, keys)
            read.append(cache.of((directory, *sorted(parts.items())), make))
        elif "index" in parts:  # without Aiven's manifest the copy was never finished
            read.append(_of_kafka(directory, base_offset, parts))
    return read


def _of_kafka(directory: str, base_offset: int, parts: Mapping[str, Blob]) -> Remote:
    blobs = [(kind, parts[suffix]) for suffix, kind in SUFFIXES.items() if suffix in parts]
    file = SegmentFile(
        directory, base_offset, State.LIVE, parts["log"].size, OFFSET_MAX, tuple(blobs)
    )
    return Remote(file, None)


def _of_aiven(
    directory: str, base_offset: int, parts: Mapping[str, Blob], keys: DataKeys
) -> Remote:
    manifest = parts[MANIFEST]
    if manifest.size > MANIFEST_SIZE_MAX:
        raise CorruptFileError(
            f"has {manifest.size} bytes; a manifest has at most {MANIFEST_SIZE_MAX}", manifest.name
        )
    try:
        found = json.loads(manifest.read())
        key = _key(found.get("encryption"), manifest.name, keys)
        chunks = _chunks(found["chunkIndex"], found["compression"] is True, key)
        if sum(chunks.stored_sizes) > parts["log"].size:
            raise ValueError("its chunks are larger than its log")
        log = Blob(
            parts["log"].path,
            chunks.total,
            parts["log"].start,
            parts["log"].modified,
            chunks=None if key is None and not chunks.is_compressed else chunks,
        )
        blobs = [(Kind.LOG, log)]
        for part, kind in PARTS.items():
            index = (found.get("segmentIndexes") or {}).get(part)
            if index is not None and index["size"] and "indexes" in parts:
                blobs.append((kind, _index(parts["indexes"], index, key)))
        metadata = found.get("remoteLogSegmentMetadata") or {}
        end = metadata.get("endOffset")
        after = None if end is None else _integer(end, 0, OFFSET_MAX - 1) + 1
    except (KeyError, TypeError, AttributeError, ValueError, *DAMAGE) as error:
        if isinstance(error, CorruptFileError | KeyFileError):
            raise
        raise CorruptFileError(f"cannot be read as a manifest: {error}", manifest.name) from error
    file = SegmentFile(directory, base_offset, State.LIVE, log.size, OFFSET_MAX, tuple(blobs))
    return Remote(file, after)


def _key(found: Any, name: str, keys: DataKeys) -> Key | None:
    if found is None:
        return None
    return Key(keys.decrypted(str(found["dataKey"]), name), base64.b64decode(found["aad"]))


def _chunks(index: Mapping[str, Any], is_compressed: bool, key: Key | None) -> Chunks:
    """The chunks that a manifest describes. ValueError: it describes none."""
    total = _integer(index["originalFileSize"], 0, LOG_SIZE_MAX)
    size = _integer(index["originalChunkSize"], 1, LOG_SIZE_MAX)
    count = -(-total // size)
    if count > CHUNKS_MAX:
        raise ValueError(f"{count} chunks; the most is {CHUNKS_MAX}")
    if (is_compressed or key is not None) and min(size, total) > CHUNK_SIZE_MAX:
        raise ValueError(f"chunks of {size} bytes; the most is {CHUNK_SIZE_MAX}")
    if index["type"] == "fixed":
        full = _integer(index["transformedChunkSize"], 0, LOG_SIZE_MAX)
        last = _integer(index["finalTransformedChunkSize"], 0, LOG_SIZE_MAX)
        sizes = [full] * (count - 1) + [last] * (count > 0)
    elif index["type"] == "variable":
        packed = base64.b64decode(index["transformedChunks"], validate=True)
        if not 0 <= zstandard.frame_content_size(packed) <= SIZES_MAX:
            raise ValueError("malformed sizes of chunks")
        sizes = decoded_sizes(zstandard.ZstdDecompressor().decompress(packed))
    else:
        raise ValueError(f"chunks of the type {str(index['type'])[:20]!r}")
    if len(sizes) != count and not (total == 0 and len(sizes) <= 1):
        raise ValueError(f"{len(sizes)} chunks instead of {count}")
    added = 0 if key is None else SEAL_SIZE * len(sizes)
    if not is_compressed and sum(sizes) != total + added:
        raise ValueError(f"chunks of {sum(sizes)} bytes for a log of {total}")
    return Chunks(size, total, tuple(sizes), is_compressed, key)


def decoded_sizes(data: bytes) -> list[int]:
    """Decodes the sizes of chunks. The format: their count and, for more than one, the smallest
    size and the number of bytes of each difference to it. The last size is written in full.
    ValueError: they are malformed."""
    try:
        (count,) = struct.unpack_from(">i", data)
        if count <= 1:
            return list(struct.unpack_from(">i", data, 4)) if count == 1 else []
        least, width = struct.unpack_from(">iB", data, 4)
        if not 1 <= width <= 4 or len(data) != 13 + (count - 1) * width:
            raise ValueError("malformed sizes of chunks")
        added = [data[at : at + width] for at in range(9, len(data) - 4, width)]
        sizes = [least + int.from_bytes(one, "big") for one in added]
        sizes += struct.unpack_from(">i", data, len(data) - 4)
    except struct.error as error:
        raise ValueError("malformed sizes of chunks") from error
    if min(sizes) < 0:
        raise ValueError("malformed sizes of chunks")
    return sizes


def _index(indexes: Blob, part: Mapping[str, Any], key: Key | None) -> Blob:
    """One of the indexes in the common object. Each was encrypted as one chunk."""
    position = _integer(part["position"], 0, indexes.size)
    size = _integer(part["size"], 0, indexes.size - position)
    start = indexes.start + position
    if key is None:
        return Blob(indexes.path, size, start, indexes.modified)
    plain = size - SEAL_SIZE
    if plain < 0:
        raise ValueError("an encrypted index of no size")
    chunks = Chunks(plain, plain, (size,), False, key)
    return Blob(indexes.path, plain, start, indexes.modified, chunks=chunks)


def _integer(found: Any, low: int, high: int) -> int:
    if type(found) is not int or not low <= found <= high:
        raise ValueError(f"{str(found)[:30]} is not from {low} to {high}")
    return found
