"""Building batches: our builder writes the same bytes as Kafka's."""

import gzip
from operator import attrgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records import BatchHeader, MemoryRecords
from records.batches.builder import build, build_empty, build_marker
from records.batches.columns import Columns
from records.batches.control import ControlRecordType
from records.batches.reader import read
from records.codecs import decompress
from records.formats import BATCH_HEADER_SIZE, MESSAGE_OVERHEAD, V0, V1, V2, Codec, TimestampType
from records.record import Record
from tests import corpus
from tests.other_readers import OTHER_READERS, OtherReader, as_others_tell
from tests.records.examples import CHECKSUMS, TWO_RECORDS
from tests.strategies import SMALL_CONTENTS, UTF8_HEADERS, batches, placed, record_lists

CREATE, LOG_APPEND = TimestampType.CREATE, TimestampType.LOG_APPEND
TIMESTAMP_TYPES = {"NoTimestampType": CREATE, "CreateTime": CREATE, "LogAppendTime": LOG_APPEND}


def record(
    offset: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    *headers: tuple[str, bytes | None],
) -> Record:
    return Record(offset, timestamp, CREATE, key, value, headers)


PAIR = [record(0, 283843, b"key1", b"value1"), record(1, 1234, b"key2", b"value2")]
SPARSE = [
    record(12, 100, b"k1", b"v1"),
    record(15, 300, b"k2", b"v2"),
    record(19, 200, b"k3", b"v3"),
]


def only_header(entry: bytes) -> BatchHeader:
    (header,) = MemoryRecords(entry).batches()
    return header


def compressed_part(entry: bytes) -> bytes:
    """The decompressed content of the only entry."""
    header = only_header(entry)
    start = BATCH_HEADER_SIZE if header.magic == V2 else MESSAGE_OVERHEAD[header.magic]
    data = decompress(header.codec, entry[start:], limit=2**20, magic=header.magic)
    assert data is not None
    return bytes(data)


# --- Kafka's own bytes


@pytest.mark.parametrize("magic", [V0, V1, V2])
def test_uncompressed_records_are_built_as_in_kafkas_own_test(magic: int) -> None:
    assert build(PAIR, magic=magic) == TWO_RECORDS[magic, "none"]


@pytest.mark.parametrize("magic", [V0, V1, V2])
def test_the_first_checksum_is_the_one_that_kafkas_own_test_states(magic: int) -> None:
    header = next(MemoryRecords(build(PAIR, magic=magic)).batches())
    assert header.crc == CHECKSUMS[magic, "none"]


@pytest.mark.parametrize("magic", [V0, V1])
def test_a_compressed_message_differs_from_kafkas_only_in_compressed_bytes(magic: int) -> None:
    ours, kafkas = build(PAIR, magic=magic, codec=Codec.LZ4), TWO_RECORDS[magic, "lz4"]
    assert compressed_part(ours) == compressed_part(kafkas)
    head = MESSAGE_OVERHEAD[magic]
    assert ours[head : head + 7] == kafkas[head : head + 7]  # v0's wrong header checksum, too
    assert list(read(MemoryRecords(ours))) == list(read(MemoryRecords(kafkas)))


def test_gaps_nulls_headers_and_decreasing_timestamps_are_written_as_by_kafka() -> None:
    records = [
        record(10, 100, b"k1", b"v1"),
        record(12, 101, None, b"v2", ("h", b"x")),
        record(13, 99, b"k3", None),
    ]
    assert build(records, magic=V2) == bytes.fromhex(
        "000000000000000a 00000052 ffffffff 02 a6a65d32 0000 00000003 0000000000000064"
        "0000000000000065 ffffffffffffffff ffff ffffffff 00000003"
        "14000000046b31047631001800020401047632020268027810000106046b330100"
    )


