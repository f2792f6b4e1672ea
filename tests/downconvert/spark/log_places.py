"""One log in many places: on one broker or several, whole or damaged, in a tar, gzipped, in a
store, and in tiered storage with the last segment on a broker.

The stores here are directories of this machine, which tests with the fixture
`store_of_this_machine` read as a file system of Hadoop."""

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from downconvert.storage.indexes.transaction_index import ENTRY, VERSION, AbortedTransaction
from downconvert.storage.names import HIGH_WATERMARKS, PARTITION_METADATA, Kind, file_name
from records import Codec, ControlRecordType, MemoryRecords, Record, build, build_marker, read
from records.formats import V0, V1, V2
from tests.downconvert.storage.logs import batch, indexed_segment, segment

from .reading import expected, packed
from .tiered import TOPIC_ID, Packing, aiven, local_tiered, remove_segments

ABORT, COMMIT = ControlRecordType.ABORT, ControlRecordType.COMMIT
STORE: Final = "hdfs://"  # before the path of a directory of this machine


def of_producer(producer_id: int) -> dict[str, Any]:
    return {"producer_id": producer_id, "producer_epoch": 0, "transactional": True}


def with_headers(*offsets: int) -> bytes:
    found = [Record(n, 10 * n, value=b"%d" % n, headers=[("h", b"%d" % n)]) for n in offsets]
    return build(found, magic=V2, codec=Codec.LZ4)


# Batches by the base offset of their segment. A segment, a batch and a transaction end at different
# offsets, and offsets are missing inside of batches and between them, as after compaction.
LOG: Final = {
    0: (
        batch(0, magic=V0),
        batch(1, magic=V1),
        batch(2, 3, 4, 5, magic=V1, codec=Codec.GZIP),
        batch(6, 7, magic=V0, codec=Codec.SNAPPY),
    ),
    8: (
        batch(8, 9, 10),
        batch(11, 12, 14, codec=Codec.ZSTD),
        batch(15, 16, **of_producer(7)),
        batch(17, 18, codec=Codec.GZIP, **of_producer(8)),
        build_marker(ABORT, offset=19, timestamp=190, producer_id=7),
        build_marker(COMMIT, offset=20, timestamp=200, producer_id=8),
    ),
    21: (with_headers(21, 22, 23), batch(24, **of_producer(7)), batch(25, **of_producer(9))),
    26: (
        build_marker(ABORT, offset=26, timestamp=260, producer_id=9),
        batch(27, **of_producer(7)),
        batch(28, **of_producer(7)),
        build_marker(ABORT, offset=29, timestamp=290, producer_id=7),
        batch(30, codec=Codec.ZSTD),
        batch(31, size=300),
    ),
}
# The entries of each transaction index: the producer, the first offset, the offset of the marker,
# and the last stable offset then. The last transaction that begins is not the last one that ends.
ABORTS: Final = {
    8: [AbortedTransaction(7, 15, 19, 17)],
    26: [AbortedTransaction(9, 25, 26, 24), AbortedTransaction(7, 24, 29, 30)],
}
ABORTED: Final = {15, 16, 24, 25, 27, 28}
ABORTED_BATCHES: Final = {15, 19, 24, 25, 26, 27, 28, 29}  # with the markers that end them
TRANSACTIONS: Final = ((15, 19), (17, 20), (24, 29), (25, 26))  # first offset, and the marker's
END: Final = 32
MOVED: Final = sorted(LOG)[:-1]  # the segments that tiered storage has
HEADERS: Final = [
    header for data in LOG.values() for header in MemoryRecords(b"".join(data)).batches()
]
EVERYTHING: Final = [
    {"topic": "a", "partition": 0, **row}
    for data in LOG.values()
    for row in expected(read(MemoryRecords(b"".join(data))))
]


def mounted(path: Path) -> Path:
    for base, data in LOG.items():
        indexed_segment(path / "a-0", base, *data)
    for base, aborted in ABORTS.items():
        index = path / "a-0" / file_name(base, Kind.TRANSACTION_INDEX)
        index.write_bytes(b"".join(ENTRY.pack(VERSION, *one) for one in aborted))
    return path


