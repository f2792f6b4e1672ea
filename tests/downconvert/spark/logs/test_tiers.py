"""Tiered storage: what is there and what brokers still have is each offset once; manifests that lie
are refused."""

import base64
import json
import random
import shutil
from pathlib import Path
from typing import Any, Final

import pytest
import zstandard

from downconvert.spark.errors import MixedClustersError
from downconvert.spark.logs.tiers import decoded_sizes
from downconvert.spark.logs.trees import find_partitions
from downconvert.spark.stores.data_keys import DataKeys, parse_keys
from downconvert.storage.errors import CorruptFileError
from downconvert.storage.names import Kind, file_name
from records import RecordsError
from tests.downconvert.spark.exporting import archived, exported
from tests.downconvert.spark.reading import rows
from tests.downconvert.spark.tiered import (
    TOPIC_ID,
    Packing,
    aiven,
    encoded_sizes,
    local_tiered,
    remove_segments,
    write_key,
)
from tests.downconvert.storage.logs import batch, indexed_segment

PACKINGS: Final = {
    "plain": Packing(),
    "compressed": Packing(is_compressed=True),
    "one chunk": Packing(chunk_size=1 << 20, is_compressed=True),
}
BASES: Final = (0, 20, 40)


@pytest.fixture(scope="module")
def key_pair() -> Any:
    """An operator's, no longer than it must be."""
    return pytest.importorskip("Crypto.PublicKey.RSA").generate(1536)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A partition of three segments: offsets 0 to 59."""
    directory = tmp_path / "source" / "orders.v1-0"
    directory.parent.mkdir()
    for base in BASES:
        indexed_segment(directory, base, *(batch(o, size=300) for o in range(base, base + 20)))
    return directory


def offsets(*paths: Path, **options: Any) -> list[int]:
    return [row["offset"] for row in rows(json.dumps([str(path) for path in paths]), **options)]


@pytest.mark.parametrize("packing", PACKINGS.values(), ids=PACKINGS)
def test_segments_that_the_plugin_copied_are_read(
    source: Path, tmp_path: Path, packing: Packing
) -> None:
    for base in BASES:
        aiven(tmp_path / "tier" / "prefix", source, base, base + 19, packing)
    wanted = [
        {name: value for name, value in row.items() if name != "segment"}
        for row in rows(source.parent)
    ]
    assert rows(tmp_path / "tier") == wanted
    for options in (
        {"maxPartitionBytes": 2000},
        {"startingOffsets": '{"orders.v1":{"0":13}}', "endingOffsets": '{"orders.v1":{"0":41}}'},
        {"startingTimestamp": 110, "endingTimestamp": 450},
        {"isolation": "read_committed"},
        {"level": "batch"},
    ):
        keys = ("offset", "value", "baseOffset", "position", "crc")
        assert [[row.get(key) for key in keys] for row in rows(tmp_path / "tier", **options)] == [
            [row.get(key) for key in keys] for row in rows(source.parent, **options)
        ]


@pytest.mark.parametrize("is_compressed", [False, True])
def test_encrypted_segments_are_read_with_the_operators_key(
    source: Path,
    tmp_path: Path,
    key_pair: Any,
    is_compressed: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packing = Packing(is_compressed=is_compressed, key_pair=key_pair)
    write_key(key_pair, tmp_path / "key.pem")
    for base in BASES:
        aiven(tmp_path / "tier", source, base, base + 19, packing)
    key = f"main={tmp_path / 'key.pem'}"
    assert offsets(tmp_path / "tier", encryptionKeys=key) == list(range(60))
    cut = offsets(tmp_path / "tier", encryptionKeys=key, maxPartitionBytes=2000)
    assert cut == list(range(60))
    with pytest.raises(ValueError, match="encryptionKeys=main="):
        offsets(tmp_path / "tier")
    monkeypatch.setenv("DOWNCONVERT_ENCRYPTION_KEYS", key)
    assert offsets(tmp_path / "tier") == list(range(60))
    manifest = next((tmp_path / "tier").rglob("*.rsm-manifest"))
    text = manifest.read_text()
    found = json.loads(text)
    found["encryption"]["dataKey"] = f"main:{base64.b64encode(bytes(192)).decode()}"
    manifest.write_text(json.dumps(found))
    with pytest.raises(CorruptFileError, match="'main' does not open"):
        offsets(tmp_path / "tier")
    manifest.write_text(text)
    log = next((tmp_path / "tier").rglob("*.log"))
    data = bytearray(log.read_bytes())
    data[700] ^= 1
    log.write_bytes(data)
    with pytest.raises(RecordsError, match=r"chunk \d+ is damaged, or was encrypted with another"):
        offsets(tmp_path / "tier")


def test_an_encrypted_segment_with_empty_indexes_is_read(
    source: Path, tmp_path: Path, key_pair: Any
) -> None:
    """The plugin encrypts only indexes that have entries."""
    indexed_segment(source, 60, batch(60))
    assert (source / file_name(60, Kind.OFFSET_INDEX)).read_bytes() == b""
    write_key(key_pair, tmp_path / "key.pem")
    aiven(tmp_path / "tier", source, 60, 60, Packing(key_pair=key_pair))
    assert offsets(tmp_path / "tier", encryptionKeys=f"main={tmp_path / 'key.pem'}") == [60]


@pytest.mark.parametrize(
    ("is_encrypted", "is_compressed"), [(False, True), (True, False), (True, True)]
)
@pytest.mark.parametrize("chunk", [0, 3, 6, 7])
@pytest.mark.parametrize("options", [{}, {"level": "batch"}, {"maxPartitionBytes": 2000}])
def test_a_damaged_chunk_hides_only_the_batches_in_it(
    source: Path,
    tmp_path: Path,
    key_pair: Any,
    is_encrypted: bool,
    is_compressed: bool,
    chunk: int,
    options: dict[str, Any],
) -> None:
    """The last segment has eight chunks of 1000 bytes, and its batches have about 370."""
    packing = Packing(is_compressed=is_compressed, key_pair=key_pair if is_encrypted else None)
    write_key(key_pair, tmp_path / "key.pem")
    for base in BASES:
        aiven(tmp_path / "tier", source, base, base + 19, packing)
    data = (source / file_name(40, Kind.LOG)).read_bytes()
    stored = sorted((tmp_path / "tier").rglob("*.log"))[-1]
    sizes = stored_sizes(tmp_path / "tier", f"main={tmp_path / 'key.pem'}")
    assert len(sizes) == 8
    damaged = bytearray(stored.read_bytes())
    damaged[sum(sizes[:chunk]) + 5] ^= 0xFF
    stored.write_bytes(damaged)
    given = {"mode": "PERMISSIVE", "encryptionKeys": f"main={tmp_path / 'key.pem'}", **options}
    found = rows(tmp_path / "tier", **given)
    size, name = len(data) // 20, "baseOffset" if "level" in options else "offset"
    start, end = 1000 * chunk, 1000 * (chunk + 1)
    hurt = {at for at in range(20) if at * size < end and start < (at + 1) * size}
    reported = [row["_corrupt"] for row in found if row["_corrupt"] is not None]
    assert {row[name] for row in found if row["_corrupt"] is None} == set(range(60)) - {
        40 + at for at in hurt
    }
    assert reported
    assert all(f"chunk {chunk} is damaged" in one["reason"] for one in reported)
    lost = {at for one in reported for at in range(one["startOffset"], one["endOffset"] or 60)}
    assert lost == {40 + at for at in hurt}
    with pytest.raises(RecordsError, match=rf"chunk {chunk} is damaged"):
        rows(tmp_path / "tier", **given | {"mode": "FAILFAST"})


def stored_sizes(tier: Path, keys: str) -> tuple[int, ...]:
    """The sizes of the last segment's chunks."""
    (log,) = find_partitions([str(tier)], keys=DataKeys(parse_keys(keys)))
    chunks = log.segments[-1].blob_of_log.chunks
    assert chunks is not None
    return chunks.stored_sizes