def test_a_delete_horizon_is_written_as_by_kafka() -> None:
    records = [record(0, 50, b"0", b"0"), record(1, 150, b"1", None)]
    assert build(records, magic=V2, delete_horizon=100) == bytes.fromhex(
        "0000000000000000 00000042 ffffffff 02 14d46902 0040 00000001 0000000000000064"
        "0000000000000096 ffffffffffffffff ffff ffffffff 00000002"
        "1000630002300230000e00640202310100"
    )


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (ControlRecordType.ABORT, "20000000 08 00000000 0c 000000000000 00"),
        (ControlRecordType.COMMIT, "20000000 08 00000001 0c 000000000000 00"),
    ],
)
def test_a_marker_is_written_as_by_kafka(kind: ControlRecordType, expected: str) -> None:
    marker = build_marker(kind, offset=7, timestamp=5, producer_id=3, producer_epoch=1)
    assert len(marker) == 78
    assert marker[BATCH_HEADER_SIZE:] == bytes.fromhex(expected)
    header = only_header(marker)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (3, 1, -1)


@pytest.mark.parametrize(
    ("magic", "expected"),
    [
        (
            V0,
            "000000000000000c0000001257e7496e0000000000026b31000000027631"
            "000000000000000f00000012ff0602490000000000026b32000000027632"
            "0000000000000013000000122e76396b0000000000026b33000000027633",
        ),
        (
            V1,
            "00000000000000000000001af717554101000000000000000064000000026b31000000027631"
            "00000000000000030000001a2577bdd60100000000000000012c000000026b32000000027632"
            "00000000000000070000001a0728f25d010000000000000000c8000000026b33000000027633",
        ),
    ],
)
def test_inner_offsets_are_absolute_in_v0_and_relative_in_v1(magic: int, expected: str) -> None:
    wrapper = build(SPARSE, magic=magic, codec=Codec.GZIP)
    assert compressed_part(wrapper) == bytes.fromhex(expected)
    header = only_header(wrapper)
    assert header.last_offset == 19
    assert header.max_timestamp == (-1 if magic == V0 else 300)


def as_batches(name: str) -> list[tuple[dict[str, Any], list[Record]]]:
    """A segment of the corpus as Kafka reads it: its batches, and their records."""
    found: list[tuple[dict[str, Any], list[Record]]] = []
    for line in corpus.records(name):
        if "batch" in line:
            found.append((line["batch"], []))
        else:
            found[-1][1].append(
                record(
                    line["offset"],
                    line["timestamp"],
                    unhex(line["key"]),
                    unhex(line["value"]),
                    *((key, unhex(value)) for key, value in line["headers"]),
                )
            )
    return found


def unhex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def rebuilt(batch: dict[str, Any], records: list[Record], kafkas: BatchHeader) -> bytes:
    options: dict[str, Any] = {"timestamp_type": TIMESTAMP_TYPES[batch["timestamp_type"]]}
    names = ("base_offset", "last_offset", "leader_epoch", "producer_id", "producer_epoch")
    if batch["magic"] == V2:
        options |= {name: batch[name] for name in (*names, "base_sequence", "transactional")}
        options["control"] = batch["control"]
    if not records:
        return build_empty(**options, max_timestamp=batch["max_timestamp"])
    if batch["magic"] == V2:
        base = "delete_horizon" if kafkas.has_delete_horizon else "base_timestamp"
        options[base] = kafkas.base_timestamp  # of a record that compaction may have taken
    if batch["timestamp_type"] == "LogAppendTime":
        options["append_time"] = batch["max_timestamp"]
    return build(records, magic=batch["magic"], codec=Codec[batch["codec"].upper()], **options)


@pytest.mark.parametrize("kind", corpus.kinds())
def test_every_batch_of_kafka_can_be_rebuilt(kind: str) -> None:
    """Byte for byte, but for compressed data, and for v2 under LogAppendTime, where the producer's
    timestamps are still in Kafka's bytes but no reader sees them."""
    for name in corpus.of_kind(kind):
        check_rebuilt(name)


def check_rebuilt(name: str) -> None:
    segment = corpus.segment(name)
    for batch, records in as_batches(name):
        kafkas = segment[batch["position"] : batch["position"] + batch["size"]]
        ours = rebuilt(batch, records, only_header(kafkas))
        unseen = batch["magic"] == V2 and batch["timestamp_type"] == "LogAppendTime"
        if batch["codec"] == "none" and not unseen:
            assert ours == kafkas
        elif not unseen:
            assert compressed_part(ours) == compressed_part(kafkas)
        assert list(read(MemoryRecords(ours))) == list(read(MemoryRecords(kafkas)))
        assert fields_of(ours) == fields_of(kafkas)