def without_indexes(path: Path) -> Path:
    for base, data in LOG.items():
        segment(path / "a-0", base, *data)
    return path


def in_a_tar(path: Path) -> Path:
    (path / "logs").mkdir()
    return packed(mounted(path / "logs"))


def gzipped(path: Path) -> Path:
    for log in (mounted(path) / "a-0").glob("*.log"):
        log.with_name(f"{log.name}.gz").write_bytes(gzip.compress(log.read_bytes()))
        log.unlink()
    return path


def on_two_brokers(path: Path) -> Path:
    """One copy lacks the second segment, the other the end of the last one."""
    for broker in ("one", "two"):
        (path / broker).mkdir(parents=True)
        mounted(path / broker)
    (path / "one" / "a-0" / f"{8:020d}.log").unlink()
    (path / "two" / "a-0" / f"{26:020d}.log").write_bytes(LOG[26][0])
    return path


def with_a_damaged_copy(path: Path) -> Path:
    """The copy that goes further has a damaged batch in each of two segments."""
    on_two_brokers(path)
    shutil.copytree(path / "two" / "a-0", path / "one" / "a-0", dirs_exist_ok=True)
    for base, number in ((0, 2), (8, 1)):
        data = list(LOG[base])
        data[number] = data[number][:-1] + bytes([data[number][-1] ^ 1])
        (path / "one" / "a-0" / f"{base:020d}.log").write_bytes(b"".join(data))
    (path / "one" / "a-0" / f"{26:020d}.log").write_bytes(b"".join(LOG[26]))
    return path


def in_a_store(path: Path) -> str:
    return f"{STORE}{mounted(path)}"


def in_a_store_without_indexes(path: Path) -> str:
    return f"{STORE}{without_indexes(path)}"


def on_two_brokers_in_a_store(path: Path) -> str:
    return f"{STORE}{on_two_brokers(path)}"


def in_tiered_storage(path: Path) -> str:
    """A broker has the last segment only. Tiered storage has the others, as in Kafka's own
    plugin."""
    log = _on_a_broker(path)
    for base in MOVED:
        local_tiered(path / "remote", log, base)
    remove_segments(log, MOVED)
    return f"{STORE}{path}"


def in_chunks(path: Path) -> Path:
    """A broker has the last two segments. Tiered storage has all but the last one, in compressed
    chunks that end within batches."""
    log = _on_a_broker(path)
    ends = [*(base - 1 for base in MOVED[1:]), max(LOG) - 1]
    for base, end in zip(MOVED, ends, strict=True):
        aiven(path / "remote", log, base, end, Packing(chunk_size=130, is_compressed=True))
    remove_segments(log, MOVED[:-1])
    return path


def _on_a_broker(path: Path) -> Path:
    log = path / "broker" / "a-0"
    log.parent.mkdir()
    mounted(log.parent)
    (log / PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
    return log


PLACES: Final[dict[str, Callable[[Path], Path | str]]] = {
    made.__name__: made
    for made in (
        mounted,
        without_indexes,
        in_a_tar,
        gzipped,
        on_two_brokers,
        with_a_damaged_copy,
        in_a_store,
        in_a_store_without_indexes,
        on_two_brokers_in_a_store,
        in_tiered_storage,
        in_chunks,
    )
}


def note_high_watermark(place: Path | str, offset: int) -> None:
    """Notes a high watermark beside each copy: the offset, and earlier ones beside others."""
    path = Path(str(place).removeprefix(STORE))
    is_tar = path.suffix == ".tar"
    logs = path.with_suffix("") if is_tar else path
    for number, directory in enumerate(sorted(logs.rglob("a-0"))):
        noted = offset // (1 + number)
        (directory.parent / HIGH_WATERMARKS).write_text(f"0\n1\na 0 {noted}\n")
    if is_tar:
        packed(logs)