def test_kafkas_own_local_tiered_storage_is_read(source: Path, tmp_path: Path) -> None:
    for base in BASES:
        local_tiered(tmp_path / "kafka-tiered-storage", source, base)
    assert offsets(tmp_path) == list(range(60))
    assert offsets(tmp_path / "kafka-tiered-storage", maxPartitionBytes=2000) == list(range(60))
    (log,) = find_partitions([str(tmp_path / "kafka-tiered-storage")])
    assert (str(log.topic_partition), log.start_offset, log.topic_id) == (
        "orders.v1-0",
        0,
        TOPIC_ID,
    )


@pytest.mark.parametrize("layout", ["aiven", "kafka"])
@pytest.mark.parametrize("gone", [(0, 20), (0,), ()])
def test_remote_and_local_parts_together_give_each_offset_once(
    source: Path, tmp_path: Path, layout: str, gone: tuple[int, ...]
) -> None:
    local = tmp_path / "kafka" / "orders.v1-0"
    shutil.copytree(source, local)
    remove_segments(local, gone)
    (local / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
    for base in BASES[:2]:
        if layout == "aiven":
            aiven(tmp_path / "tier", source, base, base + 19, PACKINGS["compressed"])
        else:
            local_tiered(tmp_path / "tier", source, base)
    for options in ({}, {"isolation": "read_committed"}, {"maxPartitionBytes": 2000}):
        assert offsets(tmp_path / "kafka", tmp_path / "tier", **options) == list(range(60))
    between = offsets(tmp_path / "tier", tmp_path / "kafka", startingTimestamp=150)
    assert between == list(range(15, 60))
    (local / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    with pytest.raises(MixedClustersError, match="id AAAAAAAAAAAAAAAAAAAAAQ"):
        offsets(tmp_path / "kafka", tmp_path / "tier")


@pytest.mark.parametrize("layout", ["aiven", "kafka"])
@pytest.mark.parametrize("left", ["damaged", "gone", "behind", "empty", "new", "beyond"])
def test_tiered_storage_is_a_copy_of_what_brokers_have(
    source: Path, tmp_path: Path, layout: str, left: str
) -> None:
    """The first 50 of 60 records are in tiered storage. Brokers have damaged segments, none, the
    first 30 records, an empty segment, or only the last ten."""
    tier, cut = tmp_path / "both" / "tier", tmp_path / "cut" / "orders.v1-0"
    cut.parent.mkdir()
    indexed_segment(cut, 40, *(batch(n, size=300) for n in range(40, 50)))
    for base, directory, last in ((0, source, 19), (20, source, 39), (40, cut, 49)):
        if layout == "aiven":
            aiven(tier, directory, base, last, PACKINGS["compressed"])
        else:
            local_tiered(tier, directory, base)
    local = tmp_path / "both" / "kafka" / "orders.v1-0"
    shutil.copytree(source, local)
    log = local / "00000000000000000020.log"
    expected = {"damaged": 60, "beyond": 60}.get(left, 50)
    if left == "damaged":
        data = bytearray(log.read_bytes())
        data[1000] ^= 1
        data[3000:3100] = bytes(100)
        log.write_bytes(data)
    elif left == "behind":
        remove_segments(local, [40])
        log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    elif left == "beyond":
        remove_segments(local, BASES)
        indexed_segment(local, 50, *(batch(n, size=300) for n in range(50, 60)))
    else:
        remove_segments(local, BASES)
    if left in ("empty", "new"):
        (local / f"{40 if left == 'new' else 0:020d}.log").touch()
    for options in ({}, {"isolation": "read_committed"}, {"maxPartitionBytes": 2000}):
        assert offsets(tmp_path / "both", **options) == list(range(expected))
    assert exported_offsets(tmp_path / "both", tmp_path / "lake") == list(range(expected))


def test_checkpoints_of_brokers_count_for_a_log_in_tiered_storage(
    source: Path, tmp_path: Path
) -> None:
    """The leader's epochs, and the log start offset that only a follower has noted."""
    brokers = tmp_path / "brokers"
    for name in ("b1", "b2"):
        shutil.copytree(source, brokers / name / "orders.v1-0")
        checkpoint = brokers / name / "orders.v1-0" / "leader-epoch-checkpoint"
        checkpoint.write_text("0\n1\n3 0\n")
    (brokers / "b2" / "log-start-offset-checkpoint").write_text("0\n1\norders.v1 0 5\n")
    remove_segments(brokers / "b2" / "orders.v1-0", [40])
    for base in BASES[:2]:
        local_tiered(brokers / "tier", source, base)
    assert offsets(brokers) == list(range(5, 60))
    (log,) = find_partitions([str(brokers)])
    assert "leader-epoch-checkpoint" in dict(log.sides)


def exported_offsets(source: Path, target: Path) -> list[int]:
    with pytest.MonkeyPatch.context() as patch:
        exported(patch, source, target)
    return [row[2] for row in archived(target)]


@pytest.mark.parametrize("layout", ["aiven", "kafka"])
def test_segments_that_two_leaders_copied_are_read_once(
    source: Path, tmp_path: Path, layout: str
) -> None:
    other = tmp_path / "other" / "orders.v1-0"
    other.parent.mkdir()
    for base, end in ((0, 15), (15, 50)):
        indexed_segment(other, base, *(batch(o, size=300) for o in range(base, end)))
    for directory, base, end, name in (
        (source, 0, 19, "A"),
        (source, 20, 39, "B"),
        (other, 0, 14, "C"),
        (other, 15, 49, "D"),
        (source, 40, 59, "E"),
    ):
        if layout == "aiven":
            aiven(tmp_path / "tier", directory, base, end, Packing(), name * 22)
        else:
            local_tiered(tmp_path / "tier", directory, base, name * 22)
    assert offsets(tmp_path / "tier") == list(range(60))
    assert offsets(tmp_path / "tier", maxPartitionBytes=1500) == list(range(60))
    if layout == "aiven":  # a copy that was not finished
        next((tmp_path / "tier").rglob("*-D*.rsm-manifest")).unlink()
        assert offsets(tmp_path / "tier") == list(range(60))


def test_sizes_of_chunks_are_read_as_they_are_written() -> None:
    for sizes in ([], [0], [7], [7, 9], [70_000, 5, 300], [1 << 24, 1 << 30, 3]):
        assert decoded_sizes(encoded_sizes(sizes)) == sizes
    generator = random.Random(1)
    good = encoded_sizes([70_000, 5, 300, 9])
    for _ in range(500):
        data = bytearray(good[: generator.randrange(len(good) + 1)])
        if data:
            data[generator.randrange(len(data))] = generator.randrange(256)
        try:
            assert min(decoded_sizes(bytes(data)), default=0) >= 0
        except ValueError:
            continue


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("chunkIndex", "originalChunkSize"), 0),
        (("chunkIndex", "originalChunkSize"), 1),
        (("chunkIndex", "originalFileSize"), 2**40),
        (("chunkIndex", "originalFileSize"), -1),
        (("chunkIndex", "type"), "other"),
        (("chunkIndex", "transformedChunks"), "AAAA"),
        (("chunkIndex", "transformedChunks"), "*"),
        (("chunkIndex",), []),
        (("segmentIndexes", "offset", "position"), 2**31),
        (("segmentIndexes", "offset"), 5),
        (("encryption",), {"dataKey": "main:*", "aad": ""}),
        (("encryption",), {"aad": ""}),
        (("compression",), False),
        (("remoteLogSegmentMetadata", "endOffset"), "last"),
    ],
)
def test_manifests_that_lie_are_refused(
    source: Path, tmp_path: Path, path: tuple[str, ...], value: object
) -> None:
    manifest = aiven(tmp_path / "tier", source, 0, 19, PACKINGS["compressed"])
    found = json.loads(manifest.read_text())
    inner = found
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    manifest.write_text(json.dumps(found))
    with pytest.raises(CorruptFileError, match="rsm-manifest"):
        offsets(tmp_path / "tier")