def fields_of(entry: bytes) -> dict[str, Any]:
    """The fields of a header, without those that depend on compressed bytes or on unseen
    timestamps."""
    fields = only_header(entry)._asdict()
    return fields | dict.fromkeys(("position", "size", "crc", "base_timestamp"), 0)


# --- options


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_under_log_append_time_every_message_of_v1_has_it(codec: Codec) -> None:
    entries = build(SPARSE, magic=V1, codec=codec, timestamp_type=LOG_APPEND, append_time=777)
    messages = compressed_part(entries) if codec else entries
    assert [(h.timestamp_type, h.max_timestamp) for h in MemoryRecords(messages).batches()] == [
        (LOG_APPEND, 777)
    ] * 3
    assert {(r.timestamp_type, r.timestamp) for r in read(MemoryRecords(entries))} == {
        (LOG_APPEND, 777)
    }


def test_before_0_11_compressed_messages_kept_the_producers_timestamps_inside() -> None:
    wrapper = build(
        SPARSE,
        magic=V1,
        codec=Codec.GZIP,
        timestamp_type=LOG_APPEND,
        append_time=777,
        append_time_inside=False,
    )
    inner = MemoryRecords(compressed_part(wrapper)).batches()
    assert [(h.timestamp_type, h.max_timestamp) for h in inner] == [
        (CREATE, 100), (CREATE, 300), (CREATE, 200),
    ]  # fmt: skip
    assert {r.timestamp for r in read(MemoryRecords(wrapper))} == {777}


def test_the_append_time_is_the_latest_timestamp_unless_it_is_given() -> None:
    for magic in (V1, V2):
        entries = build(SPARSE, magic=magic, codec=Codec.GZIP, timestamp_type=LOG_APPEND)
        assert only_header(entries).max_timestamp == 300


def test_the_producers_timestamps_stay_in_a_v2_batch_under_log_append_time() -> None:
    batch = build(SPARSE, magic=V2, timestamp_type=LOG_APPEND, append_time=777)
    create = build(SPARSE, magic=V2)
    assert batch[BATCH_HEADER_SIZE:] == create[BATCH_HEADER_SIZE:]
    assert {r.timestamp for r in read(MemoryRecords(batch))} == {777}


def test_compaction_keeps_the_offsets_that_a_batch_had() -> None:
    batch = build(SPARSE, magic=V2, base_offset=10, last_offset=25, base_sequence=100)
    header = only_header(batch)
    assert (header.base_offset, header.last_offset, header.records_count) == (10, 25, 3)
    assert [(r.offset, r.sequence) for r in read(MemoryRecords(batch))] == [
        (12, 102), (15, 105), (19, 109),
    ]  # fmt: skip


def test_timestamps_count_from_the_base_timestamp_and_read_the_same() -> None:
    batch = build(SPARSE, magic=V2, base_timestamp=250)
    assert only_header(batch).base_timestamp == 250
    assert [r.timestamp for r in read(MemoryRecords(batch))] == [100, 300, 200]


def test_a_compressed_v1_message_may_count_from_an_earlier_offset() -> None:
    wrapper = build(SPARSE, magic=V1, codec=Codec.GZIP, base_offset=10)
    inner = MemoryRecords(compressed_part(wrapper)).batches()
    assert [header.base_offset for header in inner] == [2, 5, 9]
    assert [r.offset for r in read(MemoryRecords(wrapper))] == [12, 15, 19]


def test_an_empty_batch_is_a_header_that_keeps_the_producer() -> None:
    batch = build_empty(
        base_offset=5, last_offset=9, max_timestamp=12, producer_id=1, producer_epoch=2,
        base_sequence=3, transactional=True, leader_epoch=4,
    )  # fmt: skip
    assert len(batch) == BATCH_HEADER_SIZE
    header = only_header(batch)
    assert (header.base_offset, header.last_offset, header.records_count) == (5, 9, 0)
    assert (header.base_timestamp, header.max_timestamp) == (-1, 12)
    assert (header.producer_id, header.base_sequence, header.last_sequence) == (1, 3, 7)
    assert list(read(MemoryRecords(batch))) == []


