"""Makes segments as tiered storage keeps them: Aiven's plugin, and Kafka's LocalTieredStorage."""

import base64
import json
import os
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import zstandard

from downconvert.storage.names import Kind, file_name

TOPIC_ID: Final = "MWJ6FHTfRYy67jzwZdeqSQ"
KINDS: Final = {
    "offset": Kind.OFFSET_INDEX,
    "timestamp": Kind.TIME_INDEX,
    "producerSnapshot": Kind.SNAPSHOT,
    "leaderEpoch": None,
    "transaction": Kind.TRANSACTION_INDEX,
}


@dataclass(frozen=True, slots=True)
class Packing:
    """How a segment is packed. key_pair: of the operator, whose id is `main`."""

    chunk_size: int = 1000
    is_compressed: bool = False
    key_pair: Any = None


def aiven(
    target: Path,
    source: Path,
    base_offset: int,
    end_offset: int,
    packing: Packing,
    segment_id: str = "tqimKeZwStOEOwRzT3L5oQ",
    topic_id: str = TOPIC_ID,
) -> Path:
    """Copies a segment of a partition's directory away; returns the manifest's path.

    `end_offset`: of its last record."""
    topic, _, partition = source.name.rpartition("-")
    folder = target / f"{topic}-{topic_id}" / partition
    folder.mkdir(parents=True, exist_ok=True)
    data = (source / file_name(base_offset, Kind.LOG)).read_bytes()
    key, aad = os.urandom(32), os.urandom(32)
    size = packing.chunk_size
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    if packing.is_compressed:
        chunks = [zstandard.compress(chunk) for chunk in chunks]
    if packing.key_pair is not None:
        chunks = [encrypted(chunk, key, aad) for chunk in chunks]
    sizes = [len(chunk) for chunk in chunks]
    index: dict[str, Any] = {"originalChunkSize": size, "originalFileSize": len(data)}
    if packing.is_compressed:
        packed = zstandard.compress(encoded_sizes(sizes))
        index |= {"type": "variable", "transformedChunks": base64.b64encode(packed).decode()}
    else:
        full, last = (sizes[0], sizes[-1]) if sizes else (size, 0)
        index |= {
            "type": "fixed",
            "transformedChunkSize": full,
            "finalTransformedChunkSize": last,
        }
    parts: dict[str, Any] = {}
    indexes = bytearray()
    for name, kind in KINDS.items():
        path = source / file_name(base_offset, kind) if kind else source / "none"
        plain = path.read_bytes() if path.exists() else b""
        if name == "transaction" and not plain:
            parts[name] = None
            continue
        stored = encrypted(plain, key, aad) if packing.key_pair is not None and plain else plain
        parts[name] = {"position": len(indexes), "size": len(stored)}
        indexes += stored
    manifest: dict[str, Any] = {
        "version": "1",
        "chunkIndex": index,
        "segmentIndexes": parts,
        "compression": packing.is_compressed,
        "remoteLogSegmentMetadata": {"startOffset": base_offset, "endOffset": end_offset},
    }
    if packing.key_pair is not None:
        wrapped = base64.b64encode(_wrapped(packing.key_pair, key)).decode()
        aad_text = base64.b64encode(aad).decode()
        manifest["encryption"] = {"dataKey": f"main:{wrapped}", "aad": aad_text}
    name = f"{base_offset:020d}-{segment_id}"
    (folder / f"{name}.log").write_bytes(b"".join(chunks))
    (folder / f"{name}.indexes").write_bytes(indexes)
    path = folder / f"{name}.rsm-manifest"
    path.write_text(json.dumps(manifest))
    return path


def local_tiered(
    target: Path,
    source: Path,
    base_offset: int,
    segment_id: str = "oAtiIQ95REujbuzNd_lkLQ",
    topic_id: str = TOPIC_ID,
) -> None:
    """Copies a segment of a partition's directory as LocalTieredStorage does."""
    folder = target / f"{source.name}-{topic_id}"
    folder.mkdir(parents=True, exist_ok=True)
    for kind in (Kind.LOG, Kind.OFFSET_INDEX, Kind.TIME_INDEX, Kind.TRANSACTION_INDEX):
        path = source / file_name(base_offset, kind)
        if path.exists():
            name = f"{base_offset:020d}-{segment_id}{kind.value}"
            (folder / name).write_bytes(path.read_bytes())


def encoded_sizes(sizes: Sequence[int]) -> bytes:
    """As ChunkSizesBinaryCodec writes them."""
    if len(sizes) <= 1:
        return struct.pack(f">{1 + len(sizes)}i", len(sizes), *sizes)
    least = min(sizes[:-1])
    added = [size - least for size in sizes[:-1]]
    width = max(1, *((one.bit_length() + 7) // 8 for one in added))
    body = b"".join(one.to_bytes(width, "big") for one in added)
    return struct.pack(">iiB", len(sizes), least, width) + body + struct.pack(">i", sizes[-1])


def encrypted(data: bytes, key: bytes, aad: bytes) -> bytes:
    """The IV, and what AES-GCM makes of the data."""
    from Crypto.Cipher import AES

    iv = os.urandom(12)
    cipher = AES.new(key, AES.MODE_GCM, nonce=iv)
    cipher.update(aad)
    return iv + b"".join(cipher.encrypt_and_digest(data))


def _wrapped(key_pair: Any, key: bytes) -> bytes:
    from Crypto.Cipher import PKCS1_OAEP
    from Crypto.Hash import SHA3_512

    return bytes(PKCS1_OAEP.new(key_pair, SHA3_512).encrypt(key))


def write_key(key_pair: Any, path: Path) -> None:
    """Writes a private key as PEM."""
    path.write_bytes(key_pair.export_key("PEM"))


def remove_segments(directory: Path, bases: Iterable[int]) -> None:
    """Removes segments from a partition's directory, as a broker does once they are copied."""
    for base in bases:
        for kind in Kind:
            (directory / file_name(base, kind)).unlink(missing_ok=True)