@pytest.mark.parametrize("sizes", [[], [0], [9]])
def test_an_empty_segment_has_no_chunk_or_one(
    source: Path, tmp_path: Path, sizes: list[int]
) -> None:
    for base in BASES:
        aiven(tmp_path / "tier", source, base, base + 19, Packing(is_compressed=True))
    indexed_segment(source, 60)
    path = aiven(tmp_path / "tier", source, 60, 59, Packing(is_compressed=True))
    manifest = json.loads(path.read_text())
    chunks = base64.b64encode(zstandard.compress(encoded_sizes(sizes))).decode()
    manifest["chunkIndex"]["transformedChunks"] = chunks
    path.write_text(json.dumps(manifest))
    path.with_suffix(".log").write_bytes(bytes(sum(sizes)))
    assert offsets(tmp_path / "tier") == list(range(60))


@pytest.mark.parametrize("layout", ["aiven", "kafka"])
@pytest.mark.parametrize("base", [2**63, 10**20 - 1])
def test_files_named_for_an_offset_that_no_log_has_are_no_segments(
    source: Path, tmp_path: Path, layout: str, base: int
) -> None:
    """They are strays, as they are among the segments of a broker."""
    for one in BASES:
        if layout == "kafka":
            local_tiered(tmp_path / "tier", source, one)
        else:
            aiven(tmp_path / "tier", source, one, one + 19, Packing())
    for file in [*(tmp_path / "tier").rglob(f"{20:020d}-*")]:
        shutil.copy(file, file.with_name(f"{base:020d}{file.name[20:]}"))
    assert offsets(tmp_path / "tier") == list(range(60))
