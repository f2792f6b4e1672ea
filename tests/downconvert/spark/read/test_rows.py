"""Rows are the records: of every format, codec and broker, however a segment is split."""

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from downconvert.spark.errors import CorruptSegmentError
from records import Codec, MemoryRecords, Record, build, read
from records.batches.builder import build_marker
from records.batches.control import ControlRecordType
from records.files.source import TRUNCATED
from records.formats import TIMESTAMP_TYPE_NAMES, V0, V1, V2, TimestampType
from tests import corpus, strategies
from tests.downconvert.spark.reading import expected, partition, reader, record_of, rows
from tests.downconvert.storage import brokers
from tests.downconvert.storage.logs import batch, indexed_segment
from tests.python_calls import python_calls

KINDS = {name: int(kind) for kind, name in TIMESTAMP_TYPE_NAMES.items()}


@pytest.mark.parametrize("kind", corpus.kinds())
def test_rows_are_the_records_that_kafka_reads(tmp_path: Path, kind: str) -> None:
    for name in corpus.of_kind(kind):
        partition(tmp_path / name, corpus.segment(name))
        found = rows(tmp_path / name, includeHeaders=True, verifyCrc=True)
        assert [record_of(row) for row in found] == as_kafka_reads(name), name
        assert {(row["topic"], row["partition"]) for row in found} <= {("topic", 0)}, name


@pytest.mark.parametrize("size", [300, 20_000])
def test_without_an_index_tasks_find_their_batches_themselves(tmp_path: Path, size: int) -> None:
    partition(tmp_path, corpus.segment("mixed-1"))
    found = rows(tmp_path, includeHeaders=True, maxPartitionBytes=size)
    assert [record_of(row) for row in found] == as_kafka_reads("mixed-1")


@pytest.mark.parametrize(
    ("directory", "isolation"),
    sorted({(f"{one.version}/{one.directory}", one.isolation) for one in brokers.dumps()}),
)
def test_rows_are_what_a_consumer_of_that_version_read(
    real: Path, directory: str, isolation: str
) -> None:
    expected = {
        one: lines
        for dump, one, lines in brokers.read_from(directory)
        if dump.isolation == isolation
    }
    topics = ",".join({one.topic for one in expected})
    options = {"topics": topics, "isolation": isolation, "maxPartitionBytes": 3000}
    found = dict[tuple[str, int], list[dict[str, Any]]]()
    for row in rows(real / directory, includeHeaders=True, **options):
        found.setdefault((row["topic"], row["partition"]), []).append(line_of(row))
    for one, lines in expected.items():
        assert found.get(one, []) == lines, one


@settings(max_examples=25)
@given(
    strategies.segments(),
    st.sampled_from([50, 400, 3000, 2**40]),
    st.booleans(),
    st.booleans(),
)
def test_split_reading_equals_whole_reading(
    segment: strategies.Segment, size: int, has_index: bool, verify: bool
) -> None:
    with TemporaryDirectory() as folder:
        batches = [batch.data for batch in segment.batches]
        base = next(MemoryRecords(b"".join(batches)).batches()).base_offset if batches else 0
        directory = Path(folder) / "topic-0"
        if has_index and batches:
            first = min([base, *(record.offset for record in segment.records[:1])])
            indexed_segment(directory, first, *batches)
            next(directory.glob("*.log")).write_bytes(segment.data)  # with its torn end
        else:
            partition(Path(folder), segment.data)
        found = rows(folder, includeHeaders=True, maxPartitionBytes=size, verifyCrc=verify)
    assert [record_of(row) for row in found] == expected(segment.records)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
@pytest.mark.parametrize("magic", [V0, V1, V2])
def test_records_larger_than_the_buffer_come_whole(
    tmp_path: Path, codec: Codec, magic: int
) -> None:
    if magic < V2 and codec is Codec.ZSTD:
        return
    kind = TimestampType.NONE if magic == V0 else TimestampType.CREATE
    time = -1 if magic == V0 else 5
    sizes = (10, 3_000_000, 1, 1_048_000, 600_000, 600_000)
    records = [Record(i, time, kind, b"k", b"v" * size) for i, size in enumerate(sizes)]
    partition(tmp_path, build(records, magic=magic, codec=codec))
    found = rows(tmp_path, includeHeaders=True, verifyCrc=True)
    assert [record_of(row) for row in found] == expected(records)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_offsets_bound_what_is_read_inside_of_batches(tmp_path: Path, codec: Codec) -> None:
    records = [Record(10 + i, i, value=b"%d" % i) for i in range(100)]
    two = [build(half, magic=V2, codec=codec) for half in (records[:50], records[50:])]
    partition(tmp_path, b"".join(two))
    bounds = {"startingOffsets": '{"topic":{"0":33}}', "endingOffsets": '{"topic":{"0":77}}'}
    assert [row["offset"] for row in rows(tmp_path, **bounds)] == list(range(33, 77))