def test_the_compression_level_changes_bytes_and_nothing_else() -> None:
    records = [record(n, n, b"key-%d" % (n % 7), b"value " * n) for n in range(100)]
    fast = build(records, magic=V2, codec=Codec.GZIP, compression_level="fast")
    small = build(records, magic=V2, codec=Codec.GZIP, compression_level="kafka")
    assert len(small) < len(fast)
    assert gzip.decompress(small[BATCH_HEADER_SIZE:]) == gzip.decompress(fast[BATCH_HEADER_SIZE:])


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"producer_id": 1}, "have no producers"),
        ({"transactional": True}, "have no producers, transactions"),
        ({"control": True}, "control records"),
        ({"delete_horizon": 5}, "horizon"),
        ({"base_timestamp": 5}, "base timestamp"),
        ({"last_offset": 50}, "have no last offset"),
        ({"leader_epoch": 0}, "leader epoch"),
        ({"codec": Codec.ZSTD}, "not supported for magic 1"),
        ({"magic": V0, "timestamp_type": LOG_APPEND}, "v0 has no timestamps"),
    ],
)
def test_features_that_a_format_lacks_are_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        build(SPARSE, **({"magic": V1} | options))


def test_a_batch_without_records_is_refused() -> None:
    with pytest.raises(ValueError, match="no records"):
        build([], magic=V2)


def test_only_abort_and_commit_end_a_transaction() -> None:
    with pytest.raises(ValueError, match="end a transaction"):
        build_marker(ControlRecordType.LEADER_CHANGE, offset=0, timestamp=0, producer_id=1)


# --- other people's readers


@pytest.mark.parametrize("reader", OTHER_READERS, ids=attrgetter("name"))
@given(data=st.data())
def test_other_readers_read_built_batches(reader: OtherReader, data: st.DataObject) -> None:
    magic = data.draw(st.sampled_from([V2, V1, V0]))
    codecs = reader.codecs_of(magic)
    batch = data.draw(placed(batches((magic,), codecs, headers=UTF8_HEADERS)))
    assert reader.read(batch.data) == list(map(as_others_tell, batch.records))


# --- columns


@given(record_lists(SMALL_CONTENTS), st.sampled_from([V0, V1, V2]))
def test_columns_are_built_as_records_are(records: list[Record], magic: int) -> None:
    columns = Columns(
        [r.offset for r in records],
        [r.timestamp for r in records],
        [r.key for r in records],
        [r.value for r in records],
        [r.headers for r in records],
    )
    assert build(columns, magic=magic) == build(records, magic=magic)


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="same length"):
        Columns([0, 1], [0, 1], [None, None], [b"only one"])
    with pytest.raises(ValueError, match="same length"):
        Columns([0, 1], [0, 1], [None, None], [None, None], [()])


def test_a_range_can_be_the_column_of_offsets() -> None:
    columns = Columns(range(5), [7] * 5, [None] * 5, [b"v"] * 5)
    assert [r.offset for r in read(MemoryRecords(build(columns, magic=V2)))] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("inside", [True, False])
def test_messages_of_their_own_have_the_time_of_the_append(inside: bool) -> None:
    """Only those in a compressed message may have kept the producer's."""
    made = [Record(n, 10 + n, value=b"v") for n in range(3)]
    for codec in (Codec.NONE, Codec.GZIP):
        data = build(
            made,
            magic=1,
            codec=codec,
            timestamp_type=TimestampType.LOG_APPEND,
            append_time=99,
            append_time_inside=inside,
        )
        log = MemoryRecords(data)
        assert {one.timestamp for one in read(log)} == {99}
        assert all(h.timestamp_type is TimestampType.LOG_APPEND for h in log.batches())
    messages = decompress(Codec.GZIP, data[MESSAGE_OVERHEAD[V1] :], limit=1000, magic=1)
    assert messages is not None
    times = [header.max_timestamp for header in MemoryRecords(messages).batches()]
    assert times == ([99] * 3 if inside else [10, 11, 12])


@pytest.mark.parametrize("magic", [1, 2])
def test_a_time_of_the_append_counts_only_for_records_that_have_it(magic: int) -> None:
    made = [Record(n, time, value=b"v") for n, time in enumerate((30, 50, 40))]
    log = MemoryRecords(build(made, magic=magic, codec=Codec.GZIP, append_time=99))
    assert next(log.batches()).max_timestamp == 50
    assert [one.timestamp for one in read(log)] == [30, 50, 40]