@pytest.mark.parametrize("magic", [V0, V1])
@pytest.mark.parametrize(("start", "end"), [(0, 5), (3, 5), (9, 10), (0, 10), (7, 12), (10, 13)])
def test_offsets_bound_what_is_read_inside_of_compressed_messages(
    tmp_path: Path, magic: int, start: int, end: int
) -> None:
    """Such a message has the offset of the last record in it."""
    data = batch(*range(10), magic=magic, codec=Codec.GZIP)
    partition(tmp_path, data + batch(10, 11, 12, magic=magic, codec=Codec.GZIP))
    options = {
        "startingOffsets": json.dumps({"topic": {"0": start}}),
        "endingOffsets": json.dumps({"topic": {"0": end}}),
    }
    assert [row["offset"] for row in rows(tmp_path, **options)] == list(range(start, end))


def test_records_of_two_thousand_batches_are_few_record_batches(tmp_path: Path) -> None:
    """Small batches share a buffer: each of them alone would cost more to hand on than to read."""
    data = b"".join(
        build([Record(i, 0, value=b"v" * 20)], magic=V2, codec=Codec.LZ4) for i in range(2000)
    )
    partition(tmp_path, data)
    source = reader(tmp_path)
    batches = [batch for task in source.partitions() for batch in source.read(task)]
    assert sum(batch.num_rows for batch in batches) == 2000
    assert len(batches) <= 2


@pytest.mark.parametrize("verify", [True, False])
def test_unusual_entries_share_record_batches_with_ordinary_ones(
    tmp_path: Path, verify: bool
) -> None:
    """They are read step by step, and added to the same columns in their order."""
    entries, records = [], []
    for i in range(0, 60, 4):
        ordinary = [Record(i, i, value=b"o"), Record(i + 1, i, value=None)]
        unusual = [Record(i + 2, i, key=b"k", value=b"u"), Record(i + 3, i, value=b"u")]
        entries += [build(ordinary, magic=V2), build(unusual, magic=V1, codec=Codec.GZIP)]
        records += ordinary + unusual
    large = [Record(60 + i, 0, value=b"l" * 40_000) for i in range(10)]  # more than a window
    partition(tmp_path, b"".join([*entries, build(large, magic=V2)]))
    source = reader(tmp_path, includeHeaders=True, verifyCrc=verify)
    batches = [batch for task in source.partitions() for batch in source.read(task)]
    assert [batch.num_rows for batch in batches] == [len(records + large)]
    found = rows(tmp_path, includeHeaders=True, verifyCrc=verify)
    assert [record_of(row) for row in found] == expected(records + large)


def as_kafka_reads(name: str) -> list[dict[str, Any]]:
    found, kind, is_control = [], -1, False
    for line in corpus.records(name):
        if "batch" in line:
            kind = KINDS[line["batch"]["timestamp_type"]]
            is_control = line["batch"].get("control", False)
        elif not is_control:
            found.append(
                Record(
                    line["offset"],
                    line["timestamp"],
                    TimestampType(kind),
                    _bytes(line["key"]),
                    _bytes(line["value"]),
                    tuple((key, _bytes(value)) for key, value in line["headers"]),
                )
            )
    return expected(found)


def line_of(row: dict[str, Any]) -> dict[str, Any]:
    headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
    kind = TimestampType(row["timestampType"])
    return brokers.line(
        Record(row["offset"], row["timestamp"] // 1000, kind, row["key"], row["value"], headers)
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def test_the_reader_reads_the_records_of_kafkas_consumer() -> None:
    """The yardstick of the property above, against Kafka's own reading."""
    data = corpus.segment("mixed-1")
    assert expected(read(MemoryRecords(data))) == as_kafka_reads("mixed-1")


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_damaged_marker_is_reported_also_between_compressed_batches(
    tmp_path: Path, codec: Codec
) -> None:
    """It may have committed what counts as aborted without it."""
    of = {"producer_epoch": 0, "base_sequence": 0, "transactional": True, "codec": codec}
    commit = build_marker(ControlRecordType.COMMIT, offset=3, timestamp=0, producer_id=7)
    abort = build_marker(ControlRecordType.ABORT, offset=6, timestamp=0, producer_id=8)
    data = batch(0, 1, producer_id=7, **of) + batch(2, codec=codec)
    data += commit[:-1] + bytes([commit[-1] ^ 1])
    data += batch(4, 5, producer_id=8, **of) + abort + batch(7, codec=codec)
    partition(tmp_path, data)
    with pytest.raises(CorruptSegmentError, match="checksum does not match"):
        rows(tmp_path, isolation="read_committed")
    found = rows(tmp_path, isolation="read_committed", mode="PERMISSIVE")
    (gap,) = [row["_corrupt"] for row in found if row["_corrupt"] is not None]
    assert (gap["startOffset"], gap["endOffset"]) == (3, 4)


def committed(path: Path) -> tuple[list[int], int]:
    """The offsets of committed records, and the Python calls that reading them takes."""
    source = reader(path, isolation="read_committed", columns="offset")
    (task,) = source.partitions()
    found: list[int] = []

    def read_all() -> None:
        found.extend([at for one in source.read(task) for at in one.column(0).to_pylist()])

    return found, python_calls(read_all)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_batches_after_the_last_aborted_transaction_cost_no_python_each(
    tmp_path: Path, codec: Codec
) -> None:
    of = {"producer_epoch": 0, "base_sequence": 0, "transactional": True, "codec": codec}
    abort = build_marker(ControlRecordType.ABORT, offset=2, timestamp=0, producer_id=7)
    begin = batch(0, 1, producer_id=7, **of) + abort
    calls = []
    for name, count in (("short", 100), ("long", 200)):
        later = b"".join(batch(at, producer_id=8, **of) for at in range(3, count))
        commit = build_marker(ControlRecordType.COMMIT, offset=count, timestamp=0, producer_id=8)
        partition(tmp_path / name, begin + later + commit)
        found, count_of_calls = committed(tmp_path / name)
        calls.append(count_of_calls)
        assert found == list(range(3, count))
    assert calls[1] - calls[0] < 50


@pytest.mark.parametrize("is_aborted", [False, True])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_batch_before_the_last_aborted_transaction_costs_few_calls(
    tmp_path: Path, codec: Codec, is_aborted: bool
) -> None:
    of = {"producer_epoch": 0, "base_sequence": 0, "transactional": True, "codec": codec}
    kind = ControlRecordType.ABORT if is_aborted else ControlRecordType.COMMIT
    calls = []
    for name, count in (("short", 100), ("long", 200)):
        data = b"".join(batch(at, producer_id=8, **of) for at in range(count))
        data += build_marker(kind, offset=count, timestamp=0, producer_id=8)
        data += batch(count + 1, producer_id=7, **of)
        abort = ControlRecordType.ABORT
        data += build_marker(abort, offset=count + 2, timestamp=0, producer_id=7)
        partition(tmp_path / name, data)
        found, count_of_calls = committed(tmp_path / name)
        calls.append(count_of_calls)
        assert found == ([] if is_aborted else list(range(count)))
    assert calls[1] - calls[0] < 100 * 12


SMALL, MEDIUM, LARGE = 10, 300_000, 1_200_000  # LARGE: of more bytes than the reader's buffer
START = '{"topic":{"0":2}}'
SHAPES = [
    *((magic, codec, size) for magic in (V1, V2) for codec in (0, 1) for size in (SMALL, MEDIUM)),
    (V2, Codec.NONE, LARGE),
    (V1, Codec.GZIP, LARGE),
]


@pytest.mark.parametrize("first", range(len(SHAPES)))
def test_an_entry_of_any_shape_may_follow_one_of_any_other(tmp_path: Path, first: int) -> None:
    """The reader has ways of its own for small, large and compressed ones."""
    shapes = [shape for other in SHAPES for shape in (SHAPES[first], other)]
    sizes = [size for _, _, size in shapes]
    entries = [
        batch(at, size=size, magic=magic, codec=Codec(codec))
        for at, (magic, codec, size) in enumerate(shapes)
    ]
    partition(tmp_path, b"".join(entries))
    for options in ({"verifyCrc": False}, {"verifyCrc": True, "startingOffsets": START}):
        start = 2 if "startingOffsets" in options else 0
        found = rows(tmp_path, columns="offset,value", **options)
        assert [(row["offset"], len(row["value"])) for row in found] == [
            *enumerate(sizes[start:], start)
        ]


@pytest.mark.parametrize("left", [5, 7])
@pytest.mark.parametrize("is_inside", [True, False])
def test_a_file_that_shrinks_while_it_is_read_is_damaged(
    tmp_path: Path, left: int, is_inside: bool
) -> None:
    batches = [batch(number, size=300_000) for number in range(10)]
    partition(tmp_path, b"".join(batches))
    source = reader(tmp_path)
    (task,) = source.partitions()
    found = source.read(task)
    assert next(found).num_rows
    (log,) = tmp_path.rglob("*.log")
    os.truncate(log, sum(map(len, batches[:left])) + 200 * is_inside)
    with pytest.raises(CorruptSegmentError, match=TRUNCATED):
        list(found)
